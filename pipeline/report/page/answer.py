"""The answer, first on the page: a sentence, and the leaderboard as a table with an interval dot plot in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import glossary, leaderboard, runs, verdict
from pipeline.report.formats import DASH, NOTHING, format_interval, format_number, join_words
from pipeline.report.leaderboard import Measure, format_short
from pipeline.report.page import Download, write_csv
from pipeline.report.table import Cell, Column, Table
from pipeline.report.table import Line as TableLine
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
    measures: list[Measure]
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


def make_answer(evaluation: runs.Evaluation) -> Answer | None:
    """The first screen; None where no run attacked anything."""
    board = evaluation.leaderboard
    if not len(board):
        return None
    rows, behind = _label_rows(evaluation, board), _label_rows(evaluation, evaluation.attacks)
    scale = make_axis(
        [row[name] for row in rows for name in ("d_ece_corrected", "d_ece_high", "null_high")]
        + [row["d_ece"] for row in behind]
    )
    boards = []
    for subset in leaderboard.order_subsets(board):
        here = _order_rows([row for row in rows if row["subset"] == subset], evaluation.several)
        others = [row for row in behind if row["subset"] == subset]
        boards.append(
            _make_board(subset, here, others, list(_write_sentences(evaluation, subset)), scale, evaluation.several)
        )
    kept = {"leaderboard": board, "attacks": evaluation.attacks, "differences": evaluation.differences}
    left = "run_id" if evaluation.several else ["run_id", "run"]
    files = [Download(f"{name}.csv", write_csv(table.drop(columns=left))) for name, table in kept.items() if len(table)]
    return Answer(boards, _tabulate_attacks(behind), files)


def _label_rows(evaluation: runs.Evaluation, table: pd.DataFrame) -> list[Row]:
    """The rows of a table of the answer, with ``label``: the system, and its run if there are several."""
    rows = [{**row, "label": evaluation.name(str(row["system"]), str(row["run_id"]))} for row in results.records(table)]
    return [verdict.complete_row(row) if "d_ece_corrected" in row else row for row in rows]


def _write_sentences(evaluation: runs.Evaluation, subset: str) -> Iterator[str]:
    """What could be quoted of a subset, of each run."""
    for run in evaluation.runs:
        board, differences = (
            table[table["run_id"] == run.run_id] for table in (evaluation.leaderboard, evaluation.differences)
        )
        board = board[board["subset"] == subset]
        if not len(board):
            continue
        checks = evaluation.diagnostics[evaluation.diagnostics["run"] == run.label]
        sentence = verdict.write_sentence(board, differences, subset, checks) or _explain_nothing(board)
        yield f"Run {run.label}: {sentence}" if evaluation.several else sentence


def _explain_nothing(board: pd.DataFrame) -> str:
    """What is said where no protected system has a number."""
    without = [row for row in results.records(board) if row["anonymised"]]
    if not without:
        return "No protected speech was attacked: these are the numbers of unprotected speech."
    why = join_words(dict.fromkeys(str(row["reason"]) for row in without))
    return f"There is no number for {join_words(str(row['system']) for row in without)}{f': {why}' if why else ''}."


def _order_rows(rows: list[Row], of_several_runs: bool) -> list[Row]:
    """Of one run as the table has them; those of several runs among one another, best first."""
    if not of_several_runs:
        return rows
    return sorted(rows, key=lambda row: (not row["anonymised"], math.isnan(row["d_ece"]), row["d_ece_corrected"]))


def _make_board(
    subset: str, rows: Sequence[Row], attacks: Sequence[Row], sentences: list[str], scale: Axis, of_several_runs: bool
) -> Board:
    with_value = leaderboard.select_known(rows, leaderboard.FIRST)
    always = (leaderboard.EER, leaderboard.D_ECE)
    heads = [measure for measure in leaderboard.FIRST if measure in with_value or measure in always]
    ranks = [row["rank"] for row in rows if not pd.isna(row["rank"])]
    lines = []
    for row in rows:
        rank: str = DASH if pd.isna(row["rank"]) else f"{int(row['rank'])}{'=' if ranks.count(row['rank']) > 1 else ''}"
        own = [attack for attack in attacks if all(attack[name] == row[name] for name in ("run_id", "system"))]
        lines.append(
            Line(
                "" if of_several_runs else rank,
                str(row["system"]),
                str(row["label"]),
                bool(row["anonymised"]),
                [measure.make_cell(row, format_short) for measure in heads],
                _draw_strip(row, rows, own, scale),
                leaderboard.describe_attacks(row),
                row["status"] != "ok",
            )
        )
    notes = list(_write_notes(rows, heads, of_several_runs))
    return Board(subset, _count_trials(rows), sentences, heads, lines, scale, notes, _tabulate_further(rows))


def _count_trials(rows: Sequence[Row]) -> str:
    """Of what the subset is made."""

    def span(name: str) -> str:
        counts = sorted({int(row[name]) for row in rows if not pd.isna(row[name])})
        return "" if not counts else f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"

    sets = max((int(row["n_sets"]) for row in rows if not pd.isna(row["n_sets"])), default=1)
    counted = [("n_speakers", "speakers"), ("n_target", "target trials"), ("n_nontarget", "non-target trials")]
    parts = [f"{span(name)} {word}" for name, word in counted if span(name)]
    return ", ".join([f"mean of {sets} sets"] * (sets > 1) + parts)


# ---------------------------------------------------------------------------------------------------------------- cells


def _tabulate_further(rows: Sequence[Row]) -> Table | None:
    """What is known of the systems beside the answer; None where that is nothing."""
    measures = leaderboard.select_known(rows, (*leaderboard.OF_STRONGEST, *leaderboard.FURTHER))
    if not measures:
        return None
    body: list[TableLine] = [
        [str(row["label"]), *(measure.make_cell(row, format_short) for measure in measures)] for row in rows
    ]
    notes = dict.fromkeys(filter(None, (glossary.metric(measure.metric).caution for measure in measures)))
    return Table([Column("system"), *(Column(measure.head, "number") for measure in measures)], body, notes=list(notes))


def _write_notes(rows: Sequence[Row], heads: Sequence[Measure], of_several_runs: bool) -> Iterator[str]:
    if any(row["chance"] == "within" for row in rows):
        yield f"~ {NOTHING}."
    if any(row["status"] == "partial" for row in rows):
        yield "† does not stand on everything that was expected; do not compare."
    yield NO_RANK if of_several_runs else RANK
    yield MEANING
    if any(measure.metric == "tag" for measure in heads):
        yield "The tag is that of the strongest attack."


# ---------------------------------------------------------------------------------------------------------------- strip


def _draw_strip(row: Row, rows: Sequence[Row], attacks: Sequence[Row], scale: Axis) -> Strip | None:
    """The attacks on a system; None where there is no number."""
    if math.isnan(row["d_ece"]):
        return None
    own = {name: row[name] for name in answers.ATTACK}
    others = [
        attack
        for attack in attacks
        if not math.isnan(attack["d_ece"]) and any(attack[name] != own[name] for name in answers.ATTACK)
    ]
    originals = [other for other in rows if not other["anonymised"] and other["run_id"] == row["run_id"]]
    unprotected = originals[0]["d_ece_corrected"] if originals else math.nan
    dots = [Dot(scale.at(attack["d_ece"]), _title_attack(attack), False) for attack in others]
    has_interval = not math.isnan(row["d_ece_low"])
    value = format_short(row["d_ece_corrected"], "bit")
    corrected = "" if value == format_short(row["d_ece"], "bit") else f", corrected {value}"
    ends = (format_short(row["d_ece_low"], "bit"), format_short(row["d_ece_high"], "bit"))
    strongest = f"{_title_attack(row)}{corrected}" + (f", 95 % interval {ends[0]} to {ends[1]}" if has_interval else "")
    texts = [f"{row['label']}: strongest attack {strongest}"]
    if others:
        texts.append(f"other attacks: {'; '.join(map(_title_attack, others))}")
    if not math.isnan(row["null_high"]):
        texts.append(f"chance up to {format_short(row['null_high'], 'bit')} bit")
    if not math.isnan(unprotected):
        texts.append(f"unprotected speech {format_short(unprotected, 'bit')} bit")
    return Strip(
        [*dots, Dot(scale.at(row["d_ece_corrected"]), strongest, True)],
        (scale.at(row["d_ece_low"]), scale.at(row["d_ece_high"])) if has_interval else None,
        None if math.isnan(row["null_high"]) else scale.at(row["null_high"]),
        None if math.isnan(unprotected) else scale.at(unprotected),
        ". ".join(texts),
    )


def _title_attack(row: Row) -> str:
    return f"{verdict.describe_attack(row)}: {format_short(row['d_ece'], 'bit')} bit"


def _tabulate_attacks(rows: Sequence[Row]) -> Table:
    """All attacks, the strongest on each system first."""
    numbers = ["D_ECE (bit) ↓", "95 % interval", "EER (%) ↑", "95 % interval", HELD_OUT]
    held_out = any(not math.isnan(row.get("held_out", math.nan)) for row in rows)
    numbers = numbers if held_out else numbers[:-1]
    columns = [
        *map(Column, ("subset", "system", "attack")),
        *(Column(head, "number") for head in numbers),
        Column("as strong as can be told"),
    ]
    body = []
    for row in rows:
        line = [str(row["subset"]), str(row["label"]), verdict.describe_attack(row)]
        for name, unit in (("d_ece", "bit"), ("eer", "fraction")):
            line += [format_number(row[name], unit), format_interval(row[f"{name}_low"], row[f"{name}_high"], unit)]
        line += [format_number(row.get("held_out", math.nan), "fraction")] if held_out else []
        body.append([*line, "yes" if row["contends"] else ""])
    return Table(columns, body, left=2)


# ------------------------------------------------------------------------------------------------ interval dot plot

FULL = 1 / (2 * math.log(2))
"""D_ECE of scores that tell all speakers apart, in bit."""
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
MOST_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """From 0 to ``top`` bit."""

    top: float
    step: float

    def at(self, value: float) -> float:
        """Where a value stands, in percent; what is outside stands at the end."""
        return round(100 * min(max(value / self.top, 0.0), 1.0), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(Where, what is written there)."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        numbers = [place * self.step for place in range(int(self.top / self.step + 1e-9) + 1)]
        return [(self.at(number), f"{number:.{digits}f}" if number else "0") for number in numbers]


def make_axis(values: Iterable[float]) -> Axis:
    """An axis that holds all values, NaN left out; no longer than the most that can be given away."""
    most = max((value for value in values if math.isfinite(value)), default=FULL)
    most = min(max(most, STEPS[0]), FULL)
    step = next((size for size in STEPS if most / size <= MOST_TICKS), STEPS[-1])
    return Axis(min(step * math.ceil(most / step - 1e-9), max(most, FULL)), step)


@dataclass(frozen=True)
class Dot:
    """An attack on the axis, and what is said of it."""

    x: float
    title: str
    strongest: bool


@dataclass(frozen=True)
class Strip:
    """The attacks on one system, the strongest last, so that it lies on top; its interval, the upper end of the null band, and what
    unprotected speech gives away, each None where it is not known; all of it in words."""

    dots: Sequence[Dot]
    interval: tuple[float, float] | None
    chance: float | None
    unprotected: float | None
    label: str
