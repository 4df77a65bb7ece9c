"""How far to trust a number, whatever the metric: intervals over speakers, and null bands.

See pipeline/metrics/README.md, section 3.

Trials and pairs share speakers, so speakers are the units. For an interval a metric gives its values under a weight
for each speaker (:class:`BySpeaker`): 1 for everybody, 0 for a speaker left out, or the number of draws. For a null
band it gives its values where speakers change identities (:class:`ByIdentity`). Each family of metrics has its own
way to do so fast: :func:`trials_by_speaker`, :func:`vsm_by_speaker`, :func:`srd_by_identity`, ...

Conventions: ends are in the metric's unit and within its range; levels and p-values are fractions. What cannot be
given is None, with the reason beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from pipeline.metrics._base import Array, Indices, MetricError, check_choice, quantity

METHODS = ("jackknife", "percentile", "bca")
TOO_FEW = "an interval over speakers needs at least two enrolled speakers"
NOT_FINITE = "the metric is not finite, here or without one of the speakers"
UNCHANGED = "the value is the same without any one speaker"


@dataclass(frozen=True)
class Interval:
    """An interval of a metric over speakers; without one, ``reason`` says why."""

    low: float | None = quantity("", "lower end, in the metric's unit")
    high: float | None = quantity("", "upper end, in the metric's unit")
    method: str = quantity("label", "jackknife, percentile, bca, zero_errors, or swaps")
    level: float = quantity("fraction", "nominal coverage")
    n_speakers: int = quantity("count", "speakers that were left out or drawn")
    reason: str = quantity("", "why there is no interval, or empty")


@dataclass(frozen=True)
class NullBand:
    """What a metric is worth when the identities mean nothing: its spread over permutations of whole speakers."""

    low: float | None = quantity("", "2.5 % point, in the metric's unit")
    median: float | None = quantity("", "median")
    high: float | None = quantity("", "97.5 % point")
    p_value: float | None = quantity(
        "fraction",
        "share of permutations that reach the value, the given one counted; equal l_w by D_ECE, equal RS by MeanD",
    )
    replicates: int = quantity("count", "permutations")
    reason: str = quantity("", "why there is no band, or empty")


# --- intervals of any metric ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BySpeaker:
    """A metric, or several, as a function of the weight of each speaker: all that an interval needs to know.

    Example:
        The mean of one number a speaker.

        >>> import numpy as np
        >>> from pipeline.metrics import BySpeaker, intervals
        >>> x = np.array([0.1, 0.4, 0.3, 0.2])
        >>> def mean(weights):
        ...     return {"mean": float(weights @ x / weights.sum())}
        >>> metric = BySpeaker(mean, speakers=np.arange(4), degrees=3, bounds={"mean": (0, 1)})
        >>> found = intervals(metric)["mean"]
        >>> round(found.low, 4), round(found.high, 4)
        (0.0446, 0.4554)
    """

    evaluate: Callable[[Array], Mapping[str, float]]
    """Values by name under weights [codes], NaN where undefined; MetricError where nothing is left to measure."""
    speakers: Indices
    """[S] codes of the speakers that are left out or drawn."""
    degrees: int
    """Degrees of freedom of the jackknife's t quantile: enrolled speakers - 1."""
    bounds: Mapping[str, tuple[float, float]]
    """Range of each value."""
    rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values that are rates, with what they are (0, or 0 and 1) where no error was seen: then the limit is exact."""
    n_rated: int = 0
    """Speakers whose trials the rates count."""

    @classmethod
    def of_panel(
        cls,
        evaluate: Callable[[Array], Mapping[str, float]],
        speakers: Indices,
        bounds: Mapping[str, tuple[float, float]],
        rates: Sequence[str] = (),
    ) -> BySpeaker:
        """Where each speaker who is left out is enrolled and rated; ``rates`` are 0 or 1 where no error was seen."""
        n = speakers.size
        return cls(evaluate, speakers, n - 1, bounds, dict.fromkeys(rates, (0.0, 1.0)), n)

    @property
    def everybody(self) -> Array:
        """Weights [codes] of 1."""
        return np.ones(int(self.speakers.max(initial=-1)) + 1)


def intervals(
    metric: BySpeaker,
    *,
    method: str = "jackknife",
    level: float = 0.95,
    replicates: int = 1000,
    generator: np.random.Generator | None = None,
) -> dict[str, Interval]:
    """Intervals over speakers of all values of a metric, by name.

    Args:
        metric: from ``trials_by_speaker``, ``vsm_by_speaker`` and the like, or a :class:`BySpeaker` of your own.
        method: ``jackknife`` (delete one speaker, bias-corrected, t quantile), ``percentile`` or ``bca`` (bootstraps
            over speakers, which cover too little with few speakers). A rate of which no error was seen has an exact
            limit instead (``zero_errors``).
        level: nominal coverage.
        replicates, generator: for the bootstraps.

    Raises:
        MetricError: an unknown method, or a bootstrap without a generator; a metric without a value on everybody.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import Trials, intervals, trials_by_speaker
        >>> random = np.random.default_rng(0)
        >>> enrolled, spoken = np.repeat(np.arange(8), 80), np.tile(np.repeat(np.arange(8), 10), 8)
        >>> trials = Trials(random.normal(size=640) + 1.5 * (enrolled == spoken), enrolled, spoken)
        >>> found = intervals(trials_by_speaker(trials, ["eer.rocch", "d_ece"]))
        >>> {name: (round(one.low, 3), round(one.high, 3)) for name, one in found.items()}
        {'eer.rocch': (0.159, 0.276), 'd_ece': (0.239, 0.377)}
        >>> found = intervals(trials_by_speaker(trials), method="bca", replicates=200, generator=random)
        >>> found["d_ece"].method, found["d_ece"].n_speakers
        ('bca', 8)
    """
    check_choice(method, METHODS, "method")
    values = metric.evaluate(metric.everybody)
    if method == "jackknife":
        drawn = []
    elif generator is None:
        raise MetricError(f"method {method} needs a random generator")
    else:
        drawn = list(_draws(metric, replicates, generator))
    left_out = [] if method == "percentile" else list(_without_each(metric, values))
    results = {}
    for name, value in values.items():
        draws, without = [replicate[name] for replicate in drawn], [replicate[name] for replicate in left_out]
        if method == "jackknife":
            results[name] = jackknife(value, without, degrees=metric.degrees, bounds=metric.bounds[name], level=level)
        elif method == "percentile":
            results[name] = percentile(draws, n_speakers=metric.speakers.size, level=level)
        else:
            results[name] = bca(value, draws, without, level=level)
    return results | _exact_limits(metric, values, level)


def _without_each(metric: BySpeaker, values: Mapping[str, float]) -> Iterator[Mapping[str, float]]:
    """Values without each speaker, NaN where that leaves nothing to measure."""
    n_codes = metric.everybody.size
    for speaker in metric.speakers:
        weights = np.ones(n_codes)
        weights[speaker] = 0.0
        try:
            yield metric.evaluate(weights)
        except MetricError:
            yield dict.fromkeys(values, math.nan)


def _draws(metric: BySpeaker, replicates: int, generator: np.random.Generator) -> Iterator[Mapping[str, float]]:
    """Values of speakers drawn with replacement; a draw that leaves nothing to measure is drawn again."""
    n, n_codes = metric.speakers.size, metric.everybody.size
    for _ in range(replicates):
        for _attempt in range(100):
            weights = np.zeros(n_codes)
            weights[metric.speakers] = np.bincount(generator.integers(0, n, n), minlength=n)
            try:
                values = metric.evaluate(weights)
            except MetricError:
                continue
            yield values
            break
        else:
            raise MetricError(
                "draws of speakers leave no target or no non-target trial: too few speakers for a bootstrap"
            )


def _exact_limits(metric: BySpeaker, values: Mapping[str, float], level: float) -> dict[str, Interval]:
    limits = {}
    for name, clean in metric.rates.items():
        high = min(zero_error_limit(metric.n_rated, level), metric.bounds[name][1])
        if values[name] <= 0 and 0.0 in clean:
            limits[name] = Interval(0.0, high, "zero_errors", level, metric.n_rated, "")
        elif values[name] >= 1 - 1e-12 and 1.0 in clean:
            limits[name] = Interval(1 - high, 1.0, "zero_errors", level, metric.n_rated, "")
    return limits


# --- an interval from its replicates --------------------------------------------------------------------------------


def jackknife(
    value: float, left_out: npt.ArrayLike, *, degrees: int, bounds: tuple[float, float], level: float = 0.95
) -> Interval:
    """Bias-corrected delete-one jackknife with a t quantile, clipped to ``bounds``.

    Args:
        value: the metric on everybody.
        left_out: [S] the metric without each speaker.
        degrees: degrees of freedom of the t quantile (enrolled speakers - 1).
        bounds: range of the metric.
    """
    without = np.asarray(left_out, dtype=np.float64)
    n = without.size
    if degrees < 1 or n < 2:
        return no_interval("jackknife", level, n, TOO_FEW)
    if not (np.isfinite(value) and np.isfinite(without).all()):
        return no_interval("jackknife", level, n, NOT_FINITE)
    with np.errstate(over="ignore", invalid="ignore"):
        error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    if not math.isfinite(error):
        return no_interval("jackknife", level, n, "the spread of the metric leaves the range of numbers")
    if error <= 1e-14 * max(1.0, abs(value)):
        return no_interval("jackknife", level, n, UNCHANGED)
    centre = n * value - (n - 1) * float(without.mean())
    reach = float(stdtrit(degrees, (1 + level) / 2)) * error
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in (centre - reach, centre + reach))
    return Interval(low, high, "jackknife", level, n, "")


def percentile(draws: npt.ArrayLike, *, n_speakers: int, level: float = 0.95) -> Interval:
    """Percentile interval of bootstrap draws."""
    drawn = np.asarray(draws, dtype=np.float64)
    if not drawn.size or not np.isfinite(drawn).all():
        return no_interval("percentile", level, n_speakers, "the metric is not finite in every draw of speakers")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), "percentile", level, n_speakers, "")


def bca(value: float, draws: npt.ArrayLike, left_out: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Bias-corrected and accelerated bootstrap interval (Efron), acceleration from the jackknife values."""
    drawn, without = np.asarray(draws, dtype=np.float64), np.asarray(left_out, dtype=np.float64)
    if not drawn.size or not (np.isfinite(value) and np.isfinite(drawn).all() and np.isfinite(without).all()):
        return no_interval("bca", level, without.size, "the metric is not finite in every draw of speakers")
    pull = without.mean() - without
    spread = float((pull**2).sum())
    below = ((drawn < value).mean() + (drawn <= value).mean()) / 2
    if spread <= 0 or not 0 < below < 1:
        return no_interval("bca", level, without.size, "the draws lie on one side of the value, or do not vary")
    acceleration = float((pull**3).sum()) / (6 * spread**1.5)
    bias = ndtri(below)
    ends = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    shares = ndtr(bias + ends / (1 - acceleration * ends))
    low, high = np.quantile(drawn, np.sort(shares))
    return Interval(float(low), float(high), "bca", level, without.size, "")


def zero_error_limit(n_speakers: int, level: float = 0.95) -> float:
    """Upper limit of an error rate of which no error was seen: 1 - 0.025^(1/target speakers) at 95 %."""
    if n_speakers < 1:
        raise MetricError("a limit needs at least one target speaker")
    return float(1 - ((1 - level) / 2) ** (1 / n_speakers))


def clopper_pearson(count: int, total: int, alpha: float) -> tuple[float, float]:
    """Exact two-sided limits of a share at level 1 - alpha, ``count`` of ``total`` independent trials."""
    low = float(betaincinv(count, total - count + 1, alpha / 2)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - alpha / 2)) if count < total else 1.0
    return low, high


def no_interval(method: str, level: float, n_speakers: int, reason: str) -> Interval:
    """An interval that cannot be given."""
    return Interval(None, None, method, level, n_speakers, reason)


# --- null bands of any metric ---------------------------------------------------------------------------------------

FEWEST_PERMUTED = 5
"""Speakers with fewer than 5! = 120 permutations cannot show a 2.5 % point."""


@dataclass(frozen=True)
class ByIdentity:
    """A metric, or several, as a function of who is who: all that a null band needs to know."""

    evaluate: Callable[[Indices], Mapping[str, float]]
    """Values by name where code k passes for code ``identity[k]``; MetricError where nothing is left to measure."""
    groups: Sequence[Indices]
    """Codes that may change places with each other, as groups."""
    who: str
    """What is permuted, in the plural, for messages."""
    names: Sequence[str]
    """Values that get a band."""
    ties: Mapping[str, str] = field(default_factory=dict)
    """Which other value decides among equal ones (of extremes, which take few values)."""
    low: Sequence[str] = ()
    """Values of which the lower tail speaks of disclosure; of all others, the higher one."""


def null_bands(metric: ByIdentity, *, generator: np.random.Generator, replicates: int = 1000) -> dict[str, NullBand]:
    """Null bands of the values of a metric, by name: what they are worth when identities are permuted as wholes.

    Args:
        metric: from :func:`trials_by_identity`, :func:`srd_by_identity`, or a :class:`ByIdentity` of your own.
        replicates: permutations; those that leave nothing to measure are left out.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import Trials, null_bands, trials_by_identity
        >>> random = np.random.default_rng(0)
        >>> enrolled, spoken = np.repeat(np.arange(8), 80), np.tile(np.repeat(np.arange(8), 10), 8)
        >>> trials = Trials(random.normal(size=640) + 1.5 * (enrolled == spoken), enrolled, spoken)
        >>> band = null_bands(trials_by_identity(trials), generator=random, replicates=200)["d_ece"]
        >>> band.high < 0.1, round(band.p_value, 3)  # D_ECE itself is 0.329
        (True, 0.005)
    """
    if max(group.size for group in metric.groups) < FEWEST_PERMUTED:
        n = sum(group.size for group in metric.groups)
        return {name: no_band(f"permuting {n} {metric.who} gives too few arrangements") for name in metric.names}
    own = np.arange(max(int(group.max()) for group in metric.groups) + 1)
    value = metric.evaluate(own)
    drawn: list[Mapping[str, float]] = []
    for _ in range(replicates):
        identity = own.copy()
        for group in metric.groups:
            identity[group] = generator.permutation(group)
        try:
            drawn.append(metric.evaluate(identity))
        except MetricError:
            continue
    if not drawn:
        return {name: no_band("permuted speakers have no target trials") for name in metric.names}
    draws = {name: [replicate[name] for replicate in drawn] for name in value}
    return {
        name: null_band(
            value[name],
            draws[name],
            leaks="low" if name in metric.low else "high",
            tie=(value[metric.ties[name]], draws[metric.ties[name]]) if name in metric.ties else None,
        )
        for name in metric.names
    }


# --- a band from its permutations -----------------------------------------------------------------------------------


def null_band(
    value: float, draws: npt.ArrayLike, *, leaks: str = "high", tie: tuple[float, npt.ArrayLike] | None = None
) -> NullBand:
    """Band and p-value of a value from its draws under permuted identities.

    Args:
        leaks: ``high`` or ``low``, the tail that speaks of disclosure.
        tie: a second statistic, its value and its draws, where higher speaks of disclosure: it decides among equal values.
            Extremes take few values, and without it a test at 2.5 % almost never speaks.
    """
    drawn = np.asarray(draws, dtype=np.float64)
    low, median, high = (float(q) for q in np.quantile(drawn, [0.025, 0.5, 0.975]))
    beyond = drawn - value if leaks == "high" else value - drawn
    reached = beyond > 1e-12
    equal = np.abs(beyond) <= 1e-12
    if tie is None:
        reached |= equal
    else:
        reached |= equal & (np.asarray(tie[1], dtype=np.float64) >= tie[0] - 1e-12)
    return NullBand(low, median, high, (int(reached.sum()) + 1) / (drawn.size + 1), drawn.size, "")


def no_band(reason: str) -> NullBand:
    """A band that cannot be given."""
    return NullBand(None, None, None, None, 0, reason)


# --- many comparisons ---


def holm(p_values: npt.ArrayLike) -> Array:
    """p-values [n] corrected for their number (Holm 1979); NaN stays NaN and does not count.

    Example:
        >>> from pipeline.metrics import holm
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(p.shape, np.nan)
    order = [k for k in np.argsort(p, kind="stable") if not np.isnan(p[k])]
    worst = 0.0
    for place, k in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - place) * float(p[k])))
        corrected[k] = worst
    return corrected
