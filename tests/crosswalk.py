"""Whether a run has the numbers of a run of results schema 1, bit for bit: ``python -m tests.crosswalk OLD_RUN NEW_RUN``.

It reads the files themselves and follows the schemas by rules of its own, not by those of :mod:`pipeline.tables`: every row of
the old run has a place in the new one, and every number of the new one comes from an old row. NEW_RUN may be of schema 1 as
well: it is then what the reports read of it.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.tables import results

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


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    Attributes:
        old, new: rows of either run.
        numbers: that were compared, those that are absent in both included.
        differences: one line each.
    """

    old: int
    new: int
    numbers: int
    differences: list[str]

    def __str__(self) -> str:
        return (
            f"{self.old} rows of schema 1 against {self.new} rows of schema 2: {self.numbers} numbers compared, "
            f"{len(self.differences)} differences"
        )


def moved(row: Row) -> tuple[Key, dict[str, Any]]:
    """Where a row of schema 1 stands in schema 2: its key, and what of it stands there by column."""
    metric, variant, estimator, unit = row["metric"], row["variant"], "", ""
    said = {name: row[name] for name in (*COUNTS, "status")}
    if metric == "l_w_ceiling":
        metric, said["ceiling"] = "l_w", row["value"]
    elif variant.split(":")[-1] == "null_band":
        variant = ":".join(variant.split(":")[:-1])
        said |= {"null_low": row["low"], "null_high": row["high"]}
    else:
        said |= {name: row[name] for name in ("value", "low", "high", *TEXTS)}
        said["reason or note"] = row["reason"]
    if metric in SRD:
        estimator, unit = variant.split(", ")
        variant = ""
    elif metric == "d_diag_signed":
        metric = "signed"
    elif metric.endswith("_all_pairs"):
        metric, variant = metric[: -len("_all_pairs")], "all_pairs"
        assert metric in ALL_PAIRS
    return (*(row[name] for name in PLACE), metric, variant, estimator, unit), said


def compare(old: Sequence[Row], new: Sequence[Row]) -> Compared:
    """Rows of schema 1 against rows of schema 2, as :func:`load` gives them."""
    found = {tuple(row[name] for name in KEY): row for row in new}
    lines = [] if len(found) == len(new) else ["rows of the new run have the same identity"]
    accounted: dict[Key, set[str]] = {key: set() for key in found}
    count = 0
    for row in old:
        key, said = moved(row)
        if key not in found:
            lines.append(f"{_name(key)}: the new run has no such row")
            continue
        count += sum(name in NUMBERS for name in said)
        accounted[key] |= set(said)
        lines += _differences(key, said, found[key])
    for key, names in accounted.items():
        # What no old row speaks of must be absent: a null band or a ceiling that was none.
        rest = {name: math.nan for name in NUMBERS if name not in names}
        lines += _differences(key, rest, found[key]) if names else [f"{_name(key)}: the old run has no such row"]
    return Compared(len(old), len(new), count, lines)


def _differences(key: Key, said: Row, row: Row) -> Iterator[str]:
    for name, value in said.items():
        there = (row["reason"] or row["note"]) if name == "reason or note" else row[name]
        same = _bits(value) == _bits(there) if name in NUMBERS else value == there
        if not same:
            yield f"{_name(key)}: {name} was {value!r} and is {there!r}"


def _bits(number: float) -> bytes:
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


def _name(key: Key) -> str:
    return " ".join(filter(None, key))


def load(path: Path) -> list[dict[str, Any]]:
    """The rows of a run folder or of a CSV file as plain values: floats, ints or None, and texts."""
    if path.is_dir():
        table = pd.read_parquet(path / "results.parquet")
    else:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return plain(table)


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of results as plain values."""
    return [{str(name): _plain(str(name), value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(name: str, value: Any) -> Any:
    absent = pd.isna(value) or value == ""
    if name in NUMBERS:
        return math.nan if absent else float(value)
    if name in COUNTS or name == "schema_version":
        return None if absent else int(value)
    return "" if absent else str(value)


def main(arguments: Sequence[str]) -> int:
    """Print how many rows were compared, and every difference; 0 if there is none."""
    first, second = map(Path, arguments)
    old, new = load(first), load(second)
    if {row["schema_version"] for row in old} != {1}:
        print(f"{first} is not of schema 1")
        return 2
    if {row["schema_version"] for row in new} == {1}:
        new = plain(results.read(second))
    compared = compare(old, new)
    print(*compared.differences, str(compared), sep="\n")
    return 1 if compared.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
