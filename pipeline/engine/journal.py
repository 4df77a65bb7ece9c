"""What became of each task of a run, written as it happens, so that others can look while it goes on: ``RUN/tasks/*.jsonl``.

Each process that performs tasks appends to a file of its own: a line of JSON an event. Nothing is read back by the run itself: what is
done, the store says. A line that a kill has cut off is no event.

====================== =====================================================================================================
``event``              what else stands in the line
====================== =====================================================================================================
``planned``            ``tasks``: a list of [task, stage, label, seconds of audio, whether it uses an accelerator]
``begin``              ``task``, ``where`` (what works on it: a worker and its device; '' is the process itself)
``reused`` ``done``    ``task``; ``took``: seconds since it began
``failed``             ``task``, ``took``, ``error`` (in words), ``trace`` (the traceback; '' where the words say it all), ``log`` (a file)
``skipped``            ``task``: one that it stands on failed
``end``                nothing: this process begins nothing more
====================== =====================================================================================================

All have ``at`` (seconds since 1970), ``host`` and ``pid``. A task is named by the first 16 digits of its id.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.progress import Progress
from pipeline.engine.task import Task
from pipeline.errors import PipelineError
from pipeline.processes import mine

FOLDER = "tasks"
DIGITS = 16

log = logging.getLogger(__name__)


def short(task: Task) -> str:
    """What a journal calls a task."""
    return task.id[:DIGITS]


class Journal(Progress):
    """Writes the events of this process.

    Args:
        run: the run folder.
        log_file: where the messages of this process stand, for those who read of a failure.
    """

    def __init__(self, run: Path, log_file: Path) -> None:
        super().__init__()
        self.path = run / FOLDER / f"{mine().token()}.jsonl"
        self.log_file = log_file
        self._began: dict[str, float] = {}
        self._writes = threading.Lock()
        self._fails = False

    def start(self, tasks: Sequence[Task]) -> None:
        super().start(tasks)
        rows = [
            [short(task), task.name, task.label, round(task.resources.seconds, 3), task.resources.device]
            for task in tasks
        ]
        self._write("planned", tasks=rows)

    def begin(self, task: Task, where: str = "") -> None:
        super().begin(task, where)
        self._began[task.id] = time.monotonic()
        self._write("begin", task=short(task), where=where)

    def end(self, task: Task, computed: bool) -> None:
        super().end(task, computed)
        self._write("done" if computed else "reused", task=short(task), took=self._took(task))

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        super().fail(task, error, trace)
        self._write(
            "failed", task=short(task), took=self._took(task), error=str(error), trace=trace, log=str(self.log_file)
        )

    def skip(self, task: Task) -> None:
        self._write("skipped", task=short(task))

    def finish(self) -> None:
        self._write("end")

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
