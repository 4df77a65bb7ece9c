"""Tasks in turn, in this process."""

from __future__ import annotations

import logging
import traceback
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

    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks in the given order, which must put sources first; see :meth:`pipeline.contracts.Executor.execute`."""
        failed: dict[Task, PipelineError] = {}
        progress.start(tasks)
        try:
            for task in tasks:
                stop.check()
                left_out = failures.left_out(task, failed, fail_fast)
                if left_out is not None:
                    failed[task] = left_out
                    if not isinstance(left_out, failures.NotBegun):
                        progress.skip(task)
                    continue
                progress.begin(task)
                try:
                    computed = perform(task, outcome, progress, stop)
                except PipelineError as error:
                    failed[task] = error
                    log.error("%s failed: %s", task.label, error)
                    progress.fail(task, error)
                    continue
                except Stopped:
                    raise
                except Exception as error:
                    failed[task] = failures.unexpected(task, error)
                    log.exception("%s", failed[task].what)
                    progress.fail(task, failed[task], traceback.format_exc())
                    continue
                outcome.computed += computed
                outcome.reused += not computed
                progress.end(task, computed)
        finally:
            progress.finish()
        failures.raise_for(failed)
