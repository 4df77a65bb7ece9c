"""A table, and how it is written: for a terminal, as Markdown and as LaTeX; as HTML by the macro ``grid`` of ``templates/macros.html.j2``.

Whoever shows a table makes a :class:`Table` of texts. What can be printed nowhere (control characters of ids) is a blank in all of them.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

Kind = Literal["text", "number", "value", "chance", "sentence", "note", "signature"]
WIDEST = 10**6
"""Columns of a terminal that cut nothing."""
ELLIPSIS = "…"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name, unit, arrow: the head: what it shows, in which unit, and which direction is more private.
        kind: how cells are set: ``number`` and ``value`` (the number that the row is about) to the right; a ``sentence`` or ``note`` may
            take several lines; a ``signature`` leads to the page's list of signatures; ``chance`` is a place beside a null band.
        once: how its content is called where it is the same in all rows and is said once, below the table; '' if it stays.
    """

    name: str
    kind: Kind = "text"
    unit: str = ""
    arrow: str = ""
    once: str = ""

    @property
    def head(self) -> str:
        return " ".join(filter(None, [self.name, self.unit and f"({self.unit})", self.arrow]))

    @property
    def numeric(self) -> bool:
        return self.kind in ("number", "value")


@dataclass(frozen=True)
class Cell:
    """A text or number; ``interval`` (or a scale) and ``marks`` follow it."""

    text: str
    interval: str = ""
    marks: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, [self.text, self.interval, self.marks]))


Line = Sequence[str | Cell]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        columns: its columns.
        body: a row a line, a cell a column.
        title: what stands above it.
        notes: what a reader needs to know to read it.
        marked: the rows that stand out.
        left: so many columns say what a row is about.
    """

    columns: Sequence[Column]
    body: Sequence[Line]
    title: str = ""
    notes: Sequence[str] = ()
    marked: frozenset[int] = field(default=frozenset())
    left: int = 0

    @property
    def note(self) -> str:
        """All notes in one text."""
        return " ".join(self.notes)

    @property
    def texts(self) -> list[list[str]]:
        """The cells as one text each."""
        return [[str(cell) for cell in row] for row in self.body]

    def without_empty_columns(self, empty: Sequence[str] = ("", "–")) -> Table:
        """The table with the columns alone that show something in some row."""
        shown = [place for place, _ in enumerate(self.columns) if any(row[place] not in empty for row in self.texts)]
        body = [[row[place] for place in shown] for row in self.body]
        left = sum(place < self.left for place in shown)
        return replace(self, columns=[self.columns[place] for place in shown], body=body, left=left)


def make_printable(text: str) -> str:
    """A text on one line, with blanks for what cannot be printed."""
    return "".join(character if character.isprintable() else " " for character in text)


# ------------------------------------------------------------------------------------------------------------ terminal


def format_lines(table: Table, width: int = WIDEST) -> list[str]:
    """Head, rule and rows for a terminal, columns aligned; a line that is longer than ``width`` ends with an ellipsis."""
    lines = [[column.head for column in table.columns], *table.texts]
    lines = [[make_printable(text) for text in line] for line in lines]
    widths = [max(map(cell_len, texts)) for texts in zip(*lines)]
    lines.insert(1, ["-" * columns for columns in widths])
    return [shorten("  ".join(map(_align, line, widths, table.columns)).rstrip(), width) for line in lines]


def _align(text: str, width: int, column: Column) -> str:
    return " " * (width - cell_len(text)) + text if column.numeric else set_cell_size(text, width)


def fit_columns(table: Table, width: int, fewest: int) -> tuple[Table, list[str]]:
    """The table without its last columns, as far as the width demands and ``fewest`` columns stay; and the heads of those left out."""
    columns, body = list(table.columns), [list(row) for row in table.body]
    left_out: list[str] = []
    while len(columns) > fewest and cell_len(format_lines(Table(columns, body))[1]) > width:
        left_out.insert(0, columns.pop().head)
        body = [row[:-1] for row in body]
    return replace(table, columns=columns, body=body), left_out


def to_text(table: Table, width: int = WIDEST) -> str:
    """The table with its title and notes, a line each, as plain text; '' where it has no row."""
    if not table.body:
        return ""
    title = [table.title, ""] if table.title else []
    notes = ["", *map(make_printable, table.notes)] if table.notes else []
    return "\n".join([*title, *format_lines(table, width), *notes]) + "\n"


def list_text(title: str, items: Sequence[str]) -> str:
    """A list under a title as plain text; '' where there is nothing in it."""
    return "\n".join([title, "", *(f"- {make_printable(item)}" for item in items)]) + "\n\n" if items else ""


def shorten(text: str, width: int) -> str:
    """A text as it fits so many columns of a terminal, with an ellipsis where some is left out."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}{ELLIPSIS}"


def shorten_middle(text: str, width: int) -> str:
    """As :func:`shorten`, but what is left out is in the middle: names differ at either end."""
    if cell_len(text) <= width:
        return text
    end = set_cell_size(text[::-1], width // 2).rstrip()[::-1]
    return f"{set_cell_size(text, width - 1 - cell_len(end)).rstrip()}{ELLIPSIS}{end}"


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Names as they fit so many columns, so that those that differ still do: without their ends, else without their middles, else
    with numbers in their places."""
    names = [make_printable(name) for name in names]
    for shorter in (shorten, shorten_middle):
        short = [shorter(name, width) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(names), start=1)}
    return [f"{set_cell_size(name, width - 1 - len(numbers[name]))}{ELLIPSIS}{numbers[name]}" for name in names]


def wrap(text: str, width: int, *, first: str = "", then: str = "", most: int = WIDEST) -> list[str]:
    """A text in lines, broken between words, and within one that is longer than a line.

    Args:
        text: on how many lines whatever.
        width: columns of a line, its beginning included.
        first, then: how the first line and the others begin; both take as many columns.
        most: lines; of a longer text the last of them ends with an ellipsis.
    """
    columns = width - cell_len(first)
    words = " ".join(make_printable(text).split())
    lines = [line.plain.rstrip() for line in Text(words).wrap(_console(), columns)]
    lines = list(filter(None, lines))
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{set_cell_size(lines[most - 1], columns - 2).rstrip()} {ELLIPSIS}"]
    return [f"{then if number else first}{line}" for number, line in enumerate(lines)]


@functools.cache
def _console() -> Console:
    return Console(file=io.StringIO(), color_system=None)


# ------------------------------------------------------------------------------------------------------------ Markdown


def to_markdown(table: Table) -> str:
    """The table as Markdown (a pipe table) with its title and notes; '' where it has no row."""
    if not table.body:
        return ""
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    heads = [escape_markdown(column.head) for column in table.columns]
    lines = [heads, rule, *([escape_markdown(text) for text in row] for row in table.texts)]
    title = f"**{escape_markdown(table.title)}**\n\n" if table.title else ""
    notes = f"\n{' '.join(map(escape_markdown, table.notes))}\n" if table.notes else ""
    return title + "".join(f"| {' | '.join(line)} |\n" for line in lines) + notes


def list_markdown(title: str, items: Sequence[str]) -> str:
    """A list under a title as Markdown; '' where there is nothing in it."""
    lines = [f"- {escape_markdown(item)}" for item in items]
    return "\n".join([f"**{escape_markdown(title)}**", "", *lines]) + "\n\n" if items else ""


def escape_markdown(text: str) -> str:
    """A text with what Markdown would take for marks escaped."""
    return make_printable(text).translate(_MARKDOWN)


_MARKDOWN = str.maketrans({**{mark: f"\\{mark}" for mark in "\\`*_[]|~$"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"})


# --------------------------------------------------------------------------------------------------------------- LaTeX


def to_latex(*tables: Table, caption: str = "", notes: Sequence[str] = (), wide: bool = False) -> str:
    """Tables in one float (needs ``booktabs``), with the title and the notes of the first unless others are given.

    Args:
        tables: one below the other; those without rows are left out.
        caption, notes: what stands above and below all of them.
        wide: over both columns of a page, with intervals below their numbers.
    """
    tables = tuple(table for table in tables if table.body)
    if not tables:
        return ""
    environment = "table*" if wide else "table"
    caption, notes = caption or tables[0].title, notes or tables[0].notes
    # A signature has no blanks at which a line could end.
    below = " ".join(map(escape_latex, notes)).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    return "\n".join(
        [
            rf"\begin{{{environment}}}",
            r"\centering",
            rf"\caption{{{escape_latex(caption)}}}",
            *([r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if wide else []),
            "\\par\\smallskip\n".join(
                _style(table, wide).to_latex(hrules=True, column_format=_columns(table)) for table in tables
            ).rstrip(),
            *(
                [r"\par\smallskip", rf"\begin{{minipage}}{{\linewidth}}\scriptsize\sloppy {below}\end{{minipage}}"]
                if below
                else []
            ),
            rf"\end{{{environment}}}",
            "",
        ]
    )


def to_long_latex(table: Table) -> str:
    """A table of any length as LaTeX (needs ``booktabs`` and ``longtable``); its title and notes are the caption."""
    if not table.body:
        return ""
    caption = escape_latex(" ".join(filter(None, [table.title, *table.notes])))
    text: str = _style(table, False).to_latex(
        hrules=True, column_format=_columns(table), caption=caption, environment="longtable"
    )
    return text


def _columns(table: Table) -> str:
    return "".join("r" if column.numeric else "l" for column in table.columns)


def _style(table: Table, stacked: bool) -> Styler:
    """The table as pandas writes it; ``stacked`` sets intervals and units below what they belong to."""
    import pandas as pd

    heads = [_head_in_latex(column, stacked) for column in table.columns]
    cells = [[_cell_in_latex(cell, column, stacked) for cell, column in zip(row, table.columns)] for row in table.body]
    return pd.DataFrame(cells).style.format_index(lambda place: heads[int(str(place))], axis=1).hide(axis="index")


def _cell_in_latex(cell: str | Cell, column: Column, stacked: bool) -> str:
    if stacked and isinstance(cell, Cell) and cell.interval:
        text = escape_latex(" ".join(filter(None, [cell.text, cell.marks])))
        return _stack(text, rf"\scriptsize {escape_latex(cell.interval)}", column)
    return escape_latex(str(cell))


def _head_in_latex(column: Column, stacked: bool) -> str:
    """A head; a symbol with a subscript (``D_ECE``) as mathematics."""
    symbol, _, words = column.name.partition(" ")
    base, _, subscript = symbol.partition("_")
    text = escape_latex(symbol)
    if subscript and base.isalpha():
        body = base if len(base) == 1 else rf"\mathrm{{{base}}}"
        text = rf"${body}_{{\mathrm{{{escape_latex(subscript)}}}}}$"
    name = " ".join(filter(None, [text, escape_latex(words)]))
    unit = " ".join(filter(None, [column.unit and f"({escape_latex(column.unit)})", escape_latex(column.arrow)]))
    return _stack(name, unit, column) if stacked and unit else " ".join(filter(None, [name, unit]))


def _stack(text: str, below: str, column: Column) -> str:
    # The braces keep a bracket at the start of a line from being read as the argument of the line end before it.
    return rf"\shortstack[{'r' if column.numeric else 'l'}]{{{{{text}}} \\ {{{below}}}}}"


def list_latex(title: str, items: Sequence[str]) -> str:
    """A list under a title as LaTeX; '' where there is nothing in it."""
    lines = [rf"\item {escape_latex(item)}" for item in items]
    head = [rf"\paragraph{{{escape_latex(title)}}}", r"\begin{itemize}"]
    return "\n".join([*head, *lines, r"\end{itemize}", "", ""]) if items else ""


def escape_latex(text: str) -> str:
    """A text with what LaTeX would take for commands escaped, and what its fonts lack as commands."""
    return make_printable(text).translate(_LATEX)


# A bracket or a star at the start of a row would be read as belonging to the line end before it.
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "±": r"$\pm$", "∞": r"$\infty$",
    "\N{MINUS SIGN}": "$-$", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "→": r"$\rightarrow$", "↑": r"$\uparrow$",
    "↓": r"$\downarrow$", "–": "--", "\N{NO-BREAK SPACE}": "~", "·": r"\textperiodcentered{}",
})  # fmt: skip
