"""What an embedding trainer knows of how good it is: speakers it does not train on, and one speaker under two names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.contracts import Waveforms
from pipeline.nets.verification import Verified, to_units, verify_pairs
from pipeline.nets.waveforms import cut_middle
from pipeline.seeds import generator

FEWEST = 20
"""With fewer speakers than this, none is held out."""

_HELD_OUT = 8  # speakers held out at least, where they are a quarter of all at most
_SPEAKERS, _PIECES = 200, 6  # speakers that are verified, and pieces of each, at most

# Interquartile ranges above the upper quartile at which a nearest name is suspect. With it 168 speakers of LibriSpeech have no false
# pair or one among 14,028, by seed; a speaker of 10 utterances under two names lay at 2.7.
_STANDS_OUT = 2.0

Embed = Callable[[np.ndarray], np.ndarray]
"""Waveforms float32 [n, samples] to embeddings float32 [n, d]."""


def split(settings: Any, speakers: Sequence[str]) -> tuple[list[int], list[int]]:
    """The utterances to train on and those held out.

    By speaker: ``held_out`` of the speakers, but 8 at least where they are a quarter of all at most, and none where there are
    fewer than 20. By utterance: ``held_out`` of the utterances, whoever speaks.

    Args:
        settings: of the embedding trainer.
        speakers: the speaker of each utterance.
    """
    everyone = sorted(set(speakers))
    if settings.held_out == 0 or len(everyone) < FEWEST:
        return list(range(len(speakers))), []
    random = generator(settings.seed, "held out", settings.held_out_by)
    if settings.held_out_by == "utterance":
        chosen = set(random.permutation(len(speakers))[: round(settings.held_out * len(speakers))].tolist())
    else:
        n = max(round(settings.held_out * len(everyone)), min(_HELD_OUT, len(everyone) // 4))
        names = {everyone[number] for number in random.permutation(len(everyone))[:n]}
        chosen = {item for item, speaker in enumerate(speakers) if speaker in names}
    return [item for item in range(len(speakers)) if item not in chosen], sorted(chosen)


@dataclass(frozen=True, eq=False)
class Excerpts:
    """Excerpts of equal length of some speakers.

    Attributes:
        waves: float32 [n, samples].
        speakers: number of each excerpt's speaker among ``names``, int64 [n].
        names: the speakers.
        same_session: whether the excerpts of a speaker are cut from one utterance, because most have no second one.
    """

    waves: np.ndarray
    speakers: np.ndarray
    names: list[str]
    same_session: bool


def cut_excerpts(
    audio: Waveforms, items: Sequence[int], speakers: Sequence[str], length: int, seed: int, most: int = _SPEAKERS
) -> Excerpts | None:
    """Up to six excerpts each of up to ``most`` of the speakers of some utterances, drawn at random.

    Where at least half of the speakers have several recordings, one excerpt from the middle of each utterance; else parts of
    one recording that do not overlap: pieces that were cut from it before, or cut here. What is shorter than ``length`` is
    repeated. Only the first draw of an anonymiser's random numbers counts, and no speech of other systems.

    Returns:
        None where no speaker, or only one, is left.
    """
    of_speaker: dict[str, list[int]] = {}
    for item in items:
        if audio.own[item] and audio.draws[item] == 0:
            of_speaker.setdefault(speakers[item], []).append(item)
    random = generator(seed, "speakers to verify")
    names = sorted(of_speaker)
    names = sorted(names[number] for number in random.permutation(len(names))[:most])
    if len(names) < 2:
        return None
    n_with_several = sum(len({audio.recordings[item] for item in of_speaker[name]}) > 1 for name in names)
    same_session = n_with_several < len(names) / 2
    waves, owners = [], []
    for owner, name in enumerate(names):
        items = [of_speaker[name][number] for number in random.permutation(len(of_speaker[name]))[:_PIECES]]
        if same_session:
            longest = max(items, key=lambda item: (int(audio.lengths[item]), -item))
            items = [item for item in items if audio.recordings[item] == audio.recordings[longest]]
        if same_session and len(items) == 1:
            cut = _cut_parts(audio, items[0], length)
        else:
            cut = [cut_middle(audio, item, 0, int(audio.lengths[item]), length) for item in sorted(items)]
        waves += cut
        owners += [owner] * len(cut)
    return Excerpts(np.stack(waves), np.array(owners, dtype=np.int64), names, same_session)


def _cut_parts(audio: Waveforms, item: int, length: int) -> list[np.ndarray]:
    """Excerpts from the middles of two to six equal parts of an utterance."""
    n = int(audio.lengths[item])
    borders = np.linspace(0, n, 1 + max(2, min(_PIECES, n // length))).astype(int).tolist()
    return [
        cut_middle(audio, item, start, max(stop, start + 1), length) for start, stop in pairwise(borders) if start < n
    ]


def verify(excerpts: Excerpts, embed: Embed) -> Verified:
    """All pairs of excerpts."""
    vectors = embed(excerpts.waves)
    first, second = np.triu_indices(len(vectors), 1)
    target = excerpts.speakers[first] == excerpts.speakers[second]
    return verify_pairs(vectors, first, second, target, len(excerpts.names), excerpts.same_session)


def find_doubles(
    audio: Waveforms, speakers: Sequence[str], length: int, seed: int, embed: Embed
) -> list[tuple[str, str, float]]:
    """Pairs of names that may be one speaker, each with the cosine of the two centroids, the closest first.

    Two names are suspected where their centroids are closer to each other than the excerpts of either are, on the mean, to the
    centroid of the name's other excerpts, and where that stands out from how close all names come to their nearest. Of names
    with one utterance each a network that was trained to tell them apart may have learnt the recordings: this finds few of them.
    """
    excerpts = cut_excerpts(audio, range(len(speakers)), speakers, length, seed, most=len(speakers))
    if excerpts is None:
        return []
    units = to_units(embed(excerpts.waves))
    owners = excerpts.speakers
    sums = np.zeros((len(excerpts.names), units.shape[1]))
    np.add.at(sums, owners, units)
    # A name's only excerpt has no others: it is judged by the other name of a pair alone.
    has_others = np.bincount(owners)[owners] > 1
    nearness = np.einsum("ij,ij->i", units, to_units(sums[owners] - units))
    counts = np.bincount(owners[has_others], minlength=len(sums))
    totals = np.bincount(owners[has_others], nearness[has_others], minlength=len(sums))
    own = np.divide(totals, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    centroids = to_units(sums)
    cosines = centroids @ centroids.T
    np.fill_diagonal(cosines, -1.0)
    low, high = np.quantile(cosines.max(1), [0.25, 0.75])
    # Where the network tells nobody apart, all names have close neighbours, and none stands out.
    least = np.fmax(np.fmax(own[:, None], own[None]), high + _STANDS_OUT * (high - low))
    first, second = np.nonzero(np.triu((cosines > least) & np.isfinite(np.fmax(own[:, None], own[None])), 1))
    doubles = sorted(zip(first.tolist(), second.tolist()), key=lambda pair: -cosines[pair])
    return [(excerpts.names[a], excerpts.names[b], round(float(cosines[a, b]), 4)) for a, b in doubles]
