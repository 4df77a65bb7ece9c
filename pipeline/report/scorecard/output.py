"""The card of a run or of printed cells alone: as text, Markdown, LaTeX and CSV, in a run folder, and on the page of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import make_file_name, write_atomically
from pipeline.report import table
from pipeline.report.formats import DASH
from pipeline.report.runs import Evaluation
from pipeline.report.scorecard import consistency
from pipeline.report.scorecard.card import Card, Line, Row, Rows, flatten_line, stands_for
from pipeline.report.scorecard.consistency import CONSISTENT, NOT_RUN, PARTIAL
from pipeline.report.scorecard.settings import Column as ViewColumn
from pipeline.report.scorecard.settings import Tolerance, View
from pipeline.report.table import Column, Kind, Table
from pipeline.tables import csv, run_files
from pipeline.tables.published import Printed, decimals
from pipeline.tables.run_files import LIMITS_TITLE

OURS = "ours: "
ORIGINAL = "original"
PARTIAL_MARK = " †"


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
        middle = sum(cell.ends) / 2 if cell.ends is not None else math.nan
        for column in view.columns:
            if column.where and _is_in(column, cell):
                number = _Number(middle, cell.value, decimals(cell.value))
                printed.setdefault(cell.get_column(view.down), {}).setdefault(column.head, number)
    measured = _measure_systems(view, cells, card) if view.down == "system" else _measure_attacks(view, cells, card)
    for numbers in (*printed.values(), *measured.values()):
        _add_means(view, numbers)
    lines = [(_name_common(name, card), False, numbers) for name, numbers in printed.items()]
    for name, numbers in measured.items():
        label = _label_system(name, printed, card) if view.down == "system" else f"{OURS}{name}"
        lines.append((label, True, numbers))
    lines.sort(key=lambda line: _order(line, view))
    heads = [column.head for column in view.columns]
    body = [[name, *(numbers[head].text if head in numbers else DASH for head in heads)] for name, _, numbers in lines]
    first = Column("system" if view.down == "system" else "attacker")
    marked = frozenset(place for place, (_, own, _) in enumerate(lines) if own)
    return Table([first, *(Column(head, "number") for head in heads)], body, view.title, marked=marked)


def _add_means(view: View, numbers: Numbers) -> None:
    """Add the means of cells where all of them are there and the mean is not, with as many decimals."""
    for column in view.columns:
        parts = [numbers[head] for head in column.mean if head in numbers and not math.isnan(numbers[head].value)]
        if column.mean and len(parts) == len(column.mean) and column.head not in numbers:
            value, digits = sum(part.value for part in parts) / len(parts), max(part.digits for part in parts)
            mark = PARTIAL_MARK if any(part.text.endswith(PARTIAL_MARK) for part in parts) else ""
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
    mark = PARTIAL_MARK if row["status"] != "ok" else ""
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


NAME = "scorecard"
FILE = f"{NAME}.json"
"""What the report of a run reads; sealed with the run, while the others are for people."""
ABOUT = tuple(map(Column, ("table", "metric", "subset", "condition", "system", "attacker", "extractor")))
PUBLISHED = Column("published", "number")
WITH_RUN = (
    PUBLISHED,
    *(Column(head, "number") for head in ("ours", "difference", "95 % interval", "tolerance")),
    Column("verdict"),
    Column("note", "note"),
)
ALONE = (PUBLISHED, Column("verdict"), Column("from", "note"))
PACKAGES = "% needs \\usepackage{booktabs,longtable}\n"


def tabulate(card: Card, run: bool, lines: Sequence[Line]) -> Table:
    """Lines of a card as a table, with the notes; ``run`` says whether a run stands beside the print."""
    body = [_write_line(line, run, card.settings.names) for line in lines]
    return Table((*ABOUT, *(WITH_RUN if run else ALONE)), body, notes=[*_write_notes(card, run), f"{count(card)}."])


def _write_line(line: Line, run: bool, names: Mapping[str, str]) -> list[str]:
    """A line as text; systems by their common names."""
    cell = line.cell
    about = [
        cell.table.rpartition("/")[2], ", ".join(filter(None, [cell.identity.metric, cell.identity.variant, cell.identity.estimator])), cell.identity.subset,
        cell.identity.condition, names.get(cell.identity.system, cell.identity.system), cell.identity.attacker, cell.identity.extractor,
    ]  # fmt: skip
    unit = "" if cell.unit in ("tag", "", "fraction") else f"\N{NO-BREAK SPACE}{cell.unit}"
    printed = f"{cell.value}{unit}"
    if not run:
        return [*about, printed, line.verdict, line.note]
    interval = "" if line.low is None or line.high is None else f"[{_like(line.low, line)}, {_like(line.high, line)}]"
    value = line.label or ("" if line.value is None else _like(line.value, line))
    difference = "" if line.difference is None else _like(line.difference, line, sign="+")
    tolerance = f"{line.tolerance:g}" if line.row is not None and line.value is not None else ""
    return [*about, printed, value, difference, interval, tolerance, line.verdict, line.note]


def _like(value: float, line: Line, sign: str = "") -> str:
    """A number with as many decimals as the print."""
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    digits = decimals(line.cell.value)
    text = f"{value:{sign}.1e}" if "e" in line.cell.value.lower() else f"{value:{sign}.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def count(card: Card) -> str:
    """How many lines have which verdict, in a sentence."""
    counts = card.counts()
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return f"{sum(counts.values())} published cells: {verdicts}"


def _write_notes(card: Card, run: bool) -> list[str]:
    """What a reader needs to know of the card."""
    verdicts = {line.verdict for line in card.lines}
    if not run:
        bounds = f"{CONSISTENT}: a bound or a grid is kept, which is less than to follow."
        comparison = "Each printed cell is held against the other printed cells: rounding and cutting of the print are taken into account."
        return [comparison, *([bounds] if CONSISTENT in verdicts else [])]
    used = {line.cell.identity.metric for line in card.lines if line.row is not None}
    partial = "partial: ours does not stand on everything, so that it is not that number, near as it may be."
    return [
        "reproduced: ours lies within what may have been printed so, and the tolerance; within interval: our 95 % interval meets it.",
        *([partial] if PARTIAL in verdicts else []),
        *(
            f"Tolerance of {metric}{_restrict(tolerance)}: {tolerance.value:g} {tolerance.unit} ({tolerance.reason.rstrip('.')})."
            for metric, tolerance in card.settings.tolerances.items()
            if metric in used
        ),
    ]


def _restrict(tolerance: Tolerance) -> str:
    """Of which cells alone a tolerance is."""
    cells = "; ".join(f"{' or '.join(words)} alone" for words in tolerance.where.values())
    return f" ({cells})" if cells else ""


def _fill_views(card: Card, run: bool = True) -> list[Table]:
    return [fill_view(view, card) for view in card.settings.views] if run else []


def to_text(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card for a terminal: what must be known first, the views, every line, and how many have which verdict."""
    tables = [*_fill_views(card, run), tabulate(card, run, card.lines)]
    blocks = [f"{card.settings.title}\n", *map(table.to_text, tables)]
    return table.list_text(LIMITS_TITLE, limits) + "\n".join(blocks).rstrip("\n")


def to_markdown(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card as Markdown."""
    tables = [*_fill_views(card, run), tabulate(card, run, card.lines)]
    blocks = [f"**{table.escape_markdown(card.settings.title)}**\n", *map(table.to_markdown, tables)]
    return table.list_markdown(LIMITS_TITLE, limits) + "\n".join(blocks)


def to_latex(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card as LaTeX; needs ``booktabs`` and ``longtable``."""
    tables = [*_fill_views(card, run), tabulate(card, run, card.lines)]
    tables[-1] = Table(tables[-1].columns, tables[-1].body, f"{card.settings.title}.", tables[-1].notes)
    return "\n".join(
        filter(None, [PACKAGES, table.list_latex(LIMITS_TITLE, limits), *map(table.to_long_latex, tables)])
    )


def to_csv(card: Card) -> str:
    """Every line with all its columns, numbers in full."""
    return csv.text(pd.DataFrame([flatten_line(line) for line in card.lines]), "%.10g")


# ------------------------------------------------------------------------------------------------------- in a run folder


def write(folder: Path, card: Card, limits: Sequence[str] = (), recipe: str = "") -> list[Path]:
    """Write ``scorecard.csv``, ``.md`` and ``.tex`` into a run folder; the paths.

    A card of another ``recipe`` than the run's is ``scorecard-RECIPE.csv``, so that the run's own stays.
    """
    name = f"{NAME}-{make_file_name(recipe)}" if recipe else NAME
    texts = {"csv": to_csv(card), "md": to_markdown(card, limits), "tex": to_latex(card, limits)}
    for kind, text in texts.items():
        write_atomically(folder / f"{name}.{kind}", text.encode("utf-8", errors="replace"))
    return [folder / f"{name}.{kind}" for kind in texts]


def keep(folder: Path, card: Card) -> None:
    """Write what the report of the run shows of the card: before the run is sealed."""
    compared = tabulate(card, True, [line for line in card.lines if line.verdict != NOT_RUN])
    not_run = tabulate(card, True, [line for line in card.lines if line.verdict == NOT_RUN])
    shown: dict[str, Any] = {
        "title": card.settings.title,
        "counts": count(card),
        "notes": _write_notes(card, True),
        "faults": [str(fault) for fault in card.faults],
        "views": [
            {
                "title": view.title,
                "heads": [column.head for column in view.columns],
                "body": view.body,
                "ours": sorted(view.marked),
            }
            for view in _fill_views(card)
        ],
        "heads": [column.head for column in compared.columns],
        "numbers": [place for place, column in enumerate(compared.columns) if column.numeric],
        "compared": compared.body,
        "not_run": not_run.body,
    }
    write_atomically(folder / FILE, json.dumps(shown, indent=1, ensure_ascii=False) + "\n")


def read_kept(folder: Path) -> dict[str, Any] | None:
    """What :func:`keep` wrote; None of a run without a scorecard.

    Raises:
        DataError: it is not what was written.
    """
    if not (folder / FILE).is_file():
        return None
    kept = run_files.read_json(folder / FILE)
    if not isinstance(kept, dict):
        raise run_files.make_changed_error(folder, [FILE])
    return kept


# ----------------------------------------------------------------------------------------------------- on a run's page


@dataclass(frozen=True)
class Scorecard:
    """A run beside the published cells of its recipe."""

    title: str
    counts: str
    notes: list[str]
    faults: list[str]
    views: list[Table]
    compared: Table
    not_run: Table


def read_scorecards(evaluation: Evaluation) -> list[Scorecard]:
    """The scorecards of those runs that have one; raises as :func:`read_kept`."""
    cards = []
    for run in evaluation.runs:
        kept = read_kept(run.folder)
        if kept is None:
            continue
        kinds: dict[int, Kind] = {**dict.fromkeys(kept["numbers"], "number"), len(kept["heads"]) - 1: "note"}
        columns = [Column(head, kinds.get(place, "text")) for place, head in enumerate(kept["heads"])]
        views = [
            Table(
                [Column(head, "number" if place else "text") for place, head in enumerate(view["heads"])],
                view["body"],
                view["title"],
                marked=frozenset(view["ours"]),
            )
            for view in kept["views"]
        ]
        title = f"{f'Run {run.label}: ' if evaluation.several else ''}{kept['title']}"
        tables = Table(columns, kept["compared"]), Table(columns, kept["not_run"])
        cards.append(Scorecard(title, kept["counts"], kept["notes"], kept["faults"], views, *tables))
    return cards
