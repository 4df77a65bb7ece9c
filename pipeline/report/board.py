"""The leaderboard for papers, as Markdown and as LaTeX, of one run or of several.

A table a subset: one row a system, best first, EER and D_ECE with their intervals; the sentence of :mod:`pipeline.report.verdict` above it; below
it what the marks mean, a table of the other numbers, and the signatures under which all were measured. The terminal's table is in
:mod:`pipeline.report.leaderboard`, and shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.report import glossary, leaderboard, signatures, summaries, verdict
from pipeline.report.words import NOTHING, joined
from pipeline.tables.answers import ATTACK, TAKEN

TITLE = leaderboard.TITLE
NO_SYSTEM = "No system that protects was attacked, so that there is no answer."
RANK = (
    "Rank: 1 and one more for each system that is shown to disclose less (speakers swapped between two systems, p at most 0.05 after "
    "Holm's correction), whether they protect or not; systems that are not told apart share it."
)
EER = "EER: the lowest of all attacks, on the convex hull of the ROC (rocch)."
D_ECE = "D_ECE: the highest of all attacks, corrected for what the highest of several is too high by chance."
SIGNED = "Signatures, of which equal ones are comparable (sha256: the first digits of that of the whole signatures, a line each, in order)"
WITHIN, PARTIAL = "~", "†"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ShownRun:
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
class Grid:
    """A table.

    Attributes:
        heads, numbers: heads, and which columns hold numbers.
        body: a row a system (and run).
    """

    heads: tuple[str, ...]
    numbers: tuple[bool, ...]
    body: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Sequence[Row]) -> Grid:
        """The columns that show something."""
        kept = [one for one in columns if any(one.cell(row).text not in ("", summaries.DASH) for row in rows)]
        body = tuple(tuple(column.cell(row) for column in kept) for row in rows)
        return cls(tuple(one.head for one in kept), tuple(one.is_number for one in kept), body)


@dataclass(frozen=True)
class Board:
    """The tables of one subset.

    Attributes:
        subset: its name.
        said: the sentences that answer; one a run.
        first: the answer.
        further: the other numbers.
        notes: what a reader needs to know to read them, one sentence each.
    """

    subset: str
    said: tuple[str, ...]
    first: Grid
    further: Grid
    notes: tuple[str, ...]


def boards(given: Sequence[ShownRun], only: Sequence[str] = ()) -> list[Board]:
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


def _board(given: Sequence[ShownRun], subset: str) -> Board:
    here = [(one, row) for one in given for row in leaderboard.rows(one.board, subset)]
    rows = [{**row, "run": one.name} for one, row in here]
    return Board(
        subset,
        tuple(_said(one, subset, len(given) > 1) for one in given if (one.board["subset"] == subset).any()),
        Grid.of(_first(rows), rows),
        Grid.of(_further(rows), [row for row in rows if not math.isnan(row["d_ece"])]),
        (*_notes(rows), *_runs(given), *_signed(here)),
    )


def _said(one: ShownRun, subset: str, several: bool) -> str:
    said = verdict.sentence(one.board, one.differences, subset, one.diagnostics) or f"On {subset}: {NO_SYSTEM}"
    return f"{one.name}: {said}" if several else said


# -------------------------------------------------------------------------------------------------------------- columns


def _first(rows: Sequence[Row]) -> list[Column]:
    """The columns of the answer, those without any value among them."""
    return [
        Column("rank", True, lambda row: Cell(_rank(row))),
        *_about(rows),
        Column("strongest attack (of so many)", False, _attack),
        *(Column(_head(one.metric), True, _cell(one, True)) for one in leaderboard.FIRST),
    ]


def _further(rows: Sequence[Row]) -> list[Column]:
    """The columns of the other numbers."""
    return [
        *_about(rows),
        *(Column(one.head, True, _cell(one, False)) for one in leaderboard.OF_STRONGEST),
        *(Column(_scaled(one), True, _cell(one, False)) for one in leaderboard.FURTHER),
    ]


def _about(rows: Sequence[Row]) -> list[Column]:
    """System, and run where there are several."""
    several = any(row["run"] for row in rows)
    return [Column("system", False, _text("system")), *([Column("run", False, _text("run"))] if several else [])]


def _text(name: str) -> Callable[[Row], Cell]:
    return lambda row: Cell(str(row[name]) or summaries.DASH)


def _cell(column: leaderboard.Column, marked: bool) -> Callable[[Row], Cell]:
    """What a column of the leaderboard shows of a row: a number with its interval, its scale and, where it is the answer, its marks."""

    def cell(row: Row) -> Cell:
        value, interval, scale = column.texts(row, summaries.number)
        shown = marked and column.unit != "" and value != summaries.DASH
        marks = (_marks(row) if column is leaderboard.D_ECE else _partial(row)) if shown else ""
        return Cell(value, " ".join(filter(None, [interval, scale])), marks)

    return cell


def _scaled(column: leaderboard.Column) -> str:
    """The head of a metric with what stands in round brackets beside it."""
    _, bracket, scale = column.head.partition(" (")
    return f"{_head(column.metric)} ({scale}" if column.most and bracket else _head(column.metric)


def _head(metric: str) -> str:
    """The symbol of a metric, its unit, and in which direction it is more private."""
    said = glossary.metric(metric)
    unit = glossary.unit(said.unit)
    return " ".join(filter(None, [said.symbol, f"({unit})" if unit else "", summaries.arrow(said.private)]))


def _rank(row: Row) -> str:
    return summaries.DASH if pd.isna(row["rank"]) else str(int(row["rank"]))


def _attack(row: Row) -> Cell:
    if math.isnan(row["d_ece"]):
        return Cell(summaries.DASH)
    return Cell(verdict.attack(row), f"({int(row['n_attacks'])})")


def _marks(row: Row) -> str:
    return " ".join(filter(None, [WITHIN if row["chance"] == "within" else "", _partial(row)]))


def _partial(row: Row) -> str:
    return PARTIAL if row["status"] == "partial" else ""


# ---------------------------------------------------------------------------------------------------------------- notes


def _runs(given: Sequence[ShownRun]) -> list[str]:
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
    said = [*([RANK] if ranked else []), EER, D_ECE, "In square brackets: 95 % interval over speakers."]
    others = dict.fromkeys(
        f"{row['system']}: {row['lowest_eer_attack']}"
        for row in rows
        if row["lowest_eer_attack"] not in ("", verdict.attack(row))
    )
    said += [f"Lowest EER by another attack: {'; '.join(others)}."] if others else []
    said.append("↑ higher is more private, ↓ lower is more private.")
    if any(not math.isnan(row["l_w_ceiling"]) for row in rows):
        sets = ", of a mean over sets the worst of them" if any(row["n_sets"] > 1 for row in rows) else ""
        said.append(f"l_w: in brackets the largest value that so many trials can show{sets}.")
    if any(not math.isnan(row["alid_ceiling"]) for row in rows if not math.isnan(row["alid"])):
        said.append("ALID: 0 where nothing is disclosed, in round brackets the most that is possible.")
    if any(row["chance"] == "within" for row in rows):
        said.append(f"{WITHIN} {NOTHING}.")
    if any(row["status"] == "partial" for row in rows):
        said.append(f"{PARTIAL} does not stand on everything that was expected: do not compare.")
    said += _absent(rows)
    elsewhere = {name: _others(rows, name) for name in TAKEN}
    for texts in dict.fromkeys(tuple(one) for one in elsewhere.values() if one):
        names = joined(glossary.metric(name).symbol for name, one in elsewhere.items() if tuple(one) == texts)
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
        said.append(f"{summaries.DASH} no number of {'; '.join(nothing)}.")
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


def _signed(here: Sequence[tuple[ShownRun, Row]]) -> list[str]:
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


def _behind(one: ShownRun, rows: Sequence[Row]) -> pd.DataFrame:
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
        lowest = (
            (one.rows["metric"] == "eer") & (one.rows["variant"] == "rocch") & (one.rows["value"] == row["lowest_eer"])
        )
        kept |= (attacked & of_attack) | (here & (one.rows["subset"] == row["subset"]) & lowest)
        for name in TAKEN:
            if not math.isnan(row[name]):
                kept |= here & (one.rows["metric"] == name) & (one.rows["value"] == row[name])
    return one.rows[kept]


# -------------------------------------------------------------------------------------------------------------- writing


def to_markdown(shown: Iterable[Board]) -> str:
    """The tables as Markdown; '' where there are none."""
    return "".join(_markdown(one) for one in shown)


def _markdown(board: Board) -> str:
    lines = [f"**{summaries.markdown(f'{TITLE}: {board.subset}')}**", ""]
    for said in board.said:
        lines += [summaries.markdown(said), ""]
    lines += _grid(board.first)
    if _says_more(board.further):
        lines += ["", "Other numbers of the systems:", "", *_grid(board.further)]
    return "\n".join([*lines, "", " ".join(map(summaries.markdown, board.notes)), "", ""])


def _says_more(grid: Grid) -> bool:
    return len(grid.body) > 0 and any(grid.numbers)


def _grid(grid: Grid) -> list[str]:
    rule = ["---:" if number else "---" for number in grid.numbers]
    texts = (map(summaries.markdown, grid.heads), rule, *(map(_pipe, line) for line in grid.body))
    return [f"| {' | '.join(one)} |" for one in texts]


def _pipe(cell: Cell) -> str:
    return summaries.markdown(str(cell))


def to_latex(shown: Iterable[Board]) -> str:
    """The tables as LaTeX (needs ``booktabs``), a ``table*`` each; intervals stand below their numbers."""
    return "\n".join(_latex(one) for one in shown)


def _latex(board: Board) -> str:
    # A signature has no blanks at which a line could end.
    notes = " ".join(map(summaries.latex, board.notes)).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            rf"\caption{{{' '.join(map(summaries.latex, board.said))}}}",
            r"\footnotesize",
            r"\setlength{\tabcolsep}{3pt}",
            *_tabular(board.first),
            *([r"\par\smallskip", *_tabular(board.further)] if _says_more(board.further) else []),
            r"\par\smallskip",
            rf"\begin{{minipage}}{{\linewidth}}\scriptsize\sloppy {notes}\end{{minipage}}",
            r"\end{table*}",
            "",
        ]
    )


def _tabular(grid: Grid) -> list[str]:
    columns = "".join("r" if number else "l" for number in grid.numbers)
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(_stacked(head, number) for head, number in zip(grid.heads, grid.numbers)) + r" \\",
        r"\midrule",
    ]
    for cells in grid.body:
        line = " & ".join(_in_latex(cell, number) for cell, number in zip(cells, grid.numbers)) + r" \\"
        # A star or a bracket at its start would be read as belonging to the line end before it.
        lines.append("{}" * line.startswith(("*", "[")) + line)
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _stacked(head: str, number: bool) -> str:
    """A head with what stands in brackets below it."""
    symbol, _, rest = head.partition(" (")
    text = summaries.latex_head(symbol)
    return _shortstack([text, summaries.latex(f"({rest}")], number) if rest else text


def _in_latex(cell: Cell, number: bool) -> str:
    text = summaries.latex(" ".join(filter(None, [cell.text, cell.marks])))
    if number:
        return _shortstack([text, rf"\scriptsize {summaries.latex(cell.more)}"], number) if cell.more else text
    who, colon, how = text.partition(": ")
    if not colon:
        return text
    return _shortstack([f"{who}:", rf"\scriptsize {how} {summaries.latex(cell.more)}".rstrip()], number)


def _shortstack(lines: Sequence[str], number: bool) -> str:
    # The braces keep a bracket at the start of a line from being read as the argument of the line end before it.
    stacked = r" \\ ".join(f"{{{line}}}" for line in lines)
    return rf"\shortstack[{'r' if number else 'l'}]{{{stacked}}}"
