"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean. Resampling is libsoxr's
``HQ`` recipe (:data:`RESAMPLER`): on sine waves its aliases lie below -130 dB and its error at 0.9 of the lower
Nyquist frequency below -60 dB, where ``scipy.signal.resample_poly`` and ``torchaudio.functional.resample`` with their
defaults alias at -12 and -10 dB and err by -23 and -12 dB; it is the fastest of the three and imports in 0.1 s.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from pipeline.errors import DataError

RESAMPLER = "soxr_hq"

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


def load(path: Path) -> tuple[np.ndarray, int]:
    """Decode a file (wav, flac, mp3, ogg: whatever libsndfile reads) and mix it to one channel.

    Returns:
        The waveform, float32 [n], n >= 1, and its sampling rate in Hz.

    Raises:
        DataError: the file is missing, unreadable, without samples, shorter than its header says, or holds samples
            that are not finite.
    """
    try:
        with soundfile.SoundFile(str(path)) as sound:
            promised, rate = int(sound.frames), int(sound.samplerate)
            channels = sound.read(dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, OSError) as error:
        raise _unreadable(path, error) from error
    if len(channels) == 0:
        raise DataError("an audio file has no samples", where=str(path))
    if len(channels) < promised:
        raise DataError(
            f"an audio file ends after {len(channels)} of {promised} samples",
            where=str(path),
            cause="a copy that was cut off",
        )
    wave = channels[:, 0] if channels.shape[1] == 1 else channels.mean(axis=1, dtype=np.float64).astype(np.float32)
    if not np.isfinite(wave).all():
        raise DataError("an audio file holds samples that are NaN or infinite", where=str(path))
    return np.ascontiguousarray(wave), rate


def resample(wave: np.ndarray, rate: int, target: int) -> np.ndarray:
    """Change the sampling rate with :data:`RESAMPLER`; the same rate gives the waveform back.

    Args:
        wave: float32 [n].
        rate: sampling rate of ``wave`` in Hz.
        target: sampling rate wanted in Hz.

    Returns:
        float32 [m] with m = round(n target / rate), and at least one sample for n >= 1.
    """
    wave = np.ascontiguousarray(wave, dtype=np.float32)
    if rate == target or len(wave) == 0:
        return wave
    import soxr

    made = np.asarray(soxr.resample(wave, rate, target, quality="HQ"), dtype=np.float32)
    wanted = max(1, round(len(wave) * target / rate))
    # soxr itself may stop a sample short of a length that falls on one half.
    return made[:wanted] if len(made) >= wanted else np.pad(made, (0, wanted - len(made)))


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
        tag, width, data = _IEEE_FLOAT, 4, np.asarray(wave, dtype="<f4").tobytes()
        extension, fact = struct.pack("<H", 0), struct.pack("<4sII", b"fact", 4, len(wave))
    else:
        steps = np.clip(np.rint(np.asarray(wave, dtype=np.float64) * 32768), -32768, 32767)
        tag, width, data = _PCM, 2, steps.astype("<i2").tobytes()
        extension, fact = b"", b""
    form = struct.pack("<HHIIHH", tag, 1, rate, rate * width, width, 8 * width) + extension
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(form)) + form + fact + struct.pack("<4sI", b"data", len(data))
    if len(body) + len(data) > 0xFFFFFFFF:
        raise DataError(f"{len(wave)} samples are more than a WAV file can hold", where=str(path))
    with path.open("wb") as stream:
        stream.write(struct.pack("<4sI", b"RIFF", len(body) + len(data)) + body)
        stream.write(data)


def _unreadable(path: Path, error: Exception) -> DataError:
    if not path.is_file():
        return DataError("an audio file is missing", where=str(path))
    if path.stat().st_size == 0:
        return DataError("an audio file is empty", where=str(path))
    reason = getattr(error, "error_string", "") or str(error)
    return DataError(f"an audio file cannot be read ({reason.strip().rstrip('.')})", where=str(path))
