"""Every number: the compact tables, a table a metric, and the signatures of them all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline import contracts
from pipeline.report import glossary, runs, tables
from pipeline.report.page.parts import Column, Table
from pipeline.report.words import joined
from pipeline.tables import results

METRIC_COLUMNS = (
    Column("value", "value"),
    Column("95 % interval", "number"),
    Column("null band", "number"),
    Column("against chance", "chance"),
    Column("ceiling", "number", "ceiling"),
    Column("used / expected", "number", "used / expected"),
    Column("speakers", "number", "speakers"),
    Column("targets", "number", "target trials"),
    Column("non-targets", "number", "non-target trials"),
    Column("note", "note", "note:"),
    Column("sig.", "signature", "signature"),
)
"""What the table of a metric says of each row, after what the row is about."""


@dataclass(frozen=True)
class Metric:
    """All rows of one metric."""

    name: str
    entry: contracts.Metric
    unit: str
    direction: str
    table: Table
    reason: str

    @property
    def without_value(self) -> bool:
        """Whether no row has a value, all for the same reason."""
        return bool(self.reason)


def numbered(rows: pd.DataFrame, systems: Sequence[str]) -> dict[str, str]:
    """The short name (S1, S2, …) of each signature, in the order in which the tables of metrics show them."""
    place = {name: index for index, name in enumerate(sorted(set(rows["metric"]), key=glossary.rank))}
    shown = tables.ordered(rows, systems)
    shown = shown.sort_values("metric", key=lambda metrics: metrics.map(place), kind="stable")
    signatures = [signature for signature in dict.fromkeys(shown["signature"]) if signature]
    return {signature: f"S{index}" for index, signature in enumerate(signatures, start=1)}


def summary(summary: tables.Summary) -> Table:
    columns = [
        *(Column(tables.LABELS[c]) for c in summary.left),
        *(Column(h.replace(") ", ")\N{NO-BREAK SPACE}"), "number") for h in summary.heads),
    ]
    body = [[*names, *(c.shown() for c in cells)] for names, cells in summary.body]
    return Table(columns, body, left=len(summary.left))


def metrics(rows: pd.DataFrame, evaluation: runs.Evaluation, signatures: dict[str, str]) -> list[Metric]:
    rows = tables.ordered(tables.presented(rows), evaluation.systems)
    always = (*tables.ALWAYS, "run_id") if evaluation.several else tables.ALWAYS
    found = []
    for name in sorted(set(rows["metric"]), key=glossary.rank):
        part = rows[rows["metric"] == name]
        shown = tables.varying(part, always=always)
        no_value = (part["value"].isna() & (part["label"] == "")).all() and part["null_low"].isna().all()
        reasons = set(part["said"])
        common = ", ".join(f"{label} {value}" for label, value in tables.constant(part, shown))
        found.append(
            Metric(
                str(name),
                glossary.metric(str(name)),
                glossary.unit(str(part["unit"].iloc[0])),
                str(part["direction"].iloc[0]),
                _metric_table(part, shown, signatures, common),
                str(next(iter(reasons))) if no_value and len(reasons) == 1 else "",
            )
        )
    return found


def _metric_table(rows: pd.DataFrame, left: list[str], signatures: dict[str, str], note: str) -> Table:
    columns = [*(Column(tables.LABELS[column]) for column in left), *METRIC_COLUMNS]
    body = [[*(str(row[column]) for column in left), *_cells(row, signatures)] for row in results.records(rows)]
    keep = [i for i, _ in enumerate(columns) if i <= len(left) or any(line[i] for line in body)]
    same = [i for i in keep if columns[i].once and len(body) > 1 and len({line[i] for line in body}) == 1]
    keep = [i for i in keep if i not in same]
    note = ", ".join(filter(None, [note, *(f"{columns[i].once} {body[0][i]}" for i in same)]))
    marked = frozenset(index for index, status in enumerate(rows["status"]) if status != "ok")
    return Table(
        [columns[i] for i in keep],
        [[line[i] for i in keep] for line in body],
        marked,
        f"For all rows: {note}." if note else "",
        len(left),
    )


def _cells(row: Mapping[Any, Any], signatures: dict[str, str]) -> list[str]:
    """The cells of ``METRIC_COLUMNS`` of a presented row."""
    unit, value = str(row["unit"]), tables.cell(row)
    ends = [tables.number(row[name], unit) for name in ("null_low", "null_high")]
    return [
        value.text,
        value.interval,
        "" if pd.isna(row["null_low"]) else f"[{', '.join(ends)}]",
        str(row["chance"]),
        "" if pd.isna(row["ceiling"]) else tables.number(row["ceiling"], unit),
        "" if pd.isna(row["n_expected"]) else f"{_count(row['n_used'])} / {_count(row['n_expected'])}",
        *(_count(row[column]) for column in ("n_speakers", "n_target", "n_nontarget")),
        ": ".join(filter(None, ["" if row["status"] == "ok" else str(row["status"]), str(row["said"])])),
        signatures.get(str(row["signature"]), ""),
    ]


def _count(value: object) -> str:
    return "" if pd.isna(value) else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")  # type: ignore[call-overload]


def signatures(rows: pd.DataFrame, names: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(Name, signature, what was measured under it) of each signature."""
    found: dict[str, list[str]] = {signature: [] for signature in names}
    for signature, metric in zip(rows["signature"], rows["metric"]):
        if signature in found:
            found[signature].append(str(metric))
    return [(name, signature, _measures(found[signature])) for signature, name in names.items()]


def _measures(metrics: Sequence[str]) -> str:
    symbols = joined([glossary.metric(name).symbol for name in sorted(set(metrics), key=glossary.rank)])
    return f"{symbols}, {len(metrics)} row{'s' if len(metrics) != 1 else ''}"


def breakable(text: str) -> list[str]:
    """Pieces of a long text between which the page may break the line."""
    return re.findall(r".{1,40}?(?:[|,;/:=]|$)|.{1,40}", text, flags=re.DOTALL)
