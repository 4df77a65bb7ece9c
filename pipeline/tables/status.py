"""How a run went, as its folder says: ``status.json``.

A run that is killed cannot say so itself. Its folder names the process that writes it, so that others can tell.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline.errors import FULL
from pipeline.files import write_atomically
from pipeline.processes import from_plain, is_dead

FILE, LOG = "status.json", "run.log"
QUIET_SECONDS = 600.0
"""A run on another machine that gave a sign of life within this time is not asked after."""
BEAT_SECONDS = 60.0
"""Between two signs of life of a run: the file's time is set."""
GONE = frozenset({"CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "FAILED", "COMPLETED", "PREEMPTED", "DEADLINE", "BOOT_FAIL"})  # fmt: skip
"""States of Slurm's jobs that have ended."""


def read(folder: Path) -> dict[str, Any]:
    """The record; empty where there is none that can be read."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace the record. On a full disk it is written over the old one, where there is room for it.

    Raises:
        OSError: there is none.
    """
    text = json.dumps(record, indent=1) + "\n"
    try:
        write_atomically(folder / FILE, text)
    except OSError as error:
        if error.errno not in FULL or not (folder / FILE).is_file():
            raise
        _write_over(folder / FILE, text.encode(), error)


def _write_over(path: Path, content: bytes, error: OSError) -> None:
    """A file system takes the same blocks again, and a short text has one of its own."""
    with path.open("r+b", buffering=0) as stream:
        old = stream.read()
        try:
            stream.seek(0)
            if stream.write(content) != len(content):
                raise error
            stream.truncate()
            os.fsync(stream.fileno())
        except OSError:
            stream.seek(0)
            stream.write(old)
            raise error from None


def in_words(record: Mapping[str, Any]) -> str:
    """What a record says of a run that has no results: its state and the first reason; '' where it says nothing."""
    state = str(record.get("state", ""))
    reasons = record.get("reasons") or [""]
    first = (str(reasons[0]) if isinstance(reasons, list) else str(reasons)).partition("\n")[0]
    owner = from_plain(record.get("process"))
    if state == "running":
        return f"it is running since {record.get('started', 'some time')}" + (f" ({owner})" if owner else "")
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


def settle(folder: Path) -> dict[str, Any]:
    """The record, after a run that says ``running`` while its process is dead has been marked as killed."""
    record = read(folder)
    if record.get("state") != "running" or not _is_over(folder, record):
        return record
    last = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(alive(folder)))
    owner = from_plain(record.get("process"))
    who = f"{owner}" if owner else "its process"
    reason = f"killed at {last} or within a minute after: {who} ended without a word; the same command again goes on"
    marked = {**record, "state": "killed", "ended": last, "reasons": [reason]}
    if read(folder).get("state") != "running":  # it ended by itself in between
        return read(folder)
    with suppress(OSError):  # somebody else's run: it is said, and stays as it is
        write(folder, marked)
    return marked


def killed(runs: Path) -> list[str]:
    """Runs that are found to have been killed, each once: (id of the run) was (reason)."""
    found = []
    for path in sorted(runs.glob(f"*/{FILE}")):
        if read(path.parent).get("state") != "running":
            continue
        record = settle(path.parent)
        if record.get("state") == "killed":
            found.append(f"run {path.parent.name} was {record['reasons'][0]}")
    return found


def _is_over(folder: Path, record: Mapping[str, Any]) -> bool:
    owner = from_plain(record.get("process"))
    if owner is None:
        return False
    if is_dead(owner):
        return True
    job = str(record.get("slurm_job") or "")
    return not owner.here and bool(job) and time.time() - alive(folder) > QUIET_SECONDS and _job_ended(job)


def _job_ended(job: str) -> bool:
    """Whether Slurm says that a job has ended; False where there is no Slurm, or it does not answer."""
    try:
        asked = subprocess.run(
            ["squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T"],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    if asked.returncode:
        # It keeps jobs for some minutes after their end, and then says that their number is none.
        return "invalid job id" in asked.stderr.lower()
    states = asked.stdout.split()
    return all(state in GONE for state in states)
