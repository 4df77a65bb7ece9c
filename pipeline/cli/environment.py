"""Which environment variables a configuration may read: those that are meant for it.

Option files are passed from hand to hand, and the configuration of a run is kept in its folder. So ``${oc.env:NAME}`` gives the
project's own variables and Slurm's, and refuses every other by name: no token or password ends in a ``config.yaml``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from pipeline.cli.command_line import CommandLine
from pipeline.cli.option_files import list_files
from pipeline.errors import ConfigError, Fault

ALLOWED = ("VOICE_PRIVACY_", "SLURM_")
_SECRET = re.compile("SLURM_.*(JWT|TOKEN|KEY|SECRET|PASS)")
"""Slurm's variables that nobody else may know (SLURM_JWT is a password)."""
PATHS = {f"VOICE_PRIVACY_{name.upper()}": f"paths.{name}" for name in ("root", "data", "models", "cache")}

log = logging.getLogger(__name__)


def may_be_read(name: str) -> bool:
    """Whether a configuration may read this variable."""
    return name.startswith(ALLOWED) and not _SECRET.match(name.upper())


class Refused(ValueError):
    """A configuration asks for a variable that it may not read."""


class Guard:
    """Notes what was refused: (variable, key of the configuration), in the order of the questions."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str], None] = {}
        self.empty: set[str] = set()

    def answer(self, name: str, *default: Any, _node_: Any, _parent_: Any) -> Any:
        """``oc.env`` as OmegaConf has it, for the variables that may be read."""
        from omegaconf.resolvers import oc

        if not may_be_read(str(name)):
            key = _node_._get_full_key("") if _node_ is not None else _parent_._get_full_key("")
            self.refused[str(name), str(key)] = None
            raise Refused(f"a configuration may not read the environment variable {name}")
        if name in PATHS and default and not os.environ.get(name, "x").strip():
            # As if it were not set: an empty path is the current folder.
            if name not in self.empty:
                fallback = default[0] or "the user's cache"
                log.warning("the environment variable %s is empty: %s is %s, its default", name, PATHS[name], fallback)
            self.empty.add(name)
            return default[0]
        return oc.env(name, *default)

    def refuse(self, line: CommandLine) -> None:
        """Raise what was refused, if anything.

        Args:
            line: the command line, among whose overrides and option files a variable may stand.

        Raises:
            ConfigError: each variable with the key that asks for it, and where.
        """
        if not self.refused:
            return
        faults = [
            Fault(f"reads the environment variable {name}", ", ".join(filter(None, [key, *_places(name, line)])))
            for name, key in self.refused
        ]
        name = next(iter(self.refused))[0]
        raise ConfigError(
            f"the configuration reads {len(faults)} environment variable{'s' if len(faults) > 1 else ''} that it may not read",
            where="; ".join(fault.where for fault in faults),
            cause="an option file of somebody else, or a value that was to be written by the shell; what a configuration reads is kept "
            f"in the run folder, so it may read {' and '.join(f'{prefix}*' for prefix in ALLOWED)} alone",
            remedy="write the value itself; or, where it may be kept with the run, take it under a name that may be read: "
            f'export VOICE_PRIVACY_{name}="${name}", and write ${{oc.env:VOICE_PRIVACY_{name}}}',
            faults=faults if len(faults) > 1 else (),
        )


_guards: list[Guard] = []


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """While this lasts, configurations read only the variables that they may; afterwards all is as it was.

    Within another one it is the same guard.
    """
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    if _guards:
        yield _guards[-1]
        return
    guard = Guard()

    def answer(name: str, *default: Any, _node_: Any, _parent_: Any) -> Any:
        return guard.answer(name, *default, _node_=_node_, _parent_=_parent_)

    _guards.append(guard)
    OmegaConf.register_new_resolver("oc.env", answer, replace=True)
    try:
        yield guard
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
        _guards.pop()


def ask_all(composed: Any) -> None:
    """Ask for every value of a configuration, so that all that is refused is noted."""
    from omegaconf import Container, DictConfig
    from omegaconf.errors import OmegaConfBaseException

    if composed._is_none() or composed._is_missing():
        return
    for key in list(composed.keys()) if isinstance(composed, DictConfig) else range(len(composed)):
        try:
            value = composed[key]
        except OmegaConfBaseException:
            continue
        if isinstance(value, Container):
            ask_all(value)


def _places(name: str, line: CommandLine) -> list[str]:
    """Where a variable stands: the override, or file and line."""
    asks = re.compile(rf"oc\.env\s*:\s*{re.escape(name)}(?!\w)")
    places = [override.word for override in line.overrides if asks.search(override.word)]
    for file in list_files(line.folders):
        with contextlib.suppress(OSError):
            lines = file.path.read_text(encoding="utf-8", errors="replace").splitlines()
            places += [f"{file.path}:{number}" for number, text in enumerate(lines, start=1) if asks.search(text)]
    return places
