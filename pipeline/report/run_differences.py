"""Which settings of runs differ, from the configurations that they wrote: what numbers depend on, and what they do not.

A configuration names components under labels (``system.b2``) and has settings as leaves (``system.b2.alpha``). A setting that one run
leaves out has the default of its component. Where a plug-in that a run used is not installed, all its settings count as such that
numbers depend on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline import registry
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import ConfigError
from pipeline.protocol.attackers import AttackerSettings


class _Absent:
    def __repr__(self) -> str:
        return "not set"


ABSENT: Final = _Absent()
"""The value of a setting that a run does not have."""

KINDS = {room.group: kind for kind, room in registry.ROOMS.items()}
LABELLED = ("extractor", "attacker", "backend", "system", "metric")
"""Groups with several components of a run, each under its label."""
RUNTIME = ("paths", "runtime", "store", "executor", "fail_fast", "hydra", "config_version", "bands", "scorecard")
"""What of a configuration no number depends on."""


@dataclass(frozen=True)
class Labels:
    """A group of which runs have other components: by run, the labels that not all of them have."""

    group: str
    own: tuple[tuple[str, ...], ...]
    common: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """A setting with the value that each run has; ``defaults`` says of which runs it is the default, which they did not write."""

    path: str
    values: tuple[Any, ...]
    defaults: tuple[bool, ...]


@dataclass(frozen=True)
class Differing:
    """What differs between configurations."""

    labels: tuple[Labels, ...]
    numeric: tuple[Setting, ...]
    runtime: tuple[Setting, ...]


def of_configs(configs: Sequence[Mapping[str, Any]]) -> Differing:
    """What differs between configurations, in the order in which they have it."""
    groups: list[Labels] = []
    found: dict[bool, list[Setting]] = {False: [], True: []}
    for section in dict.fromkeys(name for config in configs for name in config):
        several = [config.get(section, ABSENT) for config in configs]
        if section not in LABELLED:
            for one in _settings(section, several):
                found[_is_runtime(one.path, configs)].append(one)
            continue
        held = [_labelled(one) for one in several]
        common = [label for label in held[0] if all(label in other for other in held)]
        own = tuple(tuple(label for label in one if label not in common) for one in held)
        if any(own):
            groups.append(Labels(section, own, tuple(common)))
        for label in common:
            for one in _settings(f"{section}.{label}", [one[label] for one in held]):
                found[_is_runtime(one.path, configs)].append(one)
    groups.sort(key=lambda one: LABELLED.index(one.group))
    return Differing(tuple(groups), tuple(found[False]), tuple(found[True]))


def _labelled(group: Any) -> dict[str, Any]:
    """The components of a group by label; a list of labels alone has no settings."""
    if isinstance(group, Mapping):
        return {str(label): one for label, one in group.items()}
    return {str(label): {} for label in group} if isinstance(group, list) else {}


def _settings(path: str, values: Sequence[Any]) -> Iterator[Setting]:
    """The leaves below a path of which runs have other values; where one has no such part, the part is one leaf."""
    if all(isinstance(one, Mapping) for one in values):
        for name in dict.fromkeys(name for one in values for name in one):
            several = [one.get(name, ABSENT) for one in values]
            filled = [
                _default(f"{path}.{name}", one) if value is ABSENT else value for one, value in zip(values, several)
            ]
            yield from _leaf(f"{path}.{name}", filled, several)
    else:
        yield from _leaf(path, values, values)


def _leaf(path: str, filled: Sequence[Any], written: Sequence[Any]) -> Iterator[Setting]:
    if all(isinstance(one, Mapping) for one in filled):
        yield from _settings(path, filled)
    elif any(one != filled[0] or type(one) is not type(filled[0]) for one in filled[1:]) and not _alike(filled):
        defaults = tuple(old is ABSENT and new is not ABSENT for old, new in zip(written, filled))
        yield Setting(path, tuple(filled), defaults)


def _alike(values: Sequence[Any]) -> bool:
    """Whether values mean the same although they are written differently: 1 and 1.0, nothing and an empty list."""
    if any(isinstance(one, bool) for one in values):
        return False
    if all(isinstance(one, int | float) for one in values):
        return len({float(one) for one in values}) == 1
    return all(one is ABSENT or one is None or one in ("", [], {}) for one in values)


# ------------------------------------------------------------------------------------------- what components declare


def _model(path: str, component: Mapping[str, Any]) -> tuple[type[BaseModel], list[str]] | None:
    """The settings that a path is of, and its names below them; None where they are not known."""
    section, *below = path.split(".")
    if section == "dataset":
        return DatasetSettings, below
    if section == "attacker":
        return AttackerSettings, below[1:]
    if section not in KINDS:
        return None
    try:
        model = registry.component(KINDS[section], str(component.get("name", ""))).Settings
    except ConfigError:
        return None
    return model, below if section in ("train", "executor") else below[1:]


def _default(path: str, component: Mapping[str, Any]) -> Any:
    """What a component takes where nothing is written."""
    known = _model(path, component)
    if known is None or len(known[1]) != 1 or known[1][0] not in known[0].model_fields:
        return ABSENT
    value = known[0].model_fields[known[1][0]].get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ABSENT
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return list(plain) if isinstance(plain, tuple) else plain


def _is_runtime(path: str, configs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no number depends on a setting, as far as is known."""
    section, *below = path.split(".")
    if section in RUNTIME:
        return True
    return all(_says_runtime(path, config.get(section), below) for config in configs)


def _says_runtime(path: str, group: Any, below: Sequence[str]) -> bool:
    one = group
    if path.split(".")[0] in LABELLED and isinstance(group, Mapping) and below:
        one = group.get(below[0])
    known = _model(path, one) if isinstance(one, Mapping) else None
    if known is None or not known[1] or known[1][0] not in known[0].model_fields:
        return False
    extra = known[0].model_fields[known[1][0]].json_schema_extra
    return isinstance(extra, dict) and extra.get("role") == "runtime"


# ------------------------------------------------------------------------------------------------------------- in words


def value(one: Any, most: int = 10**6) -> str:
    """A value as one would write it, on one line."""
    if one is ABSENT:
        return "not set"
    if one is None or isinstance(one, bool):
        said = json.dumps(one)
    elif isinstance(one, float):
        said = f"{one:.12g}"
    elif isinstance(one, str):
        said = one if one else '""'
    elif isinstance(one, list | tuple):
        said = "[" + ", ".join(value(each) for each in one) + "]"
    elif isinstance(one, Mapping):
        said = "{" + ", ".join(f"{name}: {value(each)}" for name, each in one.items()) + "}"
    else:
        said = str(one)
    return cut("".join(c if c.isprintable() else " " for c in said), most)


def cut(text: str, most: int) -> str:
    """A text that is no longer; what is left out is in its middle, for names differ at either end."""
    if len(text) <= most:
        return text
    begin = (most - 1) // 2
    return f"{text[:begin]}…{text[len(text) - (most - 1 - begin) :]}"
