"""The folders that a run writes to: whether they take what the store asks of them, what they lie on, and how much room there is."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pipeline import host
from pipeline.errors import why
from pipeline.evaluation.doctor.finding import SYSTEM, Finding, fault, ok, warning
from pipeline.files import sync
from pipeline.stages.settings import Evaluation

GB = 1e9
LEAST_STORE, LEAST_MODELS = 5 * GB, 1 * GB
LEAST_FILES = 10_000
CLOCK_SECONDS = 2.0
"""More than this, and what was just written seems to be of another time (see datasets/parallel.py)."""

_NETWORK = "a network file system: what one host writes, others see within a minute; a run stops while its server does not answer"
_PARALLEL = "a parallel file system: fast for large files, slow for the many small ones of a store"
_MEMORY = "it lies in memory and is lost when the machine is started anew"
_CONTAINER = "a container's own layer: it is lost when the container goes"
_FOREIGN = "it may not keep all that the store asks of it"
WORDS = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "afs", "ceph", "9p", "fuse.sshfs", "virtiofs"), _NETWORK),
    **dict.fromkeys(("lustre", "gpfs", "beegfs", "fhgfs", "wekafs", "panfs"), _PARALLEL),
    **dict.fromkeys(("tmpfs", "ramfs"), _MEMORY),
    **dict.fromkeys(("overlay", "aufs"), _CONTAINER),
    **dict.fromkeys(("vfat", "msdos", "exfat", "ntfs", "fuseblk", "hfsplus"), _FOREIGN),
}
"""A word on kinds of file systems."""
LOST = (_MEMORY, _CONTAINER, _FOREIGN)
"""Those that a store had better not lie on."""


def store(asked: Evaluation) -> Iterator[Finding]:
    """Where results are kept."""
    yield from _looked_at("store", asked.paths.store, "paths.root", LEAST_STORE)


def runs(asked: Evaluation) -> Iterator[Finding]:
    """Where run folders are made."""
    yield from _looked_at("runs", asked.paths.runs, "paths.root", 0)


def models(asked: Evaluation) -> Iterator[Finding]:
    """Where weights are; a run only reads there."""
    yield from _looked_at("models", asked.paths.weights, "paths.models", LEAST_MODELS)


def _looked_at(subject: str, folder: Path, setting: str, least: float) -> Iterator[Finding]:
    read_only = setting == "paths.models"
    try:
        nearest = next(one for one in (folder, *folder.parents) if _exists(one))
    except OSError as error:
        cause, remedy = _why(error, _reached(folder), setting)
        said = f"{folder} cannot be looked at: {error.strerror or error}{cause}"
        # What a run needs of models is said of each of them.
        yield warning(subject, said, remedy) if read_only else fault(subject, said, remedy, SYSTEM)
        return
    there = f"{folder}" + ("" if nearest == folder else " (not made yet)")
    if not nearest.is_dir():
        remedy = f"move {shlex.quote(str(nearest))} away, or set {setting}=DIR"
        yield fault(subject, f"{there}: a file stands where a folder should be: {nearest}", remedy, SYSTEM)
        return
    try:
        lacking, behind = _trial(nearest)
    except OSError as error:
        cause, remedy = _why(error, nearest, setting)
        said = f"{there} cannot be written: {error.strerror or error}{cause}"
        if read_only:
            used = "what is in it can be used, and " if nearest == folder else ""
            said = f"{said}; {used}fetch-models cannot put anything there"
            yield warning(subject, said, f"{setting}=DIR, a folder of your own, before fetch-models")
        else:
            yield fault(subject, said, remedy, SYSTEM)
        return
    yield ok(subject, f"{there}: can be written")
    for what in lacking:
        yield fault(subject, f"{folder} lies on a file system that {what}", f"{setting}=DIR on another disk", SYSTEM)
    if read_only and nearest == folder:
        yield from _room(subject, nearest, setting, least)
        return
    yield from _file_system(subject, nearest, setting)
    yield from _room(subject, nearest, setting, least)
    if abs(behind) > CLOCK_SECONDS:
        yield warning(
            subject,
            f"its clock is {abs(behind):.0f} s {'behind' if behind > 0 else 'ahead of'} this machine's",
            "have both set by a time server (chrony, ntpd): a run may take new files for old ones",
        )


def _why(error: OSError, folder: Path, setting: str) -> tuple[str, str]:
    """The likely cause in brackets, and what mends it."""
    if error.errno in (errno.ENOENT, errno.EINVAL):  # of a folder that is there: no disk, but /proc or the like
        return " (no folder can be made there)", f"{setting}=DIR on a disk"
    cause, remedy = why(error.errno, str(folder), setting)
    return f" ({cause})" if cause else "", remedy


def _exists(path: Path) -> bool:
    """As :meth:`Path.exists`, but a link that leads nowhere stands in the way of a folder.

    Raises:
        OSError: it cannot be told, such as below a folder that may not be entered.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _reached(folder: Path) -> Path:
    """The lowest of a folder's parents that can be seen: if it cannot be entered, it is what stands in the way."""
    for one in folder.parents:
        try:
            one.lstat()
        except OSError:
            continue
        return one
    return folder


def _trial(folder: Path) -> tuple[list[str], float]:
    """Do in a folder what the store does; nothing stays of it.

    Returns:
        What the file system does not keep of that, and by how many seconds its clock is behind this machine's.

    Raises:
        OSError: it cannot be written at all.
    """
    place = folder / f".doctor-{uuid.uuid4().hex}"
    place.mkdir()
    try:
        lacking = []
        first, second = place / "first", place / "second"
        before = time.time()
        first.write_bytes(b"first")
        after = time.time()
        written = first.stat().st_mtime
        behind = before - written if written < before else min(0.0, after - written)
        sync(first)
        second.write_bytes(b"second")
        second.replace(first)
        if second.exists() or first.read_bytes() != b"second":
            lacking.append("does not replace a file by another in one step")
        sync(place)
        lacking += [*_exclusive(place / "alone"), *_of_folders(place)]
        return lacking, behind
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _exclusive(path: Path) -> list[str]:
    path.touch()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return []
    return ["lets two processes make the same file"]


def _of_folders(place: Path) -> list[str]:
    made, final, other = place / "made", place / "final", place / "other"
    for one in (made, other):
        one.mkdir()
        (one / "file").write_bytes(b"")
    made.replace(final)
    lacking = [] if (final / "file").is_file() and not made.exists() else ["does not rename a folder in one step"]
    try:
        other.replace(final)
    except OSError:
        return lacking
    return [*lacking, "puts a folder over another one that holds files: two runs could overwrite each other's results"]


def _file_system(subject: str, folder: Path, setting: str) -> Iterator[Finding]:
    on = host.mount(folder)
    word = WORDS.get(on.kind, "")
    if not on.kind:
        return
    said = f"on {on.kind} ({on.point})" + (f": {word}" if word else "")
    if word in LOST:
        yield warning(subject, said, f"{setting}=DIR on a disk that stays")
    else:
        yield ok(subject, said)


def _room(subject: str, folder: Path, setting: str, least: float) -> Iterator[Finding]:
    free = shutil.disk_usage(folder).free
    remedy = f"free space (`df -h {shlex.quote(str(folder))}` says of what disk), or {setting}=DIR on another disk"
    if not least:
        return
    if free == 0:
        yield fault(subject, "the disk is full", remedy, SYSTEM)
    elif free < least:
        yield warning(subject, f"{free / GB:.1f} GB free; {least / GB:.0f} GB are safe", remedy)
    else:
        yield ok(subject, f"{free / GB:.1f} GB free")
    found = os.statvfs(folder)
    if found.f_files and found.f_favail < LEAST_FILES:
        yield warning(
            subject,
            f"the file system takes {found.f_favail} more files only",
            f"{setting}=DIR on another disk (`df -i`)",
        )
