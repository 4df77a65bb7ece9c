"""Tasks in this process: the outputs of each are found in the store, or computed and committed. All executors go through here."""

from __future__ import annotations

import errno
import functools
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline.engine import claims, failures
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Damaged, explain_loss
from pipeline.engine.task import Name, Ref, Task, describe_key, list_refs
from pipeline.errors import PipelineError, os_error
from pipeline.seeds import digest

_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EEXIST, errno.ENOTDIR)
"""Errors that come of writing alone, or of a file in the place of the store."""


def perform_task(task: Task, outcome: Outcome, progress: Progress, stop: Stop) -> bool:
    """Find or make the outputs of a task whose sources are done; True if anything was computed.

    What a task reads is looked at before its function is called. Where that is damaged, the task that makes it is performed again,
    and so is whatever stands on it if its content turns out to be another.

    Raises:
        PipelineError: the task failed, or one that had to be performed again.
        Stopped: it was told to stop, and did.
    """
    while True:
        try:
            computed = _perform_once(task, outcome, progress, stop)
        except Damaged as error:
            _repair(error, task, outcome, progress, stop)
            continue
        except (OSError, PipelineError):
            taken = _find_loss(task, outcome)
            if taken is None:
                raise
            _repair(taken, task, outcome, progress, stop)
            continue
        outcome.finished(task)
        return computed


def _repair(error: Damaged, reader: Task, outcome: Outcome, progress: Progress, stop: Stop) -> None:
    """Have a damaged artefact made again by the source of the task that reads it."""
    changed: set[Ref] = set()

    def again(task: Task) -> None:
        list_refs = [Ref(task, name) for name in task.outputs]
        before = [outcome.artefact(ref).digest if outcome.has(ref) else "" for ref in list_refs]
        if perform_task(task, outcome, progress, stop) and task in done and outcome.reused:
            outcome.reused, outcome.computed = outcome.reused - 1, outcome.computed + 1
        changed.update(ref for ref, old in zip(list_refs, before) if outcome.artefact(ref).digest != old)

    done = outcome.done()
    # Several tasks may have made the same.
    candidates = [*done, *(ref.task for ref in reader.sources())]
    makers = [task for task in candidates if any(place == error.artefact.place for place in outcome.places(task))]
    if not makers:
        raise error
    for task in makers:
        again(task)
    for task in done:
        if any(ref in changed for ref in task.sources()):
            again(task)


def _perform_once(task: Task, outcome: Outcome, progress: Progress, stop: Stop) -> bool:
    parts = {name: describe_key(task, name, outcome.digest) for name in task.outputs}
    task_keys = {name: digest(part) for name, part in parts.items()}
    store = outcome.store
    folders: dict[Name, Path] | None = None
    while folders is None:
        missing = _find_missing(task, outcome, task_keys)
        if not missing:
            return False
        for ref in task.sources(missing):
            store.sound(outcome.artefact(ref))
        try:
            folders = claims.claim_folders(store, task, {name: task_keys[name] for name in missing}, stop)
        except OSError as error:
            raise _explain(error, task, store.root) from error
    work = _Work(task, tuple(missing), outcome, progress, stop)
    work.folders = folders
    work.scratches = {name: functools.partial(store.scratch, task.name, task_keys[name]) for name in missing}
    try:
        _compute(task, outcome, work, task_keys, parts)
    except OSError as error:
        if error.errno is None:  # a library's own: the traceback says more than we can
            raise
        raise _explain(error, task, store.root) from error
    finally:
        for folder in work.folders.values():
            store.discard(folder)
        for name in missing:
            store.release(task.name, task_keys[name])
    return True


def _explain(error: OSError, task: Task, root: Path) -> PipelineError:
    what = "could not write its result" if error.errno in _WRITING else "failed"
    return os_error(error, f"{task.label} {what}", root)


def _find_missing(task: Task, outcome: Outcome, task_keys: Mapping[Name, str]) -> list[Name]:
    """The outputs that the store lacks; the others are taken."""
    missing = []
    for name, key in task_keys.items():
        artefact = outcome.store.find(task.name, key)
        if artefact is None:
            missing.append(name)
        else:
            outcome.artefacts[task.id, name] = artefact
    return missing


def _find_loss(task: Task, outcome: Outcome) -> Damaged | None:
    """What a task that failed was reading while another process set it aside or made it again; None if all stands."""
    for ref in task.sources():
        artefact = outcome.artefact(ref)
        with suppress(OSError):  # what cannot be told is no damage
            reason = explain_loss(artefact)
            if reason:
                return Damaged(artefact, reason)
    return None


def _compute(
    task: Task, outcome: Outcome, work: _Work, task_keys: Mapping[Name, str], parts: Mapping[Name, Any]
) -> None:
    start, store = time.monotonic(), outcome.store
    with claims.touch_claims(tuple(work.folders.values()), lambda: work.last_sign):
        task.function(work)
        if work.left_early:
            work.stop.check()
        seconds = time.monotonic() - start
        for name in work.missing:
            notes = {**work.notes.get(name, {}), "label": task.label, "seconds": round(seconds, 3)}
            notes["sources"] = _list_sources(task, name, outcome)
            folder = work.folders.pop(name)
            try:
                outcome.artefacts[task.id, name] = store.commit(task.name, task_keys[name], folder, parts[name], notes)
            except BaseException:
                store.discard(folder)
                raise


def _list_sources(task: Task, output: Name, outcome: Outcome) -> dict[str, list[str]]:
    """The keys of the artefacts that an output was made from, by input: its parts say the digests of what was taken of them."""
    inputs = {**task.inputs, **task.outputs[output].inputs}
    sources = {name: [outcome.artefact(ref).key for ref in list_refs(value)] for name, value in inputs.items()}
    return {name: source_keys for name, source_keys in sources.items() if source_keys}


class _Work:
    """The :class:`pipeline.engine.task.Work` of one task."""

    def __init__(self, task: Task, missing: tuple[Name, ...], outcome: Outcome, progress: Progress, stop: Stop) -> None:
        self.task, self.missing, self.outcome, self.progress, self.stop = task, missing, outcome, progress, stop
        self._values: dict[tuple[str, Name], Any] = {}
        self.scratches: dict[Name, Callable[..., Path]] = {}
        self.last_sign = time.monotonic()
        self.left_early = False
        self.folders: dict[Name, Path] = {}
        self.notes: dict[Name, dict[str, Any]] = {}

    def _sign(self) -> None:
        """The work goes on: see pipeline.engine.claims.HANG_SECONDS."""
        self.last_sign = time.monotonic()

    def input(self, name: str, output: Name = "") -> Any:
        self._sign()
        own = self.task.outputs[output].inputs if output in self.task.outputs else {}
        place = (name, output if name in own else "")
        if place not in self._values:
            self._values[place] = self.outcome.value(own[name] if name in own else self.task.inputs[name])
        return self._values[place]

    def has(self, name: str) -> bool:
        return name in self.task.inputs

    def folder(self, output: Name = "") -> Path:
        return self.folders[output]

    def scratch(self, output: Name = "", steps: Callable[[Path], int] | None = None) -> Path:
        return self.scratches[output](steps)

    def stopping(self) -> bool:
        self._sign()
        # A signal that comes after the function last looked finds the work done: it is committed as ever.
        self.left_early = self.stop.number is not None
        return self.left_early

    def note(self, output: Name = "", /, **notes: Any) -> None:
        self._sign()
        self.notes.setdefault(output, {}).update(notes)

    def advance(self, seconds: float) -> None:
        self._sign()
        self.progress.advance(self.task, seconds)


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
