"""The verb ``help``: what there is to choose and to set, from the components and settings themselves.

``help`` lists everything, ``help system`` a group, ``help extractor.campplus`` a component with each of its fields.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml

from pipeline.cli.command_line import GROUPS
from pipeline.contracts import ComponentSettings
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import ConfigError
from pipeline.files import find_assets
from pipeline.names import suggest_names
from pipeline.protocol.attackers import AttackerSettings
from pipeline.registry import COMPONENT_KINDS, Kind, component, list_names, list_own_names
from pipeline.stages.settings import Average, Bands, Paths, ReportSettings, Runtime, Storage

WIDTH = 110
PARTS: dict[str, type[ComponentSettings]] = {
    "paths": Paths, "runtime": Runtime, "store": Storage, "averages": Average, "bands": Bands, "report": ReportSettings,
    "dataset": DatasetSettings, "attacker": AttackerSettings,
}  # fmt: skip
"""The parts of the configuration whose fields are not those of a component."""
KINDS: dict[str, Kind] = {room.group: kind for kind, room in COMPONENT_KINDS.items()}
"""The kind of component that a group of the configuration chooses."""
SIGNS = {"gt": "> {}", "ge": "≥ {}", "lt": "< {}", "le": "≤ {}", "multiple_of": "a multiple of {}", "pattern": "`{}`"}


@dataclass(frozen=True)
class Field:
    """A field of the settings.

    Attributes:
        default: as one writes it; ``required`` without one.
        values: what it takes, in words.
        role: ``numeric`` (a change computes anew) or ``runtime`` (it changes no number).
        meaning: from the docstring of its model.
    """

    name: str
    default: str
    values: str
    role: str
    meaning: str


@dataclass(frozen=True)
class Option:
    """An option file of a group."""

    name: str
    meaning: str
    sets: Mapping[str, Any]


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out ``help``; the exit status.

    Raises:
        ConfigError: there is nothing of that name.
    """
    print("\n".join(describe(arguments[0]) if arguments else list_all()))
    return 0


def list_topics() -> list[str]:
    """Everything that ``help`` can be asked for."""
    components = [f"{group}.{name}" for group, kind in KINDS.items() for name in sorted(list_names(kind))]
    return [*dict.fromkeys([*GROUPS, *PARTS, *components])]


def list_all() -> list[str]:
    """Everything that there is, a line each."""
    lines = ["voice-privacy help TOPIC: what it is, and each field with its type, default and meaning", ""]
    for group in GROUPS:
        lines.append(f"{group}: options {', '.join(option.name for option in list_options(group))}")
        if group in KINDS:
            lines += [f"  {group}.{name}" for name in sorted(list_names(KINDS[group]))]
    lines += ["", f"parts of the configuration: {', '.join(PARTS)}", "flags and lists beside them:"]
    return [*lines, *_wrap_all([(f"  {name}: ", meaning) for name, meaning in list_flags().items()])]


def describe(topic: str) -> list[str]:
    """A group, a part or a component.

    Raises:
        ConfigError: there is nothing of that name.
    """
    group, _, name = topic.partition(".")
    if topic not in list_topics():
        raise ConfigError(f"there is no help on '{topic}'", remedy=suggest_names(topic, list_topics()))
    lines: list[str] = []
    if topic in GROUPS:
        lines += [f"{topic}: the options of the group", ""]
        for option in list_options(topic):
            sets = ", ".join(f"{key}={_show(value)}" for key, value in option.sets.items())
            lines += _wrap_all([(f"  {option.name}: ", option.meaning), ("    sets ", sets)])
        lines += (
            ["", f"components: {', '.join(f'{topic}.{each}' for each in sorted(list_names(KINDS[topic])))}"]
            if topic in KINDS
            else []
        )
    if topic in PARTS:
        return [*lines, "", *_describe_fields(topic, PARTS[topic])]
    if not name:
        return lines
    component_class = component(KINDS[group], name)
    text = inspect.getdoc(inspect.getmodule(component_class)) or inspect.getdoc(component_class) or ""
    lines += [
        topic,
        "",
        *text.split("\n\nAttributes:")[0].splitlines(),
        "",
        *_describe_fields(topic, component_class.Settings),
    ]
    for field, info in component_class.Settings.model_fields.items():
        if inspect.isclass(info.annotation) and issubclass(info.annotation, ComponentSettings):
            lines += ["", *_describe_fields(f"{topic}.{field}", info.annotation)]
    return [*lines, *(["", *_describe_metrics(component("families", name).metrics)] if group == "metric" else [])]


def _describe_fields(part: str, model: type[ComponentSettings]) -> list[str]:
    fields = list_fields(part, model)
    lines = [f"fields of {part}:" if fields else f"{part} has no fields"]
    for field in fields:
        lines += _wrap_all(
            [(f"  {field.name}: ", f"{field.values}; {field.default}; {field.role}"), ("      ", field.meaning)]
        )
    return lines


def _describe_metrics(metrics: Mapping[str, Any]) -> Iterator[str]:
    yield "metrics:"
    for name, metric in metrics.items():
        words = [metric.symbol, metric.unit, f"{metric.direction} is more private" if metric.direction else "",
                 describe_range(metric.bounds), metric.source]  # fmt: skip
        yield from _wrap_all([(f"  {name}: ", "; ".join(filter(None, words)))])


def _wrap_all(entries: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for head, text in entries:
        indent = " " * (len(head) - len(head.lstrip()) + 4)
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=head, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return lines


# What there is ---------------------------------------------------------------------------------------------------------


def list_fields(part: str, model: type[ComponentSettings]) -> list[Field]:
    """The fields of a part; the name of a component is the option's, and no setting."""
    meanings = {**_read_comments(part), **_read_meanings(model)}
    fields = []
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra
        if name != "name" or part == "dataset":
            assert isinstance(extra, dict)
            below = isinstance(info.default, ComponentSettings)
            shown = "as below" if below or info.is_required() else _show(info.default)
            default = "required" if info.is_required() else f"by default {shown}"
            fields.append(Field(name, default, _describe_type(info.annotation, info.metadata), str(extra["role"]), meanings.get(name, "")))  # fmt: skip
    return fields


def list_options(group: str) -> list[Option]:
    """The option files of a group: what each is, and which fields it sets."""
    options = []
    folder = find_assets("recipes") if group == "recipe" else find_assets("conf") / group
    for path in sorted(folder.glob("*/config.yaml" if group == "recipe" else "*.yaml")):
        text = path.read_text()
        values = yaml.safe_load(text)
        if group == "attacker" or (group in KINDS and COMPONENT_KINDS[KINDS[group]].is_multiple):
            ((_, values),) = values.items()
        lines = text.splitlines()
        leading = lines[: next(place for place, line in enumerate(lines) if not line.startswith("#"))]
        comment = " ".join(line.removeprefix("#").strip() for line in leading if "@package" not in line)
        name = path.parent.name if group == "recipe" else path.stem
        sets = {} if group == "recipe" else {key: value for key, value in values.items() if key != "name"}
        options.append(Option(name, comment or _first_sentence(group, values), sets))
    return options


def list_flags() -> dict[str, str]:
    """The fields of the configuration that are no group and no part, with what ``conf/config.yaml`` says of them."""
    text = (find_assets("conf") / "config.yaml").read_text()
    return {
        name: meaning for name, meaning in re.findall(r"^(\w+): .*?# (.*)$", text, re.MULTILINE) if name not in PARTS
    }


def describe_range(bounds: tuple[float, float]) -> str:
    """A range in words; empty where it has no ends."""
    ends = [f"{end:.4g}".replace("-", "\N{MINUS SIGN}").replace("inf", "∞") for end in bounds]
    return "" if bounds == (-math.inf, math.inf) else " to ".join(ends)


def _first_sentence(group: str, values: Mapping[str, Any]) -> str:
    kind = KINDS.get(group)
    if kind is None or values["name"] not in list_own_names(kind):
        return ""
    text = _simplify(inspect.getdoc(inspect.getmodule(component(kind, values["name"]))) or "")
    return re.split(r"(?<=\w\.) ", text)[0]


def _read_meanings(model: type[ComponentSettings]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "") if issubclass(base, ComponentSettings) else ""
        listed = re.search(r"^Attributes:\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
        entry = r"^    (\w+(?:, \w+)*): (.*?)(?=^ {0,4}\S|\Z)"
        entries = re.findall(entry, listed[1], re.DOTALL | re.MULTILINE) if listed else []
        entries += re.findall(r"^``(\w+)``: (.*?)(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
        for fields, meaning in entries:
            meanings |= dict.fromkeys(fields.split(", "), _simplify(meaning))
    return meanings


def _read_comments(part: str) -> dict[str, str]:
    """What the comments of ``conf/config.yaml`` say of the fields of a part."""
    text = (find_assets("conf") / "config.yaml").read_text()
    block = re.search(rf"^{part}:\n((?:[ ]+.*\n)+)", text, re.MULTILINE)
    return dict(re.findall(r"^ +(\w+): \S.*?# (.*)$", block[1], re.MULTILINE)) if block else {}


def _simplify(text: str) -> str:
    """A docstring's text in one line of Markdown; where else to read, in brackets, is left out."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" \((?:[A-Z]+_[A-Z]+ \d+|(?:see )?\S+\.md[^)]*)\)", "", text)
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text.replace("``", "`"))


def _show(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _describe_type(kind: Any, metadata: Sequence[Any] = ()) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _describe_type(arguments[0], [each for entry in kind.__metadata__ for each in entry.metadata])
    if origin in (Union, UnionType):
        words = " or ".join(_describe_type(argument, metadata) for argument in arguments if argument is not type(None))
        return words + ("" if type(None) not in arguments else ", or null" if "," in words else " or null")
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin in (tuple, list):
        count = f" of {len(arguments)}" if origin is tuple and ... not in arguments else ""
        return f"list{count}, each: {_describe_type(arguments[0])}"
    if origin is dict:
        return f"mapping of labels to {_describe_type(arguments[1])}"
    if issubclass(kind, ComponentSettings):
        return "settings"
    limits = [asdict(each) if is_dataclass(each) and not isinstance(each, type) else vars(each) for each in metadata]
    shown = [form.format(limit[name]) for limit in limits for name, form in SIGNS.items() if name in limit]
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}[kind]
    return words + (f" {', '.join(shown)}" if shown else "")
