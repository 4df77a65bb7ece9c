"""What an extractor is: waveforms to feature vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pipeline import audio
from pipeline.contracts.component import Component

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.contracts.trainer import Training


Comparison = Literal["trials", "pairs", "ranks"]
"""What features are compared as: enrolment models with trials, all pairs of utterances, inputs with references."""


@dataclass(frozen=True)
class Preparation:
    """What is done to a decoded recording before an extractor hears it.

    Attributes:
        resampler: how it is brought to the extractor's rate.
        trim_zeros: whether samples at both ends that are exactly zero are dropped, at the recording's own rate. A recording of
            zeros alone is then empty.
    """

    resampler: audio.Resampler = audio.RESAMPLER
    trim_zeros: bool = False

    @property
    def library(self) -> str:
        """The distribution that resamples."""
        return "torchaudio" if self.resampler == "torchaudio_sinc" else "soxr"

    def trim_zeros_at_ends(self, wave: np.ndarray) -> np.ndarray:
        """A recording without what is dropped, at its own rate."""
        return audio.trim_zeros(wave) if self.trim_zeros else wave

    def prepare(self, wave: np.ndarray, rate: int, target: int) -> np.ndarray:
        """A recording, float32 [n] at ``rate`` Hz, trimmed and then brought to ``target`` Hz."""
        return audio.resample(self.trim_zeros_at_ends(wave), rate, target, self.resampler)


@dataclass(frozen=True)
class Feature:
    """A feature vector with its evidence.

    Attributes:
        vector: float32 [d]; zeros where nothing could be extracted.
        weight: how much evidence the vector stands on (voiced frames of an F0 histogram; 1 for an embedding, 0 if unusable).
        reason: '' or why the vector is unusable.
    """

    vector: np.ndarray
    weight: float = 1.0
    reason: str = ""


@dataclass(frozen=True)
class Vectors:
    """Feature vectors of named pieces of audio.

    Attributes:
        ids: [n] utterance ids (or segment ids).
        speakers: [n] speaker ids.
        vectors: float32 [n, d].
        weights: float64 [n], the evidence of each; 0 where unusable.
        reasons: [n], '' or why the vector is unusable.
    """

    ids: tuple[str, ...]
    speakers: tuple[str, ...]
    vectors: np.ndarray
    weights: np.ndarray
    reasons: tuple[str, ...]

    def usable(self) -> Vectors:
        """Only the rows that could be extracted."""
        kept = np.flatnonzero(self.weights > 0)
        return Vectors(
            tuple(self.ids[row] for row in kept),
            tuple(self.speakers[row] for row in kept),
            self.vectors[kept],
            self.weights[kept],
            tuple(self.reasons[row] for row in kept),
        )

    def unusable(self) -> list[tuple[str, str]]:
        """(id, reason) of the rows that could not be extracted."""
        return [(name, reason) for name, reason, weight in zip(self.ids, self.reasons, self.weights) if weight <= 0]


def mean_of_units(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean float32 [d] of the length-normalised vectors [n, d], each by its weight [n]: how embeddings of a speaker become one.

    Vectors of weight 0 do not count; zeros where nothing counts.
    """
    vectors, weights = np.asarray(vectors, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    weights = np.where(lengths > 0, weights, 0.0)
    if weights.sum() == 0:
        return np.zeros(vectors.shape[1], dtype=np.float32)
    units = vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
    return np.asarray(weights @ units / weights.sum(), dtype=np.float32)


class VectorSource(ABC):
    """Vectors that are told by the ids of utterances: what an extractor gives that hears no audio."""

    @abstractmethod
    def has_system(self, name: str) -> bool:
        """Whether there are vectors of a system's speech; ``LABEL@2`` is the second run of the system LABEL."""

    @abstractmethod
    def select(self, name: str, rows: pd.DataFrame, *, allow_partial: bool) -> Vectors:
        """The vectors of some rows (``set, utterance, speaker``), in their order.

        Raises:
            DataError: vectors are missing; under ``allow_partial`` they are unusable rows with a reason instead.
        """


class Transcripts(ABC):
    """What is said in a data set. Tables are read when somebody asks."""

    @abstractmethod
    def read_evaluated(self, *, allow_partial: bool) -> Mapping[tuple[str, str], str]:
        """The transcripts of all utterances that are evaluated, by (set, utterance), as the tables have them.

        Raises:
            DataError: there are none at all; or utterances have none, with all of them: under ``allow_partial`` those are left
                out instead.
        """


class Extractor(Component):
    """Waveforms to feature vectors.

    An object is made once a process for each settings and weights, and hears many files. A vector depends on its own audio
    alone (a cosine distance of 1e-5 at most), not on what is heard beside it.

    Attributes:
        compared_as: what its vectors are for.
        similarity: how inputs are compared with references where a metric ranks: ``cosine`` or ``euclidean``.
        evidence_optional: whether audio of weight 0 is an observation (it tells an attacker nothing: a tie) and no loss.
        sample_rate: Hz that :meth:`extract` wants.
        hears: whether its vectors depend on the voice. If not, no back end is trained on them, and nothing is said of how strong
            an attack with them is.
    """

    compared_as: ClassVar[frozenset[Comparison]] = frozenset({"trials", "pairs", "ranks"})
    similarity: ClassVar[Literal["cosine", "euclidean"]] = "cosine"
    evidence_optional: ClassVar[bool] = False
    sample_rate: ClassVar[int] = 16_000
    hears: ClassVar[bool] = True

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        """Load the network from the folder that :meth:`weights` found, or that a training of the run wrote.

        ``device`` is ``cpu`` or ``cuda[:N]``; ``threads`` of the CPU are used at most.
        """
        self.settings, self.device, self.threads = settings, device, threads

    @abstractmethod
    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """The features of waveforms, each float32 [n] at :attr:`sample_rate`, in order."""

    def segments(self, recordings: Sequence[tuple[np.ndarray, int]], count: int) -> list[Feature]:
        """The features of ``count`` uniform segments of joined recordings, given as (waveform, rate in Hz).

        Each recording is trimmed already, as :meth:`preparation` asks. By default the audio is cut, and files of another rate
        are brought to that of the first. An extractor may cut what it makes of the audio instead.
        """
        resampler = self.preparation(self.settings).resampler
        waves, rate = audio.uniform_segments(recordings, count, resampler)
        return self.extract([audio.resample(wave, rate, self.sample_rate, resampler) for wave in waves])

    @staticmethod
    def pool(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One vector float32 [d] of several, [n, d], by their weights [n]: the reference of a speaker."""
        return mean_of_units(vectors, weights)

    @classmethod
    def frequencies(cls, settings: Any) -> tuple[float, ...] | None:
        """Which F0 in Hz each entry of a vector stands for, where vectors are histograms of F0; None for all others."""
        return None

    @classmethod
    def preparation(cls, settings: Any) -> Preparation:
        """What is done to a decoded recording before :meth:`extract` hears it; what its settings say of it is numeric."""
        return Preparation()

    @classmethod
    def resolved(cls, settings: Any, chosen: Training | None) -> Any:
        """The settings with every choice made that depends on the rest of the configuration: ``chosen`` is the trainer of the group
        ``train``; None where there is none, or no speech to train on."""
        return settings

    @classmethod
    def training(cls, settings: Any, chosen: Training | None) -> Training | None:
        """What makes the weights in the run, with the trainer of the group ``train``; None where they are not trained.

        Raises:
            ConfigError: they are to be trained and nothing can; ``where`` is the field that asks for it.
        """
        return None

    @classmethod
    def adaptation(cls, settings: Any, chosen: Training | None) -> Training | None:
        """What makes weights on a system's anonymised speech; None if nothing can."""
        return None

    @classmethod
    def tables(
        cls, settings: Any, labels: Sequence[str], transcripts: Transcripts | None = None
    ) -> VectorSource | None:
        """Vectors that are read instead of extracted, for the systems with these labels; None for a real extractor.

        Raises:
            DataError: with all faults of all files.
        """
        return None

    @classmethod
    def with_tables(cls, settings: Any, files: Mapping[str, Sequence[Path]]) -> Any:
        """The settings with the files of vectors that lie in a challenge's folder, by the label of the system."""
        return settings

    @classmethod
    def reads_challenge_folder(cls, settings: Any) -> bool:
        """Whether its vectors are to be those that lie in a challenge's folder."""
        return False

    @classmethod
    def is_strong(cls, settings: Any) -> bool:
        """Whether it recognises unprotected speakers about as well as anything that can be had, so that a claim of privacy may
        stand on it."""
        return False

    @classmethod
    def takes_checkpoint(cls, settings: Any) -> bool:
        """Whether its weights are to be those that a challenge's own training left, where ``train=found`` asks for them."""
        return False

    @classmethod
    def with_checkpoint(cls, settings: Any, folder: Path, beside: Path) -> Any | None:
        """The settings with weights that a challenge's own training left in a folder, where ``train=found`` asks for them; None if
        there are none of this kind, or the settings name others. ``beside`` has what checkpoints share: the model it began with."""
        return None

    @classmethod
    def trained_on(cls, settings: Any) -> Literal["original", "anonymised"]:
        """The speech that the extractor knows where the run does not train it."""
        return "original"

    @classmethod
    def training_data(cls, settings: Any) -> str:
        """What signatures say of the recordings that weights from elsewhere have learnt from; '' where that is known."""
        return ""
