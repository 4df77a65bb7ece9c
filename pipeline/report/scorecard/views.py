"""A published table as people know it, systems or attackers down, with those of the run among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.report.formats import DASH
from pipeline.report.scorecard import consistency
from pipeline.report.scorecard.card import Card, Row, Rows, stands_for
from pipeline.report.scorecard.settings import Column as ViewColumn
from pipeline.report.scorecard.settings import View
from pipeline.report.table import Column, Table
from pipeline.tables.published import Printed, decimals

OURS = "ours: "
ORIGINAL = "original"
PARTIAL = " †"


@dataclass(frozen=True)
class _Number:
    """A number of a cell of the table: what is sorted by, and what is shown."""

    value: float
    text: str
    digits: int


Numbers = dict[str, _Number]
"""By the head of the column."""


def fill_view(view: View, card: Card) -> Table:
    """A view with the published lines and ours (marked), by the column that it is sorted by; the original speech stands first."""
    cells = [
        line.cell
        for line in card.lines
        if all(line.cell.get_column(name) in words for name, words in view.where.items())
    ]
    printed: dict[str, Numbers] = {}
    for cell in cells:
        for column in view.columns:
            if column.where and _is_in(column, cell):
                printed.setdefault(cell.get_column(view.down), {}).setdefault(column.head, _read_print(cell))
    for numbers in printed.values():
        _add_means(view, numbers)
    lines = [(_name_common(name, card), False, numbers) for name, numbers in printed.items()]
    if view.down == "system":
        measured = _measure_systems(view, cells, card)
        lines += [(_label_system(system, printed, card), True, numbers) for system, numbers in measured.items()]
    else:
        lines += [(f"{OURS}{attack}", True, numbers) for attack, numbers in _measure_attacks(view, cells, card).items()]
    lines.sort(key=lambda line: _order(line, view))
    heads = [column.head for column in view.columns]
    body = [[name, *(numbers[head].text if head in numbers else DASH for head in heads)] for name, _, numbers in lines]
    first = Column("system" if view.down == "system" else "attacker")
    marked = frozenset(place for place, (_, own, _) in enumerate(lines) if own)
    return Table([first, *(Column(head, "number") for head in heads)], body, view.title, marked=marked)


def _read_print(cell: Printed) -> _Number:
    middle = sum(cell.ends) / 2 if cell.ends is not None else float("nan")
    return _Number(middle, cell.value, decimals(cell.value))


def _add_means(view: View, numbers: Numbers) -> None:
    """Add the means of cells where all of them are there and the mean is not, with as many decimals."""
    for column in view.columns:
        parts = [numbers[head] for head in column.mean if head in numbers and not math.isnan(numbers[head].value)]
        if column.mean and len(parts) == len(column.mean) and column.head not in numbers:
            value, digits = sum(part.value for part in parts) / len(parts), max(part.digits for part in parts)
            mark = PARTIAL if any(part.text.endswith(PARTIAL) for part in parts) else ""
            numbers[column.head] = _Number(value, f"{value:.{digits}f}{mark}", digits)


def _measure_systems(view: View, cells: list[Printed], card: Card) -> dict[str, Numbers]:
    """What the run has of each column, by its own labels of systems."""
    matching = Rows(card.rows, card.settings.model_copy(update={"systems": {}, "names": {}}))
    measured: dict[str, Numbers] = {}
    for system in dict.fromkeys(str(row["system"]) for row in card.rows):
        for column in view.columns:
            example = _find_example(view, column, cells, system)
            rows = [row for row in matching.find(example) if row["system"] == system] if example is not None else []
            if example is not None and len(rows) == 1 and (number := _read_row(rows[0], example)) is not None:
                measured.setdefault(system, {})[column.head] = number
    for numbers in measured.values():
        _add_means(view, numbers)
    return measured


def _measure_attacks(view: View, cells: list[Printed], card: Card) -> dict[str, Numbers]:
    """What the run has of each column, by its own attacks: an extractor, what it was trained on, and a back end."""
    matching = Rows(card.rows, card.settings)
    measured: dict[str, Numbers] = {}
    for column in view.columns:
        example = next((cell for cell in cells if column.where and _is_in(column, cell)), None)
        if example is None:
            continue
        by_attack: dict[str, list[Row]] = {}
        for row in matching.find(example.replace_columns(extractor="", trained_on="", backend="")):
            by_attack.setdefault(f"{row['extractor']} ({row['trained_on']}), {row['backend']}", []).append(row)
        for attack, rows in by_attack.items():
            if len(rows) == 1 and (number := _read_row(rows[0], example)) is not None:
                measured.setdefault(attack, {})[column.head] = number
    for numbers in measured.values():
        _add_means(view, numbers)
    return measured


def _is_in(column: ViewColumn, cell: Printed) -> bool:
    return all(cell.get_column(name) == word for name, word in column.where.items())


def _find_example(view: View, column: ViewColumn, cells: list[Printed], system: str) -> Printed | None:
    """A cell of a column as it would be printed of a system: any cell of the column tells how it was measured."""
    where = column.where or next((other.where for other in view.columns if other.head in column.mean), {})
    for cell in cells:
        same = all(cell.get_column(name) == word for name, word in where.items())
        if same and (cell.identity.system == ORIGINAL) is (system == ORIGINAL):
            return cell.replace_columns(system=system, **column.ours)
    return None


def _read_row(row: Row, example: Printed) -> _Number | None:
    scale = consistency.convert(str(row["unit"]), example.unit)
    if scale is None or row["value"] != row["value"]:
        return None
    value, digits = scale * float(row["value"]), decimals(example.value)
    mark = PARTIAL if row["status"] != "ok" else ""
    return _Number(value, f"{value:.{digits}f}{mark}", digits)


def _name_common(system: str, card: Card) -> str:
    common = card.settings.names.get(system, system)
    return system if common == system else f"{common} ({system})"


def _label_system(label: str, printed: dict[str, Numbers], card: Card) -> str:
    """Our label, and the published system that it stands for."""
    names = card.settings.names
    published = dict.fromkeys(
        names.get(name, name)
        for name in printed
        if stands_for(label, (name, names.get(name, name)), card.settings.systems)
    )
    others = [name for name in published if name != label]
    return f"{OURS}{label}" + (f" (for {', '.join(others)})" if others else "")


def _order(line: tuple[str, bool, Numbers], view: View) -> tuple[bool, bool, float, str]:
    name, _, numbers = line
    first = name.removeprefix(OURS) == ORIGINAL
    number = numbers.get(view.sort)
    return not first, number is None, number.value if number is not None else 0.0, name
