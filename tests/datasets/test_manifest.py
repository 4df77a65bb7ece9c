"""The manifest's schema and digest, and the digest of trial sets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pandera.errors
import pytest

from pipeline.datasets import importers
from pipeline.protocol import trials
from pipeline.tables import manifest as manifests


@pytest.fixture
def table(tiny) -> pd.DataFrame:
    return importers.read_data_set(tiny.save().settings()).manifest


def test_a_manifest_survives_parquet(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "m.parquet")
    again = manifests.validate(pd.read_parquet(tmp_path / "m.parquet"))
    assert again.equals(table) and manifests.digest(again) == manifests.digest(table)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("utterance", "a b"), ("utterance", ""), ("utterance", "a/b"), ("speaker", ""), ("sex", "x"), ("role", "test"),
        ("path", "relative.wav"), ("sample_rate", 0), ("samples", 0), ("sha256", "F" * 64), ("sha256", "0" * 63),
        ("position", -1),
    ],
)  # fmt: skip
def test_each_column_is_checked(table: pd.DataFrame, column: str, value: object) -> None:
    table.loc[3, column] = value
    with pytest.raises(pandera.errors.SchemaErrors, match=column):
        manifests.validate(table)


def test_rows_are_unique_and_columns_complete(table: pd.DataFrame) -> None:
    with pytest.raises(pandera.errors.SchemaErrors):
        manifests.validate(pd.concat([table, table.head(1)], ignore_index=True))
    with pytest.raises(pandera.errors.SchemaErrors):
        manifests.validate(table.drop(columns="sex"))
    with pytest.raises(pandera.errors.SchemaErrors):
        manifests.validate(table.assign(more=1))


def test_the_digest_depends_on_content_alone(table: pd.DataFrame) -> None:
    digest = manifests.digest(table)
    mixed = table.sample(frac=1, random_state=1).assign(path="/elsewhere", position=0)
    assert manifests.digest(mixed) == digest
    changes = {"utterance": "x", "speaker": "x", "sex": "m", "set": "x", "role": "train", "sample_rate": 1, "samples": 1,
               "sha256": "0" * 64}  # fmt: skip
    for column, value in changes.items():
        changed = table.copy()
        changed.loc[2, column] = value
        assert manifests.digest(changed) != digest, column
    positions = [*manifests.KEYED, "position"]
    assert manifests.digest(mixed, positions) != manifests.digest(table, positions)


def test_the_digest_of_trials_depends_on_content_alone() -> None:
    enrolment = [("a", "a0"), ("b", "b0")]
    lines = [("a", "x", True), ("b", "x", False), ("a", "y", False)]
    digest = trials.make_trial_set("n", "e", enrolment, lines, 3).digest
    assert trials.make_trial_set("n", "e", enrolment[::-1], lines[::-1], 3).digest == digest
    others = [
        trials.make_trial_set("m", "e", enrolment, lines, 3),
        trials.make_trial_set("n", "d", enrolment, lines, 3),
        trials.make_trial_set("n", "e", enrolment[:1], lines, 3),
        trials.make_trial_set("n", "e", enrolment, lines[:2], 3),
        trials.make_trial_set("n", "e", enrolment, lines, 4),
        trials.make_trial_set("n", "e", enrolment, [*lines[:2], ("a", "y", True)], 3),
    ]
    assert len({digest, *(other.digest for other in others)}) == 7


def test_same_sex_pairs_are_the_product_within_each_sex() -> None:
    pairs = trials.pair_same_sex({"a": "f", "b": "f", "c": "m"}, [("1", "a", "f"), ("2", "d", "f"), ("3", "c", "m")])
    assert sorted(pairs) == [
        ("a", "1", True),
        ("a", "2", False),
        ("b", "1", False),
        ("b", "2", False),
        ("c", "3", True),
    ]
