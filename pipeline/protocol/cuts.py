"""How recordings are cut before features are taken of them: whole, into pieces, or joined and cut into segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Extractor, Feature


class Cut(ABC):
    """A way of cutting; a frozen dataclass.

    Attributes:
        joins: whether all recordings of a task are one; else each stands for itself, once however often its audio comes.
    """

    joins: bool = False

    @abstractmethod
    def numeric(self) -> dict[str, Any]:
        """What enters keys."""

    @abstractmethod
    def names(self, rows: pd.DataFrame) -> list[str]:
        """Ids of the features of rows of a manifest."""

    @abstractmethod
    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        """The features of recordings, in the order of :meth:`names`."""


@dataclass(frozen=True)
class Recording:
    """A decoded file: its waveform float32 [n] at its own rate in Hz, and at those that extractors want where that is asked for."""

    wave: np.ndarray
    rate: int
    at_rate: dict[int, np.ndarray]


@dataclass(frozen=True)
class Whole(Cut):
    """Each recording as it is; ids are digests of the audio."""

    def numeric(self) -> dict[str, Any]:
        return {"cut": "whole"}

    def names(self, rows: pd.DataFrame) -> list[str]:
        return list(rows["sha256"])

    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        return extractor.extract([one.at_rate[extractor.sample_rate] for one in recordings])


@dataclass(frozen=True)
class Pieces(Cut):
    """Each recording in as many equal pieces as give about ``seconds`` each, at least one; ids are ``DIGEST#0, #1, ...``."""

    seconds: float

    def numeric(self) -> dict[str, Any]:
        return {"cut": "pieces", "seconds": self.seconds}

    def names(self, rows: pd.DataFrame) -> list[str]:
        counted = zip(rows["sha256"], self.counts(rows))
        return [piece_of(sha, number) for sha, count in counted for number in range(count)]

    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        return extractor.extract(
            [
                piece
                for one in recordings
                for piece in np.array_split(one.at_rate[extractor.sample_rate], self._count(len(one.wave) / one.rate))
            ]
        )

    def counts(self, rows: pd.DataFrame) -> list[int]:
        """How many pieces each row of a manifest gives."""
        return [self._count(length) for length in rows["samples"] / rows["sample_rate"]]

    def _count(self, length: float) -> int:
        return max(1, int(np.rint(length / self.seconds)))


def piece_of(utterance: str, number: int) -> str:
    """The id of a piece of an utterance, from 0."""
    return f"{utterance}#{number}"


def recording_of(piece: str) -> str:
    """The utterance that a piece was cut from; the id itself where it is none."""
    return piece.partition("#")[0]


def cut_rows(rows: pd.DataFrame, cut: Pieces) -> pd.DataFrame:
    """The rows of a manifest, one for each piece; audio and its digest stay those of the whole recording."""
    counts = cut.counts(rows)
    made = rows.loc[rows.index.repeat(counts)].reset_index(drop=True)
    numbers = [number for count in counts for number in range(count)]
    made["utterance"] = [piece_of(name, number) for name, number in zip(made["utterance"], numbers)]
    made["samples"] = [
        len(part)
        for samples, count in zip(rows["samples"], counts)
        for part in np.array_split(np.empty(samples, np.int8), count)
    ]
    made["position"] = np.arange(len(made))
    return made


@dataclass(frozen=True)
class Segments(Cut):
    """The recordings joined in their order and cut into ``count`` uniform segments; ids are ``0, 1, ...``."""

    count: int
    joins = True

    def numeric(self) -> dict[str, Any]:
        return {"cut": "segments", "count": self.count}

    def names(self, rows: pd.DataFrame) -> list[str]:
        return [str(number) for number in range(self.count)]

    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        return extractor.segments([(one.wave, one.rate) for one in recordings], self.count)
