"""The answer, first on the page: a sentence, and the leaderboard as a table with an interval dot plot in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import glossary, leaderboard, runs, summaries, verdict
from pipeline.report.leaderboard import number
from pipeline.report.page.parts import TEXT, Column, Download, Table, csv_text
from pipeline.report.page.strip import Axis, Dot, Strip, axis
from pipeline.report.words import NOTHING, joined
from pipeline.tables import answers, results

Row = Mapping[str, Any]
HELD_OUT = "EER on held-out training speakers (%)"
OPEN = 2
"""Subsets whose tables are open; of more than these only the first is, the others are folded."""
NO_RANK = "No rank: systems of different runs were not tested against each other (see: compare RUN RUN)."
RANK = (
    f"Rank: 1 and the systems that are shown to disclose less (paired test, p ≤ {verdict.DIFFERENT} after Holm’s correction), whether they "
    "protect or not; “=” is shared."
)
MEANING = (
    "EER: the lowest of all attacks. D_ECE: the highest of all attacks, corrected for what the highest of several is too high by chance. ↑ higher, "
    "↓ lower is more private. In brackets: 95 % interval over speakers, of that lowest or highest."
)


@dataclass(frozen=True)
class Cell:
    """A number of the leaderboard: as text with its marks, and beneath it its interval."""

    metric: str
    value: str
    beneath: list[str]
    within: bool = False


@dataclass(frozen=True)
class Line:
    """A row of the leaderboard; ``label`` is the system with its run, ``about`` what it stands on, or why there is no number."""

    rank: str
    system: str
    label: str
    protects: bool
    cells: list[Cell]
    strip: Strip | None
    about: list[str]
    partial: bool


@dataclass(frozen=True)
class Board:
    """The leaderboard of one subset, with the sentences above it; ``further`` are the other numbers of its systems."""

    subset: str
    counts: str
    sentences: list[str]
    heads: list[leaderboard.Column]
    lines: list[Line]
    axis: Axis
    notes: list[str]
    further: Table | None


@dataclass(frozen=True)
class Answer:
    """The leaderboards, first what stands first; all attacks as a table, and the tables as CSV."""

    boards: list[Board]
    attacks: Table
    downloads: list[Download]

    @property
    def folded(self) -> bool:
        """Whether the boards after the first are folded."""
        return len(self.boards) > OPEN


def answer(evaluation: runs.Evaluation) -> Answer | None:
    """The first screen; None where no run attacked anything."""
    board = evaluation.leaderboard
    if not len(board):
        return None
    rows, behind = _labelled(evaluation, board), _labelled(evaluation, evaluation.attacks)
    scale = axis(
        [row[name] for row in rows for name in ("d_ece_corrected", "d_ece_high", "null_high")]
        + [row["d_ece"] for row in behind]
    )
    boards = []
    for subset in leaderboard.subsets(board):
        here = _ordered([row for row in rows if row["subset"] == subset], evaluation.several)
        others = [row for row in behind if row["subset"] == subset]
        boards.append(_board(subset, here, others, list(_sentences(evaluation, subset)), scale, evaluation.several))
    kept = {"leaderboard": board, "attacks": evaluation.attacks, "differences": evaluation.differences}
    left = "run_id" if evaluation.several else ["run_id", "run"]
    files = [Download(f"{name}.csv", csv_text(table.drop(columns=left))) for name, table in kept.items() if len(table)]
    return Answer(boards, _attacks(behind), files)


def _labelled(evaluation: runs.Evaluation, table: pd.DataFrame) -> list[Row]:
    """The rows of a table of the answer, with ``label``: the system, and its run if there are several."""
    found = results.records(table)
    shown = [verdict.completed(row) if "lowest_eer" in row else row for row in found]
    return [{**row, "label": evaluation.name(str(row["system"]), str(row["run_id"]))} for row in shown]


def _sentences(evaluation: runs.Evaluation, subset: str) -> Iterator[str]:
    """What could be quoted of a subset, of each run."""
    for run in evaluation.runs:
        board, differences = (
            table[table["run_id"] == run.run_id] for table in (evaluation.leaderboard, evaluation.differences)
        )
        board = board[board["subset"] == subset]
        if not len(board):
            continue
        checks = evaluation.diagnostics[evaluation.diagnostics["run"] == run.label]
        said = verdict.sentence(board, differences, subset, checks) or _none(board)
        yield f"Run {run.label}: {said}" if evaluation.several else said


def _none(board: pd.DataFrame) -> str:
    """What is said where no protected system has a number."""
    without = [row for row in results.records(board) if row["anonymised"]]
    if not without:
        return "No protected speech was attacked: these are the numbers of unprotected speech."
    why = joined(dict.fromkeys(str(row["reason"]) for row in without))
    return f"There is no number for {joined(str(row['system']) for row in without)}{f': {why}' if why else ''}."


def _ordered(rows: list[Row], several: bool) -> list[Row]:
    """Of one run as the table has them; those of several runs among one another, best first."""
    if not several:
        return rows
    return sorted(rows, key=lambda row: (not row["anonymised"], math.isnan(row["d_ece"]), row["d_ece_corrected"]))


def _board(
    subset: str, rows: Sequence[Row], attacks: Sequence[Row], said: list[str], scale: Axis, several: bool
) -> Board:
    known = leaderboard.present(rows, leaderboard.FIRST)
    heads = [one for one in leaderboard.FIRST if one in known or one in (leaderboard.EER, leaderboard.D_ECE)]
    ranks = [row["rank"] for row in rows]
    lines = [
        Line(
            "" if several else _rank(row["rank"], ranks),
            str(row["system"]),
            str(row["label"]),
            bool(row["anonymised"]),
            [_cell(row, column) for column in heads],
            _strip(row, rows, [one for one in attacks if _same(one, row)], scale),
            leaderboard.about(row),
            row["status"] != "ok",
        )
        for row in rows
    ]
    notes = list(_notes(rows, heads, several))
    return Board(subset, _counts(rows), said, heads, lines, scale, notes, _further(rows))


def _same(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("run_id", "system"))


def _rank(rank: Any, ranks: Sequence[Any]) -> str:
    if pd.isna(rank):
        return summaries.DASH
    shared = sum(not pd.isna(other) and other == rank for other in ranks) > 1
    return f"{int(rank)}{'=' if shared else ''}"


def _counts(rows: Sequence[Row]) -> str:
    """Of what the subset is made."""

    def span(name: str) -> str:
        known = sorted({int(row[name]) for row in rows if not pd.isna(row[name])})
        return "" if not known else f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"

    sets = max((int(row["n_sets"]) for row in rows if not pd.isna(row["n_sets"])), default=1)
    counted = [("n_speakers", "speakers"), ("n_target", "target trials"), ("n_nontarget", "non-target trials")]
    parts = [f"{span(name)} {word}" for name, word in counted if span(name)]
    return ", ".join([f"mean of {sets} sets"] * (sets > 1) + parts)


# ---------------------------------------------------------------------------------------------------------------- cells


def _cell(row: Row, column: leaderboard.Column) -> Cell:
    """A number with, beneath it, its interval."""
    value, interval, _ = column.texts(row, number)
    is_number = column.unit != "" and value != summaries.DASH
    within = column is leaderboard.D_ECE and is_number and row["chance"] == "within"
    marks = ["~"] * within + ["†"] * (is_number and row["status"] == "partial")
    return Cell(column.metric, " ".join([value, *marks]), [interval] if interval else [], within)


def _further(rows: Sequence[Row]) -> Table | None:
    """What is known of the systems beside the answer; None where that is nothing."""
    columns = leaderboard.present(rows, (*leaderboard.OF_STRONGEST, *leaderboard.FURTHER))
    if not columns:
        return None
    body = [[str(row["label"]), *(" ".join(filter(None, one.texts(row, number))) for one in columns)] for row in rows]
    note = " ".join(dict.fromkeys(filter(None, (glossary.metric(one.metric).caution for one in columns))))
    return Table([Column("system"), *(Column(one.head, "number") for one in columns)], body, note=note)


def _notes(rows: Sequence[Row], heads: Sequence[leaderboard.Column], several: bool) -> Iterator[str]:
    if any(row["chance"] == "within" for row in rows):
        yield f"~ {NOTHING}."
    if any(row["status"] == "partial" for row in rows):
        yield "† does not stand on everything that was expected; do not compare."
    yield NO_RANK if several else RANK
    yield MEANING
    if any(one.metric == "tag" for one in heads):
        yield "The tag is that of the strongest attack."


# ---------------------------------------------------------------------------------------------------------------- strip


def _strip(row: Row, rows: Sequence[Row], attacks: Sequence[Row], scale: Axis) -> Strip | None:
    """The attacks on a system; None where there is no number."""
    if math.isnan(row["d_ece"]):
        return None
    own = {name: row[name] for name in answers.ATTACK}
    others = [
        one
        for one in attacks
        if not math.isnan(one["d_ece"]) and any(one[name] != own[name] for name in answers.ATTACK)
    ]
    unprotected = next(
        (one["d_ece_corrected"] for one in rows if not one["anonymised"] and one["run_id"] == row["run_id"]), math.nan
    )
    dots = [Dot(scale.at(one["d_ece"]), _titled(one), False) for one in others]
    has_interval = not math.isnan(row["d_ece_low"])
    value = number(row["d_ece_corrected"], "bit")
    corrected = "" if value == number(row["d_ece"], "bit") else f", corrected {value}"
    strongest = f"{_titled(row)}{corrected}" + (
        f", 95 % interval {number(row['d_ece_low'], 'bit')} to {number(row['d_ece_high'], 'bit')}"
        if has_interval
        else ""
    )
    said = [f"{row['label']}: strongest attack {strongest}"]
    if others:
        said.append(f"other attacks: {'; '.join(map(_titled, others))}")
    if not math.isnan(row["null_high"]):
        said.append(f"chance up to {number(row['null_high'], 'bit')} bit")
    if not math.isnan(unprotected):
        said.append(f"unprotected speech {number(unprotected, 'bit')} bit")
    return Strip(
        [*dots, Dot(scale.at(row["d_ece_corrected"]), strongest, True)],
        (scale.at(row["d_ece_low"]), scale.at(row["d_ece_high"])) if has_interval else None,
        None if math.isnan(row["null_high"]) else scale.at(row["null_high"]),
        None if math.isnan(unprotected) else scale.at(unprotected),
        ". ".join(said),
    )


def _titled(row: Row) -> str:
    return f"{verdict.attack(row)}: {number(row['d_ece'], 'bit')} bit"


def _attacks(rows: Sequence[Row]) -> Table:
    """All attacks, the strongest on each system first."""
    heads = ["subset", "system", "attack", "D_ECE (bit) ↓", "95 % interval", "EER (%) ↑", "95 % interval", HELD_OUT, "as strong as can be told"]  # fmt: skip
    body = []
    for row in rows:
        numbers = []
        for name, unit in (("d_ece", "bit"), ("eer", "fraction")):
            ends = [row[f"{name}_{end}"] for end in ("low", "high")]
            interval = (
                "" if any(map(math.isnan, ends)) else f"[{', '.join(summaries.number(end, unit) for end in ends)}]"
            )
            numbers += [summaries.number(row[name], unit), interval]
        body.append(
            [
                str(row["subset"]),
                str(row["label"]),
                verdict.attack(row),
                *numbers,
                summaries.number(row.get("held_out", math.nan), "fraction"),
                "yes" if row["contends"] else "",
            ]
        )
    columns = [Column(head, "number" if 2 < place < 8 else TEXT) for place, head in enumerate(heads)]
    kept = [
        place
        for place, head in enumerate(heads)
        if head != HELD_OUT or {line[place] for line in body} - {summaries.DASH}
    ]
    return Table([columns[place] for place in kept], [[line[place] for place in kept] for line in body], left=2)
