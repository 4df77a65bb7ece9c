"""What is said of an error: the exit status and the words, the Python that lacks something, names that no table holds, long lists.

The standard library and :mod:`pipeline.errors` alone are imported before something has failed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pipeline.errors import ConfigError, DataError, PipelineError, explain_system_error

if TYPE_CHECKING:
    from pipeline.stages.settings import Evaluation

OLDEST = (3, 11)
_BYTE = re.compile("[\udc80-\udcff]")


def describe_failure(error: Exception) -> tuple[int, str]:
    """The exit status of an error, and what is said of it; of a stop nothing is, for the run has said it."""
    from pipeline.engine.stop import Stopped

    if isinstance(error, Stopped):
        return error.status, ""
    explained = error if isinstance(error, PipelineError) else explain_system_error(error)
    if explained is not None:
        return explained.status, f"error: {explained}"
    lines = "".join(traceback.format_exception(error))
    return 1, (
        f"{lines}error: {type(error).__name__}: {error}. This is a bug of the pipeline: please report it with the lines above."
    )


def list_all_faults(error: PipelineError, folder: Path | None = None) -> None:
    """Write all faults into a file that the message then names, where it does not say them all and no log has them.

    Args:
        error: its ``listed_in`` is set.
        folder: where the file is written; the folder of temporary files if it cannot be written there, or without one.
    """
    if not error.is_folded or error.listed_in:
        return
    text = error.paragraph(every=True) + "\n"
    name = f"faults-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
    for place in (folder, Path(tempfile.gettempdir())):
        if place is None:
            continue
        try:
            place.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(".txt", name, place)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        except OSError:
            continue
        error.listed_in = path
        return


# The interpreter -------------------------------------------------------------------------------------------------------


def check_version(arguments: Sequence[str]) -> None:
    """Refuse a Python that is too old.

    Raises:
        ConfigError: with the interpreter to use.
    """
    if sys.version_info[:2] < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"Python {needed} or newer is needed, and {sys.executable} is {'.'.join(map(str, sys.version_info[:3]))}",
            where=sys.executable,
            remedy=_install(arguments),
        )


def explain_import(error: ImportError, arguments: Sequence[str]) -> ConfigError | None:
    """What is to be said of a module that cannot be imported; None where it is one of ours, which is a bug.

    Args:
        error: what was raised.
        arguments: the command line, which stands in the remedy.
    """
    name = error.name or ""
    if name.partition(".")[0] == "pipeline" or "'pipeline" in str(error):
        return None
    return ConfigError(
        f"{error}: this Python does not have what the pipeline stands on",
        where=f"{sys.executable} (Python {'.'.join(map(str, sys.version_info[:3]))})",
        cause="another Python than that of the environment, or an environment that is not complete",
        remedy=_install(arguments),
    )


def _install(arguments: Sequence[str]) -> str:
    """The command that installs what is missing, or calls the Python that has it."""
    clone = Path(__file__).resolve().parents[2]
    if not (clone / "Makefile").is_file():
        return f"{shlex.quote(sys.executable)} -m pip install --upgrade voice-privacy-pipeline"
    current = Path.cwd()
    shown = Path() if clone == current else Path(os.path.relpath(clone)) if current in clone.parents else clone
    tool = shown / ".venv" / "bin" / "voice-privacy"
    command = shlex.join([str(tool), *arguments])
    install = "make install" if shown == Path() else f"make -C {shlex.quote(str(shown))} install"
    if Path(sys.prefix).resolve() == (clone / ".venv").resolve():
        # Its stamp says that all is installed, which is not so.
        return f"rm -f {shlex.quote(str(tool.parent.parent / '.installed'))} && {install}"
    return command if tool.is_file() else f"{install} && {command}"


# Names of files that are not UTF-8: tables and records cannot hold them, so they are refused by name ---------------------


def refuse_odd_names(values: Any, key: str = "") -> None:
    """Refuse a configuration with the name of a file that is not UTF-8.

    Raises:
        ConfigError: with the command that renames.
    """
    if isinstance(values, dict):
        for name, value in values.items():
            refuse_odd_names(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, list):
        for value in values:
            refuse_odd_names(value, key)
    elif isinstance(values, str) and _BYTE.search(values):
        shown = values.encode("utf-8", "backslashreplace").decode("utf-8")
        raise ConfigError("the name of a file is not UTF-8", where=f"{key}={shown}", remedy=_rename(values))


def explain_odd_name(error: UnicodeEncodeError) -> PipelineError | None:
    """What is to be said of a text that cannot be stored; None if it is not such a name."""
    if not _BYTE.search(error.object):
        return None
    return DataError(
        "the name of a file is not UTF-8",
        where=error.object.encode("utf-8", "backslashreplace").decode("utf-8"),
        cause="files that were made or unpacked under another encoding",
        remedy=_rename(error.object),
    )


def _rename(text: str) -> str:
    """The command that gives the first such part of a path the name that it has in latin-1."""
    path = PurePath(text)
    first = next(part for part in [*reversed(path.parents), path] if _BYTE.search(part.name))
    return f"mv -n {_bash(os.fsencode(first))} {_bash(os.fsencode(first.with_name(os.fsencode(first.name).decode('latin-1'))))}"


def _bash(name: bytes) -> str:
    """Bytes as bash reads them, whatever they are."""
    shown = "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or chr(byte) in "/._-+" else f"\\x{byte:02x}" for byte in name
    )
    return f"$'{shown}'"


def list_needed(evaluation: Evaluation) -> list[str]:
    """What of models and vectors is not there: nothing that the data lack."""
    return [f"a run would also need: what {fault.where} asks for; {fault.what}" for fault in evaluation.models.lacking]
