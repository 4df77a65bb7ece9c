"""Whether a run has the numbers of a run of results schema 1, bit for bit.

It reads the files themselves and follows the schemas by rules of its own, not by those of :mod:`pipeline.tables`: every row of
the old run has a place in the new one, and every number of the new one comes from an old row.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

PLACE = (
    "dataset", "subset", "condition", "system", "system_level", "attacker", "extractor", "trained_on", "backend", "calibration",
)  # fmt: skip
KEY = (*PLACE, "metric", "variant", "estimator", "input_unit")
NUMBERS = ("value", "low", "high", "null_low", "null_high", "ceiling")
COUNTS = ("n_expected", "n_used", "n_speakers", "n_target", "n_nontarget")
TEXTS = ("label", "unit", "direction", "status")
SRD = ("max_d", "mean_d", "idr", "rank_spread")
ALL_PAIRS = ("d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min")

Row = Mapping[str, Any]
Key = tuple[str, ...]


def move(row: Row) -> tuple[Key, dict[str, Any]]:
    """Where a row of schema 1 stands in schema 2: its key, and what of it stands there by column."""
    metric, variant, estimator, unit = row["metric"], row["variant"], "", ""
    columns = {name: row[name] for name in (*COUNTS, "status")}
    if metric == "l_w_ceiling":
        metric, columns["ceiling"] = "l_w", row["value"]
    elif variant.split(":")[-1] == "null_band":
        variant = ":".join(variant.split(":")[:-1])
        columns |= {"null_low": row["low"], "null_high": row["high"]}
    else:
        columns |= {name: row[name] for name in ("value", "low", "high", *TEXTS)}
        columns["reason or note"] = row["reason"]
    if metric in SRD:
        estimator, unit = variant.split(", ")
        variant = ""
    elif metric == "d_diag_signed":
        metric = "signed"
    elif metric.endswith("_all_pairs"):
        metric, variant = metric[: -len("_all_pairs")], "all_pairs"
        assert metric in ALL_PAIRS
    return (*(row[name] for name in PLACE), metric, variant, estimator, unit), columns


def compare(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """The differences of rows of schema 1 and rows of schema 2, as :func:`load` gives them, a line each."""
    rows = {tuple(row[name] for name in KEY): row for row in new}
    lines = [] if len(rows) == len(new) else ["rows of the new run have the same identity"]
    accounted: dict[Key, set[str]] = {key: set() for key in rows}
    for row in old:
        key, columns = move(row)
        if key not in rows:
            lines.append(f"{_name(key)}: the new run has no such row")
            continue
        accounted[key] |= set(columns)
        lines += _differences(key, columns, rows[key])
    for key, names in accounted.items():
        # What no old row speaks of must be absent: a null band or a ceiling that was none.
        absent = {name: math.nan for name in NUMBERS if name not in names}
        lines += _differences(key, absent, rows[key]) if names else [f"{_name(key)}: the old run has no such row"]
    return lines


def _differences(key: Key, columns: Row, row: Row) -> Iterator[str]:
    for name, value in columns.items():
        new = (row["reason"] or row["note"]) if name == "reason or note" else row[name]
        if (_bits(value) != _bits(new)) if name in NUMBERS else value != new:
            yield f"{_name(key)}: {name} was {value!r} and is {new!r}"


def _bits(number: float) -> bytes:
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


def _name(key: Key) -> str:
    return " ".join(filter(None, key))


def load(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file as plain values: floats, ints or None, and texts."""
    return plain(pd.read_csv(path, dtype=str, keep_default_na=False))


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of results as plain values."""
    return [{str(name): _plain(str(name), value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(name: str, value: Any) -> Any:
    is_absent = pd.isna(value) or value == ""
    if name in NUMBERS:
        return math.nan if is_absent else float(value)
    if name in COUNTS or name == "schema_version":
        return None if is_absent else int(value)
    return "" if is_absent else str(value)
