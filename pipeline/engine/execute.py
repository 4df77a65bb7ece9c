"""Execution: tasks in turn, each reused or computed, each committed before the next."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine import keys
from pipeline.engine.progress import Meter
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Derived, Given, Input, Ref, Task
from pipeline.errors import Fault, PipelineError, StageFailed
from pipeline.registry import digest

log = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What a run of tasks made: artefacts by (task, output), and how many tasks were reused or computed."""

    artefacts: dict[tuple[Task, str], Artefact] = field(default_factory=dict)
    reused: int = 0
    computed: int = 0

    def artefact(self, ref: Ref) -> Artefact:
        return self.artefacts[(ref.task, ref.output)]

    def resolve(self, value: Input) -> tuple[str, Any]:
        """Content digest and value of an input whose sources are done."""
        if isinstance(value, Given):
            return value.digest, value.value
        if isinstance(value, Derived):
            given = value.select([self.artefact(ref) for ref in value.sources])
            return given.digest, given.value
        if isinstance(value, Ref):
            made = self.artefact(value)
            return made.digest, made
        several = [self.artefact(ref) for ref in value]
        return digest([made.digest for made in several]), several


def sources(task: Task) -> list[Ref]:
    """The outputs of other tasks that a task reads."""
    found: list[Ref] = []
    for inputs in [task.inputs, *(output.inputs for output in task.outputs.values())]:
        for value in inputs.values():
            if isinstance(value, Ref):
                found.append(value)
            elif isinstance(value, Derived):
                found.extend(value.sources)
            elif isinstance(value, tuple):
                found.extend(value)
    return found


def execute(
    tasks: Sequence[Task],
    store: Store,
    stop: Stop,
    outcome: Outcome | None = None,
    on_change: Callable[[str, int, int], None] | None = None,
) -> Outcome:
    """Run tasks in the given order, which must put sources first.

    A failed task does not end the run: what does not stand on it is still computed, then all failures are reported.

    Args:
        tasks: the graph, sources first.
        store: where artefacts are found and put.
        stop: looked at between tasks.
        outcome: the outcome of an earlier call, to go on with.
        on_change: called with (label, done, total) as tasks begin.

    Raises:
        Stopped: a signal arrived; what is finished stays.
        PipelineError: one or more tasks failed; the status is that of the first.
    """
    outcome = outcome or Outcome()
    failed: dict[Task, PipelineError] = {}
    with Meter(len(tasks), sum(task.cost for task in tasks)) as meter:
        for done, task in enumerate(tasks):
            stop.check()
            if any(ref.task in failed for ref in sources(task)):
                failed[task] = _NotRun(f"{task.label} was not run", cause="a task that it stands on failed")
                continue
            meter.begin(task.label)
            if on_change is not None:
                on_change(task.label, done, len(tasks))
            try:
                computed = _one(task, store, outcome, meter, stop)
            except PipelineError as error:
                failed[task] = error
                log.error("%s failed: %s", task.label, error)
                continue
            except (KeyboardInterrupt, SystemExit, Stopped):
                raise
            except Exception as error:
                log.exception("%s failed", task.label)
                failed[task] = StageFailed(
                    f"{task.label} failed with {type(error).__name__}: {error}",
                    cause="see the traceback in run.log",
                    remedy="mend the cause and run the same command again; all finished tasks are reused",
                )
                continue
            outcome.computed += computed
            outcome.reused += not computed
            meter.end(task.cost)
    if failed:
        _report(failed)
    return outcome


class _NotRun(StageFailed):
    """A task that stands on a failed one."""


def _report(failed: dict[Task, PipelineError]) -> None:
    roots = [(task, error) for task, error in failed.items() if not isinstance(error, _NotRun)]
    task, first = roots[0]
    if len(failed) == 1:
        raise first
    others = [Fault(error.what, where=other.label) for other, error in roots[1:]]
    down = [task.label for task, error in failed.items() if isinstance(error, _NotRun)]
    if down:
        more = f" and {len(down) - 3} more" if len(down) > 3 else ""
        others.append(Fault("not run, because a task that it stands on failed", where=", ".join(down[:3]) + more))
    raise type(first)(
        first.what,
        where=first.where or task.label,
        cause=first.cause,
        remedy=first.remedy,
        faults=[*first.faults, *others],
    )


def _one(task: Task, store: Store, outcome: Outcome, meter: Meter, stop: Stop) -> bool:
    """Find or make the outputs of one task; True if anything was computed."""
    resolved: dict[int, tuple[str, Any]] = {}

    def resolve(value: Input) -> tuple[str, Any]:
        if id(value) not in resolved:
            resolved[id(value)] = outcome.resolve(value)
        return resolved[id(value)]

    parts = {name: keys.parts(task, name, lambda value: resolve(value)[0]) for name in task.outputs}
    made_keys = {name: digest(part) for name, part in parts.items()}
    missing = []
    for name, key in made_keys.items():
        found = store.find(task.name, key)
        if found is None:
            missing.append(name)
        else:
            outcome.artefacts[(task, name)] = found
    if not missing:
        return False
    start = time.monotonic()
    work = _Work(task, tuple(missing), lambda value: resolve(value)[1], meter, stop)
    work.scratches = {name: functools.partial(store.scratch, task.name, made_keys[name]) for name in missing}
    try:
        for name in missing:
            work.folders[name] = store.begin(task.name, made_keys[name])
        task.function(work)
        if work.left_early:
            stop.check()
        seconds = time.monotonic() - start
        for name in missing:
            notes = {**work.notes.get(name, {}), "label": task.label, "seconds": round(seconds, 3)}
            folder = work.folders.pop(name)
            try:
                outcome.artefacts[(task, name)] = store.commit(task.name, made_keys[name], folder, parts[name], notes)
            except BaseException:
                store.discard(folder)
                raise
    except OSError as error:
        raise StageFailed(
            f"{task.label} could not write its result: {error}",
            where=str(store.root),
            cause="the disk is full, or the store is not writable",
            remedy="free space or set paths.root, then run the same command again; all finished tasks are reused",
        ) from error
    finally:
        for folder in work.folders.values():
            store.discard(folder)
    return True


class _Work:
    """The :class:`pipeline.engine.task.Work` of one task."""

    def __init__(
        self, task: Task, missing: tuple[str, ...], value: Callable[[Input], Any], meter: Meter, stop: Stop
    ) -> None:
        self.task, self.missing, self.value, self.meter, self.stop = task, missing, value, meter, stop
        self.scratches: dict[str, Callable[[], Path]] = {}
        self.left_early = False
        self.folders: dict[str, Path] = {}
        self.notes: dict[str, dict[str, Any]] = {}

    def input(self, name: str, output: str = "") -> Any:
        own = self.task.outputs[output].inputs if output in self.task.outputs else {}
        return self.value(own[name] if name in own else self.task.inputs[name])

    def folder(self, output: str = "") -> Path:
        return self.folders[output]

    def scratch(self, output: str = "") -> Path:
        return self.scratches[output]()

    def stopping(self) -> bool:
        # A signal that comes after the function last looked finds the work done: it is committed as ever.
        self.left_early = self.stop.number is not None
        return self.left_early

    def note(self, output: str = "", **notes: Any) -> None:
        self.notes.setdefault(output, {}).update(notes)

    def advance(self, seconds: float) -> None:
        self.meter.advance(seconds)


def planned_keys(tasks: Iterable[Task]) -> dict[tuple[Task, str], str]:
    """Keys as far as they can be told before anything runs: the key of a source stands in for its content digest.

    They are not the keys of the store, but they change exactly when those can change; the key table test reads them.
    """
    made: dict[tuple[Task, str], str] = {}

    def digest_of(value: Input) -> str:
        if isinstance(value, Given):
            return value.digest
        if isinstance(value, Derived):
            return digest([value.what, *(made[(ref.task, ref.output)] for ref in value.sources)])
        if isinstance(value, Ref):
            return made[(value.task, value.output)]
        return digest([made[(ref.task, ref.output)] for ref in value])

    for task in tasks:
        for name in task.outputs:
            made[(task, name)] = keys.key(task, name, digest_of)
    return made


def standing(tasks: Sequence[Task], store: Store, outcome: Outcome) -> list[tuple[Task, bool]]:
    """Whether each task would be reused, as far as can be told: what stands on missing work counts as missing."""
    states: dict[Task, bool] = {}
    for task in tasks:
        known = all(states.get(ref.task, (ref.task, ref.output) in outcome.artefacts) for ref in sources(task))
        found = {}
        if known:
            for name in task.outputs:
                made = store.find(task.name, keys.key(task, name, lambda value: outcome.resolve(value)[0]))
                if made is not None:
                    found[(task, name)] = made
        outcome.artefacts.update(found)
        states[task] = len(found) == len(task.outputs)
    return list(states.items())
