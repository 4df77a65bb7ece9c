"""Metrics of voice privacy: pure functions on numpy arrays (numpy and scipy alone, no files).

Conventions: a higher score means "same speaker" (negate distances). LLRs are natural logarithms, ``l_w`` is log10;
Cllr, ECE, D_ECE and SRD disclosures are bits; EER, DeID, IdR and rank spread are fractions; G_VD and the other gains
are dB. Speakers are integer codes from 0. What cannot be measured raises MetricError; what has no value on sound
input is None with a reason in a result, or raises Undefined.

From scores to a number with its interval:

>>> import numpy as np
>>> from pipeline import metrics
>>> random = np.random.default_rng(0)
>>> enrolled = np.repeat(np.arange(8), 80)  # 8 enrolled speakers, each against 80 utterances,
>>> spoken = np.tile(np.repeat(np.arange(8), 10), 8)  # 10 of each of the 8
>>> scores = random.normal(size=640) + 1.5 * (enrolled == spoken)
>>> trials = metrics.Trials(scores, enrolled, spoken)
>>> found = metrics.trial_metrics(scores[trials.is_target], scores[~trials.is_target])
>>> round(found.eer["rocch"], 3), round(found.d_ece, 3), found.tag
(0.209, 0.329, 'B')
>>> interval = metrics.intervals(metrics.trials_by_speaker(trials))["eer.rocch"]
>>> round(interval.low, 3), round(interval.high, 3)
(0.159, 0.276)
"""

from pipeline.metrics._checks import MetricError, Undefined
from pipeline.metrics._result import describe
from pipeline.metrics.alarms import TprEvidence, tpr_by_speaker, tpr_evidence
from pipeline.metrics.attribute import (
    AttributePart,
    Stranger,
    attribute_part,
    class_scores,
    stranger,
    stranger_slope,
    stranger_slopes,
)
from pipeline.metrics.calibration import (
    CEce,
    Isotonic,
    Linear,
    c_ece,
    isotonic_calibration,
    linear_calibration,
)
from pipeline.metrics.candidate_rank import RankLlr, llr_of_share, rank_llr
from pipeline.metrics.cece_uncertainty import c_ece_by_speaker
from pipeline.metrics.cllr import cllr, cllr_cal, cllr_min
from pipeline.metrics.conversation import (
    LengthCurve,
    Lengths,
    conversations,
    length_by_speaker,
    length_curve,
    length_slopes,
    pooled_trials,
)
from pipeline.metrics.detection import TprAtFpr, eer, tpr_at_fpr
from pipeline.metrics.ece import D_ECE_MAX, EceProfile, d_ece, d_ece_oracle, ece, ece_profile, prior_entropy, z_function
from pipeline.metrics.evidence import WorstEvidence, worst_evidence
from pipeline.metrics.fusion import Fusion, equal_fusion, logistic_fusion
from pipeline.metrics.lid import (
    Lid,
    LidChance,
    Slope,
    SpeakerSlopes,
    chance_exceedance,
    exceedance,
    lid,
    lid_ceiling,
    lid_of_llr,
    loso_slopes,
    published_slope,
    row_z,
    softmax_slope,
)
from pipeline.metrics.lid_uncertainty import lid_by_identity, lid_by_speaker
from pipeline.metrics.linkability import d_sys, pi_link, pi_sing
from pipeline.metrics.linkage import Linkage, linkage, linkage_by_speaker, p0p1_ratio
from pipeline.metrics.normalised import (
    Normalised,
    cllr_min_op_oo,
    d_ece_op_oo,
    g_cllr_min,
    g_d_ece,
    normalised,
)
from pipeline.metrics.order import ClassOrder, area, class_order, rank_order
from pipeline.metrics.pav import Calibration, calibrate, oracle_llr
from pipeline.metrics.population import PiLinkCurve, pi_link_by_speaker, pi_link_curve, pi_sing_chance
from pipeline.metrics.speakers import EachSpeaker, Overlap, each_speaker, list_length, overlap
from pipeline.metrics.srd import (
    BetaBinomial,
    Disclosure,
    Ranks,
    Srd,
    disclosure,
    equal_speaker_weights,
    fit_beta_binomial,
    rank_histogram,
    srd,
    true_ranks,
    true_references,
)
from pipeline.metrics.srd_uncertainty import srd_by_identity, srd_by_speaker
from pipeline.metrics.strongest import (
    Attacks,
    LeftOut,
    Strongest,
    attacks_of,
    left_out,
    mean_of,
    null_draws,
    null_of_maximum,
    simultaneous,
    strongest,
)
from pipeline.metrics.swaps import Difference, difference, holm, shared_ranks
from pipeline.metrics.trial_uncertainty import (
    Paired,
    normalised_by_speaker,
    paired_tests,
    trials_by_identity,
    trials_by_speaker,
)
from pipeline.metrics.trials import TrialMetrics, Trials, trial_metrics
from pipeline.metrics.uncertainty import (
    ByIdentity,
    BySpeaker,
    Interval,
    NullBand,
    intervals,
    null_bands,
    zero_error_limit,
)
from pipeline.metrics.vsm import (
    SimilarityMatrix,
    SpeakerRow,
    VsmMetrics,
    d_diag,
    deid,
    g_vd,
    signed_dominance,
    similarity_matrix,
    vsm_metrics,
    worst_speakers,
)
from pipeline.metrics.vsm_uncertainty import vsm_by_speaker
from pipeline.metrics.zebra import Zebra, l_w_ceiling, tag, zebra
from pipeline.metrics.zoo import Zoo, zoo

__all__ = [
    "D_ECE_MAX",
    "Attacks",
    "AttributePart",
    "BetaBinomial",
    "ByIdentity",
    "BySpeaker",
    "CEce",
    "Calibration",
    "ClassOrder",
    "Difference",
    "Disclosure",
    "EachSpeaker",
    "EceProfile",
    "Fusion",
    "Interval",
    "Isotonic",
    "LeftOut",
    "LengthCurve",
    "Lengths",
    "Lid",
    "LidChance",
    "Linear",
    "Linkage",
    "MetricError",
    "Normalised",
    "NullBand",
    "Overlap",
    "Paired",
    "PiLinkCurve",
    "RankLlr",
    "Ranks",
    "SimilarityMatrix",
    "Slope",
    "SpeakerRow",
    "SpeakerSlopes",
    "Srd",
    "Stranger",
    "Strongest",
    "TprAtFpr",
    "TprEvidence",
    "TrialMetrics",
    "Trials",
    "Undefined",
    "VsmMetrics",
    "WorstEvidence",
    "Zebra",
    "Zoo",
    "area",
    "attacks_of",
    "attribute_part",
    "c_ece",
    "c_ece_by_speaker",
    "calibrate",
    "chance_exceedance",
    "class_order",
    "class_scores",
    "cllr",
    "cllr_cal",
    "cllr_min",
    "cllr_min_op_oo",
    "conversations",
    "d_diag",
    "d_ece",
    "d_ece_op_oo",
    "d_ece_oracle",
    "d_sys",
    "deid",
    "describe",
    "difference",
    "disclosure",
    "each_speaker",
    "ece",
    "ece_profile",
    "eer",
    "equal_fusion",
    "equal_speaker_weights",
    "exceedance",
    "fit_beta_binomial",
    "g_cllr_min",
    "g_d_ece",
    "g_vd",
    "holm",
    "intervals",
    "isotonic_calibration",
    "l_w_ceiling",
    "left_out",
    "length_by_speaker",
    "length_curve",
    "length_slopes",
    "lid",
    "lid_by_identity",
    "lid_by_speaker",
    "lid_ceiling",
    "lid_of_llr",
    "linear_calibration",
    "linkage",
    "linkage_by_speaker",
    "list_length",
    "llr_of_share",
    "logistic_fusion",
    "loso_slopes",
    "mean_of",
    "normalised",
    "normalised_by_speaker",
    "null_bands",
    "null_draws",
    "null_of_maximum",
    "oracle_llr",
    "overlap",
    "p0p1_ratio",
    "paired_tests",
    "pi_link",
    "pi_link_by_speaker",
    "pi_link_curve",
    "pi_sing",
    "pi_sing_chance",
    "pooled_trials",
    "prior_entropy",
    "published_slope",
    "rank_histogram",
    "rank_llr",
    "rank_order",
    "row_z",
    "shared_ranks",
    "signed_dominance",
    "similarity_matrix",
    "simultaneous",
    "softmax_slope",
    "srd",
    "srd_by_identity",
    "srd_by_speaker",
    "stranger",
    "stranger_slope",
    "stranger_slopes",
    "strongest",
    "tag",
    "tpr_at_fpr",
    "tpr_by_speaker",
    "tpr_evidence",
    "trial_metrics",
    "trials_by_identity",
    "trials_by_speaker",
    "true_ranks",
    "true_references",
    "vsm_by_speaker",
    "vsm_metrics",
    "worst_evidence",
    "worst_speakers",
    "z_function",
    "zebra",
    "zero_error_limit",
    "zoo",
]
