"""What became of each task of a run, written as it happens, so that others can look while it goes on: ``RUN/tasks/*.jsonl``.

Each process that performs tasks appends to a file of its own: a line of JSON an event. Nothing is read back by the run itself: what is
done, the store says. A line that a kill has cut off is no event.

====================== =====================================================================================================
``event``              what else stands in the line
====================== =====================================================================================================
``planned``            ``tasks``: a list of [task, stage, label, seconds of audio, whether it uses an accelerator, seconds it is expected
                       to take or null]; ``job`` (of Slurm; '' outside)
``begin``              ``task``, ``where`` (what works on it: a worker and its device; '' is the process itself)
``advanced``           ``task``, ``seconds`` of its audio that are done; not more often than every 10 s
``reused`` ``done``    ``task``; ``took``: seconds since it began
``failed``             ``task``, ``took``, ``error`` (in words), ``trace`` (the traceback; '' where the words say it all), ``log`` (a file)
``skipped``            ``task``: one that it stands on failed
``end``                nothing: what this process had begun is over, and it begins nothing more unless a ``planned`` follows
====================== =====================================================================================================

All have ``at`` (seconds since 1970), ``host`` and ``pid``. A task is named by the first 16 digits of its id.
:mod:`pipeline.engine.journal_reader` reads them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.engine.progress import Progress
from pipeline.engine.task import Task
from pipeline.errors import PipelineError
from pipeline.processes import this_process

FOLDER = "tasks"
DIGITS = 16
ADVANCED_SECONDS = 10.0
"""Between two lines that say how far a task is."""

log = logging.getLogger(__name__)


def shorten_id(task: Task) -> str:
    """What a journal calls a task."""
    return task.id[:DIGITS]


class Journal(Progress):
    """Writes the events of this process.

    Args:
        run: the run folder.
        log_file: where the messages of this process stand, for those who read of a failure.
        expected: how many seconds a task will take, where that is known.
    """

    def __init__(self, run: Path, log_file: Path, expected: Callable[[Task], float | None] = lambda task: None) -> None:
        super().__init__()
        self.path = run / FOLDER / f"{this_process().token()}.jsonl"
        self.log_file = log_file
        self.expected = expected
        self._told: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._writes = threading.Lock()
        self._fails = False

    def start(self, tasks: Sequence[Task]) -> None:
        super().start(tasks)
        self._write("planned", tasks=[self._row(task) for task in tasks], job=slurm.find_own_job())

    def begin(self, task: Task, where: str = "") -> None:
        super().begin(task, where)
        self._began[task.id] = self._told[task.id] = time.monotonic()
        self._write("begin", task=shorten_id(task), where=where)

    def advance(self, task: Task, seconds: float) -> None:
        super().advance(task, seconds)
        now = time.monotonic()
        if now - self._told.get(task.id, now) >= ADVANCED_SECONDS:
            self._told[task.id] = now
            self._write("advanced", task=shorten_id(task), seconds=round(self._within.get(task.id, 0.0), 3))

    def end(self, task: Task, computed: bool) -> None:
        super().end(task, computed)
        self._write("done" if computed else "reused", task=shorten_id(task), took=self._took(task))

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        super().fail(task, error, trace)
        about = {"error": str(error), "trace": trace, "log": str(self.log_file)}
        self._write("failed", task=shorten_id(task), took=self._took(task), **about)

    def skip(self, task: Task) -> None:
        self._write("skipped", task=shorten_id(task))

    def finish(self) -> None:
        self._write("end")

    def _row(self, task: Task) -> list[Any]:
        expected = self.expected(task)
        takes = None if expected is None else round(expected, 3)
        resources = task.resources
        return [shorten_id(task), task.name, task.label, round(resources.seconds, 3), resources.device, takes]

    def _took(self, task: Task) -> float:
        return round(time.monotonic() - self._began.pop(task.id, time.monotonic()), 3)

    def _write(self, event: str, **more: Any) -> None:
        line = {"event": event, "at": round(time.time(), 3), "host": socket.gethostname(), "pid": os.getpid(), **more}
        try:
            with self._writes:
                self.path.parent.mkdir(exist_ok=True)
                with self.path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(json.dumps(line) + "\n")
        except OSError as error:  # a disk that is full stops the run by itself, and says more
            if not self._fails:
                log.warning("%s cannot be written (%s): `status` will not see all", self.path, error.strerror)
            self._fails = True
