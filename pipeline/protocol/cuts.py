"""How recordings are cut before features are taken of them: whole, into pieces, or joined and cut into segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Extractor, Feature, Preparation
from pipeline.seeds import digest

VERSION = "cut rules 2"

Want = tuple[Preparation, int]
"""How an extractor wants recordings: prepared in this way, at this rate in Hz."""


def describe_want(extractor: Extractor) -> Want:
    """How an extractor wants recordings."""
    return extractor.preparation(extractor.settings), extractor.sample_rate


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

    def parts(self, wave: np.ndarray, rate: int) -> list[np.ndarray]:
        """The parts of a decoded file, each of which is prepared by itself. Names are told from lengths in a manifest, so files
        are cut as they are and trimmed afterwards."""
        return [wave]

    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        """The features of recordings, in the order of :meth:`names`."""
        wanted = describe_want(extractor)
        return extractor.extract([part for recording in recordings for part in recording.prepared[wanted]])


@dataclass(frozen=True)
class Recording:
    """A decoded file: its waveform float32 [n] at its own rate in Hz, and its parts as extractors want them where cuts are not
    joined."""

    wave: np.ndarray
    rate: int
    prepared: dict[Want, list[np.ndarray]]

    @classmethod
    def of(cls, wave: np.ndarray, rate: int, cut: Cut, wants: Iterable[Want]) -> Recording:
        """A decoded file, cut, and prepared once for each way that is wanted; recordings that are joined are not yet."""
        parts = [] if cut.joins else cut.parts(wave, rate)
        return cls(
            wave, rate, {(how, to): [how.prepare(part, rate, to) for part in parts] for how, to in dict.fromkeys(wants)}
        )


@dataclass(frozen=True)
class Whole(Cut):
    """Each recording as it is; ids are digests of the audio."""

    def numeric(self) -> dict[str, Any]:
        return {"cut": "whole"}

    def names(self, rows: pd.DataFrame) -> list[str]:
        return list(rows["sha256"])


@dataclass(frozen=True)
class Pieces(Cut):
    """Each recording in as many equal pieces as give about ``seconds`` each, at least one; ids are ``DIGEST#0, #1, ...``."""

    seconds: float

    def numeric(self) -> dict[str, Any]:
        return {"cut": "pieces", "seconds": self.seconds}

    def names(self, rows: pd.DataFrame) -> list[str]:
        counted = zip(rows["sha256"], self.counts(rows))
        return [name_piece(sha, number) for sha, count in counted for number in range(count)]

    def parts(self, wave: np.ndarray, rate: int) -> list[np.ndarray]:
        return np.array_split(wave, self._count(len(wave) / rate))

    def counts(self, rows: pd.DataFrame) -> list[int]:
        """How many pieces each row of a manifest gives."""
        return [self._count(length) for length in rows["samples"] / rows["sample_rate"]]

    def _count(self, length: float) -> int:
        return max(1, int(np.rint(length / self.seconds)))


def name_piece(utterance: str, number: int) -> str:
    """The id of a piece of an utterance, from 0."""
    return f"{utterance}#{number}"


def name_recording(piece: str) -> str:
    """The utterance that a piece was cut from; the id itself where it is none."""
    return piece.partition("#")[0]


def cut_rows(rows: pd.DataFrame, cut: Pieces) -> pd.DataFrame:
    """The rows of a manifest, one for each piece; audio and its digest stay those of the whole recording."""
    counts = cut.counts(rows)
    pieces = rows.loc[rows.index.repeat(counts)].reset_index(drop=True)
    numbers = [number for count in counts for number in range(count)]
    pieces["utterance"] = [name_piece(name, number) for name, number in zip(pieces["utterance"], numbers)]
    pieces["samples"] = [
        len(part)
        for samples, count in zip(rows["samples"], counts)
        for part in np.array_split(np.empty(samples, np.int8), count)
    ]
    pieces["position"] = [position_of_piece(name) for name in pieces["utterance"]]
    return pieces


def position_of_piece(piece: str) -> int:
    """Where a piece stands in a list, for what gives pseudo-voices by position: a number below 65,536 made of its id, so that it
    does not depend on what lies beside it."""
    return int(digest("place", piece)[:4], 16)


@dataclass(frozen=True)
class Segments(Cut):
    """The recordings, each trimmed as the extractor wants it, joined in their order and cut into ``count`` uniform segments; ids
    are ``0, 1, ...``."""

    count: int
    joins = True

    def numeric(self) -> dict[str, Any]:
        return {"cut": "segments", "count": self.count}

    def names(self, rows: pd.DataFrame) -> list[str]:
        return [str(number) for number in range(self.count)]

    def features(self, extractor: Extractor, recordings: Sequence[Recording]) -> list[Feature]:
        how, _ = describe_want(extractor)
        return extractor.segments(
            [(how.trim_zeros_at_ends(recording.wave), recording.rate) for recording in recordings], self.count
        )
