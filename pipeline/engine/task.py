"""What the engine knows of the work: tasks, their inputs, their outputs and the keys of these.

Tasks are plain values: they pickle, and two tasks that do the same are equal, in any process. A key is the content that a result
depends on, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from pipeline.engine import code
from pipeline.seeds import digest

Name = Hashable
"""What an output is called: '' for a task with one output, else a value that the plan finds it by."""


@dataclass(frozen=True)
class Artefact:
    """A finished output in the store: a folder that does not change any more, and the digest of its content.

    Attributes:
        key: by which it is found.
        place: its folder, for those who do not read it.
        digest: of its content.
        record: what the store says of it.
        check: called before it is read.
        inode: of its folder as it was found: what is made again in its place has another. 0 where nobody looked.
    """

    key: str
    place: Path
    digest: str
    record: Mapping[str, Any]
    check: Callable[[Artefact], None] | None = field(default=None, compare=False, repr=False)
    inode: int = field(default=0, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """Its folder, to read from.

        Raises:
            Damaged: it is not what was put into the store (pipeline.engine.store); an executor then has it made again.
        """
        self.look()
        return self.place

    def look(self) -> None:
        """Have it checked, for those to whom its files are known by another way; raises as :attr:`folder` does."""
        if self.check is not None:
            self.check(self)

    def path(self, name: str) -> Path:
        """A file of the artefact, to read; raises as :attr:`folder` does."""
        return self.folder / name


@dataclass(frozen=True)
class Ref:
    """The output of another task as an input."""

    task: Task
    output: Name = ""


@dataclass(frozen=True, eq=False)
class Value:
    """A value that is known before anything runs (rows of the manifest, weights on disk), with the digest of its content."""

    digest: str
    value: Any


class Selection(Protocol):
    """How a part of artefacts is taken: a frozen dataclass, so that a plan can be pickled."""

    def __call__(self, artefacts: Sequence[Artefact]) -> Value: ...

    def digest(self) -> str:
        """Digest of all that the choice depends on beside the artefacts."""


@dataclass(frozen=True, eq=False)
class Derived:
    """A part of other outputs. Only the digest of the part enters keys, so what lies beside it in the same artefacts may
    change without touching the task (one added utterance touches one shard, not every speaker that the shard holds).
    """

    sources: tuple[Ref, ...]
    select: Selection
    content: str = ""
    """Its content digest, where that can be told without the outputs; else ''."""

    @functools.cached_property
    def what(self) -> str:
        """Digest of the choice; before anything runs it stands in for the content of the part."""
        return self.select.digest()

    @functools.cached_property
    def planned(self) -> str:
        """What stands in for the content of this part of these outputs before anything runs."""
        return digest([self.what, *(ref.task.planned[ref.output] for ref in self.sources)])


Input = Ref | Value | Derived | tuple[Ref, ...]


@dataclass(frozen=True, eq=False)
class Output:
    """One artefact that a task makes. What is stated here enters the key of this output alone.

    Attributes:
        settings: fully resolved numeric settings (plain JSON values).
        inputs: what the function reads for this output.
        code: modules that make the numbers of this output, beside those of the task.
        libraries: distributions whose major.minor version changes the numbers.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resources:
    """What a task takes.

    Attributes:
        seconds: of audio, for progress and for sharing out work.
        device: whether it uses an accelerator where there is one.
    """

    seconds: float = 0.0
    device: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """A piece of work: a function from inputs and numeric settings to one or more artefacts.

    Attributes:
        name: the stage; enters keys.
        label: what people read, e.g. ``extract original 3/12``; stays out of keys and is never compared.
        function: does the work; see :class:`Work`. Its module makes the numbers, and so do those of ``code``.
        settings: fully resolved numeric settings (plain JSON values); enter keys.
        inputs: what the function reads; their content digests enter keys.
        outputs: by name; each has its own key, and the function makes only those that are missing.
        code: modules of the components that it uses; they and all that they import enter keys by their versions.
        libraries: distributions whose major.minor version changes the numbers; enter keys.
        resources: what it takes; stay out of keys.
    """

    name: str
    label: str
    function: Callable[[Work], None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[Name, Output] = field(default_factory=lambda: {"": Output()})
    code: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    resources: Resources = Resources()

    def ref(self, output: Name = "") -> Ref:
        """This task's output as an input of another task."""
        if output not in self.outputs:
            raise KeyError(f"{self.label} has no output '{output}'")
        return Ref(self, output)

    @functools.cached_property
    def planned(self) -> Mapping[Name, str]:
        """The keys of the outputs as far as they can be told before anything runs: the key of a source stands in for its
        content digest. They are not the keys of the store, but they change exactly when those can change."""
        return {name: make_key(self, name, planned_digest) for name in self.outputs}

    @functools.cached_property
    def id(self) -> str:
        """What tells tasks apart, the same in every process."""
        return digest(self.name, list(self.planned.values()))

    def sources(self, outputs: Collection[Name] | None = None) -> list[Ref]:
        """The outputs of other tasks that this one reads, for all of its outputs or for these."""
        sources: list[Ref] = []
        chosen = [output for name, output in self.outputs.items() if outputs is None or name in outputs]
        for inputs in [self.inputs, *(output.inputs for output in chosen)]:
            for value in inputs.values():
                sources += list_refs(value)
        return sources

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def planned_digest(value: Input) -> str:
    """What stands in for the content digest of an input before anything runs."""
    if isinstance(value, Value):
        return value.digest
    if isinstance(value, Ref):
        return value.task.planned[value.output]
    return value.planned if isinstance(value, Derived) else digest([ref.task.planned[ref.output] for ref in value])


def list_refs(value: Input) -> Sequence[Ref]:
    """The outputs that an input is, or is taken from."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Derived):
        return value.sources
    return value if isinstance(value, tuple) else ()


class Work(Protocol):
    """What a task's function is given."""

    missing: tuple[Name, ...]

    def input(self, name: str, output: Name = "") -> Any:
        """The resolved input: an :class:`Artefact`, a list of them, or the value of a Given or Derived."""

    def has(self, name: str) -> bool:
        """Whether the task has an input of this name."""

    def folder(self, output: Name = "") -> Path:
        """The folder into which the files of a missing output go."""

    def scratch(self, output: Name = "", steps: Callable[[Path], int] | None = None) -> Path:
        """A folder of the missing output that outlives a kill, for checkpoints; it goes when the output is committed. ``steps`` says how
        far the checkpoint in a folder is: of several that were left, the furthest is taken over."""

    def stopping(self) -> bool:
        """Whether the run was asked to stop; a function that is told so returns early, and its outputs are not committed."""

    def note(self, output: Name = "", /, **notes: Any) -> None:
        """Facts for the record that are not content (counts, seconds, curves)."""

    def advance(self, seconds: float) -> None:
        """Report seconds of audio as done."""


KEY_VERSION = 2


@functools.cache
def read_library_version(name: str) -> str:
    """major.minor of an installed distribution, without a local build tag (``2.14.1+cu130`` is ``2.14``)."""
    try:
        return ".".join(version(name).split("+")[0].split(".")[:2])
    except PackageNotFoundError:
        return "absent"


def make_key(task: Task, output: Name, digest_of: Callable[[Input], str]) -> str:
    """The key (sha256, hex) of one output of a task.

    Args:
        task: the task.
        output: name of the output.
        digest_of: content digest of an input; an executor takes it from the store, a plan may take the key instead.
    """
    return digest(describe_key(task, output, digest_of))


def describe_key(task: Task, output: Name, digest_of: Callable[[Input], str]) -> dict[str, object]:
    """Everything that enters the key, as plain values: what the record shows when somebody asks why a key changed."""
    own = task.outputs[output]

    def digests(inputs: Mapping[str, Input]) -> dict[str, str]:
        return {name: digest_of(value) for name, value in sorted(inputs.items())}

    return {
        "key_version": KEY_VERSION,
        "stage": task.name,
        "settings": dict(task.settings),
        "inputs": digests(task.inputs),
        "output": {"settings": dict(own.settings), "inputs": digests(own.inputs)},
        "code": code.collect_versions(list_makers(task, output)),
        "libraries": {name: read_library_version(name) for name in sorted({*task.libraries, *own.libraries})},
    }


def list_makers(task: Task, output: Name) -> tuple[str, ...]:
    """The modules that make the numbers of an output, by themselves and by what they import."""
    return tuple(sorted({unwrap_function(task).__module__, *task.code, *task.outputs[output].code}))


def unwrap_function(task: Task) -> Callable[..., None]:
    """The function of a task without the arguments that it is bound to."""
    function: Callable[..., None] = task.function
    while isinstance(function, functools.partial):
        function = function.func
    return function
