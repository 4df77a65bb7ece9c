"""Option files of one's own, in the folders given by ``--config-dir``: what is wrong with them, by file and line.

Option files are passed from hand to hand, and the configuration of a run is kept in its folder. So ``${oc.env:NAME}`` gives the
project's own variables and Slurm's, and refuses every other by name: no token or password ends in a ``config.yaml``.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.cli.command_line import LISTS, CommandLine
from pipeline.errors import ConfigError, Fault
from pipeline.tables.bounds import bounded

ALLOWED = ("VOICE_PRIVACY_", "SLURM_")
PATHS = {f"VOICE_PRIVACY_{name.upper()}": f"paths.{name}" for name in ("root", "data", "models", "cache")}
_SECRET = re.compile("SLURM_.*(JWT|TOKEN|KEY|SECRET|PASS)")
"""Slurm's variables that nobody else may know (SLURM_JWT is a password)."""
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OptionFile:
    """An option file; ``group`` is the folder that it lies in, below the folder given ('' at the top)."""

    path: Path
    group: str

    @property
    def name(self) -> str:
        return self.path.stem

    @functools.cached_property
    def lines(self) -> dict[str, int]:
        """Line of each key, by its name in the composed configuration; empty if the file cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
            root = yaml.compose(text, Loader=bounded(yaml.SafeLoader))
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        header = _PACKAGE.search(text)
        package = self.group.replace("/", ".") if header is None or header[1] == "_group_" else header[1]
        lines: dict[str, int] = {}
        _number_keys(root, "" if package == "_global_" else package, lines)
        return lines

    def find_fault(self) -> Fault | None:
        """What keeps the file from being read, or from choosing anything; None if nothing does."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            text = self.path.read_text(encoding="utf-8-sig")
            root = yaml.compose(text, Loader=bounded(yaml.SafeLoader))
            if not isinstance(root, yaml.MappingNode):
                return Fault("holds no KEY: VALUE", f"{self.path}:1")
            if self.group in LISTS and isinstance(dict(_list_keys(root)).get("name"), yaml.ScalarNode):
                text = f"settings without a label: begin the file with '{self.name}:' and indent the rest under it"
                return Fault(text, f"{self.path}:1")
            OmegaConf.create(text)  # it also refuses a key that stands twice
        except UnicodeDecodeError as error:
            line = self.path.read_bytes()[: error.start].count(b"\n") + 1
            return Fault("is not UTF-8: save it in UTF-8", f"{self.path}:{line}")
        except yaml.MarkedYAMLError as error:
            # Of a bracket that is not closed, where it opens.
            mark = error.context_mark if "flow" in str(error.context) else error.problem_mark
            what = " ".join(filter(None, [error.context, error.problem]))
            return Fault(what, f"{self.path}:{mark.line + 1}" if mark is not None else str(self.path))
        except OSError as error:
            return Fault(f"cannot be read: {error.strerror}", str(self.path))
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            return Fault(" ".join(str(error).split()), str(self.path))
        return None


def list_files(folders: Sequence[Path]) -> list[OptionFile]:
    """The option files of some folders."""
    files = []
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            group = path.relative_to(folder).parent.as_posix()
            files += [OptionFile(path, "" if group == "." else group)] if path.is_file() else []
    return files


def refuse_unreadable(line: CommandLine, unnamed: bool = False) -> None:
    """Refuse option files that cannot be read, that unpack without end, or that choose nothing.

    Args:
        line: the command line; files that it does not name are no matter.
        unnamed: they are, for the configuration could not be composed.

    Raises:
        ConfigError: each of them, by file and line.
    """
    words = " ".join(line.words)
    files = [
        file
        for file in list_files(line.folders)
        if unnamed or re.search(rf"(?<!\w){re.escape(file.name)}(?!\w)", words)
    ]
    faults = [fault for file in files if (fault := file.find_fault()) is not None]
    if faults:
        raise ConfigError(
            f"option files that cannot be used: {len(faults)}",
            where=", ".join(fault.where for fault in faults[:5]),
            cause="a slip of the pen: YAML wants blanks for indentation, closed brackets, each key once, and UTF-8",
            remedy="mend the line named with each; a file holds a label and its settings, as in `mine: {name: …}`",
            faults=faults,
        )


def find_key(key: str, line: CommandLine) -> str:
    """The override that sets a key of the configuration, or file and line; '' if neither is found."""
    override = next((each.word for each in line.overrides if "." in key and each.name == key), "")
    return override or _find_line(key, list_files(line.folders))


def find_misplaced(name: str, folders: Sequence[Path]) -> str:
    """Where a file of this name lies; '' if it is nowhere."""
    return next((str(path) for folder in folders for path in sorted(folder.rglob(f"{name}.y*ml"))), "")


def locate_faults(error: ConfigError, line: CommandLine) -> ConfigError:
    """An error of the validation whose faults say in which option file they stand, and where."""
    files = list_files(line.folders)
    own = [override.name for override in line.overrides if "." in override.name]
    faults = []
    for fault in error.faults:
        from_line = any(f"{fault.where}.".startswith(f"{name}.") for name in own)
        place = "" if from_line else _find_line(fault.where, files)
        faults.append(Fault(fault.what, " in ".join(filter(None, [fault.where, place])), fault.kind))
    return ConfigError(error.what, where=error.where, cause=error.cause, remedy=error.remedy, faults=faults)


def _find_line(key: str, files: Sequence[OptionFile]) -> str:
    """File and line of a key, or of the nearest above it that a file has; '' if no file has its label."""
    parts = key.split(".")
    for depth in range(len(parts), min(len(parts), 2) - 1, -1):
        for file in files:
            line = file.lines.get(".".join(parts[:depth]))
            if line is not None:
                return f"{file.path}:{line}"
    return ""


def _list_keys(node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
    return [(str(key.value), value) for key, value in node.value]


def _number_keys(node: yaml.Node | None, prefix: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = ".".join(filter(None, [prefix, str(key.value)]))
            lines.setdefault(name, key.start_mark.line + 1)
            _number_keys(value, name, lines)


# The environment -------------------------------------------------------------------------------------------------------


class Guard:
    """Notes the first variable that was refused, with the key that asked for it, and the paths that are empty."""

    def __init__(self) -> None:
        self.refused: tuple[str, str] | None = None
        self.empty: set[str] = set()

    def answer(self, name: str, *default: Any, _node_: Any, _parent_: Any) -> Any:
        """``oc.env`` as OmegaConf has it, for the variables that may be read."""
        from omegaconf.resolvers import oc

        if not str(name).startswith(ALLOWED) or _SECRET.match(str(name).upper()):
            self.refused = self.refused or (
                str(name),
                str((_node_ if _node_ is not None else _parent_)._get_full_key("")),
            )
            raise ValueError(f"a configuration may not read the environment variable {name}")
        if name in PATHS and default and not os.environ.get(name, "x").strip():
            # As if it were not set: an empty path is the current folder.
            if name not in self.empty:
                fallback = default[0] or "the user's cache"
                log.warning("the environment variable %s is empty: %s is %s, its default", name, PATHS[name], fallback)
            self.empty.add(name)
            return default[0]
        return oc.env(name, *default)

    def refuse(self, line: CommandLine) -> None:
        """Raise what was refused, if anything, with the override or the lines of option files that ask for it.

        Raises:
            ConfigError: a variable that may not be read.
        """
        if self.refused is None:
            return
        name, key = self.refused
        asks = re.compile(rf"oc\.env\s*:\s*{re.escape(name)}(?!\w)")
        places = [override.word for override in line.overrides if asks.search(override.word)]
        for file in list_files(line.folders):
            with contextlib.suppress(OSError):
                texts = file.path.read_text(encoding="utf-8", errors="replace").splitlines()
                places += [f"{file.path}:{number}" for number, text in enumerate(texts, start=1) if asks.search(text)]
        raise ConfigError(
            f"the configuration reads the environment variable {name}, which it may not read",
            where=", ".join(filter(None, [key, *places])),
            cause="an option file of somebody else, or a value that was to be written by the shell; what a configuration reads is kept "
            f"in the run folder, so it may read {' and '.join(f'{prefix}*' for prefix in ALLOWED)} alone",
            remedy="write the value itself; or, where it may be kept with the run, take it under a name that may be read: "
            f'export VOICE_PRIVACY_{name}="${name}", and write ${{oc.env:VOICE_PRIVACY_{name}}}',
        )


_guards: list[Guard] = []


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """While this lasts, configurations read only the variables that they may; within another one it is the same guard."""
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    if _guards:
        yield _guards[-1]
        return
    guard = Guard()

    def answer(name: str, *default: Any, _node_: Any, _parent_: Any) -> Any:  # OmegaConf takes functions alone
        return guard.answer(name, *default, _node_=_node_, _parent_=_parent_)

    _guards.append(guard)
    OmegaConf.register_new_resolver("oc.env", answer, replace=True)
    try:
        yield guard
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
        _guards.pop()
