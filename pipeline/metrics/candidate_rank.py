"""The rank of the true candidate as evidence: what an attacker may conclude from "this is rank k", in LLR.

See pipeline/metrics/README.md, section 14b.

"The candidate at rank k is the speaker" against "a random other candidate stands there": with the share gamma_k of
trials whose true candidate has rank k, the others hold that rank with probability (1 - gamma_k)/(N - 1) each.

Conventions: LLRs are natural logarithms; rank 1 is the most similar; lower is more private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from pipeline.metrics._checks import Array, MetricError, vector
from pipeline.metrics._result import quantity
from pipeline.metrics.srd import rank_histogram, true_ranks

RATES = (0.0, 1.0)


@dataclass(frozen=True)
class RankLlr:
    """What the rank of a candidate says; a limit that cannot be given is None, with its reason in ``reason``."""

    n_candidates: int = quantity("count", "candidates, N")
    n_trials: int = quantity("count", "trials")
    gamma: Array = quantity("fraction", "[N] share of trials whose true candidate has rank k", bounds=RATES)
    llr: Array = quantity("nat", "[N] LLR of each rank from the shares as they are; infinite for a share of 0 or 1")
    llr_laplace: Array = quantity("nat", "[N] LLR of each rank by Laplace's rule, finite")
    rank_one: float = quantity("nat", "LLR of rank 1 by Laplace's rule: named in advance", "lower")
    rank_one_low: float | None = quantity("nat", "lower 95 % limit of the LLR of rank 1 (Clopper-Pearson)")
    rank_one_high: float | None = quantity("nat", "upper 95 % limit of the LLR of rank 1 (Clopper-Pearson)")
    rank_one_share_low: float | None = quantity("fraction", "lower 95 % limit of the share of rank 1", bounds=RATES)
    rank_one_share_high: float | None = quantity("fraction", "upper 95 % limit of the share of rank 1", bounds=RATES)
    eps_plus: float = quantity("nat", "largest LLR of a rank, by Laplace's rule: evidence for a candidate", "lower")
    eps_minus: float = quantity("nat", "minus the smallest LLR of a rank: evidence that excludes a candidate", "lower")
    ceiling: float = quantity("nat", "the largest LLR that so many trials can show, ln(n + 1)")
    floor: float = quantity("nat", "the smallest LLR that so many trials can show")
    top_rank: int = quantity("count", "the rank with the largest share (found by looking)")
    top_low: float | None = quantity(
        "nat", "lower limit of its LLR: Clopper-Pearson with the level shared among N ranks"
    )
    reason: str = quantity("", "why limits are missing, or empty")


def llr_of_share(gamma: npt.ArrayLike, n_candidates: int) -> Array:
    """LLR (nat) [k] of ranks that hold the true candidate with probability ``gamma`` [k]: logit(gamma) - logit(1/N).

    Raises:
        MetricError: a share outside 0 to 1, or fewer than two candidates.
    """
    g = vector(gamma, "shares")
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
        >>> found.gamma.tolist(), round(found.rank_one, 3), round(found.ceiling, 3)
        ([0.75, 0.25, 0.0], 0.981, 1.609)
    """
    ranks = true_ranks(scores, np.asarray(truth, dtype=np.int64))
    n, n_candidates = ranks.best.size, np.asarray(scores).shape[1]
    gamma = rank_histogram(ranks, n_candidates, ties=ties, weights=weights)
    laplace = llr_of_share((gamma * n + 1) / (n + n_candidates), n_candidates)
    top = int(np.argmax(gamma >= gamma.max() - 1e-12))
    count, reason = gamma * n, ""
    shares: list[float | None] = [None, None]
    limits: list[float | None] = [None, None, None]
    if weights is not None:
        reason = "limits count trials, and these have weights"
    else:
        reasons = []
        if _whole(count[0]):
            shares = list(clopper_pearson(round(count[0]), n, 0.05))
            limits[:2] = [float(llr_of_share([share], n_candidates)[0]) for share in shares if share is not None]
        else:
            reasons.append("rank 1")
        if _whole(count[top]):
            low = clopper_pearson(round(count[top]), n, 0.05 / n_candidates)[0]
            limits[2] = float(llr_of_share([low], n_candidates)[0])
        else:
            reasons.append("the most frequent rank")
        if reasons:
            reason = f"ties leave no whole number of trials at {' and '.join(reasons)}"
    return RankLlr(
        n_candidates=n_candidates,
        n_trials=n,
        gamma=gamma,
        llr=llr_of_share(np.minimum(gamma, 1.0), n_candidates),
        llr_laplace=laplace,
        rank_one=float(laplace[0]),
        rank_one_low=limits[0],
        rank_one_high=limits[1],
        rank_one_share_low=shares[0],
        rank_one_share_high=shares[1],
        eps_plus=float(laplace.max()),
        eps_minus=-float(laplace.min()),
        ceiling=math.log(n + 1),
        floor=-math.log((n + n_candidates - 1) / (n_candidates - 1)),
        top_rank=top + 1,
        top_low=limits[2],
        reason=reason,
    )


def clopper_pearson(count: int, total: int, alpha: float) -> tuple[float, float]:
    """Exact two-sided limits of a share at level 1 - alpha, ``count`` of ``total`` independent trials."""
    low = float(betaincinv(count, total - count + 1, alpha / 2)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - alpha / 2)) if count < total else 1.0
    return low, high


def _whole(count: float) -> bool:
    return bool(abs(count - round(count)) < 1e-9)
