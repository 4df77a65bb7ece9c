"""Oracle calibration: pool adjacent violators (PAV) over scores with ties pooled.

See pipeline/metrics/README.md, section 2.

Everything works on counts along ascending scores, so that one sort serves all metrics. Only the smaller class is told
apart score by score: the scores of the larger class between two neighbouring scores of the smaller one form a single
row. A block of the isotonic solution never ends inside such a row (the convex hull of the ROC has no corner inside a
straight stretch), so nothing is lost.

Conventions: higher scores mean more similar; infinities are scores like others, NaN and an empty class are
MetricErrors; LLRs are natural logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from pipeline.metrics._base import Array, Indices, MetricError, check_classes, check_vector


@dataclass(frozen=True)
class Rows:
    """Counts of both classes in rows of ascending score, equal scores in one row."""

    target: Array
    """[m] number (or weight) of targets."""
    nontarget: Array
    """[m] number (or weight) of non-targets."""
    lowest: npt.NDArray[Any]
    """[m] lowest score of the row, in the scores' own dtype."""

    @property
    def n_target(self) -> float:
        return float(self.target.sum())

    @property
    def n_nontarget(self) -> float:
        return float(self.nontarget.sum())


def count_rows(target: npt.NDArray[Any], nontarget: npt.NDArray[Any]) -> Rows:
    """Rows of two *ascending* score vectors without NaN."""
    if target.size <= nontarget.size:
        few, many, lowest = _interleave(target, nontarget)
        return Rows(few, many, lowest)
    few, many, lowest = _interleave(nontarget, target)
    return Rows(many, few, lowest)


def _interleave(few: npt.NDArray[Any], many: npt.NDArray[Any]) -> tuple[Array, Array, npt.NDArray[Any]]:
    first = np.flatnonzero(np.concatenate(([True], few[1:] != few[:-1])))
    distinct = few[first]
    counts = np.diff(np.append(first, few.size))
    left = np.searchsorted(many, distinct, side="left")
    right = np.searchsorted(many, distinct, side="right")
    start = np.concatenate(([0], right))
    stop = np.append(left, many.size)

    m = distinct.size
    few_count, many_count = np.zeros(2 * m + 1), np.empty(2 * m + 1)
    few_count[1::2] = counts
    many_count[0::2] = stop - start
    many_count[1::2] = right - left
    lowest = np.empty(2 * m + 1, dtype=np.result_type(few, many))
    lowest[0::2] = many[np.minimum(start, many.size - 1)]
    lowest[1::2] = distinct
    kept = few_count + many_count > 0
    return few_count[kept], many_count[kept], lowest[kept]


def pool(target: Array, nontarget: Array) -> tuple[Array, Array, Indices]:
    """Pool adjacent violators over rows of positive total weight.

    Args:
        target, nontarget: [m] weights of the two classes along ascending scores.

    Returns:
        Target and non-target weight of each block [b], and the index [b] of each block's first row. The share of
        targets strictly rises from block to block.
    """
    total = target + nontarget
    borders = isotonic_regression(target / total, weights=total).blocks[:-1]
    return np.add.reduceat(target, borders), np.add.reduceat(nontarget, borders), borders.astype(np.int64)


def block_llr(target: Array, nontarget: Array, n_target: float, n_nontarget: float) -> Array:
    """ln(t/n) - ln(T/N) of each block; -inf without targets, +inf without non-targets."""
    llr = np.empty(target.size)
    both = (target > 0) & (nontarget > 0)
    llr[target == 0] = -np.inf
    llr[nontarget == 0] = np.inf
    llr[both] = np.log((target[both] * n_nontarget) / (nontarget[both] * n_target))
    return llr


@dataclass(frozen=True)
class Calibration:
    """The monotone map from score to log-likelihood ratio that PAV finds on a set of scores."""

    lowest: npt.NDArray[Any]
    """[b] lowest score of each block, ascending."""
    llr: Array
    """[b] log-likelihood ratio of each block, natural logarithm, strictly rising."""
    target: Array
    """[b] targets in each block (without the Laplace rule's additions)."""
    nontarget: Array
    """[b] non-targets in each block."""
    laplace: bool
    """Whether the Laplace rule was used: then every LLR is finite."""

    @property
    def n_target(self) -> float:
        return float(self.target.sum())

    @property
    def n_nontarget(self) -> float:
        return float(self.nontarget.sum())

    def block_of(self, scores: npt.NDArray[Any]) -> Indices:
        """Index of the block of each score (any shape); scores outside the trained range belong to the end blocks."""
        return np.searchsorted(self.lowest[1:], scores, side="right")

    def apply(self, scores: npt.ArrayLike) -> Array:
        """The LLR (natural log) of each score [n], as a step function that holds the end values outside.

        Raises:
            MetricError: NaN.
        """
        llr: Array = self.llr[self.block_of(check_vector(scores, "scores"))]
        return llr


def calibrate_rows(rows: Rows, *, laplace: bool) -> Calibration:
    """PAV on rows.

    With ``laplace`` one target and one non-target are added below the lowest score and above the highest, and dropped
    after PAV; the prior stays that of the real trials (Noe 2022, footnote 6).

    Raises:
        MetricError: a class without weight.
    """
    n_target, n_nontarget = rows.n_target, rows.n_nontarget
    if not (n_target > 0 and n_nontarget > 0):
        raise MetricError(f"there is no {'target' if n_nontarget > 0 else 'non-target'} score")
    used = rows.target + rows.nontarget > 0
    target, nontarget, lowest = rows.target, rows.nontarget, rows.lowest
    if not used.all():
        target, nontarget, lowest = target[used], nontarget[used], lowest[used]
    if not laplace:
        t, n, first = pool(target, nontarget)
        llr = block_llr(t, n, n_target, n_nontarget)
        return Calibration(lowest[first], llr, t, n, laplace=False)

    t, n, first = pool(np.concatenate(([1.0], target, [1.0])), np.concatenate(([1.0], nontarget, [1.0])))
    llr = block_llr(t, n, n_target, n_nontarget)
    t[0], n[0] = t[0] - 1, n[0] - 1
    t[-1], n[-1] = t[-1] - 1, n[-1] - 1
    first = np.maximum(first - 1, 0)
    real = t + n > 0
    t, n, llr, first = t[real], n[real], llr[real], first[real]
    return Calibration(lowest[first], llr, t, n, laplace=True)


def calibrate(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, laplace: bool = False) -> Calibration:
    """Oracle calibration: the PAV map of the very scores under test.

    Args:
        target, nontarget: scores [T], [N]; higher means more similar; infinities are allowed.
        laplace: use the Laplace rule (for l_w and voice similarity matrices; not for Cllr_min and D_ECE).

    Example:
        >>> from pipeline.metrics import calibrate
        >>> found = calibrate([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5])
        >>> found.apply([-1.0, 1.2, 9.0]).round(3).tolist()
        [-inf, 0.916, inf]
    """
    t, n = check_classes(target, nontarget)
    return calibrate_rows(count_rows(np.sort(t), np.sort(n)), laplace=laplace)


def oracle_llr(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, laplace: bool = False) -> tuple[Array, Array]:
    """Oracle-calibrated LLRs (natural log) of the targets [T] and non-targets [N], in the order given."""
    calibration = calibrate(target, nontarget, laplace=laplace)
    return calibration.apply(target), calibration.apply(nontarget)
