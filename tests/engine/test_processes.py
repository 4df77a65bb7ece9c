"""Worker processes: the same results as one process, and what becomes of a run whose workers, or which itself, are killed."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.engine import pool
from pipeline.engine import stop as stops
from pipeline.engine.executors import local, processes
from pipeline.engine.outcome import Outcome
from pipeline.engine.pool import Gpu
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Resources, Task
from pipeline.errors import ConfigError, DataError, PipelineError, StageFailed
from tests.engine import labour
from tests.engine.labour import gone, join, leaf, until
from tests.toy import HANGS

ROOT = Path(__file__).resolve().parents[2]


class Told(Progress):
    """Keeps what an executor says."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, ...]] = []
        self.traces: dict[str, str] = {}

    def begin(self, task: Task, where: str = "") -> None:
        self.events.append(("begin", task.label, where))

    def advance(self, task: Task, seconds: float) -> None:
        self.events.append(("advance", task.label, str(seconds)))

    def end(self, task: Task, computed: bool) -> None:
        super().end(task, computed)
        self.events.append(("end", task.label, "computed" if computed else "reused"))

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        self.events.append(("fail", task.label))
        self.traces[task.label] = trace

    def skip(self, task: Task) -> None:
        self.events.append(("skip", task.label))

    def finish(self) -> None:
        self.events.append(("finish",))

    def of(self, kind: str) -> list[str]:
        return [event[1] for event in self.events if event[0] == kind]


def run(
    tasks: Sequence[Task],
    root: Path,
    told: Progress | None = None,
    stop: Stop | None = None,
    workers: int = 2,
    fail_fast: bool = False,
    outcome: Outcome | None = None,
    device: str = "cpu",
) -> Outcome:
    outcome = outcome or Outcome(Store(root))
    settings = processes.Settings(workers=workers)
    processes.Executor(settings, device).execute(tasks, stop or Stop(), outcome, told or Progress(), fail_fast)
    return outcome


def value(outcome: Outcome, task: Task) -> str:
    return outcome.artefact(task.ref()).path("value").read_text()


def graph() -> list[Task]:
    leaves = [leaf(str(number), labour.says, str(number)) for number in range(5)]
    return [*leaves, join("evens", *leaves[::2]), join("all", *leaves)]


def test_results_are_those_of_one_process_and_a_finished_run_starts_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, told = graph(), Told()
    alone = Outcome(Store(tmp_path / "alone"))
    local.Executor(local.Settings()).execute(tasks, Stop(), alone, Progress())
    several = run(tasks, tmp_path / "several", told)
    assert (several.reused, several.computed) == (0, 7) and value(several, tasks[-1]) == "0+1+2+3+4"
    assert {place: one.digest for place, one in several.artefacts.items()} == {
        place: one.digest for place, one in alone.artefacts.items()
    }
    assert {one.key for one in several.artefacts.values()} == {one.key for one in alone.artefacts.values()}
    assert [task.label for task in several.done()] == told.of("end") and told.events[-1] == ("finish",)
    assert {event[2] for event in told.events if event[0] == "begin"} <= {"worker 1", "worker 2"}
    assert told.tasks_done == 7 and not multiprocessing.active_children()

    monkeypatch.setattr(pool, "ProcessPoolExecutor", None)
    again, told = run(tasks, tmp_path / "several"), Told()
    assert (again.reused, again.computed) == (7, 0)
    run(tasks, tmp_path / "several", told)
    assert told.of("end") == [event[1] for event in told.events[:-1]]


def test_tasks_go_on_at_once_as_soon_as_their_inputs_are_there(tmp_path: Path) -> None:
    """Each waits until the other has begun: one after the other they would not end. One that stands on the first does not wait for
    the third, which ends only with it."""
    first, second = (leaf(a, labour.meets, tmp_path, a, b) for a, b in (("a", "b"), ("b", "a")))
    third = leaf("long", labour.meets, tmp_path, "long", "on a")
    on_first = Task("join", "on a", labour.functools.partial(labour.meets, tmp_path, "on a", "a"), {}, {"sources": (first.ref(),)})  # fmt: skip
    assert run([first, second, third, on_first], tmp_path / "store", workers=2).computed == 4


def test_failures_are_named_with_their_traceback_and_the_rest_is_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good, told = leaf("bad", labour.fails), leaf("good", labour.says, "fine"), Told()
    with pytest.raises(StageFailed, match="bad failed with ValueError: no good") as caught:
        run([bad, join("on bad", bad), join("on both", bad, good), good], tmp_path, told, workers=1)
    assert [fault.where for fault in caught.value.faults] == ["on bad, on both"]
    assert told.of("skip") == ["on bad", "on both"] and told.of("end") == ["good"]
    assert "in fails" in told.traces["bad"] and "ValueError: no good" in told.traces["bad"]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "bad failed with ValueError: no good", "a traceback goes into the log alone"
    assert "ValueError: no good" in logging.Formatter().format(record)

    told = Told()
    with pytest.raises(DataError, match="too few speakers"):
        run([leaf("bad", labour.explains)], tmp_path, told, workers=1)
    assert told.traces == {"bad": ""}


def test_a_worker_that_is_killed_costs_its_task_alone_which_is_tried_once_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [leaf("dies", labour.dies, 1, tmp_path), leaf("good", labour.says, "fine")]
    outcome = run([*tasks, join("both", *tasks)], tmp_path / "store")
    assert outcome.computed == 3 and value(outcome, tasks[0]) == "alive"
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) == 1
    assert "was killed by SIGKILL in the middle of dies, which is tried once more" in said[0]


def test_what_kills_two_workers_is_named_and_its_remedy_helps(tmp_path: Path) -> None:
    tasks = [leaf(name, labour.needs_room, tmp_path, number=n) for n, name in enumerate(("big", "huge"))]
    good = leaf("good", labour.says, "fine")
    (tmp_path / "two workers").touch()
    with pytest.raises(
        StageFailed, match="its worker process was killed by SIGKILL, and a second one ended so too"
    ) as caught:
        run([*tasks, good], tmp_path / "store", workers=2)
    assert "not enough memory" in caught.value.cause and "executor.workers=1" in caught.value.remedy
    (tmp_path / "two workers").unlink()
    for died in tmp_path.glob("died-*"):
        died.unlink()
    outcome = run([*tasks, good], tmp_path / "store", workers=1)
    assert (outcome.reused, outcome.computed) == (2, 1)


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="the system does not say how much memory is taken")
@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_runs_out_of_memory_is_replaced_and_its_task_tried_once_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    tasks = [leaf("big", labour.fills, times, tmp_path), leaf("good", labour.says, "fine")]
    if times == 1:
        assert value(run(tasks, tmp_path / "store", workers=1), tasks[0]) == "enough"
    else:
        with pytest.raises(StageFailed, match="big failed: not enough memory") as caught:
            run(tasks, tmp_path / "store", workers=1)
        assert "MemoryError" in caught.value.where and "executor.workers=1" in caught.value.remedy
        assert "big failed: not enough memory" in caplog.text
        assert run(tasks, tmp_path / "store", workers=1).computed == 1, "the other one was done"
    assert caplog.text.count("worker 1 ran out of memory in the middle of big, which is tried once more") == 1
    assert len({one.read_text() for one in tmp_path.glob("filled-*")}) == times, "a fresh process each time"


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_replaced(tmp_path: Path) -> None:
    first = leaf("first", labour.of_this_process)
    second = join("second", first)

    class Kills(Told):
        def end(self, task: Task, computed: bool) -> None:
            super().end(task, computed)
            if task is first:
                number = int(value(outcome, first).split()[0])
                os.kill(number, signal.SIGKILL)
                until(lambda: gone(number))

    outcome = Outcome(Store(tmp_path))
    run([first, second], tmp_path, Kills(), workers=1, outcome=outcome)
    assert outcome.computed == 2


def test_what_workers_say_reaches_the_log_and_the_bar_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pipeline")
    talking, told = [leaf(a, labour.talks, tmp_path, a, b) for a, b in (("a", "b"), ("b", "a"))], Told()
    with pytest.warns(UserWarning, match="an old name") as warned:
        run(talking, tmp_path / "store", told)
    said = sorted(one.getMessage() for one in caplog.records if one.name == "pipeline.tests.labour")
    assert said == ["said by a", "said by all", "said by b"]
    assert len(warned) == 1
    assert sorted(event for event in told.events if event[0] == "advance") == [
        ("advance", "a", "2.5"),
        ("advance", "b", "2.5"),
    ]


@pytest.mark.parametrize("fast", [True, False])
def test_fail_fast_begins_nothing_more_and_asks_what_is_in_flight_to_stop(tmp_path: Path, fast: bool) -> None:
    """Without it the one that waits would be waited for."""
    bad, later, told = leaf("bad", labour.fails), leaf("later", labour.says, "x"), Told()
    on_bad = join("on bad", bad)
    in_flight = leaf("in flight", labour.meets, tmp_path, "meets", "meets") if not fast else leaf("in flight", labour.waits, tmp_path)  # fmt: skip
    with pytest.raises(StageFailed, match="bad failed") as caught:
        run([in_flight, bad, on_bad, later], tmp_path / "store", told, fail_fast=fast)
    if fast:
        assert told.of("skip") == ["on bad"] and set(told.of("end")) <= {"later"}
        stood, waited = caught.value.faults
        assert stood.where == "on bad" and stood.what.startswith("not run, because")
        assert waited.where.startswith("in flight") and waited.what.startswith("not begun, because fail_fast=true")
    else:
        assert told.of("skip") == ["on bad"] and sorted(told.of("end")) == ["in flight", "later"]
    assert not multiprocessing.active_children()


def test_what_does_not_heed_fail_fast_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "GRACE_SECONDS", 0.0)
    in_flight = leaf("in flight", labour.finishes, tmp_path)
    bad = Task("bad", "bad", labour.fails, {}, {"on": (leaf("other", labour.says, "x").ref(),)})
    with pytest.raises(StageFailed, match="bad failed"):
        run([in_flight, bad.sources()[0].task, bad], tmp_path / "store", fail_fast=True)
    assert not multiprocessing.active_children()


def test_a_damaged_source_is_made_again_and_so_is_what_stands_on_other_content(tmp_path: Path) -> None:
    place = tmp_path / "given"
    place.write_text("one")
    source = leaf("source", labour.content_of, place)
    other = join("other", source)
    end = Task("join", "end", labour.joins, {"end": 1}, {"sources": (source.ref(), other.ref())})
    before = run([source, other, end], tmp_path / "store", workers=1)
    assert value(before, end) == "one+one"
    place.write_text("two")
    before.artefact(source.ref()).path("value").write_text("0ne")
    shutil.rmtree(before.artefact(end.ref()).place)
    told = Told()
    outcome = run([source, other, end], tmp_path / "store", told, workers=1)
    assert value(outcome, end) == "two+two" and value(outcome, other) == "two"
    assert (outcome.reused, outcome.computed) == (0, 3)
    assert told.of("end") == ["source", "other", "end"]


def test_a_source_that_vanishes_while_a_run_goes_on_is_made_again(tmp_path: Path) -> None:
    first, second = leaf("first", labour.says, "one"), leaf("second", labour.says, "two")

    class Removes(Told):
        def end(self, task: Task, computed: bool) -> None:
            super().end(task, computed)
            if self.of("end") == ["first", "second"] or self.of("end") == ["second", "first"]:
                shutil.rmtree(outcome.artefact(first.ref()).place)

    told, outcome = Removes(), Outcome(Store(tmp_path))
    end = join("end", first, second)
    run([first, second, end], tmp_path, told, workers=1, outcome=outcome)
    assert value(outcome, end) == "one+two" and value(outcome, first) == "one"
    assert outcome.computed == 3 and sorted(told.of("end")) == ["end", "first", "second"]


def test_a_worker_of_a_pool_that_may_start_no_processes_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"inside a worker of a multiprocessing\.Pool") as caught:
        run([leaf("x", labour.says, "x")], tmp_path)
    assert "executor=local" in caught.value.remedy


def test_tasks_that_no_other_process_can_have_are_refused_with_a_remedy(tmp_path: Path) -> None:
    def inside(work: object) -> None: ...

    with pytest.raises(ConfigError, match="cannot be sent to a worker process") as caught:
        run([leaf("inside", inside)], tmp_path)
    assert "executor=local" in caught.value.remedy


def test_where_no_worker_can_be_started_that_is_said_and_fewer_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, count = pool.ProcessPoolExecutor, [0]

    def refuses(*given: object) -> object:
        count[0] += 1
        if count[0] > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pool, "ProcessPoolExecutor", refuses)
    allowed = 1
    assert run([leaf(str(n), labour.says, str(n)) for n in range(4)], tmp_path, workers=3).computed == 4
    assert caplog.text.count("no more than 1 worker processes can be started (/dev/shm is full") == 1
    allowed = 0
    with pytest.raises(StageFailed, match="no worker process can be started: No space left") as caught:
        run([leaf("x", labour.says, "x")], tmp_path)
    assert "executor=local" in caught.value.remedy


FEW_FILES = """
import os, resource, sys
from pathlib import Path
from pipeline.engine.executors.processes import FILES, Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from tests.engine import labour
from tests.engine.labour import join, leaf

class Told(Progress):
    where = set()
    def begin(self, task, where=""):
        self.where.add(where)

folder, told = Path(sys.argv[1]), Told()
limit = len(os.listdir("/proc/self/fd")) + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
# Each of the first two waits for the other; with more than two workers the rest would begin beside them.
tasks = [leaf(a, labour.meets, folder, a, b) for a, b in (("a", "b"), ("b", "a"))]
tasks += [leaf(str(n), labour.says, str(n)) for n in range(4)]
outcome = Outcome(Store(folder / "store"))
Executor(Settings(workers=6)).execute([*tasks, join("all", *tasks)], Stop(), outcome, told)
print(outcome.computed, len(told.where))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not say how many files are open")
def test_no_more_workers_are_started_than_leave_this_process_files_to_open(tmp_path: Path) -> None:
    """It needs some for the store: 64 left, a worker takes about nine."""
    done = subprocess.run(
        [sys.executable, "-c", FEW_FILES, str(tmp_path), "77"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "7 2\n"), done.stderr
    assert done.stderr.count("no more than 2 worker processes can be started") == 1 and "ulimit -n" in done.stderr


def test_where_no_worker_with_a_gpu_can_be_started_the_others_do_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They see a GPU as well. The first task takes the one worker there is to be had, and has no GPU."""
    real, count = pool.ProcessPoolExecutor, [0]

    def refuses(*given: object) -> object:
        count[0] += 1
        if count[0] > 1:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pool, "ProcessPoolExecutor", refuses)
    monkeypatch.setattr(pool, "count_gpus", lambda: 2)
    first = leaf("first", labour.says, "one")
    on_gpu = Task("join", "gpu", labour.joins, {}, {"sources": (first.ref(),)}, resources=Resources(1.0, True))
    told, outcome = Told(), Outcome(Store(tmp_path))
    processes.Executor(processes.Settings(beside=1), "cuda").execute([first, on_gpu], Stop(), outcome, told)
    assert told.of("end") == ["first", "gpu"] and {event[2] for event in told.events if event[0] == "begin"} == {
        "worker 3"
    }
    assert "no more than 1 worker processes can be started (this user may have no more processes" in caplog.text


# Which workers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "visible", "count", "expected"),
    [
        ("cpu", "0,1", 2, []),
        ("cuda", None, 2, [("cuda:0", "0"), ("cuda:1", "1")]),
        ("cuda", "3, 5", 2, [("cuda:0", "3"), ("cuda:1", "5")]),
        ("cuda", "GPU-8a,MIG-7b", 2, [("cuda:0", "GPU-8a"), ("cuda:1", "MIG-7b")]),
        ("cuda", "0,1,7", 2, [("cuda:0", "0"), ("cuda:1", "1")]),
        ("cuda:1", "3,5", 2, [("cuda:1", None)]),
    ],
)
def test_gpus(device: str, visible: str | None, count: int, expected: list[tuple[str, str | None]]) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert pool.list_gpus(device, environment, lambda: count) == [Gpu(*one) for one in expected]


@pytest.mark.parametrize(
    ("asked", "beside", "found", "cores", "expected", "threads"),
    [
        (None, None, 0, 1, (0, 1), 1),
        (None, None, 0, 9, (0, 4), 2),
        (3, 5, 0, 9, (0, 3), 3),
        (None, None, 8, 64, (8, 24), 2),
        (None, None, 8, 8, (8, 1), 1),
        (4, 0, 2, 8, (4, 0), 2),
    ],
)
def test_seats_and_threads(
    asked: int | None, beside: int | None, found: int, cores: int, expected: tuple[int, int], threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    there = [Gpu(f"cuda:{n}", str(n)) for n in range(found)]
    made = pool.plan_places(asked, beside, there, cores)
    assert (sum(one.device for one in made), sum(not one.device for one in made)) == expected
    assert [one.number for one in made] == list(range(1, len(made) + 1))
    for place, one in enumerate(made):
        assert one.environment.get("CUDA_VISIBLE_DEVICES") == (str(place % found) if found else None)
    monkeypatch.setattr(pool, "count_gpus", lambda: found)
    executor = processes.Executor(processes.Settings(workers=asked, beside=beside), "cuda" if found else "cpu")
    assert executor.threads(cores) == threads


def test_tasks_for_a_gpu_have_one_each_and_the_rest_goes_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "count_gpus", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    meeting = [leaf(a, labour.meets, tmp_path, a, b, device=True) for a, b in (("a", "b"), ("b", "a"))]
    after = [leaf(f"gpu {one.label}", labour.of_this_process, device=True) for one in meeting]
    beside, told, outcome = leaf("beside", labour.of_this_process), Told(), Outcome(Store(tmp_path / "store"))
    settings = processes.Settings(beside=1)
    processes.Executor(settings, "cuda").execute([*meeting, *after, beside], Stop(), outcome, told)
    where = {event[1]: event[2] for event in told.events if event[0] == "begin"}
    assert {where["a"], where["b"]} == {"worker 1, cuda:0", "worker 2, cuda:1"}
    assert where["beside"] == "worker 3"
    seen = {"worker 1, cuda:0": "GPU-a", "worker 2, cuda:1": "GPU-b"}
    assert all(value(outcome, one).split()[1] == seen[where[one.label]] for one in after)


@pytest.mark.slow
def test_eight_gpus_are_busy_at_once_with_the_longest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: nothing but the variable says which GPU a process sees. Nine tasks meet, eight on GPUs and one beside them, so that
    none of them ends unless all have begun; they are the longest and stand last."""
    monkeypatch.setattr(pool, "count_gpus", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    short = [leaf(f"short {n}", labour.of_this_process, device=True) for n in range(8)]
    names = [str(n) for n in range(9)]
    long = [leaf(name, labour.meets_all, tmp_path, name, names, device=name != "8", seconds=600.0) for name in names]
    told, outcome = Told(), Outcome(Store(tmp_path / "store"))
    processes.Executor(processes.Settings(beside=1), "cuda").execute([*short, *long], Stop(), outcome, told)
    begun = [event[1:] for event in told.events if event[0] == "begin"]
    where = dict(begun)
    assert {where[name] for name in names[:8]} == {f"worker {n + 1}, cuda:{n}" for n in range(8)}
    assert where["8"] == "worker 9" and {name for name, _ in begun[:9]} == set(names)
    assert sorted(value(outcome, one).split()[1] for one in long[:8]) == [str(n) for n in range(8)]
    for one in (*short, *long[:8]):
        assert value(outcome, one).split()[1] == where[one.label].rpartition(":")[2]
    assert len({value(outcome, one).split()[0] for one in long}) == 9, "a process each"


def test_a_worker_loads_no_library_before_it_knows_its_gpu() -> None:
    """What says which GPU a process sees, and how its threads wait, is read when torch and OpenMP are loaded."""
    code = "import sys, pipeline.engine.worker; print([name for name in ('torch', 'numba', 'scipy', 'pyarrow') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "[]\n", done.stderr


# Signals, and what becomes of workers --------------------------------------------------------------------------------

SCRIPT = """
import os, sys
from pathlib import Path
from pipeline.engine import stop as stops
from pipeline.engine.executors.processes import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.store import Store
from tests.engine import labour
from tests.engine.labour import leaf

folder, grace, what = Path(sys.argv[1]), float(sys.argv[2]), getattr(labour, sys.argv[3])
stops.GRACE_SECONDS = grace
tasks = [leaf(str(n), what, folder) for n in range(3)]
outcome = Outcome(Store(folder / "store"))
with stops.listen_for_signals() as stop:
    try:
        Executor(Settings(workers=1)).execute(tasks, stop, outcome, Progress())
    except stops.Stopped as error:
        sys.exit(error.status)
print(outcome.computed)
"""


def started(folder: Path, grace: float, what: str) -> tuple[subprocess.Popen[str], int]:
    """A run whose first task has begun, in a process group of its own, and its worker."""
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder), str(grace), what]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)  # fmt: skip
    until((folder / "begun").exists)
    return parent, int((folder / "begun").read_text())


def records(folder: Path) -> int:
    return len(list((folder / "store").glob("leaf/*/*/record.json")))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_to_all_processes_ends_the_run_after_the_shard_in_flight(tmp_path: Path, number: int) -> None:
    parent, worker = started(tmp_path, 3600, "finishes")
    os.killpg(parent.pid, number)  # as a terminal does
    assert "stopping after the shard in flight" in str(parent.stderr and parent.stderr.readline())
    (tmp_path / "go on").touch()
    assert parent.wait(timeout=HANGS) == 128 + number
    assert gone(worker) and records(tmp_path) == 1
    assert parent.stderr is not None and parent.stderr.read() == ""


def test_what_looks_whether_it_is_to_stop_is_told(tmp_path: Path) -> None:
    parent, worker = started(tmp_path, 3600, "waits")
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(timeout=HANGS) == 143
    assert gone(worker) and records(tmp_path) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent_in_the_middle_of_a_task(tmp_path: Path, number: int) -> None:
    """After the grace time, and where it is killed itself."""
    parent, worker = started(tmp_path, 0.1, "finishes")
    parent.send_signal(number)
    parent.wait(timeout=HANGS)
    until(lambda: gone(worker))
    assert records(tmp_path) == 0


@pytest.mark.parametrize("way", ["file", *(pytest.param(way, marks=pytest.mark.slow) for way in ("-c", "stdin"))])
def test_a_script_needs_no_line_that_keeps_workers_from_running_it_again(tmp_path: Path, way: str) -> None:
    (tmp_path / "go on").touch()
    (tmp_path / "script.py").write_text(SCRIPT)
    first = {"file": [str(tmp_path / "script.py")], "-c": ["-c", SCRIPT], "stdin": ["-"]}[way]
    done = subprocess.run(
        [sys.executable, *first, str(tmp_path), "1", "finishes"], input=SCRIPT if way == "stdin" else "", cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


OWN = """
import sys
from pathlib import Path
from pipeline.engine.executors.processes import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Resources, Task

def own(work):
    (work.folder() / "value").write_text("x")

Executor(Settings(workers=1)).execute([Task("leaf", "own", own)], Stop(), Outcome(Store(Path(sys.argv[1]))), Progress())
"""


def test_a_task_that_stands_in_the_script_itself_is_refused_with_a_remedy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 1 and "ConfigError: the tasks cannot be read in a worker process" in done.stderr
