"""Weighted means of metrics over several sets, with intervals made of those of the parts.

See pipeline/metrics/README.md, section 3.

Conventions: weights add up to 1; an interval is (low, high) in the unit of its value.

MOVER (method of variance estimates recovery; Zou and Donner 2008) takes the distance from each part's value to its limit for what
the variance is on that side, so that skewed intervals stay skewed. It asks for independent parts. Parts with speakers in common are
not independent: their distances are added in full first, which is right where they move as one and wide otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

VERSION = "weighted means 1"


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The sum of weights times values; NaN where a value is NaN, or where infinities of both signs meet."""
    return sum(weight * value for value, weight in zip(values, weights, strict=True))


def interval(
    values: Sequence[float],
    ends: Sequence[tuple[float, float]],
    weights: Sequence[float],
    groups: Sequence[Sequence[int]],
) -> tuple[float, float] | None:
    """The interval of a weighted mean; None where a value or an end is not finite.

    A bias-corrected interval may lie beside its value; the nearer end then stands for the value.

    Args:
        values: of the parts [n].
        ends: (low, high) of the interval of each part [n].
        weights: above 0 [n].
        groups: the places of the parts, those that have speakers in common together; each place once.

    Example:
        >>> low, high = interval([0.3, 0.2], [(0.24, 0.36), (0.12, 0.28)], [0.5, 0.5], [[0], [1]])
        >>> round(low, 6), round(high, 6)  # 0.25 and half of sqrt(0.06^2 + 0.08^2) = 0.1
        (0.2, 0.3)
        >>> low, high = interval([0.3, 0.2], [(0.24, 0.36), (0.12, 0.28)], [0.5, 0.5], [[0, 1]])
        >>> round(low, 6), round(high, 6)
        (0.18, 0.32)
    """
    if not all(math.isfinite(number) for number in (*values, *(end for pair in ends for end in pair))):
        return None
    centres = [min(max(value, low), high) for value, (low, high) in zip(values, ends, strict=True)]
    middle = weighted_mean(centres, weights)
    below = [sum(weights[k] * (centres[k] - ends[k][0]) for k in group) for group in groups]
    above = [sum(weights[k] * (ends[k][1] - centres[k]) for k in group) for group in groups]
    return middle - math.hypot(*below), middle + math.hypot(*above)


def band(
    ends: Sequence[tuple[float, float]], weights: Sequence[float], groups: Sequence[Sequence[int]]
) -> tuple[float, float] | None:
    """The null band of a weighted mean, about the middles of those of the parts; None where one has none."""
    return interval([(low + high) / 2 for low, high in ends], ends, weights, groups)


def group_by_speakers(members: Sequence[frozenset[str]]) -> list[list[int]]:
    """The places of the parts, those together that have speakers in common, directly or through others.

    Args:
        members: the speakers of each part.
    """
    groups: list[tuple[frozenset[str], list[int]]] = []
    for place, speakers in enumerate(members):
        joined = [group for group in groups if group[0] & speakers]
        groups = [group for group in groups if not group[0] & speakers]
        everybody = speakers.union(*(group[0] for group in joined))
        groups.append((everybody, sorted([place, *(member for group in joined for member in group[1])])))
    return sorted(places for _, places in groups)
