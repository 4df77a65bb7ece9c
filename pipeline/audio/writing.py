"""Writing a WAV file whose bytes depend on its sound alone."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.audio.decoding import BLOCK
from pipeline.errors import DataError

Subtype = Literal["FLOAT", "PCM_16", "PCM_24"]


_PCM, _IEEE_FLOAT = 1, 3


def write(path: Path, wave: np.ndarray, rate: int, subtype: Subtype = "FLOAT") -> None:
    """Write a WAV file whose bytes depend on the samples, the rate and the subtype alone.

    libsndfile puts the time of day into the PEAK chunk of a float WAV file, hence a header of our own: ``fmt``,
    for float also ``fact``, ``data``, as in the RIFF/WAVE specification.

    Args:
        path: the file; its folder exists.
        wave: float [n] or [n, channels], full scale 1. ``FLOAT`` keeps float32 as it is; ``PCM_16`` rounds to multiples of 2^-15
            and clips to [-1, 1 - 2^-15], so that what :func:`load` reads from a 16-bit file is written back unchanged, and
            ``PCM_24`` likewise.
        rate: sampling rate in Hz.
        subtype: ``FLOAT`` or ``PCM_16``.

    Raises:
        DataError: samples that are not finite, or more bytes than a WAV file can hold.
    """
    if not np.isfinite(wave).all():
        raise DataError("samples that are NaN or infinite are not written", where=str(path))
    channels = 1 if wave.ndim == 1 else wave.shape[1]
    if subtype == "FLOAT":
        tag, width, data = _IEEE_FLOAT, 4, np.ascontiguousarray(wave, dtype="<f4")
        extension, fact = struct.pack("<H", 0), struct.pack("<4sII", b"fact", 4, len(wave))
    else:
        tag, width = _PCM, 2 if subtype == "PCM_16" else 3
        data = _to_integers(wave, width)
        extension, fact = b"", b""
    frame = channels * width
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * frame, frame, 8 * width) + extension
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(form)) + form + fact + struct.pack("<4sI", b"data", data.nbytes)
    padding = bytes(data.nbytes % 2)
    if len(body) + data.nbytes + len(padding) > 0xFFFFFFFF:
        raise DataError(f"{len(wave)} samples are more than a WAV file can hold", where=str(path))
    with path.open("wb") as stream:
        stream.write(struct.pack("<4sI", b"RIFF", len(body) + data.nbytes + len(padding)) + body)
        stream.write(data.data)
        stream.write(padding)


def _to_integers(wave: np.ndarray, width: int) -> np.ndarray:
    """Samples as little-endian integers of 2 or 3 bytes: int16 of the same shape, or the bytes [..., 3] of each."""
    full = 1 << (8 * width - 1)
    data = np.empty(wave.shape, "<i2") if width == 2 else np.empty((*wave.shape, 3), np.uint8)
    for start in range(0, len(wave), BLOCK):
        steps = np.rint(np.asarray(wave[start : start + BLOCK], dtype=np.float64) * full)
        steps = np.clip(steps, -full, full - 1)
        if width == 2:
            data[start : start + BLOCK] = steps
        else:
            data[start : start + BLOCK] = steps.astype("<i4").view(np.uint8).reshape(*steps.shape, 4)[..., :3]
    return data
