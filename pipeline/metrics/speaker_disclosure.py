"""Each speaker of a trial list: what the attack still tells of him, with an interval, and whom he is taken for.

See pipeline/metrics/README.md, section 9a.

A speaker's own trials are his targets and the non-targets in which he is on either side, as in the speaker table of similarity
matrices (:mod:`pipeline.metrics.vsm`): LLRs are those of the map of the whole set (PAV, Laplace's rule), so that speakers can be
compared. D_ECE_i is the mean of Z over his targets and over his non-targets, halved; the own EER is that of the same trials alone.

How sure is D_ECE_i? The map is held; his trial utterances and the other speakers are the units of two delete-one variances, which
add up. A speaker with a few utterances, all in one block, shows no scatter of his own, so the scatter of a unit is at least what all
speakers show together. An interval says what other utterances of his, and other people beside him, might have given under this
attack and this enrolment; it knows nothing of another pseudo-voice or another session.

Conventions: higher scores mean more similar; D_ECE_i is in bits, LLRs are natural; a lower D_ECE_i is more private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from pipeline.metrics._base import Array, Indices, MetricError, check_codes, group, quantity, round_means
from pipeline.metrics.detection import eer
from pipeline.metrics.information import D_ECE_MAX, z_function
from pipeline.metrics.pav import Calibration, calibrate_rows, count_rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import holm

VERSION = "speaker disclosure 2"

SHARE = 10
"""One in so many speakers is on the list of the worst."""
FEWEST_LISTED = 3
MEDIAN_FACTOR = math.pi / 2
"""Variance of a median of normal values, by that of their mean."""


@dataclass(frozen=True)
class OwnTrials:
    """How many trials each of S speakers has."""

    n_target: Indices = quantity("count", "[S] own target trials")
    n_nontarget: Indices = quantity("count", "[S] non-target trials with the speaker on either side")
    n_utterances: Indices = quantity("count", "[S] own trial utterances")


@dataclass(frozen=True)
class Certainty:
    """How sure D_ECE of each of S speakers is."""

    low: Array = quantity("bit", "[S] lower end of the interval")
    high: Array = quantity("bit", "[S] upper end of the interval")
    median: float = quantity("bit", "median of the speakers' D_ECE")
    p_median: Array = quantity(
        "", "[S] two-sided p of the difference from the median speaker, Holm-corrected over speakers"
    )
    reason: str = quantity("", "why there are no intervals, or empty")


@dataclass(frozen=True)
class Neighbours:
    """Whom each of S speakers is taken for."""

    own_score: Array = quantity("", "[S] mean score of the own targets")
    nearest: Indices = quantity("", "[S] code of the other speaker with the highest mean score, -1 without any")
    nearest_score: Array = quantity("", "[S] that mean score, over trials of the two in either role")


@dataclass(frozen=True)
class SpeakerDisclosure:
    """S speakers of a trial list who are enrolled and speak; a value that does not exist is NaN."""

    speakers: Indices = quantity("", "[S] codes, ascending")
    counts: OwnTrials = group(OwnTrials)
    d_ece: Array = quantity("bit", "[S] D_ECE of the speaker's trials under the map of the whole set", "lower")
    certainty: Certainty = group(Certainty)
    eer: Array = quantity("fraction", "[S] EER (rocch) of the speaker's trials alone", "higher", bounds=(0.0, 0.5))
    target_llr: Array = quantity("nat", "[S] mean LLR of the own targets, the zoo's x")
    impostor_llr: Array = quantity("nat", "[S] mean LLR of the non-targets, mean of both roles, the zoo's y")
    max_llr: Array = quantity("nat", "[S] largest |LLR| of the speaker's trials", "lower")
    neighbours: Neighbours = group(Neighbours)
    map: Calibration = quantity("", "the map of the whole set")

    @property
    def order(self) -> Indices:
        """Places of the speakers, the worst protected first: highest D_ECE, then lowest own EER, then lowest code."""
        return np.lexsort((self.speakers, self.eer, -round_means(self.d_ece)))


def measure_speakers(trials: Trials, utterances: npt.ArrayLike, *, level: float = 0.95) -> SpeakerDisclosure:
    """What an attack tells of each speaker who has target and non-target trials.

    Args:
        trials: of one attack.
        utterances: [n] code of the trial utterance of each trial.
        level: of the intervals.

    Raises:
        MetricError: codes that do not fit, or nobody with both kinds of trials.

    Example:
        Of three speakers the third is found.

        >>> import numpy as np
        >>> from pipeline.metrics import Trials, measure_speakers
        >>> enrolled, spoken = np.repeat(np.arange(3), 6), np.tile(np.repeat(np.arange(3), 2), 3)
        >>> scores = np.array([1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 9, 8], float)
        >>> found = measure_speakers(Trials(scores, enrolled, spoken), np.tile(np.arange(6), 3))
        >>> found.order.tolist(), found.d_ece.round(3).tolist(), found.eer.round(2).tolist()
        ([2, 0, 1], [-0.008, -0.008, 0.327], [0.5, 0.5, 0.0])
    """
    utterance_codes = check_codes(utterances, "utterances")
    if utterance_codes.shape != trials.scores.shape:
        raise MetricError(f"{utterance_codes.size} utterances for {trials.scores.size} trials")
    n, own = trials.n_codes, trials.is_target
    own_counts = np.bincount(trials.enrolled[own], minlength=n).astype(np.int64)
    others = _either(trials, ~own, np.ones(len(own)), n)
    kept = np.flatnonzero((own_counts > 0) & (others > 0))
    if not kept.size:
        raise MetricError("no speaker has both target and non-target trials")
    rows = count_rows(np.sort(trials.scores[own]), np.sort(trials.scores[~own]))
    mapped = calibrate_rows(rows, laplace=True)
    llr = mapped.apply(trials.scores)
    z = z_function(np.where(own, llr, -llr)) / (2 * math.log(2))
    own_z, others_z = np.bincount(trials.enrolled[own], z[own], n), _either(trials, ~own, z, n)
    with np.errstate(invalid="ignore"):
        mean_own, mean_others = own_z / own_counts, others_z / others
        own_score = np.bincount(trials.enrolled[own], trials.scores[own], n) / np.maximum(own_counts, 1)
    value = (mean_own + mean_others)[kept]
    squares, n_utterances = _by_utterance(trials, utterance_codes, z, mean_own, mean_others, own_counts, others)
    pairs = _Pairs(trials, z)
    spread = _pooled(squares, n_utterances, kept), _pooled(*pairs.scatter(mean_others, others), kept)
    nearest, nearest_score = pairs.nearest()
    largest = np.zeros(n)
    for side in (trials.enrolled, trials.spoken):
        np.maximum.at(largest, side, np.abs(llr))
    return SpeakerDisclosure(
        speakers=kept,
        counts=OwnTrials(own_counts[kept], others[kept].astype(np.int64), n_utterances[kept].astype(np.int64)),
        d_ece=value,
        certainty=_certainty(value, spread, level),
        eer=_own_eers(trials, kept),
        target_llr=np.bincount(trials.enrolled[own], llr[own], n)[kept] / own_counts[kept],
        impostor_llr=_impostor_llr(trials, llr)[kept],
        max_llr=largest[kept],
        neighbours=Neighbours(own_score[kept], nearest[kept], nearest_score[kept]),
        map=mapped,
    )


def _either(trials: Trials, used: npt.NDArray[np.bool_], values: Array, n: int) -> Array:
    """Sums [n codes] of values of non-target trials by the speaker on either side."""
    sums: Array = np.zeros(n)
    for side in (trials.enrolled, trials.spoken):
        sums += np.bincount(side[used], values[used], n)
    return sums


def _impostor_llr(trials: Trials, llr: Array) -> Array:
    """[n codes] mean over non-targets of each role, then of the two roles (of the one that there is)."""
    used, n = ~trials.is_target, trials.n_codes
    means = []
    for side in (trials.enrolled[used], trials.spoken[used]):
        count = np.bincount(side, minlength=n)
        means.append(np.where(count > 0, np.bincount(side, llr[used], n) / np.maximum(count, 1), np.nan))
    first, second = means
    mean: Array = np.where(np.isnan(first), second, np.where(np.isnan(second), first, (first + second) / 2))
    return mean


def _own_eers(trials: Trials, speakers: Indices) -> Array:
    own = trials.is_target
    sides = (trials.enrolled[own], trials.enrolled[~own], trials.spoken[~own])
    orders = [np.argsort(side, kind="stable") for side in sides]
    starts = [np.concatenate(([0], np.cumsum(np.bincount(side, minlength=trials.n_codes)))) for side in sides]
    target, nontarget = trials.scores[own], trials.scores[~own]
    rates = []
    for speaker in speakers:
        mine, first, second = (order[start[speaker] : start[speaker + 1]] for order, start in zip(orders, starts))
        rates.append(eer(target[mine], nontarget[np.concatenate([first, second])]))
    return np.array(rates)


# --- how sure it is --------------------------------------------------------------------------------------------------


def _by_utterance(
    trials: Trials,
    utterance_codes: Indices,
    z: Array,
    mean_own: Array,
    mean_others: Array,
    own_counts: Indices,
    others: Array,
) -> tuple[Array, Array]:
    """[codes] sum of squares of what a speaker's own utterances contribute, about their mean; their number."""
    own, n = trials.is_target, trials.n_codes
    size = int(utterance_codes.max()) + 1
    speaker = np.full(size, -1, dtype=np.int64)
    speaker[utterance_codes[own]] = trials.spoken[own]
    units = np.flatnonzero(speaker >= 0)
    whose = speaker[units]

    def sums(used: npt.NDArray[np.bool_], values: Array | None) -> Array:
        counted = np.bincount(utterance_codes[used], None if values is None else values[used], size)
        return np.asarray(counted[units], dtype=np.float64)

    part = (sums(own, z) - mean_own[whose] * sums(own, None)) / np.maximum(own_counts[whose], 1)
    part += (sums(~own, z) - mean_others[whose] * sums(~own, None)) / np.maximum(others[whose], 1)
    return _squares(part, whose, n)


def _squares(part: Array, whose: Indices, n: int) -> tuple[Array, Array]:
    count = np.bincount(whose, minlength=n).astype(np.float64)
    mean = np.bincount(whose, part, n) / np.maximum(count, 1)
    squares: Array = np.bincount(whose, (part - mean[whose]) ** 2, n).astype(np.float64, copy=False)
    return squares, count


class _Pairs:
    """Pairs of two speakers with non-target trials between them, in either role."""

    def __init__(self, trials: Trials, z: Array) -> None:
        used, self.n = ~trials.is_target, trials.n_codes
        a, b = trials.enrolled[used], trials.spoken[used]
        pair, place = np.unique(np.minimum(a, b) * self.n + np.maximum(a, b), return_inverse=True)
        self.low, self.high = pair // self.n, pair % self.n
        self.count = np.bincount(place).astype(np.float64)
        self.z: Array = np.bincount(place, z[used]).astype(np.float64, copy=False)
        with np.errstate(invalid="ignore"):
            self.score = np.bincount(place, trials.scores[used]) / self.count

    def scatter(self, mean: Array, others: Array) -> tuple[Array, Array]:
        """[codes] sum of squares of what the other speakers contribute to a speaker's non-targets; their number."""
        parts = [(self.z - mean[side] * self.count) / np.maximum(others[side], 1) for side in (self.low, self.high)]
        return _squares(np.concatenate(parts), np.concatenate([self.low, self.high]), self.n)

    def nearest(self) -> tuple[Indices, Array]:
        """[codes] the other speaker with the highest mean score (of equal ones the lowest code), and that score."""
        whose, other = np.concatenate([self.low, self.high]), np.concatenate([self.high, self.low])
        score = np.concatenate([self.score, self.score])
        scored = ~np.isnan(score)
        whose, other, score = whose[scored], other[scored], score[scored]
        order = np.lexsort((other, -round_means(score), whose))
        first = order[np.unique(whose[order], return_index=True)[1]]
        code, best = np.full(self.n, -1, dtype=np.int64), np.full(self.n, np.nan)
        code[whose[first]], best[whose[first]] = other[first], score[first]
        return code, best


def _pooled(squares: Array, count: Array, kept: Indices) -> tuple[Array, Array]:
    """[S] variance of a sum of the units that a speaker has, from their own scatter or from that of all, whichever is larger, and
    its degrees of freedom; NaN where no speaker has two units."""
    squares, count = squares[kept], count[kept]
    free = count - 1
    total = float(free[free > 0].sum())
    if not total > 0:
        return np.full(kept.size, np.nan), np.full(kept.size, np.nan)
    # A unit of a speaker with k of them counts 1/k, so its deviation times k is what all speakers share.
    shared = float((squares * count**2)[free > 0].sum()) / total
    own = np.where(free > 0, squares * count**2 / np.maximum(free, 1), 0.0)
    return np.maximum(own, shared) / np.maximum(count, 1), np.where(own > shared, free, total)


def _certainty(value: Array, spread: tuple[tuple[Array, Array], tuple[Array, Array]], level: float) -> Certainty:
    """Of values [S], from the variances and degrees of freedom of utterances and of other speakers."""
    error, degrees, reason = _errors(spread)
    reach = stdtrit(degrees, (1 + level) / 2) * error
    return Certainty(
        low=value - reach,
        high=np.minimum(value + reach, D_ECE_MAX),
        median=float(np.median(value)),
        p_median=_against_median(value, error, degrees),
        reason=reason,
    )


def _errors(spread: tuple[tuple[Array, Array], tuple[Array, Array]]) -> tuple[Array, Array, str]:
    """[S] standard errors and their degrees of freedom (Satterthwaite), and why there are none."""
    (a, free_a), (b, free_b) = spread
    if np.isnan(a).all():
        return a, np.ones(a.size), "no speaker has two trial utterances"
    if np.isnan(b).all():
        return b, np.ones(b.size), "no speaker was tried against two others"
    total = a + b
    degrees = np.where(total > 0, total**2 / np.maximum(a**2 / free_a + b**2 / free_b, 1e-300), free_a)
    return np.sqrt(total), degrees, ""


def _against_median(value: Array, error: Array, degrees: Array) -> Array:
    """[S] Holm-corrected two-sided p-values of the difference from the median, whose own error is added."""
    if np.isnan(error).any():
        return np.full(value.size, np.nan)
    behind = np.abs(value - np.median(value))
    both_errors = np.sqrt(error**2 + MEDIAN_FACTOR * (error**2).mean() / value.size)
    flat = behind <= 1e-12
    statistic = np.divide(behind, both_errors, out=np.full(value.size, math.inf), where=both_errors > 0)
    p: Array = np.where(flat, 1.0, 2 * stdtr(degrees, -statistic))
    return np.asarray(holm(p), dtype=np.float64)


# --- lists of the worst ----------------------------------------------------------------------------------------------


def count_listed(n_speakers: int) -> int:
    """How many of so many speakers are listed as worst: one in ten, three at least, and never more than half."""
    return max(min(max(-(-n_speakers // SHARE), FEWEST_LISTED), n_speakers // 2), 1)


@dataclass(frozen=True)
class Overlap:
    """Two lists of the same length out of the same speakers."""

    shared: int = quantity("count", "speakers on both")
    jaccard: float = quantity("fraction", "speakers on both over speakers on either")
    shared_chance: float = quantity("count", "speakers on both where the lists are drawn at random")
    jaccard_chance: float = quantity("fraction", "the mean of the Jaccard index there")
    p_value: float = quantity("", "how often lists drawn at random share at least so many")


def overlap(first_list: npt.ArrayLike, second_list: npt.ArrayLike, n_speakers: int) -> Overlap:
    """How much two lists of the worst speakers have in common, and what chance would give.

    Args:
        first_list, second_list: codes of speakers, as many in both.
        n_speakers: out of so many.

    Raises:
        MetricError: lists of different lengths, without a name, or longer than the speakers.

    Example:
        >>> from pipeline.metrics import overlap
        >>> found = overlap([0, 1, 2], [2, 1, 5], 10)
        >>> found.shared, found.jaccard, found.shared_chance, round(found.p_value, 4)
        (2, 0.5, 0.9, 0.1833)
    """
    first, second = set(np.asarray(first_list).tolist()), set(np.asarray(second_list).tolist())
    k = len(first)
    if not 0 < k == len(second) <= n_speakers:
        raise MetricError(f"lists of {k} and {len(second)} out of {n_speakers} speakers")
    both = len(first & second)
    # The number that two lists drawn at random share is hypergeometric.
    chance = [math.comb(k, j) * math.comb(n_speakers - k, k - j) / math.comb(n_speakers, k) for j in range(k + 1)]
    return Overlap(
        both,
        both / (2 * k - both),
        k * k / n_speakers,
        math.fsum(p * j / (2 * k - j) for j, p in enumerate(chance)),
        math.fsum(chance[both:]),
    )
