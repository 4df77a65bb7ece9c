"""The state of each task, from journals that real executors write: while they write, after a kill, and with clocks that jump."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.engine import journal, journal_reader
from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.journal import Journal, shorten_id
from pipeline.engine.journal_reader import Journals, Snapshot, TaskState
from pipeline.engine.outcome import Outcome
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Resources, Task, Work
from pipeline.errors import DataError, PipelineError
from tests.toy import HANGS

ROOT = Path(__file__).resolve().parents[2]


def writes(work: Work) -> None:
    (work.folder() / "value").write_text("x")


def leaf(number: int, function: Callable[[Work], None] = writes, seconds: float = 0.0, stage: str = "leaf") -> Task:
    return Task(stage, f"{stage} {number}", function, {"n": number}, resources=Resources(seconds))


def on(source: Task, label: str) -> Task:
    return Task("join", label, writes, {"label": label}, {"source": source.ref()})


def perform(tasks: Sequence[Task], run: Path, stop: Stop | None = None, fail_fast: bool = False) -> Journal:
    run.mkdir(exist_ok=True)
    told = Journal(run, run / "run.log")
    Executor(Settings()).execute(tasks, stop or Stop(), Outcome(Store(run.parent / "store")), told, fail_fast)
    return told


def states(look: Snapshot) -> dict[str, str]:
    return {task.label: task.state for task in look.tasks}


def test_each_end_of_a_task_is_told(tmp_path: Path) -> None:
    def explained(work: Work) -> None:
        raise DataError("too few", remedy="add some")

    def breaks(work: Work) -> None:
        raise ValueError("no good")

    run = tmp_path / "run"
    perform([leaf(0)], tmp_path / "before")
    bad, worse = leaf(1, explained), leaf(2, breaks)
    with pytest.raises(PipelineError):
        perform([leaf(0), bad, worse, leaf(3, seconds=2.5), on(bad, "on bad")], run)
    look = Journals(run).look()
    assert states(look) == {
        "leaf 0": "reused",
        "leaf 1": "failed",
        "leaf 2": "failed",
        "leaf 3": "done",
        "on bad": "skipped",
    }
    assert look.by_stage() == {"leaf": {"reused": 1, "failed": 2, "done": 1}, "join": {"skipped": 1}}
    assert look.audio() == (2.5, 2.5)
    first, second = look.of("failed")
    assert first.failure.error == "too few. To mend it: add some" and first.failure.trace == ""
    assert (
        second.failure.trace.splitlines()[-1] == "ValueError: no good"
        and 'raise ValueError("no good")' in second.failure.trace
    )
    assert second.failure.log == str(run / "run.log") and second.id == shorten_id(worse)


def test_what_fail_fast_did_not_begin_waits_and_what_a_signal_broke_off_is_lost(tmp_path: Path) -> None:
    def breaks(work: Work) -> None:
        raise ValueError("no good")

    stop = Stop()

    def stopped(work: Work) -> None:
        stop.number = 15
        assert work.stopping()

    with pytest.raises(PipelineError):
        perform([leaf(0, breaks), leaf(1)], tmp_path / "fast", fail_fast=True)
    assert states(Journals(tmp_path / "fast").look()) == {"leaf 0": "failed", "leaf 1": "waiting"}
    with pytest.raises(Stopped):
        perform([leaf(0, stopped), leaf(1)], tmp_path / "stopped", stop)
    assert states(Journals(tmp_path / "stopped").look()) == {"leaf 0": "lost", "leaf 1": "waiting"}


def test_a_task_that_is_done_at_the_second_try_is_done_and_waits_in_between(tmp_path: Path) -> None:
    tries: list[dict[str, str]] = []

    def second(work: Work) -> None:
        tries.append(states(reader.look()))
        if len(tries) == 1:
            raise ValueError("not yet")
        writes(work)

    run = tmp_path / "run"
    reader, tasks = Journals(run), [leaf(0), leaf(1, second)]
    with pytest.raises(PipelineError):
        perform([*tasks, on(tasks[1], "join")], run)
    assert states(reader.look()) == {"leaf 0": "done", "leaf 1": "failed", "join": "skipped"}
    perform([*tasks, on(tasks[1], "join")], run)
    assert tries == [
        {"leaf 0": "done", "leaf 1": "running", "join": "waiting"},
        {"leaf 0": "done", "leaf 1": "running", "join": "waiting"},
    ]
    look = reader.look()
    assert states(look) == {"leaf 0": "done", "leaf 1": "done", "join": "done"}
    assert not any(task.failure.error or task.failure.trace for task in look.tasks)


HELD = """
import sys
from pathlib import Path
from pipeline.engine.task import Task
from tests.engine.test_journal_reader import leaf, on, perform, writes

def held(work):
    print("working", flush=True)
    sys.stdin.readline()
    writes(work)

def breaks(work):
    raise ValueError("in the other process")

perform([leaf(0, seconds=1.0), leaf(1, held, seconds=2.0), leaf(2, breaks), leaf(3)], Path(sys.argv[1]))
"""


def test_a_killed_process_has_no_running_task_and_another_one_does_its_work(tmp_path: Path) -> None:
    run = tmp_path / "run"
    other = subprocess.Popen(
        [sys.executable, "-c", HELD, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert other.stdout is not None
    other.stdout.readline()
    reader = Journals(run)
    look = reader.look()
    assert states(look) == {"leaf 0": "done", "leaf 1": "running", "leaf 2": "waiting", "leaf 3": "waiting"}
    (running,) = look.of("running")
    assert (running.performer.pid, running.took >= 0, look.processes[0].over) == (other.pid, True, False)
    assert states(reader.look(over=True))["leaf 1"] == "lost", (
        "whatever a process says, in a run that ended nothing runs"
    )
    other.kill()
    other.wait(timeout=HANGS)
    look = reader.look()
    assert states(look)["leaf 1"] == "lost" and look.processes[0].over

    during: list[dict[str, str]] = []

    def function(work: Work) -> None:
        during.append(states(reader.look()))
        writes(work)

    perform([leaf(0, seconds=1.0), leaf(1, function, seconds=2.0), leaf(2)], run)
    assert during[0] == {"leaf 0": "done", "leaf 1": "running", "leaf 2": "waiting", "leaf 3": "waiting"}
    look = reader.look()
    assert states(look) == {"leaf 0": "done", "leaf 1": "done", "leaf 2": "done", "leaf 3": "waiting"}
    by_label = {task.label: task for task in look.tasks}
    assert by_label["leaf 0"].performer.pid == other.pid, "the one that made it, not the one that found it"
    assert by_label["leaf 1"].performer.pid != other.pid and by_label["leaf 3"].performer.pid == 0
    assert len(look.processes) == 2


def test_a_job_that_slurm_has_ended_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "12")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    seen: list[dict[str, str]] = []
    reader = Journals(tmp_path / "run")

    def function(work: Work) -> None:
        seen.extend(states(reader.look(ended_jobs=jobs)) for jobs in ([], ["12_2"], ["12_3"]))
        writes(work)

    perform([leaf(0, function)], tmp_path / "run")
    assert [one["leaf 0"] for one in seen] == ["running", "running", "lost"]


def test_every_beginning_of_a_journal_can_be_read_and_what_is_added_is_taken_in_once(tmp_path: Path) -> None:
    def breaks(work: Work) -> None:
        raise ValueError("no good: \u00fc")

    bad = leaf(1, breaks, seconds=3.0)
    with pytest.raises(PipelineError):
        perform([leaf(0, seconds=2.0), bad, on(bad, "join"), leaf(2, seconds=1.0)], tmp_path / "run")
    (whole,) = (tmp_path / "run" / "tasks").iterdir()
    content, copy = whole.read_bytes(), tmp_path / "copy" / "tasks" / whole.name
    reader = Journals(tmp_path / "copy")
    assert reader.look() == Snapshot()
    copy.parent.mkdir(parents=True)
    shown = []
    for end in [*range(0, len(content), 7), len(content)]:
        copy.write_bytes(content[:end])
        look = reader.look()
        assert [task.state for task in look.tasks] == [task.state for task in Journals(tmp_path / "copy").look().tasks]
        shown.append(len(look.of("done", "failed", "skipped")))
    assert shown == sorted(shown) and shown[-1] == 4
    assert sum(audio for _, _, audio in look.gains) == 3.0
    # A line that a full disk has cut off, with the next one behind it: the two are lost, the others are not.
    lines = content.splitlines(keepends=True)
    spoilt = next(i for i, line in enumerate(lines) if json.loads(line)["event"] == "begin")
    copy.write_bytes(
        b"".join([*lines[:spoilt], lines[spoilt][:20], *lines[spoilt + 1 :], b"[1]\n", b'{"event": "done"}\n'])
    )
    again = Journals(tmp_path / "copy").look()
    assert states(again) == {"leaf 0": "waiting", "leaf 1": "failed", "join": "skipped", "leaf 2": "done"}


@dataclass
class Clock:
    """Two clocks: the one that people set, and the one that only goes on."""

    now: float = 1_000_000.0
    steady: float = 50.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.steady

    def go(self, seconds: float) -> None:
        self.now, self.steady = self.now + seconds, self.steady + seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(journal, "time", made)
    monkeypatch.setattr(journal_reader, "time", made)
    return made


@pytest.mark.parametrize("jump", [0.0, -3600.0])
def test_rate_and_time_left_have_a_closed_form(tmp_path: Path, clock: Clock, jump: float) -> None:
    """Each task has 100 s of audio in 10 s; the last is seen half way, with three more of the stage and two of an unknown one."""
    looks: list[Snapshot] = []
    reader = Journals(tmp_path / "run")

    def ten(work: Work) -> None:
        clock.go(10.0)
        writes(work)

    def jumps(work: Work) -> None:
        clock.go(10.0)
        clock.now += jump
        writes(work)

    def half(work: Work) -> None:
        clock.go(5.0)
        looks.append(reader.look())
        writes(work)

    done = [leaf(n, jumps if n == 30 else ten, 100.0) for n in range(40)]
    rest = [leaf(n, seconds=100.0) for n in range(41, 44)]
    others = [leaf(n, stage="train") for n in range(2)]
    perform([*done, leaf(40, half, 100.0), *rest, *others], tmp_path / "run")
    (look,) = looks
    # Over the last 300 s: 295 of work that is done, 10 x real time, and 5 of which nothing has been told yet. Where the clock was set
    # back, the 10 s of that task are none by the clock, and its audio is done all the same.
    assert look.rate() == pytest.approx(10 * (305 if jump else 295) / 300)
    assert look.left() == (pytest.approx(5 + 30), ("train",))
    (running,) = look.of("running")
    assert running.took == pytest.approx(5.0)
    assert all(start >= end >= 0 for start, end, _ in look.gains)
    assert all(task.took >= 0 for task in look.tasks)


def test_audio_within_a_task_counts_before_it_ends(tmp_path: Path, clock: Clock) -> None:
    looks: list[Snapshot] = []
    reader = Journals(tmp_path / "run")

    def slow(work: Work) -> None:
        looks.append(reader.look())
        for _ in range(40):
            clock.go(5.0)
            work.advance(10.0)
        looks.append(reader.look())
        writes(work)

    perform([leaf(0, slow, 400.0)], tmp_path / "run")
    before, after = looks
    assert (before.rate(), before.left()) == (None, (None, ("leaf",)))
    assert after.audio() == (400.0, 400.0) and after.of("running")[0].advanced == 400.0
    assert after.rate() == pytest.approx(2.0)
    lines = [json.loads(line) for line in next((tmp_path / "run" / "tasks").iterdir()).read_text().splitlines()]
    assert sum(one["event"] == "advanced" for one in lines) == 20, "every ten seconds at most"
    assert sum(audio for _, _, audio in reader.look().gains) == 400.0


def test_expectations_of_earlier_runs_stand_in_until_there_is_something_better(tmp_path: Path, clock: Clock) -> None:
    looks: list[Snapshot] = []
    run = tmp_path / "run"
    run.mkdir()

    def function(work: Work) -> None:
        looks.append(Journals(run).look())
        clock.go(4.0)
        writes(work)

    told = Journal(run, run / "run.log", lambda task: 7.0 if task.name == "leaf" else None)
    tasks = [leaf(n, function) for n in range(3)]
    Executor(Settings()).execute([*tasks, leaf(9, stage="train")], Stop(), Outcome(Store(tmp_path / "store")), told)
    assert [look.left() for look in looks] == [(21.0, ("train",)), (8.0, ("train",)), (4.0, ("train",))]
    assert Journals(run).look().left() == (None, ())


def test_a_task_of_no_known_plan_is_still_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    perform([leaf(0)], run)
    (path,) = (run / "tasks").iterdir()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    (task,) = Journals(run).look().tasks
    assert (task.id, task.stage, task.state) == (shorten_id(leaf(0)), "?", "done")
    assert isinstance(task, TaskState)
