"""The schema of results rows, and rows that were written before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import DataError
from pipeline.tables import results
from pipeline.tables.results import make_signature
from tests import crosswalk

GOLDEN = Path(__file__).parent.parent / "golden"
OLD = crosswalk.load(GOLDEN / "results_schema_1.csv")
NEW = crosswalk.load(GOLDEN / "results_schema_2.csv")

COLUMNS = [
    "schema_version",
    "run_id",
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
    "estimator",
    "input_unit",
    "value",
    "label",
    "unit",
    "direction",
    "low",
    "high",
    "null_low",
    "null_high",
    "ceiling",
    "n_expected",
    "n_used",
    "n_speakers",
    "n_target",
    "n_nontarget",
    "status",
    "reason",
    "note",
    "signature",
    "config_digest",
    "input_digest",
    "model_digest",
    "code_version",
    "device",
]

OLD_COLUMNS = [
    name for name in COLUMNS if name not in {"estimator", "input_unit", "null_low", "null_high", "ceiling", "note"}
]


def schema_1(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows typed as they were written then."""
    table = pd.DataFrame([{"schema_version": 1, **row} for row in rows], columns=OLD_COLUMNS)
    for name in OLD_COLUMNS:
        if name in ("value", "low", "high"):
            table[name] = table[name].astype("float64")
        elif name in (*results.COUNTS, "schema_version"):
            table[name] = table[name].astype("Int64")
        else:
            table[name] = table[name].astype("object").fillna("").astype("string")
    return table


def written(folder: Path, table: pd.DataFrame) -> Path:
    table.to_parquet(folder / "results.parquet", index=False)
    return folder


def read(folder: Path, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """What is read of a run folder with these rows of schema 1."""
    return crosswalk.plain(results.read(written(folder, schema_1(list(rows)))))


def test_columns_are_those_of_the_contract() -> None:
    table = results.frame([{"metric": "eer", "value": 0.1}])
    assert list(table.columns) == results.COLUMNS == COLUMNS
    assert COLUMNS[2:16] == results.IDENTITY
    assert (table["schema_version"] == 2).all() and table["note"].tolist() == [""] and table["ceiling"].isna().all()


@pytest.mark.parametrize("name", results.IDENTITY)
def test_identity_is_unique_together(name: str) -> None:
    rows = [{"metric": "max_d", "value": 1.0, name: each} for each in ("a", "b")]
    assert len(results.frame(rows)) == 2
    with pytest.raises(ValueError, match="same identity"):
        results.frame([rows[0], {**rows[0], "value": 2.0, "label": "other", "note": "other"}])


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    row = {
        "metric": "l_w",
        "value": math.inf,
        "ceiling": 2.5,
        "null_low": 0.1,
        "null_high": 0.2,
        "n_used": 3,
        "note": "weak",
    }
    table = results.frame([row, {"metric": "tag", "label": "C", "unit": "tag"}])
    results.write(table, tmp_path)
    pd.testing.assert_frame_equal(results.read(tmp_path), table)
    # The CSV holds every bit as well.
    (again,) = (r for r in crosswalk.load(tmp_path / "results.csv") if r["metric"] == "l_w")
    assert (again["value"], again["ceiling"], again["null_high"], again["n_used"]) == (math.inf, 2.5, 0.2, 3)


@pytest.mark.parametrize("version", [3, None])
def test_other_schemas_are_refused(version: int | None, tmp_path: Path) -> None:
    table = results.frame([{"metric": "eer"}]).assign(schema_version=version)
    with pytest.raises(DataError, match="not of schema 2"):
        results.read(written(tmp_path, table))
    with pytest.raises(DataError, match="lack the columns ceiling"):
        results.read(written(tmp_path, results.frame([{"metric": "eer"}]).drop(columns="ceiling")))


# Real rows, as the demo wrote them in schema 1 and in schema 2 --------------------------------------------------------


def test_the_same_run_in_both_schemas_has_the_same_numbers() -> None:
    assert crosswalk.compare(OLD, NEW) == [] and (len(OLD), len(NEW)) == (42, 34)
    kept = {name: sum(not math.isnan(row[name]) for row in NEW) for name in crosswalk.NUMBERS}
    assert kept["null_low"] == kept["null_high"] == 6 and kept["ceiling"] == 2


def test_old_rows_are_read_as_the_new_ones(tmp_path: Path) -> None:
    found = read(tmp_path, *OLD)
    assert crosswalk.compare(OLD, found) == []
    key = [tuple(row[name] for name in crosswalk.KEY) for row in found]
    assert key == sorted(tuple(row[name] for name in crosswalk.KEY) for row in NEW)
    assert {row["schema_version"] for row in found} == {2}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[0].update(value=np.nextafter(rows[0]["value"], 9)),
        lambda rows: rows.pop(),
        lambda rows: rows.append({**rows[0], "subset": "another"}),
        lambda rows: _with(rows, "ceiling").update(ceiling=math.nan),
        lambda rows: _with(rows, "null_low").update(null_low=math.nan),
        lambda rows: rows[0].update(ceiling=1.0),
        lambda rows: next(row for row in rows if row["label"]).update(label="X"),
        lambda rows: rows[0].update(n_used=rows[0]["n_used"] - 1),
        lambda rows: rows[0].update(status="partial"),
        lambda rows: next(row for row in rows if row["reason"]).update(reason=""),
        lambda rows: rows[0].update(estimator="" if rows[0]["estimator"] else "empirical"),
    ],
)
def test_every_change_is_found(spoil: Callable[[list[dict[str, Any]]], Any]) -> None:
    rows = [dict(row) for row in NEW]
    spoil(rows)
    assert crosswalk.compare(OLD, rows)


def _with(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if not math.isnan(row[name]))


# What the demo has none of --------------------------------------------------------------------------------------------

ROW = {"metric": "eer", "variant": "rocch", "unit": "fraction", "value": 0.1, "status": "ok"}


@pytest.mark.parametrize(
    ("old", "reason", "note"),
    [
        ({**ROW, "reason": "weak back end"}, "", "weak back end"),
        ({**ROW, "value": math.nan, "reason": "no target"}, "no target", ""),
        ({"metric": "tag", "unit": "tag", "label": "B", "value": math.nan, "reason": "weak back end"}, "", "weak back end"),
        # A fit that could not be made has a word for that, and no value.
        ({"metric": "idr", "variant": "beta_binomial, segment", "unit": "fraction", "label": "none", "value": math.nan,
          "reason": "no input has rank 1"}, "no input has rank 1", ""),
        ({**ROW, "value": -math.inf, "reason": "weak back end"}, "", "weak back end"),
    ],
)  # fmt: skip
def test_notes_on_values_are_no_reasons(old: dict[str, Any], reason: str, note: str, tmp_path: Path) -> None:
    (row,) = read(tmp_path, old)
    assert (row["reason"], row["note"]) == (reason, note)


def test_a_band_or_ceiling_without_its_value_is_not_lost(tmp_path: Path) -> None:
    band = {"metric": "max_d", "variant": "empirical, utterance:null_band", "low": 0.1, "high": 0.2, "value": math.nan}
    (row,) = read(tmp_path, band)
    assert (row["metric"], row["variant"], row["estimator"], row["input_unit"]) == (
        "max_d",
        "",
        "empirical",
        "utterance",
    )
    assert (row["null_low"], row["null_high"]) == (0.1, 0.2) and all(
        math.isnan(row[name]) for name in ("value", "low", "high")
    )
    # A metric of another distribution may end in this word without being a ceiling of anything.
    (row,) = read(tmp_path, {"metric": "glass_ceiling", "value": 3.0})
    assert (row["metric"], row["value"]) == ("glass_ceiling", 3.0) and math.isnan(row["ceiling"])


def test_variants_of_others_stay_as_they_are(tmp_path: Path) -> None:
    (row,) = read(tmp_path, {"metric": "novelty", "variant": "first, second", "value": 1.0})
    assert (row["variant"], row["estimator"], row["input_unit"]) == ("first, second", "", "")


def test_signatures_of_old_rows_are_those_of_new_ones(tmp_path: Path) -> None:
    """Only the spelling of the variant differs, so an old run can be compared with a new one."""
    parameters = {"extractor": {"name": "ge2e"}, "calibration": "oracle"}
    about = {
        "condition": "PP",
        "attacker": "ignorant",
        "metric": "max_d",
        "variant": "",
        "estimator": "empirical",
        "input_unit": "segment",
    }
    tail = make_signature(about, parameters).partition("|PP|")[2]
    (row,) = read(
        tmp_path,
        {"metric": "max_d", "variant": "empirical, segment", "signature": f"max_d:empirical, segment|PP|{tail}"},
    )
    assert row["signature"] == make_signature(about, parameters) == f"max_d|estimator:empirical|input:segment|PP|{tail}"
    about = {**about, "metric": "eer", "variant": "rocch", "estimator": "", "input_unit": ""}
    (row,) = read(tmp_path, {**ROW, "signature": f"eer:rocch|PP|{tail}"})
    assert row["signature"] == make_signature(about, parameters) == f"eer:rocch|PP|{tail}"
    (row,) = read(tmp_path, {**ROW, "metric": "d_diag_signed", "variant": "", "signature": f"d_diag_signed|PP|{tail}"})
    assert row["signature"] == f"signed|PP|{tail}"
    (row,) = read(tmp_path, {**ROW, "signature": "something else"})
    assert row["signature"] == "something else"


def test_every_part_of_a_signature_tells_numbers_apart() -> None:
    about = dict.fromkeys(("metric", "variant", "estimator", "input_unit", "condition", "attacker"), "x")
    whole = make_signature(about, {"settings": {"a": 1}})
    assert all(make_signature({**about, name: "y"}, {"settings": {"a": 1}}) != whole for name in about)
    assert make_signature(about, {"settings": {"a": 2}}) != whole
    # No part can be taken for another.
    moved = {"variant": "", "estimator": "", "input_unit": ""}
    spelled = [make_signature({**about, **moved, name: "segment"}, {}) for name in moved]
    assert len(set(spelled)) == 3
