"""Was the attack strong enough, and is each number what it seems?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.diagnostics import grouping as diagnostics
from pipeline.diagnostics import strongest as chosen
from pipeline.diagnostics.sentences import OF_NUMBERS
from pipeline.report import runs
from pipeline.report import strongest as first
from pipeline.report.page.parts import Column, Download, Kind, Table, csv_text


@dataclass(frozen=True)
class Attack:
    """How strong the attack was.

    Attributes:
        flagged: what casts doubt on attacks, and with them on results.
        table: the same as a table.
        misleading: numbers that say more than there is, as a table; None where there are none.
        others: the other checks, by what they look at.
        checks: how many there are.
    """

    flagged: list[diagnostics.Finding]
    table: Table
    misleading: Table | None
    others: list[tuple[str, Table]]
    checks: int
    download: Download


def attack(evaluation: runs.Evaluation) -> Attack | None:
    frame = evaluation.diagnostics
    if not len(frame):
        return None
    found = diagnostics.findings(frame)
    doubts = [one for one in found.flagged if one.check not in OF_NUMBERS]
    misleading = [one for one in found.flagged if one.check in OF_NUMBERS]
    return Attack(
        doubts,
        _table(found.places, doubts, marked=True),
        _table(found.places, misleading, marked=True) if misleading else None,
        [(diagnostics.title(check), _table(found.places, part)) for check, part in found.unflagged().items()],
        len(frame),
        Download("diagnostics.csv", csv_text(frame if evaluation.several else frame.drop(columns="run"))),
    )


def _table(places: Sequence[str], part: Sequence[diagnostics.Finding], marked: bool = False) -> Table:
    columns = [*(Column(diagnostics.PLACE[name][0]) for name in places), Column("what was found", "sentence")]
    body = [
        [*(diagnostics.values(box, index) for index in range(len(places))), finding.sentence]
        for finding in part
        for box in finding.boxes
    ]
    return Table(columns, body, frozenset(range(len(body))) if marked else frozenset())


def strongest(evaluation: runs.Evaluation) -> Table | None:
    """The attack that each system's numbers stand on, of each run."""
    body: list[list[str]] = []
    notes: list[str] = []
    for run in evaluation.runs:
        choice = chosen.read(run.folder)
        rows = evaluation.rows[evaluation.rows["run_id"] == run.run_id]
        mark = [run.label] if evaluation.several else []
        body += [[*mark, *line] for line in first.lines(choice, rows, evaluation.systems)]
        notes += first.notes(choice, rows) if len(choice) else []
    if not body:
        return None
    kinds: dict[int, Kind] = {**dict.fromkeys(first.NAMES, "text"), **dict.fromkeys(first.SENTENCES, "note")}
    columns = [Column(head, kinds.get(place, "number")) for place, head in enumerate(first.HEADS)]
    columns = [*([Column("run")] if evaluation.several else []), *columns]
    return Table(columns, body, note=" ".join(dict.fromkeys(notes)))
