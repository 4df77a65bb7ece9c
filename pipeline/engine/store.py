"""The artefact store: a folder an artefact, found by key; atomic or absent (pipeline/README.md).

``STORE/<stage>/<key[:2]>/<key>/`` holds the files and ``record.json``. A new artefact is written into
``<key>.tmp-<process>-<unique>`` beside its place, every file is synced, the record is written last, and one rename of the folder
makes it exist. A kill at any instant leaves either nothing or a temporary folder that nobody reads, and that the next run removes.

The record holds a digest of each file and one over itself. What is read and found to be something else is damaged: it is set aside,
and made again. What cannot be read is an error, and nothing is moved.
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
from typing import Any

from pipeline.engine import leftovers
from pipeline.engine.sound import RECORD, IntegrityCheck, Verify, WrongRecord, read_record, set_aside, sign_record
from pipeline.engine.task import Artefact
from pipeline.errors import os_error
from pipeline.files import file_digest, sync_to_disk, write_atomically
from pipeline.processes import this_process
from pipeline.seeds import digest

_DIGEST = 64
_GONE = (FileNotFoundError, NotADirectoryError)

log = logging.getLogger(__name__)


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
        except (*_GONE, IsADirectoryError) as error:
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
            found = self._note(choice).read_bytes()
        except OSError:
            return None
        content = found[:_DIGEST].decode("ascii", "replace")
        return content if found == _note(choice, content) else None

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
        temporary = final.with_name(f"{key}{leftovers.WRITTEN}{this_process().token()}-{uuid.uuid4().hex[:8]}")
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
        said = {
            "key": key,
            "stage": stage,
            "digest": digest([[name, entry["sha256"]] for name, entry in files.items()]),
            "files": files,
            "parts": parts,
            "notes": dict(notes),
            "made": {"utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": socket.gethostname()},
        }
        record = json.loads(json.dumps(said))
        record_path = temporary / RECORD
        record_path.write_text(sign_record(record), encoding="ascii")
        sync_to_disk(record_path)
        for folder in [*(path for path in temporary.rglob("*") if path.is_dir()), temporary]:
            sync_to_disk(folder)
        final, inode = self.folder(stage, key), temporary.stat().st_ino
        try:
            temporary.replace(final)
        except OSError:
            made = self.find(stage, key)
            if made is None:
                raise
            shutil.rmtree(temporary, ignore_errors=True)
            leftovers.drop_scratches(final)
            if made.digest != record["digest"]:
                log.warning("%s: another worker made this artefact with other bytes; its version is kept", final)
            return made
        sync_to_disk(final.parent)
        leftovers.drop_scratches(final)
        artefact = Artefact(key, final, str(record["digest"]), record, self.sound, inode)
        self.sound.made(artefact)
        return artefact

    def scratch(self, stage: str, key: str, steps: Callable[[Path], int] | None = None) -> Path:
        """A folder of this process for the checkpoints of an artefact in the making. What a process that has ended or is silent left
        of it is taken over, by ``steps`` the furthest (:func:`leftovers.scratch`); one that is at work keeps its own."""
        return leftovers.take_scratch(self.folder(stage, key), steps)

    def release(self, stage: str, key: str) -> None:
        """Leave the scratch folder of an artefact that was not finished to whoever comes next, on any machine."""
        leftovers.release_scratch(self.folder(stage, key))

    def discard(self, temporary: Path) -> None:
        """Remove an unfinished folder."""
        shutil.rmtree(temporary, ignore_errors=True)

    def sweep(self) -> leftovers.Sweep:
        """Remove what processes that have ended left; see :mod:`pipeline.engine.leftovers`."""
        return leftovers.sweep_leftovers(self.root)


def _note(choice: str, content: str) -> bytes:
    """What is kept of a selection: the digest of its content, and one that shows that nothing of this has changed."""
    return f"{content} {digest('selection note', choice, content)}".encode("ascii", "replace")
