"""Result rows as tables for people: numbers set by unit, and the compact summary as plain text, Markdown and LaTeX.

A summary is a pivot of the rows: what tells rows apart goes to the left, metrics go across. Nothing is computed here.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report import glossary
from pipeline.report.words import NOTHING
from pipeline.tables import results
from pipeline.tables.run_files import LIMITS_TITLE

DASH = "–"
WITHIN = "within chance"
NOTED = "‡"
RELATIVE = "Protected against unprotected speech, on trial lists"
LABELS = {
    "run_id": "run",
    "subset": "subset",
    "condition": "condition",
    "system": "system",
    "system_level": "level",
    "attacker": "attacker",
    "extractor": "extractor",
    "trained_on": "trained on",
    "backend": "back end",
    "calibration": "calibration",
    "dataset": "data set",
    "estimate": "variant",
    "defined": "variant",
}
ALWAYS = ("subset", "system", "extractor")
"""Identity columns that a table shows even where all its rows agree."""

LEFT = (
    "run_id",
    "dataset",
    "subset",
    "system",
    "system_level",
    "condition",
    "attacker",
    "extractor",
    "trained_on",
    "backend",
    "calibration",
)
"""What a row is about."""
_DEFINED = (*LEFT, "defined")
DEFINED_BY = ("variant", "estimator", "input_unit")
"""What tells numbers of one metric apart on the same data."""


@dataclass(frozen=True)
class Cell:
    """One value as text, its interval (or ''), whether it lies within its null band, whether its row is not complete, and
    the mark of a note on it (or '')."""

    text: str
    interval: str = ""
    chance: bool = False
    partial: bool = False
    note: str = ""

    def shown(self, chance: str = "~", partial: str = "†") -> str:
        """The text with its marks."""
        marks = [chance if self.chance else "", partial if self.partial else "", self.note]
        return " ".join(filter(None, [self.text, *marks]))


@dataclass(frozen=True)
class Summary:
    """A compact table: ``left`` names the identity columns, ``metrics`` the (metric, variant) columns with their heads.

    ``reasons`` are those of missing values; ``notes`` are (mark, text) of what is to be known of values that exist.
    """

    title: str
    left: list[str]
    heads: list[str]
    metrics: list[tuple[str, str]]
    body: list[tuple[list[str], list[Cell]]]
    common: list[tuple[str, str]]
    reasons: list[str]
    notes: list[tuple[str, str]]

    @property
    def any_chance(self) -> bool:
        return any(cell.chance for _, cells in self.body for cell in cells)

    @property
    def any_interval(self) -> bool:
        return any(cell.interval for _, cells in self.body for cell in cells)


def number(value: float, unit: str, *, with_unit: bool = False) -> str:
    """A value as people read it: fractions as percentages, infinities and minus signs as such, a dash for no value.

    Args:
        value: inside the pipeline (fractions in 0 to 1).
        unit: of the row: ``fraction``, ``bit``, ``log10``, ``dB``, …
        with_unit: append the unit (no-break space before it).
    """
    if value is None or pd.isna(value):
        return DASH
    shown = 100 * value if unit == "fraction" else value
    digits = {"fraction": 2, "dB": 2, "bit": 3, "log10": 3}.get(unit)
    if math.isinf(shown):
        text = "∞" if shown > 0 else "-∞"
    elif digits is None:
        text = f"{shown:.4g}"
    elif shown != 0 and abs(shown) < 0.5 * 10**-digits:
        text = f"{shown:.0e}"
    else:
        text = f"{shown:.{digits}f}"
        if float(text) == 0:
            text = text.lstrip("-")
    text = text.replace("-", "\N{MINUS SIGN}")
    suffix = glossary.unit(unit) if with_unit else ""
    return f"{text}\N{NO-BREAK SPACE}{suffix}" if suffix else text


def arrow(direction: str) -> str:
    """↑ where higher is more private, ↓ where lower is."""
    return "↑" if direction.startswith("higher") else "↓" if direction.startswith("lower") else ""


def presented(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as they are shown, with added columns.

    ``estimate`` is estimator and unit of input in words, ``defined`` the same after the variant. ``chance`` is '' without a null
    band, else ``within chance``, ``below the band`` or ``above the band``. ``said`` is why there is no value, or what the reader
    of a value has to know.
    """
    places = [_place(*numbers) for numbers in zip(rows["value"], rows["null_low"], rows["null_high"])]
    return rows.reset_index(drop=True).assign(
        estimate=words(rows, ["estimator", "input_unit"]),
        defined=words(rows, DEFINED_BY),
        chance=places,
        said=[str(reason) or str(note) for reason, note in zip(rows["reason"], rows["note"])],
    )


def words(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """What stands in some columns, in one text a row."""
    return [", ".join(filter(None, map(str, parts))) for parts in zip(*(rows[column] for column in columns))]


def _place(value: float, low: float, high: float) -> str:
    if np.isnan([value, low, high]).any():
        return ""
    return WITHIN if low <= value <= high else "below the band" if value < low else "above the band"


def varying(rows: pd.DataFrame, columns: Sequence[str] = _DEFINED, always: Sequence[str] = ALWAYS) -> list[str]:
    """The identity columns that a table of these rows has to show: those that differ, and ``always`` if not empty."""
    return [
        column for column in columns if rows[column].nunique() > 1 or (column in always and (rows[column] != "").any())
    ]


def constant(rows: pd.DataFrame, shown: Sequence[str]) -> list[tuple[str, str]]:
    """Label and value of the identity columns (but the run) that are the same in all rows and not shown."""
    return [
        (LABELS[column], str(rows[column].iloc[0]))
        for column in _DEFINED
        if column not in {*shown, "run_id"} and len(rows) and rows[column].nunique() == 1 and rows[column].iloc[0] != ""
    ]


def ordered(rows: pd.DataFrame, systems: Sequence[str] = ()) -> pd.DataFrame:
    """Rows by data set, subset, extractor, then system in the order given, condition, attacker and the rest.

    The original speech comes first where the order does not name it: it is evaluated whether it is asked for or not.
    """
    place = {"original": ""} | {system: f"{index:06d}" for index, system in enumerate(systems)}
    key = rows.assign(system=[place.get(str(system), str(system)) for system in rows["system"]])
    by = [
        "dataset",
        "subset",
        "extractor",
        "backend",
        "calibration",
        "system",
        "condition",
        "attacker",
        "variant",
        "estimator",
        "input_unit",
        "trained_on",
        "system_level",
        "run_id",
    ]
    return rows.loc[key.sort_values(by, kind="stable").index].reset_index(drop=True)


def cell(row: Mapping[Any, Any], marks: Mapping[str, str] | None = None) -> Cell:
    """The cell of a presented row: its value or label; a dash where there is none.

    Args:
        marks: the mark of each thing that is said of a row with a value.
    """
    unit = str(row["unit"])
    text = str(row["label"]) if pd.isna(row["value"]) and row["label"] else number(row["value"], unit)
    interval = (
        ""
        if pd.isna(row["low"]) or pd.isna(row["high"])
        else (f"[{number(row['low'], unit)}, {number(row['high'], unit)}]")
    )
    note = (marks or {}).get(str(row["said"]), "") if text != DASH else ""
    return Cell(text, interval, row["chance"] == WITHIN, row["status"] != "ok", note)


def summarise(rows: pd.DataFrame, systems: Sequence[str] = ()) -> list[Summary]:
    """The compact tables of the families that have rows, and one of metrics that no family declares."""
    if not len(rows):
        return []
    rows = presented(rows)
    others = sorted(set(rows["metric"]) - set(glossary.metrics()))
    groups = [*glossary.compact(), (glossary.OTHERS, others)]
    found = [(title, rows[rows["metric"].isin(names)]) for title, names in groups]
    # Of all pairs they stand with the details; who asks for them on trial lists asks for a table.
    found.append((RELATIVE, rows[[str(one).split(",")[0] == "trial_lists" for one in rows["variant"]]]))
    return [_summary(title, part, systems) for title, part in found if len(part)]


def _summary(title: str, rows: pd.DataFrame, systems: Sequence[str]) -> Summary:
    """Variants of a metric stand side by side, estimates of the same quantities below one another."""
    rows = ordered(rows, systems)
    # In a group whose metrics use different conditions (DeID: OP, G_VD: PP) the condition cannot tell rows apart.
    apart = len({frozenset(part["condition"]) for _, part in rows.groupby("metric")}) == 1
    source = _source(rows) if apart else ""
    skip = {*(() if apart else ("condition", "attacker")), *(("trained_on",) if source else ())}
    left = varying(rows, [column for column in (*LEFT, "estimate") if column not in skip])
    if rows.duplicated([*left, "metric", "variant"]).any():
        left = varying(rows, [*LEFT, "estimate"])
    metrics = sorted(set(zip(rows["metric"], rows["variant"])), key=lambda pair: (glossary.rank(pair[0]), pair[1]))
    several = {metric for metric, _ in metrics if sum(other == metric for other, _ in metrics) > 1}
    empty = rows["value"].isna() & (rows["label"] == "")
    reasons, notes = (sorted(set(rows["said"][part]) - {""}) for part in (empty, ~empty))
    marks = {text: f"{NOTED}{index if len(notes) > 1 else ''}" for index, text in enumerate(notes, start=1)}
    lines: dict[tuple[str, ...], dict[tuple[str, str], Cell]] = {}
    for row in results.records(rows):
        names = tuple(str(row[column]) for column in left)
        lines.setdefault(names, {})[row["metric"], row["variant"]] = cell(row, marks)
    body = [(list(names), [cells.get(pair, Cell("")) for pair in metrics]) for names, cells in lines.items()]
    common = constant(rows, left)
    if source and "trained_on" not in left:
        common.append(("trained on", source))
    return Summary(
        title,
        left,
        [_head(rows[rows["metric"] == metric], variant if metric in several else "") for metric, variant in metrics],
        metrics,
        body,
        common,
        reasons,
        [(mark, text) for text, mark in marks.items()],
    )


def _head(of_metric: pd.DataFrame, variant: str) -> str:
    """The head of a column: the metric's symbol, the variant where there are several, unit and direction."""
    symbol = glossary.metric(str(of_metric["metric"].iloc[0])).symbol
    unit, direction = glossary.unit(str(of_metric["unit"].iloc[0])), arrow(str(of_metric["direction"].iloc[0]))
    return " ".join(filter(None, [symbol, variant, f"({unit})" if unit else "", direction]))


def _source(rows: pd.DataFrame) -> str:
    """What each attacker's extractor was trained on, in words; '' unless it varies and follows from the attacker."""
    told = rows[rows["trained_on"] != ""]
    by_attacker = told.groupby("attacker", sort=False)["trained_on"].agg(["nunique", "first"])
    if (by_attacker["nunique"] != 1).any() or by_attacker["first"].nunique() < 2:
        return ""
    sources: dict[str, list[str]] = {}
    for attacker, source in by_attacker["first"].items():
        sources.setdefault(str(source), []).append(str(attacker) or "no attacker")
    return ", ".join(f"{source} under {' and '.join(attackers)}" for source, attackers in sources.items())


def footnotes(summary: Summary, intervals: bool, cautions: bool = True) -> list[str]:
    """What a reader needs to know to read the table; ``cautions`` are what families say of metrics."""
    notes = []
    if summary.common:
        notes.append("For all rows: " + ", ".join(f"{label} {value}" for label, value in summary.common) + ".")
    if any(arrow_ in head for head in summary.heads for arrow_ in "↑↓"):
        notes.append("↑ higher is more private, ↓ lower is more private.")
    if summary.any_chance:
        notes.append(f"~ the value lies within its null band: {NOTHING}.")
    if cautions:
        notes += filter(None, dict.fromkeys(glossary.metric(name).caution for name, _ in summary.metrics))
    if any(cell.partial for _, cells in summary.body for cell in cells):
        notes.append("† partial: does not rest on all that was expected; do not compare.")
    if summary.reasons:
        notes.append(f"{DASH} no value: {'; '.join(summary.reasons)}.")
    notes += [f"{mark} {text.rstrip('.')}." for mark, text in summary.notes]
    if intervals and summary.any_interval:
        notes.append("In brackets: 95 % interval over speakers.")
    return notes


def to_text(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = False) -> str:
    """The compact tables as plain text, columns aligned, no line wrapped: for stdout and logs."""
    blocks = []
    for summary in summarise(rows, systems):
        grid = [[*(LABELS[column] for column in summary.left), *summary.heads]]
        grid += [[*names, *(_joined(c, intervals, "~") for c in cells)] for names, cells in summary.body]
        lines = aligned(grid[0], grid[1:], range(len(summary.left)))
        blocks.append("\n".join([summary.title, "", *lines, "", *map(_one_line, footnotes(summary, intervals))]))
    return "\n\n".join(block.rstrip() for block in blocks) + ("\n" if blocks else "")


def on_screen(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide letter of East Asia, none for a mark on the letter before it."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.category(each) in ("Mn", "Me", "Cf") for each in text)


def limits_text(limits: Sequence[str]) -> str:
    """What a reader must know first, as plain text; '' if there is nothing."""
    lines = [f"- {_one_line(one)}" for one in limits]
    return "\n".join([LIMITS_TITLE, "", *lines]) + "\n\n" if lines else ""


def limits_markdown(limits: Sequence[str]) -> str:
    """What a reader must know first, as Markdown; '' if there is nothing."""
    lines = [f"- {markdown(one)}" for one in limits]
    return "\n".join([f"**{LIMITS_TITLE}**", "", *lines]) + "\n\n" if lines else ""


def limits_latex(limits: Sequence[str]) -> str:
    """What a reader must know first, as LaTeX; '' if there is nothing."""
    lines = [rf"\item {latex(one)}" for one in limits]
    if not lines:
        return ""
    return "\n".join([rf"\paragraph{{{latex(LIMITS_TITLE)}}}", r"\begin{itemize}", *lines, r"\end{itemize}", "", ""])


def aligned(heads: list[str], body: list[list[str]], left: Collection[int]) -> list[str]:
    """Lines of a table with columns aligned, some of them to the left; no line is wrapped."""
    grid = [[_one_line(text) for text in line] for line in (heads, *body)]
    widths = [max(on_screen(line[column]) for line in grid) for column in range(len(grid[0]))]
    lines = [
        "  ".join(
            # What a terminal shows in two columns, or in none, is filled up by columns, not by characters.
            text.ljust(width - on_screen(text) + len(text))
            if column in left
            else text.rjust(width - on_screen(text) + len(text))
            for column, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in grid
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def to_markdown(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as Markdown (pipe tables), as the README and issues show them."""
    return _export(rows, systems, intervals, _markdown_table)


def to_latex(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as LaTeX (needs ``booktabs``), one ``table`` environment each."""
    return _export(rows, systems, intervals, _latex_table)


def _export(rows: pd.DataFrame, systems: Sequence[str], intervals: bool, one: Callable[[Summary, bool], str]) -> str:
    return "\n".join(one(summary, intervals) for summary in summarise(rows, systems))


def _joined(value: Cell, intervals: bool, mark: str) -> str:
    text = value.shown(mark)
    return f"{text} {value.interval}" if intervals and value.interval else text


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _markdown_table(summary: Summary, intervals: bool) -> str:
    heads = [*(LABELS[column] for column in summary.left), *(markdown(head) for head in summary.heads)]
    lines = [f"**{summary.title}**", "", "| " + " | ".join(heads) + " |"]
    lines.append("| " + " | ".join(["---"] * len(summary.left) + ["---:"] * len(summary.heads)) + " |")
    for names, cells in summary.body:
        texts = [*(markdown(name) for name in names), *(_joined(c, intervals, r"\~") for c in cells)]
        lines.append("| " + " | ".join(texts) + " |")
    notes = [markdown(note) for note in footnotes(summary, intervals)]
    return "\n".join([*lines, "", " ".join(notes), ""])


def markdown(text: str) -> str:
    """A text with what Markdown would take for marks escaped."""
    return "".join(
        f"\\{c}" if c in "\\`*_[]|~$" else {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(c, c) for c in _one_line(text)
    )


def _latex_table(summary: Summary, intervals: bool) -> str:
    heads = [*(LABELS[column] for column in summary.left), *map(latex_head, summary.heads)]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(summary.title)}. " + " ".join(latex(note) for note in footnotes(summary, intervals)) + "}",
        rf"\begin{{tabular}}{{{'l' * len(summary.left)}{'r' * len(summary.heads)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for names, cells in summary.body:
        texts = [*(latex(name) for name in names), *(latex(_joined(c, intervals, "~")) for c in cells)]
        # A line that begins with a bracket would be read as the optional argument of the line end before it.
        lines.append("{}" * texts[0].startswith("[") + " & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def latex_table(
    title: str, notes: Sequence[str], heads: Sequence[str], body: Sequence[Sequence[str]], numbers: Collection[int]
) -> str:
    """A table of text as LaTeX (``booktabs``), the columns in ``numbers`` to the right."""
    columns = "".join("r" if place in numbers else "l" for place in range(len(heads)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(title)}. {' '.join(map(latex, notes))}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(latex, heads)) + r" \\",
        r"\midrule",
        *("{}" * line[0].startswith("[") + " & ".join(map(latex, line)) + r" \\" for line in body),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def latex_head(head: str) -> str:
    """The head of a column as LaTeX: a symbol with a subscript as mathematics."""
    symbol, *rest = head.split(" ", 1)
    base, _, subscript = symbol.partition("_")
    if subscript and base.isalpha():
        body = base if len(base) == 1 else rf"\mathrm{{{base}}}"
        symbol = rf"${body}_{{\mathrm{{{latex(subscript)}}}}}$"
    else:
        symbol = latex(symbol)
    return " ".join([symbol, *map(latex, rest)])


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "\N{MINUS SIGN}": "$-$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "\N{NO-BREAK SPACE}": "~",
    "·": r"\textperiodcentered{}",
    "[": "{[}",
    "]": "{]}",
}


def latex(text: str) -> str:
    """A text with what LaTeX would take for commands escaped."""
    parts = _one_line(text).split("\N{MINUS SIGN}∞")
    return r"$-\infty$".join("".join(_LATEX.get(character, character) for character in part) for part in parts)
