"""Several failures of one run as one error: the roots by name, what they took down in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.engine.task import Task
from pipeline.errors import ConfigError, DataError, Fault, ModelMissing, PipelineError, StageFailed, system
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
    """Raise the first failure with all others as its faults; nothing if there is none. Its ``failed`` has each of them by its task.

    Raises:
        PipelineError: of the class that all roots have, where that says who has to mend it (configuration, data, a model that is
            missing); else StageFailed.
    """
    if failed:
        error = _joined(failed)
        error.failed = dict(failed)
        raise error


def roots(failed: Mapping[Task, PipelineError]) -> dict[Task, PipelineError]:
    """The tasks that failed themselves."""
    return {task: error for task, error in failed.items() if not isinstance(error, NotRun)}


def _joined(failed: Mapping[Task, PipelineError]) -> PipelineError:
    first_ones = list(roots(failed).items())
    task, first = first_ones[0]
    if len(failed) == 1:
        return first
    others = [Fault(error.what, where=error.where or other.label) for other, error in first_ones[1:]]
    down = [task.label for task, error in failed.items() if isinstance(error, NotRun)]
    if down:
        others.append(Fault("not run, because a task that it stands on failed", where=few(down, 3)))
    return _class([error for _, error in first_ones])(
        first.what,
        where=first.where or task.label,
        cause=first.cause,
        remedy=first.remedy,
        faults=[*first.faults, *others],
    )


def _class(errors: Sequence[PipelineError]) -> type[PipelineError]:
    for kind in (ConfigError, DataError, ModelMissing):
        if all(isinstance(error, kind) for error in errors):
            return kind
    return StageFailed
