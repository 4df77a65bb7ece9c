"""Tasks in turn, in this process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar, Literal

from pipeline import contracts
from pipeline.contracts import ComponentSettings, runtime
from pipeline.engine import failures
from pipeline.engine.outcome import Outcome
from pipeline.engine.perform import perform
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.task import Task
from pipeline.errors import PipelineError

log = logging.getLogger(__name__)


class Settings(ComponentSettings):
    """There is nothing to set."""

    name: Literal["local"] = runtime("local")


class Executor(contracts.Executor):
    """Each task is committed before the next begins."""

    Settings: ClassVar[type[ComponentSettings]] = Settings

    def execute(self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress) -> None:
        """Run tasks in the given order, which must put sources first; see :meth:`pipeline.contracts.Executor.execute`."""
        failed: dict[Task, PipelineError] = {}
        progress.start(len(tasks), sum(task.resources.seconds for task in tasks))
        try:
            for task in tasks:
                stop.check()
                if any(ref.task in failed for ref in task.sources()):
                    failed[task] = failures.not_run(task)
                    continue
                progress.begin(task.label)
                try:
                    computed = perform(task, outcome, progress, stop)
                except PipelineError as error:
                    failed[task] = error
                    log.error("%s failed: %s", task.label, error)
                    continue
                except Stopped:
                    raise
                except Exception as error:
                    log.exception("%s failed", task.label)
                    failed[task] = failures.unexpected(task, error)
                    continue
                outcome.computed += computed
                outcome.reused += not computed
                progress.end(task.resources.seconds)
        finally:
            progress.finish()
        failures.raise_for(failed)
