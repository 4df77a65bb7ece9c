"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean. Here a WAV file is
written whose bytes depend on its sound alone, and a waveform is surveyed: for exact zeros at its ends, which encoders, cutters and
anonymisers pad with, and for what else is odd in it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import fft

from pipeline.audio.decoding import (
    BLOCK,
    EXTENSIONS,
    HIGHEST_RATE,
    LOWEST_RATE,
    MOST_CHANNELS,
    Changed,
    Stream,
    load,
    open_regular,
    open_stream,
    read_blocks,
)
from pipeline.audio.rates import RESAMPLER, Resampler, cut_uniformly, resample, uniform_segments
from pipeline.errors import DataError

__all__ = [
    "BLOCK",
    "CANCELLED",
    "CLIPPED_RUN",
    "CUT_DB",
    "DIGITAL_SILENCE_MS",
    "EXTENSIONS",
    "HIGHEST_RATE",
    "LOWEST_RATE",
    "MOST_CHANNELS",
    "NOTHING_DB",
    "RESAMPLER",
    "Changed",
    "Resampler",
    "Subtype",
    "Survey",
    "TooLong",
    "count_zeros_at_ends",
    "cut_uniformly",
    "explain_too_long",
    "load",
    "open_regular",
    "resample",
    "survey",
    "trim_zeros",
    "uniform_segments",
    "write",
]  # fmt: skip

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


# Speech of 16 bits begins or ends with a zero sample by chance (10 % of LibriSpeech's flac files; 1.5 % with 8 of them at 16 kHz),
# and the challenge's B2 ends all of its files with more.
DIGITAL_SILENCE_MS = 0.5
"""A run of exact zeros at an end that is so long is digital silence."""


def count_zeros_at_ends(wave: np.ndarray) -> tuple[int, int]:
    """How many samples at the begin and at the end of a waveform [n] are exactly zero; (n, 0) for zeros alone."""
    sounds = np.asarray(wave) != 0
    if not sounds.any():
        return len(sounds), 0
    return int(sounds.argmax()), int(sounds[::-1].argmax())


def trim_zeros(wave: np.ndarray) -> np.ndarray:
    """The waveform [n] from its first to its last sample that is not exactly zero; empty for zeros alone."""
    leading, trailing = count_zeros_at_ends(wave)
    return wave[leading : len(wave) - trailing]


CANCELLED = 0.1
"""Channels cancel each other if their mean has less than this part of the power that it would have if they had nothing in
common: for two channels of one level, a correlation below -0.9."""

CLIPPED_RUN = 3
"""So many consecutive samples of a channel within a 16-bit step of full scale are clipping, not a peak."""

NOTHING_DB = -60.0
"""A band so far below the loudest one of the long-term spectrum holds no speech: fricatives lie above it, also in quiet recordings, and
what a low-pass filter, a resampler or rounding to 16 bits leaves below."""

CUT_DB = -20.0
"""By so much a spectrum falls within two bands where it is cut off."""

FRAME, BAND = 512, 8
"""Samples of a frame up to 24 kHz, and more above; of its spectrum so many lines make a band: 250 Hz at 16 kHz."""

_TAGS = 1 << 26  # bytes of a file for all that is no sound


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
        bandwidth: Hz above which the mix holds nothing (:data:`NOTHING_DB`); half the rate where it holds something everywhere.
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
    bandwidth: float


class TooLong(DataError):
    """A file that lasts longer than is allowed."""


def survey(
    path: Path, longest_seconds: float = math.inf, hear: Callable[[np.ndarray, int], None] | None = None
) -> Survey:
    """Decode a file to its end, a block at a time, and keep nothing of it.

    Args:
        path: the file.
        longest_seconds: longer files are refused.
        hear: is given each block of the mix, float32 [n], with its rate, so that what else is measured needs no second decoding.

    Raises:
        TooLong: it lasts longer than ``longest_seconds``; it is not decoded where that is seen before.
        DataError: as :func:`load`.
    """
    samples, clipped, heard = 0, False, _SoundDigest()
    with open_stream(path) as sound:
        rate, count = int(sound.samplerate), int(sound.channels)
        _check_length(sound, longest_seconds, path)
        full = np.zeros((0, count), bool)
        mixed, single, spectrum = _Power(1), _Power(count), _Spectrum(rate)
        for channels, wave in read_blocks(sound, path):
            samples += len(wave)
            heard.add(wave)
            spectrum.add(wave)
            if hear is not None:
                hear(wave, rate)
            mixed.add(wave[:, None])
            if count > 1:
                single.add(channels)
            # The last samples of the block before belong to a run that goes on.
            full = np.concatenate([full[1 - CLIPPED_RUN :], np.abs(channels) >= 1 - 2.0**-15])
            if full.any():
                run = np.logical_and.reduce([full[k : len(full) - CLIPPED_RUN + 1 + k] for k in range(CLIPPED_RUN)])
                clipped = clipped or bool(run.any())
    if samples > longest_seconds * rate:
        raise explain_too_long(samples / rate, longest_seconds, path)
    level = _to_decibels(float(mixed.power()[0]))
    of_channels, cancelling = level, False
    if count > 1:
        unrelated = float(single.variance().mean()) / count
        cancelling = bool(mixed.variance()[0] < CANCELLED * unrelated)
        of_channels = _to_decibels(float(single.power().mean()))
    zeros, what, band = (heard.leading, heard.trailing), heard.digest.hexdigest(), spectrum.bandwidth
    return Survey(rate, samples, count, level, clipped, of_channels, cancelling, zeros, what, band)


class _SoundDigest:
    """What lies between the exact zeros at the ends of a waveform that comes in blocks."""

    def __init__(self) -> None:
        self.leading, self.trailing, self.digest = 0, 0, hashlib.sha256()
        self._begun = False

    def add(self, wave: np.ndarray) -> None:
        """The next block, float32 [n]."""
        leading, trailing = count_zeros_at_ends(wave)
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


class _Spectrum:
    """The long-term power spectrum of a waveform that comes in blocks."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._window = np.hanning(FRAME * max(1, round(rate / 16_000))).astype(np.float32)
        self._power = np.zeros(len(self._window) // 2 + 1)

    def add(self, wave: np.ndarray) -> None:
        """The next block, float32 [n]; what is left behind its last frame is not counted."""
        frames = wave[: len(wave) // len(self._window) * len(self._window)].reshape(-1, len(self._window))
        self._power += np.square(np.abs(fft.rfft(frames * self._window, axis=1)), dtype=np.float64).sum(axis=0)

    @property
    def bandwidth(self) -> float:
        """In Hz, to a band of the spectrum; half the rate where the spectrum fades out, as it does of voices, and is not cut off."""
        bands = self._power[1:].reshape(-1, BAND).mean(axis=1)
        above = np.flatnonzero(bands > bands.max() * 10 ** (NOTHING_DB / 10))
        edge = int(above[-1]) if len(above) else len(bands)
        below, beyond = bands[max(0, edge - 1) : edge + 1], bands[edge + 2 : edge + 4]
        is_cut = len(beyond) and beyond.max() < below.max() * 10 ** (CUT_DB / 10)
        return (edge + 1) * BAND * self._rate / len(self._window) if is_cut else self._rate / 2


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
        variance = self.power() - np.square(self.sums / self.samples)
        return np.where(variance > 1e-12 * self.power(), variance, 0.0)


def _to_decibels(power: float) -> float:
    return 10 * float(np.log10(power)) if power > 0 else -np.inf


def _check_length(sound: Stream, longest_seconds: float, path: Path) -> None:
    """Refuse what a header, or the size of the file, shows to be too long."""
    seconds = sound.frames / sound.samplerate
    if sound.is_counted and seconds > longest_seconds:
        raise explain_too_long(seconds, longest_seconds, path)
    # No sample takes more than eight bytes.
    per_second = sound.samplerate * sound.channels * 8
    size = path.stat().st_size - _TAGS
    if size > longest_seconds * per_second:
        raise TooLong(
            f"an audio file has {size + _TAGS} bytes, more than dataset.longest_hours={longest_seconds / 3600:g} of sound take; "
            f"dataset.longest_hours={math.ceil(size / per_second / 3600)} reads it",
            where=str(path),
        )


def explain_too_long(seconds: float, longest_seconds: float, path: Path) -> TooLong:
    """That a file lasts so many seconds, with the override that takes it."""
    hours = math.ceil(seconds / 3600)
    return TooLong(
        f"an audio file lasts {seconds / 3600:.2f} hours, longer than dataset.longest_hours={longest_seconds / 3600:g}; "
        f"dataset.longest_hours={hours} takes it",
        where=str(path),
    )
