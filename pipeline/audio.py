"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean. Resampling is libsoxr's
``HQ`` recipe (:data:`RESAMPLER`): on sine waves its aliases lie below -130 dB and its error at 0.9 of the lower
Nyquist frequency below -60 dB, where ``scipy.signal.resample_poly`` and ``torchaudio.functional.resample`` with their
defaults alias at -12 and -10 dB and err by -23 and -12 dB; it is the fastest of the three and imports in 0.1 s. The
second of these is a choice all the same, because the VoicePrivacy Challenges' attackers hear speech through it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from pipeline.errors import DataError

Resampler = Literal["soxr_hq", "torchaudio_sinc"]
"""Ways to change the sampling rate: libsoxr's HQ recipe, or ``torchaudio.functional.resample`` with its defaults."""

RESAMPLER: Resampler = "soxr_hq"

BLOCK = 1 << 18
"""Samples a channel that are decoded at a time, so that a file of any length needs little more than its waveform."""

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

_PCM, _IEEE_FLOAT = 1, 3


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
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError) as error:
        raise _unreadable(path, error) from error
    return Info(int(header.samplerate), int(header.frames), int(header.channels), str(header.subtype))


@dataclass(frozen=True)
class Survey:
    """What decoding a file to its end shows.

    Attributes:
        rate: sampling rate in Hz.
        samples: samples a channel, at least one.
        channels: channels that are mixed to one.
        level_dbfs: RMS level of the mix in dB re full scale, -inf if all samples are zero.
        clipped: whether a channel stays at full scale for :data:`CLIPPED_RUN` samples or more.
        zeros: how many samples of the mix at its begin and at its end are exactly zero.
        sound: sha256 of the mix as float32 without those: the same for files that differ in format or padding alone.
    """

    rate: int
    samples: int
    channels: int
    level_dbfs: float
    clipped: bool
    zeros: tuple[int, int]
    sound: str


def survey(path: Path) -> Survey:
    """Decode a file to its end, a block at a time, and keep nothing of it.

    Raises:
        DataError: as :func:`load`.
    """
    samples, square, clipped, heard = 0, 0.0, False, _Heard()
    with _opened(path) as sound:
        full = np.zeros((0, sound.channels), bool)
        for channels, wave in _blocks(sound, path):
            samples += len(wave)
            heard.add(wave)
            square += float(np.square(wave, dtype=np.float64).sum())
            # The last samples of the block before belong to a run that goes on.
            full = np.concatenate([full[1 - CLIPPED_RUN :], np.abs(channels) >= 1 - 2.0**-15])
            if full.any():
                run = np.logical_and.reduce([full[k : len(full) - CLIPPED_RUN + 1 + k] for k in range(CLIPPED_RUN)])
                clipped = clipped or bool(run.any())
        level = 10 * float(np.log10(square / samples)) if square > 0 else -np.inf
        zeros, what = (heard.leading, heard.trailing), heard.digest.hexdigest()
        return Survey(int(sound.samplerate), samples, int(sound.channels), level, clipped, zeros, what)


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


def load(path: Path) -> tuple[np.ndarray, int]:
    """Decode a file (wav, flac, mp3, ogg: whatever libsndfile reads, by content, not by name) and mix it to one channel.

    Returns:
        The waveform, float32 [n], n >= 1, and its sampling rate in Hz.

    Raises:
        DataError: the file is missing, unreadable, without samples, shorter than its header says, or holds samples
            that are not finite.
    """
    with _opened(path) as sound:
        try:
            whole = np.empty(sound.frames, np.float32)
        except (MemoryError, ValueError) as error:
            raise DataError(
                f"an audio file of {sound.frames} samples does not fit into memory", where=str(path)
            ) from error
        place = 0
        for _, wave in _blocks(sound, path):
            whole[place : place + len(wave)] = wave
            place += len(wave)
        return whole, int(sound.samplerate)


class _Stream(soundfile.SoundFile):  # type: ignore[misc]
    """A file that is read from its start to its end.

    After each read soundfile seeks to where the file already is, unless the file cannot seek; an mp3 decoder does not come
    back from that to the samples that it gives when left alone (measured: errors up to 0.1 of full scale).
    """

    def seekable(self) -> bool:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[_Stream]:
    try:
        stream = _Stream(str(path))
    # A TypeError: soundfile wants to be told the rate of a file called .raw.
    except (soundfile.LibsndfileError, OSError, TypeError) as error:
        raise _unreadable(path, error) from error
    with stream:
        try:
            yield stream
        except (soundfile.LibsndfileError, OSError) as error:
            raise _unreadable(path, error) from error


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
    if done < sound.frames:
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
    if path.stat().st_size == 0:
        return DataError("an audio file is empty", where=str(path))
    reason = getattr(error, "error_string", "") or str(error)
    return DataError(f"an audio file cannot be read ({reason.strip().rstrip('.')})", where=str(path))
