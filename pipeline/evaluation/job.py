"""What the jobs of a run do that was sent: a part of the graph each, and the last one gathers and reports.

A job has the run's configuration and its order, and plans again from disk. Where its plan is not the one that was sent (another
version of the code on that machine, data that changed), it refuses: it would make other numbers under the same name.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.engine import contracts, failures
from pipeline.engine.journal import Journal
from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.perform import perform_tasks
from pipeline.engine.progress import Progress, ProgressGroup
from pipeline.engine.rates import Measuring, Rates
from pipeline.engine.stop import Stop, Stopped, listen_for_signals
from pipeline.engine.store import Store
from pipeline.engine.task import Task
from pipeline.engine.usage import UsageRecorder
from pipeline.errors import ConfigError, PipelineError, StageFailed, explain_system_error
from pipeline.evaluation import submit
from pipeline.evaluation.conclude import Begun, begin, conclude
from pipeline.evaluation.machine import find_machine, threads
from pipeline.evaluation.run import Run
from pipeline.evaluation.run_folder import RunFolder, logging_to, recorded
from pipeline.evaluation.submit import Order
from pipeline.evaluation.validate import validate
from pipeline.files import file_digest
from pipeline.stages.settings import Evaluation, Machine
from pipeline.tables import run_files, status

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """What a job is sent: where its order lies. It pickles, and holds no work.

    Attributes:
        run: the run folder.
        number: of the round.
        part: its place in the order; None: it gathers and reports.
    """

    run: str
    number: int
    part: int | None

    def __call__(self) -> None:
        """Do it; a process that fails ends with the exit status."""
        try:
            code = perform(Path(self.run), self.number, self.part)
        except PipelineError as error:
            log.error("%s", error)  # with no other handler left, this is what the job prints
            code = error.status
        if code:
            sys.exit(code)


def perform(run: Path, number: int, part: int | None) -> int:
    """Perform a part of a run, or with None gather and report.

    Args:
        run: the run folder.
        number: of the round.
        part: its place in the order of the round.

    Returns:
        The exit status.

    Raises:
        PipelineError: the order cannot be read, it cannot be done, or no result came of it.
    """
    logging.getLogger("pipeline").setLevel(logging.INFO)
    run = run.expanduser().resolve()
    order = submit.read_order(run, number)
    os.chdir(order.cwd)  # relative paths of the configuration are those of whoever sent it
    try:
        if part is None:
            return _report(run, order)
        return _part(run, order, part)
    except Stopped as error:
        return error.status


# ---------------------------------------------------------------------------------------------------------------- a part


def _part(run: Path, order: Order, part: int) -> int:
    if not 0 <= part < len(order.parts):
        raise ConfigError(
            f"round {order.number} of this run has no part {part}",
            where=str(run),
            remedy=f"it has 0 to {len(order.parts) - 1}",
        )
    record = status.read(run)
    if record.get("state") == status.SUBMITTED:
        try:
            status.write(run, {**record, "state": "running"})
        except OSError as error:
            log.warning("%s cannot be written (%s)", run / status.FILE, error.strerror)
    log_file = run / status.JOBS_FOLDER / f"{order.number}-{part}.log"
    with logging_to(log_file), listen_for_signals() as stop:
        report = _Reporting(run, order, part, log_file)
        try:
            evaluation = _read_evaluation(run, order)
            machine = (
                find_machine(evaluation.execution.runtime)
                if order.on_device[part]
                else Machine("cpu", threads(evaluation.execution.runtime))
            )
            report.device = machine.device
            log.info("part %d of round %d on %s with %d threads", part, order.number, machine.device, machine.threads)
            if order.on_device[part] and machine.device == "cpu" and evaluation.execution.runtime.device != "cpu":
                log.warning("this job was to have a GPU, and torch sees none: its tasks run on the CPU")
            outcome = Outcome(Store(evaluation.paths.store, evaluation.execution.store.verify))
            _, graph = Run(evaluation, stop, Progress(), outcome).plan(machine)
            _refuse_another(order, graph.tasks)
            if evaluation.execution.fail_fast and submit.read_reports(run).failed:
                log.info("another task has failed, and fail_fast=true begins nothing more")
                return 0
            report.places = {task: spot for spot, task in enumerate(graph.tasks)}
            tasks = [graph.tasks[spot] for spot in order.parts[part]]
            measuring = Measuring(Rates.read(evaluation.paths.store.parent, machine.device, machine.threads), outcome)
            journal = Journal(run, log_file, measuring.rates.seconds)
            progress = ProgressGroup(report, journal, measuring, UsageRecorder(run, outcome))
            failed = perform_tasks(tasks, stop, outcome, progress, evaluation.execution.fail_fast)
            report.write()
            # That others were lost is no fault of this job, which Slurm would call failed.
            return max((error.status for error in failures.select_roots(failed).values()), default=0)
        except Stopped as error:
            log.warning("%s: what is finished stays, what is left is sent again", error)
            raise
        except PipelineError as error:
            log.error("%s", error)
            # What the machine did not give may be there next time; what is wrong is wrong for all of these tasks.
            if not isinstance(error, StageFailed):
                report.refuse_all(error, order.parts[part])
            raise
        except Exception as error:
            log.error("%s", traceback.format_exc())
            if explain_system_error(error, run) is None:
                raise
            return StageFailed.status


class _Reporting(Progress):
    """Writes what fails, as it happens."""

    def __init__(self, run: Path, order: Order, part: int, log_file: Path) -> None:
        super().__init__()
        self.run, self.order, self.part, self.log_file = run, order, part, log_file
        self.places: Mapping[Task, int] = {}
        self.device = "cpu"
        self._failed: dict[int, PipelineError] = {}

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        self._failed[self.places[task]] = error
        self.write()

    def refuse_all(self, error: PipelineError, places: Sequence[int]) -> None:
        """None of the tasks can be done."""
        self._failed = dict.fromkeys(places, error)
        self.write()

    def write(self) -> None:
        submit.write_report(self.run, self.order.number, self.part, self._failed, self.log_file, self.device)


def _read_evaluation(run: Path, order: Order) -> Evaluation:
    """The evaluation, from the configuration in the run folder."""
    path = run / submit.CONFIG
    if not path.is_file() or file_digest(path) != order.config:
        raise run_files.make_changed_error(run, [submit.CONFIG])
    return validate(run_files.read_yaml(path), order.recipe)


def _refuse_another(order: Order, tasks: Sequence[Task]) -> None:
    if submit.plan_digest(tasks) != order.graph:
        raise ConfigError(
            "this job plans other work than was sent, and refuses: its results would not be those that were asked for",
            where=f"{os.uname().nodename}, {Path(submit.__file__).parents[1]}",
            cause="another version of the code or of its libraries on this machine, or data that changed since the run was sent",
            remedy="bring all machines to one version (a virtual environment that all nodes see), and run the same command again; "
            "what is in the store is reused",
        )


# ------------------------------------------------------------------------------------------------------------ the last job


def _report(run: Path, order: Order) -> int:
    if status.find_last_round(run) > order.number:
        log.info(
            "round %d is sent already: its last job reports", status.find_last_round(run)
        )  # this one was started anew after that
        return 0
    folder = RunFolder(run.parent, order.recipe, begun=run.name)
    with recorded(folder) as stop:
        evaluation = _read_evaluation(run, order)
        machine = Machine("cpu", threads(evaluation.execution.runtime))
        reports = submit.read_reports(run)
        begun = begin(evaluation, folder, stop, Progress(), machine, journals=False)
        _refuse_another(order, begun.graph.tasks)
        tasks = begun.graph.tasks
        lacking = find_missing(tasks, begun.run.outcome)
        failed = {tasks[spot]: error for spot, error in reports.failed.items() if tasks[spot] in lacking}
        unfinished = _list_unfinished(list(lacking), failed)
        reason = ""
        if unfinished and not (evaluation.execution.fail_fast and failed):
            reason = _send_again(evaluation, begun, unfinished, len(lacking), order, folder)
            if not reason:
                return 0
        remedy = (
            "run the same command again: what is finished is reused. Where a limit ends the jobs, executor.time=MINUTES or "
            "executor.mem_gb=N gives more, and executor.retries=N has it tried more often"
        )
        cause = f"{reason}. What the jobs printed is in {run / status.JOBS_FOLDER}"
        lost = "was lost: the job that had it ended before it was done"
        abandoned = {
            task: StageFailed(f"{task.label} {lost}", cause=cause, remedy=remedy)
            if reason
            else failures.make_not_begun(task)
            for task in unfinished
        }
        logs = {tasks[spot]: log_file for spot, log_file in reports.logs.items()}
        collected = Collected(failed, abandoned, logs, order.first_missing - len(lacking))
        collected.journal = Journal(run, run / status.LOG)
        device = next((name for name in sorted(reports.devices, reverse=True) if name != "cpu"), "cpu")
        begun = replace(begun, run=replace(begun.run, executor=collected), machine=replace(machine, device=device))
        result = conclude(begun, folder)
        log.info("%s", result.report())
        return result.error.status if result.error else 0


def _list_unfinished(lacking: Sequence[Task], failed: Mapping[Task, PipelineError]) -> list[Task]:
    down: set[Task] = set()
    unfinished = []
    for task in lacking:
        if task in failed or any(ref.task in down for ref in task.sources()):
            down.add(task)
        else:
            unfinished.append(task)
    return unfinished


def _send_again(
    evaluation: Evaluation, begun: Begun, unfinished: Sequence[Task], lacking: int, order: Order, folder: RunFolder
) -> str:
    fruitless = 0 if lacking < order.missing else order.fruitless + 1
    executor = submit.make_sender(evaluation)
    states = executor.states(status.read_sent_jobs(folder.path)[:-1]).values()
    ended = Counter(word for goes_on, word in states if not goes_on and word != "COMPLETED")
    ends = ", ".join(f"{count} {word}" for word, count in ended.items())
    if fruitless > executor.retries:
        return f"in {fruitless} rounds on end nothing was finished" + (
            f"; its last jobs ended as {ends}" if ends else ""
        )
    this = submit.Round(order.number + 1, order.first_missing, fruitless)
    log.warning("%d tasks were lost%s: they are sent again", len(unfinished), f" (jobs: {ends})" if ends else "")
    folder.status(state=status.SUBMITTED)
    try:
        submit.send(evaluation, begun.graph.tasks, unfinished, folder.path, this, Part)
    except ConfigError as error:
        log.error("%s", error)
        folder.status(state="running")
        return f"it could not be sent again: {error.what}"
    return ""


class Collected(contracts.Executor):
    """Takes what jobs have made. What failed in them, and what was lost, failed.

    Args:
        failed: what failed in the jobs.
        abandoned: what no job finished.
        logs: where the messages of the jobs stand.
        computed: how many tasks the jobs did.
    """

    def __init__(
        self,
        failed: Mapping[Task, PipelineError],
        abandoned: Mapping[Task, PipelineError],
        logs: Mapping[Task, str],
        computed: int,
    ) -> None:
        super().__init__(None)
        self.failed, self.abandoned, self.logs, self.computed = failed, abandoned, logs, computed
        self.journal: Progress = Progress()

    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """See :meth:`pipeline.engine.contracts.Executor.execute`. What is damaged in the store is made again in this process."""
        failed: dict[Task, PipelineError] = {}
        for task in tasks:
            if task in self.abandoned or task in self.failed:
                failed[task] = self.failed.get(task) or self.abandoned[task]
                if isinstance(failed[task], failures.NotBegun):
                    continue
                if task in self.abandoned:
                    log.error("%s", failed[task].what)
                    self.journal.fail(task, failed[task])
            elif any(ref.task in failed for ref in task.sources()):
                failed[task] = failures.make_not_run(task)
                self.journal.skip(task)
        more = perform_tasks([task for task in tasks if task not in failed], stop, outcome, progress)
        outcome.computed, outcome.reused = outcome.computed + self.computed, outcome.reused - self.computed
        self.computed = 0
        failures.raise_failures({**failed, **more}, self.logs)
