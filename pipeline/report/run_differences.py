"""What tells runs apart: the settings that differ between their configurations, and short labels made of that.

A configuration names components under labels (``system.b2``) and has settings as leaves (``system.b2.alpha``). A setting that one run
leaves out has the default of its component. Where a plug-in that a run used is not installed, numbers count as depending on its settings.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline import registry
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import ConfigError
from pipeline.protocol.attackers import AttackerSettings
from pipeline.report.table import make_printable, shorten_middle


class _Absent:
    def __repr__(self) -> str:
        return "not set"


ABSENT: Final = _Absent()
"""The value of a setting that a run does not have."""

KINDS = {room.group: kind for kind, room in registry.COMPONENT_KINDS.items()}
LABELLED = ("extractor", "attacker", "backend", "system", "metric")
"""Groups with several components of a run, each under its label."""
RUNTIME = ("paths", "runtime", "store", "executor", "fail_fast", "hydra", "config_version", "bands", "scorecard")
"""What of a configuration no number depends on."""


@dataclass(frozen=True)
class GroupDifference:
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
class ConfigDifferences:
    """What differs between configurations."""

    labels: tuple[GroupDifference, ...]
    numeric: tuple[Setting, ...]
    runtime: tuple[Setting, ...]


def find_differences(configs: Sequence[Mapping[str, Any]]) -> ConfigDifferences:
    """What differs between configurations, in the order in which they have it."""
    groups: list[GroupDifference] = []
    by_role: dict[bool, list[Setting]] = {False: [], True: []}
    for section in dict.fromkeys(name for config in configs for name in config):
        values = [config.get(section, ABSENT) for config in configs]
        if section not in LABELLED:
            for setting in _list_settings(section, values):
                by_role[_is_runtime(setting.path, configs)].append(setting)
            continue
        # A list of labels alone has no settings.
        components: list[dict[Any, Any]] = [
            dict(group) if isinstance(group, Mapping) else {label: {} for label in group or ()} for group in values
        ]
        common = [label for label in components[0] if all(label in other for other in components)]
        own = tuple(tuple(str(label) for label in setting if label not in common) for setting in components)
        if any(own):
            groups.append(GroupDifference(section, own, tuple(common)))
        for label in common:
            for setting in _list_settings(f"{section}.{label}", [setting[label] for setting in components]):
                by_role[_is_runtime(setting.path, configs)].append(setting)
    groups.sort(key=lambda setting: LABELLED.index(setting.group))
    return ConfigDifferences(tuple(groups), tuple(by_role[False]), tuple(by_role[True]))


def _list_settings(path: str, values: Sequence[Any]) -> Iterator[Setting]:
    """The leaves below a path of which runs have other values; where one has no such part, the part is one leaf."""
    if not all(isinstance(value, Mapping) for value in values):
        yield from _list_leaf(path, values, values)
        return
    for name in dict.fromkeys(name for value in values for name in value):
        written = [value.get(name, ABSENT) for value in values]
        filled = [
            _find_default(f"{path}.{name}", value) if old is ABSENT else old for value, old in zip(values, written)
        ]
        yield from _list_leaf(f"{path}.{name}", filled, written)


def _list_leaf(path: str, filled: Sequence[Any], written: Sequence[Any]) -> Iterator[Setting]:
    if all(isinstance(value, Mapping) for value in filled):
        yield from _list_settings(path, filled)
        return
    # 1 and 1.0 mean the same, and so do nothing and an empty list; True and 1 do not.
    means = [None if value is ABSENT or value in ("", [], {}) else (isinstance(value, bool), value) for value in filled]
    means = [None if mean == (False, None) else mean for mean in means]
    if any(mean != means[0] for mean in means[1:]):
        defaults = tuple(old is ABSENT and new is not ABSENT for old, new in zip(written, filled))
        yield Setting(path, tuple(filled), defaults)


# ------------------------------------------------------------------------------------------- what components declare


def _find_model(path: str, component: Mapping[str, Any]) -> tuple[type[BaseModel], list[str]] | None:
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


def _find_default(path: str, component: Mapping[str, Any]) -> Any:
    """What a component takes where nothing is written."""
    model = _find_model(path, component)
    if model is None or len(model[1]) != 1 or model[1][0] not in model[0].model_fields:
        return ABSENT
    value = model[0].model_fields[model[1][0]].get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ABSENT
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return list(plain) if isinstance(plain, tuple) else plain


def _is_runtime(path: str, configs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no number depends on a setting, as far as is known."""
    section, *below = path.split(".")
    if section in RUNTIME:
        return True
    groups = [config.get(section) for config in configs]
    if section in LABELLED:
        groups = [group.get(below[0]) if isinstance(group, Mapping) and below else group for group in groups]
    return all(isinstance(group, Mapping) and _is_runtime_field(path, group) for group in groups)


def _is_runtime_field(path: str, component: Mapping[str, Any]) -> bool:
    model = _find_model(path, component)
    if model is None or not model[1] or model[1][0] not in model[0].model_fields:
        return False
    extra = model[0].model_fields[model[1][0]].json_schema_extra
    return isinstance(extra, dict) and extra.get("role") == "runtime"


def format_value(value: Any) -> str:
    """A value as one would write it, on one line."""
    if value is ABSENT:
        text = "not set"
    elif value is None or isinstance(value, bool):
        text = json.dumps(value)
    elif isinstance(value, float):
        text = f"{value:.12g}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(map(format_value, value)) + "]"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name}: {format_value(inner)}" for name, inner in value.items()) + "}"
    else:
        text = str(value) or '""'
    return make_printable(text)


# ---------------------------------------------------------------------------------------------------------- short labels

MOST = 24
"""Characters of a label."""
MAKES_SCORES = ("dataset", "train", "extractor", "attacker", "backend", "system")
"""Sections of a configuration whose settings are told before those of what is measured."""


@dataclass(frozen=True)
class AboutRun:
    """What is known of a run: its configuration, what its rows have in some columns, the components that these name by group, versions
    of libraries, and when it began, as its record or its id says."""

    config: Mapping[str, Any]
    datasets: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    components: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    started: str = ""


def describe_run(
    rows: pd.DataFrame,
    run_id: str,
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    status: Mapping[str, Any],
) -> AboutRun:
    def list_values(column: str) -> tuple[str, ...]:
        return tuple(sorted({str(value) for value in rows[column]} - {""}))

    named = {group: list_values(group) for group in ("extractor", "attacker", "backend", "system")}
    libraries = environment.get("libraries")
    return AboutRun(
        config,
        list_values("dataset"),
        list_values("code_version"),
        list_values("device"),
        named,
        {str(name): str(version) for name, version in libraries.items()} if isinstance(libraries, Mapping) else {},
        str(status.get("started") or run_id),
    )


def label_runs(runs: Sequence[AboutRun]) -> list[str]:
    """A label for each run, in their order: the first differences that tell the runs apart, then a letter; '' where there is one run
    alone. No two are equal, and none has more than :data:`MOST` characters."""
    if len(runs) < 2:
        return [""] * len(runs)
    labels = [""] * len(runs)
    for texts in _list_differences(runs):
        longer = [", ".join(filter(None, [label, shorten_middle(text, MOST)])) for label, text in zip(labels, texts)]
        if len(set(longer)) > len(set(labels)) and max(map(len, longer)) <= MOST:
            labels = longer
        if len(set(labels)) == len(labels) and all(labels):
            return labels
    often = Counter(labels)
    letters = [name_by_letter(place) for place in range(len(labels))]
    unique = [
        label if label and often[label] == 1 else f"{shorten_middle(label, MOST - len(letter) - 1)} {letter}".strip()
        for label, letter in zip(labels, letters)
    ]
    return unique if len(set(unique)) == len(unique) else letters


def name_by_letter(index: int) -> str:
    """A, B, … Z, AA, AB, …"""
    rest, place = divmod(index, 26)
    return (name_by_letter(rest - 1) if rest else "") + chr(65 + place)


# ------------------------------------------------------------------------------------------------ what runs differ in


def _list_differences(runs: Sequence[AboutRun]) -> Iterator[list[str]]:
    """Differences that make numbers differ, what tells most first, at last when runs began; a text a run."""
    if len({run.datasets for run in runs}) > 1:
        yield [f"dataset {' + '.join(run.datasets) or 'unknown'}" for run in runs]
    differences = find_differences(select_configs(runs))
    groups = {group.group: group for group in differences.labels}
    numeric = [setting for setting in differences.numeric if not setting.path.startswith("dataset.name")]
    names = _shorten_paths([setting.path for setting in numeric])
    by_part: dict[bool, list[list[str]]] = {True: [], False: []}
    for setting, name in zip(numeric, names):
        texts = [f"{name}={_name_value(value)}" for value in setting.values]
        by_part[setting.path.split(".")[0] in MAKES_SCORES].append(texts)
    yield from (_label_group(groups[name]) for name in ("extractor", "attacker", "backend") if name in groups)
    yield from by_part[True]
    yield from (_label_group(groups[name]) for name in ("system", "metric") if name in groups)
    yield from by_part[False]
    yield _shorten_times([run.started for run in runs])


def select_configs(runs: Sequence[AboutRun]) -> list[Mapping[str, Any]]:
    """The configurations; of all runs what the rows have, where one of them wrote none. Of score files that somebody else made it is
    the rows that name the components."""
    named = [{group: list(labels) for group, labels in run.components.items()} for run in runs]
    if not all(run.config for run in runs):
        return list(named)
    datasets = [run.config.get("dataset") for run in runs]
    of_scores = [isinstance(dataset, Mapping) and dataset.get("name") == "scores" for dataset in datasets]
    return [{**run.config, **(own if is_given else {})} for run, own, is_given in zip(runs, named, of_scores)]


def _label_group(group: GroupDifference) -> list[str]:
    """The labels that not all runs have; of two runs, that one has none of them, of several nothing."""
    if all(group.own):
        return ["+".join(labels) for labels in group.own]
    if len(group.own) > 2:
        return [f"+{'+'.join(labels)}" if labels else "" for labels in group.own]
    missing = "+".join(label for labels in group.own for label in labels)
    return [f"with {'+'.join(labels)}" if labels else f"without {missing}" for labels in group.own]


def _shorten_paths(paths: Sequence[str]) -> list[str]:
    """The last name of each path, with as many before it as tell it from the others; ``name`` is that of what it is the name of."""
    split = [[name for name in path.split(".") if name != "name"] for path in paths]
    short = []
    for parts in split:
        others = [other for other in split if other is not parts]
        long = next((n for n in range(1, len(parts)) if all(other[-n:] != parts[-n:] for other in others)), len(parts))
        short.append(".".join(parts[-long:]))
    return short


def _name_value(value: Any) -> str:
    """A value for a label: of a path its last name, of a component its name."""
    if value is None or value is ABSENT:
        return "none"
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return str(value["name"])
    if isinstance(value, str) and "/" in value:
        return value.rstrip("/").rpartition("/")[2]
    return format_value(value)


def _shorten_times(started: Sequence[str]) -> list[str]:
    """When each run began: the time of runs of one day, else the day and the time; '' where that is not known."""
    stamps = [re.match(r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d):?(\d\d):?(\d\d)", moment) for moment in started]
    texts = ["{}-{}-{} {}:{}:{}".format(*stamp.groups()) if stamp else "" for stamp in stamps]
    one_day = len({text[:10] for text in texts if text}) == 1
    return [text[11:] if one_day else text for text in texts]
