"""Several failures of one run as one error: a table of the roots, then what they took down in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    )  # torch's, which is not loaded for this


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
        faults += [
            _make_row(failed_task, error, stood[failed_task], logs.get(failed_task, ""))
            for failed_task, error in first_ones.items()
        ]
    waited = [failed_task.label for failed_task, error in failed.items() if isinstance(error, NotBegun)]
    down = [
        failed_task.label
        for failed_task, error in failed.items()
        if isinstance(error, NotRun) and not isinstance(error, NotBegun)
    ]
    if down:
        faults.append(Fault("not run, because a task that it stands on failed", where=join_few(down, 3)))
    if waited:
        faults.append(
            Fault("not begun, because fail_fast=true ends a run with its first failure", where=join_few(waited, 3))
        )
    return _find_class(list(first_ones.values()))(
        first.what,
        where=first.where or task.label,
        cause=first.cause,
        remedy=first.remedy,
        faults=faults,
    )


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


def _make_row(task: Task, error: PipelineError, stood: int, log_file: str) -> FailedTask:
    return FailedTask(
        error.what, where=error.where or task.label, stage=task.name, label=task.label, status=error.status, stood=stood,
        log_file=log_file,
    )  # fmt: skip


def _find_class(errors: Sequence[PipelineError]) -> type[PipelineError]:
    for kind in (ConfigError, DataError, ModelMissing):
        if errors and all(isinstance(error, kind) for error in errors):
            return kind
    return StageFailed
