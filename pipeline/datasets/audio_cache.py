"""What is known of audio files is kept between starts: a corpus is decoded once, not at each start.

An answer belongs to a path with its size, its inode, and the times in nanoseconds at which its content (mtime) and its inode (ctime)
changed last. What is not seen by these (a disk that decays, a clock that was set back) shows as another digest where the file is
decoded, and is looked at again (:meth:`AudioCache.doubt`). What was changed less than :data:`parallel.RACY_NS` before it was looked at
is answered and not kept, for a file system may not tell two such writes apart. There is no lock and no claim: a kill leaves nothing
behind, and of several starts at the same moment each looks for itself. Other rules start with an empty folder, ``FOLDER/<rules>``.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.datasets import parallel
from pipeline.datasets import probe as probing
from pipeline.datasets.parallel import IDENTITY_BYTES, Look, encode_text, read_state
from pipeline.datasets.probe import Probe
from pipeline.seeds import digest
from pipeline.tables.shared import SharedTable, age

KEEP_SECONDS = 2.0
"""Between two times that what was found is kept. A kill costs what was decoded in this time."""

LOG_SECONDS = 20.0
"""Between two words on how far it is."""

FORGOTTEN_SECONDS = 90 * 24 * 3600
"""Folders of other versions that nobody wrote to for so long are removed."""

LAYOUT = 4
_IDENTITY = pa.binary(IDENTITY_BYTES)

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
        "bandwidth": pa.float64(),
        "looked_ns": pa.int64(),
    }
)

_STATE_COLUMNS = ("path", "size", "mtime_ns", "ctime_ns", "inode", "looked_ns")
_ANSWER_COLUMNS = [name for name in SCHEMA.names if name not in _STATE_COLUMNS]

# Files that are asked for at a time, because a network file system answers each after a while.
_STAT_THREADS = 16
_STAT_BLOCK = 4096
_RULES_FOLDER = re.compile(r"[0-9a-f]{16}")
log = logging.getLogger(__name__)


class AudioCache:
    """What earlier looks at audio files found.

    Args:
        folder: where it is kept, made when there is something to keep; None keeps nothing.
        versions: of the source files that give the answers, by module.
        longest_seconds: longer files are faults. It is no part of what is kept.
    """

    def __init__(
        self, folder: Path | None, versions: Mapping[str, int] | None = None, longest_seconds: float = math.inf
    ) -> None:
        self.folder, self._longest = folder, longest_seconds
        self._rules = digest("known files", LAYOUT, probing.list_rules(), dict(versions or {}))[:16]
        self._table = SharedTable(folder / self._rules, SCHEMA, "identity", "looked_ns") if folder is not None else None
        self._keeps, self._after = folder is not None, 0
        self._known: pa.Table | None = None
        self._new: list[Look] = []

    def probes(self, paths: Iterable[Path], threads: int = 1) -> dict[Path, Probe]:
        """Each path once, as :func:`probing.probe_file` finds it: recalled, or looked at on so many cores."""
        unique = list(dict.fromkeys(paths))
        probes = self._recalled(unique)
        self._look([path for path in unique if path not in probes], threads, probes)
        return {path: probing.limit_length(probes[path], path, self._longest) for path in unique}

    def doubt(self, paths: Iterable[Path]) -> None:
        """Look again at those files of which something is known: somebody found them to be otherwise."""
        doubted = list(self._recalled(list(dict.fromkeys(paths))))
        if self._table is None or not doubted:
            return
        try:
            looked = self._table.read(["looked_ns"])["looked_ns"]
            self._after = 1 + max(pc.max(looked).as_py() or 0, 0)  # also where the clock was set back since
            self._look(doubted, 1, {})
            # Of two answers to one question a merge keeps the newer.
            self._table.merge()
        except OSError as error:
            self._give_up(error)

    def _recalled(self, paths: Sequence[Path]) -> dict[Path, Probe]:
        if self._table is None or not paths:
            return {}
        if self._known is None:
            try:
                self._known = self._table.read(_ANSWER_COLUMNS)
            except OSError as error:
                self._give_up(error)
                self._known = SCHEMA.empty_table().select(_ANSWER_COLUMNS)
        self._known = self._known.combine_chunks()
        return _look_up(paths, self._known)

    def _look(self, paths: Sequence[Path], workers: int, probes: dict[Path, Probe]) -> None:
        kept = logged = time.monotonic()
        look = functools.partial(parallel.look_at_files, self._longest)
        try:
            for looks in parallel.run_parallel(paths, workers, look):
                for found in looks:
                    probes[found.path] = found.probe
                    if found.state is not None and self._keeps:
                        self._new.append(replace(found, looked_ns=max(found.looked_ns, self._after)))
                now = time.monotonic()
                if now - logged > LOG_SECONDS:
                    logged = now
                    log.info("looked at %d of %d audio files", sum(path in probes for path in paths), len(paths))
                if now - kept > KEEP_SECONDS:
                    self._keep()
                    kept = time.monotonic()
        finally:
            self._keep()

    def _keep(self) -> None:
        new, self._new = self._new, []
        if self.folder is None or self._table is None or self._known is None or not new:
            return
        rows = _make_rows(new)
        self._known = pa.concat_tables([self._known, rows.select(_ANSWER_COLUMNS)])
        try:
            self._table.add(rows)
            for other in self.folder.iterdir():
                is_old = _RULES_FOLDER.fullmatch(other.name) and age(other) > FORGOTTEN_SECONDS
                if is_old and other.name != self._rules:
                    shutil.rmtree(other, ignore_errors=True)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._keeps = False
        reason = error.strerror or error
        log.warning(
            "what is known of audio files cannot be kept in %s (%s): every start decodes them again",
            self.folder,
            reason,
        )


NO_CACHE = AudioCache(None)
"""Looks at every file, and keeps nothing."""


def _look_up(paths: Sequence[Path], table: pa.Table) -> dict[Path, Probe]:
    """What a table knows of files as they are now."""
    if not len(table) or not paths:
        return {}
    identities = pa.array([state.identity if state else None for state in _read_states(paths)], _IDENTITY)
    rows = pc.index_in(identities, value_set=table["identity"])
    places = [place for place, row in enumerate(rows.to_pylist()) if row is not None]
    answers = table.take(rows.drop_null()).drop_columns("identity").to_pylist()
    for answer in answers:
        answer |= {name: answer[name].hex() for name in ("sha256", "sound")}
        answer["problem"] = answer["problem"].decode("utf-8", "surrogatepass")
    return {paths[place]: Probe(**answer) for place, answer in zip(places, answers)}


def _read_states(paths: Sequence[Path]) -> list[parallel.FileState | None]:
    blocks = [
        paths[start : start + _STAT_BLOCK // _STAT_THREADS]
        for start in range(0, len(paths), _STAT_BLOCK // _STAT_THREADS)
    ]
    with ThreadPoolExecutor(_STAT_THREADS) as pool:
        return [
            state for block in pool.map(lambda block: [read_state(path) for path in block], blocks) for state in block
        ]


def _make_rows(new: Sequence[Look]) -> pa.Table:
    rows = []
    for look in new:
        if look.state is not None:
            state, probe = asdict(look.state), asdict(look.probe)
            texts = {"path": encode_text(look.state.path), "problem": encode_text(look.probe.problem)}
            digests = {name: bytes.fromhex(probe[name]) for name in ("sha256", "sound")}
            rows.append(
                {**state, **probe, **texts, **digests, "identity": look.state.identity, "looked_ns": look.looked_ns}
            )
    return pa.Table.from_pylist(rows, SCHEMA)
