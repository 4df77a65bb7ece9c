"""Option files of one's own, in the folders given by ``--config-dir``: what is wrong with them, by file and line."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.cli.overrides import LISTS
from pipeline.errors import ConfigError, Fault
from pipeline.files import write_replace_command
from pipeline.tables.bounds import bounded

_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)


def folders(arguments: Sequence[str]) -> list[Path]:
    """The folders that a command line gives, absolute.

    Raises:
        ConfigError: one of them is no folder.
    """
    found = []
    for place, one in enumerate(arguments):
        flag, equals, value = one.partition("=")
        if flag not in ("--config-dir", "-cd"):
            continue
        if not equals:
            value = arguments[place + 1] if place + 1 < len(arguments) else ""
        folder = Path(value).expanduser().absolute()
        if not value or not folder.is_dir():
            raise ConfigError(
                "--config-dir names no folder" + (": it is a file" if value and folder.is_file() else ""),
                where=str(folder) if value else one,
                remedy="give the folder that holds the groups: --config-dir DIR, with DIR/system/NAME.yaml in it",
            )
        found.append(folder)
    return found


def absolute(arguments: Sequence[str]) -> list[str]:
    """The arguments with the folder that ``--config-dir`` names as an absolute path, without a ``~``."""
    given = [str(folder) for folder in folders(arguments)]
    made: list[str] = []
    left = list(arguments)
    while left:
        one = left.pop(0)
        flag, equals, _ = one.partition("=")
        if flag in ("--config-dir", "-cd"):
            if not equals:
                left.pop(0)
            made += ["--config-dir", given.pop(0)]
        else:
            made.append(one)
    return made


@dataclass(frozen=True)
class OptionFile:
    """A file of options.

    Attributes:
        path: the file.
        group: the folder that it lies in, below the folder given; '' at the top.
    """

    path: Path
    group: str

    @property
    def name(self) -> str:
        return self.path.stem

    def fault(self) -> Fault | None:
        """What keeps the file from being read; None if it can be."""
        from omegaconf import OmegaConf
        from omegaconf._utils import get_yaml_loader
        from omegaconf.errors import OmegaConfBaseException

        try:
            content = self.path.read_bytes()
            text = content.decode("utf-8-sig")
            # A safe loader, which also refuses a key that stands twice.
            loaded = yaml.load(text, Loader=bounded(get_yaml_loader()))
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
            new = shlex.quote(f"{self.path}.new")
            command = write_replace_command(
                self.path, f"iconv -f {encoding} -t utf-8 {shlex.quote(str(self.path))} > {new}"
            )
            return Fault(
                f"not UTF-8: the byte 0x{content[error.start]:02x}; where it was written in {encoding}: {command}",
                f"{self.path}:{line}",
            )
        except yaml.MarkedYAMLError as error:
            mark = _mark(error)
            return Fault(
                _explained(error, text), f"{self.path}:{mark.line + 1}" if mark is not None else str(self.path)
            )
        except yaml.YAMLError as error:
            return Fault(" ".join(str(error).split()), str(self.path))
        except OSError as error:
            return Fault(f"cannot be read: {error.strerror}", str(self.path))
        if loaded is not None and not isinstance(loaded, dict):
            return Fault(
                f"holds {'a list' if isinstance(loaded, list) else 'a text'} instead of KEY: VALUE", f"{self.path}:1"
            )
        try:
            OmegaConf.create(loaded or {})
        except OmegaConfBaseException as error:
            return Fault(str(error).splitlines()[0], self._line_of(loaded, error))
        return None

    def places(self) -> dict[str, int]:
        """Line of each key, by its name in the composed configuration; empty if the file cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
            root = yaml.compose(text, Loader=bounded(yaml.SafeLoader))
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        found: dict[str, int] = {}
        _walk(root, self._package(text), found)
        return found

    def top(self) -> Collection[str]:
        """The keys at the top of the file, if it has a component's settings there and no label above them."""
        prefix = f"{self.group}."
        keys = {key.removeprefix(prefix) for key in self.places() if "." not in key.removeprefix(prefix)}
        names = {key.removeprefix(prefix) for key in self.places()}
        return keys if "name" in keys and not any(one.startswith("name.") for one in names) else ()

    def _package(self, text: str) -> str:
        header = _PACKAGE.search(text)
        if header is None or header[1] == "_group_":
            return self.group.replace("/", ".")
        return "" if header[1] == "_global_" else header[1]

    def _line_of(self, loaded: Any, error: BaseException) -> str:
        key = getattr(error, "full_key", None)  # OmegaConf's errors carry it or not
        line = self.places().get(".".join(filter(None, [self._package(""), str(key or "")])))
        return f"{self.path}:{line}" if line else str(self.path)


def found(folders: Sequence[Path]) -> Iterator[OptionFile]:
    """The option files of some folders."""
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            if path.is_file():
                parent = path.relative_to(folder).parent
                yield OptionFile(path, "" if parent == Path() else parent.as_posix())


def check(given: Sequence[Path], said: str, error: Exception) -> None:
    """Refuse files that cannot be read. For use where the configuration could not be composed: the others are no matter.

    Args:
        given: folders of option files.
        said: the command line. A file that neither it nor the error names is not in use.
        error: what went wrong.

    Raises:
        ConfigError: each of them, by file and line.
    """
    broken = [(one, fault) for one in found(given) if (fault := one.fault()) is not None]
    words = f"{said} {error}"
    faults = [fault for one, fault in broken if re.search(rf"(?<!\w){re.escape(one.name)}(?!\w)", words)]
    if not faults and isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
        faults = [fault for _, fault in broken]
    if faults:
        raise ConfigError(
            f"{len(faults)} option file{'s' if len(faults) > 1 else ''} cannot be read",
            where=", ".join(fault.where for fault in faults[:5]),
            cause="a slip of the pen: YAML wants blanks for indentation, closed brackets, each key once, and UTF-8",
            remedy="mend the line named with each",
            faults=faults,
        )


def refuse_empty(arguments: Sequence[str], choices: Mapping[str, Collection[str]]) -> None:
    """Refuse chosen files that choose nothing: what was asked for would be missing without a word.

    Raises:
        ConfigError: each of them.
    """
    chosen = [one for one in found(folders(arguments)) if one.group in LISTS and _is_chosen(one, choices, False)]
    empty = Fault("holds no KEY: VALUE")
    faults = [one.fault() or Fault(empty.what, f"{one.path}:1") for one in chosen if not one.places()]
    if faults:
        other = any(fault.what != empty.what for fault in faults)
        first = next(one for one in chosen if not one.places())
        raise ConfigError(
            f"{len(faults)} chosen option file{'s' if len(faults) > 1 else ''} without {'KEY: VALUE' if other else 'content'}",
            where=", ".join(fault.where for fault in faults),
            remedy=f"{'mend what is named below; ' if other else ''}write the label and its settings: {first.name}: {{name: …}}",
            faults=faults if len(faults) > 1 or other else (),
        )


def place(key: str, arguments: Sequence[str]) -> str:
    """File and line of a key of the configuration, or the override that sets it; '' if neither is found."""
    for one in arguments:
        if "." in key and one.partition("=")[0].lstrip("+~") == key:
            return one
    return _place(key, list(found(folders(arguments))))


def place_of_hydra(key: str, arguments: Sequence[str]) -> str:
    """File and line of a key of Hydra's own node, or of a defaults list that chooses an option for it; '' if there is none."""
    files = list(found(folders(arguments)))
    exact = _place(key, files)
    if exact:
        return exact
    group = re.compile(rf"hydra/{re.escape(key.split('.')[1])}\b")
    for one in files:
        with contextlib.suppress(OSError):
            lines = one.path.read_text(encoding="utf-8", errors="replace").splitlines()
            for number, line in enumerate(lines, start=1):
                if group.search(line):
                    return f"{one.path}:{number}"
    return ""


def misplaced(group: str, name: str, folders: Sequence[Path]) -> str:
    """Where an option that was not found is, with what takes it to its place; '' if it is nowhere."""
    for folder in folders:
        right = folder / group / f"{name}.yaml"
        for path in sorted(folder.rglob(f"{name}.*")):
            if path.is_file() and path.suffix in (".yaml", ".yml", ".YAML", ".YML") and path != right:
                return f"mkdir -p {shlex.quote(str(right.parent))} && mv -n {shlex.quote(str(path))} {shlex.quote(str(right))}"
    return ""


def located(error: ConfigError, arguments: Sequence[str], choices: Mapping[str, Collection[str]]) -> ConfigError:
    """An error of the configuration whose faults say in which option file they stand, and where.

    Args:
        error: of the validation.
        arguments: of the command line. What stands there is not looked for in files.
        choices: the chosen options of each group where they are known.
    """
    given = [one.partition("=")[0].lstrip("+~") for one in arguments if "=" in one and not one.startswith("-")]
    files = [one for one in found(folders(arguments)) if _is_chosen(one, choices, True)]
    if not files or not error.faults:
        return error
    faults = []
    bare = {one: one.top() for one in files if one.group in LISTS}
    for fault in error.faults:
        group, _, key = fault.where.partition(".")
        unlabelled = next(
            (one for one, top in bare.items() if one.group == group and key.partition(".")[0] in top), None
        )
        if unlabelled is not None:
            text = f"settings without a label: begin the file with '{unlabelled.name}:' and indent the rest under it"
            faults.append(Fault(text, f"{unlabelled.path}:1"))
        elif any(fault.where == one or fault.where.startswith(f"{one}.") for one in given if "." in one):
            faults.append(fault)
        else:
            faults.append(
                Fault(fault.what, " in ".join(filter(None, [fault.where, _place(fault.where, files)])), fault.kind)
            )
    faults = list(dict.fromkeys(faults))
    count = f"the configuration has {len(faults)} fault{'s' if len(faults) > 1 else ''}"
    return ConfigError(count, where=error.where, cause=error.cause, remedy=error.remedy, faults=faults)


def _is_chosen(one: OptionFile, chosen: Mapping[str, Collection[str]], otherwise: bool) -> bool:
    return one.name in chosen[one.group] if one.group in chosen else otherwise


def _place(key: str, files: Sequence[OptionFile]) -> str:
    """File and line of a key, or of the nearest above it that a file has; '' if no file has its label."""
    parts = key.split(".")
    for depth in range(len(parts), min(len(parts), 2) - 1, -1):
        for one in files:
            line = one.places().get(".".join(parts[:depth]))
            if line is not None:
                return f"{one.path}:{line}"
    return ""


def _walk(node: yaml.Node | None, prefix: str, found: dict[str, int]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = ".".join(filter(None, [prefix, str(key.value)]))
        found.setdefault(name, key.start_mark.line + 1)
        _walk(value, name, found)


def _mark(error: yaml.MarkedYAMLError) -> Any:
    """Where a fault is: of a bracket that is not closed, where it opens."""
    opens = "flow" in str(error.context) and error.context_mark is not None
    return error.context_mark if opens else error.problem_mark or error.context_mark


def _explained(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = " ".join(filter(None, [error.context, error.problem]))
    mark = _mark(error)
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in problem:
        return "a tab: indent with blanks"
    if "duplicate key" in problem:
        return f"a key stands twice: {problem.rpartition('duplicate key')[2].strip() or line.strip()}"
    return problem
