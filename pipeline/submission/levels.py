"""Who has a pseudo-voice of their own, estimated from long-term spectra: nobody (one voice for all), each speaker, or each utterance.

What the original's spectrum foretells of the anonymised one, learnt from the other speakers, is taken away; what is left of each
utterance is split into what differs between speakers and what differs within them, and both are held against the originals'.
One voice a speaker leaves differences between speakers, one an utterance leaves as much within them, one for all leaves little of either.

Thresholds are those that part McAdams (alpha 0.5, 0.8, 0.9; U(0.7, 0.9) and U(0.5, 0.9) by speaker and by utterance, in the challenges'
modes too) and voices replaced by another speaker's, on synthetic speakers and on 20 real ones of LibriSpeech.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Level = Literal["fixed", "speaker", "utterance", ""]

FEWEST_SPEAKERS, FEWEST_UTTERANCES = 8, 40
"""With fewer, a voice for each and one for all look alike by chance."""

KEPT = 0.4
"""Part of the originals' variance between speakers from which an anonymiser bends voices; below, it puts others in their place. What a
replaced voice leaves within speakers is as much as the words do; what a bent one leaves is foretold by the original."""

MANY_WITHIN, FEW_WITHIN = {True: 0.5, False: 1.3}, {True: 0.35, False: 0.9}
"""Variance within speakers, as a share of the originals', of bent and of replaced voices: from the first on each utterance has a voice,
up to the second one for all may be."""
MANY_BETWEEN, FEW_BETWEEN = 0.45, 0.3
"""Variance between speakers, as a share of the originals': from the first on each speaker has a voice, up to the second one for all may be."""
LITTLE_BETWEEN = 0.35
"""Up to this variance between speakers, half of the whole is still chance: few utterances were drawn of each."""
OF_SPEAKERS, OF_UTTERANCES = 0.45, 0.40
"""Share of the variance that lies between speakers: at least the first with a voice a speaker, at most the second with one an utterance."""

RIDGE = 0.1

SAID = {
    "fixed": "one pseudo-voice for all",
    "speaker": "one a speaker",
    "utterance": "one an utterance",
    "": "cannot be told",
}


@dataclass(frozen=True)
class Estimate:
    """How pseudo-voices seem to be given.

    Attributes:
        level: '' if it cannot be told.
        within: variance of what is not foretold within speakers, as a share of the originals' within speakers.
        between: the same between speakers.
        share: of the variance that lies between speakers.
        why: it cannot be told, in words.
    """

    level: Level
    within: float = 0.0
    between: float = 0.0
    share: float = 0.0
    why: str = ""


def estimate(
    original: np.ndarray, protected: np.ndarray, speakers: Sequence[str], sets: Sequence[str], roles: Sequence[str]
) -> dict[str, Estimate]:
    """Estimate the level of all utterances (under ''), and of those of each role.

    Args:
        original, protected: [n, d] spectra of the same utterances before and after; rows and columns that hold NaN are left out.
        speakers, sets, roles: [n] of each utterance; a speaker may have another voice in another set.
    """
    columns = ~np.isnan(original).all(axis=0) & ~np.isnan(protected).all(axis=0)
    before, after = original[:, columns], protected[:, columns]
    kept = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    who, which = np.asarray(speakers, dtype=np.str_)[kept], np.asarray(sets, dtype=np.str_)[kept]
    role = np.asarray(roles, dtype=np.str_)[kept]
    before, after = _centred(before[kept]), _centred(after[kept])
    parts = {"": np.ones(len(who), bool), **{name: role == name for name in sorted(set(role.tolist()))}}
    told = _enough(who)
    if not told or not before.shape[1]:
        return {name: Estimate("", why=_few(who[rows])) for name, rows in parts.items()}
    voices = np.array([f"{one}\n{of}" for one, of in zip(who, which)])
    left = _unforetold(before, after, who)
    found = {}
    for name, rows in parts.items():
        if not _enough(who[rows]):
            found[name] = Estimate("", why=_few(who[rows]))
            continue
        originals = _components(before[rows], who[rows])
        bent = _components(after[rows], who[rows])[1] >= KEPT * originals[1]
        found[name] = _judged(originals, _components(left[rows], voices[rows]), bent)
    return found


def _centred(spectra: np.ndarray) -> np.ndarray:
    """Spectra [n, d] without their level over the bands that are left."""
    return spectra - spectra.mean(axis=1, keepdims=True) if spectra.size else spectra


def _enough(who: np.ndarray) -> bool:
    names, counts = np.unique(who, return_counts=True)
    return int((counts > 1).sum()) >= FEWEST_SPEAKERS and len(who) >= FEWEST_UTTERANCES and len(names) < len(who)


def _few(who: np.ndarray) -> str:
    _, counts = np.unique(who, return_counts=True)
    return (
        f"{int((counts > 1).sum())} speakers with several usable utterances, {len(who)} utterances: it takes {FEWEST_SPEAKERS} and "
        f"{FEWEST_UTTERANCES}"
    )


def _unforetold(before: np.ndarray, after: np.ndarray, who: np.ndarray) -> np.ndarray:
    """What a ridge regression on the originals, learnt from all other speakers, leaves of the anonymised spectra [n, d]."""
    left = np.empty_like(after)
    for speaker in np.unique(who):
        mine = who == speaker
        known, wanted = before[~mine], after[~mine]
        centre, scale, level = known.mean(axis=0), known.std(axis=0) + 1e-9, wanted.mean(axis=0)
        inputs = (known - centre) / scale
        gram = inputs.T @ inputs + RIDGE * len(inputs) * np.eye(inputs.shape[1])
        weights = np.linalg.solve(gram, inputs.T @ (wanted - level))
        left[mine] = after[mine] - level - (before[mine] - centre) / scale @ weights
    return left


def _components(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Variance within groups and between them (the component, not the mean square), summed over the columns of values [n, d].

    One-way analysis of variance with groups of unequal size (Searle, Casella and McCulloch 1992, section 3.6).
    """
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(place, column) / sizes for column in values.T], axis=1)
    n, k = len(values), len(sizes)
    within = float(np.square(values - means[place]).sum()) / max(n - k, 1)
    mean_square = float((sizes[:, None] * np.square(means - values.mean(axis=0))).sum()) / max(k - 1, 1)
    size = (n - float(np.square(sizes).sum()) / n) / max(k - 1, 1)
    return within, max(0.0, (mean_square - within) / size)


def _judged(originals: tuple[float, float], left: tuple[float, float], bent: bool) -> Estimate:
    if min(originals) <= 0:
        return Estimate("", why="the originals do not differ between and within speakers")
    within, between = left[0] / originals[0], left[1] / originals[1]
    share = left[1] / (left[0] + left[1]) if left[0] + left[1] > 0 else 0.0
    numbers = (within, between, share)
    little = share <= OF_UTTERANCES or (between <= LITTLE_BETWEEN and share <= 0.5)
    if within >= MANY_WITHIN[bent] and little:
        return Estimate("utterance", *numbers)
    if between >= MANY_BETWEEN and share >= OF_SPEAKERS:
        return Estimate("speaker", *numbers)
    if within <= FEW_WITHIN[bent] and between <= FEW_BETWEEN:
        return Estimate("fixed", *numbers)
    return Estimate("", *numbers, why="the changes lie between those of two ways of giving pseudo-voices")
