"""Was the attack strong enough?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.diagnostics import grouping as diagnostics
from pipeline.diagnostics import strongest as chosen
from pipeline.report import runs
from pipeline.report import strongest as first
from pipeline.report.page.parts import Column, Download, Kind, Table, csv_text


@dataclass(frozen=True)
class Attack:
    """How strong the attack was: what casts doubt on the results, first and in full, and the other checks by name."""

    flagged: list[diagnostics.Finding]
    table: Table
    others: list[tuple[str, Table]]
    checks: int
    download: Download


def attack(evaluation: runs.Evaluation) -> Attack | None:
    frame = evaluation.diagnostics
    if not len(frame):
        return None
    found = diagnostics.findings(frame)
    columns = [*(Column(diagnostics.PLACE[name][0]) for name in found.places), Column("what was found", "sentence")]

    def table(part: Sequence[diagnostics.Finding], marked: bool = False) -> Table:
        body = [
            [*(diagnostics.values(box, index) for index in range(len(found.places))), finding.sentence]
            for finding in part
            for box in finding.boxes
        ]
        return Table(columns, body, frozenset(range(len(body))) if marked else frozenset())

    return Attack(
        found.flagged,
        table(found.flagged, marked=True),
        [(check, table(part)) for check, part in found.unflagged().items()],
        len(frame),
        Download("diagnostics.csv", csv_text(frame if evaluation.several else frame.drop(columns="run"))),
    )


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
