"""Systems compared in pairs: each with the baseline, then with one another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report import leaderboard, runs, tables
from pipeline.report.page.parts import Column, Table
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
    """The comparisons of all subsets; ``baseline`` is what the others are held against."""

    baseline: str
    subsets: list[Subset]


def differences(evaluation: runs.Evaluation) -> Differences | None:
    """None where no two systems were compared."""
    table = evaluation.differences
    if not len(table):
        return None
    board = evaluation.leaderboard
    order = [*(leaderboard.subsets(board) if len(board) else []), *table["subset"].astype(str)]
    rows = sorted(results.records(table), key=lambda row: not row["baseline"])
    return Differences(
        ", ".join(dict.fromkeys(_label(row["reference"], row) for row in rows if row["baseline"])),
        [
            _subset(subset, [row for row in rows if row["subset"] == subset], evaluation.several)
            for subset in dict.fromkeys(order)
            if (table["subset"] == subset).any()
        ],
    )


def _subset(subset: str, rows: Sequence[Row], several: bool) -> Subset:
    strongest = [row for row in rows if row["under"] == "strongest"]
    said = [row for row in strongest if row["metric"] == "d_ece" and row["baseline"]]
    return Subset(
        subset,
        [(f"Run {row['run']}: " if several else "") + leaderboard.of_difference(row) for row in said],
        _table(strongest, ("system", "reference"), several),
        _table([row for row in rows if row["under"] == "same"], ("attack", "system", "reference"), several),
    )


HEADS = {"attack": "attack on both", "system": "system", "reference": "held against"}


def _table(rows: Sequence[Row], left: Sequence[str], several: bool) -> Table:
    """D_ECE and EER of a pair side by side, a row a pair (and attack)."""
    pairs: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        names = tuple(_label(row[name], row) if name != "attack" else str(row[name]) for name in left)
        pairs.setdefault(names, {})[str(row["metric"])] = row
    metrics = [name for name in ("d_ece", "eer") if any(name in one for one in pairs.values())]
    tested = [
        name for name in metrics if any(not math.isnan(one[name]["p_value"]) for one in pairs.values() if name in one)
    ]
    columns = [Column(HEADS[name], "note" if name == "attack" else "text") for name in left]
    for name in metrics:
        columns += [Column(head, "number") for head in _heads(name, name in tested)]
    body = [
        [*names, *(cell for name in metrics for cell in _cells(found.get(name), name in tested))]
        for names, found in pairs.items()
    ]
    return Table(columns, body, left=1 if "attack" in left else 0)


def _heads(metric: str, tested: bool) -> list[str]:
    symbol = {"d_ece": "D_ECE less (−) or more (+), bit", "eer": "EER higher (+) or lower (−), points"}[metric]
    return [symbol, "95 % interval", *(["p", "p (Holm)"] if tested else [])]


def _cells(row: Row | None, tested: bool) -> list[str]:
    if row is None:
        return [""] * (4 if tested else 2)
    shown = [_signed(row[name], row["metric"]) for name in ("difference", "low", "high")]
    interval = "" if math.isnan(row["low"]) else f"[{shown[1]}, {shown[2]}]"
    return [shown[0], interval, *([_p(row["p_value"]), _p(row["p_holm"])] if tested else [])]


def _signed(value: float, metric: str) -> str:
    if math.isnan(value):
        return tables.DASH
    text = f"{100 * value:+.1f}" if metric == "eer" else f"{value:+.3f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _p(value: float) -> str:
    return tables.DASH if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.2g}"


def _label(name: Any, row: Row) -> str:
    return f"{name} · {row['run']}" if row["run"] else str(name)
