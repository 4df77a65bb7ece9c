"""The table of minimum-EER conditions: which of a challenge's conditions each system meets, and what cannot be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from pipeline.report import summaries

TITLE = "Minimum-EER conditions"
HEADS = (
    "subset",
    "system",
    "ranked by",
    "EER (%) ↑",
    "95 % interval",
    "meets condition",
    "cannot be told from",
    "attack",
)
NUMBERS = (3, 4)
"""Columns that hold numbers; the others are text."""
NONE = "none"
PARTLY = " †"


def lines(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> list[list[str]]:
    """The rows of the table as text, by system."""
    order = {name: place for place, name in enumerate(systems)}
    ranked = sorted(conditions.to_dict("records"), key=lambda row: order.get(row["system"], len(order)))
    return [_line(row) for row in ranked]


def _line(row: dict[Any, Any]) -> list[str]:
    interval = summaries.DASH if math.isnan(row["low"]) else f"[{_percent(row['low'])}, {_percent(row['high'])}]"
    met = int(row["met"])
    others = [level for level in range(int(row["least"]), int(row["most"]) + 1) if level != met]
    return [
        str(row["subset"]),
        str(row["system"]),
        str(row["ranked_by"]),
        _percent(row["value"]) + (PARTLY if row["status"] != "ok" else ""),
        interval,
        ", ".join(str(level) for level in range(1, met + 1)) or NONE,
        ", ".join(_condition(level) for level in others),
        str(row["attack"]),
    ]


def _condition(level: int) -> str:
    return f"condition {level}" if level else "no condition"


def notes(conditions: pd.DataFrame) -> list[str]:
    """What the conditions are, and how systems are put into them."""
    found = []
    for edges, variant in sorted({*zip(conditions["edges"], conditions["variant"])}):
        limits = ", ".join(f"{n}: {100 * float(edge):g} %" for n, edge in enumerate(str(edges).split(","), start=1))
        found.append(f"Least EER of condition {limits}; EER by the definition {variant}.")
    found.append(
        "A system is ranked by the lowest EER that an attacker has on it, as the challenges do; beside it stands the attack "
        "that discloses most, as the leaderboard has it. Cannot be told from: the 95 % interval of the EER reaches that condition too."
    )
    if (conditions["status"] != "ok").any():
        found.append("†: the EER does not stand on everything, so that the condition is not the system's.")
    return found


def to_text(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The table as plain text; '' where nothing is ranked."""
    body = lines(conditions, systems)
    if not body:
        return ""
    left = [place for place in range(len(HEADS)) if place not in NUMBERS]
    return "\n".join([TITLE, "", *summaries.aligned(list(HEADS), body, left), "", *notes(conditions)]) + "\n\n"


def to_markdown(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The table as Markdown; '' where nothing is ranked."""
    body = lines(conditions, systems)
    if not body:
        return ""
    rule = ["---:" if place in NUMBERS else "---" for place in range(len(HEADS))]
    cells = [HEADS, rule, *([summaries.markdown(text) for text in line] for line in body)]
    grid = ["| " + " | ".join(line) + " |" for line in cells]
    return "\n".join([f"**{TITLE}**", "", *grid, "", " ".join(map(summaries.markdown, notes(conditions))), "", ""])


def to_latex(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The table as LaTeX (``booktabs``); '' where nothing is ranked."""
    body = lines(conditions, systems)
    if not body:
        return ""
    return summaries.latex_table(TITLE, notes(conditions), HEADS, body, NUMBERS) + "\n"


def _percent(value: float) -> str:
    return summaries.number(value, "fraction")
