"""Looking at many audio files on all cores.

Where there are many, processes look: of decoding and hashing a part holds the interpreter's lock (two threads on two cores
are 1.2 to 1.7 times one, two processes twice, and the more cores, the further apart). A few files do not pay for processes. Where
none can be started, or one dies, threads go on.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import current_process, get_context
from pathlib import Path
from typing import TypeVar

from pipeline import processes
from pipeline.datasets import probe as probing
from pipeline.datasets.probe import Probe

MANY_FILES = 500
"""So many files are looked at by processes: they take as long to start as one of them takes for a hundred files."""

CHUNK_FILES = 16
"""Files that a process is given at a time."""

RACY_NS = 2_000_000_000
"""No file system in use has a coarser clock (FAT: 2 s); it also forgives hosts whose clocks differ a little."""

IDENTITY_BYTES = 16

# In flight for each worker, so that none waits for the next.
_AHEAD = 2
log = logging.getLogger(__name__)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FileState:
    """By what a file is told to be as it was."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def identity(self) -> bytes:
        """Of 128 bits, so that a large table is found in fast and takes little memory."""
        text = f"{self.size} {self.mtime_ns} {self.ctime_ns} {self.inode} ".encode()
        return hashlib.blake2b(text + encode_text(self.path), digest_size=IDENTITY_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Look:
    """What a file turned out to be, its state where that may be kept, and when it was looked at."""

    path: Path
    probe: Probe
    state: FileState | None
    looked_ns: int


def run_parallel(items: Sequence[Item], workers: int, look_at: Callable[[Sequence[Item]], Answer]) -> Iterator[Answer]:
    """Look at files, a few at a time, with so many workers; what was found, as it is found.

    Args:
        items: the files, or pairs of them.
        workers: processes or threads.
        look_at: looks at some of them in turn; it pickles.
    """
    # A daemon has no children.
    processes_pay = len(items) >= MANY_FILES and workers > 1 and not current_process().daemon
    size = CHUNK_FILES if processes_pay else 1
    left = deque(items[start : start + size] for start in range(0, len(items), size))
    if processes_pay:
        try:
            with processes.isolate_python():
                started = ProcessPoolExecutor(min(workers, len(left)), get_context("spawn"), processes.end_with_parent)
            with started as pool:
                yield from _run_in_pool(pool, workers, left, look_at)
            return
        except (OSError, BrokenProcessPool) as error:
            log.warning(
                "processes that look at audio files cannot go on (%s): threads do", error or type(error).__name__
            )
    with ThreadPoolExecutor(max(1, workers)) as pool:
        yield from _run_in_pool(pool, workers, left, look_at)


def _run_in_pool(
    pool: Executor, workers: int, left: deque[Sequence[Item]], look_at: Callable[[Sequence[Item]], Answer]
) -> Iterator[Answer]:
    """What is found of the parts that are left; those without an answer are left again where it fails."""
    going: dict[Future[Answer], Sequence[Item]] = {}
    try:
        while left or going:
            while left and len(going) < max(1, workers) * _AHEAD:
                with processes.isolate_python():  # it may start a process
                    future = pool.submit(look_at, left[0])
                going[future] = left.popleft()
            for done in wait(going, return_when=FIRST_COMPLETED).done:
                answer = done.result()
                del going[done]
                yield answer
    except BaseException:
        left.extend(going.values())
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def look_at_files(longest_seconds: float, paths: Sequence[Path]) -> list[Look]:
    """Look at some files in turn; longer ones are faults."""
    return [look_at_file(path, longest_seconds) for path in paths]


def look_at_file(path: Path, longest_seconds: float) -> Look:
    """Look at a file."""
    now = time.time_ns()
    before = read_state(path)
    probe = probing.probe_file(path, longest_seconds)
    settled = before is not None and now - max(before.mtime_ns, before.ctime_ns) >= RACY_NS
    if not (probe.lasting and settled and _read_opened_state(path) == before):
        return Look(path, probe, None, now)
    return Look(path, probe, before, now)


def read_state(path: Path) -> FileState | None:
    """The state of a regular file with an absolute path, else None."""
    try:
        return make_state(path, path.stat()) if path.is_absolute() else None
    except (OSError, ValueError):
        return None


def _read_opened_state(path: Path) -> FileState | None:
    """The state by way of opening the file, for which a network file system asks its server."""
    try:
        with path.open("rb") as stream:
            return make_state(path, os.fstat(stream.fileno()))
    except OSError:
        return None


def make_state(path: Path, status: os.stat_result) -> FileState | None:
    """What the system says of a file as its state; None of anything that is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileState(str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def encode_text(text: str) -> bytes:
    """The bytes of a text. Names of files may hold anything; Python stands in lone surrogates for what is not UTF-8."""
    return text.encode("utf-8", "surrogatepass")
