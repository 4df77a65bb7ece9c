"""The interpreter that runs this, where it lacks what the project stands on: which one it is, and the command that mends it.

Nothing but the standard library is imported here.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import ConfigError

OLDEST = (3, 11)


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
            remedy=_remedy(arguments),
        )


def lacking(error: ImportError, arguments: Sequence[str]) -> ConfigError | None:
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
        remedy=_remedy(arguments),
    )


def _remedy(arguments: Sequence[str]) -> str:
    clone = Path(__file__).resolve().parents[2]
    if not (clone / "Makefile").is_file():
        return f"{shlex.quote(sys.executable)} -m pip install --upgrade voice-privacy-pipeline"
    here = Path.cwd()
    shown = Path() if clone == here else Path(os.path.relpath(clone)) if here in clone.parents else clone
    tool = shown / ".venv" / "bin" / "voice-privacy"
    command = shlex.join([str(tool), *arguments])
    install = "make install" if shown == Path() else f"make -C {shlex.quote(str(shown))} install"
    if Path(sys.prefix).resolve() == (clone / ".venv").resolve():
        # Its stamp says that all is installed, which is not so.
        return f"rm -f {shlex.quote(str(tool.parent.parent / '.installed'))} && {install}"
    return command if tool.is_file() else f"{install} && {command}"
