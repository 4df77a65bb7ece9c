"""Run folders in, one self-contained ``report.html`` out: no script, no font, no image from elsewhere.

The page follows from the rows. A metric that this module has never heard of gets its table like all others.
"""

from __future__ import annotations

import base64
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
import pandas as pd
import yaml

from pipeline.contracts import Plot
from pipeline.files import write_atomically
from pipeline.report import glossary, leaderboard, runs, verdict
from pipeline.report.figure_cache import NOT_KEPT, FigureCache
from pipeline.report.formats import DASH, choose_arrow, count_noun
from pipeline.report.page import Download, answer, head, numbers, speakers, write_csv
from pipeline.report.scorecard import output
from pipeline.report.summaries import WITHIN
from pipeline.report.table import Column, Table
from pipeline.tables import answers, results
from pipeline.tables.run_files import LIMITS_TITLE

log = logging.getLogger(__name__)
TEMPLATES = Path(__file__).parent / "templates"
MOST_SHOWN = 3
"""Of doubts, limits, and reasons why a report is partial, so many stand unfolded on the first screen."""


def render(
    run_folders: Sequence[Path],
    out: Path,
    cache: FigureCache = NOT_KEPT,
    endings: Mapping[Path, dict[str, Any]] = MappingProxyType({}),
) -> Path:
    """Write the report of one or several runs and, beside it, ``figures/*.csv`` with the data of each figure.

    Args:
        run_folders: folders with ``results.parquet``; ``status.json``, ``config.yaml``, ``environment.json`` and
            ``figures/*.parquet`` are shown where they exist.
        out: the HTML file to write, or a folder to write ``report.html`` into.
        cache: draws the figures, or has them.
        endings: of run folders whose run is about to end, the record that their ``status.json`` then holds.

    Returns:
        The absolute path of the HTML file. Equal inputs give equal bytes.

    Raises:
        DataError: a folder that is no run folder, or figure data of another version.
    """
    page = (out if out.suffix.lower() in {".html", ".htm"} else out / "report.html").absolute()
    evaluation = runs.read(run_folders, endings)
    rows = evaluation.rows.assign(
        series=[
            evaluation.name(system, run) for system, run in zip(evaluation.rows["system"], evaluation.rows["run_id"])
        ]
    )
    figures = sections(evaluation, rows, cache)
    templates = _load_templates()
    html = templates.get_template("report.html.j2").render(sections=figures, **_fill_page(evaluation, rows))
    beside = page.parent / "figures"
    beside.mkdir(parents=True, exist_ok=True)
    drawings = [figure for section in figures for figure in section.figures]
    for figure in drawings:
        _write(beside / figure.download.name, figure.download.text)
    _write(page, html)
    log.info("report with %d rows and %d figures: %s", len(rows), len(drawings), page)
    return page


def _fill_page(evaluation: runs.Evaluation, rows: pd.DataFrame) -> dict[str, Any]:
    """What stands on the page beside figures and glossary, by its name in the templates."""
    names = numbers.name_signatures(rows, evaluation.systems)
    return {
        "evaluation": evaluation,
        "title": head.write_title(rows),
        "words": head.describe_evaluation(evaluation, rows),
        "facts": head.list_facts(evaluation, rows),
        "sets": head.count_sets(rows),
        "answer": answer.make_answer(evaluation),
        "differences": compare_systems(evaluation),
        "bands": tabulate_conditions(evaluation),
        "bands_title": leaderboard.CONDITIONS,
        "limits": head.list_limits(evaluation),
        "limits_title": LIMITS_TITLE,
        "partial": head.explain_partial(evaluation, rows),
        "attack": head.judge_attack(evaluation),
        "scorecards": output.read_scorecards(evaluation),
        "numbers": numbers.list_numbers(evaluation.shown(rows), evaluation, names),
        "speakers": speakers.describe_speakers(evaluation),
        "terms": glossary.list_terms(dict(zip(rows["metric"].astype(str), rows["direction"].astype(str)))),
        "signatures": numbers.list_signatures(evaluation, names),
        "rows_csv": Download("results.csv", write_csv(evaluation.rows)),
        "records": [
            (run, *(_write_yaml(record) for record in (run.config, run.environment, run.status)))
            for run in evaluation.runs
        ],
        "style": (TEMPLATES / "style.css").read_text(encoding="utf-8"),
    }


def tabulate_conditions(evaluation: runs.Evaluation) -> Table | None:
    """The minimum-EER conditions that each system meets, of each run; None where nothing is ranked."""
    systems, label = evaluation.systems, evaluation.several
    tables = [
        (run, leaderboard.tabulate_conditions(answers.read_bands(run.folder), systems)) for run in evaluation.runs
    ]
    body = [[*([run.label] if label else []), *line] for run, table in tables for line in table.body]
    columns = [*([Column("run")] if label else []), *leaderboard.CONDITION_COLUMNS]
    notes = dict.fromkeys(note for _, table in tables for note in table.notes)
    return Table(columns, body, leaderboard.CONDITIONS, list(notes)) if body else None


def _load_templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        glossary=glossary,
        choose_arrow=choose_arrow,
        within_chance=WITHIN,
        reason_breaks=numbers.split_text,
        most_shown=MOST_SHOWN,
    )
    return environment


def _write_yaml(record: dict[str, Any]) -> str:
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, default_flow_style=False) if record else ""


def _write(path: Path, text: str) -> None:
    # A name that is no UTF-8 comes with lone surrogates.
    write_atomically(path, text.encode("utf-8", errors="replace"))


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
        return 0.0 if size is None else float(size[2]) * min(POINT, WIDTH / float(size[1]))

    @property
    def uri(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.plot.svg.encode()).decode()


@dataclass(frozen=True)
class Section:
    """Figures under one heading, to which the list of contents leads by ``id``; ``opens`` says whether the first is not folded."""

    id: str
    heading: str
    figures: list[Figure]
    opens: bool

    @property
    def caption(self) -> str:
        return self.figures[0].plot.caption

    @property
    def folded(self) -> list[Figure]:
        return self.figures[self.opens :]

    @property
    def said(self) -> str:
        """What the folded figures show: their titles, of which the part that all have is said once."""
        plots = [figure.plot for figure in self.folded]
        titles = list(dict.fromkeys(plot.title.partition(": ")[2] or plot.title for plot in plots))
        names = "; ".join(titles[:NAMED]) + (f"; and {len(titles) - NAMED} more" if len(titles) > NAMED else "")
        return f"{count_noun(len(plots), 'more figure' if self.opens else 'figure')}: {names}"


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
        figures = []
        for plot in heading_plots:
            slug = re.sub(r"[^a-z0-9]+", "-", f"{plot.kind} {plot.title.partition(':')[2]}".lower()).strip("-")[:60]
            name = _free(slug, taken)
            shown = plot.data if evaluation.several else plot.data.drop(columns="run_id", errors="ignore")
            figures.append(Figure(name, plot, Download(f"{name}.csv", write_csv(shown))))
        needed = figures[0].height + AROUND
        opens = figures[0].height <= HIGHEST and needed <= room
        room -= needed if opens else 0
        all_sections.append(Section(_free(heading_plots[0].kind, anchors), heading, figures, opens))
    return all_sections


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it then is."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    taken.add(free)
    return free


Difference = Mapping[str, Any]


@dataclass(frozen=True)
class Subset:
    """The comparisons of one subset: under each one's strongest attack in sentences and as a table, and under one attack on both."""

    subset: str
    sentences: list[str]
    strongest: Table
    same: Table


@dataclass(frozen=True)
class Differences:
    """The comparisons of all subsets; ``baseline`` is what the others are compared with."""

    baseline: str
    subsets: list[Subset]


def compare_systems(evaluation: runs.Evaluation) -> Differences | None:
    """None where no two systems were compared."""
    table = evaluation.differences
    if not len(table):
        return None
    order = [*leaderboard.order_subsets(evaluation.leaderboard), *table["subset"].astype(str)]
    rows: list[Difference] = [
        {**row, **{name: evaluation.name(str(row[name]), str(row["run_id"])) for name in ("system", "reference")}}
        for row in sorted(results.records(table), key=lambda row: (not row["unprotected"], not row["baseline"]))
    ]
    return Differences(
        ", ".join(dict.fromkeys(str(row["reference"]) for row in rows if row["baseline"])),
        [
            _compare_subset(subset, [row for row in rows if row["subset"] == subset])
            for subset in dict.fromkeys(order)
            if (table["subset"] == subset).any()
        ],
    )


def _compare_subset(subset: str, rows: Sequence[Difference]) -> Subset:
    strongest = [row for row in rows if row["under"] == "strongest"]
    quoted = [row for row in strongest if row["metric"] == "d_ece" and (row["baseline"] or row["unprotected"])]
    return Subset(
        subset,
        [verdict.describe_difference(row) for row in quoted],
        _tabulate(strongest, ("system", "reference")),
        _tabulate([row for row in rows if row["under"] == "same"], ("attack", "system", "reference")),
    )


HEADS = {
    "attack": "attack on both",
    "system": "system",
    "reference": "compared with",
    "d_ece": "D_ECE (bit)",
    "eer": "EER (points)",
}
TESTED_HEADS = ["p", "p (Holm)", "different"]


def _tabulate(rows: Sequence[Difference], left: Sequence[str]) -> Table:
    """D_ECE and EER of a pair side by side, a row a pair (and attack)."""
    pairs: dict[tuple[str, ...], dict[str, Difference]] = {}
    for row in rows:
        names = tuple(str(row[name]) for name in left)
        pairs.setdefault(names, {})[str(row["metric"])] = row
    metrics = [name for name in ("d_ece", "eer") if any(name in by_metric for by_metric in pairs.values())]
    tested = [
        name
        for name in metrics
        if any(not math.isnan(by_metric[name]["p_value"]) for by_metric in pairs.values() if name in by_metric)
    ]
    columns = [Column(HEADS[name], "note" if name == "attack" else "text") for name in left]
    for name in metrics:
        columns += [Column(head, "number") for head in (HEADS[name], "95 % interval", *TESTED_HEADS * (name in tested))]
    body = [
        [*names, *(cell for name in metrics for cell in _make_cells(metrics_of_pair.get(name), name in tested))]
        for names, metrics_of_pair in pairs.items()
    ]
    return Table(columns, body, left=1 if "attack" in left else 0)


def _make_cells(row: Difference | None, tested: bool) -> list[str]:
    if row is None:
        return [""] * (2 + len(TESTED_HEADS) * tested)
    shown = [_format_signed(row[name], row["metric"]) for name in ("difference", "low", "high")]
    interval = "" if math.isnan(row["low"]) else f"[{shown[1]}, {shown[2]}]"
    if not tested:
        return [shown[0], interval]
    p = row["p_holm"]
    told = "" if math.isnan(p) else "yes" if p <= verdict.DIFFERENT else "not shown"
    return [shown[0], interval, _format_p(row["p_value"]), _format_p(p), told]


def _format_signed(value: float, metric: str) -> str:
    if math.isnan(value):
        return DASH
    text = f"{100 * value:+.1f}" if metric == "eer" else f"{value:+.3f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _format_p(value: float) -> str:
    return DASH if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.2g}"
