"""Opening an audio file: what is read at all, and its sound a block at a time."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile

from pipeline.containers import FORMATS, SUBTYPES, frames
from pipeline.containers.source import Source, odd
from pipeline.errors import DataError

# Raised when a file that was read before gives other samples.
VERSION = "audio opening 2"

BLOCK = 1 << 18
"""Samples a channel that are decoded at a time, so that a file of any length needs little more than its waveform."""

LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000
"""Sampling rates in Hz outside of which a header is taken to be wrong: speech needs the first, no recorder has more."""

MOST_CHANNELS = 32
"""More than the largest arrays of microphones in speech corpora record into one file."""

# fmt: off
EXTENSIONS = (
    ".aif", ".aifc", ".aiff", ".au", ".bwf", ".caf", ".flac", ".mp3", ".nist", ".oga", ".ogg", ".opus", ".rf64", ".snd",
    ".sph", ".w64", ".wav", ".wave",
)
# fmt: on
"""By these a folder's audio is found, in either case. What a file is, its content decides."""

_NO_COUNT = (1 << 63) - 1  # samples by libsndfile of a file whose header leaves them open
_UNKNOWN_KIND = (1, 4)  # libsndfile's errors for a format and for a coding that it does not know


@contextmanager
def open_regular(path: Path) -> Iterator[int]:
    """A descriptor of a file that is open for reading.

    Raises:
        DataError: it is missing, may not be read, is empty (as the files of /proc seem to be), or is no regular file: a
            pipe or a device may have no end.
    """
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise explain_unreadable(path, error) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DataError("an audio file is a folder, a pipe or a device", where=str(path))
        if not status.st_size:
            raise DataError("an audio file is empty", where=str(path))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_stream(path: Path) -> Iterator[Stream]:
    """A file, ready to be read from its start.

    Raises:
        DataError: it is missing, unreadable, or of a kind that is not accepted.
    """
    with open_regular(path) as descriptor:
        uncounted = frames.is_uncounted(Source(descriptor, path))
        try:
            stream = Stream(_Unmeasured(descriptor) if uncounted else descriptor, closefd=False)
        except (soundfile.LibsndfileError, OSError, TypeError) as error:
            raise explain_unreadable(path, error) from error
        with stream:
            _check_kind(stream, path)
            try:
                yield stream
            except (soundfile.LibsndfileError, OSError) as error:
                raise explain_unreadable(path, error) from error


class Stream(soundfile.SoundFile):  # type: ignore[misc]
    """A file that is read from its start to its end.

    After each read soundfile seeks to where the file already is, unless the file cannot seek; an mp3 decoder does not come
    back from that to the samples that it gives when left alone (measured: errors up to 0.1 of full scale).
    """

    def seekable(self) -> bool:
        return False

    @property
    def is_counted(self) -> bool:
        """Whether the header says how many samples there are."""
        return self.frames < _NO_COUNT and not isinstance(self.name, _Unmeasured)


class _Unmeasured(io.RawIOBase):
    """A file that seems to go on for long behind its end.

    Where no header counts the frames of an mp3 file, its decoder guesses their number from the size of the file and of the
    first frames, and libsndfile reads no further than that guess. Here the guess is always too long, so that reading ends
    where the frames do.
    """

    # The highest bit rate of MPEG audio is 56 times the lowest.
    _TIMES = 64

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._place, self._from_end = descriptor, 0, False
        self._end = os.fstat(descriptor).st_size * self._TIMES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = (0, self._place, self._end)[whence]
        self._place, self._from_end = start + offset, whence == os.SEEK_END
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # The decoder looks for a tag at the end, and gives up on a file that has less than a tag's bytes there.
        content = bytes(len(buffer)) if self._from_end else os.pread(self._descriptor, len(buffer), self._place)
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def _check_kind(sound: Stream, path: Path) -> None:
    """Refuse containers whose completeness is not checked, and headers that cannot be right."""
    if sound.format not in FORMATS or sound.subtype not in SUBTYPES:
        raise odd(path, f"an audio file is of a kind that is not read here ({sound.format}, {sound.subtype})")
    if not LOWEST_RATE <= sound.samplerate <= HIGHEST_RATE:
        raise DataError(
            f"an audio file is sampled at {sound.samplerate} Hz by its header; {LOWEST_RATE} to {HIGHEST_RATE} Hz are read",
            where=str(path),
        )
    if sound.channels > MOST_CHANNELS:
        raise DataError(
            f"an audio file has {sound.channels} channels by its header; at most {MOST_CHANNELS} are read",
            where=str(path),
        )


def read_blocks(sound: Stream, path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The file in blocks: its channels, float32 [n, channels], and their mean, float32 [n].

    Raises:
        DataError: no samples, fewer than the header says, or samples that are not finite.
    """
    done = 0
    while len(channels := sound.read(BLOCK, dtype="float32", always_2d=True)):
        if not np.isfinite(channels).all():
            raise DataError("an audio file holds samples that are NaN or infinite", where=str(path))
        wave = channels[:, 0] if channels.shape[1] == 1 else channels.mean(axis=1, dtype=np.float64).astype(np.float32)
        done += len(wave)
        yield channels, wave
    if not done:
        raise DataError("an audio file has no samples", where=str(path))
    if sound.is_counted and done < sound.frames:
        raise DataError(
            f"an audio file ends after {done} of {sound.frames} samples",
            where=str(path),
            cause="a copy that was cut off",
        )


def explain_unreadable(path: Path, error: Exception) -> DataError:
    """That a file cannot be read, and why."""
    if not path.is_file():
        return DataError("an audio file is missing", where=str(path))
    if isinstance(error, soundfile.LibsndfileError):
        what = f"an audio file cannot be read ({error.error_string.strip().rstrip('.')})"
        return odd(path, what) if error.code in _UNKNOWN_KIND else DataError(what, where=str(path))
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(f"an audio file cannot be read ({reason})", where=str(path))


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
        return _decode_file(path)
    for _ in range(_ATTEMPTS):
        begun = time.time_ns()
        digest_found, before = _hash_file(path)
        if digest_found != sha256:
            break
        try:
            decoded = _decode_file(path)
        except DataError:
            if _hash_file(path) == (digest_found, before):
                raise
            continue
        # A second write within one tick of the clock leaves no other trace than the digest.
        recent = begun - max(before[-2:]) < _TICK_NS
        if _hash_file(path) == (digest_found, before) if recent else _read_state(path) == before:
            return decoded
    raise Changed(
        "an audio file is not what it was when the data were read",
        where=str(path),
        cause="it was changed or copied over while the run went on",
        remedy="run the same command again; what does not stand on this file is reused",
    )


def _hash_file(path: Path) -> tuple[str, tuple[int, ...]]:
    """The digest of a file's bytes, and its state before they were read."""
    try:
        with open_regular(path) as descriptor, open(descriptor, "rb", closefd=False) as stream:
            before = _make_state(os.fstat(descriptor))
            return hashlib.file_digest(stream, "sha256").hexdigest(), before
    except (DataError, OSError) as error:
        raise Changed(
            error.what if isinstance(error, DataError) else f"an audio file cannot be read ({error.strerror})",
            where=str(path),
            cause="it was moved or taken away while the run went on",
            remedy="restore it and run the same command again",
        ) from error


def _read_state(path: Path) -> tuple[int, ...]:
    try:
        return _make_state(path.stat())
    except OSError:
        return ()


def _make_state(status: os.stat_result) -> tuple[int, ...]:
    """By what a file is told to be as it was; the times in nanoseconds come last."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _decode_file(path: Path) -> tuple[np.ndarray, int]:
    with open_stream(path) as sound:
        # A header may promise anything: what has been decoded says how much room is needed.
        samples, place = np.empty(min(sound.frames, _FIRST_ROOM), np.float32), 0
        for _, wave in read_blocks(sound, path):
            needed = place + len(wave)
            if needed > len(samples):
                _resize(samples, min(sound.frames, max(needed, len(samples) * 3 // 2)), path)
            samples[place:needed] = wave
            place = needed
        _resize(samples, place, path)
        return samples, int(sound.samplerate)


def _resize(wave: np.ndarray, length: int, path: Path) -> None:
    try:
        wave.resize(length, refcheck=False)
    except (MemoryError, ValueError) as error:
        raise DataError(
            f"an audio file of {length} samples or more does not fit into memory", where=str(path)
        ) from error
