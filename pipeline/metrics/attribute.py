"""How much of a disclosure is an attribute of the speaker, such as sex, and how much is the person.

See pipeline/metrics/README.md, section 14c.

The posterior over candidates splits exactly: LID = attribute part + part within the class, trial by trial. A class is
any column of a table of speakers: sex, accent, age group.

Conventions: as of :mod:`pipeline.metrics.lid`; classes are integer codes from 0, one of each candidate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Indices, Mask, MetricError, codes
from pipeline.metrics._result import quantity
from pipeline.metrics.lid import LN2, NOTHING, candidates, mean_of, row_z, slope_of_each_trial, speaker_means


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
    s, t = candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    logits = slope_of_each_trial(slope, t, s.shape[1])[:, None] * row_z(s)
    n, n_candidates = s.shape
    size = np.bincount(c)
    log_p = logits - _log_sums(logits, np.zeros_like(c))
    log_class = _log_sums(log_p, c)
    every_attribute = _bits(log_class + math.log(n_candidates) - np.log(np.where(size > 0, size, 1)))[:, c]
    every_within = _bits(log_p - log_class[:, c] + np.log(size)[c])
    row = np.arange(n)
    attribute, within = every_attribute[row, t], every_within[row, t]
    speakers = np.unique(t)
    share = size[size > 0] / n_candidates
    return AttributePart(
        n_classes=share.size,
        attribute=attribute,
        within=within,
        mean_attribute=mean_of(attribute),
        mean_within=mean_of(within),
        mean_attribute_speaker=mean_of(speaker_means(attribute, t, n_candidates)[speakers]),
        mean_within_speaker=mean_of(speaker_means(within, t, n_candidates)[speakers]),
        chance_attribute=mean_of(np.sort(every_attribute, axis=1).mean(axis=1)),
        chance_within=mean_of(np.sort(every_within, axis=1).mean(axis=1)),
        prior_entropy=max(-math.fsum(share * np.log2(share)), 0.0),
        ceiling=float(-np.log2(share.min())),
    )


def stranger(
    scores: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike, slope: float | npt.ArrayLike
) -> Stranger:
    """Disclosure of the class of a speaker whose own enrolment the attacker does not have.

    The true candidate is taken out of the row, else identity passes for the attribute. A slope that was learnt to
    tell persons is too bold for this question: the value at chance lies below 0 then, and is given beside.

    Args:
        scores, truth, classes, slope: as of :func:`attribute_part`.

    Raises:
        MetricError: as of ``attribute_part``.
    """
    s, t = candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    logits = slope_of_each_trial(slope, t, s.shape[1])[:, None] * row_z(s)
    n, n_candidates = s.shape
    every = np.full((n, n_candidates), np.nan)
    size = np.bincount(c)
    for own in np.flatnonzero(size[c] > 1):
        rest = np.delete(np.arange(n_candidates), own)
        peers = rest[c[rest] == c[own]]
        prior = math.log(peers.size / rest.size)
        nobody = np.zeros(rest.size, dtype=np.int64)
        every[:, own] = _bits(
            (_log_sums(logits[:, peers], nobody[: peers.size]) - _log_sums(logits[:, rest], nobody))[:, 0] - prior
        )
    bits = every[np.arange(n), t]
    defined = ~np.isnan(bits)
    if not defined.any():
        reason = "every speaker is alone in the class: nobody else stands for it"
        return Stranger(bits, None, None, None, n, reason)
    speakers = np.unique(t[defined])
    at_chance = np.sort(every[:, size[c] > 1], axis=1).mean(axis=1)
    return Stranger(
        bits=bits,
        mean=mean_of(bits[defined]),
        mean_speaker=mean_of(speaker_means(bits[defined], t[defined], n_candidates)[speakers]),
        chance=mean_of(at_chance),
        n_undefined=int((~defined).sum()),
        reason="",
    )


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
    s, t = candidates(scores, truth)
    c = _classes(classes, s.shape[1])
    size = np.bincount(c)
    if (size == 0).any():
        raise MetricError("classes must be numbered without gaps")
    kept: Mask = size[c[t]] > 1
    if not kept.any():
        raise MetricError("every speaker is alone in the class: nobody else stands for it")
    s, t = s[kept], t[kept]
    found = np.empty((t.size, size.size))
    for k in range(size.size):
        member = np.broadcast_to(c == k, s.shape).copy()
        member[np.arange(t.size), t] = False
        # Sorted, so that the sum does not depend on the order of the candidates.
        found[:, k] = np.sort(np.where(member, s, 0.0), axis=1).sum(axis=1) / member.sum(axis=1)
    return found, c[t], kept


def _classes(classes: npt.ArrayLike, n_candidates: int) -> Indices:
    c = codes(classes, "classes")
    if c.size != n_candidates:
        raise MetricError(f"{c.size} classes do not fit {n_candidates} candidates")
    return c


def _log_sums(logits: Array, classes: Indices) -> Array:
    """ln sum exp of each row over each class: [n, classes]; -inf for a class without members."""
    found = np.full((logits.shape[0], int(classes.max()) + 1), -np.inf)
    for k in np.unique(classes):
        part = np.sort(logits[:, classes == k], axis=1)
        top = part[:, -1]
        found[:, k] = top + np.log(np.exp(part - top[:, None]).sum(axis=1))
    return found


def _bits(nats: Array) -> Array:
    bits: Array = nats / LN2
    bits[np.abs(bits) < NOTHING] = 0.0
    return bits
