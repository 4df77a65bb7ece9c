"""The figures of a page, by heading."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import pandas as pd

from pipeline.contracts import Plot
from pipeline.report import glossary, runs
from pipeline.report.drawn import Drawn
from pipeline.report.page.parts import Download, csv_text

ANCHORS = (
    "limits",
    "strongest",
    "bands",
    "summary",
    "scorecard",
    "attack",
    "doubt",
    "metrics",
    "speakers",
    "glossary",
    "signatures",
    "comparing",
)
"""Ids of the page's own parts, which no section of figures may have."""


@dataclass(frozen=True)
class Figure:
    """A plot, ready for the page."""

    id: str
    plot: Plot
    download: Download

    @property
    def uri(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.plot.svg.encode()).decode()


@dataclass(frozen=True)
class Section:
    """Figures under one heading; ``id`` is where the list of contents leads."""

    id: str
    heading: str
    figures: list[Figure]


def sections(evaluation: runs.Evaluation, rows: pd.DataFrame, drawn: Drawn) -> list[Section]:
    """All figures that there are data for, by heading, in the order in which the families' figures stand."""
    data, series = evaluation.figures, evaluation.series
    found = [
        (table.section, drawn.plots(table.draw, data[table.name], series))
        for table in glossary.figure_tables()
        if table.draw and table.name in data
    ]
    found += [(one.section, drawn.plots(one.draw, rows, series)) for one in glossary.row_figures()]
    plots: dict[str, list[Plot]] = {}
    for heading, several in found:
        plots.setdefault(heading, []).extend(several)
    taken: set[str] = set()
    anchors: set[str] = set(ANCHORS)
    return [
        Section(_free(several[0].kind, anchors), heading, [_figure(evaluation, plot, taken) for plot in several])
        for heading, several in plots.items()
        if several
    ]


def _figure(evaluation: runs.Evaluation, plot: Plot, taken: set[str]) -> Figure:
    name = _free(_slug(f"{plot.kind} {plot.title.partition(':')[2]}"), taken)
    shown = plot.data if evaluation.several else plot.data.drop(columns="run_id", errors="ignore")
    return Figure(name, plot, Download(f"{name}.csv", csv_text(shown)))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it then is."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    taken.add(free)
    return free
