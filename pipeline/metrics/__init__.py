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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A public name. Their list is loaded when one is first asked for: whoever imports a module of the core loads no other."""
    import pipeline.metrics.public as public

    if name == "__all__":
        return __dir__()
    if name.startswith("_") or name not in vars(public):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    import pipeline.metrics.public as public

    return sorted(name for name in vars(public) if not name.startswith("_"))
