"""Files: their digests, their names, the one way in which somebody's file is opened, the one in which a file is replaced, and where
the files are that come with the project.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pipeline.errors import AGAIN, FULL, StageFailed, explain_errno

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class NotRegular(OSError):
    """A pipe, a device or a socket where a file is to be read: opening it could wait for ever, reading it never end."""


class TooLarge(OSError):
    """A file of more bytes than its kind can sensibly have."""


def open_regular(path: Path, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading, links followed.

    Args:
        path: the file.
        most: bytes that it may have; None for any number.

    Raises:
        NotRegular: it is a pipe, a device or a socket.
        TooLarge: it has more bytes.
        OSError: it cannot be opened.
    """
    _refuse_irregular(path, path.stat(), most)  # before it is opened: opening some devices does something
    # It may have been replaced in between, and opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_irregular(path, os.fstat(descriptor), most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file, as many as it has when it is opened.

    Raises:
        NotRegular, TooLarge, OSError: see :func:`open_regular`.
    """
    with open_regular(path, most) as stream:
        # No more than its size: what the system only shows as a file (/proc) has none, and may never end.
        return stream.read(os.fstat(stream.fileno()).st_size)


class Outside(ValueError):
    """A name in somebody's manifest that leads out of the folder that the manifest is of."""


def is_below(name: str) -> bool:
    """Whether a name of a file stays below its folder as it is written: no absolute path, and no ``..``."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def resolve_inside(folder: Path, name: str) -> Path:
    """The file that a manifest names by its path below a folder.

    Raises:
        Outside: the path is absolute, has ``..``, or leads out of the folder by a link.
    """
    path = folder / name
    if not is_below(name) or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise Outside(f"'{name}' leads out of {folder}")
    return path


def read_memory() -> int:
    """Bytes of this machine's memory: what needs more cannot be read at all."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _refuse_irregular(path: Path, status: os.stat_result, most: int | None) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise NotRegular(errno.EINVAL, f"is {_KINDS.get(kind, 'no file')}, not a file", str(path))
    if most is not None and status.st_size > most:
        holes = ", most of them holes" if status.st_blocks * 512 < status.st_size // 2 else ""
        raise TooLarge(errno.EFBIG, f"has {status.st_size:,} bytes{holes}; at most {most:,} are read", str(path))


# What every file system takes as it is, and tells apart from every other such name even where it ignores case.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.#-]{0,79}")
_CODED = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
_READABLE = 40


def make_file_name(text: str) -> str:
    """The name of a file or folder for an id, a set, a recipe: at most 80 bytes of plain ASCII, without an extension.

    A short text of lower-case letters, digits and ``_ . # -`` is its own name. Any other is told by its first characters, those
    that are plain, and 64 bits of its digest. So different texts have different names, also where case does not count.
    """
    if _PLAIN.fullmatch(text) and not text.endswith(".") and not _CODED.fullmatch(text):
        return text
    readable = re.sub(r"^-|[^A-Za-z0-9_-]", "_", text[:_READABLE] or "_")
    return f"{readable}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def file_digest(path: Path) -> str:
    """sha256 (hex) of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path, names: Sequence[str]) -> str:
    """sha256 (hex) over the named files of a folder: their names, without a path that leads elsewhere, and their bytes."""
    total = hashlib.sha256()
    for name in sorted(names, key=lambda name: Path(name).name if name.startswith("..") else name):
        plain = Path(name).name if name.startswith("..") else name
        total.update(f"{plain}\0{file_digest(folder / name)}\0".encode())
    return total.hexdigest()


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EBADF)
"""What file systems say that cannot do it, to folders above all: CIFS, AFS, 9p, vboxsf, some of FUSE. EBADF: they want it open for writing."""


def sync_to_disk(path: Path) -> None:
    """Have the system put a file or folder on the disk, where the file system can do that; OSError where it can and failed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: str | bytes | Callable[[Path], object]) -> None:
    """Replace a file: at every instant it is either the old one or the new one.

    Args:
        path: the file; its folder exists.
        content: text (written as UTF-8), bytes, or a function that writes to the path that it is given.

    Raises:
        OSError: it cannot be written; nothing is left behind, and the old file stays.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        if callable(content):
            content(temporary)
        elif isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            temporary.write_text(content, encoding="utf-8", newline="")
        sync_to_disk(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_clock(folder: Path) -> float:
    """Seconds since 1970 by the clock that gives the files of a folder their times: of a file server its own, whatever the clock of
    this machine says. Ages of what others write are told by it. Where nothing can be written, it is this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            return os.fstat(stream.fileno()).st_mtime
    except OSError:
        return time.time()


def sweep_temporary(path: Path) -> None:
    """Remove what a kill has left of :func:`write_atomically` beside a file that nobody is writing now."""
    for left in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"):
        left.unlink(missing_ok=True)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder of its own among the temporary files (``TMPDIR``), for what programs outside read and write; it goes at the end.

    Raises:
        StageFailed: there is no such folder, or no more room in it.
    """
    try:
        folder = tempfile.mkdtemp(prefix=prefix)
    except OSError as error:
        raise _no_temporary(str(error.strerror or error), "") from error
    try:
        yield Path(folder)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _no_temporary(explain_errno(error.errno, folder)[0], str(Path(folder).parent)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_temporary(reason: str, place: str) -> StageFailed:
    return StageFailed(
        f"temporary files cannot be written: {reason}",
        where=place or f"TMPDIR={os.environ.get('TMPDIR', '')}",
        remedy=f"free space there, or name a folder on another disk: export TMPDIR=DIR, {AGAIN}",
    )


def find_assets(kind: str) -> Path:
    """The folder ``conf``, ``recipes`` or ``data_manifests``: in the wheel within the package, else in the clone."""
    package = Path(__file__).resolve().parent
    packed = package / "_assets" / kind
    return packed if packed.is_dir() else package.parent / kind
