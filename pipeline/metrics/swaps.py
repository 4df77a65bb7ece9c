"""Two systems on the same trials: differences under one attack and under each one's strongest, tested by swapping speakers.

See pipeline/metrics/README.md, section 3.

If two systems are equally good, it does not matter which of them protected a speaker: his shares of the two values
(:mod:`pipeline.metrics.maximum`) can be swapped. A swap turns the sign of the speaker's share of the difference, in all trials in which
he is on either side. The p-value is the share of swaps whose difference, in its standard error, is at least as large; few speakers
are enumerated. A speaker with many utterances makes much of the difference, and his share is as large: of a mean over utterances it is
n d / N. Equal shares of it would hide who made it. Shares add up to the values as they stand, not to the corrected ones: equally good
systems have one bias, and correcting it only adds noise that no swap knows of.

The interval holds all amounts that the same test does not reject when they are taken from the speakers in proportion to their weights.
Of one attack its ends are order statistics of the difference over all groups of speakers (Hartigan 1969).

Under each system's strongest attack the difference is max θ_B(b) - max θ_A(a). That B discloses more is shown only if it is shown
against every attack on A: for each a the largest of the statistics over b is compared with the largest under the same swaps, and the
largest of these p-values counts. So neither many attacks on one system nor a choice among them calls equally good systems different.

Conventions: differences are B minus A; p-values are two-sided fractions; higher values disclose more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.metrics._base import Array, Indices, Mask, MetricError, quantity
from pipeline.metrics.maximum import DRAWS, Attacks, contenders
from pipeline.metrics.pav import calibrate_rows, count_rows
from pipeline.metrics.trial_uncertainty import BLOCK_METRICS, TRIAL_METRICS, Reweighted, metric_bounds
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import NOT_FINITE, TOO_FEW, BySpeaker, Interval, intervals, no_interval

VERSION = "system differences 2"

FEWEST = 6
"""Speakers: with fewer no swap can reach a p-value of 5 %."""
HALVINGS, FARTHEST = 16, 1e6
"""Steps in which an end of an interval is found, and how far it is looked for."""


@dataclass(frozen=True)
class Difference:
    """B minus A, with its interval and the p-value of two equally good systems."""

    difference: float = quantity("", "value of B minus value of A, in the metric's unit")
    interval: Interval = quantity("", "of the difference: what swaps do not reject")
    p_value: float | None = quantity(
        "fraction", "two-sided, systems swapped speaker by speaker; None where reason says why"
    )
    reason: str = quantity("", "why there is no p-value, or empty")
    n_speakers: int = quantity("count", "speakers that were swapped")
    swaps: int = quantity("count", "swaps that were looked at")
    exact: bool = quantity("", "all swaps were enumerated")


def draw_swaps(n: int, *, generator: np.random.Generator, draws: int = DRAWS) -> tuple[Array, bool]:
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
        >>> from pipeline.metrics import collect_attacks, difference
        >>> names, random = list("abcdefgh"), np.random.default_rng(0)
        >>> left = random.normal(size=8) * 0.01
        >>> a = collect_attacks([0.2], [0.2 + left], names, degrees=7, bounds=(0, 0.72))
        >>> b = collect_attacks([0.4], [0.4 - left], names, degrees=7, bounds=(0, 0.72))
        >>> found = difference(a, b, generator=random)
        >>> round(found.difference, 3), found.exact, found.p_value
        (0.2, True, 0.0078125)
    """
    if a.speakers != b.speakers:
        raise MetricError("two systems are compared over the same speakers")
    if not (a.values.size and b.values.size):
        raise MetricError("there is no attack")
    value = float(b.values.max() - a.values.max())
    n = len(a.speakers)
    lacking = _lacks(a, b)
    if lacking:
        return Difference(value, no_interval("jackknife", level, n, lacking), None, lacking, n, 0, False)
    strong_a, strong_b = a.only(contenders(a)), b.only(contenders(b))
    signs, exact = draw_swaps(n, generator=generator, draws=draws)
    weights = (a.weights + b.weights) / 2
    # [B, A, S]: each speaker's share of the difference of each attack on B and each on A.
    shares = _uncorrected(strong_b)[:, None, :] - _uncorrected(strong_a)[None, :, :]
    higher, lower = (_Swapped(parts, weights, signs, exact) for parts in (shares, -shares.swapaxes(0, 1)))
    p_value = min(1.0, 2 * min(higher.p_value(0.0), lower.p_value(0.0)))
    if not (np.abs(shares - shares.sum(axis=2, keepdims=True) * weights / weights.sum()) > 1e-14).any():
        none = no_interval("jackknife", level, n, "the difference is the same without any one speaker")
        return Difference(value, none, p_value, "", n, len(signs), exact)
    bounds = b.bounds[0] - a.bounds[1], b.bounds[1] - a.bounds[0]
    low, high = higher.limit((1 - level) / 2), -lower.limit((1 - level) / 2)
    interval = Interval(max(low, bounds[0]), min(high, bounds[1]), "swaps", level, n, "")
    return Difference(value, interval, p_value, "", n, len(signs), exact)


def _uncorrected(attacks: Attacks) -> Array:
    """Shares [A, S] that add up to the values as they stand."""
    shares: Array = attacks.shares + np.outer(
        attacks.values - attacks.shares.sum(axis=1), attacks.weights / attacks.weights.sum()
    )
    return shares


def _lacks(a: Attacks, b: Attacks) -> str:
    n = len(a.speakers)
    if (a.degrees < 1).any() or n < 2 or np.bincount(a.stratum).min() < 2:
        return TOO_FEW
    if not (np.isfinite(a.contributions).all() and np.isfinite(b.contributions).all()):
        return NOT_FINITE
    return f"{n} speakers are too few to tell a difference from chance" if n < FEWEST else ""


class _Swapped:
    """A one-sided test that the strongest attack of the first axis is above the strongest of the second by more than an amount.

    An amount δ is taken from each speaker in proportion to his weight, and what is left is swapped.
    """

    def __init__(self, parts: Array, weights: Array, signs: Array, exact: bool) -> None:
        """Of parts [B, A, S], weights [S] and signs [swaps, S]."""
        self.parts, self.weights, self.exact = parts, weights, exact
        self.sums, self.total = parts.sum(axis=2), float(weights.sum())
        self.drawn = (signs @ parts.reshape(-1, parts.shape[2]).T).reshape(len(signs), *self.sums.shape)
        self.drawn_weights = signs @ weights

    def p_value(self, amount: float) -> float:
        """Against each of the second axis the largest statistic of the first; the largest p-value counts."""
        size = np.sqrt(((self.parts - amount * self.weights) ** 2).sum(axis=2))
        size = np.where(size > 0, size, 1.0)
        seen = ((self.sums - amount * self.total) / size).max(axis=0) - 1e-12
        drawn = (self.drawn - amount * self.drawn_weights[:, None, None]) / size
        # A swap and its complement.
        reached = (drawn.max(axis=1) >= seen).sum(axis=0) + (-drawn.min(axis=1) >= seen).sum(axis=0)
        count = 2 * len(drawn)
        shares = reached / count if self.exact else (reached + 1) / (count + 1)
        return float(shares.max())

    def limit(self, level: float) -> float:
        """The largest amount at which the p-value is at most ``level``: what is not rejected lies above."""
        high = float(self.sums.max()) / self.total  # there half of all swaps reach
        step = float(np.sqrt((self.parts**2).sum(axis=2)).max()) + 1e-12
        low = min(0.0, high - step)
        while self.p_value(low) > level:
            low, high, step = low - step, low, 2 * step
            if step > FARTHEST:
                return -math.inf
        if low < 0.0 < high:  # so that 0 lies outside exactly where the p-value says so
            low, high = (0.0, high) if self.p_value(0.0) <= level else (low, 0.0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.p_value(middle) <= level else (low, middle)
        return low


# --- ranks of systems ---


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


# --- one attack, metric by metric ---


@dataclass(frozen=True)
class Paired:
    """Difference of a metric between two systems on the same trials, B minus A."""

    difference: float = quantity("", "value of B minus value of A, in the metric's unit")
    interval: Interval = quantity("", "jackknife interval of the difference")
    p_value: float | None = quantity("fraction", "two-sided, systems swapped speaker by speaker")
    replicates: int = quantity("count", "swaps")
    exact: bool = quantity("", "all swaps were enumerated")


def paired_tests(
    a: Trials,
    b: Trials,
    *,
    generator: np.random.Generator,
    metrics: Sequence[str] = TRIAL_METRICS,
    replicates: int = 1000,
    level: float = 0.95,
) -> dict[str, Paired]:
    """Differences B - A of metrics of two systems on the same trials, with jackknife intervals and p-values.

    Under the null hypothesis the two systems can be swapped speaker by speaker: all trials of an enrolled speaker
    change systems together. Scores are first replaced by their ranks within their own system, which changes no
    PAV metric and makes systems of different score scales comparable. Where 2^(speakers - 1) swaps do not
    exceed ``replicates``, all are enumerated.

    Args:
        a, b: the same trials in the same order.
        metrics: any of ``eer.rocch``, ``cllr_min``, ``d_ece``, ``d_sys.exact``.

    Raises:
        MetricError: the trials differ, or an unknown metric.
    """
    if not (np.array_equal(a.enrolled, b.enrolled) and np.array_equal(a.spoken, b.spoken)):
        raise MetricError("paired systems need the same trials in the same order")
    unknown = [name for name in metrics if name not in BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no paired test for {', '.join(unknown)}")
    difference = _difference(a, b, metrics)
    interval = intervals(difference, level=level)
    values = difference.evaluate(difference.everybody)
    models = np.unique(a.enrolled)
    exact = 2 ** (models.size - 1) <= replicates
    reached, count = dict.fromkeys(metrics, 0), 0
    swapped = _swapped(a, b, metrics)
    for swap in _swaps(models, a.n_codes, replicates, exact, generator):
        count += 1
        for name, swapped_value in swapped(swap).items():
            reached[name] += abs(swapped_value) >= abs(values[name]) - 1e-12
    return {
        name: Paired(
            values[name],
            interval[name],
            reached[name] / count if exact else (reached[name] + 1) / (count + 1),
            count,
            exact,
        )
        for name in metrics
    }


def _difference(a: Trials, b: Trials, metrics: Sequence[str]) -> BySpeaker:
    first, second = Reweighted(a, metrics), Reweighted(b, metrics)

    def evaluate(weights: Array) -> dict[str, float]:
        of_a, of_b = first(weights), second(weights)
        return {name: of_b[name] - of_a[name] for name in metrics}

    spans = {name: high - low for name, (low, high) in ((name, metric_bounds(name)) for name in metrics)}
    return BySpeaker(
        evaluate,
        np.union1d(a.enrolled, a.spoken),
        degrees=np.unique(a.enrolled).size - 1,
        bounds={name: (-span, span) for name, span in spans.items()},
    )


def _swapped(a: Trials, b: Trials, metrics: Sequence[str]) -> Callable[[Mask], dict[str, float]]:
    """The differences B - A of ranked scores where the enrolled speakers of a mask [codes] change systems."""
    ranks = np.concatenate([_ranks(a.scores), _ranks(b.scores)])
    order = np.argsort(ranks, kind="stable")
    ranks = ranks[order]
    system_b = order >= a.scores.size
    trial = order % a.scores.size
    enrolled, is_target = a.enrolled[trial], a.is_target[trial]

    def difference(swap: Mask) -> dict[str, float]:
        in_b = system_b ^ swap[enrolled]
        of_a = _block_values(ranks[is_target & ~in_b], ranks[~is_target & ~in_b], metrics)
        of_b = _block_values(ranks[is_target & in_b], ranks[~is_target & in_b], metrics)
        return {name: of_b[name] - of_a[name] for name in metrics}

    return difference


def _ranks(scores: Array) -> Array:
    """Mean rank of each score, equal scores sharing theirs."""
    ranked = np.sort(scores)
    left, right = np.searchsorted(ranked, scores, side="left"), np.searchsorted(ranked, scores, side="right")
    mean: Array = (left + right - 1) / 2
    return mean


def _block_values(target: Array, nontarget: Array, metrics: Sequence[str]) -> dict[str, float]:
    blocks = calibrate_rows(count_rows(target, nontarget), laplace=False)
    return {name: BLOCK_METRICS[name](blocks) for name in metrics}


def _swaps(
    models: Indices, n_codes: int, replicates: int, exact: bool, generator: np.random.Generator
) -> Iterator[Mask]:
    if exact:
        # A swap and its complement give the same absolute difference: the first speaker stays.
        for others in itertools.product((False, True), repeat=models.size - 1):
            swap = np.zeros(n_codes, dtype=bool)
            swap[models[1:]] = others
            yield swap
        return
    for _ in range(replicates):
        swap = np.zeros(n_codes, dtype=bool)
        swap[models] = generator.random(models.size) < 0.5
        yield swap
