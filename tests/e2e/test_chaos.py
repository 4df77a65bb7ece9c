"""Kills at random moments: the next run ends with equal bytes, and nothing that was done is done again (tests/chaos.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import MOMENTS, ROOT, WAYS, Chaos, Kill, Way, table

KILLS = 10
"""The benchmark has 200: ``python -m tests.benchmark chaos``."""


def test_the_table_counts_what_is_not_as_it_must_be() -> None:
    kills = [
        Kill(Way(), "run", "task", "extract", 1),
        Kill(Way(), "run", "task", "", 0, 2, ("left behind: x",)),
        Kill(Way("processes", 2), "worker", "write", "fit", 1),
        Kill(Way("processes", 3), "worker", "write", "fit", 1),
    ]
    assert table(kills).splitlines()[2:] == [
        "| the run, `executor=local` | in the middle of a task | extract 1, none 1 | 2 | 1 | 2 |",
        "| a worker of `executor=processes` | between two file operations of a result's writing | fit 2 | 2 | 2 | 0 |",
    ]


WRITES = """
import os, sys
from pathlib import Path
from pipeline.engine.store import Store
store, key = Store(Path(sys.argv[1])), "ab" * 32
folder = store.begin("fit", key)
(folder / "one").write_text("1")
store.commit("fit", key, folder, {}, {})
"""


def test_a_process_dies_at_the_operation_that_is_asked_for(tmp_path: Path) -> None:
    """Each of them in turn, until one writing ends before: a folder of the artefact is there from the renaming on, and never before."""
    there = []
    for after in range(50):
        store = tmp_path / str(after) / "store"
        asked = {"where": "write", "shelf": str(store / "fit" / "ab"), "key": "ab" * 32, "victim": "run"}
        asked |= {"token": str(tmp_path / f"token-{after}"), "after": after}
        script = f"from tests import strike\nstrike.arm({asked!r})\n{WRITES}"
        done = subprocess.run(
            [sys.executable, "-c", script, str(store)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        there.append((store / "fit" / "ab" / ("ab" * 32) / "record.json").exists())
        if done.returncode == 0:
            break
        assert done.returncode == -9
    assert after >= 6, "its folder, its file, its record, the renaming and what follows"
    assert there == sorted(there)
    assert not there[3]
    assert there[-2], "also after the renaming there is something to die in"


def test_each_way_and_each_moment_has_its_turn() -> None:
    assert {(way.executor, way.workers, victim) for way, victim in WAYS} == {
        ("local", 1, "run"),
        *(("processes", workers, victim) for workers in (1, 2, 3) for victim in ("run", "worker")),
    }
    assert {moment for several in MOMENTS.values() for moment in several} == {
        "start", "task", "write", "books", "end", "sweep"
    }  # fmt: skip


@pytest.mark.slow
def test_kills_cost_the_tasks_in_flight_and_nothing_else(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path / "chaos", seed=1)
    kills = chaos.kills(range(KILLS))
    assert not [(number, one.wrong) for number, one in enumerate(kills) if one.wrong]
    assert any(one.stage for one in kills), "some fell into the middle of a task"
