"""Two systems on the same trials: differences under one attack and under each one's strongest, tested by swapping speakers.

See pipeline/metrics/README.md, section 3.

If two systems are equally good, it does not matter which of them protected a speaker: his contributions to the two values
(:mod:`pipeline.metrics.strongest`) can be swapped. A swap turns the sign of the speaker's part of the difference, in all trials in which
he is on either side. The p-value is the share of swaps whose difference, in its standard error, is at least as large; few speakers
are enumerated. The contributions that are swapped add up to the values as they stand, not to the corrected ones: equally good systems have one
bias, and correcting it only adds noise that no swap knows of.

Under each system's strongest attack the difference is max θ_B(b) - max θ_A(a). That B discloses more is shown only if it is shown
against every attack on A: for each a the largest of the statistics over b is compared with the largest under the same swaps, and the
largest of these p-values counts. So neither many attacks on one system nor a choice among them calls equally good systems different.

Conventions: differences are B minus A; p-values are two-sided fractions; higher values disclose more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Indices, MetricError
from pipeline.metrics._result import quantity
from pipeline.metrics.strongest import DRAWS, Attacks, _none, contenders, freedom, joint_quantile, spread
from pipeline.metrics.uncertainty import Interval

VERSION = 1

FEWEST = 6
"""Speakers: with fewer no swap can reach a p-value of 5 %."""


@dataclass(frozen=True)
class Difference:
    """B minus A, with its interval and the p-value of two equally good systems."""

    difference: float = quantity("", "value of B minus value of A, in the metric's unit")
    interval: Interval = quantity("", "jackknife interval of the difference")
    p_value: float | None = quantity(
        "fraction", "two-sided, systems swapped speaker by speaker; None where reason says why"
    )
    reason: str = quantity("", "why there is no p-value, or empty")
    n_speakers: int = quantity("count", "speakers that were swapped")
    swaps: int = quantity("count", "swaps that were looked at")
    exact: bool = quantity("", "all swaps were enumerated")


def swaps(n: int, *, generator: np.random.Generator, draws: int = DRAWS) -> tuple[Array, bool]:
    """Signs [swaps, n] of swapped speakers, and whether they are all that there are.

    A swap and its complement give opposite differences, and both are looked at: the first speaker stays.
    """
    exact = n - 1 <= 30 and 2 ** (n - 1) <= draws + 1
    if exact:
        numbers = np.arange(2 ** (n - 1))
        signs = 1.0 - 2.0 * (numbers[:, None] >> np.arange(n - 1) & 1)
    else:
        signs = np.where(generator.random((draws, n - 1)) < 0.5, -1.0, 1.0)
    return np.concatenate([np.ones((len(signs), 1)), signs], axis=1), exact


def difference(
    a: Attacks, b: Attacks, *, generator: np.random.Generator, level: float = 0.95, draws: int = DRAWS
) -> Difference:
    """The difference between two systems, each under its strongest attack; under one attack where each has one.

    Args:
        a, b: the attacks on each system, over the same speakers.

    Raises:
        MetricError: speakers that differ, or a system without an attack.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import attacks_of, difference
        >>> names, random = list("abcdefgh"), np.random.default_rng(0)
        >>> left = random.normal(size=8) * 0.01
        >>> a = attacks_of([0.2], [0.2 + left], names, degrees=7, bounds=(0, 0.72))
        >>> b = attacks_of([0.4], [0.4 - left], names, degrees=7, bounds=(0, 0.72))
        >>> found = difference(a, b, generator=random)
        >>> round(found.difference, 3), found.exact, found.p_value
        (0.2, True, 0.0078125)
    """
    if a.speakers != b.speakers:
        raise MetricError("two systems are compared over the same speakers")
    if not (a.values.size and b.values.size):
        raise MetricError("there is no attack")
    plain = float(b.values.max() - a.values.max())
    n = len(a.speakers)
    lacking = _lacks(a, b)
    if lacking:
        return Difference(plain, _none(level, n, lacking), None, lacking, n, 0, False)
    one, other = a.only(contenders(a)), b.only(contenders(b))
    # [B, A, S]: what each speaker contributes to the difference of each attack on B and each on A.
    parts = other.contributions[:, None, :] - one.contributions[None, :, :]
    interval = _interval(parts, a, b, level)
    if n < FEWEST:
        return Difference(
            plain, interval, None, f"{n} speakers are too few to tell a difference from chance", n, 0, False
        )
    signs, exact = swaps(n, generator=generator, draws=draws)
    parts = _uncorrected(other)[:, None, :] - _uncorrected(one)[None, :, :]
    higher, lower = _one_sided(parts, signs, exact), _one_sided(-parts.swapaxes(0, 1), signs, exact)
    return Difference(plain, interval, min(1.0, 2 * min(higher, lower)), "", n, len(signs), exact)


def _uncorrected(attacks: Attacks) -> Array:
    """Contributions [A, S] that add up to the values as they stand."""
    found: Array = attacks.contributions + (attacks.values - attacks.corrected)[:, None] / len(attacks.speakers)
    return found


def _lacks(a: Attacks, b: Attacks) -> str:
    if (a.degrees < 1).any() or len(a.speakers) < 2 or np.bincount(a.stratum).min() < 2:
        return "an interval over speakers needs at least two enrolled speakers"
    if not (np.isfinite(a.contributions).all() and np.isfinite(b.contributions).all()):
        return "the metric is not finite, here or without one of the speakers"
    return ""


def _one_sided(parts: Array, signs: Array, exact: bool) -> float:
    """p-value of that the strongest of the first axis is above the strongest of the second; parts [B, A, S]."""
    size = np.sqrt((parts**2).sum(axis=2))
    units = parts / np.where(size > 0, size, 1.0)[:, :, None]
    seen = units.sum(axis=2).max(axis=0)
    drawn = np.einsum("rs,bas->rba", signs, units, optimize=True)
    # A swap and its complement.
    reached = (drawn.max(axis=1) >= seen - 1e-12).sum(axis=0) + (-drawn.min(axis=1) >= seen - 1e-12).sum(axis=0)
    count = 2 * len(signs)
    shares = reached / count if exact else (reached + 1) / (count + 1)
    return float(shares.max())


def _interval(parts: Array, a: Attacks, b: Attacks, level: float) -> Interval:
    """Of max over the first axis of min over the second, and of what it is from the other side."""
    n = len(a.speakers)
    bounds = b.bounds[0] - a.bounds[1], b.bounds[1] - a.bounds[0]
    low = _lower(parts, a.stratum, a.degrees, level)
    high = -_lower(-parts.swapaxes(0, 1), a.stratum, a.degrees, level)
    if math.isnan(low) or math.isnan(high):
        return _none(level, n, "the difference is the same without any one speaker")
    return Interval(max(low, bounds[0]), min(high, bounds[1]), "jackknife", level, n, "")


def _lower(parts: Array, stratum: Indices, degrees: Array, level: float) -> float:
    deviations = spread(parts, stratum)
    errors = np.sqrt((deviations**2).sum(axis=2))
    if not (errors > 0).any():
        return math.nan
    freedoms = freedom(deviations, stratum, degrees)
    reach = np.array(
        [joint_quantile(deviations[:, k], float(freedoms[:, k].min()), (1 + level) / 2) for k in range(parts.shape[1])]
    )
    return float((parts.sum(axis=2) - reach[None, :] * errors).min(axis=1).max())


# --- many comparisons -----------------------------------------------------------------------------------------------


def holm(p_values: npt.ArrayLike) -> Array:
    """p-values [n] corrected for their number (Holm 1979); NaN stays NaN and does not count.

    Example:
        >>> from pipeline.metrics import holm
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    found = np.full(p.shape, np.nan)
    order = [k for k in np.argsort(p, kind="stable") if not np.isnan(p[k])]
    worst = 0.0
    for place, k in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - place) * float(p[k])))
        found[k] = worst
    return found


def shared_ranks(n: int, better: Sequence[tuple[int, int]]) -> list[int]:
    """Ranks from 1 of n systems: one more than the number of systems that are shown to be better.

    Args:
        better: pairs (k, m) where k is shown to be better than m.

    Example:
        >>> from pipeline.metrics import shared_ranks
        >>> shared_ranks(3, [(0, 2)])  # only the first and the last are told apart
        [1, 1, 2]
    """
    return [1 + len({k for k, other in better if other == m}) for m in range(n)]
