"""The leaderboard for papers, as Markdown and as LaTeX, of one run or of several.

A table a subset: one row a system, best first, EER and D_ECE with their intervals; the sentence of :mod:`pipeline.report.verdict` above it; below
it what the marks mean, a table of the other numbers, and the signatures under which all were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.report import glossary, signatures, table, verdict
from pipeline.report.formats import DASH, NOTHING, format_number, join_words
from pipeline.report.leaderboard import (
    FIRST,
    FURTHER,
    OF_STRONGEST,
    PARTIAL,
    TITLE,
    WITHIN,
    Measure,
    Row,
    format_rank,
    list_rows,
    order_subsets,
)
from pipeline.report.table import Cell, Column, Line, Table
from pipeline.tables.answers import ATTACK, TAKEN

NO_SYSTEM = "No system that protects was attacked, so that there is no answer."
RANK = (
    "Rank: 1 and one more for each system that is shown to disclose less (speakers swapped between two systems, p at most 0.05 after "
    "Holm's correction), whether they protect or not; systems that are not told apart share it."
)
EER = "EER: the lowest of all attacks, on the convex hull of the ROC (rocch)."
D_ECE = "D_ECE: the highest of all attacks, corrected for what the highest of several is too high by chance."
SIGNED = "Signatures, of which equal ones are comparable (sha256: the first digits of that of the whole signatures, a line each, in order)"


@dataclass(frozen=True)
class ShownRun:
    """What is shown of a run: what tells it from the others ('' of one alone), the name of its folder, and its tables."""

    name: str
    run: str
    board: pd.DataFrame
    differences: pd.DataFrame
    diagnostics: pd.DataFrame
    rows: pd.DataFrame


@dataclass(frozen=True)
class Board:
    """The tables of one subset: the answer with a sentence a run, the other numbers, and what is needed to read them, a sentence each."""

    subset: str
    sentences: tuple[str, ...]
    first: Table
    further: Table
    notes: tuple[str, ...]


def make_boards(runs: Sequence[ShownRun], only: Sequence[str] = ()) -> list[Board]:
    """The tables of runs with a leaderboard, the subset to read first at the front; ``only`` names those that are wanted, none all."""
    together = pd.concat([run.board for run in runs], ignore_index=True) if runs else pd.DataFrame()
    subsets = order_subsets(together) if len(together) else []
    return [_make_board(runs, subset) for subset in subsets if not only or subset in only]


def _make_board(runs: Sequence[ShownRun], subset: str) -> Board:
    sources = [(run, row) for run in runs for row in list_rows(run.board, subset)]
    rows = [{**row, "run": run.name} for run, row in sources]
    further = _tabulate_further([row for row in rows if not math.isnan(row["d_ece"])])
    sentences = []
    for run in runs:
        if (run.board["subset"] == subset).any():
            sentence = verdict.write_sentence(run.board, run.differences, subset, run.diagnostics)
            sentences.append((f"{run.name}: " if run.name else "") + (sentence or f"On {subset}: {NO_SYSTEM}"))
    return Board(
        subset,
        tuple(sentences),
        _tabulate_first(rows),
        further if any(column.numeric for column in further.columns) else Table([], []),
        (*_write_notes(rows), *_name_runs(runs), *_list_signatures(sources)),
    )


def _tabulate_first(rows: Sequence[Row]) -> Table:
    columns = [
        Column("rank", "number"),
        Column("system"),
        Column("run"),
        Column("strongest attack", unit="of so many"),
        *(measure.paper_column for measure in FIRST),
    ]
    body: list[Line] = [
        [format_rank(row), str(row["system"]), str(row["run"]), _name_attack(row), *_make_cells(row, FIRST)]
        for row in rows
    ]
    return Table(columns, body).without_empty_columns()


def _tabulate_further(rows: Sequence[Row]) -> Table:
    measured = Column("D_ECE as measured", "number", "bit"), Column("EER of that attack", "number", "%")
    columns = [Column("system"), Column("run"), *measured, *(measure.paper_column for measure in FURTHER)]
    body: list[Line] = [
        [str(row["system"]), str(row["run"]), *_make_cells(row, (*OF_STRONGEST, *FURTHER))] for row in rows
    ]
    return Table(columns, body).without_empty_columns()


def _make_cells(row: Row, measures: Sequence[Measure]) -> list[Cell]:
    return [measure.make_cell(row, format_number) for measure in measures]


def _name_attack(row: Row) -> Cell:
    if math.isnan(row["d_ece"]):
        return Cell(DASH)
    attacker, colon, means = verdict.describe_attack(row).partition(": ")
    return Cell(attacker + colon.strip(), f"{means} ({int(row['n_attacks'])})".strip())


# ---------------------------------------------------------------------------------------------------------------- notes


def _name_runs(runs: Sequence[ShownRun]) -> list[str]:
    """Which runs are shown, where there are several."""
    if len(runs) < 2:
        return []
    names = "; ".join(f"{run.name} is {run.run}" for run in runs)
    return [
        f"Runs: {names}. Ranks are within a run: systems of different runs were not tested against each other here."
    ]


def _write_notes(rows: Sequence[Row]) -> Iterator[str]:
    """What the marks and brackets mean, and what is not there, with why."""
    if any(not pd.isna(row["rank"]) for row in rows):
        yield RANK
    yield from (EER, D_ECE, "In square brackets: 95 % interval over speakers.")
    others = dict.fromkeys(
        f"{row['system']}: {row['lowest_eer_attack']}"
        for row in rows
        if row["lowest_eer_attack"] not in ("", verdict.describe_attack(row))
    )
    if others:
        yield f"Lowest EER by another attack: {'; '.join(others)}."
    yield "↑ higher is more private, ↓ lower is more private."
    if any(not math.isnan(row["l_w_ceiling"]) for row in rows):
        sets = ", of a mean over sets the worst of them" if any(row["n_sets"] > 1 for row in rows) else ""
        yield f"l_w: in brackets the largest value that so many trials can show{sets}."
    if any(not math.isnan(row["alid_ceiling"]) for row in rows if not math.isnan(row["alid"])):
        yield "ALID: 0 where nothing is disclosed, in round brackets the most that is possible."
    if any(row["chance"] == "within" for row in rows):
        yield f"{WITHIN} {NOTHING}."
        yield from verdict.list_limits(rows)
    if any(row["status"] == "partial" for row in rows):
        yield f"{PARTIAL} does not stand on everything that was expected: do not compare."
    yield from _explain_missing(rows)
    elsewhere = {name: tuple(_name_other_extractors(rows, name)) for name in TAKEN}
    for texts in dict.fromkeys(filter(None, elsewhere.values())):
        names = join_words(glossary.metric(name).symbol for name, other in elsewhere.items() if other == texts)
        yield f"{names} by another extractor than the attack's: {'; '.join(texts)}."


def _explain_missing(rows: Sequence[Row]) -> Iterator[str]:
    """What has no number or was not tried, and why."""
    named = [(f"{row['run']} {row['system']}".strip(), row) for row in rows]
    nothing = [
        f"{name}: {str(row['reason']).rstrip('.') or 'no attack'}" for name, row in named if math.isnan(row["d_ece"])
    ]
    untried = [f"{name}: {row['untried']}" for name, row in named if row["untried"]]
    without = [
        f"{name}: {str(row['interval_reason']).rstrip('.')}"
        for name, row in named
        if not math.isnan(row["d_ece"]) and row["interval_reason"]
    ]
    for begin, texts in ((f"{DASH} no number of", nothing), ("Not tried:", untried), ("No interval of", without)):
        if texts:
            yield f"{begin} {'; '.join(texts)}."


def _name_other_extractors(rows: Sequence[Row], name: str) -> list[str]:
    """The systems whose number of a metric is not of the extractor of their attack."""
    return [
        f"{row['system']}: {row[f'{name}_by']}"
        for row in rows
        if row[f"{name}_by"] and str(row[f"{name}_by"]).split(", ")[0] != row["extractor"]
    ]


def _list_signatures(sources: Sequence[tuple[ShownRun, Row]]) -> Iterator[str]:
    """The short signatures of all numbers. Those that differ in the metric alone are one, with the fingerprint of them all."""
    runs = {run.name: run for run, _ in sources}
    rows = pd.concat([_select_results(run, [row for other, row in sources if other is run]) for run in runs.values()])
    alike: dict[str, list[tuple[str, str]]] = {}
    for signature, form in signatures.shorten_rows(rows).items():
        metric, _, parts = form.partition("|")
        alike.setdefault(parts, []).append((metric, signature))
    if not alike:
        return
    texts = []
    for parts, members in alike.items():
        digits = signatures.fingerprint("\n".join(sorted(signature for _, signature in members)))
        texts.append(f"{', '.join(dict.fromkeys(metric for metric, _ in members))}|{parts} (sha256 {digits})")
    yield f"{SIGNED}: {'; '.join(texts)}."
    shown = {name for name in ("d_ece", "eer", "l_w", *TAKEN) if any(not math.isnan(row[name]) for _, row in sources)}
    unsigned = [glossary.metric(name).symbol for name in glossary.metrics() if name in shown - set(rows["metric"])]
    if unsigned:
        yield f"{join_words(unsigned)}: from rows of each set, with the signatures that they have there."


def _select_results(run: ShownRun, rows: Sequence[Row]) -> pd.DataFrame:
    """The rows of results that hold the numbers of rows of a leaderboard."""
    table = run.rows
    selected = pd.Series(False, index=table.index)
    eer = (table["metric"] == "eer") & (table["variant"] == "rocch")
    for row in rows:
        of_system = table["system"] == row["system"]
        of_subset = of_system & (table["subset"] == row["subset"])
        attacked = of_subset.copy()
        for name in ATTACK:
            attacked &= table[name] == row[name]
        selected |= attacked & (table["metric"].isin(["d_ece", "l_w", "tag"]) | eer)
        selected |= of_subset & eer & (table["value"] == row["lowest_eer"])
        for name in TAKEN:
            if not math.isnan(row[name]):
                selected |= of_system & (table["metric"] == name) & (table["value"] == row[name])
    return table[selected]


# -------------------------------------------------------------------------------------------------------------- writing


def to_markdown(boards: Iterable[Board]) -> str:
    """The tables as Markdown; '' where there are none."""
    return "".join(map(_write_markdown, boards))


def _write_markdown(board: Board) -> str:
    title = f"**{table.escape_markdown(f'{TITLE}: {board.subset}')}**"
    further = table.to_markdown(board.further)
    parts = [
        title,
        *map(table.escape_markdown, board.sentences),
        table.to_markdown(board.first).rstrip(),
        *(["Other numbers of the systems:", further.rstrip()] if further else []),
        " ".join(map(table.escape_markdown, board.notes)),
    ]
    return "\n\n".join([*parts, ""])


def to_latex(boards: Iterable[Board]) -> str:
    """The tables as LaTeX (needs ``booktabs``), a ``table*`` each; intervals stand below their numbers."""
    return "\n".join(
        table.to_latex(board.first, board.further, caption=" ".join(board.sentences), notes=board.notes, wide=True)
        for board in boards
    )
