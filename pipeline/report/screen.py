"""The last screen of a run: at most :data:`LINES` lines of :data:`leaderboard.WIDTH` columns, whatever was evaluated.

What has no room is counted, and stands in full in the run's ``summary.txt`` and report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from rich.cells import cell_len

from pipeline.report import findings, leaderboard, verdict
from pipeline.report.findings import Finding
from pipeline.report.formats import count_noun
from pipeline.report.leaderboard import WIDTH
from pipeline.report.summaries import summarise
from pipeline.report.table import WIDEST, Table, fit_columns, format_lines, make_printable, shorten, shorten_names, wrap
from pipeline.tables import answers, results
from pipeline.tables.run_files import LIMITS_TITLE

LINES = 40
LONGEST_DOUBT = 240
LONGEST_NAME = 28
"""Columns of a name in a table of numbers."""


@dataclass(frozen=True)
class Shown:
    """What a run has to show: its tables, its systems in their order, what a reader must know first, and what it lacks, in a sentence."""

    rows: pd.DataFrame
    board: pd.DataFrame
    differences: pd.DataFrame
    diagnostics: pd.DataFrame
    bands: pd.DataFrame
    systems: Sequence[str]
    limits: Sequence[str]
    missing: str = ""


@dataclass(frozen=True)
class _Layout:
    """Lines that each part may take, of each of the ``doubts`` so many as ``doubt``; ``further`` is the second table."""

    sentence: int
    limits: int
    doubts: int
    doubt: int
    attacks: bool = True
    cut: bool = False
    further: bool = False


LAYOUTS = (
    _Layout(9, 10, 5, 3, further=True), _Layout(9, 6, 3, 2, further=True), _Layout(9, 10, 5, 3), _Layout(9, 6, 3, 3),
    _Layout(9, 6, 3, 2), _Layout(9, 6, 3, 1), _Layout(6, 3, 3, 1), _Layout(6, 2, 1, 1), _Layout(6, 1, 0, 1),
    _Layout(6, 3, 3, 1, attacks=False), _Layout(4, 2, 1, 1, attacks=False), _Layout(4, 2, 1, 1, attacks=False, cut=True),
)  # fmt: skip
"""From the most to the least that is said beside the table."""


def write_screen(shown: Shown, below: Sequence[str] = ()) -> str:
    """The screen; ``below`` are lines that follow on the same screen, those that are wider take several."""
    most = LINES - sum(max(1, -(-cell_len(line) // WIDTH)) for line in below)
    doubts = _select_doubts(shown)
    for layout in LAYOUTS:
        parts = _lay_out(shown, doubts, layout, most)
        if sum(map(len, parts)) <= most:
            break
    return "".join(f"{line}\n" for part in parts for line in part)


def _lay_out(shown: Shown, doubts: Sequence[Finding], layout: _Layout, most: int) -> list[list[str]]:
    """Head, table and foot: what must be known stands before numbers that have no sentence, and where something is missing."""
    attacked = leaderboard.is_attacked(shown.board)
    limits = list(_list_limits(shown.limits, layout.limits * (2 if shown.missing else 1)))
    foot = [*_list_doubts(doubts, layout), *_list_conditions(shown.bands)]
    if shown.missing or not attacked:
        missing = wrap(shown.missing, WIDTH, first="! ", then="  ", most=min(4, layout.limits))
        head = [*missing, *limits, ""] if missing or limits else []
    else:
        head, foot = [], [*foot, *limits]
    if not attacked:
        return [head, list(_list_numbers(shown, max(most - len(head) - len(foot), 1))), foot]
    first = leaderboard.order_subsets(shown.board)[0]
    sentence = verdict.write_sentence(shown.board, shown.differences, first, shown.diagnostics, LONGEST_DOUBT)
    head += [leaderboard.TITLE, "", *wrap(sentence, WIDTH, most=layout.sentence), *([""] if sentence else [])]
    foot = [*leaderboard.write_legend(shown.board), *foot]
    return [head, _list_boards(shown.board, layout, most - len(head) - len(foot)), foot]


def _list_boards(board: pd.DataFrame, layout: _Layout, most: int) -> list[str]:
    """The table of the first subset, of others as far as there is room, and the names of those that are left."""

    def format_subset(name: str) -> list[str]:
        title = shorten(make_printable(name), WIDTH)
        return [title, *leaderboard.format_board(board, name, attacks=layout.attacks)]

    first, *others = leaderboard.order_subsets(board)
    lines = format_subset(first)
    further = leaderboard.format_further(board, first) if layout.further else []
    lines += ["", *further] if further else []
    room = most - 1
    if len(lines) > room and layout.cut:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more systems: leaderboard.csv"]
    while others and len(lines) < room:
        another = ["", *format_subset(others[0])]
        if len(lines) + len(another) > room:
            break
        lines += another
        del others[0]
    known = leaderboard.select_known(leaderboard.list_rows(board, first), leaderboard.FURTHER)
    missing = [name for measure in known if (name := measure.head.split()[0]) not in "".join(further[:1])]
    elsewhere = "; ".join(filter(None, [", ".join(missing), ", ".join(others)]))
    also = f"; also in leaderboard.csv: {elsewhere}" if elsewhere else ""
    return [*lines, shorten(make_printable(f"all attacks: attacks.csv{also}"), WIDTH)]


# ---------------------------------------------------------------------------------------------- what stands beside it


def _list_limits(limits: Sequence[str], most: int) -> Iterator[str]:
    """What a reader must know first: as many sentences as have room, the first of them in any case, and how many there are more."""
    if not limits:
        return
    yield f"{LIMITS_TITLE}:"
    used = 0
    for number, limit in enumerate(limits):
        lines = wrap(limit, WIDTH, first="- ", then="  ", most=WIDEST if number else most)
        if number and used + len(lines) > most:
            yield f"  and {len(limits) - number} more: summary.txt"
            return
        used += len(lines)
        yield from lines


def _select_doubts(shown: Shown) -> list[Finding]:
    """The findings that cast doubt on attacks, but for the one in the sentence."""
    flagged = sorted(findings.findings(shown.diagnostics).flagged, key=lambda finding: finding.check in verdict.ADVICE)
    subsets = leaderboard.order_subsets(shown.board) if len(shown.board) else []
    verdicts = verdict.find_verdicts(shown.board, shown.differences, subsets[0], shown.diagnostics) if subsets else []
    quoted = verdict.find_doubt(verdict.find_lead(verdicts).row, shown.diagnostics) if verdicts else ""
    return [finding for finding in flagged if finding.sentence != quoted]


def _list_doubts(doubts: Sequence[Finding], layout: _Layout) -> Iterator[str]:
    """Some of the findings, and how many there are more."""
    for finding in doubts[: layout.doubts]:
        text = finding.sentence + (f" ({finding.applies})" if finding.applies else "")
        yield from wrap(text, WIDTH, first="! ", then="  ", most=layout.doubt)
    if len(doubts) > layout.doubts:
        yield f"  and {count_noun(len(doubts) - layout.doubts, 'more doubt')}: summary.txt"


def _list_conditions(bands: pd.DataFrame) -> list[str]:
    """Which minimum-EER conditions the systems meet, in a line or two."""
    if not len(bands):
        return []
    met: dict[str, list[str]] = {}
    for row in results.records(bands):
        level = str(int(row["met"])) if row["met"] else "none"
        by = "" if row["ranked_by"] != answers.STRONGEST else f", {row['ranked_by']} {level}"
        met.setdefault(str(row["system"]), []).append(by or level)
    systems = "; ".join(f"{system} {''.join(levels).lstrip(', ')}" for system, levels in met.items())
    return wrap(f"Minimum-EER condition met on {bands['subset'].iloc[0]}: {systems}", WIDTH, most=2)


# ---------------------------------------------------------------------------------------------------- without an attack


def _list_numbers(shown: Shown, most: int) -> Iterator[str]:
    """The compact tables as far as they have room."""
    room = most - 1
    tables = summarise(shown.rows, shown.systems, cautions=False)
    complete = [line for table in tables for line in _format_table(table, WIDEST)]
    if len(complete) <= room:
        yield from complete
        return
    for place, table in enumerate(tables):
        # Each has its share; where that is nothing, the first ones have room and the others are counted.
        lines = list(_format_table(table, room // (len(tables) - place))) or list(_format_table(table, room))
        if not lines:
            yield f"… {count_noun(len(tables) - place, 'more table')}: summary.txt"
            return
        yield from lines
        room -= len(lines)


def _format_table(table: Table, most: int) -> Iterator[str]:
    """A table cut to the columns and rows that have room; nothing where not even a row has."""
    notes = [line for note in table.notes for line in wrap(note, WIDTH, most=2)][:4]
    rows = most - len(notes) - 6
    if rows < 1:
        return
    names = [shorten_names(texts, LONGEST_NAME) for texts in list(zip(*table.texts))[: table.left]]
    left = zip(*names) if names else [()] * len(table.body)
    body = [[*short, *row[table.left :]] for short, row in zip(left, table.body)]
    fitted, left_out = fit_columns(replace(table, body=body), WIDTH, table.left + 1)
    yield from (table.title, "")
    yield from format_lines(replace(fitted, body=fitted.body[:rows]), WIDTH)
    more = [count_noun(len(body) - rows, "more row")] if len(body) > rows else []
    more += [f"no room for {', '.join(left_out)}"] if left_out else []
    if more:
        yield shorten(f"… {'; '.join(more)}: summary.txt", WIDTH)
    yield from notes
    yield ""
