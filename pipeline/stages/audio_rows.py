"""Rows of manifests and vectors as inputs of tasks: values with the digest of what matters in them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.engine.task import Artefact, Given
from pipeline.registry import digest
from pipeline.tables import vectors as tables
from pipeline.tables.vectors import Vectors

MANIFEST = "manifest.parquet"
FEATURES = "features.parquet"


def given(rows: pd.DataFrame, columns: Sequence[str]) -> Given:
    """Rows of a manifest; what enters keys is the audio's digests and the named columns, in row order, never a path."""
    return Given(digest(rows[["sha256", *columns]].to_numpy().tolist()), rows)


def runs(sizes: Iterable[float], limit: float) -> list[slice]:
    """Cuts a row of files in their order into runs of ``limit`` at most together, or of one larger file."""
    made: list[slice] = []
    held = 0.0
    for place, size in enumerate(sizes):
        if made and held + size <= limit:
            made[-1] = slice(made[-1].start, place + 1)
            held += size
        else:
            made.append(slice(place, place + 1))
            held = size
    return made


@functools.lru_cache(maxsize=512)
def _made(folder: Path) -> pd.DataFrame:
    rows = pd.read_parquet(folder / MANIFEST)
    rows["path"] = [str(folder / path) for path in rows["path"]]
    return rows


def manifest(artefacts: Sequence[Artefact], rows: pd.DataFrame | None) -> pd.DataFrame:
    """The manifest of a system: the given rows, or those that its anonymise tasks wrote."""
    return rows if rows is not None else pd.concat([_made(made.folder) for made in artefacts], ignore_index=True)


def of(rows: pd.DataFrame, wanted: pd.DataFrame) -> pd.DataFrame:
    """The rows of the wanted (set, utterance), in the wanted order."""
    found = wanted[["set", "utterance"]].merge(rows, on=["set", "utterance"], how="left", validate="one_to_one")
    if found["sha256"].isna().any():
        lost = found.loc[found["sha256"].isna(), "utterance"].tolist()
        raise LookupError(f"{len(lost)} utterances are not in the manifest of the system, first {lost[:3]}")
    return found


def vectors(rows: pd.DataFrame, features: Sequence[Artefact], wanted: pd.DataFrame) -> Given:
    """The feature vectors of the wanted (set, utterance), in the wanted order."""
    found = of(rows, wanted)
    read = [tables.read(made.folder / FEATURES) for made in features]
    place: dict[str, tuple[int, int]] = {}
    for number, table in enumerate(read):
        place.update({name: (number, row) for name, row in zip(table.index, table["row"])})
    places = [place[sha] for sha in found["sha256"]]
    matrix = np.stack([read[number].attrs["vectors"][row] for number, row in places])
    value = Vectors(
        ids=tuple(found["utterance"]),
        speakers=tuple(found["speaker"]),
        vectors=matrix,
        weights=np.array([read[number]["weight"].iat[row] for number, row in places]),
        reasons=tuple(str(read[number]["reason"].iat[row]) for number, row in places),
    )
    return Given(content(value), value)


def content(value: Vectors) -> str:
    """Digest of ids, speakers, vectors and weights."""
    total = hashlib.sha256(digest(value.ids, value.speakers, value.reasons).encode())
    total.update(np.ascontiguousarray(value.vectors).tobytes())
    total.update(np.ascontiguousarray(value.weights).tobytes())
    return total.hexdigest()
