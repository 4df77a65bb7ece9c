"""Keys follow the code that makes the number: each version is raised in turn, and the keys that move are looked at.

What should move is found another way: by grimp's graph of imports, and by what the functions of the tasks were really given.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest

from pipeline.contracts import Component
from pipeline.engine.task import Name, Task, describe_key, planned_digest
from pipeline.registry import component
from tests import key_table, sources
from tests.raised import raised

HERE = Path(__file__).parent
Place = tuple[str, Name]


def test_a_source_does_not_change_without_its_version() -> None:
    """The digest of each source file that makes numbers stands beside its version.

    If this fails: either the numbers change, then raise ``VERSION`` of the file that changes them; or they do not, and you say so
    by committing the new digest. In both cases ``python -m tests.sources > tests/sources.json`` writes the file.
    """
    committed = json.loads((HERE / "sources.json").read_text())
    found = sources.table()
    differ = sorted(name for name in {*committed, *found} if committed.get(name) != found.get(name))
    assert not differ


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """All tasks of an evaluation with every component that can be planned without data."""
    return key_table.tasks()


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("pipeline", exclude_type_checking_imports=True, cache_dir=None)


def given(value: Any, output: Name) -> Iterator[str]:
    """Modules of the components that a function was given for an output."""
    if isinstance(value, functools.partial):
        yield value.func.__module__
        for part in (*value.args, *value.keywords.values()):
            yield from given(part, output)
    elif isinstance(value, type) and issubclass(value, Component):
        yield value.__module__
    elif isinstance(value, dict):
        for name, part in value.items():
            if name == output:
                yield from given(part, output)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from given(getattr(value, field.name), output)
    elif callable(value):
        yield value.__module__


def makers(tasks: list[Task], imports: grimp.ImportGraph) -> dict[Place, set[str]]:
    """The modules that make each output, by the other way."""
    made = {}
    for task in tasks:
        for output in task.outputs:
            roots = set(given(task.function, output))
            if task.name == "train":
                # The network is found by its name.
                named = task.settings.get("architecture")
                roots |= {component("extractors", named).__module__} if named else set()
            made[task.id, output] = roots | {name for root in roots for name in imports.find_upstream_modules(root)}
    return made


def versions(tasks: list[Task]) -> dict[Place, Any]:
    return {
        (task.id, output): describe_key(task, output, planned_digest)["code"]
        for task in tasks
        for output in task.outputs
    }


def test_the_keys_that_move_are_those_whose_code_imports_what_was_raised(
    tasks: list[Task], imports: grimp.ImportGraph
) -> None:
    expected, before = makers(tasks, imports), versions(tasks)
    wrong = {}
    for module in sources.modules():
        with raised(module):
            now = versions(tasks)
        moved = {place for place, found in now.items() if found != before[place]}
        should = {place for place, found in expected.items() if module in found}
        if moved != should:
            wrong[module] = len(moved - should), len(should - moved)
    assert not wrong, (
        "modules with the outputs that moved though they do not import it, and that did not though they do"
    )
    reached = {name for found in expected.values() for name in found}
    # Scores that are given are read where there is no audio: tests/e2e/test_score_runs.py raises the version of that stage.
    unread = set(sources.task_modules()) - {"pipeline.stages.scores.score_files"} - reached
    assert not unread, "the evaluation has a task of every stage and product"


def moved_by(module: str, tasks: list[Task]) -> set[str]:
    """Labels of the tasks whose planned keys move, also by what they stand on, when the version of a module is raised."""
    before = {task.label: dict(task.planned) for task in tasks}
    with raised(module):
        again = {task.label: dict(task.planned) for task in key_table.tasks()}
    assert list(before) == list(again)
    return {label for label in before if before[label] != again[label]}


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("pipeline.backends.cosine", ("measure vsm", "measure p0p1", "measure asv", "score all pairs")),
        ("pipeline.stages.features.compute", ("extract segments of", "extract original", "measure srd", "measure vsm")),
        ("pipeline.extractors.f0", ("extract segments of", "score ranks of", "measure srd")),
        ("pipeline.nets.histograms", ("score ranks of", "measure srd")),
        ("pipeline.nets.waveforms", ("pack", "train", "measure asv")),
        ("pipeline.seeds", ("measure asv", "measure vsm", "train")),
        ("pipeline.audio", ("anonymise", "pack", "extract", "measure")),
    ],
)
def test_a_raised_version_reaches_the_numbers_that_stand_on_it(
    module: str, words: tuple[str, ...], tasks: list[Task]
) -> None:
    """The cases in which numbers were once reused after the code that made them had changed."""
    moved = moved_by(module, tasks)
    for word in words:
        assert any(label.startswith(word) for label in moved), word
