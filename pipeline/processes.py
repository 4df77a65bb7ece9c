"""Processes: who wrote a file and whether he is alive, so that later ones can tell leftovers; and what a run starts.

A run starts programs of the user's, without a shell and ended with all that they started, and other Pythons of its own.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_CODE = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True)
class Owner:
    """A process, told apart from all others.

    Attributes:
        host: name of its machine.
        pid: its number there.
        started: when it started, as the system counts, with the boot and the process namespace in which the number holds:
            ``TICKS@BOOT.NAMESPACE``. '' where the system does not say (no Linux).
    """

    host: str
    pid: int
    started: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def plain(self) -> dict[str, str | int]:
        """For a JSON file; :func:`from_plain` reads it."""
        return {"host": self.host, "pid": self.pid, "started": self.started}

    def token(self) -> str:
        """For the name of a file: at most 49 digits, small letters, ``@`` and ``~``; :func:`from_token` reads it. Of the machine, the
        boot and the namespace it holds digests: as they are, a name would be longer than some file systems take (143 bytes)."""
        ticks, _, place = self.started.partition("@")
        return f"{self.pid}~{ticks}@{_make_code(place)}~{_make_code(_plain_host(self.host))}"

    @property
    def here(self) -> bool:
        """Whether it runs, or ran, where this process can look for it."""
        me = this_process()
        other_place, own_place = (
            (_plain_host(process.host), process.started.partition("@")[2]) for process in (self, me)
        )
        return [_make_code(part) for part in other_place] == [_make_code(part) for part in own_place]


def this_process() -> Owner:
    """This process."""
    return _read_process(os.getpid())


def is_dead(owner: Owner) -> bool:
    """Whether a process is known to have ended. False where that cannot be told: another machine (also this one before it was
    started anew), another container, a file system of processes that may not be read."""
    if not owner.here:
        return False
    if not owner.started:
        return not _exists(owner.pid)
    try:
        state, ticks = _read_stat(owner.pid)
    except (FileNotFoundError, ProcessLookupError):
        # Where /proc shows each user only their own processes (hidepid), others are there all the same.
        return not _exists(owner.pid)
    except (OSError, ValueError, IndexError):
        return False
    return state in "ZX" or ticks != owner.started.partition("@")[0]


def is_of_another_boot(owner: Owner) -> bool:
    """Whether a process ran on a machine of this name that was started anew since; only for an :class:`Owner` with its full ``started``,
    not for one of a token. Two machines may have one name: look for a sign of life too."""
    me = this_process()
    other_boot, own_boot = (process.started.partition("@")[2].partition(".")[0] for process in (owner, me))
    return owner.host == me.host and "" not in (other_boot, own_boot) and other_boot != own_boot


def read_owner(value: object) -> Owner | None:
    """What :meth:`Owner.plain` gave; None for anything else."""
    if not isinstance(value, dict):
        return None
    host, pid, started = value.get("host"), value.get("pid"), value.get("started")
    if isinstance(host, str) and isinstance(pid, int) and not isinstance(pid, bool) and isinstance(started, str):
        return Owner(host, pid, started) if pid > 0 else None
    return None


def parse_token(text: str) -> Owner | None:
    """What :meth:`Owner.token` gave, also in earlier versions; None for anything else. Host and place are as the token has them."""
    match = re.fullmatch(r"([1-9]\d{0,9})~([0-9a-f@.-]*)~([A-Za-z0-9_.-]*)", text)
    return Owner(match[3], int(match[1]), match[2]) if match else None


def end_with_parent() -> None:
    """For the beginning of a process that works for another one: it ends when that one ends, however that comes about, and leaves
    the signals that ask to stop to it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


@functools.lru_cache(maxsize=4)  # a process that forks has another number
def _read_process(pid: int) -> Owner:
    try:
        _, ticks = _read_stat(pid)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = "".join(re.findall(r"\d+", str(Path("/proc/self/ns/pid").readlink())))
    except (OSError, ValueError, IndexError):
        return Owner(socket.gethostname(), pid)
    return Owner(socket.gethostname(), pid, f"{ticks}@{boot}.{namespace}")


def _read_stat(pid: int) -> tuple[str, str]:
    text = Path(f"/proc/{pid}/stat").read_bytes()
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
    return fields[0].decode(), fields[19].decode()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def _plain_host(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]


def _make_code(text: str) -> str:
    """Eight digits that stand for a text; those of a text that is already such a code are itself."""
    if not text or _CODE.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:8]


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
