"""An attacker who has learnt from fewer recordings than are listed is a weaker one: what stands on it is marked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.datasets.conftest import Tiny
from tests.e2e.test_protocol import quick
from tests.running import Command

LEARNT = [f"{who}-{number}" for who in "pqrst" for number in range(4)]
LOST = ["p-0", "q-1", "r-2"]


@pytest.fixture
def small(tmp_path: Path) -> Tiny:
    """The tiny pair of sets, with a training set of other speakers beside it."""
    made = Tiny(tmp_path / "data")
    made.tables["train"] = made.basic(LEARNT)
    return made.save()


def asked(small: Tiny, backends: str) -> list[str]:
    return quick(small.root, f"dataset.train={small.root / 'train'}", f"backend=[{backends}]", "allow_partial=true")


def test_rows_of_a_back_end_that_learnt_from_less_are_marked_and_say_so(small: Tiny, command: Command) -> None:
    words = asked(small, "cosine,plda")
    for name in LOST:
        small.wav(name).unlink()
    ended = command(*words, status=6)
    learnt, others = (ended.rows.query(f"backend {sign} 'plda'") for sign in ("==", "!="))
    assert set(learnt["status"]) == {"partial"} and set(others["status"]) == {"ok"}
    note = "3 training utterances were left out, so the attacker has learnt from less: p-0, q-1, r-2"
    assert learnt["note"].str.contains(note, regex=False).all() and not others["note"].str.contains("training").any()
    assert f"{len(learnt)} of {len(ended.rows)} results do not stand on everything that was expected" in ended.err
    assert "3 of 30 utterances are left out (allow_partial): 3 of train" in ended.run.limits
    assert note in (ended.folder / "report.html").read_text()


def test_a_training_vector_that_is_not_there_is_said_of_the_rows_that_stand_on_it(
    small: Tiny, command: Command
) -> None:
    words = asked(small, "cosine,plda")
    (table,) = small.root.parent.glob("*.npz")
    vectors = np.load(table)
    kept = [name not in LOST for name in vectors["ids"]]
    np.savez(table, ids=vectors["ids"][kept], vectors=vectors["vectors"][kept])
    ended = command(*words, status=6)
    learnt, others = (ended.rows.query(f"backend {sign} 'plda'") for sign in ("==", "!="))
    note = "the back end learnt without 3 training recordings of which nothing could be extracted: p-0, q-1, r-2"
    assert set(learnt["status"]) == {"partial"} and set(others["status"]) == {"ok"}
    assert learnt["note"].str.contains(note, regex=False).all() and not others["note"].str.contains("learnt").any()
    assert note in ended.run.limits
    named = json.loads((ended.folder / "audio_notes.json").read_text())["left_out"]
    assert {entry["utterance"] for entry in named} == set(LOST)
