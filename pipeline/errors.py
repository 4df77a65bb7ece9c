"""What goes wrong, said to people: one exception class an exit status.

Every error names what happened, where, the likely cause and the command or edit that mends it.
``PipelineError.status`` is the exit status of the process (conf/README.md, section 14).
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One fault among several that are reported together."""

    what: str
    where: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@dataclass(frozen=True)
class FailedTask(Fault):
    """One of several tasks that failed: a row of the table of failures.

    Attributes:
        stage: of the task.
        label: its name for people.
        status: the exit status of a run in which it alone fails.
        stood: how many tasks were not run because they stand on it.
        log_file: with the messages of whoever performed it; '' where that is the log of the run.
    """

    stage: str = ""
    label: str = ""
    status: int = 5
    stood: int = 0
    log_file: str = ""


_SAID = 120
"""Characters of what happened that stand in the table; the log has all of them."""


class PipelineError(Exception):
    """An error with its explanation. ``str()`` of it is one paragraph for people."""

    status = 1
    MOST = 50
    """Causes that are said to people, a line each."""

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        cause: str = "",
        remedy: str = "",
        faults: Sequence[Fault] = (),
    ) -> None:
        self.what, self.where, self.cause, self.remedy = what, where, cause, remedy
        self.faults = tuple(faults)
        self.listed_in = ""
        """The file that has all faults, where there are too many to be said."""
        self.failed: Mapping[Any, PipelineError] = {}
        """Of an error that ends several tasks: each that failed or was not run, with its own (pipeline.engine.failures)."""
        super().__init__(what)

    def __str__(self) -> str:
        return self.paragraph()

    @property
    def is_folded(self) -> bool:
        """Whether what is said to people names fewer faults than there are."""
        plain = [fault for fault in self.faults if not isinstance(fault, FailedTask)]
        return len(self.faults) > self.MOST or any(len(alike) > EXAMPLES for alike in _group_by_cause(plain))

    def paragraph(self, every: bool = False) -> str:
        """What, where, cause and remedy in one paragraph, then the faults: a line for a cause that has more than five, with five examples
        and how many more there are; or a line for every fault."""
        parts = [f"{self.what.rstrip('.')}."]
        parts += [f"Where: {self.where}."] if self.where else []
        parts += [f"Likely cause: {self.cause.rstrip('.')}."] if self.cause else []
        # No full stop: a remedy often ends in a command, which is copied with what stands behind it.
        parts += [f"To mend it: {self.remedy}"] if self.remedy else []
        rows = [fault for fault in self.faults if isinstance(fault, FailedTask)]
        plain = [fault for fault in self.faults if not isinstance(fault, FailedTask)]
        # What else is said of the first failure stands before the table, what followed from all of them behind it.
        before = self.faults.index(rows[0]) if rows else len(plain)
        lines = [f"  - {line}" for line in (plain[:before] if every else _fold_faults(plain[:before], self.MOST))]
        lines += [f"  {line}" for line in _write_table(rows, len(rows) if every else self.MOST, self.listed_in)]
        lines += [f"  - {line}" for line in plain[before:]]
        if self.is_folded and not every:
            lines.append(
                f"  all {len(self.faults)} of them: {self.listed_in}"
                if self.listed_in
                else f"  {len(self.faults)} of them in all"
            )
        return "\n".join([" ".join(parts), *lines])

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling between processes.
        return (_rebuild, (type(self), self.what, self.where, self.cause, self.remedy, self.faults))


EXAMPLES = 5
"""Faults of one cause that are named."""


def _group_by_cause(faults: Iterable[Fault]) -> list[list[Fault]]:
    """The faults that say the same of other things of one system: but for the names in quotes and the numbers, their words are equal."""
    causes: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in faults:
        what = fault.what.partition("; did you mean")[0]
        for name in _QUOTED.findall(what):
            what = what.replace(name, "\0")
        system = fault.where.partition(": /")[0] if ": /" in fault.where else ""
        causes.setdefault((fault.kind, re.sub(r"\d+", "\1", what), system), []).append(fault)
    return list(causes.values())


_QUOTED = re.compile(r"(?<!\w)'([^']+)'")


def _write_lines(alike: Sequence[Fault]) -> list[str]:
    """The faults of one cause: each, for it may hold a command; more than five in a line, with what tells four of them from the first."""
    if len(alike) <= EXAMPLES:
        return [str(fault) for fault in alike]
    names = [[*_QUOTED.findall(fault.what), fault.where] for fault in alike[:EXAMPLES]]
    place = next((place for place, column in enumerate(zip(*names)) if len(set(column)) > 1), -1)
    others = ", ".join(f"'{row[place]}'" for row in names[1:])
    return [f"{alike[0]} (and {len(alike) - 1} like it: {others} and {len(alike) - EXAMPLES} more)"]


def _fold_faults(faults: Sequence[Fault], most: int) -> list[str]:
    """A line for each cause, for so many of them."""
    causes = _group_by_cause(faults)
    rest = sum(map(len, causes[most:]))
    lines = [line for alike in causes[:most] for line in _write_lines(alike)]
    return lines + ([f"and {rest} more"] if rest else [])


def _write_table(rows: Sequence[FailedTask], most: int, log_file: str) -> list[str]:
    if not rows:
        return []
    logs = list(dict.fromkeys(row.log_file or log_file for row in rows))
    table: list[tuple[str, ...]] = [("stage", "task", "stood on it", "what happened", "log")]
    for row in rows[:most]:
        what = f"{row.what} ({row.where})" if row.where not in ("", row.label) else row.what
        text = " ".join(what.removeprefix(row.label).split())
        text = text if len(text) <= _SAID else f"{text[:_SAID]} ..."
        table.append((row.stage, row.label, str(row.stood), text, row.log_file or log_file))
    if len(logs) == 1:
        table = [row[:-1] for row in table]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = [f"{len(rows)} tasks failed" + (f" (all of it in {logs[0]}):" if len(logs) == 1 and logs[0] else ":")]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    return lines + ([f"and {len(rows) - most} more"] if len(rows) > most else [])


def _rebuild(
    cls: type[PipelineError], what: str, where: str, cause: str, remedy: str, faults: Iterable[Fault]
) -> PipelineError:
    return cls(what, where=where, cause=cause, remedy=remedy, faults=tuple(faults))


class ConfigError(PipelineError):
    """A fault of usage or configuration."""

    status = 2


class DataError(PipelineError):
    """A fault of the data; all faults of a data set are reported at once."""

    status = 3


class ModelMissing(PipelineError):
    """Weights that a run needs are not on this machine; a run never downloads."""

    status = 4


class StageFailed(PipelineError):
    """A stage failed on sound input."""

    status = 5


class PartialResult(PipelineError):
    """The run ended, but some expected utterances, speakers or trials are not in the result."""

    status = 6


AGAIN = "then run the same command again; all finished tasks are reused"


def os_error(error: OSError, what: str, where: str | Path) -> StageFailed:
    """An error of the system, with its cause and what mends it by its number.

    Args:
        error: as it was raised.
        what: could not be done.
        where: the file or folder, unless the error names one.
    """
    place = str(error.filename or where)
    cause, remedy = explain_errno(error.errno, place)
    return StageFailed(f"{what}: {error.strerror or error}", where=place, cause=cause, remedy=f"{remedy}, {AGAIN}")


_ELSEWHERE = "or set paths.root to a folder on another disk"
_EXPLAINED: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", f"free space on it (`df -h` lists disks), {_ELSEWHERE}"),
    errno.EDQUOT: ("the quota of this user is used up", f"free space (`quota -s`), {_ELSEWHERE}"),
    errno.EFBIG: (
        "a file is larger than its file system or a limit (`ulimit -f`) allows",
        f"raise the limit, {_ELSEWHERE}",
    ),
    errno.EROFS: ("the file system is mounted for reading alone", "set paths.root to a folder that can be written"),
    errno.EMFILE: (
        "this process may have no more files open",
        "raise the limit (`ulimit -n $(ulimit -Hn)`), or set runtime.threads=1",
    ),
    errno.ENFILE: ("this machine can have no more files open", "end other programs, or ask its administrator"),
    errno.ENAMETOOLONG: (
        "an id or the path of a folder is longer than the file system takes",
        "shorten the ids, or set paths.root to a folder with a shorter path",
    ),
    errno.ENOENT: ("it was moved or removed while it was needed", "restore it"),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO),
        (
            "the disk or the file server does not answer",
            "see whether it is well; what cannot be read any more may be removed, and is then computed again",
        ),
    ),
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR),
        ("a file stands where a folder should be", "move it away, or set paths.root to another folder"),
    ),
}
"""Likely cause and remedy by the number of the system's error."""


def explain_errno(number: int | None, place: str, setting: str = "paths.root") -> tuple[str, str]:
    """The likely cause of an error of the system, by its number, and what mends it; ``setting`` names the folder it lies in."""
    if number in (errno.EACCES, errno.EPERM):
        quoted = shlex.quote(place)
        return (
            "this user may not read or write there",
            f"give yourself the permission (`chmod -R u+rwX {quoted}`; if it is somebody else's, they can "
            f"`chmod -R a+rX {quoted}`), or set {setting} to a folder that is yours",
        )
    return _EXPLAINED.get(number or 0, ("", "mend the cause"))


def explain_system_error(error: BaseException, where: object = "") -> StageFailed | None:
    """What is to be said of an error of the system that nobody has explained; None if it is no such error. ``where`` is what was
    worked on, if the error itself does not say."""
    full = explain_full_disk(error, where)
    if (
        full is not None or not isinstance(error, OSError) or error.errno is None
    ):  # without a number it is a library's own
        return full
    place = _find_place(error) or str(where)
    cause, remedy = explain_errno(error.errno, place) if place else ("", "mend the cause")
    return StageFailed(
        f"the system refused something that is needed: {error.strerror or error}",
        where=place,
        cause=cause,
        remedy=f"{remedy}, {AGAIN}",
    )


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""What keeps anybody from writing."""

_NAMED = {
    "no space left on device": errno.ENOSPC,
    "disk quota exceeded": errno.EDQUOT,
    "read-only file system": errno.EROFS,
    "file too large": errno.EFBIG,
}


def explain_full_disk(error: BaseException, where: object = "") -> StageFailed | None:
    """The same of an error at whose root nothing can be written any more: libraries wrap the system's error, and some leave nothing
    of it but its words."""
    for link in _list_chain(error):
        number = link.errno if isinstance(link, OSError) else None
        if number not in FULL and not isinstance(link, PipelineError):
            number = next((code for words, code in _NAMED.items() if words in str(link).lower()), None)
        if number in FULL:
            place = _find_place(link) or str(where)
            cause, remedy = explain_errno(number, place)
            return StageFailed(f"nothing more can be written: {cause}", where=place, remedy=f"{remedy}, {AGAIN}")
    return None


def _list_chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _find_place(error: BaseException) -> str:
    name = error.filename if isinstance(error, OSError) else None
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    match = re.search(r"'(/[^']+)'", str(error))
    return str(name) if isinstance(name, str) else match[1] if match else ""
