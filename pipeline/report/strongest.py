"""The first table: for each system the attack that its privacy stands on, and what it leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from pipeline.diagnostics import strongest
from pipeline.report import tables

TITLE = "The strongest attack on each system"
HEADS = ("subset", "system", "EER (%) ↑", "95 % interval", "strongest attack", "held out (%)", "lowest (%)", "by")
NAMES, SENTENCES = (0, 1), (4, 7)
"""Columns that are text: names, and attacks in words."""


def lines(choice: pd.DataFrame, rows: pd.DataFrame, systems: Sequence[str] = ()) -> list[list[str]]:
    """The rows of the table as text, by system and subset."""
    found = strongest.measured(choice, rows)
    order = {name: place for place, name in enumerate(systems)}
    ranked = sorted(found.to_dict("records"), key=lambda row: (order.get(row["system"], len(order)), row["subset"]))
    return [_line(row) for row in ranked]


def _line(row: dict[Any, Any]) -> list[str]:
    interval = tables.DASH if math.isnan(row["low"]) else f"[{_percent(row['low'])}, {_percent(row['high'])}]"
    other = strongest.named(row) != row["lowest_by"]
    return [
        str(row["subset"]),
        str(row["system"]),
        _percent(row["value"]),
        interval,
        strongest.named(row),
        _percent(row["held_out"]),
        _percent(row["lowest"]),
        row["lowest_by"] if other else "",
    ]


def notes(choice: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """How the attacks were chosen, and by which definition of the EER they are shown, where it could be another one."""
    said = []
    definitions = set(rows.loc[rows["metric"] == "eer", "variant"])
    if definitions - {strongest.DEFINITIONS[0]}:
        said.append(f"EER by the definition {strongest.definition(rows)}.")
    adapted = choice[choice["chosen"] != strongest.MEASURED]
    several = choice[choice["chosen"] == strongest.BOTH]
    measured = choice[choice["chosen"] == strongest.MEASURED]
    if len(adapted):
        said.append(
            f"On {', '.join(adapted['system'])} the attack was chosen on held-out training speakers of the system's anonymised "
            f"speech (held out: its EER there), out of {_span(adapted['candidates'])} that were adapted to it."
        )
    if len(several):
        said.append(
            f"Several attackers were adapted to {', '.join(several['system'])}: of the choice of each, the one with the lowest mean "
            "EER is shown."
        )
    if len(measured):
        said.append(
            f"No attack on {', '.join(measured['system'])} was adapted and judged on held-out speakers: shown is the one with the "
            "lowest mean EER of those tried."
        )
    said.append(
        "Lowest: of all attacks on the same trials, joined scores among them, and by which where it is another one."
    )
    return said


def to_text(choice: pd.DataFrame, rows: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The table as plain text; '' where no system is attacked."""
    body = lines(choice, rows, systems)
    if not body:
        return ""
    return (
        "\n".join([TITLE, "", *tables.aligned(list(HEADS), body, (*NAMES, *SENTENCES)), "", *notes(choice, rows)])
        + "\n\n"
    )


def to_markdown(choice: pd.DataFrame, rows: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The table as Markdown; '' where no system is attacked."""
    body = lines(choice, rows, systems)
    if not body:
        return ""
    rule = ["---" if place in (*NAMES, *SENTENCES) else "---:" for place in range(len(HEADS))]
    grid = [
        "| " + " | ".join(line) + " |"
        for line in (HEADS, rule, *([tables.markdown(text) for text in line] for line in body))
    ]
    return "\n".join([f"**{TITLE}**", "", *grid, "", " ".join(map(tables.markdown, notes(choice, rows))), "", ""])


def _percent(value: float) -> str:
    return tables.number(value, "fraction")


def _span(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"
