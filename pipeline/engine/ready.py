"""Which tasks of a graph can be done now, and which of them first: a plain data structure, without processes and without a store.

A task waits for its sources, and for an earlier task that makes one of the same outputs (nothing is made twice). Then it is *fresh*:
the store may have its outputs. If not, it is *missing*, *running* and *done*, or *failed*, which takes down whatever stands on it. The
way on is the longest first: among tasks that are ready, the one under which the most work lies in a row.
"""

from __future__ import annotations

import enum
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pipeline.engine.task import Task


class State(enum.Enum):
    WAITING = enum.auto()
    FRESH = enum.auto()
    MISSING = enum.auto()
    RUNNING = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()


class Ready:
    """A graph as it is worked off; tasks are known by their place in it.

    Args:
        tasks: sources first.
        seconds: how long a task takes, as far as that is known.
        on_device: whether a task is for a worker with an accelerator.
    """

    def __init__(
        self, tasks: Sequence[Task], seconds: Callable[[Task], float], on_device: Callable[[Task], bool]
    ) -> None:
        self.tasks = tasks
        self.device = [on_device(task) for task in tasks]
        self.sources, makers = _edges(tasks)
        # Who stands on a task, and who merely waits until it has ended.
        self._on: list[list[int]] = [[] for _ in tasks]
        self._after: list[list[int]] = [[] for _ in tasks]
        for number, (on, after) in enumerate(zip(self.sources, makers)):
            for source in on:
                self._on[source].append(number)
            for source in after:
                self._after[source].append(number)
        self._blocked = [len(on) + len(after) for on, after in zip(self.sources, makers)]
        self._state = [State.WAITING] * len(tasks)
        self._left = Counter(self.device)
        self.below = self._longest([seconds(task) for task in tasks])
        self._fresh: list[tuple[float, int]] = []
        self._missing: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
        for number, blocked in enumerate(self._blocked):
            if not blocked:
                self._to(number, State.FRESH)

    def state(self, number: int) -> State:
        return self._state[number]

    def left(self, device: bool | None = None) -> int:
        """How many tasks are neither done nor failed; of one kind, or of both."""
        return self._left.total() if device is None else self._left[device]

    def fresh(self) -> int | None:
        """The next task of which nobody has looked whether the store has it; None if there is none. It is then to be called
        :meth:`missing`, :meth:`done` or :meth:`failed`."""
        return self._next(self._fresh, State.FRESH)

    def missing(self, number: int) -> None:
        """The store has not all outputs of a task."""
        self._to(number, State.MISSING)

    def take(self, device: bool) -> int | None:
        """The next task that is to be computed on a worker with an accelerator, or without one; None if there is none. It runs."""
        number = self._next(self._missing[device], State.MISSING)
        if number is not None:
            self._state[number] = State.RUNNING
        return number

    def has(self, device: bool) -> bool:
        """Whether there is something to :meth:`take`."""
        heap = self._missing[device]
        while heap and self._state[heap[0][1]] is not State.MISSING:
            heapq.heappop(heap)
        return bool(heap)

    def done(self, number: int) -> None:
        """The outputs of a task are there: what waits for nothing else is fresh."""
        self._ended(number, State.DONE)
        for later in (*self._on[number], *self._after[number]):
            self._unblock(later)

    def failed(self, number: int) -> list[int]:
        """A task failed; all that it takes down, in the order of the graph."""
        self._ended(number, State.FAILED)
        down: set[int] = set()
        look = [number]
        while look:
            below = look.pop()
            for later in self._after[below]:
                self._unblock(later)
            for later in self._on[below]:
                if self._state[later] in (State.WAITING, State.FRESH, State.MISSING):
                    self._ended(later, State.FAILED)
                    down.add(later)
                    look.append(later)
        return sorted(down)

    def again(self, number: int) -> None:
        """The outputs of a task that was done are not there any more: what stands on it and has not begun waits for it."""
        if self._state[number] is not State.DONE:
            return
        self._left[self.device[number]] += 1
        self._state[number] = State.WAITING
        for later in (*self._on[number], *self._after[number]):
            self._blocked[later] += 1
            if self._state[later] in (State.FRESH, State.MISSING):
                self._state[later] = State.WAITING
        if not self._blocked[number]:
            self._to(number, State.FRESH)

    def back(self, number: int) -> None:
        """A running task was not done: it is fresh as soon as its sources are there."""
        self._state[number] = State.WAITING
        if not self._blocked[number]:
            self._to(number, State.FRESH)

    def standing_on(self, number: int) -> list[int]:
        """The tasks that read what a task makes."""
        return list(self._on[number])

    def before(self, number: int) -> list[int]:
        """All that a task stands on, directly or through others, sources first."""
        reached: set[int] = set()
        look = [number]
        while look:
            for source in self.sources[look.pop()]:
                if source not in reached:
                    reached.add(source)
                    look.append(source)
        return sorted(reached)

    def unfinished(self) -> list[int]:
        """Tasks that are neither done nor failed."""
        return [n for n, state in enumerate(self._state) if state not in (State.DONE, State.FAILED)]

    def _longest(self, seconds: Sequence[float]) -> list[float]:
        """Seconds of the longest way from each task to an end of the graph, its own included."""
        below = list(seconds)
        for number in reversed(range(len(below))):
            below[number] += max((below[later] for later in self._on[number]), default=0.0)
        return below

    def _to(self, number: int, state: State) -> None:
        self._state[number] = state
        heap = self._fresh if state is State.FRESH else self._missing[self.device[number]]
        heapq.heappush(heap, (-self.below[number], number))

    def _next(self, heap: list[tuple[float, int]], state: State) -> int | None:
        while heap:
            _, number = heapq.heappop(heap)
            if self._state[number] is state:
                return number
        return None

    def _ended(self, number: int, state: State) -> None:
        if self._state[number] not in (State.DONE, State.FAILED):
            self._left[self.device[number]] -= 1
        self._state[number] = state

    def _unblock(self, number: int) -> None:
        self._blocked[number] -= 1
        if not self._blocked[number] and self._state[number] is State.WAITING:
            self._to(number, State.FRESH)


def _edges(tasks: Sequence[Task]) -> tuple[list[list[int]], list[list[int]]]:
    """For each task the places of its sources in the graph, and of earlier tasks that make one of the same outputs."""
    place: dict[str, int] = {}
    last: dict[str, int] = {}
    sources: list[list[int]] = []
    makers: list[list[int]] = []
    for number, task in enumerate(tasks):
        on = _unique(place[ref.task.id] for ref in task.sources() if ref.task.id in place)
        same = _unique(last[planned] for planned in task.planned.values() if planned in last)
        sources.append(on)
        makers.append([maker for maker in same if maker not in on])
        place.setdefault(task.id, number)
        for planned in task.planned.values():
            last[planned] = number
    return sources, makers


def _unique(numbers: Iterable[int]) -> list[int]:
    return sorted(set(numbers))
