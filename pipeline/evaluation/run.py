"""A run that goes on: its tasks executed, its data set read, what is found damaged made again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pipeline.datasets import probe
from pipeline.datasets.audio_cache import AudioCache
from pipeline.datasets.prepare import Prepared
from pipeline.engine import code, failures
from pipeline.engine.contracts import Executor, Sender
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, listen_for_signals
from pipeline.engine.store import Damaged, Store
from pipeline.engine.task import Task
from pipeline.errors import DataError, PipelineError
from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.discovered_models import describe_models
from pipeline.evaluation.machine import cores, find_machine, threads
from pipeline.host import collect_seldom
from pipeline.stages.backends.plan import refuse_too_few
from pipeline.stages.graph import Graph
from pipeline.stages.settings import Evaluation, Machine
from pipeline.stages.speech.plan import data_tasks, prepare_data
from pipeline.tables import records

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """A run that goes on: the one place that calls an executor.

    Attributes:
        executor: another one than the evaluation asks for.
    """

    evaluation: Evaluation
    stop: Stop
    progress: Progress
    outcome: Outcome
    device: str = "cpu"
    executor: Executor | None = None

    def execute(self, tasks: Sequence[Task]) -> None:
        """Run tasks by the executor of the evaluation."""
        counted = self.outcome.computed
        try:
            self._execute(tasks)
        except PipelineError as error:
            # What is recorded of a file that was found to be another one must not be believed by the next run.
            errors = list(failures.select_roots(error.failed).values()) or [error]
            doubted = [fault for fault in errors if isinstance(fault, DataError)]
            places = [place for fault in doubted for place in (fault.where, *(entry.where for entry in fault.faults))]
            self.known_files().doubt(Path(place) for place in places if place)
            if not doubted or not self._render_again():
                raise
            self.outcome.reused -= self.outcome.computed - counted
            self._execute(tasks)

    def _execute(self, tasks: Sequence[Task]) -> None:
        executor = self.executor or make_executor(self.evaluation, self.device)
        executor.execute(tasks, self.stop, self.outcome, self.progress, self.evaluation.execution.fail_fast)

    def _render_again(self) -> bool:
        """Whether the data set that was rendered is damaged; it is then rendered once more, to the same bytes."""
        damaged = []
        for task in data_tasks(self.evaluation):
            try:
                if self.outcome.has(task.ref()):
                    self.outcome.artefact(task.ref()).look()
            except Damaged:
                damaged.append(task)
        self._execute(damaged)
        return bool(damaged)

    def read(self, tasks: Sequence[Task], reader: Callable[[], T]) -> T:
        """What a reader of finished tasks gives; what it finds damaged is made again, and it begins anew."""
        while True:  # it ends: what this process has made is not asked after again
            try:
                return reader()
            except Damaged:
                counted = self.outcome.reused, self.outcome.computed
                self.execute(tasks)
                again = self.outcome.computed - counted[1]
                self.outcome.reused, self.outcome.computed = counted[0] - again, counted[1] + again

    def known_files(self) -> AudioCache:
        """What earlier runs over the same store found of audio files."""
        longest_seconds = 3600 * self.evaluation.dataset.longest_hours
        return AudioCache(self.outcome.store.root / "files", code.collect_versions([probe.__name__]), longest_seconds)

    def data(self, machine: Machine, training_alone: bool = False) -> Prepared:
        """The data set, with whatever has to be made for it."""
        tasks = [] if training_alone else data_tasks(self.evaluation)
        self.execute(tasks)

        def read() -> Prepared:
            rendered = [self.outcome.artefact(task.ref()) for task in tasks]
            # No task goes on beside it, so that it may have all cores.
            all_cores = replace(machine, threads=cores())
            return prepare_data(self.evaluation, rendered, all_cores, self.known_files(), training_alone)

        data = self.read(tasks, read)
        data = replace(data, limits=(*self.evaluation.models.passed_over, *data.limits))
        for note in (*describe_models(self.evaluation), *data.notes):
            log.info("%s", note)
        for limit in data.limits:
            log.warning("%s", limit)
        return data

    def plan(self, machine: Machine) -> tuple[Prepared, Graph]:
        """The data set and what is to be done with it."""
        with collect_seldom():
            data = self.data(machine)
            graph = assemble_graph(self.evaluation, data, machine)
        for note in dict.fromkeys([*graph.notes, *graph.limits]):
            log.info("%s", note)
        refuse_too_few(self.evaluation.backends, graph.trained_on)
        log.info("%d tasks over %s", len(graph.tasks), data.size)
        return data, graph


def sends(evaluation: Evaluation) -> bool:
    """Whether the executor of an evaluation has others do the work."""
    return issubclass(evaluation.execution.executor.component, Sender)


def make_executor(evaluation: Evaluation, device: str) -> Executor:
    """The executor of an evaluation, for tasks that were planned for a device."""
    executor: Executor = evaluation.execution.executor.component(evaluation.execution.executor.settings, device)
    return executor


def share_machine(evaluation: Evaluation) -> Machine:
    """The device, and the threads that each task has: where the user asked for no number, as the executor shares out the cores.

    Raises:
        ConfigError: a device is asked for that is not there.
    """
    if sends(evaluation):  # of the device that jobs have, this machine knows nothing
        return Machine("cpu", threads(evaluation.execution.runtime))
    machine = find_machine(evaluation.execution.runtime)
    executor = make_executor(evaluation, machine.device)
    return Machine(machine.device, evaluation.execution.runtime.threads or executor.threads(machine.threads))


@contextmanager
def begin_without_folder(evaluation: Evaluation, progress: Progress | None, device: str = "cpu") -> Iterator[Run]:
    """A run for what makes no run folder."""
    with listen_for_signals() as stop:
        outcome = Outcome(Store(evaluation.paths.store, evaluation.execution.store.verify))
        yield Run(evaluation, stop, progress or Progress(), outcome, device)


def summarise_trainings(tasks: Sequence[Task], outcome: Outcome) -> dict[str, str]:
    """What the training records say in a line, by the label of the task."""
    return {
        task.label: str(records.read_training(outcome.artefact(task.ref()).folder)["summary"])
        for task in tasks
        if task.name == "train"
    }
