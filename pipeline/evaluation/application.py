"""The application: settings in, a result out. It prints nothing; the command line and a notebook go the same way."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from pipeline.contracts import Executor
from pipeline.datasets import probe
from pipeline.datasets.audio_cache import AudioCache
from pipeline.datasets.prepare import Prepared
from pipeline.engine import code, failures
from pipeline.engine.journal import Journal
from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.progress import Progress, ProgressGroup
from pipeline.engine.rates import Measuring, Rates, check_free_space
from pipeline.engine.stop import Stop, Stopped, listen_for_signals
from pipeline.engine.store import Damaged, Store
from pipeline.engine.task import Task
from pipeline.engine.usage import UsageRecorder
from pipeline.errors import ConfigError, DataError, PipelineError, explain_system_error
from pipeline.evaluation import collect as gather
from pipeline.evaluation import discovered_models as found_models
from pipeline.evaluation import submit as sending
from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.machine import cores, machine, threads
from pipeline.evaluation.partial import whole
from pipeline.evaluation.planned import Planned, planned
from pipeline.evaluation.result import SUMMARY, Result, shortfall, with_failures
from pipeline.evaluation.run_folder import RunFolder
from pipeline.evaluation.submit import Sent
from pipeline.files import write_atomically
from pipeline.host import collect_seldom
from pipeline.products.averages import collect as averages
from pipeline.products.averages.plan import formed, rankers
from pipeline.products.bands import collect as bands
from pipeline.products.checks import choices as strongest
from pipeline.products.checks import collect as judge
from pipeline.products.speakers import collect as speakers
from pipeline.products.strongest import collect as answered
from pipeline.report import render, verdict
from pipeline.report.figure_cache import FigureCache
from pipeline.report.scorecard import runs as scorecards
from pipeline.report.scorecard.settings import Scorecard, find_unmatched
from pipeline.stages.backends.plan import refuse_too_few
from pipeline.stages.graph import Graph
from pipeline.stages.settings import Evaluation, Machine
from pipeline.stages.speech.plan import SpeechSets, data_tasks, prepared
from pipeline.stages.training.plan import trainings
from pipeline.tables import answers, records, results, run_files, status
from pipeline.tables import bands as band_table

T = TypeVar("T")

log = logging.getLogger(__name__)


def evaluate(
    asked: Evaluation,
    values: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    progress: Progress | None = None,
) -> Result | Sent:
    """Evaluate: prepare, plan, compute what is missing, gather, judge, report.

    Args:
        asked: checked settings.
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
    for said in status.killed(asked.paths.runs, asked.paths.store / "files" / status.ENDED):
        log.warning("%s", said)
    sends = sending.is_asked(asked)
    if sends:
        sending.require(asked, can_be_read_again=bool(values))
    folder = RunFolder(asked.paths.runs, asked.recipe)
    with recorded(folder) as stop:
        folder.describe(values or {}, arguments)
        begun = begin(asked, folder, stop, progress or Progress(), placed(asked))
        return (_sent(begun, folder) if sends else None) or concluded(begun, folder)


@dataclass(frozen=True)
class Begun:
    """A run that is planned.

    Attributes:
        used: writes which artefacts it uses.
        held_against: its scorecard, if it has one.
    """

    run: Run
    data: Prepared
    graph: Graph
    place: Machine
    used: UsageRecorder
    held_against: Scorecard | None


def begin(
    asked: Evaluation, folder: RunFolder, stop: Stop, progress: Progress, place: Machine, journals: bool = True
) -> Begun:
    """Prepare and plan.

    Args:
        journals: whether what becomes of the tasks is written into the run folder.

    Raises:
        PipelineError: it cannot be done.
    """
    outcome = Outcome(Store(asked.paths.store, asked.store.verify))
    used = UsageRecorder(folder.path, outcome)
    held_against = scorecards.prepare_scorecard(asked.recipe, asked.scorecard)
    log.info("run %s on %s with %d threads", folder.id, place.device, place.threads)
    measuring = Measuring(Rates.read(asked.paths.store.parent, place.device, place.threads), outcome)
    journal = Journal(folder.path, folder.path / status.LOG, measuring.rates.seconds) if journals else Progress()
    told = ProgressGroup(_Recording(folder), journal, measuring, used, progress)
    run = Run(asked, stop, told, outcome, place.device)
    run.outcome.store.sweep()
    data, graph = prepared_graph(run, place)
    check_free_space(graph.tasks, outcome, measuring.rates)
    return Begun(run, data, graph, place, used, held_against)


def prepared_graph(run: Run, place: Machine) -> tuple[Prepared, Graph]:
    """The data set and what is to be done with it."""
    with collect_seldom():
        data = run.data(place)
        graph = assemble_graph(run.asked, data, place)
    for note in (*graph.notes, *(limit for limit in graph.limits if limit not in graph.notes)):
        log.info("%s", note)
    refuse_too_few(run.asked.backends, graph.trained_on)
    log.info("%d tasks over %s", len(graph.tasks), data.size)
    return data, graph


def _sent(begun: Begun, folder: RunFolder) -> Sent | None:
    """What is missing, sent to those who do it; None if nothing is."""
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
    return sending.send(run.asked, tasks, list(lacking), folder.path, sending.Round())


def concluded(begun: Begun, folder: RunFolder) -> Result:
    """Run the tasks, gather, judge, report."""
    run, data, place, held_against, used = begun.run, begun.data, begun.place, begun.held_against, begun.used
    asked = run.asked
    graph, failure = _whole(run, begun.graph)
    trained, gathered = run.reading(graph.tasks, lambda: _gathered(graph, data, run, folder, place))
    if held_against is not None:
        for said in find_unmatched(asked.scorecard, results.records(gathered.rows)):
            log.warning("%s", said)
        for fault in scorecards.write_card_of_run(folder.path, held_against).faults:
            log.warning("scorecard: several rows stand for one published cell: %s", fault)
    drawn, page = FigureCache(run.outcome.store), (folder.path / "report.html").absolute()
    error = with_failures(failure, shortfall(gathered, data, asked.allow_partial, page), page)
    counts = f"tasks: {run.outcome.reused} reused, {run.outcome.computed} computed"
    made = Result(folder.path, run.outcome.reused, run.outcome.computed, error)
    write_atomically(folder.path / SUMMARY, made.summary().encode("utf-8", "replace"))
    ending = folder.ending(
        state="failed" if failure else "partial" if error else "done",
        exit_status=error.status if error else 0,
        **({"reasons": [error.paragraph(every=True)]} if failure and error else {}),
        tasks=counts,
        training=trained,
    )
    # The report holds the record that is written last: a run that is killed in between does not say that it is done.
    render.render([folder.path], page, drawn, {folder.path: ending})
    used.finish()
    used.add(drawn.used)
    run_files.seal_run(folder.path)
    folder.end(ending)
    log.info("%s", counts)
    if error:
        folder.keep(error)
    return made


def _whole(run: Run, graph: Graph) -> tuple[Graph, PipelineError | None]:
    """Run the tasks of a graph; what of it stands on no failed task, and what failed.

    Raises:
        PipelineError: nothing does.
    """
    try:
        run.execute(graph.tasks)
    except PipelineError as error:
        rest = whole(graph, error.failed)
        if not error.failed or not rest.sources:
            raise
        for said in rest.left_out:
            log.warning("%s", said)
        return rest, error
    return graph, None


def _gathered(
    graph: Graph, data: Prepared, run: Run, folder: RunFolder, place: Machine
) -> tuple[dict[str, str], gather.Gathered]:
    """Gather and judge, into the run folder; what the trainings say of themselves, and the results. It can be done again."""
    trained = summaries(graph.tasks, run.outcome)
    gathered = gather.gather(graph, data, run.outcome, folder.path, folder.id, place.device, run.asked)
    audio = [f"s{found.sentence[1:-1]}" for _, found in judge.same(graph.heard, run.outcome, gathered.rows)]
    run_files.write_limits(
        folder.path,
        [*graph.left_out, *audio, *data.limits, *graph.limits, *gathered.limits(run.asked.allow_partial)],
    )
    means = _means(gathered, data, run.asked)
    unchecked = "" if run.asked.diagnostics or data.score_sets else "diagnostics=false"
    tables = answered.formed(
        graph, gathered.measured, gathered.rows, run.outcome, run.asked.allow_partial, means, unchecked
    )
    of_speakers = speakers.formed(graph, data, run.outcome, tables["leaderboard"], folder.path)
    known = [*graph.findings, *strongest.choices(tables["attacks"])]
    judged = graph.diagnoses, graph.heard, gathered.measured, run.outcome, folder.path
    checks = judge.run(*judged, known, graph.orders, tables["leaderboard"])
    tables["leaderboard"] = verdict.judge(tables["leaderboard"], tables["differences"], checks)
    answers.write(tables | of_speakers, folder.path)
    asked = run.asked.bands
    if asked is not None:
        by, rule, board = rankers(run.asked), asked.model_dump(exclude={"attacker"}), tables["leaderboard"]
        rows = gathered.rows[gathered.rows["system"].isin(board["system"])] if graph.left_out else gathered.rows
        band_table.write(bands.rank(rows, board, attackers=by, **rule), folder.path)
    for label, said in trained.items():
        log.info("%s: %s", label, said)
    if gathered.tied:
        log.info(
            "%d pieces of audio hold nothing to compare (all references tie), first: %s; audio_notes.json names them",
            len(gathered.tied),
            ": ".join(gathered.tied[0]),
        )
    return trained, gathered


def _means(gathered: gather.Gathered, data: Prepared, asked: Evaluation) -> list[dict[str, Any]]:
    """Means over sets that the leaderboard has beside those that are results."""
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in results.records(gathered.measured[gathered.measured["metric"].isin(answered.OF_MEANS)])
    ]
    further = {
        label: one.model_copy(update={"metrics": [name for name in answered.OF_MEANS if name not in one.metrics]})
        for label, one in formed(asked, data.trials).items()
    }
    return averages.formed(rows, further, data)


def plan(asked: Evaluation, progress: Progress | None = None) -> Planned:
    """What a run would reuse and compute, why, and what that takes. Synthetic speech is made, for there is no data set to plan over
    before.

    Raises:
        PipelineError: as :func:`evaluate`, before any compute.
    """
    scorecards.prepare_scorecard(asked.recipe, asked.scorecard)
    place = placed(asked)
    with _running(asked, progress, place.device) as run, collect_seldom():
        graph = assemble_graph(asked, run.data(place), place)
        notes = tuple(dict.fromkeys([*graph.notes, *graph.limits]))
        for note in notes:
            log.info("%s", note)
        refuse_too_few(asked.backends, graph.trained_on)
        rates = Rates.read(asked.paths.store.parent, place.device, place.threads)
        return planned(graph.tasks, run.outcome, rates, executor(asked, place.device).at_once(), notes)


def placed(asked: Evaluation) -> Machine:
    """The device, and the threads that each task has: where the user asked for no number, as the executor shares out the cores.

    Raises:
        ConfigError: a device is asked for that is not there.
    """
    if sending.is_asked(asked):  # of the device that jobs have, this machine knows nothing
        return Machine("cpu", threads(asked.runtime))
    whole = machine(asked.runtime)
    each = asked.runtime.threads or executor(asked, whole.device).threads(whole.threads)
    return Machine(whole.device, each)


def executor(asked: Evaluation, device: str) -> Executor:
    """The executor that is asked for, for tasks that were planned for a device."""
    chosen: Executor = asked.executor.component(asked.executor.settings, device)
    return chosen


def prepare(asked: Evaluation, progress: Progress | None = None) -> Prepared:
    """The data set, read and checked.

    Raises:
        DataError: with all faults.
    """
    with _running(asked, progress) as run:
        return run.data(Machine("cpu", threads(asked.runtime)))


@dataclass(frozen=True)
class Trained:
    """What was trained: (label, folder of the weights, summary in a line), and tasks reused and computed."""

    weights: tuple[tuple[str, str, str], ...]
    reused: int
    computed: int


def train_extractors(asked: Evaluation, progress: Progress | None = None) -> Trained:
    """Train the extractors whose weights the run makes. With a training set of its own it needs no data to evaluate.

    Raises:
        ConfigError: none is trained.
    """
    if sending.is_asked(asked):
        raise ConfigError(
            f"executor={asked.executor.name} sends whole evaluations, and `train` is none",
            where="executor",
            remedy="evaluate with it: what is trained is then trained by jobs; or train here with executor=local",
        )
    place = placed(asked)
    with _running(asked, progress, place.device) as run:
        run.outcome.store.sweep()
        data = run.data(place, training_alone=bool(asked.dataset.train))
        tasks = trainings(asked, SpeechSets(asked, data, place)).tasks
        if not tasks:
            raise ConfigError(
                "no chosen extractor is trained",
                remedy="name a training set by dataset.train=DIR and choose ecapa, xvector or phones, "
                "e.g. 'extractor=[ecapa]' train=default",
            )
        run.execute(tasks)
        said = run.reading(tasks, lambda: summaries(tasks, run.outcome))
        folders = {task.label: str(run.outcome.artefact(task.ref()).folder) for task in tasks if task.label in said}
        weights = tuple((label, folders[label], summary) for label, summary in said.items())
        return Trained(weights, run.outcome.reused, run.outcome.computed)


def summaries(tasks: Sequence[Task], outcome: Outcome) -> dict[str, str]:
    """What the training records say in a line, by the label of the task."""
    return {
        task.label: str(records.read_training(outcome.artefact(task.ref()).folder)["summary"])
        for task in tasks
        if task.name == "train"
    }


@dataclass(frozen=True)
class Run:
    """A run that goes on: the one place that calls an executor."""

    asked: Evaluation
    stop: Stop
    progress: Progress
    outcome: Outcome
    device: str = "cpu"
    executor: Executor | None = None
    """Another one than is asked for."""

    def execute(self, tasks: Sequence[Task]) -> None:
        """Run tasks by the executor that is asked for."""
        counted = self.outcome.computed
        try:
            self._execute(tasks)
        except PipelineError as error:
            # What is said of a file that was found to be another one must not be believed by the next run.
            said = list(failures.select_roots(error.failed).values()) or [error]
            doubted = [one for one in said if isinstance(one, DataError)]
            places = [where for one in doubted for where in (one.where, *(fault.where for fault in one.faults))]
            self.known().doubt(Path(where) for where in places if where)
            if not doubted or not self._rendered_again():
                raise
            self.outcome.reused -= self.outcome.computed - counted
            self._execute(tasks)

    def _execute(self, tasks: Sequence[Task]) -> None:
        chosen = self.executor or executor(self.asked, self.device)
        chosen.execute(tasks, self.stop, self.outcome, self.progress, self.asked.fail_fast)

    def _rendered_again(self) -> bool:
        """Whether the data set that was rendered is damaged; it is then rendered once more, to the same bytes."""
        damaged = []
        for task in data_tasks(self.asked):
            try:
                if self.outcome.has(task.ref()):
                    self.outcome.artefact(task.ref()).look()
            except Damaged:
                damaged.append(task)
        self._execute(damaged)
        return bool(damaged)

    def reading(self, tasks: Sequence[Task], reader: Callable[[], T]) -> T:
        """What a reader of finished tasks gives; what it finds damaged is made again, and it begins anew."""
        while True:  # it ends: what this process has made is not asked after again
            try:
                return reader()
            except Damaged:
                counted = self.outcome.reused, self.outcome.computed
                self.execute(tasks)
                again = self.outcome.computed - counted[1]
                self.outcome.reused, self.outcome.computed = counted[0] - again, counted[1] + again

    def known(self) -> AudioCache:
        """What earlier runs over the same store found of audio files."""
        longest_seconds = 3600 * self.asked.dataset.longest_hours
        return AudioCache(self.outcome.store.root / "files", code.collect_versions([probe.__name__]), longest_seconds)

    def data(self, place: Machine, training_alone: bool = False) -> Prepared:
        """The data set, with whatever has to be made for it."""
        tasks = [] if training_alone else data_tasks(self.asked)
        self.execute(tasks)

        def read() -> Prepared:
            made = [self.outcome.artefact(task.ref()) for task in tasks]
            # No task goes on beside it, so that it may have all cores.
            whole = replace(place, threads=cores())
            return prepared(self.asked, made, whole, self.known(), training_alone)

        data = self.reading(tasks, read)
        data = replace(data, limits=(*self.asked.models.passed_over, *data.limits))
        for note in (*found_models.said(self.asked), *data.notes):
            log.info("%s", note)
        for limit in data.limits:
            log.warning("%s", limit)
        return data


@contextmanager
def _running(asked: Evaluation, progress: Progress | None, device: str = "cpu") -> Iterator[Run]:
    """For what makes no run folder."""
    with listen_for_signals() as stop:
        yield Run(asked, stop, progress or Progress(), Outcome(Store(asked.paths.store, asked.store.verify)), device)


@contextmanager
def recorded(folder: RunFolder) -> Iterator[Stop]:
    """Have the run folder say how a run ended, whatever happens."""
    try:
        with listen_for_signals(lambda number: folder.last_status(**_stopped(Stopped(number)))) as stop:
            yield stop
    except Stopped as error:
        folder.last_status(**_stopped(error))
        log.warning("%s; run the same command again to go on", error)
        raise
    except PipelineError as error:
        _failed(folder, error)
        raise
    except (KeyboardInterrupt, SystemExit) as error:
        # A signal that fell between two handlers, or submitit, which ends a job that Slurm starts anew.
        folder.last_status(state="stopped", reasons=[f"ended from outside ({type(error).__name__})"])
        raise
    except BaseException as error:
        refused = explain_system_error(error, folder.path)
        if refused is not None:
            folder.log(traceback.format_exc())
            _failed(folder, refused)
            raise refused from error
        folder.last_status(state="failed", exit_status=1, reasons=[f"{type(error).__name__}: {error}"])
        folder.log(traceback.format_exc())
        raise
    finally:
        folder.close()


def _stopped(error: Stopped) -> dict[str, Any]:
    return {"state": "stopped", "exit_status": error.status, "reasons": [str(error)]}


def _failed(folder: RunFolder, error: PipelineError) -> None:
    folder.last_status(state="failed", exit_status=error.status, reasons=[error.paragraph(every=True)])
    folder.keep(error)


STATUS_SECONDS = 0.5
"""Between two writings of ``status.json`` while tasks go by."""


class _Recording(Progress):
    """Writes into ``status.json`` which task goes on."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self._written = 0.0

    def begin(self, task: Task, where: str = "") -> None:
        if time.monotonic() - self._written > STATUS_SECONDS:
            self._written = time.monotonic()
            self.folder.status(task=task.label, tasks_done=self.tasks_done, tasks_total=self.tasks)
