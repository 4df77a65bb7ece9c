"""A command line, read once: flags, overrides as Hydra reads them, folders of options, and what each job of a sweep has.

Hydra's grammar knows few characters outside quotes, and a shell takes the quotes away. Where the meaning is plain, a value is put into
quotes here: a path may hold any character. Where it is not, every fault is named at once with the override as it must be written.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.cli.failures import ODD_NAME, show_bytes
from pipeline.cli.options import Parser
from pipeline.errors import ConfigError, Fault
from pipeline.names import LONGEST_LABEL
from pipeline.tables.bounds import DEEPEST, depth

GROUPS = ("dataset", "train", "executor", "system", "extractor", "attacker", "backend", "metric", "recipe")
LISTS = ("system", "extractor", "attacker", "backend", "metric")
"""The groups of which a run may have several options."""
DEFAULTS = {"paths.root": "./exp", "paths.data": "./data", "paths.models": "null", "paths.cache": "null"}
"""What an empty one would hide: the current folder in place of these."""
_PATH_FIELD = re.compile(r"(\w+_)?(root|path|source|folder|file)|cache|data|models|train|vectors")
_PLAIN_KEY = re.compile(r"[\x21-\x7e]+")
_CLOSERS = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Override:
    """``[+|++|~]key=value``.

    Attributes:
        word: as it was given.
        key: what stands before its first equals sign.
        text: as Hydra reads it.
    """

    word: str
    key: str
    text: str

    @property
    def name(self) -> str:
        """The key without what adds or deletes, with dots."""
        return self.key.lstrip("+~").replace("/", ".")

    @property
    def is_group(self) -> bool:
        """Whether it chooses options of a group."""
        group = self.key.lstrip("+~").partition("@")[0]
        return group.split("/")[0] in GROUPS and "." not in group

    @property
    def options(self) -> list[str]:
        """The names that it chooses of a group."""
        return [name.strip("'\" ") for name in self.word.partition("=")[2].strip("[] ").split(",")]

    @property
    def forced(self) -> str:
        """A plain override of a field as ``++field=value``.

        Hydra stops at the first unknown key with a hint that invites ``+key``; forced in, all unknown keys reach the validation,
        which names them together with the nearest right ones.
        """
        return self.text if self.is_group or self.key.startswith(("+", "~")) else f"++{self.text}"

    def choices(self, list_options: Callable[[str], list[str]]) -> list[str]:
        """What each job of a sweep has of it, as overrides; one element of what is no sweep.

        Args:
            list_options: gives the names of a group's options, for ``glob(…)``.

        Raises:
            ConfigError: an interval, of which there is no end of values.
        """
        from hydra.core.override_parser.types import Glob

        parsed = parse_override(self.forced)
        if parsed is None or not parsed.is_sweep_override():
            return [self.forced]
        if not parsed.is_discrete_sweep():
            raise ConfigError(
                "a sweep needs values that can be counted", where=self.word, remedy="choice(…) or range(…)"
            )
        value = parsed.value()
        values = value.filter(list_options(self.name)) if isinstance(value, Glob) else parsed.sweep_string_iterator()
        return [f"{parsed.get_key_element()}={choice}" for choice in values]


@dataclass(frozen=True)
class CommandLine:
    """Everything that follows a verb.

    Attributes:
        words: as they were given.
        overrides: in their order.
        folders: of options of one's own, absolute.
        runs: what is no override, of a verb that takes run folders.
        sweeps: whether each combination of values is a job.
        shows: whether the composed configuration is printed, and nothing done.
        resolves: whether it is printed with the values that ``${…}`` stand for.
        options: of the verb.
    """

    words: tuple[str, ...]
    overrides: tuple[Override, ...]
    folders: tuple[Path, ...] = ()
    runs: tuple[str, ...] = ()
    sweeps: bool = False
    shows: bool = False
    resolves: bool = False
    options: argparse.Namespace = field(default_factory=argparse.Namespace)

    @property
    def chosen(self) -> dict[str, list[str]]:
        """The options that are chosen of each group that is spoken of."""
        return {override.key: override.options for override in self.overrides if override.is_group}

    def values(self, key: str) -> list[str]:
        """The values that overrides give to a key themselves, as part of a mapping too; not what files say of it."""
        values = []
        for override in self.overrides:
            if not f"{key}.".startswith(f"{override.name}."):
                continue
            parsed = parse_override(override.text)
            value = parsed.value() if parsed is not None and not parsed.is_sweep_override() else None
            for part in key[len(override.name) :].lstrip(".").split(".") if key != override.name else ():
                value = value.get(part) if isinstance(value, dict) else None
            values += [] if value is None else [str(value)]
        return values

    def sets(self, key: str) -> bool:
        """Whether overrides themselves set a key, to one value or in a sweep."""
        return any(override.name == key for override in self.overrides) or bool(self.values(key))

    def jobs(self, list_options: Callable[[str], list[str]]) -> Iterator[tuple[list[str], str]]:
        """The overrides of each job, and those by which it differs from the others; the last of several sweeps varies fastest."""
        if not self.sweeps:
            yield [override.forced for override in self.overrides], ""
            return
        last = {override.key: override for override in self.overrides}
        parsed = [parse_override(override.text) for override in last.values()]
        swept = [place for place, each in enumerate(parsed) if each is not None and each.is_sweep_override()]
        for job in itertools.product(*(override.choices(list_options) for override in last.values())):
            yield list(job), " ".join(job[place].removeprefix("++") for place in swept)


def read_command_line(
    words: Sequence[str],
    verb: str = "run",
    options: Sequence[tuple[str, dict[str, Any]]] = (),
    takes_runs: bool = False,
) -> CommandLine:
    """Read what follows a verb.

    Args:
        words: as the shell gives them.
        verb: its name, for messages.
        options: its own, as ``argparse`` takes them.
        takes_runs: whether a word that is no override is a run folder.

    Raises:
        ConfigError: what cannot be read, all of it at once, each with the override as it must be written.
    """
    usage = " ".join([*(f"[{name}]" for name, _ in options), "OVERRIDES"])
    parser, flags = (Parser(prog=verb, add_help=False, allow_abbrev=False) for _ in range(2))
    parser.remedy = flags.remedy = f"voice-privacy {verb} {usage}"
    flags.add_argument("--cfg", "-c", choices=["job"])
    flags.add_argument("--resolve", action="store_true")
    flags.add_argument("--config-dir", "-cd", action="append", default=[])
    flags.add_argument("--multirun", "-m", action="store_true")
    for name, more in options:
        parser.add_argument(name, **more)
    flagged, remaining = flags.parse_known_args(list(words))
    own, remaining = parser.parse_known_args(remaining)
    runs = [
        word
        for word in remaining
        if takes_runs and not word.startswith("-") and ("=" not in word or Path(word).is_dir())
    ]
    return CommandLine(
        tuple(words),
        tuple(_read_overrides([word for word in remaining if word not in runs], flagged.multirun)),
        tuple(map(_find_folder, flagged.config_dir)),
        tuple(runs),
        flagged.multirun,
        flagged.cfg is not None,
        flagged.resolve,
        own,
    )


def _find_folder(text: str) -> Path:
    folder = Path(text).expanduser().absolute()
    if not text or not folder.is_dir():
        raise ConfigError(
            "--config-dir names no folder",
            where=str(folder) if text else "--config-dir=",
            remedy="give the folder that holds the groups: --config-dir DIR, with DIR/system/NAME.yaml in it",
        )
    return folder


def _read_overrides(words: Sequence[str], sweeps: bool) -> list[Override]:
    read = [_read_override(word, sweeps) for word in words]
    faults = [each for each in read if isinstance(each, Fault)]
    if faults:
        raise ConfigError(
            "the command line cannot be read as it stands",
            where="the command line",
            remedy="write each as below, quotes included",
            faults=faults,
        )
    return [each for each in read if isinstance(each, Override)]


def _read_override(word: str, sweeps: bool) -> Override | Fault:
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    fault = _find_fault(word, key, equals, value)
    if fault is not None:
        return fault
    plain = Override(word, key, word)
    if not equals:
        return plain
    if name in DEFAULTS and not _strip_quotes(value).strip():
        return Fault(f"an empty path; leave it out, or write: {key}={DEFAULTS[name]}", word)
    parsed = parse_override(word)
    if parsed is None:
        if plain.is_group and value[:1] in _CLOSERS and not value.rstrip().endswith(_CLOSERS[value[0]]):
            return Fault(f"the bracket {value[0]} is not closed: put quotes around the whole override", word)
        return Override(word, key, f"{key}={_quote_value(plain, value, sweeps)}")
    if parsed.is_sweep_override():
        return _read_several(plain, value, sweeps)
    read = parsed.value()
    taken = read == value or value[:1] in ("'", '"', "$") or isinstance(read, (dict, list))
    if is_path(plain, value) and not taken and ("\\" in value or _exists(value)):
        # A folder with a number for a name, or a blank at its end.
        return Override(word, key, f"{key}={quote(value)}")
    return plain


def _find_fault(word: str, key: str, equals: str, value: str) -> Fault | None:
    name = key.lstrip("+~")
    if word.startswith("-"):
        write = f"; write: {shlex.quote(word.lstrip('-'))}" if equals else "; see voice-privacy --help"
        return Fault(f"no flag of this name{write}", word)
    if depth(word) > DEEPEST:
        return Fault(f"brackets nested more than {DEEPEST} levels deep", f"{word[:40]}…")
    if not equals and not word.startswith("~"):
        return Fault(
            "neither a flag nor KEY=VALUE: a verb comes first, and an override with blanks wants quotes around it", word
        )
    if not word.isprintable() and any("\udc80" <= letter <= "\udcff" for letter in word):
        return Fault(f"the name of a file is not UTF-8: {ODD_NAME}", show_bytes(word))
    if re.match(r"hydra\b", name):
        instead = "; jobs on a cluster: executor=slurm" if re.match("hydra.(launcher|sweeper)", name) else ""
        return Fault(f"Hydra's own part is not for a configuration: leave it out{instead}", word)
    long = next((part for part in name.split(".") if len(part) > LONGEST_LABEL), "")
    if long:
        # Hydra asks the file system for a group of this name, which is an error of its own.
        write = shlex.quote(f"{key.replace(long, long[:LONGEST_LABEL])}={value}")
        shown = word.replace(long, f"{long[:20]}...")
        return Fault(f"a label of {len(long)} characters: at most {LONGEST_LABEL} are taken; write: {write}", shown)
    if equals and (not _PLAIN_KEY.fullmatch(key) or parse_override(f"{key}=1") is None):
        return Fault("keys and labels on the command line are letters a to z, digits, _ and -", word)
    return None


def _read_several(override: Override, value: str, sweeps: bool) -> Override | Fault:
    """An override whose value Hydra takes for several values."""
    path = is_path(override, value)
    if path and (_exists(value) or (not sweeps and not all(map(_exists, value.split(","))))):
        return Override(override.word, override.key, f"{override.key}={quote(value)}")
    if sweeps:
        return override
    each = shlex.quote(override.word)
    if "(" in value or path or (override.is_group and override.name not in LISTS):
        return Fault(f"several values are a sweep, a run of each; write: -m {each}", override.word)
    names = re.sub(r"[\[\]\s]", "", value) if override.name in LISTS else value
    listed = shlex.quote(f"{override.key}=[{names}]")
    if override.name in LISTS:
        return Fault(
            f"several values: for a run of each write -m {each}, for one run of all write: {listed}", override.word
        )
    text = shlex.quote(f'{override.key}="{value}"')
    return Fault(
        f"several values: where the field is a list write {listed}, where it is a text {text}, for a run of each write: -m {each}",
        override.word,
    )


# Quotes ----------------------------------------------------------------------------------------------------------------


def is_path(override: Override, value: str) -> bool:
    """Whether the value of an override is a path, by its looks or by the name of the field."""
    if override.is_group or "," in override.name:
        return False
    if value.startswith(("/", "./", "../", "~/")) or value in ("~", ".", ".."):
        return True
    return "." in override.name and bool(_PATH_FIELD.fullmatch(override.name.rpartition(".")[2]))


def quote(text: str) -> str:
    """A text in Hydra's quotes, so that it is taken as it stands."""
    return _quote_asking(re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + r"\${", text))


def _quote_asking(text: str) -> str:
    """A text in Hydra's quotes whose ``${…}`` are asked, as they are in a file."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text=text, quote=Quote.single).with_quotes()


def _quote_value(override: Override, value: str, sweeps: bool) -> str:
    """The value of an override that Hydra cannot read, as it can."""
    if _asks(value):
        return _quote_asking(_strip_quotes(value))
    if is_path(override, value) and (_exists(value) or value[:1] not in _CLOSERS):
        if sweeps and "," in value and not _exists(value):
            return ",".join(part if parse_override(f"key={part}") else quote(part) for part in value.split(","))
        return quote(_strip_quotes(value))
    if value[:1] in _CLOSERS and value.rstrip().endswith(_CLOSERS[value[0]]):
        written = _quote_parts(value)
        if written is not None and parse_override(f"{override.key}={written}"):
            return written
    return value if value.startswith("${") else quote(_strip_quotes(value))


def _quote_parts(value: str) -> str | None:
    """``{name: external, root: PATH}`` or ``[a,b]`` with quotes where they are needed: a value reaches to the next ``, WORD:``."""
    inner = value.strip()[1:-1].strip()
    if value[0] == "[":
        return f"[{','.join(_quote_part(part.strip()) for part in inner.split(','))}]"
    if not re.match(r"[A-Za-z_]\w*\s*:", inner):
        return None
    pairs = [part.partition(":") for part in re.split(r",\s*(?=[A-Za-z_]\w*\s*:(?!//))", inner)]
    return f"{{{', '.join(f'{name.strip()}: {_quote_part(text.strip())}' for name, _, text in pairs)}}}"


def _quote_part(text: str) -> str:
    if _is_element(text) and not text.endswith("\\"):
        return text
    if text[:1] in _CLOSERS and text.rstrip().endswith(_CLOSERS[text[0]]):
        written = _quote_parts(text)
        if written is not None and _is_element(written):
            return written
    return _quote_asking(_strip_quotes(text)) if _asks(text) else quote(_strip_quotes(text))


def _is_element(text: str) -> bool:
    parsed = parse_override(f"key={text}")
    return parsed is not None and not parsed.is_sweep_override()


def parse_override(text: str) -> Any:
    """An override as Hydra reads it; None if it cannot."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(text)
    except HydraException:
        return None


def _asks(value: str) -> bool:
    """Whether a value asks one of OmegaConf's resolvers, as ``${oc.env:NAME}``; Hydra cannot read one within another."""
    return bool(re.search(r"(?<!\\)\$\{\s*[\w.]+\s*:", value)) and not _exists(value)


def _strip_quotes(value: str) -> str:
    inside = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if inside and not _exists(value) else value


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
