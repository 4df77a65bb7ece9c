"""On what evidence a true-positive rate at a low false-positive rate stands.

See pipeline/metrics/README.md, section 15.

Conventions: higher scores mean more similar; equal scores are accepted or refused together; rates are fractions, and
a lower true-positive rate is more private. Chance is the false-positive rate itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.metrics._checks import Array, Indices, MetricError
from pipeline.metrics._result import quantity
from pipeline.metrics.candidate_rank import clopper_pearson
from pipeline.metrics.detection import tpr_at_fpr
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import BySpeaker

RATES = (0.0, 1.0)
FEWEST_PAIRS = 10
"""Alarms from fewer pairs of speakers than this say little."""


@dataclass(frozen=True)
class TprEvidence:
    """True-positive rate at a false-positive rate, and what it stands on; without a value, ``reason`` says why."""

    fpr: float = quantity("fraction", "allowed false-positive rate", bounds=RATES)
    tpr: float | None = quantity("fraction", "share of targets accepted at that rate", "lower", bounds=RATES)
    log10_gain: float | None = quantity("log10", "log10(TPR/FPR), the attacker's gain; None for a TPR of 0", "lower")
    achieved_fpr: float | None = quantity("fraction", "false-positive rate at the threshold", bounds=RATES)
    allowed: int = quantity("count", "non-targets that may be accepted at that rate")
    alarms: int | None = quantity("count", "non-targets that are accepted")
    accepted: int | None = quantity("count", "targets that are accepted")
    alarm_pairs: int | None = quantity("count", "pairs of enrolled and speaking person among the alarms")
    tpr_low: float | None = quantity(
        "fraction", "lower 95 % limit, trials taken as independent: too narrow", bounds=RATES
    )
    tpr_high: float | None = quantity("fraction", "upper 95 % limit, trials taken as independent", bounds=RATES)
    few: bool = quantity("", "fewer than 10 false alarms are allowed: the value is coarse")
    few_pairs: bool = quantity("", "the alarms come from fewer than 10 pairs of speakers")
    reason: str = quantity("", "why there is no value, or empty")


def tpr_evidence(trials: Trials, fpr: float) -> TprEvidence:
    """TPR at an allowed FPR with the counts behind it.

    The interval to report is the percentile bootstrap over speakers
    (``intervals(trials_by_speaker(trials, ["tpr_at_fpr.0.01"]), method="percentile", ...)``); the limits here take
    trials as independent.

    Args:
        trials: scores with the speakers of both sides.
        fpr: allowed share of non-targets, above 0 and below 1.

    Raises:
        MetricError: an empty class, ``fpr`` outside (0, 1).

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import Trials, tpr_evidence
        >>> random = np.random.default_rng(0)
        >>> enrolled, spoken = np.repeat(np.arange(8), 80), np.tile(np.repeat(np.arange(8), 10), 8)
        >>> trials = Trials(random.normal(size=640) + 1.5 * (enrolled == spoken), enrolled, spoken)
        >>> found = tpr_evidence(trials, 0.01)
        >>> found.allowed, found.alarm_pairs, found.tpr, found.few
        (5, 4, 0.275, True)
        >>> tpr_evidence(trials, 0.001).reason
        '560 non-target scores cannot show a false-positive rate of 0.001'
    """
    target = np.sort(trials.scores[trials.is_target])
    other = ~trials.is_target
    nontarget = np.sort(trials.scores[other])
    found = tpr_at_fpr(target, nontarget, fpr)
    if found.tpr is None:
        return TprEvidence(
            fpr=fpr,
            tpr=None,
            log10_gain=None,
            achieved_fpr=None,
            allowed=found.false_alarms,
            alarms=None,
            accepted=None,
            alarm_pairs=None,
            tpr_low=None,
            tpr_high=None,
            few=True,
            few_pairs=True,
            reason=found.reason,
        )
    refused = nontarget[-1 - found.false_alarms]
    passes = other & (trials.scores > refused)
    alarms, accepted = int(passes.sum()), int((target > refused).sum())
    pairs = np.unique(np.stack((trials.enrolled[passes], trials.spoken[passes])), axis=1).shape[1]
    low, high = clopper_pearson(accepted, target.size, 0.05)
    return TprEvidence(
        fpr=fpr,
        tpr=found.tpr,
        log10_gain=math.log10(found.tpr / fpr) if accepted else None,
        achieved_fpr=alarms / nontarget.size,
        allowed=found.false_alarms,
        alarms=alarms,
        accepted=accepted,
        alarm_pairs=pairs,
        tpr_low=low,
        tpr_high=high,
        few=found.few,
        few_pairs=pairs < FEWEST_PAIRS,
        reason="",
    )


def tpr_by_speaker(trials: Trials, fprs: Sequence[float]) -> BySpeaker:
    """``tpr_at_fpr.FPR`` as a function of whole speaker weights: the values of :func:`pipeline.metrics.trials_by_speaker`, which
    has more metrics and takes longer, for it orders all trials where the highest scores decide.

    Args:
        trials: scores with the speakers of both sides.
        fprs: allowed shares of non-targets.

    Raises:
        MetricError: ``fpr`` outside (0, 1).
    """
    if not all(0 < fpr < 1 for fpr in fprs):
        raise MetricError(f"fpr must lie between 0 and 1, not {list(fprs)}")
    names = [f"tpr_at_fpr.{fpr:g}" for fpr in fprs]
    top = _Top(trials, max(fprs, default=0.5))

    def evaluate(weights: Array) -> dict[str, float]:
        return dict(zip(names, top.rates(weights, fprs)))

    return BySpeaker(
        evaluate,
        trials.speakers,
        degrees=trials.models.size - 1,
        bounds=dict.fromkeys(names, RATES),
        rates=dict.fromkeys(names, RATES),
        n_rated=np.unique(trials.enrolled[trials.is_target]).size,
    )


class _Top:
    """The highest non-targets of a list, and its targets, both by descending score."""

    def __init__(self, trials: Trials, fpr: float) -> None:
        target = trials.is_target
        pairs = np.stack((trials.enrolled[~target], trials.spoken[~target]))
        order = np.argsort(-trials.scores[~target], kind="stable")
        self.pairs, self.counts = np.unique(pairs, axis=1, return_counts=True)
        # Ten times as many as are accepted, and more of a short list: draws give speakers other weights.
        self.part = min(order.size, 100 + 10 * math.ceil(fpr * order.size))
        self.all, self.scores = pairs[:, order], trials.scores[~target][order]
        falling = np.argsort(-trials.scores[target], kind="stable")
        self.speakers: Indices = trials.enrolled[target][falling]
        self.targets = -trials.scores[target][falling]
        """Ascending, with the sign changed."""

    def rates(self, weights: Array, fprs: Sequence[float]) -> list[float]:
        """TPR at each FPR, NaN where the weights leave too few non-targets.

        Raises:
            MetricError: a class has no weight.
        """
        total = float((weights[self.pairs[0]] * weights[self.pairs[1]] * self.counts).sum())
        accepted = np.cumsum(weights[self.speakers])
        if not (total > 0 and accepted[-1] > 0):
            raise MetricError("no target or no non-target is left")
        allowed = np.array([math.floor(fpr * total * (1 + 1e-12)) for fpr in fprs])
        for size in (self.part, self.scores.size):
            passed = np.cumsum(weights[self.all[0, :size]] * weights[self.all[1, :size]])
            if passed[-1] > allowed.max():
                break
        refused = self.scores[np.searchsorted(passed, allowed, side="right")]
        n = np.searchsorted(self.targets, -refused, side="left")
        found = np.where(n > 0, accepted[n - 1], 0.0) / accepted[-1]
        return [float(value) if alarms else math.nan for value, alarms in zip(found, allowed)]
