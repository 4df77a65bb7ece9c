"""ZEBRA: what a set of scores discloses on average (D_ECE) and at worst (l_w and its tag) (Noe 2022).

See pipeline/metrics/README.md, sections 6 and 7.

Conventions: higher scores mean more similar; D_ECE is in bits and l_w in log10. Lower is more private for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import MetricError, classes
from pipeline.metrics._result import quantity
from pipeline.metrics.ece import d_ece_of_blocks
from pipeline.metrics.pav import Calibration, calibrate_rows, count_rows

LN10 = float(np.log(10.0))


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

    Raises:
        MetricError: NaN or an empty class.

    Example:
        >>> from pipeline.metrics import zebra
        >>> found = zebra([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5])
        >>> round(found.d_ece, 4), round(found.l_w, 4), found.tag
        (0.501, 0.6021, 'A')
        >>> round(found.l_w_ceiling, 4)  # so few trials cannot show more
        0.7959
    """
    t, n = classes(target, nontarget)
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
