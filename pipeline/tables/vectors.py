"""Feature tables: ids and vectors in one row (DESIGN, decision 3)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.nets.feature import Feature


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


@functools.lru_cache(maxsize=512)
def read(path: Path) -> pd.DataFrame:
    """A feature table indexed by id, with columns ``row, weight, reason``; its matrix is in ``attrs['vectors']``.

    Cached: artefacts do not change.
    """
    table = pq.read_table(path)
    column = table["vector"].combine_chunks()
    vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(len(table), -1)
    frame: pd.DataFrame = table.select(["id", "weight", "reason"]).to_pandas().set_index("id")
    frame["row"] = np.arange(len(frame))
    frame.attrs["vectors"] = vectors
    return frame
