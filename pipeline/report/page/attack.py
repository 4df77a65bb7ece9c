"""Was the attack strong enough?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.diagnostics import grouping as diagnostics
from pipeline.report import runs
from pipeline.report.page.parts import Column, Download, Table, csv_text


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
