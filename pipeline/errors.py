"""What goes wrong, said to people: one exception class an exit status.

Every error names what happened, where, the likely cause and the command or edit that mends it.
``PipelineError.status`` is the exit status of the process (conf/README.md, section 14).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One fault among several that are reported together."""

    what: str
    where: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class PipelineError(Exception):
    """An error with its explanation. ``str()`` of it is one paragraph for people."""

    status = 1

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
        super().__init__(self.paragraph())

    def paragraph(self, most: int = 50) -> str:
        """What, where, cause and remedy in one paragraph, then the faults, a line each, up to ``most`` of them."""
        parts = [self.what.rstrip(".") + "."]
        if self.where:
            parts.append(f"Where: {self.where}.")
        if self.cause:
            parts.append(f"Likely cause: {self.cause.rstrip('.')}.")
        if self.remedy:
            parts.append(f"To mend it: {self.remedy.rstrip('.')}.")
        text = " ".join(parts)
        lines = [f"  - {fault}" for fault in self.faults[:most]]
        if len(self.faults) > most:
            lines.append(f"  - and {len(self.faults) - most} more; run.log has all")
        return "\n".join([text, *lines])

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling between processes.
        return (_rebuild, (type(self), self.what, self.where, self.cause, self.remedy, self.faults))


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


FULL = {
    errno.ENOSPC: ("the disk is full", "free space, or set paths.root to a folder on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free space, or set paths.root to a folder on another disk"),
    errno.EROFS: ("the file system is read-only", "set paths.root to a folder that may be written to"),
    errno.EFBIG: (
        "a file is larger than its file system or a limit (ulimit -f) allows",
        "raise the limit, or set paths.root to a folder on another disk",
    ),
}
"""What keeps anybody from writing, by error number: what it is, and what mends it."""

_NAMED = {
    "no space left on device": errno.ENOSPC,
    "disk quota exceeded": errno.EDQUOT,
    "read-only file system": errno.EROFS,
    "file too large": errno.EFBIG,
}


def no_room(error: BaseException, where: object = "") -> StageFailed | None:
    """What is to be said of an error at whose root nothing can be written any more; None if it is another one.

    Libraries wrap the system's error, and some leave nothing of it but its words.

    Args:
        error: what was raised.
        where: what was written to, if the error itself does not say.
    """
    for one in _chain(error):
        number = one.errno if isinstance(one, OSError) else None
        if number not in FULL and not isinstance(one, PipelineError):
            number = next((code for words, code in _NAMED.items() if words in str(one).lower()), None)
        if number in FULL:
            what, remedy = FULL[number]
            return StageFailed(
                f"nothing more can be written: {what}",
                where=_place(one) or str(where),
                remedy=f"{remedy}, and run the same command again; all finished tasks are reused",
            )
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: list[BaseException] = []
    while error not in seen:
        seen.append(error)
        yield error
        following = error.__cause__ or error.__context__
        if following is None:
            return
        error = following


def _place(error: BaseException) -> str:
    name = error.filename if isinstance(error, OSError) else None
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    found = re.search(r"'(/[^']+)'", str(error))
    return str(name) if isinstance(name, str) else found[1] if found else ""
