"""Every number, folded by family: a compact table, a table a metric, and what has no value in a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline import contracts
from pipeline.report import glossary, runs, summaries
from pipeline.report.page.parts import Column, Table
from pipeline.report.page.ways import once, parted, the_same
from pipeline.report.signatures import of_rows
from pipeline.report.words import counted, joined
from pipeline.tables import results

METRIC_COLUMNS = (
    Column("value", "value"),
    Column("95 % interval", "number"),
    Column("null band", "number"),
    Column("against chance", "chance"),
    Column("ceiling", "number", "ceiling"),
    Column("used / expected", "number", "used / expected"),
    Column("speakers", "number", "speakers"),
    Column("target trials", "number", "target trials"),
    Column("non-target trials", "number", "non-target trials"),
    Column("note", "note", "note:"),
    Column("signature", "signature"),
)
"""What the table of a metric says of each row, after what the row is about."""


@dataclass(frozen=True)
class Compact:
    """Metrics of a family side by side."""

    title: str
    table: Table
    notes: list[str]


@dataclass(frozen=True)
class Metric:
    """All rows of one metric.

    Attributes:
        name: as in the rows.
        entry: what is said of it.
        table: its numbers.
        others: the same numbers by other ways of computing them; None where there are none.
        same: metrics that have no other numbers than this one.
        rows: how many the tables hold.
    """

    name: str
    entry: contracts.Metric
    unit: str
    direction: str
    table: Table
    others: Table | None
    same: list[contracts.Metric]
    rows: int


@dataclass(frozen=True)
class Family:
    """The metrics under one title."""

    title: str
    compact: list[Compact]
    metrics: list[Metric]

    @property
    def line(self) -> str:
        """What the folded part holds."""
        return f"{counted(len(self.metrics), 'metric')}, {counted(sum(one.rows for one in self.metrics), 'row')}"


@dataclass(frozen=True)
class Numbers:
    """All metrics: those with numbers by family, and the others with the reasons why they have none."""

    families: list[Family]
    without: list[tuple[contracts.Metric, str]]

    @property
    def line(self) -> str:
        """What the folded part holds."""
        return f"{counted(len(self.metrics), 'metric')}, {counted(sum(one.rows for one in self.metrics), 'row')}"

    @property
    def metrics(self) -> list[Metric]:
        return [metric for family in self.families for metric in family.metrics]


def numbers(rows: pd.DataFrame, evaluation: runs.Evaluation, signatures: Mapping[str, str]) -> Numbers:
    """All numbers of some rows.

    Args:
        rows: of results, with their series.
        signatures: the name of each in this page.
    """
    plain = rows.astype({name: object for name, kind in rows.dtypes.items() if isinstance(kind, pd.StringDtype)})
    shown = summaries.ordered(once(summaries.presented(plain)), evaluation.systems)
    parts = {str(name): part for name, part in shown.groupby("metric", sort=False)}
    without = {name: _reasons(part) for name, part in parts.items() if _is_without(part)}
    held = {name: part for name, part in parts.items() if name not in without}
    always = (*summaries.ALWAYS, "run_id") if evaluation.several else summaries.ALWAYS
    families = []
    for title, names in glossary.titled(held):
        halves = {name: parted(held[name], glossary.ways(name)) for name in names}
        compact = _compact([first for first, _ in halves.values()], evaluation.systems)
        families.append(
            Family(title, compact, _metrics(halves, the_same({n: held[n] for n in names}), always, signatures))
        )
    ranked = sorted(without, key=glossary.rank)
    return Numbers(families, [(glossary.metric(name), without[name]) for name in ranked])


def _is_without(rows: pd.DataFrame) -> bool:
    return bool((rows["value"].isna() & (rows["label"] == "") & rows["null_low"].isna()).all())


def _reasons(rows: pd.DataFrame) -> str:
    """Why no row of a metric has a value."""
    found = rows["said"].replace("", "no reason is given").value_counts(sort=False)
    if len(found) == 1:
        return f"{counted(len(rows), 'row')}: {found.index[0]}"
    return "; ".join(f"{counted(int(count), 'row')}: {reason}" for reason, count in found.items())


def _compact(parts: Sequence[pd.DataFrame], systems: Sequence[str]) -> list[Compact]:
    found = summaries.summarise(pd.concat(parts, ignore_index=True), systems)
    return [Compact(one.title, _summary(one), summaries.footnotes(one, False)) for one in found]


def _summary(summary: summaries.Summary) -> Table:
    columns = [
        *(Column(summaries.LABELS[c]) for c in summary.left),
        *(Column(h.replace(") ", ")\N{NO-BREAK SPACE}"), "number") for h in summary.heads),
    ]
    body = [[*names, *(c.shown() for c in cells)] for names, cells in summary.body]
    return Table(columns, body, left=len(summary.left))


def _metrics(
    halves: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    same: Mapping[str, str],
    always: Sequence[str],
    signatures: Mapping[str, str],
) -> list[Metric]:
    """The metrics of a family: of each the rows that are the number and the others; ``same`` are names that have no table."""
    found = []
    for name, (first, others) in halves.items():
        if name in same:
            continue
        found.append(
            Metric(
                name,
                glossary.metric(name),
                glossary.unit(str(first["unit"].iloc[0])),
                str(first["direction"].iloc[0]),
                _table(first, always, signatures),
                _table(others, (*always, "defined"), signatures) if len(others) else None,
                [glossary.metric(other) for other, original in same.items() if original == name],
                len(first) + len(others),
            )
        )
    return found


def _table(rows: pd.DataFrame, always: Sequence[str], signatures: Mapping[str, str]) -> Table:
    left = summaries.varying(rows, always=always)
    common = ", ".join(f"{label} {value}" for label, value in summaries.constant(rows, left))
    columns = [*(Column(summaries.LABELS[column]) for column in left), *METRIC_COLUMNS]
    body = [[*(str(row[column]) for column in left), *_cells(row, signatures)] for row in results.records(rows)]
    keep = [i for i, _ in enumerate(columns) if i <= len(left) or any(line[i] for line in body)]
    same = [i for i in keep if columns[i].once and len(body) > 1 and len({line[i] for line in body}) == 1]
    keep = [i for i in keep if i not in same]
    note = ", ".join(filter(None, [common, *(f"{columns[i].once} {body[0][i]}" for i in same)]))
    marked = frozenset(index for index, status in enumerate(rows["status"]) if status != "ok")
    return Table(
        [columns[i] for i in keep],
        [[line[i] for i in keep] for line in body],
        marked,
        f"For all rows: {note}." if note else "",
        len(left),
    )


def _cells(row: Mapping[Any, Any], signatures: Mapping[str, str]) -> list[str]:
    """The cells of ``METRIC_COLUMNS`` of a presented row."""
    unit, value = str(row["unit"]), summaries.cell(row)
    ends = [summaries.number(row[name], unit) for name in ("null_low", "null_high")]
    return [
        value.text,
        value.interval,
        "" if pd.isna(row["null_low"]) else f"[{', '.join(ends)}]",
        str(row["chance"]),
        "" if pd.isna(row["ceiling"]) else summaries.number(row["ceiling"], unit),
        "" if pd.isna(row["n_expected"]) else f"{_count(row['n_used'])} / {_count(row['n_expected'])}",
        *(_count(row[column]) for column in ("n_speakers", "n_target", "n_nontarget")),
        ": ".join(filter(None, ["" if row["status"] == "ok" else str(row["status"]), str(row["said"])])),
        signatures.get(str(row["signature"]), ""),
    ]


def _count(value: object) -> str:
    return "" if pd.isna(value) else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------------------------- signatures


@dataclass(frozen=True)
class Signature:
    """A signature: its name in this page, its short form, what was measured under it, and all of it."""

    name: str
    short: str
    used_by: str
    whole: str


def numbered(rows: pd.DataFrame, systems: Sequence[str]) -> dict[str, str]:
    """The name in this page (S1, S2, …) of each signature, in the order in which the tables of metrics show them."""
    place = {name: index for index, name in enumerate(sorted(set(rows["metric"]), key=glossary.rank))}
    shown = summaries.ordered(rows, systems)
    shown = shown.sort_values("metric", key=lambda metrics: metrics.map(place), kind="stable")
    signatures = [signature for signature in dict.fromkeys(shown["signature"]) if signature]
    return {signature: f"S{index}" for index, signature in enumerate(signatures, start=1)}


def signatures(evaluation: runs.Evaluation, names: Mapping[str, str]) -> list[Signature]:
    """Each signature of the rows, by its name in this page."""
    rows = evaluation.rows
    short = of_rows(rows, {run.run_id: run.config for run in evaluation.runs})
    found: dict[str, list[str]] = {signature: [] for signature in names}
    for signature, metric in zip(rows["signature"], rows["metric"]):
        if signature in found:
            found[signature].append(str(metric))
    return [Signature(name, short[whole], _measures(found[whole]), whole) for whole, name in names.items()]


def _measures(metrics: Sequence[str]) -> str:
    symbols = joined([glossary.metric(name).symbol for name in sorted(set(metrics), key=glossary.rank)])
    return f"{symbols}, {counted(len(metrics), 'row')}"


def breakable(text: str) -> list[str]:
    """Pieces of a long text between which the page may break the line."""
    return re.findall(r".{1,40}?(?:[|,;/:=]|$)|.{1,40}", text, flags=re.DOTALL)
