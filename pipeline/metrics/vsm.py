"""Voice similarity matrices and what is read off them: D_diag, DeID, G_VD, the speaker table (Noe 2020, 2022).

See pipeline/metrics/README.md, sections 8 and 9.

OO, OP and PP are dense score matrices over the same utterances: entry [u, v] compares utterance u of the first set
with utterance v of the second (in OP, original u with protected v). Each is calibrated on its own.

Conventions: higher scores mean more similar; similarities, D_diag and DeID are fractions and G_VD is dB. A higher
DeID is more private. Speakers are integer codes from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pipeline.metrics._base import Array, Indices, Mask, MetricError, check_choice, check_codes, list_some, quantity
from pipeline.metrics.information import cllr_of_blocks, d_ece_of_blocks, z_function
from pipeline.metrics.pav import Rows, calibrate_rows, count_rows

SIMILARITIES = ("geometric_mean", "sigmoid_mean")
PAIRINGS = ("all", "vpc2020")
SELF_PAIRS = ("drop", "keep")

_LN2 = float(np.log(2.0))
# Below this, a mean difference of cells is the rounding of equal cells.
FLAT = 1e-14
_CHUNK = 2_000_000
LARGEST_LLR = 1e290
"""Finite LLRs that are larger than this cannot be summed over a cell."""


@dataclass(frozen=True)
class SimilarityMatrix:
    """Voice similarity matrix of one condition (OO, OP or PP) over N speakers."""

    matrix: Array = quantity("fraction", "[N, N] similarity of speakers, row of the first set, column of the second")
    signed: float = quantity("fraction", "mean of the diagonal minus mean of the rest")
    d_diag: float = quantity("fraction", "diagonal dominance, the absolute value of ``signed``")
    n_target: int = quantity("count", "same-speaker pairs used")
    n_nontarget: int = quantity("count", "different-speaker pairs used")
    d_ece: float = quantity("bit", "D_ECE of all pairs, PAV without the Laplace rule", "lower")
    cllr_min: float = quantity("bit", "Cllr_min of all pairs", "higher")
    target_llr: Array = quantity("nat", "[N] mean LLR of a speaker's own pairs, the zoo's x")
    impostor_llr_row: Array = quantity("nat", "[N] mean LLR of the pairs of a speaker of the first set with others")
    impostor_llr_column: Array = quantity("nat", "[N] mean LLR of the pairs of a speaker of the second set with others")
    speaker_d_ece: Array = quantity("bit", "[N] D_ECE of a speaker's pairs under the map of the whole set", "lower")
    speaker_max_llr: Array = quantity("nat", "[N] largest |LLR| of a speaker's pairs under that map", "lower")

    @property
    def impostor_llr(self) -> Array:
        """[N] mean LLR of a speaker's pairs with others in either role, the zoo's y (in OP the two roles differ)."""
        return (self.impostor_llr_row + self.impostor_llr_column) / 2


@dataclass(frozen=True)
class Pairs:
    """Which entries of a score matrix are compared, and to which speakers they belong."""

    speakers: Indices
    n_speakers: int
    pairing: str
    self_pairs: str

    def chunks(self) -> Iterator[slice]:
        n = self.speakers.size
        step = max(1, _CHUNK // max(n, 1))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    def used(self, rows: slice) -> Mask:
        n = self.speakers.size
        index = np.arange(n)
        first = index[rows, None]
        used: Mask = np.ones((first.size, n), dtype=np.bool_)
        if self.pairing == "vpc2020":
            used = first < index
        elif self.self_pairs == "drop":
            used = first != index
        return used

    def same(self, rows: slice) -> Mask:
        same: Mask = np.equal(self.speakers[rows, None], self.speakers)
        return same


def similarity_matrix(
    scores: npt.NDArray[Any],
    speakers: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    similarity: str = "geometric_mean",
    pairing: str = "all",
    self_pairs: str = "drop",
    scores_are_llr: bool = False,
) -> SimilarityMatrix:
    """Voice similarity matrix of a dense score matrix.

    Args:
        scores: [n, n] float32 or float64; row and column k belong to the same utterance. Entries that ``pairing`` and
            ``self_pairs`` leave out are not read and may be NaN.
        speakers: [n] integer code of each utterance's speaker, 0 to N-1.
        names: [N] names for messages; default the codes.
        similarity: ``geometric_mean`` of the posteriors at prior 1/2 (Noe 2022, Eq. 6) or ``sigmoid_mean``, the
            sigmoid of the mean LLR (Noe 2020, Eq. 2, the public script).
        pairing: ``all`` ordered pairs, or ``vpc2020``: row index below column index only, also for OP, mirrored.
        self_pairs: ``drop`` or ``keep`` the comparison of an utterance with itself (in OP, with its protected self).
        scores_are_llr: take the scores as natural-log LLRs; else they are oracle-calibrated with the Laplace rule.

    Raises:
        MetricError: NaN, fewer than two speakers, a speaker without a pair of its own (named), a similarity that does
            not exist because a cell holds both +inf and -inf.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import similarity_matrix
        >>> speakers = [0, 0, 1, 1, 2, 2]
        >>> llr = np.where(np.equal.outer(speakers, speakers), 2.0, -2.0)
        >>> found = similarity_matrix(llr, speakers, scores_are_llr=True)
        >>> found.matrix.round(2).tolist()
        [[0.88, 0.12, 0.12], [0.12, 0.88, 0.12], [0.12, 0.12, 0.88]]
        >>> round(found.d_diag, 4), found.n_target, found.n_nontarget
        (0.7616, 6, 24)
    """
    check_choice(similarity, SIMILARITIES, "similarity")
    values, pairs, labels = checked_pairs(scores, speakers, names, pairing=pairing, self_pairs=self_pairs)
    if scores_are_llr and (np.isfinite(values) & (np.abs(values) > LARGEST_LLR)).any():
        raise MetricError(
            f"LLRs beyond {LARGEST_LLR:g}, whose sums leave the range of numbers: these scores are no LLRs"
        )
    rows = pair_rows(values, pairs)
    plain = calibrate_rows(rows, laplace=False)
    sums = _cell_sums(values, pairs, rows, similarity, scores_are_llr)
    cells = sums.similarity / sums.count
    matrix = expit(cells) if similarity == "sigmoid_mean" else np.exp(cells)
    if np.isnan(matrix).any():
        i, j = np.argwhere(np.isnan(matrix))[0]
        raise MetricError(f"the LLRs of {labels[i]} against {labels[j]} hold both +inf and -inf: they have no mean")
    signed = signed_dominance(matrix)
    return SimilarityMatrix(
        matrix=matrix,
        signed=signed,
        d_diag=abs(signed),
        n_target=int(rows.n_target),
        n_nontarget=int(rows.n_nontarget),
        d_ece=d_ece_of_blocks(plain),
        cllr_min=cllr_of_blocks(plain),
        **_of_speakers(sums),
    )


def _of_speakers(sums: _CellSums) -> dict[str, Array]:
    own, count = np.diag(sums.llr), sums.count
    others = count - np.diag(np.diag(count))
    impostors = sums.llr.copy()
    np.fill_diagonal(impostors, 0.0)
    z_impostors = sums.z.copy()
    np.fill_diagonal(z_impostors, 0.0)
    both_roles = z_impostors.sum(axis=0) + z_impostors.sum(axis=1)
    z = np.diag(sums.z) / np.diag(count) + both_roles / (others.sum(axis=0) + others.sum(axis=1))
    return {
        "target_llr": own / np.diag(count),
        "impostor_llr_row": impostors.sum(axis=1) / others.sum(axis=1),
        "impostor_llr_column": impostors.sum(axis=0) / others.sum(axis=0),
        "speaker_d_ece": z / (2 * _LN2),
        "speaker_max_llr": np.maximum(sums.largest.max(axis=0), sums.largest.max(axis=1)),
    }


def checked_pairs(
    scores: npt.NDArray[Any], speakers: npt.ArrayLike, names: Sequence[str] | None, *, pairing: str, self_pairs: str
) -> tuple[npt.NDArray[Any], Pairs, list[str]]:
    """Square scores, the pairs that are compared, and speaker names, all fitting together.

    Raises:
        MetricError: they do not, an unknown option, fewer than two speakers, a speaker without a pair of its own.
    """
    check_choice(pairing, PAIRINGS, "pairing")
    check_choice(self_pairs, SELF_PAIRS, "self_pairs")
    if pairing == "vpc2020" and self_pairs == "keep":
        raise MetricError("pairing vpc2020 compares no utterance with itself: self_pairs must be drop")
    values = np.asarray(scores)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    speaker_codes = check_codes(speakers, "speakers")
    if values.shape != (speaker_codes.size, speaker_codes.size):
        raise MetricError(f"scores of shape {values.shape} do not fit {speaker_codes.size} utterances")
    n_speakers = max(int(speaker_codes.max()) + 1 if speaker_codes.size else 0, len(names) if names else 0)
    labels = [str(name) for name in names] if names is not None else [str(i) for i in range(n_speakers)]
    if len(labels) != n_speakers:
        raise MetricError(f"{len(labels)} names for {n_speakers} speakers")
    if n_speakers < 2:
        raise MetricError(f"a similarity matrix needs at least two speakers, not {n_speakers}")
    pairs = Pairs(speaker_codes, n_speakers, pairing, self_pairs)
    lonely = [labels[i] for i in np.flatnonzero(_diagonal_counts(pairs) == 0)]
    if lonely:
        raise MetricError(
            f"no pair of two utterances of the same speaker for {list_some(lonely)}: the diagonal cell is empty"
        )
    return values, pairs, labels


def _diagonal_counts(pairs: Pairs) -> Indices:
    k = np.bincount(pairs.speakers, minlength=pairs.n_speakers).astype(np.int64)
    if pairs.pairing == "vpc2020":
        return k * (k - 1) // 2
    return k * (k - 1) if pairs.self_pairs == "drop" else k * k


def pair_rows(values: npt.NDArray[Any], pairs: Pairs) -> Rows:
    """Rows of all pairs that are compared, sorted once.

    Raises:
        MetricError: NaN among them.
    """
    n, own = pairs.speakers.size, int(_diagonal_counts(pairs).sum())
    total = n * (n - 1) // 2 if pairs.pairing == "vpc2020" else n * n - (n if pairs.self_pairs == "drop" else 0)
    target, nontarget = np.empty(own, values.dtype), np.empty(total - own, values.dtype)
    t = m = 0
    for rows in pairs.chunks():
        used, same, part = pairs.used(rows), pairs.same(rows), values[rows]
        scores = part[used & same]
        target[t : t + scores.size] = scores
        t += scores.size
        scores = part[used & ~same]
        nontarget[m : m + scores.size] = scores
        m += scores.size
    target.sort()
    nontarget.sort()
    # NaN sorts last.
    if np.isnan(target[-1]) or np.isnan(nontarget[-1]):
        raise MetricError(f"{int(np.isnan(target).sum() + np.isnan(nontarget).sum())} of {total} scores are NaN")
    return count_rows(target, nontarget)


@dataclass(frozen=True)
class _CellSums:
    """Sums over the pairs of each speaker cell [N, N]."""

    count: Array
    similarity: Array
    llr: Array
    z: Array
    largest: Array


def _cell_sums(values: npt.NDArray[Any], pairs: Pairs, rows: Rows, similarity: str, scores_are_llr: bool) -> _CellSums:
    n, n_speakers = pairs.speakers.size, pairs.n_speakers
    order = np.argsort(pairs.speakers, kind="stable")
    counts = np.bincount(pairs.speakers, minlength=n_speakers)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    contiguous = bool((order == np.arange(n)).all())
    names = ("count", "similarity", "llr", "z", "largest")
    by_row = {name: np.empty((n, n_speakers)) for name in names}
    calibration = None if scores_are_llr else calibrate_rows(rows, laplace=True)
    if calibration is not None:
        # Non-targets first, targets after them, so that one lookup serves both classes.
        z_table = np.concatenate([z_function(-calibration.llr), z_function(calibration.llr)])
        posterior_table = -np.logaddexp(0.0, -calibration.llr)

    for part in pairs.chunks():
        used, same, block = pairs.used(part), pairs.same(part), values[part]
        if not contiguous:
            used, same, block = used[:, order], same[:, order], block[:, order]
        if calibration is None:
            llr = np.where(used, block.astype(np.float64), 0.0)
            z, posterior = z_function(np.where(same, llr, -llr)), -np.logaddexp(0.0, -llr)
        else:
            index = calibration.block_of(block)
            llr = calibration.llr[index]
            z, posterior = z_table[index + same * calibration.llr.size], posterior_table[index]
        statistic = {"llr": llr, "z": z, "similarity": llr if similarity == "sigmoid_mean" else posterior}
        statistic["count"] = used.astype(np.float64)
        largest = np.abs(llr)
        largest[~used] = 0.0
        by_row["largest"][part] = np.maximum.reduceat(largest, starts, axis=1)
        for name, value in statistic.items():
            if name != "count":
                value = np.where(used, value, 0.0)
            # A cell of LLRs with both infinities has no sum; the caller says so.
            with np.errstate(invalid="ignore"):
                by_row[name][part] = np.add.reduceat(value, starts, axis=1)

    with np.errstate(invalid="ignore"):
        cells = {
            name: (np.maximum if name == "largest" else np.add).reduceat(value[order], starts, axis=0)
            for name, value in by_row.items()
        }
    if pairs.pairing == "vpc2020":
        for name, cell in cells.items():
            if name == "largest":
                cells[name] = np.maximum(cell, cell.T)
            else:
                folded = cell + cell.T
                np.fill_diagonal(folded, np.diag(cell))
                cells[name] = folded
    return _CellSums(**cells)


def signed_dominance(matrix: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Mean of the diagonal minus mean of the rest of a similarity matrix [N, N]; negative where the diagonal is below.

    Args:
        weights: [N] weight of each speaker: w_i on the diagonal, w_i w_j off it; default all 1.

    Raises:
        MetricError: not square, fewer than two speakers, NaN.
    """
    m = np.asarray(matrix, dtype=np.float64)
    if m.ndim != 2 or m.shape[0] != m.shape[1] or m.shape[0] < 2:
        raise MetricError(f"a similarity matrix is square with at least two speakers, not of shape {m.shape}")
    if np.isnan(m).any():
        raise MetricError("the similarity matrix holds NaN")
    if weights is None:
        n = m.shape[0]
        return float(np.diag(m).mean() - (m.sum() - np.trace(m)) / (n * (n - 1)))
    w = np.asarray(weights, dtype=np.float64)
    off = np.outer(w, w)
    np.fill_diagonal(off, 0.0)
    return float(w @ np.diag(m) / w.sum() - (off * m).sum() / off.sum())
