"""``executor=slurm`` on a real Slurm: the same values, nothing done twice, and what becomes of jobs that do not end by themselves."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import evaluation
from pipeline.tables import status
from tests import paper, toy
from tests.running import values

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("cluster")]
QUICK = ("recipe=kaldi", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false")
SENT = ("executor=slurm", "executor.gpus=0", "executor.cpus=1", "executor.mem_gb=3")
EACH = "executor.chunk_minutes=0.001"
"""A task a job."""


HOOK = """
import os
if "SLURM_JOB_ID" in os.environ and "HOOK" in os.environ:
    import time
    from pathlib import Path
    from pipeline import slurm
    from pipeline.engine.store import Store
    folder, commit = Path(os.environ["HOOK"]), Store.commit
    def hooked(self, stage, key, temporary, parts, notes):
        held, fails = os.environ.get("HOLDS"), os.environ.get("FAILS")
        if held and notes["label"].startswith(held):
            (folder / f"held-{slurm.job()}").touch()
            while not (folder / "gate").exists():
                time.sleep(0.1)
        if fails and notes["label"].startswith(fails):
            raise RuntimeError("the vocoder fell over")
        return commit(self, stage, key, temporary, parts, notes)
    Store.commit = hooked
"""
"""Of each process of a job: a task whose label begins with $HOLDS waits for a gate before it commits, one with $FAILS fails."""


def hooked(folder: Path, **hooks: str) -> dict[str, str]:
    """The environment with which jobs are hooked; the gate and the names of held jobs lie in the folder."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "HOOK": str(folder), **hooks}


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens, or that never will."""
    for _ in range(10 * toy.HANGS):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("data") / "one", speakers=4, utterances=2)


def start(home: Path, data: Path, *more: str, **environment: str) -> Path:
    """Send a run over original speech and b2; its folder."""
    done = toy.run(
        *QUICK, *SENT, f"dataset.root={data}", "system=[original,b2]", *more, cwd=home, check=True, **environment
    )
    run = Path(done.stdout.splitlines()[-1])
    assert f"voice-privacy status {run}" in done.stdout
    return run


def ended(run: Path) -> bool:
    """Whether a run has ended; one whose jobs are gone is marked."""
    return status.is_over(run, status.settle(run))


def log_of(run: Path) -> str:
    return " ".join((run / status.LOG).read_text().split())


def check_done(run: Path, rounds: int | None = None) -> list[str]:
    """Wait for a run, which ends well and has done nothing twice, in so many rounds; the labels of what it computed."""
    until(lambda: ended(run))
    assert status.read(run)["state"] == "done", log_of(run)
    assert rounds in (None, status.find_last_round(run))
    done = paper.done([run])
    assert len(done) == len(set(done))
    return done


def hold(home: Path, data: Path, *more: str) -> tuple[Path, str]:
    """Send a run in which a task is held before it commits; its folder, and the job that is held."""
    run = start(home, data, *more, **hooked(home, HOLDS="anonymise b2 1/"))
    until(lambda: list(home.glob("held-*")))
    (job,) = (path.name.removeprefix("held-") for path in home.glob("held-*"))
    return run, job


def test_a_sweep_gives_the_same_values_in_all_ways_and_does_nothing_twice(data: Path, tmp_path: Path) -> None:
    other = toy.corpus(tmp_path / "two", speakers=4, utterances=4)
    swept = ("-m", *QUICK, f"dataset.root={data},{other}", "system=original,b2,b2r")
    ways: dict[str, tuple[str, ...]] = {"here": (), "sent": SENT}
    runs = {}
    for name, way in ways.items():
        (tmp_path / name).mkdir()
        toy.run(*swept, *way, cwd=tmp_path / name, check=True)
        runs[name] = sorted((tmp_path / name / "exp" / "runs").iterdir())
        until(lambda name=name: all(ended(run) for run in runs[name]))
        assert [status.read(run)["state"] for run in runs[name]] == ["done"] * 6
    assert values(*runs["sent"]) == values(*runs["here"]) != []
    computed = {
        name: Counter(one["task"] for run in of for one in paper.events(run) if one["event"] == "done")
        for name, of in runs.items()
    }
    assert computed["sent"] == computed["here"]
    assert set(computed["sent"].values()) == {1}


def test_waves_of_arrays_wait_for_each_other(data: Path, tmp_path: Path) -> None:
    run = start(tmp_path, data, EACH)
    jobs = status.read_sent_jobs(run)
    assert len({job.partition("_")[0] for job in jobs}) > 2 and any("_" in job for job in jobs)
    assert len(check_done(run)) == len(jobs) - 1
    assert len(list((run / "tasks").glob("*.jsonl"))) == len(jobs), "each job has written of its own, and the sender"
    assert (run / "results.parquet").exists()


def test_a_task_that_is_cancelled_costs_no_more_than_itself(data: Path, tmp_path: Path) -> None:
    run, job = hold(tmp_path, data)
    before = set(paper.done([run]))
    subprocess.run(["scancel", job], check=True)
    until(lambda: "SIGTERM" in (run / status.JOBS_FOLDER / "1-0.log").read_text())
    (tmp_path / "gate").touch()
    assert before < set(check_done(run, rounds=2))
    assert "were lost" in log_of(run) and "they are sent again" in log_of(run)


def test_a_job_that_is_requeued_starts_again_by_itself(data: Path, tmp_path: Path) -> None:
    run, job = hold(tmp_path, data)
    subprocess.run(["scontrol", "requeue", job], check=True)
    (tmp_path / "gate").touch()

    def begun_again() -> bool:
        # The cluster would have it wait for two minutes.
        subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], capture_output=True, check=False)
        return (run / status.JOBS_FOLDER / "1-0.log").read_text().count("part 0 of round 1 on") == 2

    until(begun_again)
    check_done(run, rounds=1)


def test_a_time_limit_costs_no_more_than_the_task_in_flight(data: Path, tmp_path: Path) -> None:
    run, _ = hold(tmp_path, data, "executor.time=1")
    until(lambda: "SIGUSR2" in (run / status.JOBS_FOLDER / "1-0.log").read_text())  # Slurm's signal before the limit
    (tmp_path / "gate").touch()
    check_done(run, rounds=2)


def test_a_system_that_fails_is_told_with_its_traceback_and_the_others_end_well(data: Path, tmp_path: Path) -> None:
    run = start(tmp_path, data, "system=[original,b2,b2r]", **hooked(tmp_path, FAILS="anonymise b2r"))
    until(lambda: ended(run))
    record = status.read(run)
    assert (record["state"], record["exit_status"]) == ("failed", 5) and status.find_last_round(run) == 1
    told = toy.run("status", str(run), cwd=tmp_path).stdout
    assert "RuntimeError: the vocoder fell over" in told and "hooked" in told and "anonymise b2r" in told
    assert set(evaluation.read(run).rows["system"]) == {"original", "b2"}
    alone = tmp_path / "alone"
    alone.mkdir()
    toy.run(*QUICK, f"dataset.root={data}", "system=[original,b2]", cwd=alone, check=True)
    assert values(run) == values(*(alone / "exp" / "runs").iterdir())


def test_a_run_of_which_all_is_cancelled_is_stopped_and_the_same_command_goes_on(data: Path, tmp_path: Path) -> None:
    run, _ = hold(tmp_path, data)
    told = toy.run("status", str(run), cwd=tmp_path).stdout
    (command,) = re.findall(r"scancel [\d ]+", told)
    assert "running" in told
    subprocess.run(command.split(), check=True)
    (tmp_path / "gate").touch()
    until(lambda: ended(run))
    assert status.read(run)["state"] == "stopped"
    again = start(tmp_path, data)
    check_done(again)
    computed = paper.done([run, again])
    assert len(computed) == len(set(computed))


@pytest.mark.parametrize(
    ("override", "said"), [("executor.partition=gold", "gold"), ("executor.mem_gb=90000", "configuration")]
)
def test_what_slurm_refuses_is_said_in_its_words(data: Path, tmp_path: Path, override: str, said: str) -> None:
    done = toy.run(*QUICK, *SENT, f"dataset.root={data}", "system=original", override, cwd=tmp_path)
    assert done.returncode == 2 and "Slurm did not take the jobs" in done.stderr and said in done.stderr
    (run,) = (tmp_path / "exp" / "runs").iterdir()
    assert status.read(run)["state"] == "failed"
