"""Names of files that are not UTF-8: tables and records cannot hold them, so they are refused by name."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import Any

from pipeline.errors import ConfigError, DataError, PipelineError

_BYTE = re.compile("[\udc80-\udcff]")


def refuse(values: Any, key: str = "") -> None:
    """Refuse a configuration with such a name in it.

    Raises:
        ConfigError: with the command that renames.
    """
    if isinstance(values, dict):
        for name, value in values.items():
            refuse(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, list):
        for value in values:
            refuse(value, key)
    elif isinstance(values, str) and _BYTE.search(values):
        raise ConfigError("the name of a file is not UTF-8", where=f"{key}={_escaped(values)}", remedy=_renamed(values))


def explained(error: UnicodeEncodeError) -> PipelineError | None:
    """What is to be said of a text that cannot be stored; None if it is not such a name."""
    if not _BYTE.search(error.object):
        return None
    return DataError(
        "the name of a file is not UTF-8",
        where=_escaped(error.object),
        cause="files that were made or unpacked under another encoding",
        remedy=_renamed(error.object),
    )


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _renamed(text: str) -> str:
    """The command that gives the first such part of a path the name that it has in latin-1."""
    path = PurePath(text)
    parts = [*reversed(path.parents), path]
    first = next(one for one in parts if _BYTE.search(one.name))
    return f"mv -n {_bash(os.fsencode(first))} {_bash(os.fsencode(first.with_name(os.fsencode(first.name).decode('latin-1'))))}"


def _bash(name: bytes) -> str:
    """Bytes as bash reads them, whatever they are."""
    shown = "".join(
        chr(each) if (chr(each).isalnum() and each < 128) or chr(each) in "/._-+" else f"\\x{each:02x}" for each in name
    )
    return f"$'{shown}'"
