"""How much of a disclosure is an attribute of the speaker, such as sex, and how much is the person.

See pipeline/metrics/README.md, section 14c.

The posterior over candidates splits exactly: LID = attribute part + part within the class, trial by trial. A class is
any column of a table of speakers: sex, accent, age group.

Conventions: as of :mod:`pipeline.metrics.local_disclosure`; classes are integer codes from 0, one of each candidate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, Mask, MetricError, Undefined, check_codes, quantity, round_means
from pipeline.metrics.local_disclosure import (
    FEWEST_FOR_LOSO,
    LN2,
    NOTHING,
    check_candidates,
    exact_mean,
    row_z,
    speaker_means,
    spread_slopes,
)


@dataclass(frozen=True)
class AttributePart:
    """Both parts of the disclosure of a set of trials: they add up to LID, trial by trial and on average."""

    n_classes: int = quantity("count", "classes among the candidates")
    attribute: Array = quantity("bit", "[n] disclosure of the class of each trial's speaker")
    within: Array = quantity("bit", "[n] disclosure of the speaker among those of the class")
    mean_attribute: float = quantity("bit", "mean attribute part, trials weighing alike", "lower")
    mean_within: float = quantity("bit", "mean part within the class, trials weighing alike", "lower")
    mean_attribute_speaker: float = quantity("bit", "mean attribute part, speakers weighing alike", "lower")
    mean_within_speaker: float = quantity("bit", "mean part within the class, speakers weighing alike", "lower")
    chance_attribute: float = quantity("bit", "attribute part at chance, exact; 0 or less")
    chance_within: float = quantity("bit", "part within the class at chance, exact")
    prior_entropy: float = quantity("bit", "entropy of the classes among the candidates: what there is to disclose")
    ceiling: float = quantity("bit", "the largest attribute part of a trial, log2 of N over the smallest class")


@dataclass(frozen=True)
class Stranger:
    """Disclosure of the class of a speaker whom the attacker has not enrolled."""

    bits: Array = quantity("bit", "[n] disclosure of the class; NaN where the speaker is alone in it")
    mean: float | None = quantity("bit", "mean over the trials that have a value", "lower")
    mean_speaker: float | None = quantity("bit", "mean, speakers weighing alike", "lower")
    chance: float | None = quantity("bit", "the mean at chance, exact: any candidate may be the stranger")
    n_undefined: int = quantity("count", "trials of speakers who are alone in their class")
    reason: str = quantity("", "why there is no value, or empty")


def attribute_part(
    scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike, slope: float | npt.ArrayLike
) -> AttributePart:
    """Split LID into what it says about the class of the speaker, and about the speaker within the class.

    Args:
        scores: [n, N] score of each trial against each candidate.
        truth: [n] the true candidate of each trial.
        classes: [N] class of each candidate.
        slope: as of :func:`pipeline.metrics.lid`.

    Raises:
        MetricError: as of ``lid``; classes that do not fit.

    Example:
        >>> from pipeline.metrics import attribute_part
        >>> scores = [[0.9, 0.8, 0.3, 0.1], [0.2, 0.1, 0.6, 0.5]]
        >>> found = attribute_part(scores, [0, 2], classes=[0, 0, 1, 1], slope=2.0)
        >>> found.attribute.round(2).tolist(), found.within.round(2).tolist(), found.prior_entropy
        ([0.95, 0.95], [0.33, 0.48], 1.0)
    """
    every_attribute, every_within = bits_of_parts(scores, truth, classes, slope)
    n, n_candidates = every_attribute.shape
    t, c = np.asarray(truth, dtype=np.int64), np.asarray(classes, dtype=np.int64)
    size = np.bincount(c)
    row = np.arange(n)
    attribute, within = every_attribute[row, t], every_within[row, t]
    speakers = np.unique(t)
    share = size[size > 0] / n_candidates
    return AttributePart(
        n_classes=share.size,
        attribute=attribute,
        within=within,
        mean_attribute=exact_mean(attribute),
        mean_within=exact_mean(within),
        mean_attribute_speaker=exact_mean(speaker_means(attribute, t, n_candidates)[speakers]),
        mean_within_speaker=exact_mean(speaker_means(within, t, n_candidates)[speakers]),
        chance_attribute=exact_mean(np.sort(every_attribute, axis=1).mean(axis=1)),
        chance_within=exact_mean(np.sort(every_within, axis=1).mean(axis=1)),
        prior_entropy=max(-math.fsum(share * np.log2(share)), 0.0),
        ceiling=float(-np.log2(share.min())),
    )


def bits_of_parts(
    scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike, slope: float | npt.ArrayLike
) -> tuple[Array, Array]:
    """Both parts [n, N] of each trial with each candidate in the place of the true one; arguments as of
    :func:`attribute_part`, which raises alike."""
    s, t = check_candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    logits = spread_slopes(slope, t, s.shape[1])[:, None] * row_z(s)
    size = np.bincount(c)
    log_p = logits - _log_sums(logits, np.zeros_like(c))
    log_class = _log_sums(log_p, c)
    attribute = _bits(log_class + math.log(s.shape[1]) - np.log(np.where(size > 0, size, 1)))[:, c]
    return attribute, _bits(log_p - log_class[:, c] + np.log(size)[c])


def stranger(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    classes: npt.ArrayLike,
    slope: float | npt.ArrayLike,
    spoken: npt.ArrayLike | None = None,
) -> Stranger:
    """Disclosure of the class of a speaker whose own enrolment the attacker does not have.

    The true candidate is taken out of the row, else identity passes for the attribute. A slope that was learnt to
    tell persons is too bold for this question, and the value at chance lies below 0 then: :func:`stranger_slopes`
    has its own.

    Args:
        scores, truth, classes, slope: as of :func:`attribute_part`.
        spoken: [n] class of each trial, where that may be another one than its speaker's enrolment has.

    Raises:
        MetricError: as of ``attribute_part``.
    """
    s, t = check_candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    logits = spread_slopes(slope, t, s.shape[1])[:, None] * row_z(s)
    n, n_candidates = s.shape
    size = np.bincount(c)
    every = np.full((n, n_candidates), np.nan)
    for own in np.flatnonzero(size[c] > 1):
        every[:, own] = _class_bits(logits, c, int(own), int(c[own]))
    if spoken is None:
        bits = every[np.arange(n), t]
    else:
        g = check_codes(spoken, "classes of trials")
        if g.size != n:
            raise MetricError(f"{g.size} classes do not fit {n} trials")
        bits = np.full(n, np.nan)
        for own, group in np.unique(np.stack((t, g)), axis=1).T:
            mine = (t == own) & (g == group)
            bits[mine] = _class_bits(logits[mine], c, int(own), int(group))
    defined = ~np.isnan(bits)
    if not defined.any():
        reason = "every speaker is alone in the class: nobody else stands for it"
        return Stranger(bits, None, None, None, n, reason)
    speakers = np.unique(t[defined])
    # Without a class of two nobody can stand for another.
    at_chance = np.sort(every[:, size[c] > 1], axis=1).mean(axis=1) if (size > 1).any() else None
    return Stranger(
        bits=bits,
        mean=exact_mean(bits[defined]),
        mean_speaker=exact_mean(speaker_means(bits[defined], t[defined], n_candidates)[speakers]),
        chance=None if at_chance is None else exact_mean(at_chance),
        n_undefined=int((~defined).sum()),
        reason="",
    )


def _class_bits(logits: Array, classes: Indices, own: int, group: int) -> Array:
    """Disclosure [n] of a class by the candidates but one; NaN where the class has no other."""
    others = np.delete(np.arange(classes.size), own)
    peers = others[classes[others] == group]
    if not peers.size:
        return np.full(logits.shape[0], np.nan)
    nobody = np.zeros(others.size, dtype=np.int64)
    nats = (_log_sums(logits[:, peers], nobody[: peers.size]) - _log_sums(logits[:, others], nobody))[:, 0]
    return _bits(nats - math.log(peers.size / others.size))


def stranger_slopes(
    scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike, spoken: npt.ArrayLike | None = None
) -> Array:
    """Slope [N] of :func:`stranger` for each speaker, from the trials of all others; NaN for a candidate without trials.

    It is the one of the best proper score of the class, speakers weighing alike, with one pseudo-trial of an average
    row whose class is that of any other candidate; 0 or more, and at most :data:`STEEPEST`.

    Args:
        scores, truth, classes, spoken: as of :func:`stranger`.

    Raises:
        MetricError: as of ``stranger``.
        Undefined: fewer than three speakers whose trials have a class that others stand for.
    """
    loss = StrangerLoss(scores, truth, classes, spoken)
    n_speakers = loss.speakers.size
    if n_speakers < FEWEST_FOR_LOSO:
        raise Undefined(f"a slope from the other speakers needs {FEWEST_FOR_LOSO} speakers, not {n_speakers}")
    slopes = np.full(loss.n_candidates, np.nan)
    for k, speaker in enumerate(loss.speakers):
        others = np.ones(n_speakers)
        others[k] = 0.0
        slopes[speaker] = loss.best(others)
    return slopes


def stranger_slope(
    scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike, spoken: npt.ArrayLike | None = None
) -> float:
    """The one slope of :func:`stranger` from the trials of other speakers than those to be scored; arguments as there.

    Raises:
        MetricError: as of ``stranger``.
        Undefined: no trial has a class that others stand for.
    """
    loss = StrangerLoss(scores, truth, classes, spoken)
    if not loss.speakers.size:
        raise Undefined("every speaker is alone in the class: nobody else stands for it")
    return loss.best(np.ones(loss.speakers.size))


STEEPEST = 30.0
"""Slopes end here: posteriors are all or nothing."""


class StrangerLoss:
    """The loss whose minimum is the slope of :func:`stranger`, as a sum over speakers, tabulated with its derivative."""

    def __init__(
        self,
        scores: npt.ArrayLike,
        truth: npt.ArrayLike,
        classes: npt.ArrayLike,
        spoken: npt.ArrayLike | None = None,
        steps: int = 160,
    ) -> None:
        s, t = check_candidates(scores, truth)
        self.n_candidates = s.shape[1]
        c = _classes(classes, s.shape[1])
        g = c[t] if spoken is None else check_codes(spoken, "classes of trials")
        n_classes = int(max(c.max(), g.max())) + 1
        member = (c[:, None] == np.arange(n_classes)).astype(np.float64)
        peers = member.sum(axis=0)[None, :] - member[t]
        row = np.arange(t.size)
        kept = peers[row, g] > 0
        self.z, self.t, self.g, self.member = row_z(s)[kept], t[kept], g[kept], member
        self.prior = peers[kept] / (s.shape[1] - 1)
        self.speakers, place = np.unique(self.t, return_inverse=True)
        counts = np.bincount(place, minlength=self.speakers.size)
        self.counts = counts
        self.w = STEEPEST * (np.arange(steps + 1) / steps) ** 2
        sums = [
            [np.bincount(place, column, counts.size) / counts for column in self._by_trial(float(w))] for w in self.w
        ]
        self.table = np.array(sums)
        """[K, 4, S] loss, its derivative, and those of the pseudo-trial: means over the trials of each speaker."""

    def _by_trial(self, w: float) -> Array:
        """Loss [4, n] of each trial at a slope, as of ``table``."""
        logits = w * self.z
        logits[np.arange(self.t.size), self.t] = -np.inf
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        total = p.sum(axis=1)
        of_class, moment = p @ self.member, (p * self.z) @ self.member
        possible = self.prior > 0
        tiny = np.maximum(of_class, 1e-300)
        nats = np.where(possible, np.log(total)[:, None] - np.log(tiny), 0.0)
        mean = (p * self.z).sum(axis=1) / total
        rise = np.where(possible, mean[:, None] - moment / tiny, 0.0)
        row = np.arange(self.t.size)
        return np.stack(
            (nats[row, self.g], rise[row, self.g], (self.prior * nats).sum(axis=1), (self.prior * rise).sum(axis=1))
        )

    def best(self, weights: Array) -> float:
        """The slope under weights [S] of the speakers, by cubic interpolation of the table."""
        used = weights > 0
        pseudo = 1.0 / float(self.counts[used].sum())
        total = self.table @ weights / weights.sum()
        loss, rise = total[:, 0] + pseudo * total[:, 2], total[:, 1] + pseudo * total[:, 3]
        k = int(np.argmin(loss))
        if (k == 0 and rise[0] >= 0) or (k == self.w.size - 1 and rise[k] <= 0):
            return float(self.w[k])
        a = k if rise[k] < 0 else k - 1
        x0, x1 = float(self.w[a]), float(self.w[a + 1])
        return x0 + (x1 - x0) * _lowest(loss[a], loss[a + 1], rise[a] * (x1 - x0), rise[a + 1] * (x1 - x0))


def _lowest(f0: float, f1: float, d0: float, d1: float) -> float:
    """Where in [0, 1] the cubic with these values and derivatives at 0 and 1 is lowest, d0 <= 0 <= d1."""
    a, b = 2 * (f0 - f1) + d0 + d1, -3 * (f0 - f1) - 2 * d0 - d1
    roots = np.roots([3 * a, 2 * b, d0]) if abs(a) > 1e-300 or abs(b) > 1e-300 else np.array([])
    real = [float(x.real) for x in roots if abs(x.imag) < 1e-12 and -1e-12 <= x.real <= 1 + 1e-12]
    points = [min(max(x, 0.0), 1.0) for x in (*real, 0.0, 1.0)]
    return min(points, key=lambda x: ((a * x + b) * x + d0) * x + f0)


def class_scores(scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike) -> tuple[Array, Indices, Mask]:
    """Scores of each trial against classes in the place of candidates, for :func:`srd` and :func:`rank_llr`.

    The score of a class is the mean over its candidates but the true one. Chance is 1/C only where classes are of one
    size; else :func:`stranger` has the right prior.

    Args:
        scores, truth, classes: as of :func:`attribute_part`.

    Returns:
        Scores [m, C] and true class [m] of the trials that have one, and the mask [n] of these trials: those of a
        speaker who is alone in the class have none.

    Raises:
        MetricError: as of ``attribute_part``; a class without candidates; no trial that has a value.
    """
    s, t = check_candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    size = np.bincount(c)
    if (size == 0).any():
        raise MetricError("classes must be numbered without gaps")
    kept: Mask = size[c[t]] > 1
    if not kept.any():
        raise MetricError("every speaker is alone in the class: nobody else stands for it")
    s, t = s[kept], t[kept]
    means = np.empty((t.size, size.size))
    for k in range(size.size):
        member = np.broadcast_to(c == k, s.shape).copy()
        member[np.arange(t.size), t] = False
        # Sorted, so that the sum does not depend on the order of the candidates.
        means[:, k] = np.sort(np.where(member, s, 0.0), axis=1).sum(axis=1) / member.sum(axis=1)
    # Means that tie in exact arithmetic become one and the same number, and all others stay as they are.
    _, first, place = np.unique(round_means(means), return_index=True, return_inverse=True)
    return means.ravel()[first][place].reshape(means.shape), c[t], kept


def _classes(classes: npt.ArrayLike, n_candidates: int) -> Indices:
    c = check_codes(classes, "classes")
    if c.size != n_candidates:
        raise MetricError(f"{c.size} classes do not fit {n_candidates} candidates")
    return c


def _log_sums(logits: Array, classes: Indices) -> Array:
    """ln sum exp of each row over each class: [n, classes]; -inf for a class without members."""
    sums = np.full((logits.shape[0], int(classes.max()) + 1), -np.inf)
    for k in np.unique(classes):
        part = np.sort(logits[:, classes == k], axis=1)
        top = part[:, -1]
        sums[:, k] = top + np.log(np.exp(part - top[:, None]).sum(axis=1))
    return sums


def _bits(nats: Array) -> Array:
    bits: Array = nats / LN2
    bits[np.abs(bits) < NOTHING] = 0.0
    return bits
