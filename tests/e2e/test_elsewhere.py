"""A run that is sent to a cluster, without one: what the jobs do, what becomes of those that are lost, what they refuse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from pipeline import audio, cli, evaluation
from pipeline.engine.store import Store
from pipeline.evaluation import job_files
from pipeline.stages.scores import compute
from pipeline.tables import status
from tests import paper, toy
from tests.paper import Job, Paper
from tests.running import values

QUICK = ("recipe=kaldi", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false")
EACH = ("executor=slurm", "executor.gpus=0", "executor.chunk_minutes=0.001")
"""A task a job."""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    return Paper().install(monkeypatch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("toy") / "toy", speakers=4, utterances=2)


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in this process."""
    root = tmp_path_factory.mktemp("here") / "exp"
    assert cli.run([*QUICK, f"dataset.root={data}", "system=[original,b2]", f"paths.root={root}"]) == 0
    (run,) = (root / "runs").iterdir()
    return run


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command line in this process; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, plain: bool = False) -> tuple[int, str, str]:
        code = cli.run(arguments if plain else [*QUICK, *arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def start(command: Command, data: Path, *more: str) -> Path:
    """Send a run; its folder."""
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]", *more)
    assert code == 0, err
    return Path(out.splitlines()[-1])


@pytest.mark.slow
def test_what_is_sent_and_what_is_said_of_it(cluster: Paper, command: Command, data: Path, here: Path) -> None:
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0, err
    lines = out.splitlines()
    run = Path(lines[-1])
    ids = sorted({job.partition("_")[0] for job in cluster.jobs}, key=int)
    parts = len(cluster.jobs) - 1
    assert lines[-5:-1] == [
        f"tasks: 0 reused, {parts} sent in {parts} jobs",
        f"jobs: {' '.join(ids)} (the last one gathers and reports)",
        f"how it goes: voice-privacy status {run}",
        f"to end it: scancel {' '.join(ids)}",
    ]
    assert status.read(run)["state"] == "submitted"
    first, *_, last = cluster.jobs.values()
    assert (first.after, last.after) == ([], ids[:-1])
    assert not list((run.parents[1] / "store").glob("extract/*")), "nothing is computed on the login node"
    told = command("status", str(run), plain=True)[1]
    assert told.startswith(f"run {run.name}: submitted since ") and lines[-2] in told.splitlines()
    assert f"  {ids[0]}: {sum(job.id.startswith(f'{ids[0]}_') for job in cluster.waiting())} PENDING" in told
    cluster.do(first)
    assert status.read(run)["state"] == "running"
    assert f"  {ids[0]}: 1 COMPLETED, " in command("status", str(run), plain=True)[1]
    cluster.all()
    assert status.read(run)["state"] == "done"
    told = command("status", str(run), plain=True)[1]
    assert f"  {ids[-1]}: 1 COMPLETED" in told and "scancel" not in told
    assert values(run) == values(here) and len(values(run)) > 0
    assert evaluation.read(run).rows["run_id"].unique().tolist() == [run.name]
    assert sorted(paper.done([run])) == sorted(paper.done([here])), "each task once"
    assert f"0 reused, {parts} computed" in status.read(run)["tasks"]
    # The same again has nothing to send, and reports at once.
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0 and f"tasks: {parts} reused, 0 computed" in out and not cluster.waiting()


@pytest.mark.slow
def test_what_is_lost_is_sent_again_and_the_rest_is_not_done_twice(
    cluster: Paper, command: Command, data: Path, here: Path
) -> None:
    run = start(command, data)
    lost = cluster.waiting()[0].id
    done = cluster.all(lambda job: job.id == lost)
    assert [job.reports for job in done].count(True) == 2
    assert "were lost (jobs: 1 TIMEOUT): they are sent again" in " ".join((run / "run.log").read_text().split())
    assert status.read(run)["state"] == "done" and values(run) == values(here)
    assert sorted(paper.done([run])) == sorted(paper.done([here]))
    assert status.find_last_round(run) == 2
    # A job that Slurm starts anew after it has sent the next round sends no other.
    (report, _) = [job for job in done if job.reports]
    assert cluster.do(report) == 0 and not cluster.waiting() and status.read(run)["state"] == "done"


@pytest.mark.slow
def test_what_is_lost_again_and_again_is_named(cluster: Paper, command: Command, data: Path) -> None:
    run = start(command, data, "executor.retries=1")
    (never,) = ordered(run, cluster.waiting()[0])
    cluster.all(lambda job: never in ordered(run, job))
    last = list(cluster.jobs.values())[-1]
    assert last.reports and last.code == 5
    record = status.read(run)
    assert (record["state"], record["exit_status"]) == ("failed", 5)
    assert "was lost: the job that had it ended before it was done" in record["reasons"][0]
    assert "executor.retries=" in record["reasons"][0] and "TIMEOUT" in record["reasons"][0]
    # What the message says: the same again. What is finished is not sent.
    code, out, _ = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0 and "tasks: 0 reused" not in out
    cluster.all()
    assert status.read(Path(out.splitlines()[-1]))["state"] == "done"


def ordered(run: Path, job: Job) -> list[str]:
    """The short names of the tasks of a job."""
    order = job_files.read(run, job.part.number)
    return [] if job.part.part is None else order.ordered[job.part.part]


@pytest.mark.slow
def test_a_task_that_fails_is_not_sent_again_and_the_others_end_well(
    cluster: Paper, command: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Store.commit

    def fails(self: Store, *given: object) -> object:
        if str(given[4]["label"]).startswith("anonymise b2"):  # type: ignore[index]
            raise RuntimeError("the vocoder fell over")
        return commit(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "commit", fails)
    run = start(command, data)
    done = cluster.all()
    assert [job.reports for job in done].count(True) == 1
    record = status.read(run)
    assert (record["state"], record["exit_status"], done[-1].code) == ("failed", 5, 5)
    assert "the vocoder fell over" in record["reasons"][0] and "not run" in record["reasons"][0]
    failed = [one for one in paper.events(run) if one["event"] == "failed"]
    assert failed and all("in fails" in one["trace"] and "Traceback" in one["trace"] for one in failed)
    assert all("the vocoder fell over" in Path(one["log"]).read_text() for one in failed)
    assert any(label.startswith("extract original") for label in paper.done([run]))
    assert any(path.parent.parent.name == compute.__name__.rpartition(".")[2] for path in store(run).glob("*/*/*"))


def store(run: Path) -> Path:
    return run.parents[1] / "store"


@pytest.mark.slow
def test_a_job_that_plans_other_work_refuses(cluster: Paper, command: Command, data: Path, tmp_path: Path) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    run = start(command, own)
    wav = sorted((own / "wav").glob("*.wav"))[0]
    audio.write(wav, np.linspace(-0.5, 0.5, 20000, dtype=np.float32), 16000, "PCM_16")
    assert {cluster.do(job) for job in cluster.waiting()} == {2}
    record = status.read(run)
    assert (record["state"], record["exit_status"]) == ("failed", 2)
    assert "plans other work than was sent, and refuses" in record["reasons"][0]
    assert not list(store(run).glob("extract/*/*"))
    code, _, _ = command(*EACH, f"dataset.root={own}", "system=[original,b2]")  # the remedy
    assert code == 0 and not any(job.code for job in cluster.all())


def test_a_configuration_that_is_edited_after_it_was_sent_is_refused(
    cluster: Paper, command: Command, data: Path
) -> None:
    run = start(command, data)
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "allow_partial": True}))
    assert {cluster.do(job) for job in cluster.waiting()} == {3}
    assert "config.yaml" in status.read(run)["reasons"][0]


@pytest.mark.slow
def test_runs_that_need_the_same_share_it(cluster: Paper, command: Command, data: Path) -> None:
    first = start(command, data)
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2r]")
    assert code == 0, err
    second = Path(out.splitlines()[-1])
    assert "are done by jobs of other runs" in out
    cluster.all()
    assert [status.read(run)["state"] for run in (first, second)] == ["done", "done"]
    done = paper.done([first, second])
    assert len(done) == len(set(done)) and any("original" in label for label in done)


@pytest.mark.slow
def test_the_same_command_while_its_jobs_wait_sends_one_that_reports(
    cluster: Paper, command: Command, data: Path
) -> None:
    first = start(command, data)
    parts = len(cluster.jobs) - 1
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0 and f"0 sent in 0 jobs, {parts} are done by jobs of other runs" in out, err
    assert len(cluster.jobs) == parts + 2
    cluster.all()
    second = Path(out.splitlines()[-1])
    assert [status.read(run)["state"] for run in (first, second)] == ["done", "done"]
    assert len(paper.done([first, second])) == parts and values(first) == values(second)


@pytest.mark.slow
def test_where_the_job_that_reports_is_killed_the_same_command_reports(
    cluster: Paper, command: Command, data: Path
) -> None:
    run = start(command, data)
    *parts, last = cluster.waiting()
    for job in parts:
        cluster.do(job)
    last.state = "OUT_OF_MEMORY"
    told = command("status", str(run), plain=True)[1]
    assert told.startswith(f"run {run.name}: killed") and "OUT_OF_MEMORY" in told
    assert "the last one, which reports, did not; the same command again goes on" in told
    code, out, _ = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0 and f"tasks: {len(parts)} reused, 0 computed" in out and not cluster.waiting()


@pytest.mark.slow
def test_what_another_run_was_to_do_and_lost_is_done(cluster: Paper, command: Command, data: Path) -> None:
    first = start(command, data)
    theirs = {job.id for job in cluster.waiting()}
    _, out, _ = command(*EACH, f"dataset.root={data}", "system=[original,b2r]")
    for job in theirs:
        cluster.jobs[job].state = "CANCELLED"
    assert status.settle(first)["state"] == "stopped"
    cluster.all()
    assert status.read(Path(out.splitlines()[-1]))["state"] == "done"


@pytest.mark.slow
def test_a_run_whose_jobs_are_all_cancelled_is_said_to_be_stopped(cluster: Paper, command: Command, data: Path) -> None:
    run = start(command, data)
    assert status.settle(run)["state"] == "submitted"
    cluster.do(cluster.waiting()[0])
    assert status.settle(run)["state"] == "running"
    for job in cluster.waiting():
        job.state = "CANCELLED"
    cluster.jobs = {one: job for one, job in cluster.jobs.items() if job.state == "CANCELLED"}
    code, _, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert code == 0 and f"run {run.name} was stopped" in err and "the same command again goes on" in err


def test_jobs_that_are_refused_leave_a_run_that_says_why(cluster: Paper, command: Command, data: Path) -> None:
    cluster.refuses = "invalid partition specified: gold"
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert (code, out) == (2, "") and "invalid partition specified: gold" in err
    (run,) = Path("exp/runs").iterdir()
    assert status.read(run)["state"] == "failed"


@pytest.mark.slow
def test_a_round_that_cannot_be_sent_again_names_what_is_lost(cluster: Paper, command: Command, data: Path) -> None:
    run = start(command, data)
    cluster.waiting()[0].state = "NODE_FAIL"
    cluster.refuses = "Batch job submission failed"
    cluster.all()
    record = status.read(run)
    assert (
        record["exit_status"] == 5 and "it could not be sent again: Slurm did not take the jobs" in record["reasons"][0]
    )


@pytest.mark.slow
def test_synthetic_speech_is_made_before_the_work_is_sent(cluster: Paper, command: Command) -> None:
    code, out, err = command(
        *EACH, "dataset=synthetic", "dataset.speakers=4", "dataset.utterances=2", "system=[original]"
    )
    assert code == 0, err
    run = Path(out.splitlines()[-1])
    assert {path.name for path in store(run).iterdir()} >= {"synthesise"}
    assert not any(job.code for job in cluster.all()) and status.read(run)["state"] == "done"


@pytest.mark.slow
def test_fail_fast_begins_and_sends_nothing_more(
    cluster: Paper, command: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Store, *given: object) -> object:
        raise RuntimeError("no")

    monkeypatch.setattr(Store, "commit", fails)
    run = start(command, data, "fail_fast=true")
    done = cluster.all()
    assert [job.reports for job in done].count(True) == 1 and status.read(run)["exit_status"] == 5
    assert len([one for one in paper.events(run) if one["event"] == "failed"]) == 1


@pytest.mark.parametrize("programs", [(), ("sbatch",)])
@pytest.mark.slow
def test_without_slurm_it_is_said_before_anything_is_done(
    command: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...]
) -> None:
    (tmp_path / "bin").mkdir()
    for name in programs:
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    code, out, err = command(*EACH, f"dataset.root={data}", "system=[original,b2]")
    assert (code, out) == (2, "") and "there is no Slurm here" in err and "executor=local" in err
    assert ("sbatch" in err.partition("not found")[0]) == ("sbatch" not in programs)
    assert not Path("exp").exists()
    code, _, _ = command("executor=local", f"dataset.root={data}", "system=[original,b2]")  # the remedy
    assert code == 0


def test_training_alone_is_not_sent(cluster: Paper, command: Command, data: Path) -> None:
    assert cli.run(["train", *QUICK, "executor=slurm", f"dataset.root={data}"]) == 2
    assert not cluster.jobs


@pytest.mark.parametrize("given", [(), ("RUN",), ("RUN", "1"), ("RUN", "one", "2"), ("RUN", "report", "1")])
def test_a_part_asks_for_what_it_needs(capfd: pytest.CaptureFixture[str], given: tuple[str, ...]) -> None:
    assert cli.run(["part", *given]) == 2
    assert "voice-privacy part RUN ROUND NUMBER" in capfd.readouterr().err


@pytest.mark.slow
def test_a_part_can_be_done_by_hand(cluster: Paper, command: Command, data: Path) -> None:
    run = start(command, data)
    assert cli.run(["part", str(run), "1", "0"]) == 0
    assert len(paper.done([run])) == 1
    assert cli.run(["part", str(run), "1", "99"]) == 2 and cli.run(["part", str(run), "7", "0"]) == 2
