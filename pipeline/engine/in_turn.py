"""Tasks are performed one after the other, in this process: all of a graph, or a part of it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence

from pipeline.engine import failures
from pipeline.engine.outcome import Outcome
from pipeline.engine.perform import perform_task
from pipeline.engine.progress import Progress
from pipeline.engine.sound import Damaged
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.task import Task
from pipeline.errors import PipelineError

log = logging.getLogger(__name__)


def perform_tasks(
    tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
) -> dict[Task, PipelineError]:
    """Perform tasks, sources first; what failed or was not run. What they stand on and is not among them, the store has to have.

    Raises:
        Stopped: a signal arrived; what is finished stays.
    """
    failed: dict[Task, PipelineError] = {}
    progress.start(tasks)
    try:
        for task in tasks:
            stop.check()
            left_out = failures.find_exclusion(task, failed, fail_fast)
            if left_out is None and not _has_sources(task, outcome):
                left_out = failures.NotRun(
                    f"{task.label} was not run",
                    cause="what it stands on is not there: the job that was to make it did not",
                )
            if left_out is not None:
                failed[task] = left_out
                if not isinstance(left_out, failures.NotBegun):
                    progress.skip(task)
                continue
            progress.begin(task)
            try:
                computed = perform_task(task, outcome, progress, stop)
            except PipelineError as error:
                failed[task] = error
                log.error("%s failed: %s", task.label, error)
                progress.fail(task, error)
                continue
            except Stopped:
                raise
            except Exception as error:
                failed[task] = failures.explain_exception(task, error)
                log.exception("%s", failed[task].what)
                progress.fail(task, failed[task], traceback.format_exc())
                continue
            outcome.computed += computed
            outcome.reused += not computed
            progress.end(task, computed)
    finally:
        progress.finish()
    return failed


def _has_sources(task: Task, outcome: Outcome) -> bool:
    """Whether all that a task stands on is there: made in this process, or by others before."""
    while True:
        try:
            return outcome.recall(task)
        except Damaged:  # it is set aside, so another look finds it missing
            continue
