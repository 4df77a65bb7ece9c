"""Where libraries keep what they compile and look up: in a folder that the configuration names (``paths.cache``), and nowhere else.

numba would write beside the source files, matplotlib into the home folder, torch into ``/tmp``. numba and torch load again what they
wrote by unpickling it: such a folder must be as trusted as the code is, so it is never a part of a store, which people share.

What a user has said by a variable of the library itself (``NUMBA_CACHE_DIR``, ``MPLCONFIGDIR``) holds.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

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
    """A folder that goes when this process ends; None where there is no room for one."""
    for parent in dict.fromkeys((None, root)):
        made = ""
        with suppress(OSError):
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix=".voice-privacy-", dir=parent)
        if made and is_writable(Path(made)):
            atexit.register(_remove, made, os.getpid())
            return Path(made)
        if made:
            shutil.rmtree(made, ignore_errors=True)
    return None


def _remove(made: str, pid: int) -> None:
    if os.getpid() == pid:  # not at the end of a process that was forked
        shutil.rmtree(made, ignore_errors=True)
