"""The card as text, Markdown, LaTeX and CSV, and into a run folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.files import name_of, write_atomically
from pipeline.report import summaries
from pipeline.report.scorecard import views
from pipeline.report.scorecard.card import Card, Line, plain
from pipeline.report.scorecard.settings import Tolerance
from pipeline.report.scorecard.verdicts import CONSISTENT, NOT_RUN, PARTIAL
from pipeline.tables import csv, run_files
from pipeline.tables.published import decimals

NAME = "scorecard"
FILE = f"{NAME}.json"
"""What the report of a run reads; sealed with the run, while the others are for people."""
WITH_RUN = ("published", "ours", "difference", "95 % interval", "tolerance", "verdict", "note")
ALONE = ("published", "verdict", "from")
LEFT = ("table", "metric", "subset", "condition", "system", "attacker", "extractor")
_NUMBERS = (len(LEFT), len(LEFT) + 1, len(LEFT) + 2, len(LEFT) + 3, len(LEFT) + 4)
"""Columns of a card with a run that are numbers; without a run the first of them."""


def heads(card: Card, run: bool) -> list[str]:
    """Heads of the table of lines."""
    return [*LEFT, *(WITH_RUN if run else ALONE)]


def line(one: Line, run: bool, names: Mapping[str, str]) -> list[str]:
    """A line as text; systems by their common names."""
    cell = one.cell
    words = [
        cell.table.rpartition("/")[2], ", ".join(filter(None, [cell.metric, cell.variant, cell.estimator])), cell.subset,
        cell.condition, names.get(cell.system, cell.system), cell.attacker, cell.extractor,
    ]  # fmt: skip
    unit = {"%": "\N{NO-BREAK SPACE}%", "tag": "", "": "", "fraction": ""}.get(
        cell.unit, f"\N{NO-BREAK SPACE}{cell.unit}"
    )
    printed = f"{cell.value}{unit}"
    if not run:
        return [*words, printed, one.verdict, one.note]
    interval = "" if one.low is None or one.high is None else f"[{_like(one.low, one)}, {_like(one.high, one)}]"
    ours = one.label or ("" if one.value is None else _like(one.value, one))
    difference = "" if one.difference is None else _like(one.difference, one, sign="+")
    tolerance = f"{one.tolerance:g}" if one.row is not None and one.value is not None else ""
    return [*words, printed, ours, difference, interval, tolerance, one.verdict, one.note]


def _like(value: float, one: Line, sign: str = "") -> str:
    """A number with as many decimals as the print."""
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    digits = decimals(one.cell.value)
    text = f"{value:{sign}.1e}" if "e" in one.cell.value.lower() else f"{value:{sign}.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def counts(card: Card) -> str:
    """How many lines have which verdict, in a sentence."""
    found = card.counts()
    said = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
    return f"{sum(found.values())} published cells: {said}"


def notes(card: Card, run: bool) -> list[str]:
    """What a reader needs to know of the card."""
    if not run:
        said = [
            "Each printed cell is held against the other printed cells: rounding and cutting of the print are taken into account."
        ]
        if any(one.verdict == CONSISTENT for one in card.lines):
            said.append(f"{CONSISTENT}: a bound or a grid is kept, which is less than to follow.")
        return said
    used = {one.cell.metric for one in card.lines if one.row is not None}
    given = [(metric, one) for metric, one in card.settings.tolerances.items() if metric in used]
    partial = "partial: ours does not stand on everything, so that it is not that number, near as it may be."
    return [
        "reproduced: ours lies within what may have been printed so, and the tolerance; within interval: our 95 % interval meets it.",
        *([partial] if any(one.verdict == PARTIAL for one in card.lines) else []),
        *(
            f"Tolerance of {metric}{_where(one)}: {one.value:g} {one.unit} ({one.reason.rstrip('.')})."
            for metric, one in given
        ),
    ]


def _where(tolerance: Tolerance) -> str:
    """Of which cells alone it is."""
    said = "; ".join(f"{' or '.join(words)} alone" for words in tolerance.where.values())
    return f" ({said})" if said else ""


def to_text(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card for a terminal: what must be known first, the views, every line, and how many have which verdict."""
    blocks = [f"{card.settings.title}\n"]
    for table in _views(card) if run else []:
        body = [list(one) for one in table.body]
        blocks.append("\n".join([table.title, "", *summaries.aligned(list(table.heads), body, (0,)), ""]))
    numbers = _NUMBERS if run else _NUMBERS[:1]
    left = [place for place in range(len(heads(card, run))) if place not in numbers]
    grid = summaries.aligned(heads(card, run), [line(one, run, card.settings.names) for one in card.lines], left)
    blocks.append("\n".join([*grid, "", *notes(card, run), "", counts(card)]))
    return summaries.limits_text(limits) + "\n".join(blocks)


def to_markdown(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card as Markdown."""
    blocks = [f"**{summaries.markdown(card.settings.title)}**\n"]
    for table in _views(card) if run else []:
        blocks.append(
            f"**{summaries.markdown(table.title)}**\n\n" + _pipes(table.heads, table.body, range(1, len(table.heads)))
        )
    blocks.append(
        _pipes(
            heads(card, run),
            [line(one, run, card.settings.names) for one in card.lines],
            _NUMBERS if run else _NUMBERS[:1],
        )
    )
    blocks.append("\n".join(summaries.markdown(note) for note in [*notes(card, run), counts(card) + "."]) + "\n")
    return summaries.limits_markdown(limits) + "\n".join(blocks)


def _pipes(names: Sequence[str], body: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    rule = ["---:" if place in numbers else "---" for place in range(len(names))]
    lines = [names, rule, *([summaries.markdown(text) for text in one] for one in body)]
    return "".join("| " + " | ".join(one) + " |\n" for one in lines)


def to_latex(card: Card, limits: Sequence[str] = (), run: bool = True) -> str:
    """The card as LaTeX; needs ``booktabs`` and ``longtable``."""
    blocks = ["% needs \\usepackage{booktabs,longtable}\n", summaries.limits_latex(limits)]
    for table in _views(card) if run else []:
        blocks.append(_longtable(table.title, table.heads, table.body, range(1, len(table.heads))))
    said = " ".join([f"{card.settings.title}.", *notes(card, run), counts(card) + "."])
    lines = [line(one, run, card.settings.names) for one in card.lines]
    blocks.append(_longtable(said, heads(card, run), lines, _NUMBERS if run else _NUMBERS[:1]))
    return "\n".join(block for block in blocks if block)


def _longtable(caption: str, names: Sequence[str], body: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    columns = "".join("r" if place in numbers else "l" for place in range(len(names)))
    lines = [
        rf"\begin{{longtable}}{{{columns}}}",
        rf"\caption{{{summaries.latex(caption)}}} \\",
        r"\toprule",
        " & ".join(map(summaries.latex, names)) + r" \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
    ]
    for one in body:
        cells = [summaries.latex(text) for text in one]
        # A star or a bracket after a line end would be read as its argument.
        lines.append("{}" * one[0].startswith(("[", "*")) + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\end{longtable}", ""])


def to_csv(card: Card) -> str:
    """Every line with all its columns, numbers in full."""
    return csv.text(pd.DataFrame([plain(one) for one in card.lines]), "%.10g")


def _views(card: Card) -> list[views.Table]:
    return [views.filled(view, card) for view in card.settings.views]


WRITERS: dict[str, Callable[[Card, Sequence[str]], str]] = {"md": to_markdown, "tex": to_latex}


def write(folder: Path, card: Card, limits: Sequence[str] = (), of: str = "") -> list[Path]:
    """Write ``scorecard.csv``, ``.md`` and ``.tex`` into a run folder; the paths.

    A card ``of`` another recipe than the run's is ``scorecard-RECIPE.csv``, so that the run's own stays.
    """
    name = f"{NAME}-{name_of(of)}" if of else NAME
    made = {"csv": to_csv(card), **{kind: writer(card, limits) for kind, writer in WRITERS.items()}}
    for kind, text in made.items():
        write_atomically(folder / f"{name}.{kind}", text.encode("utf-8", errors="replace"))
    return [folder / f"{name}.{kind}" for kind in made]


def keep(folder: Path, card: Card) -> None:
    """Write what the report of the run shows of the card: before the run is sealed."""
    shown: dict[str, Any] = {
        "title": card.settings.title,
        "counts": counts(card),
        "notes": notes(card, True),
        "faults": [str(fault) for fault in card.faults],
        "views": [
            {"title": one.title, "heads": one.heads, "body": one.body, "ours": sorted(one.ours)} for one in _views(card)
        ],
        "heads": heads(card, True),
        "numbers": _NUMBERS,
        "compared": [line(one, True, card.settings.names) for one in card.lines if one.verdict != NOT_RUN],
        "not_run": [line(one, True, card.settings.names) for one in card.lines if one.verdict == NOT_RUN],
    }
    write_atomically(folder / FILE, json.dumps(shown, indent=1, ensure_ascii=False) + "\n")


def kept(folder: Path) -> dict[str, Any] | None:
    """What :func:`keep` wrote; None of a run without a scorecard.

    Raises:
        DataError: it is not what was written.
    """
    if not (folder / FILE).is_file():
        return None
    found = run_files.read_json(folder / FILE)
    if not isinstance(found, dict):
        raise run_files.make_changed_error(folder, [FILE])
    return found
