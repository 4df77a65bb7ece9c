"""One numbering for the ids of several files, so that joining is a matter of whole numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.faults import escape_unprintable
from pipeline.names import describe_difference, fold_lookalikes

Codes = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]

ID = pa.dictionary(pa.int32(), pa.string())


def named(names: Iterable[str], count: int, most: int = 10) -> str:
    """The first names, and how many there are if that is not all."""
    first = ", ".join(map(escape_unprintable, itertools.islice(names, most)))
    return first if count <= most else f"{first}, ... ({count} in all)"


@dataclass(frozen=True)
class Names:
    """Names of ids by code."""

    text: pa.Array

    def __len__(self) -> int:
        return len(self.text)

    def of(self, codes: npt.NDArray[np.integer]) -> list[str]:
        places = np.ascontiguousarray(codes, dtype=np.int64)
        # From a buffer: pa.array would import pandas.
        taken = self.text.take(pa.Array.from_buffers(pa.int64(), places.size, [None, pa.py_buffer(places)]))
        return list(taken.to_pylist())

    def first(self, codes: npt.NDArray[np.integer], most: int = 10) -> str:
        """The first names of codes, and how many there are."""
        return named(self.of(codes[:most]), len(codes), most)

    def pairs(self, keys: Keys, most: int = 10) -> str:
        """The first names of (ID1, ID2) keys (code of ID1 times the number of names, plus code of ID2)."""
        one, two = (self.of(side[:most]) for side in np.divmod(keys, max(len(self), 1)))
        return named((f"({a}, {b})" for a, b in zip(one, two)), len(keys), most)

    def twin(self, keys: Keys, most: int = 10) -> str:
        """The first id of some keys that looks like another id, and by which characters it differs; '' if none does."""
        text = self.of(np.arange(len(self)))
        for name in self.of(np.unique(np.divmod(keys[:most], max(len(self), 1)))):
            for other in text if not all(map(str.isascii, text)) else ():
                if other != name and fold_lookalikes(other) == fold_lookalikes(name):
                    return f"; {name} looks like another id, {other}: {describe_difference(name, other)}"
        return ""


def number(columns: Sequence[pa.ChunkedArray]) -> tuple[Names, list[Codes]]:
    """One numbering for the ids of several dictionary-encoded columns: the names, and the codes [n] of each column."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    joined = pa.chunked_array(chunks, type=ID).unify_dictionaries()
    text = joined.chunk(0).dictionary if chunks else pa.nulls(0, pa.string())
    codes = (np.from_dlpack(chunk.indices) for chunk in joined.chunks)
    split = [np.concatenate([np.empty(0, np.int32), *itertools.islice(codes, column.num_chunks)]) for column in columns]
    return Names(text), split
