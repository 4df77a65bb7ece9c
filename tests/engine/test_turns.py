"""What several processes want at the same moment one of them makes, and nobody waits for who has ended or is silent."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import time
import uuid
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from pipeline.engine import leftovers, turns
from pipeline.engine.executors import local
from pipeline.engine.outcome import Outcome
from pipeline.engine.perform import perform
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Task
from pipeline.processes import Owner, mine
from tests.engine import labour
from tests.engine.labour import leaf, until

NAMES = [str(number) for number in range(12)]


def graph(folder: Path) -> list[Task]:
    return [leaf(name, functools.partial(labour.counts, name), folder) for name in NAMES]


def start(root: Path, folder: Path, at_once: Barrier) -> None:
    """What each of several processes does."""
    at_once.wait()
    local.Executor(local.Settings()).execute(graph(folder), Stop(), Outcome(Store(root)), Progress())


def test_of_processes_that_start_at_one_instant_each_result_is_made_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    (tmp_path / "made").mkdir()
    at_once = spawn.Barrier(3)
    started = [
        spawn.Process(target=start, args=(tmp_path / "store", tmp_path / "made", at_once), daemon=True)
        for _ in range(3)
    ]
    for one in started:
        one.start()
    for one in started:
        one.join(120)
    assert [one.exitcode for one in started] == [0, 0, 0]
    made = sorted((path.name.split("-")[0] for path in (tmp_path / "made").iterdir()), key=int)
    assert made == NAMES
    assert not [path for path in (tmp_path / "store").glob("*/*/*") if leftovers.WRITTEN in path.name]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return leaf("a", labour.says, "a")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def written_by(store: Store, task: Task, owner: Owner) -> Path:
    """The folder in which another process makes the output of a task."""
    outcome = Outcome(store)
    perform(task, outcome, Progress(), Stop())  # its key
    final = outcome.artefact(task.ref()).place
    final.rename(final.with_name(f"{final.name}.away"))
    folder = final.with_name(f"{final.name}{leftovers.WRITTEN}{owner.token()}-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    return folder


ELSEWHERE = Owner("another-machine", 17, "1@boot.namespace")


@pytest.mark.parametrize("how", ["ends", "goes"])
def test_who_is_at_work_is_waited_for(store: Store, task: Task, how: str) -> None:
    """By who then finds the result, and by who then finds none and makes it."""
    theirs = written_by(store, task, ELSEWHERE)
    final = theirs.with_name(theirs.name.partition(leftovers.WRITTEN)[0])
    computed: list[bool] = []
    waits = threading.Thread(
        target=lambda: computed.append(perform(task, Outcome(store), Progress(), Stop())), daemon=True
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
    long_ago = time.time() - leftovers.QUIET_SECONDS - 60
    os.utime(silent, (long_ago, long_ago))
    child = multiprocessing.get_context("spawn").Process(target=os.getpid)
    child.start()
    dead = Owner(mine().host, child.pid or 0, mine().started)
    child.join()
    silent.with_name(silent.name.replace(ELSEWHERE.token(), dead.token())).mkdir()
    assert perform(task, Outcome(store), Progress(), Stop())


def test_a_signal_ends_the_wait(store: Store, task: Task) -> None:
    written_by(store, task, ELSEWHERE)
    stop = Stop()
    stop.number = signal.SIGTERM
    with pytest.raises(Stopped):
        perform(task, Outcome(store), Progress(), stop)


def test_who_works_long_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BEAT_SECONDS", 0.01)
    os.utime(tmp_path, (0, 0))
    with turns.touching([tmp_path]):
        until(lambda: tmp_path.stat().st_mtime > 0)
    assert tmp_path.stat().st_mtime > 0
