"""Progress of long work: a bar on a terminal, one plain line every 30 s in a log."""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

LINE_SECONDS = 30.0

log = logging.getLogger(__name__)


class Meter:
    """Counts tasks and seconds of audio. ``advance`` may be called from any thread."""

    def __init__(self, tasks: int, seconds: float) -> None:
        self.tasks, self.seconds = tasks, seconds
        self.tasks_done, self.seconds_done, self.seconds_computed = 0, 0.0, 0.0
        self.label = ""
        self._start = time.monotonic()
        self._within = 0.0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._bar: Progress | None = None

    def __enter__(self) -> Meter:
        if sys.stderr.isatty():
            self._bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"), TimeRemainingColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._row = self._bar.add_task("", total=self.tasks)
            self._bar.start()
        else:
            threading.Thread(target=self._lines, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def _lines(self) -> None:
        # A clock of its own: a training that reports no audio must not look dead for minutes.
        while not self._ended.wait(LINE_SECONDS):
            log.info("%s", self.line(time.monotonic() - self._start))

    def begin(self, label: str) -> None:
        """A task starts."""
        self.label = label
        self._show()

    def end(self, cost: float) -> None:
        """A task ended; ``cost`` seconds of audio are done, whatever the task itself reported."""
        with self._lock:
            self.tasks_done += 1
            self.seconds_done += cost
            self._within = 0.0
        self._show()

    def advance(self, seconds: float) -> None:
        """Seconds of audio done inside the running task."""
        with self._lock:
            self._within += seconds
            self.seconds_computed += seconds
        self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._row, completed=self.tasks_done, description=self.label)

    def line(self, elapsed: float) -> str:
        """done, total, rate and time left, in one line."""
        done = min(self.seconds_done + self._within, self.seconds)
        rate = self.seconds_computed / elapsed if elapsed > 0 else 0.0
        text = f"{self.label}: {self.tasks_done} of {self.tasks} tasks, {done:.0f} of {self.seconds:.0f} s of audio, {rate:.0f} x real time"
        left = self.seconds - done
        return f"{text}, about {left / rate:.0f} s left" if rate > 0 and left > 0 else text
