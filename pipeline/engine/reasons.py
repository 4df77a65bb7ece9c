"""Why a task's result is not in the store: the first field in which it differs from the nearest result that is.

The nearest is the result of the same stage, component and code with the fewest other fields; of several, one with the label of the
task, then the newest. At most :data:`LOOKED_AT` results of a stage are looked at, the newest of them, so that a store of any size
answers soon: in a large one a nearer result may go unseen.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine import code
from pipeline.engine.outcome import Outcome
from pipeline.engine.store import RECORD
from pipeline.engine.task import Name, Task, describe_key, list_makers

LOOKED_AT = 400
"""Records of a stage that are read."""
LISTED = 50_000
"""Folders of a stage that are asked for their age; keys are spread evenly, so any so many stand for all."""
_KEY_DIGITS = 64
_SHOWN = 48
_DIGEST_DIGITS = 12

Form = tuple[tuple[str, str], ...]
"""All fields of a key but its inputs, as (name, value in JSON), in the order in which they are compared."""


@dataclass(frozen=True)
class Reason:
    """Why something has to be computed.

    Attributes:
        text: in words; equal for all that have it for one reason; '' of what waits.
        than: the label of the nearest result, or of the task that it stands on; '' where there is none.
        waits: whether it stands on a task that is to be computed, and nothing more can be said yet.
    """

    text: str
    than: str = ""
    waits: bool = False

    def __str__(self) -> str:
        if self.waits:
            return f"stands on {self.than}, which is to be computed"
        return f"{self.text} (nearest: {self.than})" if self.than else self.text


NOTHING = Reason("nothing of this kind is stored")


@dataclass(frozen=True)
class _Stored:
    """A result in the store, as far as it is compared."""

    inputs: tuple[tuple[str, str], ...]
    label: str
    age: int


@dataclass
class _Shelf:
    """What is stored of one stage, by form; ``at`` are the places in a form's results with an input."""

    forms: dict[Form, list[_Stored]] = field(default_factory=dict)
    at: dict[Form, dict[tuple[str, str], list[int]]] = field(default_factory=dict)


class Reasons:
    """Answers for many tasks, over what their executor would find.

    Args:
        outcome: with all that is done taken from the store (:func:`pipeline.engine.outcome.look_up_tasks`).
    """

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._shelves: dict[str, _Shelf] = {}
        self._distances: dict[tuple[str, Form, frozenset[str]], list[tuple[int, Form]]] = {}

    def of(self, task: Task, missing: Sequence[Name]) -> Reason:
        """Why outputs of a task have to be computed: of the first of them, which is named where the task has several."""
        for ref in task.sources():
            if not self.outcome.has(ref):
                return Reason("", ref.task.label, waits=True)
        name = missing[0]
        reason = self._nearest(task, name)
        return reason if len(task.outputs) == 1 else Reason(f"{name}: {reason.text}", reason.than)

    def _nearest(self, task: Task, name: Name) -> Reason:
        shelf = self._shelf(task.name)
        if not shelf.forms:
            return NOTHING
        parts = describe_key(task, name, self.outcome.digest)
        versions = [code.read_version(module) for module in list_makers(task, name)]
        made_by = frozenset(version.name for version in versions if version is not None)
        form, inputs = _make_form(parts), _list_inputs(parts)
        best: tuple[tuple[int, bool, int], Form, _Stored] | None = None
        for distance, other in self._ordered(task.name, shelf, form, made_by):
            if best is not None and distance > best[0][0]:
                break
            for more, stored in _find_closest(shelf, other, inputs, task.label):
                rank = (distance + more, stored.label != task.label, stored.age)
                if best is None or rank < best[0]:
                    best = rank, other, stored
        return NOTHING if best is None else _describe_difference(form, inputs, best[1], best[2], best[0][0], task.label)

    def _shelf(self, stage: str) -> _Shelf:
        if stage not in self._shelves:
            self._shelves[stage] = _shelf(self.outcome.store.root / stage)
        return self._shelves[stage]

    def _ordered(self, stage: str, shelf: _Shelf, form: Form, made_by: frozenset[str]) -> list[tuple[int, Form]]:
        """The stored forms of the same component, with the number of fields that differ, nearest first."""
        query = (stage, form, made_by)
        if query not in self._distances:
            near = [other for other in shelf.forms if _is_alike(form, other, made_by)]
            # The number of fields that differ, or that one of the two lacks.
            self._distances[query] = sorted((len({name for name, _ in {*form} ^ {*other}}), other) for other in near)
        return self._distances[query]


def _find_closest(
    shelf: _Shelf, form: Form, inputs: tuple[tuple[str, str], ...], label: str
) -> Iterator[tuple[int, _Stored]]:
    """Of the results of a form, those with the most equal inputs and that with this label, with the number of other inputs."""
    candidates, equal = shelf.forms[form], defaultdict[int, int](int)
    for pair in inputs:
        for place in shelf.at[form].get(pair, ()):
            equal[place] += 1
    most = max(equal.values(), default=0)
    for place, stored in enumerate(candidates):
        if equal.get(place, 0) == most:
            yield max(len(inputs), len(stored.inputs)) - most, stored


def _shelf(folder: Path) -> _Shelf:
    shelf = _Shelf()
    for age, place in enumerate(_list_newest(folder)):
        try:
            record = json.loads((place / RECORD).read_bytes())
            parts, label = record["parts"], str(record["notes"].get("label", ""))
            form, stored = _make_form(parts), _Stored(_list_inputs(parts), label, age)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # `store verify` is there to say so
        results = shelf.forms.setdefault(form, [])
        at = shelf.at.setdefault(form, defaultdict(list))
        for pair in stored.inputs:
            at[pair].append(len(results))
        results.append(stored)
    return shelf


def _list_newest(folder: Path) -> list[Path]:
    places: list[tuple[int, str]] = []
    try:
        for prefix in sorted(folder.iterdir()):
            with os.scandir(prefix) as entries:
                places += [
                    (entry.stat().st_mtime_ns, entry.path) for entry in entries if len(entry.name) == _KEY_DIGITS
                ]
            if len(places) >= LISTED:
                break
    except OSError:  # nothing of the stage is stored, or another process is at work in it
        pass
    return [Path(path) for _, path in sorted(places, reverse=True)[:LOOKED_AT]]


def _expect_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no mapping")
    return value


def _make_form(parts: Mapping[str, Any]) -> Form:
    own = _expect_mapping(parts["output"])
    groups = {
        "setting": _expect_mapping(parts["settings"]),
        "output setting": _expect_mapping(own["settings"]),
        "version of": _expect_mapping(parts["code"]),
        "library": _expect_mapping(parts["libraries"]),
    }
    fields = []
    for title, group in groups.items():
        fields += [(f"{title} {name}", _json(value)) for name, value in sorted(group.items())]
    return (*fields, ("version of keys", _json(parts["key_version"])))


def _list_inputs(parts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    own = _expect_mapping(_expect_mapping(parts["output"])["inputs"])
    return tuple((str(name), str(value)) for name, value in sorted({**_expect_mapping(parts["inputs"]), **own}.items()))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


_NAMES = ("setting name", "output setting name", "setting kind", "setting cut")
"""Settings that say which kind of work it is, rather than how it is done."""


def _is_alike(form: Form, other: Form, made_by: frozenset[str]) -> bool:
    """Whether two forms are of one component, and made by the same code, which is named."""
    fields, other_fields = dict(form), dict(other)
    is_same_kind = all(fields.get(name) == other_fields.get(name) for name in _NAMES)
    return is_same_kind and all(f"version of {name}" in other_fields for name in made_by)


def _describe_difference(
    form: Form, inputs: tuple[tuple[str, str], ...], other: Form, stored: _Stored, count: int, label: str
) -> Reason:
    """The first field that differs from the nearest result, with both values, and how many more."""
    text = next(_describe_fields(form, other), "")
    if not text:
        stored_inputs = dict(stored.inputs)
        text = next((f"input {name} differs" for name, value in inputs if stored_inputs.get(name) != value), "")
    if not text:
        text = "an input less" if len(inputs) < len(stored.inputs) else "it cannot be used as it is stored"
    more = f", and {count - 1} more field{'s' if count > 2 else ''}" if count > 1 else ""
    return Reason(text + more, "" if stored.label == label else stored.label)


def _describe_fields(form: Form, other: Form) -> Iterator[str]:
    fields, other_fields = dict(form), dict(other)
    for name in dict.fromkeys([*fields, *other_fields]):
        if fields.get(name) != other_fields.get(name):
            yield f"{name.removeprefix('output ')} {_shorten(fields.get(name))}, stored: {_shorten(other_fields.get(name))}"


def _shorten(value: str | None) -> str:
    """A value in a line."""
    if value is None:
        return "none"
    plain = value.strip('"')
    if len(plain) == _KEY_DIGITS and set(plain) <= set("0123456789abcdef"):
        return f"{plain[:_DIGEST_DIGITS]}…"
    return value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"
