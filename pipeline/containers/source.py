"""The bytes of a file, by place, and the refusals that say what is wrong with them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pipeline.errors import DataError

WINDOW = 1 << 16
"""Bytes that are read at a time: headers lie close together, or far apart."""

MOST_PADDING = 1 << 16
"""So many zeros at the end of a file are what a copy in blocks leaves, and no sound."""

MOST_STRAY = 32
"""So few bytes hold no sound of note (2 ms of 16-bit sound at 8 kHz), e.g. a newline that an editor left."""

_TAGS = (b"TAG", b"ID3", b"APETAGEX", b"LYRICSBEGIN")


class Source:
    """A file that is open, and its path for messages.

    Args:
        descriptor: of a regular file; it is read by place, and stays where it is.
        path: what messages call it.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self.path = descriptor, path
        self.size = os.fstat(descriptor).st_size
        self._begin, self._window = 0, b""

    def at(self, place: int, length: int) -> bytes:
        """The bytes from a place on; fewer at the end of the file."""
        offset = place - self._begin
        if offset < 0 or offset + length > len(self._window):
            self._begin, self._window = place, os.pread(self.descriptor, max(length, WINDOW), place)
            offset = 0
        return self._window[offset : offset + length]

    def number(self, place: int, length: int, big: bool = False) -> int:
        """An unsigned integer; 0 beyond the end of the file."""
        content = self.at(place, length)
        return int.from_bytes(content, "big" if big else "little") if len(content) == length else 0

    def holds_no_sound(self, place: int) -> bool:
        """Whether what follows a place is nothing, padding, a few stray bytes, or a tag of a music player."""
        remaining = self.size - place
        if remaining <= MOST_STRAY or self.at(place, 16).startswith(_TAGS):
            return True
        return remaining <= MOST_PADDING and not any(self.at(place, remaining))

    def cut(self, present: int, counted: int, what: str) -> DataError:
        """A file that holds less than its header counts."""
        return self.bad(f"ends early: it holds {present} of {counted} {what}")

    def joined(self) -> DataError:
        """Files one behind another, of which a decoder reads the first."""
        return self.bad("holds several files one behind another, the first of which alone would be read")

    def bad(self, what: str) -> DataError:
        """A file that no program can be trusted to read whole."""
        return DataError(what, where=str(self.path))

    def odd(self, what: str, options: str = "") -> DataError:
        """As :func:`odd`, of this file."""
        return odd(self.path, what, options)


def odd(path: Path, what: str, options: str = "") -> DataError:
    """A file that other programs may read whole, with the command that makes a file of it that is read here."""
    return DataError(f"{what}; to convert it: {conversion(path, options)}", where=str(path))


def conversion(path: Path, options: str = "", effects: str = "") -> str:
    """The command that puts a FLAC file in a file's place, and keeps the old file as FILE.bak: its content decides what it is, so its
    name may stay."""
    old, new, kept = (shlex.quote(f"{path}{end}") for end in ("", ".new", ".bak"))
    parts = ["ffmpeg", options, "-i", old, effects, "-f flac", new, f"&& {{ mv -n {old} {kept}; mv {new} {old}; }}"]
    return " ".join(part for part in parts if part)
