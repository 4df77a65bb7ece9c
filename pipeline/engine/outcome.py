"""What a run of tasks made, and what the inputs of further tasks are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine.store import Damaged, Store
from pipeline.engine.task import Artefact, Derived, Input, Name, Ref, Task, Value, make_key
from pipeline.seeds import digest


@dataclass
class Outcome:
    """Artefacts by (id of the task, output), and how many tasks were reused or computed. It pickles.

    What a selection takes of given artefacts never changes, so its digest is kept in the store: a run that finds everything done
    reads no vectors.
    """

    store: Store
    artefacts: dict[tuple[str, Name], Artefact] = field(default_factory=dict)
    reused: int = 0
    computed: int = 0
    _digests: dict[str, str] = field(default_factory=dict)
    _done: dict[tuple[str, tuple[Name, ...]], Task] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks are heavy, and whoever performs one elsewhere has those that it stands on.
        return {**self.__dict__, "_done": {}}

    def done(self) -> list[Task]:
        """The tasks that were performed in this process, sources first."""
        return list(self._done.values())

    def finished(self, task: Task) -> None:
        """A task was performed: its outputs are there."""
        self._done.setdefault((task.id, tuple(task.outputs)), task)

    def artefact(self, ref: Ref) -> Artefact:
        """The artefact of an output that is done."""
        return self.artefacts[ref.task.id, ref.output]

    def has(self, ref: Ref) -> bool:
        """Whether an output is done."""
        return (ref.task.id, ref.output) in self.artefacts

    def places(self, task: Task) -> list[Path]:
        """Where the outputs of a task lie that are done."""
        return [self.artefacts[task.id, name].place for name in task.outputs if (task.id, name) in self.artefacts]

    def digest(self, value: Input) -> str:
        """Content digest of an input whose sources are done."""
        if isinstance(value, Value):
            return value.digest
        if isinstance(value, Ref):
            return self.artefact(value).digest
        if not isinstance(value, Derived):
            return digest([self.artefact(ref).digest for ref in value])
        content = self._known(value)
        if content is None:
            choice = self._choice(value)
            content = self._digests[choice] = self.store.remember(choice, self._select(value).digest)
        return content

    def _known(self, value: Derived) -> str | None:
        """Content digest of a part whose sources are done, as it was found earlier; None if it was not."""
        if value.content:
            return value.content
        choice = self._choice(value)
        if choice not in self._digests:
            content = self.store.recall(choice)
            if content is None:
                return None
            self._digests[choice] = content
        return self._digests[choice]

    def _choice(self, value: Derived) -> str:
        return digest("selection", value.what, [self.artefact(ref).digest for ref in value.sources])

    def value(self, value: Input) -> Any:
        """The value of an input whose sources are done: of a Ref its artefact."""
        if isinstance(value, Value):
            return value.value
        if isinstance(value, Derived):
            return self._select(value).value
        return self.artefact(value) if isinstance(value, Ref) else [self.artefact(ref) for ref in value]

    def find(self, task: Task) -> dict[Name, Artefact]:
        """The outputs of a task that the store has, as far as its sources are done; they are taken.

        Raises:
            Damaged: what had to be read for this is damaged.
        """
        artefacts: dict[Name, Artefact] = {}
        for name in task.outputs:
            self.artefacts.pop((task.id, name), None)
        if all(self.has(ref) for ref in task.sources()):
            for name in task.outputs:
                artefact = self.store.find(task.name, make_key(task, name, self.digest))
                if artefact is not None:
                    artefacts[name] = self.artefacts[task.id, name] = artefact
        return artefacts

    def told(self, task: Task) -> bool:
        """Whether the keys of a task can be told without reading artefacts: its sources are done, and what it takes of them is
        known from earlier."""
        if not all(self.has(ref) for ref in task.sources()):
            return False
        inputs = [*task.inputs.values()]
        for output in task.outputs.values():
            inputs += output.inputs.values()
        return all(self._known(value) is not None for value in inputs if isinstance(value, Derived))

    def recall(self, task: Task) -> bool:
        """Take the sources of a task from the store, and theirs, as far as they are not done; whether all are there.

        For a process that performs a part of a graph: what others have made, it finds by its key.

        Raises:
            Damaged: what had to be read for this is damaged.
        """
        for ref in task.sources():
            if not self.has(ref):
                if not self.recall(ref.task):
                    return False
                self.find(ref.task)
                if not self.has(ref):
                    return False
                self.finished(ref.task)
        return True

    def _select(self, value: Derived) -> Value:
        return value.select([self.artefact(ref) for ref in value.sources])


def look_up_tasks(tasks: Sequence[Task], outcome: Outcome) -> list[tuple[Task, bool]]:
    """Whether each task would be reused, as far as can be told: what stands on missing work counts as missing."""
    while True:
        try:
            return [(task, len(outcome.find(task)) == len(task.outputs)) for task in tasks]
        except Damaged:  # it is set aside, so another look finds it missing
            continue


def find_missing(tasks: Sequence[Task], outcome: Outcome) -> dict[Task, list[Name]]:
    """The outputs that would be computed, by task, as :func:`standing` tells it; what it finds is taken."""
    lacking = [task for task, reused in look_up_tasks(tasks, outcome) if not reused]
    return {task: [name for name in task.outputs if not outcome.has(Ref(task, name))] for task in lacking}
