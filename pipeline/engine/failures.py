"""Several failures of one run as one error: the roots by name, what they took down in a line."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.engine.task import Task
from pipeline.errors import Fault, PipelineError, StageFailed, system
from pipeline.names import few


class NotRun(StageFailed):
    """A task that stands on a failed one."""


def not_run(task: Task) -> NotRun:
    """That a task was not run because one that it stands on failed."""
    return NotRun(f"{task.label} was not run", cause="a task that it stands on failed")


def unexpected(task: Task, error: Exception) -> StageFailed:
    """An exception that a task did not explain."""
    refused = system(error)
    if refused is not None:
        return refused
    return StageFailed(
        f"{task.label} failed with {type(error).__name__}: {error}",
        cause="see the traceback in run.log",
        remedy="mend the cause and run the same command again; all finished tasks are reused",
    )


def raise_for(failed: Mapping[Task, PipelineError]) -> None:
    """Raise the first failure with all others as its faults; nothing if there is none.

    Raises:
        PipelineError: of the class of the first root.
    """
    if not failed:
        return
    roots = [(task, error) for task, error in failed.items() if not isinstance(error, NotRun)]
    task, first = roots[0]
    if len(failed) == 1:
        raise first
    others = [Fault(error.what, where=error.where or other.label) for other, error in roots[1:]]
    down = [task.label for task, error in failed.items() if isinstance(error, NotRun)]
    if down:
        others.append(Fault("not run, because a task that it stands on failed", where=few(down, 3)))
    raise type(first)(
        first.what,
        where=first.where or task.label,
        cause=first.cause,
        remedy=first.remedy,
        faults=[*first.faults, *others],
    )
