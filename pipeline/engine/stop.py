"""Signals that end a run: after the shard in flight, or after 20 seconds (conf/README.md, section 14)."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pipeline import programs

GRACE_SECONDS = 20.0
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
def listening(last_words: Callable[[int], None] | None = None) -> Iterator[Stop]:
    """Turn signals that ask to stop into a :class:`Stop` while the body runs; one that is ignored (``nohup``) stays so.

    Args:
        last_words: called with the signal number before the process is ended by force (the shard in flight outlasted
            the grace time, or a second signal arrived).
    """
    stop = Stop()

    def end(number: int) -> None:
        if last_words is not None:
            last_words(number)
        programs.end()
        logging.shutdown()
        os._exit(128 + number)

    def handle(number: int, _: FrameType | None) -> None:
        if stop.number is not None:
            end(number)
        stop.number = number
        log.warning(
            "%s: stopping after the shard in flight, or in %.0f s; what is finished stays, run the same command again to go on",
            signal.Signals(number).name,
            GRACE_SECONDS,
        )
        timer = threading.Timer(GRACE_SECONDS, end, [number])
        timer.daemon = True
        timer.start()
        timers.append(timer)

    timers: list[threading.Timer] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    heard = [one for one in ASKING if one == signal.SIGINT or signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield stop
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
