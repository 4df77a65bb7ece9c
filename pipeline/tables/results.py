"""The schema of results rows, the one contract between stages, files, report and other people's scripts.

One row is one number (or label) of one metric for one data set, subset, condition, system, attacker, extractor, training
source, back end and calibration, in one variant, by one estimator, on one unit of input. Everything that belongs to the number
stands in its row: interval, null band, ceiling, counts, why there is none, and what a reader has to know. Its signature says all that it
depends on beside the system: numbers with equal signatures are comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import DataError
from pipeline.seeds import digest
from pipeline.tables import csv, run_files
from pipeline.version import __version__

SCHEMA_VERSION = 2

ABOUT = [
    "dataset", "subset", "condition", "system", "system_level", "attacker", "extractor", "trained_on", "backend", "calibration",
]  # fmt: skip
"""What a number is of."""
IDENTITY = [*ABOUT, "metric", "variant", "estimator", "input_unit"]
"""Unique together in a run."""

NUMBERS = ["value", "low", "high", "null_low", "null_high", "ceiling"]
COUNTS = ["n_expected", "n_used", "n_speakers", "n_target", "n_nontarget"]
COLUMNS = [
    "schema_version", "run_id", *IDENTITY, "value", "label", "unit", "direction", "low", "high", "null_low", "null_high",
    "ceiling", *COUNTS, "status", "reason", "note", "signature", "config_digest", "input_digest", "model_digest",
    "code_version", "device",
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
    table = pd.DataFrame([{**row, "schema_version": SCHEMA_VERSION} for row in rows], columns=COLUMNS)
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


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of any table as plain dictionaries: much faster than rows as series."""
    names = [str(name) for name in table.columns]
    return [dict(zip(names, values)) for values in zip(*(table[name].tolist() for name in names))]


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write ``results.parquet`` and ``results.csv`` into ``folder``; :func:`read_csv` reads the latter, as pandas does."""
    table.to_parquet(folder / "results.parquet", index=False)
    (folder / "results.csv").write_text(csv.text(table, "%.17g"), encoding="utf-8", errors="replace", newline="")


def read_csv(path: Path) -> pd.DataFrame:
    """The rows of a ``results.csv``, cell for cell those of ``results.parquet`` beside it."""
    types = {**dict.fromkeys(NUMBERS, "float64"), **dict.fromkeys([*COUNTS, "schema_version"], "Int64")}
    table = csv.read(path, types)
    return table.astype({column: "string" for column in COLUMNS if column not in types})


def read(folder: Path) -> pd.DataFrame:
    """The results rows of a run folder.

    Raises:
        DataError: rows of another schema, or a file that cannot be parsed.
    """
    table = run_files.read_columns(folder / "results.parquet", COLUMNS)
    if set(table["schema_version"]) - {SCHEMA_VERSION}:
        raise DataError(
            f"the results are not of schema {SCHEMA_VERSION}",
            where=str(folder / "results.parquet"),
            cause="the file comes from another version",
            remedy="read it with the version that wrote it, or run the evaluation again",
        )
    return table


# ---------------------------------------------------------------------------------------------------------- signatures


def make_signature(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """The signature of a row of results.

    Args:
        row: with ``metric``, ``variant``, ``estimator``, ``input_unit``, ``condition`` and ``attacker``.
        parameters: everything else by name; what is no text stands there as a digest.
    """
    name = ":".join(filter(None, [row["metric"], row["variant"]]))
    more = (("estimator", row["estimator"]), ("input", row["input_unit"]))
    parts = [name, *(f"{key}:{value}" for key, value in more if value), row["condition"]]
    if row["attacker"]:
        parts.append(f"attacker:{row['attacker']}")
    parts += [f"{name}:{value if isinstance(value, str) else digest(value)[:8]}" for name, value in parameters.items()]
    return "|".join([*parts, f"v:{__version__}"])
