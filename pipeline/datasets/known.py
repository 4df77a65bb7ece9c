"""What is known of audio files is kept between starts: a corpus is decoded once, not at each start.

An answer belongs to a path with its size, its inode, and the times in nanoseconds at which its content (mtime) and
its inode (ctime) changed last. Where all of these are as they were, the file is taken to be as it was. So new content
is seen where its size differs, where it was written in place even if the old mtime is set again (``touch -r``,
``rsync --inplace -t``), and where another file took the place, also behind a link. It is not seen where nothing of
this changes: a disk that decays, a clock that the administrator set back to the nanosecond. Whoever decodes such a
file finds another digest, and has it looked at again (:meth:`KnownFiles.doubt`). On a network file system
a change made by another host is seen when its attributes are, after a minute at most by default.

A file system tells two writes apart only if its clock ticked between them. What was changed less than :data:`RACY_NS`
before it was looked at is therefore answered and not kept. Faults are kept where they are in the content
(:attr:`Probe.lasting`).

Another version of the code that gives the answers starts with an empty folder, ``FOLDER/<rules>``.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.datasets import probe as probing
from pipeline.datasets.probe import Probe
from pipeline.seeds import digest
from pipeline.tables.shared import SharedTable, age

RACY_NS = 2_000_000_000
"""No file system in use has a coarser clock (FAT: 2 s); it also forgives hosts whose clocks differ a little."""
KEEP_SECONDS = 20.0
"""A kill costs what was decoded in this time."""
FORGOTTEN_SECONDS = 90 * 24 * 3600
"""Folders of other versions that nobody wrote to for so long are removed."""

LAYOUT = 2
_IDENTITY = pa.binary(16)
SCHEMA = pa.schema(
    {
        "identity": _IDENTITY,
        "path": pa.binary(),  # text whose bytes need not be UTF-8
        "size": pa.int64(),
        "mtime_ns": pa.int64(),
        "ctime_ns": pa.int64(),
        "inode": pa.uint64(),
        "sample_rate": pa.int64(),
        "samples": pa.int64(),
        "channels": pa.int64(),
        "clipped": pa.bool_(),
        "sha256": pa.binary(),
        "kind": pa.string(),
        "problem": pa.binary(),
        "sound": pa.binary(),
        "silence_ms": pa.float64(),
        "looked_ns": pa.int64(),
    }
)
_ANSWER = [
    "identity",
    "sample_rate",
    "samples",
    "channels",
    "clipped",
    "sha256",
    "kind",
    "problem",
    "sound",
    "silence_ms",
]
# Files that are asked for at a time, because a network file system answers each after a while.
_ASKED = 16
_BLOCK = 4096
_RULES = re.compile(r"[0-9a-f]{16}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """By what a file is told to be as it was."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def identity(self) -> bytes:
        """Of 128 bits, so that a large table is found in fast and takes little memory."""
        text = f"{self.size} {self.mtime_ns} {self.ctime_ns} {self.inode} ".encode()
        return hashlib.blake2b(text + _bytes(self.path), digest_size=_IDENTITY.byte_width).digest()

    @property
    def changed_ns(self) -> int:
        return max(self.mtime_ns, self.ctime_ns)


class KnownFiles:
    """What earlier looks at audio files found.

    Args:
        folder: where it is kept, made when there is something to keep; None keeps nothing.
        versions: of the source files that give the answers, by module.
        longest_seconds: longer files are faults. It is no part of what is kept.
    """

    def __init__(
        self, folder: Path | None, versions: Mapping[str, int] | None = None, longest_seconds: float = math.inf
    ) -> None:
        self._longest = longest_seconds
        self._folder = folder
        self._rules = digest("known files", LAYOUT, probing.rules(), dict(versions or {}))[:16]
        self._keeps = folder is not None
        self._after = 0
        self._known: pa.Table | None = None
        self._new: list[tuple[_State, Probe, int]] = []

    def probes(self, paths: Iterable[Path], threads: int = 1) -> dict[Path, Probe]:
        """Each path once, as :func:`probing.probe` finds it: recalled, or looked at in so many threads."""
        unique = list(dict.fromkeys(paths))
        found = self._recalled(unique)
        self._look([path for path in unique if path not in found], threads, found)
        return {path: probing.within(found[path], path, self._longest) for path in unique}

    def doubt(self, paths: Iterable[Path]) -> None:
        """Look again at those files of which something is known: somebody found them to be otherwise."""
        doubted = list(self._recalled(list(dict.fromkeys(paths))))
        if self._folder is None or not doubted:
            return
        try:
            known = self._table(self._folder).read(["looked_ns"])["looked_ns"]
            self._after = 1 + max(pc.max(known).as_py() or 0, 0)  # also where the clock was set back since
            self._look(doubted, 1, {})
            # Of two answers to one question a merge keeps the newer.
            self._table(self._folder).merge()
        except OSError as error:
            self._give_up(error)

    def _recalled(self, paths: Sequence[Path]) -> dict[Path, Probe]:
        if self._folder is None or not paths:
            return {}
        if self._known is None:
            self._known = self._read(self._folder)
        if not len(self._known):
            return {}
        identities = pa.array([state.identity if state else None for state in _states(paths)], _IDENTITY)
        rows = pc.index_in(identities, value_set=self._known["identity"])
        places = [place for place, row in enumerate(rows.to_pylist()) if row is not None]
        answers = self._known.take(rows.drop_null()).drop_columns("identity").to_pydict()
        return {
            paths[place]: Probe(
                rate,
                samples,
                sha256.hex(),
                kind,
                _text(problem),
                channels,
                clipped,
                sound=sound.hex(),
                silence_ms=silence,
            )
            for place, rate, samples, channels, clipped, sha256, kind, problem, sound, silence in zip(
                places, *answers.values()
            )
        }

    def _look(self, paths: Sequence[Path], threads: int, found: dict[Path, Probe]) -> None:
        kept, last = 0, time.monotonic()
        with ThreadPoolExecutor(max(1, threads)) as pool:
            try:
                for start in range(0, len(paths), _BLOCK):
                    block = paths[start : start + _BLOCK]
                    for path, (probe, state, looked_ns) in zip(block, pool.map(self._look_at, block), strict=True):
                        found[path] = probe
                        kept += 1
                        if state is not None and self._keeps:
                            self._new.append((state, probe, max(looked_ns, self._after)))
                        if time.monotonic() - last > KEEP_SECONDS:
                            log.info("looked at %d of %d audio files", kept, len(paths))
                            self._keep()
                            last = time.monotonic()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                self._keep()

    def _look_at(self, path: Path) -> tuple[Probe, _State | None, int]:
        return _look(path, self._longest)

    def _read(self, folder: Path) -> pa.Table:
        try:
            return self._table(folder).read(_ANSWER).combine_chunks()
        except OSError as error:
            self._give_up(error)
            return SCHEMA.empty_table().select(_ANSWER)

    def _keep(self) -> None:
        new, self._new = self._new, []
        if self._folder is None or self._known is None or not new:
            return
        rows = _rows(new)
        self._known = pa.concat_tables([self._known, rows.select(_ANSWER)]).combine_chunks()
        try:
            self._table(self._folder).add(rows)
            self._forget_others(self._folder)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._keeps = False
        reason = error.strerror or error
        log.warning(
            "what is known of audio files cannot be kept in %s (%s): every start decodes them again",
            self._folder,
            reason,
        )

    def _table(self, folder: Path) -> SharedTable:
        return SharedTable(folder / self._rules, SCHEMA, "identity", "looked_ns")

    def _forget_others(self, folder: Path) -> None:
        for other in folder.iterdir():
            if other.name != self._rules and _RULES.fullmatch(other.name) and age(other) > FORGOTTEN_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


NOTHING_KNOWN = KnownFiles(None)
"""Looks at every file, and keeps nothing."""


def _states(paths: Sequence[Path]) -> list[_State | None]:
    blocks = [paths[start : start + _BLOCK // _ASKED] for start in range(0, len(paths), _BLOCK // _ASKED)]
    with ThreadPoolExecutor(_ASKED) as pool:
        return [state for block in pool.map(lambda block: [_state(path) for path in block], blocks) for state in block]


def _state(path: Path) -> _State | None:
    """The state of a regular file with an absolute path, else None."""
    try:
        return _as_state(path, path.stat()) if path.is_absolute() else None
    except (OSError, ValueError):
        return None


def _opened_state(path: Path) -> _State | None:
    """The state by way of opening the file, for which a network file system asks its server."""
    try:
        with path.open("rb") as stream:
            return _as_state(path, os.fstat(stream.fileno()))
    except OSError:
        return None


def _as_state(path: Path, found: os.stat_result) -> _State | None:
    if not stat.S_ISREG(found.st_mode):
        return None
    return _State(str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _look(path: Path, longest_seconds: float) -> tuple[Probe, _State | None, int]:
    """What a file turns out to be, its state where that may be kept, and when it was looked at."""
    now = time.time_ns()
    before = _state(path)
    found = probing.probe(path, longest_seconds)
    settled = before is not None and now - before.changed_ns >= RACY_NS
    if not (found.lasting and settled and _opened_state(path) == before):
        return found, None, now
    return found, before, now


def _bytes(text: str) -> bytes:
    # Names of files may hold anything; Python stands in lone surrogates for what is not UTF-8.
    return text.encode("utf-8", "surrogatepass")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


def _rows(new: Sequence[tuple[_State, Probe, int]]) -> pa.Table:
    rows = [
        {
            "identity": state.identity,
            "path": _bytes(state.path),
            "size": state.size,
            "mtime_ns": state.mtime_ns,
            "ctime_ns": state.ctime_ns,
            "inode": state.inode,
            "sample_rate": probe.sample_rate,
            "samples": probe.samples,
            "channels": probe.channels,
            "clipped": probe.clipped,
            "sha256": bytes.fromhex(probe.sha256),
            "kind": probe.kind,
            "problem": _bytes(probe.problem),
            "sound": bytes.fromhex(probe.sound),
            "silence_ms": probe.silence_ms,
            "looked_ns": looked_ns,
        }
        for state, probe, looked_ns in new
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
