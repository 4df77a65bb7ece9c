"""What is missing of a graph is sent elsewhere: shared out, ordered in the run folder, handed over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import slurm
from pipeline.engine.contracts import Sender
from pipeline.engine.journal import shorten_id
from pipeline.engine.rates import Rates
from pipeline.engine.task import Task
from pipeline.engine.waves import Wave
from pipeline.errors import ConfigError, PipelineError
from pipeline.evaluation import job_files
from pipeline.files import file_digest
from pipeline.stages.settings import Evaluation
from pipeline.tables import status

CONFIG = "config.yaml"
GUESSED = 0.1, 1.0
"""Where nothing was measured: seconds of work for a second of audio, and the least that a task takes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sent:
    """A run that goes on elsewhere.

    Attributes:
        folder: the run folder.
        jobs: the ids of all jobs, of an array that of the whole.
        parts: how many jobs perform tasks.
        missing: how many tasks they have to do.
        shared: how many more are being done by jobs of other runs, which are waited for.
        reused: how many tasks were there.
        cancelling: the command that ends all jobs.
    """

    folder: Path
    jobs: tuple[str, ...]
    parts: int
    missing: int
    shared: int
    reused: int
    cancelling: str


@dataclass(frozen=True)
class Round:
    """A round of jobs.

    Attributes:
        number: from 1.
        first_missing: tasks that were missing before the first.
        fruitless: rounds on end in which nothing was finished; then each task has a job of its own.
    """

    number: int = 1
    first_missing: int = 0
    fruitless: int = 0


def send(
    evaluation: Evaluation,
    tasks: Sequence[Task],
    missing: Sequence[Task],
    folder: Path,
    this: Round,
    make_call: Callable[[str, int, int | None], Callable[[], None]],
) -> Sent:
    """Send what is missing.

    Args:
        tasks: the graph.
        missing: what the store lacks of it and is to be made, sources first.
        folder: the run folder, which holds the configuration.
        make_call: what a job does, of the run folder, the round and its part (None: it gathers and reports); it pickles.

    Raises:
        ConfigError: the jobs are not taken; none is left.
    """
    executor = make_sender(evaluation)
    taken = _taken_by_others(evaluation, folder, executor)
    own = [task for task in missing if shorten_id(task) not in taken]
    device = evaluation.execution.runtime.device
    waves = executor.shared_out(own, device, _estimate(evaluation), this.fruitless > 0)
    _write_order(evaluation, folder, tasks, missing, waves, this)
    numbers = iter(range(sum(len(wave.parts) for wave in waves)))
    calls = [[make_call(str(folder), this.number, next(numbers)) for _ in wave.parts] for wave in waves]
    others = [
        _jobs([ref.task for part in wave.parts for task in part for ref in task.sources()], taken) for wave in waves
    ]
    others.append(_jobs(missing, taken))
    report = make_call(str(folder), this.number, None)
    submitted = executor.send(f"voice-privacy-{folder.name}", waves, calls, others, report, folder / status.JOBS_FOLDER)
    jobs = [job for wave in submitted for job in wave]
    status.write_sent_jobs(folder, this.number, jobs)
    mains, parts = tuple(slurm.list_main_ids(jobs)), sum(len(wave.parts) for wave in waves)
    log.info("%d tasks in %d jobs are sent: %s", len(own), parts, ", ".join(mains))
    reused, shared = len(tasks) - len(missing), len(missing) - len(own)
    return Sent(folder, mains, parts, len(own), shared, reused, executor.cancelling(jobs))


def _write_order(
    evaluation: Evaluation,
    folder: Path,
    tasks: Sequence[Task],
    missing: Sequence[Task],
    waves: Sequence[Wave],
    this: Round,
) -> None:
    parts = [part for wave in waves for part in wave.parts]
    place = {task: number for number, task in enumerate(tasks)}
    job_files.write_order(
        folder,
        job_files.Order(
            number=this.number,
            graph=job_files.plan_digest(tasks),
            config=file_digest(folder / CONFIG),
            recipe=evaluation.recipe,
            cwd=str(Path.cwd()),
            device=evaluation.execution.runtime.device,
            parts=[[place[task] for task in part] for part in parts],
            on_device=[wave.ask.device for wave in waves for _ in wave.parts],
            ordered=[[shorten_id(task) for task in part] for part in parts],
            missing=len(missing),
            first_missing=this.first_missing or len(missing),
            fruitless=this.fruitless,
        ),
    )


def make_sender(evaluation: Evaluation) -> Sender:
    """The executor of an evaluation whose work is sent."""
    sender = evaluation.execution.executor.component(evaluation.execution.executor.settings)
    assert isinstance(sender, Sender)
    return sender


def require(evaluation: Evaluation, can_be_read_again: bool = True) -> None:
    """That the work of this evaluation can be sent.

    Raises:
        ConfigError: it cannot.
    """
    if not can_be_read_again:
        raise ConfigError(
            "a run that is sent needs its composed configuration, which its jobs read",
            where=f"executor={evaluation.execution.executor.name}",
            remedy="give evaluate the composed values, as pipeline.evaluate and the command line do",
        )
    make_sender(evaluation).require()


def _estimate(evaluation: Evaluation) -> Callable[[Task], float]:
    rates = [Rates.read(evaluation.paths.store.parent, device, host=None) for device in ("cuda", "cpu")]
    by_audio, least = GUESSED

    def seconds(task: Task) -> float:
        on_cpu = evaluation.execution.runtime.device == "cpu" or not task.resources.device
        measured = (rate.seconds(task) for rate in rates[on_cpu:])
        guess = max(least, by_audio * task.resources.seconds)
        return next((known for known in measured if known is not None), guess)

    return seconds


def _taken_by_others(evaluation: Evaluation, folder: Path, executor: Sender) -> dict[str, str]:
    """The tasks, by their short names, that jobs of other runs over the same store are about to do, each with its job."""
    ordered: dict[str, str] = {}
    for run in status.going(evaluation.paths.runs, evaluation.paths.store / "files" / status.ENDED):
        jobs = status.read_sent_jobs(run)
        if run.name == folder.name or not jobs:
            continue
        try:
            order = job_files.read_order(run, status.find_last_round(run))
        except PipelineError:  # nothing of it can be relied on
            continue
        ordered |= {name: job for names, job in zip(order.ordered, jobs) for name in names}
    states = executor.states(sorted(set(ordered.values())))
    return {name: job for name, job in ordered.items() if states.get(job, (False, ""))[0]}


def _jobs(tasks: Sequence[Task], taken: dict[str, str]) -> list[str]:
    return sorted({taken[shorten_id(task)] for task in tasks if shorten_id(task) in taken})
