"""Signals that end a run: after the shard in flight, or after 20 seconds (conf/README.md, section 14)."""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pipeline import processes

GRACE_SECONDS = 20.0
LAST_SECONDS = 5.0
"""So long the last words of a process may take that is ended by force."""
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""What asks a run to stop: people and schedulers, a terminal that is closed, and what schedulers send before a limit."""

log = logging.getLogger(__name__)


class Stopped(Exception):
    """The run was asked to stop by signal ``number``; ``status`` is the exit status (143 for SIGTERM, 130 for SIGINT)."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number, self.status = int(number), 128 + int(number)

    def __reduce__(self) -> tuple[object, ...]:
        # By default the message would be taken for the number, where the exception comes back from another process.
        return (Stopped, (self.number,))


class Stop:
    """Whether the run was asked to stop."""

    def __init__(self) -> None:
        self.number: int | None = None

    def check(self) -> None:
        """Raise :class:`Stopped` if a signal has arrived."""
        if self.number is not None:
            raise Stopped(self.number)


@contextmanager
def listen_for_signals(last_words: Callable[[int], None] | None = None) -> Iterator[Stop]:
    """Turn signals that ask to stop into a :class:`Stop` while the body runs; one that is ignored (``nohup``) stays so.

    Args:
        last_words: called with the signal number before the process is ended by force (the shard in flight outlasted
            the grace time, or a second signal arrived).
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    # A handler runs in the middle of anything, a line that is being logged among it: it says no more than that a signal came.
    arrived: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def handle(number: int, _: FrameType | None) -> None:
        if stop.number is None:
            stop.number = number
        arrived.put(number)

    watch = threading.Thread(target=_watch, args=(arrived, last_words), name="signals", daemon=True)
    watch.start()
    heard = [
        candidate
        for candidate in ASKING
        if candidate == signal.SIGINT or signal.getsignal(candidate) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        arrived.put(None)
        watch.join()


def _watch(arrived: queue.SimpleQueue[int | None], last_words: Callable[[int], None] | None) -> None:
    """Say that a signal has arrived, and end the process if another one does, or if the grace time is over."""
    number = arrived.get()
    if number is None:
        return
    log.warning(
        "%s: stopping after the shard in flight, or in %.0f s; what is finished stays, run the same command again to go on",
        signal.Signals(number).name,
        GRACE_SECONDS,
    )
    try:
        again = arrived.get(timeout=GRACE_SECONDS)
    except queue.Empty:
        again = number
    if again is not None:
        _end(again, last_words)


def _end(number: int, last_words: Callable[[int], None] | None) -> None:
    def over() -> None:
        processes.end_programs()
        os._exit(128 + number)

    # Where standard error is read by nobody, or the disk does not answer, nothing more can be said.
    surely = threading.Timer(LAST_SECONDS, over)
    surely.daemon = True
    surely.start()
    try:
        if last_words is not None:
            last_words(number)
        logging.shutdown()
    finally:
        over()
