"""What an attacker gains from hearing more: disclosure against the number L of trial utterances that are pooled.

See pipeline/metrics/README.md, section 14d.

One item is L trials of one speaker. The value of a speaker is the mean over all choices of L of the speaker's trials
(or over random ones, where there are too many), and the curve is the mean over speakers. The same speakers stand at
each L: those with enough trials for the largest.

Conventions: as of :mod:`pipeline.metrics.local_disclosure`; scores are cosines of unit vectors with each enrolment, so that the
sum of rows is, up to a factor of the row, the row of the mean vector.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, Mask, MetricError, Undefined, check_choice, quantity, round_means
from pipeline.metrics.detection import eer_rocch
from pipeline.metrics.linkability import pi_link_curve
from pipeline.metrics.local_disclosure import (
    SoftmaxLoss,
    check_candidates,
    exact_mean,
    loso_of_loss,
    posterior_bits,
    row_z,
    speaker_means,
)
from pipeline.metrics.pav import Rows, calibrate_rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import BySpeaker

VERSION = "pooled utterances 2"

RULES = ("mean_row", "llr_sum", "llr_mean")
MOST_SUBSETS = 1000
"""Choices of L trials of a speaker that are all taken; where there are more, so many are drawn."""
LENGTH_METRICS = ("idr", "eer", "alid")


@dataclass(frozen=True)
class Pooled:
    """Items of L trials each."""

    length: int
    """L."""
    rows: Array
    """[m, N] sums of the items' score rows."""
    z: Array
    """[m, N] sums of the items' z-scores."""
    truth: Indices
    """[m] true candidate of each item."""
    apart: Indices
    """[S] items of each speaker of the panel that share no trial."""
    drawn: bool
    """Whether choices were drawn for some speaker."""


@dataclass(frozen=True)
class LengthCurve:
    """Disclosure by number of pooled trial utterances, on one panel of speakers; what has no value is NaN."""

    lengths: Indices = quantity("count", "[K] pooled utterances, L")
    panel: Indices = quantity("", "[S] candidates with enough trials for the largest L")
    n_items: Indices = quantity("count", "[K] items")
    drawn: npt.NDArray[np.bool_] = quantity("", "[K] whether items were drawn instead of enumerated")
    idr: Array = quantity("fraction", "[K] share of items whose speaker stands first, ties spread", "lower")
    pi_link_half: Array = quantity("fraction", "[K] pi_link among half of the candidates", "lower")
    half: int = quantity("count", "half of the candidates, rounded down, at least 2")
    eer: Array = quantity("fraction", "[K] equal error rate of pooled scores, on the convex hull", "higher")
    alid: Array = quantity("bit", "[K] mean local information disclosure, speakers weighing alike", "lower")
    rule: str = quantity("label", "how bits are pooled: mean_row, llr_sum or llr_mean")
    slopes: Array = quantity("", "[K] slope of the posterior; the mean over speakers where it comes from the others")
    reason: str = quantity("", "why there is no ALID, or empty")


def pooled_trials(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    lengths: Sequence[int],
    *,
    subsets: int = MOST_SUBSETS,
    generator: np.random.Generator | None = None,
) -> list[Pooled]:
    """Items of L trials for each L, on the speakers who have enough trials for the largest.

    Args:
        scores: [n, N] score of each trial against each candidate.
        truth: [n] the true candidate of each trial.
        lengths: values of L, 1 or more.
        subsets: choices of a speaker's trials that are all taken; where there are more, so many are drawn.
        generator: for draws.

    Raises:
        MetricError: NaN or infinite scores, shapes that do not fit, no length or one below 1, no speaker with enough
            trials, draws without a generator.
    """
    s, t = check_candidates(scores, truth)
    if not lengths or min(lengths) < 1 or subsets < 1:
        raise MetricError(f"lengths must be 1 or more, and so must be subsets, not {list(lengths)} and {subsets}")
    counts = np.bincount(t, minlength=s.shape[1])
    panel = np.flatnonzero(counts >= max(lengths))
    if not panel.size:
        raise MetricError(f"no speaker has {max(lengths)} trials")
    z = row_z(s)
    return [_pool(s, z, t, panel, length, subsets, generator) for length in lengths]


def _pool(
    s: Array, z: Array, truth: Indices, panel: Indices, length: int, subsets: int, generator: np.random.Generator | None
) -> Pooled:
    chosen, drawn = [], False
    for speaker in panel:
        own = np.flatnonzero(truth == speaker)
        if math.comb(own.size, length) <= subsets:
            places = np.array(list(itertools.combinations(range(own.size), length)), dtype=np.int64)
        elif generator is None:
            raise MetricError(
                f"{own.size} trials have more than {subsets} choices of {length}: a draw needs a generator"
            )
        else:
            drawn = True
            places = np.argsort(generator.random((subsets, own.size)), axis=1)[:, :length]
        chosen.append(own[places])
    # Sorted before they are added: the sum is the same bytes in whatever order the trials stand.
    parts = [[np.sort(matrix[items], axis=1).sum(axis=1) for items in chosen] for matrix in (s, z)]
    rows, sums = (np.concatenate(part) for part in parts)
    items = np.concatenate(chosen)
    apart = np.bincount(truth, minlength=s.shape[1])[panel] // length
    return Pooled(length, rows, sums, truth[items[:, 0]], apart, drawn)


def length_curve(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    lengths: Sequence[int],
    *,
    rule: str = "mean_row",
    slope: float | Sequence[float] | None = None,
    subsets: int = MOST_SUBSETS,
    generator: np.random.Generator | None = None,
) -> LengthCurve:
    """IdR, pi_link, EER and ALID against the number of pooled trial utterances.

    Args:
        scores, truth, lengths, subsets, generator: as of :func:`pooled_trials`.
        rule: how bits are pooled. ``mean_row``: the z-scores of the summed rows; ``llr_mean`` and ``llr_sum``: the mean
            or the sum of the z-scores of the L rows. The sum takes the L trials as independent, and overstates where
            they share a pseudo-voice. Ranks and EER are of the summed rows.
        slope: one that was learnt from other speakers, or one of each length (:func:`length_slopes`); None learns it anew at
            each L, for each speaker from the others.

    Raises:
        MetricError: as of ``pooled_trials``; an unknown rule; a negative slope.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import length_curve
        >>> random = np.random.default_rng(0)
        >>> truth = np.repeat(np.arange(6), 5)
        >>> scores = random.normal(size=(30, 6)) + (truth[:, None] == np.arange(6))
        >>> found = length_curve(scores, truth, [1, 3, 5])
        >>> found.idr.round(2).tolist(), found.alid.round(2).tolist()
        ([0.53, 0.72, 0.83], [0.46, 1.26, 1.63])
    """
    return Lengths(scores, truth, lengths, rule=rule, slope=slope, subsets=subsets, generator=generator).curve()


def length_by_speaker(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    lengths: Sequence[int],
    *,
    rule: str = "mean_row",
    slope: float | Sequence[float] | None = None,
    subsets: int = MOST_SUBSETS,
    generator: np.random.Generator | None = None,
) -> BySpeaker:
    """``idr.L``, ``eer.L`` and ``alid.L`` (where it has a value) as a function of speaker weights, for intervals.

    Items are weighed by their speaker; the candidates and the slopes stay.

    Args:
        scores, truth, lengths, rule, slope, subsets, generator: as of :func:`length_curve`.

    Raises:
        MetricError: as of ``length_curve``.
    """
    return Lengths(scores, truth, lengths, rule=rule, slope=slope, subsets=subsets, generator=generator).by_speaker()


class Lengths:
    """:func:`length_curve` and :func:`length_by_speaker` of the same items; arguments as there."""

    def __init__(
        self,
        scores: npt.ArrayLike,
        truth: npt.ArrayLike,
        lengths: Sequence[int],
        *,
        rule: str = "mean_row",
        slope: float | Sequence[float] | None = None,
        subsets: int = MOST_SUBSETS,
        generator: np.random.Generator | None = None,
    ) -> None:
        check_choice(rule, RULES, "rule")
        self.rule, self.lengths = rule, lengths
        self.pooled = pooled_trials(scores, truth, lengths, subsets=subsets, generator=generator)
        slopes = slope if isinstance(slope, Sequence) else [slope] * len(lengths)
        if len(slopes) != len(lengths):
            raise MetricError(f"{len(slopes)} slopes do not fit {len(lengths)} lengths")
        self.measured = [_Measured(items, rule, own_slope) for items, own_slope in zip(self.pooled, slopes)]

    def curve(self) -> LengthCurve:
        """The values."""
        reasons = [measured.reason for measured in self.measured if measured.reason]
        return LengthCurve(
            lengths=np.array(self.lengths, dtype=np.int64),
            panel=np.unique(self.pooled[0].truth),
            n_items=np.array([measured.truth.size for measured in self.pooled], dtype=np.int64),
            drawn=np.array([measured.drawn for measured in self.pooled]),
            idr=np.array([measured.idr for measured in self.measured]),
            pi_link_half=np.array([measured.half for measured in self.measured]),
            half=max(self.pooled[0].rows.shape[1] // 2, 2),
            eer=np.array([measured.eer(None) for measured in self.measured]),
            alid=np.array([measured.alid for measured in self.measured]),
            rule=self.rule,
            slopes=np.array([measured.slope for measured in self.measured]),
            reason=reasons[0] if reasons else "",
        )

    def by_speaker(self) -> BySpeaker:
        """The values as a function of speaker weights."""
        measured, lengths = self.measured, self.lengths
        panel = np.unique(self.pooled[0].truth)
        n_candidates = self.pooled[0].rows.shape[1]

        def evaluate(weights: Array) -> dict[str, float]:
            w = np.zeros(n_candidates)
            w[: weights.size] = weights
            total = math.fsum(w[panel])
            if not total > 0:
                raise MetricError("no speaker of the panel is left")
            values: dict[str, float] = {}
            for length, items in zip(lengths, measured):
                values[f"idr.{length}"] = math.fsum(w[panel] * items.idr_by_speaker[panel]) / total
                values[f"eer.{length}"] = items.eer(w)
                if not items.reason:
                    values[f"alid.{length}"] = math.fsum(w[panel] * items.alid_by_speaker[panel]) / total
            return values

        ranges = {"idr": (0.0, 1.0), "eer": (0.0, 0.5), "alid": (-math.inf, math.log2(n_candidates))}
        bounds = {f"{name}.{length}": ranges[name] for name in LENGTH_METRICS for length in lengths}
        rates = {f"idr.{length}": (0.0, 1.0) for length in lengths} | {f"eer.{length}": (0.0,) for length in lengths}
        return BySpeaker(evaluate, panel, panel.size - 1, bounds, rates, panel.size)


def length_slopes(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    lengths: Sequence[int],
    *,
    subsets: int = MOST_SUBSETS,
    generator: np.random.Generator | None = None,
) -> list[float]:
    """The slope at each L, for :func:`length_curve` under ``mean_row``, from the trials of other speakers; arguments as there.

    Raises:
        MetricError: as of :func:`pooled_trials`.
    """
    pooled = pooled_trials(scores, truth, lengths, subsets=subsets, generator=generator)
    losses = [SoftmaxLoss(row_z(items.rows), items.truth, items.apart) for items in pooled]
    return [max(loss.best(np.ones(loss.speakers.size)), 0.0) for loss in losses]


class _Measured:
    """All measures of the items of one length."""

    def __init__(self, pooled: Pooled, rule: str, slope: float | None) -> None:
        t, n_candidates = pooled.truth, pooled.rows.shape[1]
        self.pooled = pooled
        panel = np.unique(t)
        half = max(n_candidates // 2, 2)
        self.ranked = round_means(pooled.rows)
        curve = pi_link_curve(self.ranked, t, [half, n_candidates])
        self.half, self.idr = float(curve.value[0]), float(curve.value[1])
        self.idr_by_speaker = np.full(n_candidates, np.nan)
        for speaker in panel:
            own = self.ranked[t == speaker]
            self.idr_by_speaker[speaker] = pi_link_curve(own, t[t == speaker], [n_candidates]).value[0]
        if rule == "mean_row":
            z = row_z(pooled.rows)
        else:
            z = pooled.z / pooled.length if rule == "llr_mean" else pooled.z
        self.reason, self.alid, self.slope = "", math.nan, math.nan
        self.alid_by_speaker = np.full(n_candidates, np.nan)
        try:
            slopes = np.full(n_candidates, math.nan if slope is None else slope)
            if slope is None:
                slopes = loso_of_loss(SoftmaxLoss(z, t, pooled.apart), n_candidates).value
        except Undefined as problem:
            self.reason = str(problem)
            return
        if not (slopes[panel] >= 0).all():
            raise MetricError("a slope must be 0 or more")
        self.slope = exact_mean(slopes[panel])
        bits = posterior_bits(slopes[t][:, None] * z)[np.arange(t.size), t]
        self.alid_by_speaker = speaker_means(bits, t, n_candidates)
        self.alid = exact_mean(self.alid_by_speaker[panel])

    @cached_property
    def ordered(self) -> tuple[Array, Indices, Mask]:
        """Distinct scores [u] ascending, the place [m, N] of each score among them, and whether it is a target's [m, N]."""
        t, rows = self.pooled.truth, self.ranked
        own = np.zeros(rows.shape, dtype=bool)
        own[np.arange(t.size), t] = True
        scores, place = np.unique(rows, return_inverse=True)
        return scores, place.reshape(rows.shape), own

    def eer(self, weights: Array | None) -> float:
        """EER under weights [N] of the speakers of the items; each speaker's items share the weight."""
        t, n_candidates = self.pooled.truth, self.pooled.rows.shape[1]
        scores, place, own = self.ordered
        counts = np.maximum(np.bincount(t, minlength=n_candidates), 1)
        w = (np.ones(n_candidates) if weights is None else weights) / counts
        trial_weights = np.broadcast_to(w[t][:, None], place.shape)
        target, nontarget = (
            np.bincount(place[part], trial_weights[part], scores.size).astype(np.float64) for part in (own, ~own)
        )
        blocks = calibrate_rows(Rows(target, nontarget, scores), laplace=False)
        return eer_rocch(blocks.target, blocks.nontarget)


def conversations(
    scores: npt.ArrayLike,
    enrolled: npt.ArrayLike,
    spoken: npt.ArrayLike,
    utterances: npt.ArrayLike,
    length: int,
) -> Trials:
    """Trials of conversations: the mean score of ``length`` utterances of one speaker against one enrolled speaker.

    Utterances are taken in the order of their ids, so that neighbours of a session come together, and cut into disjoint conversations.

    Args:
        scores, enrolled, spoken, utterances: [n] score, enrolled speaker, speaker and id of the utterance of each trial.
        length: utterances of a conversation.

    Raises:
        MetricError: nobody has so many utterances, or one of the classes has no conversation.

    Example:
        >>> from pipeline.metrics import conversations
        >>> found = conversations([1, 3, 0, 2, 9], list("aaaab"), list("aabba"), ["a1", "a2", "b1", "b2", "a1"], 2)
        >>> found.scores.tolist(), found.is_target.tolist()
        ([2.0, 1.0], [True, False])
    """
    names, numbers = np.unique(np.concatenate([np.asarray(enrolled), np.asarray(spoken)]), return_inverse=True)
    n = len(numbers) // 2
    order = np.lexsort((np.asarray(utterances), numbers[n:], numbers[:n]))
    values, pair = np.asarray(scores, dtype=np.float64)[order], (numbers[:n] * len(names) + numbers[n:])[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(starts[1:], n)
    first = np.concatenate([np.arange(start, end - length + 1, length) for start, end in zip(starts, ends)])
    if not first.size:
        raise MetricError(f"no speaker has {length} utterances that are tried against one enrolled speaker")
    joined = round_means(values[first[:, None] + np.arange(length)].mean(axis=1))
    return Trials(joined, pair[first] // len(names), pair[first] % len(names))
