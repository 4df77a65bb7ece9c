"""``voice-privacy status [RUN]``: how far a run is, where, and what went wrong; also of one that goes on elsewhere.

Nothing heavy is imported here: the answer is wanted at once.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.cli.options import Parser, find_root
from pipeline.cli.output import align_columns
from pipeline.engine import usage
from pipeline.engine.journal_reader import WINDOW_SECONDS, Journals, Snapshot, State, TaskState
from pipeline.errors import ConfigError
from pipeline.faults import escape_unprintable
from pipeline.processes import read_owner
from pipeline.tables import status

EVERY_SECONDS = 2.0
"""Between two looks of ``--follow``."""
SLURM_SECONDS = 30.0
"""Between two questions to Slurm."""
QUIET_SECONDS = 3 * status.BEAT_SECONDS
EXIT = {"done": 0, "partial": 6, "failed": 5, "stopped": 143, "killed": 137}
"""The exit status of a run whose record names none."""
TRACE_LINES = 5
"""The last lines of a traceback that are printed."""
MOST_FAILURES, MOST_RUNNING = 20, 16
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

    def lasted(self) -> float | None:
        """For how many seconds it goes on, or went on; None where its record does not say."""
        ends = [self.record.get("started"), self.record.get("ended") if self.over else None]
        try:
            began, ended = (calendar.timegm(time.strptime(end, "%Y-%m-%dT%H:%M:%SZ")) if end else None for end in ends)
        except (ValueError, TypeError):
            return None
        if began is None or (self.over and ended is None):
            return None
        return max(0.0, (time.time() if ended is None else ended) - began)


def main(arguments: Sequence[str]) -> int:
    """Say how a run goes; the exit status: 0 if it could be told. With ``--follow`` that of the run.

    Raises:
        ConfigError: there is no such run.
    """
    options = _parser().parse(arguments)
    watch = Watch(find(options.run or "", find_root(options.root)).absolute())
    if options.follow:
        return follow(watch)
    seen = watch.look()
    print(json.dumps(to_plain(seen), indent=1) if options.json else "\n".join(lines(seen)))
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy status",
        description="Say how far a run is: its tasks by stage, what goes on where, rate, time left, and what failed. "
        "The exit status is 0 if that could be told, and with --follow that of the run.",
    )
    parser.overrides = ("paths.root",)
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run folder or its id; the newest run if none is given")
    parser.add_argument(
        "--root",
        help="where the runs lie: paths.root of them ($VOICE_PRIVACY_ROOT, else ./exp); paths.root=DIR is the same",
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on until the run ends, a line whenever something changes"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON, with all tasks")
    return parser


def find(wanted: str, root: Path) -> Path:
    """The folder of a run: by its path or its id, the newest below ``root`` if none is wanted.

    Raises:
        ConfigError: there is no such run.
    """
    if wanted:
        return usage.find_run(root, wanted)
    runs = [run for run in usage.list_runs(root) if (run / status.FILE).exists() or (run / status.LOG).exists()]
    if not runs:
        raise ConfigError(
            "there is no run yet",
            where=str((root / "runs").absolute()),
            cause="no run was started there, or paths.root of the run is another folder",
            remedy="name the folder by --root DIR or VOICE_PRIVACY_ROOT, or the folder of the run itself",
        )
    return runs[-1]


@dataclass
class Watch:
    """One run, looked at again and again."""

    folder: Path
    _asked: float = float("-inf")
    _answer: slurm.Answer = field(default_factory=slurm.Answer)

    def __post_init__(self) -> None:
        self.journals = Journals(self.folder)

    def look(self) -> Seen:
        """How it stands now."""
        record = status.read(self.folder)
        jobs = status.read_sent_jobs(self.folder) or [str(record.get("slurm_job"))]
        jobs = [job for job in jobs if re.fullmatch(r"\d{1,12}(_\d{1,12})?", job)]
        if not jobs or time.monotonic() - self._asked > SLURM_SECONDS:
            record = status.settle(self.folder)  # which asks Slurm, where there are jobs
            self._asked = time.monotonic()
            self._answer = slurm.query_jobs(jobs, seconds=10, accounts=False) if jobs else slurm.Answer()
        # A folder without a record that nobody writes to is that of no run that goes on.
        over = status.is_over(self.folder, record) if record else bool(status.quiet(self.folder))
        ended = [job for job, (state, _) in self._answer.states.items() if state in slurm.ENDED]
        look = self.journals.look(over, ended)
        return Seen(self.folder, record, over, look, self._answer, status.alive(self.folder), tuple(jobs))


def follow(watch: Watch) -> int:
    """Print a line whenever something has changed, until the run ends; its exit status."""
    before: object = None
    while not (seen := watch.look()).over:
        if seen.changing() != before:
            before = seen.changing()
            print(line(seen), flush=True)
        time.sleep(EVERY_SECONDS)
    print("\n".join(lines(seen)))
    exit_status = seen.record.get("exit_status")
    return exit_status if isinstance(exit_status, int) else EXIT.get(str(seen.record.get("state")), 1)


# In words ------------------------------------------------------------------------------------------------------------


def lines(seen: Seen) -> list[str]:
    """All that is said of a run."""
    texts = [f"run {seen.folder.name}: {_state(seen)}", f"folder: {seen.folder}"]
    quiet = time.time() - seen.alive
    if not seen.over and quiet > QUIET_SECONDS:
        texts.append(f"its last sign of life was {duration(quiet)} ago")
    texts.append("")
    if seen.look.tasks:
        texts += [*_table(seen), "", *_running(seen), *_speed(seen)]
    elif seen.over:
        texts.append("no tasks are known of it")
    else:
        texts.append("its tasks are not known yet: the data set is read and checked first")
    return [*texts, *_jobs(seen), *_failures(seen)]


def line(seen: Seen) -> str:
    """How far it is, in a line for a log."""
    counts = Counter(task.state for task in seen.look.tasks)
    at = time.strftime("%H:%M:%SZ", time.gmtime())
    if not seen.look.tasks:
        return f"{at} its tasks are not known yet"
    done = counts["done"] + counts["reused"]
    parts = [f"{done} of {len(seen.look.tasks)} tasks done ({counts['reused']} reused)"]
    for name in ("running", "failed", "not run", "interrupted"):
        number = sum(counts[state] for state in COLUMNS[name])
        parts += [f"{number} {name}"] if number else []
    return f"{at} {', '.join([*parts, *_speed(seen)])}"


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
    took = f" ({duration(lasted)})" if lasted is not None else ""
    if not state:
        quiet = f"its {status.FILE} is not there, and {status.quiet(seen.folder)}"
        return quiet if seen.over else "it begins; its record is not written yet"
    if state == status.GARBLED:
        return f"{'it has ended; ' if seen.over else ''}{status.in_words(record)}"
    if not seen.over:
        # Of a run that was sent it is whoever sent it.
        owner = None if state == status.SUBMITTED or len(seen.sent) > 1 else read_owner(record.get("process"))
        since = f" since {record['started']}{took}" if "started" in record else ""
        return f"{state}{since}" + (f", {owner}" if owner else "")
    exit_status = f" with exit status {record['exit_status']}" if "exit_status" in record else ""
    times = f", {record.get('started', '?')} to {record['ended']}{took}" if "ended" in record else ""
    return f"{state}{exit_status}{times}"


def _table(seen: Seen) -> list[str]:
    """Tasks by stage. Columns that have nothing in them are left out, but for those that everybody looks for."""
    stages = seen.stages()
    total = {name: sum(counts[name] for counts in stages.values()) for name in COLUMNS}
    always = ("done", "failed") if seen.over else ("done", "failed", "running", "waiting")
    names = [name for name in COLUMNS if total[name] or name in always]
    heads = ["not begun" if name == "waiting" and seen.over else name for name in names]
    rows = [["stage", *heads, "total"]]
    for stage, counts in [*stages.items(), ("all", total)]:
        rows.append([escape_unprintable(stage), *(str(counts[name]) for name in names), str(sum(counts.values()))])
    return align_columns(rows, numbers=True)


def _running(seen: Seen) -> list[str]:
    running = sorted(seen.look.of("running"), key=lambda task: -task.took)
    texts = ["running now:"] if running else []
    for task in running[:MOST_RUNNING]:
        audio = f", {task.advanced:.0f} of {task.seconds:.0f} s of audio" if task.advanced else ""
        texts.append(f"  {_name(task)}, for {duration(task.took)}{audio}")
    return texts + ([f"  and {len(running) - MOST_RUNNING} more"] if len(running) > MOST_RUNNING else [])


def _name(task: TaskState) -> str:
    """What a task is called, and who performs it."""
    by = task.performer
    where = f" ({by.where})" if by.where else ""
    return escape_unprintable(f"{task.label or task.id}: {by.host}, process {by.pid}{where}")


def _speed(seen: Seen) -> list[str]:
    """Rate, and time left: two lines, of a run that has ended one."""
    done, total = seen.look.audio()
    rate = seen.look.overall_rate() if seen.over else seen.look.rate()
    lately = not seen.over and (seen.lasted() or 0.0) > WINDOW_SECONDS
    over = f" over the last {WINDOW_SECONDS / 60:.0f} min" if lately else ""
    said = f"{rate:.3g} x real time{over}" if rate else "unknown"
    texts = [f"rate: {said}, {done:.0f} of {total:.0f} s of audio done"]
    if seen.over:
        return texts
    left, unknown = seen.look.left()
    if left is None:
        return [*texts, "time left: unknown" if unknown else "all tasks are over: the results are gathered"]
    without = f" (without {', '.join(unknown)}: nothing to go by yet)" if unknown else ""
    return [*texts, f"time left: about {duration(left)}{without}"]


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
    for job, states in arrays.items():
        texts.append(f"  {job}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    return texts if seen.over else [*texts, f"to end it: scancel {' '.join(mains)}"]


def _failures(seen: Seen) -> list[str]:
    """The tasks that failed; of a run that has ended without one, why."""
    failed = seen.look.of("failed")
    if not failed:
        reasons = seen.record.get("reasons")
        told = reasons if seen.over and isinstance(reasons, list) else []
        texts = [text for reason in told for text in str(reason).splitlines()[:20]]
        return ["", *map(escape_unprintable, texts)] if texts else []
    texts = ["", f"failures: {len(failed)}"]
    for task in failed[:MOST_FAILURES]:
        texts.append(f"  {_name(task)} ({escape_unprintable(task.stage)}, after {duration(task.took)}):")
        last = task.failure.trace.rstrip().splitlines()[-TRACE_LINES:]
        below = [*task.failure.error.splitlines(), *(f"| {text}" for text in last), f"log: {task.failure.log}"]
        texts += [f"    {escape_unprintable(text)}" for text in below]
    left = len(failed) - MOST_FAILURES
    return texts + ([f"  and {left} more: --json has all"] if left > 0 else [])


def duration(seconds: float) -> str:
    """A time in words: the two largest units."""
    total = max(0, round(seconds))
    for size, unit, less, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            rest = total % size // less
            return f"{total // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{total} s"
