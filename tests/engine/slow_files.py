"""Processes of many machines over one slow file system, in virtual time: no call waits, and each takes as long as it is to take.

Each process is a thread. One of them runs at a time, from one call of the file system, or one wait, to the next; the clock then jumps to
whoever is next. What a call does, it does in the middle of its time. So a test sees the orders of calls that a slow file server gives,
the same ones for the same seed.
"""

from __future__ import annotations

import heapq
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import processes
from pipeline.engine import claims, store
from pipeline.processes import Owner

CALLS = ("mkdir", "stat", "lstat", "scandir", "listdir", "rmdir", "unlink", "rename", "replace", "open", "utime")
EPOCH = 1_700_000_000.0
"""When the clock begins."""
ENDLESS_SECONDS = 5000.0


class Killed(BaseException):
    """The process is gone; nothing of it is done any more."""


class Process(threading.Thread):
    """A process on a machine of its own.

    Args:
        dies_at: it is killed in the middle of this call, counted from 0; -1 is never.
    """

    def __init__(self, number: int, work: Callable[[], None], dies_at: int = -1) -> None:
        super().__init__(daemon=True)
        self.yields = threading.Semaphore(0)
        self.owner = Owner(f"node-{number}", 1000 + number, "1@boot.namespace")
        self.work, self.calls_left, self.dead = work, dies_at, False
        self.turn = threading.Semaphore(0)
        self.error: BaseException | None = None

    def run(self) -> None:
        self.turn.acquire()
        try:
            self.work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.yields.release()


class SlowFiles:
    """The file system and its clock.

    Args:
        call_seconds: that a call takes, give or take half.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, call_seconds: float) -> None:
        self.random, self.call_seconds = random.Random(seed), call_seconds
        self.seconds, self.calls = 0.0, 0
        self._queue: list[tuple[float, int, Process]] = []
        self._here: Process | None = None
        clock = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.seconds)
        monkeypatch.setattr(claims, "time", clock)
        monkeypatch.setattr(claims, "_uniform", self.random.uniform)
        real = processes.this_process
        for module in (claims, store, processes):
            monkeypatch.setattr(module, "this_process", lambda: self._here.owner if self._here else real())
        for module in (claims,):
            monkeypatch.setattr(module, "read_clock", self._now)
        for name in CALLS:
            monkeypatch.setattr(os, name, self._slow(getattr(os, name), name))

    def run(self, started: list[tuple[float, Process]]) -> None:
        """Until all have ended; each begins at its second."""
        for at, process in started:
            process.start()
            self._push(at, process)
        while self._queue:
            self.seconds, _, self._here = heapq.heappop(self._queue)
            if self.seconds > ENDLESS_SECONDS:
                raise TimeoutError("nobody makes it")
            self._here.turn.release()
            self._here.yields.acquire()  # until it waits again, or has ended
            if self._here.error is not None:
                raise self._here.error

    def sleep(self, seconds: float) -> None:
        """Time passes for the process that runs; others run meanwhile."""
        process = self._process()
        if process.dead:
            raise Killed
        self._push(self.seconds + seconds, process)
        process.yields.release()
        process.turn.acquire()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What the process does meanwhile takes no time, and nothing comes in between."""
        process, self._here = self._process(), None
        try:
            yield
        finally:
            self._here = process

    def _push(self, at: float, process: Process) -> None:
        self.calls += 1
        heapq.heappush(self._queue, (at, self.calls, process))

    def _process(self) -> Process:
        assert self._here is not None
        return self._here

    def _slow(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def slowed(*arguments: Any, **more: Any) -> Any:
            process = self._here
            if process is None or threading.current_thread() is not process:
                return call(*arguments, **more)
            self._half()
            if process.calls_left == 0:
                process.dead = True
                raise Killed
            process.calls_left -= 1
            made = self._dated(call, name, *arguments, **more)
            self._half()
            return made

        return slowed

    def _dated(self, call: Callable[..., Any], name: str, path: Any, *arguments: Any, **more: Any) -> Any:
        there = EPOCH + self.seconds
        if name == "utime" and not arguments:
            return call(path, (there, there))
        made = call(path, *arguments, **more)
        if name == "mkdir":
            REAL_UTIME(path, (there, there))
        return made

    def _half(self) -> None:
        self.sleep(self.call_seconds * self.random.uniform(0.25, 0.75))

    def _now(self, folder: Path) -> float:
        for _ in range(3):  # a file is made, looked at and removed
            self._half()
            self._half()
        return EPOCH + self.seconds


REAL_UTIME = os.utime
