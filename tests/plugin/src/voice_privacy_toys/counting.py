"""An executor: tasks in turn, counted in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pipeline.contracts import ComponentSettings, runtime
from pipeline.engine.contracts import Executor
from pipeline.engine.perform import perform_task


class Settings(ComponentSettings):
    """``file`` gets the number of tasks that were run."""

    name: Literal["counting"] = runtime("counting")
    file: str = runtime("counted.txt")


class Counting(Executor):
    """As ``local``, but that a failure ends the run."""

    Settings = Settings

    def execute(self, tasks: Sequence[Any], stop: Any, outcome: Any, progress: Any, fail_fast: bool = False) -> None:
        progress.start(tasks)
        for task in tasks:
            stop.check()
            progress.begin(task)
            computed = perform_task(task, outcome, progress, stop)
            outcome.computed += computed
            outcome.reused += not computed
            progress.end(task, computed)
        progress.finish()
        with Path(self.settings.file).open("a") as stream:
            stream.write(f"{len(tasks)}\n")
