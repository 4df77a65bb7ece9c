"""What jobs elsewhere are told, and what they tell: JSON in ``RUN/jobs/``, with a digest over each file.

``ROUND.order.json`` is an order: what the graph is and which tasks each job has (``ROUND.sent.json``: pipeline/tables/sent.py). A job
writes ``ROUND-PART.told.json``: the tasks that failed in it, with their errors. What is done, the store says.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.engine.task import Task
from pipeline.errors import ConfigError, DataError, Fault, ModelMissing, PartialResult, PipelineError, StageFailed
from pipeline.files import write_atomically
from pipeline.seeds import digest
from pipeline.tables import records
from pipeline.tables.status import JOBS_FOLDER

CLASSES = {kind.status: kind for kind in (ConfigError, DataError, ModelMissing, StageFailed, PartialResult)}


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
