"""The schema of results rows and their signatures."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import DataError
from pipeline.tables import results
from pipeline.tables.results import make_signature

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
    numbers = {"value": math.inf, "ceiling": 2.5, "null_low": 0.1, "null_high": 0.1 + 0.2, "n_used": 3}
    row = {"metric": "l_w", "note": "weak", **numbers}
    table = results.frame([row, {"metric": "tag", "label": "C", "unit": "tag"}])
    results.write(table, tmp_path)
    pd.testing.assert_frame_equal(results.read(tmp_path), table)
    # The CSV holds every bit as well.
    plain = pd.read_csv(tmp_path / "results.csv").set_index("metric").loc["l_w"]
    assert {name: plain[name] for name in numbers} == numbers


@pytest.mark.parametrize("version", [1, 3])
def test_other_schemas_are_refused(version: int, tmp_path: Path) -> None:
    table = results.frame([{"metric": "eer"}])
    table.assign(schema_version=version).to_parquet(tmp_path / "results.parquet")
    with pytest.raises(DataError, match="not of schema 2"):
        results.read(tmp_path)
    table.drop(columns="ceiling").to_parquet(tmp_path / "results.parquet")
    with pytest.raises(DataError, match="lacks columns: ceiling"):
        results.read(tmp_path)


def test_every_part_of_a_signature_tells_numbers_apart() -> None:
    about = dict.fromkeys(("metric", "variant", "estimator", "input_unit", "condition", "attacker"), "x")
    whole = make_signature(about, {"settings": {"a": 1}})
    assert all(make_signature({**about, name: "y"}, {"settings": {"a": 1}}) != whole for name in about)
    assert make_signature(about, {"settings": {"a": 2}}) != whole
    # No part can be taken for another.
    moved = {"variant": "", "estimator": "", "input_unit": ""}
    spelled = [make_signature({**about, **moved, name: "segment"}, {}) for name in moved]
    assert len(set(spelled)) == 3
