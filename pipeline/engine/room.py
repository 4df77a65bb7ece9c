"""Whether the disk of the store has room for what a run will write, as far as that is known before anything is computed."""

from __future__ import annotations

import logging
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.rates import FILE, Rates
from pipeline.engine.task import Name, Task
from pipeline.errors import StageFailed

MARGIN = 1.1
"""What is needed may be more than what tasks of its kind needed, and other programs write too."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Estimate:
    """A sum over tasks.

    Attributes:
        known: of those of whose kind something was measured.
        unknown: how many others there are: the sum is at least ``known``.
    """

    known: float = 0.0
    unknown: int = 0
    tasks: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of any task."""
        return self.tasks > 0 and self.unknown == self.tasks

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Estimate:
        """The sum of values, None where they are not known."""
        several = list(values)
        known = [value for value in several if value is not None]
        return cls(sum(known), len(several) - len(known), len(several))


def read_free_bytes(folder: Path) -> int | None:
    """Room on the file system on which a folder lies or will lie; None where it cannot be told."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        return shutil.disk_usage(nearest).free
    except OSError as error:
        log.debug("the room in %s is not known: %s", nearest, error)
        return None


def estimate_bytes(tasks: Mapping[Task, Collection[Name]], rates: Rates) -> Estimate:
    """Bytes that the missing outputs of tasks will need."""
    return Estimate.of(rates.bytes(task, outputs) for task, outputs in tasks.items())


def refuse_shortage(wanted: Estimate, free: int | None, store: Path) -> None:
    """Refuse what will not fit, before anything is computed.

    Raises:
        StageFailed: the file system of the store has less room than what is known to be needed.
    """
    if free is None or wanted.known * MARGIN <= free:
        return
    root, least = shlex.quote(str(store.parent)), "at least" if wanted.unknown else "about"
    raise StageFailed(
        f"the results will not fit on the disk: {least} {format_bytes(wanted.known * MARGIN)} are needed, {format_bytes(free)} are free",
        where=str(store),
        cause="tasks of these kinds needed that much in earlier runs; a tenth is added",
        remedy=f"set paths.root to a folder on a disk with that much free, or make room: voice-privacy store gc --keep RUN "
        f"paths.root={root} removes what the named runs do not need; where the estimate is wrong, forget it with "
        f"rm {shlex.quote(str(store.parent / FILE))}",
    )


def check_free_space(tasks: Sequence[Task], outcome: Outcome, rates: Rates) -> None:
    """Refuse a run whose results will not fit.

    Raises:
        StageFailed: as :func:`refuse`.
    """
    free = read_free_bytes(outcome.store.root)
    if rates.is_empty or free is None:
        return
    # Most runs would fit if nothing of them were there yet: the store need not be asked.
    if estimate_bytes({task: list(task.outputs) for task in tasks}, rates).known * MARGIN > free:
        refuse_shortage(estimate_bytes(find_missing(tasks, outcome), rates), free, outcome.store.root)


def format_bytes(size: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"
