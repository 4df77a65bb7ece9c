"""A table on disk to which any number of processes on any number of hosts add rows at once, without locks.

It is a folder of pieces, ``<sha256 of the bytes>.parquet``, that are written once and never changed. A piece appears
whole by a rename, and equal pieces have equal names. Many small pieces are merged into one; a piece is removed only
when one that holds all of it is there, and a reader that misses a piece lists the folder anew. A kill leaves a piece
too few or too many, never a part of one.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.files import read_clock, write_atomically

MOST_PIECES = 16
"""So many are merged into one."""
STALE_SECONDS = 7 * 24 * 3600
# A merge takes away what was listed before it; two in a row while one reader reads are rare, so many are impossible.
_ATTEMPTS = 8
_PIECE = re.compile(r"[0-9a-f]{64}\.parquet")

log = logging.getLogger(__name__)


class SharedTable:
    """Rows by a key, in a folder.

    Args:
        folder: need not exist.
        schema: of the rows.
        key: column of the key. Of rows with equal keys some are dropped, the newest is kept.
        age: column of integers that are larger for newer rows.
        most: rows that are kept by a merge, the newest ones.
    """

    def __init__(self, folder: Path, schema: pa.Schema, key: str, age: str, most: int = 1_000_000) -> None:
        self.folder, self.schema, self.key, self.age, self.most = folder, schema, key, age, most

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, some perhaps twice, with these columns. Pieces that are damaged are set aside, and it is said.

        Raises:
            OSError: the folder cannot be read.
        """
        names = list(columns) if columns is not None else self.schema.names
        empty = pa.schema([self.schema.field(name) for name in names]).empty_table()
        return pa.concat_tables([empty, *self._pieces(names).values()])

    def add(self, rows: pa.Table) -> None:
        """Add rows; raises OSError where they cannot be written."""
        if len(rows):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(rows)
            if len(self._listed()) >= MOST_PIECES:
                self.merge()

    def merge(self) -> None:
        """Put all pieces into one, each key once; raises OSError where it cannot be written."""
        pieces = self._pieces(self.schema.names)
        if not pieces:
            return
        order: list[tuple[str, str]] = [(self.key, "ascending"), (self.age, "descending")]
        rows = pa.concat_tables(pieces.values()).sort_by(order).combine_chunks()
        keys = rows[self.key].combine_chunks()
        rows = rows.filter(pa.array(pc.index_in(keys, value_set=keys).to_numpy() == np.arange(len(rows))))
        if len(rows) > self.most:
            newest = np.argsort(-rows[self.age].to_numpy(), kind="stable")[: self.most]
            rows = rows.take(pa.array(np.sort(newest)))
        merged = self._write(rows)
        for name in pieces:
            if name != merged:
                _remove(self.folder / name)
        for left in self.folder.glob(".*"):  # of writers that were killed
            if age(left) > STALE_SECONDS:
                _remove(left)

    def _write(self, rows: pa.Table) -> str:
        buffer = pa.BufferOutputStream()
        pq.write_table(rows.cast(self.schema), buffer, compression="zstd", write_statistics=False)
        content = buffer.getvalue().to_pybytes()
        name = f"{hashlib.sha256(content).hexdigest()}.parquet"
        write_atomically(self.folder / name, content)
        return name

    def _listed(self) -> list[str]:
        if not self.folder.exists():
            return []
        return sorted(path.name for path in self.folder.iterdir() if _PIECE.fullmatch(path.name))

    def _pieces(self, columns: list[str]) -> dict[str, pa.Table]:
        pieces: dict[str, pa.Table] = {}
        bad: dict[str, str] = {}
        for _ in range(_ATTEMPTS):
            listed = [name for name in self._listed() if name not in bad]
            pieces = {name: pieces[name] for name in listed if name in pieces}
            for name in listed:
                if name not in pieces:
                    try:
                        pieces[name] = self._piece(name, columns)
                    except _Damaged as error:
                        bad[name] = str(error)
                        with suppress(OSError):
                            (self.folder / name).replace(self.folder / f"{name}.damaged")
                    except OSError as error:
                        if error.errno not in (errno.ENOENT, errno.ESTALE):
                            bad[name] = error.strerror or str(error)
            if all(name in pieces or name in bad for name in listed):
                break
        if bad:
            name, reason = next(iter(bad.items()))
            what = "%d of the pieces in %s cannot be used, first %s (%s): what they held is made again"
            log.warning(what, len(bad), self.folder, name, reason)
        return pieces

    def _piece(self, name: str, columns: list[str]) -> pa.Table:
        content = (self.folder / name).read_bytes()
        if f"{hashlib.sha256(content).hexdigest()}.parquet" != name:
            raise _Damaged("its bytes are not those that its name says")
        try:
            piece = pq.ParquetFile(pa.BufferReader(content))
            if not piece.schema_arrow.equals(self.schema):
                raise _Damaged("it is of another kind")
            return piece.read(columns, use_threads=False)
        except pa.ArrowException as error:
            raise _Damaged("it is no Parquet file") from error


class _Damaged(Exception):
    """A piece that is not what was written."""


def _remove(path: Path) -> None:
    with suppress(OSError):  # somebody else did, or owns it
        path.unlink()


def age(path: Path) -> float:
    """Seconds since a file or folder was written to, by the clock of its file system; 0 where it is gone."""
    try:
        return read_clock(path.parent) - path.stat().st_mtime
    except OSError:
        return 0.0
