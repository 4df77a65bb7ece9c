"""Who wrote this, and is it alive: what a process leaves with its files, so that later ones can tell its leftovers."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import re
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

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
        theirs, ours = ((_plain_host(one.host), one.started.partition("@")[2]) for one in (self, me))
        return [_make_code(part) for part in theirs] == [_make_code(part) for part in ours]


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
    theirs, ours = (one.started.partition("@")[2].partition(".")[0] for one in (owner, me))
    return owner.host == me.host and "" not in (theirs, ours) and theirs != ours


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
    found = re.fullmatch(r"([1-9]\d{0,9})~([0-9a-f@.-]*)~([A-Za-z0-9_.-]*)", text)
    return Owner(found[3], int(found[1]), found[2]) if found else None


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
    """State and start (ticks since the machine started) of a process."""
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
