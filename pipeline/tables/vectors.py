"""Tables of features: ids and vectors in one row."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contracts import Feature, Vectors
from pipeline.seeds import digest


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of one artefact.

    Attributes:
        ids: [n].
        vectors: float32 [n, d].
        weights: float64 [n].
        reasons: [n], '' or why the vector is unusable.
    """

    ids: tuple[str, ...]
    vectors: np.ndarray
    weights: np.ndarray
    reasons: tuple[str, ...]

    @functools.cached_property
    def row(self) -> dict[str, int]:
        """Row by id."""
        return {name: row for row, name in enumerate(self.ids)}


def write(path: Path, ids: Sequence[str], features: Sequence[Feature]) -> None:
    """Write ``id, vector, weight, reason`` rows; the bytes depend on the content alone."""
    dimension = len(features[0].vector) if features else 0
    parts = [np.asarray(feature.vector, dtype=np.float32) for feature in features]
    flat = np.concatenate([*parts, np.zeros(0, np.float32)])
    table = pa.table(
        {
            "id": pa.array(list(ids), pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimension),
            "weight": pa.array([float(feature.weight) for feature in features], pa.float64()),
            "reason": pa.array([feature.reason for feature in features], pa.string()),
        }
    )
    pq.write_table(table, path)


def read(path: Path, content: str = "") -> FeatureTable:
    """A table of features.

    Args:
        path: a file of an artefact.
        content: the digest of the artefact, by which the table is kept: what is damaged is made again in the same place. ''
            keeps nothing.
    """
    return _kept(path, content) if content else _read(path)


@functools.lru_cache(maxsize=512)
def _kept(path: Path, content: str) -> FeatureTable:
    return _read(path)


def _read(path: Path) -> FeatureTable:
    table = pq.read_table(path)
    column = table["vector"].combine_chunks()
    return FeatureTable(
        tuple(table["id"].to_pylist()),
        np.asarray(column.flatten(), dtype=np.float32).reshape(len(table), -1),
        table["weight"].to_numpy(),
        tuple(table["reason"].to_pylist()),
    )


def gather(
    tables: Sequence[FeatureTable],
    places: Sequence[tuple[int, int]],
    ids: Sequence[str],
    speakers: Sequence[str],
) -> Vectors:
    """Rows of several tables, given as (number of the table, row), under the ids and speakers that they are to have."""
    return Vectors(
        ids=tuple(ids),
        speakers=tuple(speakers),
        vectors=np.stack([tables[number].vectors[row] for number, row in places]),
        weights=np.array([tables[number].weights[row] for number, row in places]),
        reasons=tuple(tables[number].reasons[row] for number, row in places),
    )


def content(vectors: Vectors) -> str:
    """Digest of ids, speakers, vectors and weights."""
    total = hashlib.sha256(digest(vectors.ids, vectors.speakers, vectors.reasons).encode())
    total.update(np.ascontiguousarray(vectors.vectors).tobytes())
    total.update(np.ascontiguousarray(vectors.weights).tobytes())
    return total.hexdigest()
