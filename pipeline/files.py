"""Files: their digests, their names, and the one way in which a file is replaced."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

# What every file system takes as it is, and tells apart from every other such name even where it ignores case.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.#-]{0,79}")
_CODED = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
_READABLE = 40


def name_of(text: str) -> str:
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
    """sha256 (hex) over the named files of a folder: their names and their bytes."""
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(f"{name}\0{file_digest(folder / name)}\0".encode())
    return total.hexdigest()


def sync(path: Path) -> None:
    """Have the system put a file or folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what a kill has left of :func:`write_atomically` beside a file that nobody is writing now."""
    for left in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"):
        left.unlink(missing_ok=True)
