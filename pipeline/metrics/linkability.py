"""Linkability and singling out: D_sys, pi_link and its curve over populations, pi_sing; they share words, not meaning.

See pipeline/metrics/README.md, section 14.

Conventions: higher scores mean more similar; all are fractions, and lower is more private. Score matrices are
[trials, candidates]; among N' candidates the N' - 1 others are drawn at random, and the mean over all draws has a
closed form; chance is 1/N' with ties ``spread``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import (
    Array,
    Indices,
    MetricError,
    Undefined,
    check_choice,
    check_classes,
    quantity,
    round_means,
)
from pipeline.metrics.local_disclosure import exact_mean, speaker_means
from pipeline.metrics.pav import Calibration, calibrate
from pipeline.metrics.rank_disclosure import TIES, true_ranks
from pipeline.metrics.uncertainty import BySpeaker

D_SYS_VARIANTS = ("exact", "vpc")


def d_sys(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, omega: float = 1.0, variant: str = "exact") -> float:
    """Global linkability D_sys in [0, 1] (Gomez-Barrero; Maouche): mean over targets of max(0, 2wLR/(1+wLR) - 1).

    Args:
        target, nontarget: mated and non-mated scores [T], [N].
        omega: prior odds w of mated against non-mated.
        variant: ``exact`` takes likelihood ratios from PAV without the Laplace rule; ``vpc`` is the challenge's rule of
            min(T/10, 100) equal bins and a trapezoid over their centres, for comparison with old numbers.

    Raises:
        MetricError: NaN, an empty class, omega not above 0.
        Undefined: ``vpc`` on scores that are infinite or all equal, or so close that bins between them have no width.

    Example:
        >>> from pipeline.metrics import d_sys
        >>> round(d_sys([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]), 4)
        0.7143
    """
    check_choice(variant, D_SYS_VARIANTS, "variant")
    t, n = check_classes(target, nontarget)
    if not omega > 0:
        raise MetricError(f"omega must be above 0, not {omega}")
    return d_sys_of_blocks(calibrate(t, n), omega) if variant == "exact" else _d_sys_binned(t, n, omega)


def d_sys_of_blocks(blocks: Calibration, omega: float = 1.0) -> float:
    """D_sys from the blocks of a calibration without the Laplace rule."""
    filled = blocks.target > 0
    # 2wLR/(1+wLR) - 1 = tanh(ln(wLR) / 2), which is 1 at LR = inf.
    link = np.maximum(np.tanh((blocks.llr[filled] + np.log(omega)) / 2), 0.0)
    return float(blocks.target[filled] @ link / blocks.n_target)


def _d_sys_binned(t: Array, n: Array, omega: float) -> float:
    bins = min(t.size // 10, 100)
    if bins < 2:
        return 0.0
    low, high = min(t.min(), n.min()), max(t.max(), n.max())
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        raise Undefined("bins of equal width need finite scores that are not all equal")
    largest = max(abs(low), abs(high))
    if not 1e-100 <= largest <= 1e100:
        # Times a power of two, which changes neither order nor result; in two steps, for denormal scores.
        power = -math.frexp(largest)[1]
        t, n = (np.ldexp(np.ldexp(values, power // 2), power - power // 2) for values in (t, n))
        low, high = min(t.min(), n.min()), max(t.max(), n.max())
    edges = np.linspace(low, high, bins + 1)
    if not (np.diff(edges) > 0).all():
        raise Undefined(f"the scores lie too close together for {bins} bins of equal width")
    mated = np.histogram(t, edges, density=True)[0]
    nonmated = np.histogram(n, edges, density=True)[0]
    ratio = np.divide(mated, nonmated, out=np.ones(bins), where=nonmated != 0)
    link = np.maximum(2 * omega * ratio / (1 + omega * ratio) - 1, 0.0)
    link[(nonmated == 0) & (mated != 0)] = 1.0
    centres = (edges[1:] + edges[:-1]) / 2
    return float(np.trapezoid(link * mated, centres))


def better_enrolments(scores: npt.ArrayLike, truth: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Number [n] of enrolments that score strictly better than the true one.

    Args:
        scores: [n, N] score of each test item against each enrolment.
        truth: [n] index of each item's true enrolment.

    Raises:
        MetricError: NaN, or shapes that do not fit.
    """
    s, t = np.asarray(scores, dtype=np.float64), np.asarray(truth, dtype=np.int64)
    if s.ndim != 2 or t.shape != (s.shape[0],) or not t.size or t.min() < 0 or t.max() >= s.shape[1]:
        raise MetricError(f"true enrolments of shape {t.shape} do not fit scores of shape {s.shape}")
    if np.isnan(s).any():
        raise MetricError(f"{int(np.isnan(s).sum())} of {s.size} scores are NaN")
    better: npt.NDArray[np.int64] = (s > s[np.arange(t.size), t][:, None]).sum(axis=1)
    return better


def pi_link(scores: npt.ArrayLike, truth: npt.ArrayLike, population: int) -> float:
    """Probability that the true enrolment beats population - 1 others drawn at random (Vauquier 2025), in closed form.

    Ties favour the attacker; chance is 1/population. With population = N it is the identification rate of SRD with
    ties ``best``.

    Args:
        scores: [n, N] score of each test item against each enrolment.
        truth: [n] index of each item's true enrolment.
        population: N', 1 to N.

    Raises:
        MetricError: NaN, shapes that do not fit, population outside 1 to N.

    Example:
        >>> from pipeline.metrics import pi_link
        >>> scores = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5]]  # the second item has one better enrolment
        >>> pi_link(scores, [0, 1], population=2), pi_link(scores, [0, 1], population=3)
        (0.75, 0.5)
    """
    beaten = better_enrolments(scores, truth)
    others = np.asarray(scores).shape[1] - 1
    if not 1 <= population <= others + 1:
        raise MetricError(f"population must lie between 1 and {others + 1}, not {population}")
    # The ratio of binomials as a product, which neither overflows nor needs large integers.
    draw = np.arange(population - 1)
    factors = np.maximum(others - beaten[:, None] - draw, 0) / (others - draw)
    return float(factors.prod(axis=1).mean())


def pi_sing(test_scores: npt.ArrayLike, calibration_scores: npt.ArrayLike, per_speaker: int) -> float:
    """Share of attacked speakers that are singled out: exactly one of N test items passes the isolation threshold.

    The threshold lies midway between the M-th and (M+1)-th best calibration score. Chance is about exp(-1) = 37 %.

    Args:
        test_scores: [attacked speakers, N] scores of the test items, one item a speaker.
        calibration_scores: [attacked speakers, K] scores of the calibration items.
        per_speaker: M, calibration items of one speaker.

    Raises:
        MetricError: NaN, shapes that do not fit, M outside 1 to K - 1.

    Example:
        >>> from pipeline.metrics import pi_sing
        >>> pi_sing([[0.9, 0.1, 0.3], [0.2, 0.4, 0.5]], [[0.8, 0.7, 0.2], [0.7, 0.45, 0.1]], per_speaker=1)
        0.5
    """
    test, calibrated = np.asarray(test_scores, dtype=np.float64), np.asarray(calibration_scores, dtype=np.float64)
    if test.ndim != 2 or calibrated.ndim != 2 or len(test) != len(calibrated) or not test.size:
        raise MetricError(f"test scores {test.shape} and calibration scores {calibrated.shape} do not fit")
    if np.isnan(test).any() or np.isnan(calibrated).any():
        raise MetricError("NaN among the scores")
    compared = round_means(np.column_stack([test, isolation_threshold(calibrated, per_speaker)]))
    return float(((compared[:, :-1] > compared[:, -1:]).sum(axis=1) == 1).mean())


def isolation_threshold(calibration_scores: Array, per_speaker: int) -> Array:
    """Midpoint [attacked speakers] between the M-th and (M+1)-th best calibration score."""
    if not 1 <= per_speaker < calibration_scores.shape[1]:
        raise MetricError(f"per_speaker must lie between 1 and {calibration_scores.shape[1] - 1}, not {per_speaker}")
    ranked = -np.sort(-calibration_scores, axis=1)
    better, worse = ranked[:, per_speaker - 1], ranked[:, per_speaker]
    with np.errstate(over="ignore", invalid="ignore"):
        total = better + worse
        threshold: Array = np.where(np.isfinite(total), total / 2, better / 2 + worse / 2)
    return threshold


WEIGHTS = ("speaker", "trial")
POPULATION_BOUNDS = (0.0, 1.0)


@dataclass(frozen=True)
class PiLinkCurve:
    """Probability of standing first, by population."""

    population: Indices = quantity("count", "[P] candidates N', the true one among them")
    value: Array = quantity("fraction", "[P] pi_link at each population", "lower", bounds=POPULATION_BOUNDS)
    chance: Array = quantity("fraction", "[P] 1/N'", bounds=POPULATION_BOUNDS)
    ties: str = quantity("label", "spread, best or worst")
    tied: float = quantity("fraction", "share of trials in which another candidate equals the true one")
    n_trials: int = quantity("count", "trials")
    n_speakers: int = quantity("count", "candidates who speak in a trial")


def pi_link_curve(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    populations: Sequence[int] | None = None,
    *,
    ties: str = "spread",
    weights: str = "speaker",
) -> PiLinkCurve:
    """pi_link(N') in closed form; at N' = N it is the identification rate of SRD under the same ties and weights.

    Args:
        scores: [n, N] score of each trial against each candidate; infinities are allowed.
        truth: [n] the true candidate of each trial. Candidates without trials are distractors.
        populations: values of N', 1 to N; default all of them.
        ties: ``spread`` (broken evenly), ``best`` (a tie wins) or ``worst`` (a tie loses).
        weights: ``speaker`` (trials of a speaker, then speakers, weigh alike) or ``trial``.

    Raises:
        MetricError: NaN, shapes that do not fit, no trial, fewer than two candidates, a population outside 1 to N.

    Example:
        >>> from pipeline.metrics import pi_link_curve
        >>> scores = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5]]  # the second item has one better enrolment
        >>> pi_link_curve(scores, [0, 1]).value.tolist()
        [1.0, 0.75, 0.5]
    """
    check_choice(weights, WEIGHTS, "weights")
    t = np.asarray(truth, dtype=np.int64)
    chances, sizes, tied = _each_trial(scores, t, populations, ties)
    n_candidates = np.asarray(scores).shape[1]
    speakers = np.unique(t)
    if weights == "speaker":
        columns = [speaker_means(column, t, n_candidates)[speakers] for column in chances.T]
    else:
        columns = list(chances.T)
    value = np.array([exact_mean(column) for column in columns])
    return PiLinkCurve(sizes, value, 1.0 / sizes, ties, tied, t.size, speakers.size)


def pi_link_by_speaker(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    populations: Sequence[int] | None = None,
    *,
    ties: str = "spread",
    both_roles: bool = False,
) -> BySpeaker:
    """``pi_link.N'`` (speakers weighing alike) as a function of speaker weights, for intervals.

    Args:
        scores, truth, populations, ties: as of :func:`pi_link_curve`.
        both_roles: a speaker who is left out leaves the candidates too, and not the trials alone. Then populations go
            to N - 1, and only the jackknife is defined: weights are 0 or 1.

    Raises:
        MetricError: as of ``pi_link_curve``.
    """
    t = np.asarray(truth, dtype=np.int64)
    s = np.asarray(scores, dtype=np.float64)
    if both_roles and populations is None and s.ndim == 2:
        populations = range(1, s.shape[1])
    chances, sizes, _ = _each_trial(s, t, populations, ties)
    n_candidates = s.shape[1]
    if both_roles and sizes.max() >= n_candidates:
        raise MetricError(f"where speakers leave the candidates, populations end at {n_candidates - 1}")
    names = [f"pi_link.{n}" for n in sizes]

    def evaluate(weights: Array) -> dict[str, float]:
        values, own = chances, t
        if both_roles and not (weights == 1).all():
            if not np.isin(weights, (0.0, 1.0)).all():
                raise MetricError("a speaker cannot be a candidate more than once: only the jackknife is defined")
            stay = np.ones(n_candidates, dtype=bool)
            stay[: weights.size] = weights > 0
            own = t[stay[t]]
            renumbered = (np.cumsum(stay) - 1)[own]
            values, _, _ = _each_trial(s[stay[t]][:, stay], renumbered, [int(n) for n in sizes], ties)
        counts = np.bincount(own, minlength=n_candidates)
        w = weights[own] / counts[own]
        if not w.sum() > 0:
            raise MetricError("no trial is left")
        return dict(zip(names, ((w @ values) / w.sum()).tolist()))

    rates = [name for name, n in zip(names, sizes) if n > 1]
    return BySpeaker.of_panel(evaluate, np.unique(t), dict.fromkeys(names, POPULATION_BOUNDS), rates)


def _broken(best: Array, better: int, equal: int, ties: str) -> Array:
    if ties == "best":
        row: Array = best[better]
    elif ties == "worst":
        row = best[better + equal]
    else:
        row = best[better : better + equal + 1].mean(axis=0)
    return row


def _each_trial(
    scores: npt.ArrayLike, truth: Indices, populations: Sequence[int] | None, ties: str
) -> tuple[Array, Indices, float]:
    """Probability [n, P] of each trial, the populations [P], and the share of trials with ties."""
    check_choice(ties, TIES, "ties")
    ranks = true_ranks(scores, truth)
    n_candidates = np.asarray(scores).shape[1]
    if not truth.size:
        raise MetricError("there is no trial")
    sizes = np.arange(1, n_candidates + 1) if populations is None else np.asarray(list(populations), dtype=np.int64)
    if not sizes.size or sizes.min() < 1 or sizes.max() > n_candidates:
        raise MetricError(f"populations must lie between 1 and {n_candidates}, not {sizes.tolist()}")
    # C(K - m, N' - 1)/C(K, N' - 1), [K + 1, P], as a product: nothing overflows.
    n_others, drawn = n_candidates - 1, np.arange(int(sizes.max()) - 1)
    factors = np.maximum(n_others - np.arange(n_candidates)[:, None] - drawn, 0) / (n_others - drawn)
    best = np.concatenate((np.ones((n_candidates, 1)), np.cumprod(factors, axis=1)), axis=1)[:, sizes - 1]
    better, equal = ranks.best - 1, ranks.worst - ranks.best
    cases, where = np.unique(better * n_candidates + equal, return_inverse=True)
    rows = [_broken(best, int(case) // n_candidates, int(case) % n_candidates, ties) for case in cases]
    return np.array(rows)[where], sizes, float((equal > 0).mean())


def pi_sing_chance(n_speakers: int, per_speaker: int) -> float:
    """Chance of pi_sing with M = ``per_speaker`` calibration items of each of N speakers, for exchangeable scores.

    M C(NM - M + N - 1, N - 1) / C(NM + N, N), with the threshold at the M-th or at the (M+1)-th best calibration score;
    the midpoint of both, which pi_sing uses, lies within a few hundredths.

    Raises:
        MetricError: fewer than two speakers, or M below 1.
    """
    n, m = n_speakers, per_speaker
    if n < 2 or m < 1:
        raise MetricError(f"chance needs two speakers and one calibration item each, not {n} and {m}")
    # C(NM - M + N - 1, N - 1)/C(NM + N, N) as a product of N - 1 factors, times N/(NM + 1).
    drawn = np.arange(n - 1)
    ratio = np.prod((n * m - m + n - 1 - drawn) / (n * m + n - drawn))
    return float(m * n * ratio / (n * m + 1))
