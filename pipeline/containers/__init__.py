"""Whether an audio file is whole, by its own counts: the containers that are accepted, and what each says of its length.

A decoder reads as far as a header or its own guess tells it, and says nothing of what lies behind, or is missing. So chunks, pages and
frames are walked over here, without decoding. Here are WAV (RIFF, RIFX, RF64, BW64; Microsoft, IBM 1991, EBU Tech 3306, ITU-R BS.2088)
and NIST SPHERE, whose headers count bytes; ``frames`` has those of frames and pages.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipeline.containers import frames
from pipeline.containers.source import WINDOW, Source
from pipeline.errors import DataError

UNKNOWN_LENGTH = 0x7FFF0000
"""Writers that cannot seek back leave a length that means "until the end" (sox 0x7ffff000, ffmpeg 0xffffffff)."""

_IGNORING = "-ignore_length 1"
"""What lets ffmpeg read a WAV file to its end; it knows no such option for the others, and obeys their headers."""

_RIFF = (b"RIFF", b"RIFX", b"RF64", b"BW64")
_FIXED_WAVE = (1, 3, 6, 7)  # PCM, IEEE float, A-law, mu-law: so many bytes a sample
_EXTENSIBLE = 0xFFFE


@dataclass(frozen=True)
class _Chunk:
    name: bytes
    start: int
    length: int


def is_riff(head: bytes) -> bool:
    return head[:4] in _RIFF and head[8:12] == b"WAVE"


def check_riff(source: Source, start: int) -> int | None:
    """Check a WAV file; the samples a channel that it holds, None for codings by blocks."""
    big = source.at(start, 4) == b"RIFX"
    form, long_length = b"", 0
    for chunk in _chunks(source, start + 12, big):
        if chunk.name == b"fmt ":
            form = source.at(chunk.start, min(chunk.length, 40))
        elif chunk.name == b"ds64":
            long_length = source.number(chunk.start + 8, 8)
        elif chunk.name == b"data":
            length: int | None = chunk.length
            if chunk.length == 0xFFFFFFFF and long_length:
                length = long_length
            elif chunk.start + chunk.length > source.size and chunk.length >= UNKNOWN_LENGTH:
                length = None
            size_held, width = _sound(source, chunk.start, length, big), _wave_width(form, big)
            return size_held // width if width else None
    raise source.bad("holds no chunk of sound where its chunks lead to")


def _wave_width(form: bytes, big: bool) -> int:
    """Bytes of a sample of all channels, 0 for codings by blocks."""
    if len(form) < 16:
        return 0
    tag, channels, _, _, block, bits = struct.unpack(">HHIIHH" if big else "<HHIIHH", form[:16])
    if tag == _EXTENSIBLE and len(form) >= 26:
        tag = int.from_bytes(form[24:26], "big" if big else "little")
    # A header whose two widths disagree is left to the decoder.
    return block if tag in _FIXED_WAVE and block == channels * -(-bits // 8) else 0


def _chunks(source: Source, place: int, big: bool) -> Iterator[_Chunk]:
    while place + 8 <= source.size:
        chunk = _chunk(source, place, big)
        if not _is_printable(chunk):
            return
        yield chunk
        place = chunk.start + chunk.length + chunk.length % 2


def _chunk(source: Source, place: int, big: bool) -> _Chunk:
    return _Chunk(source.at(place, 4), place + 8, source.number(place + 4, 4, big))


def _sound(source: Source, start: int, length: int | None, big: bool) -> int:
    """Check the chunk that holds the sound, and what follows it; the bytes of sound. No length: until the end of the file."""
    size_held = source.size - start
    if length is None:
        return size_held
    if length > size_held:
        raise source.cut(size_held, length, "bytes of sound")
    ends = (start + length + length % 2, start + length)  # some writers do not pad
    if not any(_only_chunks(source, end, big) for end in ends):
        if any(source.at(end, 4) in _RIFF for end in ends):
            raise source.joined()
        what = f"holds {size_held - length} more bytes behind the {length} bytes of sound that its header counts"
        raise source.odd(what, "-ignore_length 1")  # lets ffmpeg read to the end
    return length


def _only_chunks(source: Source, place: int, big: bool) -> bool:
    """Whether what follows the sound is chunks without sound, and padding."""
    while not source.holds_no_sound(place):
        chunk = _chunk(source, place, big)
        if not _is_printable(chunk) or chunk.name in (*_RIFF, b"data") or chunk.start + chunk.length > source.size:
            return False
        place = chunk.start + chunk.length + chunk.length % 2
    return True


def _is_printable(chunk: _Chunk) -> bool:
    return all(32 <= byte < 127 for byte in chunk.name)


_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) ([^\n]*)$", re.MULTILINE)


def is_sphere(head: bytes) -> bool:
    return head[:7] == b"NIST_1A"


def check_sphere(source: Source, start: int) -> int | None:
    """Check a SPHERE file; the samples a channel that it holds."""
    lines = source.at(start, 16).split(b"\n")
    size = min(int(lines[1]), WINDOW) if len(lines) > 1 and lines[1].strip().isdigit() else 1024
    fields = {name: value.strip() for name, value in _SPHERE_FIELD.findall(source.at(start, size))}
    numbers = {name: int(value) for name, value in fields.items() if value.isdigit()}
    coding = fields.get(b"sample_coding", b"pcm")
    width = numbers.get(b"channel_count", 1) * numbers.get(b"sample_n_bytes", 2 if coding.startswith(b"pcm") else 1)
    samples = numbers.get(b"sample_count")
    if samples is None:
        return (source.size - start - size) // width if width else None
    place, length = start + size, samples * width
    size_held = source.size - place
    if size_held < length:
        raise source.cut(max(0, size_held), length, "bytes of sound")
    if not source.holds_no_sound(place + length):
        if is_sphere(source.at(place + length, 7)):
            raise source.joined()
        raise source.odd(
            f"holds {size_held - length} more bytes behind the {length} bytes of sound that its header counts"
        )
    return samples


_CHECKS: tuple[tuple[Callable[[bytes], bool], Callable[[Source, int], int | None]], ...] = (
    (is_riff, check_riff),
    (is_sphere, check_sphere),
    (frames.is_flac, frames.check_flac),
    (frames.is_ogg, frames.check_ogg),
    (frames.is_mpeg, frames.check_mpeg),
)

FORMATS = frozenset({"WAV", "WAVEX", "RF64", "NIST", "FLAC", "OGG", "MP3"})
"""What libsndfile calls the containers that are checked here."""

# fmt: off
SUBTYPES = frozenset({
    "PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610",
    "VORBIS", "OPUS", "MPEG_LAYER_II", "MPEG_LAYER_III",
})
# fmt: on
"""What libsndfile calls the codings that are accepted in them."""


def examine(source: Source) -> tuple[bool, int | None]:
    """Hold a file against its own counts: whether it is of a kind that is known here, and the samples a channel that it says it
    holds; None where only decoding tells, as for codings by blocks.

    Raises:
        DataError: the file is cut off, holds more sound than it counts or several recordings one behind another, or is no
            audio but a pointer of Git LFS.
    """
    head = source.at(0, 12)
    if head == b"version http":
        raise DataError("is a pointer of Git LFS, not audio (git lfs pull)", where=str(source.path))
    start = frames.behind_id3(source, 0)
    head = source.at(start, 48)
    for fits, check in _CHECKS:
        if fits(head):
            return True, check(source, start)
    return False, None
