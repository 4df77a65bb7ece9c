"""Worker processes as their parent sees them, and the places for them: how many there are, and which GPU each of them sees.

A worker is a pool of one process, so that a death costs exactly the task in flight, and a channel beside it.
"""

from __future__ import annotations

import errno
import multiprocessing
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pipeline import processes
from pipeline.engine import worker
from pipeline.engine.stop import ASKING
from pipeline.engine.worker import Result, Terms

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Place:
    """A place for a worker.

    Attributes:
        number: from 1 on.
        device: whether it has an accelerator.
        where: what people call it.
        environment: variables that its process gets.
    """

    number: int
    device: bool
    where: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """A GPU: what people call it, and what CUDA_VISIBLE_DEVICES is for a process that is to see no other; None leaves it as it is."""

    name: str
    visible: str | None


def list_gpus(device: str, environment: Mapping[str, str], count: Callable[[], int]) -> list[Gpu]:
    """The GPUs that a run may use.

    Args:
        device: that tasks were planned for. With a number, it is that GPU alone, and tasks name it so.
        environment: of this process; names of GPUs in CUDA_VISIBLE_DEVICES may be numbers or UUIDs.
        count: how many this process sees.
    """
    if not device.startswith("cuda"):
        return []
    if device != "cuda":
        return [Gpu(device, None)]
    seen = max(count(), 1)
    visible = environment.get(VISIBLE, "").strip()
    names = [name.strip() for name in visible.split(",")][:seen] if visible else [str(n) for n in range(seen)]
    return [Gpu(f"cuda:{number}", name) for number, name in enumerate(names)]


def count_gpus() -> int:
    """How many GPUs torch sees."""
    import torch

    return torch.cuda.device_count()


def plan_places(workers: int | None, beside: int | None, gpus: Sequence[Gpu], cores: int) -> list[Place]:
    """The workers of a run.

    Args:
        workers: how many; None is one a GPU, or one for every two cores where there is none.
        beside: how many without a GPU stand beside those with one; None is one for every two cores that are left after two a GPU.
        found: the GPUs. Where more workers are asked for, they share them in turn.
        cores: for all workers together.
    """

    def of(number: int, device: bool) -> Place:
        gpu = gpus[(number - 1) % len(gpus)] if gpus else None
        # Those without a GPU of their own see one all the same: nothing is to fail because it asks.
        environment = {VISIBLE: gpu.visible} if gpu is not None and gpu.visible is not None else {}
        where = f"worker {number}, {gpu.name}" if gpu is not None and device else f"worker {number}"
        # Threads that wait for each other in a loop take the cores from other workers; no number depends on it.
        return Place(number, device, where, {"OMP_WAIT_POLICY": "PASSIVE", **environment})

    if not gpus:
        return [of(number, False) for number in range(1, (workers or max(1, cores // 2)) + 1)]
    working = workers or len(gpus)
    others = max(1, (cores - 2 * working) // 2) if beside is None else beside
    return [of(number, number <= working) for number in range(1, working + others + 1)]


END_SECONDS = 2.0
"""So long a worker that is to end at once is waited for, before it is killed."""


class Died(Exception):
    """A worker process ended in the middle of a task; the message says how."""


class Worker:
    """A process in a seat. It starts with its first task.

    Args:
        graph: the pickled tasks.

    Raises:
        OSError: no process, or none of what belongs to it, can be made.
    """

    def __init__(self, seat: Place, graph: bytes, terms: Terms) -> None:
        self.seat = seat
        self.task: int | None = None
        self.silent = False
        """Whether nothing more will be heard of it."""
        self._graph = graph
        # A process that is forked, or a thread's lock in it, does not get on with CUDA and torch.
        context = multiprocessing.get_context("spawn")
        self.channel, self._theirs = context.Pipe()
        self._process: BaseProcess | None = None
        self._future: Future[Result] | None = None
        try:
            with _hold_signals(), processes.isolate_python():
                self._pool = ProcessPoolExecutor(1, context, worker.start_worker, (self._theirs, terms))
        except BaseException:
            self.channel.close()
            self._theirs.close()
            raise

    def give(self, number: int, epoch: int) -> None:
        """Have it do a task."""
        if self._process is not None:
            self._future = None
            with suppress(BrokenProcessPool):  # it died while it was idle, and will be found to be silent
                self._future = self._pool.submit(worker.perform_number, number, epoch)
        else:
            before = set(multiprocessing.active_children())
            try:
                with _hold_signals(), processes.isolate_python():
                    self._future = self._pool.submit(worker.perform_number, number, epoch)
            except RuntimeError as error:  # there is no thread to be had for it
                raise OSError(errno.EAGAIN, str(error)) from error
            finally:
                self._theirs.close()
            self._process = next(iter(set(multiprocessing.active_children()) - before), None)
        self.task = number

    def heard(self) -> Iterator[tuple[str, Any]]:
        """What it said, as far as it is there."""
        try:
            while not self.silent and self.channel.poll():
                word, what = self.channel.recv()
                if word == worker.GRAPH:
                    self._say(worker.GRAPH, self._graph)
                else:
                    yield word, what
        except (OSError, EOFError):
            self.silent = True

    def result(self) -> Result:
        """What became of its task; for when it said that it is over, or nothing more.

        Raises:
            Died: the process ended first.
            ConfigError: it could not read the tasks.
        """
        self.task = None
        try:
            if self._future is None:
                raise BrokenProcessPool
            return self._future.result()
        except BrokenProcessPool:
            self.silent = True
            self._pool.shutdown()
            raise Died(self._ending()) from None

    def stop(self, number: int) -> None:
        """Tell it that a signal has arrived."""
        self._say(worker.STOP, number)

    def leave(self) -> None:
        """Have it end at once if it works, without waiting for that."""
        if self.task is not None:
            self.channel.close()

    def close(self) -> None:
        """End it: as soon as it is idle, which it is as a rule; at once if it works."""
        self.leave()
        if self.task is not None and self._process is not None:
            self._process.join(END_SECONDS)
            self._process.kill()
        with suppress(RuntimeError):  # its thread was never started
            self._pool.shutdown()
        self.channel.close()
        self._theirs.close()

    def _say(self, word: str, what: Any) -> None:
        try:
            self.channel.send((word, what))
        except OSError:
            self.silent = True

    def _ending(self) -> str:
        code = self._process.exitcode if self._process is not None else None
        if code is None:
            return "was killed"
        if code >= 0:
            return f"ended with status {code}"
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


def count_files_left() -> float:
    """How many more files this process may open; infinitely many where the system does not say."""
    try:
        opened = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else limit - opened


@contextmanager
def _hold_signals() -> Iterator[None]:
    """A process that is started inherits what is held back, until it turns deaf; this one hears of it a moment later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
