"""Overrides as people write them, made into overrides as Hydra reads them.

Hydra's grammar knows few characters outside quotes, and a shell takes the quotes away. Where the meaning is plain, a value is put into
quotes here: a path may hold any character. Where it is not, every fault is named at once with the override as it must be written,
quoted for the shell.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.cli import VERBS
from pipeline.errors import ConfigError, Fault
from pipeline.evaluation.labels import LONGEST
from pipeline.tables.bounds import DEEPEST, depth

GROUPS = ("dataset", "train", "executor", "system", "extractor", "attacker", "backend", "metric", "recipe")
LISTS = ("system", "extractor", "attacker", "backend", "metric")
"""The groups of which a run may have several options."""

TAKE_A_VALUE = {
    "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd", "--package", "-p", "--cfg", "-c",
    "--experimental-rerun", "--info", "-i",
}  # fmt: skip
FLAGS = {
    *TAKE_A_VALUE, "--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m", "--shell-completion", "-sc",
}  # fmt: skip
"""Hydra's flags. It takes them before the overrides alone."""
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
"""What editors and web pages make of one hyphen or two."""
DEFAULTS = {"paths.root": "./exp", "paths.data": "./data", "paths.models": "null", "paths.cache": "null"}
"""What an empty one would hide: the current folder in place of these."""
_PATH_FIELD = re.compile(r"(\w+_)?(root|path|source|folder|file)|cache|data|models|train|vectors")
_PLAIN_KEY = re.compile(r"[\x21-\x7e]+")
_CLOSERS = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Override:
    """``[+|++|~]key=value`` taken apart at its first equals sign."""

    key: str
    value: str

    @property
    def name(self) -> str:
        """The key without what adds or deletes."""
        return self.key.lstrip("+~")

    @property
    def is_group(self) -> bool:
        return is_group(self.name)

    @property
    def is_path(self) -> bool:
        """Whether the value is a path, by its looks or by the name of the field."""
        if self.is_group or "," in self.name:
            return False
        if self.value.startswith(("/", "./", "../", "~/")) or self.value in ("~", ".", ".."):
            return True
        return "." in self.name and bool(_PATH_FIELD.fullmatch(self.name.rpartition(".")[2]))

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


def is_group(name: str) -> bool:
    """Whether a key chooses an option of a group."""
    group = name.partition("@")[0]
    return group.split("/")[0] in GROUPS and "." not in group


def readable(arguments: Sequence[str]) -> list[str]:
    """A command line as Hydra reads it.

    Args:
        arguments: Hydra flags and overrides, as the shell gives them.

    Returns:
        The same, flags first, with values in quotes where Hydra needs them.

    Raises:
        ConfigError: what cannot be read, all of it at once, each with the override as it must be written.
    """
    several = any(one in ("-m", "--multirun", "hydra.mode=MULTIRUN") for one in arguments)
    faults: list[Fault] = []
    flags: list[str] = []
    made = []
    for flag, words in _apart(arguments):
        if flag:
            fault = _not_a_flag(words[0])
            faults += [fault] if fault is not None else []
            # Alone, this flag would take the override behind it for its value.
            flags += ["--info=all"] if words in (["--info"], ["-i"]) else words
            continue
        deep = {word for word in words if depth(word) > DEEPEST}
        faults += [Fault(f"brackets nested more than {DEEPEST} levels deep", f"{word[:40]}…") for word in deep]
        for word in _rejoined([word for word in words if word not in deep], arguments, faults):
            made.append(_read(word, several, faults))
    if faults:
        many = len(faults) > 1
        raise ConfigError(
            f"{len(faults)} overrides of the command line cannot be read as they stand"
            if many
            else "an override of the command line cannot be read as it stands",
            where="the command line",
            remedy="write it as below, quotes included" if not many else "write them as below, quotes included",
            faults=faults,
        )
    return [*flags, *made]


def chosen(arguments: Sequence[str]) -> dict[str, list[str]]:
    """The options that a command line chooses of each group that it speaks of."""
    found: dict[str, list[str]] = {}
    for one in arguments:
        key, equals, value = one.partition("=")
        if equals and not one.startswith("-") and is_group(key):
            found[key] = [name.strip("'\" ") for name in value.strip("[] ").split(",")]
    return found


def given(key: str, arguments: Sequence[str]) -> list[Any]:
    """The values that overrides of a command line give to a key themselves, as part of a mapping too; not what files say of it."""
    values = []
    for word in arguments:
        name = Override(*word.partition("=")[::2]).name.replace("/", ".")
        if "=" not in word or not f"{key}.".startswith(f"{name}."):
            continue
        parsed = _parses(word)
        value = parsed.value() if parsed is not None and not parsed.is_sweep_override() else None
        for part in key[len(name) :].lstrip(".").split(".") if key != name else ():
            value = value.get(part) if isinstance(value, dict) else None
        values.append(str(value) if value is not None else None)
    return [value for value in values if value is not None]


def sets(key: str, arguments: Sequence[str]) -> bool:
    """Whether overrides of a command line themselves set a key, to one value or in a sweep."""
    return any(Override(*word.partition("=")[::2]).name == key for word in arguments) or bool(given(key, arguments))


def quoted(text: str) -> str:
    """A text in Hydra's quotes, so that it is taken as it stands."""
    from hydra.core.override_parser.types import Quote, QuotedString

    escaped = re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", text)
    return QuotedString(text=escaped, quote=Quote.single).with_quotes()


def _apart(arguments: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Flags with their values, and what stands between them."""
    words: list[str] = []
    left = list(arguments)
    while left:
        one = left.pop(0)
        if not one.startswith(("-", *DASHES)) or one == "-":
            words.append(one)
            continue
        if words:
            yield False, words
            words = []
        takes = one in TAKE_A_VALUE or _flag(one) in TAKE_A_VALUE
        optional = one in ("--info", "-i")
        yield True, [one, *([left.pop(0)] if takes and left and not (optional and "=" in left[0]) else [])]
    if words:
        yield False, words


def _flag(word: str) -> str:
    """The flag that a word with any kind of dash stands for, without its value; '' if there is none."""
    bare = word.partition("=")[0].lstrip(f"-{DASHES}")
    return next((one for one in (f"-{bare}", f"--{bare}") if one in FLAGS), "")


def _not_a_flag(word: str) -> Fault | None:
    """What is wrong with a word that begins with a dash; None if it is one of Hydra's flags."""
    name, equals, value = word.partition("=")
    bare = name.lstrip(f"-{DASHES}")
    flag = _flag(word)
    if any(one in DASHES for one in name):
        right = f"{flag}{equals}{value}" if flag else f"{bare}={value}" if equals else ""
        said = "it begins with a dash that an editor or a web page made of a hyphen"
        return Fault(f"{said}; write: {shlex.quote(right)}" if right else f"{said}, and names no flag", word)
    if name in FLAGS or (name.startswith("--") and len(name) > 2 and any(one.startswith(name) for one in FLAGS)):
        return None
    if equals and bare:
        right = f"{flag}={value}" if flag else f"{bare}={value}"
        return Fault(f"{'the flag' if flag else 'an override'} is written otherwise; write: {shlex.quote(right)}", word)
    if name.startswith("--"):
        return Fault("no flag of this name; see voice-privacy --help", word)
    return None


# What a shell took apart -----------------------------------------------------------------------------------------------


def _rejoined(words: list[str], arguments: Sequence[str], faults: list[Fault]) -> Iterator[str]:
    """The words that are overrides; of those that are parts of one, the fault."""
    left = list(words)
    while left:
        word = left.pop(0)
        key, equals, value = word.partition("=")
        if not equals and left and left[0].startswith("="):  # KEY = VALUE
            whole = word + left.pop(0)
            whole += left.pop(0) if whole.endswith("=") and left else ""
            value = whole.partition("=")[2]
            if value[:1] in _CLOSERS and not _is_closed(value):
                yield from _closed(whole, left, faults)
            else:
                faults.append(_split(word, "blanks around the equals sign", whole))
        elif not equals and not word.startswith("~"):
            faults.append(_stray(word, arguments))
        elif equals and key and value == "" and left and "=" not in left[0]:  # KEY= VALUE
            faults.append(_split(word, "a blank after the equals sign", word + left.pop(0)))
        elif value[:1] in _CLOSERS and not _is_closed(value) and not _is_sweep(word):
            yield from _closed(word, left, faults)
        elif _is_brace_part(value) and left and left[0].startswith(f"{key}="):  # KEY={A:B,C:D} as bash expands it
            parts = [value]
            while left and left[0].startswith(f"{key}="):
                parts.append(left.pop(0).partition("=")[2])
            inner = ", ".join(re.sub(r"^(\w+):\s*", r"\1: ", part) for part in parts)
            faults.append(_split(word, "its braces", f"{key}={{{inner}}}"))
        elif equals and _goes_on(left):
            parts = [value]
            while _goes_on(left):
                parts.append(left.pop(0))
            faults.append(_split(word, "its blanks", _with_blanks(key, parts)))
        else:
            yield word


def _goes_on(left: Sequence[str]) -> bool:
    """Whether the next word is part of the override before it: neither an override nor the key of ``KEY = VALUE``."""
    if not left or "=" in left[0] or left[0].startswith("~") or left[0] in VERBS:
        return False
    return len(left) < 2 or not left[1].startswith("=")


def _closed(word: str, left: list[str], faults: list[Fault]) -> Iterator[str]:
    """A bracket that opens in a word, with the words up to the one that closes it."""
    key, _, value = word.partition("=")
    opening = value[0]
    ours = next((place for place, part in enumerate(left) if _begins_another(part, left[place + 1 :])), len(left))
    for stop in (_balanced, _is_closed):
        whole = word
        for count, part in enumerate(left[:ours], start=1):
            whole = f"{whole} {part}"
            if _is_closed(whole.partition("=")[2]) and stop(whole.partition("=")[2]):
                del left[:count]
                faults.append(_split(word, "its blanks", whole))
                return
    if Override(key, value).is_path:
        yield word
        return
    parts = [word, *left[:ours]]
    del left[:ours]
    whole = " ".join(parts).rstrip(", ")
    if is_group(key.lstrip("+~")):
        names = [name for name in re.split(r"[\[\]{},\s]+", whole.partition("=")[2]) if name]
        whole = f"{key}=[{','.join(names)}]"
    elif opening == "[" or whole.count("{") == whole.count("}") + 1:
        whole += _CLOSERS[opening]
    else:
        faults.append(Fault("its brackets do not belong together", " ".join(parts)))
        return
    what = (
        f"the bracket {opening} is not closed"
        if not _balanced(value)
        else f"something stands behind the bracket {_CLOSERS[opening]}"
    )
    faults.append(Fault(f"{what}; write: {shlex.quote(whole)}", " ".join(parts)))


def _begins_another(word: str, following: Sequence[str]) -> bool:
    """Whether a word begins another override: it names a group, or a field by letters and dots."""
    key, equals, _ = word.partition("=")
    if not equals:
        return bool(following) and following[0].startswith("=") and is_group(key.lstrip("+~"))
    name = key.lstrip("+~")
    return is_group(name) or bool(re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+|[a-z_]+", name))


def _is_sweep(word: str) -> bool:
    parsed = _parses(word)
    return parsed is not None and bool(parsed.is_sweep_override())


def _with_blanks(key: str, parts: list[str]) -> str:
    if is_group(key.lstrip("+~")):
        names = [name for part in parts for name in part.strip("[] ").split(",") if name]
        return f"{key}=[{','.join(names)}]" if len(names) > 1 else f"{key}={names[0] if names else ''}"
    return f"{key}={' '.join(parts)}"


def _split(word: str, at: str, whole: str) -> Fault:
    return Fault(f"the shell took it apart at {at}; write: {shlex.quote(whole)}", word)


def _stray(word: str, arguments: Sequence[str]) -> Fault:
    if word in VERBS:
        command = ["voice-privacy", word, *(one for one in arguments if one != word)]
        return Fault(f"a verb comes first, before flags and overrides; write: {shlex.join(command)}", word)
    return Fault("neither a flag nor KEY=VALUE; see voice-privacy --help", word)


def _is_closed(value: str) -> bool:
    return value.rstrip().endswith(_CLOSERS[value[0]])


def _balanced(value: str) -> bool:
    return all(value.count(opening) == value.count(closing) for opening, closing in _CLOSERS.items())


def _is_brace_part(value: str) -> bool:
    return bool(re.match(r"[A-Za-z_]\w*:", value)) and "{" not in value


# One override ----------------------------------------------------------------------------------------------------------


def _read(word: str, several: bool, faults: list[Fault]) -> str:
    """An override as Hydra reads it; what is wrong with it is added to the faults."""
    key, equals, value = word.partition("=")
    one = Override(key, value)
    if not equals:
        return word
    if word[0] in "'\"" and word[-1] == word[0]:
        faults.append(Fault(f"quotes within quotes; write: {shlex.quote(word[1:-1])}", word))
        return word
    if one.name in DEFAULTS and not _bare(value).strip():
        # Refused before Hydra makes a folder for a sweep under it.
        faults.append(Fault(f"an empty path; leave it out, or write: {key}={DEFAULTS[one.name]}", word))
        return word
    long = next((part for part in one.name.split(".") if len(part) > LONGEST), "")
    if long:
        # Hydra asks the file system for a group of this name, which is an error of its own.
        whole = f"{key.replace(long, long[:LONGEST])}={value}"
        faults.append(Fault(f"a label of {len(long)} characters: at most {LONGEST} are taken; write: {shlex.quote(whole)}",
                            word.replace(long, f"{long[:20]}...")))  # fmt: skip
        return word
    if not _PLAIN_KEY.fullmatch(key) or not _parses(f"{key}=1"):
        plain = _plain_key(key)
        faults.append(
            Fault(f"keys and labels on the command line are letters a to z, digits, _ and -; write: "
                  f"{shlex.quote(f'{plain}={value}')}", word)
        )  # fmt: skip
        return word
    parsed = _parses(word)
    if parsed is None:
        return f"{key}={_in_quotes(one, several)}"
    if parsed.is_sweep_override():
        return _one_or_several(one, parsed, several, faults)
    found = parsed.value()
    bare = value[:1] not in ("'", '"', "$") and not isinstance(found, (dict, list))
    if one.is_path and found != value and bare and ("\\" in value or _exists(value)):
        return f"{key}={quoted(value)}"  # a folder with a number for a name, or a blank at its end
    if one.name in LISTS and not isinstance(found, dict):
        blanks = [str(each) for each in (found if isinstance(found, list) else [found]) if " " in str(each).strip()]
        if blanks:
            names = [name for each in (found if isinstance(found, list) else [found]) for name in str(each).split()]
            whole = f"{key}=[{','.join(names)}]"
            faults.append(Fault(f"a comma is missing; write: {shlex.quote(whole)}", word))
    return word


def _one_or_several(one: Override, parsed: Any, several: bool, faults: list[Fault]) -> str:
    """An override whose value Hydra takes for several values."""
    whole = one.is_path and (_exists(one.value) or not all(map(_exists, one.value.split(","))))
    if whole and (not several or _exists(one.value)):
        return f"{one.key}={quoted(one.value)}"
    if not several:
        each = shlex.quote(str(one))
        inner = re.sub(r"[\[\]\s]", "", one.value) if one.name in LISTS else one.value
        listed = shlex.quote(f"{one.key}=[{inner}]")
        if one.name in LISTS and "(" not in one.value:
            faults.append(
                Fault(
                    f"several values: for a run of each write -m {each}, for one run of all write: {listed}", str(one)
                )
            )
        elif one.is_group or one.is_path or "(" in one.value:
            faults.append(Fault(f"several values are a sweep, a run of each; write: -m {each}", str(one)))
        else:
            text = shlex.quote(f'{one.key}="{one.value}"')
            said = f"where the field is a list write {listed}, where it is a text {text}, for a run of each write: -m {each}"
            faults.append(Fault(f"several values: {said}", str(one)))
    return str(one)


def _in_quotes(one: Override, several: bool) -> str:
    """The value of an override that Hydra cannot read, as it can."""
    value = one.value
    if _asks(value):
        return _interpolated(value)
    if one.is_path and (_exists(value) or value[:1] not in _CLOSERS):
        if several and "," in value and not _exists(value):
            return ",".join(part if _parses(f"key={part}") else quoted(part) for part in value.split(","))
        return quoted(_bare(value))
    if value[:1] in _CLOSERS and _is_closed(value):
        made = _mapping(value) if value[0] == "{" else _list(value)
        if made is not None and _parses(f"{one.key}={made}"):
            return made
    if value.startswith("${"):
        return value
    return quoted(_bare(value))


def _asks(value: str) -> bool:
    """Whether a value asks one of OmegaConf's resolvers, as ``${oc.env:NAME}``; Hydra cannot read one within another."""
    return bool(re.search(r"(?<!\\)\$\{\s*[\w.]+\s*:", value)) and not _exists(value)


def _interpolated(value: str) -> str:
    """A text in Hydra's quotes whose ``${…}`` are asked, as they are in a file."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text=_bare(value), quote=Quote.single).with_quotes()


def _bare(value: str) -> str:
    """A text without the quotes around it."""
    inside = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if inside and not _exists(value) else value


def _mapping(value: str) -> str | None:
    """``{name: external, root: PATH}`` with quotes where they are needed: a value reaches to the next ``, WORD:``."""
    inner = value.strip()[1:-1].strip()
    if not re.match(r"[A-Za-z_]\w*\s*:", inner):
        return None
    parts = re.split(r",\s*(?=[A-Za-z_]\w*\s*:(?!//))", inner)
    made = []
    for part in parts:
        name, _, text = part.partition(":")
        made.append(f"{name.strip()}: {_element(text.strip(), _parses_element)}")
    return f"{{{', '.join(made)}}}"


def _list(value: str) -> str:
    inner = value.strip()[1:-1].strip()
    return f"[{','.join(_element(part.strip(), _parses_element) for part in inner.split(','))}]"


def _element(text: str, reads: Callable[[str], bool]) -> str:
    if reads(text) and not text.endswith("\\"):
        return text
    if text[:1] in _CLOSERS and _is_closed(text):
        made = _mapping(text) if text[0] == "{" else _list(text)
        if made is not None and reads(made):
            return made
    return _interpolated(text) if _asks(text) else quoted(_bare(text))


def _parses_element(text: str) -> bool:
    found = _parses(f"key={text}")
    return found is not None and not found.is_sweep_override()


def _parses(word: str) -> Any:
    """The override as Hydra reads it; None if it cannot."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        return None


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _plain_key(key: str) -> str:
    """A key in characters that Hydra reads: letters without their accents, others by number."""
    made = []
    for character in unicodedata.normalize("NFC", key.strip()):
        bare = "".join(one for one in unicodedata.normalize("NFKD", character) if not unicodedata.combining(one))
        if re.fullmatch(r"[A-Za-z0-9_.+~@/:-]+", bare):
            made.append(bare)
        else:
            made.append("_" if character.isascii() else f"u{ord(character):x}")
    return "".join(made)
