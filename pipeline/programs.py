"""What a run starts: programs of the user's, without a shell and ended with all that they started; and other Pythons of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType

_RUNNING: set[int] = set()
"""Process groups of the programs that run."""
_LOCK = threading.Lock()
_ended = threading.Event()
_SAFE_PATH, _OURS = "PYTHONSAFEPATH", "voice-privacy"
_SAFE = threading.RLock()


def run_program(words: Sequence[str], seconds: float) -> tuple[int, bytes]:
    """Run a program without a shell, in a process group of its own, and wait for it.

    Returns:
        Its exit status, and what it said: of the standard error stream, or of the standard output if that is empty.

    Raises:
        TimeoutError: it took longer than so many seconds; it has been ended, with what it started.
        OSError: it cannot be started.
    """
    with _LOCK:  # a thread that sees its program end may be about to start the next one
        if _ended.is_set():
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
        started = subprocess.Popen(
            list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
            env={name: value for name, value in os.environ.items() if (name, value) != (_SAFE_PATH, _OURS)},
        )  # fmt: skip
        _RUNNING.add(started.pid)
    try:
        out, err = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError(seconds) from None
    finally:
        if started.poll() is None:
            _kill_group(started.pid)
            started.communicate()
        _RUNNING.discard(started.pid)
    return started.returncode, err or out


def end_programs() -> None:
    """End all programs that run, with what they started, and start none any more: for a process that is about to end by force."""
    with _LOCK:
        _ended.set()
        for group in list(_RUNNING):
            _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def isolate_python() -> Iterator[None]:
    """A Python that a library starts while this lasts imports nothing from the current folder, as under ``-P``, and does not run the
    main script again: a script may have its work outside ``if __name__ == "__main__"``, or have come through standard input.

    Programs of the user's, whose own folder must stay importable, do not inherit it. One thread at a time may be in here.
    """
    with _SAFE:
        main, before = sys.modules["__main__"], os.environ.get(_SAFE_PATH)
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ[_SAFE_PATH] = before or _OURS
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            os.environ.pop(_SAFE_PATH)
            if before is not None:
                os.environ[_SAFE_PATH] = before
