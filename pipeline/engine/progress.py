"""How far a run is: an executor reports here, whoever shows it overrides these methods."""

from __future__ import annotations

import threading
import time


class Progress:
    """Counts tasks and seconds of audio, and shows nothing. ``advance`` may be called from any thread.

    An executor calls ``start`` once, then for each task ``begin``, ``advance`` and ``end``, and ``finish`` at the very end.
    """

    def __init__(self) -> None:
        self.tasks, self.seconds = 0, 0.0
        self.tasks_done, self.seconds_done, self.seconds_computed = 0, 0.0, 0.0
        self.label = ""
        self._begun = time.monotonic()
        self._within = 0.0
        self._lock = threading.Lock()

    def start(self, tasks: int, seconds: float) -> None:
        """So many tasks begin, over so many seconds of audio."""
        self.tasks, self.seconds = tasks, seconds
        self.tasks_done, self.seconds_done, self.seconds_computed = 0, 0.0, 0.0
        self._begun = time.monotonic()

    def begin(self, label: str) -> None:
        """A task begins."""
        self.label = label
        self.show()

    def advance(self, seconds: float) -> None:
        """Seconds of audio are done inside the running task."""
        with self._lock:
            self._within += seconds
            self.seconds_computed += seconds
        self.show()

    def end(self, seconds: float) -> None:
        """A task ended; so many seconds of audio are done, whatever the task itself reported."""
        with self._lock:
            self.tasks_done += 1
            self.seconds_done += seconds
            self._within = 0.0
        self.show()

    def finish(self) -> None:
        """Nothing more is done."""

    def show(self) -> None:
        """Something changed."""

    def line(self, elapsed: float | None = None) -> str:
        """Done, total, rate and time left, in one line; ``elapsed`` seconds since the start."""
        elapsed = time.monotonic() - self._begun if elapsed is None else elapsed
        done = min(self.seconds_done + self._within, self.seconds)
        rate = self.seconds_computed / elapsed if elapsed > 0 else 0.0
        audio = f"{done:.0f} of {self.seconds:.0f} s of audio, {rate:.0f} x real time"
        text = f"{self.label}: {self.tasks_done} of {self.tasks} tasks, {audio}"
        left = self.seconds - done
        return f"{text}, about {left / rate:.0f} s left" if rate > 0 and left > 0 else text
