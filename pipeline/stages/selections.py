"""What tasks read of other tasks' artefacts: rows of manifests and vectors, chosen by frozen values that pickle."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.engine import code
from pipeline.engine.task import Artefact, Value
from pipeline.seeds import canonical, digest, digest_of_texts
from pipeline.stages.features.compute import FEATURES
from pipeline.tables import manifest, vectors
from pipeline.tables.manifest import Listing, Wanted


def rows(table: pd.DataFrame, columns: Sequence[str] = ()) -> Value:
    """Rows of a manifest; what enters keys is the audio's digests and the named columns, in row order, never a path."""
    return Value(digest(list(zip(*(table[name].tolist() for name in ("sha256", *columns))))), table)


@dataclass(frozen=True, eq=False)
class Choice:
    """Rows of the speech of a system.

    Attributes:
        listed: the manifest of the system where its files are given; None where anonymise tasks write it: their artefacts, so
            many as ``manifests`` says, then come first.
        manifests: number of artefacts that hold a manifest.
        wanted: what to take.
    """

    listed: Listing | None
    manifests: int
    wanted: Wanted

    def digest(self) -> str:
        """Digest of all that the choice depends on beside the artefacts."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        listed = None if self.listed is None else self.listed.digests(self.wanted)
        which = (type(self).__name__, self.manifests)
        texts = map(canonical, (*which, code.collect_versions((__name__,)), listed))
        return digest_of_texts(*texts, self.wanted.text)

    def chosen(self, artefacts: Sequence[Artefact]) -> pd.DataFrame:
        """The wanted rows as the system has them."""
        written = artefacts[: self.manifests]
        listed = self.listed if self.listed is not None else Listing(manifest.rows_of(written))
        return listed.matching(self.wanted)


@dataclass(frozen=True, eq=False)
class SelectAudio(Choice):
    """The audio of rows."""

    def content(self) -> str:
        """Digest of what is chosen, where the rows are given; else ''."""
        if self.listed is None:
            return ""
        return digest([[sha256] for sha256 in self.listed.digests(self.wanted)])

    def __call__(self, artefacts: Sequence[Artefact]) -> Value:
        return rows(self.chosen(artefacts))


@dataclass(frozen=True, eq=False)
class SelectVectors(Choice):
    """The vectors of whole utterances; the artefacts after the manifests hold features by digest of the audio."""

    def __call__(self, artefacts: Sequence[Artefact]) -> Value:
        wanted_rows = self.chosen(artefacts)
        tables = [vectors.read(artefact.path(FEATURES), artefact.digest) for artefact in artefacts[self.manifests :]]
        place = {name: (number, row) for number, table in enumerate(tables) for name, row in table.row.items()}
        places = [place[sha] for sha in wanted_rows["sha256"]]
        chosen = vectors.gather(tables, places, list(wanted_rows["utterance"]), list(wanted_rows["speaker"]))
        return Value(vectors.content(chosen), chosen)


@dataclass(frozen=True, eq=False)
class SelectPieces(Choice):
    """The vectors of all pieces of utterances; ids are ``UTTERANCE#0, #1, ...``."""

    def __call__(self, artefacts: Sequence[Artefact]) -> Value:
        wanted_rows = self.chosen(artefacts)
        tables = [vectors.read(artefact.path(FEATURES), artefact.digest) for artefact in artefacts[self.manifests :]]
        places: dict[str, list[tuple[int, int]]] = {}
        for number, table in enumerate(tables):
            for name, row in table.row.items():
                places.setdefault(name.partition("#")[0], []).append((number, row))
        ids: list[str] = []
        owners: list[str] = []
        for utterance, speaker, sha in zip(wanted_rows["utterance"], wanted_rows["speaker"], wanted_rows["sha256"]):
            ids += [f"{utterance}#{order}" for order in range(len(places[sha]))]
            owners += [speaker] * len(places[sha])
        chosen = vectors.gather(tables, [place for sha in wanted_rows["sha256"] for place in places[sha]], ids, owners)
        return Value(vectors.content(chosen), chosen)


@dataclass(frozen=True, eq=False)
class SelectSegments:
    """The segments of all speakers as one table; the artefacts are in the order of the speakers."""

    speakers: tuple[str, ...]

    def digest(self) -> str:
        """Digest of all that the choice depends on beside the artefacts."""
        return digest(type(self).__name__, code.collect_versions((__name__,)), self.speakers)

    def __call__(self, artefacts: Sequence[Artefact]) -> Value:
        tables = [vectors.read(artefact.path(FEATURES), artefact.digest) for artefact in artefacts]
        ids: list[str] = []
        owners: list[str] = []
        places: list[tuple[int, int]] = []
        for number, (speaker, table) in enumerate(zip(self.speakers, tables, strict=True)):
            ids += [f"{speaker}#{name}" for name in table.ids]
            owners += [speaker] * len(table.ids)
            places += [(number, row) for row in range(len(table.ids))]
        chosen = vectors.gather(tables, places, ids, owners)
        return Value(vectors.content(chosen), chosen)
