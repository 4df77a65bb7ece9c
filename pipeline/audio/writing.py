"""Writing a WAV file whose bytes depend on its sound alone."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.audio.opening import BLOCK
from pipeline.errors import DataError

Subtype = Literal["FLOAT", "PCM_16"]

_PCM, _IEEE_FLOAT = 1, 3


def write(path: Path, wave: np.ndarray, rate: int, subtype: Subtype = "FLOAT") -> None:
    """Write a mono WAV file whose bytes depend on the samples, the rate and the subtype alone.

    libsndfile puts the time of day into the PEAK chunk of a float WAV file, hence a header of our own: ``fmt``,
    for float also ``fact``, ``data``, as in the RIFF/WAVE specification.

    Args:
        path: the file; its folder exists.
        wave: float [n], full scale 1. ``FLOAT`` keeps float32 as it is; ``PCM_16`` rounds to multiples of 2^-15 and
            clips to [-1, 1 - 2^-15], so that what :func:`load` reads from a 16-bit file is written back unchanged.
        rate: sampling rate in Hz.
        subtype: ``FLOAT`` or ``PCM_16``.

    Raises:
        DataError: samples that are not finite, or more bytes than a WAV file can hold.
    """
    if not np.isfinite(wave).all():
        raise DataError("samples that are NaN or infinite are not written", where=str(path))
    if subtype == "FLOAT":
        tag, data = _IEEE_FLOAT, np.ascontiguousarray(wave, dtype="<f4")
        extension, fact = struct.pack("<H", 0), struct.pack("<4sII", b"fact", 4, len(wave))
    else:
        tag, data = _PCM, np.empty(len(wave), dtype="<i2")
        for start in range(0, len(wave), BLOCK):
            steps = np.rint(np.asarray(wave[start : start + BLOCK], dtype=np.float64) * 32768)
            data[start : start + BLOCK] = np.clip(steps, -32768, 32767)
        extension, fact = b"", b""
    width = data.itemsize
    form = struct.pack("<HHIIHH", tag, 1, rate, rate * width, width, 8 * width) + extension
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(form)) + form + fact + struct.pack("<4sI", b"data", data.nbytes)
    if len(body) + data.nbytes > 0xFFFFFFFF:
        raise DataError(f"{len(wave)} samples are more than a WAV file can hold", where=str(path))
    with path.open("wb") as stream:
        stream.write(struct.pack("<4sI", b"RIFF", len(body) + data.nbytes) + body)
        stream.write(data.data)
