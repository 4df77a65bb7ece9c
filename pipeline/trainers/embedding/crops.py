"""What of the audio an embedding trainer hears: batches of crops to train on, and excerpts that tell how good it is.

Each batch depends on its settings, the data and the number of its step alone. Excerpts are of speakers that it does not train on,
and tell one speaker under two names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.contracts import Waveforms
from pipeline.errors import DataError
from pipeline.nets.training import take_rounds
from pipeline.nets.verification import Verified, to_units, verify_pairs
from pipeline.nets.waveforms import RATE, cut_middle, play_at_speed
from pipeline.seeds import generator

QUIET = 5e-4
"""Chunks whose mean magnitude is below this are no items to train on (VPC 2024)."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A step's crops.

    Attributes:
        utterances: which utterance each crop is of.
        crops: float32 [batch, samples].
        labels: classes, int64 [batch].
    """

    utterances: list[int]
    crops: np.ndarray
    labels: np.ndarray


class Crops:
    """What a step trains on.

    A class is a speaker at a speed: class c is speaker c // speeds at speed c % speeds. With ``items: speakers`` a batch takes
    its classes from an endless row of shuffled rounds over all classes, then an utterance and a crop of each at random: every
    speaker is seen equally often. With ``items: chunks`` the rounds are over the chunks of all utterances, and a speaker is
    seen as often as it has speech.

    Args:
        settings: resolved ones of the embedding trainer.
        speakers: whose each utterance of the audio is.
        trained: the utterances to train on.

    Attributes:
        speakers: names of those who are trained on, sorted.
        of_speaker: utterances of each of them.
        chunks: with ``items: chunks``, the utterance of each chunk.
        n_repeated: utterances shorter than a crop, which are repeated up to it.
        n_vanished: with ``items: chunks``, utterances without a chunk.

    Raises:
        DataError: there is no chunk to train on.
    """

    def __init__(self, settings: Any, audio: Waveforms, speakers: Sequence[str], trained: Sequence[int]) -> None:
        self.settings, self.audio = settings, audio
        self.length = round(settings.crop_seconds * RATE)
        self.speakers = sorted({speakers[item] for item in trained})
        number = {speaker: label for label, speaker in enumerate(self.speakers)}
        self.label = {item: number[speakers[item]] for item in trained}
        self.of_speaker: list[list[int]] = [[] for _ in self.speakers]
        for item in trained:
            self.of_speaker[self.label[item]].append(item)
        least = max(round(self.length * speed) for speed in settings.speeds)
        self.n_repeated = int((audio.lengths[np.array(trained, dtype=np.int64)] < least).sum())
        self.n_vanished, self.chunks = 0, np.zeros(0, np.int64)
        if settings.items == "chunks":
            counts = np.array([self._count_chunks(item) for item in trained], dtype=np.int64)
            self.chunks = np.repeat(np.array(trained, dtype=np.int64), counts)
            self.n_vanished, self.n_repeated = int((counts == 0).sum()), 0
            if not len(self.chunks):
                raise DataError(
                    f"no utterance has {settings.crop_seconds} s of speech to make a chunk of",
                    remedy="set crop_seconds lower, or items to speakers",
                )

    @property
    def n_classes(self) -> int:
        """Speakers times speeds."""
        return len(self.speakers) * len(self.settings.speeds)

    @property
    def n_items(self) -> int:
        """What a round is over."""
        return len(self.chunks) * len(self.settings.speeds) if self.settings.items == "chunks" else self.n_classes

    def batch(self, step: int) -> Batch:
        """The crops of a step."""
        random = generator(self.settings.seed, "crops", step)
        items = take_rounds(self.n_items, step, self.settings.batch, self.settings.seed, "round of classes")
        utterances, labels = [], []
        crops = np.empty((len(items), self.length), dtype=np.float32)
        for row, item in enumerate(items.tolist()):
            which, speed = divmod(item, len(self.settings.speeds))
            if self.settings.items == "chunks":
                utterance = int(self.chunks[which])
            else:
                utterance = self.of_speaker[which][int(random.integers(len(self.of_speaker[which])))]
            crops[row] = self.crop(utterance, self.settings.speeds[speed], random)
            utterances.append(utterance)
            labels.append(self.label[utterance] * len(self.settings.speeds) + speed)
        return Batch(utterances, crops, np.array(labels, dtype=np.int64))

    def crop(self, utterance: int, speed: float, random: np.random.Generator) -> np.ndarray:
        """A crop of an utterance at a random place, float32 [samples]; a shorter utterance is repeated."""
        taken, n = round(self.length * speed), int(self.audio.lengths[utterance])
        start = int(random.integers(max(n, taken) - taken + 1))
        wave = np.resize(self.audio.piece(utterance, start, min(n, start + taken)), taken)
        return play_at_speed(wave, speed, self.length)

    def _count_chunks(self, utterance: int) -> int:
        """How many whole chunks of an utterance, cut from its start, are loud enough."""
        n = int(self.audio.lengths[utterance]) // self.length
        wave = self.audio.piece(utterance, 0, n * self.length)
        return int((np.abs(wave).reshape(n, self.length).mean(1) >= QUIET).sum())


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
