"""The biometric zoo: who is easily recognised, who is easily taken for others.

See pipeline/metrics/README.md, section 9.

Conventions: x and y are mean LLRs in nat (natural logarithms), one of each a speaker.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, MetricError, round_means
from pipeline.metrics._result import quantity

VERSION = "biometric zoo 2"

NEAR_ZERO = 0.1
"""Mean LLRs within this many nat of 0 on both axes are no evidence of a character."""

FEWEST = 8
"""Quartiles of fewer speakers name nobody: only the coordinates are given."""


@dataclass(frozen=True)
class Zoo:
    """Coordinates and characters of N speakers."""

    x: Array = quantity("nat", "[N] mean oracle LLR of the speaker's own pairs")
    y: Array = quantity("nat", "[N] mean oracle LLR of the speaker's pairs with others")
    doddington: tuple[str, ...] = quantity("label", "[N] goat, wolf/lamb, goat and wolf/lamb, sheep, or empty")
    dunstone_yager: tuple[str, ...] = quantity("label", "[N] worm, dove, phantom, chameleon, none, or empty")
    note: str = quantity("", "why there are no labels, or empty")


def zoo(x: npt.ArrayLike, y: npt.ArrayLike) -> Zoo:
    """Characters by quartiles of x and y [N], in nat.

    Doddington: goat in the lowest quartile of x, wolf/lamb in the highest of y, else sheep. Dunstone and Yager: worm
    (low x, high y), dove (high x, low y), phantom (both low), chameleon (both high). Speakers with |x| and |y| below
    0.1 nat are ``near zero evidence``. Under 8 speakers, or with infinite means, all labels are empty.

    Raises:
        MetricError: lengths that differ.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.size != y.size:
        raise MetricError(f"{x.size} x for {y.size} y")
    if x.size < FEWEST:
        empty = ("",) * x.size
        return Zoo(x, y, empty, empty, f"{x.size} speakers: quartiles need at least {FEWEST}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        empty = ("",) * x.size
        return Zoo(x, y, empty, empty, "a speaker's mean LLR is not finite")
    (low_x, high_x), (low_y, high_y) = (
        (mean <= np.quantile(mean, 0.25), mean >= np.quantile(mean, 0.75)) for mean in (round_means(x), round_means(y))
    )
    near_zero = (np.abs(x) < NEAR_ZERO) & (np.abs(y) < NEAR_ZERO)

    doddington, dunstone_yager = [], []
    for i in range(x.size):
        if near_zero[i]:
            doddington.append("near zero evidence")
            dunstone_yager.append("near zero evidence")
            continue
        roles = [role for role, held in (("goat", low_x[i]), ("wolf/lamb", high_y[i])) if held]
        doddington.append(" and ".join(roles) or "sheep")
        if low_x[i] and high_y[i]:
            dunstone_yager.append("worm")
        elif high_x[i] and low_y[i]:
            dunstone_yager.append("dove")
        elif low_x[i] and low_y[i]:
            dunstone_yager.append("phantom")
        elif high_x[i] and high_y[i]:
            dunstone_yager.append("chameleon")
        else:
            dunstone_yager.append("none")
    return Zoo(x, y, tuple(doddington), tuple(dunstone_yager), "")
