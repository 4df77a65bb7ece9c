"""The schema of results rows, the one contract between stages, files, report and other people's scripts.

One row is one number (or label) of one metric for one data set, subset, condition, system, attacker, extractor, training
source, back end and calibration (DESIGN, contract "Results row").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

SCHEMA_VERSION = 1

IDENTITY = [
    "dataset",
    "subset",
    "condition",
    "system",
    "system_level",
    "attacker",
    "extractor",
    "trained_on",
    "backend",
    "calibration",
    "metric",
    "variant",
]
NUMBERS = ["value", "low", "high"]
COUNTS = ["n_expected", "n_used", "n_speakers", "n_target", "n_nontarget"]
COLUMNS = [
    "schema_version", "run_id", *IDENTITY, "value", "label", "unit", "direction", "low", "high",
    "n_expected", "n_used", "n_speakers", "n_target", "n_nontarget", "status", "reason", "signature", "config_digest",
    "input_digest", "model_digest", "code_version", "device",
]  # fmt: skip


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with exactly the columns of the contract, in order and typed; absent text is '', absent numbers NaN.

    Raises:
        ValueError: an unknown column, or two rows with the same identity.
    """
    rows = list(rows)
    unknown = {key for row in rows for key in row} - set(COLUMNS)
    if unknown:
        raise ValueError(f"not columns of the results schema: {sorted(unknown)}")
    table = pd.DataFrame([{"schema_version": SCHEMA_VERSION, **row} for row in rows], columns=COLUMNS)
    for column in COLUMNS:
        if column in NUMBERS:
            table[column] = table[column].astype("float64")
        elif column in COUNTS or column == "schema_version":
            table[column] = table[column].astype("Int64")
        else:
            table[column] = table[column].astype("object").fillna("").astype("string")
    twice = table[table.duplicated(IDENTITY, keep=False)]
    if len(twice):
        raise ValueError(f"rows with the same identity: {twice[IDENTITY].drop_duplicates().to_dict('records')[:3]}")
    return table.sort_values(IDENTITY, kind="stable").reset_index(drop=True)


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write ``results.parquet`` and ``results.csv`` into ``folder``."""
    table.to_parquet(folder / "results.parquet", index=False)
    table.to_csv(folder / "results.csv", index=False, float_format="%.17g", lineterminator="\n")


def read(folder: Path) -> pd.DataFrame:
    """The results rows of a run folder."""
    table = pd.read_parquet(folder / "results.parquet")
    return table[COLUMNS]
