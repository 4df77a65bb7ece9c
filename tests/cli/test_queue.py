"""How jobs of Slurm's ended, as Slurm says it: in its queue, in its accounts, or not at all."""

from __future__ import annotations

import pickle
import signal
from pathlib import Path

import pytest

from pipeline.cli import queue
from pipeline.cli.sweeps import JobFailed
from pipeline.engine.stop import Stopped


@pytest.mark.parametrize(
    ("state", "ended_with", "status", "said"),
    [
        ("CANCELLED", 143, 143, "cancelled"),
        ("TIMEOUT", 0, 143, "out of time: hydra.launcher.timeout_min"),
        ("OUT_OF_MEMORY", 137, 137, "out of memory: hydra.launcher.mem_gb"),
        ("NODE_FAIL", 0, 137, "its node failed"),
        ("FAILED", 137, 137, "killed, perhaps because memory ran out"),
        ("FAILED", 140, 140, "stopped by SIGUSR2"),
        ("FAILED", 1, 5, "Slurm: FAILED, exit 1"),
        ("COMPLETED", 0, 5, "Slurm: COMPLETED"),
    ],
)
def test_states_that_are_an_end(state: str, ended_with: int, status: int, said: str) -> None:
    found = queue.verdict(state, ended_with)
    assert found is not None and found[0] == status and said in found[1]


@pytest.mark.parametrize("state", sorted(queue.GOING))
def test_states_that_are_none(state: str) -> None:
    assert queue.verdict(state) is None


def _answering(folder: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(queue, "FIRST_SECONDS", -1.0)
    monkeypatch.setattr(queue, "MOST_SECONDS", -1.0)


def test_the_queue_and_the_accounts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(
        f"{job:40}{state:30}{code:<20}\\n"
        for job, state, code in [("7_0", "RUNNING", 0), ("7_1", "FAILED", 9), ("7_2", "FAILED", 35840)]
    )
    _answering(
        tmp_path, monkeypatch, squeue=f"printf '{lines}'",
        sacct="printf '7_0|RUNNING|0:0\\n7_3|CANCELLED by 1000|0:15\\n7_4|FAILED|2:0\\n'",
    )  # fmt: skip
    jobs = queue.Queue([f"7_{part}" for part in range(5)])
    found = [jobs.ended(f"7_{part}", began=True) for part in range(5)]
    assert [one[0] if one else None for one in found] == [None, 137, 140, 143, 5]


def test_a_job_of_which_nothing_is_known_is_waited_for_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answering(tmp_path, monkeypatch, squeue="exit 1")
    jobs = queue.Queue(["7"])
    assert [jobs.ended("7", began=True) for _ in range(queue.UNKNOWN_TIMES - 1)] == [None] * (queue.UNKNOWN_TIMES - 1)
    gone, never = jobs.ended("7", began=True), jobs.ended("7", began=False)
    assert gone is not None and gone[0] == 137 and "knows nothing" in gone[1]
    assert never is not None and never[0] == 143 and "cancelled" in never[1]


def test_what_ends_a_job_comes_back_from_another_process() -> None:
    stopped = pickle.loads(pickle.dumps(Stopped(signal.SIGTERM)))
    assert (str(stopped), stopped.number, stopped.status) == ("stopped by SIGTERM", 15, 143)
    failed = pickle.loads(pickle.dumps(JobFailed("job 1: it failed", status=3)))
    assert (failed.what, failed.status) == ("job 1: it failed", 3)
