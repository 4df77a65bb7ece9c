"""Batches of crops for the embedding trainer, each of which depends on its settings, the data and the number of its step alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.contracts import Waveforms
from pipeline.errors import DataError
from pipeline.nets.training import take_rounds
from pipeline.nets.waveforms import RATE, play_at_speed
from pipeline.seeds import generator

QUIET = 5e-4
"""Chunks whose mean magnitude is below this are no items to train on (VPC 2024)."""

_VOICES = (2, 4)  # voices in a babble, at least and at most


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
        audio: all utterances.
        speakers: whose each utterance is.
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
        if self.settings.noise_db is not None:
            self._add_noise(crops, utterances, generator(self.settings.seed, "noise", step))
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

    def _add_noise(self, crops: np.ndarray, utterances: Sequence[int], random: np.random.Generator) -> None:
        """Add noise at a random ratio to a part of the crops: voices of other speakers, or coloured noise."""
        low, high = self.settings.noise_db
        for crop, utterance in zip(crops, utterances, strict=True):
            if random.random() >= self.settings.noisy:
                continue
            noise = (
                self._mix_babble(self.label[utterance], random)
                if random.random() < 0.5
                else make_coloured_noise(len(crop), random)
            )
            power = float(np.mean(np.square(noise, dtype=np.float64)))
            ratio = float(np.mean(np.square(crop, dtype=np.float64))) / 10 ** (random.uniform(low, high) / 10)
            if power > 0:
                crop += noise * np.float32((ratio / power) ** 0.5)

    def _mix_babble(self, speaker: int, random: np.random.Generator) -> np.ndarray:
        """Crops of other speakers, added up."""
        n = min(len(self.speakers) - 1, int(random.integers(*_VOICES, endpoint=True)))
        others = random.choice(len(self.speakers) - 1, n, replace=False)
        total = np.zeros(self.length, dtype=np.float32)
        for other in (others + (others >= speaker)).tolist():
            utterances = self.of_speaker[other]
            total += self.crop(utterances[int(random.integers(len(utterances)))], 1.0, random)
        return total


def make_coloured_noise(length: int, random: np.random.Generator) -> np.ndarray:
    """Noise whose power falls with frequency to the power of 0 (white) to 2 (brown), float32 [length]."""
    spectrum = np.fft.rfft(random.standard_normal(length))
    spectrum[1:] /= np.arange(1, len(spectrum)) ** (random.uniform(0, 2) / 2)
    spectrum[0] = 0
    return np.fft.irfft(spectrum, length).astype(np.float32)
