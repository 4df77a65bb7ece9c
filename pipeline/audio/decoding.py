"""Decoding a whole file to a waveform: what is decoded is what was hashed."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np

from pipeline.audio.opening import blocks, opened, regular
from pipeline.errors import DataError

_FIRST_ROOM = 1 << 24  # samples for which room is made before any is decoded
# A file that is touched while it is decoded is decoded again, so often.
_ATTEMPTS = 3
# No file system in use tells two writes apart that lie closer together (FAT: 2 s).
_TICK_NS = 2_000_000_000


class Changed(DataError):
    """A file is not, or not any more, what its digest says."""


def load(path: Path, sha256: str = "") -> tuple[np.ndarray, int]:
    """Decode a file (wav, flac, mp3, ogg, …: :data:`pipeline.containers.FORMATS`, by content, not by name) to its end, and
    mix it to one channel.

    Args:
        path: the file.
        sha256: of its bytes, as a manifest has it. What is decoded is then what has this digest: the file is hashed before, and
            nothing of it has changed after. A file that was only touched in between is decoded again.

    Returns:
        The waveform, float32 [n], n >= 1, and its sampling rate in Hz.

    Raises:
        Changed: its digest is another one.
        DataError: the file is missing, unreadable, of a kind that is not accepted, without samples, shorter than its header
            says, or holds samples that are not finite.
    """
    if not sha256:
        return _decoded(path)
    for _ in range(_ATTEMPTS):
        begun = time.time_ns()
        found, before = _hashed(path)
        if found != sha256:
            break
        try:
            made = _decoded(path)
        except DataError:
            if _hashed(path) == (found, before):
                raise
            continue
        # A second write within one tick of the clock leaves no other trace than the digest.
        recent = begun - max(before[-2:]) < _TICK_NS
        if _hashed(path) == (found, before) if recent else _state_of(path) == before:
            return made
    raise Changed(
        "an audio file is not what it was when the data were read",
        where=str(path),
        cause="it was changed or copied over while the run went on",
        remedy="run the same command again; what does not stand on this file is reused",
    )


def _hashed(path: Path) -> tuple[str, tuple[int, ...]]:
    """The digest of a file's bytes, and its state before they were read."""
    try:
        with regular(path) as descriptor, open(descriptor, "rb", closefd=False) as stream:
            before = _state(os.fstat(descriptor))
            return hashlib.file_digest(stream, "sha256").hexdigest(), before
    except (DataError, OSError) as error:
        raise Changed(
            error.what if isinstance(error, DataError) else f"an audio file cannot be read ({error.strerror})",
            where=str(path),
            cause="it was moved or taken away while the run went on",
            remedy="restore it and run the same command again",
        ) from error


def _state_of(path: Path) -> tuple[int, ...]:
    try:
        return _state(path.stat())
    except OSError:
        return ()


def _state(found: os.stat_result) -> tuple[int, ...]:
    """By what a file is told to be as it was; the times in nanoseconds come last."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _decoded(path: Path) -> tuple[np.ndarray, int]:
    with opened(path) as sound:
        # A header may promise anything: what has been decoded says how much room is needed.
        whole, place = np.empty(min(sound.frames, _FIRST_ROOM), np.float32), 0
        for _, wave in blocks(sound, path):
            needed = place + len(wave)
            if needed > len(whole):
                _resize(whole, min(sound.frames, max(needed, len(whole) * 3 // 2)), path)
            whole[place:needed] = wave
            place = needed
        _resize(whole, place, path)
        return whole, int(sound.samplerate)


def _resize(wave: np.ndarray, length: int, path: Path) -> None:
    try:
        wave.resize(length, refcheck=False)
    except (MemoryError, ValueError) as error:
        raise DataError(
            f"an audio file of {length} samples or more does not fit into memory", where=str(path)
        ) from error
