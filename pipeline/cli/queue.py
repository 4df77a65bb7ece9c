"""How jobs of Slurm's ended that left no result."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence

from pipeline import slurm

log = logging.getLogger(__name__)

FIRST_SECONDS, MOST_SECONDS = 2.0, 30.0
"""Between two questions to Slurm: at first, and at most."""
UNKNOWN_TIMES = 3
"""So often Slurm has to know nothing of a job before it counts as gone: right after it was sent it may not know it yet."""
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
"""Exit status and reason by the state in which Slurm says that a job ended; UNKNOWN: it has answered, and knows no such job."""


class Queue:
    """Some jobs, by their ids; Slurm is asked about all at once, and not often."""

    def __init__(self, jobs: Sequence[str]) -> None:
        self._jobs = tuple(jobs)
        self._states: dict[str, tuple[str, int]] = {}
        self._unknown = dict.fromkeys(jobs, 0)
        self._asked, self._pause = time.monotonic(), FIRST_SECONDS
        self._silent = False

    def ended(self, job: str, began: bool) -> tuple[int, str] | None:
        """Exit status and reason of a job that has ended; None while it goes on, or as long as nothing is known.

        Args:
            job: its id.
            began: whether it has printed anything. A part of an array that is cancelled before leaves no trace in the queue.
        """
        if time.monotonic() - self._asked > self._pause:
            self._ask()
        if job in self._states:
            return verdict(*self._states[job])
        if self._unknown[job] >= UNKNOWN_TIMES:
            return verdict("UNKNOWN" if began else "CANCELLED")
        return None

    def _ask(self) -> None:
        answer = slurm.query_jobs(self._jobs)
        self._asked, self._pause = time.monotonic(), min(2 * self._pause, MOST_SECONDS)
        if answer.refusal:
            self._states.update(answer.states)
            if not self._silent:
                log.warning("Slurm does not answer (%s); the jobs are waited for until it does", answer.refusal)
        else:
            self._states = answer.states
            for one in self._jobs:
                self._unknown[one] = 0 if one in self._states else self._unknown[one] + 1
            if self._silent:
                log.warning("Slurm answers again")
        self._silent = bool(answer.refusal)


def verdict(state: str, status: int = 0) -> tuple[int, str] | None:
    """Exit status and words for a state of Slurm's and what its script ended with; None for a state that goes on."""
    if state in LOST:
        given, why = LOST[state]
        return given, f"error: {why}; run the same command again to go on, finished work is reused"
    if state not in slurm.ENDED:
        return None
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
