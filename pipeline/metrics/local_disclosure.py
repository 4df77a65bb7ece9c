"""Local information disclosure (LID): how many bits the scores of one trial say about who speaks (arXiv 2607.06259).

See pipeline/metrics/README.md, section 14a.

Conventions: scores are [trials, candidates], complete and finite, higher means more similar; a candidate is an
enrolled speaker, and a trial of somebody who is not enrolled has no place here. All else is a MetricError. Disclosures
are bits, shares are fractions; lower is more private, and 0 says nothing. Chance values are exact: the mean over all
candidates in the place of the true one, which is also the mean over permuted identities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from pipeline.metrics._base import Array, Indices, Mask, MetricError, Undefined, check_codes, check_vector, quantity

LN2 = math.log(2.0)
NOTHING = 1e-12
"""Disclosures (bit) below this are rounding, and count as 0."""
FEWEST_FOR_LOSO = 3
"""Speakers that a slope from the other speakers needs."""


@dataclass(frozen=True)
class LidChance:
    """What the same posteriors disclose where any candidate may be the true one; exact."""

    alid: float = quantity("bit", "ALID at chance, trials weighing alike; 0 or less, more negative with the slope")
    alid_speaker: float = quantity("bit", "ALID at chance, speakers weighing alike")
    pdr: float = quantity("fraction", "PDR at chance: share of candidates with more than 1/N of the posterior")
    pdr_speaker: float = quantity("fraction", "PDR at chance, speakers weighing alike")
    lid_plus: float | None = quantity("bit", "LID+ at chance")
    lid_minus: float | None = quantity("bit", "LID- at chance")


@dataclass(frozen=True)
class LidMeans:
    """Means over trials; one that does not exist is None."""

    alid: float = quantity(
        "bit", "mean disclosure, trials weighing alike; below 0: the attacker is overconfident", "lower"
    )
    alid_speaker: float = quantity("bit", "mean disclosure, speakers weighing alike", "lower")
    pdr: float = quantity("fraction", "share of trials with positive disclosure; read it beside PDR_0", "lower")
    pdr_speaker: float = quantity(
        "fraction", "share of trials with positive disclosure, speakers weighing alike", "lower"
    )
    lid_plus: float | None = quantity("bit", "mean of the positive disclosures", "lower")
    lid_minus: float | None = quantity("bit", "mean of the other disclosures", "lower")


@dataclass(frozen=True)
class Lid(LidMeans):
    """Local information disclosure of a set of trials; a value that does not exist is None, its reason in ``reason``."""

    n_candidates: int = quantity("count", "candidates, N")
    n_trials: int = quantity("count", "trials")
    n_speakers: int = quantity("count", "candidates who speak in a trial")
    lid: Array = quantity("bit", "[n] disclosure of each trial, log2(N times the posterior of the true candidate)")
    speaker_alid: Array = quantity("bit", "[N] mean disclosure of each candidate's trials; NaN for one without trials")
    lid_max: float = quantity(
        "bit", "largest disclosure: a function of the slope, so read it beside its ceiling", "lower"
    )
    lid_max_ceiling: float = quantity("bit", "the largest disclosure that a row of N candidates can have at this slope")
    chance: LidChance = quantity("", "the exact values at chance")
    reason: str = quantity("", "why LID+ or LID- is missing, or empty")


@dataclass(frozen=True)
class Slope:
    """The slope that turns the z-scores of a row into a posterior; it is the whole calibration."""

    value: float = quantity("", "slope w, 0 or more")
    unconstrained: float = quantity("", "the best slope of any sign: below 0 the scores order candidates the wrong way")


@dataclass(frozen=True)
class SpeakerSlopes:
    """For each candidate the slope from all other speakers' trials; NaN for a candidate without trials."""

    value: Array = quantity("", "[N] slope w, 0 or more")
    unconstrained: Array = quantity("", "[N] the best slope of any sign")


def check_candidates(scores: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Array, Indices]:
    """Scores [n, N] as float64 and the true candidates [n], checked.

    Raises:
        MetricError: NaN or infinite scores, no trial, fewer than two candidates, shapes that do not fit.
    """
    s, t = np.asarray(scores, dtype=np.float64), check_codes(truth, "true candidates")
    if s.ndim != 2 or s.shape[1] < 2:
        raise MetricError(f"scores are [trials, candidates] with at least two candidates, not of shape {s.shape}")
    if t.size != s.shape[0] or not t.size or t.max() >= s.shape[1]:
        raise MetricError(f"{t.size} true candidates do not fit scores of shape {s.shape}")
    wrong = int((~np.isfinite(s)).sum())
    if wrong:
        raise MetricError(f"{wrong} of {s.size} scores are NaN or infinite: a posterior over candidates needs all")
    return s, t


def row_z(scores: npt.ArrayLike) -> Array:
    """Each score less the mean of its row, over the standard deviation (N - 1) of its row: [n, N].

    A row of equal scores is 0 throughout.

    Raises:
        MetricError: NaN or infinite scores, or not a matrix with at least two candidates.
    """
    s = np.asarray(scores, dtype=np.float64)
    s, _ = check_candidates(s, np.zeros(s.shape[:1], dtype=np.int64))
    # Powers of two keep the squares of extreme scores within the range of numbers, and change no digit.
    power = np.frexp(np.abs(s).max(axis=1))[1][:, None]
    s = np.ldexp(np.ldexp(s, -(power // 2)), -(power - power // 2))
    # Sums over the sorted row are the same bytes in whatever order the candidates stand.
    ranked = np.sort(s, axis=1)
    flat = ranked[:, 0] == ranked[:, -1]
    middle = ranked[:, [s.shape[1] // 2]]
    s, ranked = s - middle, ranked - middle
    mean = ranked.mean(axis=1, keepdims=True)
    spread = np.sqrt(((ranked - mean) ** 2).sum(axis=1, keepdims=True) / (s.shape[1] - 1))
    z: Array = np.divide(s - mean, spread, out=np.zeros_like(s), where=~flat[:, None] & (spread > 0))
    return z


def lid(scores: npt.ArrayLike, truth: npt.ArrayLike, slope: float | npt.ArrayLike) -> Lid:
    """Local information disclosure at a given slope.

    The slope must not come from the trials that it scores: take it from other speakers (:func:`softmax_slope` of
    development trials) or leave one speaker out (:func:`loso_slopes`).

    Args:
        scores: [n, N] score of each trial against each candidate.
        truth: [n] the true candidate of each trial.
        slope: w, 0 or more; or [N], one for each true candidate (NaN for one without trials).

    Raises:
        MetricError: NaN or infinite scores, shapes that do not fit, a slope that is negative or not finite.

    Example:
        >>> from pipeline.metrics import lid
        >>> scores = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5], [0.1, 0.2, 0.8]]
        >>> found = lid(scores, [0, 1, 2], slope=1.0)
        >>> found.lid.round(3).tolist(), round(found.alid, 3), round(found.chance.alid, 3)
        ([1.117, -0.091, 1.139], 0.722, -0.473)
        >>> round(found.lid_max, 3), round(found.lid_max_ceiling, 3)
        (1.139, 1.148)
    """
    s, t = check_candidates(scores, truth)
    slopes = spread_slopes(slope, t, s.shape[1])
    bits = posterior_bits(slopes[:, None] * row_z(s))
    return _summary(bits, t, lid_ceiling(s.shape[1], float(slopes.max())))


def lid_of_llr(llr: npt.ArrayLike, truth: npt.ArrayLike) -> Lid:
    """Local information disclosure of LLRs taken as they are: the posterior is their softmax, nothing is fitted.

    Args:
        llr: [n, N] natural-log LLR of each trial against each candidate.
        truth: [n] the true candidate of each trial.
    """
    values, t = check_candidates(llr, truth)
    return _summary(posterior_bits(values), t, math.log2(values.shape[1]))


def lid_ceiling(n_candidates: int, slope: float) -> float:
    """The largest LID (bit) at a slope: the true candidate far above N - 1 equal others."""
    n = n_candidates
    return max(math.log2(n) - float(np.log1p((n - 1) * np.exp(-slope * math.sqrt(n)))) / LN2, 0.0)


def exceedance(values: npt.ArrayLike, at: npt.ArrayLike) -> Array:
    """Complementary distribution (CCDF): share [k] of ``values`` [n] that are at least each of ``at`` [k].

    Raises:
        MetricError: NaN, or no value.
    """
    ordered, points = np.sort(check_vector(values, "values")), check_vector(at, "points")
    if not ordered.size:
        raise MetricError("there is no value")
    share: Array = (ordered.size - np.searchsorted(ordered, points, side="left")) / ordered.size
    return share


def posterior_bits(logits: Array) -> Array:
    """log2(N p) [n, N] of the softmax of each row; what is 0 up to rounding is 0. The same bytes in whatever order the candidates stand."""
    ranked = np.sort(logits, axis=1)
    top = ranked[:, -1]
    log_sum = top + np.log(np.exp(ranked - top[:, None]).sum(axis=1))
    bits: Array = (logits - log_sum[:, None] + math.log(logits.shape[1])) / LN2
    bits[np.abs(bits) < NOTHING] = 0.0
    return bits


def exact_mean(values: Array) -> float:
    """The mean of [n] values, the same bytes in whatever order they stand."""
    return math.fsum(values) / values.size


def speaker_means(values: Array, truth: Indices, n_candidates: int) -> Array:
    """Mean [N] of the values [n] of each speaker; NaN for a candidate without trials."""
    means = np.full(n_candidates, np.nan)
    for speaker in np.unique(truth):
        means[speaker] = exact_mean(values[truth == speaker])
    return means


def _summary(bits: Array, truth: Indices, ceiling: float) -> Lid:
    n, n_candidates = bits.shape
    own = bits[np.arange(n), truth]
    means = speaker_means(own, truth, n_candidates)
    positive = own > 0
    speakers = np.unique(truth)
    plus, minus, reason = split_by_sign(own)
    return Lid(
        n_candidates=n_candidates,
        n_trials=n,
        n_speakers=speakers.size,
        lid=own,
        alid=exact_mean(own),
        alid_speaker=exact_mean(means[speakers]),
        speaker_alid=means,
        pdr=float(positive.mean()),
        pdr_speaker=exact_mean(speaker_means(positive.astype(np.float64), truth, n_candidates)[speakers]),
        lid_plus=plus,
        lid_minus=minus,
        lid_max=float(own.max()),
        lid_max_ceiling=ceiling,
        chance=_chance(bits, truth),
        reason=reason,
    )


def split_by_sign(bits: Array) -> tuple[float | None, float | None, str]:
    """The means of positive disclosures and of the others, and why one is missing."""
    positive = bits > 0
    plus = exact_mean(bits[positive]) if positive.any() else None
    minus = exact_mean(bits[~positive]) if not positive.all() else None
    if minus is None:
        return plus, minus, "all trials have a positive disclosure"
    return plus, minus, "no trial has a positive disclosure" if plus is None else ""


def _chance(bits: Array, truth: Indices) -> LidChance:
    n_candidates = bits.shape[1]
    speakers = np.unique(truth)
    positive: Mask = bits > 0
    row = np.sort(bits, axis=1).mean(axis=1)
    share = positive.mean(axis=1)
    return LidChance(
        alid=exact_mean(row),
        alid_speaker=exact_mean(speaker_means(row, truth, n_candidates)[speakers]),
        pdr=exact_mean(share),
        pdr_speaker=exact_mean(speaker_means(share, truth, n_candidates)[speakers]),
        lid_plus=exact_mean(np.sort(bits[positive])) if positive.any() else None,
        lid_minus=exact_mean(np.sort(bits[~positive])) if not positive.all() else None,
    )


def spread_slopes(slope: float | npt.ArrayLike, truth: Indices, n_candidates: int) -> Array:
    array = np.asarray(slope, dtype=np.float64)
    if array.shape not in ((), (n_candidates,)):
        raise MetricError(f"a slope is one number or one for each of {n_candidates} candidates, not {array.shape}")
    slopes: Array = np.broadcast_to(array, (n_candidates,))[truth]
    if not (np.isfinite(slopes).all() and (slopes >= 0).all()):
        raise MetricError("a slope must be finite and 0 or more")
    return slopes


# --- slopes ---------------------------------------------------------------------------------------------------------


def softmax_slope(scores: npt.ArrayLike, truth: npt.ArrayLike) -> Slope:
    """The slope of the posterior's own proper score, -log2 of the true candidate's posterior, speakers weighing alike.

    One pseudo-trial of an average row, whose true candidate is anybody, is added: so the slope is finite also where
    every trial is won.

    Args:
        scores, truth: as of :func:`lid`, of other speakers than those to be scored.
    """
    s, t = check_candidates(scores, truth)
    loss = SoftmaxLoss(row_z(s), t)
    best = loss.best(np.ones(loss.speakers.size))
    return Slope(max(best, 0.0), best)


def loso_slopes(scores: npt.ArrayLike, truth: npt.ArrayLike) -> SpeakerSlopes:
    """For each speaker the :func:`softmax_slope` of all other speakers' trials; their rows keep all N candidates.

    Raises:
        Undefined: fewer than three speakers.
    """
    s, t = check_candidates(scores, truth)
    return loso_of_loss(SoftmaxLoss(row_z(s), t), s.shape[1])


def loso_of_loss(loss: SoftmaxLoss, n_candidates: int) -> SpeakerSlopes:
    """:func:`loso_slopes` from the loss of all speakers.

    Raises:
        Undefined: fewer than three speakers.
    """
    n_speakers = loss.speakers.size
    if n_speakers < FEWEST_FOR_LOSO:
        raise Undefined(f"a slope from the other speakers needs {FEWEST_FOR_LOSO} speakers, not {n_speakers}")
    slopes = np.full(n_candidates, np.nan)
    start = loss.best(np.ones(n_speakers))
    at_start = loss.slopes(start, np.ones(n_speakers, dtype=bool))
    near = _interpolate_slopes(loss, start, at_start) if n_speakers > NODES else None
    for k, speaker in enumerate(loss.speakers):
        if near is not None:
            slopes[speaker] = near[k]
            continue
        others = np.ones(n_speakers)
        others[k] = 0.0
        slopes[speaker] = loss.best(others, start, at_start)
    return SpeakerSlopes(np.maximum(slopes, 0.0), slopes)


NODES = 16
"""Slopes at which the posteriors are looked at where many speakers leave one out each, and all find nearly the same slope."""


def _interpolate_slopes(loss: SoftmaxLoss, start: float, at_start: tuple[Array, Array]) -> Array | None:
    """The slopes [S] from the others, from the mean z-scores at few slopes about ``start``; None where they lie too far apart."""
    n = loss.speakers.size
    pseudo = (1 + 1 / (loss.counts.sum() - loss.counts)) / (n - 1)
    aim = (loss.aim.sum() - loss.aim) / (n - 1)
    value, rise = (pseudo * (moment.sum() - moment) for moment in at_start)
    if not (rise > 0).all():
        return None
    steps = (aim - value) / rise
    reach = 1.5 * float(np.abs(steps).max())
    # Within so little the means are polynomials of this degree to the last digit: posteriors vary over 1/max |z|.
    if not 0 < reach <= 0.25 / max(1.0, float(np.abs(loss.z).max())):
        return None
    x = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    everybody = np.ones(n, dtype=bool)
    means = np.array([loss.slopes(start + reach * float(at), everybody)[0] for at in x])
    series = chebyshev.chebfit(x, pseudo * (means.sum(axis=1, keepdims=True) - means) - aim, NODES - 1)
    slopes = chebyshev.chebder(series)
    at = steps / reach
    for _ in range(30):
        step = chebyshev.chebval(at, series, tensor=False) / chebyshev.chebval(at, slopes, tensor=False)
        at = at - step
        if not (np.abs(at) <= 1).all():
            return None
        if (np.abs(step) <= 1e-13).all():
            slopes_of_all: Array = start + reach * at
            return slopes_of_all
    return None


class SoftmaxLoss:
    """The loss whose minimum is the softmax slope, convex in one unknown, as a sum over speakers."""

    def __init__(self, z: Array, truth: Indices, counts: Indices | None = None) -> None:
        """From z-scores [n, N] and the true candidate [n] of each trial.

        ``counts`` [S] is how many trials of each speaker stand against the pseudo-trial; all, unless trials overlap.
        """
        self.speakers = np.unique(truth)
        order = np.argsort(truth, kind="stable")
        self.z = np.sort(z[order], axis=1)
        self.n_trials = np.bincount(truth)[self.speakers]
        """[S] trials of each speaker."""
        self.counts = self.n_trials if counts is None else counts
        self.begins = np.concatenate(([0], np.cumsum(self.n_trials)))
        self.aim = self._by_speaker(z[order, truth[order]])
        """[S] mean z-score of the true candidate, by speaker."""

    def _by_speaker(self, values: Array) -> Array:
        parts = zip(self.begins[:-1], self.begins[1:])
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in parts])

    def slopes(self, w: float, used: Mask) -> tuple[Array, Array]:
        """Mean z-score and its derivative under the posterior at ``w``, by speaker [S]; 0 where not used."""
        rows = np.repeat(used, self.n_trials)
        logits = w * self.z[rows]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        first, second = np.zeros(self.z.shape[0]), np.zeros(self.z.shape[0])
        mean = (p * self.z[rows]).sum(axis=1)
        first[rows], second[rows] = mean, (p * (self.z[rows] - mean[:, None]) ** 2).sum(axis=1)
        return self._by_speaker(first), self._by_speaker(second)

    def best(self, weights: Array, start: float = 0.0, at_start: tuple[Array, Array] | None = None) -> float:
        """The slope under weights [S] of the speakers (their trials share it): Newton steps within a bracket.

        ``at_start`` are the :meth:`slopes` of all speakers at ``start``, where they are known.
        """
        used = weights > 0
        total = math.fsum(weights)
        pseudo = 1.0 + 1.0 / float((weights * self.counts).sum())
        aim = math.fsum(weights * self.aim) / total

        def gradient(w: float) -> tuple[float, float]:
            mean, variance = at_start if at_start is not None and w == start else self.slopes(w, used)
            slope = pseudo * math.fsum(weights * mean) / total - aim
            return slope, pseudo * math.fsum(weights * variance) / total

        low, high, w = -math.inf, math.inf, start
        for _ in range(500):
            value, rise = gradient(w)
            if value == 0:
                return w
            low, high = (w, high) if value < 0 else (low, w)
            step = -value / rise if rise > 0 else math.inf
            following = w + max(min(step, 1.0 + abs(w)), -1.0 - abs(w))
            if not low < following < high:
                following = (low + high) / 2
            # The error of a Newton step is about the square of its length.
            if abs(following - w) <= 1e-9 * max(1.0, abs(w)) or following in (low, high):
                return following
            w = following
        return w


def published_slope(scores: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[float, float]:
    """Slope and offset of the published code: a logistic regression of single pairs, kept for comparison by name.

    Both classes weigh alike (``class_weight="balanced"``) and the slope bears an L2 penalty with C = 1. It fits
    one-to-one decisions, not the posterior over N candidates. The published solver stops up to 4e-3 from this optimum.

    Args:
        scores, truth: as of :func:`lid`, of other speakers than those to be scored.
    """
    s, t = check_candidates(scores, truth)
    z = row_z(s)
    own = np.zeros(z.shape, dtype=bool)
    own[np.arange(t.size), t] = True
    # Sorted, so that sums are the same bytes in whatever order trials and candidates stand.
    x = np.concatenate((np.sort(z[own]), np.sort(z[~own])))
    sign = np.repeat([1.0, -1.0], [t.size, z.size - t.size])
    weight = np.repeat(z.size / (2.0 * np.array([t.size, z.size - t.size])), [t.size, z.size - t.size])

    def loss(w: float, b: float) -> float:
        return float(w * w / 2 + weight @ np.logaddexp(0.0, -sign * (w * x + b)))

    w = b = 0.0
    for _ in range(200):
        wrong = 1.0 / (1.0 + np.exp(sign * (w * x + b)))
        pull, bend = weight * sign * wrong, weight * wrong * (1 - wrong)
        gradient = np.array([w - pull @ x, -pull.sum()])
        curvature = np.array([[1 + bend @ (x * x), bend @ x], [bend @ x, bend.sum()]])
        step = np.linalg.solve(curvature, -gradient)
        scale, before = 1.0, loss(w, b)
        while scale > 1e-6 and loss(w + scale * step[0], b + scale * step[1]) > before + 1e-12 * abs(before):
            scale /= 2
        w, b = w + scale * float(step[0]), b + scale * float(step[1])
        if np.abs(step).max() < 1e-13 * max(1.0, abs(w)):
            break
    return w, b
