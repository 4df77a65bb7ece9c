"""What is missing of a graph is sent elsewhere: shared out, ordered in the run folder, handed over; and what its jobs tell.

Orders and reports are JSON in ``RUN/jobs/``, with a digest over each file. ``ROUND.order.json`` says what the graph is and which tasks
each job has; a job writes ``ROUND-PART.told.json``: the tasks that failed in it, with their errors. What is done, the store says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.engine.contracts import Sender
from pipeline.engine.journal import shorten_id
from pipeline.engine.rates import Rates
from pipeline.engine.task import Task
from pipeline.engine.waves import Wave
from pipeline.errors import ConfigError, DataError, Fault, ModelMissing, PartialResult, PipelineError, StageFailed
from pipeline.files import file_digest, write_atomically
from pipeline.seeds import digest
from pipeline.stages.settings import Evaluation
from pipeline.tables import records, status
from pipeline.tables.status import JOBS_FOLDER

CLASSES = {kind.status: kind for kind in (ConfigError, DataError, ModelMissing, StageFailed, PartialResult)}
CONFIG = "config.yaml"
GUESSED = 0.1, 1.0
"""Where nothing was measured: seconds of work for a second of audio, and the least that a task takes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Order:
    """What the jobs of a round are told.

    Attributes:
        number: of the round, from 1.
        graph: digest of the graph: the ids of its tasks, in order.
        config: sha256 of ``config.yaml``.
        recipe: its name.
        cwd: the folder from which relative paths go.
        device: what the tasks are to have that can use an accelerator: ``cpu``, or what ``runtime.device`` says.
        parts: the tasks of each job, by their place in the graph.
        on_device: whether each job has an accelerator.
        ordered: the tasks by their short names, for other runs that need the same.
        missing: tasks of the graph that the store did not have when this round was sent.
        first_missing: the same of the first round.
        fruitless: rounds on end in which nothing was finished.
    """

    number: int
    graph: str
    config: str
    recipe: str
    cwd: str
    device: str
    parts: list[list[int]]
    on_device: list[bool]
    ordered: list[list[str]]
    missing: int
    first_missing: int
    fruitless: int = 0


def plan_digest(tasks: Sequence[Task]) -> str:
    """What two plans of the same graph have in common."""
    return digest("graph", [task.id for task in tasks])


def write_order(run: Path, order: Order) -> None:
    """Write an order into the run folder."""
    folder = run / JOBS_FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{order.number}.order.json", records.encode_signed(asdict(order)))


def read_order(run: Path, number: int) -> Order:
    """The order of a round.

    Raises:
        ConfigError: there is none.
        DataError: it is not what was written.
    """
    path = run / JOBS_FOLDER / f"{number}.order.json"
    try:
        values = records.decode_signed(path.read_bytes())
        return Order(**{field.name: values[field.name] for field in fields(Order)})
    except OSError as error:
        raise ConfigError(
            f"there is no order of round {number} in this run folder ({error.strerror})",
            where=str(path),
            remedy="name the folder of a run that was sent to a cluster",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            "the order of a run is not what was written",
            where=str(path),
            cause=str(error),
            remedy="run the same evaluation again; what is in the store is reused",
        ) from error


def write_report(
    run: Path, number: int, part: int, failed: Mapping[int, PipelineError], log_file: Path, device: str
) -> None:
    """Write what failed in a part.

    Args:
        failed: errors by the place of the task in the graph.
        log_file: where the messages of the job stand.
        device: on which its tasks were performed.
    """
    rows = [{"task": place, "error": _to_values(error)} for place, error in failed.items()]
    report = {"failed": rows, "log": str(log_file), "device": device, "at": round(time.time(), 3)}
    write_atomically(run / JOBS_FOLDER / f"{number}-{part}.told.json", records.encode_signed(report))


@dataclass(frozen=True)
class Reports:
    """What the parts of all rounds have reported.

    Attributes:
        failed: errors by the place of the task in the graph.
        logs: where the messages of the job stand, by the same.
        devices: on which tasks were performed.
    """

    failed: Mapping[int, PipelineError]
    logs: Mapping[int, str]
    devices: frozenset[str]


def read_reports(run: Path) -> Reports:
    """What the parts have told; a file that cannot be read tells nothing: its tasks count as lost, and are sent again."""
    failed: dict[int, PipelineError] = {}
    logs: dict[int, str] = {}
    devices = set()
    for path in sorted((run / JOBS_FOLDER).glob("*.told.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            report = records.decode_signed(path.read_bytes())
            devices.add(str(report["device"]))
            for row in report["failed"]:
                failed[int(row["task"])] = _from_values(row["error"])
                logs[int(row["task"])] = str(report["log"])
    return Reports(failed, logs, frozenset(devices))


def _to_values(error: PipelineError) -> dict[str, Any]:
    texts = {name: getattr(error, name) for name in ("status", "what", "where", "cause", "remedy")}
    return {**texts, "faults": [[fault.what, fault.where, fault.kind] for fault in error.faults]}


def _from_values(values: Mapping[str, Any]) -> PipelineError:
    texts = {name: values[name] for name in ("where", "cause", "remedy")}
    faults = [Fault(*map(str, fault)) for fault in values["faults"]]
    return CLASSES.get(values["status"], StageFailed)(values["what"], **texts, faults=faults)


# Sending --------------------------------------------------------------------------------------------------------------


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
    submitted = executor.send(f"voice-privacy-{folder.name}", waves, calls, others, report, folder / JOBS_FOLDER)
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
    write_order(
        folder,
        Order(
            number=this.number,
            graph=plan_digest(tasks),
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
            order = read_order(run, status.find_last_round(run))
        except PipelineError:  # nothing of it can be relied on
            continue
        ordered |= {name: job for names, job in zip(order.ordered, jobs) for name in names}
    states = executor.states(sorted(set(ordered.values())))
    return {name: job for name, job in ordered.items() if states.get(job, (False, ""))[0]}


def _jobs(tasks: Sequence[Task], taken: dict[str, str]) -> list[str]:
    return sorted({taken[shorten_id(task)] for task in tasks if shorten_id(task) in taken})
