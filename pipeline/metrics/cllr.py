"""Cost of log-likelihood ratios: Cllr, Cllr_min, Cllr_cal (Noe 2022, Eq. 4).

See pipeline/metrics/README.md, section 5.

Conventions: LLRs are natural logarithms, costs are bits; a higher cost is more private. Cllr takes scores as LLRs,
Cllr_min takes any scores of which higher means more similar.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, classes
from pipeline.metrics.pav import Calibration, calibrate

_LN2 = float(np.log(2.0))


def cllr(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike) -> float:
    """Cllr of LLRs (natural log) as they are, in bits: 0 perfect, 1 for LLRs of 0, unbounded above.

    A target at -inf or a non-target at +inf costs inf.

    Raises:
        MetricError: NaN or an empty class.

    Example:
        >>> from pipeline.metrics import cllr
        >>> cllr([0.0, 0.0], [0.0])  # LLRs that say nothing
        1.0
        >>> round(cllr([2.0, 1.0], [-2.0]), 4)
        0.2503
    """
    t, n = classes(target_llr, nontarget_llr)
    costs = mean(np.logaddexp(0.0, -t)), mean(np.logaddexp(0.0, n))
    total = sum(costs) / (2 * _LN2)
    return total if math.isfinite(total) else costs[0] / (2 * _LN2) + costs[1] / (2 * _LN2)


def mean(values: Array) -> float:
    """The mean of values [n]; of finite ones of extreme size, too, whose sum leaves the range of numbers."""
    with np.errstate(over="ignore"):
        found = float(values.mean())
        return found if math.isfinite(found) else float((values / values.size).sum())


def cllr_min(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> float:
    """Cllr after oracle calibration (PAV without the Laplace rule), in bits, in [0, 1].

    Raises:
        MetricError: NaN or an empty class.

    Example:
        >>> from pipeline.metrics import cllr_min
        >>> round(cllr_min([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]), 4)
        0.3021
    """
    return cllr_of_blocks(calibrate(target, nontarget))


def cllr_cal(target_llr: npt.ArrayLike, nontarget_llr: npt.ArrayLike) -> float:
    """Cllr - Cllr_min, the calibration loss in bits (inf where Cllr is).

    Raises:
        MetricError: NaN or an empty class.
    """
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
        held = count > 0
        with np.errstate(over="ignore"):
            mean = float(count[held] @ value[held] / count[held].sum())
            total += mean if math.isfinite(mean) else float(count[held] / count[held].sum() @ value[held])
    return total / 2
