"""Tasks in several worker processes on this machine: each as soon as its inputs are there, the longest way first.

Tasks that use an accelerator go to workers with a GPU each, the others to workers beside them. What the store has is taken without any
worker. A worker that dies, or runs out of memory, costs its task in flight, which is tried once more on a fresh one.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, ClassVar, Literal

from pipeline.contracts import ComponentSettings, runtime
from pipeline.engine import contracts, failures, pool, worker
from pipeline.engine import stop as stops
from pipeline.engine.outcome import Outcome
from pipeline.engine.pool import Died, Place, Worker, count_files_left
from pipeline.engine.progress import Progress
from pipeline.engine.rates import Rates
from pipeline.engine.ready import Ready, State
from pipeline.engine.stop import Stop
from pipeline.engine.store import Damaged
from pipeline.engine.task import Artefact, Task
from pipeline.engine.worker import Done, Failed, Interrupted, Lacking, Terms
from pipeline.errors import AGAIN, ConfigError, PipelineError, StageFailed
from pipeline.host import count_cores

LOOK_SECONDS = 0.1
"""So often a signal is looked for while workers work."""
FILES = 64
"""Files that this process must still be able to open before it starts another worker: it needs some to look into the store."""
TIMES = 2
"""So often a task is begun whose worker dies; and one more often if it finds that what it stands on is gone."""
TIMES_REAL_TIME = 50.0
"""How fast audio is taken to be worked on before anything was measured."""

log = logging.getLogger(__name__)


class Settings(ComponentSettings):
    """How many processes.

    Attributes:
        workers: processes; null is one a GPU, or one for every two cores where there is none.
        beside: where there are GPUs, processes beside those that have one; null is one for every two cores that are left after two a GPU.
    """

    name: Literal["processes"] = runtime("processes")
    workers: int | None = runtime(None, ge=1)
    beside: int | None = runtime(None, ge=0)


class Executor(contracts.Executor):
    """Several processes on this machine."""

    Settings: ClassVar[type[ComponentSettings]] = Settings

    def threads(self, cores: int) -> int:
        return max(1, cores // len(self._seats(cores)))

    def at_once(self) -> int:
        return len(self._seats(count_cores()))

    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks; see :meth:`pipeline.engine.contracts.Executor.execute`.

        Raises:
            ConfigError: this process may have none of its own.
        """
        share = count_cores()
        run = _GraphRun(tasks, stop, outcome, progress, fail_fast, self._seats(share), self.device, self.threads(share))
        progress.start(tasks)
        try:
            run.work()
        finally:
            run.close()
            progress.finish()
        failures.raise_failures({tasks[number]: run.failed[number] for number in sorted(run.failed)})

    def _seats(self, share: int) -> list[Place]:
        gpus = pool.list_gpus(self.device, os.environ, pool.count_gpus)
        return pool.plan_places(self.settings.workers, self.settings.beside, gpus, share)


class _GraphRun:
    """One graph."""

    def __init__(
        self,
        tasks: Sequence[Task],
        stop: Stop,
        outcome: Outcome,
        progress: Progress,
        fail_fast: bool,
        places: Sequence[Place],
        device: str,
        threads: int,
    ) -> None:
        self.tasks, self.stop, self.outcome, self.progress, self.fail_fast = tasks, stop, outcome, progress, fail_fast
        self.seats = list(places)
        self.both = any(seat.device for seat in places)
        rates = Rates.read(outcome.store.root.parent, device, threads)
        self.ready = Ready(
            tasks, lambda task: _estimate_seconds(task, rates), lambda task: task.resources.device and self.both
        )
        self.failed: dict[int, PipelineError] = {}
        self.workers: list[Worker] = []
        self._graph = b""
        self._epoch = 0
        self._deaths: Counter[int] = Counter()
        self._lacked: Counter[int] = Counter()
        # Of tasks that have ended: whether they were computed, and the digests of what they made.
        self._ends: dict[int, tuple[bool, list[str]]] = {}
        self._asked, self._until = False, float("inf")
        self._short = False
        self._said: dict[tuple[str, str], int] = {}
        self._warned: set[Any] = set()

    def work(self) -> None:
        """Until nothing is left that can be done.

        Raises:
            Stopped: a signal arrived, and what was in flight has ended.
            PipelineError: nothing more can be done at all.
        """
        while self.ready.left():
            if self._ending():
                if not self._busy() or time.monotonic() > self._until:
                    break
                self._listen(LOOK_SECONDS)
                continue
            number = self.ready.fresh()
            if number is not None:
                self._look(number)
            self._share_out()
            self._listen(0.0 if number is not None else LOOK_SECONDS)
        self.stop.check()
        for number in self.ready.unfinished():  # after a failure that ends all
            self.failed[number] = failures.make_not_begun(self.tasks[number])

    def close(self) -> None:
        """End all workers."""
        for member in self.workers:
            member.leave()
        for member in self.workers:
            member.close()
        self.workers.clear()

    def _ending(self) -> bool:
        """Whether nothing is to begin any more; workers are then told, once."""
        number = self.stop.number
        if number is None and self.failed and self.fail_fast:
            number = int(signal.SIGTERM)
        if number is not None and not self._asked:
            self._asked = True
            if self.stop.number is None:  # the grace time of a signal is kept where it is heard
                self._until = time.monotonic() + stops.GRACE_SECONDS
            for busy in self._busy():
                busy.stop(number)
        return number is not None

    def _busy(self) -> list[Worker]:
        return [member for member in self.workers if member.task is not None]

    # What the store has ---------------------------------------------------------------------------------------------

    def _look(self, number: int) -> None:
        """Take a task from the store, or have it computed. What can be told only by reading much is left to a worker."""
        if self.outcome.told(self.tasks[number]) and self._find(number):
            self._ended(number, computed=False)
        else:
            self.ready.missing(number)

    def _find(self, number: int) -> bool:
        task = self.tasks[number]
        try:
            return len(self.outcome.find(task)) == len(task.outputs)
        except Damaged:
            return False

    def _ended(self, number: int, computed: bool) -> None:
        task, content = self.tasks[number], [artefact.digest for artefact in self._artefacts(number)]
        self.ready.done(number)
        if number not in self._ends:
            self.outcome.finished(task)
            self.outcome.computed += computed
            self.outcome.reused += not computed
            self.progress.end(task, computed)
        else:  # made again: it is counted once
            self._recount(number, computed)
            self._epoch += 1
            if self._ends[number][1] != content:
                for later in self.ready.standing_on(number):
                    self.ready.again(later)
        self._ends[number] = (computed or self._ends.get(number, (False, content))[0], content)

    def _recount(self, number: int, computed: bool) -> None:
        if computed and not self._ends[number][0]:
            self.outcome.reused, self.outcome.computed = self.outcome.reused - 1, self.outcome.computed + 1

    def _artefacts(self, number: int) -> list[Artefact]:
        task = self.tasks[number]
        return [self.outcome.artefact(task.ref(name)) for name in task.outputs]

    # What workers do ------------------------------------------------------------------------------------------------

    def _share_out(self) -> None:
        """Give what is missing to whoever is free."""
        for device in (True, False):
            while self.ready.has(device):
                free = self._free(device)
                number = self.ready.take(device) if free is not None else None
                if free is None or number is None:
                    break
                self._give(free, number)

    def _free(self, device: bool) -> Worker | Place | None:
        """A worker that has nothing to do, else a seat for one; those that suit a kind of task best come first."""
        idle = {member.seat.number: member for member in self.workers if member.task is None}
        taken = {member.seat.number for member in self.workers} - set(idle)
        if device:  # where no worker with a GPU of its own can be started, the others, which see one too, have to do
            helps = not any(seat.device for seat in self.seats)
        else:  # where no task is left for a GPU, the workers that have one help the others
            helps = not self.ready.left(True) or all(seat.device for seat in self.seats)
        fit = [seat for seat in self.seats if seat.number not in taken and (seat.device == device or helps)]
        fit.sort(key=lambda seat: (seat.number not in idle, seat.device != device, seat.number))
        return idle.get(fit[0].number, fit[0]) if fit else None

    def _give(self, free: Worker | Place, number: int) -> None:
        member = free if isinstance(free, Worker) else None
        try:
            if member is None:
                assert isinstance(free, Place)
                if self.workers and count_files_left() < FILES:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                member = Worker(free, self._pickled(), self._terms(free))
                self.workers.append(member)
            member.give(number, self._epoch)
        except OSError as error:
            self.ready.back(number)
            self._fewer(free if isinstance(free, Place) else free.seat, member, error)
            return
        if number not in self._ends:
            self.progress.begin(self.tasks[number], member.seat.where)

    def _fewer(self, seat: Place, member: Worker | None, error: OSError) -> None:
        """A worker cannot be started: the others go on.

        Raises:
            StageFailed: there are none.
        """
        self.seats.remove(seat)
        if member is not None:
            self.workers.remove(member)
            member.close()
        if not self.workers:
            raise StageFailed(
                f"no worker process can be started: {error.strerror or error}",
                cause=_describe_limit(error),
                remedy=f"set executor=local, {AGAIN}",
            ) from error
        if not self._short:
            self._short = True
            log.warning(
                "no more than %d worker processes can be started (%s): they go on",
                len(self.workers),
                _describe_limit(error),
            )

    def _terms(self, seat: Place) -> Terms:
        store = self.outcome.store
        level = logging.getLogger(worker.PROJECT).getEffectiveLevel()
        return Terms(store.root.absolute(), store.sound.verify, level, seat.environment)

    def _pickled(self) -> bytes:
        """The graph as workers get it.

        Raises:
            ConfigError: it cannot be sent, or this process may start none.
        """
        if multiprocessing.current_process().daemon:
            raise ConfigError(
                "executor=processes was asked for inside a worker of a multiprocessing.Pool, which may start no processes",
                remedy="set executor=local, or use a concurrent.futures.ProcessPoolExecutor in the place of that pool",
            )
        if not self._graph:
            try:
                self._graph = pickle.dumps(list(self.tasks), protocol=pickle.HIGHEST_PROTOCOL)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ConfigError(
                    f"the tasks cannot be sent to a worker process: {error}",
                    cause="a component or function that is made inside another function, or defined in a script or a notebook",
                    remedy="put it into a module that can be imported, or set executor=local",
                ) from error
        return self._graph

    def _listen(self, seconds: float) -> None:
        """Hear what workers say; wait so long for the first word."""
        channels = {member.channel: member for member in self.workers}
        for channel in wait(list(channels), seconds) if channels else ():
            member = channels[channel]  # type: ignore[index]
            for word, what in member.heard():
                self._hear(member, word, what)
            if member.silent:
                if member.task is not None:
                    self._over(member)
                self.workers.remove(member)
                member.close()

    def _hear(self, member: Worker, word: str, what: Any) -> None:
        match word:
            case worker.OVER:
                self._over(member)
            case worker.ADVANCE:
                self.progress.advance(self.tasks[what[0]], what[1])
            case worker.LOG:
                # What several workers have to say alike is said once.
                message = (what.name, what.getMessage())
                if (
                    what.levelno < logging.WARNING
                    or self._said.setdefault(message, member.seat.number) == member.seat.number
                ):
                    logging.getLogger(what.name).handle(what)
            case worker.WARNING:
                if what not in self._warned:
                    self._warned.add(what)
                    text, category, filename, line = what
                    with suppress(Warning):  # where warnings are errors, they are none of this process
                        warnings.warn_explicit(text, category, filename, line)

    def _over(self, member: Worker) -> None:
        number = member.task
        assert number is not None
        try:
            result = member.result()
        except Died as how:
            self._died(number, member.seat, str(how))
            return
        match result:
            case Done(computed, again):
                self._made_again(again)
                if self._find(number):
                    self._ended(number, computed)
                else:
                    self._lacks(number)
            case Failed(full=True) if self._deaths[number] + 1 < TIMES:
                member.silent = True  # what it holds goes with it
                self._died(number, member.seat, "ran out of memory")
            case Failed(error, trace):
                self._fail(number, error, trace)
            case Lacking():
                self._lacks(number)
            case Interrupted():
                self.ready.back(number)

    def _made_again(self, numbers: Sequence[int]) -> None:
        """A worker found the outputs of tasks that were done damaged, and made them again, with what it knows to stand on them; what
        else stands on other content than before is made again now, and workers forget what they know."""
        other: list[int] = []
        for number in numbers:
            if self.ready.state(number) is not State.DONE:
                continue
            before = [(artefact.inode, artefact.digest) for artefact in self._artefacts(number)]
            if not self._find(number):
                self._lost(number)
                continue
            after = [(artefact.inode, artefact.digest) for artefact in self._artefacts(number)]
            if after != before:
                self._epoch += 1
                self._recount(number, True)
                self._ends[number] = (True, [content for _, content in after])
                if self._ends[number][1] != [content for _, content in before]:
                    other.append(number)
        for number in other:
            for later in self.ready.standing_on(number):
                if later not in numbers:
                    self.ready.again(later)

    def _lost(self, number: int) -> None:
        self._epoch += 1
        self.ready.again(number)

    def _lacks(self, number: int) -> None:
        """The store has not any more what a task stands on, or has it with other content: it is made again, then the task is."""
        self._lacked[number] += 1
        if self._lacked[number] > TIMES:
            gone = StageFailed(
                f"{self.tasks[number].label}: what it stands on is not in the store any more, or is another each time",
                where=str(self.outcome.store.root),
                cause="somebody removes results while they are needed, or the disk loses them",
                remedy="see to that and run the same command again; all finished tasks are reused",
            )
            self._fail(number, gone)
            return
        for source in self.ready.before(number):
            if self.ready.state(source) is State.DONE and not self._find(source):
                self._lost(source)
        self._epoch += 1
        self.ready.back(number)

    def _died(self, number: int, seat: Place, how: str) -> None:
        """A worker ended in the middle of a task: it is tried once more on a fresh one."""
        task = self.tasks[number]
        self._deaths[number] += 1
        if self._asked:
            self.ready.back(number)
        elif self._deaths[number] < TIMES:
            log.warning("%s %s in the middle of %s, which is tried once more", seat.where, how, task.label)
            self.ready.missing(number)
        else:
            self._fail(number, self._twice(task, seat, how))

    def _twice(self, task: Task, seat: Place, how: str) -> StageFailed:
        alike = sum(place.device == seat.device for place in self.seats)
        setting = "beside" if self.both and not seat.device else "workers"
        killed = how.endswith(("SIGKILL", "was killed"))
        if killed and alike > 1:
            remedy = f"use fewer workers (executor.{setting}={alike // 2}), {AGAIN}"
        elif killed:
            remedy = f"free memory or use a machine with more, {AGAIN}"
        else:
            remedy = "see what stands above this on standard error, and run it in one process: executor=local"
        return StageFailed(
            f"{task.label}: its worker process {how}, and a second one ended so too",
            where=seat.where,
            cause="not enough memory for all workers together" if killed else "a crash inside a library",
            remedy=remedy,
        )

    def _fail(self, number: int, error: PipelineError, trace: str = "") -> None:
        task = self.tasks[number]
        self.failed[number] = error
        # As of a task in this process: the reason for the screen, the traceback for the log.
        text, values = ("%s", (error.what,)) if trace else ("%s failed: %s", (task.label, error))
        record = log.makeRecord(log.name, logging.ERROR, __file__, 0, text, values, None)
        record.exc_text = trace.rstrip() or None
        log.handle(record)
        self.progress.fail(task, error, trace)
        for down in self.ready.failed(number):
            self.failed[down] = failures.make_not_run(self.tasks[down])
            self.progress.skip(self.tasks[down])


def _describe_limit(error: OSError) -> str:
    """What keeps a process from being started, and how it is looked at."""
    match error.errno:
        case errno.ENOSPC:
            return "/dev/shm is full: `df -h /dev/shm`"
        case errno.EMFILE:
            return "this process may have no more files open: `ulimit -n $(ulimit -Hn)` raises that"
        case errno.EAGAIN | errno.ENOMEM:
            return "this user may have no more processes or memory: `ulimit -u`, `free -h`"
    return f"a limit of this machine or of this user ({error.strerror or error}): `ulimit -a`, `df -h /dev/shm`"


def _estimate_seconds(task: Task, rates: Rates) -> float:
    measured = rates.seconds(task)
    return measured if measured is not None else 1.0 + task.resources.seconds / TIMES_REAL_TIME
