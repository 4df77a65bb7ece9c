"""The answer as text: the sentences of :mod:`pipeline.report.verdict`, and the tables of the systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import summaries, verdict
from pipeline.report.fitting import cut, distinct, plain
from pipeline.report.summaries import on_screen
from pipeline.report.words import NOTHING
from pipeline.tables import results

WIDTH = 100
"""Columns of a terminal."""
LONGEST_SYSTEM = 18
TITLE = "What the strongest attack tried on each system discloses, compared with unprotected speech"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        head, metric, unit: what it shows.
        value: the column of the leaderboard that holds it.
        ends: those of its interval.
        most: that of the largest value that it can have.
    """

    head: str
    metric: str
    unit: str
    value: str
    ends: tuple[str, str] | None = None
    most: str = ""

    def has_value(self, row: Row) -> bool:
        return bool(row[self.value]) if self.unit == "" else not math.isnan(row[self.value])

    def texts(self, row: Row, number: Callable[[float, str], str]) -> tuple[str, str, str]:
        """The value, its interval, and its scale, as text; '' for what there is not."""
        if not self.has_value(row):
            return summaries.DASH, "", ""
        if self.unit == "":
            return str(row[self.value]), "", ""
        ends = [row[name] for name in self.ends or () if not math.isnan(row[name])]
        interval = f"[{', '.join(number(end, self.unit) for end in ends)}]" if len(ends) == 2 else ""
        most = row[self.most] if self.most else math.nan
        least = "0 to " if self.metric == "alid" else ""
        return (
            number(row[self.value], self.unit),
            interval,
            "" if math.isnan(most) else f"({least}{number(most, self.unit)})",
        )


def _taken(head: str, metric: str, unit: str, most: str = "") -> Column:
    return Column(head, metric, unit, metric, (f"{metric}_low", f"{metric}_high"), most)


EER = Column("EER (%) ↑", "eer", "fraction", "lowest_eer", ("lowest_eer_low", "lowest_eer_high"))
D_ECE = Column("D_ECE (bit) ↓", "d_ece", "bit", "d_ece_corrected", ("d_ece_low", "d_ece_high"))
FIRST = (EER, D_ECE, Column("tag", "tag", "", "tag"))
"""The columns of the first table."""
FURTHER = (
    Column("l_w ↓ (at most)", "l_w", "log10", "l_w", most="l_w_ceiling"),
    _taken("ALID ↓ (0 to log2 N)", "alid", "bit", "alid_ceiling"),
    _taken("MeanD ↓", "mean_d", "bit"),
    _taken("IdR ↓", "idr", "fraction"),
    _taken("DeID_OP ↑", "deid", "fraction"),
    _taken("G_VD (dB)", "g_vd", "dB"),
)
"""Those of the second."""
OF_STRONGEST = (
    Column("D_ECE as measured (bit)", "d_ece", "bit", "d_ece", ("d_ece_low", "d_ece_high")),
    Column("EER of that attack (%)", "eer", "fraction", "eer", ("eer_low", "eer_high")),
)
"""What stands before them where there is room: the highest D_ECE of all attacks, and the EER of this attack."""
COLUMNS = (*FIRST, *FURTHER)


def rows(board: pd.DataFrame, subset: str) -> list[dict[str, Any]]:
    """The rows of one subset with what they show."""
    return [verdict.completed(row) for row in results.records(board) if row["subset"] == subset]


def subsets(board: pd.DataFrame) -> list[str]:
    """The subsets, the one to show first at the front: those with an answer first, means before sets, test before the others."""
    order = list(dict.fromkeys(board["subset"].astype(str)))
    sets = dict(zip(board["subset"].astype(str), board["n_sets"].fillna(1).astype(int)))
    answered = set(board["subset"][board["anonymised"] & board["d_ece"].notna()].astype(str))
    return sorted(order, key=lambda name: (name not in answered, sets[name] < 2, "test" not in name, order.index(name)))


def lines(board: pd.DataFrame, subset: str, *, attacks: bool = True, width: int = WIDTH) -> list[str]:
    """The table of one subset: a row a system, and with ``attacks`` under each the one that its numbers stand on."""
    shown = rows(board, subset)
    aligned, body = _aligned(shown, FIRST, width)
    # Heads and a rule may stand above the body.
    above = len(aligned) - body
    found = aligned[:above]
    for row, line in zip(shown, aligned[above:]):
        found += [line, cut(plain(f"      {'; '.join(about(row))}"), width)] if attacks else [line]
    return [cut(line.rstrip(), width) for line in found]


def further(board: pd.DataFrame, subset: str, *, width: int = WIDTH) -> list[str]:
    """The table of the other numbers of one subset; nothing where there are none."""
    shown = rows(board, subset)
    if not any(column.has_value(row) for column in FURTHER for row in shown):
        return []
    return [cut(line.rstrip(), width) for line in _aligned(shown, FURTHER, width)[0]]


def further_heads(board: pd.DataFrame, subset: str) -> list[str]:
    """What stands in the table of the other numbers."""
    return [column.head.split()[0] for column in present(rows(board, subset), FURTHER)]


def present(shown: Sequence[Row], columns: Sequence[Column]) -> list[Column]:
    """The columns that have a value."""
    return [column for column in columns if any(column.has_value(row) for row in shown)]


def _aligned(shown: Sequence[Row], columns: Sequence[Column], width: int) -> tuple[list[str], int]:
    """The lines of a table, and how many of them are its body."""
    kept = present(shown, columns)
    heads = [*(["rank"] if columns is FIRST else []), "system", *(column.head for column in kept)]
    longest = LONGEST_SYSTEM if width == WIDTH else width
    systems = distinct([_system(row, shown) for row in shown], longest)
    body = [
        [*([_rank(row)] if columns is FIRST else []), system, *(_cell(row, one) for one in kept)]
        for row, system in zip(shown, systems)
    ]
    while len(heads) > 4 and sum(max(map(on_screen, cells)) + 2 for cells in zip(heads, *body)) - 2 > width:
        heads, body = heads[:-1], [cells[:-1] for cells in body]
    return summaries.aligned(heads, body, (0, 1) if columns is FIRST else (0,)), len(body)


def _system(row: Row, rows: Sequence[Row]) -> str:
    """A system, with its level where others of this name have another one."""
    levels = {str(one["system_level"]) for one in rows if one["system"] == row["system"]}
    return f"{row['system']} ({row['system_level']})" if len(levels) > 1 else str(row["system"])


def _rank(row: Row) -> str:
    return summaries.DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def _cell(row: Row, column: Column) -> str:
    value, interval, scale = column.texts(row, number)
    marks = "~" if column is D_ECE and row["chance"] == "within" else ""
    marks += "†" if row["status"] == "partial" and column in (EER, D_ECE) and value != summaries.DASH else ""
    return " ".join(filter(None, [value, interval if column in FIRST else "", scale])) + marks


def number(value: float, unit: str) -> str:
    """Shorter than in the tables of all numbers, so that a row holds them all."""
    if math.isnan(value) or math.isinf(value):
        return summaries.number(value, unit)
    digits, scale = {"bit": (3, 1), "fraction": (1, 100)}.get(unit, (1, 1))
    text = f"{scale * value:.{digits}f}"
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", "\N{MINUS SIGN}")


def about(row: Row) -> list[str]:
    """What the numbers of a system stand on: the raw maximum and its attack, the attack with the lowest EER, and what was not tried."""
    if math.isnan(row["d_ece"]):
        said = [f"no number: {row['reason']}" if row["reason"] else "no number"]
    else:
        tried, alike = int(row["n_attacks"]), int(row["contenders"]) - 1
        highest = f"highest of {tried} attacks" if tried > 1 else "the only attack tried"
        said = [f"{highest} {verdict.bits(row['d_ece'])} bit: {verdict.attack(row)}"]
        lowest = str(row["lowest_eer_attack"])
        said += [f"lowest EER: {lowest}"] if lowest and lowest != verdict.attack(row) else []
        said += [f"{alike} other{'s' * (alike > 1)} cannot be told from it"] if alike > 0 else []
    return [*said, *([f"not tried: {row['untried']}"] if row["untried"] else [])]


# ------------------------------------------------------------------------------------------------------------- in full


def text(board: pd.DataFrame, differences: pd.DataFrame, diagnostics: pd.DataFrame) -> str:
    """The sentence and the tables of all subsets; '' where no system was attacked."""
    if not attacked(board):
        return ""
    wide = 10**6
    blocks = [TITLE, ""]
    for name in subsets(board):
        said = verdict.sentence(board, differences, name, diagnostics)
        other = further(board, name, width=wide)
        blocks += [*([said, ""] if said else []), name, *lines(board, name, width=wide), ""]
        blocks += [*other, ""] if other else []
    return "\n".join([*blocks, *legend(board)]) + "\n"


def attacked(board: pd.DataFrame) -> bool:
    """Whether a system that protects was attacked."""
    return len(board) > 0 and bool(board["anonymised"].any())


def legend(board: pd.DataFrame) -> list[str]:
    """What a reader needs to know to read the table."""
    return list(_legend(board))


def _legend(board: pd.DataFrame) -> Iterator[str]:
    yield "EER: lowest of all attacks; D_ECE: highest, corrected. Rank: 1 + systems shown to disclose less"
    if (board["chance"] == "within").any():
        yield f"~ {NOTHING}"
    if (board["status"] == "partial").any():
        yield "† does not stand on everything that was expected"
