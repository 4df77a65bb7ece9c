"""Vectors and matrices as Kaldi writes them.

Binary: ``FV``/``DV`` (vector) or ``FM``/``DM`` (matrix) and a space, then each size as a byte 4 and an int32, then the numbers, float32
or float64, by rows; little-endian. Text: ``[ 1 2 ]``, with a line a row for a matrix. A file, or an entry of an archive, that is binary
begins with a zero byte and ``B``. (kaldiio, a common reader, unpickles what calls itself a pickle, takes a vector that ends early for a
short one, and fails where the first number of a text has no point.)
"""

from __future__ import annotations

import math
import struct
from typing import BinaryIO

import numpy as np

_LONGEST_TEXT = 1 << 30
"""Bytes of a matrix as text: 8,000 by 8,000 numbers."""


class Malformed(Exception):
    """What is wrong with the bytes."""


def read_array(stream: BinaryIO, size: int, binary: bool) -> np.ndarray:
    """The vector [n] or matrix [r, c] that begins here in a file of ``size`` bytes; a text gives a matrix [r, c] always.

    The stream is left behind it.

    Raises:
        Malformed: there is none.
    """
    if not binary:
        return _read_text(stream)
    kind = stream.read(3)
    if kind not in (b"FV ", b"DV ", b"FM ", b"DM "):
        raise Malformed(f"the binary type {kind!r} instead of a vector or matrix of real numbers")
    shape = []
    for _ in range(2 if kind[1:2] == b"M" else 1):
        head = stream.read(5)
        if len(head) < 5:
            raise Malformed("it ends early, inside a header")
        width, length = struct.unpack("<Bi", head)
        if width != 4 or length < 0:
            raise Malformed("the header is damaged")
        shape.append(length)
    dtype = np.dtype("<f4" if kind.startswith(b"F") else "<f8")
    expected = math.prod(shape) * dtype.itemsize
    if stream.tell() + expected > size:
        raise Malformed(f"it ends early: {expected} bytes of numbers are to follow, and {size - stream.tell()} do")
    return np.frombuffer(stream.read(expected), dtype).reshape(shape)


def _read_text(stream: BinaryIO) -> np.ndarray:
    skip_blanks(stream)
    start = stream.tell()
    if stream.read(1) != b"[":
        raise Malformed("a vector or matrix in brackets was expected")
    lines: list[bytes] = []
    while not lines or b"]" not in lines[-1]:
        lines.append(stream.readline(_LONGEST_TEXT))
        if not lines[-1] or stream.tell() - start > _LONGEST_TEXT:
            raise Malformed("no ']' follows: it ends early, or is something else")
    lines[-1], _, following = lines[-1].partition(b"]")
    stream.seek(-len(following), 1)
    try:
        rows = [[float(value) for value in line.split()] for line in lines if line.strip()]
    except ValueError as error:
        raise Malformed(f"there is something else than numbers in brackets: {error}") from None
    if len({len(row) for row in rows}) > 1:
        raise Malformed("rows of a matrix differ in length")
    return np.array(rows, np.float64).reshape(len(rows), -1 if rows else 0)


def skip_blanks(stream: BinaryIO) -> None:
    """Leave a stream before the next byte that is no blank."""
    while (byte := stream.read(1)).isspace():
        pass
    stream.seek(-len(byte), 1)
