"""The table of minimum-EER conditions: which of a challenge's conditions each system meets, and what cannot be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.report.formats import DASH, format_interval, format_number
from pipeline.report.runs import Evaluation
from pipeline.report.table import Cell, Column, Table
from pipeline.tables import bands

TITLE = "Minimum-EER conditions"
COLUMNS = (
    Column("subset"),
    Column("system"),
    Column("ranked by"),
    Column("EER", "number", "%", "↑"),
    Column("95 % interval", "number"),
    Column("meets condition"),
    Column("cannot be told from"),
    Column("attack"),
)
PARTIAL = "†"


def tabulate_conditions(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> Table:
    """The table, by system in their order; without rows where nothing is ranked."""
    order = {name: place for place, name in enumerate(systems)}
    rows = sorted(conditions.to_dict("records"), key=lambda row: order.get(row["system"], len(order)))
    return Table(COLUMNS, [_make_line(row) for row in rows], TITLE, list(_write_notes(conditions)) if rows else [])


def tabulate_runs(evaluation: Evaluation) -> Table | None:
    """The conditions that each system meets, of each run; None where nothing is ranked."""
    tables = [(run, tabulate_conditions(bands.read(run.folder), evaluation.systems)) for run in evaluation.runs]
    label = evaluation.several
    body = [[*([run.label] if label else []), *line] for run, table in tables for line in table.body]
    notes = dict.fromkeys(note for _, table in tables for note in table.notes)
    return Table([*([Column("run")] if label else []), *COLUMNS], body, TITLE, list(notes)) if body else None


def _make_line(row: Mapping[Any, Any]) -> list[str | Cell]:
    met = int(row["met"])
    others = [level for level in range(int(row["least"]), int(row["most"]) + 1) if level != met]
    return [
        str(row["subset"]),
        str(row["system"]),
        str(row["ranked_by"]),
        Cell(format_number(row["value"], "fraction"), marks=PARTIAL if row["status"] != "ok" else ""),
        format_interval(row["low"], row["high"], "fraction") or DASH,
        ", ".join(str(level) for level in range(1, met + 1)) or "none",
        ", ".join(f"condition {level}" if level else "no condition" for level in others),
        str(row["attack"]),
    ]


def _write_notes(conditions: pd.DataFrame) -> Iterator[str]:
    """What the conditions are, and how systems are put into them."""
    for edges, variant in sorted({*zip(conditions["edges"], conditions["variant"])}):
        limits = ", ".join(f"{n}: {100 * float(edge):g} %" for n, edge in enumerate(str(edges).split(","), start=1))
        yield f"Least EER of condition {limits}; EER by the definition {variant}."
    yield (
        "A system is ranked by the lowest EER that an attacker has on it, as the challenges do; beside it stands the attack "
        "that discloses most, as the leaderboard has it. Cannot be told from: the 95 % interval of the EER reaches that condition too."
    )
    if (conditions["status"] != "ok").any():
        yield f"{PARTIAL}: the EER does not stand on everything, so that the condition is not the system's."
