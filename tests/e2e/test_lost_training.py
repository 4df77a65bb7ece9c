"""An attacker who has learnt from fewer recordings than are listed is a weaker one: what stands on it is marked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.tables import results, run_files
from tests.datasets.conftest import Tiny
from tests.e2e.test_protocol import Command, command, quick

__all__ = ["command"]
LEARNT = [f"{who}-{number}" for who in "pqrst" for number in range(4)]
LOST = ["p-0", "q-1", "r-2"]


@pytest.fixture
def small(tmp_path: Path) -> Tiny:
    """The tiny pair of sets, with a training set of other speakers beside it."""
    made = Tiny(tmp_path / "data")
    made.tables["train"] = made.basic(LEARNT)
    return made.save()


def last(out: str) -> tuple[Path, pd.DataFrame]:
    """The run folder and the rows of a run, by what printed them."""
    folder = Path(next(line for line in out.splitlines() if line.endswith("report.html"))).parent
    return folder, results.read(folder)


def asked(small: Tiny, backends: str) -> list[str]:
    return quick(small.root, f"dataset.train={small.root / 'train'}", f"backend=[{backends}]", "allow_partial=true")


def test_rows_of_a_back_end_that_learnt_from_less_are_marked_and_say_so(small: Tiny, command: Command) -> None:
    given = asked(small, "cosine,plda")
    for name in LOST:
        small.wav(name).unlink()
    status, out, err = command(*given)
    folder, rows = last(out)
    learnt = rows["backend"] == "plda"
    assert status == 6 and learnt.any() and (~learnt).any(), err
    assert set(rows.loc[learnt, "status"]) == {"partial"} and set(rows.loc[~learnt, "status"]) == {"ok"}
    note = "3 training utterances were left out, so the attacker has learnt from less: p-0, q-1, r-2"
    assert rows.loc[learnt, "note"].str.contains(note, regex=False).all()
    assert not rows.loc[~learnt, "note"].str.contains("training").any()
    assert f"{learnt.sum()} of {len(rows)} results do not stand on everything that was expected; they are marked" in err
    assert "3 of 30 utterances are left out (allow_partial): 3 of train" in run_files.read_limits(folder)
    assert note in (folder / "report.html").read_text()


def test_where_nothing_is_measured_on_what_is_left_out_nothing_is_said_to_be_marked(
    small: Tiny, command: Command
) -> None:
    given = asked(small, "cosine")
    small.wav("p-0").unlink()
    status, out, err = command(*given)
    assert status == 6 and set(last(out)[1]["status"]) == {"ok"}
    assert "1 recordings are left out; no result is measured on them, and none is marked" in err
    assert "they are marked" not in err


def test_a_training_vector_that_is_not_there_is_said_of_the_rows_that_stand_on_it(
    small: Tiny, command: Command
) -> None:
    given = asked(small, "cosine,plda")
    (table,) = small.root.parent.glob("*.npz")
    held = np.load(table)
    kept = [name not in LOST for name in held["ids"]]
    np.savez(table, ids=held["ids"][kept], vectors=held["vectors"][kept])
    status, out, err = command(*given)
    folder, rows = last(out)
    learnt = rows["backend"] == "plda"
    said = "the back end learnt without 3 training recordings of which nothing could be extracted: p-0, q-1, r-2"
    assert status == 6, err
    assert set(rows.loc[learnt, "status"]) == {"partial"} and set(rows.loc[~learnt, "status"]) == {"ok"}
    assert rows.loc[learnt, "note"].str.contains(said, regex=False).all()
    assert said in run_files.read_limits(folder) and not rows.loc[~learnt, "note"].str.contains("learnt").any()
    named = json.loads((folder / "audio_notes.json").read_text())["left_out"]
    assert {one["utterance"] for one in named} == set(LOST)
