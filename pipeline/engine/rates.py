"""How long tasks of a kind take on this machine and how much room their results need, as earlier runs found: ``ROOT/rates.jsonl``.

A run appends a line of JSON for each kind of work that it did: host, device, threads, and ``of``, what was made, by exact and by
similar kind; tasks, seconds of audio, seconds of work, and bytes of each output. Machines, devices and numbers of threads are never
mixed. The exact kind of an output is its stage with the modules of its components and all settings; the similar kind leaves the
settings out, and is asked where the exact one was never measured. A task that makes several outputs is measured as one; where outputs
were never made together, each counts as an even part of what it was made with. Lines that cannot be read are passed over. Nothing of
this enters a key; losing it costs only the estimates. By them a run is refused whose results will not fit on the disk.
"""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.progress import Progress
from pipeline.engine.task import Name, Task
from pipeline.errors import PipelineError, StageFailed
from pipeline.files import write_atomically
from pipeline.seeds import digest

FILE = "rates.jsonl"
LARGEST = 1_000_000
"""Bytes from which on the lines of one kind are added up."""
BLOCK = 4096
DIGITS = 16

Kind = tuple[str, str]
"""Of an output: the exact kind, and the similar one."""

log = logging.getLogger(__name__)


@dataclass
class Total:
    """What was measured of one kind of work; ``bytes`` are of each output that it makes."""

    tasks: int = 0
    audio: float = 0.0
    work: float = 0.0
    bytes: list[int] = field(default_factory=list)

    def add(self, tasks: int, audio: float, work: float, sizes: Sequence[int]) -> None:
        self.tasks += tasks
        self.audio += audio
        self.work += work
        self.bytes = [old + new for old, new in zip(self.bytes or [0] * len(sizes), sizes, strict=True)]

    def scaled(self, value: float, task: Task) -> float:
        """What a sum over the measured tasks comes to for another one: by its audio where tasks have any, else as their mean."""
        if task.resources.seconds and self.audio:
            return value * task.resources.seconds / self.audio
        return value / self.tasks


@dataclass(frozen=True)
class _Site:
    """On what was measured."""

    host: str
    device: str
    threads: int


def identify_kind(task: Task, output: Name) -> Kind:
    """What outputs of one rate have in common."""
    described = task.outputs[output]
    names = [dict(task.settings).get("name"), dict(described.settings).get("name")]
    similar = ["kind", task.name, sorted({*task.code, *described.code}), names]
    exact = [*similar, dict(task.settings), dict(described.settings)]
    return digest(*exact)[:DIGITS], digest(*similar)[:DIGITS]


@dataclass
class Rates:
    """What is known, and what this run adds.

    Attributes:
        place: the file.
        here: host, device and threads of this run.
        known: what was measured of outputs that were made together, by their exact kinds, then by their similar ones.
        single: the share of each output, by either kind.
        new: what this run measured.
    """

    place: Path
    here: _Site
    known: dict[tuple[str, ...], Total] = field(default_factory=dict)
    single: dict[str, Total] = field(default_factory=dict)
    new: dict[tuple[Kind, ...], Total] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, device: str, threads: int | None = None, host: str | None = "") -> Rates:
        """What earlier runs under ``paths.root`` measured; nothing where there is nothing.

        Args:
            root: ``paths.root``.
            device: of the tasks that are asked about; devices of one kind are as fast (``cuda:1`` is ``cuda``).
            threads: of each process; None for any number, where an order is all that is wanted.
            host: '' is this one; None is any, where nothing better is to be had.
        """
        here = socket.gethostname() if host == "" else host
        rates = cls(root / FILE, _Site(socket.gethostname(), device.split(":")[0], threads or 0))
        for where, of, total in _read_lines(rates.place):
            if where.device == rates.here.device and here in (None, where.host) and threads in (None, where.threads):
                for names in zip(*of):
                    rates.known.setdefault(names, Total()).add(total.tasks, total.audio, total.work, total.bytes)
                    share = total.work / len(names)
                    for name, size in zip(names, total.bytes, strict=True):
                        rates.single.setdefault(name, Total()).add(total.tasks, total.audio, share, [size])
        return rates

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not self.known

    def seconds(self, task: Task, outputs: Collection[Name] | None = None) -> float | None:
        """How long a task will take in one process, to make all of its outputs or these; None where nothing like it was measured."""
        if self.is_empty:
            return None
        kinds = _identify_kinds(task, outputs)
        for level in (0, 1):
            total = self.known.get(tuple(output_kind[level] for output_kind in kinds))
            if total is not None:
                return total.scaled(total.work, task)
        totals = [self._single(output_kind) for output_kind in kinds]
        if not totals or None in totals:
            return None
        return sum(total.scaled(total.work, task) for total in totals if total is not None)

    def bytes(self, task: Task, outputs: Collection[Name] | None = None) -> float | None:
        """How much room its results will need, all of them or these; None where nothing like them was measured."""
        if self.is_empty:
            return None
        totals = [self._single(output_kind) for output_kind in _identify_kinds(task, outputs)]
        if not totals or None in totals:
            return None
        return sum(total.scaled(total.bytes[0], task) for total in totals if total is not None)

    def _single(self, kinds: Kind) -> Total | None:
        return self.single.get(kinds[0]) or self.single.get(kinds[1])

    def measured(self, task: Task, work_seconds: float, sizes: Mapping[Name, int]) -> None:
        """Keep what a task took to make so many bytes of each of these outputs."""
        if not sizes:
            return
        of = sorted((identify_kind(task, name), size) for name, size in sizes.items())
        total = self.new.setdefault(tuple(kinds for kinds, _ in of), Total())
        total.add(1, task.resources.seconds, work_seconds, [size for _, size in of])

    def write(self) -> None:
        """Append what this run measured. Where it cannot be written, estimates do without."""
        lines = [_write_line(self.here, of, total) for of, total in self.new.items()]
        self.new.clear()
        try:
            if lines:
                # A line that a kill has cut off ends here.
                begun = self.place.exists() and not self.place.read_bytes().endswith(b"\n")
                with self.place.open("a", encoding="utf-8") as stream:
                    stream.write("\n" * begun + "".join(lines))
                if self.place.stat().st_size > LARGEST:
                    _compact(self.place)
        except OSError as error:
            log.debug("%s is not kept: %s", self.place, error)


def _identify_kinds(task: Task, outputs: Collection[Name] | None) -> list[Kind]:
    return sorted(identify_kind(task, name) for name in task.outputs if outputs is None or name in outputs)


def _write_line(where: _Site, of: Sequence[Kind], total: Total) -> str:
    entry: dict[str, Any] = {"host": where.host, "device": where.device, "threads": where.threads, "of": of}
    entry |= {"tasks": total.tasks, "audio": round(total.audio, 3), "work": round(total.work, 3), "bytes": total.bytes}
    return json.dumps(entry) + "\n"


def _read_lines(place: Path) -> Iterator[tuple[_Site, tuple[Kind, ...], Total]]:
    try:
        text = place.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            where = _Site(str(entry["host"]), str(entry["device"]), int(entry["threads"]))
            of = tuple((str(exact), str(similar)) for exact, similar in entry["of"])
            sizes = [int(size) for size in entry["bytes"]]
            total = Total(int(entry["tasks"]), float(entry["audio"]), float(entry["work"]), sizes)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            continue
        numbers = (total.audio, total.work, *sizes)
        if of and len(of) == len(sizes) and total.tasks > 0 and all(0 <= value < 1e18 for value in numbers):
            yield where, of, total


def _compact(place: Path) -> None:
    """Add up the lines of one kind; of those that then are too many, the ones that were measured last stay."""
    totals: dict[tuple[_Site, tuple[Kind, ...]], Total] = {}
    for where, of, total in _read_lines(place):
        earlier = totals.pop((where, of), Total())
        earlier.add(total.tasks, total.audio, total.work, total.bytes)
        totals[where, of] = earlier
    lines = [_write_line(where, of, total).encode() for (where, of), total in totals.items()]
    kept, size = [], 0
    for line in reversed(lines):
        size += len(line)
        if size > LARGEST // 2:
            break
        kept.append(line)
    write_atomically(place, b"".join(reversed(kept)))


class Measuring(Progress):
    """Measures each task that is computed, from its beginning to its end; what was measured is written when nothing more is done.

    Args:
        rates: gets it.
        outcome: has the artefacts.
    """

    def __init__(self, rates: Rates, outcome: Outcome) -> None:
        super().__init__()
        self.rates, self.outcome = rates, outcome
        self._since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # as records have it
        self._began: dict[str, float] = {}
        self._took: list[tuple[Task, float]] = []

    def begin(self, task: Task, where: str = "") -> None:
        self._began[task.id] = time.monotonic()

    def advance(self, task: Task, seconds: float) -> None:
        pass

    def end(self, task: Task, computed: bool) -> None:
        began = self._began.pop(task.id, None)
        if computed and began is not None:
            self._took.append((task, time.monotonic() - began))

    def fail(self, task: Task, error: PipelineError, trace: str = "") -> None:
        self._began.pop(task.id, None)

    def finish(self) -> None:
        for task, seconds in self._took:
            self.rates.measured(task, seconds, dict(self._made(task)))
        self._took.clear()
        self.rates.write()

    def _made(self, task: Task) -> Iterable[tuple[Name, int]]:
        """The outputs that this run made, with their bytes; others of the task were there."""
        for name in task.outputs:
            artefact = self.outcome.artefacts.get((task.id, name))
            if artefact is not None and artefact.record["made"]["utc"] >= self._since:
                # Whole blocks, and one for the record, as the disk counts them.
                blocks = sum(-(-entry["bytes"] // BLOCK) for entry in artefact.record["files"].values()) + 1
                yield name, blocks * BLOCK


MARGIN = 1.1
"""What is needed may be more than what tasks of its kind needed, and other programs write too."""


@dataclass(frozen=True)
class Estimate:
    """A sum over tasks.

    Attributes:
        amount: of those of whose kind something was measured.
        unknown: how many others there are: the sum is at least ``amount``.
    """

    amount: float = 0.0
    unknown: int = 0
    tasks: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of any task."""
        return self.tasks > 0 and self.unknown == self.tasks

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Estimate:
        """The sum of values, None where they are not known."""
        listed = list(values)
        amounts = [value for value in listed if value is not None]
        return cls(sum(amounts), len(listed) - len(amounts), len(listed))


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
    if free is None or wanted.amount * MARGIN <= free:
        return
    root, least = shlex.quote(str(store.parent)), "at least" if wanted.unknown else "about"
    raise StageFailed(
        f"the results will not fit on the disk: {least} {format_bytes(wanted.amount * MARGIN)} are needed, {format_bytes(free)} are free",
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
    if estimate_bytes({task: list(task.outputs) for task in tasks}, rates).amount * MARGIN > free:
        refuse_shortage(estimate_bytes(find_missing(tasks, outcome), rates), free, outcome.store.root)


def format_bytes(size: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"
