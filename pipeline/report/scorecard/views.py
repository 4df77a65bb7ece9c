"""A published table as people know it, systems or attackers down, with those of the run among them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pipeline.report import summaries
from pipeline.report.scorecard import verdicts
from pipeline.report.scorecard.card import Card
from pipeline.report.scorecard.match import Row, stands_for
from pipeline.report.scorecard.match import Rows as Matching
from pipeline.report.scorecard.settings import Column, View
from pipeline.tables.published import Printed, decimals

OURS = "ours: "
ORIGINAL = "original"
PARTLY = " †"


@dataclass(frozen=True)
class Table:
    """A view filled: lines of text, the name of a system or an attacker first, and which of them are ours."""

    title: str
    heads: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    ours: frozenset[int]


@dataclass(frozen=True)
class _Shown:
    """A number of a cell of the table: what is sorted by, and what is shown."""

    value: float
    text: str
    digits: int


def filled(view: View, card: Card) -> Table:
    """A view with the published lines and ours, by the column that it is sorted by; the original speech stands first."""
    cells = [line.cell for line in card.lines if _meant(line.cell, view)]
    printed: dict[str, dict[str, _Shown]] = {}
    for cell in cells:
        for column in view.columns:
            if column.where and _in(column, cell):
                printed.setdefault(getattr(cell, view.down), {}).setdefault(column.head, _of_print(cell))
    for found in printed.values():
        _with_means(view, found)
    lines = [(_called(name, card), False, found) for name, found in printed.items()]
    if view.down == "system":
        lines += [(_labelled(system, printed, card), True, found) for system, found in _ours(view, cells, card).items()]
    else:
        lines += [(f"{OURS}{attack}", True, found) for attack, found in _our_attacks(view, cells, card).items()]
    ordered = sorted(lines, key=lambda line: _order(line, view))
    heads = tuple(column.head for column in view.columns)
    body = tuple(
        (name, *(found[head].text if head in found else summaries.DASH for head in heads)) for name, _, found in ordered
    )
    ours = frozenset(place for place, (_, own, _) in enumerate(ordered) if own)
    return Table(view.title, ("system" if view.down == "system" else "attacker", *heads), body, ours)


def _meant(cell: Printed, view: View) -> bool:
    return all(getattr(cell, name) in words for name, words in view.where.items())


def _of_print(cell: Printed) -> _Shown:
    middle = sum(cell.ends) / 2 if cell.ends is not None else float("nan")
    return _Shown(middle, cell.value, decimals(cell.value))


def _with_means(view: View, found: dict[str, _Shown]) -> None:
    """Add the means of cells where all of them are there and the mean is not, with as many decimals."""
    for column in view.columns:
        parts = [found[head] for head in column.mean if head in found and not math.isnan(found[head].value)]
        if column.mean and len(parts) == len(column.mean) and column.head not in found:
            value, digits = sum(part.value for part in parts) / len(parts), max(part.digits for part in parts)
            mark = PARTLY if any(part.text.endswith(PARTLY) for part in parts) else ""
            found[column.head] = _Shown(value, f"{value:.{digits}f}{mark}", digits)


def _ours(view: View, cells: list[Printed], card: Card) -> dict[str, dict[str, _Shown]]:
    """What the run has of each column, by its own labels of systems."""
    alone = Matching(card.rows, card.settings.model_copy(update={"systems": {}, "names": {}}))
    found: dict[str, dict[str, _Shown]] = {}
    for system in dict.fromkeys(str(row["system"]) for row in card.rows):
        for column in view.columns:
            example = _example(view, column, cells, system)
            rows = [row for row in alone.of(example) if row["system"] == system] if example is not None else []
            if example is not None and len(rows) == 1 and (shown := _of_row(rows[0], example)) is not None:
                found.setdefault(system, {})[column.head] = shown
    for shown_of in found.values():
        _with_means(view, shown_of)
    return found


def _our_attacks(view: View, cells: list[Printed], card: Card) -> dict[str, dict[str, _Shown]]:
    """What the run has of each column, by its own attacks: an extractor, what it was trained on, and a back end."""
    rows = Matching(card.rows, card.settings)
    found: dict[str, dict[str, _Shown]] = {}
    for column in view.columns:
        example = next((cell for cell in cells if column.where and _in(column, cell)), None)
        if example is None:
            continue
        several: dict[str, list[Row]] = {}
        for row in rows.of(replace(example, extractor="", trained_on="", backend="")):
            several.setdefault(f"{row['extractor']} ({row['trained_on']}), {row['backend']}", []).append(row)
        for attack, alike in several.items():
            if len(alike) == 1 and (shown := _of_row(alike[0], example)) is not None:
                found.setdefault(attack, {})[column.head] = shown
    for shown_of in found.values():
        _with_means(view, shown_of)
    return found


def _in(column: Column, cell: Printed) -> bool:
    return all(getattr(cell, name) == word for name, word in column.where.items())


def _example(view: View, column: Column, cells: list[Printed], system: str) -> Printed | None:
    """A cell of a column as it would be printed of a system: any cell of the column tells how it was measured."""
    where = column.where or next((other.where for other in view.columns if other.head in column.mean), {})
    for cell in cells:
        same = all(getattr(cell, name) == word for name, word in where.items())
        if same and (cell.system == ORIGINAL) is (system == ORIGINAL):
            return replace(cell, system=system, **column.ours)
    return None


def _of_row(row: Row, example: Printed) -> _Shown | None:
    scale = verdicts.factor(str(row["unit"]), example.unit)
    if scale is None or row["value"] != row["value"]:
        return None
    value, digits = scale * float(row["value"]), decimals(example.value)
    mark = PARTLY if row["status"] != "ok" else ""
    return _Shown(value, f"{value:.{digits}f}{mark}", digits)


def _called(system: str, card: Card) -> str:
    common = card.settings.names.get(system, system)
    return system if common == system else f"{common} ({system})"


def _labelled(label: str, printed: dict[str, dict[str, _Shown]], card: Card) -> str:
    """Our label, and the published system that it stands for."""
    names = card.settings.names
    stood = dict.fromkeys(
        names.get(name, name)
        for name in printed
        if stands_for(label, (name, names.get(name, name)), card.settings.systems)
    )
    known = [name for name in stood if name != label]
    return f"{OURS}{label}" + (f" (for {', '.join(known)})" if known else "")


def _order(line: tuple[str, bool, dict[str, _Shown]], view: View) -> tuple[bool, bool, float, str]:
    name, _, found = line
    first = name.removeprefix(OURS) == ORIGINAL
    shown = found.get(view.sort)
    return not first, shown is None, shown.value if shown is not None else 0.0, name
