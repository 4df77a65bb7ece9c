"""The information in log-likelihood ratios: Cllr, empirical cross-entropy with D_ECE, and ZEBRA (Noe 2022, Eq. 4, 11-13).

See pipeline/metrics/README.md, sections 5 to 7.

Conventions: higher scores mean more similar; LLRs and prior log-odds are natural logarithms; Cllr, ECE and D_ECE are
bits, l_w is log10. A higher cost is more private; a lower D_ECE (0 nothing, 0.72135 everything) and l_w are.
Cllr takes scores as LLRs; what is called ``min`` or ``oracle`` takes any scores. NaN and an empty class are MetricErrors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, xlog1py, xlogy

from pipeline.metrics._base import Array, MetricError, check_classes, check_vector, quantity
from pipeline.metrics.pav import Calibration, calibrate, calibrate_rows, count_rows

_LN2 = float(np.log(2.0))
LN10 = float(np.log(10.0))


def cllr(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike) -> float:
    """Cllr of LLRs (natural log) as they are, in bits: 0 perfect, 1 for LLRs of 0, unbounded above.

    A target at -inf or a non-target at +inf costs inf.

    Example:
        >>> from pipeline.metrics import cllr
        >>> cllr([0.0, 0.0], [0.0])  # LLRs that say nothing
        1.0
        >>> round(cllr([2.0, 1.0], [-2.0]), 4)
        0.2503
    """
    t, n = check_classes(target_llr, nontarget_llr)
    costs = mean(np.logaddexp(0.0, -t)), mean(np.logaddexp(0.0, n))
    total = sum(costs) / (2 * _LN2)
    return total if math.isfinite(total) else costs[0] / (2 * _LN2) + costs[1] / (2 * _LN2)


def mean(values: Array) -> float:
    """The mean of values [n]; of finite ones of extreme size, too, whose sum leaves the range of numbers."""
    with np.errstate(over="ignore"):
        average = float(values.mean())
        return average if math.isfinite(average) else float((values / values.size).sum())


def cllr_min(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> float:
    """Cllr after oracle calibration (PAV without the Laplace rule), in bits, in [0, 1].

    Example:
        >>> from pipeline.metrics import cllr_min
        >>> round(cllr_min([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]), 4)
        0.3021
    """
    return cllr_of_blocks(calibrate(target, nontarget))


def cllr_cal(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike) -> float:
    """Cllr - Cllr_min, the calibration loss in bits (inf where Cllr is)."""
    return cllr(target_llr, nontarget_llr) - cllr_min(target_llr, nontarget_llr)


def cllr_of_blocks(blocks: Calibration) -> float:
    """Cllr of calibrated scores from their blocks, in bits."""
    return mean_over_classes(blocks, np.logaddexp(0.0, -blocks.llr), np.logaddexp(0.0, blocks.llr)) / _LN2


def mean_over_classes(blocks: Calibration, target_value: Array, nontarget_value: Array) -> float:
    """Half the mean of a value over targets plus half the mean of one over non-targets; empty cells count nothing.

    Args:
        target_value, nontarget_value: [b] the value in each block for each class.
    """
    total = 0.0
    for count, value in ((blocks.target, target_value), (blocks.nontarget, nontarget_value)):
        filled = count > 0
        with np.errstate(over="ignore"):
            mean = float(count[filled] @ value[filled] / count[filled].sum())
            total += mean if math.isfinite(mean) else float(count[filled] / count[filled].sum() @ value[filled])
    return total / 2


D_ECE_MAX = 1 / (2 * _LN2)
"""D_ECE of scores that tell everything, in bits (0.72135)."""


@dataclass(frozen=True)
class EceProfile:
    """Empirical cross-entropy against prior log-odds."""

    log_odds: Array = quantity("nat", "[g] prior log-odds, ln(pi / (1 - pi))")
    prior_entropy: Array = quantity("bit", "[g] entropy of the prior alone: the ECE under perfect privacy")
    ece: Array = quantity("bit", "[g] empirical cross-entropy of the LLRs")
    disclosed: Array = quantity("bit", "[g] prior entropy minus ECE; its integral over pi is D_ECE")


def z_function(llr: npt.ArrayLike) -> Array:
    """Z(l) = 1/2 + (l - c)/c^2 with c = exp(l) - 1, the closed form of the ECE integral (any shape).

    Z(0) = 0, Z(+inf) = 1/2, Z(-inf) = -inf; relative error below 1e-11 everywhere.
    """
    l = np.asarray(llr, dtype=np.float64)  # noqa: E741
    z = np.empty(l.shape)
    near, high, low = np.abs(l) < 0.05, l >= 0.05, l <= -0.05
    x = l[near]
    z[near] = x * (
        1 / 3 + x * (-1 / 12 + x * (1 / 180 + x * (1 / 720 + x * (-1 / 5040 + x * (-1 / 30240 + x / 151200)))))
    )
    x = l[high].clip(max=800.0)
    u = np.exp(-x)
    z[high] = 0.5 + (x * u * u - u + u * u) / (1 - u) ** 2
    x = l[low]
    c = np.expm1(x)
    z[low] = 0.5 + (x - c) / c**2
    z[np.isnan(l)] = np.nan
    return z


def ece(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike, log_odds: npt.ArrayLike) -> Array:
    """ECE in bits at each prior log-odds [g] (natural log) of LLRs as they are (Noe 2022, Eq. 11). ECE(0) is Cllr."""
    t, n = check_classes(target_llr, nontarget_llr)
    grid = _grid(log_odds)
    return np.array(
        [
            (expit(o) * mean(np.logaddexp(0.0, -(t + o))) + expit(-o) * mean(np.logaddexp(0.0, n + o))) / _LN2
            for o in grid
        ]
    )


def prior_entropy(log_odds: npt.ArrayLike) -> Array:
    """Binary entropy in bits of the prior at each log-odds [g] (Eq. 12)."""
    pi = expit(_grid(log_odds))
    return np.asarray(-(xlogy(pi, pi) + xlog1py(1 - pi, -pi)) / _LN2, dtype=np.float64)


def d_ece(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike) -> float:
    """Disclosed information in bits of LLRs (natural log) as they are, Eq. 13: in (-inf, 0.72135].

    A target at -inf or a non-target at +inf gives -inf.

    Example:
        >>> from pipeline.metrics import d_ece
        >>> d_ece([0.0, 0.0], [0.0])  # LLRs that say nothing
        0.0
        >>> round(d_ece([3.0, 1.0], [-2.0, -4.0]), 4)
        0.5727
    """
    t, n = check_classes(target_llr, nontarget_llr)
    return (mean(z_function(t)) + mean(z_function(-n))) / (2 * _LN2)


def d_ece_oracle(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> float:
    """D_ECE in bits after oracle calibration (PAV without the Laplace rule), in [0, 0.72135].

    Example:
        >>> from pipeline.metrics import d_ece_oracle
        >>> round(d_ece_oracle([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]), 4)
        0.501
    """
    return d_ece_of_blocks(calibrate(target, nontarget))


def d_ece_of_blocks(blocks: Calibration) -> float:
    """D_ECE of calibrated scores from their blocks, in bits; 0 or more without the Laplace rule."""
    value = mean_over_classes(blocks, z_function(blocks.llr), z_function(-blocks.llr)) / _LN2
    return value if blocks.laplace else max(value, 0.0)


def ece_profile(
    target: npt.ArrayLike, nontarget: npt.ArrayLike, log_odds: npt.ArrayLike | None = None, *, oracle: bool = True
) -> EceProfile:
    """ECE profile of scores, oracle-calibrated (PAV without the Laplace rule) or taken as natural-log LLRs.

    Args:
        target, nontarget: scores [T], [N].
        log_odds: prior log-odds (natural log); default 201 points from -10 to 10.
        oracle: calibrate first; else the scores are LLRs.
    """
    grid = np.linspace(-10.0, 10.0, 201) if log_odds is None else _grid(log_odds)
    if oracle:
        return ece_profile_of_blocks(calibrate(target, nontarget), grid)
    entropy, values = prior_entropy(grid), ece(target, nontarget, grid)
    return EceProfile(grid, entropy, values, entropy - values)


def ece_profile_of_blocks(blocks: Calibration, log_odds: Array) -> EceProfile:
    """ECE profile of calibrated scores from their blocks."""
    t, n = blocks.target > 0, blocks.nontarget > 0
    odds = log_odds[:, None]
    target = np.logaddexp(0.0, -(blocks.llr[t] + odds)) @ (blocks.target[t] / blocks.n_target)
    nontarget = np.logaddexp(0.0, blocks.llr[n] + odds) @ (blocks.nontarget[n] / blocks.n_nontarget)
    values = (expit(log_odds) * target + expit(-log_odds) * nontarget) / _LN2
    entropy = prior_entropy(log_odds)
    return EceProfile(log_odds, entropy, values, entropy - values)


def _grid(log_odds: npt.ArrayLike) -> Array:
    grid = np.atleast_1d(np.asarray(log_odds, dtype=np.float64))
    if not np.isfinite(check_vector(grid, "log-odds")).all():
        raise MetricError("prior log-odds must be finite")
    return grid


@dataclass(frozen=True)
class Zebra:
    """The two numbers and the tag of the ZEBRA framework for one set of scores."""

    d_ece: float = quantity("bit", "disclosed information on average, PAV without the Laplace rule", "lower")
    l_w: float = quantity("log10", "largest |LLR| of a trial, PAV with the Laplace rule", "lower")
    l_w_ceiling: float = quantity("log10", "largest l_w that this number of trials can show")
    tag: str = quantity("label", "category of l_w, 0 (best) and A to F", "lower")
    n_target: int = quantity("count", "target scores")
    n_nontarget: int = quantity("count", "non-target scores")


def zebra(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> Zebra:
    """ZEBRA of two classes of scores (higher means more similar; infinities are allowed).

    Example:
        >>> from pipeline.metrics import zebra
        >>> found = zebra([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5])
        >>> round(found.d_ece, 4), round(found.l_w, 4), found.tag
        (0.501, 0.6021, 'A')
        >>> round(found.l_w_ceiling, 4)  # so few trials cannot show more
        0.7959
    """
    t, n = check_classes(target, nontarget)
    rows = count_rows(np.sort(t), np.sort(n))
    worst = l_w_of_blocks(calibrate_rows(rows, laplace=True))
    average = d_ece_of_blocks(calibrate_rows(rows, laplace=False))
    return Zebra(average, worst, l_w_ceiling(t.size, n.size), tag(worst), t.size, n.size)


def l_w_of_blocks(blocks: Calibration) -> float:
    """Largest |LLR| of a real trial, in log10, from the blocks of a calibration with the Laplace rule."""
    return float(np.abs(blocks.llr).max() / LN10)


def l_w_ceiling(n_target: float, n_nontarget: float) -> float:
    """The largest l_w (log10) that so many trials can show: that of a perfectly separated set.

    Raises:
        MetricError: a class is empty.
    """
    if n_target <= 0 or n_nontarget <= 0:
        raise MetricError(f"there is no {'target' if n_target <= 0 else 'non-target'} score")
    t, n = float(n_target), float(n_nontarget)
    return float(np.log10(max((t + 1) * n / t, (n + 1) * t / n)))


def tag(l_w: float) -> str:
    """Category of l_w (log10) by Table 1 of Noe 2022: 0, A (0, 1), B [1, 2), C [2, 4), D [4, 5), E [5, 6), F [6, inf].

    With the Laplace rule, tag 0 is out of reach unless there are as many targets as non-targets.

    Raises:
        MetricError: negative or NaN.
    """
    if not l_w >= 0:
        raise MetricError(f"l_w must be 0 or more, not {l_w}")
    if l_w < 1e-12:
        return "0"
    return "ABCDEF"[int(np.searchsorted([1.0, 2.0, 4.0, 5.0, 6.0], l_w, side="right"))]
