"""Metrics of voice privacy: pure functions on numpy arrays (numpy and scipy alone, no files).

Units: LLRs are natural logarithms, ``l_w`` is log10; Cllr, ECE, D_ECE and SRD disclosures are bits; EER, DeID, IdR and
rank spread are fractions; G_VD and the other gains are dB. A higher score always means "same speaker".
"""

from pipeline.metrics._checks import MetricError, Undefined
from pipeline.metrics._result import describe
from pipeline.metrics.cllr import cllr, cllr_cal, cllr_min
from pipeline.metrics.detection import TprAtFpr, eer, tpr_at_fpr
from pipeline.metrics.ece import D_ECE_MAX, EceProfile, d_ece, d_ece_oracle, ece, ece_profile, prior_entropy, z_function
from pipeline.metrics.normalised import (
    Normalised,
    cllr_min_op_oo,
    d_ece_op_oo,
    g_cllr_min,
    g_d_ece,
    normalised,
)
from pipeline.metrics.pav import Calibration, calibrate, oracle_llr
from pipeline.metrics.srd import (
    BetaBinomial,
    Disclosure,
    Srd,
    disclosure,
    equal_speaker_weights,
    fit_beta_binomial,
    rank_histogram,
    srd,
    true_ranks,
    true_references,
)
from pipeline.metrics.trials import TrialMetrics, trial_metrics
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
from pipeline.metrics.zebra import Zebra, l_w_ceiling, tag, zebra
from pipeline.metrics.zoo import Zoo, zoo

__all__ = [
    "BetaBinomial",
    "Calibration",
    "D_ECE_MAX",
    "Disclosure",
    "EceProfile",
    "MetricError",
    "Normalised",
    "SimilarityMatrix",
    "SpeakerRow",
    "Srd",
    "TprAtFpr",
    "TrialMetrics",
    "Undefined",
    "VsmMetrics",
    "Zebra",
    "Zoo",
    "calibrate",
    "cllr",
    "cllr_cal",
    "cllr_min",
    "cllr_min_op_oo",
    "d_diag",
    "d_ece",
    "d_ece_op_oo",
    "d_ece_oracle",
    "deid",
    "describe",
    "disclosure",
    "ece",
    "ece_profile",
    "eer",
    "equal_speaker_weights",
    "fit_beta_binomial",
    "g_cllr_min",
    "g_d_ece",
    "g_vd",
    "l_w_ceiling",
    "normalised",
    "oracle_llr",
    "prior_entropy",
    "rank_histogram",
    "signed_dominance",
    "similarity_matrix",
    "srd",
    "tag",
    "tpr_at_fpr",
    "trial_metrics",
    "true_ranks",
    "true_references",
    "vsm_metrics",
    "worst_speakers",
    "z_function",
    "zebra",
    "zoo",
]
