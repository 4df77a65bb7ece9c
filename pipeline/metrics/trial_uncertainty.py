"""Metrics of trial lists by speaker and by identity, for intervals and null bands; two systems on the same trials.

See pipeline/metrics/README.md, sections 3 and 12.

A target trial weighs w_i and a non-target trial w_i w_j, w being the weights of its speakers. Scores are sorted once;
each replicate only reweights.

Conventions: higher scores mean more similar; both sides of a trial are codes in one numbering of speakers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Indices, Mask, MetricError
from pipeline.metrics._result import quantity
from pipeline.metrics.cllr import cllr_of_blocks
from pipeline.metrics.detection import eer_kaldi, eer_rocch, eer_speechbrain, tpr_at_fpr_sorted
from pipeline.metrics.ece import D_ECE_MAX, d_ece_of_blocks
from pipeline.metrics.linkability import d_sys_of_blocks
from pipeline.metrics.normalised import NORMALISED_BOUNDS, normalised_values
from pipeline.metrics.pav import Calibration, Rows, calibrate_rows, count_rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker, Interval, intervals
from pipeline.metrics.zebra import l_w_of_blocks

_LN2 = float(np.log(2.0))

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


def _is_rate(name: str) -> bool:
    return name.startswith(("eer.", _TPR))


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
    with np.errstate(over="ignore"):
        mean = float(weights[held] @ values[held] / weights[held].sum())
        return mean if math.isfinite(mean) else float(weights[held] / weights[held].sum() @ values[held])


def trials_by_speaker(trials: Trials, metrics: Sequence[str] = TRIAL_METRICS) -> BySpeaker:
    """Metrics of a trial list as a function of speaker weights, for intervals.

    An error rate of 0 (or a TPR of 0 or 1) has the exact limit for as many target speakers. l_w and its tag are
    extremes: they have a ceiling and a null band, not an interval.

    Args:
        metrics: see :data:`TRIAL_METRICS`.

    Raises:
        MetricError: an unknown metric.
    """
    rates = {name: (0.0, 1.0) if name.startswith(_TPR) else (0.0,) for name in metrics if _is_rate(name)}
    return BySpeaker(
        Reweighted(trials, metrics),
        np.union1d(trials.enrolled, trials.spoken),
        degrees=np.unique(trials.enrolled).size - 1,
        bounds={name: _bounds(name) for name in metrics},
        rates=rates,
        n_rated=np.unique(trials.enrolled[trials.is_target]).size,
    )


def normalised_by_speaker(oo: Trials, op: Trials, pp: Trials) -> BySpeaker:
    """Eq. 17-20 of Noe 2022 as a function of speaker weights (the same in OO, OP and PP), for intervals.

    Args:
        oo, op, pp: trials in one numbering of speakers.
    """
    parts = [Reweighted(part, ("d_ece", "cllr_min")) for part in (oo, op, pp)]

    def evaluate(weights: Array) -> dict[str, float]:
        found = [part(weights[: part.n_codes]) for part in parts]
        return normalised_values([f["d_ece"] for f in found], [f["cllr_min"] for f in found])

    return BySpeaker(
        evaluate,
        np.unique(np.concatenate([side for part in (oo, op, pp) for side in (part.enrolled, part.spoken)])),
        degrees=np.unique(oo.enrolled).size - 1,
        bounds=NORMALISED_BOUNDS,
    )


_LOW = ("cllr_min", "eer.rocch")
"""Metrics of which low values disclose."""


def trials_by_identity(trials: Trials, metrics: Sequence[str] = ("d_ece", "l_w")) -> ByIdentity:
    """D_ECE and l_w as a function of the claimed identities of the enrolment models, for null bands.

    Models change places only with models that were tried against their speakers (directly or through others), so that
    lists of same-sex trials stay lists of same-sex trials. Trial labels are never permuted one by one. Equal l_w are
    told apart by D_ECE.

    Args:
        metrics: any of ``d_ece``, ``l_w``, ``cllr_min``, ``eer.rocch``, ``d_sys.exact``.

    Raises:
        MetricError: an unknown metric.
    """
    unknown = [name for name in metrics if name != "l_w" and name not in _BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no null band for {', '.join(unknown)}")
    order = np.argsort(trials.scores)
    scores = trials.scores[order]
    # Narrow codes halve the traffic of the inner loop.
    narrow = np.int16 if trials.n_codes < 2**15 else np.int32
    enrolled, spoken = trials.enrolled[order].astype(narrow), trials.spoken[order].astype(narrow)
    plain = {name: _BLOCK_METRICS[name] for name in (*metrics, "d_ece") if name != "l_w"}

    def evaluate(identity: Indices) -> dict[str, float]:
        is_target = identity.astype(narrow)[enrolled] == spoken
        if not is_target.any() or is_target.all():
            raise MetricError("a class of trials is empty")
        rows = count_rows(scores[is_target], scores[~is_target])
        blocks = calibrate_rows(rows, laplace=False)
        found = {name: metric(blocks) for name, metric in plain.items()}
        if "l_w" in metrics:
            found["l_w"] = l_w_of_blocks(calibrate_rows(rows, laplace=True))
        return found

    groups = _exchangeable(trials, np.unique(trials.enrolled))
    return ByIdentity(evaluate, groups, "enrolled speakers", metrics, {"l_w": "d_ece"}, _LOW)


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
    unknown = [name for name in metrics if name not in _BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no paired test for {', '.join(unknown)}")
    difference = _difference(a, b, metrics)
    interval = intervals(difference, level=level)
    whole = difference.evaluate(difference.everybody)
    models = np.unique(a.enrolled)
    exact = 2 ** (models.size - 1) <= replicates
    reached, count = dict.fromkeys(metrics, 0), 0
    swapped = _swapped(a, b, metrics)
    for swap in _swaps(models, a.n_codes, replicates, exact, generator):
        count += 1
        for name, found in swapped(swap).items():
            reached[name] += abs(found) >= abs(whole[name]) - 1e-12
    return {
        name: Paired(
            whole[name],
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

    spans = {name: high - low for name, (low, high) in ((name, _bounds(name)) for name in metrics)}
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
