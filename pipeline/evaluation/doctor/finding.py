"""What ``doctor`` found of one thing, with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import ConfigError, DataError, ModelMissing, StageFailed
from pipeline.stages.settings import Evaluation

State = Literal["ok", "warning", "fault"]
CONFIG, DATA, MODEL, SYSTEM = (one.status for one in (ConfigError, DataError, ModelMissing, StageFailed))


@dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes:
        state: ``ok``; ``warning``: a run may go well, or its user may not get what they expect; ``fault``: a run of this
            configuration would not end well.
        subject: what was looked at.
        what: in a line.
        remedy: what mends it: a command, an override or an edit.
        status: the exit status with which a run would end, of a fault; else 0.
    """

    state: State
    subject: str
    what: str
    remedy: str = ""
    status: int = 0


def ok(subject: str, what: str) -> Finding:
    """Nothing is wrong."""
    return Finding("ok", subject, what)


def warning(subject: str, what: str, remedy: str) -> Finding:
    """It may do."""
    return Finding("warning", subject, what, remedy)


def fault(subject: str, what: str, remedy: str, status: int) -> Finding:
    """It will not do."""
    return Finding("fault", subject, what, remedy, status)


Check = Callable[[Evaluation], Iterable[Finding]]
