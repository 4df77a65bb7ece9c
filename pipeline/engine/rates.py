"""How long tasks of a kind take on this machine and how much room their results need, as earlier runs found: ``ROOT/rates.jsonl``.

A line of JSON for each kind of task of each run: host, device, kind, tasks, seconds of audio, seconds of work, bytes. A kind is a stage
with the modules of its components and its outputs' components. Nothing of it enters a key; losing it costs only the estimates.
"""

from __future__ import annotations

import json
import logging
import socket
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.engine.task import Task
from pipeline.seeds import digest

FILE = "rates.jsonl"

log = logging.getLogger(__name__)


@dataclass
class Total:
    """What was measured of one kind of task."""

    tasks: int = 0
    audio_seconds: float = 0.0
    work_seconds: float = 0.0
    bytes: int = 0

    def add(self, tasks: int, audio: float, work: float, size: int) -> None:
        self.tasks += tasks
        self.audio_seconds += audio
        self.work_seconds += work
        self.bytes += size


def kind(task: Task) -> str:
    """What tasks of one rate have in common: the stage and the components, with their settings."""
    outputs = [[sorted(one.code), dict(one.settings)] for one in task.outputs.values()]
    return digest("kind", task.name, sorted(task.code), dict(task.settings), outputs)[:16]


@dataclass
class Rates:
    """What is known, and what this run adds.

    Attributes:
        known: by kind, of this host and device.
    """

    place: Path
    device: str
    known: dict[str, Total] = field(default_factory=lambda: defaultdict(Total))
    new: dict[str, Total] = field(default_factory=lambda: defaultdict(Total))

    @classmethod
    def read(cls, root: Path, device: str) -> Rates:
        """What earlier runs under ``paths.root`` measured on this host with this device; empty where there is nothing."""
        rates = cls(root / FILE, device)
        try:
            lines = rates.place.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return rates
        for line in lines:
            try:
                one = json.loads(line)
                if (one["host"], one["device"]) == (socket.gethostname(), device):
                    rates.known[one["kind"]].add(one["tasks"], one["audio"], one["work"], one["bytes"])
            except (ValueError, KeyError, TypeError):  # cut off by a kill
                continue
        return rates

    def seconds(self, task: Task) -> float | None:
        """How long a task will take in one process; None where nothing of its kind was measured."""
        total = self.known.get(kind(task))
        if total is None or not total.tasks:
            return None
        if task.resources.seconds and total.audio_seconds:
            return total.work_seconds * task.resources.seconds / total.audio_seconds
        return total.work_seconds / total.tasks

    def bytes(self, task: Task) -> float | None:
        """How much room its results will need; None where nothing of its kind was measured."""
        total = self.known.get(kind(task))
        if total is None or not total.tasks:
            return None
        if task.resources.seconds and total.audio_seconds:
            return total.bytes * task.resources.seconds / total.audio_seconds
        return total.bytes / total.tasks

    def measured(self, task: Task, work_seconds: float, size: int) -> None:
        """Keep what a task took."""
        self.new[kind(task)].add(1, task.resources.seconds, work_seconds, size)

    def write(self) -> None:
        """Append what this run measured. Where it cannot be written, estimates do without."""
        lines = list(self._lines(self.new.items()))
        self.new.clear()
        try:
            if lines:
                with self.place.open("a", encoding="utf-8") as stream:
                    stream.write("".join(lines))
        except OSError as error:
            log.debug("%s is not kept: %s", self.place, error)

    def _lines(self, totals: Iterable[tuple[str, Total]]) -> Iterable[str]:
        for name, one in totals:
            said = {"host": socket.gethostname(), "device": self.device, "kind": name, "tasks": one.tasks,
                    "audio": round(one.audio_seconds, 3), "work": round(one.work_seconds, 3), "bytes": one.bytes}  # fmt: skip
            yield json.dumps(said) + "\n"
