"""The figures of a page, by heading."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import pandas as pd

from pipeline.contracts import Plot
from pipeline.report import glossary, runs
from pipeline.report.figure_cache import FigureCache
from pipeline.report.page.downloads import Download, write_csv

ANCHORS = (
    "answer",
    "leaderboard",
    "boards",
    "differences",
    "facts",
    "limits",
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
WIDTH, HIGHEST, ROOM, AROUND = 1114, 1000, 4200, 200
"""Pixels: the page's width, how high a figure may be on it that is not folded, how high all of them together with their headings, and
what stands around each."""
POINT = 4 / 3
"""Pixels of a point."""
NAMED = 6
"""Folded figures that are named."""


@dataclass(frozen=True)
class Figure:
    """A plot, ready for the page."""

    id: str
    plot: Plot
    download: Download

    @property
    def height(self) -> float:
        """Pixels on a page that is as wide as it may be; 0 where the figure does not say."""
        size = re.search(r'<svg\b[^>]*\bviewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', self.plot.svg)
        if size is None:
            return 0.0
        width, height = float(size[1]), float(size[2])
        return height * min(POINT, WIDTH / width)

    @property
    def uri(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.plot.svg.encode()).decode()


@dataclass(frozen=True)
class Section:
    """Figures under one heading.

    Attributes:
        id: where the list of contents leads.
        opens: whether the first figure is not folded.
    """

    id: str
    heading: str
    figures: list[Figure]
    opens: bool

    @property
    def caption(self) -> str:
        return self.figures[0].plot.caption

    @property
    def shown(self) -> list[Figure]:
        return self.figures[:1] if self.opens else []

    @property
    def folded(self) -> list[Figure]:
        return self.figures[len(self.shown) :]

    @property
    def said(self) -> str:
        """What the folded figures show: their titles, of which the part that all have is said once."""
        count = len(self.folded)
        titles = list(
            dict.fromkeys(figure.plot.title.partition(": ")[2] or figure.plot.title for figure in self.folded)
        )
        names = "; ".join(titles[:NAMED]) + (f"; and {len(titles) - NAMED} more" if len(titles) > NAMED else "")
        return f"{count} {'more ' if self.shown else ''}figure{'s' if count != 1 else ''}: {names}"


def sections(evaluation: runs.Evaluation, rows: pd.DataFrame, drawn: FigureCache) -> list[Section]:
    """All figures that there are data for, by heading, in the order in which the families' figures stand.

    The first figure under a heading is not folded, unless it is higher than a screen or there is no room left for it.
    """
    data, series = evaluation.figures, evaluation.series
    drawn_plots = [
        (table.section, drawn.plots(table.draw, data[table.name], series))
        for table in glossary.figure_tables()
        if table.draw and table.name in data
    ]
    drawn_plots += [(figure.section, drawn.plots(figure.draw, rows, series)) for figure in glossary.row_figures()]
    plots: dict[str, list[Plot]] = {}
    for heading, heading_plots in drawn_plots:
        plots.setdefault(heading, []).extend(heading_plots)
    taken: set[str] = set()
    anchors: set[str] = set(ANCHORS)
    all_sections: list[Section] = []
    room = float(ROOM)
    for heading, heading_plots in plots.items():
        if not heading_plots:
            continue
        figures = [_figure(evaluation, plot, taken) for plot in heading_plots]
        needed = figures[0].height + AROUND
        opens = figures[0].height <= HIGHEST and needed <= room
        room -= needed if opens else 0
        all_sections.append(Section(_free(heading_plots[0].kind, anchors), heading, figures, opens))
    return all_sections


def _figure(evaluation: runs.Evaluation, plot: Plot, taken: set[str]) -> Figure:
    name = _free(_slug(f"{plot.kind} {plot.title.partition(':')[2]}"), taken)
    shown = plot.data if evaluation.several else plot.data.drop(columns="run_id", errors="ignore")
    return Figure(name, plot, Download(f"{name}.csv", write_csv(shown)))


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
