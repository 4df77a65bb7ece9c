"""The verbs that compute or fetch: ``run`` (the default), ``prepare``, ``train``, ``fetch-models``, and ``part``, a job of a run."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline import evaluation
from pipeline.cli.command_line import read_command_line
from pipeline.cli.compose import Action, evaluate_each
from pipeline.cli.failures import list_needed
from pipeline.cli.output import log_to_stderr
from pipeline.cli.progress import Meter
from pipeline.errors import ConfigError
from pipeline.stages.settings import Evaluation

REPORT = "report"
USAGE = "voice-privacy part RUN ROUND NUMBER, or report in place of the number"


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out one of the verbs; the exit status."""
    if verb == "part":
        return part(arguments)
    line = read_command_line(arguments, verb)
    actions: dict[str, Action] = {
        "run": functools.partial(run, line.words), "prepare": prepare, "train": train, "fetch-models": fetch_models,
    }  # fmt: skip
    return evaluate_each(line, actions[verb], without_models=verb == "prepare")


def run(arguments: Sequence[str], settings: Evaluation, values: dict[str, Any]) -> int:
    """Evaluate, and print one screen: the answer, what casts doubt on it, and where everything else is. The last line of standard
    output is the report's path, the one before it counts the tasks. Of a run that is sent elsewhere the last line is its folder.

    Raises:
        PipelineError: it could not be done, or values do not stand on everything that was expected.
    """
    result = evaluation.evaluate(settings, values, arguments, Meter())
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


def _scored(result: evaluation.Result) -> str:
    """How many published cells have which verdict; '' of a run without a scorecard."""
    from pipeline.report.scorecard import output as card

    kept = card.read_kept(result.folder)
    return f"scorecard: {kept['counts']} ({result.folder / 'scorecard.md'})" if kept is not None else ""


def prepare(settings: Evaluation, values: dict[str, Any]) -> int:
    """Read and check the data set and print what it holds."""
    data = evaluation.prepare(settings, Meter())
    for (name, role), rows in data.manifest.groupby(["set", "role"], sort=True):
        minutes = (rows["samples"] / rows["sample_rate"]).sum() / 60
        print(f"{name}  {role}  {rows['speaker'].nunique()} speakers  {len(rows)} utterances  {minutes:.1f} min")
    for trials in data.trials.values():
        print(f"{trials.name}  trials  {trials.n_target} target  {trials.n_nontarget} non-target")
    for line in [*evaluation.describe_models(settings), *list_needed(settings)]:
        print(line)
    return 0


def train(settings: Evaluation, values: dict[str, Any]) -> int:
    """Train the extractors whose weights the run makes; prints the folders of the weights."""
    trained = evaluation.train_extractors(settings, Meter())
    print(f"tasks: {trained.reused} reused, {trained.computed} computed")
    for label, folder, summary in trained.weights:
        print(f"{label}: {summary}")
        print(folder)
    return 0


def fetch_models(settings: Evaluation, values: dict[str, Any]) -> int:
    """Get the weights of the chosen components into ``paths.models``."""
    from pipeline.weights import fetch

    for what, chosen in settings.components().items():
        weights = fetch.fetch_weights(chosen.component, chosen.settings, settings.paths.weights)
        group, _, label = what.partition(" ")
        if group == "extractor":
            print(f"{label}: {weights.folder if weights else 'needs no weights'}")
        elif weights is not None:
            print(f"{what}: {weights.folder}")
    return 0


def part(arguments: Sequence[str]) -> int:
    """What a job of a run does that was sent to a cluster; by hand, to see why one fails. The exit status.

    Raises:
        ConfigError: usage.
    """
    log_to_stderr()
    numbers = [argument for argument in arguments[1:] if argument.isdecimal() or argument == REPORT]
    if len(arguments) != 3 or len(numbers) != 2 or numbers[0] == REPORT:
        raise ConfigError("part needs a run folder, a round and the number of a part", remedy=USAGE)
    from pipeline.evaluation import job

    return job.perform(Path(arguments[0]), int(numbers[0]), None if numbers[1] == REPORT else int(numbers[1]))
