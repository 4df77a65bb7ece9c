"""Progress of long work: a bar on a terminal, one plain line every 30 s in a log."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pipeline.cli.output import escaped, for_rich
from pipeline.engine.progress import Progress
from pipeline.engine.task import Task

LINE_SECONDS = 30.0

log = logging.getLogger(__name__)


class Meter(Progress):
    """Shows on standard error how far a run is."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = threading.Event()
        self._bar: Bar | None = None

    def start(self, tasks: Sequence[Task]) -> None:
        super().start(tasks)
        self._ended = threading.Event()
        if sys.stderr.isatty():
            self._bar = Bar(
                SpinnerColumn("dots" if "utf" in (sys.stderr.encoding or "").lower() else "line"),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} tasks{task.fields[failed]}"),
                TimeRemainingColumn(),
                console=Console(file=for_rich(sys.stderr)),
                transient=True,
            )
            self._row = self._bar.add_task("", total=len(tasks), failed="")
            self._bar.start()
        else:
            threading.Thread(target=self._lines, args=(self._ended,), daemon=True).start()

    def finish(self) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def show(self) -> None:
        if self._bar is not None:
            failed = f", {self.tasks_failed} failed" if self.tasks_failed else ""
            self._bar.update(self._row, completed=self.tasks_done, description=escaped(self.label), failed=failed)

    def _lines(self, ended: threading.Event) -> None:
        # A clock of its own: a training that reports no audio must not look dead for minutes.
        while not ended.wait(LINE_SECONDS):
            log.info("%s", self.line())
