"""Tasks in turn, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pipeline.contracts import ComponentSettings, runtime
from pipeline.engine import contracts, failures, perform
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.task import Task


class Settings(ComponentSettings):
    """There is nothing to set."""

    name: Literal["local"] = runtime("local")


class Executor(contracts.Executor):
    """Each task is committed before the next begins."""

    Settings: ClassVar[type[ComponentSettings]] = Settings

    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks in the given order, which must put sources first; see :meth:`pipeline.engine.contracts.Executor.execute`."""
        failures.raise_failures(perform.perform_tasks(tasks, stop, outcome, progress, fail_fast))
