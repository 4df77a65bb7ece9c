"""The leaderboard for papers: which system protects best, as Markdown and as LaTeX, of one run or of several.

A table a subset: one row a system, best first, each number with its interval; the sentence of :mod:`pipeline.report.leaderboard` above it;
below it what the marks mean and under which signatures the numbers were measured. The terminal's table is in that module, and shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.report import glossary, leaderboard, signatures, tables
from pipeline.report.words import joined
from pipeline.tables import results
from pipeline.tables.answers import ATTACK, TAKEN

TITLE = leaderboard.TITLE
NO_SYSTEM = "No system that protects was attacked, so that there is no answer."
RANK = (
    "Rank: 1 and one more for each system that is shown to be better (speakers swapped between two systems, p at most 0.05 after "
    "Holm's correction); systems that are not told apart share it."
)
EER = "EER: on the convex hull of the ROC (rocch)."
SIGNED = "Signatures, of which equal ones are comparable (sha256: the first digits of that of the whole signatures, a line each, in order)"
WITHIN, PARTIAL = "~", "†"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Given:
    """What is shown of a run.

    Attributes:
        name: what tells it from the other runs that are shown; '' where there is one.
        run: the name of its folder.
        board, differences, diagnostics, rows: its tables.
        config: its configuration, which names settings that signatures depend on.
    """

    name: str
    run: str
    board: pd.DataFrame
    differences: pd.DataFrame
    diagnostics: pd.DataFrame
    rows: pd.DataFrame
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """What stands in one place: a text, its interval or ceiling (or ''), marks (or '')."""

    text: str
    more: str = ""
    marks: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, [self.text, self.more, self.marks]))


@dataclass(frozen=True)
class Column:
    """A column: its head, whether it holds numbers, and what shows of a row."""

    head: str
    is_number: bool
    cell: Callable[[Row], Cell]


@dataclass(frozen=True)
class Board:
    """The table of one subset.

    Attributes:
        subset: its name.
        said: the sentences that answer; one a run.
        heads, numbers: heads, and which columns hold numbers.
        body: a row a system (and run).
        notes: what a reader needs to know to read it, one sentence each.
    """

    subset: str
    said: tuple[str, ...]
    heads: tuple[str, ...]
    numbers: tuple[bool, ...]
    body: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]


def boards(given: Sequence[Given], only: Sequence[str] = ()) -> list[Board]:
    """The tables, the subset to read first at the front.

    Args:
        given: runs with a leaderboard, named where there are several.
        only: the subsets that are wanted; none stands for all.
    """
    together = pd.concat([one.board for one in given], ignore_index=True) if given else pd.DataFrame()
    if not len(together):
        return []
    wanted = [name for name in leaderboard.subsets(together) if not only or name in only]
    return [_board(given, subset) for subset in wanted]


def _board(given: Sequence[Given], subset: str) -> Board:
    here = [(one, row) for one in given for row in results.records(one.board) if row["subset"] == subset]
    rows = [{**row, "run": one.name} for one, row in here]
    columns = [
        column for column in _columns(rows) if any(column.cell(row).text not in ("", tables.DASH) for row in rows)
    ]
    return Board(
        subset,
        tuple(_said(one, subset, len(given) > 1) for one in given if (one.board["subset"] == subset).any()),
        tuple(column.head for column in columns),
        tuple(column.is_number for column in columns),
        tuple(tuple(column.cell(row) for column in columns) for row in rows),
        (*_notes(rows), *_runs(given), *_signed(here)),
    )


def _said(one: Given, subset: str, several: bool) -> str:
    said = leaderboard.sentence(one.board, one.differences, subset, one.diagnostics) or f"On {subset}: {NO_SYSTEM}"
    return f"{one.name}: {said}" if several else said


# -------------------------------------------------------------------------------------------------------------- columns


def _columns(rows: Sequence[Row]) -> list[Column]:
    """All columns, those without any value among them."""
    columns = [Column("rank", True, lambda row: Cell(_rank(row))), Column("system", False, _text("system"))]
    if any(row["run"] for row in rows):
        columns.append(Column("run", False, _text("run")))
    columns += [
        Column("strongest attack (of so many)", False, _attack),
        Column(_head("d_ece"), True, lambda row: _valued(row, "d_ece", _marks(row))),
        Column(_head("eer"), True, lambda row: _valued(row, "eer", _partial(row))),
        Column(f"{_head('l_w')} (ceiling)", True, _with_ceiling),
        Column("tag", False, _text("tag")),
        Column(f"{_head('alid')} (chance)" if _chance(rows) else _head("alid"), True, _alid),
        *(Column(_head(name), True, _taken(name)) for name in TAKEN if name != "alid"),
    ]
    return columns


def _text(name: str) -> Callable[[Row], Cell]:
    return lambda row: Cell(str(row[name]) or tables.DASH)


def _taken(name: str) -> Callable[[Row], Cell]:
    return lambda row: _valued(row, name, "")


def _head(metric: str) -> str:
    """The symbol of a metric, its unit, and in which direction it is more private."""
    said = glossary.metric(metric)
    unit = glossary.unit(said.unit)
    return " ".join(filter(None, [said.symbol, f"({unit})" if unit else "", tables.arrow(said.private)]))


def _rank(row: Row) -> str:
    return tables.DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def _attack(row: Row) -> Cell:
    if math.isnan(row["d_ece"]):
        return Cell(tables.DASH)
    return Cell(leaderboard.attack(row), f"({int(row['n_attacks'])})")


def _valued(row: Row, name: str, marks: str) -> Cell:
    unit = glossary.metric(name).unit
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if math.isnan(value):
        return Cell(tables.DASH)
    interval = "" if math.isnan(low) else f"[{tables.number(low, unit)}, {tables.number(high, unit)}]"
    return Cell(tables.number(value, unit), interval, marks)


def _with_ceiling(row: Row) -> Cell:
    text = tables.number(row["l_w"], "log10")
    most = row["l_w_ceiling"]
    return Cell(text, "" if math.isnan(row["l_w"]) or math.isnan(most) else f"({tables.number(most, 'log10')})")


def _alid(row: Row) -> Cell:
    found, chance = _valued(row, "alid", ""), _chance([row])
    return Cell(found.text, " ".join(filter(None, [found.more, chance]))) if chance else found


def _chance(rows: Sequence[Row]) -> str:
    """The value of ALID by chance, in brackets, of the first row that has it."""
    known = [row["alid_chance"] for row in rows if not math.isnan(row["alid_chance"])]
    return f"({tables.number(known[0], 'bit')})" if known else ""


def _marks(row: Row) -> str:
    return " ".join(filter(None, [WITHIN if row["chance"] == "within" else "", _partial(row)]))


def _partial(row: Row) -> str:
    return PARTIAL if row["status"] == "partial" else ""


# ---------------------------------------------------------------------------------------------------------------- notes


def _runs(given: Sequence[Given]) -> list[str]:
    """Which runs are shown, where there are several."""
    if len(given) < 2:
        return []
    which = "; ".join(f"{one.name} is {one.run}" for one in given)
    return [
        f"Runs: {which}. Ranks are within a run: systems of different runs were not tested against each other here."
    ]


def _notes(rows: Sequence[Row]) -> list[str]:
    """What the marks and brackets mean, and what is not there, with why."""
    ranked = any(not pd.isna(row["rank"]) for row in rows)
    said = [*([RANK] if ranked else []), EER, "In square brackets: 95 % interval over speakers."]
    said.append("↑ higher is more private, ↓ lower is more private.")
    if any(not math.isnan(row["l_w_ceiling"]) for row in rows):
        sets = ", of a mean over sets the worst of them" if any(row["n_sets"] > 1 for row in rows) else ""
        said.append(f"l_w: in brackets the largest value that so many trials can show{sets}.")
    if _chance(rows):
        said.append("ALID: in round brackets its value by chance.")
    if any(row["chance"] == "within" for row in rows):
        said.append(f"{WITHIN} {leaderboard.NOTHING}.")
    if any(row["status"] == "partial" for row in rows):
        said.append(f"{PARTIAL} does not stand on everything that was expected: do not compare.")
    said += _absent(rows)
    others = {name: _others(rows, name) for name in TAKEN}
    for texts in dict.fromkeys(tuple(one) for one in others.values() if one):
        names = joined(glossary.metric(name).symbol for name, one in others.items() if tuple(one) == texts)
        said.append(f"{names} by another extractor than the attack's: {'; '.join(texts)}.")
    return said


def _absent(rows: Sequence[Row]) -> list[str]:
    """What has no number or was not tried, and why."""
    named = [(f"{row['run']} {row['system']}".strip(), row) for row in rows]
    untried = [f"{name}: {row['untried']}" for name, row in named if row["untried"]]
    nothing = [
        f"{name}: {str(row['reason']).rstrip('.') or 'no attack'}" for name, row in named if math.isnan(row["d_ece"])
    ]
    without = [
        f"{name}: {str(row['interval_reason']).rstrip('.')}"
        for name, row in named
        if not math.isnan(row["d_ece"]) and row["interval_reason"]
    ]
    said = []
    if nothing:
        said.append(f"{tables.DASH} no number of {'; '.join(nothing)}.")
    if untried:
        said.append(f"Not tried: {'; '.join(untried)}.")
    if without:
        said.append(f"No interval of {'; '.join(without)}.")
    return said


def _others(rows: Sequence[Row], name: str) -> list[str]:
    """The systems whose number of a metric is not of the extractor of their attack."""
    return [
        f"{row['system']}: {row[f'{name}_by']}"
        for row in rows
        if row[f"{name}_by"] and str(row[f"{name}_by"]).split(", ")[0] != row["extractor"]
    ]


def _signed(here: Sequence[tuple[Given, Row]]) -> list[str]:
    """The short signatures of all numbers. Those that differ in the metric alone are one, with the fingerprint of them all."""
    runs = {one.name: one for one, _ in here}
    rows = pd.concat([_behind(one, [row for of, row in here if of is one]) for one in runs.values()])
    alike: dict[str, list[tuple[str, str]]] = {}
    configs = {str(name): one.config for one in runs.values() for name in one.rows["run_id"].unique()}
    for signature, form in signatures.of_rows(rows, configs).items():
        metric, _, rest = form.partition("|")
        alike.setdefault(rest, []).append((metric, signature))
    said = [
        f"{', '.join(dict.fromkeys(metric for metric, _ in several))}|{rest} "
        f"(sha256 {signatures.fingerprint(chr(10).join(sorted(signature for _, signature in several)))})"
        for rest, several in alike.items()
    ]
    notes = [f"{SIGNED}: {'; '.join(said)}."] if said else []
    shown = {name for name in ("d_ece", "eer", "l_w", *TAKEN) if any(not math.isnan(row[name]) for _, row in here)}
    without = [glossary.metric(name).symbol for name in glossary.metrics() if name in shown - set(rows["metric"])]
    if notes and without:
        notes.append(f"{joined(without)}: from rows of each set, with the signatures that they have there.")
    return notes


def _behind(one: Given, rows: Sequence[Row]) -> pd.DataFrame:
    """The rows of results that hold the numbers of rows of a leaderboard."""
    kept = pd.Series(False, index=one.rows.index)
    for row in rows:
        here = one.rows["system"] == row["system"]
        attacked = here & (one.rows["subset"] == row["subset"])
        for name in ATTACK:
            attacked &= one.rows[name] == row[name]
        of_attack = one.rows["metric"].isin(["d_ece", "l_w", "tag"]) | (
            (one.rows["metric"] == "eer") & (one.rows["variant"] == "rocch")
        )
        kept |= attacked & of_attack
        for name in TAKEN:
            if not math.isnan(row[name]):
                kept |= here & (one.rows["metric"] == name) & (one.rows["value"] == row[name])
    return one.rows[kept]


# -------------------------------------------------------------------------------------------------------------- writing


def to_markdown(shown: Iterable[Board]) -> str:
    """The tables as Markdown; '' where there are none."""
    return "".join(_markdown(one) for one in shown)


def _markdown(board: Board) -> str:
    lines = [f"**{tables.markdown(f'{TITLE}: {board.subset}')}**", ""]
    for said in board.said:
        lines += [tables.markdown(said), ""]
    rule = ["---:" if number else "---" for number in board.numbers]
    for texts in (map(tables.markdown, board.heads), rule, *(map(_pipe, line) for line in board.body)):
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join([*lines, "", " ".join(map(tables.markdown, board.notes)), "", ""])


def _pipe(cell: Cell) -> str:
    return tables.markdown(str(cell))


def to_latex(shown: Iterable[Board]) -> str:
    """The tables as LaTeX (needs ``booktabs``), a ``table*`` each; intervals stand below their numbers."""
    return "\n".join(_latex(one) for one in shown)


def _latex(board: Board) -> str:
    columns = "".join("r" if number else "l" for number in board.numbers)
    lines = [
        r"\begin{table*}",
        r"\centering",
        rf"\caption{{{' '.join(map(tables.latex, board.said))}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(_stacked(head, number) for head, number in zip(board.heads, board.numbers)) + r" \\",
        r"\midrule",
    ]
    for cells in board.body:
        lines.append(" & ".join(_in_latex(cell, number) for cell, number in zip(cells, board.numbers)) + r" \\")
    # A signature has no blanks at which a line could end.
    notes = " ".join(map(tables.latex, board.notes)).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    return "\n".join(
        [
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\smallskip",
            rf"\begin{{minipage}}{{\linewidth}}\scriptsize\sloppy {notes}\end{{minipage}}",
            r"\end{table*}",
            "",
        ]
    )


def _stacked(head: str, number: bool) -> str:
    """A head with what stands in brackets below it."""
    symbol, _, rest = head.partition(" (")
    text = tables.latex_head(symbol)
    return _shortstack([text, tables.latex(f"({rest}")], number) if rest else text


def _in_latex(cell: Cell, number: bool) -> str:
    text = tables.latex(" ".join(filter(None, [cell.text, cell.marks])))
    if number:
        return _shortstack([text, rf"\scriptsize {tables.latex(cell.more)}"], number) if cell.more else text
    who, colon, how = text.partition(": ")
    if not colon:
        return text
    return _shortstack([f"{who}:", rf"\scriptsize {how} {tables.latex(cell.more)}".rstrip()], number)


def _shortstack(lines: Sequence[str], number: bool) -> str:
    # The braces keep a bracket at the start of a line from being read as the argument of the line end before it.
    stacked = r" \\ ".join(f"{{{line}}}" for line in lines)
    return rf"\shortstack[{'r' if number else 'l'}]{{{stacked}}}"
