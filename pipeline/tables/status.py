"""How a run went, as its folder says: ``status.json``, and ``jobs/ROUND.sent.json``, written when all jobs of a round are sent.

A run that is killed cannot say so itself. Its folder names the process that writes it, so that others can tell; of a run that was
sent to a cluster it has the jobs, and it goes on as long as one of them does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.files import read_clock, read_memory, read_regular, write_atomically
from pipeline.processes import is_dead, is_of_another_boot, read_owner
from pipeline.tables import records

FILE, LOG = "status.json", "run.log"
JOBS_FOLDER, _SENT = "jobs", ".sent.json"
SEAL = "digests.json"
"""Written by a run that has results, before it says so; see :mod:`pipeline.tables.run_files`."""
SUBMITTED = "submitted"
"""The state of a run that was sent to a cluster, before the first of its jobs begins."""
GOING = ("running", SUBMITTED)
GARBLED = "garbled"
"""The state of a run whose record is not what was written."""
OVER = ("done", "partial", "failed", "stopped", "killed")
"""The states of a run that has ended."""
ENDED = "runs-that-ended.txt"
"""A file of ids, in what the store knows of files: runs whose records need not be opened again."""
QUIET_SECONDS = 600.0
"""A run on another machine that gave a sign of life within this time is not asked after."""
BEAT_SECONDS = 60.0
"""Between two signs of life of a run: the file's time is set."""
MOST_ASKED = 1000
"""Jobs that Slurm is asked about at once, those of the newest runs."""


def read(folder: Path) -> dict[str, Any]:
    """The record; empty where there is none that may be read, and with the state ``garbled`` alone where it is not what was written."""
    try:
        return records.decode_signed(read_regular(folder / FILE, read_memory()))
    except OSError:
        return {}
    except ValueError:
        return {"state": GARBLED}


def write(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace the record; raises OSError where it cannot be written."""
    write_atomically(folder / FILE, records.encode_signed(record))


def in_words(record: Mapping[str, Any]) -> str:
    """What a record says of a run that has no results: its state and the first reason; '' where it says nothing."""
    state = str(record.get("state", ""))
    reasons = record.get("reasons") or [""]
    first = (str(reasons[0]) if isinstance(reasons, list) else str(reasons)).partition("\n")[0]
    owner = read_owner(record.get("process"))
    if state == "running":
        return f"it is running since {record.get('started', 'some time')}" + (f" ({owner})" if owner else "")
    if state == SUBMITTED:
        return f"it was sent to a cluster ({record.get('started', 'some time ago')}), and none of its jobs has begun"
    if state == GARBLED:
        return f"its {FILE} is not what was written"
    if state == "killed" and first:
        return f"it was {first}"
    return f"it ended as '{state}'" + (f": {first}" if first else "") if state else ""


def alive(folder: Path) -> float:
    """When the run gave its last sign of life: seconds since 1970, 0 if it never did."""
    seen = []
    for name in (FILE, LOG):
        try:
            seen.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(seen, default=0.0)


def quiet(folder: Path) -> str:
    """Since when a run that may go on has given no sign of life, in words; '' if it gave one lately."""
    last = alive(folder)
    if not last:  # it has neither a record nor a log
        with suppress(OSError):
            last = folder.stat().st_mtime
    if time.time() - last <= QUIET_SECONDS:
        return ""
    owner = read_owner(read(folder).get("process"))
    return f"its last sign of life was at {_utc(last)}" + (f" ({owner}); it may have died there" if owner else "")


def settle(folder: Path) -> dict[str, Any]:
    """The record, after a run that says ``running`` while its process is dead has been marked as killed."""
    record = read(folder)
    if record.get("state") == GARBLED:
        return _silent(folder)
    over = _over({folder: record})
    return _marked(folder, record, over[folder]) if over else record


def going(runs: Path, remembered: Path) -> list[Path]:
    """The folders of runs that say that they go on.

    Args:
        runs, remembered: see :func:`killed`.
    """
    names = sorted(_listed(runs) - _remembered(remembered))
    return [runs / name for name in names if read(runs / name).get("state") in GOING]


def killed(runs: Path, remembered: Path) -> list[str]:
    """Runs that are found to have been killed, each once: (id of the run) was (reason). One whose record cannot be
    read, and which may still go on, is named each time.

    Args:
        runs: the folder of runs.
        remembered: a file of the ids of runs that have ended, which are not opened again. It is made, and grows, where it can be written.
    """
    ended, seen, garbled = _remembered(remembered), [], []
    on: dict[Path, dict[str, Any]] = {}
    for name in sorted(_listed(runs) - ended):
        record = read(runs / name)
        if record.get("state") in GOING:
            on[runs / name] = record
        elif record.get("state") == GARBLED and not (runs / name / SEAL).exists():
            garbled.append(runs / name)
        elif record.get("state"):
            seen.append(name)
    lines = []
    for folder in garbled:
        record = _silent(folder)
        outcome = f"was {record['reasons'][0]}" if "reasons" in record else f"may still go on: {in_words(record)}"
        lines.append(f"run {folder.name} {outcome}")
    for folder, jobs in sorted(_over(on).items()):
        record = _marked(folder, on[folder], jobs)
        if record.get("state") not in GOING and record.get("reasons"):
            lines.append(f"run {folder.name} was {record['reasons'][0]}")
    if seen:
        with suppress(OSError):  # they are opened again next time
            remembered.parent.mkdir(parents=True, exist_ok=True)
            with remembered.open("a", encoding="utf-8") as stream:
                stream.write("\n".join(["", *seen, ""]))
    return lines


def is_over(folder: Path, record: Mapping[str, Any]) -> bool:
    """Whether a run has ended, as its record says."""
    state = record.get("state")
    return (folder / SEAL).exists() if state == GARBLED else state in OVER


def in_progress(runs: Path, remembered: Path) -> dict[Path, dict[str, Any]]:
    """Runs that go on, with their records, the newest first; those that are found to have been killed are marked.

    Args:
        runs, remembered: as :func:`killed` has them; nothing is added to what is remembered.
    """
    runs_that_go_on = {}
    for name in sorted(_listed(runs) - _remembered(remembered), reverse=True):
        folder = runs / name
        record = read(folder)
        if record and not is_over(folder, record):
            record = settle(folder)
            if not is_over(folder, record):
                runs_that_go_on[folder] = record
    return runs_that_go_on


def _listed(runs: Path) -> set[str]:
    try:
        return {path.name for path in runs.iterdir()}
    except OSError:
        return set()


def _remembered(ended: Path) -> set[str]:
    try:
        return set(read_regular(ended, read_memory()).decode("utf-8", "replace").split("\n"))
    except OSError:
        return set()


def _marked(folder: Path, record: Mapping[str, Any], jobs: str) -> dict[str, Any]:
    """The record of a run whose process is dead, or whose jobs have ended, as it is from now on."""
    last = _utc(alive(folder))
    again = "the same command again goes on"
    if jobs:
        state = "stopped" if jobs == "CANCELLED" else "killed"
        reason = (
            f"{state} after {last}: its jobs have ended ({jobs}), and the last one, which reports, did not; {again}"
        )
    else:
        owner = read_owner(record.get("process"))
        how = f"{owner or 'its process'} ended without a word"
        if owner and is_of_another_boot(owner):
            how = f"{owner.host} was restarted"
        state, reason = "killed", f"killed at {last} or within a minute after: {how}; {again}"
    marked = {**record, "state": state, "ended": last, "reasons": [reason]}
    if read(folder).get("state") not in GOING:  # it ended by itself in between
        return read(folder)
    with suppress(OSError):  # somebody else's run: it is said, and stays as it is
        write(folder, marked)
    return marked


def _silent(folder: Path) -> dict[str, Any]:
    """The record of a run whose record is not what was written: killed from now on, where it has no results and gives no sign of
    life any more. Its process is not known; while it goes on, it sets the time of the file."""
    if (folder / SEAL).exists() or time.time() - alive(folder) <= QUIET_SECONDS:
        return {"state": GARBLED}
    last = _utc(alive(folder))
    reason = (
        f"killed at {last} or within a minute after: its {FILE} is not what was written; the same command again goes on"
    )
    marked = {"run_id": folder.name, "state": "killed", "ended": last, "reasons": [reason]}
    with suppress(OSError):  # somebody else's run: it is said, and stays as it is
        write(folder, marked)
    return marked


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _over(records: Mapping[Path, Mapping[str, Any]]) -> dict[Path, str]:
    """The folders of runs that say that they go on, and whose process or jobs are known to have ended; how the jobs ended, '' where it
    is a process. Slurm is asked once, if at all."""
    over: dict[Path, str] = {}
    jobs_of: dict[Path, list[str]] = {}
    for folder, record in records.items():
        owner = read_owner(record.get("process"))
        if record.get("state") not in GOING:
            continue
        jobs, job = read_sent_jobs(folder), str(record.get("slurm_job") or "")
        if jobs:
            jobs_of[folder] = jobs
        elif owner is None:
            continue
        elif is_dead(owner) or (is_of_another_boot(owner) and read_clock(folder) - alive(folder) > 3 * BEAT_SECONDS):
            over[folder] = ""
        elif job and not owner.here and time.time() - alive(folder) > QUIET_SECONDS:
            jobs_of[folder] = [job]
    if not jobs_of:
        return over
    newest = sorted(jobs_of, key=lambda folder: folder.name)[-MOST_ASKED:]
    answer = slurm.query_jobs([job for folder in newest for job in jobs_of[folder]], seconds=20, accounts=False)
    if answer.refusal:  # also where there is no Slurm
        return over
    for folder in newest:
        jobs = jobs_of[folder]
        states = {
            job_id: state
            for job_id, (state, _) in answer.states.items()
            if job_id in jobs or any(job_id.startswith(f"{job}+") for job in jobs)
        }
        if all(state in slurm.ENDED for state in states.values()):  # of a job that is long over it says nothing
            words = ", ".join(sorted(set(states.values()))) or "Slurm knows nothing of them any more"
            over[folder] = words if read_sent_jobs(folder) == jobs else ""
    return over


# ----------------------------------------------------------------------------------------------------------- jobs sent


def write_sent_jobs(run: Path, number: int, jobs: Sequence[str]) -> None:
    """Keep the ids of the jobs of a round: by part, then that of the last one."""
    write_atomically(run / JOBS_FOLDER / f"{number}{_SENT}", records.encode_signed({"jobs": list(jobs)}))


def find_last_round(run: Path) -> int:
    """The number of the last round that was sent; 0 where nothing was sent."""
    numbers = [path.name.removesuffix(_SENT) for path in (run / JOBS_FOLDER).glob(f"*{_SENT}")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def read_sent_jobs(run: Path) -> list[str]:
    """The ids of the jobs of the last round, as they were written; none where nothing was sent."""
    path = run / JOBS_FOLDER / f"{find_last_round(run)}{_SENT}"
    with suppress(OSError, ValueError, KeyError):
        return [str(job) for job in records.decode_signed(path.read_bytes())["jobs"]]
    return []
