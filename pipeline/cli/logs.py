"""The project's messages on standard error."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


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
