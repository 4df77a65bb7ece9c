"""The strongest evidence that scores give, and on how little it stands: of a trial, of a rank, of a low false-positive rate.

See pipeline/metrics/README.md, sections 7, 14b and 15.

Conventions: higher scores mean more similar, equal ones are accepted or refused together; LLRs are natural logarithms,
rates are fractions, rank 1 is the most similar; lower is more private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, MetricError, check_classes, check_vector, group, quantity
from pipeline.metrics.detection import tpr_at_fpr
from pipeline.metrics.pav import calibrate_rows, count_rows
from pipeline.metrics.rank_disclosure import rank_histogram, true_ranks
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import BySpeaker, clopper_pearson


@dataclass(frozen=True)
class ExtremeTrials:
    """On how few trials the strongest evidence stands."""

    top_targets: int = quantity("count", "targets above every non-target")
    top_target_speakers: int = quantity("count", "speakers of these targets")
    bottom_nontargets: int = quantity("count", "non-targets below every target")
    top_block: tuple[int, int] = quantity("count", "targets and non-targets in the highest block of PAV")
    top_low: float | None = quantity(
        "nat", "indicative lower limit of the LLR above every non-target, trials taken as independent"
    )


@dataclass(frozen=True)
class WorstEvidence:
    """Largest LLRs of an oracle calibration by Laplace's rule, with their counts and ceilings.

    With Laplace's rule the end blocks of PAV follow from counts alone: M targets above every non-target give
    ln((M + 1) N/T), whatever their scores. So the value is never given without its count.
    """

    eps_plus: float = quantity("nat", "largest LLR of a trial: evidence for the claim", "lower")
    eps_minus: float = quantity("nat", "minus the smallest LLR: evidence against the claim (exclusion)", "lower")
    eps: float = quantity("nat", "the larger of the sizes of both: l_w times ln 10", "lower")
    eps_targets: float = quantity("nat", "largest |LLR| among targets alone, as some tables print it", "lower")
    ceiling_plus: float = quantity("nat", "the largest LLR that so many trials can show")
    ceiling_minus: float = quantity("nat", "the largest evidence against a claim that so many trials can show")
    extremes: ExtremeTrials = group(ExtremeTrials)
    eps_reversed: float = quantity("nat", "largest |LLR| of the negated scores")
    reversed: bool = quantity("", "the negated scores show more: classes may be the wrong way round")
    reason: str = quantity("", "why there is no lower limit, or empty")


def worst_evidence(trials: Trials) -> WorstEvidence:
    """Strongest evidence for and against the claims of a trial list.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import Trials, worst_evidence
        >>> trials = Trials(np.array([3.0, 1.0, 2.0, 0.0, 0.5, 0.2]), np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 1, 0, 1, 0]))
        >>> found = worst_evidence(trials)
        >>> round(found.eps_plus, 3), round(found.ceiling_plus, 3), found.extremes.top_targets
        (1.386, 1.792, 1)
    """
    own = trials.is_target
    target, nontarget = check_classes(trials.scores[own], trials.scores[~own])
    t, n = np.sort(target), np.sort(nontarget)
    blocks = calibrate_rows(count_rows(t, n), laplace=True)
    high, low = float(blocks.llr[-1]), float(blocks.llr[0])
    target_sizes = np.abs(blocks.llr[blocks.target > 0])
    backwards = calibrate_rows(count_rows(-t[::-1], -n[::-1]), laplace=True)
    eps_targets = float(target_sizes.max())
    eps_reversed = float(np.abs(backwards.llr).max())
    above = own & (trials.scores > n[-1])
    n_above = int(above.sum())
    limit = None
    if n_above:
        limit = math.log(clopper_pearson(n_above, t.size, 0.05)[0] / clopper_pearson(0, n.size, 0.05)[1])
    return WorstEvidence(
        eps_plus=max(high, 0.0),
        eps_minus=max(-low, 0.0),
        eps=max(abs(high), abs(low)),
        eps_targets=eps_targets,
        ceiling_plus=math.log((t.size + 1) * n.size / t.size),
        ceiling_minus=math.log((n.size + 1) * t.size / n.size),
        extremes=ExtremeTrials(
            top_targets=n_above,
            top_target_speakers=np.unique(trials.spoken[above]).size,
            bottom_nontargets=int((n < t[0]).sum()),
            top_block=(int(blocks.target[-1]), int(blocks.nontarget[-1])),
            top_low=limit,
        ),
        eps_reversed=eps_reversed,
        reversed=eps_reversed > max(abs(high), abs(low)) + 1e-12,
        reason="" if n_above else "no target stands above every non-target",
    )


RATES = (0.0, 1.0)
FEWEST_PAIRS = 10
"""Alarms from fewer pairs of speakers than this say little."""


@dataclass(frozen=True)
class Alarms:
    """How many trials a true-positive rate at a low false-positive rate stands on."""

    allowed: int = quantity("count", "non-targets that may be accepted at that rate")
    alarms: int | None = quantity("count", "non-targets that are accepted")
    accepted: int | None = quantity("count", "targets that are accepted")
    alarm_pairs: int | None = quantity("count", "pairs of enrolled and speaking person among the alarms")


@dataclass(frozen=True)
class TprEvidence:
    """True-positive rate at a false-positive rate, and what it stands on; without a value, ``reason`` says why."""

    fpr: float = quantity("fraction", "allowed false-positive rate", bounds=RATES)
    tpr: float | None = quantity("fraction", "share of targets accepted at that rate", "lower", bounds=RATES)
    log10_gain: float | None = quantity("log10", "log10(TPR/FPR), the attacker's gain; None for a TPR of 0", "lower")
    achieved_fpr: float | None = quantity("fraction", "false-positive rate at the threshold", bounds=RATES)
    counts: Alarms = group(Alarms)
    tpr_low: float | None = quantity(
        "fraction", "lower 95 % limit, trials taken as independent: too narrow", bounds=RATES
    )
    tpr_high: float | None = quantity("fraction", "upper 95 % limit, trials taken as independent", bounds=RATES)
    few: bool = quantity("", "fewer than 10 false alarms are allowed: the value is coarse")
    few_pairs: bool = quantity("", "the alarms come from fewer than 10 pairs of speakers")
    reason: str = quantity("", "why there is no value, or empty")


def tpr_evidence(trials: Trials, fpr: float) -> TprEvidence:
    """TPR at an allowed FPR with the counts behind it; chance is the FPR itself.

    The limits take trials as independent. The interval to report is the percentile bootstrap over speakers
    (``intervals(trials_by_speaker(trials, ["tpr_at_fpr.0.01"]), method="percentile", ...)``).

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
        >>> found.counts.allowed, found.counts.alarm_pairs, found.tpr, found.few
        (5, 4, 0.275, True)
        >>> tpr_evidence(trials, 0.001).reason
        '560 non-target scores cannot show a false-positive rate of 0.001'
    """
    target = np.sort(trials.scores[trials.is_target])
    other = ~trials.is_target
    nontarget = np.sort(trials.scores[other])
    rate = tpr_at_fpr(target, nontarget, fpr)
    if rate.tpr is None:
        unknown = Alarms(rate.false_alarms, None, None, None)
        return TprEvidence(fpr, None, None, None, unknown, None, None, few=True, few_pairs=True, reason=rate.reason)
    refused = nontarget[-1 - rate.false_alarms]
    passes = other & (trials.scores > refused)
    alarms, accepted = int(passes.sum()), int((target > refused).sum())
    pairs = np.unique(np.stack((trials.enrolled[passes], trials.spoken[passes])), axis=1).shape[1]
    low, high = clopper_pearson(accepted, target.size, 0.05)
    return TprEvidence(
        fpr=fpr,
        tpr=rate.tpr,
        log10_gain=math.log10(rate.tpr / fpr) if accepted else None,
        achieved_fpr=alarms / nontarget.size,
        counts=Alarms(rate.false_alarms, alarms, accepted, pairs),
        tpr_low=low,
        tpr_high=high,
        few=rate.few,
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
        rates = np.where(n > 0, accepted[n - 1], 0.0) / accepted[-1]
        return [float(value) if alarms else math.nan for value, alarms in zip(rates, allowed)]


@dataclass(frozen=True)
class FirstRank:
    """The evidence of rank 1, which is named in advance, with its limits (Clopper-Pearson)."""

    rank_one: float = quantity("nat", "LLR of rank 1 by Laplace's rule: named in advance", "lower")
    rank_one_low: float | None = quantity("nat", "lower 95 % limit of the LLR of rank 1 (Clopper-Pearson)")
    rank_one_high: float | None = quantity("nat", "upper 95 % limit of the LLR of rank 1 (Clopper-Pearson)")
    rank_one_share_low: float | None = quantity("fraction", "lower 95 % limit of the share of rank 1", bounds=RATES)
    rank_one_share_high: float | None = quantity("fraction", "upper 95 % limit of the share of rank 1", bounds=RATES)


@dataclass(frozen=True)
class TopRank:
    """The rank that holds the true candidate most often."""

    top_rank: int = quantity("count", "the rank with the largest share (found by looking)")
    top_low: float | None = quantity(
        "nat", "lower limit of its LLR: Clopper-Pearson with the level shared among N ranks"
    )


@dataclass(frozen=True)
class RankLlr:
    """What the rank of a candidate says; a limit that cannot be given is None, with its reason in ``reason``.

    "The candidate at rank k is the speaker" against "a random other candidate stands there": with the share gamma_k of
    trials whose true candidate has rank k, the others hold that rank with probability (1 - gamma_k)/(N - 1) each.
    """

    n_candidates: int = quantity("count", "candidates, N")
    n_trials: int = quantity("count", "trials")
    gamma: Array = quantity("fraction", "[N] share of trials whose true candidate has rank k", bounds=RATES)
    llr: Array = quantity("nat", "[N] LLR of each rank from the shares as they are; infinite for a share of 0 or 1")
    llr_laplace: Array = quantity("nat", "[N] LLR of each rank by Laplace's rule, finite")
    first: FirstRank = group(FirstRank)
    eps_plus: float = quantity("nat", "largest LLR of a rank, by Laplace's rule: evidence for a candidate", "lower")
    eps_minus: float = quantity("nat", "minus the smallest LLR of a rank: evidence that excludes a candidate", "lower")
    ceiling: float = quantity("nat", "the largest LLR that so many trials can show, ln(n + 1)")
    floor: float = quantity("nat", "the smallest LLR that so many trials can show")
    top: TopRank = group(TopRank)
    reason: str = quantity("", "why limits are missing, or empty")


def llr_of_share(gamma: npt.ArrayLike, n_candidates: int) -> Array:
    """LLR (nat) [k] of ranks that hold the true candidate with probability ``gamma`` [k]: logit(gamma) - logit(1/N).

    Raises:
        MetricError: a share outside 0 to 1, or fewer than two candidates.
    """
    g = check_vector(gamma, "shares")
    if n_candidates < 2 or (g < 0).any() or (g > 1).any():
        raise MetricError(f"shares of ranks lie between 0 and 1, and ranks need two candidates, not {n_candidates}")
    with np.errstate(divide="ignore"):
        llr: Array = np.log(g) - np.log1p(-g) + math.log(n_candidates - 1)
    return llr


def rank_llr(
    scores: npt.ArrayLike, truth: npt.ArrayLike, *, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> RankLlr:
    """The evidence of each rank, with ceiling and floor from the number of trials, and limits.

    The limits take trials as independent, and are too narrow where a speaker's trials agree: the interval over
    speakers of IdR (:func:`pipeline.metrics.srd_by_speaker`, through :func:`llr_of_share`) and the null band decide.

    Args:
        scores: [n, N] score of each trial against each candidate; infinities are allowed.
        truth: [n] the true candidate of each trial.
        ties: ``spread`` a trial's mass evenly over the tied ranks, or give it to the ``best`` or ``worst``.
        weights: [n] weight of each trial; default all equal. Limits need counts, and have none under weights.

    Raises:
        MetricError: NaN, shapes that do not fit, no trial, fewer than two candidates, wrong weights.

    Example:
        >>> from pipeline.metrics import rank_llr
        >>> scores = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5], [0.1, 0.2, 0.8], [0.5, 0.4, 0.3]]
        >>> found = rank_llr(scores, [0, 1, 2, 0])
        >>> found.gamma.tolist(), round(found.first.rank_one, 3), round(found.ceiling, 3)
        ([0.75, 0.25, 0.0], 0.981, 1.609)
    """
    ranks = true_ranks(scores, np.asarray(truth, dtype=np.int64))
    n, n_candidates = ranks.best.size, np.asarray(scores).shape[1]
    gamma = rank_histogram(ranks, n_candidates, ties=ties, weights=weights)
    laplace = llr_of_share((gamma * n + 1) / (n + n_candidates), n_candidates)
    top = int(np.argmax(gamma >= gamma.max() - 1e-12))
    if weights is None:
        shares, limits, top_low, reason = _rank_limits(gamma * n, n, top)
    else:
        shares, limits, top_low = (None, None), (None, None), None
        reason = "limits count trials, and these have weights"
    return RankLlr(
        n_candidates=n_candidates,
        n_trials=n,
        gamma=gamma,
        llr=llr_of_share(np.minimum(gamma, 1.0), n_candidates),
        llr_laplace=laplace,
        first=FirstRank(float(laplace[0]), *limits, *shares),
        eps_plus=float(laplace.max()),
        eps_minus=-float(laplace.min()),
        ceiling=math.log(n + 1),
        floor=-math.log((n + n_candidates - 1) / (n_candidates - 1)),
        top=TopRank(top + 1, top_low),
        reason=reason,
    )


Limits = tuple[float | None, float | None]


def _rank_limits(counts: Array, n: int, top: int) -> tuple[Limits, Limits, float | None, str]:
    """Limits of the share and of the LLR of rank 1, the lower one of the LLR of rank ``top``, and why some are missing.

    Args:
        counts: [N] trials at each rank; not whole where ties are spread.
        n: trials.
    """
    n_candidates, missing, is_whole = counts.size, [], np.abs(counts - np.round(counts)) < 1e-9
    shares: Limits = (None, None)
    limits: Limits = (None, None)
    top_low = None
    if is_whole[0]:
        low, high = shares = clopper_pearson(round(counts[0]), n, 0.05)
        limits = float(llr_of_share([low], n_candidates)[0]), float(llr_of_share([high], n_candidates)[0])
    else:
        missing.append("rank 1")
    if is_whole[top]:
        low = clopper_pearson(round(counts[top]), n, 0.05 / n_candidates)[0]
        top_low = float(llr_of_share([low], n_candidates)[0])
    else:
        missing.append("the most frequent rank")
    reason = f"ties leave no whole number of trials at {' and '.join(missing)}" if missing else ""
    return shares, limits, top_low, reason
