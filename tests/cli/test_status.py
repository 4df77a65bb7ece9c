"""``status``: which run is meant, what is said of it, and how it is followed to its end. The runs are made by run folders, journals
and executors as they are in use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.cli import status as verb
from pipeline.cli.output import align_columns
from pipeline.cli.status import duration
from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.journal import Journal
from pipeline.engine.outcome import Outcome
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Resources, Task, Work
from pipeline.errors import DataError, PipelineError
from pipeline.evaluation.run_folder import RunFolder
from pipeline.processes import Owner, this_process
from pipeline.tables import status as run_status
from tests.toy import HANGS

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOICE_PRIVACY_ROOT", raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run(arguments)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunFolder]]:
    """Runs of this process, which go on until the test ends."""
    made = []

    def begin(recipe: str, root: Path = tmp_path / "exp") -> RunFolder:
        folder = RunFolder(root / "runs", recipe)
        folder.status()
        made.append(folder)
        return folder

    yield begin
    for folder in made:
        folder.close()


def writes(work: Work) -> None:
    (work.folder() / "value").write_text("x")


def breaks(work: Work) -> None:
    raise ValueError("no good\x1b[31m")


def explained(work: Work) -> None:
    raise DataError("too few speakers", remedy="add some")


def task(
    stage: str, label: str, function: Callable[[Work], None] = writes, *sources: Task, seconds: float = 0.0
) -> Task:
    inputs = {"sources": tuple(one.ref() for one in sources)}
    return Task(stage, label, function, {"label": label}, inputs, resources=Resources(seconds))


def perform(folder: RunFolder, *tasks: Task) -> PipelineError | None:
    told = Journal(folder.path, folder.path / "run.log")
    try:
        Executor(Settings()).execute(tasks, Stop(), Outcome(Store(folder.path.parents[1] / "store")), told)
    except PipelineError as error:
        return error
    return None


def test_which_run_is_meant(
    command: Command, start: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = command("status")
    assert status == 2 and "there is no run yet" in err and "--root DIR" in err
    older, newer, elsewhere = start("a"), start("b"), start("c", tmp_path / "other place")
    first = {
        (): newer,
        (older.id,): older,
        (str(older.path),): older,
        ("--root", str(tmp_path / "other place")): elsewhere,
        (f"paths.root={tmp_path / 'other place'}",): elsewhere,
    }
    for arguments, folder in first.items():
        status, out, err = command("status", *arguments)
        assert (status, err) == (0, "")
        assert out.startswith(f"run {folder.id}: running since ") and f"folder: {folder.path}\n" in out
    monkeypatch.setenv("VOICE_PRIVACY_ROOT", "other place")
    assert command("status")[1].startswith(f"run {elsewhere.id}:")
    status, out, err = command("status", "nothing-like-it")
    assert (status, out) == (2, "") and f"the newest here: {elsewhere.id}" in err
    assert command("status", "--nonsense")[0] == command("status", older.id, newer.id)[0] == 2


def test_a_run_that_failed_shows_its_table_and_each_failure(command: Command, start: Callable[..., RunFolder]) -> None:
    folder = start("kaldi")
    bad = task("anonymise", "anonymise bad 1/1", breaks, seconds=4.0)
    worse = task("check", "check the set", explained)
    good = task("extract", "extract original 1/1", seconds=8.0)
    error = perform(folder, bad, worse, task("extract", "extract bad 1/1", writes, bad, seconds=4.0), good)
    assert error is not None
    folder.last_status(state="failed", exit_status=5, reasons=[str(error)])
    status, out, _ = command("status")
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith(f"run {folder.id}: failed with exit status 5, ")
    assert [line.split() for line in lines[3:8]] == [
        ["stage", "done", "failed", "not", "run", "total"],
        ["anonymise", "0", "1", "0", "1"],
        ["check", "0", "1", "0", "1"],
        ["extract", "1", "0", "1", "2"],
        ["all", "1", "2", "1", "4"],
    ]
    assert len({len(line) for line in lines[3:8]}) == 1, "columns stand under each other"
    at = lines.index("failures: 2")
    assert lines[at + 1].startswith("  anonymise bad 1/1: ") and " (anonymise, after " in lines[at + 1]
    assert lines[at + 2].startswith("    anonymise bad 1/1 failed with ValueError: no good\\x1b[31m. ")
    trace = [line for line in lines[at:] if line.startswith("    | ")]
    assert trace[-1] == "    | ValueError: no good\\x1b[31m" and len(trace) == 5
    assert any("in breaks" in line for line in trace)
    assert lines.count(f"    log: {folder.path / 'run.log'}") == 2
    assert "    too few speakers. To mend it: add some" in lines
    assert "8 of 16 s of audio done" in out and "time left" not in out and "running now" not in out


def test_what_ended_a_run_without_a_failed_task_is_said(command: Command, start: Callable[..., RunFolder]) -> None:
    folder = start("kaldi")
    folder.last_status(state="failed", exit_status=3, reasons=["the data set has 2 faults.\n  - one\n  - two"])
    status, out, _ = command("status")
    assert status == 0 and out.endswith("no tasks are known of it\n\nthe data set has 2 faults.\n  - one\n  - two\n")


def test_a_run_without_its_record_is_not_waited_for(command: Command, start: Callable[..., RunFolder]) -> None:
    """A folder that just begins has none yet; one that nobody writes to any more never will."""
    folder = start("kaldi")
    perform(folder, task("extract", "good one"))
    (folder.path / "status.json").unlink()
    assert f"run {folder.id}: it begins; its record is not written yet" in command("status")[1]
    os.utime(folder.path / "run.log", (10**9, 10**9))
    for more in ((), ("--follow",)):
        status, out, _ = command("status", *more)
        assert status == (1 if more else 0) and "status.json is not there" in out
        assert "its last sign of life was at 2001-09-09T01:46:40Z" in out


def test_a_record_that_is_damaged_is_said_to_be(command: Command, start: Callable[..., RunFolder]) -> None:
    folder = start("kaldi")
    perform(folder, task("extract", "one"), task("extract", "two"))
    folder.last_status(state="done", exit_status=0)
    (folder.path / "digests.json").touch()
    (folder.path / "status.json").write_text("")
    assert f"run {folder.id}: it has ended; its status.json is not what was written\n" in command("status")[1]


def test_everything_as_json(command: Command, start: Callable[..., RunFolder]) -> None:
    folder = start("kaldi")
    bad = task("anonymise", "bad", breaks)
    perform(folder, bad, task("extract", "on bad", writes, bad, seconds=2.0), task("extract", "good", seconds=1.0))
    status, out, _ = command("status", "--json")
    told = json.loads(out)
    assert (status, told["run"], told["over"], told["record"]["state"]) == (0, folder.id, False, "running")
    assert {one["label"]: one["state"] for one in told["tasks"]} == {
        "bad": "failed",
        "on bad": "skipped",
        "good": "done",
    }
    assert told["stages"]["extract"]["done"] == 1 and told["stages"]["extract"]["not run"] == 1
    assert told["audio_seconds"] == {"done": 1.0, "total": 3.0}


def test_a_run_is_followed_to_its_end(
    command: Command, start: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait of the one who follows is a step of the run: nothing, a task that is done, one that fails, the end."""
    folder = start("kaldi")
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: perform(folder, task("extract", "good one")),
        lambda: None,
        lambda: perform(folder, task("extract", "good one"), task("extract", "bad one", breaks)),
        lambda: folder.last_status(state="failed", exit_status=3, reasons=["x"]),
    ]
    monkeypatch.setattr(verb.time, "sleep", lambda seconds: steps.pop(0)())
    status, out, _ = command("status", "--follow")
    assert status == 3 and not steps
    end = out[out.rindex("run 20") :]
    assert end.startswith(f"run {folder.id}: failed with exit status 3") and "    | ValueError: no good" in end
    said = [line.partition("Z ")[2] for line in out[: -len(end)].splitlines()]
    assert said[0] == "its tasks are not known yet" and len(said) == 3
    assert said[1].startswith("1 of 1 tasks done (0 reused), ")
    assert said[2].startswith("1 of 2 tasks done (0 reused), 1 failed, ")


def test_slurm_is_asked_about_the_jobs_of_a_run(
    command: Command, start: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    rows = [("12_0", "COMPLETED"), ("12_1", "RUNNING"), ("12_2", "RUNNING"), ("13", "PENDING")]
    printed = "".join(f"{job:40}{state:30}{0:<20}\n" for job, state in rows)
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert '--jobs=12,13' in sys.argv\nprint({printed!r}, end='')\n"
    )
    program.chmod(0o755)
    folder = start("kaldi")
    (folder.path / run_status.JOBS_FOLDER).mkdir()
    run_status.write_sent_jobs(folder.path, 1, [job for job, _ in rows])
    monkeypatch.setenv("PATH", str(program.parent))
    status, out, _ = command("status")
    assert status == 0
    said = "jobs of Slurm: 12 13 (13 gathers and reports when the others have ended)"
    assert f"{said}\n  12: 1 COMPLETED, 2 RUNNING\n  13: 1 PENDING\nto end it: scancel 12 13\n" in out
    assert json.loads(command("status", "--json")[1])["sent"] == [job for job, _ in rows]
    program.unlink()
    assert "  Slurm does not answer here (" in command("status")[1]


KILLED = """
import sys
from pathlib import Path
from tests.cli.test_status import perform, task
from pipeline.evaluation.run_folder import RunFolder

folder = RunFolder(Path(sys.argv[1]) / "runs", "kaldi")
folder.status()

def held(work):
    print(folder.id, flush=True)
    sys.stdin.readline()

perform(folder, task("extract", "one"), task("extract", "two", held), task("extract", "three"))
"""


def test_a_run_of_another_process_is_seen_and_so_is_its_death(command: Command, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "exp")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )  # fmt: skip
    assert run.stdout is not None
    name = run.stdout.readline().strip()
    _, out, _ = command("status")
    assert out.startswith(f"run {name}: running since ") and "running now:\n  two: " in out
    assert f", process {run.pid}, for " in out and "time left: about " in out
    run.kill()
    run.wait(timeout=HANGS)
    status, out, _ = command("status")
    assert status == 0 and out.startswith(f"run {name}: killed, ") and "running now" not in out
    assert [line.split() for line in out.splitlines() if line.startswith(("stage", "all"))] == [
        ["stage", "done", "not", "begun", "failed", "interrupted", "total"],
        ["all", "1", "1", "0", "1", "3"],
    ]
    assert "the same command again goes on" in out
    assert command("status", "--follow")[0] == 137


@pytest.mark.parametrize(
    ("host", "quiet", "state"),
    [(this_process().host, 300.0, "killed"), (this_process().host, 0.0, "running"), ("another", 300.0, "running")],
    ids=["this machine", "another machine of its name", "another machine"],
)
def test_a_run_from_before_the_machine_was_restarted_was_killed(
    host: str, quiet: float, state: str, command: Command, start: Callable[..., RunFolder]
) -> None:
    """A process that still gives signs of life runs on another machine, whatever that is called."""
    folder = start("kaldi")
    folder.close()
    record = run_status.read(folder.path)
    boot = "1@00000000-0000-0000-0000-000000000000.1"
    run_status.write(folder.path, {**record, "state": "running", "process": Owner(host, 7, boot).plain()})
    for path in (folder.path / run_status.FILE, folder.path / run_status.LOG):
        if path.exists():
            os.utime(path, (time.time() - quiet,) * 2)
    _, out, _ = command("status")
    assert out.startswith(f"run {folder.id}: {state}")
    assert ("within a minute after: " + host + " was restarted; the same command again goes on" in out) == (
        state == "killed"
    )


def test_nothing_heavy_is_imported(start: Callable[..., RunFolder], tmp_path: Path) -> None:
    perform(start("kaldi"), task("extract", "one", seconds=2.0))
    code = f"""
import sys
from pipeline import cli
assert cli.run(["status", "--root", {str(tmp_path / "exp")!r}]) == 0
heavy = {{"torch", "pandas", "hydra", "omegaconf", "pyarrow", "scipy", "pydantic", "soundfile", "librosa", "matplotlib", "rich"}}
print(sorted(heavy & {{name.partition(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANGS)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[-1] == ["[]"] and ["extract", "1", "0", "0", "0", "1"] in lines


def test_small_words() -> None:
    told = [duration(seconds) for seconds in (-3, 0.4, 59.6, 61, 299, 301, 3600, 11_100, 90_000)]
    assert told == ["0 s", "0 s", "1 min", "1 min 1 s", "4 min 59 s", "5 min 1 s", "1 h", "3 h 5 min", "1 d 1 h"]
    assert align_columns([["a", "bb"], ["ccc", "1"]], numbers=True) == ["a    bb", "ccc   1"]
