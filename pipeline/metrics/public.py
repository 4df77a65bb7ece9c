"""The public names of the metric core, each from the module where it is defined.

Conventions: as of :mod:`pipeline.metrics`, which hands them out.
"""

# ruff: noqa: F401, I001
# fmt: off

from pipeline.metrics._base import MetricError, Undefined, describe, flatten
from pipeline.metrics.attribute import AttributePart, Stranger, attribute_part, class_scores, stranger, stranger_slope
from pipeline.metrics.attribute import stranger_slopes
from pipeline.metrics.calibration import CEce, Isotonic, Linear, c_ece, c_ece_by_speaker, isotonic_calibration
from pipeline.metrics.calibration import linear_calibration
from pipeline.metrics.conversation import LengthCurve, Lengths, conversations, length_by_speaker, length_curve
from pipeline.metrics.conversation import length_slopes, pooled_trials
from pipeline.metrics.detection import TprAtFpr, eer, tpr_at_fpr
from pipeline.metrics.evidence import RankLlr, TprEvidence, WorstEvidence, llr_of_share, rank_llr, tpr_by_speaker
from pipeline.metrics.evidence import tpr_evidence, worst_evidence
from pipeline.metrics.fusion import Fusion, equal_fusion, logistic_fusion
from pipeline.metrics.gains import Normalised, cllr_min_op_oo, d_ece_op_oo, g_cllr_min, g_d_ece, normalised
from pipeline.metrics.information import D_ECE_MAX, EceProfile, Zebra, cllr, cllr_cal, cllr_min, d_ece, d_ece_oracle, ece
from pipeline.metrics.information import ece_profile, l_w_ceiling, prior_entropy, tag, z_function, zebra
from pipeline.metrics.linkability import PiLinkCurve, d_sys, pi_link, pi_link_by_speaker, pi_link_curve
from pipeline.metrics.linkability import pi_sing, pi_sing_chance
from pipeline.metrics.local_disclosure import Lid, LidChance, Slope, SpeakerSlopes, exceedance, lid, lid_ceiling
from pipeline.metrics.local_disclosure import lid_of_llr, loso_slopes, published_slope, row_z, softmax_slope
from pipeline.metrics.local_disclosure_uncertainty import lid_by_identity, lid_by_speaker
from pipeline.metrics.maximum import Attacks, LeaveOneOut, average_attacks, collect_attacks, leave_each_out
from pipeline.metrics.maximum import maximum_interval, null_draws, null_of_maximum, simultaneous_interval
from pipeline.metrics.order import ClassOrder, area, class_order, rank_order
from pipeline.metrics.pav import Calibration, calibrate, oracle_llr
from pipeline.metrics.phantoms import DetectionLimit, LeakCurve, PhantomTrials, align_scores, best_limit, detection_limit
from pipeline.metrics.phantoms import leak_curve
from pipeline.metrics.rank_disclosure import BetaBinomial, Disclosure, Ranks, Srd, disclosure, equal_speaker_weights
from pipeline.metrics.rank_disclosure import fit_beta_binomial, rank_histogram, srd, srd_by_identity, srd_by_speaker
from pipeline.metrics.rank_disclosure import true_ranks, true_references
from pipeline.metrics.speaker_disclosure import Overlap, SpeakerDisclosure, count_listed, measure_speakers, overlap
from pipeline.metrics.swaps import Difference, Paired, difference, paired_tests, shared_ranks
from pipeline.metrics.trial_uncertainty import normalised_by_speaker, trials_by_identity, trials_by_speaker
from pipeline.metrics.trials import TrialMetrics, Trials, trial_metrics
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker, Interval, NullBand, holm, intervals, null_bands
from pipeline.metrics.uncertainty import zero_error_limit
from pipeline.metrics.vsm import SimilarityMatrix, signed_dominance, similarity_matrix
from pipeline.metrics.vsm_measures import Linkage, SpeakerRow, VsmMetrics, Zoo, d_diag, deid, g_vd, linkage
from pipeline.metrics.vsm_measures import p0p1_ratio, vsm_metrics, zoo
from pipeline.metrics.vsm_uncertainty import linkage_by_speaker, vsm_by_speaker
