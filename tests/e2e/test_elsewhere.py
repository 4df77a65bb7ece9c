"""A run that is sent to a cluster, without one: what the jobs do, what becomes of those that are lost, what they refuse."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from pipeline import audio, evaluation
from pipeline.engine.store import Store
from pipeline.evaluation import submit
from pipeline.tables import status
from tests import paper, toy
from tests.paper import Job, Paper
from tests.running import Command, Ended, carry_out, finish, runner, values

QUICK = ("recipe=kaldi", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false")
EACH = ("executor=slurm", "executor.gpus=0", "executor.chunk_minutes=0.001")
"""A task a job."""
Send = Callable[..., Ended]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    return Paper().install(monkeypatch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("toy") / "toy", speakers=4, utterances=2)


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in this process."""
    return finish(tmp_path_factory.mktemp("here"), *QUICK, f"dataset.root={data}", "system=[original,b2]").folder


@pytest.fixture
def evaluate(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Evaluations in this process."""
    monkeypatch.chdir(tmp_path)
    return runner(capfd, monkeypatch, *QUICK)


@pytest.fixture
def send(evaluate: Command, data: Path) -> Send:
    """Runs whose tasks are a job each."""

    def call(*more: str, systems: str = "original,b2", root: Path = data, status: int | None = 0) -> Ended:
        return evaluate(*EACH, f"dataset.root={root}", f"system=[{systems}]", *more, status=status)

    return call


def sent_run(ended: Ended) -> Path:
    """The folder of a run that was sent."""
    return Path(ended.out.splitlines()[-1])


def states(*runs: Path) -> list[str]:
    return [status.read(run)["state"] for run in runs]


def ordered(run: Path, job: Job) -> list[str]:
    """The short names of the tasks of a job."""
    order = submit.read_order(run, job.part.number)
    return [] if job.part.part is None else order.ordered[job.part.part]


def reports(jobs: Sequence[Job]) -> int:
    """How many jobs gather and report."""
    return [job.reports for job in jobs].count(True)


def store(run: Path) -> Path:
    return run.parents[1] / "store"


@pytest.mark.slow
def test_what_is_sent_and_what_is_said_of_it(cluster: Paper, send: Send, command: Command, here: Path) -> None:
    lines = send().out.splitlines()
    run = Path(lines[-1])
    ids = sorted({job.partition("_")[0] for job in cluster.jobs}, key=int)
    parts = len(cluster.jobs) - 1
    assert lines[-5:-1] == [
        f"tasks: 0 reused, {parts} sent in {parts} jobs",
        f"jobs: {' '.join(ids)} (the last one gathers and reports)",
        f"how it goes: voice-privacy status {run}",
        f"to end it: scancel {' '.join(ids)}",
    ]
    assert states(run) == ["submitted"]
    first, *_, last = cluster.jobs.values()
    assert (first.after, last.after) == ([], ids[:-1])
    assert not list(store(run).glob("extract/*")), "nothing is computed on the login node"
    told = command("status", str(run)).out
    assert told.startswith(f"run {run.name}: submitted since ") and lines[-2] in told.splitlines()
    assert f"  {ids[0]}: {sum(job.id.startswith(f'{ids[0]}_') for job in cluster.waiting())} PENDING" in told
    cluster.do(first)
    assert states(run) == ["running"]
    assert f"  {ids[0]}: 1 COMPLETED, " in command("status", str(run)).out
    cluster.all()
    assert states(run) == ["done"]
    told = command("status", str(run)).out
    assert f"  {ids[-1]}: 1 COMPLETED" in told and "scancel" not in told
    assert values(run) == values(here) and len(values(run)) > 0
    assert evaluation.read(run).rows["run_id"].unique().tolist() == [run.name]
    assert sorted(paper.done([run])) == sorted(paper.done([here])), "each task once"
    assert f"0 reused, {parts} computed" in status.read(run)["tasks"]
    # The same again has nothing to send, and reports at once.
    assert f"tasks: {parts} reused, 0 computed" in send().out and not cluster.waiting()


@pytest.mark.slow
def test_what_is_lost_is_sent_again_and_the_rest_is_not_done_twice(cluster: Paper, send: Send, here: Path) -> None:
    run = sent_run(send())
    lost = cluster.waiting()[0].id
    done = cluster.all(lambda job: job.id == lost)
    assert reports(done) == 2
    assert "were lost (jobs: 1 TIMEOUT): they are sent again" in " ".join((run / "run.log").read_text().split())
    assert states(run) == ["done"] and values(run) == values(here)
    assert sorted(paper.done([run])) == sorted(paper.done([here]))
    assert status.find_last_round(run) == 2
    # A job that Slurm starts anew after it has sent the next round sends no other.
    (report, _) = [job for job in done if job.reports]
    assert cluster.do(report) == 0 and not cluster.waiting() and states(run) == ["done"]


@pytest.mark.slow
def test_what_is_lost_again_and_again_is_named(cluster: Paper, send: Send) -> None:
    run = sent_run(send("executor.retries=1"))
    (never,) = ordered(run, cluster.waiting()[0])
    cluster.all(lambda job: never in ordered(run, job))
    last = list(cluster.jobs.values())[-1]
    assert last.reports and last.code == 5
    record = status.read(run)
    assert (record["state"], record["exit_status"]) == ("failed", 5)
    for words in ("was lost: the job that had it ended before it was done", "executor.retries=", "TIMEOUT"):
        assert words in record["reasons"][0]
    # What the message says: the same again. What is finished is not sent.
    again = send()
    assert "tasks: 0 reused" not in again.out
    cluster.all()
    assert states(sent_run(again)) == ["done"]


@pytest.mark.slow
def test_a_task_that_fails_is_not_sent_again_and_the_others_end_well(
    cluster: Paper, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Store.commit

    def fails(self: Store, *arguments: object) -> object:
        if str(arguments[4]["label"]).startswith("anonymise b2"):  # type: ignore[index]
            raise RuntimeError("the vocoder fell over")
        return commit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "commit", fails)
    run = sent_run(send())
    done = cluster.all()
    record = status.read(run)
    assert (record["state"], record["exit_status"], done[-1].code, reports(done)) == ("failed", 5, 5, 1)
    assert "the vocoder fell over" in record["reasons"][0] and "not run" in record["reasons"][0]
    failed = [event for event in paper.events(run) if event["event"] == "failed"]
    assert failed and all("in fails" in event["trace"] and "Traceback" in event["trace"] for event in failed)
    assert all("the vocoder fell over" in Path(event["log"]).read_text() for event in failed)
    assert any(label.startswith("extract original") for label in paper.done([run])) and list(
        store(run).glob("score/*/*")
    )


@pytest.mark.slow
def test_a_job_that_plans_other_work_refuses(cluster: Paper, send: Send, data: Path, tmp_path: Path) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    run = sent_run(send(root=own))
    wav = sorted((own / "wav").glob("*.wav"))[0]
    audio.write(wav, np.linspace(-0.5, 0.5, 20000, dtype=np.float32), 16000, "PCM_16")
    assert {cluster.do(job) for job in cluster.waiting()} == {2}
    record = status.read(run)
    assert (record["state"], record["exit_status"]) == ("failed", 2)
    assert "plans other work than was sent, and refuses" in record["reasons"][0]
    assert not list(store(run).glob("extract/*/*"))
    send(root=own)  # the remedy
    assert not any(job.code for job in cluster.all())


def test_a_configuration_that_is_edited_after_it_was_sent_is_refused(cluster: Paper, send: Send) -> None:
    run = sent_run(send())
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "allow_partial": True}))
    assert {cluster.do(job) for job in cluster.waiting()} == {3}
    assert "config.yaml" in status.read(run)["reasons"][0]


@pytest.mark.slow
def test_runs_that_need_the_same_share_it(cluster: Paper, send: Send) -> None:
    first, second = send(), send(systems="original,b2r")
    runs = [sent_run(first), sent_run(second)]
    assert "are done by jobs of other runs" in second.out
    cluster.all()
    assert states(*runs) == ["done", "done"]
    done = paper.done(runs)
    assert len(done) == len(set(done)) and any("original" in label for label in done)


@pytest.mark.slow
def test_where_the_job_that_reports_is_killed_the_same_command_reports(
    cluster: Paper, send: Send, command: Command
) -> None:
    run = sent_run(send())
    *parts, last = cluster.waiting()
    for job in parts:
        cluster.do(job)
    last.state = "OUT_OF_MEMORY"
    told = command("status", str(run)).out
    assert told.startswith(f"run {run.name}: killed") and "OUT_OF_MEMORY" in told
    assert "the last one, which reports, did not; the same command again goes on" in told
    assert f"tasks: {len(parts)} reused, 0 computed" in send().out and not cluster.waiting()


@pytest.mark.slow
def test_what_another_run_was_to_do_and_lost_is_done(cluster: Paper, send: Send) -> None:
    first = sent_run(send())
    theirs = {job.id for job in cluster.waiting()}
    second = sent_run(send(systems="original,b2r"))
    for job in theirs:
        cluster.jobs[job].state = "CANCELLED"
    assert status.settle(first)["state"] == "stopped"
    cluster.all()
    assert states(second) == ["done"]


@pytest.mark.slow
def test_a_run_whose_jobs_are_all_cancelled_is_said_to_be_stopped(cluster: Paper, send: Send) -> None:
    run = sent_run(send())
    assert status.settle(run)["state"] == "submitted"
    cluster.do(cluster.waiting()[0])
    assert status.settle(run)["state"] == "running"
    for job in cluster.waiting():
        job.state = "CANCELLED"
    cluster.jobs = {name: job for name, job in cluster.jobs.items() if job.state == "CANCELLED"}
    again = send()
    assert f"run {run.name} was stopped" in again.err and "the same command again goes on" in again.err


def test_jobs_that_are_refused_leave_a_run_that_says_why(cluster: Paper, send: Send) -> None:
    cluster.refuses = "invalid partition specified: gold"
    refused = send(status=2)
    assert refused.out == "" and cluster.refuses in refused.err
    assert states(*Path("exp/runs").iterdir()) == ["failed"]


@pytest.mark.slow
def test_a_round_that_cannot_be_sent_again_names_what_is_lost(cluster: Paper, send: Send) -> None:
    run = sent_run(send())
    cluster.waiting()[0].state = "NODE_FAIL"
    cluster.refuses = "Batch job submission failed"
    cluster.all()
    record = status.read(run)
    assert record["exit_status"] == 5
    assert "it could not be sent again: Slurm did not take the jobs" in record["reasons"][0]


@pytest.mark.slow
def test_fail_fast_begins_and_sends_nothing_more(cluster: Paper, send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "commit", lambda *_: 1 / 0)
    run = sent_run(send("fail_fast=true"))
    assert reports(cluster.all()) == 1 and status.read(run)["exit_status"] == 5
    assert [event["event"] for event in paper.events(run)].count("failed") == 1


def test_without_slurm_it_is_said_before_anything_is_done(
    send: Send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = send(status=2)
    assert refused.out == "" and "there is no Slurm here" in refused.err and "executor=local" in refused.err
    assert not Path("exp").exists()


def test_training_alone_is_not_sent_and_a_part_asks_for_what_it_needs(
    cluster: Paper, evaluate: Command, command: Command, data: Path
) -> None:
    evaluate("train", "executor=slurm", f"dataset.root={data}", status=2)
    for words in ((), ("RUN",), ("RUN", "1"), ("RUN", "one", "2"), ("RUN", "report", "1")):
        assert "voice-privacy part RUN ROUND NUMBER" in command("part", *words, status=2).err
    assert not cluster.jobs


@pytest.mark.slow
def test_a_part_can_be_done_by_hand(cluster: Paper, send: Send) -> None:
    run = sent_run(send())
    assert carry_out("part", str(run), "1", "0") == 0 and len(paper.done([run])) == 1
    assert carry_out("part", str(run), "1", "99") == carry_out("part", str(run), "7", "0") == 2
