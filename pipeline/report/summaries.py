"""The compact tables of results rows: what tells rows apart goes to the left, metrics go across. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report import glossary
from pipeline.report.formats import DASH, NOTHING, choose_arrow, format_interval, format_number, format_unit
from pipeline.report.table import Cell, Column, Table
from pipeline.report.table import to_latex as write_latex
from pipeline.report.table import to_markdown as write_markdown
from pipeline.report.table import to_text as write_text
from pipeline.tables import results

WITHIN = "within chance"
NOTED = "‡"
RELATIVE = "Protected against unprotected speech, on trial lists"
LABELS = {
    **{name: name for name in ("subset", "condition", "system", "attacker", "extractor", "calibration")},
    "run_id": "run", "system_level": "level", "trained_on": "trained on", "backend": "back end", "dataset": "data set",
    "estimate": "variant", "defined": "variant",
}  # fmt: skip
ALWAYS = ("subset", "system", "extractor")
"""Identity columns that a table shows even where all its rows agree."""
LEFT = (
    "run_id", "dataset", "subset", "system", "system_level", "condition", "attacker", "extractor", "trained_on", "backend", "calibration",
)  # fmt: skip
"""What a row is about."""
DEFINED_BY = ("variant", "estimator", "input_unit")
"""What tells numbers of one metric apart on the same data."""
_DEFINED = (*LEFT, "defined")


def present_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as they are shown, with added columns.

    ``estimate`` is estimator and unit of input in words, ``defined`` the same after the variant. ``chance`` is '' without a null
    band, else ``within chance``, ``below the band`` or ``above the band``. ``remark`` is why there is no value, or what the reader
    of a value has to know.
    """
    return rows.reset_index(drop=True).assign(
        estimate=_join_columns(rows, ["estimator", "input_unit"]),
        defined=_join_columns(rows, DEFINED_BY),
        chance=[_place(*numbers) for numbers in zip(rows["value"], rows["null_low"], rows["null_high"])],
        remark=[str(reason) or str(note) for reason, note in zip(rows["reason"], rows["note"])],
    )


def _join_columns(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    return [", ".join(filter(None, map(str, words))) for words in zip(*(rows[column] for column in columns))]


def _place(value: float, low: float, high: float) -> str:
    if np.isnan([value, low, high]).any():
        return ""
    return WITHIN if low <= value <= high else "below the band" if value < low else "above the band"


def find_varying(rows: pd.DataFrame, columns: Sequence[str] = _DEFINED, always: Sequence[str] = ALWAYS) -> list[str]:
    """The identity columns that a table of these rows has to show: those that differ, and ``always`` if not empty."""
    return [
        column for column in columns if rows[column].nunique() > 1 or (column in always and (rows[column] != "").any())
    ]


def find_constant(rows: pd.DataFrame, shown: Sequence[str]) -> list[tuple[str, str]]:
    """Label and value of the identity columns (but the run) that are the same in all rows and not shown."""
    return [
        (LABELS[column], str(rows[column].iloc[0]))
        for column in _DEFINED
        if column not in {*shown, "run_id"} and len(rows) and rows[column].nunique() == 1 and rows[column].iloc[0] != ""
    ]


def order_rows(rows: pd.DataFrame, systems: Sequence[str] = ()) -> pd.DataFrame:
    """Rows by data set, subset, extractor, then system in the order given, condition, attacker and the others.

    The original speech comes first where the order does not name it: it is evaluated whether it is asked for or not.
    """
    places = {"original": ""} | {system: f"{place:06d}" for place, system in enumerate(systems)}
    keys = rows.assign(system=[places.get(str(system), str(system)) for system in rows["system"]])
    by = [
        "dataset", "subset", "extractor", "backend", "calibration", "system", "condition", "attacker", "variant", "estimator",
        "input_unit", "trained_on", "system_level", "run_id",
    ]  # fmt: skip
    return rows.loc[keys.sort_values(by, kind="stable").index].reset_index(drop=True)


def make_cell(row: Mapping[Any, Any], marks: Mapping[str, str] | None = None, *, intervals: bool = True) -> Cell:
    """The cell of a presented row: its value or label, its interval and its marks (``marks`` by remark); a dash where there is none."""
    unit = str(row["unit"])
    text = str(row["label"]) if pd.isna(row["value"]) and row["label"] else format_number(row["value"], unit)
    note = (marks or {}).get(str(row["remark"]), "") if text != DASH else ""
    shown = ["~" if row["chance"] == WITHIN else "", "†" if row["status"] != "ok" else "", note]
    return Cell(
        text, format_interval(row["low"], row["high"], unit) if intervals else "", " ".join(filter(None, shown))
    )


def summarise(
    rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = False, cautions: bool = True
) -> list[Table]:
    """The compact tables of the families that have rows, and one of metrics that no family declares; ``cautions`` says whether what
    families say of metrics is among the notes."""
    if not len(rows):
        return []
    rows = present_rows(rows)
    others = sorted(set(rows["metric"]) - set(glossary.metrics()))
    groups = [*glossary.compact(), (glossary.OTHERS, others)]
    parts = [(title, rows[rows["metric"].isin(names)]) for title, names in groups]
    # Of all pairs they stand with the details; who asks for them on trial lists asks for a table.
    on_lists = [str(variant).split(",")[0] == "trial_lists" for variant in rows["variant"]]
    parts.append((RELATIVE, rows[on_lists]))
    return [_summarise(title, part, systems, intervals, cautions) for title, part in parts if len(part)]


def _summarise(title: str, rows: pd.DataFrame, systems: Sequence[str], intervals: bool, cautions: bool) -> Table:
    """Variants of a metric stand side by side, estimates of the same quantities below one another."""
    rows = order_rows(rows, systems)
    # In a group whose metrics use different conditions (DeID: OP, G_VD: PP) the condition cannot tell rows apart.
    apart = len({frozenset(part["condition"]) for _, part in rows.groupby("metric")}) == 1
    source = _describe_training(rows) if apart else ""
    skip = {*(() if apart else ("condition", "attacker")), *(("trained_on",) if source else ())}
    left = find_varying(rows, [column for column in (*LEFT, "estimate") if column not in skip])
    if rows.duplicated([*left, "metric", "variant"]).any():
        left = find_varying(rows, [*LEFT, "estimate"])
    metrics = sorted(set(zip(rows["metric"], rows["variant"])), key=lambda pair: (glossary.rank(pair[0]), pair[1]))
    empty = rows["value"].isna() & (rows["label"] == "")
    reasons, notes = (sorted(set(rows["remark"][part]) - {""}) for part in (empty, ~empty))
    marks = {text: f"{NOTED}{index if len(notes) > 1 else ''}" for index, text in enumerate(notes, start=1)}
    lines: dict[tuple[str, ...], dict[tuple[str, str], Cell]] = {}
    for row in results.records(rows):
        names = tuple(str(row[column]) for column in left)
        lines.setdefault(names, {})[row["metric"], row["variant"]] = make_cell(row, marks, intervals=intervals)
    common = find_constant(rows, left) + ([("trained on", source)] if source and "trained_on" not in left else [])
    names_of_metrics = [metric for metric, _ in metrics]
    columns = [
        *(Column(LABELS[column]) for column in left),
        *(
            _make_column(rows[rows["metric"] == metric], variant if names_of_metrics.count(metric) > 1 else "")
            for metric, variant in metrics
        ),
    ]
    return Table(
        columns,
        [[*names, *(cells.get(pair, Cell("")) for pair in metrics)] for names, cells in lines.items()],
        title,
        _write_notes(rows, columns, common, names_of_metrics if cautions else [], reasons, marks, intervals),
        left=len(left),
    )


def _make_column(rows: pd.DataFrame, variant: str) -> Column:
    """The column of a metric: its symbol, the variant where there are several, unit and direction."""
    first = rows.iloc[0]
    symbol = glossary.metric(str(first["metric"])).symbol
    unit, arrow = format_unit(str(first["unit"])), choose_arrow(str(first["direction"]))
    return Column(" ".join(filter(None, [symbol, variant])), "number", unit, arrow)


def _describe_training(rows: pd.DataFrame) -> str:
    """What each attacker's extractor was trained on, in words; '' unless it varies and follows from the attacker."""
    trained = rows[rows["trained_on"] != ""]
    by_attacker = trained.groupby("attacker", sort=False)["trained_on"].agg(["nunique", "first"])
    if (by_attacker["nunique"] != 1).any() or by_attacker["first"].nunique() < 2:
        return ""
    sources: dict[str, list[str]] = {}
    for attacker, source in by_attacker["first"].items():
        sources.setdefault(str(source), []).append(str(attacker) or "no attacker")
    return ", ".join(f"{source} under {' and '.join(attackers)}" for source, attackers in sources.items())


def _write_notes(
    rows: pd.DataFrame,
    columns: Sequence[Column],
    common: Sequence[tuple[str, str]],
    cautioned: Sequence[str],
    reasons: Sequence[str],
    marks: Mapping[str, str],
    intervals: bool,
) -> list[str]:
    """What a reader needs to know to read the table; ``cautioned`` are the metrics of which families say what to beware of."""
    notes = []
    if common:
        notes.append("For all rows: " + ", ".join(f"{label} {value}" for label, value in common) + ".")
    if any(column.arrow for column in columns):
        notes.append("↑ higher is more private, ↓ lower is more private.")
    if (rows["chance"] == WITHIN).any():
        notes.append(f"~ the value lies within its null band: {NOTHING}.")
    notes += filter(None, dict.fromkeys(glossary.metric(name).caution for name in cautioned))
    if (rows["status"] != "ok").any():
        notes.append("† partial: does not rest on all that was expected; do not compare.")
    if reasons:
        notes.append(f"{DASH} no value: {'; '.join(reasons)}.")
    notes += [f"{mark} {text.rstrip('.')}." for text, mark in marks.items()]
    if intervals and (rows["low"].notna() & rows["high"].notna()).any():
        notes.append("In brackets: 95 % interval over speakers.")
    return notes


def to_text(rows: pd.DataFrame, systems: Sequence[str] = ()) -> str:
    """The compact tables as plain text, no line wrapped: for stdout and logs."""
    return "\n".join(map(write_text, summarise(rows, systems)))


def to_markdown(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as Markdown, as the README and issues show them."""
    return "\n".join(map(write_markdown, summarise(rows, systems, intervals=intervals)))


def to_latex(rows: pd.DataFrame, systems: Sequence[str] = (), *, intervals: bool = True) -> str:
    """The compact tables as LaTeX (needs ``booktabs``), one ``table`` environment each."""
    return "\n".join(map(write_latex, summarise(rows, systems, intervals=intervals)))
