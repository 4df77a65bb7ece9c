"""The one way in which a text table that somebody else wrote is read: wav.scp, trials, SPEAKERS.TXT, xvector.scp and their like.

A byte order mark, line ends of Windows, blanks at line ends and empty lines change nothing. Other encodings are refused with what
converts the file. Only regular files of a bounded size are opened. Ids are NFC, so that a name is one name wherever it was typed.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from pipeline.faults import UNSEEN, Faults, escape_unprintable
from pipeline.files import NotRegular, TooLarge, read_regular

LONGEST = 2 << 30
"""Bytes of a text table: a list of some thirty million trials. What is longer is another file, or one with holes."""

_SOME_ZEROS = 8
"""Zero bytes up to which each line that has one is a fault by itself."""

_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_NO_ID = {"Cc": "a control character", "Cf": "an invisible character", "Zl": "a line separator",
          "Zp": "a paragraph separator", "Zs": "a blank", "Cs": "half a character"}  # fmt: skip

LABEL_PAIRS = (
    *((yes, no) for yes in ("target", "tgt", "tar") for no in ("nontarget", "non-target", "non_target", "nontgt", "non")),
    *((yes, no) for yes in ("target", "tgt", "tar", "client", "genuine", "true") for no in ("impostor", "imposter", "imp")),
    *(("same", "different"), ("same", "diff"), ("true", "false"), ("positive", "negative"), ("mated", "nonmated")),
    *(("mated", "non-mated"), ("1", "0"), ("1.0", "0.0"), ("1", "-1")),
)  # fmt: skip
"""Words for targets and non-targets, in lower case; the two of one file are a pair."""


class Unreadable(Exception):
    """What is wrong with a file as a whole: ``kind`` is one of :data:`pipeline.faults.TABLES`, or ``malformed``."""

    def __init__(self, kind: str, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.kind, self.what, self.line = kind, what, line


class Line(NamedTuple):
    """A line that is not empty, without blanks at its ends, and ``file:number``."""

    text: str
    where: str


def text(path: Path, longest: int = LONGEST, undecodable: Literal["strict", "replace"] = "strict") -> str:
    """The text of a file, without a byte order mark.

    Args:
        path: a regular file.
        longest: bytes that it may have.
        undecodable: ``replace`` has U+FFFD stand for bytes that are no UTF-8, where they may lie in columns that nobody reads.

    Raises:
        Unreadable: it is no regular file, too large, or no text in UTF-8.
        OSError: it cannot be read.
    """
    try:
        data = read_regular(path, longest)
    except NotRegular as error:
        raise Unreadable("not-a-file", str(error.strerror)) from None
    except TooLarge as error:
        raise Unreadable("too-large", str(error.strerror)) from None
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            raise Unreadable("encoding", f"is {encoding}, not UTF-8: {_convert(path, encoding)}")
    zeros = data.count(b"\0")
    if zeros > _SOME_ZEROS:
        number = data.count(b"\n", 0, data.find(b"\0")) + 1
        what = f"{zeros:,} zero bytes: this is no text table, or a damaged one, or UTF-16 without a mark"
        raise Unreadable("malformed", what, number)
    try:
        content = data.decode("utf-8-sig", undecodable)
    except UnicodeDecodeError as error:
        bad = data[error.start : error.start + 1][0]
        # What Latin-1 has for control characters are quotes and dashes of Windows.
        likely = "WINDOWS-1252" if any(0x80 <= byte <= 0x9F for byte in data) else "ISO-8859-1"
        number = data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text: the byte 0x{bad:02x} in line {number}; if it is {likely}: {_convert(path, likely)}"
        raise Unreadable("encoding", what, number) from None
    if "\r" in content and "\n" not in content and "\r" in content.rstrip("\r"):
        raise Unreadable("encoding", "its lines end in carriage returns alone: save it with line feeds")
    return content


def lines(path: Path, faults: Faults, undecodable: Literal["strict", "replace"] = "strict") -> Iterator[Line]:
    """The lines of a table that are not empty; none of a file that cannot be read, which is a fault."""
    try:
        content = text(path, undecodable=undecodable)
    except Unreadable as error:
        faults.add(error.kind, error.what, f"{path}:{error.line}" if error.line else path)
        return
    except OSError as error:
        faults.add("missing-table", f"cannot be read ({error.strerror or error})", path)
        return
    for number, line in enumerate(content.split("\n"), 1):
        line = line.strip(" \t\r")
        if "\0" in line:
            faults.add("malformed", "a zero byte", f"{path}:{number}")
        elif line:
            yield Line(line, f"{path}:{number}")


def not_an_id(identifier: str) -> str:
    """What in an id nobody can see, type or print, in words; '' if there is nothing of the kind."""
    if identifier.isprintable() and " " not in identifier and not UNSEEN.search(identifier):
        return ""
    for character in identifier:
        kind = "an invisible character" if UNSEEN.match(character) else _NO_ID.get(unicodedata.category(character))
        if kind:
            code = f"U+{ord(character):04X}"
            form = escape_unprintable(character)
            return f"{kind} ({code})" if form in (character, f"\\u{ord(character):04x}") else f"{kind} ({form}, {code})"
    return ""


def find_label_pair(labels: Iterable[str]) -> tuple[str, str] | None:
    """The words for target and non-target of which some labels are; None if there is no such pair."""
    words = {label.lower() for label in labels}
    return next((pair for pair in LABEL_PAIRS if words <= set(pair)), None)


def _convert(path: Path, encoding: str) -> str:
    return f"convert it with iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))}"
