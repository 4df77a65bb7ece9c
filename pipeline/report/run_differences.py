"""What tells runs apart: the settings that differ between their configurations, and short labels made of that.

A configuration names components under labels (``system.b2``) and has settings as leaves (``system.b2.alpha``). A setting that one run
leaves out has the default of its component. Where a plug-in that a run used is not installed, all its settings count as such that
numbers depend on. Labels (``ecapa`` and ``campplus``, ``seed=1`` and ``seed=2``) are unique, at most :data:`MOST` characters, and follow from
what the runs are. Runs that do not differ are told apart by the time when they began, and by a letter where that does not help.
"""

from __future__ import annotations

import itertools
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
        components = [_label_components(setting) for setting in values]
        common = [label for label in components[0] if all(label in other for other in components)]
        own = tuple(tuple(label for label in setting if label not in common) for setting in components)
        if any(own):
            groups.append(GroupDifference(section, own, tuple(common)))
        for label in common:
            for setting in _list_settings(f"{section}.{label}", [setting[label] for setting in components]):
                by_role[_is_runtime(setting.path, configs)].append(setting)
    groups.sort(key=lambda setting: LABELLED.index(setting.group))
    return ConfigDifferences(tuple(groups), tuple(by_role[False]), tuple(by_role[True]))


def _label_components(group: Any) -> dict[str, Any]:
    """The components of a group by label; a list of labels alone has no settings."""
    if isinstance(group, Mapping):
        return {str(label): settings for label, settings in group.items()}
    return {str(label): {} for label in group} if isinstance(group, list) else {}


def _list_settings(path: str, values: Sequence[Any]) -> Iterator[Setting]:
    """The leaves below a path of which runs have other values; where one has no such part, the part is one leaf."""
    if all(isinstance(value_of_run, Mapping) for value_of_run in values):
        for name in dict.fromkeys(name for value_of_run in values for name in value_of_run):
            written = [value_of_run.get(name, ABSENT) for value_of_run in values]
            filled = [
                _find_default(f"{path}.{name}", value_of_run) if value is ABSENT else value
                for value_of_run, value in zip(values, written)
            ]
            yield from _list_leaf(f"{path}.{name}", filled, written)
    else:
        yield from _list_leaf(path, values, values)


def _list_leaf(path: str, filled: Sequence[Any], written: Sequence[Any]) -> Iterator[Setting]:
    if all(isinstance(value, Mapping) for value in filled):
        yield from _list_settings(path, filled)
    elif any(value != filled[0] or type(value) is not type(filled[0]) for value in filled[1:]) and not _mean_the_same(
        filled
    ):
        defaults = tuple(old is ABSENT and new is not ABSENT for old, new in zip(written, filled))
        yield Setting(path, tuple(filled), defaults)


def _mean_the_same(values: Sequence[Any]) -> bool:
    """Whether values mean the same although they are written differently: 1 and 1.0, nothing and an empty list."""
    if any(isinstance(value, bool) for value in values):
        return False
    if all(isinstance(value, int | float) for value in values):
        return len({float(value) for value in values}) == 1
    return all(value is ABSENT or value is None or value in ("", [], {}) for value in values)


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
    return all(_is_runtime_field(path, config.get(section), below) for config in configs)


def _is_runtime_field(path: str, group: Any, below: Sequence[str]) -> bool:
    component = group
    if path.split(".")[0] in LABELLED and isinstance(group, Mapping) and below:
        component = group.get(below[0])
    model = _find_model(path, component) if isinstance(component, Mapping) else None
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
TOGETHER = 3
"""So many differences a label has at most."""
LOOKED_AT = 10
"""So many differences labels are made of; there may be very many."""
MAKES_SCORES = ("dataset", "train", "extractor", "attacker", "backend", "system")
"""Sections of a configuration whose settings are told before those of what is measured."""


@dataclass(frozen=True)
class AboutRun:
    """What is known of a run.

    Attributes:
        config: as the run wrote it; empty where it wrote none.
        datasets, inputs, versions, devices: what its rows have in these columns.
        components: labels of extractors, attackers, back ends and systems, by group, of its rows.
        libraries: versions by name.
        started: as its record says it, or its id; '' where neither does.
    """

    config: Mapping[str, Any]
    datasets: tuple[str, ...] = ()
    inputs: str = ""
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
    """What is known of a run by its rows and its records."""

    def list_values(column: str) -> tuple[str, ...]:
        return tuple(sorted({str(value) for value in rows[column]} - {""}))

    named = {group: list_values(group) for group in ("extractor", "attacker", "backend", "system")}
    libraries = environment.get("libraries")
    began = next((str(status[key]) for key in ("started", "start", "begin", "created") if status.get(key)), "")
    return AboutRun(
        config,
        list_values("dataset"),
        ",".join(list_values("input_digest")),
        list_values("code_version"),
        list_values("device"),
        named,
        {str(name): str(one) for name, one in libraries.items()} if isinstance(libraries, Mapping) else {},
        began or run_id,
    )


def label_runs(runs: Sequence[AboutRun]) -> list[str]:
    """A label for each run, in their order; '' where there is one alone."""
    if len(runs) < 2:
        return [""] * len(runs)
    told = [[shorten_middle(text, MOST) for text in texts] for texts in _list_differences(runs)]
    run_labels = [label or _name_common(runs) for label in _choose_differences(told, len(runs))]
    for texts in _list_further_differences(runs):
        if len(set(run_labels)) == len(run_labels) and all(run_labels):
            break
        longer = [_join_parts([*filter(None, [label]), text]) for label, text in zip(run_labels, texts)]
        if len(set(longer)) > len(set(run_labels)) and max(map(len, longer)) <= MOST:
            run_labels = longer
    return _make_unique(run_labels)


def _choose_differences(told: Sequence[Sequence[str]], n: int) -> list[str]:
    """The differences that tell most of n runs apart, of these those that fit as they are, and of these as many as fit."""
    best, chosen = (0, 0, 0), [""] * n
    for size in range(1, TOGETHER + 1):
        for selected in itertools.combinations(told[:LOOKED_AT], size):
            fitted = [_fit_parts([texts[place] for texts in selected], selected) for place in range(n)]
            candidates = [label for label, _ in fitted]
            rank = len(set(candidates) - {""}), -sum(dropped for _, dropped in fitted), size
            if rank > best:
                best, chosen = rank, candidates
    return chosen


def _name_common(runs: Sequence[AboutRun]) -> str:
    """What a run is called that lacks what others have in addition: by the components that all have."""
    groups = find_differences(select_configs(runs)).labels
    return shorten_middle("+".join(groups[0].common), MOST) if groups else ""


def _fit_parts(parts: Sequence[str], texts_of_parts: Sequence[Sequence[str]]) -> tuple[str, int]:
    """The parts of a run's label as far as they fit, and how many do not: what most runs have in common is left out first."""
    shared = {part: list(texts).count(part) for part, texts in zip(parts, texts_of_parts)}
    kept = [part for part in parts if part]
    while len(_join_parts(kept)) > MOST:
        kept.remove(max(reversed(kept), key=lambda part: shared[part]))
    return _join_parts(kept), sum(map(bool, parts)) - len(kept)


def _join_parts(parts: Sequence[str]) -> str:
    return ", ".join(parts)


def _make_unique(labels: Sequence[str]) -> list[str]:
    """Labels of which no two are equal: a letter tells equal ones apart."""
    often = Counter(labels)
    unique: list[str] = []
    for place, text in enumerate(labels):
        mark = name_by_letter(place)
        unique.append(
            text if text and often[text] == 1 else f"{shorten_middle(text, MOST - len(mark) - 1)} {mark}".strip()
        )
    return unique if len(set(unique)) == len(unique) else [name_by_letter(place) for place in range(len(labels))]


def name_by_letter(index: int) -> str:
    """A, B, … Z, AA, AB, …"""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(65 + rest) + text
    return text


# ------------------------------------------------------------------------------------------------ what runs differ in


def _list_differences(runs: Sequence[AboutRun]) -> Iterator[list[str]]:
    """Differences that make numbers differ, what tells most first; a text a run."""
    if len({run.datasets for run in runs}) > 1:
        yield [f"dataset {' + '.join(run.datasets) or 'unknown'}" for run in runs]
    differences = find_differences(select_configs(runs))
    groups = {setting.group: setting for setting in differences.labels}
    yield from (_label_group(groups[name]) for name in ("extractor", "attacker", "backend") if name in groups)
    numeric = [setting for setting in differences.numeric if not setting.path.startswith("dataset.name")]
    names = dict(zip([setting.path for setting in numeric], _shorten_paths([setting.path for setting in numeric])))
    speech = [setting for setting in numeric if setting.path.split(".")[0] in MAKES_SCORES]
    yield from (_label_setting(setting, names[setting.path]) for setting in speech)
    yield from (_label_group(groups[name]) for name in ("system", "metric") if name in groups)
    yield from (_label_setting(setting, names[setting.path]) for setting in numeric if setting not in speech)
    if len({run.inputs for run in runs}) > 1 and len({run.datasets for run in runs}) == 1 and not (groups or numeric):
        yield [f"data {run.inputs[:6]}" for run in runs]


def _list_further_differences(runs: Sequence[AboutRun]) -> Iterator[list[str]]:
    """What is looked at only where the others do not tell runs apart."""
    yield [f"version {' + '.join(run.versions)}" for run in runs]
    for name in dict.fromkeys(name for run in runs for name in run.libraries):
        yield [f"{name} {run.libraries.get(name, 'absent')}" for run in runs]
    yield [" + ".join(run.devices) for run in runs]
    yield _shorten_times([run.started for run in runs])


def select_configs(runs: Sequence[AboutRun]) -> list[Mapping[str, Any]]:
    """The configurations; of all runs what the rows have, where one of them wrote none. Of score files that somebody else made it is
    the rows that name the components."""
    if not all(run.config for run in runs):
        return [_read_components(run) for run in runs]
    return [{**run.config, **(_read_components(run) if _is_of_scores(run.config) else {})} for run in runs]


def _read_components(run: AboutRun) -> Mapping[str, Any]:
    return {group: list(labels) for group, labels in run.components.items()}


def _is_of_scores(config: Mapping[str, Any]) -> bool:
    dataset = config.get("dataset")
    return isinstance(dataset, Mapping) and dataset.get("name") == "scores"


def _label_setting(setting: Setting, name: str) -> list[str]:
    return [f"{name}={_name_value(value)}" for value in setting.values]


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
    """When each run began, as shortly as tells them apart: ``10:40`` of runs of one day, ``2026-11-29`` of one run a day."""
    stamps = [re.match(r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d):?(\d\d):?(\d\d)", moment) for moment in started]
    stamps_as_text = ["{}-{}-{} {}:{}:{}".format(*stamp.groups()) if stamp else "" for stamp in stamps]
    one_day = len({text[:10] for text in stamps_as_text if text}) == 1
    for span in (slice(11, 16), slice(11, 19)) if one_day else (slice(10), slice(16)):
        if len({text[span] for text in stamps_as_text}) == len(stamps_as_text):
            return [text[span] for text in stamps_as_text]
    return stamps_as_text
