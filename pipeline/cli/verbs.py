"""What each verb prints; what it does is in :mod:`pipeline.evaluation`."""

from __future__ import annotations

import difflib
import errno
import functools
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline import evaluation
from pipeline.cli import compose, output, planning, submission
from pipeline.cli.listed import keep_all
from pipeline.cli.logs import log_to_stderr
from pipeline.cli.progress import Meter
from pipeline.errors import FULL, ConfigError, DataError, PipelineError
from pipeline.evaluation import Result
from pipeline.report.scorecard import settings as scorecards
from pipeline.report.scorecard.settings import Changes
from pipeline.stages.settings import Evaluation

log = logging.getLogger(__name__)

Action = Callable[[Evaluation, dict[str, Any]], int]


def act(verb: str, arguments: Sequence[str], folders: Sequence[str]) -> int:
    """Compose the configuration and carry out a verb; the exit status."""
    log_to_stderr()
    recipe = ""
    if verb == "compare":
        recipe, arguments = _recipe(arguments)
    options = submission.Options()
    if verb == "validate":
        options, arguments = submission.taken(arguments)
    each = False
    if verb == "plan":
        each, arguments = planning.taken(arguments)
    if verb in ("report", "compare"):
        runs = [evaluation.read(folder) for folder in folders]
        action: Action = (
            functools.partial(scorecard, runs, recipe)
            if recipe
            else functools.partial(report if verb == "report" else compare, runs)
        )
    else:
        actions: dict[str, Action] = {
            "run": functools.partial(run, arguments),
            "prepare": prepare,
            "train": train,
            "plan": functools.partial(plan, each),
            "validate": functools.partial(validate, options),
            "doctor": functools.partial(doctor, arguments),
            "fetch-models": fetch_models,
        }
        action = actions[verb]

    def once(asked: Evaluation, values: dict[str, Any]) -> int:
        # A job of a sweep may run in another process, which has seen nothing of the above.
        output.take_any_text()
        log_to_stderr()
        try:
            return action(asked, values)
        except PipelineError as error:
            keep_all(error, asked.paths.runs.parent)
            raise

    without_models = verb in ("validate", "prepare", "doctor")
    return compose.enter(arguments, once, without_models, without_data=verb == "doctor")


def run(arguments: Sequence[str], asked: Evaluation, values: dict[str, Any]) -> int:
    """Evaluate, and print one screen: the answer, what casts doubt on it, and where everything else is. The last line of standard
    output is the report's path, the one before it counts the tasks. Of a run that is sent elsewhere the last line is its folder.

    Raises:
        PipelineError: it could not be done, or values do not stand on everything that was expected.
    """
    result = evaluation.evaluate(asked, values, arguments, Meter())
    if isinstance(result, evaluation.Sent):
        return _say_sent(result)
    below = [
        *filter(None, [_scored(result)]),
        f"all tables in full: {evaluation.SUMMARY}, beside the report",
        f"tasks: {result.reused} reused, {result.computed} computed",
        str(result.report()),
    ]
    print(result.screen(below), end="")
    for line in below:
        print(line)
    sys.stdout.flush()
    if result.error:
        raise result.error
    return 0


def _say_sent(sent: evaluation.Sent) -> int:
    """Say where a run goes on that was sent elsewhere; the exit status."""
    folder = shlex.quote(str(sent.folder))
    others = f", {sent.shared} are done by jobs of other runs" if sent.shared else ""
    print(
        f"tasks: {sent.reused} reused, {sent.missing} sent in {sent.parts} job{'' if sent.parts == 1 else 's'}{others}"
    )
    print(f"jobs: {' '.join(sent.jobs)} (the last one gathers and reports)")
    print(f"how it goes: voice-privacy status {folder}")
    print(f"to end it: {sent.cancelling}")
    print(sent.folder)
    return 0


def _scored(result: Result) -> str:
    """How many published cells have which verdict; '' of a run without a scorecard."""
    from pipeline.report.scorecard import output as card

    kept = card.kept(result.folder)
    return f"scorecard: {kept['counts']} ({result.folder / 'scorecard.md'})" if kept is not None else ""


def prepare(asked: Evaluation, values: dict[str, Any]) -> int:
    """Read and check the data set and print what it holds."""
    data = evaluation.prepare(asked, Meter())
    for (name, role), rows in data.manifest.groupby(["set", "role"], sort=True):
        minutes = (rows["samples"] / rows["sample_rate"]).sum() / 60
        print(f"{name}  {role}  {rows['speaker'].nunique()} speakers  {len(rows)} utterances  {minutes:.1f} min")
    for trials in data.trials.values():
        print(f"{trials.name}  trials  {trials.n_target} target  {trials.n_nontarget} non-target")
    for line in [*evaluation.said(asked), *_needed(asked)]:
        print(line)
    return 0


def _needed(asked: Evaluation) -> list[str]:
    """What of models and vectors is not there: nothing that the data lack."""
    return [f"a run would also need: what {fault.where} asks for; {fault.what}" for fault in asked.models.lacking]


def train(asked: Evaluation, values: dict[str, Any]) -> int:
    """Train the extractors whose weights the run makes; prints the folders of the weights."""
    trained = evaluation.train_extractors(asked, Meter())
    print(f"tasks: {trained.reused} reused, {trained.computed} computed")
    for label, folder, summary in trained.weights:
        print(f"{label}: {summary}")
        print(folder)
    return 0


def plan(each: bool, asked: Evaluation, values: dict[str, Any]) -> int:
    """Print what a run would do, stage by stage, and why; what stands on work not yet done counts as to compute.

    Raises:
        StageFailed: what is known to be needed does not fit on the disk; all else is printed before.
    """
    planned = evaluation.plan(asked, Meter())
    for line in planning.lines(planned, each):
        print(line)
    planned.refuse()
    return 0


def validate(options: submission.Options, asked: Evaluation, values: dict[str, Any]) -> int:
    """The configuration has been checked when this is reached; submissions are, where they and the data set are there.

    Raises:
        ConfigError: a check of audio was asked for, and there is none to be had; or a scorecard's table cannot be read.
    """
    from pipeline.report.scorecard import runs as of_runs

    of_runs.ready(asked.recipe, asked.scorecard)
    if asked.dataset.is_given:
        print(f"valid: dataset {asked.dataset.name}, metrics {', '.join(asked.metrics)}")
        return 0
    print(
        f"valid: dataset {asked.dataset.name}, systems {', '.join(asked.systems)}, "
        f"extractors {', '.join(asked.extractors)}, attackers {', '.join(asked.attackers)}"
    )
    for line in (*asked.models.passed_over, *_needed(asked)):
        print(line)
    evaluation.check_training(asked)
    found = evaluation.submission(asked, options.training)
    if isinstance(found, str):
        if options.asks:
            raise ConfigError(
                f"no audio can be checked: {found}",
                remedy="voice-privacy validate dataset=kaldi dataset.root=DIR '+system.mine={name: external, root: WAVS}'",
            )
        print(f"audio was not looked at: {found}")
        return 0
    name = asked.dataset.label or Path(asked.dataset.root).expanduser().resolve().name
    labels = [label for label, one in asked.systems.items() if one.component.copies(one.settings) is not None]
    for line in submission.write(found, options, f"Submission {', '.join(labels)} to {name}"):
        print(line)
    for line in submission.lines(found, submission.where_all_are(options)):
        print(line)
    return DataError.status if found.is_wrong else 0


def report(runs: Sequence[Result], asked: Evaluation, values: dict[str, Any]) -> int:
    """One report of one or more finished runs, beside the first of them."""
    from pipeline.report import figure_cache, render

    if not runs:
        raise ConfigError("report needs run folders", remedy="voice-privacy report exp/runs/RUN [RUN ...]")
    page = runs[0].folder / ("report.html" if len(runs) == 1 else "report-merged.html")
    try:
        print(
            render.render([one.folder for one in runs], page, figure_cache.open_cache_beside(runs[0].folder)).resolve()
        )
    except OSError as error:
        if error.errno not in (*FULL, errno.EACCES) or len(runs) > 1 or not page.is_file():
            raise
        log.warning("%s cannot be written anew (%s): it is as the run wrote it", page, error.strerror)
        print(page.resolve())
    return 0


def compare(runs: Sequence[Result], asked: Evaluation, values: dict[str, Any]) -> int:
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
    same = comparison.one_run(first, second)
    if same:
        print(same)
        return 0
    for one, other in (runs, runs[::-1]):
        for said in one.limits:
            if said not in other.limits:
                log.warning("%s alone: %s", one.folder.name, said)
    print(comparison.to_text(first, second, compared(*runs)))
    return 0


def _recipe(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The recipe that is compared with, and the other arguments: its data and options are not asked for here."""
    given = [one.partition("=")[2] for one in arguments if one.startswith("recipe=")]
    return (given[-1] if given else ""), [one for one in arguments if not one.startswith("recipe=")]


def scorecard(runs: Sequence[Result], recipe: str, asked: Evaluation, values: dict[str, Any]) -> int:
    """The published cells of a recipe beside those of a run; without a run, recomputed from one another.

    Raises:
        ConfigError: the recipe has no scorecard, there are several runs, or several rows stand for one cell.
    """
    from pipeline.report.scorecard import card, labels, output
    from pipeline.report.scorecard import runs as of_runs
    from pipeline.tables import results, run_files

    if len(runs) > 1:
        raise ConfigError(
            "a scorecard is of one run",
            where=", ".join(str(one.folder) for one in runs),
            remedy=f"voice-privacy compare recipe={recipe} {shlex.quote(str(runs[0].folder))}",
        )
    another = bool(runs) and of_runs.is_of_another(runs[0].folder, recipe)
    recorded = of_runs.recorded(runs[0].folder) if runs else Changes()
    if another and recipe in scorecards.names():
        # The tables that it was held against are not those of this recipe; what its labels stand for is.
        recorded = recorded.model_copy(update={"tables": [], "ours": {}, "tolerances": {}})
    settings = scorecards.read(recipe, recorded, asked.scorecard)
    if settings is None:
        near = difflib.get_close_matches(recipe, scorecards.names(), n=1)
        raise ConfigError(
            f"there is no scorecard of a recipe '{recipe}'",
            where=f"recipe={recipe}",
            remedy=(f"did you mean recipe={near[0]}? " if near else "")
            + f"known: {', '.join(scorecards.names())}; a published table of your own: scorecard.tables=[FILE.csv]",
        )
    labels.refuse_unknown(asked.scorecard, settings, card.cells(settings.tables))
    if not runs:
        print(output.to_text(card.of(settings, None), run=False))
        return 0
    folder = runs[0].folder
    made = of_runs.of_run(folder, settings)
    card.refuse(made, folder)
    for said in labels.unmatched(asked.scorecard, results.records(runs[0].rows)):
        log.warning("%s", said)
    print(output.to_text(made, run_files.read_limits(folder)))
    for path in output.write(folder, made, run_files.read_limits(folder), recipe if another else ""):
        print(path)
    return 0


def doctor(arguments: Sequence[str], asked: Evaluation, values: dict[str, Any]) -> int:
    """Whether this machine and what is on it will do for the configuration."""
    from pipeline.cli.doctor import doctor as printed

    return printed(asked, arguments)


def fetch_models(asked: Evaluation, values: dict[str, Any]) -> int:
    """Get the weights of the chosen components into ``paths.models``."""
    from pipeline.weights import fetch

    for what, chosen in asked.components().items():
        found = fetch.fetched(chosen.component, chosen.settings, asked.paths.weights)
        group, _, label = what.partition(" ")
        if group == "extractor":
            print(f"{label}: {found.folder if found else 'needs no weights'}")
        elif found is not None:
            print(f"{what}: {found.folder}")
    return 0
