"""A row of the interval dot plot: where dots and lines stand on an axis of disclosure, in percent of its length.

Percent, because the strip is as wide as there is room; a row is drawn by the template, so that it follows the page's colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FULL = 1 / (2 * math.log(2))
"""D_ECE of scores that tell all speakers apart, in bit."""
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
MOST_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """From 0 to ``top`` bit."""

    top: float
    step: float

    def at(self, value: float) -> float:
        """Where a value stands, in percent; what is outside stands at the end."""
        return round(100 * min(max(value / self.top, 0.0), 1.0), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(Where, what is written there)."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        numbers = [place * self.step for place in range(int(self.top / self.step + 1e-9) + 1)]
        return [(self.at(number), f"{number:.{digits}f}" if number else "0") for number in numbers]


def axis(values: Iterable[float]) -> Axis:
    """An axis that holds all values, NaN left out; no longer than the most that can be given away."""
    most = max((value for value in values if math.isfinite(value)), default=FULL)
    most = min(max(most, STEPS[0]), FULL)
    step = next((one for one in STEPS if most / one <= MOST_TICKS), STEPS[-1])
    return Axis(min(step * math.ceil(most / step - 1e-9), max(most, FULL)), step)


@dataclass(frozen=True)
class Dot:
    """An attack on the axis, and what is said of it."""

    x: float
    title: str
    strongest: bool


@dataclass(frozen=True)
class Strip:
    """The attacks on one system.

    Attributes:
        dots: hollow ones first, so that the strongest lies on top of them.
        interval: ends of the line through the strongest; none without an interval.
        chance: upper end of the null band; none where it is not known.
        unprotected: what unprotected speech gives away; none where that was not evaluated.
        label: all of it in words.
    """

    dots: Sequence[Dot]
    interval: tuple[float, float] | None
    chance: float | None
    unprotected: float | None
    label: str
