"""Kills at random moments: the next run ends with equal bytes, and nothing that was done is done again (tests/chaos.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.store import Store
from tests import strike
from tests.chaos import MOMENTS, WAYS, Chaos, Kill, Way, table

KILLS = 10
"""The benchmark has 200: ``python -m tests.benchmark chaos``."""
KEY = "ab" * 32


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


def written(store: Store, asked: Mapping[str, Any] | None = None) -> int:
    """Sweep, and make an artefact if it is not there, in a process of its own; how that ended."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            if asked is not None:
                strike.arm(asked)
            store.sweep()
            if store.find("fit", KEY) is None:
                folder = store.begin("fit", KEY)
                (store.scratch("fit", KEY) / "step").write_text("1")
                (folder / "one").write_text("1")
                store.commit("fit", KEY, folder, {}, {})
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_writing_that_is_killed_at_any_operation_leaves_all_or_nothing(tmp_path: Path) -> None:
    """At each of them in turn, until one writing ends before: the artefact is there from the renaming on and never before, and what
    comes next finds or makes it, and sweeps the rest, checkpoints included."""
    there = []
    for after in range(50):
        shelf = tmp_path / str(after) / "fit" / KEY[:2]
        asked = {"where": "write", "shelf": str(shelf), "key": KEY, "victim": "run", "after": after}
        asked |= {"token": str(tmp_path / f"token-{after}")}
        status = written(Store(tmp_path / str(after)), asked)
        there.append((shelf / KEY / "record.json").exists())
        if status == 0:
            break
        assert status == -9
        assert written(Store(tmp_path / str(after))) == 0
        assert [path.name for path in shelf.iterdir()] == [KEY]
        assert sorted(path.name for path in (shelf / KEY).iterdir()) == ["one", "record.json"]
    assert after >= 10, "its folder, checkpoints, its file, its record, the renaming and what follows"
    assert there == sorted(there)
    assert not there[8]
    assert there[-3], "also after the renaming there is something to die in"


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
