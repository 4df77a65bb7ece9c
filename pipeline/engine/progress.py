"""How far a run is: an executor reports here, whoever shows or keeps it overrides these methods."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from pipeline.engine.task import Task
from pipeline.errors import PipelineError


class Progress:
    """Counts tasks and seconds of audio, and shows nothing. All methods may be called from any thread.

    An executor calls ``start`` once, then for each task either ``end`` alone (it was found in the store), or ``begin``, ``advance`` as
    often as there is something to tell, and ``end`` or ``fail``; ``skip`` for what stands on a failed one; ``finish`` at the very end.
    Several tasks may go on at once.
    """

    def __init__(self) -> None:
        self.tasks, self.seconds = 0, 0.0
        self.tasks_done, self.tasks_failed, self.seconds_done, self.seconds_computed = 0, 0, 0.0, 0.0
        self._begun = time.monotonic()
        self._running: dict[str, str] = {}
        self._last = ""
        self._within: dict[str, float] = {}
        self._lock = threading.Lock()

    def start(self, tasks: Sequence[Task]) -> None:
        """These tasks begin."""
        self.tasks, self.seconds = len(tasks), sum(task.resources.seconds for task in tasks)
        self.tasks_done, self.tasks_failed, self.seconds_done, self.seconds_computed = 0, 0, 0.0, 0.0
        self._begun = time.monotonic()
        self._running, self._within = {}, {}

    @property
    def label(self) -> str:
        """What is worked on: the task that was begun first, and how many others."""
        with self._lock:
            running = list(self._running.values())
        if not running:
            return self._last
        return running[0] + (f" and {len(running) - 1} more at once" if len(running) > 1 else "")

    def begin(self, task: Task, where: str = "") -> None:
        """A task begins.

        Args:
            where: what works on it, for those who read: a worker and its device.
        """
        with self._lock:
            self._running[task.id] = self._last = task.label
        self.show()

    def advance(self, task: Task, seconds: float) -> None:
        """Seconds of audio are done inside a task."""
        with self._lock:
            self._within[task.id] = self._within.get(task.id, 0.0) + seconds
            self.seconds_computed += seconds
        self.show()

    def end(self, task: Task, computed: bool) -> None:
        """A task ended well: its outputs were computed, or all of them were there."""
        with self._lock:
            self.tasks_done += 1
            self.seconds_done += task.resources.seconds
            self._within.pop(task.id, None)
            self._running.pop(task.id, None)
        self.show()

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        """A task failed.

        Args:
            trace: the traceback, where no part of the project has explained it; '' otherwise.
        """
        with self._lock:
            self.tasks_failed += 1
            self._within.pop(task.id, None)
            self._running.pop(task.id, None)
        self.show()

    def skip(self, task: Task) -> None:
        """A task is not run, because one that it stands on failed."""

    def finish(self) -> None:
        """Nothing more is done."""

    def show(self) -> None:
        """Something changed."""

    def line(self, elapsed: float | None = None) -> str:
        """Done, total, rate and time left, in one line; ``elapsed`` seconds since the start."""
        elapsed = time.monotonic() - self._begun if elapsed is None else elapsed
        with self._lock:
            done = min(self.seconds_done + sum(self._within.values()), self.seconds)
        rate = self.seconds_computed / elapsed if elapsed > 0 else 0.0
        audio = f"{done:.0f} of {self.seconds:.0f} s of audio, {rate:.0f} x real time"
        failed = f", {self.tasks_failed} failed" if self.tasks_failed else ""
        text = f"{self.label}: {self.tasks_done} of {self.tasks} tasks{failed}, {audio}"
        left = self.seconds - done
        return f"{text}, about {left / rate:.0f} s left" if rate > 0 and left > 0 else text


class ProgressGroup(Progress):
    """Tells several others."""

    def __init__(self, *others: Progress) -> None:
        super().__init__()
        self.others = others

    def start(self, tasks: Sequence[Task]) -> None:
        super().start(tasks)
        for other in self.others:
            other.start(tasks)

    def begin(self, task: Task, where: str = "") -> None:
        super().begin(task, where)
        for other in self.others:
            other.begin(task, where)

    def advance(self, task: Task, seconds: float) -> None:
        super().advance(task, seconds)
        for other in self.others:
            other.advance(task, seconds)

    def end(self, task: Task, computed: bool) -> None:
        super().end(task, computed)
        for other in self.others:
            other.end(task, computed)

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        super().fail(task, error, trace)
        for other in self.others:
            other.fail(task, error, trace)

    def skip(self, task: Task) -> None:
        for other in self.others:
            other.skip(task)

    def finish(self) -> None:
        for other in self.others:
            other.finish()
