"""How far to trust the numbers of a trial list: intervals over speakers, null bands, paired tests (METRIC_NOTES 1b).

Trials share speakers, so speakers are the units: a target trial weighs w_i and a non-target trial w_i w_j, where w is 1
for everybody, 0 for a speaker left out, or a number of draws. Scores are sorted once; each replicate only reweights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from pipeline.metrics._checks import Array, Indices, Mask, MetricError, choice, codes, vector
from pipeline.metrics._result import quantity
from pipeline.metrics.cllr import cllr_of_blocks
from pipeline.metrics.detection import eer_kaldi, eer_rocch, eer_speechbrain, tpr_at_fpr_sorted
from pipeline.metrics.ece import D_ECE_MAX, d_ece_of_blocks
from pipeline.metrics.linkability import d_sys_of_blocks
from pipeline.metrics.normalised import normalised
from pipeline.metrics.pav import Calibration, Rows, calibrate_rows, count_rows
from pipeline.metrics.zebra import l_w_of_blocks

METHODS = ("jackknife", "percentile", "bca")

_LN2 = float(np.log(2.0))


@dataclass(frozen=True)
class Interval:
    """An interval of a metric over speakers; without one, ``reason`` says why."""

    low: float | None = quantity("", "lower end, in the metric's unit")
    high: float | None = quantity("", "upper end, in the metric's unit")
    method: str = quantity("label", "jackknife, percentile, bca, or zero_errors")
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


@dataclass(frozen=True)
class Paired:
    """Difference of a metric between two systems on the same trials, B minus A."""

    difference: float = quantity("", "value of B minus value of A, in the metric's unit")
    interval: Interval = quantity("", "jackknife interval of the difference")
    p_value: float | None = quantity("fraction", "two-sided, systems swapped speaker by speaker")
    replicates: int = quantity("count", "swaps")
    exact: bool = quantity("", "all swaps were enumerated")


@dataclass(frozen=True)
class Trials:
    """Scores with the speakers on both sides."""

    scores: Array
    """[n] score of each trial; higher means more similar."""
    enrolled: Indices
    """[n] code of the claimed (enrolled) speaker, in one numbering with ``spoken``."""
    spoken: Indices
    """[n] code of the speaker of the trial utterance; the trial is a target where both codes agree."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", vector(self.scores, "scores"))
        object.__setattr__(self, "enrolled", codes(self.enrolled, "enrolled speakers"))
        object.__setattr__(self, "spoken", codes(self.spoken, "speakers of the trial utterances"))
        if not self.scores.shape == self.enrolled.shape == self.spoken.shape:
            raise MetricError(f"{self.scores.size} scores, {self.enrolled.size} and {self.spoken.size} speakers")
        for held, name in ((self.is_target.any(), "target"), ((~self.is_target).any(), "non-target")):
            if not held:
                raise MetricError(f"there is no {name} score")

    @property
    def is_target(self) -> Mask:
        found: Mask = np.equal(self.enrolled, self.spoken)
        return found

    @property
    def n_codes(self) -> int:
        return int(max(self.enrolled.max(), self.spoken.max())) + 1


# --- intervals from replicates -------------------------------------------------------------------------------------


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
    left = np.asarray(left_out, dtype=np.float64)
    n = left.size
    if degrees < 1 or n < 2:
        return _no_interval("jackknife", level, n, "an interval over speakers needs at least two enrolled speakers")
    if not (np.isfinite(value) and np.isfinite(left).all()):
        return _no_interval("jackknife", level, n, "the metric is not finite, here or without one of the speakers")
    error = math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    if error <= 1e-14 * max(1.0, abs(value)):
        return _no_interval("jackknife", level, n, "the value is the same without any one speaker")
    centre = n * value - (n - 1) * float(left.mean())
    reach = float(stdtrit(degrees, (1 + level) / 2)) * error
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in (centre - reach, centre + reach))
    return Interval(low, high, "jackknife", level, n, "")


def percentile(draws: npt.ArrayLike, *, n_speakers: int, level: float = 0.95) -> Interval:
    """Percentile interval of bootstrap draws."""
    drawn = np.asarray(draws, dtype=np.float64)
    if not drawn.size or not np.isfinite(drawn).all():
        return _no_interval("percentile", level, n_speakers, "the metric is not finite in every draw of speakers")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), "percentile", level, n_speakers, "")


def bca(value: float, draws: npt.ArrayLike, left_out: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Bias-corrected and accelerated bootstrap interval (Efron), acceleration from the jackknife values."""
    drawn, left = np.asarray(draws, dtype=np.float64), np.asarray(left_out, dtype=np.float64)
    if not drawn.size or not (np.isfinite(value) and np.isfinite(drawn).all() and np.isfinite(left).all()):
        return _no_interval("bca", level, left.size, "the metric is not finite in every draw of speakers")
    pull = left.mean() - left
    spread = float((pull**2).sum())
    below = ((drawn < value).mean() + (drawn <= value).mean()) / 2
    if spread <= 0 or not 0 < below < 1:
        return _no_interval("bca", level, left.size, "the draws lie on one side of the value, or do not vary")
    acceleration = float((pull**3).sum()) / (6 * spread**1.5)
    bias = ndtri(below)
    ends = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    shares = ndtr(bias + ends / (1 - acceleration * ends))
    low, high = np.quantile(drawn, np.sort(shares))
    return Interval(float(low), float(high), "bca", level, left.size, "")


def zero_error_limit(n_speakers: int, level: float = 0.95) -> float:
    """Upper limit of an error rate of which no error was seen: 1 - 0.025^(1/target speakers) at 95 %."""
    if n_speakers < 1:
        raise MetricError("a limit needs at least one target speaker")
    return float(1 - ((1 - level) / 2) ** (1 / n_speakers))


def _no_interval(method: str, level: float, n_speakers: int, reason: str) -> Interval:
    return Interval(None, None, method, level, n_speakers, reason)


Evaluate = Callable[[Array], Mapping[str, float]]
"""The metrics under speaker weights [codes]; raises MetricError where they leave nothing to measure."""


def speaker_intervals(
    evaluate: Evaluate,
    speakers: Indices,
    n_codes: int,
    *,
    degrees: int,
    bounds: Mapping[str, tuple[float, float]],
    method: str = "jackknife",
    level: float = 0.95,
    replicates: int = 1000,
    generator: np.random.Generator | None = None,
) -> dict[str, Interval]:
    """Intervals of all metrics that ``evaluate`` gives, over ``speakers`` (codes) as units.

    Args:
        degrees: degrees of freedom of the jackknife's t quantile.
        bounds: range of each metric.
        method: ``jackknife`` (default), ``percentile`` or ``bca``; the last two need ``generator``.

    Raises:
        MetricError: an unknown method, or a bootstrap without a generator.
    """
    choice(method, METHODS, "method")
    whole = evaluate(np.ones(n_codes))
    left: dict[str, list[float]] = {name: [] for name in whole}
    drawn: dict[str, list[float]] = {name: [] for name in whole}
    if method != "percentile":
        for speaker in speakers:
            weights = np.ones(n_codes)
            weights[speaker] = 0.0
            try:
                found = evaluate(weights)
            except MetricError:
                found = dict.fromkeys(whole, math.nan)
            for name, values in left.items():
                values.append(found[name])
    if method != "jackknife":
        if generator is None:
            raise MetricError(f"method {method} needs a random generator")
        for found in _bootstrap(evaluate, speakers, n_codes, replicates, generator):
            for name, values in drawn.items():
                values.append(found[name])
    intervals = {}
    for name, value in whole.items():
        if method == "jackknife":
            intervals[name] = jackknife(value, left[name], degrees=degrees, bounds=bounds[name], level=level)
        elif method == "percentile":
            intervals[name] = percentile(drawn[name], n_speakers=speakers.size, level=level)
        else:
            intervals[name] = bca(value, drawn[name], left[name], level=level)
    return intervals


def _bootstrap(
    evaluate: Evaluate, speakers: Indices, n_codes: int, replicates: int, generator: np.random.Generator
) -> Iterator[Mapping[str, float]]:
    for _ in range(replicates):
        for _attempt in range(100):
            weights = np.zeros(n_codes)
            draws = generator.integers(0, speakers.size, speakers.size)
            weights[speakers] = np.bincount(draws, minlength=speakers.size)
            try:
                found = evaluate(weights)
            except MetricError:
                continue
            yield found
            break
        else:
            raise MetricError(
                "draws of speakers leave no target or no non-target trial: too few speakers for a bootstrap"
            )


# --- trials --------------------------------------------------------------------------------------------------------

_BLOCK_METRICS: dict[str, Callable[[Calibration], float]] = {
    "eer.rocch": lambda blocks: eer_rocch(blocks.target, blocks.nontarget),
    "cllr_min": cllr_of_blocks,
    "d_ece": d_ece_of_blocks,
    "d_sys.exact": d_sys_of_blocks,
}
_SORTED_METRICS: dict[str, Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]] = {
    "eer.kaldi": eer_kaldi,
    "eer.speechbrain": eer_speechbrain,
}
_TPR = "tpr_at_fpr."
_RAW_METRICS = ("cllr", "cllr_cal")

TRIAL_METRICS = ("eer.rocch", "cllr_min", "d_ece")
"""Metrics that intervals cover unless others are named; all: these, ``d_sys.exact``, ``eer.kaldi``,
``eer.speechbrain``, ``cllr``, ``cllr_cal`` and ``tpr_at_fpr.<rate>`` such as ``tpr_at_fpr.0.01``."""

_ERROR_RATES = ("eer.rocch", "eer.kaldi", "eer.speechbrain")


def _bounds(name: str) -> tuple[float, float]:
    if name == "eer.rocch":
        return 0.0, 0.5
    if name == "d_ece":
        return 0.0, D_ECE_MAX
    if name in _RAW_METRICS:
        return 0.0, math.inf
    return 0.0, 1.0


class Reweighted:
    """The metrics of a trial list under speaker weights, from one sort."""

    def __init__(self, trials: Trials, metrics: Sequence[str] = TRIAL_METRICS) -> None:
        unknown = [
            name
            for name in metrics
            if name not in _BLOCK_METRICS
            and name not in _SORTED_METRICS
            and name not in _RAW_METRICS
            and not name.startswith(_TPR)
        ]
        if unknown:
            raise MetricError(f"no intervals for {', '.join(unknown)}")
        self.metrics = tuple(metrics)
        order = np.argsort(trials.scores)
        scores, enrolled, spoken = trials.scores[order], trials.enrolled[order], trials.spoken[order]
        is_target = enrolled == spoken
        self.n_codes = trials.n_codes
        self.target, self.nontarget = scores[is_target], scores[~is_target]
        self.target_speaker = enrolled[is_target].astype(np.intp)
        self.first, self.second = enrolled[~is_target].astype(np.intp), spoken[~is_target].astype(np.intp)
        # One look-up in a table of products is quicker than two, as long as the table is small.
        self.pair = self.first * self.n_codes + self.second if self.n_codes <= 1000 else None
        rows = count_rows(self.target, self.nontarget)
        self.lowest = rows.lowest
        index = np.arange(rows.lowest.size, dtype=np.intp)
        # Rows follow the sorted scores of either class, so a trial's row is its position among the counts.
        self.target_row = np.repeat(index, rows.target.astype(np.int64))
        self.nontarget_row = np.repeat(index, rows.nontarget.astype(np.int64))
        if any(name in _RAW_METRICS for name in self.metrics):
            self.target_cost, self.nontarget_cost = np.logaddexp(0.0, -self.target), np.logaddexp(0.0, self.nontarget)

    def blocks(self, weights: Array) -> Calibration:
        """PAV blocks without the Laplace rule under speaker weights [codes].

        Raises:
            MetricError: a class has no weight.
        """
        size = self.lowest.size
        target: Array = np.bincount(self.target_row, weights[self.target_speaker], size).astype(np.float64, copy=False)
        nontarget: Array = np.bincount(self.nontarget_row, self._pair_weights(weights), size).astype(
            np.float64, copy=False
        )
        return calibrate_rows(Rows(target, nontarget, self.lowest), laplace=False)

    def _pair_weights(self, weights: Array) -> Array:
        products: Array
        if self.pair is None:
            products = weights[self.first] * weights[self.second]
        else:
            products = np.multiply.outer(weights, weights).ravel()[self.pair]
        return products

    def __call__(self, weights: Array) -> dict[str, float]:
        """Value of each metric under speaker weights [codes]; whole numbers for metrics other than those of PAV."""
        blocks = self.blocks(weights)
        values = {name: _BLOCK_METRICS[name](blocks) for name in self.metrics if name in _BLOCK_METRICS}
        rest = [name for name in self.metrics if name not in _BLOCK_METRICS]
        if not rest:
            return {name: values[name] for name in self.metrics}
        target_weight, nontarget_weight = weights[self.target_speaker], self._pair_weights(weights)
        if any(name not in _RAW_METRICS for name in rest):
            target = np.repeat(self.target, target_weight.astype(np.int64))
            nontarget = np.repeat(self.nontarget, nontarget_weight.astype(np.int64))
        for name in rest:
            if name in _SORTED_METRICS:
                values[name] = _SORTED_METRICS[name](target, nontarget)
            elif name.startswith(_TPR):
                tpr = tpr_at_fpr_sorted(target, nontarget, float(name[len(_TPR) :])).tpr
                values[name] = math.nan if tpr is None else tpr
            else:
                cost = _weighted_mean(self.target_cost, target_weight)
                cost += _weighted_mean(self.nontarget_cost, nontarget_weight)
                least = cllr_of_blocks(blocks) if name == "cllr_cal" else 0.0
                values[name] = cost / (2 * _LN2) - least
        return {name: values[name] for name in self.metrics}


def _weighted_mean(values: Array, weights: Array) -> float:
    held = weights > 0
    return float(weights[held] @ values[held] / weights[held].sum())


def trial_intervals(
    trials: Trials,
    *,
    metrics: Sequence[str] = TRIAL_METRICS,
    method: str = "jackknife",
    level: float = 0.95,
    replicates: int = 1000,
    generator: np.random.Generator | None = None,
) -> dict[str, Interval]:
    """Intervals of the metrics of a trial list over speakers.

    An error rate of 0 (or a TPR of 0 or 1) gets the exact limit for as many target speakers instead. l_w and its tag
    are extremes: they have a ceiling and a null band, not an interval.

    Args:
        metrics: see :data:`TRIAL_METRICS`.
        method: ``jackknife`` (bias-corrected, t quantile with enrolled speakers - 1 degrees of freedom), ``percentile``
            or ``bca`` over speakers.
        replicates, generator: for the bootstraps.

    Raises:
        MetricError: an unknown metric or method, or a bootstrap without a generator.
    """
    evaluate = Reweighted(trials, metrics)
    intervals = speaker_intervals(
        evaluate,
        np.union1d(trials.enrolled, trials.spoken),
        trials.n_codes,
        degrees=np.unique(trials.enrolled).size - 1,
        bounds={name: _bounds(name) for name in metrics},
        method=method,
        level=level,
        replicates=replicates,
        generator=generator,
    )
    n_target_speakers = np.unique(trials.enrolled[trials.is_target]).size
    limit = zero_error_limit(n_target_speakers, level)
    for name, value in evaluate(np.ones(trials.n_codes)).items():
        if name in _ERROR_RATES or name.startswith(_TPR):
            high = min(limit, _bounds(name)[1])
            if value == 0:
                intervals[name] = Interval(0.0, high, "zero_errors", level, n_target_speakers, "")
            elif value == 1 and name.startswith(_TPR):
                intervals[name] = Interval(1 - high, 1.0, "zero_errors", level, n_target_speakers, "")
    return intervals


def normalised_intervals(
    oo: Trials,
    op: Trials,
    pp: Trials,
    *,
    method: str = "jackknife",
    level: float = 0.95,
    replicates: int = 1000,
    generator: np.random.Generator | None = None,
) -> dict[str, Interval]:
    """Intervals of Eq. 17-20, the same speakers left out (or drawn) in OO, OP and PP.

    Args:
        oo, op, pp: trials in one numbering of speakers.

    Raises:
        MetricError: an unknown method, or a bootstrap without a generator.
    """
    parts = [Reweighted(part, ("d_ece", "cllr_min")) for part in (oo, op, pp)]
    n_codes = max(part.n_codes for part in parts)

    def evaluate(weights: Array) -> dict[str, float]:
        found = [part(weights[: part.n_codes]) for part in parts]
        return normalised_values([f["d_ece"] for f in found], [f["cllr_min"] for f in found])

    return speaker_intervals(
        evaluate,
        np.unique(np.concatenate([side for part in (oo, op, pp) for side in (part.enrolled, part.spoken)])),
        n_codes,
        degrees=np.unique(oo.enrolled).size - 1,
        bounds=NORMALISED_BOUNDS,
        method=method,
        level=level,
        replicates=replicates,
        generator=generator,
    )


NORMALISED_BOUNDS = {
    "d_ece_op_oo": (-math.inf, 1.0),
    "cllr_min_op_oo": (-math.inf, 1.0),
    "g_d_ece": (-math.inf, math.inf),
    "g_cllr_min": (-math.inf, math.inf),
}


def normalised_values(d_ece: Sequence[float], cllr_min: Sequence[float]) -> dict[str, float]:
    """Eq. 17-20 by name from OO, OP, PP; NaN where undefined."""
    found = normalised(d_ece=(d_ece[0], d_ece[1], d_ece[2]), cllr_min=(cllr_min[0], cllr_min[1], cllr_min[2]))
    values = {name: getattr(found, name) for name in NORMALISED_BOUNDS}
    return {name: math.nan if value is None else value for name, value in values.items()}


# --- null bands ----------------------------------------------------------------------------------------------------


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


FEWEST_PERMUTED = 5
"""Speakers with fewer than 5! = 120 permutations cannot show a 2.5 % point."""


def trial_null_bands(
    trials: Trials, *, generator: np.random.Generator, replicates: int = 1000, metrics: Sequence[str] = ("d_ece", "l_w")
) -> dict[str, NullBand]:
    """Null bands of D_ECE and l_w: the claimed identities of the enrolment models are permuted as wholes.

    Models change places only with models that were tried against their speakers (directly or through others), so that
    lists of same-sex trials stay lists of same-sex trials. Trial labels are never permuted one by one.

    Args:
        metrics: any of ``d_ece``, ``l_w``, ``cllr_min``, ``eer.rocch``.

    Raises:
        MetricError: an unknown metric.
    """
    unknown = [name for name in metrics if name != "l_w" and name not in _BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no null band for {', '.join(unknown)}")
    models = np.unique(trials.enrolled)
    groups = _exchangeable(trials, models)
    if max(group.size for group in groups) < FEWEST_PERMUTED:
        reason = f"permuting {models.size} enrolled speakers gives too few arrangements"
        return {name: no_band(reason) for name in metrics}
    order = np.argsort(trials.scores)
    scores = trials.scores[order]
    # Narrow codes halve the traffic of the inner loop.
    narrow = np.int16 if trials.n_codes < 2**15 else np.int32
    enrolled, spoken = trials.enrolled[order].astype(narrow), trials.spoken[order].astype(narrow)

    # D_ECE decides among equal l_w.
    plain = [name for name in metrics if name != "l_w"]
    if "l_w" in metrics and "d_ece" not in plain:
        plain.append("d_ece")

    def measure(identity: npt.NDArray[Any]) -> dict[str, float]:
        is_target = identity[enrolled] == spoken
        rows = count_rows(scores[is_target], scores[~is_target])
        found = {}
        if "l_w" in metrics:
            found["l_w"] = l_w_of_blocks(calibrate_rows(rows, laplace=True))
        blocks = calibrate_rows(rows, laplace=False)
        found.update((name, _BLOCK_METRICS[name](blocks)) for name in plain)
        return found

    own = np.arange(trials.n_codes, dtype=narrow)
    value = measure(own)
    drawn: dict[str, list[float]] = {name: [] for name in value}
    for _ in range(replicates):
        identity = own.copy()
        for group in groups:
            identity[group] = generator.permutation(group)
        is_target = identity[enrolled] == spoken
        if not is_target.any() or is_target.all():
            continue
        for name, found in measure(identity).items():
            drawn[name].append(found)
    if not drawn[metrics[0]]:
        return {name: no_band("permuted speakers have no target trials") for name in metrics}
    second = (value["d_ece"], drawn["d_ece"]) if "l_w" in metrics else None
    return {name: null_band(value[name], drawn[name], tie=second if name == "l_w" else None) for name in metrics}


def _exchangeable(trials: Trials, models: Indices) -> list[Indices]:
    """Groups of enrolled speakers whose models and utterances were tried against each other."""
    place = np.full(trials.n_codes, -1)
    place[models] = np.arange(models.size)
    among = place[trials.spoken] >= 0
    linked = np.zeros((models.size, models.size), dtype=bool)
    linked[place[trials.enrolled[among]], place[trials.spoken[among]]] = True
    linked |= linked.T
    groups, free = [], np.ones(models.size, dtype=bool)
    while free.any():
        reached = np.zeros(models.size, dtype=bool)
        reached[np.argmax(free)] = True
        while True:
            wider = reached | linked[reached].any(axis=0)
            if (wider == reached).all():
                break
            reached = wider
        groups.append(models[reached])
        free &= ~reached
    return groups


# --- paired comparison ---------------------------------------------------------------------------------------------


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
    unknown = [name for name in metrics if name not in _BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no paired test for {', '.join(unknown)}")
    first, second = Reweighted(a, metrics), Reweighted(b, metrics)

    def difference(weights: Array) -> dict[str, float]:
        of_a, of_b = first(weights), second(weights)
        return {name: of_b[name] - of_a[name] for name in metrics}

    intervals = speaker_intervals(
        difference,
        np.union1d(a.enrolled, a.spoken),
        a.n_codes,
        degrees=np.unique(a.enrolled).size - 1,
        bounds={name: (_bounds(name)[0] - _bounds(name)[1], _bounds(name)[1] - _bounds(name)[0]) for name in metrics},
        level=level,
    )
    whole = difference(np.ones(a.n_codes))

    ranks = np.concatenate([_ranks(a.scores), _ranks(b.scores)])
    order = np.argsort(ranks, kind="stable")
    ranks = ranks[order]
    system_b = order >= a.scores.size
    trial = order % a.scores.size
    enrolled, is_target = a.enrolled[trial], a.is_target[trial]

    def swapped(swap: Mask) -> dict[str, float]:
        in_b = system_b ^ swap[enrolled]
        of_a = _block_values(ranks[is_target & ~in_b], ranks[~is_target & ~in_b], metrics)
        of_b = _block_values(ranks[is_target & in_b], ranks[~is_target & in_b], metrics)
        return {name: of_b[name] - of_a[name] for name in metrics}

    models = np.unique(a.enrolled)
    exact = 2 ** (models.size - 1) <= replicates
    reached, count = dict.fromkeys(metrics, 0), 0
    for swap in _swaps(models, a.n_codes, replicates, exact, generator):
        count += 1
        for name, found in swapped(swap).items():
            reached[name] += abs(found) >= abs(whole[name]) - 1e-12
    return {
        name: Paired(
            whole[name],
            intervals[name],
            reached[name] / count if exact else (reached[name] + 1) / (count + 1),
            count,
            exact,
        )
        for name in metrics
    }


def _ranks(scores: Array) -> Array:
    """Mean rank of each score, equal scores sharing theirs."""
    ranked = np.sort(scores)
    left, right = np.searchsorted(ranked, scores, side="left"), np.searchsorted(ranked, scores, side="right")
    mean: Array = (left + right - 1) / 2
    return mean


def _block_values(target: Array, nontarget: Array, metrics: Sequence[str]) -> dict[str, float]:
    blocks = calibrate_rows(count_rows(target, nontarget), laplace=False)
    return {name: _BLOCK_METRICS[name](blocks) for name in metrics}


def _swaps(
    models: Indices, n_codes: int, replicates: int, exact: bool, generator: np.random.Generator
) -> Iterator[Mask]:
    if exact:
        # A swap and its complement give the same absolute difference: the first speaker stays.
        for rest in itertools.product((False, True), repeat=models.size - 1):
            swap = np.zeros(n_codes, dtype=bool)
            swap[models[1:]] = rest
            yield swap
        return
    for _ in range(replicates):
        swap = np.zeros(n_codes, dtype=bool)
        swap[models] = generator.random(models.size) < 0.5
        yield swap
