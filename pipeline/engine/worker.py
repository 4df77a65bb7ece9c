"""What runs inside a worker process: it finds by key what others have made, does one task at a time, and ends with its parent.

Beside the calls that it is given there is a channel to the parent. Up go what is logged and what is done, so that people see it where they
look; down come the graph, once, and the word to stop. What is computed goes through the store alone.
"""

from __future__ import annotations

import atexit
import copy
import faulthandler
import logging
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from pipeline import processes
from pipeline.engine import failures
from pipeline.engine.outcome import Outcome
from pipeline.engine.perform import perform_task
from pipeline.engine.progress import Progress
from pipeline.engine.stop import ASKING, Stop, Stopped
from pipeline.engine.store import Damaged, Store, Verify
from pipeline.engine.task import Task
from pipeline.errors import ConfigError, PipelineError, StageFailed

GRAPH, LOG, WARNING, ADVANCE, OVER, STOP = "graph", "log", "warning", "advance", "over", "stop"
"""First words of what goes through the channel."""
PROJECT = __name__.partition(".")[0]


@dataclass(frozen=True)
class Done:
    """The outputs of a task are in the store.

    Attributes:
        computed: whether any of them was made now.
        again: what was found damaged and made again on the way.
    """

    computed: bool
    again: tuple[int, ...] = ()


@dataclass(frozen=True)
class Failed:
    """A task failed; ``trace`` is the traceback where the error does not explain itself, ``full`` says that memory ran out."""

    error: PipelineError
    trace: str = ""
    full: bool = False


class Interrupted:
    """A task was told to stop, and did."""


class Lacking:
    """The store has no longer what a task stands on."""


Result = Done | Failed | Interrupted | Lacking


@dataclass(frozen=True)
class Terms:
    """What a worker is told when it starts.

    Attributes:
        store: where artefacts lie.
        verify: how far they are trusted.
        level: the least important messages that anybody wants.
        environment: variables to set before a library is loaded that reads them.
    """

    store: Path
    verify: Verify
    level: int
    environment: Mapping[str, str]


_here: list[_WorkerState] = []
"""What this process is, if it is a worker."""


def start_worker(channel: Connection, terms: Terms) -> None:
    """Make this process a worker; called once, first of all."""
    os.environ.update(terms.environment)
    inside = _WorkerState(channel, terms)
    inside.watch()
    _turn_deaf()
    # What follows in the tear-down of an interpreter can die of a thread of Arrow's that still runs (pipeline/__main__.py).
    atexit.register(os._exit, 0)
    handler = _LogForwarder(inside)
    log = logging.getLogger(PROJECT)
    log.handlers, log.propagate = [handler], False
    log.setLevel(terms.level)
    warnings.showwarning = inside.warn  # type: ignore[assignment]
    with suppress(Exception):  # standard error may be none
        faulthandler.enable()
    inside.say(GRAPH, None)
    _here.append(inside)


def perform_number(number: int, epoch: int) -> Result:
    """Do a task of the graph.

    Args:
        number: its place.
        epoch: another one than before says that something was made again: what this process knows of the store is forgotten.

    Raises:
        ConfigError: the graph cannot be read here.
    """
    inside = _here[0]
    try:
        return inside.work(number, epoch)
    finally:
        inside.say(OVER, number)


class _WorkerState:
    def __init__(self, channel: Connection, terms: Terms) -> None:
        self.terms, self.stop, self.epoch = terms, Stop(), 0
        self._channel, self._lock = channel, threading.Lock()
        self._graph: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._tasks: Sequence[Task] = ()
        self._places: dict[str, int] = {}
        self.outcome = self._nothing()

    def _nothing(self) -> Outcome:
        return Outcome(Store(self.terms.store, self.terms.verify))

    def say(self, word: str, what: Any) -> None:
        """Tell the parent something; nobody listens any more where it is gone."""
        try:
            with self._lock:
                self._channel.send((word, what))
        except OSError:
            return

    def warn(self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        """A warning of Python's, which the parent shows: once, whoever gives it."""
        shown_as = category if category.__module__ == "builtins" else UserWarning
        self.say(WARNING, (str(message), shown_as, filename, lineno))

    def watch(self) -> None:
        """Hear what the parent says, in a thread; end this process at once when the parent is gone."""
        threading.Thread(target=self._watch, name="the parent", daemon=True).start()

    def _watch(self) -> None:
        parent = multiprocessing.parent_process()
        also = [parent.sentinel] if parent is not None else []
        try:
            while self._channel in wait([self._channel, *also]):
                word, what = self._channel.recv()
                if word == STOP:
                    self.stop.number = what
                else:
                    self._graph.put(what)
        except (OSError, EOFError):
            pass
        finally:
            processes.end_programs()
            os._exit(1)

    def work(self, number: int, epoch: int) -> Result:
        task = self._task(number)
        if epoch != self.epoch:
            self.epoch, self.outcome = epoch, self._nothing()
        try:
            if not self.outcome.recall(task):
                return Lacking()
        except Damaged:
            self.outcome = self._nothing()
            return Lacking()
        except PipelineError as error:
            return Failed(_make_portable(error))
        before = dict(self.outcome.artefacts)
        try:
            computed = perform_task(task, self.outcome, _Forwarder(self), self.stop)
        except Stopped:
            return Interrupted()
        except PipelineError as error:
            return Failed(_make_portable(error))
        except Exception as error:
            full = failures.is_out_of_memory(error)
            return Failed(_make_portable(failures.explain_exception(task, error)), traceback.format_exc(), full)
        changed = (
            id for (id, name), artefact in before.items() if self.outcome.artefacts.get((id, name)) is not artefact
        )
        return Done(computed, tuple(sorted({self._places[id] for id in changed if id in self._places} - {number})))

    def advance(self, task: Task, seconds: float) -> None:
        if task.id in self._places:
            self.say(ADVANCE, (self._places[task.id], seconds))

    def _task(self, number: int) -> Task:
        if not self._tasks:
            try:
                self._tasks = pickle.loads(self._graph.get())  # from the parent; nothing that was stored
            except Exception as error:
                raise ConfigError(
                    f"the tasks cannot be read in a worker process: {type(error).__name__}: {error}",
                    cause="a component or function of a script or a notebook, which other processes cannot import",
                    remedy="put it into a module that can be imported, or set executor=local",
                ) from None
            for place, task in enumerate(self._tasks):
                self._places.setdefault(task.id, place)
        return self._tasks[number]


class _Forwarder(Progress):
    """Passes on what is done of a task."""

    def __init__(self, inside: _WorkerState) -> None:
        super().__init__()
        self.inside = inside

    def advance(self, task: Task, seconds: float) -> None:
        self.inside.advance(task, seconds)


class _LogForwarder(QueueHandler):
    """Sends messages to the parent."""

    def __init__(self, inside: _WorkerState) -> None:
        super().__init__(queue.SimpleQueue())
        self.inside = inside

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # As plain text; the traceback stays apart, for it goes into the log and not to the screen.
        plain = copy.copy(record)
        if record.exc_info and not record.exc_text:
            plain.exc_text = logging.Formatter().formatException(record.exc_info)
        plain.msg, plain.args, plain.exc_info = record.getMessage(), None, None
        return plain

    def enqueue(self, record: logging.LogRecord) -> None:
        self.inside.say(LOG, record)


def _turn_deaf() -> None:
    """Leave it to the parent to stop: a terminal and a scheduler ask all processes at once. The parent held these signals back while this
    process began; programs that it starts hear them as ever, which would not be so if they were ignored."""
    for number in ASKING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
            signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKING)


def _make_portable(error: PipelineError) -> PipelineError:
    try:
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    except Exception:
        pass
    return StageFailed(error.what, where=error.where, cause=error.cause, remedy=error.remedy, faults=error.faults)
