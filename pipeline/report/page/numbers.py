"""Every number, folded by family: a compact table, a table a metric, and what has no value in a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline import contracts
from pipeline.report import glossary, runs, summaries
from pipeline.report.formats import count_noun, format_number, format_unit, join_words
from pipeline.report.signatures import shorten_rows
from pipeline.report.table import Column, Table
from pipeline.tables import results

METRIC_COLUMNS = (
    Column("value", "value"),
    Column("95 % interval", "number"),
    Column("null band", "number"),
    Column("against chance", "chance"),
    Column("ceiling", "number", once="ceiling"),
    Column("used / expected", "number", once="used / expected"),
    Column("speakers", "number", once="speakers"),
    Column("target trials", "number", once="target trials"),
    Column("non-target trials", "number", once="non-target trials"),
    Column("note", "note", once="note:"),
    Column("signature", "signature"),
)
"""What the table of a metric says of each row, after what the row is about."""


@dataclass(frozen=True)
class Metric:
    """All rows of one metric: what is said of it, its numbers, the same by other ways of computing them (None where there are none),
    metrics that have no other numbers than this one, and how many rows the tables hold."""

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
    compact: list[Table]
    metrics: list[Metric]

    @property
    def line(self) -> str:
        """What the folded part holds."""
        return f"{count_noun(len(self.metrics), 'metric')}, {count_noun(sum(metric.rows for metric in self.metrics), 'row')}"


@dataclass(frozen=True)
class Numbers:
    """All metrics: those with numbers by family, and the others with the reasons why they have none."""

    families: list[Family]
    without: list[tuple[contracts.Metric, str]]

    @property
    def metrics(self) -> list[Metric]:
        return [metric for family in self.families for metric in family.metrics]


def list_numbers(rows: pd.DataFrame, evaluation: runs.Evaluation, signatures: Mapping[str, str]) -> Numbers:
    """All numbers of some rows.

    Args:
        rows: of results, with their series.
        signatures: the name of each in this page.
    """
    plain = rows.astype({name: object for name, kind in rows.dtypes.items() if isinstance(kind, pd.StringDtype)})
    shown = summaries.order_rows(merge_originals(summaries.present_rows(plain)), evaluation.systems)
    parts = {str(name): part for name, part in shown.groupby("metric", sort=False)}
    without = {
        name: _explain_missing(part)
        for name, part in parts.items()
        if (part["value"].isna() & (part["label"] == "") & part["null_low"].isna()).all()
    }
    valued = {name: part for name, part in parts.items() if name not in without}
    always = (*summaries.ALWAYS, "run_id") if evaluation.several else summaries.ALWAYS
    families = []
    for title, names in glossary.titled(valued):
        halves = {name: split_by_way(valued[name], glossary.ways(name)) for name in names}
        first_ways = pd.concat([first for first, _ in halves.values()], ignore_index=True)
        compact = summaries.summarise(first_ways, evaluation.systems)
        repeats = find_repeats({name: valued[name] for name in names})
        families.append(Family(title, compact, _tabulate_metrics(halves, repeats, always, signatures)))
    ranked = sorted(without, key=glossary.rank)
    return Numbers(families, [(glossary.metric(name), without[name]) for name in ranked])


def _explain_missing(rows: pd.DataFrame) -> str:
    """Why no row of a metric has a value."""
    remarks = rows["remark"].replace("", "no reason is given").value_counts(sort=False)
    return "; ".join(f"{count_noun(int(count), 'row')}: {reason}" for reason, count in remarks.items())


def _tabulate_metrics(
    halves: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    same: Mapping[str, str],
    always: Sequence[str],
    signatures: Mapping[str, str],
) -> list[Metric]:
    """The metrics of a family: of each the rows that are the number and the others; ``same`` are names that have no table."""
    metrics = []
    for name, (first, others) in halves.items():
        if name in same:
            continue
        metrics.append(
            Metric(
                name,
                glossary.metric(name),
                format_unit(str(first["unit"].iloc[0])),
                str(first["direction"].iloc[0]),
                _tabulate(first, always, signatures),
                _tabulate(others, (*always, "defined"), signatures) if len(others) else None,
                [glossary.metric(other) for other, original in same.items() if original == name],
                len(first) + len(others),
            )
        )
    return metrics


def _tabulate(rows: pd.DataFrame, always: Sequence[str], signatures: Mapping[str, str]) -> Table:
    left = summaries.find_varying(rows, always=always)
    common = ", ".join(f"{label} {value}" for label, value in summaries.find_constant(rows, left))
    columns = [*(Column(summaries.LABELS[column]) for column in left), *METRIC_COLUMNS]
    body = [[*(str(row[column]) for column in left), *_make_cells(row, signatures)] for row in results.records(rows)]
    keep = [i for i, _ in enumerate(columns) if i <= len(left) or any(line[i] for line in body)]
    same = [i for i in keep if columns[i].once and len(body) > 1 and len({line[i] for line in body}) == 1]
    keep = [i for i in keep if i not in same]
    note = ", ".join(filter(None, [common, *(f"{columns[i].once} {body[0][i]}" for i in same)]))
    marked = frozenset(index for index, status in enumerate(rows["status"]) if status != "ok")
    return Table(
        [columns[i] for i in keep],
        [[line[i] for i in keep] for line in body],
        notes=[f"For all rows: {note}."] if note else [],
        marked=marked,
        left=len(left),
    )


def _make_cells(row: Mapping[Any, Any], signatures: Mapping[str, str]) -> list[str]:
    """The cells of ``METRIC_COLUMNS`` of a presented row."""
    unit, value = str(row["unit"]), summaries.make_cell(row)
    ends = [format_number(row[name], unit) for name in ("null_low", "null_high")]
    return [
        value.text,
        value.interval,
        "" if pd.isna(row["null_low"]) else f"[{', '.join(ends)}]",
        str(row["chance"]),
        "" if pd.isna(row["ceiling"]) else format_number(row["ceiling"], unit),
        "" if pd.isna(row["n_expected"]) else f"{_format_count(row['n_used'])} / {_format_count(row['n_expected'])}",
        *(_format_count(row[column]) for column in ("n_speakers", "n_target", "n_nontarget")),
        ": ".join(filter(None, ["" if row["status"] == "ok" else str(row["status"]), str(row["remark"])])),
        signatures.get(str(row["signature"]), ""),
    ]


def _format_count(value: object) -> str:
    return "" if pd.isna(value) else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------------------------- signatures


@dataclass(frozen=True)
class Signature:
    """A signature: its name in this page, its short form, what was measured under it, and all of it."""

    name: str
    short: str
    used_by: str
    full: str


def name_signatures(rows: pd.DataFrame, systems: Sequence[str]) -> dict[str, str]:
    """The name in this page (S1, S2, …) of each signature, in the order in which the tables of metrics show them."""
    place = {name: index for index, name in enumerate(sorted(set(rows["metric"]), key=glossary.rank))}
    shown = summaries.order_rows(rows, systems)
    shown = shown.sort_values("metric", key=lambda metrics: metrics.map(place), kind="stable")
    signatures = [signature for signature in dict.fromkeys(shown["signature"]) if signature]
    return {signature: f"S{index}" for index, signature in enumerate(signatures, start=1)}


def list_signatures(evaluation: runs.Evaluation, names: Mapping[str, str]) -> list[Signature]:
    """Each signature of the rows, by its name in this page."""
    rows = evaluation.rows
    short = shorten_rows(rows)
    used_by: dict[str, list[str]] = {signature: [] for signature in names}
    for signature, metric in zip(rows["signature"], rows["metric"]):
        if signature in used_by:
            used_by[signature].append(str(metric))
    listed = []
    for complete, name in names.items():
        metrics = used_by[complete]
        symbols = join_words([glossary.metric(metric).symbol for metric in sorted(set(metrics), key=glossary.rank)])
        listed.append(Signature(name, short[complete], f"{symbols}, {count_noun(len(metrics), 'row')}", complete))
    return listed


def split_text(text: str) -> list[str]:
    """Pieces of a long text between which the page may break the line."""
    return re.findall(r".{1,40}?(?:[|,;/:=]|$)|.{1,40}", text, flags=re.DOTALL)


# ------------------------------------------------------ which rows are the number, and which are the same number once more

ORIGINAL, NONE = "original", "none"
ABOUT, WAYS = list(summaries.LEFT), list(summaries.DEFINED_BY)
SAID = ["value", "label", "low", "high", "null_low", "null_high", "ceiling"]
COUNTS = ["n_expected", "n_used", "n_speakers", "n_target", "n_nontarget", "status", "reason", "note", "signature"]


def split_by_way(rows: pd.DataFrame, ways: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a metric that are the number, and those that are the same number by another way.

    A row is another way where one of the same thing is by an earlier way, or by the same one with fewer words in its variant: the
    usual definition has none.

    Args:
        rows: of one metric.
        ways: variants and estimators that are ways to compute it, the one to be read first at the front.
    """
    order = {way: place for place, way in enumerate(ways)}
    told = list(zip(*(rows[column].astype(str) for column in [*ABOUT, WAYS[-1]])))
    by = [_rank_way(variant, estimator, order) for variant, estimator in zip(rows["variant"], rows["estimator"])]
    of: dict[tuple[str, ...], set[tuple[int, frozenset[str]]]] = {}
    for about, way in zip(told, by):
        of.setdefault(about, set()).add(way)
    other = [
        any(way != mine and way[0] <= mine[0] and way[1] <= mine[1] for way in of[about])
        for about, mine in zip(told, by)
    ]
    chosen = pd.Series(other, index=rows.index, dtype=bool)
    return rows[~chosen], rows[chosen]


def _rank_way(variant: str, estimator: str, order: Mapping[str, int]) -> tuple[int, frozenset[str]]:
    """The place of the way by which a row is, and the other words of its variant."""
    words = {*filter(None, str(variant).split(", ")), *filter(None, [str(estimator)])}
    return min((order[word] for word in words if word in order), default=0), frozenset(words - {*order})


def merge_originals(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with those of original against original speech once instead of once a system, where these do not differ."""
    originals = rows[rows["condition"] == "OO"]
    if not len(originals):
        return rows
    system = ["system", "system_level"]
    same = ["metric", *(column for column in [*ABOUT, *WAYS] if column not in system)]
    content = originals[[*SAID, *COUNTS]].astype("string").fillna("")
    line = content.agg("\x1f".join, axis=1)
    uniform = line.groupby([originals[column].astype(str) for column in same], sort=False).transform("nunique") == 1
    first = ~originals.duplicated(same)
    kept = rows.drop(index=originals.index[uniform & ~first])
    alike = originals.index[uniform & first]
    kept.loc[alike, system[0]] = ORIGINAL
    kept.loc[alike, system[1]] = NONE
    return kept


def find_repeats(parts: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Metrics whose rows have the very numbers of an earlier one's, by name, and that one's name.

    Args:
        parts: the rows of each metric of a family.
    """
    seen: dict[str, dict[tuple[str, ...], tuple[float, ...]]] = {}
    repeats: dict[str, str] = {}
    for name, rows in parts.items():
        keys = rows[[*ABOUT, *WAYS]].astype(str).itertuples(index=False, name=None)
        values = rows[["value", "low", "high", "null_low", "null_high"]].itertuples(index=False, name=None)
        numbers = dict(zip(keys, values))
        originals = [earlier for earlier, earlier_numbers in seen.items() if _repeats(numbers, earlier_numbers)]
        if originals:
            repeats[name] = originals[0]
        else:
            seen[name] = numbers
    return repeats


def _repeats(
    numbers: Mapping[tuple[str, ...], tuple[float, ...]], by: Mapping[tuple[str, ...], tuple[float, ...]]
) -> bool:
    """Whether all numbers that there are stand in the other's rows, of which there are as many."""
    if numbers.keys() != by.keys() or all(pd.isna(values[0]) for values in numbers.values()):
        return False
    return all(
        mine == other or (pd.isna(mine) and (place > 0 or pd.isna(other)))
        for about, values in numbers.items()
        for place, (mine, other) in enumerate(zip(values, by[about]))
    )
