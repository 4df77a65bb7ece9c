"""A run beside a challenge: its minimum-EER conditions, and published cells."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.report import bands, runs
from pipeline.report.page.parts import TEXT, Column, Kind, Table
from pipeline.report.scorecard import output as scorecard
from pipeline.tables import bands as ranked


def conditions(evaluation: runs.Evaluation) -> Table | None:
    """The minimum-EER conditions that each system meets, of each run."""
    body: list[list[str]] = []
    notes: list[str] = []
    for run in evaluation.runs:
        conditions = ranked.read(run.folder)
        mark = [run.label] if evaluation.several else []
        body += [[*mark, *line] for line in bands.lines(conditions, evaluation.systems)]
        notes += bands.notes(conditions) if len(conditions) else []
    if not body:
        return None
    columns = [Column(head, "number" if place in bands.NUMBERS else TEXT) for place, head in enumerate(bands.HEADS)]
    columns = [*([Column("run")] if evaluation.several else []), *columns]
    return Table(columns, body, note=" ".join(dict.fromkeys(notes)))


@dataclass(frozen=True)
class Scorecard:
    """A run beside the published cells of its recipe."""

    title: str
    counts: str
    notes: list[str]
    faults: list[str]
    views: list[tuple[str, Table]]
    compared: Table
    not_run: Table


def scorecards(evaluation: runs.Evaluation) -> list[Scorecard]:
    """The scorecards of those runs that have one."""
    made = []
    for run in evaluation.runs:
        kept = scorecard.kept(run.folder)
        if kept is None:
            continue
        kinds: dict[int, Kind] = {**dict.fromkeys(kept["numbers"], "number"), len(kept["heads"]) - 1: "note"}
        columns = [Column(head, kinds.get(place, TEXT)) for place, head in enumerate(kept["heads"])]
        views = [
            Table([Column(head, "number" if place else TEXT) for place, head in enumerate(one["heads"])], one["body"],
                  frozenset(one["ours"]))
            for one in kept["views"]
        ]  # fmt: skip
        made.append(
            Scorecard(
                f"{f'Run {run.label}: ' if evaluation.several else ''}{kept['title']}",
                kept["counts"],
                kept["notes"],
                kept["faults"],
                list(zip([one["title"] for one in kept["views"]], views)),
                Table(columns, kept["compared"]),
                Table(columns, kept["not_run"]),
            )
        )
    return made
