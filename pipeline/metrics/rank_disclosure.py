"""Similarity rank disclosure (SRD): how far down the true speaker stands among N references (arXiv 2605.07291).

See pipeline/metrics/README.md, sections 3 and 13.

For intervals inputs are weighted by their speaker and the N references stay; for null bands the identities of the
references are permuted as wholes, so that inputs which share a pseudo-voice stay together.

Conventions: similarities are [inputs, references], higher means more similar (negate distances); rank 1 is the most
similar. MaxD and MeanD are bits, IdR and RS fractions; lower is more private, but for RS.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, logsumexp

from pipeline.metrics._base import Array, Indices, MetricError, check_choice, check_vector, list_some, quantity
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker

TIES = ("spread", "best", "worst")


@dataclass(frozen=True)
class Disclosure:
    """What a distribution over N ranks discloses."""

    max_d: float = quantity("bit", "largest log2(N gamma_k) over all ranks", "lower", bounds=(0.0, math.inf))
    mean_d: float = quantity(
        "bit", "mean disclosure, log2 N minus the entropy of the ranks", "lower", bounds=(0.0, math.inf)
    )
    idr: float = quantity("fraction", "identification rate, the share of rank 1", "lower", bounds=(0.0, 1.0))
    rank_spread: float = quantity(
        "fraction", "share of ranks with more than 1/N of the mass", "higher", bounds=(0.0, 1.0)
    )


@dataclass(frozen=True)
class BetaBinomial:
    """Beta-binomial law of rank - 1, fitted under gamma_1 = p_1; values that do not exist are None, with the reason."""

    alpha: float | None = quantity("", "first parameter; None where the fit is a limit")
    beta: float | None = quantity("", "second parameter; None where the fit is a limit")
    gamma: Array | None = quantity("fraction", "[N] probability of each rank under the fit")
    disclosure: Disclosure | None = quantity("", "MaxD, MeanD, IdR and RS of the fit")
    log_likelihood: float | None = quantity("nat", "log-likelihood per unit of weight, times the total weight")
    flag: str = quantity("label", "empty, degenerate (point mass), boundary (a limit of the family) or none (no fit)")
    reason: str = quantity("", "why a value is missing, or empty")


@dataclass(frozen=True)
class Srd:
    """Similarity rank disclosure of a set of inputs against N references."""

    n_references: int = quantity("count", "references, one a speaker")
    n_inputs: int = quantity("count", "inputs")
    histogram: Array = quantity("fraction", "[N] share of inputs whose true reference has rank k")
    empirical: Disclosure = quantity("", "MaxD, MeanD, IdR and RS of the histogram")
    beta_binomial: BetaBinomial = quantity("", "fit to the histogram")
    speaker_mean_rank: Array = quantity(
        "", "[N] mean rank of each reference's inputs; NaN for a reference without inputs"
    )


@dataclass(frozen=True)
class Ranks:
    """Rank of the true reference of each input: ties leave a range."""

    best: Indices
    """[n] 1 + number of references that are strictly more similar."""
    worst: Indices
    """[n] number of references at least as similar, the true one included."""


def true_references(input_speakers: Sequence[Hashable], reference_speakers: Sequence[Hashable]) -> Indices:
    """Index [n] of each input's true reference, of inputs' speakers [n] and references' speakers [N].

    Raises:
        MetricError: two references of one speaker, or an input whose speaker has none (named).
    """
    position = {speaker: k for k, speaker in enumerate(reference_speakers)}
    if len(position) < len(reference_speakers):
        twice = [str(speaker) for speaker, count in Counter(reference_speakers).items() if count > 1]
        raise MetricError(f"more than one reference for {list_some(twice)}")
    missing = [str(speaker) for speaker in dict.fromkeys(input_speakers) if speaker not in position]
    if missing:
        raise MetricError(f"no reference for {list_some(missing)}")
    return np.array([position[speaker] for speaker in input_speakers], dtype=np.int64)


def rank_all(similarity: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Best and worst rank [n, N] of every reference for every input; rank 1 is the most similar.

    Raises:
        MetricError: not a matrix, or NaN.
    """
    s = _similarities(similarity)
    n_references = s.shape[1]
    best = np.empty(s.shape, dtype=np.int32)
    worst = np.empty(s.shape, dtype=np.int32)
    order = np.argsort(-s, axis=1, kind="stable")
    ranked = np.take_along_axis(s, order, axis=1)
    place = np.arange(n_references, dtype=np.int32)
    begins = np.ones(s.shape, dtype=bool)
    begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    ends = np.ones(s.shape, dtype=bool)
    ends[:, :-1] = begins[:, 1:]
    first = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, place, n_references)[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(best, order, (first + 1).astype(np.int32), axis=1)
    np.put_along_axis(worst, order, (last + 1).astype(np.int32), axis=1)
    return best, worst


def true_ranks(similarity: npt.ArrayLike, truth: Indices) -> Ranks:
    """Rank of the true reference of each input.

    Args:
        similarity: [n, N] similarity of each input to each reference; higher means more similar (negate distances).
        truth: [n] index of each input's true reference.

    Raises:
        MetricError: NaN, or shapes that do not fit.
    """
    s = _similarities(similarity)
    if truth.shape != (s.shape[0],) or (truth.size and (truth.min() < 0 or truth.max() >= s.shape[1])):
        raise MetricError(f"true references of shape {truth.shape} do not fit similarities of shape {s.shape}")
    own = s[np.arange(s.shape[0]), truth][:, None]
    return Ranks((s > own).sum(axis=1) + 1, (s >= own).sum(axis=1))


def rank_histogram(
    ranks: Ranks, n_references: int, *, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> Array:
    """Share of inputs whose true reference has rank 1, ..., N.

    Args:
        ties: ``spread`` an input's mass evenly over the tied ranks, or give it to the ``best`` or ``worst`` of them.
        weights: [n] weight of each input; default all equal.

    Raises:
        MetricError: no input, or weights that are negative, NaN or sum to 0.
    """
    check_choice(ties, TIES, "ties")
    n = ranks.best.size
    if not n:
        raise MetricError("there is no input")
    w = np.ones(n) if weights is None else check_vector(weights, "weights")
    if w.size != n or (w < 0).any() or not w.sum() > 0:
        raise MetricError(f"{w.size} weights for {n} inputs must be 0 or more with a positive sum")
    if ties != "spread":
        rank = ranks.best if ties == "best" else ranks.worst
        at: Array = np.bincount(rank - 1, w, n_references) / w.sum()
        return at
    single = ranks.best == ranks.worst
    mass = np.bincount(ranks.best[single] - 1, w[single], n_references).astype(np.float64)
    # One slice for each distinct range of tied ranks: a running sum would leave rounding in empty ranks.
    span = (ranks.best[~single] - 1) * (n_references + 1) + ranks.worst[~single]
    spans, where = np.unique(span, return_inverse=True)
    for code, total in zip(spans, np.bincount(where, w[~single], spans.size)):
        low, high = divmod(int(code), n_references + 1)
        mass[low:high] += total / (high - low)
    spread: Array = mass / w.sum()
    return spread


def equal_speaker_weights(truth: Indices) -> Array:
    """Weight [n] of each input with which all speakers weigh equally; the sum is n."""
    counts = np.bincount(truth)
    weights: Array = truth.size / (np.count_nonzero(counts) * counts[truth])
    return weights


def disclosure(gamma: npt.ArrayLike) -> Disclosure:
    """MaxD, MeanD, IdR and RS of a distribution [N] over ranks (the sign of the paper's Eq. 1 is corrected).

    See pipeline/metrics/README.md, section 13.

    Raises:
        MetricError: NaN, negative, or not of sum 1.
    """
    g = check_vector(gamma, "rank distribution")
    n = g.size
    if n < 2 or (g < 0).any() or abs(g.sum() - 1) > 1e-9:
        raise MetricError("a rank distribution has at least two ranks, no negative share and sum 1")
    positive = g[g > 0]
    # Shares that are 1/N by construction carry rounding of the division.
    above = g * n > 1 + 1e-12
    return Disclosure(
        max_d=float(np.log2(n * g.max())) if g.max() * n > 1 + 1e-12 else 0.0,
        mean_d=max(float((positive * np.log2(n * positive)).sum()), 0.0),
        idr=float(g[0]),
        rank_spread=float(np.count_nonzero(above) / n),
    )


def srd(
    similarity: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    ties: str = "spread",
    weights: npt.ArrayLike | None = None,
) -> Srd:
    """Similarity rank disclosure.

    Args:
        similarity: [n, N] similarity of each input to each reference; higher means more similar (negate distances).
        truth: [n] index of each input's true reference (see :func:`true_references`).
        ties: ``spread``, ``best`` or ``worst``.
        weights: [n] weight of each input; default all equal (see :func:`equal_speaker_weights`).

    Raises:
        MetricError: NaN, shapes that do not fit, no input, fewer than two references.

    Example:
        >>> from pipeline.metrics import srd, true_references
        >>> similarity = [[0.9, 0.1, 0.0], [0.2, 0.3, 0.6], [0.1, 0.2, 0.7], [0.5, 0.4, 0.8]]
        >>> truth = true_references(["ann", "bob", "cid", "cid"], ["ann", "bob", "cid"])
        >>> found = srd(similarity, truth)
        >>> found.histogram.tolist()  # bob is second
        [0.75, 0.25, 0.0]
        >>> round(found.empirical.max_d, 4), round(found.empirical.mean_d, 4), found.empirical.idr
        (1.1699, 0.7737, 0.75)
    """
    s = _similarities(similarity)
    t = np.asarray(truth, dtype=np.int64)
    ranks = true_ranks(s, t)
    n, n_references = s.shape
    histogram = rank_histogram(ranks, n_references, ties=ties, weights=weights)
    rank = {"spread": (ranks.best + ranks.worst) / 2, "best": ranks.best, "worst": ranks.worst}[ties].astype(np.float64)
    counts = np.bincount(t, minlength=n_references)
    mean_rank = np.full(n_references, np.nan)
    mean_rank[counts > 0] = np.bincount(t, rank, n_references)[counts > 0] / counts[counts > 0]
    total = n if weights is None else float(np.asarray(weights, dtype=np.float64).sum())
    return Srd(
        n_references=n_references,
        n_inputs=n,
        histogram=histogram,
        empirical=disclosure(histogram),
        beta_binomial=fit_beta_binomial(histogram, total),
        speaker_mean_rank=mean_rank,
    )


def fit_beta_binomial(histogram: npt.ArrayLike, total: float = 1.0) -> BetaBinomial:
    """Maximum-likelihood beta-binomial for rank - 1 under the constraint gamma_1 = p_1.

    For each alpha, beta follows from the constraint; alpha is searched over 1e-6 to 1e6 from several points. Where the
    likelihood keeps rising to a limit of the family (alpha to infinity: binomial; alpha to 0: all mass on the first and
    last rank), the limit's values are given with the flag ``boundary``.

    Args:
        histogram: [N] share of each rank.
        total: total weight, a factor of the log-likelihood.

    Raises:
        MetricError: not a distribution over at least two ranks.
    """
    p = check_vector(histogram, "rank histogram")
    disclosure(p)
    if p[0] <= 0:
        return BetaBinomial(None, None, None, None, None, "none", "no input has rank 1: the fit has no anchor")
    if p[0] >= 1 - 1e-12:
        point = np.zeros(p.size)
        point[0] = 1.0
        reason = "all inputs have rank 1: the law is a point mass"
        return BetaBinomial(None, None, point, disclosure(point), 0.0, "degenerate", reason)

    family = _Constrained(p)
    grid = np.linspace(np.log(1e-6), np.log(1e6), 49)
    profile = np.array([family.log_likelihood(x) for x in grid])
    best_x, best = float(grid[profile.argmax()]), float(profile.max())
    peaks = (profile >= np.append(profile[1:], -np.inf)) & (profile >= np.append(-np.inf, profile[:-1]))
    for k in map(int, np.flatnonzero(peaks)):
        bounds = (grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)])
        peak = minimize_scalar(
            lambda x: -family.log_likelihood(x), bounds=bounds, method="bounded", options={"xatol": 1e-10}
        )
        if -peak.fun > best:
            best_x, best = float(peak.x), float(-peak.fun)

    two_points = np.full(p.size, -np.inf)
    two_points[0], two_points[-1] = np.log(p[0]), np.log1p(-p[0])
    limits = (
        (_binomial(p[0], p.size), "alpha and beta grow without bound: a binomial law"),
        (two_points, "alpha and beta vanish: only the first and last rank are left"),
    )
    for limit, name in limits:
        value = family.cross_likelihood(limit)
        if value >= best - 1e-12:
            return BetaBinomial(None, None, np.exp(limit), disclosure(np.exp(limit)), value * total, "boundary", name)

    alpha, beta = float(np.exp(best_x)), family.beta(best_x)
    gamma = np.exp(family.log_law(best_x))
    gamma /= gamma.sum()
    if abs(gamma[0] - p[0]) >= 1e-9:
        reason = f"the solver missed gamma_1 by {abs(gamma[0] - p[0]):.1e}"
        return BetaBinomial(None, None, None, None, None, "none", reason)
    return BetaBinomial(alpha, beta, gamma, disclosure(gamma), best * total, "", "")


class _Constrained:
    """The beta-binomial laws over N ranks whose first rank has probability p_1, by log alpha."""

    def __init__(self, p: Array) -> None:
        self.p = p
        self.n = p.size - 1
        self.steps = np.arange(self.n)
        self.target = float(np.log(p[0]))
        k = np.arange(p.size)
        self.choose = gammaln(self.n + 1) - gammaln(k + 1) - gammaln(self.n - k + 1)

    def _log_first(self, log_beta: float, alpha: float) -> float:
        beta = np.exp(log_beta)
        return float(-np.log1p(alpha / (beta + self.steps)).sum())

    def beta(self, log_alpha: float) -> float:
        """The one beta that meets the constraint: log gamma_1 rises with beta from -inf to 0."""
        alpha = float(np.exp(log_alpha))
        low = high = log_alpha
        while self._log_first(low, alpha) > self.target:
            low -= 5.0
        while self._log_first(high, alpha) < self.target:
            high += 5.0
        if low == high:
            return float(np.exp(low))
        root = brentq(lambda x: self._log_first(x, alpha) - self.target, low, high, xtol=1e-14, rtol=1e-15)
        return float(np.exp(root))

    def log_law(self, log_alpha: float) -> Array:
        """[N] log-probabilities of the ranks; sums of logarithms, the same as differences of log-gamma but sharper."""
        alpha, beta = float(np.exp(log_alpha)), self.beta(log_alpha)

        def rising(x: float) -> Array:
            return np.concatenate(([0.0], np.cumsum(np.log(x + self.steps))))

        a, b, both = rising(alpha), rising(beta), rising(alpha + beta)
        law: Array = self.choose + a + b[::-1] - both[-1]
        return law

    def cross_likelihood(self, log_law: Array) -> float:
        seen = self.p > 0
        return float(self.p[seen] @ log_law[seen])

    def log_likelihood(self, log_alpha: float) -> float:
        return self.cross_likelihood(self.log_law(log_alpha))


def _binomial(first: float, n_ranks: int) -> Array:
    """Log-probabilities of the binomial law over N ranks whose first rank has probability ``first``."""
    n = n_ranks - 1
    k = np.arange(n_ranks)
    log_stay = np.log(first) / n
    log_move = np.log(-np.expm1(log_stay))
    law: Array = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * log_move + (n - k) * log_stay
    return law - float(logsumexp(law))


def _similarities(similarity: npt.ArrayLike) -> Array:
    s = np.asarray(similarity, dtype=np.float64)
    if s.ndim != 2 or s.shape[1] < 2:
        raise MetricError(f"similarities are [inputs, references] with at least two references, not of shape {s.shape}")
    if np.isnan(s).any():
        raise MetricError(f"{int(np.isnan(s).sum())} of {s.size} similarities are NaN")
    return s


NULL_METRICS = ("max_d", "mean_d", "rank_spread")


def srd_by_speaker(
    similarity: npt.ArrayLike, truth: npt.ArrayLike, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> BySpeaker:
    """``mean_d`` and ``idr`` as a function of speaker weights, for intervals; MaxD and RS have a null band instead.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd`.
    """
    t = np.asarray(truth, dtype=np.int64)
    ranks = true_ranks(similarity, t)
    n_references = np.asarray(similarity).shape[1]
    base = np.ones(t.size) if weights is None else np.asarray(weights, dtype=np.float64)

    def evaluate(speaker_weights: Array) -> dict[str, float]:
        disclosed = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=base * speaker_weights[t]))
        return {"mean_d": disclosed.mean_d, "idr": disclosed.idr}

    bounds = {"mean_d": (0.0, float(np.log2(n_references))), "idr": (0.0, 1.0)}
    return BySpeaker.of_panel(evaluate, np.unique(t), bounds, ["idr"])


def srd_by_identity(
    similarity: npt.ArrayLike, truth: npt.ArrayLike, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> ByIdentity:
    """``max_d``, ``mean_d`` and ``rank_spread`` as a function of the references' identities, for null bands.

    Equal MaxD and RS are told apart by MeanD.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd`.
    """
    t = np.asarray(truth, dtype=np.int64)
    true_ranks(similarity, t)
    best, worst = rank_all(similarity)
    n, n_references = best.shape
    row = np.arange(n)

    def evaluate(identity: Indices) -> dict[str, float]:
        column = identity[t]
        ranks = Ranks(best[row, column].astype(np.int64), worst[row, column].astype(np.int64))
        disclosed = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=weights))
        return {"max_d": disclosed.max_d, "mean_d": disclosed.mean_d, "rank_spread": disclosed.rank_spread}

    return ByIdentity(
        evaluate,
        [np.arange(n_references)],
        "references",
        NULL_METRICS,
        ties={"max_d": "mean_d", "rank_spread": "mean_d"},
        low=("rank_spread",),
    )
