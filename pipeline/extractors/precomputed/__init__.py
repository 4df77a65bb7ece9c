"""Vectors that somebody extracted elsewhere, read by the ids of the utterances; no audio is heard and nothing is computed."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, Transcripts, Vectors, numeric, runtime
from pipeline.extractors.precomputed import files as vector_files
from pipeline.extractors.precomputed.files import VectorTable
from pipeline.faults import Faults
from pipeline.names import join_few

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

VERSION = "precomputed 1"
SETTING = "extractor.precomputed.vectors"


File = Annotated[str, Field(min_length=1)]


class PrecomputedSettings(ComponentSettings):
    """Where the vectors are.

    Attributes:
        vectors: a file, a folder or a list of them (see :func:`pipeline.extractors.precomputed.files.read_vectors`) by the label of the system whose speech the
            vectors are of: ``original``, ``b2``, ...; ``b2r@2`` are those of the second run of the random system b2r. A back
            end that is trained finds the vectors of the training utterances in the same files. Files stay out of keys: ids
            and vectors enter them. ``found`` takes those that a challenge's own evaluation left in its ``exp`` (``dataset=vpc``).
        trained_on: the speech on which the extractor was trained, hence the attackers that may use it.
    """

    name: Literal["precomputed"] = numeric("precomputed")
    vectors: Literal["found"] | dict[str, File | list[File]] = runtime({})
    trained_on: Literal["original", "anonymised"] = numeric("original")


class Extractor(contracts.Extractor):
    """It extracts nothing: its vectors are read."""

    Settings = PrecomputedSettings

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        raise TypeError("vectors of files are read by the ids of the utterances, not extracted")

    @classmethod
    def tables(
        cls, settings: PrecomputedSettings, labels: Sequence[str], transcripts: Transcripts | None = None
    ) -> VectorFiles:
        """The vectors of each system, and of the second runs that the setting names.

        Raises:
            DataError: with all faults of all files, and with the labels that the setting lacks.
        """
        again = [f"{label}@2" for label in labels if f"{label}@2" in settings.vectors]
        return VectorFiles(read_tables(settings, [*labels, *again]))

    @classmethod
    def reads_challenge_folder(cls, settings: PrecomputedSettings) -> bool:
        return settings.vectors == "found"

    @classmethod
    def with_tables(cls, settings: PrecomputedSettings, files: Mapping[str, Sequence[Path]]) -> PrecomputedSettings:
        return settings.model_copy(
            update={"vectors": {label: [str(path) for path in paths] for label, paths in files.items()}}
        )

    @classmethod
    def trained_on(cls, settings: PrecomputedSettings) -> Literal["original", "anonymised"]:
        return settings.trained_on


class VectorFiles(contracts.VectorSource):
    """Vectors by the label of the system whose speech they are of."""

    def __init__(self, by_label: Mapping[str, VectorTable]) -> None:
        self.by_label = by_label

    def has_system(self, name: str) -> bool:
        return name in self.by_label

    def select(self, name: str, wanted: pd.DataFrame, *, allow_partial: bool) -> Vectors:
        return select(self.by_label[name], wanted, allow_partial=allow_partial)


def read_tables(settings: PrecomputedSettings, labels: Sequence[str]) -> dict[str, VectorTable]:
    """The vectors of each system, by label.

    Raises:
        DataError: with all faults of all files, and with the labels that the setting lacks.
    """
    faults = vector_files.make_faults()
    vectors = settings.vectors
    assert isinstance(vectors, dict), "what is found in a challenge's folder is named before vectors are read"
    read: dict[tuple[str, ...], VectorTable | None] = {}
    tables: dict[str, VectorTable] = {}
    for label in dict.fromkeys(labels):
        places = vectors.get(label)
        if not places:
            near = difflib.get_close_matches(label, vectors, n=1)
            hint = f"did you mean its entry '{near[0]}'?" if near else f"it has: {', '.join(vectors) or 'none'}"
            faults.add("no-entry", f"there are no vectors of the system '{label}'; {hint}", SETTING)
            continue
        paths = (places,) if isinstance(places, str) else tuple(places)
        if paths not in read:
            read[paths] = vector_files.gather_vectors(list(map(Path, paths)), faults)
        table = read[paths]
        if table is not None:
            tables[label] = table
    _compare(tables, faults)
    faults.stop(SETTING)
    return tables


def _compare(tables: dict[str, VectorTable], faults: Faults) -> None:
    """Tables that do not go together are faults; a warning for equal ones, for a system that changes nothing may be meant."""
    sizes = Counter(table.vectors.shape[1] for table in tables.values())
    if len(sizes) > 1:
        sizes_by_label = "; ".join(
            f"those of '{label}' have {table.vectors.shape[1]} values" for label, table in tables.items()
        )
        faults.add("dimension", f"vectors of different systems cannot be compared: {sizes_by_label}", SETTING)
    first: dict[str, str] = {}
    for label, table in tables.items():
        if table.digest in first:
            log.warning(
                "the vectors of '%s' are those of '%s', to the last bit: %s", label, first[table.digest], table.path
            )
        first.setdefault(table.digest, label)


def select(table: VectorTable, rows: pd.DataFrame, *, allow_partial: bool = False) -> Vectors:
    """The vectors of utterances, in the order of the rows.

    A vector is looked for under the id ``SET/UTTERANCE``, then ``UTTERANCE``, then ``SPEAKER-UTTERANCE``, as Kaldi writes ids.

    Args:
        table: the vectors of one system.
        rows: columns set, utterance, speaker.
        allow_partial: an utterance without a vector gets one of zeros, with weight 0 and the reason.

    Raises:
        DataError: with all utterances that have no vector, and all vectors that would stand for several utterances.
    """
    faults = vector_files.make_faults()
    keys = list(zip(*(rows[name].astype(str) for name in ("set", "utterance", "speaker")), strict=True))
    places: list[int | None] = []
    missing_by_set: dict[str, list[str]] = {}
    plain: set[int] = set()
    prefixed: dict[int, set[str]] = {}
    for in_set, utterance, speaker in keys:
        place = table.row.get(f"{in_set}/{utterance}", table.row.get(utterance))
        if place is not None:
            plain.add(place)
        else:
            place = table.row.get(f"{speaker}-{utterance}")
            if place is not None:
                prefixed.setdefault(place, set()).add(utterance)
        places.append(place)
        if place is None:
            missing_by_set.setdefault(in_set, []).append(utterance)
            if not allow_partial:
                sentence = f"utterance '{utterance}' of {in_set} (speaker {speaker}) has no vector"
                faults.add("missing-vector", sentence, table.path)
    for place, utterances in prefixed.items():
        if place in plain or len(utterances) > 1:
            listing = ", ".join(f"'{name}'" for name in sorted(utterances))
            also = "and of the utterance of that name " if place in plain else ""
            faults.add("ambiguous", f"'{table.ids[place]}' would be the vector of {listing} {also}at once", table.path)
    missing = sum(len(names) for names in missing_by_set.values())
    listing = "; ".join(f"{len(names)} of {in_set} ({join_few(names, 3)})" for in_set, names in missing_by_set.items())
    sentence = f"{missing} of {len(keys)} utterances have no vector: {listing}; ids of the file are like {join_few(table.ids, 3)}"
    faults.stop(table.path, sentence if missing and not allow_partial else "")

    vectors = np.zeros((len(keys), table.vectors.shape[1]), np.float32)
    present = np.array([place is not None for place in places], bool)
    vectors[present] = table.vectors[[place for place in places if place is not None]]
    return Vectors(
        tuple(utterance for _, utterance, _ in keys),
        tuple(speaker for _, _, speaker in keys),
        vectors,
        present.astype(np.float64),
        tuple("" if is_present else f"{table.path} holds no vector of it" for is_present in present),
    )
