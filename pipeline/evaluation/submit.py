"""What is missing of a graph is sent elsewhere: shared out, ordered in the run folder, handed over."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import slurm
from pipeline.contracts import Sender
from pipeline.engine.journal import shorten_id
from pipeline.engine.rates import Rates
from pipeline.engine.task import Task
from pipeline.errors import ConfigError, PipelineError
from pipeline.evaluation import job_files as orders
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
        from pipeline.evaluation import job

        try:
            code = job.perform(Path(self.run), self.number, self.part)
        except PipelineError as error:
            log.error("%s", error)  # with no other handler left, this is what the job prints
            code = error.status
        if code:
            sys.exit(code)


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


def send(asked: Evaluation, tasks: Sequence[Task], missing: Sequence[Task], folder: Path, this: Round) -> Sent:
    """Send what is missing.

    Args:
        tasks: the graph.
        missing: what the store lacks of it and is to be made, sources first.
        folder: the run folder, which holds the configuration.

    Raises:
        ConfigError: the jobs are not taken; none is left.
    """
    executor = sender(asked)
    device = asked.runtime.device
    taken = _with_others(asked, folder, executor)
    own = [task for task in missing if shorten_id(task) not in taken]
    rates = [Rates.read(asked.paths.store.parent, one, host=None) for one in ("cuda", "cpu")]
    shared = executor.shared_out(
        own,
        device,
        lambda task: _seconds(task, rates[device == "cpu" or not task.resources.device :]),
        this.fruitless > 0,
    )
    cells = [part for wave in shared for part in wave.parts]
    place = {task: number for number, task in enumerate(tasks)}
    orders.write(
        folder,
        orders.Order(
            number=this.number,
            graph=orders.plan_digest(tasks),
            config=file_digest(folder / CONFIG),
            recipe=asked.recipe,
            cwd=str(Path.cwd()),
            device=device,
            parts=[[place[task] for task in part] for part in cells],
            on_device=[wave.ask.device for wave in shared for _ in wave.parts],
            ordered=[[shorten_id(task) for task in part] for part in cells],
            missing=len(missing),
            first_missing=this.first_missing or len(missing),
            fruitless=this.fruitless,
        ),
    )
    numbers = iter(range(len(cells)))
    calls = [[Part(str(folder), this.number, next(numbers)) for _ in wave.parts] for wave in shared]
    others = [
        _jobs([ref.task for part in wave.parts for task in part for ref in task.sources()], taken) for wave in shared
    ]
    others.append(_jobs(missing, taken))
    name = f"voice-privacy-{folder.name}"
    made = executor.send(name, shared, calls, others, Part(str(folder), this.number, None), folder / status.JOBS_FOLDER)
    every = [job for one in made for job in one]
    status.write_sent_jobs(folder, this.number, every)
    mains = tuple(slurm.list_main_ids(every))
    log.info("%d tasks in %d jobs are sent: %s", len(own), len(cells), ", ".join(mains))
    return Sent(
        folder,
        mains,
        len(cells),
        len(own),
        len(missing) - len(own),
        len(tasks) - len(missing),
        executor.cancelling(every),
    )


def is_asked(asked: Evaluation) -> bool:
    """Whether the executor that is asked for has others do the work."""
    return issubclass(asked.executor.component, Sender)


def sender(asked: Evaluation) -> Sender:
    """The executor of an evaluation whose work is sent."""
    made = asked.executor.component(asked.executor.settings)
    assert isinstance(made, Sender)
    return made


def require(asked: Evaluation, can_be_read_again: bool = True) -> None:
    """That the work of this evaluation can be sent.

    Raises:
        ConfigError: it cannot.
    """
    if not can_be_read_again:
        raise ConfigError(
            "a run that is sent needs its composed configuration, which its jobs read",
            where=f"executor={asked.executor.name}",
            remedy="give evaluate the composed values, as pipeline.evaluate and the command line do",
        )
    sender(asked).require()


def _seconds(task: Task, rates: Sequence[Rates]) -> float:
    """How long a task will take, as the first says that knows: any machine's measurements are better than a guess."""
    by_audio, least = GUESSED
    known = (one.seconds(task) for one in rates)
    return next((found for found in known if found is not None), max(least, by_audio * task.resources.seconds))


def _with_others(asked: Evaluation, folder: Path, executor: Sender) -> dict[str, str]:
    """The tasks, by their short names, that jobs of other runs over the same store are about to do, each with its job."""
    ordered: dict[str, str] = {}
    for run in status.going(asked.paths.runs, asked.paths.store / "files" / status.ENDED):
        jobs = status.read_sent_jobs(run)
        if run.name == folder.name or not jobs:
            continue
        try:
            order = orders.read(run, status.find_last_round(run))
        except PipelineError:  # nothing of it can be relied on
            continue
        ordered |= {name: job for names, job in zip(order.ordered, jobs) for name in names}
    states = executor.states(sorted(set(ordered.values())))
    return {name: job for name, job in ordered.items() if states.get(job, (False, ""))[0]}


def _jobs(tasks: Sequence[Task], taken: dict[str, str]) -> list[str]:
    return sorted({taken[shorten_id(task)] for task in tasks if shorten_id(task) in taken})
