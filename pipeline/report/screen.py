"""The last screen of a run: at most :data:`LINES` lines of :data:`leaderboard.WIDTH` columns, whatever was evaluated.

What has no room is counted, and stands in full in the run's ``summary.txt`` and report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.report import findings, leaderboard, summaries, verdict
from pipeline.report.findings import Finding
from pipeline.report.fitting import cut, distinct, height, plain, wrapped
from pipeline.report.leaderboard import WIDTH
from pipeline.report.summaries import Summary, on_screen
from pipeline.tables import bands as conditions
from pipeline.tables import results, run_files

LINES = 40
LONGEST_DOUBT = 240
LONGEST_NAME = 28
"""Columns of a name in a table of numbers."""


@dataclass(frozen=True)
class Shown:
    """What a run has to show.

    Attributes:
        rows, board, differences, diagnostics, bands: its tables.
        systems: in the order of the tables.
        limits: what a reader must know first.
        missing: what the run lacks, in a sentence; '' if nothing.
    """

    rows: pd.DataFrame
    board: pd.DataFrame
    differences: pd.DataFrame
    diagnostics: pd.DataFrame
    bands: pd.DataFrame
    systems: Sequence[str]
    limits: Sequence[str]
    missing: str = ""


@dataclass(frozen=True)
class _Room:
    """Lines that each part may take; ``doubt`` those of each of the ``doubts``. What is not ``whole`` has a table that is cut; ``further``
    is the second table."""

    sentence: int
    limits: int
    doubts: int
    doubt: int
    attacks: bool = True
    whole: bool = True
    further: bool = False


ROOMS = (
    _Room(9, 10, 5, 3, further=True), _Room(9, 6, 3, 2, further=True), _Room(9, 10, 5, 3), _Room(9, 6, 3, 3), _Room(9, 6, 3, 2),
    _Room(9, 6, 3, 1), _Room(6, 3, 3, 1), _Room(6, 2, 1, 1), _Room(6, 1, 0, 1), _Room(6, 3, 3, 1, attacks=False),
    _Room(4, 2, 1, 1, attacks=False), _Room(4, 2, 1, 1, attacks=False, whole=False),
)  # fmt: skip
"""From the most to the least that is said beside the table."""


def screen(shown: Shown, below: Sequence[str] = ()) -> str:
    """The screen.

    Args:
        shown: what there is.
        below: lines that follow on the same screen; those that are wider take several.
    """
    most = LINES - height(below, WIDTH)
    doubts = _others(shown)
    for room in ROOMS:
        parts = _parts(shown, doubts, room, most)
        if sum(map(len, parts)) <= most:
            break
    return "".join(f"{line}\n" for part in parts for line in part)


def _parts(shown: Shown, doubts: Sequence[Finding], room: _Room, most: int) -> list[list[str]]:
    """Head, table and foot: what must be known stands before numbers that have no sentence, and where something is missing."""
    attacked = leaderboard.attacked(shown.board)
    known = list(_limits(shown.limits, room.limits * (2 if shown.missing else 1)))
    foot = [*_doubts(doubts, room), *_conditions(shown.bands)]
    if shown.missing or not attacked:
        missing = wrapped(shown.missing, WIDTH, first="! ", then="  ", most=min(4, room.limits))
        head = [*missing, *known, ""] if missing or known else []
    else:
        head, foot = [], [*foot, *known]
    if not attacked:
        return [head, list(_numbers(shown, max(most - len(head) - len(foot), 1))), foot]
    head += _answer(shown, room.sentence)
    foot = [*leaderboard.legend(shown.board), *foot]
    return [head, _boards(shown.board, room, most - len(head) - len(foot)), foot]


# ----------------------------------------------------------------------------------------------------------- the answer


def _answer(shown: Shown, most: int) -> list[str]:
    first = leaderboard.subsets(shown.board)[0]
    said = verdict.sentence(shown.board, shown.differences, first, shown.diagnostics, LONGEST_DOUBT)
    return [leaderboard.TITLE, "", *wrapped(said, WIDTH, most=most), *([""] if said else [])]


def _boards(board: pd.DataFrame, room: _Room, most: int) -> list[str]:
    """The table of the first subset, of others as far as there is room, and the names of those that are left."""
    first, *others = leaderboard.subsets(board)
    found = [cut(plain(first), WIDTH), *leaderboard.lines(board, first, attacks=room.attacks)]
    more = leaderboard.further(board, first) if room.further else []
    found += ["", *more] if more else []
    fits = most - 1
    if len(found) > fits and not room.whole:
        found = [*found[: fits - 1], f"… {len(found) - fits + 1} more systems: leaderboard.csv"]
    while others and len(found) < fits:
        another = ["", cut(plain(others[0]), WIDTH), *leaderboard.lines(board, others[0], attacks=room.attacks)]
        if len(found) + len(another) > fits:
            break
        found += another
        del others[0]
    lacking = [one for one in leaderboard.further_heads(board, first) if not more or one not in more[0]]
    elsewhere = "; ".join(filter(None, [", ".join(lacking), ", ".join(others)]))
    also = f"; also in leaderboard.csv: {elsewhere}" if elsewhere else ""
    return [*found, cut(plain(f"all attacks: attacks.csv{also}"), WIDTH)]


# ------------------------------------------------------------------------------------------------- what is said beside it


def _limits(said: Sequence[str], most: int) -> Iterator[str]:
    """What a reader must know first: as many sentences as have room, the first of them in any case, and how many there are more."""
    if not said:
        return
    yield f"{run_files.LIMITS_TITLE}:"
    used = 0
    for number, one in enumerate(said):
        lines = wrapped(one, WIDTH, first="- ", then="  ", most=most if number == 0 else 10**6)
        if number and used + len(lines) > most:
            yield f"  and {len(said) - number} more: summary.txt"
            return
        used += len(lines)
        yield from lines


def _others(shown: Shown) -> list[Finding]:
    """The findings that cast doubt on attacks, but for the one in the sentence."""
    flagged = sorted(findings.findings(shown.diagnostics).flagged, key=lambda one: one.check in verdict.ADVICE)
    subsets = leaderboard.subsets(shown.board) if len(shown.board) else []
    found = verdict.verdicts(shown.board, shown.differences, subsets[0], shown.diagnostics) if subsets else []
    said = verdict.doubt_about(verdict.lead(found).row, shown.diagnostics) if found else ""
    return [one for one in flagged if one.sentence != said]


def _doubts(others: Sequence[Finding], room: _Room) -> Iterator[str]:
    """Some of the findings, and how many there are more."""
    for finding in others[: room.doubts]:
        text = finding.sentence + (f" ({finding.applies})" if finding.applies else "")
        yield from wrapped(text, WIDTH, first="! ", then="  ", most=room.doubt)
    if len(others) > room.doubts:
        yield f"  and {_counted(len(others) - room.doubts, 'more doubt')}: summary.txt"


def _conditions(bands: pd.DataFrame) -> list[str]:
    """Which minimum-EER conditions the systems meet, in a line or two."""
    if not len(bands):
        return []
    met: dict[str, list[str]] = {}
    for row in results.records(bands):
        level = str(int(row["met"])) if row["met"] else "none"
        by = "" if row["ranked_by"] != conditions.STRONGEST else f", {row['ranked_by']} {level}"
        met.setdefault(str(row["system"]), []).append(by or level)
    said = "; ".join(f"{system} {''.join(levels).lstrip(', ')}" for system, levels in met.items())
    return wrapped(f"Minimum-EER condition met on {bands['subset'].iloc[0]}: {said}", WIDTH, most=2)


# ---------------------------------------------------------------------------------------------------- without an attack


def _numbers(shown: Shown, most: int) -> Iterator[str]:
    """The compact tables as far as they have room."""
    left = most - 1
    tables = summaries.summarise(shown.rows, shown.systems)
    whole = [line for summary in tables for line in _table(summary, 10**6)]
    if len(whole) <= left:
        yield from whole
        return
    for place, summary in enumerate(tables):
        # Each has its share; where that is nothing, the first ones have room and the others are counted.
        lines = list(_table(summary, left // (len(tables) - place))) or list(_table(summary, left))
        if not lines:
            yield f"… {_counted(len(tables) - place, 'more table')}: summary.txt"
            return
        yield from lines
        left -= len(lines)


def _table(summary: Summary, most: int) -> Iterator[str]:
    """A table cut to the columns and rows that have room; nothing where not even a row has."""
    notes = [
        line for note in summaries.footnotes(summary, False, cautions=False) for line in wrapped(note, WIDTH, most=2)
    ][:4]
    rows = most - len(notes) - 6
    if rows < 1:
        return
    heads = [*(summaries.LABELS[column] for column in summary.left), *summary.heads]
    left = [distinct(names, LONGEST_NAME) for names in zip(*(names for names, _ in summary.body))]
    body = [
        [*(names[place] for names in left), *(cell.shown() for cell in cells)]
        for place, (_, cells) in enumerate(summary.body)
    ]
    lacking: list[str] = []
    while len(heads) > len(summary.left) + 1 and _wide(heads, body):
        lacking.insert(0, heads[-1])
        heads, body = heads[:-1], [cells[:-1] for cells in body]
    yield from (summary.title, "")
    yield from (
        cut(line, WIDTH) for line in summaries.aligned(heads, body[:rows], range(min(len(summary.left), len(heads))))
    )
    more = [_counted(len(body) - rows, "more row")] if len(body) > rows else []
    more += [f"no room for {', '.join(lacking)}"] if lacking else []
    if more:
        yield cut(f"… {'; '.join(more)}: summary.txt", WIDTH)
    yield from notes
    yield ""


def _wide(heads: Sequence[str], body: Iterable[Sequence[str]]) -> bool:
    return sum(max(map(on_screen, column)) + 2 for column in zip(heads, *body)) - 2 > WIDTH


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
