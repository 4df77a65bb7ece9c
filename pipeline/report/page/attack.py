"""Was the attack strong enough, and is each number what it seems?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report import findings as diagnostics
from pipeline.report import runs
from pipeline.report.page.parts import Column, Download, Table, csv_text
from pipeline.report.verdict import ADVICE
from pipeline.tables.checks import OF_NUMBERS


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
    # What was found wrong comes before what else could be tried.
    doubts.sort(key=lambda one: one.check in ADVICE)
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
