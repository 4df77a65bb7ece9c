"""Bundles: a run and the artefacts that it used in one file, to carry results and weights between clusters.

A bundle is a tar archive (gzip where its name ends in ``gz``) that ``tar tf`` lists. First comes ``manifest.json`` with the size and
sha256 of every file, then the files by name: ``runs/RUN/…`` and ``store/STAGE/XX/KEY/…``. The same content gives the same bytes: no
times, no owners, no links, no folders.

Who reads one takes nothing on trust (:func:`take`). The checksums show that nothing has changed on the way, and the keys that a record
belongs to its artefact; they do not show who made the numbers.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import stat
import struct
import tarfile
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, cast

from pipeline.engine import inventory, used
from pipeline.engine.inventory import KEY, STAGE
from pipeline.engine.sound import RECORD, Wrong, read_record
from pipeline.engine.store import Store
from pipeline.errors import FULL, ConfigError, DataError, StageFailed, os_error
from pipeline.faults import shown
from pipeline.files import file_digest, open_regular, sync, write_atomically
from pipeline.processes import from_token, is_dead, mine
from pipeline.seeds import digest
from pipeline.tables import bounds, signed, status

MANIFEST, LAYOUT = "manifest.json", 1
What = Literal["everything", "weights", "results"]
MOST_SAID = 256 << 20
"""Bytes that a manifest or a record may have: they are read whole."""
BLOCK = 1 << 20
_STAGED = ".import-"
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.#@+-]{0,199}")
_SHA = re.compile("[0-9a-f]{64}")

Tell = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class Refused(DataError):
    """A bundle that is not what an export makes."""

    def __init__(self, what: str, where: Path | str) -> None:
        super().__init__(
            f"the bundle is refused: {shown(what)}; nothing of it was taken",
            where=str(where),
            cause="a copy that is incomplete or was changed, or a file that no `store export` made",
            remedy="compare `sha256sum FILE` on both machines and copy it again, or make it again where the run is: "
            "voice-privacy store export RUN -o FILE",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_refused, (self.what, self.where))


def _refused(what: str, where: str) -> DataError:
    return DataError(what, where=where)


# Export --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A file of a bundle; the digest of an artefact's file is that of its record."""

    name: str
    path: Path
    size: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """What goes into a bundle.

    Attributes:
        entries: by name.
        left_out: what lies in the run folder and no bundle takes, with the reason.
        unfinished: why not all of the run is in it; '' if the run ended well.
        artefacts: how many.
    """

    run: str
    what: What
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()
    artefacts: int = 0
    unfinished: str = ""

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.entries)

    def manifest(self) -> str:
        files = {one.name: {"bytes": one.size, "sha256": one.sha256} for one in self.entries}
        return signed.text({"bundle": LAYOUT, "run": self.run, "what": self.what, "files": files})


def contents(run: Path, store: Path, what: What) -> Contents:
    """What a bundle of a run holds.

    Raises:
        ConfigError: the run goes on, does not say what it used, or has none of what is asked for.
        StageFailed: an artefact is gone, damaged or cannot be read.
    """
    name = run.resolve().name
    if not _RUN.fullmatch(name):
        raise ConfigError(f"'{shown(name)}' is no name of a run folder", where=shown(str(run)), remedy="give the folder the name that the run gave it (run_id in its status.json)")  # fmt: skip
    if used.goes_on(run):
        raise ConfigError(
            f"run {name} may still go on",
            where=str(run),
            cause=status.quiet(run),
            remedy=f"export it when it has ended; if it has died, {used.again(run)}",
        )
    entries, left_out = ([], []) if what == "weights" else _of_run(run, name)
    keys = _keys(run, name, what)
    missing = []
    for stage, key in keys:
        found = inventory.look(store / stage / key[:2] / key)
        if found is None:
            missing.append(f"{stage} {key[: inventory.ENOUGH]}")
        else:
            entries += _of_artefact(found)
    if missing:
        raise StageFailed(
            f"{len(missing)} of {len(keys)} artefacts that run {name} used are not in the store (the first: {missing[0]})",
            where=str(store),
            cause="they were removed (`store gc`), or the store is another one: --root DIR says which",
            remedy=f"{used.again(run)}; or export the run folder alone with --results",
        )
    ordered = tuple(sorted(entries, key=lambda one: one.name))
    return Contents(name, what, ordered, tuple(left_out), len(keys), unfinished(run))


def unfinished(run: Path) -> str:
    """Why a run is not whole, in words; '' if it ended well, or does not say."""
    record = status.read(run)
    return "" if record.get("state") in (None, "done", status.GARBLED) else status.in_words(record)


def _keys(run: Path, name: str, what: What) -> list[used.Key]:
    if what == "results":
        return []
    keys = used.read(run)
    if keys is None:
        raise ConfigError(
            f"what run {name} used cannot be told",
            where=str(run),
            cause="it was made by an earlier version, or ended before it used anything",
            remedy=f"{used.again(run)}; or export the run folder alone with --results",
        )
    if what == "weights":
        keys = {key for key in keys if key[0] == inventory.WEIGHTS}
        if not keys:
            raise ConfigError(
                f"run {name} trained nothing",
                where=str(run),
                remedy="leave --weights out",
            )
    return sorted(keys)


def _of_run(run: Path, name: str) -> tuple[list[Entry], list[str]]:
    entries, left_out = [], []
    try:
        for folder, subfolders, files in os.walk(run, onerror=_raise):
            for one in sorted([*subfolders, *files]):
                path = Path(folder, one)
                said, found = path.relative_to(run).as_posix(), path.lstat()
                if stat.S_ISDIR(found.st_mode):
                    continue
                wrong = _wrong_name(said) or ("" if stat.S_ISREG(found.st_mode) else "it is a link or no file")
                if wrong:
                    left_out.append(f"{shown(said)}: {wrong}")
                else:
                    entries.append(Entry(f"runs/{name}/{said}", path, found.st_size, file_digest(path)))
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", run) from error
    return entries, left_out


def _raise(error: OSError) -> None:
    raise error


def _of_artefact(found: inventory.Found) -> list[Entry]:
    if found.problem or found.unread:
        raise _unsound(found.stage, found.folder, found.problem or found.unread)
    place = f"store/{found.stage}/{found.key[:2]}/{found.key}"
    record = found.folder / RECORD
    try:
        kept = Entry(f"{place}/{RECORD}", record, record.stat().st_size, file_digest(record))
    except OSError as error:
        raise os_error(error, "a stored result cannot be read", record) from error
    files = [
        Entry(f"{place}/{name}", found.folder / name, entry["bytes"], entry["sha256"])
        for name, entry in found.files.items()
    ]
    return [kept, *files]


def _unsound(stage: str, folder: Path, problem: str) -> StageFailed:
    return StageFailed(
        f"a stored result that the run used ({stage}) cannot be exported: {problem}",
        where=str(folder),
        cause="a disk or a copy that changed bytes, or a file that was edited",
        remedy=f"set what is damaged aside (`voice-privacy store --root {shlex.quote(str(folder.parents[3]))} verify`), run "
        "the evaluation again, and export the new run",
    )


def write(chosen: Contents, path: Path, tell: Tell) -> None:
    """Write a bundle: all of it or nothing.

    Raises:
        ConfigError: the file is there already, or its folder is not.
        StageFailed: something cannot be read or written, or is not what it was.
    """
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} is there already", remedy="give another name with -o, or remove it first")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", where=str(path), remedy="make it, or give another name with -o")  # fmt: skip
    room = shutil.disk_usage(path.parent).free
    if chosen.bytes > room and not path.name.endswith("gz"):
        raise StageFailed(
            f"the bundle needs {chosen.bytes:,} bytes, and {room:,} are free",
            where=str(path.parent),
            remedy="give a file on another disk with -o, or export less with --weights or --results",
        )
    try:
        write_atomically(path, lambda temporary: _fill(temporary, chosen, tell, path.name.endswith("gz")))
    except OSError as error:
        if error.errno in FULL:
            raise StageFailed(
                f"the bundle cannot be written: {error.strerror}",
                where=str(path),
                cause="the disk is full, over quota or read-only; nothing is left of the bundle",
                remedy="free space on it, or give a file on another disk with -o",
            ) from error
        raise os_error(error, "the bundle cannot be written", path) from error


def _fill(temporary: Path, chosen: Contents, tell: Tell, zipped: bool) -> None:
    with temporary.open("xb") as stream:
        out = gzip.GzipFile("", "wb", 6, stream, mtime=0) if zipped else stream
        with tarfile.open(fileobj=cast("BinaryIO", out), mode="w", format=tarfile.PAX_FORMAT) as tar:
            manifest = chosen.manifest().encode()
            tar.addfile(_header(MANIFEST, len(manifest)), io.BytesIO(manifest))
            done = 0
            for entry in chosen.entries:
                with open_regular(entry.path) as content:
                    reader = _Hashing(content)
                    try:
                        tar.addfile(_header(entry.name, entry.size), cast("BinaryIO", reader))
                        short = bool(content.read(1))
                    except OSError as error:
                        if error.errno is not None:
                            raise
                        short = True  # it has fewer bytes than it had
                if short or reader.sum.hexdigest() != entry.sha256:
                    raise _changed(entry)
                done += entry.size
                tell(done, chosen.bytes)
        if out is not stream:
            out.close()


def _changed(entry: Entry) -> StageFailed:
    if entry.name.startswith("store/"):
        place = next(one for one in entry.path.parents if KEY.fullmatch(one.name))
        return _unsound(
            place.parent.parent.name, place, f"the bytes of {entry.path.name} are not those that were written"
        )
    return StageFailed(f"{entry.path.name} of the run was written to meanwhile", where=str(entry.path), remedy="export it again")  # fmt: skip


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info


class _Hashing:
    """A stream that is hashed as it is read."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.sum = stream, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        self.sum.update(block)
        return block


# Import --------------------------------------------------------------------------------------------------------------


@dataclass
class Taken:
    """What was taken of a bundle.

    Attributes:
        run: the name of its run.
        new, there: how many artefacts came, and how many were there already.
        other: artefacts that are there with other content, as STAGE KEY; those that are there are kept.
        folder: the run folder; None where the bundle holds none.
        kept_folder: whether there is such a folder with other content, which is kept.
    """

    run: str
    new: int = 0
    there: int = 0
    other: list[str] = field(default_factory=list)
    folder: Path | None = None
    kept_folder: bool = False


def take(path: Path, root: Path, tell: Tell) -> Taken:
    """Take a bundle into the store and the runs below ``paths.root``. All of it is checked before anything is put in place.

    Raises:
        Refused: it is not what an export makes.
        StageFailed: it cannot be read, or there is no room.
    """
    try:
        stream = open_regular(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}", remedy="name a file that `store export` has written") from error  # fmt: skip
    with stream:
        reading = _Reading(path, stream)
        manifest = _Manifest(reading, reading.first())
        with _staging(root) as staged:
            _unpack(reading, manifest, staged, root, tell)
            return _put_in_place(manifest, staged, root)


class _Bounded(io.RawIOBase):
    """A stream of which no more than a block is read at a time: headers of an archive may ask for any number of bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= BLOCK:
            raise tarfile.ReadError("a header that is larger than any name")
        return self.stream.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        return self.stream.seek(place, whence)

    def tell(self) -> int:
        return self.stream.tell()


class _Reading:
    """The members of an archive, one by one: regular files, nothing else."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        with self.refusing():
            zipped = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            plain = cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb")) if zipped else stream
            self.stream = _Bounded(plain)
            self.tar = tarfile.open(fileobj=cast("BinaryIO", self.stream), mode="r:")  # noqa: SIM115

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """What goes wrong in reading an archive is a bundle that is refused, or a disk that cannot be read."""
        try:
            yield
        except (tarfile.TarError, EOFError, zlib.error, ValueError, LookupError, OverflowError, struct.error) as error:
            raise Refused(f"it is no sound tar archive ({error})", self.path) from error
        except RecursionError as error:
            raise Refused("it is no sound tar archive (headers of headers)", self.path) from error
        except OSError as error:
            if error.errno is None:
                raise Refused(f"it is no sound archive ({error})", self.path) from error
            raise os_error(error, "the bundle cannot be read", self.path) from error

    def first(self) -> bytes:
        """The manifest, which is the first member."""
        info = self.next()
        if info is None or info.name != MANIFEST:
            raise Refused(f"it does not begin with {MANIFEST}", self.path)
        if info.size > MOST_SAID:
            raise Refused(f"its {MANIFEST} has {info.size:,} bytes", self.path)
        return b"".join(self.blocks(info))

    def next(self) -> tarfile.TarInfo | None:
        """The next member; None after the last."""
        with self.refusing():
            info = self.tar.next()
            self.tar.members.clear()  # type: ignore[attr-defined]  # or they would all be kept
        if info is None:
            return None
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse():
            kind = {tarfile.SYMTYPE: "a link", tarfile.LNKTYPE: "a link", tarfile.FIFOTYPE: "a named pipe", tarfile.CHRTYPE: "a device",
                    tarfile.BLKTYPE: "a device", tarfile.DIRTYPE: "a folder"}.get(info.type, "no plain file")  # fmt: skip
            raise Refused(f"{info.name} is {kind}", self.path)
        return info

    def blocks(self, info: tarfile.TarInfo) -> Iterator[bytes]:
        """The bytes of a member."""
        place, left = info.offset_data, info.size
        with self.refusing():
            self.stream.seek(place)
        while left:
            with self.refusing():
                block = self.stream.read(min(BLOCK, left))
            if not block:
                raise Refused("it is cut off", self.path)
            left -= len(block)
            yield block


class _Manifest:
    """What a bundle says that it holds.

    Attributes:
        files: (bytes, sha256) by name.
        artefacts: by (stage, key), the names of its files below its folder.
        run: name of the run.
    """

    def __init__(self, reading: _Reading, content: bytes) -> None:
        self.path = reading.path
        try:
            said = signed.read(content)
            layout, run, files = said["bundle"], said["run"], said["files"]
        except (ValueError, LookupError) as error:
            raise Refused(f"its {MANIFEST} is not what was written ({error})", self.path) from error
        if layout != LAYOUT:
            raise Refused(f"it has layout {layout!r}, and this version reads {LAYOUT}", self.path)
        if not isinstance(run, str) or not _RUN.fullmatch(run) or not isinstance(files, dict) or not files:
            raise Refused(f"its {MANIFEST} is not what was written", self.path)
        self.run = run
        self.files: dict[str, tuple[int, str]] = {}
        self.artefacts: dict[used.Key, set[str]] = {}
        for name, entry in files.items():
            self._file(name, entry)
        self._no_file_is_a_folder()
        for (stage, key), names in self.artefacts.items():
            if RECORD not in names:
                raise Refused(f"artefact {stage} {key} has no record", self.path)

    def _file(self, name: str, entry: Any) -> None:
        size, sha = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or size < 0 or not isinstance(sha, str) or not _SHA.fullmatch(sha):
            raise Refused(f"its {MANIFEST} does not say what {name} holds", self.path)
        wrong = _wrong_name(name)
        place = name.split("/")
        if not wrong and place[0] == "runs" and len(place) >= 3:
            wrong = "" if place[1] == self.run else "it is of another run"
        elif not wrong and place[0] == "store" and len(place) >= 5:
            _, stage, shelf, key, *rest = place
            wrong = _wrong_place(stage, shelf, key)
            self.artefacts.setdefault((stage, key), set()).add("/".join(rest))
        elif not wrong:
            wrong = "it is neither in a run folder nor in an artefact"
        if wrong:
            raise Refused(f"{name} has no place here: {wrong}", self.path)
        self.files[name] = size, sha

    def _no_file_is_a_folder(self) -> None:
        folders = {str(above) for name in self.files for above in PurePosixPath(name).parents}
        both = sorted(folders & set(self.files))
        if both:
            raise Refused(f"{both[0]} is both a file and a folder", self.path)

    @property
    def of_run(self) -> bool:
        return any(name.startswith("runs/") for name in self.files)


def _wrong_name(name: str) -> str:
    """Why a path may not stand in a bundle; '' if it may."""
    parts = name.split("/")
    if name.startswith("/"):
        return "an absolute path"
    if ".." in parts:
        return "a path that leads out"
    if any(part in ("", ".") for part in parts) or "\\" in name or not name.isprintable():
        return "no plain path"
    if any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts) or len(parts) > 32:
        return "too long a path"
    return ""


def _wrong_place(stage: str, shelf: str, key: str) -> str:
    if not KEY.fullmatch(key):
        return "no key of an artefact"
    if shelf != key[:2]:
        return "another shelf than its key has"
    return "" if STAGE.fullmatch(stage) and stage not in inventory.BESIDE else "no stage"


class _Staged:
    """Folders in which a bundle is unpacked, each beside the place that it will have."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, Store(root / "store")
        self.artefacts: dict[used.Key, Path] = {}
        self.run: Path | None = None

    def place(self, name: str) -> Path:
        """Where a file of the bundle is unpacked."""
        first, *rest = name.split("/")
        if first == "runs":
            if self.run is None:
                runs = self.root / "runs"
                runs.mkdir(parents=True, exist_ok=True)
                self.run = runs / f"{_STAGED}{mine().token()}-{uuid.uuid4().hex[:8]}"
                self.run.mkdir()
            return self.run.joinpath(*rest[1:])
        stage, _, key, *rest = rest
        if (stage, key) not in self.artefacts:
            self.artefacts[stage, key] = self.store.begin(stage, key)
        return self.artefacts[stage, key].joinpath(*rest)


@contextmanager
def _staging(root: Path) -> Iterator[_Staged]:
    """Have whatever is not in its place at the end removed; what a kill left of earlier imports goes too."""
    for left in (root / "runs").glob(f"{_STAGED}*"):
        owner = from_token(left.name.removeprefix(_STAGED).rpartition("-")[0])
        if owner is not None and is_dead(owner):
            shutil.rmtree(left, ignore_errors=True)
    staged = _Staged(root)
    try:
        yield staged
    except OSError as error:
        if error.errno in FULL:
            raise StageFailed(
                f"the bundle cannot be unpacked: {error.strerror}",
                where=str(error.filename or root),
                cause="the disk is full, over quota or read-only; nothing of the bundle was taken",
                remedy="free space on it, or give a folder on another disk with --root",
            ) from error
        raise os_error(error, "the bundle cannot be unpacked", root) from error
    finally:
        for folder in [*staged.artefacts.values(), *([staged.run] if staged.run else [])]:
            shutil.rmtree(folder, ignore_errors=True)


def _unpack(reading: _Reading, manifest: _Manifest, staged: _Staged, root: Path, tell: Tell) -> None:
    """Read all of a bundle, and unpack what is not there; nothing is in its place yet."""
    there = {key for key in manifest.artefacts if staged.store.find(*key) is not None}
    total = sum(size for size, _ in manifest.files.values())
    _refuse_without_room(root, sum(size for name, (size, _) in manifest.files.items() if _key(name) not in there))
    seen: set[str] = set()
    done = 0
    while (info := reading.next()) is not None:
        name = info.name
        if name not in manifest.files:
            raise Refused(f"it holds {name}, of which its {MANIFEST} says nothing", reading.path)
        if name in seen:
            raise Refused(f"it holds {name} twice", reading.path)
        seen.add(name)
        size, sha = manifest.files[name]
        if info.size != size:
            raise Refused(f"{name} has {info.size:,} bytes instead of {size:,}", reading.path)
        key = _key(name)
        is_record = key is not None and name.split("/")[4:] == [RECORD]
        if is_record and size > MOST_SAID:
            raise Refused(f"{name} has {size:,} bytes", reading.path)
        content = _copied(reading, info, None if key in there else staged.place(name), sha, is_record)
        if key is not None and is_record:
            _check_record(manifest, key, content)
        done += size
        tell(done, total)
    missing = sorted(manifest.files.keys() - seen)
    if missing:
        raise Refused(f"{len(missing)} of {len(manifest.files)} files are missing, the first: {missing[0]}", reading.path)  # fmt: skip


def _key(name: str) -> used.Key | None:
    """The artefact that a file is of."""
    place = name.split("/")
    return (place[1], place[3]) if place[0] == "store" else None


def _refuse_without_room(root: Path, needed: int) -> None:
    place = next(one for one in (root, *root.absolute().parents) if one.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise StageFailed(
            f"the bundle needs {needed:,} bytes, and {free:,} are free",
            where=str(place),
            remedy="free space on it, or give a folder on another disk with --root",
        )


def _copied(reading: _Reading, info: tarfile.TarInfo, place: Path | None, sha: str, whole: bool) -> bytes:
    """Copy a member to its place, if it has one, and check its digest; its bytes where they are asked for ``whole``."""
    total, kept = hashlib.sha256(), []
    out: BinaryIO | None = None
    try:
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            out = place.open("xb")
        for block in reading.blocks(info):
            total.update(block)
            if out is not None:
                out.write(block)
            if whole:
                kept.append(block)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    finally:
        if out is not None:
            out.close()
    if total.hexdigest() != sha:
        raise Refused(f"the bytes of {info.name} are not those that were written", reading.path)
    if place is not None and place.suffix == ".parquet":
        try:
            with place.open("rb") as stream:
                bounds.check_parquet(stream)  # stages read what the store has as it stands
        except (OSError, ValueError) as error:
            raise Refused(
                f"{info.name} cannot be read: {getattr(error, 'strerror', None) or error}", reading.path
            ) from None
    return b"".join(kept)


def _check_record(manifest: _Manifest, place: used.Key, content: bytes) -> None:
    """Look whether the record of an artefact is one, is of it, and says what the manifest says."""
    stage, key = place
    try:
        record = read_record(content, stage, key)
    except Wrong as error:
        raise Refused(f"artefact {stage} {key}: {error}", manifest.path) from error
    try:
        made_of = digest(record["parts"])
    except (ValueError, RecursionError, UnicodeError):
        made_of = ""
    if made_of != key:
        raise Refused(f"artefact {stage} {key}: its key is not that of what it was made of", manifest.path)
    above = f"store/{stage}/{key[:2]}/{key}/"
    said = {name: (entry["bytes"], entry["sha256"]) for name, entry in record["files"].items()}
    held = {name: manifest.files[above + name] for name in manifest.artefacts[place] if name != RECORD}
    if said != held:
        raise Refused(f"artefact {stage} {key}: its record names other files than the bundle holds", manifest.path)


def _put_in_place(manifest: _Manifest, staged: _Staged, root: Path) -> Taken:
    taken = Taken(manifest.run)
    for place in sorted(manifest.artefacts):
        temporary = staged.artefacts.get(place)
        if temporary is not None and staged.store.adopt(*place, temporary):
            taken.new += 1
            continue
        found = staged.store.find(*place)
        if found is None:
            raise StageFailed(
                f"artefact {' '.join(place)} was removed while the bundle was read",
                where=str(staged.store.folder(*place)),
                cause="another process cleans this store",
                remedy="import the bundle again: what it has already brought is reused",
            )
        if _same(manifest, place, found.record["files"]):
            taken.there += 1
        else:
            taken.other.append(" ".join(place))
    if staged.run is not None:
        taken.folder = root / "runs" / manifest.run
        _sync_all(staged.run)
        try:
            staged.run.rename(taken.folder)
            sync(taken.folder.parent)
        except OSError:
            if not taken.folder.is_dir():
                raise
            taken.kept_folder = not _holds(taken.folder, manifest)
    return taken


def _same(manifest: _Manifest, place: used.Key, files: Mapping[str, Any]) -> bool:
    """Whether an artefact has the content of the bundle's; when and where it was made is no content."""
    above = f"store/{place[0]}/{place[1][:2]}/{place[1]}/"
    held = {name: manifest.files[above + name][1] for name in manifest.artefacts[place] if name != RECORD}
    return held == {name: entry["sha256"] for name, entry in files.items()}


def _holds(folder: Path, manifest: _Manifest) -> bool:
    """Whether a run folder has the files of the bundle's."""
    for name, (_, sha) in manifest.files.items():
        if name.startswith("runs/"):
            try:
                if file_digest(folder.joinpath(*name.split("/")[2:])) != sha:
                    return False
            except OSError:
                return False
    return True


def _sync_all(folder: Path) -> None:
    for above, _, _ in os.walk(folder):
        sync(Path(above))
