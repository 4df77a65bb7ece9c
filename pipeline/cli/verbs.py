"""What each verb prints; what it does is in :mod:`pipeline.evaluation`."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pipeline import evaluation
from pipeline.cli import compose, output
from pipeline.cli.listed import keep_all
from pipeline.cli.logs import log_to_stderr
from pipeline.cli.progress import Meter
from pipeline.errors import ConfigError, PipelineError
from pipeline.evaluation import Result
from pipeline.planning import Evaluation

log = logging.getLogger(__name__)

Action = Callable[[Evaluation, dict[str, Any]], int]


def act(verb: str, arguments: Sequence[str], folders: Sequence[str]) -> int:
    """Compose the configuration and carry out a verb; the exit status."""
    log_to_stderr()
    if verb in ("report", "compare"):
        runs = [evaluation.read(folder) for folder in folders]
        action: Action = functools.partial(report if verb == "report" else compare, runs)
    else:
        actions: dict[str, Action] = {
            "run": functools.partial(run, arguments),
            "prepare": prepare,
            "train": train,
            "plan": plan,
            "validate": validate,
            "doctor": doctor,
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

    return compose.enter(arguments, once)


def run(arguments: Sequence[str], asked: Evaluation, values: dict[str, Any]) -> int:
    """Evaluate and report. The last line of standard output is the report's path, the one before it counts the tasks.

    Raises:
        PipelineError: it could not be done, or values do not stand on everything that was expected.
    """
    result = evaluation.evaluate(asked, values, arguments, Meter())
    print(result.summary())
    print(f"tasks: {result.reused} reused, {result.computed} computed")
    print(result.report())
    sys.stdout.flush()
    if result.error:
        raise result.error
    return 0


def prepare(asked: Evaluation, values: dict[str, Any]) -> int:
    """Read and check the data set and print what it holds."""
    data = evaluation.prepare(asked, Meter())
    for (name, role), rows in data.manifest.groupby(["set", "role"], sort=True):
        minutes = (rows["samples"] / rows["sample_rate"]).sum() / 60
        print(f"{name}  {role}  {rows['speaker'].nunique()} speakers  {len(rows)} utterances  {minutes:.1f} min")
    for trials in data.trials.values():
        print(f"{trials.name}  trials  {trials.n_target} target  {trials.n_nontarget} non-target")
    return 0


def train(asked: Evaluation, values: dict[str, Any]) -> int:
    """Train the extractors whose weights the run makes; prints the folders of the weights."""
    trained = evaluation.train_extractors(asked, Meter())
    print(f"tasks: {trained.reused} reused, {trained.computed} computed")
    for label, folder, summary in trained.weights:
        print(f"{label}: {summary}")
        print(folder)
    return 0


def plan(asked: Evaluation, values: dict[str, Any]) -> int:
    """Print what a run would do, stage by stage; what stands on work not yet done counts as to compute."""
    print(evaluation.plan(asked, Meter()))
    return 0


def validate(asked: Evaluation, values: dict[str, Any]) -> int:
    """The configuration has been checked when this is reached."""
    if asked.dataset.is_given:
        print(f"valid: dataset {asked.dataset.name}, metrics {', '.join(asked.metrics)}")
        return 0
    print(
        f"valid: dataset {asked.dataset.name}, systems {', '.join(asked.systems)}, "
        f"extractors {', '.join(asked.extractors)}, attackers {', '.join(asked.attackers)}"
    )
    return 0


def report(runs: Sequence[Result], asked: Evaluation, values: dict[str, Any]) -> int:
    """One report of one or more finished runs, beside the first of them."""
    from pipeline.report import render

    if not runs:
        raise ConfigError("report needs run folders", remedy="python -m pipeline report exp/runs/RUN [RUN ...]")
    name = "report.html" if len(runs) == 1 else "report-merged.html"
    print(render.render([one.folder for one in runs], runs[0].folder / name).resolve())
    return 0


def compare(runs: Sequence[Result], asked: Evaluation, values: dict[str, Any]) -> int:
    """Numbers of two runs side by side where their signatures are equal."""
    from pipeline.report import comparison

    if len(runs) != 2:
        raise ConfigError(
            "compare needs two run folders", remedy="python -m pipeline compare exp/runs/RUN exp/runs/RUN"
        )
    print(comparison.to_text(runs[0].folder, runs[1].folder))
    return 0


def doctor(asked: Evaluation, values: dict[str, Any]) -> int:
    """Say what this machine has."""
    from pipeline.cli.examine import lines

    for line in lines(asked):
        print(line)
    return 0


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
