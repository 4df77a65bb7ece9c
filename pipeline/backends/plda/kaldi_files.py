"""Kaldi's files of a PLDA back end: ``mean.vec``, ``transform.mat`` and ``plda``, text or binary.

Formats: a binary file begins with a zero byte and ``B``; ``FV``/``DV`` (vector) or ``FM``/``DM`` (matrix) and a space,
then each size as a byte 4 and an int32, then the numbers, float32 or float64, by rows; little-endian. Text is
``[ 1 2 ]``, with a line a row for a matrix. A PLDA is mean, transform and psi between ``<Plda>`` and ``</Plda>``.
(kaldiio, a common reader, has text as float32 and fails where the first number has no point.)
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from pipeline.backends.plda.model import Plda
from pipeline.errors import DataError
from pipeline.files import read_regular
from pipeline.tables import text

MEAN, TRANSFORM, PLDA = PLDA_FILES = ("mean.vec", "transform.mat", "plda")
LARGEST = 1 << 30
"""Bytes of such a file: a PLDA of 8,000 dimensions as text."""
_TYPES = {b"FV": ("<f4", 1), b"DV": ("<f8", 1), b"FM": ("<f4", 2), b"DM": ("<f8", 2)}


class _Malformed(Exception):
    """What is wrong with a file."""


def read_plda(folder: Path) -> Plda:
    """The PLDA of a folder with ``mean.vec``, ``transform.mat`` and ``plda``.

    ``transform.mat`` is [k, d], or [k, d + 1] with an offset as its last column.

    Raises:
        DataError: a file is absent or malformed, or their dimensions do not fit together.
    """
    mean, transform = read_array(folder / MEAN, 1), read_array(folder / TRANSFORM, 2)
    centre, rotation, psi = _read_parts(folder / PLDA)
    d, k = len(mean), len(psi)
    faults = []
    if transform.shape[1] not in (d, d + 1):
        faults.append(f"{TRANSFORM} has {transform.shape[1]} columns and {MEAN} {d} numbers: {d} or {d + 1} would fit")
    if len(transform) != k:
        faults.append(f"{TRANSFORM} gives {len(transform)} dimensions, and {PLDA} takes {k}")
    if len(centre) != k or rotation.shape != (k, k):
        faults.append(f"in {PLDA}, the mean has {len(centre)} dimensions, the transform {rotation.shape}, and psi {k}")
    if (psi < 0).any():
        faults.append(f"in {PLDA}, variances between speakers (psi) are negative")
    if faults:
        raise DataError(
            f"Kaldi's files do not fit together: {'; '.join(faults)}",
            where=str(folder),
            cause="files of different recipes or extractors in one folder",
            remedy=f"take {', '.join(PLDA_FILES)} from one training folder",
        )
    offset = transform[:, d] if transform.shape[1] == d + 1 else np.zeros(k)
    return Plda(mean, np.ascontiguousarray(transform[:, :d]), offset.copy(), centre, rotation, psi)


def read_array(path: Path, dimensions: int) -> np.ndarray:
    """A vector (``dimensions`` 1) or matrix (2) as float64.

    Raises:
        DataError: the file is absent, malformed, empty, of another kind, or holds numbers that are not finite.
    """
    return _of_file(path, [dimensions], ("", ""))[0]


def _read_parts(path: Path) -> list[np.ndarray]:
    return _of_file(path, [1, 2, 1], ("<Plda>", "</Plda>"))


def _of_file(path: Path, kinds: list[int], tokens: tuple[str, str]) -> list[np.ndarray]:
    """Arrays of one, two dimensions as ``kinds`` says, between two tokens."""
    try:
        data = read_regular(path, LARGEST)
        reader = _Binary(data[2:]) if data[:2] == b"\0B" else _Text(data, path)
        reader.token(tokens[0])
        arrays = [reader.array(kind) for kind in kinds]
        reader.token(tokens[1])
        if reader.rest():
            raise _Malformed("something follows after its end")
        for array in arrays:
            if array.size == 0:
                raise _Malformed("it holds an empty vector or matrix")
            if not np.isfinite(array).all():
                raise _Malformed("it holds numbers that are not finite")
        return arrays
    except OSError as error:
        raise DataError(
            f"a file of Kaldi's cannot be read: {error.strerror or error}",
            where=str(path),
            cause="a path that means another file, or one that may not be read",
            remedy=f"name a folder that holds {', '.join(PLDA_FILES)} as plain files",
        ) from error
    except _Malformed as error:
        what = {"<Plda>": "a PLDA"}.get(tokens[0]) or {1: "a vector", 2: "a matrix"}[kinds[0]]
        raise DataError(
            f"this is no file of Kaldi's that holds {what}: {error}",
            where=str(path),
            cause="another file, one that was cut off, or an archive of several",
            remedy="write it anew with ivector-copy-plda, copy-matrix or copy-vector, with --binary=false",
        ) from None


class _Binary:
    """What follows after the mark of a binary file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.place : self.place + count]
        if len(taken) < count:
            raise _Malformed("it ends too early")
        self.place += count
        return taken

    def token(self, wanted: str) -> None:
        expected = f"{wanted} ".encode() if wanted else b""
        if self.data[self.place : self.place + len(expected)] != expected:
            raise _Malformed(f"{wanted} is missing")
        self.place += len(expected)

    def array(self, dimensions: int) -> np.ndarray:
        kind = self.take(3)
        dtype, found = _TYPES.get(kind.rstrip(b" "), ("", 0))
        if kind[2:] != b" " or found != dimensions:
            wanted = " or ".join(name.decode() for name, (_, axes) in _TYPES.items() if axes == dimensions)
            raise _Malformed(f"{wanted} was expected, and it has {kind.decode('latin-1').strip()!r}")
        shape = []
        for _ in range(dimensions):
            if self.take(1) != b"\4":
                raise _Malformed("a size is not written in 4 bytes")
            shape.append(struct.unpack("<i", self.take(4))[0])
        if min(shape) < 0:
            raise _Malformed("a size is negative")
        count = int(np.prod(shape, dtype=object))
        numbers = np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)
        return numbers.reshape(shape).astype(np.float64)

    def rest(self) -> bool:
        return self.place < len(self.data)


class _Text:
    """A text file."""

    def __init__(self, data: bytes, path: Path) -> None:
        try:
            self.left = text.decoded(data, path).strip()
        except text.Unreadable as error:
            said = f"; {error.what}" if error.kind == "encoding" and "if it is" not in error.what else ""
            raise _Malformed(f"it is neither binary as Kaldi writes it nor text{said}") from None

    def token(self, wanted: str) -> None:
        if not self.left.startswith(wanted):
            raise _Malformed(f"{wanted} is missing")
        self.left = self.left.removeprefix(wanted).lstrip()

    def array(self, dimensions: int) -> np.ndarray:
        inside, closed, left = self.left.removeprefix("[").partition("]")
        if not self.left.startswith("[") or not closed:
            raise _Malformed("a vector or matrix in brackets was expected")
        rows = [line.split() for line in inside.splitlines() if line.strip()]
        if len({len(row) for row in rows}) > 1:
            raise _Malformed("rows of a matrix differ in length")
        if dimensions == 1 and len(rows) > 1:
            raise _Malformed("a vector was expected, and it has a matrix")
        try:
            numbers = np.array(rows, dtype=np.float64)
        except ValueError:
            raise _Malformed("there is something else than numbers in brackets") from None
        self.left = left.lstrip()
        return numbers.ravel() if dimensions == 1 else numbers.reshape(len(rows), -1 if rows else 0)

    def rest(self) -> bool:
        return bool(self.left)
