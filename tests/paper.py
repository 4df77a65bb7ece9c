"""A Slurm of paper: jobs are kept in a list, and a test has them done, loses them or has them end badly."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline import slurm
from pipeline.engine.executors import slurm as executor
from pipeline.errors import ConfigError
from pipeline.evaluation.job import Part


@dataclass
class Job:
    """A job: its call as it was pickled, what was asked for, what it waits for, and its state."""

    id: str
    call: bytes
    options: Mapping[str, Any]
    after: list[str]
    state: str = "PENDING"
    code: int = 0

    @property
    def part(self) -> Part:
        """What it was sent."""
        made = pickle.loads(self.call)
        assert isinstance(made, Part)
        return made

    @property
    def reports(self) -> bool:
        return self.part.part is None


@dataclass
class Paper:
    """The cluster.

    Attributes:
        refuses: what sbatch says; '' while it takes jobs.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    refuses: str = ""
    cancelled: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Paper:
        monkeypatch.setattr(executor, "require_slurm", lambda: None)
        monkeypatch.setattr(executor, "submit", self._send)
        monkeypatch.setattr(executor, "cancel_jobs", self.cancelled.extend)
        monkeypatch.setattr(slurm, "query_jobs", self._ask)
        return self

    def _send(
        self,
        name: str,
        calls: Sequence[Callable[[], Any]],
        options: Mapping[str, Any],
        after: Sequence[str],
        folder: Path,
    ) -> list[str]:
        if self.refuses:
            raise ConfigError(f"Slurm did not take the jobs: {self.refuses}")
        number = 1 + max((int(job.partition("_")[0]) for job in self.jobs), default=0)
        ids = [f"{number}_{place}" if len(calls) > 1 else str(number) for place in range(len(calls))]
        self.jobs |= {
            one: Job(one, pickle.dumps(call), options, slurm.list_main_ids(after)) for one, call in zip(ids, calls)
        }
        return ids

    def _ask(self, asked: Collection[str], seconds: float = 60.0, accounts: bool = True) -> slurm.Answer:
        mains = {job.partition("_")[0] for job in asked}
        return slurm.Answer({one: (job.state, 0) for one, job in self.jobs.items() if one.partition("_")[0] in mains})

    def waiting(self) -> list[Job]:
        """Jobs that have not begun, in the order in which they were sent."""
        return [job for job in self.jobs.values() if job.state == "PENDING"]

    def do(self, job: Job) -> int:
        """Do a job here; its exit status."""
        for other in self.jobs.values():
            assert other.state != "PENDING" or other.id.partition("_")[0] not in job.after, "it begins before its time"
        job.state = "RUNNING"
        try:
            pickle.loads(job.call)()
        except SystemExit as error:
            job.code = int(error.code or 0)
        job.state = "FAILED" if job.code else "COMPLETED"
        return job.code

    def all(self, lose: Callable[[Job], bool] = lambda job: False) -> list[Job]:
        """Do all jobs, and those that they send; those that are lost end without a word. The jobs that were done or lost."""
        seen = []
        while self.waiting():
            job = self.waiting()[0]
            seen.append(job)
            if lose(job):
                job.state = "TIMEOUT"
            else:
                self.do(job)
        return seen


def events(run: Path) -> list[dict[str, Any]]:
    """What the journals of a run say."""
    return [
        json.loads(line) for path in sorted((run / "tasks").glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


def done(runs: Sequence[Path]) -> list[str]:
    """The labels of the tasks that some runs computed, once for each time."""
    found = []
    for run in runs:
        said = events(run)
        label = {row[0]: row[2] for one in said if one["event"] == "planned" for row in one["tasks"]}
        found += [label[one["task"]] for one in said if one["event"] == "done"]
    return found
