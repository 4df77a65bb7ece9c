"""The strongest of several attacks on the same trials: its value, the interval of the maximum, and its null band.

See pipeline/metrics/README.md, section 3.

The strongest attack is a maximum of several noisy numbers. An interval of the one that happens to be the highest is too narrow
and lies too high, so speakers are left out, and identities permuted, once for all attacks together.

What a speaker contributes. With S speakers, the value θ and θ(s) without speaker s, the jackknife's pseudo-value is
S θ - (S - 1) θ(s), and the speaker contributes 1/S of it. Contributions add up to the bias-corrected value; their spread is its
standard error (:class:`Attacks`). A speaker who is a part w of the trials has the share θ - (1 - w) θ(s), which is the same where all
have as many utterances; shares decide the corrected maximum and the difference of two systems (:mod:`pipeline.metrics.swaps`). A weighted
mean over sets adds both up speaker by speaker (:func:`average_attacks`).

The interval of a maximum θ* = max θ(a), each c(a) ± t e(a). From above max c(a) + t e(a) holds: the true strongest attack is one of them.
From below it is max c'(a) - k e(a), where c' is corrected for all of the bias of PAV, and k bounds all attacks at once (the quantile of
the largest of their joint t). Attacks that are certainly not the strongest are left out of both. An attack whose value no speaker changes,
such as one that tells everybody apart, shows no error: nothing is certain from below on its account. Of one attack it is the jackknife
interval itself.

Conventions: higher values disclose more; attacks are numbered from 0; speakers are names in ascending order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from pipeline.metrics._base import Array, Indices, MetricError
from pipeline.metrics.trial_uncertainty import Reweighted, trials_by_identity
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import (
    FEWEST_PERMUTED,
    NOT_FINITE,
    TOO_FEW,
    UNCHANGED,
    Interval,
    NullBand,
    no_band,
    no_interval,
    null_band,
)

VERSION = "maximum over attacks 1"

DRAWS = 9999
"""Draws of the joint t, and of swaps where they cannot be enumerated."""
UNSEEN = 1.5
"""Bias by the bias that leaving one speaker out shows: that of PAV falls with n^(-2/3), so two thirds of it are seen."""
CONTENDS = 0.999
"""An attack contends for being the strongest unless it lies below it with this probability."""
LIKELY = 0.95
"""What the correction of the maximum takes for likely to be the strongest, in the same way."""


@dataclass(frozen=True)
class Attacks:
    """A metric of several attacks on one system, by what each speaker contributes."""

    values: Array
    """[A] the metric on everybody, as it stands in tables."""
    contributions: Array
    """[A, S] they add up to the bias-corrected values; NaN where a value without one of the speakers is not finite."""
    shares: Array
    """[A, S] the same where speakers weigh as much as their trials do (the jackknife of unequal groups, Busing et al. 1999)."""
    weights: Array
    """[S] how much of the trials each speaker is; of one set they add up to 1."""
    speakers: tuple[str, ...]
    """[S] names, ascending."""
    stratum: Indices
    """[S] numbers from 0 of groups of speakers with no trial between them, such as those of different sets."""
    degrees: Array
    """[strata] degrees of freedom of each: enrolled speakers - 1."""
    bounds: tuple[float, float]
    """Range of the values."""

    @property
    def corrected(self) -> Array:
        """[A] bias-corrected values."""
        corrected: Array = self.contributions.sum(axis=1)
        return corrected

    def only(self, attacks: Sequence[int] | Indices) -> Attacks:
        """Some of the attacks."""
        kept = np.asarray(attacks, dtype=np.intp)
        return replace(self, values=self.values[kept], contributions=self.contributions[kept], shares=self.shares[kept])


def collect_attacks(
    values: npt.ArrayLike,
    without: npt.ArrayLike,
    speakers: Sequence[str],
    *,
    degrees: int,
    bounds: tuple[float, float],
    weights: npt.ArrayLike | None = None,
) -> Attacks:
    """Attacks from their values on everybody and without each speaker.

    Args:
        values: [A].
        without: [A, S] NaN where nothing is left to measure.
        speakers: [S] names, ascending.
        degrees: enrolled speakers - 1.
        bounds: range of the values.
        weights: [S] how much of the trials each speaker is, in any unit; equal if absent.

    Raises:
        MetricError: shapes that do not fit.

    Example:
        Two attacks on four speakers, of which the second tells more.

        >>> from pipeline.metrics import collect_attacks, maximum_interval
        >>> without = [[0.10, 0.12, 0.11, 0.11], [0.30, 0.34, 0.31, 0.33]]
        >>> found = collect_attacks([0.11, 0.32], without, ["a", "b", "c", "d"], degrees=3, bounds=(0, 0.72))
        >>> found.corrected.round(3).tolist()
        [0.11, 0.32]
        >>> interval, _ = maximum_interval(found)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.233, 0.407)
    """
    value, without_each = np.asarray(values, dtype=np.float64), np.asarray(without, dtype=np.float64)
    if value.ndim != 1 or without_each.shape != (value.size, len(speakers)):
        raise MetricError(
            f"values of {value.shape} attacks do not fit {without_each.shape} without each of {len(speakers)}"
        )
    n = len(speakers)
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (n,):
        raise MetricError(f"weights of {weight.shape} do not fit {n} speakers")
    weight = weight / max(float(weight.sum()), 1e-300)
    with np.errstate(invalid="ignore"):
        effect = value[:, None] - without_each
        effect[~np.isfinite(effect).all(axis=1)] = np.nan
    return Attacks(
        value,
        value[:, None] / max(n, 1) + (n - 1) / max(n, 1) * effect,
        value[:, None] * weight + (1 - weight) * effect,
        weight,
        tuple(speakers),
        np.zeros(n, dtype=np.int64),
        np.array([float(degrees)]),
        bounds,
    )


METRICS = ("d_ece", "eer.rocch")


@dataclass(frozen=True)
class LeaveOneOut:
    """Metrics of one attack on everybody and without each speaker, by name."""

    value: dict[str, float]
    without: dict[str, Array]
    """[S] each, in the order of ``speakers``; NaN where nothing is left to measure."""
    speakers: Indices
    """[S] codes."""
    weights: Array
    """[S] how much of the trials each speaker is."""
    degrees: int


def leave_each_out(trials: Trials, metrics: Sequence[str] = METRICS) -> LeaveOneOut:
    """An attack's metrics on everybody and without each speaker in turn."""
    evaluate = Reweighted(trials, metrics)
    weights = np.ones(trials.n_codes)
    value = evaluate(weights)
    columns: dict[str, list[float]] = {name: [] for name in metrics}
    for speaker in trials.speakers:
        weights[speaker] = 0.0
        try:
            here = evaluate(weights)
        except MetricError:
            here = dict.fromkeys(metrics, math.nan)
        weights[speaker] = 1.0
        for name in metrics:
            columns[name].append(here[name])
    without = {name: np.array(values) for name, values in columns.items()}
    return LeaveOneOut(value, without, trials.speakers, _weights(trials), trials.models.size - 1)


def _weights(trials: Trials) -> Array:
    """How much of the trials each speaker is: of the targets, and of the non-targets by either side, a half each."""
    sides = [
        np.bincount(codes[kept], minlength=trials.n_codes) / max(int(kept.sum()), 1)
        for codes in (trials.enrolled, trials.spoken)
        for kept in (trials.is_target, ~trials.is_target)
    ]
    weights: Array = np.mean(sides, axis=0)[trials.speakers]
    return weights


def negate(attacks: Attacks) -> Attacks:
    """Of a metric that is lower where more is disclosed, such as the EER."""
    low, high = attacks.bounds
    turned = {name: -getattr(attacks, name) for name in ("values", "contributions", "shares")}
    return replace(attacks, **turned, bounds=(-high, -low))


MOST_CHOICES = 256
"""Combinations of attacks on the sets of a mean that are looked at."""


def attack_choices(parts: Sequence[Attacks], most: int = MOST_CHOICES) -> Indices:
    """Which attack is chosen on each set of a mean: an attacker who knows the set may choose another one on each.

    The highest mean over all combinations is the mean of the highest values. Where there are more than ``most`` combinations, they
    are those of the attacks with the highest values on each set.

    Args:
        parts: the attacks on each set.

    Returns:
        [combinations, sets] places of attacks on each set.
    """
    sizes = [part.values.size for part in parts]
    if len(parts) > 1 and math.prod(sizes) > most:
        sizes = [min(size, max(1, int(most ** (1 / len(parts)) + 1e-9))) for size in sizes]
    highest = [np.sort(np.argsort(-part.values, kind="stable")[:size]) for part, size in zip(parts, sizes)]
    grid = np.meshgrid(*highest, indexing="ij")
    return np.stack([places.ravel() for places in grid], axis=1).astype(np.int64)


def average_attacks(parts: Sequence[Attacks], weights: Sequence[float]) -> Attacks:
    """The weighted mean over several sets, attack by attack: the first on each set, the second on each, and so on.

    Sets with speakers in common are one stratum; a speaker's contributions add up.

    Raises:
        MetricError: numbers of attacks that differ.
    """
    if len({part.values.size for part in parts}) != 1:
        raise MetricError("a mean over sets needs as many attacks on each")
    names = sorted({name for part in parts for name in part.speakers})
    place = {name: at for at, name in enumerate(names)}
    group = np.arange(len(names))
    total = np.zeros((parts[0].values.size, len(names)))
    shares, heavy = np.zeros(total.shape), np.zeros(len(names))
    for part, weight in zip(parts, weights, strict=True):
        at = np.array([place[name] for name in part.speakers], dtype=np.intp)
        total[:, at] += weight * part.contributions
        shares[:, at] += weight * part.shares
        heavy[at] += weight * part.weights
        for own in range(part.degrees.size):
            mine = np.unique(group[at[part.stratum == own]])
            if mine.size:  # none where nobody knows who speaks
                group[np.isin(group, mine)] = mine[0]
    kept, stratum = np.unique(group, return_inverse=True)
    degrees = np.zeros(kept.size)
    for part in parts:
        at = np.array([place[name] for name in part.speakers], dtype=np.intp)
        for own, number in enumerate(part.degrees):
            for into in stratum[at[part.stratum == own][:1]]:
                degrees[into] = max(degrees[into], number)
    low, high = (sum(w * part.bounds[end] for part, w in zip(parts, weights)) for end in (0, 1))
    values = np.sum([weight * part.values for part, weight in zip(parts, weights)], axis=0)
    bounds = (float(low), float(high))
    return Attacks(values, total, shares, heavy, tuple(names), stratum.astype(np.int64), degrees, bounds)


# --- errors and joint quantiles --------------------------------------------------------------------------------------


def spread_of_sums(contributions: Array, stratum: Indices, weights: Array | None = None) -> Array:
    """Contributions [..., S] as deviations whose squares add up to the variance of their sum.

    Speakers are expected to contribute in proportion to their weights [S], equally if absent. In a stratum of one speaker there is
    no spread to see: MetricError.
    """
    deviations = np.empty(contributions.shape)
    for number in range(int(stratum.max(initial=-1)) + 1):
        mine = stratum == number
        n = int(mine.sum())
        if n < 2:
            raise MetricError("an interval over speakers needs at least two speakers")
        here = contributions[..., mine]
        if weights is None:
            deviations[..., mine] = (here - here.mean(axis=-1, keepdims=True)) * math.sqrt(n / (n - 1))
            continue
        part = weights[mine] / weights[mine].sum()
        residual = here - part * here.sum(axis=-1, keepdims=True)
        deviations[..., mine] = residual / np.sqrt(np.maximum(1 - 2 * part + part @ part, 1e-12))
    return deviations


def degrees_of_sums(deviations: Array, stratum: Indices, degrees: Array) -> Array:
    """Degrees of freedom of the errors of sums (Satterthwaite): those of the stratum where there is one alone."""
    parts = np.stack([(deviations[..., stratum == k] ** 2).sum(axis=-1) for k in range(degrees.size)], axis=-1)
    total = parts.sum(axis=-1)
    weighed = (parts**2 / np.maximum(degrees, 1e-9)).sum(axis=-1)
    degrees_of_sum: Array = np.where(weighed > 0, total**2 / np.where(weighed > 0, weighed, 1.0), degrees.sum())
    return degrees_of_sum


def joint_quantile(deviations: Array, degrees: float, level: float, *, two_sided: bool = False) -> float:
    """The quantile of the largest of several t statistics (of the largest in size, if two-sided) whose numerators vary together.

    Args:
        deviations: [n, S] of each; their correlation is that of the statistics.
        degrees: of freedom.
        level: of the quantile.
    """
    size = np.sqrt((deviations**2).sum(axis=1))
    rows = deviations[size > 0] / size[size > 0, None]
    if len(rows) < 2:
        return float(stdtrit(degrees, (1 + level) / 2 if two_sided else level))
    random = np.random.default_rng(0)  # of a property of the distribution, not of the data
    drawn = random.standard_normal((DRAWS, rows.shape[1])) @ rows.T
    drawn /= np.sqrt(random.chisquare(degrees, (DRAWS, 1)) / degrees)
    return float(np.quantile(np.abs(drawn).max(axis=1) if two_sided else drawn.max(axis=1), level))


# --- the strongest attack -----------------------------------------------------------------------------------------


def maximum_interval(attacks: Attacks, *, level: float = 0.95) -> tuple[Interval, Indices]:
    """The interval of the maximum, and the places of the attacks that may be it, as far as these speakers tell."""
    n = len(attacks.speakers)
    everyone = np.arange(attacks.values.size)
    if (attacks.degrees < 1).any() or n < 2:
        return no_interval("jackknife", level, n, TOO_FEW), everyone
    if not np.isfinite(attacks.contributions).all():
        return no_interval("jackknife", level, n, NOT_FINITE), everyone
    contend = contenders(attacks)
    here = attacks.only(contend)
    deviations = spread_of_sums(here.contributions, here.stratum)
    errors = np.sqrt((deviations**2).sum(axis=1))
    seen = errors > 1e-14 * np.maximum(1.0, np.abs(here.values))
    if not seen.any():
        return no_interval("jackknife", level, n, UNCHANGED), contend
    degrees = degrees_of_sums(deviations, here.stratum, here.degrees)
    high = here.corrected + stdtrit(degrees, (1 + level) / 2) * errors
    # Of one attack the jackknife; the highest of several carries more of the bias that leaving one out does not see.
    centre = here.corrected if contend.size < 2 else here.values + UNSEEN * (here.corrected - here.values)
    low = centre - joint_quantile(deviations, float(degrees.min()), (1 + level) / 2) * errors
    low = low[seen]
    lower, upper = (min(max(float(end.max()), attacks.bounds[0]), attacks.bounds[1]) for end in (low, high))
    return Interval(lower, upper, "jackknife", level, n, ""), contend


def contenders(attacks: Attacks, level: float = CONTENDS) -> Indices:
    """The attacks that may be the strongest: all that do not lie certainly below the one with the highest corrected value."""
    best = int(np.argmax(attacks.corrected))
    behind = attacks.contributions - attacks.contributions[best]
    deviations = spread_of_sums(behind, attacks.stratum)
    errors = np.sqrt((deviations**2).sum(axis=1))
    degrees = degrees_of_sums(deviations, attacks.stratum, attacks.degrees)
    return np.flatnonzero(behind.sum(axis=1) >= -stdtrit(degrees, level) * errors - 1e-15)


def corrected_maximum(attacks: Attacks) -> float | None:
    """The maximum over all attacks, corrected for the bias of each and for the choice of the highest; None where no error is seen to
    correct by.

    The highest of corrected values less k standard errors, k being the median of the largest of all errors as they vary together
    (Chernozhukov, Lee and Rosen 2013). Attacks that are unlikely to be the strongest take no part. It lies within the interval.
    """
    interval, _ = maximum_interval(attacks)
    if (attacks.degrees < 1).any() or len(attacks.speakers) < 2 or not np.isfinite(attacks.contributions).all():
        return None
    here = replace(attacks, contributions=attacks.shares)
    here = here.only(contenders(here, LIKELY))
    deviations = spread_of_sums(here.contributions, here.stratum, here.weights)
    degrees = float(degrees_of_sums(deviations, here.stratum, here.degrees).min())
    excess = joint_quantile(deviations, degrees, 0.5) * np.sqrt((deviations**2).sum(axis=1))
    low, high = attacks.bounds if interval.low is None or interval.high is None else (interval.low, interval.high)
    return float(np.clip((here.corrected - excess).max(), low, high))


def simultaneous_interval(attacks: Attacks, attack: int, *, level: float = 0.95) -> Interval:
    """An interval of one attack that holds however the attack was chosen: all attacks' intervals hold together."""
    n = len(attacks.speakers)
    if (attacks.degrees < 1).any() or n < 2:
        return no_interval("jackknife", level, n, TOO_FEW)
    finite = np.isfinite(attacks.contributions).all(axis=1)
    if not np.isfinite(attacks.contributions[attack]).all():
        return no_interval("jackknife", level, n, NOT_FINITE)
    deviations = spread_of_sums(attacks.contributions[finite], attacks.stratum)
    own = spread_of_sums(attacks.contributions[[attack]], attacks.stratum)
    error = math.sqrt(float((own**2).sum()))
    if error <= 1e-14 * max(1.0, abs(float(attacks.values[attack]))):
        return no_interval("jackknife", level, n, UNCHANGED)
    degrees = float(degrees_of_sums(deviations, attacks.stratum, attacks.degrees).min())
    reach = joint_quantile(deviations, degrees, level, two_sided=True) * error
    centre = float(attacks.corrected[attack])
    low, high = (min(max(end, attacks.bounds[0]), attacks.bounds[1]) for end in (centre - reach, centre + reach))
    return Interval(low, high, "jackknife", level, n, "")


# --- the null band of the maximum ------------------------------------------------------------------------------------


def null_draws(
    attacks: Sequence[Trials], *, generator: Callable[[Indices], np.random.Generator], replicates: int = 1000
) -> Array:
    """D_ECE of all attacks where the claimed identities of the enrolment models are permuted, once for all together.

    Args:
        attacks: the same trials in the same order, by each attack.
        generator: what permutes a group of speakers, given their codes. Where it depends on who they are alone, sets with the same
            enrolled speakers are permuted alike, draw by draw, and a mean over them can be formed of each draw.

    Returns:
        [permutations, A], in bits; without rows where there are too few speakers to permute. NaN where a permutation leaves a class
        empty.

    Raises:
        MetricError: trials that differ.
    """
    require_same(attacks)
    metrics = [trials_by_identity(attack, ("d_ece",)) for attack in attacks]
    groups = metrics[0].groups
    if max(group.size for group in groups) < FEWEST_PERMUTED:
        return np.empty((0, len(attacks)))
    own = np.arange(max(int(group.max()) for group in groups) + 1)
    random = [generator(group) for group in groups]
    draws = np.full((replicates, len(attacks)), np.nan)
    for draw in range(replicates):
        identity = own.copy()
        for group, attack in zip(groups, random):
            identity[group] = attack.permutation(group)
        try:
            draws[draw] = [attack.evaluate(identity)["d_ece"] for attack in metrics]
        except MetricError:
            continue
    return draws


def permuted_groups(trials: Trials) -> list[Indices]:
    """The groups of enrolled speakers who change places with one another."""
    return list(trials_by_identity(trials, ("d_ece",)).groups)


def null_of_maximum(value: float, draws: Array) -> NullBand:
    """The null band of the strongest attack: of the maximum over attacks in each permutation.

    Args:
        value: of the strongest attack.
        draws: [permutations, A], of :func:`null_draws`, or their weighted mean over sets; NaN is left out.
    """
    finite = draws[np.isfinite(draws).all(axis=1)]
    if not finite.size:
        return no_band("too few enrolled speakers to permute")
    return null_band(value, finite.max(axis=1))


def require_same(attacks: Sequence[Trials]) -> None:
    """Raises MetricError where attacks are not on the same trials in the same order, or there is none."""
    if not attacks:
        raise MetricError("there is no attack")
    for attack in attacks[1:]:
        if not (
            np.array_equal(attack.enrolled, attacks[0].enrolled) and np.array_equal(attack.spoken, attacks[0].spoken)
        ):
            raise MetricError("attacks are compared on the same trials in the same order")
