"""Metrics of trial lists by speaker and by identity, for intervals and null bands; two systems on the same trials.

See pipeline/metrics/README.md, sections 3 and 12.

A target trial weighs w_i and a non-target trial w_i w_j, w being the weights of its speakers. Scores are sorted once;
each replicate only reweights.

Conventions: higher scores mean more similar; both sides of a trial are codes in one numbering of speakers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, MetricError
from pipeline.metrics.detection import eer_kaldi, eer_rocch, eer_speechbrain, tpr_at_fpr_sorted
from pipeline.metrics.gains import NORMALISED_BOUNDS, normalised_values
from pipeline.metrics.information import D_ECE_MAX, cllr_of_blocks, d_ece_of_blocks, l_w_of_blocks
from pipeline.metrics.linkability import d_sys_of_blocks
from pipeline.metrics.pav import Calibration, Rows, calibrate_rows, count_rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker

VERSION = "trial intervals 2"

_LN2 = float(np.log(2.0))

BLOCK_METRICS: dict[str, Callable[[Calibration], float]] = {
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


def metric_bounds(name: str) -> tuple[float, float]:
    """The range of a metric of trial lists."""
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
        named = {*BLOCK_METRICS, *_SORTED_METRICS, *_RAW_METRICS}
        unknown = [name for name in metrics if name not in named and not name.startswith(_TPR)]
        if unknown:
            raise MetricError(f"no intervals for {', '.join(unknown)}")
        self.metrics = tuple(metrics)
        scores, enrolled, spoken = trials.ascending.scores, trials.ascending.enrolled, trials.ascending.spoken
        is_target = enrolled == spoken
        self.n_codes = trials.n_codes
        self.target, self.nontarget = scores[is_target], scores[~is_target]
        # Ranks stand for scores where only their order counts; they are half as long.
        self.ranks = trials.ascending.rank[is_target], trials.ascending.rank[~is_target]
        self.target_speaker = enrolled[is_target].astype(np.intp)
        self.first, self.second = enrolled[~is_target], spoken[~is_target]
        rows = count_rows(self.target, self.nontarget)
        self.lowest = rows.lowest
        index = np.arange(rows.lowest.size, dtype=np.intp)
        # Rows follow the sorted scores of either class, so a trial's row is its position among the counts.
        self.target_row = np.repeat(index, rows.target.astype(np.int64))
        self.nontarget_row = np.repeat(index, rows.nontarget.astype(np.int64))
        self.unweighted = Rows(rows.target, rows.nontarget, rows.lowest)
        self.own = _Places(enrolled[is_target], self.n_codes)
        self.others = (_Places(self.first, self.n_codes), _Places(self.second, self.n_codes))
        if any(name in _RAW_METRICS for name in self.metrics):
            self.target_cost, self.nontarget_cost = np.logaddexp(0.0, -self.target), np.logaddexp(0.0, self.nontarget)
            self.sums = self._cost_sums()

    @cached_property
    def pair(self) -> Indices | None:
        """Both speakers of each non-target as one number: one look-up in a table of products is quicker than two, as long as
        the table is small."""
        return self.first.astype(np.intp) * self.n_codes + self.second if self.n_codes <= 1000 else None

    def _cost_sums(self) -> tuple[Any, Any, Any, Any] | None:
        """Sums and counts of costs of targets [codes] and of non-targets [codes, codes]; None where they cannot be summed."""
        if self.pair is None:
            return None
        size = self.n_codes
        with np.errstate(over="ignore", invalid="ignore"):
            sums = (
                np.bincount(self.target_speaker, self.target_cost, size),
                np.bincount(self.target_speaker, minlength=size).astype(np.float64),
                np.bincount(self.pair, self.nontarget_cost, size**2).reshape(size, size),
                np.bincount(self.pair, minlength=size**2).astype(np.float64).reshape(size, size),
            )
        return sums if np.isfinite(sums[0]).all() and np.isfinite(sums[2]).all() else None

    def _cost(self, weights: Array) -> float:
        """Cllr under speaker weights [codes], in nats."""
        if self.sums is not None:
            target, n_target, nontarget, n_nontarget = self.sums
            of_targets = float(weights @ target / (weights @ n_target))
            return of_targets / 2 + float(weights @ nontarget @ weights / (weights @ n_nontarget @ weights)) / 2
        of_targets = _weighted_mean(self.target_cost, weights[self.target_speaker])
        return of_targets / 2 + _weighted_mean(self.nontarget_cost, self._pair_weights(weights)) / 2

    def _find_left_out(self, weights: Array) -> int | None:
        """The speaker who alone is left out, where the weights are of that kind: then few counts change."""
        zero = np.flatnonzero(weights == 0)
        return int(zero[0]) if zero.size == 1 and np.count_nonzero(weights == 1) == weights.size - 1 else None

    def _find_trials(self, speaker: int) -> tuple[Indices, Indices]:
        """Where the targets of a speaker stand, and the non-targets in which he is on either side."""
        first, second = (places[speaker] for places in self.others)
        return self.own[speaker], np.concatenate([first, second])

    def blocks(self, weights: Array) -> Calibration:
        """PAV blocks without the Laplace rule under speaker weights [codes].

        Raises:
            MetricError: a class has no weight.
        """
        size = self.lowest.size
        if (weights == 1).all():
            return calibrate_rows(self.unweighted, laplace=False)
        speaker = self._find_left_out(weights)
        if speaker is not None:
            own, others = self._find_trials(speaker)
            without = Rows(
                self.unweighted.target - np.bincount(self.target_row[own], minlength=size),
                self.unweighted.nontarget - np.bincount(self.nontarget_row[others], minlength=size),
                self.lowest,
            )
            return calibrate_rows(without, laplace=False)
        weighted = ((self.target_row, weights[self.target_speaker]), (self.nontarget_row, self._pair_weights(weights)))
        target, nontarget = (np.bincount(row, w, size).astype(np.float64, copy=False) for row, w in weighted)
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
        values = {name: BLOCK_METRICS[name](blocks) for name in self.metrics if name in BLOCK_METRICS}
        others = [name for name in self.metrics if name not in BLOCK_METRICS]
        if not others:
            return {name: values[name] for name in self.metrics}
        if any(name not in _RAW_METRICS for name in others):
            target, nontarget = self._drawn(weights)
        cost = self._cost(weights) if any(name in _RAW_METRICS for name in others) else 0.0
        for name in others:
            if name in _SORTED_METRICS:
                values[name] = _SORTED_METRICS[name](target, nontarget)
            elif name.startswith(_TPR):
                tpr = tpr_at_fpr_sorted(target, nontarget, float(name[len(_TPR) :])).tpr
                values[name] = math.nan if tpr is None else tpr
            else:
                least = cllr_of_blocks(blocks) if name == "cllr_cal" else 0.0
                values[name] = cost / _LN2 - least
        return {name: values[name] for name in self.metrics}

    def _drawn(self, weights: Array) -> tuple[Any, Any]:
        """Ranks of both classes, ascending, each as often as the weights [codes] say; whole numbers."""
        if (weights == 1).all():
            return self.ranks
        speaker = self._find_left_out(weights)
        if speaker is not None:
            own, others = self._find_trials(speaker)
            return _Kept(self.ranks[0], own), _Kept(self.ranks[1], others)
        return (
            np.repeat(self.ranks[0], weights[self.target_speaker].astype(np.int64)),
            np.repeat(self.ranks[1], self._pair_weights(weights).astype(np.int64)),
        )


class _Kept:
    """An ascending vector without some of its entries, none of which is moved: as much of a vector as error rates ask for."""

    def __init__(self, values: npt.NDArray[np.int32], dropped: Indices) -> None:
        self.values, self.dropped = values, np.sort(dropped)
        self.before = self.dropped - np.arange(dropped.size)
        self.size = values.size - dropped.size

    def __getitem__(self, index: Any) -> Any:
        place = np.where(np.asarray(index) < 0, np.asarray(index) + self.size, index)
        return self.values[place + np.searchsorted(self.before, place, side="right")]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(np.delete(self.values, self.dropped), dtype)

    def searchsorted(self, value: Any, side: Literal["left", "right"] = "left", sorter: None = None) -> Any:
        """How many entries lie below a value, or up to it."""
        place = np.searchsorted(self.values, value, side=side)
        return place - np.searchsorted(self.dropped, place, side="left")


class _Places:
    """Where each code stands in a vector of codes."""

    def __init__(self, codes: npt.NDArray[np.integer], n_codes: int) -> None:
        # Short integers are sorted by their digits, which is the quickest on millions.
        narrow = np.int32 if codes.size < 2**31 else np.int64
        self.order: npt.NDArray[Any] = np.argsort(codes, kind="stable").astype(narrow)
        self.start = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n_codes))))

    def __getitem__(self, code: int) -> Indices:
        """Ascending places of a code."""
        places: Indices = self.order[self.start[code] : self.start[code + 1]]
        return places


def _weighted_mean(values: Array, weights: Array) -> float:
    weighted = weights > 0
    with np.errstate(over="ignore"):
        mean = float(weights[weighted] @ values[weighted] / weights[weighted].sum())
        return mean if math.isfinite(mean) else float(weights[weighted] / weights[weighted].sum() @ values[weighted])


def trials_by_speaker(trials: Trials, metrics: Sequence[str] = TRIAL_METRICS) -> BySpeaker:
    """Metrics of a trial list as a function of speaker weights, for intervals.

    An error rate of 0 (or a TPR of 0 or 1) has the exact limit for as many target speakers. l_w and its tag are
    extremes: they have a ceiling and a null band, not an interval.

    Args:
        metrics: see :data:`TRIAL_METRICS`.

    Raises:
        MetricError: an unknown metric.
    """
    rates = {
        name: (0.0, 1.0) if name.startswith(_TPR) else (0.0,) for name in metrics if name.startswith(("eer.", _TPR))
    }
    return BySpeaker(
        Reweighted(trials, metrics),
        trials.speakers,
        degrees=trials.models.size - 1,
        bounds={name: metric_bounds(name) for name in metrics},
        rates=rates,
        n_rated=np.unique(trials.enrolled[trials.is_target]).size,
    )


def normalised_by_speaker(oo: Trials, op: Trials, pp: Trials) -> BySpeaker:
    """Eq. 17-20 of Noe 2022 as a function of speaker weights, for intervals; OO, OP and PP have one numbering of speakers."""
    parts = [Reweighted(part, ("d_ece", "cllr_min")) for part in (oo, op, pp)]

    def evaluate(weights: Array) -> dict[str, float]:
        values = [part(weights[: part.n_codes]) for part in parts]
        return normalised_values([f["d_ece"] for f in values], [f["cllr_min"] for f in values])

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
    unknown = [name for name in metrics if name != "l_w" and name not in BLOCK_METRICS]
    if unknown:
        raise MetricError(f"no null band for {', '.join(unknown)}")
    plain = {name: BLOCK_METRICS[name] for name in (*metrics, "d_ece") if name != "l_w"}
    matched = _Matched(trials)

    def evaluate(identity: Indices) -> dict[str, float]:
        rows = matched.rows(identity)
        blocks = calibrate_rows(rows, laplace=False)
        values = {name: metric(blocks) for name, metric in plain.items()}
        if "l_w" in metrics:
            values["l_w"] = l_w_of_blocks(calibrate_rows(rows, laplace=True))
        return values

    groups = _exchangeable(trials, trials.models)
    return ByIdentity(evaluate, groups, "enrolled speakers", metrics, {"l_w": "d_ece"}, _LOW)


class _Matched:
    """The trials of each enrolled speaker with each speaker of an utterance, as places among ascending scores."""

    def __init__(self, trials: Trials) -> None:
        sorted_trials = trials.ascending
        self.scores, self.enrolled, self.spoken = sorted_trials.scores, sorted_trials.enrolled, sorted_trials.spoken
        self.models, self.n_codes = trials.models, trials.n_codes
        by_spoken = np.argsort(self.spoken, kind="stable").astype(np.int32)
        place = by_spoken[np.argsort(self.enrolled[by_spoken], kind="stable")]
        cell = self.enrolled[place].astype(np.int64) * self.n_codes + self.spoken[place]
        self.start = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
        self.cell, self.stop = cell[self.start], np.append(self.start[1:], cell.size)
        # Where the scores that are equal to each begin; where the next ones do.
        self.run = np.append(np.flatnonzero(sorted_trials.begins), cell.size).astype(np.int32)
        self.rank = sorted_trials.rank[place]

    def rows(self, identity: Indices) -> Rows:
        """Counts of both classes where code k passes for code ``identity[k]``; without the scores of the rows.

        Raises:
            MetricError: a class is empty.
        """
        cells = self.models * self.n_codes + identity[self.models]
        at = np.minimum(np.searchsorted(self.cell, cells), self.cell.size - 1)
        at = at[self.cell[at] == cells]
        rank = np.sort(np.concatenate([self.rank[self.start[k] : self.stop[k]] for k in at] or [self.rank[:0]]))
        total = self.scores.size
        if not 0 < rank.size < total:
            raise MetricError("a class of trials is empty")
        if 2 * rank.size > total:
            is_target = identity.astype(self.spoken.dtype)[self.enrolled] == self.spoken
            return count_rows(self.scores[is_target], self.scores[~is_target])
        # As count_rows does it, with the targets told by their places alone.
        n_target = rank.size
        first = np.flatnonzero(np.concatenate(([True], rank[1:] != rank[:-1])))
        rank = rank[first]
        counts = np.diff(np.append(first, n_target))
        left = self.run[rank] - first
        right = self.run[rank + 1] - first - counts
        target, nontarget = np.zeros(2 * first.size + 1), np.empty(2 * first.size + 1)
        target[1::2] = counts
        nontarget[0::2] = np.append(left, total - n_target) - np.concatenate(([0], right))
        nontarget[1::2] = right - left
        filled = target + nontarget > 0
        return Rows(target[filled], nontarget[filled], np.zeros(np.count_nonzero(filled)))


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
