"""How jobs of Slurm's ended that left no result."""

from __future__ import annotations

import signal
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
    "UNKNOWN": (137, "it ended without a result, and Slurm knows nothing of it any more"),
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
        self._states: dict[str, tuple[str, int]] = {}
        self._unknown = dict.fromkeys(jobs, 0)
        self._asked, self._pause = time.monotonic(), FIRST_SECONDS

    def ended(self, job: str, began: bool) -> tuple[int, str] | None:
        """Exit status and reason of a job that has ended; None while it goes on, or as long as nothing is known.

        Args:
            job: its id.
            began: whether it has printed anything. A part of an array that is cancelled before leaves no trace in the queue.
        """
        if time.monotonic() - self._asked > self._pause:
            self._states = _asked(self._jobs)
            self._asked, self._pause = time.monotonic(), min(2 * self._pause, MOST_SECONDS)
            for one in self._jobs:
                self._unknown[one] = 0 if one in self._states else self._unknown[one] + 1
        if job in self._states:
            return verdict(*self._states[job])
        if self._unknown[job] >= UNKNOWN_TIMES:
            return verdict("UNKNOWN" if began else "CANCELLED")
        return None


def verdict(state: str, status: int = 0) -> tuple[int, str] | None:
    """Exit status and words for a state of Slurm's and what its script ended with; None for a state that goes on."""
    if state in GOING:
        return None
    if state in LOST:
        given, why = LOST[state]
        return given, f"error: {why}; run the same command again to go on, finished work is reused"
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return 5, f"error: it ended without a result (Slurm: {state}{f', exit {status}' if status else ''})"
    if name == "SIGKILL":
        return status, "error: killed, perhaps because memory ran out: hydra.launcher.mem_gb=N gives more"
    return status, (
        f"stopped by {name}; run the same command again to go on "
        "(cancelled, out of time or preempted; hydra.launcher.timeout_min=N gives more minutes)"
    )


WIDTHS = (40, 30, 20)
COLUMNS = ",".join(f"{name}:{width}" for name, width in zip(("JobArrayID", "State", "exit_code"), WIDTHS))


def _asked(jobs: Sequence[str]) -> dict[str, tuple[str, int]]:
    """State and exit status of jobs: of the queue, which keeps them for some minutes, else of the accounts, if there are any."""
    mains = ",".join(sorted({job.partition("_")[0] for job in jobs}))
    found = {}
    for line in _lines(["squeue", "--noheader", "--array", "--states=all", f"--jobs={mains}", f"--Format={COLUMNS}"]):
        job, state, code = (line[sum(WIDTHS[:i]) : sum(WIDTHS[: i + 1])].strip() for i in range(len(WIDTHS)))
        raw = int(code) if code.isdecimal() else 0
        found[job] = (state, 128 + (raw & 127) if raw & 127 else raw >> 8)
    if not set(jobs) <= set(found):
        accounts = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={mains}"]
        for line in _lines([*accounts, "--format=JobID,State,ExitCode"]):
            job, _, rest = line.partition("|")
            state, _, code = rest.partition("|")
            exit_code, _, number = code.partition(":")
            status = 128 + int(number) if number.isdecimal() and int(number) else int(exit_code or 0)
            found.setdefault(job, ((state.split() or ["UNKNOWN"])[0], status))  # "CANCELLED by 1000"
    return found


def _lines(command: Sequence[str]) -> list[str]:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in asked.stdout.splitlines() if line.strip()]
