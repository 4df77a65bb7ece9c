"""Whether enrolment and trial speech were protected alike: how similar each utterance stays to its own original.

A system that leaves the enrolment unprotected (T10-2 in the paper on SRD, arXiv 2605.07291) reaches an EER near
chance although its speakers can be told apart: the attacker then compares two kinds of speech, not two speakers.

Conventions: vectors are [utterances, dimensions], compared by cosine similarity; a vector of zeros is no vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from pipeline.metrics._base import Array, MetricError, Undefined, quantity

SIGNIFICANT = 0.001
"""p-values below this are no chance: a run has many results with one such test each (systems, extractors, trial sets)."""

RELATIVE = 0.3
"""The least difference that matters, as a share of what the more protected set lost. Under one voice (McAdams, alpha 0.8)
long against short utterances of LibriSpeech, or other speakers, differ by up to 0.3 with three speakers (0.4 with one
utterance each) and 0.1 with 20; an enrolment at alpha 0.9 against trials at 0.8 differs by 0.5."""

ABSOLUTE = 0.02
"""The least difference of cosine similarity that matters: copies of original speech (16 bits, another sampling rate, mp3)
differ by less than 0.01, two utterances of one speaker by 0.05 or more (GE2E)."""

UNCHANGED = 0.99
"""From this similarity on, an utterance is its original, perhaps rewritten: copies keep 0.996 or more (16 bits, 22.05 kHz,
mp3, ogg; GE2E), two utterances of one speaker at most 0.96, and McAdams with alpha 0.9 leaves 0.89."""

FEWEST_PAIRED = 3
"""Speakers in both sets that make a test of pairs; with fewer, speakers of both sets are compared as two groups."""


@dataclass(frozen=True)
class Treatment:
    """How similar enrolment and trial speech stay to their originals: means over the speakers that are compared."""

    enrolment: float = quantity("", "cosine similarity of enrolment utterances to their originals")
    trial: float = quantity("", "cosine similarity of trial utterances to their originals")
    difference: float = quantity("", "enrolment minus trial: above 0, the enrolment is protected less")
    relative: float = quantity("fraction", "the difference as a share of what the more protected set lost")
    p_value: float | None = quantity("fraction", "two-sided, speakers as units; None with too few of them")
    paired: bool = quantity("", "the same speakers stand in both sets, and each is compared with itself")
    enrolment_speakers: int = quantity("count", "speakers of the enrolment that are compared")
    trial_speakers: int = quantity("count", "speakers of the trials that are compared")
    enrolment_unchanged: float = quantity("fraction", "share of enrolment utterances that are their originals")
    trial_unchanged: float = quantity("fraction", "share of trial utterances that are their originals")
    left_out: int = quantity("count", "utterances without a vector (all zeros) before or after")
    differs: bool = quantity("", "enrolment and trials were treated differently")


def treatment(
    enrolment_original: npt.ArrayLike,
    enrolment_protected: npt.ArrayLike,
    trial_original: npt.ArrayLike,
    trial_protected: npt.ArrayLike,
    enrolment_speakers: Sequence[str],
    trial_speakers: Sequence[str],
) -> Treatment:
    """Compare the similarity of protected to original speech between enrolment and trials.

    Utterances are averaged within their speaker, so that each speaker weighs the same. Where at least half the speakers
    of the smaller set (and three) stand in both, only those are compared, each with itself, by a t test of the
    differences: this takes away what a transform does to one voice more than to another. Otherwise the speakers of both
    sets are two groups (Welch's t test).

    ``differs`` where the difference is significant (p < 0.001) and matters (0.3 of what the more protected set lost, and
    0.02 in cosine); or where it matters and one set as a whole is its original and most of the other is not, which no
    chance brings about, whatever the number of speakers.

    Args:
        enrolment_original, enrolment_protected: [n, d] vectors of the same utterances before and after.
        trial_original, trial_protected: [m, d].
        enrolment_speakers, trial_speakers: [n] and [m] speaker of each utterance.

    Raises:
        MetricError: shapes that do not agree, or a value that is not finite.
        Undefined: a set without a vector (all are zeros).
    """
    sets = [
        _similarities(enrolment_original, enrolment_protected, enrolment_speakers, "enrolment"),
        _similarities(trial_original, trial_protected, trial_speakers, "trial"),
    ]
    unchanged = [float((values >= UNCHANGED).mean()) for values, _, _ in sets]
    means = [_by_speaker(values, speakers) for values, speakers, _ in sets]
    common = sorted(means[0].keys() & means[1].keys())
    paired = len(common) >= max(FEWEST_PAIRED, min(len(of) for of in means) / 2)
    first, second = (np.array([of[s] for s in common] if paired else list(of.values())) for of in means)
    p_value = _welch(first, second)
    if paired:  # Student's t, of a mean difference of 0
        change = first - second
        p_value = (
            None
            if change.size < 2
            else _p_value(float(change.mean()), float(change.var(ddof=1)) / change.size, change.size - 1)
        )

    difference = float(first.mean() - second.mean())
    loss = 1 - min(float(first.mean()), float(second.mean()))
    relative = difference / loss if loss > 1e-9 else 0.0
    matters = abs(relative) >= RELATIVE and abs(difference) >= ABSOLUTE
    one_is_original = max(unchanged) == 1 and min(unchanged) < 0.5
    return Treatment(
        enrolment=float(first.mean()),
        trial=float(second.mean()),
        difference=difference,
        relative=relative,
        p_value=p_value,
        paired=paired,
        enrolment_speakers=first.size,
        trial_speakers=second.size,
        enrolment_unchanged=unchanged[0],
        trial_unchanged=unchanged[1],
        left_out=sum(dropped for _, _, dropped in sets),
        differs=matters and (one_is_original or (p_value is not None and p_value < SIGNIFICANT)),
    )


def _similarities(
    original: npt.ArrayLike, protected: npt.ArrayLike, speakers: Sequence[str], name: str
) -> tuple[Array, list[str], int]:
    """Cosine similarity of each utterance to its original, the speakers, and how many have no vector and are left out."""
    before, after = np.asarray(original, dtype=np.float64), np.asarray(protected, dtype=np.float64)
    if before.ndim != 2 or before.shape != after.shape or len(before) != len(speakers):
        raise MetricError(
            f"{name}: vectors of shape {before.shape} and {after.shape} of {len(speakers)} speakers do not belong together"
        )
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise MetricError(f"{name}: a vector has a value that is not finite")
    sizes = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
    usable = (sizes[0] > 0) & (sizes[1] > 0)
    if not usable.any():
        raise Undefined(f"{name}: no utterance has a vector both before and after")
    units = before[usable] / sizes[0][usable, None], after[usable] / sizes[1][usable, None]
    return np.sum(units[0] * units[1], axis=1), [s for s, kept in zip(speakers, usable) if kept], int((~usable).sum())


def _by_speaker(values: Array, speakers: Sequence[str]) -> dict[str, float]:
    names, place = np.unique(np.asarray(speakers, dtype=np.str_), return_inverse=True)
    means = np.bincount(place, values) / np.bincount(place)
    return {str(name): float(mean) for name, mean in zip(names, means)}


def _welch(first: Array, second: Array) -> float | None:
    """Two-sided p-value of equal means, variances not assumed equal."""
    if min(first.size, second.size) < 2:
        return None
    parts = [float(group.var(ddof=1)) / group.size for group in (first, second)]
    error = sum(parts)
    weight = sum(part**2 / (group.size - 1) for part, group in zip(parts, (first, second)))
    degrees = error**2 / weight if weight > 0 else min(first.size, second.size) - 1
    return _p_value(float(first.mean() - second.mean()), error, degrees)


def _p_value(difference: float, variance: float, degrees: float) -> float:
    # Equal values leave a spread of rounding errors, which is no measure of chance.
    if math.sqrt(variance) <= 1e-9:
        return 1.0 if abs(difference) <= 1e-9 else 0.0
    return float(2 * stdtr(degrees, -abs(difference) / math.sqrt(variance)))
