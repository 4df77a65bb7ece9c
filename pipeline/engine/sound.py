"""Whether an artefact holds what was put into it: its record when it is found, its bytes when they are first read."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.engine.task import Artefact
from pipeline.errors import StageFailed, os_error
from pipeline.files import file_digest, is_below
from pipeline.seeds import digest

RECORD = "record.json"
Verify = Literal["read", "never"]

_FIELDS = {"key", "stage", "digest", "files", "parts", "notes", "made"}
_CHECK = "check"
_GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# What was hashed in this process, and how its files stood then: the next run of a sweep need not hash it again.
_hashed: dict[tuple[Path, str], list[tuple[int, ...]]] = {}

log = logging.getLogger(__name__)


class Damaged(StageFailed):
    """An artefact was read and is not what was put into the store; it is set aside, so the store has it no more."""

    def __init__(self, artefact: Artefact, reason: str) -> None:
        self.artefact, self.reason = artefact, reason
        super().__init__(
            f"a stored result is damaged: {reason}",
            where=str(artefact.place),
            cause="a disk or a copy that changed bytes, or a file that was edited",
            remedy="run the same command again: it is set aside, and computed again",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.artefact, self.reason))


class WrongRecord(Exception):
    """A record that is not what was written."""


class IntegrityCheck:
    """Looks at the bytes of each artefact once, when they are first read.

    Args:
        verify: ``read``: hash them; ``never``: trust them.
    """

    def __init__(self, verify: Verify = "read") -> None:
        self.verify: Verify = verify
        self._seen: set[tuple[Path, str]] = set()

    def __call__(self, artefact: Artefact) -> None:
        """Check an artefact that is about to be read.

        Raises:
            Damaged: its bytes are not those of its record. It is set aside.
            StageFailed: they cannot be read.
        """
        seen = (artefact.place, artefact.digest)
        if self.verify == "never" or seen in self._seen:
            return
        try:
            before = _stat_files(artefact)
            reason = "" if _hashed.get(seen) == before else _find_difference(artefact)
        except _GONE as error:
            reason = f"its file {error.filename} is gone"
        except OSError as error:
            raise os_error(error, "a stored result cannot be read", artefact.place) from error
        if reason:
            set_aside(artefact.place, reason, artefact.inode)
            raise Damaged(artefact, reason)
        _hashed[seen] = before
        self._seen.add(seen)

    def made(self, artefact: Artefact) -> None:
        """An artefact was hashed as it was written, just now."""
        self._seen.add((artefact.place, artefact.digest))
        try:
            _hashed[artefact.place, artefact.digest] = _stat_files(artefact)
        except OSError:  # another process is at work on it; whoever reads it will see
            return

    def __reduce__(self) -> tuple[object, ...]:
        # Another process has read nothing yet.
        return (type(self), (self.verify,))


def _stat_files(artefact: Artefact) -> list[tuple[int, ...]]:
    found = [(artefact.place / name).stat() for name in artefact.record["files"]]
    return [(one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in found]


def _find_difference(artefact: Artefact) -> str:
    """What is wrong with the bytes of an artefact; '' if nothing is."""
    for name, entry in artefact.record["files"].items():
        if file_digest(artefact.place / name) != entry["sha256"]:
            return f"the bytes of its file {name} are not those that were written"
    return ""


def explain_loss(artefact: Artefact) -> str:
    """Why an artefact cannot be read any more: another process set it aside, or made it again. '' if it stands as it was found.

    Raises:
        OSError: it cannot be told.
    """
    try:
        if artefact.inode and artefact.place.stat().st_ino != artefact.inode:
            return "another process made it again"
        _stat_files(artefact)
    except _GONE as error:
        return f"its file {error.filename} is gone"
    return ""


def set_aside(folder: Path, reason: str, inode: int) -> None:
    """Take a damaged artefact out of the store, by another name, and say so; nothing if another process did.

    Args:
        folder: where it stands.
        reason: what is wrong with it.
        inode: of the folder that was found to be damaged; another one, made again in its place, stays.

    Raises:
        StageFailed: it cannot be renamed.
    """
    aside = folder.with_name(f"{folder.name}.damaged-{time.strftime('%Y%m%d', time.gmtime())}-{uuid.uuid4().hex[:8]}")
    try:
        if inode and folder.stat().st_ino != inode:
            return
        folder.rename(aside)
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_error(error, f"a stored result is damaged ({reason}) and cannot be set aside", folder) from error
    log.warning("artefact %s is damaged: %s; set aside as %s, and it is computed again", folder, reason, aside.name)


def sign_record(record: Mapping[str, Any]) -> str:
    """The text of ``record.json``, of plain JSON values, with a digest over all of it."""
    return json.dumps({**record, _CHECK: _digest_record(record)}, indent=1, sort_keys=True) + "\n"


def read_record(content: bytes, stage: str, key: str) -> dict[str, Any]:
    """What :func:`signed` wrote. Records of earlier versions have no digest over all of it.

    Raises:
        Wrong: it is not what was written.
    """
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise WrongRecord(f"its record is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise WrongRecord("its record is no mapping")
    check = found.pop(_CHECK, None)
    if set(found) != _FIELDS:
        raise WrongRecord("its record has other fields than were written")
    if check is not None and check != _digest_record(found):
        raise WrongRecord("its record is not what was written")
    if (found["stage"], found["key"]) != (stage, key):
        raise WrongRecord("its record is of another artefact")
    if not (isinstance(found["notes"], dict) and isinstance(found["parts"], dict) and isinstance(found["files"], dict)):
        raise WrongRecord("its record has other fields than were written")
    listed = []
    for name, entry in found["files"].items():
        if not (
            isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("bytes"), int)
        ):
            raise WrongRecord(f"its record does not say what {name} holds")
        if not is_below(name):
            raise WrongRecord(f"its record names a file that is none of its own ({name})")
        listed.append([name, entry["sha256"]])
    # In the order in which a walk over the folders meets them.
    if found["digest"] != digest(sorted(listed, key=lambda each: each[0].split("/"))):
        raise WrongRecord("the digest in its record is not that of its files")
    return found


def _digest_record(record: Mapping[str, Any]) -> str:
    return digest("record", json.dumps(record, sort_keys=True))
