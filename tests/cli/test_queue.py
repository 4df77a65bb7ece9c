"""How jobs of Slurm's ended, as Slurm says it: in its queue, in its accounts, or not at all."""

from __future__ import annotations

import pickle
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from pipeline import processes
from pipeline.cli import queue
from pipeline.cli.sweeps import JobFailed, Jobs
from pipeline.engine.stop import Stopped
from pipeline.processes import this_process


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


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "COMPLETING", "RESV_DEL_HOLD", "REQUEUED", "SOMETHING_NEW", ""]
)
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


INVALID = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; "


@pytest.mark.parametrize(("invalid", "code"), [(INVALID, 1), ("", 0)])
def test_a_job_of_which_nothing_is_known_is_waited_for_at_first(
    invalid: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answering(tmp_path, monkeypatch, squeue=f"{invalid}exit {code}", sacct="exit 1")
    jobs = queue.Queue(["7"])
    assert [jobs.ended("7", began=True) for _ in range(queue.UNKNOWN_TIMES - 1)] == [None] * (queue.UNKNOWN_TIMES - 1)
    gone, never = jobs.ended("7", began=True), jobs.ended("7", began=False)
    assert gone is not None and gone[0] == 137 and "knows nothing" in gone[1]
    assert never is not None and never[0] == 143 and "cancelled" in never[1]


@pytest.mark.parametrize("silence", ["exit 1", "echo 'Unable to contact slurm controller' >&2; exit 1", ""])
def test_a_controller_that_does_not_answer_is_waited_for_and_said_once(
    silence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _answering(tmp_path, monkeypatch, **({"squeue": silence, "sacct": "exit 1"} if silence else {}))
    jobs = queue.Queue(["7", "8"])
    assert not any(jobs.ended(job, began) for job in ("7", "8") for began in (True, False) for _ in range(5))
    assert [one.message for one in caplog.records] == [
        one.message for one in caplog.records if "not answer" in one.message
    ]
    assert len(caplog.records) == 1 and ("Unable to contact" in caplog.text or "contact" not in silence)
    _answering(tmp_path, monkeypatch, squeue="exit 1", sacct="printf '8|FAILED|2:0\\n'")
    assert jobs.ended("7", began=True) is None, "the accounts answer, but the queue may know more"
    ended = jobs.ended("8", began=True)
    assert ended is not None and ended[0] == 5, "what the accounts say of an end holds"
    _answering(tmp_path, monkeypatch, squeue=f"{INVALID}exit 1", sacct="exit 1")
    found = [jobs.ended("7", began=True) for _ in range(queue.UNKNOWN_TIMES)]
    assert found[:-1] == [None] * (queue.UNKNOWN_TIMES - 1) and found[-1] is not None and found[-1][0] == 137
    assert caplog.messages[1:] == ["Slurm answers again"]


def test_what_ends_a_job_comes_back_from_another_process() -> None:
    stopped = pickle.loads(pickle.dumps(Stopped(signal.SIGTERM)))
    assert (str(stopped), stopped.number, stopped.status) == ("stopped by SIGTERM", 15, 143)
    failed = pickle.loads(pickle.dumps(JobFailed("job 1: it failed", status=3)))
    assert (failed.what, failed.status) == ("job 1: it failed", 3)


def test_a_process_of_the_same_number_elsewhere_is_not_the_one_that_was_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(composed: object, recipe: str) -> int:
        raise Stopped(signal.SIGTERM)

    config = SimpleNamespace(
        mode=RunMode.MULTIRUN,
        runtime=SimpleNamespace(choices={}),
        job=SimpleNamespace(num=0),
        overrides=SimpleNamespace(task=["seed=1"]),
    )
    monkeypatch.setattr(HydraConfig, "get", lambda: config)
    for elsewhere in (replace(this_process(), host="elsewhere"), replace(this_process(), started="1@other.2")):
        jobs = Jobs(stopped, ["seed=1,2"])
        jobs.collected = True
        with monkeypatch.context() as patch:
            patch.setattr(processes, "this_process", lambda here=elsewhere: here)
            ended = jobs(None)
        assert ended.status == 143 and "hydra.launcher.timeout_min=N" in ended.said
        assert (jobs.stopped, jobs.ended) == (0, []), "what is kept here is not kept where the results are collected"
    jobs = Jobs(stopped, ["seed=1,2"])
    assert jobs(None).said == "stopped by SIGTERM; run the same command again to go on"
    assert jobs.stopped == 143 and len(jobs.ended) == 1
    assert "job 0 (seed=1): stopped by SIGTERM" in capsys.readouterr().err
