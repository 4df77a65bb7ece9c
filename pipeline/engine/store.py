"""The artefact store: a folder an artefact, found by key; atomic or absent (pipeline/README.md).

``STORE/<stage>/<key[:2]>/<key>/`` holds the files and ``record.json``. A new artefact is written into
``<key>.tmp-<process>-<unique>`` beside its place, every file is synced, the record is written last, and one rename of the folder
makes it exist. A kill at any instant leaves either nothing or a temporary folder that nobody reads, and that the next run removes.

The record holds a digest of each file and one over itself. What is read and found to be something else is damaged: it is set aside,
and made again. What cannot be read is an error, and nothing is moved. The record is looked at when an artefact is found, its bytes when
they are first read.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.engine import claims
from pipeline.engine.task import Artefact
from pipeline.errors import StageFailed, os_error
from pipeline.files import file_digest, is_below, sync_to_disk, write_atomically
from pipeline.processes import this_process
from pipeline.seeds import digest

RECORD = "record.json"
Verify = Literal["read", "never"]

_FIELDS = {"key", "stage", "digest", "files", "parts", "notes", "made"}
_CHECK = "check"
_GONE = (FileNotFoundError, NotADirectoryError)
_UNREADABLE = (*_GONE, IsADirectoryError)
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
        except _UNREADABLE as error:
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
    files = [(artefact.place / name).stat() for name in artefact.record["files"]]
    return [(file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino) for file in files]


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
    except _UNREADABLE as error:
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
        record = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise WrongRecord(f"its record is no JSON ({error})") from error
    if not isinstance(record, dict):
        raise WrongRecord("its record is no mapping")
    check = record.pop(_CHECK, None)
    if set(record) != _FIELDS:
        raise WrongRecord("its record has other fields than were written")
    if check is not None and check != _digest_record(record):
        raise WrongRecord("its record is not what was written")
    if (record["stage"], record["key"]) != (stage, key):
        raise WrongRecord("its record is of another artefact")
    if not (
        isinstance(record["notes"], dict) and isinstance(record["parts"], dict) and isinstance(record["files"], dict)
    ):
        raise WrongRecord("its record has other fields than were written")
    listed = []
    for name, entry in record["files"].items():
        if not (
            isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("bytes"), int)
        ):
            raise WrongRecord(f"its record does not say what {name} holds")
        if not is_below(name):
            raise WrongRecord(f"its record names a file that is none of its own ({name})")
        listed.append([name, entry["sha256"]])
    # In the order in which a walk over the folders meets them.
    if record["digest"] != digest(sorted(listed, key=lambda each: each[0].split("/"))):
        raise WrongRecord("the digest in its record is not that of its files")
    return record


def _digest_record(record: Mapping[str, Any]) -> str:
    return digest("record", json.dumps(record, sort_keys=True))


_DIGEST = 64


class Store:
    """Artefacts under one root folder.

    Args:
        root: need not exist.
        verify: whether the bytes of an artefact are looked at when they are first read: ``read`` or ``never``.
    """

    def __init__(self, root: Path, verify: Verify = "read") -> None:
        self.root = root
        self.sound = IntegrityCheck(verify)

    def folder(self, stage: str, key: str) -> Path:
        return self.root / stage / key[:2] / key

    def find(self, stage: str, key: str) -> Artefact | None:
        """The artefact of a key, or None. One whose record is damaged, or whose files are missing or of another size, is set
        aside and counts as absent. Its bytes are looked at when they are read: see :attr:`Artefact.folder`.

        Raises:
            StageFailed: it cannot be told, because something cannot be read.
        """
        folder = self.folder(stage, key)
        # The folder first: another process may make it, or make it again, at any instant.
        try:
            inode = folder.stat().st_ino
        except _GONE:
            return None
        except OSError as error:
            raise os_error(error, "a stored result cannot be read", folder) from error
        try:
            record = self._record(folder, stage, key)
            for name, entry in record["files"].items():
                self._look(folder, name, entry["bytes"])
        except WrongRecord as error:
            set_aside(folder, str(error), inode)
            return None
        return Artefact(key, folder, record["digest"], record, self.sound, inode)

    def _record(self, folder: Path, stage: str, key: str) -> dict[str, Any]:
        try:
            return read_record((folder / RECORD).read_bytes(), stage, key)
        except _UNREADABLE as error:
            raise WrongRecord(f"its record cannot be read ({error.strerror})") from error
        except OSError as error:
            raise os_error(error, "a stored result cannot be read", folder) from error

    def _look(self, folder: Path, name: str, expected: int) -> None:
        try:
            size = (folder / name).stat().st_size
        except _GONE as error:
            raise WrongRecord(f"its file {name} is gone") from error
        except OSError as error:
            raise os_error(error, "a stored result cannot be read", folder) from error
        if size != expected:
            raise WrongRecord(f"its file {name} has {size} bytes instead of {expected}")

    def recall(self, choice: str) -> str | None:
        """The content digest that a selection was found to have; None if it is not known."""
        try:
            noted = self._note(choice).read_bytes()
        except OSError:
            return None
        content = noted[:_DIGEST].decode("ascii", "replace")
        return content if noted == _note(choice, content) else None

    def remember(self, choice: str, content: str) -> str:
        """Keep the content digest of a selection; gives it back. A store that cannot be written does without."""
        place = self._note(choice)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, _note(choice, content))
        except OSError as error:
            log.debug("%s is not kept: %s", place, error)
        return content

    def _note(self, choice: str) -> Path:
        return self.root / "selections" / choice[:2] / choice

    def begin(self, stage: str, key: str) -> Path:
        """A new empty folder in which the files of an artefact are written; :meth:`commit` makes it the artefact. Its name says
        which process writes there."""
        final = self.folder(stage, key)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_name(f"{key}{claims.WRITTEN}{this_process().token()}-{uuid.uuid4().hex[:8]}")
        temporary.mkdir()
        return temporary

    def commit(
        self, stage: str, key: str, temporary: Path, parts: Mapping[str, Any], notes: Mapping[str, Any]
    ) -> Artefact:
        """Make the files in ``temporary`` the artefact of ``key``; the first of two workers wins, the other's copy goes."""
        if (temporary / RECORD).exists():
            raise ValueError(f"{stage} wrote a file {RECORD}: that name is the store's own")
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(temporary.rglob("*")):
            if path.is_file():
                sync_to_disk(path)
                files[path.relative_to(temporary).as_posix()] = {
                    "sha256": file_digest(path),
                    "bytes": path.stat().st_size,
                }
        values = {
            "key": key,
            "stage": stage,
            "digest": digest([[name, entry["sha256"]] for name, entry in files.items()]),
            "files": files,
            "parts": parts,
            "notes": dict(notes),
            "made": {"utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": socket.gethostname()},
        }
        record = json.loads(json.dumps(values))
        record_path = temporary / RECORD
        record_path.write_text(sign_record(record), encoding="ascii")
        sync_to_disk(record_path)
        for folder in [*(path for path in temporary.rglob("*") if path.is_dir()), temporary]:
            sync_to_disk(folder)
        final, inode = self.folder(stage, key), temporary.stat().st_ino
        try:
            temporary.replace(final)
        except OSError:
            other = self.find(stage, key)
            if other is None:
                raise
            shutil.rmtree(temporary, ignore_errors=True)
            claims.drop_scratches(final)
            if other.digest != record["digest"]:
                log.warning("%s: another worker made this artefact with other bytes; its version is kept", final)
            return other
        sync_to_disk(final.parent)
        claims.drop_scratches(final)
        artefact = Artefact(key, final, str(record["digest"]), record, self.sound, inode)
        self.sound.made(artefact)
        return artefact

    def scratch(self, stage: str, key: str, steps: Callable[[Path], int] | None = None) -> Path:
        """A folder of this process for the checkpoints of an artefact in the making. What a process that has ended or is silent left
        of it is taken over, by ``steps`` the furthest (:func:`claims.take_scratch`); one that is at work keeps its own."""
        return claims.take_scratch(self.folder(stage, key), steps)

    def release(self, stage: str, key: str) -> None:
        """Leave the scratch folder of an artefact that was not finished to whoever comes next, on any machine."""
        claims.release_scratch(self.folder(stage, key))

    def discard(self, temporary: Path) -> None:
        """Remove an unfinished folder."""
        shutil.rmtree(temporary, ignore_errors=True)

    def sweep(self) -> claims.Sweep:
        """Remove what processes that have ended left; see :mod:`pipeline.engine.claims`."""
        return claims.sweep_leftovers(self.root)


def _note(choice: str, content: str) -> bytes:
    """What is kept of a selection: the digest of its content, and one that shows that nothing of this has changed."""
    return f"{content} {digest('selection note', choice, content)}".encode("ascii", "replace")
