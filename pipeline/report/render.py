"""Run folders in, one self-contained ``report.html`` out: no script, no font, no image from elsewhere.

The page follows from the rows. A metric that this module has never heard of gets its table like all others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
import pandas as pd
import yaml

from pipeline.files import write_atomically
from pipeline.report import bands, glossary, runs, terms
from pipeline.report.figure_cache import NOT_KEPT, FigureCache
from pipeline.report.formats import choose_arrow
from pipeline.report.page import answer, differences, figure_sections, head, numbers, speakers
from pipeline.report.page.downloads import Download, write_csv
from pipeline.report.scorecard import output
from pipeline.report.summaries import WITHIN
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
    figures = figure_sections.sections(evaluation, rows, cache)
    templates = _load_templates()
    html = templates.get_template("report.html.j2").render(
        words_of_page=None, sections=figures, **_fill_page(evaluation, rows)
    )
    directions = dict(zip(rows["metric"].astype(str), rows["direction"].astype(str)))
    entries = terms.list_entries(html, directions)
    html = html.replace(terms.PLACE, templates.get_template("glossary.html.j2").render(words_of_page=entries), 1)
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
        "differences": differences.compare_systems(evaluation),
        "bands": bands.tabulate_runs(evaluation),
        "bands_title": bands.TITLE,
        "limits": head.list_limits(evaluation),
        "limits_title": LIMITS_TITLE,
        "partial": head.explain_partial(evaluation, rows),
        "attack": head.judge_attack(evaluation),
        "scorecards": output.read_scorecards(evaluation),
        "numbers": numbers.list_numbers(evaluation.shown(rows), evaluation, names),
        "speakers": speakers.describe_speakers(evaluation),
        "signatures": numbers.list_signatures(evaluation, names),
        "rows_csv": Download("results.csv", write_csv(evaluation.rows)),
        "records": [(run, *map(_write_yaml, (run.config, run.environment, run.status))) for run in evaluation.runs],
        "style": (TEMPLATES / "style.css").read_text(encoding="utf-8"),
    }


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
