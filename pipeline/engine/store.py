"""The artefact store: a folder an artefact, found by key; atomic or absent (pipeline/README.md).

``STORE/<stage>/<key[:2]>/<key>/`` holds the files and ``record.json``. A new artefact is written into
``<key>.tmp-<unique>`` beside its place, every file is synced, the record is written last, and one rename of the folder
makes it exist. A kill at any instant leaves either nothing or a temporary folder that nobody reads.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.engine.task import Artefact
from pipeline.files import file_digest, sync, write_atomically
from pipeline.seeds import digest

RECORD = "record.json"
STALE_SECONDS = 7 * 24 * 3600

log = logging.getLogger(__name__)


class Store:
    """Artefacts under one root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, stage: str, key: str) -> Path:
        return self.root / stage / key[:2] / key

    def find(self, stage: str, key: str) -> Artefact | None:
        """The artefact of a key, or None. One whose files are missing or of another size is set aside and counts as absent."""
        folder = self.folder(stage, key)
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            self._set_aside(folder, f"its record cannot be read ({error})")
            return None
        for name, entry in record["files"].items():
            try:
                size = (folder / name).stat().st_size
            except OSError:
                self._set_aside(folder, f"its file {name} is gone")
                return None
            if size != entry["bytes"]:
                self._set_aside(folder, f"its file {name} has {size} bytes instead of {entry['bytes']}")
                return None
        return Artefact(key=key, folder=folder, digest=record["digest"], record=record)

    def recall(self, choice: str) -> str | None:
        """The content digest that a selection was found to have; None if it is not known."""
        try:
            found = self._note(choice).read_text(encoding="ascii")
        except OSError:
            return None
        return found if len(found) == 64 else None

    def remember(self, choice: str, content: str) -> str:
        """Keep the content digest of a selection; gives it back. A store that cannot be written does without."""
        place = self._note(choice)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, content)
        except OSError as error:
            log.debug("%s is not kept: %s", place, error)
        return content

    def _note(self, choice: str) -> Path:
        return self.root / "selections" / choice[:2] / choice

    def _set_aside(self, folder: Path, reason: str) -> None:
        aside = folder.with_name(f"{folder.name}.damaged-{uuid.uuid4().hex[:8]}")
        try:
            folder.rename(aside)
        except OSError:
            return
        log.warning("artefact %s is damaged: %s; set aside as %s, and it is computed again", folder, reason, aside.name)

    def begin(self, stage: str, key: str) -> Path:
        """A new empty folder in which the files of an artefact are written; :meth:`commit` makes it the artefact."""
        final = self.folder(stage, key)
        final.parent.mkdir(parents=True, exist_ok=True)
        self._sweep(final.parent)
        temporary = final.with_name(f"{key}.tmp-{uuid.uuid4().hex}")
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
                sync(path)
                files[path.relative_to(temporary).as_posix()] = {
                    "sha256": file_digest(path),
                    "bytes": path.stat().st_size,
                }
        record = {
            "key": key,
            "stage": stage,
            "digest": digest([[name, entry["sha256"]] for name, entry in files.items()]),
            "files": files,
            "parts": parts,
            "notes": dict(notes),
            "made": {"utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": socket.gethostname()},
        }
        record_path = temporary / RECORD
        record_path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        sync(record_path)
        for folder in [*(path for path in temporary.rglob("*") if path.is_dir()), temporary]:
            sync(folder)
        final = self.folder(stage, key)
        try:
            temporary.replace(final)
        except OSError:
            made = self.find(stage, key)
            if made is None:
                raise
            shutil.rmtree(temporary, ignore_errors=True)
            if made.digest != record["digest"]:
                log.warning("%s: another worker made this artefact with other bytes; its version is kept", final)
            return made
        sync(final.parent)
        shutil.rmtree(final.with_name(f"{final.name}.scratch"), ignore_errors=True)
        return Artefact(key=key, folder=final, digest=str(record["digest"]), record=record)

    def scratch(self, stage: str, key: str) -> Path:
        """A folder for the checkpoints of an artefact in the making; the next worker finds what a killed one left."""
        folder = self.folder(stage, key)
        kept = folder.with_name(f"{folder.name}.scratch")
        kept.mkdir(parents=True, exist_ok=True)
        return kept

    def discard(self, temporary: Path) -> None:
        """Remove an unfinished folder."""
        shutil.rmtree(temporary, ignore_errors=True)

    def _sweep(self, folder: Path) -> None:
        # What a kill left behind is no artefact; a week is longer than any shard takes, so no living worker loses its own.
        for left in [*folder.glob("*.tmp-*"), *folder.glob("*.scratch")]:
            try:
                if time.time() - left.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
            except OSError:
                continue
