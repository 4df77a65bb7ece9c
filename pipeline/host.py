"""What the system lets this process have: cores, memory, and folders for what libraries compile.

Linux says it in files; elsewhere less is known. numba would write beside the source files, matplotlib into the home folder, torch into
``/tmp``: they keep theirs in a folder that the configuration names (``paths.cache``), and nowhere else. numba and torch load again what
they wrote by unpickling it: such a folder must be as trusted as the code is, so it is never a part of a store, which people share.
What a user has said by a variable of the library itself (``NUMBA_CACHE_DIR``, ``MPLCONFIGDIR``) holds.
"""

from __future__ import annotations

import atexit
import gc
import logging
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CPUS = "SLURM_CPUS_PER_TASK"


def count_cores() -> int:
    """What Slurm gave, else the cores that this process may run on."""
    return count_slurm_cores() or len(os.sched_getaffinity(0))


def count_slurm_cores() -> int:
    """What Slurm gave a task; 0 if it says nothing, or nothing that is a number of cores."""
    value = os.environ.get(CPUS, "").strip()
    number = re.fullmatch(r"([0-9]{1,6})(\(x[0-9]+\))?", value)  # 2(x3): two on each of three nodes
    return int(number[1]) if number else 0


PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def count_allowed_cores() -> int:
    """The cores that this process may use at once: those that it may run on, and no more than the quota of its control groups
    (containers, schedulers) has time for."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # no Linux
        allowed = os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, read_quota())))


def read_quota() -> float:
    """The cores for which the control groups of this process have time; infinite where nothing limits them."""
    limits = [math.inf]
    for folder in _list_groups():
        fields = _read_text(folder / "cpu.max").split()
        if len(fields) == 2 and all(field.isdecimal() for field in fields):
            limits.append(int(fields[0]) / int(fields[1]))
    return min(limits)


def read_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or less if its control groups have a limit."""
    limits = [_read_text(folder / "memory.max") for folder in _list_groups()]
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *(int(text) for text in limits if text.isdecimal())])


def _list_groups() -> list[Path]:
    """The folders of the control groups (version 2) that this process is in, with all that they lie in."""
    for line in _read_text(PROC / "self" / "cgroup").splitlines():
        if line.startswith("0::"):
            inner = Path(line.removeprefix("0::").lstrip("/"))
            # A container may see its own group as the root, and none of what its path names.
            return [GROUPS / part for part in (inner, *inner.parents)]
    return []


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""


OBJECTS = 200_000
"""Made since the collector looked last, before it looks again; 700 by default, so that it is at work a third of the time where a
million values are made that stay."""


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Have the collector look seldom, as is right where many values are made that stay: lists of a corpus, tasks of a plan."""
    before = gc.get_threshold()
    gc.set_threshold(max(OBJECTS, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


FOLDERS = {
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
    "TORCHINDUCTOR_CACHE_DIR": "torch",
    "CUDA_CACHE_PATH": "cuda",
}
ROOM = 1 << 20
"""Bytes: what a run without a GPU keeps takes half of it."""

log = logging.getLogger(__name__)


def find_home() -> Path:
    """The home folder of this user; a folder that is not there for one who has none, as in a container under a number of its own."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def find_cache_folder() -> Path:
    """The folder where the configuration names none."""
    return find_home() / ".cache" / "voice-privacy" / "compiled"


def use_cache_folder(folder: Path, root: Path | None = None) -> None:
    """Have the libraries that are loaded from now on, here and in the processes that this one starts, keep theirs in a folder.

    Where nothing can be written there (no home folder, a quota that is used up), it is a folder for this process alone, among
    the temporary files or else in ``root``, and nothing is kept.
    """
    wanted = {name: below for name, below in FOLDERS.items() if not os.environ.get(name)}
    if not wanted:
        return
    place: Path | None = folder
    if not is_writable(folder):
        place = _make_passing_folder(root)
        log.info("nothing can be kept in %s: what is compiled is compiled anew in each process (paths.cache)", folder)
    for name, below in wanted.items():
        if place is not None:
            os.environ[name] = str(place / below)


def is_writable(folder: Path) -> bool:
    """Whether a folder is there, or can be made, and has room: only writing tells where there is a quota."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
            return stream.write(bytes(ROOM)) == ROOM
    except OSError:
        return False


def _make_passing_folder(root: Path | None) -> Path | None:
    for parent in dict.fromkeys((None, root)):
        folder = ""
        with suppress(OSError):
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.mkdtemp(prefix=".voice-privacy-", dir=parent)
        if folder and is_writable(Path(folder)):
            atexit.register(_remove, folder, os.getpid())
            return Path(folder)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # not at the end of a process that was forked
        shutil.rmtree(folder, ignore_errors=True)
