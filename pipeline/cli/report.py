"""The verbs ``report`` and ``compare``: of finished runs, and of a run beside the published numbers of its recipe."""

from __future__ import annotations

import errno
import functools
import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline import evaluation
from pipeline.cli.command_line import read_command_line
from pipeline.cli.compose import Action, evaluate_each
from pipeline.errors import FULL, ConfigError
from pipeline.evaluation import Result
from pipeline.names import suggest_names
from pipeline.report.scorecard import settings as scorecards
from pipeline.report.scorecard.settings import Changes
from pipeline.stages.settings import Evaluation

log = logging.getLogger(__name__)


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out ``report`` or ``compare``; the exit status."""
    line = read_command_line(arguments, verb, takes_runs=True)
    recipe = ""
    if verb == "compare":
        # Its data and options are not asked for.
        recipe = next(reversed([name for each in line.overrides if each.key == "recipe" for name in each.options]), "")
        line = replace(line, overrides=tuple(each for each in line.overrides if each.key != "recipe"))
    runs = [evaluation.read(folder) for folder in line.runs]
    action: Action = (
        functools.partial(scorecard, runs, recipe)
        if recipe
        else functools.partial(report if verb == "report" else compare, runs)
    )
    return evaluate_each(line, action)


def report(runs: Sequence[Result], settings: Evaluation, values: dict[str, Any]) -> int:
    """One report of one or more finished runs, beside the first of them."""
    from pipeline.report import figure_cache, render

    if not runs:
        raise ConfigError("report needs run folders", remedy="voice-privacy report exp/runs/RUN [RUN ...]")
    page = runs[0].folder / ("report.html" if len(runs) == 1 else "report-merged.html")
    try:
        print(
            render.render([run.folder for run in runs], page, figure_cache.open_cache_beside(runs[0].folder)).resolve()
        )
    except OSError as error:
        if error.errno not in (*FULL, errno.EACCES) or len(runs) > 1 or not page.is_file():
            raise
        log.warning("%s cannot be written anew (%s): it is as the run wrote it", page, error.strerror)
        print(page.resolve())
    return 0


def compare(runs: Sequence[Result], settings: Evaluation, values: dict[str, Any]) -> int:
    """Which settings of two runs differ, then the differences between their systems, then rows that changed."""
    from pipeline.evaluation.compare_runs import compared
    from pipeline.report import comparison

    if len(runs) != 2:
        raise ConfigError(
            "compare needs two run folders, or a recipe with a scorecard",
            remedy="voice-privacy compare exp/runs/RUN exp/runs/RUN, or "
            f"voice-privacy compare recipe=NAME [exp/runs/RUN] with one of {', '.join(scorecards.names())}",
        )
    first, second = runs[0].folder, runs[1].folder
    same = comparison.describe_same_run(first, second)
    if same:
        print(same)
        return 0
    for first_run, other in (runs, runs[::-1]):
        for limit in first_run.limits:
            if limit not in other.limits:
                log.warning("%s alone: %s", first_run.folder.name, limit)
    print(comparison.to_text(first, second, compared(*runs)))
    return 0


def scorecard(runs: Sequence[Result], recipe: str, asked_settings: Evaluation, values: dict[str, Any]) -> int:
    """The published cells of a recipe beside those of a run; without a run, recomputed from one another.

    Raises:
        ConfigError: the recipe has no scorecard, there are several runs, or several rows stand for one cell.
    """
    from pipeline.report.scorecard import card, output
    from pipeline.report.scorecard import runs as of_runs
    from pipeline.tables import results, run_files

    if len(runs) > 1:
        raise ConfigError(
            "a scorecard is of one run",
            where=", ".join(str(run.folder) for run in runs),
            remedy=f"voice-privacy compare recipe={recipe} {shlex.quote(str(runs[0].folder))}",
        )
    another = bool(runs) and of_runs.is_of_another(runs[0].folder, recipe)
    recorded = of_runs.read_changes(runs[0].folder) if runs else Changes()
    if another and recipe in scorecards.names():
        # The tables that it was held against are not those of this recipe; what its labels stand for is.
        recorded = recorded.model_copy(update={"tables": [], "ours": {}, "tolerances": {}})
    settings = scorecards.read(recipe, recorded, asked_settings.products.scorecard)
    if settings is None:
        raise ConfigError(
            f"there is no scorecard of a recipe '{recipe}'",
            where=f"recipe={recipe}",
            remedy=f"{suggest_names(recipe, scorecards.names())}; a published table of your own: scorecard.tables=[FILE.csv]",
        )
    scorecards.refuse_unknown(asked_settings.products.scorecard, settings, card.read_cells(settings.tables))
    if not runs:
        print(output.to_text(card.make_card(settings, None), run=False))
        return 0
    folder = runs[0].folder
    scored = of_runs.make_card_of_run(folder, settings)
    card.refuse_ambiguous(scored, folder)
    for text in scorecards.find_unmatched(asked_settings.products.scorecard, results.records(runs[0].rows)):
        log.warning("%s", text)
    print(output.to_text(scored, run_files.read_limits(folder)))
    for path in output.write(folder, scored, run_files.read_limits(folder), recipe if another else ""):
        print(path)
    return 0
