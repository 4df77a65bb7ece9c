"""How tasks are shared out to jobs: a wave is an array of jobs that need not wait for each other, a part the work of one job.

The level of a task is how many tasks stand below it, one on the other. A wave is the tasks of a level that ask for the same of the
cluster, cut into parts of about a chunk of work. Waves that are cheap are joined: what is less than a chunk together is one part, in
which tasks may stand on each other, so that a dozen steps of seconds do not wait in the queue a dozen times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.engine.task import Task

Amount = str | int | float | bool


@dataclass(frozen=True)
class Request:
    """What the job of a task asks for.

    Attributes:
        device: whether it has an accelerator.
        options: names and values, in the order of the names.
    """

    device: bool = False
    options: tuple[tuple[str, Amount], ...] = ()


@dataclass(frozen=True)
class Wave:
    """An array of jobs.

    Attributes:
        ask: what each of them asks for.
        parts: the tasks of each, sources first.
        after: places of the waves that have to end before.
    """

    ask: Request
    parts: tuple[tuple[Task, ...], ...]
    after: tuple[int, ...] = ()


@dataclass
class _Group:
    level: int
    ask: Request
    tasks: list[Task] = field(default_factory=list)
    joined: bool = False


def plan_waves(
    tasks: Sequence[Task], ask: Callable[[Task], Request], seconds: Callable[[Task], float], chunk: float
) -> list[Wave]:
    """Share out tasks.

    Args:
        tasks: those that are missing, sources first; what else they stand on is there.
        ask: what a task asks for.
        seconds: how long a task will take.
        chunk: seconds of work that a job should have; 0: a task a job.

    Returns:
        The waves, each after those that it waits for.
    """
    levels: dict[Task, int] = {}
    consumers: dict[Task, list[Task]] = {task: [] for task in tasks}
    for task in tasks:
        sources = {ref.task for ref in task.sources()} & levels.keys()
        levels[task] = max((levels[source] + 1 for source in sources), default=0)
        for source in sources:
            consumers[source].append(task)
    groups: dict[tuple[int, Request], _Group] = {}
    for task in tasks:
        key = levels[task], ask(task)
        groups.setdefault(key, _Group(*key)).tasks.append(task)
    joined = _join_groups(list(groups.values()), levels, consumers, seconds, chunk)
    place = {task: number for number, group in enumerate(joined) for task in group.tasks}
    planned = []
    for number, group in enumerate(joined):
        below = {place[ref.task] for task in group.tasks for ref in task.sources() if ref.task in place}
        parts = [group.tasks] if group.joined else _cut_parts(group.tasks, seconds, chunk)
        planned.append(Wave(group.ask, tuple(map(tuple, parts)), tuple(sorted(below - {number}))))
    return planned


def _join_groups(
    groups: Sequence[_Group],
    levels: dict[Task, int],
    consumers: dict[Task, list[Task]],
    seconds: Callable[[Task], float],
    chunk: float,
) -> list[_Group]:
    """The groups by level; those that ask for the same and are less than a chunk together are one, at the level of the last."""
    kept: list[_Group] = []
    open_: dict[Request, _Group] = {}
    for group in sorted(groups, key=lambda entry: entry.level):
        before = open_.get(group.ask)
        if before is not None and sum(map(seconds, [*before.tasks, *group.tasks])) <= chunk:
            own = {*before.tasks, *group.tasks}
            if not any(
                levels[other] <= group.level for task in before.tasks for other in consumers[task] if other not in own
            ):
                kept.remove(before)
                group = _Group(group.level, group.ask, before.tasks + group.tasks, joined=True)
        open_[group.ask] = group
        kept.append(group)
    return sorted(kept, key=lambda entry: entry.level)


def _cut_parts(tasks: Sequence[Task], seconds: Callable[[Task], float], chunk: float) -> list[list[Task]]:
    """Runs of neighbours of about a chunk each."""
    parts: list[list[Task]] = []
    filled = 0.0
    for task in tasks:
        if not parts or filled + seconds(task) > chunk:
            parts.append([])
            filled = 0.0
        parts[-1].append(task)
        filled += seconds(task)
    return parts
