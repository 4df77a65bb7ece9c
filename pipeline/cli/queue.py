"""How jobs of Slurm's ended that left no result."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence

FIRST_SECONDS, MOST_SECONDS = 2.0, 30.0
"""Between two questions to Slurm: at first, and at most."""
UNKNOWN_TIMES = 3
"""So often Slurm has to know nothing of a job before it counts as gone: right after it was sent it may not know it yet."""
GOING = frozenset({"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
                   "REQUEUE_FED", "RESIZING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED"})  # fmt: skip
LOST = {
    "CANCELLED": (143, "cancelled (scancel, or by the cluster)"),
    "TIMEOUT": (143, "out of time: hydra.launcher.timeout_min=N gives more minutes"),
    "DEADLINE": (143, "out of time: its deadline has passed"),
    "PREEMPTED": (143, "preempted by another job"),
    "OUT_OF_MEMORY": (137, "out of memory: hydra.launcher.mem_gb=N gives more"),
    "NODE_FAIL": (137, "its node failed"),
    "BOOT_FAIL": (137, "its node did not start"),
}
"""Exit status and reason by the state in which Slurm says that a job ended."""


class Queue:
    """Some jobs, by their ids; Slurm is asked about all at once, and not often."""

    def __init__(self, jobs: Sequence[str]) -> None:
        self._jobs = tuple(jobs)
        self._states: dict[str, tuple[str, str]] = {}
        self._unknown = dict.fromkeys(jobs, 0)
        self._asked, self._pause = time.monotonic(), FIRST_SECONDS

    def ended(self, job: str) -> tuple[int, str] | None:
        """Exit status and reason of a job that has ended; None while it goes on, or as long as nothing is known."""
        if time.monotonic() - self._asked > self._pause:
            self._states = _asked(self._jobs)
            self._asked, self._pause = time.monotonic(), min(2 * self._pause, MOST_SECONDS)
            for one in self._jobs:
                self._unknown[one] = 0 if one in self._states else self._unknown[one] + 1
        if job in self._states:
            return verdict(*self._states[job])
        if self._unknown[job] >= UNKNOWN_TIMES:
            return 137, "error: it ended without a result, and Slurm knows nothing of it any more"
        return None


def verdict(state: str, reason: str) -> tuple[int, str] | None:
    """Exit status and words for a state of Slurm's and its reason or exit code; None for one that goes on."""
    if state in GOING:
        return None
    if state in LOST:
        status, why = LOST[state]
        return status, f"error: {why}; run the same command again to go on, finished work is reused"
    signalled = re.search(r"RaisedSignal:(\d+)|^\d+:([1-9]\d*)$", reason)
    if signalled:
        number = int(signalled[1] or signalled[2])
        return 128 + number, f"error: killed by signal {number}{', perhaps because memory ran out' * (number == 9)}"
    return 5, f"error: it ended without a result (Slurm: {state}{f', {reason}' if reason not in ('', 'None') else ''})"


def _asked(jobs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """State and reason of jobs: of the queue, which keeps them for some minutes, else of the accounts, where there are any."""
    mains = sorted({job.partition("_")[0] for job in jobs})
    found = _lines(
        ["squeue", "--noheader", "--array", "--states=all", f"--jobs={','.join(mains)}", "--format=%i|%T|%r"]
    )
    if not set(jobs) <= set(found):
        accounts = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={','.join(mains)}"]
        found = {**_lines([*accounts, "--format=JobID,State,ExitCode"]), **found}
    return found


def _lines(command: Sequence[str]) -> dict[str, tuple[str, str]]:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.strip().split("|") for line in asked.stdout.splitlines()]
    # "CANCELLED by 1000" is a state of the accounts.
    return {row[0]: (row[1].split()[0], row[2]) for row in rows if len(row) == 3 and row[1].strip()}
