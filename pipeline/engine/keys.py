"""Keys of artefacts: a key is the content that a result depends on, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pipeline.engine import code
from pipeline.seeds import digest

if TYPE_CHECKING:
    from pipeline.engine.task import Input, Name, Task

KEY_VERSION = 2


@functools.cache
def library_version(name: str) -> str:
    """major.minor of an installed distribution, without a local build tag (``2.14.1+cu130`` is ``2.14``)."""
    try:
        return ".".join(version(name).split("+")[0].split(".")[:2])
    except PackageNotFoundError:
        return "absent"


def key(task: Task, output: Name, digest_of: Callable[[Input], str]) -> str:
    """The key (sha256, hex) of one output of a task.

    Args:
        task: the task.
        output: name of the output.
        digest_of: content digest of an input; an executor takes it from the store, a plan may take the key instead.
    """
    return digest(parts(task, output, digest_of))


def parts(task: Task, output: Name, digest_of: Callable[[Input], str]) -> dict[str, object]:
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
        "code": code.collect_versions(makers(task, output)),
        "libraries": {name: library_version(name) for name in sorted({*task.libraries, *own.libraries})},
    }


def makers(task: Task, output: Name) -> tuple[str, ...]:
    """The modules that make the numbers of an output, by themselves and by what they import."""
    function = task.function
    while isinstance(function, functools.partial):
        function = function.func
    return tuple(sorted({function.__module__, *task.code, *task.outputs[output].code}))
