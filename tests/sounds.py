"""Audio files of every container as bytes, what is done to them, and a decoder that is not libsndfile (FFmpeg's, by PyAV)."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import av
import numpy as np
import soundfile

RATE = 16_000
av.logging.set_level(av.logging.PANIC)


def noise(samples: int = 8001, seed: int = 0) -> np.ndarray:
    """White noise at -20 dBFS, float64 [samples]."""
    return 0.1 * np.random.default_rng(seed).standard_normal(samples)


def encoded(form: str, subtype: str, wave: np.ndarray | None = None, rate: int = RATE, **how: object) -> bytes:
    """A file of libsndfile's."""
    file = io.BytesIO()
    soundfile.write(file, noise() if wave is None else wave, rate, format=form, subtype=subtype, **how)
    return file.getvalue()


def rifx(wave: np.ndarray) -> bytes:
    """A big-endian WAV file of 16 bits."""
    sound = np.rint(wave * 32767).astype(">i2").tobytes()
    form = struct.pack(">4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    return (
        b"RIFX" + struct.pack(">I", 36 + len(sound)) + b"WAVE" + form + struct.pack(">4sI", b"data", len(sound)) + sound
    )


def mp3(wave: np.ndarray, mode: str = "VARIABLE", **how: object) -> bytes:
    return encoded("MP3", "MPEG_LAYER_III", wave, bitrate_mode=mode, compression_level=0.3, **how)


def uncounted(file: bytes) -> bytes:
    """An MP3 file at 16 kHz without the frame that counts the others."""
    kbit = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)[file[2] >> 4]
    size = 72 * kbit * 1000 // RATE + (file[2] >> 1 & 1)
    assert b"Xing" in file[:size] or b"Info" in file[:size]
    return file[size:]


def patched(file: bytes, place: int, content: bytes) -> bytes:
    return file[:place] + content + file[place + len(content) :]


def open_flac(file: bytes) -> bytes:
    """A FLAC file whose header leaves the number of samples open, as encoders into a pipe write it."""
    return patched(file, 21, bytes([file[21] & 0xF0, 0, 0, 0, 0]))


def pages(file: bytes) -> list[int]:
    """Where the pages of an Ogg file begin."""
    return [place for place in range(len(file)) if file.startswith(b"OggS", place)]


def decoded(file: bytes, **options: str) -> tuple[np.ndarray, int]:
    """The mean of the channels, float64 [n], and the rate, by FFmpeg."""
    with av.open(io.BytesIO(file), options=options) as container:
        frames = list(container.decode(audio=0))
    parts = []
    for frame in frames:
        block = frame.to_ndarray()
        channels = len(frame.layout.channels)
        if block.shape[0] != channels:
            block = block.reshape(-1, channels).T
        if block.dtype.kind == "u":
            block = (block.astype(float) - 128) / 128
        elif block.dtype.kind == "i":
            block = block / -float(np.iinfo(block.dtype).min)
        parts.append(block.mean(axis=0))
    return np.concatenate(parts), frames[0].sample_rate


def by_ffmpeg(
    container: str, codec: str, wave: np.ndarray, rate: int = RATE, pipe: bool = False, **options: str
) -> bytes:
    """A file of FFmpeg's encoders; into a pipe, no header can be mended once the length is known."""
    file = _Pipe() if pipe else io.BytesIO()
    with av.open(file, "w", format=container, options=options) as made:
        stream = made.add_stream(codec, rate=rate)
        stream.layout = "mono"
        stream.codec_context.open()
        frame = av.AudioFrame.from_ndarray(np.rint(wave * 32767).astype(np.int16)[None, :], format="s16", layout="mono")
        frame.sample_rate, frame.pts = rate, 0
        size = stream.codec_context.frame_size or 1024
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=rate, frame_size=size)
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            made.mux(stream.encode(part))
        made.mux(stream.encode(None))
    return file.content if isinstance(file, _Pipe) else file.getvalue()


class _Pipe(io.RawIOBase):
    content = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.content += bytes(data)  # type: ignore[call-overload]
        return len(bytes(data))  # type: ignore[call-overload]


CODINGS = {
    "WAV": (
        "PCM_U8",
        "PCM_16",
        "PCM_24",
        "PCM_32",
        "FLOAT",
        "DOUBLE",
        "ULAW",
        "ALAW",
        "IMA_ADPCM",
        "MS_ADPCM",
        "GSM610",
    ),
    "WAVEX": ("PCM_16", "FLOAT"),
    "RF64": ("PCM_16", "FLOAT"),
    "NIST": ("PCM_16", "ULAW"),
    "FLAC": ("PCM_16", "PCM_24"),
    "OGG": ("VORBIS", "OPUS"),
    "MP3": ("MPEG_LAYER_III",),
}
KINDS: dict[str, Callable[[np.ndarray], bytes]] = {
    f"{form} {subtype}": lambda wave, form=form, subtype=subtype: encoded(form, subtype, wave)
    for form, subtypes in CODINGS.items()
    for subtype in subtypes
} | {"RIFX": rifx}  # type: ignore[dict-item]


def counts_less(kind: str, wave: np.ndarray) -> bytes:
    """A file of 16 bits whose header counts 2000 samples, whatever follows (MP3: 9 frames)."""
    file = KINDS[kind](wave)
    at = file.find

    def little(form: str, number: int) -> bytes:
        return struct.pack(f"<{form}", number)

    def big(form: str, number: int) -> bytes:
        return struct.pack(f">{form}", number)

    edits = {
        "WAV PCM_16": [(at(b"data") + 4, little("I", 4000))],
        "WAVEX PCM_16": [(at(b"data") + 4, little("I", 4000))],
        "RIFX": [(at(b"data") + 4, big("I", 4000))],
        "RF64 PCM_16": [(at(b"ds64") + 16, little("Q", 4000))],
        "NIST PCM_16": [(at(b"sample_count -i 8001"), b"sample_count -i 2000")],
        "MP3 MPEG_LAYER_III": [(max(at(b"Xing"), at(b"Info")) + 8, big("I", 9))],
    }[kind]
    for place, content in edits:
        file = patched(file, place, content)
    return file


COUNTED = ("WAV PCM_16", "WAVEX PCM_16", "RIFX", "RF64 PCM_16", "NIST PCM_16", "MP3 MPEG_LAYER_III")
