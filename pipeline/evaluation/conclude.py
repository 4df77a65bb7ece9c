"""A run with a folder from its beginning to its report: planned, executed, collected, written."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pipeline.datasets.prepare import Prepared
from pipeline.engine.journal import Journal
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress, ProgressGroup
from pipeline.engine.rates import Measuring, Rates, check_free_space
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.usage import UsageRecorder
from pipeline.errors import PipelineError
from pipeline.evaluation.collect import Collected, collect
from pipeline.evaluation.partial import leave_out
from pipeline.evaluation.result import SUMMARY, Result, shortfall, with_failures
from pipeline.evaluation.run import Run, summarise_trainings
from pipeline.evaluation.run_folder import Recording, RunFolder
from pipeline.files import write_atomically
from pipeline.report import render
from pipeline.report.figure_cache import FigureCache
from pipeline.report.scorecard import runs as scorecards
from pipeline.report.scorecard.settings import Scorecard, find_unmatched
from pipeline.stages.graph import Graph, Measurement
from pipeline.stages.settings import Evaluation, Machine
from pipeline.tables import results, run_files, status

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """A run that is planned.

    Attributes:
        artefacts: writes which artefacts it uses.
        scorecard: what it is held against, if anything.
    """

    run: Run
    data: Prepared
    graph: Graph
    machine: Machine
    artefacts: UsageRecorder
    scorecard: Scorecard | None


def begin(
    evaluation: Evaluation, folder: RunFolder, stop: Stop, progress: Progress, machine: Machine, journals: bool = True
) -> Begun:
    """Prepare and plan.

    Args:
        journals: whether what becomes of the tasks is written into the run folder.

    Raises:
        PipelineError: it cannot be done.
    """
    outcome = Outcome(Store(evaluation.paths.store, evaluation.execution.store.verify))
    artefacts = UsageRecorder(folder.path, outcome)
    scorecard = scorecards.prepare_scorecard(evaluation.recipe, evaluation.products.scorecard)
    log.info("run %s on %s with %d threads", folder.id, machine.device, machine.threads)
    measuring = Measuring(Rates.read(evaluation.paths.store.parent, machine.device, machine.threads), outcome)
    journal = Journal(folder.path, folder.path / status.LOG, measuring.rates.seconds) if journals else Progress()
    everyone = ProgressGroup(Recording(folder), journal, measuring, artefacts, progress)
    run = Run(evaluation, stop, everyone, outcome, machine.device)
    run.outcome.store.sweep()
    data, graph = run.plan(machine)
    check_free_space(graph.tasks, outcome, measuring.rates)
    return Begun(run, data, graph, machine, artefacts, scorecard)


def conclude(begun: Begun, folder: RunFolder) -> Result:
    """Run the tasks, collect, judge, report."""
    run, outcome = begun.run, begun.run.outcome
    evaluation = run.evaluation
    graph, failure = _execute(run, begun.graph)
    trained, collected = run.read(graph.tasks, lambda: _collect(graph, begun, folder))
    if begun.scorecard is not None:
        for sentence in find_unmatched(evaluation.products.scorecard, results.records(collected.rows)):
            log.warning("%s", sentence)
        for fault in scorecards.write_card_of_run(folder.path, begun.scorecard).faults:
            log.warning("scorecard: several rows stand for one published cell: %s", fault)
    page = (folder.path / "report.html").absolute()
    short = shortfall(collected, begun.data, evaluation.execution.allow_partial, page)
    error = with_failures(failure, short, page)
    counts = f"tasks: {outcome.reused} reused, {outcome.computed} computed"
    result = Result(folder.path, outcome.reused, outcome.computed, error)
    write_atomically(folder.path / SUMMARY, result.summary().encode("utf-8", "replace"))
    ending = folder.ending(
        state="failed" if failure else "partial" if error else "done",
        exit_status=error.status if error else 0,
        **({"reasons": [error.paragraph(every=True)]} if failure and error else {}),
        tasks=counts,
        training=trained,
    )
    # The report holds the record that is written last: a run that is killed in between does not say that it is done.
    drawn = FigureCache(outcome.store)
    render.render([folder.path], page, drawn, {folder.path: ending})
    begun.artefacts.finish()
    begun.artefacts.add(drawn.used)
    run_files.seal_run(folder.path)
    folder.end(ending)
    log.info("%s", counts)
    if error:
        folder.keep(error)
    return result


def _execute(run: Run, graph: Graph) -> tuple[Graph, PipelineError | None]:
    """Run the tasks of a graph; what of it stands on no failed task, and what failed."""
    try:
        run.execute(graph.tasks)
    except PipelineError as error:
        finished = leave_out(graph, error.failed)
        if not error.failed or not finished.select(Measurement):
            raise
        for sentence in finished.left_out:
            log.warning("%s", sentence)
        return finished, error
    return graph, None


def _collect(graph: Graph, begun: Begun, folder: RunFolder) -> tuple[dict[str, str], Collected]:
    outcome, device = begun.run.outcome, begun.machine.device
    trained = summarise_trainings(graph.tasks, outcome)
    collected = collect(graph, begun.data, outcome, folder.path, folder.id, device, begun.run.evaluation)
    for label, summary in trained.items():
        log.info("%s: %s", label, summary)
    if collected.tied:
        log.info(
            "%d pieces of audio hold nothing to compare (all references tie), first: %s; audio_notes.json names them",
            len(collected.tied),
            ": ".join(collected.tied[0]),
        )
    return trained, collected
