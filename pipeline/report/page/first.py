"""The answer: the strongest attack on each system."""

from __future__ import annotations

from pipeline.diagnostics import strongest as chosen
from pipeline.report import runs
from pipeline.report import strongest as first
from pipeline.report.page.parts import Column, Kind, Table


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
