"""Standard output and error: no character, closed pipe or full disk costs the result of a run.

Characters that the encoding of a stream lacks are written as escapes. What cannot be written any more (the reader of a pipe has gone,
the disk is full) is left out, and said at the end; the run goes on.
Nothing heavy is imported here: this runs before anything else does.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO, cast

_OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
"""What a terminal obeys or what turns text around, but for line ends and tabs."""


def escaped(text: str) -> str:
    """A text whose control sequences are shown instead of obeyed."""
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


class Escaping(io.TextIOWrapper):
    """A stream on which no name of a host, a file or a variable reaches the terminal as a command."""

    def write(self, text: str) -> int:
        super().write(escaped(text))
        return len(text)


def align_columns(rows: Sequence[Sequence[str]], numbers: bool = False) -> list[str]:
    """Rows in columns, a line each; with ``numbers`` all but the first column are set to the right."""
    count = max(map(len, rows), default=0)
    widths = [max(len(row[place]) for row in rows if len(row) > place) for place in range(count)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) if numbers and place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths))]  # fmt: skip
        lines.append("  ".join(cells).rstrip())
    return lines


def for_rich(stream: TextIO) -> TextIO:
    """The stream for rich, which writes commands of its own: what it is given has to be escaped before."""
    return cast(TextIO, _ForRich(stream)) if isinstance(stream, Escaping) else stream


class _ForRich:
    def __init__(self, stream: Escaping) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def take_any_text() -> None:
    """Let standard output and error take every character, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


class Lasting(io.FileIO):
    """A file that takes what is written even where that gets nowhere; ``failure`` is the first error."""

    failure: OSError | None = None

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if self.failure is not None:
            return size
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BlockingIOError:
            raise
        except OSError as error:
            self.failure = error
            return size


_lasting: dict[int, Lasting] = {}


def outlast() -> None:
    """Make this process outlast its output: for the entry of a process, before anything is printed.

    A standard stream that is closed becomes the null device, so that no other file is given its number and is then
    written into by whatever prints. Streams that stop to take output do so without an exception (see :func:`lost`).
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115


def _stream(number: int, before: TextIO | None) -> io.TextIOWrapper:
    encoding = before.encoding if before is not None else "utf-8"
    raw = _lasting[number] = Lasting(number, "w", closefd=False)
    return Escaping(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=number == 2 or raw.isatty() or (isinstance(before, io.TextIOWrapper) and before.write_through),
    )


def explain_lost_output(number: int) -> str:
    """Why not all of a standard stream could be written, after it was flushed; '' if it was, or if its reader has gone."""
    failure = _lasting[number].failure if number in _lasting else None
    if failure is None or failure.errno == errno.EPIPE:
        return ""
    return failure.strerror or str(failure)


class _Plain(logging.Formatter):
    """People read messages; tracebacks are in run.log."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Standard error as it is at each message, not as it was at the first."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr


def log_to_stderr() -> None:
    """Send the project's messages to standard error, once."""
    root = logging.getLogger("pipeline")
    if not any(isinstance(handler, _Stderr) for handler in root.handlers):
        handler = _Stderr()
        handler.setFormatter(_Plain())
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        root.propagate = False
