"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean. Resampling is libsoxr's
``HQ`` recipe (:data:`RESAMPLER`): on sine waves its aliases lie below -130 dB and its error at 0.9 of the lower
Nyquist frequency below -60 dB, where ``scipy.signal.resample_poly`` and ``torchaudio.functional.resample`` with their
defaults alias at -12 and -10 dB and err by -23 and -12 dB; it is the fastest of the three and imports in 0.1 s. The
second of these is a choice all the same, because the VoicePrivacy Challenges' attackers hear speech through it.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from pipeline.containers import FORMATS, SUBTYPES, mpeg
from pipeline.containers.source import Source, odd
from pipeline.errors import DataError

Resampler = Literal["soxr_hq", "torchaudio_sinc"]
"""Ways to change the sampling rate: libsoxr's HQ recipe, or ``torchaudio.functional.resample`` with its defaults."""

RESAMPLER: Resampler = "soxr_hq"

BLOCK = 1 << 18
"""Samples a channel that are decoded at a time, so that a file of any length needs little more than its waveform."""

LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000
"""Sampling rates in Hz outside of which a header is taken to be wrong: speech needs the first, no recorder has more."""

MOST_CHANNELS = 32
"""More than the largest arrays of microphones in speech corpora record into one file."""

CANCELLED = 0.1
"""Channels cancel each other if their mean has less than this part of the power that it would have if they had nothing in
common: for two channels of one level, a correlation below -0.9."""

CLIPPED_RUN = 3
"""So many consecutive samples of a channel within a 16-bit step of full scale are clipping, not a peak."""

# Speech of 16 bits begins or ends with a zero sample by chance (10 % of LibriSpeech's flac files; 1.5 % with 8 of them at 16 kHz),
# and the challenge's B2 ends all of its files with more.
DIGITAL_SILENCE_MS = 0.5
"""A run of exact zeros at an end that is so long is digital silence."""

# fmt: off
EXTENSIONS = (
    ".aif", ".aifc", ".aiff", ".au", ".bwf", ".caf", ".flac", ".mp3", ".nist", ".oga", ".ogg", ".opus", ".rf64", ".snd",
    ".sph", ".w64", ".wav", ".wave",
)
# fmt: on
"""By these a folder's audio is found, in either case. What a file is, its content decides."""

Subtype = Literal["FLOAT", "PCM_16"]

_NO_COUNT = (1 << 63) - 1  # samples by libsndfile of a file whose header leaves them open
_UNKNOWN_KIND = (1, 4)  # libsndfile's errors for a format and for a coding that it does not know
_FIRST_ROOM = 1 << 24
_TAGS = 1 << 26  # bytes of a file for all that is no sound

_PCM, _IEEE_FLOAT = 1, 3

# A file that is touched while it is decoded is decoded again, so often.
_ATTEMPTS = 3
# No file system in use tells two writes apart that lie closer together (FAT: 2 s).
_TICK_NS = 2_000_000_000


class Changed(DataError):
    """A file is not, or not any more, what its digest says."""


@dataclass(frozen=True)
class Info:
    """What the header of an audio file says, without decoding it."""

    rate: int
    samples: int
    channels: int
    subtype: str


def info(path: Path) -> Info:
    """The header of an audio file.

    Raises:
        DataError: no such file, or nothing that libsndfile reads.
    """
    with _opened(path) as sound:
        return Info(int(sound.samplerate), int(sound.frames), int(sound.channels), str(sound.subtype))


@dataclass(frozen=True)
class Survey:
    """What decoding a file to its end shows.

    Attributes:
        rate: sampling rate in Hz.
        samples: samples a channel, at least one.
        channels: channels that are mixed to one.
        level_dbfs: RMS level of the mix in dB re full scale, -inf if all samples are zero.
        clipped: whether a channel stays at full scale for :data:`CLIPPED_RUN` samples or more.
        channels_dbfs: RMS level of the channels, the mean of their powers, in dB re full scale.
        cancelling: whether the channels cancel each other in the mix (:data:`CANCELLED`), whatever their offsets.
        zeros: how many samples of the mix at its begin and at its end are exactly zero.
        sound: sha256 of the mix as float32 without those: the same for files that differ in format or padding alone.
    """

    rate: int
    samples: int
    channels: int
    level_dbfs: float
    clipped: bool
    channels_dbfs: float
    cancelling: bool
    zeros: tuple[int, int]
    sound: str


class TooLong(DataError):
    """A file that lasts longer than is allowed."""


def survey(path: Path, longest_seconds: float = math.inf) -> Survey:
    """Decode a file to its end, a block at a time, and keep nothing of it.

    Raises:
        TooLong: it lasts longer than ``longest_seconds``; it is not decoded where that is seen before.
        DataError: as :func:`load`.
    """
    samples, clipped, heard = 0, False, _Heard()
    with _opened(path) as sound:
        rate, count = int(sound.samplerate), int(sound.channels)
        _check_length(sound, longest_seconds, path)
        full = np.zeros((0, count), bool)
        mixed, single = _Power(1), _Power(count)
        for channels, wave in _blocks(sound, path):
            samples += len(wave)
            heard.add(wave)
            mixed.add(wave[:, None])
            if count > 1:
                single.add(channels)
            # The last samples of the block before belong to a run that goes on.
            full = np.concatenate([full[1 - CLIPPED_RUN :], np.abs(channels) >= 1 - 2.0**-15])
            if full.any():
                run = np.logical_and.reduce([full[k : len(full) - CLIPPED_RUN + 1 + k] for k in range(CLIPPED_RUN)])
                clipped = clipped or bool(run.any())
    if samples > longest_seconds * rate:
        raise too_long(samples / rate, longest_seconds, path)
    level = _decibels(float(mixed.power()[0]))
    zeros, what = (heard.leading, heard.trailing), heard.digest.hexdigest()
    if count == 1:
        return Survey(rate, samples, count, level, clipped, level, False, zeros, what)
    unrelated = float(single.variance().mean()) / count
    cancelling = bool(mixed.variance()[0] < CANCELLED * unrelated)
    return Survey(
        rate, samples, count, level, clipped, _decibels(float(single.power().mean())), cancelling, zeros, what
    )


class _Heard:
    """What lies between the exact zeros at the ends of a waveform that comes in blocks."""

    def __init__(self) -> None:
        self.leading, self.trailing, self.digest = 0, 0, hashlib.sha256()
        self._begun = False

    def add(self, wave: np.ndarray) -> None:
        """The next block, float32 [n]."""
        leading, trailing = zeros_at_ends(wave)
        if leading == len(wave):
            self.leading, self.trailing = self.leading + leading * (not self._begun), self.trailing + leading
            return
        if self._begun:
            for start in range(0, self.trailing + leading, BLOCK):
                self.digest.update(bytes(4 * min(BLOCK, self.trailing + leading - start)))
        else:
            self.leading += leading
        self.digest.update(np.ascontiguousarray(wave[leading : len(wave) - trailing]).data)
        self._begun, self.trailing = True, trailing


class _Power:
    """Power and variance of channels that come in blocks [n, channels]."""

    def __init__(self, channels: int) -> None:
        self.samples, self.sums, self.squares = 0, np.zeros(channels), np.zeros(channels)

    def add(self, block: np.ndarray) -> None:
        self.samples += len(block)
        self.sums += block.sum(axis=0, dtype=np.float64)
        self.squares += np.square(block, dtype=np.float64).sum(axis=0)

    def power(self) -> np.ndarray:
        return self.squares / self.samples

    def variance(self) -> np.ndarray:
        """The power without what is constant. Where it is all rounding, it is none."""
        left = self.power() - np.square(self.sums / self.samples)
        return np.where(left > 1e-12 * self.power(), left, 0.0)


def _decibels(power: float) -> float:
    return 10 * float(np.log10(power)) if power > 0 else -np.inf


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
        found, before = _hashed(path)
        if found != sha256:
            break
        try:
            made = _decoded(path)
        except DataError:
            if _hashed(path) == (found, before):
                raise
            continue
        # A write within one tick of the clock leaves no other trace than the digest.
        recent = time.time_ns() - max(before[-2:]) < _TICK_NS
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
        with path.open("rb") as stream:
            before = _state(os.fstat(stream.fileno()))
            return hashlib.file_digest(stream, "sha256").hexdigest(), before
    except OSError as error:
        raise Changed(
            _unreadable(path, error).what,
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
    with _opened(path) as sound:
        # A header may promise anything: what has been decoded says how much room is needed.
        whole, place = np.empty(min(sound.frames, _FIRST_ROOM), np.float32), 0
        for _, wave in _blocks(sound, path):
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


class _Stream(soundfile.SoundFile):  # type: ignore[misc]
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


@contextmanager
def regular(path: Path) -> Iterator[int]:
    """A descriptor of a file that is open for reading.

    Raises:
        DataError: it is missing, may not be read, is empty (as the files of /proc seem to be), or is no regular file: a
            pipe or a device may have no end.
    """
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise DataError("an audio file is a folder, a pipe or a device", where=str(path))
        if not found.st_size:
            raise DataError("an audio file is empty", where=str(path))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[_Stream]:
    with regular(path) as descriptor:
        uncounted = mpeg.is_uncounted(Source(descriptor, path))
        try:
            stream = _Stream(_Unmeasured(descriptor) if uncounted else descriptor, closefd=False)
        except (soundfile.LibsndfileError, OSError, TypeError) as error:
            raise _unreadable(path, error) from error
        with stream:
            _check_kind(stream, path)
            try:
                yield stream
            except (soundfile.LibsndfileError, OSError) as error:
                raise _unreadable(path, error) from error


def _check_kind(sound: _Stream, path: Path) -> None:
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


def _check_length(sound: _Stream, longest_seconds: float, path: Path) -> None:
    """Refuse what a header, or the size of the file, shows to be too long."""
    seconds = sound.frames / sound.samplerate
    if sound.is_counted and seconds > longest_seconds:
        raise too_long(seconds, longest_seconds, path)
    # No sample takes more than eight bytes.
    per_second = sound.samplerate * sound.channels * 8
    size = path.stat().st_size - _TAGS
    if size > longest_seconds * per_second:
        raise TooLong(
            f"an audio file has {size + _TAGS} bytes, more than dataset.longest_hours={longest_seconds / 3600:g} of sound take; "
            f"dataset.longest_hours={math.ceil(size / per_second / 3600)} reads it",
            where=str(path),
        )


def too_long(seconds: float, longest_seconds: float, path: Path) -> TooLong:
    """That a file lasts so many seconds, with the override that takes it."""
    hours = math.ceil(seconds / 3600)
    return TooLong(
        f"an audio file lasts {seconds / 3600:.2f} hours, longer than dataset.longest_hours={longest_seconds / 3600:g}; "
        f"dataset.longest_hours={hours} takes it",
        where=str(path),
    )


def _blocks(sound: _Stream, path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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


def zeros_at_ends(wave: np.ndarray) -> tuple[int, int]:
    """How many samples at the begin and at the end of a waveform [n] are exactly zero; (n, 0) for zeros alone."""
    sounds = np.asarray(wave) != 0
    if not sounds.any():
        return len(sounds), 0
    return int(sounds.argmax()), int(sounds[::-1].argmax())


def without_zeros_at_ends(wave: np.ndarray) -> np.ndarray:
    """The waveform [n] from its first to its last sample that is not exactly zero; empty for zeros alone."""
    leading, trailing = zeros_at_ends(wave)
    return wave[leading : len(wave) - trailing]


def resample(wave: np.ndarray, rate: int, target: int, resampler: Resampler = RESAMPLER) -> np.ndarray:
    """Change the sampling rate; the same rate gives the waveform back.

    Args:
        wave: float32 [n].
        rate: sampling rate of ``wave`` in Hz.
        target: sampling rate wanted in Hz.
        resampler: how.

    Returns:
        float32 [m], m >= 1 for n >= 1: with ``soxr_hq`` m = round(n target / rate), with ``torchaudio_sinc`` that rounded up.
    """
    wave = np.ascontiguousarray(wave, dtype=np.float32)
    if rate == target or len(wave) == 0:
        return wave
    return _sinc(wave, rate, target) if resampler == "torchaudio_sinc" else _soxr(wave, rate, target)


def _sinc(wave: np.ndarray, rate: int, target: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample as sinc

    return np.asarray(sinc(torch.from_numpy(wave), rate, target).numpy(), dtype=np.float32)


def _soxr(wave: np.ndarray, rate: int, target: int) -> np.ndarray:
    import soxr

    made = np.asarray(soxr.resample(wave, rate, target, quality="HQ"), dtype=np.float32)
    wanted = max(1, round(len(wave) * target / rate))
    # soxr itself may stop a sample short of a length that falls on one half.
    return made[:wanted] if len(made) >= wanted else np.pad(made, (0, wanted - len(made)))


def segment_borders(files: Sequence[tuple[int, int]], count: int) -> list[list[tuple[int, int, int]]]:
    """Cut joined files, given as (samples, rate), into ``count`` uniform segments of [(place, start, stop)].

    Times are integers in units that every rate divides, so borders are exact, and no sample is lost or used twice.
    """
    unit = math.lcm(*(rate for _, rate in files))
    ends, total = [], 0
    for samples, rate in files:
        total += samples * (unit // rate)
        ends.append(total)
    made = []
    for number in range(count):
        low, high = -(-total * number // count), -(-total * (number + 1) // count)
        segment, begin = [], 0
        for place, ((samples, rate), end) in enumerate(zip(files, ends)):
            step = unit // rate
            # A sample belongs to the segment in which it begins.
            start = min(max(-((begin - low) // step), 0), samples)
            stop = min(max(-((begin - high) // step), 0), samples)
            if start < stop:
                segment.append((place, start, stop))
            begin = end
        made.append(segment)
    return made


def uniform_segments(
    recordings: Sequence[tuple[np.ndarray, int]], count: int, resampler: Resampler = RESAMPLER
) -> tuple[list[np.ndarray], int]:
    """Join recordings, given as (waveform float32 [n], rate in Hz), and cut them into ``count`` uniform segments.

    Returns:
        The segments in order, and their sampling rate: that of the first recording. A segment may be empty.
    """
    rate = recordings[0][1]
    waves = []
    for cut in segment_borders([(len(wave), own) for wave, own in recordings], count):
        pieces = [
            resample(recordings[place][0][start:stop], recordings[place][1], rate, resampler)
            for place, start, stop in cut
        ]
        waves.append(np.concatenate(pieces) if pieces else np.zeros(0, np.float32))
    return waves, rate


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


def _unreadable(path: Path, error: Exception) -> DataError:
    if not path.is_file():
        return DataError("an audio file is missing", where=str(path))
    if isinstance(error, soundfile.LibsndfileError):
        what = f"an audio file cannot be read ({error.error_string.strip().rstrip('.')})"
        return odd(path, what) if error.code in _UNKNOWN_KIND else DataError(what, where=str(path))
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(f"an audio file cannot be read ({reason})", where=str(path))
