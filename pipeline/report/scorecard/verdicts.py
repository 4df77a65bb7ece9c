"""The verdict on one cell: a print is an interval, and so is a number of ours."""

from __future__ import annotations

import math

from pipeline.tables.published import Ends

REPRODUCED = "reproduced"
WITHIN = "within interval"
DIFFERS = "differs"
PARTIAL = "partial"
"""A number of ours that does not stand on everything: near the print or not, it is not that number."""
NOT_RUN = "not run"
CANNOT = "cannot follow from the printed inputs"
DISAGREE = "sources disagree"
SEVERAL = "several of ours match"
VERDICTS = (REPRODUCED, WITHIN, DIFFERS, PARTIAL, NOT_RUN, CANNOT, DISAGREE, SEVERAL)

FOLLOWS = "follows"
CONSISTENT = "consistent"
UNCHECKED = "cannot be checked"
RECOMPUTED = (FOLLOWS, CONSISTENT, CANNOT, DISAGREE, UNCHECKED)
"""Verdicts without a run. ``CONSISTENT``: a bound or a grid that other cells set is kept, which is less than to follow."""

_SCALE = {("%", "fraction"): 0.01, ("fraction", "%"): 100.0, ("", "fraction"): 1.0, ("fraction", ""): 1.0}


def factor(given: str, wanted: str) -> float | None:
    """What turns a number in one unit into another; None where nothing does."""
    return 1.0 if given == wanted else _SCALE.get((given, wanted))


def meet(one: Ends, other: Ends) -> bool:
    """Whether two intervals share a number, up to rounding of the last bits."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return low <= high or math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)


def judge(printed: Ends, ours: float, interval: Ends | None, tolerance: float) -> str:
    """The verdict on a number.

    Args:
        printed: the numbers that may have been printed so.
        ours: our value, in the printed unit.
        interval: our 95 % interval; None where there is none.
        tolerance: how far ours may lie from the print.
    """
    if meet((printed[0] - tolerance, printed[1] + tolerance), (ours, ours)):
        return REPRODUCED
    return WITHIN if interval is not None and meet(printed, interval) else DIFFERS
