"""The answer in words and as a table: which system protects best, against which attack, by how much, and is it significant.

The last screen of a terminal: at most :data:`WIDTH` columns and :data:`LINES` lines, counts and path of the run among them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.diagnostics import grouping, sentences
from pipeline.report import tables
from pipeline.report.words import joined
from pipeline.tables import results

WIDTH, LINES = 100, 40
BELOW = 3
"""Lines that follow on the last screen: scorecard, counts, path."""
MOST_DOUBTS, LONGEST_DOUBT = 3, 240
TITLE = "Which system protects best, each against the strongest attack that was tried on it"
NOTHING = "not different from a system that gives nothing away with this many speakers and trials"
DIFFERENT = 0.05

Row = Mapping[str, Any]


# ---------------------------------------------------------------------------------------------------------------- words


def attack(row: Row) -> str:
    """An attack in few words: who, with what, and whether it was adapted to the system."""
    adapted = ", adapted" if str(row["trained_on"]).find("anonymised") >= 0 else ""
    return f"{row['attacker']}: {row['extractor']}, {row['backend']}{adapted}"


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
    ranked = [row for row in results.records(board) if row["subset"] == subset and row["protects"]]
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
        parts.append(f"Doubt about this attack: {_cut(doubt, longest)}")
    return " ".join(parts)


def _verdict(best: Row, rest: Sequence[Row], differences: pd.DataFrame) -> str:
    interval = (
        ""
        if math.isnan(best["d_ece_low"])
        else f" (95 % interval {bits(best['d_ece_low'])} to {bits(best['d_ece_high'])})"
    )
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
    gap = f"{bits(abs(row['difference']))} bit {word} than the next, {rest[0]['system']} ({p_value(p)})"
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

    def fits(one: Row) -> int | None:
        names = ("subset", "system", "attacker", "extractor", "trained_on", "backend")
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
    Column("ALID ↓", "alid", "bit"),
    Column("MeanD ↓", "mean_d", "bit"),
    Column("IdR ↓", "idr", "fraction"),
    Column("DeID ↑", "deid", "fraction"),
    Column("G_VD ↑", "g_vd", "dB"),
)


def subsets(board: pd.DataFrame) -> list[str]:
    """The subsets, the one to show first at the front: means before sets, test before the others."""
    order = list(dict.fromkeys(board["subset"].astype(str)))
    sets = dict(zip(board["subset"].astype(str), board["n_sets"].fillna(1).astype(int)))
    return sorted(order, key=lambda name: (sets[name] < 2, "test" not in name, order.index(name)))


def lines(board: pd.DataFrame, subset: str, *, attacks: bool = True) -> list[str]:
    """The table of one subset: a row a system, and with ``attacks`` under each the one that its numbers stand on."""
    rows = [row for row in results.records(board) if row["subset"] == subset]
    shown = [
        column
        for column in COLUMNS
        if any(row[column.name] if column.name == "tag" else not math.isnan(row[column.name]) for row in rows)
    ]
    heads = ["rank", "system", *(column.head for column in shown)]
    body = [[_rank(row), _cut(str(row["system"]), 18), *(_cell(row, column) for column in shown)] for row in rows]
    while len(heads) > 4 and sum(max(map(len, cells)) + 2 for cells in zip(heads, *body)) > WIDTH:
        heads, body = heads[:-1], [cells[:-1] for cells in body]
    aligned = tables.aligned(heads, body, (0, 1))
    # Heads and a rule may stand above the body.
    above = len(aligned) - len(body)
    found = aligned[:above]
    for row, line in zip(rows, aligned[above:]):
        found += [line, _cut(f"      {_about(row)}", WIDTH)] if attacks else [line]
    return [line.rstrip()[:WIDTH] for line in found]


def _rank(row: Row) -> str:
    return tables.DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def _cell(row: Row, column: Column) -> str:
    if column.name == "tag":
        return str(row["tag"]) or tables.DASH
    text = _number(row[column.name], column.unit)
    if column.name == "l_w" and not math.isnan(row["l_w_ceiling"]):
        return f"{text} ({_number(row['l_w_ceiling'], 'log10')})"
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


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -------------------------------------------------------------------------------------------------------------- the screen


def screen(board: pd.DataFrame, differences: pd.DataFrame, diagnostics: pd.DataFrame, n_limits: int = 0) -> str:
    """The answer as the last screen shows it; '' where no system was attacked."""
    if not len(board) or not board["protects"].any():
        return ""
    first, *others = subsets(board)
    said = sentence(board, differences, first, diagnostics, LONGEST_DOUBT)
    foot = [*_doubts(diagnostics, n_limits)]
    top = [TITLE, "", *(textwrap.wrap(said, WIDTH) if said else []), ""]
    room = LINES - BELOW - len(top) - len(foot) - len(_legend(board)) - 2
    table = lines(board, first)
    if len(table) > room:
        table = lines(board, first, attacks=False)
    if len(table) > room:
        table = [*table[: room - 1], f"… {len(table) - room + 1} more systems: leaderboard.csv"]
    blocks = [first, *table]
    left: list[str] = []
    for name in others:
        more = ["", name, *lines(board, name)]
        if not left and len(blocks) + len(more) < room:
            blocks += more
        else:
            left.append(name)
    if left:
        blocks.append(_cut(f"also in leaderboard.csv: {', '.join(left)}", WIDTH))
    return "\n".join([*top, *blocks, *_legend(board), *foot]) + "\n"


def _legend(board: pd.DataFrame) -> list[str]:
    said = [
        "rank: 1 + the systems shown to be better (paired test, p ≤ 0.05 after Holm: differences.csv)",
        "EER: on the convex hull of the ROC (rocch). All attacks: attacks.csv",
    ]
    marks = []
    if (board["chance"] == "within").any():
        marks.append(f"~ {NOTHING}")
    if (board["status"] == "partial").any():
        marks.append("† does not stand on everything that was expected")
    return [line for text in (*said, *marks) for line in textwrap.wrap(text, WIDTH)]


def _doubts(diagnostics: pd.DataFrame, n_limits: int) -> Iterator[str]:
    """The findings that cast doubt on attacks, one a line as far as there is room, and where the rest stands."""
    flagged = grouping.findings(diagnostics).flagged
    for finding in flagged[:MOST_DOUBTS]:
        text = f"! {finding.sentence}" + (f" ({finding.applies})" if finding.applies else "")
        yield _cut("".join(c if c.isprintable() else " " for c in text), WIDTH)
    more = []
    if len(flagged) > MOST_DOUBTS:
        more.append(f"{len(flagged) - MOST_DOUBTS} more doubts")
    if n_limits:
        more.append(f"{n_limits} thing{'s' if n_limits > 1 else ''} to know first")
    if more:
        yield f"{' and '.join(more)}: above, and in the report"
