"""Entries of a ``wav.scp``: files, places in archives, and commands that only decode a file, which are read as that file.

No command is ever run. The words of one are told apart as a POSIX shell tells them; whatever a shell would do beside that (variables,
patterns, further commands) is refused, and so is every option that is not known to leave the sound as it is. What depends on the
file (``sox -r 16000`` of a file at 16 kHz) is held against its header.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pipeline.audio.decoding import open_stream
from pipeline.errors import DataError

_ARCHIVE = re.compile(r"(.+\.ark):(\d+)(\[.*\])?")
_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.]*[:,]")
_QUIET = re.compile(r"\s2>\s*/dev/null\s*$")


@dataclass(frozen=True)
class Entry:
    """What an entry of ``wav.scp`` is.

    Attributes:
        file: the file or archive that is read; '' where the entry is refused.
        why: why it is refused, or ''.
        is_command: whether it is a command.
        is_archive: whether it is a place in an archive.
        offset: that place, in bytes.
        rate: the sampling rate in Hz that the command gives; None for that of the file.
        channels: how many channels it gives; None for those of the file.
    """

    file: str = ""
    why: str = ""
    is_command: bool = False
    is_archive: bool = False
    offset: int | None = None
    rate: int | None = None
    channels: int | None = None


class _Refused(Exception):
    """Why a command is not one that only decodes a file."""


def parse_entry(text: str) -> Entry:
    """What an entry is; it is not looked whether its file exists."""
    if text == "-":
        return Entry(why="the standard input", is_archive=True)
    if text.startswith("|") or text.endswith("|"):
        try:
            return replace(_parse_command(text), is_command=True)
        except _Refused as error:
            return Entry(why=str(error), is_command=True)
    match = _ARCHIVE.fullmatch(text)
    if not match:
        return Entry(text)
    file, offset, part = match.groups()
    return (
        Entry(why="a range of samples", is_archive=True) if part else Entry(file, is_archive=True, offset=int(offset))
    )


def describe_change(command: Entry, path: Path) -> str:
    """How a command would change its file beyond decoding it: '' if it would not, or if the file cannot be read (which others
    say)."""
    if command.rate is None and command.channels is None:
        return ""
    try:
        with open_stream(path) as sound:
            rate, channels = int(sound.samplerate), int(sound.channels)
    except DataError:
        return ""
    if command.rate not in (None, rate):
        return f"it makes {command.rate} Hz of {rate} Hz"
    if command.channels not in (None, channels):
        return f"it makes {command.channels} of {channels} channels"
    return ""


# Words ---------------------------------------------------------------------------------------------------------------

_MEANING = {
    **dict.fromkeys("|;&", "several commands, one behind another"),
    **dict.fromkeys("<>", "input or output from elsewhere"),
    **dict.fromkeys("$`", "a variable or another command in it"),
    **dict.fromkeys("*?[", "a pattern of file names"),
    **dict.fromkeys("(){}", "brackets"),
    "~": "the home of somebody",
    "#": "a comment",
    "\\": "a backslash",
}
"""What may make a command more than a program with words, unless it stands in single quotes."""

_ORDINARY = re.compile(r"[\w ./:=,@%+\t-]*")
"""Most commands: their words are parted by blanks alone. A set to train on has a hundred thousand of them."""


def split_words(text: str) -> list[str]:
    """The words of a simple command, as a POSIX shell tells them apart.

    Raises:
        _Refused: a shell would, or might, do more than that.
    """
    if _ORDINARY.fullmatch(text):
        return text.split()
    if "'" in text and '"' in text:
        raise _Refused("quotes of both kinds")
    for letter in re.sub(r"'[^']*'", "", text):
        if letter in _MEANING:
            raise _Refused(_MEANING[letter])
    try:
        return shlex.split(text)
    except ValueError:
        raise _Refused("quotes that do not close") from None


# Programs ------------------------------------------------------------------------------------------------------------


def _parse_command(text: str) -> Entry:
    if text.startswith("|"):
        raise _Refused("a command that is written to")
    arguments = split_words(_QUIET.sub("", text.rstrip("|")))
    if not arguments:
        raise _Refused("no command")
    program = PurePosixPath(arguments[0]).name
    if program not in _PROGRAMS:
        raise _Refused(f"'{program}' is none of {', '.join(_PROGRAMS)}")
    try:
        entry = _PROGRAMS[program](arguments[1:])
    except _Refused as error:
        raise _Refused(f"{program}: {error}") from None
    if entry.file in ("", "-") or entry.file.startswith("/dev/"):
        raise _Refused(f"{program}: the standard input or a device")
    return entry


def _take_options(arguments: list[str], flags: Mapping[str, str], valued: Mapping[str, str]) -> dict[str, str]:
    """The options that the words begin with, which are taken away, by their short names.

    Args:
        given: the words.
        flags: options without a value: every spelling, with the short name.
        valued: options with a value, likewise.

    Raises:
        _Refused: another option.
    """
    options: dict[str, str] = {}
    while arguments and arguments[0].startswith("-") and arguments[0] != "-":
        word = arguments.pop(0)
        is_long = word.startswith("--")
        name, equals, value = word.partition("=") if is_long else (word[:2], "", word[2:])
        if word in flags:
            options[flags[word]] = ""
        elif name in valued:
            if not value and not arguments:
                raise _Refused(f"no value of {name}")
            options[valued[name]] = value or equals or arguments.pop(0)
        elif not is_long and all(f"-{letter}" in flags for letter in word[1:]):
            options |= {flags[f"-{letter}"]: "" for letter in word[1:]}
        else:
            raise _Refused(f"the option {word}")
    return options


def _map_spellings(*options: str) -> dict[str, str]:
    """Options in all their spellings (``-c --stdout``), with the first of each."""
    return {spelling: spellings.split()[0] for spellings in options for spelling in spellings.split()}


def _single_file(files: list[str]) -> str:
    if len(files) != 1:
        raise _Refused(f"{len(files)} files" if files else "the standard input")
    return files[0]


_FLAC = _map_spellings(
    "-c --stdout", "-d --decode", "-s --silent", "--totally-silent", "-f --force", "-F --decode-through-errors"
)

_SPH2PIPE_FLAGS, _SPH2PIPE = _map_spellings("-p"), _map_spellings("-f", "-c")


def _parse_flac(arguments: list[str]) -> Entry:
    options: dict[str, str] = {}
    files: list[str] = []
    ended = arguments.index("--") if "--" in arguments else len(arguments)
    arguments, behind = arguments[:ended], arguments[ended + 1 :]
    while arguments:
        options |= _take_options(arguments, _FLAC, {})
        files += arguments[:1]
        del arguments[:1]
    if "-d" not in options:
        raise _Refused("it encodes (no -d)")
    if "-c" not in options:
        raise _Refused("it writes into a file (no -c)")
    return Entry(_single_file(files + behind))


_SOX_FLAGS = _map_spellings("-R", "-D --no-dither", "-S --show-progress", "-q --no-show-progress", "--multi-threaded",
                    "--single-threaded", *[f"-V{level}" for level in ("", *range(7))])  # fmt: skip
_SOX_BEFORE = _map_spellings("--buffer", "--input-buffer", "-t --type", "-r --rate", "-c --channels")
_SOX_BEHIND = _SOX_BEFORE | _map_spellings("-b --bits", "-e --encoding")
_SOX_CODINGS = ("signed-integer", "floating-point")

_SOX_TYPES = ("wav", "wavpcm", "flac", "mp3", "ogg", "vorbis", "opus", "sph", "nist")
"""Kinds of files whose headers say what they hold."""


def _parse_sox(arguments: list[str]) -> Entry:
    before = _take_options(arguments, _SOX_FLAGS, _SOX_BEFORE)
    if before.get("-t", "wav").lstrip(".") not in _SOX_TYPES:
        raise _Refused(f"a kind of file that may have no header (-t {before['-t']})")
    file = arguments.pop(0) if arguments else ""
    if file.startswith("|"):
        raise _Refused(_MEANING["|"])
    behind = _take_options(arguments, _SOX_FLAGS, _SOX_BEHIND)
    out = arguments.pop(0) if arguments else ""
    if out != "-":
        raise _Refused(f"it writes into a file or joins some ('{out}')" if out else "it writes nothing")
    if arguments:
        raise _Refused(f"the effect '{arguments[0]}'")
    if behind.get("-t") not in ("wav", "wavpcm", ".wav"):
        raise _Refused(f"it writes no wav file (-t {behind.get('-t', 'missing')})")
    coding = behind.get("-e", "signed-integer")
    if len(coding) < 2 or not any(name.startswith(coding) for name in _SOX_CODINGS):
        raise _Refused(f"the coding {coding}")
    if (bits := _parse_number(behind, "-b")) not in (None, 16, 24, 32, 64):
        raise _Refused(f"samples of {bits} bits")
    rate = _agree(_parse_number(before, "-r"), _parse_number(behind, "-r"), "rates")
    channels = _agree(_parse_number(before, "-c"), _parse_number(behind, "-c"), "numbers of channels")
    return Entry(file, rate=rate, channels=channels)


def _agree(first: int | None, second: int | None, what: str) -> int | None:
    if first is not None and second is not None and first != second:
        raise _Refused(f"two {what}")
    return second if first is None else first


def _parse_number(options: Mapping[str, str], option: str) -> int | None:
    """The whole number that an option gives (``16k`` is 16000); None without the option."""
    if option not in options:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(k?)", options[option])
    number = float(match[1]) * (1000 if match[2] else 1) if match else 0.5
    if number != int(number):
        raise _Refused(f"the value of {option}, '{options[option]}'")
    return int(number)


def _parse_sph2pipe(arguments: list[str]) -> Entry:
    options = _take_options(arguments, _SPH2PIPE_FLAGS, _SPH2PIPE)
    if options.get("-f") not in ("wav", "rif"):
        raise _Refused("it writes no wav file (no -f wav)")
    channel = _parse_number(options, "-c")
    if channel not in (None, 1):
        raise _Refused(f"channel {channel} alone")
    return Entry(_single_file(arguments), channels=channel)


def _parse_cat(arguments: list[str]) -> Entry:
    if arguments[:1] == ["--"]:
        return Entry(_single_file(arguments[1:]))
    _take_options(arguments, {}, {})
    return Entry(_single_file(arguments))


_FFMPEG_QUIET = ("-loglevel", "-v", "-threads")
_FFMPEG_FLAGS = ("-hide_banner", "-nostdin", "-y", "-nostats", "-vn")
_FFMPEG_OUT = {"-f": "-f", "-ar": "-ar", "-ac": "-ac", "-acodec": "-c", "-c:a": "-c", "-codec:a": "-c"}
_FFMPEG_CODINGS = ("pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le")


def _parse_ffmpeg(arguments: list[str]) -> Entry:
    files: list[str] = []
    options: dict[str, str] = {}
    while len(arguments) > 1:
        option = arguments.pop(0)
        if option == "-i":
            files.append(arguments.pop(0))
        elif option in _FFMPEG_QUIET:
            arguments.pop(0)
        elif option in _FFMPEG_OUT and files:
            options[_FFMPEG_OUT[option]] = arguments.pop(0)
        elif option not in _FFMPEG_FLAGS:
            raise _Refused(f"the option {option}")
    if arguments not in (["-"], ["pipe:"], ["pipe:1"]):
        raise _Refused("it writes into a file" if arguments else "it writes nothing")
    file = _single_file(files)
    if _PROTOCOL.match(file):
        raise _Refused(f"'{file}' may be more than a file")
    if options.get("-f") != "wav":
        raise _Refused("it writes no wav file (no -f wav)")
    coding = options.get("-c", "pcm_s16le")
    if coding not in _FFMPEG_CODINGS:
        raise _Refused(f"the coding {coding}")
    return Entry(file, rate=_parse_number(options, "-ar"), channels=_parse_number(options, "-ac"))


_PROGRAMS: dict[str, Callable[[list[str]], Entry]] = {
    "flac": _parse_flac,
    "sox": _parse_sox,
    "sph2pipe": _parse_sph2pipe,
    "ffmpeg": _parse_ffmpeg,
    "cat": _parse_cat,
}
