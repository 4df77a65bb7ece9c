"""The state of each task of a run, from what its processes write in their journals; also while they write.

Each process has a journal of its own (:mod:`pipeline.engine.journal`), and a task may stand in several: it was begun again elsewhere
after its process had died. What is done anywhere is done. What goes on in a living process goes on. Of all else the latest counts.

Clocks: within a journal time never goes backwards, whatever the clock of its machine does. How long ago something was is told by the
journal's own clock, so that no time is negative where machines disagree.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pipeline.engine.journal import FOLDER
from pipeline.processes import is_dead, parse_token

State = Literal["waiting", "running", "done", "reused", "failed", "skipped", "lost"]
"""``skipped``: not run, because one that it stands on failed. ``lost``: begun by a process that ended before it was done."""
_ENDS: dict[str, State] = {"done": "done", "reused": "reused", "failed": "failed", "skipped": "skipped"}
WINDOW_SECONDS = 300.0
"""Over these last seconds the rate is taken."""


@dataclass(frozen=True)
class Performer:
    """What works on a task, or worked on it last: a process of a machine, and there a worker and its device; '' is the process itself."""

    host: str = ""
    pid: int = 0
    where: str = ""


@dataclass(frozen=True)
class Failure:
    """What a task failed with: in words, the traceback where the words do not say it all, and a file with more."""

    error: str = ""
    trace: str = ""
    log: str = ""


@dataclass
class TaskState:
    """A task and what became of it.

    Attributes:
        id: as journals name it.
        seconds: of audio.
        device: whether it uses an accelerator.
        expected: seconds that it takes, as earlier runs had it; None where nothing is known.
        state: see :data:`State`.
        performer: what works on it, or worked on it last.
        at: when it came into this state, in seconds since 1970; of one that runs, when it began.
        took: seconds that it took, or that it has been running for.
        advanced: seconds of its audio that are known to be done.
        failure: what it failed with.
    """

    id: str
    stage: str = "?"
    label: str = ""
    seconds: float = 0.0
    device: bool = False
    expected: float | None = None
    state: State = "waiting"
    performer: Performer = Performer()
    at: float = 0.0
    took: float = 0.0
    advanced: float = 0.0
    failure: Failure = Failure()

    @property
    def is_done(self) -> bool:
        return self.state in ("done", "reused")

    def plain(self) -> dict[str, Any]:
        """All of it for JSON, without groups."""
        values = asdict(self)
        performer, failure = values.pop("performer"), values.pop("failure")
        return {**values, **performer, **failure}


@dataclass(frozen=True)
class Process:
    """A process that performs tasks of the run.

    Attributes:
        job: of Slurm; '' outside.
        over: whether it is known to begin nothing more: it said so, it has died, or its job or its run has ended.
        quiet: seconds since it wrote its last line.
    """

    host: str
    pid: int
    job: str
    over: bool
    quiet: float


@dataclass(frozen=True)
class Snapshot:
    """All tasks of a run at one moment, in the order in which they were planned."""

    tasks: tuple[TaskState, ...] = ()
    processes: tuple[Process, ...] = ()
    gains: tuple[tuple[float, float, float], ...] = field(default=(), repr=False)
    """Audio that was worked through: from so many seconds ago, to so many seconds ago, seconds of audio."""

    def of(self, *states: State) -> list[TaskState]:
        """The tasks in one of these states."""
        return [task for task in self.tasks if task.state in states]

    def by_stage(self) -> dict[str, Counter[State]]:
        """How many tasks of each stage are in which state."""
        counts: dict[str, Counter[State]] = {}
        for task in self.tasks:
            counts.setdefault(task.stage, Counter())[task.state] += 1
        return counts

    def audio(self) -> tuple[float, float]:
        """Seconds of audio done, and in all."""
        done = sum(task.seconds if task.is_done else min(task.advanced, task.seconds) for task in self.tasks)
        return done, sum(task.seconds for task in self.tasks)

    def rate(self, window: float = WINDOW_SECONDS) -> float | None:
        """Seconds of audio that were worked through in a second, over the last seconds; None where there were none."""
        since = max((start for start, _, _ in self.gains), default=0.0)
        since = min(window, max([since, *(task.took for task in self.of("running"))]))
        done = sum(_share_within(start, end, audio, since) for start, end, audio in self.gains)
        return done / since if since > 0 and done > 0 else None

    def overall_rate(self) -> float | None:
        """Seconds of audio that were worked through in a second, from the first to the last; None where there were none."""
        if not self.gains:
            return None
        span = max(start for start, _, _ in self.gains) - min(end for _, end, _ in self.gains)
        return sum(audio for _, _, audio in self.gains) / span if span > 0 else None

    def left(self) -> tuple[float | None, tuple[str, ...]]:
        """Seconds until all is done, if as many tasks are worked on at once as now; None where there is nothing to go by. And the
        stages of which nothing is known, which are not in it."""
        done = self.of("done")
        speeds = {stage: _Speed.of([task for task in done if task.stage == stage]) for stage in self.by_stage()}
        work, unknown = [], {}
        for task in self.of("waiting", "running"):
            takes = speeds[task.stage].takes(task)
            if takes is None:
                unknown[task.stage] = True
            else:
                work.append(max(0.0, takes - task.took) if task.state == "running" else takes)
        at_once = max(1, len(self.of("running")))
        return (sum(work) / at_once if work else None), tuple(unknown)


@dataclass(frozen=True)
class _Speed:
    """What the finished tasks of a stage took."""

    tasks: int
    audio: float
    work: float

    @classmethod
    def of(cls, done: Sequence[TaskState]) -> _Speed:
        return cls(len(done), sum(task.seconds for task in done), sum(task.took for task in done))

    def takes(self, task: TaskState) -> float | None:
        if self.tasks and self.audio and task.seconds:
            return self.work * task.seconds / self.audio
        if self.tasks:
            return self.work / self.tasks
        if task.state == "running" and task.advanced > 0 and task.took > 0:
            return task.took * max(1.0, task.seconds / task.advanced)
        return task.expected


def _share_within(start: float, end: float, audio: float, window: float) -> float:
    """How much of the audio between two moments (seconds ago) falls into the last seconds."""
    if end > window:
        return 0.0
    return audio if start <= window else audio * (window - end) / (start - end)


class Journals:
    """The journals of a run. Each look reads what has been added since the last one.

    Args:
        run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self._files: dict[str, _Journal] = {}

    def look(self, over: bool = False, ended_jobs: Collection[str] = ()) -> Snapshot:
        """All tasks as they stand now.

        Args:
            over: whether the run has ended: nothing of it goes on any more.
            ended_jobs: jobs of Slurm of which it says that they have ended.
        """
        # Looked at before the journals are read: what a process wrote before it died is then read too.
        names = self._names()
        owners = {name: parse_token(name.removesuffix(".jsonl")) for name in names}
        dead = {name for name, owner in owners.items() if owner is not None and is_dead(owner)}
        for name in names:
            self._files.setdefault(name, _Journal(self.folder / name)).read()
        now = time.time()
        journals = sorted(self._files.items(), key=lambda item: item[1].first)
        tasks: dict[str, TaskState] = {}
        processes, gains = [], []
        for name, journal in journals:
            ended = over or name in dead or (journal.job != "" and journal.job in ended_jobs)
            for task in journal.at(now, ended):
                earlier = tasks.get(task.id)
                tasks[task.id] = task if earlier is None else _merge_states(earlier, task)
            quiet = journal.now(now) - journal.last
            processes.append(Process(journal.host, journal.pid, journal.job, ended or journal.ended, quiet))
            gains += journal.gained(now)
        return Snapshot(tuple(tasks.values()), tuple(processes), tuple(gains))

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self.folder.iterdir() if path.suffix == ".jsonl")
        except OSError:
            return []


def _rank(task: TaskState) -> tuple[int, float]:
    if task.is_done:
        return 3, task.state == "done"
    return {"running": 2, "waiting": 0}.get(task.state, 1), task.at


def _merge_states(first: TaskState, other: TaskState) -> TaskState:
    expected = next((task.expected for task in (first, other) if task.expected is not None), None)
    named = max(first, other, key=lambda task: bool(task.label))
    plan = {name: getattr(named, name) for name in ("stage", "label", "seconds", "device")}
    return replace(max(first, other, key=_rank), **plan, expected=expected)


class _Journal:
    """One journal, as far as it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.offset = 0
        self._told: dict[str, float] = {}
        self._made: dict[str, TaskState] = {}
        self.tasks: dict[str, TaskState] = {}
        self.gains: list[tuple[float, float, float]] = []
        self.host, self.pid, self.job, self.ended = "", 0, "", False
        self.first, self.last, self.shift = 0.0, 0.0, 0.0

    def read(self) -> None:
        """Take in the lines that have been added. One that is not complete yet is left for the next time."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.offset)
                added = stream.read()
        except OSError:  # it went, or cannot be read now
            return
        lines = added[: added.rfind(b"\n") + 1]
        self.offset += len(lines)
        for line in lines.splitlines():
            try:
                event = json.loads(line.decode("utf-8", "replace"))
                self._take(event)
            # Cut off by a kill or a full disk.
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue

    def now(self, now: float) -> float:
        """This moment by the clock of the journal, which never stands before its last line."""
        return max(now + self.shift, self.last)

    def at(self, now: float, over: bool) -> Iterator[TaskState]:
        """The tasks at this moment."""
        for task in self.tasks.values():
            if task.state == "running" and over:
                yield replace(task, state="lost", took=max(0.0, self.last - task.at))
            elif task.state == "running":
                yield replace(task, took=max(0.0, self.now(now) - task.at))
            else:
                yield replace(task)

    def gained(self, now: float) -> list[tuple[float, float, float]]:
        """Audio that was worked through: from and to so many seconds ago, seconds of audio."""
        mine = self.now(now)
        return [(mine - start, mine - end, audio) for start, end, audio in self.gains]

    def _take(self, event: dict[str, Any]) -> None:
        at = float(event["at"]) + self.shift
        if at < self.last:  # the clock was set back
            self.shift += self.last - at
            at = self.last
        self.first, self.last = self.first or at, at
        self.host, self.pid = str(event["host"]), int(event["pid"])
        what = event["event"]
        if what == "planned":
            self.job, self.ended = str(event.get("job", "")), False
            for row in event["tasks"]:
                self._planned(row)
        elif what == "end":
            self.ended = True
            for task in self.tasks.values():
                if task.state == "running":
                    task.state, task.took, task.at = "lost", at - task.at, at
        else:
            self._happened(what, event, at)

    def _planned(self, row: Sequence[Any]) -> None:
        name, stage, label, seconds, device = row[:5]
        task = self.tasks.setdefault(str(name), TaskState(str(name)))
        task.stage, task.label, task.seconds, task.device = str(stage), str(label), float(seconds), bool(device)
        if len(row) > 5 and row[5] is not None:
            task.expected = float(row[5])
        if not task.is_done:  # whatever became of it before, it is to be done again
            task.state, task.failure, task.advanced = "waiting", Failure(log=task.failure.log), 0.0

    def _happened(self, what: str, event: dict[str, Any], at: float) -> None:
        name = str(event["task"])
        task = self.tasks.setdefault(name, TaskState(name))
        if what == "advanced":
            self._gain(task, float(event["seconds"]), at)
        elif what == "begin":
            task.state, task.at, task.took = "running", at, 0.0
            task.advanced, self._told[name] = 0.0, at
            task.performer = Performer(self.host, self.pid, str(event.get("where", "")))
        elif what in _ENDS:
            self._ended_so(task, _ENDS[what], event, at)

    def _ended_so(self, task: TaskState, what: State, event: dict[str, Any], at: float) -> None:
        took = max(0.0, float(event.get("took", 0.0)))
        if what == "done":
            # The process counts by a clock that nobody sets: of a begin that lies too early or too late, this is the better one.
            self._told.setdefault(task.id, at - took)
            self._gain(task, task.seconds, at)
        if what == "reused" and task.id in self._made:  # by this process, and it is only asked for again
            self.tasks[task.id] = self._made[task.id]
            return
        task.state, task.at, task.took = what, at, took
        task.performer = replace(task.performer, host=self.host, pid=self.pid)
        task.failure = Failure(*(str(event.get(name, "")) for name in ("error", "trace", "log")))
        if what == "done":
            self._made[task.id] = replace(task)

    def _gain(self, task: TaskState, advanced: float, at: float) -> None:
        gained = min(advanced, task.seconds) - task.advanced
        start = min(self._told.get(task.id, at), at)
        if gained > 0:
            self.gains.append((start, at, gained))
        task.advanced, self._told[task.id] = max(task.advanced, min(advanced, task.seconds)), at
