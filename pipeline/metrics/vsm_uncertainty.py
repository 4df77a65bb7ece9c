"""Voice similarity measures by speaker, for intervals.

See pipeline/metrics/README.md, sections 3 and 8.

A speaker's weight w enters twice: a same-speaker pair weighs w_i in the calibration and a different-speaker pair
w_i w_j, and so do the diagonal and the other cells in the diagonal dominance. Pairs are sorted once a condition.

Conventions: as of :mod:`pipeline.metrics.vsm`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pipeline.metrics._base import Array, Indices, MetricError
from pipeline.metrics.gains import NORMALISED_BOUNDS, normalised_values, value_or_nan
from pipeline.metrics.information import cllr_of_blocks, d_ece_of_blocks
from pipeline.metrics.pav import Rows, calibrate_rows, count_rows
from pipeline.metrics.uncertainty import BySpeaker
from pipeline.metrics.vsm import Pairs, checked_pairs, signed_dominance
from pipeline.metrics.vsm_measures import deid_of, g_vd_of, p0p1_ratio

CONDITIONS = ("oo", "op", "pp")

VSM_BOUNDS: Mapping[str, tuple[float, float]] = {
    **{f"d_diag.{key}": (0.0, 1.0) for key in CONDITIONS},
    **{f"signed.{key}": (-1.0, 1.0) for key in CONDITIONS},
    "deid": (-math.inf, 1.0),
    "g_vd": (-math.inf, math.inf),
    **{f"normalised_all_pairs.{name}": bounds for name, bounds in NORMALISED_BOUNDS.items()},
}
"""The measures that get an interval, with their ranges."""


def vsm_by_speaker(
    scores: Mapping[str, npt.NDArray[Any]],
    speakers: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    similarity: str = "geometric_mean",
    pairing: str = "all",
    self_pairs: str = "drop",
    scores_are_llr: bool = False,
) -> BySpeaker:
    """The measures in :data:`VSM_BOUNDS` as a function of speaker weights (the same in OO, OP and PP), for intervals.

    Args:
        scores: dense scores [n, n] of ``oo``, ``op`` and ``pp``. Of one of them alone there is its dominance and no more.
        speakers: [n], and further arguments as of :func:`pipeline.metrics.similarity_matrix`.
    """
    parts: dict[str, ReweightedPairs] = {}
    for key in (key for key in CONDITIONS if key in scores):
        values, pairs, _ = checked_pairs(scores[key], speakers, names, pairing=pairing, self_pairs=self_pairs)
        parts[key] = ReweightedPairs(values, pairs, similarity, scores_are_llr)
    n_speakers = next(iter(parts.values())).n_speakers

    def evaluate(weights: Array) -> dict[str, float]:
        signed, d_ece, cllr_min = {}, {}, {}
        for key, part in parts.items():
            signed[key], d_ece[key], cllr_min[key] = part(weights)
        values = {f"d_diag.{key}": abs(value) for key, value in signed.items()}
        values |= {f"signed.{key}": value for key, value in signed.items()}
        if len(parts) < len(CONDITIONS):
            return values
        values["deid"] = value_or_nan(deid_of, abs(signed["oo"]), abs(signed["op"]))
        values["g_vd"] = value_or_nan(g_vd_of, abs(signed["oo"]), abs(signed["pp"]))
        ratios = normalised_values([d_ece[key] for key in CONDITIONS], [cllr_min[key] for key in CONDITIONS])
        return values | {f"normalised_all_pairs.{name}": value for name, value in ratios.items()}

    bounds = VSM_BOUNDS
    if len(parts) < len(CONDITIONS):
        bounds = {name: ends for name, ends in VSM_BOUNDS.items() if name.partition(".")[2] in parts}
    return BySpeaker.of_panel(evaluate, np.arange(n_speakers), bounds)


LINKAGE_BOUNDS: Mapping[str, tuple[float, float]] = {
    "d_diag_p0p1": (0.0, 1.0),
    "d_diag_p0p1_signed": (-1.0, 1.0),
    "p0p1_ratio": (0.0, math.inf),
}
"""The measures that get an interval, with their ranges."""


def linkage_by_speaker(
    pp: npt.NDArray[Any],
    p0p1: npt.NDArray[Any],
    speakers: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    similarity: str = "geometric_mean",
    self_pairs: str = "drop",
) -> BySpeaker:
    """The measures in :data:`LINKAGE_BOUNDS` as a function of speaker weights, for intervals.

    Args:
        pp, p0p1: dense scores [n, n]; in ``p0p1`` rows are the first run and columns the second.
        speakers, names, similarity: as of :func:`pipeline.metrics.similarity_matrix`; all ordered pairs are compared.
        self_pairs: ``drop`` or ``keep``, in P0P1, the two versions of one utterance.
    """
    parts = []
    for scores, kept in ((pp, "drop"), (p0p1, self_pairs)):
        values, pairs, _ = checked_pairs(scores, speakers, names, pairing="all", self_pairs=kept)
        parts.append(ReweightedPairs(values, pairs, similarity, scores_are_llr=False))
    n_speakers = parts[0].n_speakers

    def evaluate(weights: Array) -> dict[str, float]:
        within, across = (part(weights)[0] for part in parts)
        ratio = value_or_nan(p0p1_ratio, abs(within), abs(across))
        return {"d_diag_p0p1": abs(across), "d_diag_p0p1_signed": across, "p0p1_ratio": ratio}

    return BySpeaker.of_panel(evaluate, np.arange(n_speakers), LINKAGE_BOUNDS)


_PART = 2**18


class ReweightedPairs:
    """Diagonal dominance, D_ECE and Cllr_min of one condition under speaker weights, from one sort.

    Pairs are kept grouped by speaker cell, each as the number of its row of equal or neighbouring scores.
    """

    def __init__(self, values: npt.NDArray[Any], pairs: Pairs, similarity: str, scores_are_llr: bool) -> None:
        self.n_speakers, self.similarity, self.scores_are_llr = pairs.n_speakers, similarity, scores_are_llr
        self.mirrored = pairs.pairing == "vpc2020"
        target, own, nontarget, cell = _by_class(values, pairs)
        rows = count_rows(target, nontarget)
        self.rows = rows
        index = np.arange(rows.lowest.size, dtype=np.int32)
        self.own = _Grouped(np.repeat(index, rows.target.astype(np.int64)), own, self.n_speakers)
        self.cells = _Grouped(np.repeat(index, rows.nontarget.astype(np.int64)), cell, self.n_speakers**2)
        if scores_are_llr:
            classes = ((own, target, self.n_speakers), (cell, nontarget, self.n_speakers**2))
            sums = (np.bincount(code, _contribution(scores, similarity), size) for code, scores, size in classes)
            self.fixed = self._matrix(*(part.astype(np.float64, copy=False) for part in sums))

    def __call__(self, weights: Array) -> tuple[float, float, float]:
        """Signed diagonal dominance, D_ECE and Cllr_min of all pairs under speaker weights [N].

        Raises:
            MetricError: fewer than two speakers have weight.
        """
        weighted = np.flatnonzero(weights > 0)
        if weighted.size < 2:
            raise MetricError("fewer than two speakers are left")
        target = self.own.row_weights(self.rows.target, weights)
        nontarget = self.cells.row_weights(self.rows.nontarget, np.multiply.outer(weights, weights).ravel())
        rows = Rows(target, nontarget, self.rows.lowest)
        plain = calibrate_rows(rows, laplace=False)
        if self.scores_are_llr:
            matrix = self.fixed
        else:
            laplace = calibrate_rows(rows, laplace=True)
            value = _contribution(laplace.llr, self.similarity)[laplace.block_of(self.rows.lowest)]
            matrix = self._matrix(self.own.sums(value), self.cells.sums(value))
        signed = signed_dominance(matrix[np.ix_(weighted, weighted)], weights[weighted])
        return signed, d_ece_of_blocks(plain), cllr_of_blocks(plain)

    def _matrix(self, own: Array, others: Array) -> Array:
        """Similarity [N, N] from the sums over same-speaker pairs [N] and over the cells [N * N]."""
        n = self.n_speakers
        sums, counts = others.reshape(n, n), self.cells.counts.reshape(n, n)
        if self.mirrored:
            sums, counts = sums + sums.T, counts + counts.T
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums / counts
            np.fill_diagonal(means, own / self.own.counts)
        return expit(means) if self.similarity == "sigmoid_mean" else np.exp(means)


class _Grouped:
    """Row numbers of pairs, grouped by cell."""

    def __init__(self, row: npt.NDArray[np.int32], cell: npt.NDArray[Any], n_cells: int) -> None:
        self.row = row[np.argsort(cell, kind="stable")]
        self.counts = np.bincount(cell, minlength=n_cells)
        self.ends = np.cumsum(self.counts)
        # Whole cells, about a cache's worth at a time.
        filled = np.flatnonzero(self.counts)
        self.parts = np.split(filled, np.flatnonzero(np.diff(self.ends[filled] // _PART)) + 1)

    def row_weights(self, counts: Array, weights: Array) -> Array:
        """Weight of each row, where a pair weighs what its cell does."""
        without = np.flatnonzero((weights == 0) & (self.counts > 0))
        if (weights[weights > 0] == 1).all() and self.counts[without].sum() * 2 < self.row.size:
            gone = [self.row[self.ends[k] - self.counts[k] : self.ends[k]] for k in without]
            return counts - np.bincount(np.concatenate(gone), minlength=counts.size) if gone else counts
        weighed = np.bincount(self.row, np.repeat(weights, self.counts), counts.size)
        return weighed.astype(np.float64, copy=False)

    def sums(self, value: Array) -> Array:
        """Sum over the pairs of each cell of the value of their row."""
        total = np.zeros(self.counts.size)
        for cells in self.parts:
            starts = self.ends[cells] - self.counts[cells]
            part = value[self.row[starts[0] : self.ends[cells[-1]]]]
            total[cells] = np.add.reduceat(part, starts - starts[0])
        return total


def _contribution(llr: npt.NDArray[Any], similarity: str) -> Array:
    values = llr.astype(np.float64, copy=False)
    return values if similarity == "sigmoid_mean" else -np.logaddexp(0.0, -values)


def _by_class(values: npt.NDArray[Any], pairs: Pairs) -> tuple[npt.NDArray[Any], Indices, npt.NDArray[Any], Indices]:
    """Ascending scores of same-speaker pairs with their speaker, and of other pairs with their cell."""
    n_speakers = pairs.n_speakers
    target, own, nontarget, cell = [], [], [], []
    # Cells of few speakers fit 16 bit, which keeps tens of millions of pairs within a small memory.
    narrow = np.uint16 if n_speakers**2 < 2**16 else np.int64
    for rows in pairs.chunks():
        used, same, part = pairs.used(rows), pairs.same(rows), values[rows]
        code = (pairs.speakers[rows, None] * n_speakers + pairs.speakers).astype(narrow)
        target.append(part[used & same])
        own.append(code[used & same] // (n_speakers + 1))
        nontarget.append(part[used & ~same])
        cell.append(code[used & ~same])
    result: list[npt.NDArray[Any]] = []
    for scores, where in ((target, own), (nontarget, cell)):
        joined = np.concatenate(scores)
        order = np.argsort(joined)
        result += [joined[order], np.concatenate(where)[order]]
        if np.isnan(result[-2][-1]):
            raise MetricError(f"{int(np.isnan(result[-2]).sum())} scores are NaN")
    return result[0], result[1], result[2], result[3]
