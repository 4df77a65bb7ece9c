"""Option files of one's own, in the folders given by ``--config-dir``: what is wrong with them, by file and line.

Option files are passed from hand to hand, and the configuration of a run is kept in its folder. So ``${oc.env:NAME}`` gives the
project's own variables and Slurm's, and refuses every other by name: no token or password ends in a ``config.yaml``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.cli.command_line import LISTS, CommandLine
from pipeline.errors import ConfigError, Fault
from pipeline.files import write_replace_command
from pipeline.tables.bounds import bounded

_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)
_EMPTY = "holds no KEY: VALUE"


@dataclass(frozen=True)
class OptionFile:
    """An option file.

    Attributes:
        path: the file.
        group: the folder that it lies in, below the folder given; '' at the top.
    """

    path: Path
    group: str

    @property
    def name(self) -> str:
        return self.path.stem

    def find_fault(self) -> Fault | None:
        """What keeps the file from being read; None if it can be."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        content, text = b"", ""
        try:
            content = self.path.read_bytes()
            text = content.decode("utf-8-sig")
            root = yaml.compose(text, Loader=bounded(yaml.SafeLoader))
            if root is not None and not isinstance(root, yaml.MappingNode):
                kind = "a list" if isinstance(root, yaml.SequenceNode) else "a text"
                return Fault(f"holds {kind} instead of KEY: VALUE", f"{self.path}:1")
            OmegaConf.create(text)  # it also refuses a key that stands twice
        except UnicodeDecodeError as error:
            return self._name_encoding(content, error)
        except yaml.MarkedYAMLError as error:
            mark = _find_mark(error)
            return Fault(
                _explain_yaml(error, text), f"{self.path}:{mark.line + 1}" if mark is not None else str(self.path)
            )
        except yaml.YAMLError as error:
            return Fault(" ".join(str(error).split()), str(self.path))
        except OSError as error:
            return Fault(f"cannot be read: {error.strerror}", str(self.path))
        except OmegaConfBaseException as error:
            key = getattr(error, "full_key", None)  # OmegaConf's errors carry it or not
            line = self.lines().get(".".join(filter(None, [self._package(""), str(key or "")])))
            return Fault(str(error).splitlines()[0], f"{self.path}:{line}" if line else str(self.path))
        return None

    def _name_encoding(self, content: bytes, error: UnicodeDecodeError) -> Fault:
        encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        new = shlex.quote(f"{self.path}.new")
        command = write_replace_command(
            self.path, f"iconv -f {encoding} -t utf-8 {shlex.quote(str(self.path))} > {new}"
        )
        line = content[: error.start].count(b"\n") + 1
        what = f"not UTF-8: the byte 0x{content[error.start]:02x}; where it was written in {encoding}: {command}"
        return Fault(what, f"{self.path}:{line}")

    def lines(self) -> dict[str, int]:
        """Line of each key, by its name in the composed configuration; empty if the file cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
            root = yaml.compose(text, Loader=bounded(yaml.SafeLoader))
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        lines: dict[str, int] = {}
        _number_keys(root, self._package(text), lines)
        return lines

    def unlabelled(self) -> Collection[str]:
        """The keys at the top of the file, if it has a component's settings there and no label above them."""
        names = {key.removeprefix(f"{self.group}.") for key in self.lines()}
        bare = "name" in names and not any(name.startswith("name.") for name in names)
        return {name for name in names if "." not in name} if bare and self.group in LISTS else ()

    def is_chosen(self, choices: Mapping[str, Collection[str]], otherwise: bool) -> bool:
        """Whether it is among the chosen options of its group; ``otherwise`` where nothing is known of the group."""
        return self.name in choices[self.group] if self.group in choices else otherwise

    def _package(self, text: str) -> str:
        header = _PACKAGE.search(text)
        if header is None or header[1] == "_group_":
            return self.group.replace("/", ".")
        return "" if header[1] == "_global_" else header[1]


def list_files(folders: Sequence[Path]) -> list[OptionFile]:
    """The option files of some folders."""
    paths = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.yaml")) if path.is_file()]
    parents = [path.relative_to(folder).parent for folder, path in paths]
    return [
        OptionFile(path, "" if parent == Path() else parent.as_posix()) for (_, path), parent in zip(paths, parents)
    ]


def refuse_endless(folders: Sequence[Path]) -> None:
    """Refuse files that unpack without end, before anything else reads them.

    Raises:
        ConfigError: each of them, by file and line.
    """
    faults = []
    for file in list_files(folders):
        try:
            text = file.path.read_text(encoding="utf-8-sig")
            yaml.compose(text, Loader=bounded(yaml.SafeLoader))
        except (OSError, ValueError):
            continue
        except yaml.YAMLError:
            fault = file.find_fault()
            if fault is not None and _is_yaml(text):
                faults.append(fault)
    _refuse_unreadable(faults)


def _is_yaml(text: str) -> bool:
    """Whether a text is YAML, however far it unpacks: here nothing of it is unpacked."""
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        return True
    except yaml.YAMLError:
        return False
    return True


def refuse_unreadable(line: CommandLine, error: Exception) -> None:
    """Refuse files that cannot be read. For use where the configuration could not be composed: the others are no matter.

    Args:
        line: the command line. A file that neither it nor the error names is not in use.
        error: what went wrong.

    Raises:
        ConfigError: each of them, by file and line.
    """
    broken = [(file, fault) for file in list_files(line.folders) if (fault := file.find_fault()) is not None]
    words = f"{' '.join(line.words)} {error}"
    faults = [fault for file, fault in broken if re.search(rf"(?<!\w){re.escape(file.name)}(?!\w)", words)]
    if not faults and isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
        faults = [fault for _, fault in broken]
    _refuse_unreadable(faults)


def _refuse_unreadable(faults: Sequence[Fault]) -> None:
    if faults:
        raise ConfigError(
            f"{len(faults)} option file{'s' if len(faults) > 1 else ''} cannot be read",
            where=", ".join(fault.where for fault in faults[:5]),
            cause="a slip of the pen: YAML wants blanks for indentation, closed brackets, each key once, and UTF-8",
            remedy="mend the line named with each",
            faults=faults,
        )


def refuse_empty(line: CommandLine, choices: Mapping[str, Collection[str]]) -> None:
    """Refuse chosen files that choose nothing: what was asked for would be missing without a word.

    Raises:
        ConfigError: each of them.
    """
    files = [file for file in list_files(line.folders) if file.group in LISTS and file.is_chosen(choices, False)]
    empty = [file for file in files if not file.lines()]
    faults = [file.find_fault() or Fault(_EMPTY, f"{file.path}:1") for file in empty]
    if faults:
        other = any(fault.what != _EMPTY for fault in faults)
        raise ConfigError(
            f"{len(faults)} chosen option file{'s' if len(faults) > 1 else ''} without {'KEY: VALUE' if other else 'content'}",
            where=", ".join(fault.where for fault in faults),
            remedy=f"{'mend what is named below; ' if other else ''}write the label and its settings: {empty[0].name}: {{name: …}}",
            faults=faults if len(faults) > 1 or other else (),
        )


def find_key(key: str, line: CommandLine) -> str:
    """The override that sets a key of the configuration, or file and line; '' if neither is found."""
    override = next((each.word for each in line.overrides if "." in key and each.name == key), "")
    return override or _find_line(key, list_files(line.folders))


def find_misplaced(group: str, name: str, folders: Sequence[Path]) -> str:
    """The command that takes an option to its place that was not found there; '' if it is nowhere."""
    for folder in folders:
        right = folder / group / f"{name}.yaml"
        for path in sorted(folder.rglob(f"{name}.*")):
            if path.is_file() and path.suffix.lower() in (".yaml", ".yml") and path != right:
                return f"mkdir -p {shlex.quote(str(right.parent))} && mv -n {shlex.quote(str(path))} {shlex.quote(str(right))}"
    return ""


def locate_faults(error: ConfigError, line: CommandLine, choices: Mapping[str, Collection[str]]) -> ConfigError:
    """An error of the configuration whose faults say in which option file they stand, and where.

    Args:
        error: of the validation.
        line: what the command line sets itself is not looked for in files.
        choices: the chosen options of each group where they are known.
    """
    files = [file for file in list_files(line.folders) if file.is_chosen(choices, True)]
    if not files or not error.faults:
        return error
    own = tuple(override.name for override in line.overrides if "." in override.name)
    faults = list(dict.fromkeys(_locate(fault, files, own) for fault in error.faults))
    count = f"the configuration has {len(faults)} fault{'s' if len(faults) > 1 else ''}"
    return ConfigError(count, where=error.where, cause=error.cause, remedy=error.remedy, faults=faults)


def _locate(fault: Fault, files: Sequence[OptionFile], own: Sequence[str]) -> Fault:
    group, _, key = fault.where.partition(".")
    for file in files:
        if file.group == group and key.partition(".")[0] in file.unlabelled():
            text = f"settings without a label: begin the file with '{file.name}:' and indent the rest under it"
            return Fault(text, f"{file.path}:1")
    if any(f"{fault.where}.".startswith(f"{name}.") for name in own):
        return fault
    return Fault(fault.what, " in ".join(filter(None, [fault.where, _find_line(fault.where, files)])), fault.kind)


def _find_line(key: str, files: Sequence[OptionFile]) -> str:
    """File and line of a key, or of the nearest above it that a file has; '' if no file has its label."""
    parts = key.split(".")
    for depth in range(len(parts), min(len(parts), 2) - 1, -1):
        for file in files:
            line = file.lines().get(".".join(parts[:depth]))
            if line is not None:
                return f"{file.path}:{line}"
    return ""


def _number_keys(node: yaml.Node | None, prefix: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = ".".join(filter(None, [prefix, str(key.value)]))
            lines.setdefault(name, key.start_mark.line + 1)
            _number_keys(value, name, lines)


def _find_mark(error: yaml.MarkedYAMLError) -> Any:
    """Where a fault is: of a bracket that is not closed, where it opens."""
    opens = "flow" in str(error.context) and error.context_mark is not None
    return error.context_mark if opens else error.problem_mark or error.context_mark


def _explain_yaml(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = " ".join(filter(None, [error.context, error.problem]))
    mark = _find_mark(error)
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in problem:
        return "a tab: indent with blanks"
    if "duplicate key" in problem:
        return f"a key stands twice: {problem.rpartition('duplicate key')[2].strip() or line.strip()}"
    return problem


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
