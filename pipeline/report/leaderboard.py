"""The answer in words and as a table: which system protects best, against which attack, by how much, and is it significant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.diagnostics import sentences
from pipeline.report import tables, words
from pipeline.report.fitting import cut, distinct, plain
from pipeline.report.tables import on_screen
from pipeline.report.words import joined
from pipeline.tables import results

WIDTH = 100
"""Columns of a terminal."""
LONGEST_SYSTEM = 18
TITLE = "Which system protects best, each against the strongest attack that was tried on it"
NOTHING = words.NOTHING
DIFFERENT = 0.05
ADVICE = ("enrolled_once", "not_adapted", "other_centre", "weak_extractor")
"""Checks that say what else could be tried."""

Row = Mapping[str, Any]


# ---------------------------------------------------------------------------------------------------------------- words


def attack(row: Row) -> str:
    """An attack in few words: who, with what, and whether it was adapted to the system."""
    adapted = ", adapted" if str(row["trained_on"]).find("anonymised") >= 0 else ""
    both = ", original enrolled too" if row["condition"] == "OPP" else ""
    return f"{row['attacker']}: {row['extractor']}, {row['backend']}{adapted}{both}"


def of_difference(row: Row) -> str:
    """One difference as a sentence; its numbers are B minus A."""
    where = f"On {row['subset']}, " + (
        "each under its strongest attack" if row["under"] == "strongest" else f"under {row['attack']}"
    )
    two = f"{row['system']} and {row['reference']}"
    if math.isnan(row.get("difference", math.nan)):
        return f"{where}, {two} cannot be compared: {row['reason']}."
    said = f"{where}, {_more_or_less(row)}{_interval_of(row)}"
    p = row.get("p_value", math.nan)
    if math.isnan(p):
        return f"{said}; not tested: {row['reason']}."
    corrected, n = row["p_holm"], row["n_compared"]
    how = f" after Holm's correction for {n} comparisons" if n > 1 else ""
    verdict = "they are different" if corrected <= DIFFERENT else "they are not shown to be different"
    return f"{said}; {p_value(corrected)}{how}: {verdict}."


def _more_or_less(row: Row) -> str:
    size = abs(row["difference"])
    if row["metric"] == "eer" and size == 0:
        return f"the EER of {row['system']} is that of {row['reference']}"
    if row["metric"] == "eer":
        word = "higher" if row["difference"] > 0 else "lower"
        return f"the EER of {row['system']} is {100 * size:.1f} points {word} than that of {row['reference']}"
    if size == 0:
        return f"{row['system']} gives away as much as {row['reference']}"
    word = "more" if row["difference"] > 0 else "less"
    return f"{row['system']} gives away {bits(size)} bit {word} than {row['reference']}"


def _interval_of(row: Row) -> str:
    if math.isnan(row.get("low", math.nan)):
        return ""
    scale, unit = (100, " points") if row["metric"] == "eer" else (1, " bit")
    digits = 1 if row["metric"] == "eer" else 3
    low, high = (f"{scale * row[end]:+.{digits}f}" for end in ("low", "high"))
    return f" (difference: 95 % interval {low} to {high}{unit})"


def p_value(p: float) -> str:
    """A p-value with two digits, not below what can be told."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def bits(value: float) -> str:
    """Bits with three digits."""
    return tables.number(value, "bit")


def sentence(
    board: pd.DataFrame, differences: pd.DataFrame, subset: str, diagnostics: pd.DataFrame, longest: int = 10**6
) -> str:
    """What a reviewer could quote of one subset: which system, against which attack, the difference to the next with its p, and
    the strongest doubt about the attack, cut to the ``longest`` that is wanted; '' where no system protects."""
    ranked = _ranked(board, subset)
    valued = [row for row in ranked if not math.isnan(row["d_ece"])]
    if not valued:
        return ""
    best, rest = valued[0], valued[1:]
    parts = [_verdict(best, rest, differences)]
    if best["chance"] == "within":
        parts.append(f"That is {NOTHING}.")
    if len(valued) < len(ranked):
        without = joined(str(row["system"]) for row in ranked if math.isnan(row["d_ece"]))
        parts.append(f"Of {without} there is no number.")
    doubt = doubt_about(best, diagnostics)
    if doubt:
        parts.append(f"Doubt about this attack: {cut(doubt, longest)}")
    return " ".join(parts)


def _ranked(board: pd.DataFrame, subset: str) -> list[dict[str, Any]]:
    return [row for row in results.records(board) if row["subset"] == subset and row["protects"]]


def best_row(board: pd.DataFrame) -> Row | None:
    """The row that the sentence of the first subset is about."""
    ranked = _ranked(board, subsets(board)[0]) if len(board) else []
    return next((row for row in ranked if not math.isnan(row["d_ece"])), None)


def _verdict(best: Row, rest: Sequence[Row], differences: pd.DataFrame) -> str:
    low, high = best["d_ece_low"], best["d_ece_high"]
    beside = "" if low <= best["d_ece"] <= high else ", corrected for what few trials add,"
    interval = "" if math.isnan(low) else f" (95 % interval{beside} {bits(low)} to {bits(high)})"
    tried = int(best["n_attacks"])
    by = f"the strongest of {tried} attacks" if tried > 1 else "the only attack tried"
    numbers = (
        f"against {by} ({attack(best)}) it gives away {bits(best['d_ece'])} bit of D_ECE{interval}, "
        f"at an EER of {100 * best['eer']:.1f} %"
    )
    if not rest:
        return f"On {best['subset']}, {best['system']} is the only system that protects: {numbers}."
    row = pair(differences, str(best["subset"]), str(best["system"]), str(rest[0]["system"]))
    p = math.nan if row is None else row["p_holm"]
    if row is None or math.isnan(p):
        why = "" if row is None or not row["reason"] else f" ({row['reason']})"
        return f"On {best['subset']}, {best['system']} has the lowest D_ECE: {numbers}; it was not tested against the next, {rest[0]['system']}{why}."
    word = "less" if best["d_ece"] <= rest[0]["d_ece"] else "more"
    much = f"{bits(abs(row['difference']))} bit {word} than" if row["difference"] else "as much as"
    gap = f"{much} the next, {rest[0]['system']} ({p_value(p)})"
    alike = joined(str(one["system"]) for one in (best, *rest) if one["rank"] == best["rank"])
    if rest[0]["rank"] != best["rank"]:
        return f"On {best['subset']}, {best['system']} protects best: {numbers}, {gap}."
    return (
        f"On {best['subset']}, {alike} cannot be told apart; {best['system']} has the lowest D_ECE: {numbers}, {gap}."
    )


def pair(differences: pd.DataFrame, subset: str, one: str, other: str) -> dict[str, Any] | None:
    """The comparison of two systems by D_ECE, each under its strongest attack."""
    wanted = (subset, "strongest", "d_ece", {one, other})
    for row in results.records(differences):
        if (row["subset"], row["under"], row["metric"], {row["system"], row["reference"]}) == wanted:
            return row
    return None


def doubt_about(row: Row, diagnostics: pd.DataFrame) -> str:
    """The first thing that casts doubt on an attack: of itself, else of its system, else of all; '' if nothing does."""
    flagged = [one for one in results.records(diagnostics) if bool(one["flagged"])] if len(diagnostics) else []
    flagged = [one for one in flagged if one["check"] not in sentences.OF_NUMBERS]
    # What was found wrong comes before what else could be tried.
    flagged.sort(key=lambda one: str(one["check"]) in ADVICE)

    def fits(one: Row) -> int | None:
        names = ("subset", "system", "condition", "attacker", "extractor", "trained_on", "backend")
        held = [(str(one[name] or ""), str(row[name])) for name in names]
        if any(
            said and said != own and not (name == "subset" and row["n_sets"] > 1)
            for name, (said, own) in zip(names, held)
        ):
            return None
        return -sum(bool(said) for said, _ in held)

    known = [(number, place) for place, one in enumerate(flagged) if (number := fits(one)) is not None]
    return str(flagged[min(known)[1]]["sentence"]) if known else ""


# ---------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Column:
    """A column of the table: its head, and how a row shows in it."""

    head: str
    name: str
    unit: str
    interval: bool = False


COLUMNS = (
    Column("D_ECE (bit) ↓", "d_ece", "bit", True),
    Column("EER (%) ↑", "eer", "fraction", True),
    Column("l_w ↓ (most)", "l_w", "log10"),
    Column("tag", "tag", ""),
    Column("ALID ↓ (chance)", "alid", "bit"),
    Column("MeanD ↓", "mean_d", "bit"),
    Column("IdR ↓", "idr", "fraction"),
    Column("DeID_OP ↑", "deid", "fraction"),
    Column("G_VD (dB)", "g_vd", "dB"),
)


def subsets(board: pd.DataFrame) -> list[str]:
    """The subsets, the one to show first at the front: those with an answer first, means before sets, test before the others."""
    order = list(dict.fromkeys(board["subset"].astype(str)))
    sets = dict(zip(board["subset"].astype(str), board["n_sets"].fillna(1).astype(int)))
    answered = set(board["subset"][board["protects"] & board["d_ece"].notna()].astype(str))
    return sorted(order, key=lambda name: (name not in answered, sets[name] < 2, "test" not in name, order.index(name)))


def lines(board: pd.DataFrame, subset: str, *, attacks: bool = True, width: int = WIDTH) -> list[str]:
    """The table of one subset: a row a system, and with ``attacks`` under each the one that its numbers stand on.

    Of a wider table the last columns are left out: :func:`left_out` names them.
    """
    rows = [row for row in results.records(board) if row["subset"] == subset]
    heads, body = _grid(rows, width)
    aligned = tables.aligned(heads, body, (0, 1))
    # Heads and a rule may stand above the body.
    above = len(aligned) - len(body)
    found = aligned[:above]
    for row, line in zip(rows, aligned[above:]):
        found += [line, cut(plain(f"      {_about(row)}"), width)] if attacks else [line]
    return [cut(line.rstrip(), width) for line in found]


def left_out(board: pd.DataFrame, subset: str, *, width: int = WIDTH) -> list[str]:
    """The columns that the table of one subset has no room for."""
    rows = [row for row in results.records(board) if row["subset"] == subset]
    heads, _ = _grid(rows, width)
    return [column.head.split()[0] for column in _columns(rows) if column.head not in heads]


def _columns(rows: Sequence[Row]) -> list[Column]:
    """The columns that have a value."""
    return [
        column
        for column in COLUMNS
        if any(row[column.name] if column.name == "tag" else not math.isnan(row[column.name]) for row in rows)
    ]


def _grid(rows: Sequence[Row], width: int) -> tuple[list[str], list[list[str]]]:
    shown = _columns(rows)
    heads = ["rank", "system", *(column.head for column in shown)]
    longest = LONGEST_SYSTEM if width == WIDTH else width
    systems = distinct([_system(row, rows) for row in rows], longest)
    body = [[_rank(row), system, *(_cell(row, one) for one in shown)] for row, system in zip(rows, systems)]
    while len(heads) > 4 and sum(max(map(on_screen, cells)) + 2 for cells in zip(heads, *body)) - 2 > width:
        heads, body = heads[:-1], [cells[:-1] for cells in body]
    return heads, body


def _system(row: Row, rows: Sequence[Row]) -> str:
    """A system, with its level where others of this name have another one."""
    levels = {str(one["system_level"]) for one in rows if one["system"] == row["system"]}
    return f"{row['system']} ({row['system_level']})" if len(levels) > 1 else str(row["system"])


def _rank(row: Row) -> str:
    return tables.DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def _cell(row: Row, column: Column) -> str:
    if column.name == "tag":
        return str(row["tag"]) or tables.DASH
    text = _number(row[column.name], column.unit)
    for name, beside in (("l_w", "l_w_ceiling"), ("alid", "alid_chance")):
        if column.name == name and not math.isnan(row[beside]):
            return f"{text} ({_number(row[beside], column.unit)})"
    if column.interval and not math.isnan(row[f"{column.name}_low"]):
        low, high = (_number(row[f"{column.name}_{end}"], column.unit) for end in ("low", "high"))
        text = f"{text} [{low}, {high}]"
    marks = "~" if column.name == "d_ece" and row["chance"] == "within" else ""
    return text + marks + ("†" if row["status"] == "partial" and column.interval else "")


def _number(value: float, unit: str) -> str:
    """Shorter than in the tables of all numbers: this one has to fit."""
    if math.isnan(value):
        return tables.DASH
    if math.isinf(value):
        return tables.number(value, unit)
    if unit == "fraction":
        return f"{100 * value:.1f}"
    return f"{value:.3f}" if unit == "bit" else f"{value:.1f}"


def _about(row: Row) -> str:
    if math.isnan(row["d_ece"]):
        return f"no number: {row['reason']}"
    tried, may = int(row["n_attacks"]), int(row["contenders"])
    said = [attack(row)]
    if tried > 1:
        said.append(f"of {tried} attacks" + (f", {may} may be the strongest" if may > 1 else ""))
    if row["untried"]:
        said.append(f"not tried: {row['untried']}")
    return "; ".join(said)


# ------------------------------------------------------------------------------------------------------------- in full


def text(board: pd.DataFrame, differences: pd.DataFrame, diagnostics: pd.DataFrame) -> str:
    """The sentence and the tables of all subsets; '' where no system was attacked."""
    if not attacked(board):
        return ""
    first, *others = subsets(board)
    wide = 10**6
    blocks = [TITLE, ""]
    for name in (first, *others):
        said = sentence(board, differences, name, diagnostics)
        blocks += [*([said, ""] if said else []), name, *lines(board, name, width=wide), ""]
    return "\n".join([*blocks, *legend(board)]) + "\n"


def attacked(board: pd.DataFrame) -> bool:
    """Whether a system that protects was attacked."""
    return len(board) > 0 and bool(board["protects"].any())


def legend(board: pd.DataFrame) -> list[str]:
    """What a reader needs to know to read the table."""
    said = ["EER: convex hull (rocch). Rank: 1 + systems shown to be better (p ≤ 0.05, Holm: differences.csv)"]
    if (board["chance"] == "within").any():
        said.append(f"~ {NOTHING}")
    if (board["status"] == "partial").any():
        said.append("† does not stand on everything that was expected")
    return said
