"""Linkability and singling out: D_sys, pi_link, pi_sing; three measures that share words, not meaning.

See pipeline/metrics/README.md, section 14.

Conventions: higher scores mean more similar; all three are fractions, and lower is more private.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, MetricError, Undefined, choice, classes, round_means
from pipeline.metrics.pav import Calibration, calibrate

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
    choice(variant, D_SYS_VARIANTS, "variant")
    t, n = classes(target, nontarget)
    if not omega > 0:
        raise MetricError(f"omega must be above 0, not {omega}")
    return d_sys_of_blocks(calibrate(t, n), omega) if variant == "exact" else _d_sys_binned(t, n, omega)


def d_sys_of_blocks(blocks: Calibration, omega: float = 1.0) -> float:
    """D_sys from the blocks of a calibration without the Laplace rule."""
    held = blocks.target > 0
    # 2wLR/(1+wLR) - 1 = tanh(ln(wLR) / 2), which is 1 at LR = inf.
    link = np.maximum(np.tanh((blocks.llr[held] + np.log(omega)) / 2), 0.0)
    return float(blocks.target[held] @ link / blocks.n_target)


def _d_sys_binned(t: Array, n: Array, omega: float) -> float:
    bins = min(t.size // 10, 100)
    if bins < 2:
        return 0.0
    low, high = min(t.min(), n.min()), max(t.max(), n.max())
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        raise Undefined("bins of equal width need finite scores that are not all equal")
    t, n, low, high = _in_range(t, n, low, high)
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


def _in_range(t: Array, n: Array, low: float, high: float) -> tuple[Array, Array, float, float]:
    """Scores of extreme size times a power of two, which changes neither their order nor the result."""
    largest = max(abs(low), abs(high))
    if 1e-100 <= largest <= 1e100:
        return t, n, low, high
    power = -math.frexp(largest)[1]
    # In two steps: one power of two would leave the range of numbers where the scores are denormal.
    scaled = [np.ldexp(np.ldexp(each, power // 2), power - power // 2) for each in (t, n, np.array([low, high]))]
    return scaled[0], scaled[1], float(scaled[2][0]), float(scaled[2][1])


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
    test, known = np.asarray(test_scores, dtype=np.float64), np.asarray(calibration_scores, dtype=np.float64)
    if test.ndim != 2 or known.ndim != 2 or len(test) != len(known) or not test.size:
        raise MetricError(f"test scores {test.shape} and calibration scores {known.shape} do not fit")
    if np.isnan(test).any() or np.isnan(known).any():
        raise MetricError("NaN among the scores")
    compared = round_means(np.column_stack([test, isolation_threshold(known, per_speaker)]))
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
