"""Kills at random moments: the next run ends with equal bytes, and nothing that was done is done again (tests/chaos.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.registry import ours
from tests.chaos import Chaos, Kill, Victim, Way, moment, table

KILLS = 10
"""The benchmark has 200: ``python -m tests.benchmark kills``."""


def ways(number: int) -> tuple[Way, Victim]:
    """What the kill of a number strikes: the run or a worker, by each executor in turn, with one to three workers."""
    if "processes" not in ours("executors"):
        return Way(), "run"
    chosen: list[tuple[Way, Victim]] = [(Way(), "run")]
    for workers in (1, 2, 3):
        chosen += [(Way("processes", workers), "run"), (Way("processes", workers), "worker")]
    return chosen[number % len(chosen)]


def test_moments_reach_from_the_start_to_the_end() -> None:
    times, draws = (1.0, 1.5, 4.0, 4.1), random.Random(0)
    drawn = [moment(times, draws) for _ in range(2000)]
    assert {lines for lines, _ in drawn} == {0, 1, 2, 3}
    for lines, delay in drawn:
        start = times[lines - 1] if lines else 0.0
        assert delay >= 0 and start + delay <= times[lines]
    assert sum(lines == 3 for lines, _ in drawn) > 200, "what takes a moment is struck too"


def test_the_table_counts_what_is_not_as_it_must_be() -> None:
    kills = [
        Kill(Way(), "run", "extract", 1),
        Kill(Way(), "run", "", 0, ("left behind: x",)),
        Kill(Way("processes", 2), "worker", "fit", 1),
    ]
    assert table(kills).splitlines()[2:] == [
        "| the run (`executor=local`) | extract 1, no task 1 | 2 | 1 | 1 |",
        "| a worker (`executor=processes, 2 workers`) | fit 1 | 1 | 1 | 1 |",
    ]


@pytest.mark.slow
def test_kills_cost_the_tasks_in_flight_and_nothing_else(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=1)
    kills = [chaos.kill(number, *ways(number)) for number in range(KILLS)]
    assert not [(number, one.wrong) for number, one in enumerate(kills) if one.wrong]
    assert any(one.stage for one in kills), "some fell into the middle of a task"
