"""Scores as artefacts: of trials, of all pairs of utterances, and of inputs against references."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file

TRIALS, MATRIX = "scores.parquet", "scores.safetensors"
ROWS, COLUMNS, LOST, TIES = "rows.parquet", "columns.parquet", "lost.parquet", "ties.parquet"

THINNED = "thinned.parquet"
"""Beside scores of trials: the models that are made of fewer enrolment recordings than are listed (model, utterance, reason)."""

Named = tuple[tuple[str, str], ...]
"""(id, reason) of what could not be extracted."""


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """Scores of all rows against all columns.

    Attributes:
        scores: float64 [n, m]; higher means more similar.
        rows, columns: [n] and [m] ids.
        row_speakers, column_speakers: whose they are.
        lost: what is missing in either.
        ties: rows without evidence, which are equally similar to all columns.
    """

    scores: np.ndarray
    rows: tuple[str, ...]
    row_speakers: tuple[str, ...]
    columns: tuple[str, ...]
    column_speakers: tuple[str, ...]
    lost: Named = ()
    ties: Named = ()


def write(folder: Path, matrix: ScoreMatrix) -> None:
    """Write a matrix into a folder: the scores as a dense tensor, ids and speakers of both sides as tables."""
    save_file({"scores": np.ascontiguousarray(matrix.scores, np.float64)}, folder / MATRIX)
    for name, ids, speakers in (
        (ROWS, matrix.rows, matrix.row_speakers),
        (COLUMNS, matrix.columns, matrix.column_speakers),
    ):
        pd.DataFrame({"id": list(ids), "speaker": list(speakers)}, dtype="str").to_parquet(folder / name, index=False)
    for name, named in ((LOST, matrix.lost), (TIES, matrix.ties)):
        pd.DataFrame(list(named), columns=["id", "reason"], dtype="str").to_parquet(folder / name, index=False)


def write_thinned(folder: Path, thinned: Sequence[tuple[str, str, str]]) -> None:
    """Write which models lack which enrolment recordings, and why."""
    table = pd.DataFrame(list(thinned), columns=["model", "utterance", "reason"], dtype="str")
    table.to_parquet(folder / THINNED, index=False)


def thinned(folder: Path) -> list[tuple[str, str, str]]:
    """(model, utterance, reason) of the enrolment recordings that models with scores lack."""
    table = pd.read_parquet(folder / THINNED)
    return list(zip(*(table[name].tolist() for name in ("model", "utterance", "reason"))))


def common(tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The trials that all tables of scores have, in one order."""
    ids = ["model", "utterance"]
    if all(table[ids].equals(tables[0][ids]) for table in tables[1:]):
        return list(tables)
    indexed = [table.set_index(ids) for table in tables]
    kept = functools.reduce(lambda index, other: index[index.isin(other)], (table.index for table in indexed))
    return [table.loc[kept].reset_index() for table in indexed]


def read(folder: Path) -> ScoreMatrix:
    """The matrix in a folder."""
    sides = [pd.read_parquet(folder / name) for name in (ROWS, COLUMNS)]
    lost, ties = (pd.read_parquet(folder / name) for name in (LOST, TIES))
    return ScoreMatrix(
        load_file(folder / MATRIX)["scores"],
        tuple(sides[0]["id"]),
        tuple(sides[0]["speaker"]),
        tuple(sides[1]["id"]),
        tuple(sides[1]["speaker"]),
        tuple(zip(lost["id"], lost["reason"])),
        tuple(zip(ties["id"], ties["reason"])),
    )
