"""The leaderboard: its rows and numbers, its table for a terminal, and the table of minimum-EER conditions (:mod:`pipeline.report.verdict` words it)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import glossary, verdict
from pipeline.report.formats import DASH, NOTHING, choose_arrow, format_interval, format_number, format_unit, set_minus
from pipeline.report.table import (
    WIDEST,
    Cell,
    Column,
    Line,
    Table,
    fit_columns,
    format_lines,
    make_printable,
    shorten,
    shorten_names,
)
from pipeline.tables import results

WIDTH = 100
"""Columns of a terminal."""
LONGEST_SYSTEM = 18
TITLE = "What the strongest attack tried on each system discloses, compared with unprotected speech"
WITHIN, PARTIAL = "~", "†"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number of the leaderboard: what it is, and the columns of its ``value``, of the ``ends`` of its interval and of the ``most``
    that it can be."""

    head: str
    metric: str
    unit: str
    value: str
    ends: tuple[str, str] | None = None
    most: str = ""

    @property
    def paper_column(self) -> Column:
        """Its column with the symbol and the unit that its family declares."""
        metric = glossary.metric(self.metric)
        _, bracket, scale = self.head.partition(" (")
        arrow = choose_arrow(metric.private) + (f" ({scale}" if self.most and bracket else "")
        return Column(metric.symbol, "number", format_unit(metric.unit), arrow.strip())

    def is_known(self, row: Row) -> bool:
        return bool(row[self.value]) if self.unit == "" else not math.isnan(row[self.value])

    def make_cell(self, row: Row, write: Callable[[float, str], str], *, intervals: bool = True) -> Cell:
        """The number of a row, with its interval and its scale; marked where it is the answer. ``write`` turns it into text."""
        if not self.is_known(row):
            return Cell(DASH)
        if self.unit == "":
            return Cell(str(row[self.value]))
        ends = [row[name] for name in self.ends or () if not math.isnan(row[name])]
        interval = f"[{', '.join(write(end, self.unit) for end in ends)}]" if len(ends) == 2 and intervals else ""
        most = row[self.most] if self.most else math.nan
        least = "0 to " if self.metric == "alid" else ""
        scale = "" if math.isnan(most) else f"({least}{write(most, self.unit)})"
        within = WITHIN if self is D_ECE and row["chance"] == "within" else ""
        partial = PARTIAL if self in (EER, D_ECE) and row["status"] == "partial" else ""
        return Cell(write(row[self.value], self.unit), f"{interval} {scale}".strip(), f"{within} {partial}".strip())


EER = Measure("EER (%) ↑", "eer", "fraction", "lowest_eer", ("lowest_eer_low", "lowest_eer_high"))
D_ECE = Measure("D_ECE (bit) ↓", "d_ece", "bit", "d_ece_corrected", ("d_ece_low", "d_ece_high"))
FIRST = (EER, D_ECE, Measure("tag", "tag", "", "tag"))
"""What the first table has."""
FURTHER = (
    Measure("l_w ↓ (at most)", "l_w", "log10", "l_w", most="l_w_ceiling"),
    Measure("ALID ↓ (0 to log2 N)", "alid", "bit", "alid", ("alid_low", "alid_high"), "alid_ceiling"),
    Measure("MeanD ↓", "mean_d", "bit", "mean_d", ("mean_d_low", "mean_d_high")),
    Measure("IdR ↓", "idr", "fraction", "idr", ("idr_low", "idr_high")),
    Measure("DeID_OP ↑", "deid", "fraction", "deid", ("deid_low", "deid_high")),
    Measure("G_VD (dB)", "g_vd", "dB", "g_vd", ("g_vd_low", "g_vd_high")),
)
"""What the second has."""
OF_STRONGEST = (
    Measure("D_ECE as measured (bit)", "d_ece", "bit", "d_ece", ("d_ece_low", "d_ece_high")),
    Measure("EER of that attack (%)", "eer", "fraction", "eer", ("eer_low", "eer_high")),
)
"""What stands before them where there is room: the highest D_ECE of all attacks, and the EER of this attack."""


def list_rows(board: pd.DataFrame, subset: str) -> list[dict[str, Any]]:
    """The rows of one subset with what they show."""
    return [verdict.complete_row(row) for row in results.records(board) if row["subset"] == subset]


def order_subsets(board: pd.DataFrame) -> list[str]:
    """The subsets, the one to show first at the front: those with an answer first, means before sets, test before the others."""
    order = list(dict.fromkeys(board["subset"].astype(str)))
    sets = dict(zip(board["subset"].astype(str), board["n_sets"].fillna(1).astype(int)))
    answered = set(board["subset"][board["anonymised"] & board["d_ece"].notna()].astype(str))
    return sorted(order, key=lambda name: (name not in answered, sets[name] < 2, "test" not in name, order.index(name)))


def select_known(rows: Sequence[Row], measures: Sequence[Measure]) -> list[Measure]:
    """The measures that have a value in some row."""
    return [measure for measure in measures if any(measure.is_known(row) for row in rows)]


def is_attacked(board: pd.DataFrame) -> bool:
    """Whether a system that protects was attacked."""
    return len(board) > 0 and bool(board["anonymised"].any())


def format_rank(row: Row) -> str:
    return DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def format_short(value: float, unit: str) -> str:
    """Shorter than in the tables of all numbers, so that a row holds them all."""
    if math.isnan(value) or math.isinf(value):
        return format_number(value, unit)
    digits, scale = {"bit": (3, 1), "fraction": (1, 100)}.get(unit, (1, 1))
    text = f"{scale * value:.{digits}f}"
    return set_minus(text.lstrip("-") if float(text) == 0 else text)


def describe_attacks(row: Row) -> list[str]:
    """What the numbers of a system stand on: the raw maximum and its attack, the attack with the lowest EER, and what was not tried."""
    if math.isnan(row["d_ece"]):
        texts = [f"no number: {row['reason']}" if row["reason"] else "no number"]
    else:
        tried, alike = int(row["n_attacks"]), int(row["contenders"]) - 1
        highest = f"highest of {tried} attacks" if tried > 1 else "the only attack tried"
        texts = [f"{highest} {verdict.format_bits(row['d_ece'])} bit: {verdict.describe_attack(row)}"]
        lowest = str(row["lowest_eer_attack"])
        texts += [f"lowest EER: {lowest}"] if lowest and lowest != verdict.describe_attack(row) else []
        texts += [f"{alike} other{'s' * (alike > 1)} cannot be told from it"] if alike > 0 else []
    return [*texts, *([f"not tried: {row['untried']}"] if row["untried"] else [])]


# ------------------------------------------------------------------------------------------------------ for a terminal


def format_board(board: pd.DataFrame, subset: str, *, attacks: bool = True, width: int = WIDTH) -> list[str]:
    """The table of one subset: a row a system, and with ``attacks`` under each the one that its numbers stand on."""
    rows = list_rows(board, subset)
    lines = format_lines(_fit(rows, FIRST, width), width)
    if not attacks:
        return lines
    below = [shorten(make_printable(f"      {'; '.join(describe_attacks(row))}"), width) for row in rows]
    head = lines[: -len(rows)] if rows else lines
    return [*head, *(text for pair in zip(lines[len(head) :], below) for text in pair)]


def format_further(board: pd.DataFrame, subset: str, *, width: int = WIDTH) -> list[str]:
    """The table of the other numbers of one subset; nothing where there are none."""
    rows = list_rows(board, subset)
    return format_lines(_fit(rows, FURTHER, width), width) if select_known(rows, FURTHER) else []


def _fit(rows: Sequence[Row], measures: Sequence[Measure], width: int) -> Table:
    """The table as far as its columns have room."""
    ranked = measures is FIRST
    shown = select_known(rows, measures)
    systems = shorten_names([_name_system(row, rows) for row in rows], LONGEST_SYSTEM if width == WIDTH else width)
    columns = [Column("rank"), Column("system"), *(Column(measure.head, "number") for measure in shown)]
    body: list[Line] = []
    for row, system in zip(rows, systems):
        cells = [measure.make_cell(row, format_short, intervals=ranked) for measure in shown]
        body.append([*([format_rank(row)] if ranked else []), system, *cells])
    return fit_columns(Table(columns[not ranked :], body), width, 4)[0]


def _name_system(row: Row, rows: Sequence[Row]) -> str:
    """A system, with its level where others of this name have another one."""
    levels = {str(other["system_level"]) for other in rows if other["system"] == row["system"]}
    return f"{row['system']} ({row['system_level']})" if len(levels) > 1 else str(row["system"])


def to_text(board: pd.DataFrame, differences: pd.DataFrame, diagnostics: pd.DataFrame) -> str:
    """The sentence and the tables of all subsets; '' where no system was attacked."""
    if not is_attacked(board):
        return ""
    lines = [TITLE, ""]
    for subset in order_subsets(board):
        sentence = verdict.write_sentence(board, differences, subset, diagnostics)
        further = format_further(board, subset, width=WIDEST)
        lines += [*([sentence, ""] if sentence else []), subset, *format_board(board, subset, width=WIDEST), ""]
        lines += [*further, ""] if further else []
    return "\n".join([*lines, *write_legend(board)]) + "\n"


def write_legend(board: pd.DataFrame) -> Iterator[str]:
    """What a reader needs to know to read the table."""
    yield "EER: lowest of all attacks; D_ECE: highest, corrected. Rank: 1 + systems shown to disclose less"
    if (board["chance"] == "within").any():
        yield f"{WITHIN} {NOTHING}"
    if (board["status"] == "partial").any():
        yield f"{PARTIAL} does not stand on everything that was expected"


# ------------------------------------------------------------------------------------------------ minimum-EER conditions

CONDITIONS = "Minimum-EER conditions"
CONDITION_COLUMNS = (
    Column("subset"),
    Column("system"),
    Column("ranked by"),
    Column("EER", "number", "%", "↑"),
    Column("95 % interval", "number"),
    Column("meets condition"),
    Column("cannot be told from"),
    Column("attack"),
)


def tabulate_conditions(conditions: pd.DataFrame, systems: Sequence[str] = ()) -> Table:
    """The table, by system in their order; without rows where nothing is ranked."""
    order = {name: place for place, name in enumerate(systems)}
    rows = sorted(conditions.to_dict("records"), key=lambda row: order.get(row["system"], len(order)))
    notes = list(_write_condition_notes(conditions)) if rows else []
    return Table(CONDITION_COLUMNS, [_make_condition_line(row) for row in rows], CONDITIONS, notes)


def _make_condition_line(row: Mapping[Any, Any]) -> Line:
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


def _write_condition_notes(conditions: pd.DataFrame) -> Iterator[str]:
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
