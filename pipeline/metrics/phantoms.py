"""How small a leak an evaluation would have seen: phantoms that pass unprotected with a probability that is known.

See pipeline/metrics/README.md, section 18b.

Some units (utterances, or speakers with all they say) are taken at random and left unprotected: their trials get the scores that
the original recordings have. Nothing is recorded or extracted anew, so that the leak of the mixture is known exactly. The leak is
seen where D_ECE lies above the null band; the limit of detection is the probability q from which on that happens in 95 % of draws.

Conventions: higher scores mean more similar; D_ECE is in bits. Units have one numbering over all sets of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, Mask, MetricError, check_codes, check_vector, quantity
from pipeline.metrics.information import d_ece_of_blocks
from pipeline.metrics.pav import calibrate_rows, count_rows
from pipeline.metrics.trial_uncertainty import trials_by_identity
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import null_bands

VERSION = "detection limit 1"

POWER = 0.95
"""The share of draws in which a leak at the limit is seen."""

STEP, COARSE, NEAR = 0.02, 250, 16
"""The grid of probabilities goes in steps of 2 %. So many draws find the limit about, and all of them find it so many steps around."""

LADDER = (0.0, *(2.0**-k for k in range(8, -1, -1)))
"""Probabilities of the curve: 0, 1/256, 1/128, ... 1."""


@dataclass(frozen=True)
class PhantomTrials:
    """Trials of which each has the score of the protected recording and that of the original one."""

    protected: Array
    """[n] scores of an attack on the protected speech."""
    unprotected: Array
    """[n] scores of the same trials on the original speech, on the same scale (:func:`align_scores`)."""
    is_target: Mask
    """[n] whether the enrolled speaker spoke."""
    unit: Indices
    """[n] code of what leaks as a whole: the trial's utterance, or its speaker."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protected", check_vector(self.protected, "scores on protected speech"))
        object.__setattr__(self, "unprotected", check_vector(self.unprotected, "scores on original speech"))
        object.__setattr__(self, "unit", check_codes(self.unit, "units"))
        target = np.asarray(self.is_target, dtype=np.bool_)
        object.__setattr__(self, "is_target", target)
        if not self.protected.shape == self.unprotected.shape == target.shape == self.unit.shape:
            raise MetricError("phantoms need the scores of the same trials on protected and on original speech")
        if target.all() or not target.any():
            raise MetricError(f"there is no {'non-target' if target.all() else 'target'} score")

    @cached_property
    def _ascending(self) -> tuple[Array, Mask, Indices, Mask]:
        """All 2n scores, whether they are targets, their units, and whether they are of original speech, by ascending score."""
        scores = np.concatenate((self.protected, self.unprotected))
        order = np.argsort(scores, kind="stable")
        original = np.arange(scores.size) >= self.protected.size
        return scores[order], np.tile(self.is_target, 2)[order], np.tile(self.unit, 2)[order], original[order]

    def d_ece(self, leaks: Mask) -> float:
        """D_ECE in bits where some units, [units], are of original speech and all others protected."""
        scores, target, unit, original = self._ascending
        kept = leaks[unit] == original
        chosen = scores[kept]
        of_target = target[kept]
        return d_ece_of_blocks(calibrate_rows(count_rows(chosen[of_target], chosen[~of_target]), laplace=False))


@dataclass(frozen=True)
class DetectionLimit:
    """The smallest leak that an evaluation sees."""

    share: float | None = quantity(
        "fraction",
        "probability that a unit passes unprotected, from which on 95 % of draws lie above the null band",
        "lower",
    )
    d_ece: float | None = quantity("bit", "D_ECE on average over draws at the limit")
    rise: float | None = quantity("bit", "that, less D_ECE without phantoms: what the leak adds", "lower")
    units: int = quantity("count", "utterances or speakers that can leak")
    draws: int = quantity("count", "draws that it stands on")
    reason: str = quantity("", "why there is no limit, or empty")


@dataclass(frozen=True)
class LeakCurve:
    """What an evaluation sees of leaks of known size."""

    shares: Array = quantity("fraction", "[g] probability that a unit passes unprotected")
    d_ece: Array = quantity("bit", "[g] D_ECE on average over draws")
    power: Array = quantity("fraction", "[g] draws in which it lies above the null band")


def align_scores(scores: npt.ArrayLike, is_target: npt.ArrayLike, like: npt.ArrayLike) -> Array:
    """Scores [n] brought to the scale of others of the same trials: equal mean and spread of the non-targets.

    Scores of original speech may come of another network or back end than those of the attack. An attacker who cannot tell which
    utterance passed unprotected needs one scale for both, and knows it from speakers who are not the target.

    Raises:
        MetricError: NaN, lengths that differ, or non-targets that are all the same.
    """
    own, other = check_vector(scores, "scores"), check_vector(like, "scores")
    nontarget = ~np.asarray(is_target, dtype=np.bool_)
    if not own.shape == other.shape == nontarget.shape or nontarget.sum() < 2:
        raise MetricError("scores are aligned by the non-targets, two or more, of the same trials")
    (mean, spread), (to_mean, to_spread) = ((x[nontarget].mean(), x[nontarget].std()) for x in (own, other))
    if not (np.isfinite([mean, spread, to_mean, to_spread]).all() and spread > 1e-12 * (1 + abs(mean))):
        raise MetricError("the non-targets have no scale: their scores are all the same, or infinite")
    return np.asarray((own - mean) / spread * to_spread + to_mean, dtype=np.float64)


def detection_limit(
    parts: Sequence[PhantomTrials],
    threshold: float,
    *,
    generator: np.random.Generator,
    weights: Sequence[float] = (1.0,),
    draws: int = 2000,
    power: float = POWER,
) -> DetectionLimit:
    """The smallest probability q of a leak that lies above a threshold in a share of all draws.

    In each draw every unit has a number from 0 to 1 and leaks at every q above it. The share of draws in which D_ECE passes the
    threshold rises with q, and the limit is found by bisection on a grid in steps of 2 %. It is conditional on the evaluation at
    hand: its scores are those that were measured.

    Args:
        parts: the trials of a set, or of each set of a mean.
        threshold: the upper end of the null band, in bits.
        generator: of the draws.
        weights: of the sets in the mean.
        draws: how many.
        power: the share of draws that is asked for.

    Raises:
        MetricError: no trials, or as many weights as there are not sets.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import PhantomTrials, detection_limit
        >>> random = np.random.default_rng(0)
        >>> unit = np.repeat(np.arange(200), 10)  # 200 utterances, each against 10 models
        >>> target = np.arange(2000) % 10 == 0
        >>> phantoms = PhantomTrials(random.normal(size=2000), random.normal(size=2000) + 9.0 * target, target, unit)
        >>> limit = detection_limit([phantoms], 0.05, generator=random, draws=400)
        >>> 0.1 < limit.share < 0.2
        True
    """
    units = _count_units(parts, weights)
    nobody, everybody = np.zeros(units, dtype=np.bool_), np.ones(units, dtype=np.bool_)
    begin = _mean_d_ece(parts, weights, nobody)
    if begin > threshold:
        return DetectionLimit(0.0, begin, 0.0, units, 0, "")
    if _mean_d_ece(parts, weights, everybody) <= threshold:
        return DetectionLimit(None, None, None, units, 0, "not even original speech lies above the null band")
    numbers = generator.random((draws, units), dtype=np.float32)
    grid = np.exp(np.arange(math.log(0.25 / units), STEP, STEP)).clip(max=1.0)

    def first_seen(low: int, high: int, rows: npt.NDArray[np.float32]) -> int:
        """The place in the grid from which on enough draws are seen, between two places."""
        while low < high:
            middle = (low + high) // 2
            seen = sum(_mean_d_ece(parts, weights, row < grid[middle]) > threshold for row in rows)
            low, high = (low, middle) if seen >= power * len(rows) else (middle + 1, high)
        return low

    about = first_seen(0, grid.size - 1, numbers[:COARSE])
    place = first_seen(max(0, about - NEAR), min(grid.size - 1, about + NEAR), numbers)
    share = float(grid[place])
    values = [_mean_d_ece(parts, weights, row < share) for row in numbers[:COARSE]]
    reached = float(np.mean(values))
    return DetectionLimit(share, reached, reached - begin, units, draws, "")


def best_limit(
    enrolled: npt.ArrayLike,
    spoken: npt.ArrayLike,
    unit: npt.ArrayLike,
    *,
    generator: np.random.Generator,
    repeats: int = 5,
    replicates: int = 200,
    draws: int = 400,
) -> DetectionLimit:
    """The limit of detection that a list of trials can reach at best, before anything is computed.

    The attacker is ideal: on protected speech, which gives nothing away, its scores are noise, and on original speech every target lies
    above and every non-target below all noise. What is left is the protocol: how many speakers, trials and utterances there are.

    Args:
        enrolled, spoken: [n] codes of the speakers of each trial, in one numbering.
        unit: [n] codes of what leaks as a whole.
        generator: of the noise and of the draws.
        repeats: draws of noise, of which the median limit is taken.
        replicates: permutations of each null band.
        draws: of each limit.

    Raises:
        MetricError: an empty class, or lengths that differ.
    """
    limits = []
    for _ in range(repeats):
        trials = Trials(
            generator.standard_normal(np.size(enrolled)),
            check_codes(enrolled, "models"),
            check_codes(spoken, "speakers"),
        )
        band = null_bands(trials_by_identity(trials, ("d_ece",)), generator=generator, replicates=replicates)["d_ece"]
        if band.high is None:
            return DetectionLimit(None, None, None, int(np.max(check_codes(unit, "units"))) + 1, 0, band.reason)
        original = np.where(trials.is_target, 1.0, -1.0) * (np.abs(trials.scores).max() + 1)
        phantoms = PhantomTrials(trials.scores, original, trials.is_target, check_codes(unit, "units"))
        limits.append(detection_limit([phantoms], band.high, generator=generator, draws=draws))
    return sorted(limits, key=lambda limit: math.inf if limit.share is None else limit.share)[repeats // 2]


def leak_curve(
    parts: Sequence[PhantomTrials],
    threshold: float,
    *,
    generator: np.random.Generator,
    weights: Sequence[float] = (1.0,),
    shares: Sequence[float] = LADDER,
    draws: int = 200,
) -> LeakCurve:
    """D_ECE, and how often it is seen, of leaks of known probability. The arguments are those of :func:`detection_limit`."""
    units = _count_units(parts, weights)
    means, power = np.empty(len(shares)), np.empty(len(shares))
    for place, share in enumerate(shares):
        # Nobody and everybody can be drawn in one way only.
        drawn = np.array(
            [_mean_d_ece(parts, weights, generator.random(units) < share) for _ in range(draws if 0 < share < 1 else 1)]
        )
        means[place], power[place] = drawn.mean(), (drawn > threshold).mean()
    return LeakCurve(np.asarray(shares, dtype=np.float64), means, power)


def _count_units(parts: Sequence[PhantomTrials], weights: Sequence[float]) -> int:
    if not parts or len(parts) != len(weights):
        raise MetricError(f"{len(parts)} sets of trials and {len(weights)} weights")
    return int(max(part.unit.max() for part in parts)) + 1


def _mean_d_ece(parts: Sequence[PhantomTrials], weights: Sequence[float], leaks: Mask) -> float:
    return float(sum(weight * part.d_ece(leaks) for part, weight in zip(parts, weights)))
