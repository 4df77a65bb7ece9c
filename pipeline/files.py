"""Files: their digests, and the one way in which a file is replaced."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path


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
