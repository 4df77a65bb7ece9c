"""What Slurm says of jobs: its queue, which keeps them for some minutes after their end, and its accounts, if there are any."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

ENDED = frozenset({"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"})  # fmt: skip
"""The states of a job that has ended. Each other state goes on: Slurm has many, and new ones come."""
WIDTHS = (40, 30, 20)
COLUMNS = ",".join(f"{name}:{width}" for name, width in zip(("JobArrayID", "State", "exit_code"), WIDTHS))


@dataclass(frozen=True)
class Answer:
    """What Slurm answered.

    Attributes:
        states: state and exit status (as a shell has it: 128 + N for signal N) by job.
        refusal: why the queue gave no answer; '' if it did. Only then is a job of which nothing is said unknown to Slurm.
    """

    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    refusal: str = ""


def find_own_job() -> str:
    """The job of this process, with the task of an array; '' outside Slurm. What is no number is no job of Slurm's."""
    array, task = _read_number("SLURM_ARRAY_JOB_ID"), _read_number("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task or 0}" if array else _read_number("SLURM_JOB_ID")


def _read_number(name: str) -> str:
    value = os.environ.get(name, "").strip()
    return value if re.fullmatch("[0-9]{1,12}", value) else ""


def list_main_ids(jobs: Collection[str]) -> list[str]:
    """The ids of jobs, of the parts of an array that of the array, each once."""
    return sorted({job.partition("_")[0] for job in jobs}, key=lambda job: (len(job), job))


def query_jobs(jobs: Collection[str], seconds: float = 60.0, accounts: bool = True) -> Answer:
    """State and exit status of jobs, all at once.

    Args:
        jobs: their ids, a part of an array as ``ARRAY_TASK``.
        seconds: so long each of its commands is waited for.
        accounts: whether what the queue does not have is looked for in the accounts.
    """
    listed = ",".join(list_main_ids(jobs))
    lines, refusal = _run_command(
        ["squeue", "--noheader", "--array", "--states=all", f"--jobs={listed}", f"--Format={COLUMNS}"], seconds
    )
    states = {}
    for line in lines:
        job, state, code = (line[sum(WIDTHS[:i]) : sum(WIDTHS[: i + 1])].strip() for i in range(len(WIDTHS)))
        refusal = refusal or ("" if state else f"squeue printed {line.strip()[:80]!r}")
        raw = int(code) if code.isdecimal() else 0
        states[job] = (state, 128 + (raw & 127) if raw & 127 else raw >> 8)
    if accounts and not set(jobs) <= set(states):
        told = [
            "sacct",
            "--allocations",
            "--noheader",
            "--parsable2",
            f"--jobs={listed}",
            "--format=JobID,State,ExitCode",
        ]
        for line in _run_command(told, seconds)[0]:
            job, _, rest = line.partition("|")
            state, _, code = rest.partition("|")
            exit_code, _, number = code.partition(":")
            status = 128 + int(number) if number.isdecimal() and int(number) else _parse_number(exit_code)
            if state.strip():
                states.setdefault(job, (state.split()[0], status))  # "CANCELLED by 1000"
    return Answer(states, refusal)


def _run_command(command: Sequence[str], seconds: float) -> tuple[list[str], str]:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return [], str(error)
    # Of a job that is long over it says that its number is none.
    if result.returncode and "invalid job id" not in result.stderr.lower():
        text = " ".join(result.stderr.split())
        return [], text or f"{command[0]} ended with exit status {result.returncode}"
    return [line for line in result.stdout.splitlines() if line.strip()], ""


def _parse_number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
