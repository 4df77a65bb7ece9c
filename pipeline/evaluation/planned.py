"""What a run would do: which tasks are there, why the others are not, and what they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.rates import Estimate, Rates, read_free_bytes, refuse_shortage
from pipeline.engine.reasons import Reason, Reasons
from pipeline.engine.task import Task


@dataclass(frozen=True)
class Takes:
    """What some tasks take.

    Attributes:
        audio_seconds: of audio that they read; a task that reads none counts nothing.
        work_seconds: of one process.
        bytes: that their results need on the disk.
    """

    audio_seconds: float
    work_seconds: Estimate
    bytes: Estimate


@dataclass(frozen=True)
class Planned:
    """What a run would do.

    Attributes:
        tasks: each with whether it would be reused; what stands on work not yet done counts as to compute.
        notes: what a reader should know of the attacks.
        foreseen: what products could show at best, by the data alone.
        reasons: why each task that is not reused has to be computed.
        takes: what those of each stage take on this machine, as far as earlier runs measured it.
        all_takes: what all of them take.
        at_once: how many tasks the executor performs at once.
        least_seconds: the shortest time in which they can be done, so many at once: the work shared out, or the longest chain of
            tasks that stand on each other.
        store: where the results go.
        free_bytes: on the file system of the store; None where it cannot be told.
    """

    tasks: tuple[tuple[Task, bool], ...]
    notes: tuple[str, ...]
    foreseen: tuple[str, ...] = ()
    reasons: Mapping[Task, Reason] = field(default_factory=dict)
    takes: Mapping[str, Takes] = field(default_factory=dict)
    all_takes: Takes = Takes(0.0, Estimate(), Estimate())
    at_once: int = 1
    least_seconds: float = 0.0
    store: Path = Path("store")
    free_bytes: int | None = None

    def counts(self) -> dict[str, tuple[int, int]]:
        """By stage, tasks reused and to compute."""
        counted: dict[str, tuple[int, int]] = {}
        for task, reused in self.tasks:
            done, missing = counted.get(task.name, (0, 0))
            counted[task.name] = (done + reused, missing + (not reused))
        return counted

    def refuse(self) -> None:
        """Refuse what will not fit on the disk.

        Raises:
            StageFailed: more is known to be needed than is free.
        """
        refuse_shortage(self.all_takes.bytes, self.free_bytes, self.store)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {reused} reused, {missing} to compute" for name, (reused, missing) in self.counts().items()
        )


def describe_plan(
    tasks: Sequence[Task],
    outcome: Outcome,
    rates: Rates,
    at_once: int,
    notes: tuple[str, ...] = (),
    foreseen: tuple[str, ...] = (),
) -> Planned:
    """What a run of these tasks would do, sources first, over what its store has."""
    lacking = find_missing(tasks, outcome)
    reasons = Reasons(outcome)
    work = {task: rates.seconds(task, names) for task, names in lacking.items()}
    size = {task: rates.bytes(task, names) for task, names in lacking.items()}

    def takes(group: Sequence[Task]) -> Takes:
        return Takes(
            sum(task.resources.seconds for task in group),
            Estimate.of([work[task] for task in group]),
            Estimate.of([size[task] for task in group]),
        )

    stages = dict.fromkeys(task.name for task in lacking)
    of_all = takes(list(lacking))
    return Planned(
        tuple((task, task not in lacking) for task in tasks),
        notes,
        foreseen,
        {task: reasons.of(task, names) for task, names in lacking.items()},
        {name: takes([task for task in lacking if task.name == name]) for name in stages},
        of_all,
        at_once,
        max(of_all.work_seconds.amount / at_once, _longest(work)),
        outcome.store.root,
        read_free_bytes(outcome.store.root),
    )


def _longest(work: Mapping[Task, float | None]) -> float:
    """Seconds of the longest chain of tasks that stand on each other, as far as they are known; sources come first."""
    if all(seconds is None for seconds in work.values()):
        return 0.0
    ends: dict[Task, float] = {}
    for task, seconds in work.items():
        ends[task] = max((ends.get(ref.task, 0.0) for ref in task.sources()), default=0.0) + (seconds or 0.0)
    return max(ends.values(), default=0.0)
