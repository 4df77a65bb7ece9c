"""Result rows as tables for people: numbers set by unit, and the compact summary as plain text, Markdown and LaTeX.

A summary is a pivot of the rows: what tells rows apart goes to the left, metrics go across. Null-band rows (variant
``null_band`` or ``<variant>:null_band``) and ceilings (metric ``<metric>_ceiling``) are attached to the value that they
belong to. Nothing is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.diagnostics import grouping as diagnostics
from pipeline.report import glossary
from pipeline.tables import results

NULL_BAND = "null_band"
CEILING = "_ceiling"
DASH = "–"
WITHIN = "within chance"
NOTED = "‡"
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
    "variant": "variant",
}
ALWAYS = ("subset", "system", "extractor")
"""Identity columns that a table shows even where all its rows agree."""

_LEFT = (
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
    "variant",
)


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


def folded(rows: pd.DataFrame) -> pd.DataFrame:
    """Value rows with what belongs to them in added columns: ``band_low``, ``band_high``, ``ceiling`` and ``chance``.

    ``chance`` is '' without a band, else ``within chance``, ``below the band`` or ``above the band``. A band or ceiling
    whose value row is absent stays a row of its own.
    """
    rows = rows.reset_index(drop=True)
    identity = ["run_id", *results.IDENTITY]
    variant, metric = rows["variant"].astype(str), rows["metric"].astype(str)
    is_band = (variant == NULL_BAND) | variant.str.endswith(f":{NULL_BAND}")
    bare = variant.where(~is_band, variant.str.removesuffix(NULL_BAND).str.removesuffix(":"))
    of_ceiling = metric.str.removesuffix(CEILING)
    is_ceiling = metric.str.endswith(CEILING) & of_ceiling.isin(set(metric))

    keys = rows[identity].astype(str)
    keys["variant"], keys["metric"] = bare, of_ceiling.where(is_ceiling, metric)
    key = pd.Series(list(keys.itertuples(index=False, name=None)), index=rows.index)
    value_keys = set(key[~is_band & ~is_ceiling])
    is_band &= key.isin(value_keys)
    is_ceiling &= key.isin(value_keys) & ~is_band

    bands = {k: (low, high) for k, low, high in zip(key[is_band], rows["low"][is_band], rows["high"][is_band])}
    ceilings = dict(zip(key[is_ceiling], rows["value"][is_ceiling]))
    kept = rows[~is_band & ~is_ceiling].copy()
    nan = (math.nan, math.nan)
    kept["band_low"] = [bands.get(k, nan)[0] for k in key[kept.index]]
    kept["band_high"] = [bands.get(k, nan)[1] for k in key[kept.index]]
    kept["ceiling"] = [ceilings.get(k, math.nan) for k in key[kept.index]]
    kept["chance"] = [_place(v, low, high) for v, low, high in zip(kept["value"], kept["band_low"], kept["band_high"])]
    return kept.reset_index(drop=True)


def _place(value: float, low: float, high: float) -> str:
    if np.isnan([value, low, high]).any():
        return ""
    return WITHIN if low <= value <= high else "below the band" if value < low else "above the band"


def varying(rows: pd.DataFrame, columns: Sequence[str] = _LEFT, always: Sequence[str] = ALWAYS) -> list[str]:
    """The identity columns that a table of these rows has to show: those that differ, and ``always`` if not empty."""
    return [
        column for column in columns if rows[column].nunique() > 1 or (column in always and (rows[column] != "").any())
    ]


def constant(rows: pd.DataFrame, shown: Sequence[str]) -> list[tuple[str, str]]:
    """Label and value of the identity columns (but the run) that are the same in all rows and not shown."""
    return [
        (LABELS[column], str(rows[column].iloc[0]))
        for column in _LEFT
        if column not in {*shown, "run_id"} and len(rows) and rows[column].nunique() == 1 and rows[column].iloc[0] != ""
    ]


def ordered(rows: pd.DataFrame, systems: Sequence[str] = ()) -> pd.DataFrame:
    """Rows by data set, subset, extractor, then system in the order given, condition, attacker and the rest."""
    place = {system: f"{index:06d}" for index, system in enumerate(systems)}
    if not systems:
        place["original"] = ""
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
        "trained_on",
        "system_level",
        "run_id",
    ]
    return rows.loc[key.sort_values(by, kind="stable").index].reset_index(drop=True)


def cell(row: pd.Series, marks: Mapping[str, str] | None = None) -> Cell:
    """The cell of a folded row: its value or label; a dash where there is none.

    Args:
        marks: the mark of each reason that a row with a value gives.
    """
    unit = str(row["unit"])
    text = str(row["label"]) if pd.isna(row["value"]) and row["label"] else number(row["value"], unit)
    interval = (
        ""
        if pd.isna(row["low"]) or pd.isna(row["high"])
        else (f"[{number(row['low'], unit)}, {number(row['high'], unit)}]")
    )
    note = (marks or {}).get(str(row["reason"]), "") if text != DASH else ""
    return Cell(text, interval, row["chance"] == WITHIN, row["status"] != "ok", note)


def summaries(rows: pd.DataFrame, systems: Sequence[str] = ()) -> list[Summary]:
    """The compact tables: one a group of ``glossary.GROUPS`` that has rows, and one for metrics that it does not know."""
    if not len(rows):
        return []
    rows = folded(rows)
    known = {metric for _, group in glossary.GROUPS for metric in group} | set(glossary.DETAILS)
    known |= {f"{metric}{CEILING}" for metric in known}
    others = sorted(set(rows["metric"]) - known)
    groups = [*glossary.GROUPS, ("Other metrics", tuple(others))]
    found = [(title, rows[rows["metric"].isin(metrics)]) for title, metrics in groups]
    return [_summary(title, part, systems) for title, part in found if len(part)]


def _summary(title: str, rows: pd.DataFrame, systems: Sequence[str]) -> Summary:
    rows = ordered(rows, systems)
    # Estimates of several quantities (SRD: empirical and beta-binomial) go below one another, other variants side by side.
    variants = {frozenset(part["variant"]) for _, part in rows.groupby("metric")}
    stacked = rows["metric"].nunique() > 1 and len(variants) == 1 and len(next(iter(variants))) > 1
    # In a group whose metrics use different conditions (DeID: OP, G_VD: PP) the condition cannot tell rows apart.
    apart = len({frozenset(part["condition"]) for _, part in rows.groupby("metric")}) == 1
    skip = {*(() if stacked else ("variant",)), *(() if apart else ("condition", "attacker"))}
    source = _source(rows) if apart else ""
    left = varying(rows, [column for column in _LEFT if column not in {*skip, *(("trained_on",) if source else ())}])
    metrics = sorted(
        {(str(m), "" if stacked else str(v)) for m, v in zip(rows["metric"], rows["variant"])},
        key=lambda pair: (glossary.rank(pair[0]), pair[1]),
    )
    collisions = rows.assign(shown="" if stacked else rows["variant"]).duplicated([*left, "metric", "shown"]).any()
    if collisions:
        left = varying(rows, [column for column in _LEFT if stacked or column != "variant"])
    several = {metric for metric, _ in metrics if sum(other == metric for other, _ in metrics) > 1}
    heads = []
    for metric, variant in metrics:
        of_metric = rows[rows["metric"] == metric]
        unit, direction = glossary.unit(str(of_metric["unit"].iloc[0])), str(of_metric["direction"].iloc[0])
        head = glossary.entry(metric).symbol + (f" {variant}" if metric in several and variant else "")
        heads.append(f"{head}{f' ({unit})' if unit else ''}{f' {arrow(direction)}' if arrow(direction) else ''}")
    empty = rows["value"].isna() & (rows["label"] == "")
    reasons, said = (sorted(set(map(str, rows["reason"][part])) - {""}) for part in (empty, ~empty))
    marks = {text: f"{NOTED}{index if len(said) > 1 else ''}" for index, text in enumerate(said, start=1)}
    body = []
    for names, part in rows.groupby(left, sort=False) if left else [((), rows)]:
        by_metric = {
            (str(r["metric"]), "" if stacked else str(r["variant"])): cell(r, marks) for _, r in part.iterrows()
        }
        body.append(([str(name) for name in names], [by_metric.get(pair, Cell("")) for pair in metrics]))
    common = constant(rows, left) + ([("trained on", source)] if source and "trained_on" not in left else [])
    return Summary(title, left, heads, metrics, body, common, reasons, [(mark, text) for text, mark in marks.items()])


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


def footnotes(summary: Summary, intervals: bool) -> list[str]:
    """What a reader needs to know to read the table."""
    notes = []
    if summary.common:
        notes.append("For all rows: " + ", ".join(f"{label} {value}" for label, value in summary.common) + ".")
    if any(arrow_ in head for head in summary.heads for arrow_ in "↑↓"):
        notes.append("↑ higher is more private, ↓ lower is more private.")
    if summary.any_chance:
        notes.append("~ the value lies within its null band: not different from chance.")
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
    for summary in summaries(rows, systems):
        grid = [[*(LABELS[column] for column in summary.left), *summary.heads]]
        grid += [[*names, *(_joined(c, intervals, "~") for c in cells)] for names, cells in summary.body]
        grid = [[_one_line(text) for text in line] for line in grid]
        widths = [max(len(line[column]) for line in grid) for column in range(len(grid[0]))]
        lines = [
            "  ".join(
                text.ljust(width) if column < len(summary.left) else text.rjust(width)
                for column, (text, width) in enumerate(zip(line, widths))
            ).rstrip()
            for line in grid
        ]
        rule = "  ".join("-" * width for width in widths)
        blocks.append(
            "\n".join(
                [summary.title, "", lines[0], rule, *lines[1:], "", *map(_one_line, footnotes(summary, intervals))]
            )
        )
    return "\n\n".join(block.rstrip() for block in blocks) + ("\n" if blocks else "")


def diagnostics_text(frame: pd.DataFrame) -> str:
    """The flagged checks of the attack, one line each with the results that it applies to; '' if there is none.

    Args:
        frame: the rows of ``diagnostics.parquet``.
    """
    return diagnostics.text(frame)


def to_markdown(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as Markdown (pipe tables), as the README and issues show them."""
    return _export(rows, systems, intervals, _markdown_table)


def to_latex(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as LaTeX (needs ``booktabs``), one ``table`` environment each."""
    return _export(rows, systems, intervals, _latex_table)


def _export(rows: pd.DataFrame, systems: Sequence[str], intervals: bool, one: Callable[[Summary, bool], str]) -> str:
    return "\n".join(one(summary, intervals) for summary in summaries(rows, systems))


def _joined(value: Cell, intervals: bool, mark: str) -> str:
    text = value.shown(mark)
    return f"{text} {value.interval}" if intervals and value.interval else text


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _markdown_table(summary: Summary, intervals: bool) -> str:
    heads = [*(LABELS[column] for column in summary.left), *(_markdown(head) for head in summary.heads)]
    lines = [f"**{summary.title}**", "", "| " + " | ".join(heads) + " |"]
    lines.append("| " + " | ".join(["---"] * len(summary.left) + ["---:"] * len(summary.heads)) + " |")
    for names, cells in summary.body:
        texts = [*(_markdown(name) for name in names), *(_joined(c, intervals, r"\~") for c in cells)]
        lines.append("| " + " | ".join(texts) + " |")
    notes = [_markdown(note) for note in footnotes(summary, intervals)]
    return "\n".join([*lines, "", " ".join(notes), ""])


def _markdown(text: str) -> str:
    return "".join(
        f"\\{c}" if c in "\\`*_[]|~$" else {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(c, c) for c in _one_line(text)
    )


def _latex_table(summary: Summary, intervals: bool) -> str:
    heads = [*(LABELS[column] for column in summary.left), *map(_latex_head, summary.heads)]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(summary.title)}. "
        + " ".join(_latex(note) for note in footnotes(summary, intervals))
        + "}",
        rf"\begin{{tabular}}{{{'l' * len(summary.left)}{'r' * len(summary.heads)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for names, cells in summary.body:
        texts = [*(_latex(name) for name in names), *(_latex(_joined(c, intervals, "~")) for c in cells)]
        # A line that begins with a bracket would be read as the optional argument of the line end before it.
        lines.append("{}" * texts[0].startswith("[") + " & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_head(head: str) -> str:
    symbol, *rest = head.split(" ", 1)
    base, _, subscript = symbol.partition("_")
    if subscript and base.isalpha():
        body = base if len(base) == 1 else rf"\mathrm{{{base}}}"
        symbol = rf"${body}_{{\mathrm{{{_latex(subscript)}}}}}$"
    else:
        symbol = _latex(symbol)
    return " ".join([symbol, *map(_latex, rest)])


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


def _latex(text: str) -> str:
    parts = _one_line(text).split("\N{MINUS SIGN}∞")
    return r"$-\infty$".join("".join(_LATEX.get(character, character) for character in part) for part in parts)
