"""What several processes want at the same moment one of them makes, and nobody waits for who has ended or is silent."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.engine import claims
from pipeline.engine import perform as perform_module
from pipeline.engine.executors import local
from pipeline.engine.outcome import Outcome
from pipeline.engine.perform import perform_task
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Work
from pipeline.processes import Owner, this_process
from tests.engine import labour
from tests.engine.labour import leaf, until
from tests.engine.slow_files import CALLS, EPOCH, Process, SlowFiles

NAMES = [str(number) for number in range(12)]


def graph(folder: Path) -> list[Task]:
    return [leaf(name, functools.partial(labour.counts, name), folder) for name in NAMES]


def start(root: Path, folder: Path, call_seconds: float, at_once: Barrier) -> None:
    """What each of several processes does, on a file system whose calls take about so long."""
    if call_seconds:
        for name in CALLS:
            setattr(os, name, slowed(getattr(os, name), call_seconds))
    at_once.wait()
    local.Executor(local.Settings()).execute(graph(folder), Stop(), Outcome(Store(root)), Progress())


def slowed(call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def after_a_while(*arguments: Any, **more: Any) -> Any:
        time.sleep(seconds * random.uniform(0.5, 1.5))
        return call(*arguments, **more)

    return after_a_while


@pytest.mark.parametrize(
    ("processes", "call_seconds"), [(3, 0.0), pytest.param(10, 0.03, marks=pytest.mark.slow)], ids=["fast", "slow"]
)
def test_of_processes_that_start_at_one_instant_each_result_is_made_once(
    processes: int, call_seconds: float, tmp_path: Path
) -> None:
    spawn = multiprocessing.get_context("spawn")
    (tmp_path / "made").mkdir()
    at_once = spawn.Barrier(processes)
    arguments = (tmp_path / "store", tmp_path / "made", call_seconds, at_once)
    started = [spawn.Process(target=start, args=arguments, daemon=True) for _ in range(processes)]
    for one in started:
        one.start()
    for one in started:
        one.join(240)
    assert [one.exitcode for one in started] == [0] * processes
    made = sorted((path.name.split("-")[0] for path in (tmp_path / "made").iterdir()), key=int)
    assert made == NAMES
    assert not [path for path in (tmp_path / "store").glob("*/*/*") if claims.WRITTEN in path.name]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return leaf("a", labour.says, "a")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def written_by(store: Store, task: Task, owner: Owner) -> Path:
    """The folder in which another process makes the output of a task."""
    outcome = Outcome(store)
    perform_task(task, outcome, Progress(), Stop())  # its key
    final = outcome.artefact(task.ref()).place
    final.rename(final.with_name(f"{final.name}.away"))
    folder = final.with_name(f"{final.name}{claims.WRITTEN}{owner.token()}-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    return folder


ELSEWHERE = Owner("another-machine", 17, "1@boot.namespace")


@pytest.mark.parametrize("how", ["ends", "goes"])
def test_who_is_at_work_is_waited_for(store: Store, task: Task, how: str) -> None:
    """By who then finds the result, and by who then finds none and makes it."""
    theirs = written_by(store, task, ELSEWHERE)
    final = theirs.with_name(theirs.name.partition(claims.WRITTEN)[0])
    computed: list[bool] = []
    waits = threading.Thread(
        target=lambda: computed.append(perform_task(task, Outcome(store), Progress(), Stop())), daemon=True
    )
    waits.start()
    time.sleep(0.3)
    assert waits.is_alive() and not final.exists()
    if how == "ends":
        final.with_name(f"{final.name}.away").rename(final)
    theirs.rmdir()
    waits.join(60)
    assert computed == [how == "goes"] and Outcome(store).find(task)


def test_who_is_silent_or_has_ended_is_not_waited_for(store: Store, task: Task) -> None:
    silent = written_by(store, task, ELSEWHERE)
    long_ago = time.time() - claims.QUIET_SECONDS - 60
    os.utime(silent, (long_ago, long_ago))
    child = multiprocessing.get_context("spawn").Process(target=os.getpid)
    child.start()
    dead = Owner(this_process().host, child.pid or 0, this_process().started)
    child.join()
    silent.with_name(silent.name.replace(ELSEWHERE.token(), dead.token())).mkdir()
    assert perform_task(task, Outcome(store), Progress(), Stop())


def test_a_signal_ends_the_wait(store: Store, task: Task) -> None:
    written_by(store, task, ELSEWHERE)
    stop = Stop()
    stop.number = signal.SIGTERM
    with pytest.raises(Stopped):
        perform_task(task, Outcome(store), Progress(), stop)


def test_who_works_long_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.01)
    os.utime(tmp_path, (0, 0))
    with claims.touch_claims([tmp_path]):
        until(lambda: tmp_path.stat().st_mtime > 0)
    assert tmp_path.stat().st_mtime > 0


def test_work_that_hangs_is_not_waited_for_though_its_process_lives(
    store: Store, task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pipeline")
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.01)
    theirs = written_by(store, task, ELSEWHERE)
    os.utime(theirs, (0, 0))
    beats = 0

    def hangs() -> float:
        nonlocal beats
        beats += 1
        return time.monotonic() - claims.HANG_SECONDS - 1

    with claims.touch_claims([theirs], hangs):
        until(lambda: beats > 3)
        assert theirs.stat().st_mtime == 0
        assert perform_task(task, Outcome(store), Progress(), Stop())
    assert "process 17 of another machine began it and has been silent for minutes" in caplog.text


def test_each_report_of_a_task_is_a_sign_that_its_work_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(perform_module, "time", SimpleNamespace(monotonic=lambda: now))
    signs: list[float] = []

    def works(work: Work) -> None:
        nonlocal now
        calls: list[Callable[[], object]] = [
            lambda: work.input("before"),
            lambda: work.advance(1.0),
            work.stopping,
            lambda: work.note(steps=3),
        ]
        for call in calls:
            now += 1000.0
            call()
            signs.append(work.last_sign)  # type: ignore[attr-defined]
        labour.says("a", work)

    before, outcome = leaf("before", labour.says, "a"), Outcome(store)
    perform_task(before, outcome, Progress(), Stop())
    perform_task(Task("leaf", "works", works, inputs={"before": before.ref()}), outcome, Progress(), Stop())
    assert signs == [1000.0, 2000.0, 3000.0, 4000.0]


class Crowd:
    """Processes of many machines that want artefacts of one store, each until all that it wants are there."""

    def __init__(self, slow: SlowFiles, root: Path, work_seconds: float) -> None:
        self.slow, self.store, self.work_seconds = slow, Store(root), work_seconds
        self.task = leaf("a", labour.says, "a")
        self.began: list[float] = []
        self.at_work: dict[str, Process] = {}
        self.made: list[str] = []

    def wants(self, number: int, keys: Sequence[str], dies_at: int = -1) -> Process:
        process = Process(number, lambda: self._work(process, keys), dies_at)
        return process

    def _work(self, process: Process, keys: Sequence[str]) -> None:
        while missing := {key: key for key in keys if self.store.find("leaf", key) is None}:
            folders = claims.claim_folders(self.store, self.task, missing, Stop())
            if folders is None:
                continue
            self.began.append(self.slow.seconds)
            for key in folders:
                other = self.at_work.get(key)
                assert other is None or other.dead, f"{process.owner} and {other.owner} make the same"
                self.at_work[key] = process
            self.slow.sleep(self.work_seconds)
            with self.slow.at_once():
                for key, folder in folders.items():
                    (folder / "value").write_text("a")
                    self.store.commit("leaf", key, folder, {}, {})
                    del self.at_work[key]
                    self.made.append(key)

    def claims(self) -> list[Path]:
        return [path for path in self.store.root.glob("*/*/*") if claims.WRITTEN in path.name]


KEYS = [f"ab{number:062x}" for number in range(3)]


@pytest.mark.parametrize("seed", range(3))
def test_on_a_slow_file_system_one_of_many_begins_soon_and_nothing_is_made_twice(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 machines, 0.3 s a call: some claims of machines that are gone lie there, with smaller names and larger ones."""
    slow = SlowFiles(monkeypatch, seed, 0.3)
    crowd = Crowd(slow, tmp_path, work_seconds=20.0)
    for pid in (1, 999_999) if seed % 2 else ():
        token = Owner("node-gone", pid, "1@boot.namespace").token()
        gone = crowd.store.folder("leaf", KEYS[0]).with_name(f"{KEYS[0]}{claims.WRITTEN}{token}-00000000")
        gone.mkdir(parents=True)
        os.utime(gone, (EPOCH - claims.QUIET_SECONDS - 60,) * 2)
    slow.run([(slow.random.uniform(0, 0.5), crowd.wants(number, KEYS[:1])) for number in range(32)])
    assert crowd.made == KEYS[:1] and crowd.began[0] <= 10.0, crowd.began
    assert len(crowd.claims()) == (2 if seed % 2 else 0)


@pytest.mark.parametrize("seed", range(3))
def test_who_wants_several_waits_in_no_circle(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowFiles(monkeypatch, seed, 0.3)
    crowd = Crowd(slow, tmp_path, work_seconds=20.0)
    wanted = [KEYS[:2], KEYS[1:], [KEYS[2], KEYS[0]], KEYS]
    slow.run([(slow.random.uniform(0, 2), crowd.wants(number, wanted[number % 4])) for number in range(12)])
    assert sorted(crowd.made) == KEYS and not crowd.claims()


@pytest.mark.parametrize("seed", range(3))
def test_machines_that_go_down_hold_the_others_up_for_minutes_and_no_longer(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowFiles(monkeypatch, seed, 0.3)
    crowd = Crowd(slow, tmp_path, work_seconds=20.0)
    dying = [crowd.wants(number, KEYS[:1], slow.random.randrange(20)) for number in range(8)]
    living = [crowd.wants(number, KEYS[:1]) for number in range(8, 12)]
    slow.run([(slow.random.uniform(0, 2), process) for process in [*dying, *living]])
    assert crowd.made == KEYS[:1]
    assert slow.seconds < (1 + len(dying)) * (claims.QUIET_SECONDS + claims.RACE_SECONDS)


@pytest.mark.parametrize("dying", [0, 1], ids=["the smaller", "the larger"])
def test_of_two_that_begin_together_one_may_go_down_at_any_call(
    dying: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = 0
    for call in range(16):
        with monkeypatch.context() as patch:
            slow = SlowFiles(patch, call, 0.3)
            crowd = Crowd(slow, tmp_path / str(call), work_seconds=20.0)
            slow.run([(0.0, crowd.wants(number, KEYS[:1], call if number == dying else -1)) for number in (0, 1)])
        assert crowd.made == KEYS[:1]
        assert slow.seconds < claims.QUIET_SECONDS + claims.RACE_SECONDS
        waited += slow.seconds > claims.QUIET_SECONDS
    assert waited, "in none of them a claim was left"
