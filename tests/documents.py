"""The tables of the documents that are made from the code: ``python -m tests.documents`` rewrites the marked parts in place.

A marked part lies between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Names are ``settings PART`` (the fields of a part of
the configuration, from its pydantic model), ``options GROUP`` (the files of a group in ``conf``), ``metrics of the
leaderboard`` and ``metrics`` (those of the compact tables).
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from pipeline.cli import compose
from pipeline.contracts import ComponentSettings
from pipeline.datasets.settings import DatasetSettings
from pipeline.protocol.attackers import AttackerSettings
from pipeline.registry import ROOMS, Kind, component, ours
from pipeline.report import glossary, leaderboard
from pipeline.stages.settings import Average, Bands, Paths, ReportSettings, Runtime, Storage

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "conf/README.md",
    "data_manifests/README.md",
    "pipeline/README.md",
    "pipeline/metrics/README.md",
    "recipes/README.md",
    "recipes/demo/README.md",
    "recipes/kaldi/README.md",
    "recipes/srd2026/README.md",
    "recipes/vpac/README.md",
    "recipes/vpc2020/README.md",
    "recipes/vpc2022/README.md",
    "recipes/vpc2024/README.md",
    "tests/README.md",
    "tests/cluster/README.md",
    "tests/golden/README.md",
)
MARKED = re.compile(r"^(<!-- generated: (?P<name>[^>]+?) -->\n).*?^(<!-- end -->)$", re.DOTALL | re.MULTILINE)
KINDS: dict[str, Kind] = {room.group: kind for kind, room in ROOMS.items()}
"""The kind of component that a group of the configuration chooses."""


def tables() -> dict[str, str]:
    """Every table by the name of its marked part, as Markdown that ends with a line break."""
    made = {f"settings {part}": settings_table(part, model) for part, model in models().items() if fields(part, model)}
    made |= {f"options {group}": options_table(group) for group in compose.GROUPS if group != "recipe"}
    compact = [name for _, names in glossary.compact() for name in names]
    first = [one.metric for one in (*leaderboard.FIRST, *leaderboard.FURTHER) if one.metric in compact]
    return made | {
        "metrics of the leaderboard": metrics_table(first),
        "metrics": metrics_table(compact),
        "metrics in results": names_table(),
    }


def models() -> dict[str, type[ComponentSettings]]:
    """The pydantic model of each part of the configuration; of components, those of this project alone."""
    found: dict[str, type[ComponentSettings]] = {
        "paths": Paths,
        "runtime": Runtime,
        "store": Storage,
        "averages": Average,
        "bands": Bands,
        "report": ReportSettings,
        "dataset": DatasetSettings,
        "attacker": AttackerSettings,
    }
    for group, kind in KINDS.items():
        for name in sorted(ours(kind)):
            model = component(kind, name).Settings
            found[f"{group} {name}"] = model
            for own, field in model.model_fields.items():
                if inspect.isclass(field.annotation) and issubclass(field.annotation, ComponentSettings):
                    found[f"{group} {name} {own}"] = field.annotation
    return found


def metrics_table(names: Sequence[str]) -> str:
    """Symbol, meaning and direction of metrics."""
    shown = [glossary.metric(name) for name in names]
    lines = [(one.symbol, one.sentence, one.direction or "–") for one in shown]
    return table(("metric", "what it means", "more private"), lines)


def names_table() -> str:
    """Name, symbol, unit, direction, range and source of every metric that a run can have, by family."""
    lines = []
    for family in sorted(ours("families")):
        for name, one in component("families", family).metrics.items():
            words = (
                f"`{name}`",
                one.symbol,
                f"`metric={family}`",
                one.unit,
                one.direction,
                span(one.bounds),
                one.source,
            )
            lines.append([word or "–" for word in words])
    return table(("`metric`", "symbol", "in a run", "unit", "more private", "range", "source"), lines)


def span(bounds: tuple[float, float]) -> str:
    """A range in words; empty where it has no ends."""
    ends = [f"{end:.4g}".replace("-", "\N{MINUS SIGN}").replace("inf", "∞") for end in bounds]
    return "" if bounds == (-math.inf, math.inf) else " to ".join(ends)


# Settings ------------------------------------------------------------------------------------------------------------


def settings_table(part: str, model: type[ComponentSettings]) -> str:
    """Field, default, allowed values, role and meaning of each field."""
    said = {**comments(part), **meanings(model)}
    lines = []
    for name, field in fields(part, model).items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        lines.append((f"`{name}`", default(field), allowed(field), str(extra["role"]), said.get(name, "")))
    return table(("field", "default", "values", "role", "meaning"), lines)


def fields(part: str, model: type[ComponentSettings]) -> dict[str, FieldInfo]:
    """The fields of a part; the name of a component is the option's, and no setting."""
    return {name: field for name, field in model.model_fields.items() if name != "name" or part == "dataset"}


def meanings(model: type[ComponentSettings]) -> dict[str, str]:
    """What the docstrings of a model and its bases say of each field."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "") if issubclass(base, ComponentSettings) else ""
        listed = re.search(r"^Attributes:\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
        entries = (
            re.findall(r"^    (\w+(?:, \w+)*): (.*?)(?=^ {0,4}\S|\Z)", listed[1], re.DOTALL | re.MULTILINE)
            if listed
            else []
        )
        entries += re.findall(r"^``(\w+)``: (.*?)(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
        for several, meaning in entries:
            found |= dict.fromkeys(several.split(", "), plain(meaning))
    return found


def comments(part: str) -> dict[str, str]:
    """What the comments of ``conf/config.yaml`` say of the fields of a part."""
    text = (compose.assets("conf") / "config.yaml").read_text()
    block = re.search(rf"^{part}:\n((?:[ ]+.*\n)+)", text, re.MULTILINE)
    return dict(re.findall(r"^ +(\w+): \S.*?# (.*)$", block[1], re.MULTILINE)) if block else {}


def plain(text: str) -> str:
    """A docstring's text in one line of Markdown; where else to read, in brackets, is left out."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" \((?:[A-Z]+_[A-Z]+ \d+|(?:see )?\S+\.md[^)]*)\)", "", text)
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text.replace("``", "`"))


def default(field: FieldInfo) -> str:
    """A field's default as one writes it."""
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, ComponentSettings):
        return "see its own table"
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def allowed(field: FieldInfo) -> str:
    """The values that a field takes, in words."""
    return _type(field.annotation, field.metadata)


def _type(kind: Any, metadata: Sequence[Any] = ()) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0], [each for entry in kind.__metadata__ for each in entry.metadata])
    if origin in (Union, UnionType):
        words = " or ".join(_type(one, metadata) for one in arguments if one is not type(None))
        if type(None) not in arguments:
            return words
        return f"{words}, or null" if "," in words else f"{words} or null"
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin in (tuple, list):
        count = f" of {len(arguments)}" if origin is tuple and ... not in arguments else ""
        return f"list{count}, each: {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of labels to {_type(arguments[1])}"
    if issubclass(kind, ComponentSettings):
        return "settings"
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}[kind] + _limits(metadata)


def _limits(metadata: Sequence[Any]) -> str:
    signs = {
        "gt": "> {}",
        "ge": "≥ {}",
        "lt": "< {}",
        "le": "≤ {}",
        "multiple_of": "a multiple of {}",
        "pattern": "`{}`",
    }
    limits = [asdict(one) if is_dataclass(one) else vars(one) for one in metadata]
    found = [form.format(one[name]) for one in limits for name, form in signs.items() if name in one]
    return " " + ", ".join(found) if found else ""


# Options -------------------------------------------------------------------------------------------------------------


def options_table(group: str) -> str:
    """The option files of a group: what each is, and which fields it sets."""
    lines = []
    for path in sorted((compose.assets("conf") / group).glob("*.yaml")):
        text = path.read_text()
        values = yaml.safe_load(text)
        if group == "attacker" or (group in KINDS and ROOMS[KINDS[group]].several):
            ((_, values),) = values.items()
        said = " ".join(line.removeprefix("#").strip() for line in _leading(text)) or _first_sentence(group, values)
        sets = [f"`{name}={_shown(value)}`" for name, value in values.items() if name != "name"]
        lines.append((f"`{path.stem}`", said, ", ".join(sets)))
    return table(("option", "what it is", "sets"), lines)


def _leading(text: str) -> list[str]:
    lines = text.splitlines()
    return lines[: next(place for place, line in enumerate(lines) if not line.startswith("#"))]


def _first_sentence(group: str, values: Mapping[str, Any]) -> str:
    kind = KINDS.get(group)
    if kind is None or values["name"] not in ours(kind):
        return ""
    module = inspect.getmodule(component(kind, values["name"]))
    text = plain(inspect.getdoc(module) or "")
    return re.split(r"(?<=\w\.) ", text)[0]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# Markdown ------------------------------------------------------------------------------------------------------------


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [heads, ["---"] * len(heads), *([text.replace("|", r"\|") for text in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def filled(text: str, made: Mapping[str, str]) -> str:
    """A document with its marked parts made anew.

    Raises:
        KeyError: a mark of which there is no table.
    """
    return MARKED.sub(lambda found: f"{found[1]}{made[found['name']]}{found[3]}", text)


def marks(text: str) -> list[str]:
    """The names of a document's marked parts."""
    return [found["name"] for found in MARKED.finditer(text)]


def main() -> None:
    """Rewrite the marked parts of all documents."""
    made = tables()
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text()
        new = filled(text, made)
        if new != text:
            path.write_text(new)
            print(f"rewritten: {name}")


if __name__ == "__main__":
    main()
