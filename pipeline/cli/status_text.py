"""What is said of a run that is looked at: as lines for people, and as plain values."""

from __future__ import annotations

import calendar
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.cli.output import align_columns
from pipeline.engine.journal import FOLDER
from pipeline.engine.journal_reader import WINDOW_SECONDS, Snapshot, State, TaskState
from pipeline.faults import escape_unprintable
from pipeline.processes import read_owner
from pipeline.tables import status

TRACE_LINES = 5
"""The last lines of a traceback that are printed."""
MOST_FAILURES, MOST_RUNNING, MOST_JOBS = 20, 16, 10
QUIET_SECONDS = 3 * status.BEAT_SECONDS
COLUMNS: dict[str, tuple[State, ...]] = {
    "done": ("done",), "reused": ("reused",), "running": ("running",), "waiting": ("waiting",), "failed": ("failed",),
    "not run": ("skipped",), "interrupted": ("lost",),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A run at one moment.

    Attributes:
        record: its status.json.
        over: whether it has ended.
        jobs: what Slurm says of its jobs.
        alive: when it gave its last sign of life, in seconds since 1970.
        sent: the ids of its jobs, of those that it has sent the one that reports last.
    """

    folder: Path
    record: Mapping[str, Any]
    over: bool
    look: Snapshot
    jobs: slurm.Answer
    alive: float
    sent: tuple[str, ...] = ()

    def changing(self) -> object:
        """What differs if and only if there is something new to say."""
        states = Counter(task.state for task in self.look.tasks)
        running = [task.id for task in self.look.of("running")]
        return self.record.get("state"), sorted(states.items()), running, sorted(self.jobs.states.items())

    def stages(self) -> dict[str, dict[str, int]]:
        """The table of the tasks: by stage, the number in each column."""
        return {
            stage: {name: sum(counts[state] for state in states) for name, states in COLUMNS.items()}
            for stage, counts in self.look.by_stage().items()
        }

    def began(self) -> float | None:
        return _seconds(self.record.get("started"))

    def lasted(self) -> float | None:
        """How long it goes on, or went on."""
        began, ended = self.began(), _seconds(self.record.get("ended")) if self.over else time.time()
        return None if began is None or ended is None else max(0.0, ended - began)


def _seconds(utc: object) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(str(utc), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def lines(seen: Seen, most_failures: int = MOST_FAILURES) -> list[str]:
    """All that is said of a run."""
    texts = [f"run {seen.folder.name}: {_state(seen)}", f"folder: {seen.folder}", *_signs(seen), ""]
    if not seen.look.tasks:
        texts.append(
            "no tasks are known of it"
            if seen.over
            else "its tasks are not known yet: the data set is read and checked first"
        )
    else:
        texts += [*_table(seen), *_lacking(seen), "", *_running(seen), *_speed(seen), *_hosts(seen)]
    return [*texts, *_jobs(seen), *_failures(seen, most_failures), *_reasons(seen)]


def line(seen: Seen) -> str:
    """How far it is, in a line for a log."""
    counts = Counter(task.state for task in seen.look.tasks)
    done = counts["done"] + counts["reused"]
    at = time.strftime("%H:%M:%SZ", time.gmtime())
    if not seen.look.tasks:
        return f"{at} its tasks are not known yet"
    parts = [f"{done} of {len(seen.look.tasks)} tasks done ({counts['reused']} reused)"]
    for name in ("running", "failed", "not run", "interrupted"):
        number = sum(counts[state] for state in COLUMNS[name])
        parts += [f"{number} {name}"] if number else []
    running = seen.look.of("running")
    if running:
        parts.append(_name(running[0]) + (f" and {len(running) - 1} more" if len(running) > 1 else ""))
    if not seen.over:
        parts += _speed(seen)[:2]
    return f"{at} {', '.join(parts)}"


def others(records: Mapping[Path, Mapping[str, Any]], most: int = 5) -> list[str]:
    """Other runs that go on."""
    if not records:
        return []
    texts = ["", "other runs that go on:"]
    for folder, record in list(records.items())[:most]:
        at = f", {record['tasks_done']} of {record['tasks_total']} tasks" if "tasks_done" in record else ""
        texts.append(f"  {folder.name}: {status.in_words(record)}{at}")
    return texts + ([f"  and {len(records) - most} more"] if len(records) > most else [])


def to_plain(seen: Seen) -> dict[str, Any]:
    """All of it as plain values."""
    done, total = seen.look.audio()
    left, unknown = (None, ()) if seen.over else seen.look.left()
    return {
        "run": seen.folder.name,
        "folder": str(seen.folder),
        "over": seen.over,
        "record": dict(seen.record),
        "stages": seen.stages(),
        "audio_seconds": {"done": done, "total": total},
        "rate": seen.look.overall_rate() if seen.over else seen.look.rate(),
        "seconds_left": left,
        "stages_without_estimate": list(unknown),
        "processes": [asdict(process) for process in seen.look.processes],
        "sent": list(seen.sent),
        "jobs": {job: {"state": state, "exit_status": code} for job, (state, code) in seen.jobs.states.items()},
        "tasks": [task.plain() for task in seen.look.tasks],
    }


def _state(seen: Seen) -> str:
    record, lasted = seen.record, seen.lasted()
    state = str(record.get("state") or "")
    time_of = f" ({duration(lasted)})" if lasted is not None else ""
    if not state and seen.over:
        return f"its {status.FILE} is not there, and {status.quiet(seen.folder)}"
    if not state:
        return "it begins; its record is not written yet"
    if state == status.GARBLED and seen.over:
        return f"it has ended; {status.in_words(record)}"
    if not seen.over:
        # Of a run that was sent it is whoever sent it.
        owner = None if state == status.SUBMITTED or len(seen.sent) > 1 else read_owner(record.get("process"))
        since = f" since {record['started']}{time_of}" if "started" in record else ""
        return (
            f"{status.in_words(record)}"
            if state == status.GARBLED
            else f"{state}{since}" + (f", {owner}" if owner else "")
        )
    exit_status = f" with exit status {record['exit_status']}" if "exit_status" in record else ""
    times = f", {record.get('started', '?')} to {record['ended']}{time_of}" if "ended" in record else ""
    return f"{state}{exit_status}{times}"


def _signs(seen: Seen) -> list[str]:
    quiet = time.time() - seen.alive
    return [f"its last sign of life was {duration(quiet)} ago"] if not seen.over and quiet > QUIET_SECONDS else []


def _table(seen: Seen) -> list[str]:
    """Tasks by stage. Columns that have nothing in them are left out, but for those that everybody looks for."""
    stages = seen.stages()
    total = {name: sum(counts[name] for counts in stages.values()) for name in COLUMNS}
    always = ("done",) if seen.over else ("done", "running", "waiting")
    names = [name for name in COLUMNS if total[name] or name in always or name == "failed"]
    heads = ["not begun" if name == "waiting" and seen.over else name for name in names]
    rows = [["stage", *heads, "total"]]
    for stage, counts in [*stages.items(), ("all", total)]:
        rows.append([escape_unprintable(stage), *(str(counts[name]) for name in names), str(sum(counts.values()))])
    return align_columns(rows, numbers=True)


def _lacking(seen: Seen) -> list[str]:
    """A run that is done has done all of its tasks, whatever is left of its journals."""
    if seen.record.get("state") != "done" or all(task.is_done for task in seen.look.tasks):
        return []
    return [f"the run is done, so all its tasks are: lines are missing in {seen.folder / FOLDER}"]


def _running(seen: Seen) -> list[str]:
    running = sorted(seen.look.of("running"), key=lambda task: -task.took)
    if not running:
        return []
    texts = ["running now:"]
    for task in running[:MOST_RUNNING]:
        audio = f", {task.advanced:.0f} of {task.seconds:.0f} s of audio" if task.advanced else ""
        texts.append(f"  {_name(task)}: {_place(task)}, for {duration(task.took)}{audio}")
    return texts + ([f"  and {len(running) - MOST_RUNNING} more"] if len(running) > MOST_RUNNING else [])


def _name(task: TaskState) -> str:
    return escape_unprintable(task.label) or task.id


def _place(task: TaskState) -> str:
    by = task.performer
    return escape_unprintable(" ".join(filter(None, [f"{by.host}, process {by.pid}", by.where and f"({by.where})"])))


def _speed(seen: Seen) -> list[str]:
    """Rate, and time left: two lines, of a run that has ended one."""
    if not seen.look.tasks:
        return []
    done, total = seen.look.audio()
    rate = seen.look.overall_rate() if seen.over else seen.look.rate()
    lately = not seen.over and (seen.lasted() or 0.0) > WINDOW_SECONDS
    over = f" over the last {WINDOW_SECONDS / 60:.0f} min" if lately else ""
    texts = [
        f"rate: {f'{rate:.3g} x real time{over}' if rate else 'unknown'}, {done:.0f} of {total:.0f} s of audio done"
    ]
    if seen.over:
        return texts
    left, unknown = seen.look.left()
    without = f" (without {', '.join(unknown)}: nothing to go by yet)" if unknown else ""
    if left is None:
        return [*texts, "time left: unknown" if unknown else "all tasks are over: the results are gathered"]
    return [*texts, f"time left: about {duration(left)}{without}"]


def _hosts(seen: Seen) -> list[str]:
    """How many processes and tasks each machine has, or had."""
    hosts = list(dict.fromkeys(process.host for process in seen.look.processes))
    texts = ["hosts:"]
    for host in hosts:
        alive = sum(not process.over for process in seen.look.processes if process.host == host)
        counts = Counter(task.state for task in seen.look.tasks if task.performer.host == host)
        named = [
            f"{sum(counts[state] for state in states)} {name}"
            for name, states in COLUMNS.items()
            if any(counts[state] for state in states)
        ]
        at_work = [] if seen.over else [f"{alive} process{'' if alive == 1 else 'es'} at work"]
        if named or alive:
            texts.append(f"  {escape_unprintable(host)}: {', '.join([*at_work, *named])}")
    return texts if len(texts) > 1 else []


def _jobs(seen: Seen) -> list[str]:
    if not seen.sent:
        return []
    mains = slurm.list_main_ids(seen.sent)
    last = f" ({mains[-1]} gathers and reports when the others have ended)" if len(mains) > 1 and not seen.over else ""
    texts = [f"jobs of Slurm: {' '.join(mains)}{last}"]
    if seen.jobs.refusal:
        return [*texts, f"  Slurm does not answer here ({escape_unprintable(seen.jobs.refusal)})"]
    arrays: dict[str, Counter[str]] = {}
    for job, (state, _) in seen.jobs.states.items():
        arrays.setdefault(job.partition("_")[0], Counter())[state] += 1
    for job, states in list(arrays.items())[:MOST_JOBS]:
        texts.append(f"  {job}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    texts += [f"  and {len(arrays) - MOST_JOBS} more"] if len(arrays) > MOST_JOBS else []
    return texts if seen.over else [*texts, f"to end it: scancel {' '.join(mains)}"]


def _failures(seen: Seen, most: int) -> list[str]:
    failed = seen.look.of("failed")
    if not failed:
        return []
    texts = ["", f"failures: {len(failed)}"]
    for task in failed[:most]:
        texts.append(
            f"  {_name(task)} ({escape_unprintable(task.stage)}; {_place(task)}, after {duration(task.took)}):"
        )
        texts += [f"    {escape_unprintable(text)}" for text in task.failure.error.splitlines()]
        last = task.failure.trace.rstrip().splitlines()[-TRACE_LINES:]
        texts += [f"    | {escape_unprintable(text)}" for text in last]
        texts.append(f"    log: {escape_unprintable(task.failure.log)}")
    return texts + ([f"  and {len(failed) - most} more: --json has all"] if len(failed) > most else [])


def _reasons(seen: Seen) -> list[str]:
    """Why a run ended that has no failed task to show."""
    reasons = seen.record.get("reasons")
    if not seen.over or not isinstance(reasons, list) or seen.look.of("failed"):
        return []
    return ["", *(escape_unprintable(text) for reason in reasons for text in str(reason).splitlines()[:20])]


def duration(seconds: float) -> str:
    """A time in words: the two largest units."""
    total = max(0, round(seconds))
    for size, unit, less, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if total >= size:
            rest = total % size // less
            return f"{total // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return (
        f"{total // 60} min" if total >= 300 else f"{total // 60} min {total % 60} s" if total >= 60 else f"{total} s"
    )
