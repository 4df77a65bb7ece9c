"""Precomputed vectors: the files of all systems, and the vectors of rows by the ids that people write."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pipeline.cli.compose import compose
from pipeline.errors import DataError
from pipeline.extractors import precomputed
from pipeline.extractors.precomputed import files as vector_files
from pipeline.extractors.precomputed.files import VectorTable

ROWS = pd.DataFrame(
    [("dev_enrolls", "a-0", "a"), ("dev_trials", "a-1", "a"), ("dev_trials", "b-1", "b"), ("other", "a-1", "a")],
    columns=["set", "utterance", "speaker"],
)


def written(path: Path, vectors: dict[str, list[float]]) -> str:
    np.savez(path, ids=list(vectors), vectors=np.array(list(vectors.values()), np.float32))
    return str(path)


def table(tmp_path: Path, vectors: dict[str, list[float]]) -> VectorTable:
    return vector_files.read_vectors(Path(written(tmp_path / "x.npz", vectors)))


def settings(**vectors: str) -> precomputed.PrecomputedSettings:
    return precomputed.PrecomputedSettings(vectors=vectors)


# Settings --------------------------------------------------------------------------------------------------------------


def test_the_command_line() -> None:
    vectors = "+extractor.precomputed.vectors={original: exp/o, b2: /a/b c.npz, b2r@2: x.scp}"
    given = ["extractor=[precomputed]", vectors, "extractor.precomputed.trained_on=anonymised"]
    extractors = compose(given)[0].extractors
    assert {label: (one.component, one.settings) for label, one in extractors.items()} == {
        "precomputed": (
            precomputed.Extractor,
            precomputed.PrecomputedSettings(
                vectors={"original": "exp/o", "b2": "/a/b c.npz", "b2r@2": "x.scp"}, trained_on="anonymised"
            ),
        )
    }


def test_files_stay_out_of_keys_and_what_the_extractor_was_trained_on_enters_them() -> None:
    assert settings(original="x").numeric() == {"name": "precomputed", "trained_on": "original"}


def test_a_blank_path_is_not_the_current_folder() -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        settings(original="")


def test_nothing_heavy_is_loaded_with_the_module() -> None:
    code = (
        "import sys, pipeline.extractors.precomputed;"
        "sys.exit(str({'torch', 'pandas', 'pyarrow', 'kaldiio', 'safetensors'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_what_the_plan_asks_of_an_extractor(tmp_path: Path) -> None:
    assert precomputed.Extractor.weights(settings(), tmp_path) is None
    assert precomputed.Extractor.compared_as == {"trials", "pairs", "ranks"}
    pooled = precomputed.Extractor.pool(np.array([[3.0, 0.0], [0.0, 5.0]]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(pooled, [0.5, 0.5])


# Tables ----------------------------------------------------------------------------------------------------------------


def test_tables_by_label(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = written(tmp_path / "one.npz", {"u": [1, 0]})
    two = written(tmp_path / "two.npz", {"u": [0, 1]})
    three = written(tmp_path / "three.npz", {"u": [1, 1]})
    chosen = precomputed.PrecomputedSettings(
        vectors={"original": one, "b2r": two, "b2r@2": three, "unused": "/not/there"}
    )
    with caplog.at_level(logging.WARNING):
        found = precomputed.Extractor.tables(chosen, ["original", "b2r"])
    assert {label: one.vectors.tolist() for label, one in found.by_label.items()} == {
        "original": [[1, 0]], "b2r@2": [[1, 1]], "b2r": [[0, 1]],
    }  # fmt: skip
    assert not caplog.records


def test_equal_vectors_of_two_systems_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = written(tmp_path / "one.npz", {"u": [1, 0], "v": [2, 0]})
    two = written(tmp_path / "two.npz", {"v": [2, 0], "u": [1, 0]})
    with caplog.at_level(logging.WARNING):
        assert len(precomputed.Extractor.tables(settings(original=one, b2=two), ["original", "b2"]).by_label) == 2
    (record,) = caplog.records
    assert "the vectors of 'b2' are those of 'original'" in record.getMessage()


def test_all_faults_of_all_systems_at_once(tmp_path: Path) -> None:
    zero = written(tmp_path / "zero.npz", {"u": [0, 0], "v": [1, 1]})
    (tmp_path / "x.scp").write_text("u touch pwn |\n")
    chosen = settings(original=zero, b2=str(tmp_path / "x.scp"), b3=str(tmp_path / "gone"), b4=zero)
    with pytest.raises(DataError) as caught:
        precomputed.Extractor.tables(chosen, ["original", "b2", "b3", "b4", "b3r", "mine"])
    faults = [(fault.kind, fault.where) for fault in caught.value.faults]
    assert faults == [
        ("no-entry", precomputed.SETTING), ("no-entry", precomputed.SETTING), ("missing", f"{tmp_path}/gone"),
        ("command", f"{tmp_path}/x.scp:1"), ("zero", zero),
    ]  # fmt: skip
    text = str(caught.value)
    assert "no vectors of the system 'b3r'; did you mean its entry 'b3'?" in text
    assert "no vectors of the system 'mine'; it has: original, b2, b3, b4" in text
    assert "'+extractor.precomputed.vectors={LABEL: FILE}'" in caught.value.remedy


def test_without_any_entry() -> None:
    with pytest.raises(DataError, match=r"no vectors of the system 'original'; it has: none"):
        precomputed.Extractor.tables(settings(), ["original"])


def test_systems_with_vectors_of_different_size(tmp_path: Path) -> None:
    chosen = settings(
        original=written(tmp_path / "o.npz", {"u": [1, 0]}), b2=written(tmp_path / "p.npz", {"u": [1, 0, 2]})
    )
    with pytest.raises(DataError, match=r"those of 'original' have 2 values; those of 'b2' have 3 values"):
        precomputed.Extractor.tables(chosen, ["original", "b2"])


# Rows ------------------------------------------------------------------------------------------------------------------


def test_ids_with_the_set_come_first_then_plain_then_those_of_kaldi(tmp_path: Path) -> None:
    held = {
        "dev_trials/a-1": [1, 0], "a-1": [2, 0], "a-a-1": [3, 0], "b-b-1": [4, 0], "a-0": [5, 0], "a-a-0": [6, 0], "x": [7, 0],
    }  # fmt: skip
    chosen = precomputed.select(table(tmp_path, held), ROWS)
    assert chosen.ids == ("a-0", "a-1", "b-1", "a-1") and chosen.speakers == ("a", "a", "b", "a")
    assert chosen.vectors.dtype == np.float32 and chosen.vectors[:, 0].tolist() == [5, 1, 4, 2]
    assert chosen.weights.dtype == np.float64 and chosen.weights.tolist() == [1] * 4 and chosen.reasons == ("",) * 4
    assert chosen.usable().ids == chosen.ids


def test_missing_ids_are_all_named(tmp_path: Path) -> None:
    many = pd.DataFrame(
        [("dev", f"u{number}", "s") for number in range(60)] + [("test", "t", "s")], columns=ROWS.columns
    )
    held = table(tmp_path, {"u7": [1, 0], "like-this": [1, 1]})
    with pytest.raises(DataError) as caught:
        precomputed.select(held, many)
    error = caught.value
    assert error.what.startswith(
        "60 of 61 utterances have no vector: 59 of dev (u0, u1, u2 and 56 more); 1 of test (t)"
    )
    assert "like-this" in error.what and error.where == str(tmp_path / "x.npz")
    assert "SPEAKER-UTTERANCE" in error.remedy
    assert len(error.faults) == 60 and {fault.where for fault in error.faults} == {str(tmp_path / "x.npz")}
    assert "'u7'" not in "".join(fault.what for fault in error.faults)


def test_missing_ids_are_left_out_on_request(tmp_path: Path) -> None:
    chosen = precomputed.select(table(tmp_path, {"a-1": [1, 2]}), ROWS, allow_partial=True)
    assert chosen.weights.tolist() == [0, 1, 0, 1] and chosen.vectors.tolist() == [[0, 0], [1, 2], [0, 0], [1, 2]]
    assert chosen.usable().ids == ("a-1", "a-1")
    assert [name for name, reason in chosen.unusable() if "holds no vector" in reason] == ["a-0", "b-1"]
    none = precomputed.select(table(tmp_path, {"other": [1, 2]}), ROWS, allow_partial=True)
    assert not none.weights.any() and none.vectors.shape == (4, 2)


def test_no_rows(tmp_path: Path) -> None:
    assert precomputed.select(table(tmp_path, {"a": [1, 2]}), ROWS[:0]).vectors.shape == (0, 2)


@pytest.mark.parametrize("other", [("dev", "a-b-c", "z"), ("dev", "c", "a-b")])
def test_a_vector_is_not_given_to_two_utterances(tmp_path: Path, other: tuple[str, str, str]) -> None:
    rows = pd.DataFrame([("dev", "b-c", "a"), other], columns=ROWS.columns)
    held = table(tmp_path, {"a-b-c": [1, 0]})
    precomputed.select(held, rows[:1])
    for allow_partial in (False, True):
        with pytest.raises(DataError) as caught:
            precomputed.select(held, rows, allow_partial=allow_partial)
        (fault,) = caught.value.faults
        assert fault.kind == "ambiguous" and "'a-b-c' would be the vector of 'b-c'" in fault.what


def test_the_same_utterance_in_two_sets_has_one_vector(tmp_path: Path) -> None:
    chosen = precomputed.select(table(tmp_path, {"a-a-1": [1, 0]}), ROWS[ROWS["utterance"] == "a-1"])
    assert chosen.vectors.tolist() == [[1, 0], [1, 0]]
