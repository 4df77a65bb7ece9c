"""The tables of the documents that are made from the code: ``python -m tests.documents`` rewrites the marked parts in place.

A marked part lies between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Names are ``options GROUP`` (the files of a group in ``conf``),
``metrics of the leaderboard`` and ``metrics`` (those of the compact tables).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.cli.command_line import GROUPS
from pipeline.cli.help import describe_range, list_options
from pipeline.registry import component, list_own_names
from pipeline.report import glossary, leaderboard

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


def tables() -> dict[str, str]:
    """Every table by the name of its marked part, as Markdown that ends with a line break."""
    options = {f"options {group}": options_line(group) for group in GROUPS if group != "recipe"}
    compact = [name for _, names in glossary.compact() for name in names]
    first = [one.metric for one in (*leaderboard.FIRST, *leaderboard.FURTHER) if one.metric in compact]
    return options | {
        "metrics of the leaderboard": metrics_table(first),
        "metrics": metrics_table(compact),
        "metrics in results": names_table(),
    }


def metrics_table(names: Sequence[str]) -> str:
    """Symbol, meaning and direction of metrics."""
    shown = [glossary.metric(name) for name in names]
    lines = [(one.symbol, one.sentence, one.direction or "–") for one in shown]
    return table(("metric", "what it means", "more private"), lines)


def names_table() -> str:
    """Name, symbol, unit, direction, range and source of every metric that a run can have, by family."""
    lines = []
    for family in sorted(list_own_names("families")):
        for name, one in component("families", family).metrics.items():
            words = (
                f"`{name}`",
                one.symbol,
                f"`metric={family}`",
                one.unit,
                one.direction,
                describe_range(one.bounds),
                one.source,
            )
            lines.append([word or "–" for word in words])
    return table(("`metric`", "symbol", "in a run", "unit", "more private", "range", "source"), lines)


# Options -------------------------------------------------------------------------------------------------------------


def options_line(group: str) -> str:
    """The names of a group's option files, and what says more of them."""
    names = ", ".join(f"`{option.name}`" for option in list_options(group))
    return f"Options: {names}. `voice-privacy help {group}` says what each is, and what it sets.\n"


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
