"""Systems compared in pairs: each with unprotected speech, with the baseline, then with one another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report import leaderboard, runs, verdict
from pipeline.report.formats import DASH
from pipeline.report.table import Column, Table
from pipeline.tables import results

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Subset:
    """The comparisons of one subset: under each one's strongest attack in sentences and as a table, and under one attack on both."""

    subset: str
    sentences: list[str]
    strongest: Table
    same: Table


@dataclass(frozen=True)
class Differences:
    """The comparisons of all subsets; ``baseline`` is what the others are compared with."""

    baseline: str
    subsets: list[Subset]


def compare_systems(evaluation: runs.Evaluation) -> Differences | None:
    """None where no two systems were compared."""
    table = evaluation.differences
    if not len(table):
        return None
    order = [*leaderboard.order_subsets(evaluation.leaderboard), *table["subset"].astype(str)]
    rows: list[Row] = [
        {**row, **{name: evaluation.name(str(row[name]), str(row["run_id"])) for name in ("system", "reference")}}
        for row in sorted(results.records(table), key=lambda row: (not row["unprotected"], not row["baseline"]))
    ]
    return Differences(
        ", ".join(dict.fromkeys(str(row["reference"]) for row in rows if row["baseline"])),
        [
            _compare_subset(subset, [row for row in rows if row["subset"] == subset])
            for subset in dict.fromkeys(order)
            if (table["subset"] == subset).any()
        ],
    )


def _compare_subset(subset: str, rows: Sequence[Row]) -> Subset:
    strongest = [row for row in rows if row["under"] == "strongest"]
    quoted = [row for row in strongest if row["metric"] == "d_ece" and (row["baseline"] or row["unprotected"])]
    return Subset(
        subset,
        [verdict.describe_difference(row) for row in quoted],
        _tabulate(strongest, ("system", "reference")),
        _tabulate([row for row in rows if row["under"] == "same"], ("attack", "system", "reference")),
    )


HEADS = {
    "attack": "attack on both",
    "system": "system",
    "reference": "compared with",
    "d_ece": "D_ECE (bit)",
    "eer": "EER (points)",
}
P = ["p", "p (Holm)", "different"]


def _tabulate(rows: Sequence[Row], left: Sequence[str]) -> Table:
    """D_ECE and EER of a pair side by side, a row a pair (and attack)."""
    pairs: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        names = tuple(str(row[name]) for name in left)
        pairs.setdefault(names, {})[str(row["metric"])] = row
    metrics = [name for name in ("d_ece", "eer") if any(name in by_metric for by_metric in pairs.values())]
    tested = [
        name
        for name in metrics
        if any(not math.isnan(by_metric[name]["p_value"]) for by_metric in pairs.values() if name in by_metric)
    ]
    columns = [Column(HEADS[name], "note" if name == "attack" else "text") for name in left]
    for name in metrics:
        columns += [Column(head, "number") for head in (HEADS[name], "95 % interval", *P * (name in tested))]
    body = [
        [*names, *(cell for name in metrics for cell in _make_cells(metrics_of_pair.get(name), name in tested))]
        for names, metrics_of_pair in pairs.items()
    ]
    return Table(columns, body, left=1 if "attack" in left else 0)


def _make_cells(row: Row | None, tested: bool) -> list[str]:
    if row is None:
        return [""] * (2 + len(P) * tested)
    shown = [_format_signed(row[name], row["metric"]) for name in ("difference", "low", "high")]
    interval = "" if math.isnan(row["low"]) else f"[{shown[1]}, {shown[2]}]"
    if not tested:
        return [shown[0], interval]
    p = row["p_holm"]
    told = "" if math.isnan(p) else "yes" if p <= verdict.DIFFERENT else "not shown"
    return [shown[0], interval, _format_p(row["p_value"]), _format_p(p), told]


def _format_signed(value: float, metric: str) -> str:
    if math.isnan(value):
        return DASH
    text = f"{100 * value:+.1f}" if metric == "eer" else f"{value:+.3f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _format_p(value: float) -> str:
    return DASH if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.2g}"
