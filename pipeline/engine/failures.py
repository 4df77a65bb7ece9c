"""Several failures of one run as one error: a table of the roots, then what they took down in a line."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.engine.task import Task
from pipeline.errors import (
    ConfigError,
    DataError,
    FailedTask,
    Fault,
    ModelMissing,
    PipelineError,
    StageFailed,
    explain_system_error,
)
from pipeline.names import join_few


class NotRun(StageFailed):
    """A task that stands on a failed one."""


class NotBegun(NotRun):
    """A task that nothing kept from being run, but that the run was to end with its first failure."""


def make_not_run(task: Task) -> NotRun:
    """That a task was not run because one that it stands on failed."""
    return NotRun(f"{task.label} was not run", cause="a task that it stands on failed")


def make_not_begun(task: Task) -> NotBegun:
    """That a task was not begun because another one failed and ``fail_fast=true`` was asked for."""
    return NotBegun(
        f"{task.label} was not begun",
        cause="another task failed, and fail_fast=true ends a run with its first failure",
        remedy="fail_fast=false goes on with whatever does not stand on a failed task",
    )


def find_exclusion(task: Task, failed: Mapping[Task, PipelineError], fail_fast: bool) -> NotRun | None:
    """Why a task is not to be begun any more, as things stand; None where it may be.

    Args:
        failed: what failed or was left out before.
        fail_fast: whether nothing more is begun after the first failure.
    """
    if any(ref.task in failed and not isinstance(failed[ref.task], NotBegun) for ref in task.sources()):
        return make_not_run(task)
    return make_not_begun(task) if failed and fail_fast else None


def explain_exception(task: Task, error: Exception) -> StageFailed:
    """An exception that a task did not explain."""
    refused = explain_system_error(error)
    if refused is not None:
        return refused
    if is_out_of_memory(error):
        return StageFailed(
            f"{task.label} failed: not enough memory",
            where=f"{type(error).__name__}: {error}",
            cause="the task needs more than there is, or other processes need it as well",
            remedy="free memory, use a machine with more, or with executor=processes fewer workers (executor.workers=1), and run the "
            "same command again; all finished tasks are reused",
        )
    return StageFailed(
        f"{task.label} failed with {type(error).__name__}: {error}",
        cause="see the traceback in run.log",
        remedy="mend the cause and run the same command again; all finished tasks are reused",
    )


def is_out_of_memory(error: Exception) -> bool:
    """Whether the memory of this machine, or of its GPU, did not suffice."""
    # The second is torch's, which is not loaded for this.
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def raise_failures(failed: Mapping[Task, PipelineError], logs: Mapping[Task, str] | None = None) -> None:
    """Raise one error for all failures, with a table of them where there are several; nothing if there is none. Its ``failed`` has
    each of them by its task.

    Args:
        failed: what failed, and what was not run because of it.
        logs: the file with the messages of whoever performed a task, where it is not that of the run.

    Raises:
        PipelineError: of the class that all roots have, where that says who has to mend it (configuration, data, a model that is
            missing); else StageFailed.
    """
    if failed:
        error = _join_errors(failed, logs or {})
        error.failed = dict(failed)
        raise error


def select_roots(failed: Mapping[Task, PipelineError]) -> dict[Task, PipelineError]:
    """The tasks that failed themselves."""
    return {task: error for task, error in failed.items() if not isinstance(error, NotRun)}


def _join_errors(failed: Mapping[Task, PipelineError], logs: Mapping[Task, str]) -> PipelineError:
    first_ones = select_roots(failed)
    task, first = next(iter((first_ones or failed).items()))
    if len(failed) == 1:
        return first
    faults = list(first.faults)
    if len(first_ones) > 1:
        stood = count_dependents(first_ones, failed)
        for root, error in first_ones.items():
            about = {"stage": root.name, "label": root.label, "log_file": logs.get(root, "")}
            where = error.where or root.label
            faults.append(FailedTask(error.what, where=where, status=error.status, stood=stood[root], **about))
    for kind, what in (
        (NotRun, "not run, because a task that it stands on failed"),
        (NotBegun, "not begun, because fail_fast=true ends a run with its first failure"),
    ):
        labels = [other.label for other, error in failed.items() if type(error) is kind]
        if labels:
            faults.append(Fault(what, where=join_few(labels, 3)))
    kinds = (ConfigError, DataError, ModelMissing)
    shared = [kind for kind in kinds if first_ones and all(isinstance(error, kind) for error in first_ones.values())]
    where = first.where or task.label
    return [*shared, StageFailed][0](first.what, where=where, cause=first.cause, remedy=first.remedy, faults=faults)


def count_dependents(first_ones: Mapping[Task, PipelineError], failed: Mapping[Task, PipelineError]) -> dict[Task, int]:
    """How many tasks were not run because they stand on each of these, directly or through others; one may stand on several."""
    roots: dict[Task, set[Task]] = {}

    def below(task: Task) -> set[Task]:
        if task not in roots:
            roots[task] = set()
            for source in {ref.task for ref in task.sources()}:
                if source in first_ones:
                    roots[task].add(source)
                elif source in failed:
                    roots[task] |= below(source)
        return roots[task]

    counts = dict.fromkeys(first_ones, 0)
    for task, error in failed.items():
        if task not in first_ones and not isinstance(error, NotBegun):
            for root in below(task):
                counts[root] += 1
    return counts
