"""One task: its outputs are found in the store, or computed and committed. All executors go through here."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.engine import keys
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.task import Name, Task
from pipeline.errors import StageFailed, no_room
from pipeline.seeds import digest


def perform(task: Task, outcome: Outcome, progress: Progress, stop: Stop) -> bool:
    """Find or make the outputs of a task whose sources are done; True if anything was computed.

    Raises:
        PipelineError: the task failed.
        Stopped: it was told to stop, and did.
    """
    parts = {name: keys.parts(task, name, outcome.digest) for name in task.outputs}
    made = {name: digest(part) for name, part in parts.items()}
    store = outcome.store
    missing = []
    for name, key in made.items():
        found = store.find(task.name, key)
        if found is None:
            missing.append(name)
        else:
            outcome.artefacts[task.id, name] = found
    if not missing:
        return False
    work = _Work(task, tuple(missing), outcome, progress, stop)
    work.scratches = {name: functools.partial(store.scratch, task.name, made[name]) for name in missing}
    try:
        _compute(task, outcome, work, made, parts)
    except OSError as error:
        raise no_room(error, store.root) or StageFailed(
            f"{task.label} could not write its result: {error}",
            where=str(store.root),
            cause="the disk is full, or the store is not writable",
            remedy="free space or set paths.root, then run the same command again; all finished tasks are reused",
        ) from error
    finally:
        for folder in work.folders.values():
            store.discard(folder)
    return True


def _compute(task: Task, outcome: Outcome, work: _Work, made: Mapping[Name, str], parts: Mapping[Name, Any]) -> None:
    start, store = time.monotonic(), outcome.store
    for name in work.missing:
        work.folders[name] = store.begin(task.name, made[name])
    task.function(work)
    if work.left_early:
        work.stop.check()
    seconds = time.monotonic() - start
    for name in work.missing:
        notes = {**work.notes.get(name, {}), "label": task.label, "seconds": round(seconds, 3)}
        folder = work.folders.pop(name)
        try:
            outcome.artefacts[task.id, name] = store.commit(task.name, made[name], folder, parts[name], notes)
        except BaseException:
            store.discard(folder)
            raise


class _Work:
    """The :class:`pipeline.engine.task.Work` of one task."""

    def __init__(self, task: Task, missing: tuple[Name, ...], outcome: Outcome, progress: Progress, stop: Stop) -> None:
        self.task, self.missing, self.outcome, self.progress, self.stop = task, missing, outcome, progress, stop
        self._values: dict[tuple[str, Name], Any] = {}
        self.scratches: dict[Name, Callable[[], Path]] = {}
        self.left_early = False
        self.folders: dict[Name, Path] = {}
        self.notes: dict[Name, dict[str, Any]] = {}

    def input(self, name: str, output: Name = "") -> Any:
        own = self.task.outputs[output].inputs if output in self.task.outputs else {}
        place = (name, output if name in own else "")
        if place not in self._values:
            self._values[place] = self.outcome.value(own[name] if name in own else self.task.inputs[name])
        return self._values[place]

    def has(self, name: str) -> bool:
        return name in self.task.inputs

    def folder(self, output: Name = "") -> Path:
        return self.folders[output]

    def scratch(self, output: Name = "") -> Path:
        return self.scratches[output]()

    def stopping(self) -> bool:
        # A signal that comes after the function last looked finds the work done: it is committed as ever.
        self.left_early = self.stop.number is not None
        return self.left_early

    def note(self, output: Name = "", /, **notes: Any) -> None:
        self.notes.setdefault(output, {}).update(notes)

    def advance(self, seconds: float) -> None:
        self.progress.advance(seconds)
