"""What lies in a store: artefacts and whether they are whole, how much room things take, what an artefact is made of and stands under.

Nothing is changed here, but that :func:`set_aside` takes a damaged artefact out of the way, as a run that reads it does.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.engine import claims, usage
from pipeline.engine import store as storage
from pipeline.engine.store import RECORD, WrongRecord, read_record
from pipeline.errors import ConfigError, PipelineError, StageFailed, os_error
from pipeline.files import file_digest
from pipeline.names import join_few

BESIDE = ("recordings", "files", "selections")
"""Folders of a store that hold no artefacts: cut utterances, what is known of audio files, digests of what was taken of artefacts."""
WEIGHTS = "train"
"""The stage whose artefacts are trained weights."""
STAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
KEY = re.compile("[0-9a-f]{64}")
ENOUGH = 12
"""Digits of a key that people are shown: 48 bits."""
_GONE = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class StoredArtefact:
    """An artefact as it lies in a store.

    Attributes:
        record: what the store says of it; empty where that cannot be told.
        problem: why it is damaged, as far as its record and the sizes of its files say; '' if it is not.
        unread: why it could not be looked at; '' if it could.
        inode: of its folder as it was found.
    """

    stage: str
    key: str
    folder: Path
    record: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    unread: str = ""
    inode: int = 0

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        return self.record.get("files", {})  # type: ignore[no-any-return]

    @property
    def digest(self) -> str:
        return str(self.record.get("digest", ""))

    @property
    def label(self) -> str:
        return str(self.record.get("notes", {}).get("label", ""))

    @property
    def made(self) -> str:
        return self._made("utc")

    @property
    def host(self) -> str:
        return self._made("host")

    def _made(self, what: str) -> str:
        origin = self.record.get("made")
        return str(origin.get(what, "")) if isinstance(origin, dict) else ""

    @functools.cached_property
    def bytes(self) -> int:
        """Of all its files, as they lie there."""
        return measure_size(self.folder)[1]


def list_artefacts(store: Path, stage: str | None = None) -> Iterator[StoredArtefact]:
    """The artefacts of a store, or of a stage, by stage and key.

    Raises:
        StageFailed: a folder may not be listed.
    """
    for place in list_places(store, stage):
        artefact = look_up(place)
        if artefact is not None:
            yield artefact


def list_places(store: Path, stage: str | None = None) -> Iterator[Path]:
    """The folders of the artefacts of a store, or of a stage, by stage and key."""
    for name in list_stages(store) if stage is None else [stage]:
        for shelf in _list_folder(store / name):
            if re.fullmatch("[0-9a-f]{2}", shelf.name):
                yield from (path for path in _list_folder(shelf) if KEY.fullmatch(path.name))


def list_stages(store: Path) -> list[str]:
    """The stages that a store has artefacts of, by name."""
    return [path.name for path in _list_folder(store) if path.name not in BESIDE and STAGE.fullmatch(path.name) and path.is_dir()]  # fmt: skip


def look_up(folder: Path) -> StoredArtefact | None:
    """An artefact by its record and the sizes of its files; None where it is gone."""
    describe = functools.partial(StoredArtefact, folder.parent.parent.name, folder.name, folder)
    inode = 0
    try:
        inode = folder.stat().st_ino
        record = read_record(read_record_bytes(folder), folder.parent.parent.name, folder.name)
        for name, entry in record["files"].items():
            size = _read_size(folder, name)
            if size != entry["bytes"]:
                return describe(record, f"its file {name} has {size} bytes instead of {entry['bytes']}", inode=inode)
    except WrongRecord as error:
        return describe(problem=str(error), inode=inode)
    except _GONE:
        return None
    except OSError as error:
        return describe(unread=f"{error.filename or folder}: {error.strerror or error}", inode=inode)
    return describe(record, inode=inode)


def read_record_bytes(folder: Path) -> bytes:
    """The bytes of a record.

    Raises:
        Wrong: there is none, though the folder is there.
    """
    try:
        return (folder / RECORD).read_bytes()
    except (*_GONE, IsADirectoryError) as error:
        if not folder.is_dir():
            raise
        raise WrongRecord(f"its record cannot be read ({error.strerror})") from error


def _read_size(folder: Path, name: str) -> int:
    try:
        return (folder / name).stat().st_size
    except _GONE as error:
        if not folder.is_dir():
            raise
        raise WrongRecord(f"its file {name} is gone") from error


def check_bytes(artefact: StoredArtefact) -> StoredArtefact | None:
    """The artefact after all of its bytes have been hashed; None where it is gone meanwhile."""
    if artefact.problem or artefact.unread:
        return artefact
    for name, entry in artefact.files.items():
        try:
            if file_digest(artefact.folder / name) != entry["sha256"]:
                return replace(artefact, problem=f"the bytes of its file {name} are not those that were written")
        except (*_GONE, IsADirectoryError):
            return replace(artefact, problem=f"its file {name} is gone") if artefact.folder.is_dir() else None
        except OSError as error:
            return replace(artefact, unread=f"{artefact.folder / name}: {error.strerror or error}")
    return artefact


def set_aside(artefact: StoredArtefact) -> str:
    """Take a damaged artefact out of the store, so that the next run makes it again; why not, '' if it is out of the way."""
    try:
        storage.set_aside(artefact.folder, artefact.problem, artefact.inode)
    except StageFailed as error:
        return error.what
    return ""


# One artefact --------------------------------------------------------------------------------------------------------


def find_by_prefix(store: Path, text: str) -> StoredArtefact:
    """The artefact that somebody means by the first digits of its key, in upper or lower case, or by its folder.

    Raises:
        ConfigError: none has such a key, or several have.
    """
    start = text.strip().rstrip("/").rpartition("/")[2].lower()
    if not re.fullmatch("[0-9a-f]{1,64}", start):
        raise ConfigError(
            f"'{text}' is no key",
            cause="a key is written with the digits 0-9 and a-f, 64 of them; the first few are enough",
            remedy=f"{_list_command(store)} lists the keys",
        )
    folders = [place for place in _find_places(store, start) if place.name.startswith(start)]
    if len(folders) > 1:
        shown = [f"{folder.parent.parent.name} {folder.name[: max(ENOUGH, len(start) + 4)]}" for folder in folders]
        more = f", and {len(shown) - 10} more" if len(shown) > 10 else ""
        raise ConfigError(f"{len(folders)} artefacts have keys that begin with {start}: {', '.join(shown[:10])}{more}", remedy="give more digits of the key")  # fmt: skip
    artefact = look_up(folders[0]) if folders else None
    if artefact is not None:
        return artefact
    aside = [path for path in _find_places(store, start, claims.DAMAGED) if path.name.startswith(start)]
    if aside:
        key = aside[0].name[:64]
        runs = find_users(store.parent, [key])[key]
        raise ConfigError(
            f"the artefact {start} was found damaged, and is set aside",
            where=str(aside[0]),
            cause=f"used by {join_few(runs, 5)}" if runs else "no run in this root says that it used it",
            remedy=explain_recovery(store.parent, runs),
        )
    raise ConfigError(f"no artefact has a key that begins with {start}", where=str(store), remedy=f"{_list_command(store)} lists the keys")  # fmt: skip


def _list_command(store: Path) -> str:
    return f"voice-privacy store --root {shlex.quote(str(store.parent))} ls"


def _find_places(store: Path, start: str, marked: str = "") -> Iterator[Path]:
    """Folders on the shelves on which a key with such a beginning can lie; with a mark, those that have it in their names."""
    for stage in list_stages(store):
        for shelf in _list_folder(store / stage):
            if re.fullmatch("[0-9a-f]{2}", shelf.name) and shelf.name.startswith(start[:2]):
                for path in _list_folder(shelf):
                    if marked in path.name if marked else KEY.fullmatch(path.name):
                        yield path


@dataclass(frozen=True)
class Web:
    """What artefacts are made of, over a whole store.

    Attributes:
        labels: (stage, label) by key.
        sources: by key, the keys that it says it was made from, by input; digests of inputs by name where it does not say.
    """

    labels: Mapping[str, tuple[str, str]]
    sources: Mapping[str, Mapping[str, list[str]]]

    @classmethod
    def of(cls, artefacts: Iterable[StoredArtefact]) -> Web:
        labels: dict[str, tuple[str, str]] = {}
        by_digest: dict[str, list[str]] = defaultdict(list)
        sources: dict[str, dict[str, list[str]]] = {}
        for artefact in artefacts:
            if artefact.record:
                labels[artefact.key] = (artefact.stage, artefact.label)
                by_digest[artefact.digest].append(artefact.key)
                sources[artefact.key] = list_sources(artefact)
        # Only now is it known which digests are those of artefacts.
        for inputs in sources.values():
            for name, value in inputs.items():
                keys = ([source] if source in labels else by_digest.get(source, [source]) for source in value)
                inputs[name] = list(itertools.chain.from_iterable(keys))
        return cls(labels, sources)

    def standing_on(self, key: str) -> list[str]:
        """Keys of the artefacts that one was read for."""
        return [consumer for consumer, inputs in self.sources.items() if any(key in keys for keys in inputs.values())]


def list_sources(artefact: StoredArtefact) -> dict[str, list[str]]:
    """By input, the keys of the artefacts that it was made from, or the digest of the input where its record does not say."""
    recorded = artefact.record["notes"].get("sources")
    kept = recorded if isinstance(recorded, dict) else {}
    return {
        name: [str(source) for source in kept[name]] if isinstance(kept.get(name), list) else [str(value)]
        for name, value in list_inputs(artefact).items()
    }


def list_inputs(artefact: StoredArtefact) -> dict[str, str]:
    """Digests of the inputs, those of the output beside those of the task."""
    parts = artefact.record["parts"]
    output = parts.get("output")
    own = output.get("inputs") if isinstance(output, dict) else None
    shared = parts.get("inputs")
    return {**(shared if isinstance(shared, dict) else {}), **(own if isinstance(own, dict) else {})}


def find_users(root: Path, keys: Collection[str]) -> dict[str, list[str]]:
    """By key, the runs below ``paths.root`` that used an artefact, oldest first. A list that cannot be read says nothing here."""
    runs: dict[str, list[str]] = {key: [] for key in keys}
    for run in usage.list_runs(root):
        try:
            all_keys = usage.read_usage(run) or set()
        except PipelineError:
            continue
        for key in {key for _, key in all_keys} & runs.keys():
            runs[key].append(run.name)
    return runs


def explain_recovery(root: Path, runs: Sequence[str]) -> str:
    """How what is damaged is had again, where these runs used it."""
    line = usage.read_command(usage.find_run(root, max(runs))) if runs else ""
    words = "the next run that needs it makes it again"
    return f"{words}: {line}" if line else words


# Room ----------------------------------------------------------------------------------------------------------------


def measure_size(path: Path) -> tuple[int, int]:
    """How many files a file or folder is, and their bytes; links are not followed, and what is gone weighs nothing."""
    count = size = 0
    waiting = [path]
    while waiting:
        entry = waiting.pop()
        try:
            status = entry.lstat()
            if stat.S_ISDIR(status.st_mode):
                waiting += [entry / name for name in os.listdir(entry)]  # noqa: PTH208
            else:
                count, size = count + 1, size + status.st_size
        except OSError:
            continue
    return count, size


def _list_folder(folder: Path) -> list[Path]:
    """What lies in a folder, by name; nothing where it is gone, or is no folder.

    Raises:
        StageFailed: it may not be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries)
    except _GONE:
        return []
    except OSError as error:
        raise os_error(error, "the store cannot be listed", folder) from error
