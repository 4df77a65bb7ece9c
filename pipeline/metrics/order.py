"""Whether scores order the two classes the right way round: targets above non-targets, or below them beyond chance.

See pipeline/metrics/README.md, section 17.

Most metrics hide it: on the convex hull of the ROC, scores that are the wrong way round (distances taken for similarities)
look like scores that say nothing.

Conventions: higher scores mean more similar; infinities are scores like others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr, stdtr

from pipeline.metrics._base import Array, Indices, Mask, MetricError, check_classes, check_codes, check_vector, quantity

VERSION = "score order 1"

BEYOND_CHANCE = 1e-3
"""p-value below which an order of classes is the wrong way round beyond chance."""

DOUBTFUL = 0.01
FAR_BELOW = 0.3
"""AUC up to which an order is worth a word even where there are too few speakers to tell it from chance, if single trials would
have it by chance with a probability below :data:`DOUBTFUL`."""

_LARGEST_TABLE = 5000
_FEWEST = 3


@dataclass(frozen=True)
class ClassOrder:
    """How often a target scores above a non-target, and how likely so little is by chance."""

    auc: float = quantity(
        "fraction", "share of pairs in which a target scores above a non-target, ties as half: 0.5 is chance"
    )
    p_value: float | None = quantity(
        "fraction", "chance of so low an AUC among speakers whose scores say nothing of who they are; None: not tested"
    )
    speakers: int = quantity("count", "enrolled speakers with target trials")
    reason: str = quantity("", "why there is no p-value, or empty")
    trials_p_value: float = quantity("fraction", "the same if all trials were independent, which they are not")

    @property
    def is_reversed(self) -> bool:
        """Whether the classes are the wrong way round beyond chance."""
        return self.auc < 0.5 and self.p_value is not None and self.p_value < BEYOND_CHANCE

    @property
    def is_doubtful(self) -> bool:
        """Whether they look the wrong way round, with too few speakers to say so."""
        return not self.is_reversed and self.auc <= FAR_BELOW and self.trials_p_value < DOUBTFUL


def area(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> float:
    """Area under the ROC: how often a target [T] scores above a non-target [N], ties counted as half.

    Raises:
        MetricError: NaN or an empty class.
    """
    t, n = map(np.sort, check_classes(target, nontarget))
    # Twice the number of pairs won, in whole numbers.
    few, many = (t, n) if t.size <= n.size else (n, t)
    below = int(np.searchsorted(many, few, side="left").sum(dtype=np.int64))
    below += int(np.searchsorted(many, few, side="right").sum(dtype=np.int64))
    doubled_pairs = 2 * t.size * n.size
    return (below if few is t else doubled_pairs - below) / doubled_pairs


def class_order(
    scores: npt.ArrayLike,
    is_target: npt.ArrayLike,
    enrolled: npt.ArrayLike,
    spoken: npt.ArrayLike,
    *,
    two_sided_ids: bool = False,
) -> ClassOrder:
    """How trials order the two classes, tested over speakers where targets score below non-targets.

    Where every enrolled speaker was tried against every other (within groups, such as a sex), the test is that of the
    diagonal of a table: the mean rank of each enrolled against each spoken speaker, without the effects of rows and columns;
    t with as many degrees of freedom as are left. In other lists, and where the same recordings stand on both sides, the
    standard error of the AUC is that of the infinitesimal jackknife over speakers, and t has (enrolled speakers - 1).

    Args:
        scores: [n], higher for more similar.
        is_target: [n].
        enrolled, spoken: [n] codes of speakers, in one numbering.
        two_sided_ids: the same recordings are enrolled and tried, so that rows and columns are not independent.

    Raises:
        MetricError: NaN, an empty class, or lengths that differ.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import class_order
        >>> enrolled, spoken = np.repeat(np.arange(8), 32), np.tile(np.repeat(np.arange(8), 4), 8)
        >>> distances = np.random.default_rng(0).normal(size=256) - 2.0 * (enrolled == spoken)
        >>> found = class_order(distances, enrolled == spoken, enrolled, spoken)
        >>> round(found.auc, 2), found.is_reversed
        (0.09, True)
    """
    s, target_mask = check_vector(scores, "scores"), np.asarray(is_target, dtype=np.bool_)
    first, second = check_codes(enrolled, "enrolled speakers"), check_codes(spoken, "speakers of the trial utterances")
    if not s.shape == target_mask.shape == first.shape == second.shape:
        raise MetricError(f"{s.size} scores, {target_mask.size} classes, {first.size} and {second.size} speakers")
    auc = area(s[target_mask], s[~target_mask])
    speakers = int(np.unique(first[target_mask]).size)
    if auc >= 0.5:
        return ClassOrder(auc, None, speakers, "targets do not score below non-targets", 1.0)
    rank = mid_ranks(s)
    # Standard error of the AUC if all trials were independent and their classes meant nothing (Mann and Whitney).
    n_target = int(target_mask.sum())
    noise = math.sqrt(float(rank.var()) * (rank.size - 1) / (n_target * (rank.size - n_target)))
    alone = float(ndtr((auc - 0.5) / noise))
    if speakers < _FEWEST:
        reason = f"{speakers} enrolled speakers are too few to tell a wrong order from chance"
        return ClassOrder(auc, None, speakers, reason, alone)
    p_value = None if two_sided_ids else _table_test(rank, target_mask, first, second)
    if p_value is None:
        p_value = _jackknife_test(auc, noise, rank, target_mask, first, second)
    return ClassOrder(auc, p_value, speakers, "", alone)


def rank_order(scores: npt.ArrayLike, truth: npt.ArrayLike, spoken: npt.ArrayLike) -> ClassOrder:
    """How often the true reference is more similar than another one, tested as :func:`class_order` tests trials.

    Args:
        scores: [n, N] similarity of inputs to references, one reference a speaker.
        truth: [n] index of each input's true reference.
        spoken: [n] codes of the inputs' speakers.

    Raises:
        MetricError: NaN, or shapes that do not fit.
    """
    s, true = np.asarray(scores, dtype=np.float64), check_codes(truth, "true references")
    speakers = check_codes(spoken, "speakers of inputs")
    if s.ndim != 2 or not s.shape[0] == true.size == speakers.size or s.shape[1] < 2:
        raise MetricError(f"{true.size} true references do not fit similarities of shape {s.shape}")
    if np.isnan(s).any():
        raise MetricError(f"{int(np.isnan(s).sum())} of {s.size} similarities are NaN")
    own = s[np.arange(true.size), true][:, None]
    # Of an input, only the order of its references counts.
    auc = float(((s < own).sum() + ((s == own).sum() - true.size) / 2) / (true.size * (s.shape[1] - 1)))
    if auc >= 0.5:
        return ClassOrder(auc, None, int(np.unique(true).size), "true references do not come after others", 1.0)
    ranks = np.stack([mid_ranks(row) for row in s])
    enrolled = np.tile(np.arange(s.shape[1]), true.size)
    is_target = enrolled == np.repeat(true, s.shape[1])
    order = class_order(ranks.ravel(), is_target, enrolled, np.repeat(true, s.shape[1]))
    return ClassOrder(auc, order.p_value, order.speakers, order.reason, order.trials_p_value)


def mid_ranks(scores: Array) -> Array:
    """Ranks [n] from 0 to 1 of scores, equal ones the middle of theirs."""
    order = np.argsort(scores)
    ascending = scores[order]
    first = np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1])))
    counts = np.diff(np.append(first, scores.size))
    middle = (first + (counts - 1) / 2) / max(scores.size - 1, 1)
    rank = np.empty(scores.size)
    rank[order] = np.repeat(middle, counts)
    return rank


def _table_test(rank: Array, target_mask: Mask, first: Indices, second: Indices) -> float | None:
    """p-value of the diagonal of the table of speakers; None where the list is no such table."""
    models = np.unique(first[target_mask])
    if models.size > _LARGEST_TABLE:
        return None
    place = np.full(int(max(first.max(), second.max())) + 1, -1)
    place[models] = np.arange(models.size)
    row, column = place[first], place[second]
    among = (row >= 0) & (column >= 0)
    m = models.size
    cell = row[among] * m + column[among]
    counts = np.bincount(cell, minlength=m * m).reshape(m, m)
    sums = np.bincount(cell, rank[among], m * m).reshape(m, m)
    matched = np.bincount(row[target_mask], minlength=m)
    if not np.array_equal(matched, np.diagonal(counts)):
        return None
    _, group = connected_components(coo_array(counts > 0), directed=False)
    total = squares = 0.0
    steps = dimensions = 0
    for number in range(int(group.max()) + 1):
        block = np.flatnonzero(group == number)
        if block.size < 2:
            continue
        inside = counts[np.ix_(block, block)]
        # A diagonal cell of fewer trials than others is less certain than the test takes it to be.
        others = (inside.sum(axis=0) - np.diagonal(inside)) / (block.size - 1)
        if not inside.all() or (2 * np.diagonal(inside) < others).any():
            return None
        mean = sums[np.ix_(block, block)] / inside
        residual = mean - mean.mean(axis=0) - mean.mean(axis=1)[:, None] + mean.mean()
        total += float(np.trace(residual))
        squares += float((residual**2).sum())
        steps, dimensions = steps + block.size - 1, dimensions + (block.size - 1) ** 2
    if dimensions < 2:
        return None
    if squares <= 1e-24:
        return 1.0
    # The angle between the table and its diagonal, both without the effects of rows and columns.
    cosine = max(total / math.sqrt(steps * squares), -1.0)
    freedom = dimensions - 1
    remainder = max(1 - cosine**2, 1e-300)
    return float(stdtr(freedom, cosine * math.sqrt(freedom / remainder)))


def _jackknife_test(auc: float, noise: float, rank: Array, target_mask: Mask, first: Indices, second: Indices) -> float:
    """p-value of the AUC with the standard error of the infinitesimal jackknife over speakers."""
    n_target = int(target_mask.sum())
    n_nontarget = target_mask.size - n_target
    # Of a target, the share of non-targets below it; of a non-target, that of targets above it.
    beaten = np.empty(rank.size)
    order = rank * (rank.size - 1)
    beaten[target_mask] = (order[target_mask] - mid_ranks(rank[target_mask]) * (n_target - 1)) / n_nontarget
    beaten[~target_mask] = 1 - (order[~target_mask] - mid_ranks(rank[~target_mask]) * (n_nontarget - 1)) / n_target
    pull = (beaten - auc) / np.where(target_mask, n_target, n_nontarget)
    size = int(max(first.max(), second.max())) + 1
    effect = np.bincount(first, pull, size)
    effect += np.bincount(second[~target_mask], pull[~target_mask], size)
    n = int(np.unique(first[target_mask]).size)
    # Chance in single trials comes on top: few speakers may show too little of it.
    error = math.sqrt(n / (n - 1) * float((effect**2).sum()) + noise**2)
    return float(stdtr(n - 1, (auc - 0.5) / error))
