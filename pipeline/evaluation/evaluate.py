"""The application: settings in, a result out. It prints nothing; the command line and a notebook go the same way."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import submission
from pipeline.datasets import importers
from pipeline.datasets.external_copy import Copy
from pipeline.datasets.listings import Listing
from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import find_missing
from pipeline.engine.progress import Progress
from pipeline.engine.rates import Rates
from pipeline.errors import ConfigError
from pipeline.evaluation import submit
from pipeline.evaluation.conclude import Begun, begin, conclude
from pipeline.evaluation.job import Part
from pipeline.evaluation.machine import threads
from pipeline.evaluation.planned import Planned, describe_plan
from pipeline.evaluation.result import Result
from pipeline.evaluation.run import (
    begin_without_folder,
    make_executor,
    sends,
    share_machine,
    summarise_trainings,
)
from pipeline.evaluation.run_folder import RunFolder, recorded
from pipeline.products import find_kinds
from pipeline.report.scorecard import runs as scorecards
from pipeline.stages.backends.plan import refuse_too_few
from pipeline.stages.settings import Evaluation, Machine
from pipeline.stages.speech.plan import SpeechSets
from pipeline.stages.training.plan import is_fitted, plan_trainings
from pipeline.submission import Report
from pipeline.tables import status

log = logging.getLogger(__name__)


def evaluate(
    evaluation: Evaluation,
    values: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    progress: Progress | None = None,
) -> Result | submit.Sent:
    """Evaluate: prepare, plan, compute what is missing, collect, judge, report.

    Args:
        evaluation: checked settings.
        values: the composed configuration as plain values, for the record.
        arguments: what was asked for, for the record.
        progress: told how far it is.

    Returns:
        The result in its run folder. Where values do not stand on everything that was expected, ``result.error`` says so, and
        where tasks failed: then the systems behind whose numbers they stand are not ranked.
        Where the executor has others do the work, what was sent to them: they write the result into the run folder.

    Raises:
        PipelineError: it cannot be done, or tasks failed and no number is left; the run folder says why.
        Stopped: a signal arrived; what is finished stays.
    """
    for sentence in status.killed(evaluation.paths.runs, evaluation.paths.store / "files" / status.ENDED):
        log.warning("%s", sentence)
    sending = sends(evaluation)
    if sending:
        submit.require(evaluation, can_be_read_again=bool(values))
    folder = RunFolder(evaluation.paths.runs, evaluation.recipe)
    with recorded(folder) as stop:
        folder.describe(values or {}, arguments)
        begun = begin(evaluation, folder, stop, progress or Progress(), share_machine(evaluation))
        return (_send(begun, folder) if sending else None) or conclude(begun, folder)


def _send(begun: Begun, folder: RunFolder) -> submit.Sent | None:
    run, tasks = begun.run, begun.graph.tasks
    run.progress.start(tasks)
    lacking = find_missing(tasks, run.outcome)
    for task in tasks:
        if task not in lacking:
            run.progress.end(task, computed=False)
    run.progress.finish()
    run.stop.check()
    if not lacking:
        return None
    # Before they are sent: they may begin, and end, at once.
    folder.status(state=status.SUBMITTED)
    return submit.send(run.evaluation, tasks, list(lacking), folder.path, submit.Round(), Part)


def plan(evaluation: Evaluation, progress: Progress | None = None) -> Planned:
    """What a run would reuse and compute, why, and what that takes. Synthetic speech is made, for there is no data set to plan over
    before.

    Raises:
        PipelineError: as :func:`evaluate`, before any compute.
    """
    scorecards.prepare_scorecard(evaluation.recipe, evaluation.products.scorecard)
    machine = share_machine(evaluation)
    with begin_without_folder(evaluation, progress, machine.device) as run:
        data, graph = run.plan(machine)
        notes = tuple(dict.fromkeys([*graph.notes, *graph.limits]))
        rates = Rates.read(evaluation.paths.store.parent, machine.device, machine.threads)
        at_once = make_executor(evaluation, machine.device).at_once()
        foreseen = tuple(line for kind in find_kinds() for line in kind.foresee(data, evaluation))
        return describe_plan(graph.tasks, run.outcome, rates, at_once, notes, foreseen)


def prepare(evaluation: Evaluation, progress: Progress | None = None) -> Prepared:
    """The data set, read and checked.

    Raises:
        DataError: with all faults.
    """
    with begin_without_folder(evaluation, progress) as run:
        return run.data(Machine("cpu", threads(evaluation.execution.runtime)))


@dataclass(frozen=True)
class Trained:
    """What was trained: (label, folder of the weights, summary in a line), and tasks reused and computed."""

    weights: tuple[tuple[str, str, str], ...]
    reused: int
    computed: int


def train_extractors(evaluation: Evaluation, progress: Progress | None = None) -> Trained:
    """Train the extractors whose weights the run makes. With a training set of its own it needs no data to evaluate.

    Raises:
        ConfigError: none is trained.
    """
    if sends(evaluation):
        raise ConfigError(
            f"executor={evaluation.execution.executor.name} sends whole evaluations, and `train` is none",
            where="executor",
            remedy="evaluate with it: what is trained is then trained by jobs; or train here with executor=local",
        )
    machine = share_machine(evaluation)
    with begin_without_folder(evaluation, progress, machine.device) as run:
        run.outcome.store.sweep()
        data = run.data(machine, training_alone=bool(evaluation.dataset.train))
        tasks = plan_trainings(evaluation, SpeechSets(evaluation, data, machine)).tasks
        if not tasks:
            raise ConfigError(
                "no chosen extractor is trained",
                remedy="name a training set by dataset.train=DIR and choose ecapa, xvector or phones, "
                "e.g. 'extractor=[ecapa]' train=default",
            )
        run.execute(tasks)
        summaries = run.read(tasks, lambda: summarise_trainings(tasks, run.outcome))
        folders = {
            task.label: str(run.outcome.artefact(task.ref()).folder) for task in tasks if task.label in summaries
        }
        weights = tuple((label, folders[label], summary) for label, summary in summaries.items())
        return Trained(weights, run.outcome.reused, run.outcome.computed)


# ---------------------------------------------------------------------------------------------------- before anything is run


def check_submission(evaluation: Evaluation, training: bool = False) -> Report | str:
    """Check the audio of all external systems, where the data set is there too.

    Args:
        training: look at the anonymised training sets as well.

    Returns:
        What was found; or why no audio was looked at.
    """
    systems = list_copies(evaluation, training)
    dataset, store = evaluation.dataset, evaluation.paths.store
    if not systems:
        return "no system names a folder of anonymised audio"
    if dataset.is_rendered:
        return f"dataset={dataset.name} is rendered by a run, so there is nothing yet to hold the audio against"
    if not dataset.root or not Path(dataset.root).expanduser().is_dir():
        return f"there is no folder '{dataset.root}' of the data set: set dataset.root=DIR"
    return submission.check_submission(
        dataset, systems, threads(evaluation.execution.runtime), store / "recordings", store / "files"
    )


def check_training(evaluation: Evaluation) -> None:
    """Whether the training set, by its lists alone, has speakers enough for the back ends that a run would train.

    Raises:
        DataError: it has too few.
    """
    compared = any(family.component.reads != "ranks" for family in evaluation.metrics.values())
    hears = any(extractor.component.hears for extractor in evaluation.extractors.values())
    if not evaluation.dataset.train or not compared or not hears:
        return
    listing = Listing()
    importers.list_data_set(evaluation.dataset, listing, training_alone=True)
    count = len({utterance.speaker for utterance in listing.utterances if utterance.speaker})
    fitted = [label for label, backend in evaluation.backends.items() if is_fitted(evaluation, backend)]
    if count:
        refuse_too_few(evaluation.backends, {label: {"the training set": count} for label in fitted})


def list_copies(evaluation: Evaluation, training: bool) -> list[submission.Folder]:
    """The folders of anonymised audio that the configuration names."""
    copies = []
    for label, system in evaluation.systems.items():
        folders = system.component.copies(system.settings)
        if folders is None:
            continue
        copy = Copy.of(folders, label)
        copies.append(submission.Folder(label, copy))
        if folders.second_root:
            copies.append(submission.Folder(f"{label} (second run)", copy.at(folders.second_root, "second_root")))
        if training and evaluation.dataset.train:
            trained = copy.at(folders.train_root or folders.root, "train_root", training=True)
            copies.append(submission.Folder(f"{label} (training)", trained))
    return copies
