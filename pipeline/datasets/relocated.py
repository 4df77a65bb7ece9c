"""Absolute paths of another machine: where the files lie here, and the command that writes it into the table."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath


def command(paths: Sequence[str], roots: Iterable[Path], tables: Sequence[Path]) -> str:
    """The command that corrects the paths of tables and keeps the old files; '' unless there is one reading that finds all.

    Args:
        paths: absolute paths, none of which exists.
        roots: folders under which the files may lie here.
        tables: the files that name them.
    """
    corrections = dict.fromkeys(pair for root in dict.fromkeys(roots) for pair in _corrections(paths[0], root))
    readings = {paths_here: pair for pair in corrections if (paths_here := _corrected(paths, *pair))}
    if len(readings) != 1:
        return ""
    old, new = next(iter(readings.values()))
    pattern, replacement = re.sub(r"([].*^$\\[|])", r"\\\1", old), re.sub(r"([\\&|])", r"\\\1", new)
    return f": {shlex.join(['sed', '-i.bak', f's|{pattern}|{replacement}|', *map(str, tables)])}"


def _corrections(path: str, root: Path) -> Iterable[tuple[str, str]]:
    """The longest ends of a path that exist below a folder, as the beginnings of it there and here."""
    parts = PurePosixPath(path).parts
    for place in range(1, len(parts)):
        if root.joinpath(*parts[place:]).is_file():
            yield f"{PurePosixPath(*parts[:place])}".rstrip("/") + "/", f"{root}/"
            return


def _corrected(paths: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """The paths with another beginning; none unless all of them exist."""
    made = tuple(new + path.removeprefix(old) for path in paths)
    return made if all(path.startswith(old) for path in paths) and all(map(os.path.isfile, made)) else ()
