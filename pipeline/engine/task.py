"""What the engine knows of the work: tasks, their inputs and their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Artefact:
    """A finished output in the store: a folder that does not change any more, and the digest of its content."""

    key: str
    folder: Path
    digest: str
    record: Mapping[str, Any]

    def path(self, name: str) -> Path:
        """A file of the artefact."""
        return self.folder / name


@dataclass(frozen=True)
class Ref:
    """The output of another task as an input."""

    task: Task
    output: str = ""


@dataclass(frozen=True)
class Given:
    """A value that is known before anything runs (rows of the manifest, weights on disk), with the digest of its content."""

    digest: str
    value: Any


@dataclass(frozen=True)
class Derived:
    """A part of other outputs. Only the digest of the part enters keys, so what lies beside it in the same artefacts may
    change without touching the task (one added utterance touches one shard, not every speaker that the shard holds).

    ``what`` is a digest of the choice itself; it stands in for the part's content in keys that are planned before anything
    runs, and enters no other.
    """

    sources: tuple[Ref, ...]
    select: Callable[[Sequence[Artefact]], Given]
    what: str = ""


Input = Ref | Given | Derived | tuple[Ref, ...]


@dataclass(frozen=True)
class Output:
    """One artefact that a task makes. What is stated here enters the key of this output alone."""

    version: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """A piece of work: a function from inputs and numeric settings to one or more artefacts.

    Attributes:
        name: the stage; enters keys.
        label: what people read, e.g. ``extract original 3/12``; stays out of keys.
        version: raised whenever the function's result changes; enters keys.
        settings: fully resolved numeric settings (plain JSON values); enter keys.
        inputs: what the function reads; their content digests enter keys.
        outputs: by name; each has its own key, and the function makes only those that are missing.
        function: does the work; see :class:`Work`.
        libraries: distributions whose major.minor version changes the numbers; enter keys.
        cost: seconds of audio, for progress.
    """

    name: str
    label: str
    version: int
    function: Callable[[Work], None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=lambda: {"": Output()})
    libraries: tuple[str, ...] = ()
    cost: float = 0.0

    def ref(self, output: str = "") -> Ref:
        """This task's output as an input of another task."""
        if output not in self.outputs:
            raise KeyError(f"{self.label} has no output '{output}'")
        return Ref(self, output)


class Work(Protocol):
    """What a task's function is given."""

    missing: tuple[str, ...]

    def input(self, name: str, output: str = "") -> Any:
        """The resolved input: an :class:`Artefact`, a list of them, or the value of a Given or Derived."""

    def folder(self, output: str = "") -> Path:
        """The folder into which the files of a missing output go."""

    def scratch(self, output: str = "") -> Path:
        """A folder of the missing output that outlives a kill, for checkpoints; it goes when the output is committed."""

    def stopping(self) -> bool:
        """Whether the run was asked to stop; a function that is told so returns early, and its outputs are not committed."""

    def note(self, output: str = "", **notes: Any) -> None:
        """Facts for the record that are not content (counts, seconds, curves)."""

    def advance(self, seconds: float) -> None:
        """Report seconds of audio as done."""
