"""Containers of chunks with a name and a length each: WAV (RIFF, RIFX, RF64, BW64), Wave64, AIFF and AIFF-C, Core Audio.

After RIFF/WAVE (Microsoft, IBM 1991), EBU Tech 3306 (RF64), ITU-R BS.2088 (BW64), Sony Wave64, Apple AIFF-C (1991) and the
Core Audio Format specification.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.containers.source import Source

UNKNOWN_LENGTH = 0x7FFF0000
"""Writers that cannot seek back leave a length that means "until the end" (sox 0x7ffff000, ffmpeg 0xffffffff)."""

_IGNORING = "-ignore_length 1"
"""What lets ffmpeg read a WAV file to its end; it knows no such option for the others, and obeys their headers."""

_NO_SOUND = "holds no chunk of sound where its chunks lead to"
_W64_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")
_W64_RIFF = b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000")
_WHOLE_FILES = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM", b"caff", b"riff")
_FIXED_WAVE = (1, 3, 6, 7)  # PCM, IEEE float, A-law, mu-law: so many bytes a sample
_EXTENSIBLE = 0xFFFE
_FIXED_AIFF = {
    b"NONE": 0, b"twos": 0, b"sowt": 0, b"raw ": 1, b"fl32": 4, b"FL32": 4, b"fl64": 8, b"FL64": 8, b"ulaw": 1,
    b"ULAW": 1, b"alaw": 1, b"ALAW": 1, b"in24": 3, b"in32": 4, b"42ni": 3, b"23ni": 4,
}  # fmt: skip  # bytes a sample; 0: as many as its bits need


@dataclass(frozen=True)
class _Style:
    """How chunks are laid out: bytes of a name and of a length, whether the length counts both, and to what they are padded."""

    name: int = 4
    length: int = 4
    big: bool = False
    counts_itself: bool = False
    padded_to: int = 2

    @property
    def head(self) -> int:
        return self.name + self.length


@dataclass(frozen=True)
class _Chunk:
    name: bytes
    start: int
    length: int


def is_riff(head: bytes) -> bool:
    return head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE"


def is_w64(head: bytes) -> bool:
    return head[:16] == _W64_RIFF


def is_aiff(head: bytes) -> bool:
    return head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC")


def is_caf(head: bytes) -> bool:
    return head[:4] == b"caff"


def riff(source: Source, start: int) -> int | None:
    """Check a WAV file; the samples a channel that it holds, None for codings by blocks."""
    style = _Style(big=source.at(start, 4) == b"RIFX")
    form, long_length = b"", 0
    for chunk in _chunks(source, start + 12, style):
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
            return _samples(_sound(source, chunk.start, length, style, _IGNORING), _wave_width(form, style.big))
    raise source.bad(_NO_SOUND)


def w64(source: Source, start: int) -> int | None:
    """Check a Wave64 file, as :func:`riff`."""
    style = _Style(name=16, length=8, counts_itself=True, padded_to=8)
    form = b""
    for chunk in _chunks(source, start + 40, style):
        if chunk.name == b"fmt " + _W64_TAIL:
            form = source.at(chunk.start, min(chunk.length, 40))
        elif chunk.name == b"data" + _W64_TAIL:
            width, end = _wave_width(form, False), chunk.start + chunk.length
            # libsndfile takes all that follows for sound; where the width is known, counting shows that.
            if not width and source.size > end + -end % style.padded_to:
                raise source.bad(f"holds {source.size - end} bytes behind its sound, which would be read as sound")
            return _samples(_sound(source, chunk.start, chunk.length, style), width)
    raise source.bad(_NO_SOUND)


def aiff(source: Source, start: int) -> int | None:
    """Check an AIFF or AIFF-C file, whose frames are counted in a chunk of their own, as :func:`riff`."""
    style = _Style(big=True)
    size_held: int | None = None
    frames: int | None = None
    width = 0
    for chunk in _chunks(source, start + 12, style):
        if chunk.name == b"COMM":
            channels, frames, bits = struct.unpack(">hIh", source.at(chunk.start, 8).ljust(8, b"\0"))
            coding = source.at(chunk.start + 18, 4) if source.at(start + 8, 4) == b"AIFC" else b"NONE"
            width = channels * (_FIXED_AIFF[coding] or -(-bits // 8)) if coding in _FIXED_AIFF else 0
        elif chunk.name == b"SSND" and size_held is None:
            offset = source.number(chunk.start, 4, big=True)
            size_held = _sound(source, chunk.start, chunk.length, style) - 8 - offset
    if size_held is None or frames is None:
        raise source.bad(_NO_SOUND)
    if not width:
        return None
    if size_held // width < frames:
        raise source.cut(size_held // width, frames, "samples")
    if size_held // width > frames:
        raise source.odd(f"holds {size_held // width} samples, of which its header counts {frames}")
    return frames


def caf(source: Source, start: int) -> int | None:
    """Check a Core Audio file, as :func:`riff`."""
    style = _Style(length=8, big=True, padded_to=1)
    width, samples, size_held = 0, None, None
    for chunk in _chunks(source, start + 8, style):
        if chunk.name == b"desc":
            width = source.number(chunk.start + 16, 4, big=True)
        elif chunk.name == b"pakt":
            samples = source.number(chunk.start + 8, 8, big=True)
        elif chunk.name == b"data":
            length = None if chunk.length == (1 << 64) - 1 else chunk.length
            size_held = _sound(source, chunk.start, length, style) - 4
            if length is None:
                break
    if size_held is None:
        raise source.bad(_NO_SOUND)
    return samples or _samples(size_held, width)


def _samples(size_held: int, width: int) -> int | None:
    return size_held // width if width else None


def _wave_width(form: bytes, big: bool) -> int:
    """Bytes of a sample of all channels, 0 for codings by blocks."""
    if len(form) < 16:
        return 0
    tag, channels, _, _, block, bits = struct.unpack(">HHIIHH" if big else "<HHIIHH", form[:16])
    if tag == _EXTENSIBLE and len(form) >= 26:
        tag = int.from_bytes(form[24:26], "big" if big else "little")
    # A header whose two widths disagree is left to the decoder.
    return block if tag in _FIXED_WAVE and block == channels * -(-bits // 8) else 0


def _chunks(source: Source, place: int, style: _Style) -> Iterator[_Chunk]:
    while place + style.head <= source.size:
        chunk = _chunk(source, place, style)
        if not _is_printable(chunk):
            return
        yield chunk
        place = chunk.start + chunk.length + -chunk.length % style.padded_to


def _chunk(source: Source, place: int, style: _Style) -> _Chunk:
    length = source.number(place + style.name, style.length, style.big)
    if style.counts_itself:
        length = max(0, length - style.head)
    return _Chunk(source.at(place, style.name), place + style.head, length)


def _sound(source: Source, start: int, length: int | None, style: _Style, options: str = "") -> int:
    """Check the chunk that holds the sound, and what follows it; the bytes of sound. No length: until the end of the file."""
    size_held = source.size - start
    if length is None:
        return size_held
    if length > size_held:
        raise source.cut(size_held, length, "bytes of sound")
    ends = (start + length + -length % style.padded_to, start + length)  # some writers do not pad
    if not any(_only_chunks(source, end, style) for end in ends):
        if any(source.at(end, 4) in _WHOLE_FILES for end in ends):
            raise source.joined()
        what = f"holds {size_held - length} more bytes behind the {length} bytes of sound that its header counts"
        raise source.odd(what, options) if options else source.bad(what)
    return length


def _only_chunks(source: Source, place: int, style: _Style) -> bool:
    """Whether what follows the sound is chunks without sound, and padding."""
    while not source.holds_no_sound(place):
        chunk = _chunk(source, place, style)
        another = chunk.name[:4] in (*_WHOLE_FILES, b"data", b"SSND")
        if not _is_printable(chunk) or another or chunk.start + chunk.length > source.size:
            return False
        place = chunk.start + chunk.length + -chunk.length % style.padded_to
    return True


def _is_printable(chunk: _Chunk) -> bool:
    return all(32 <= byte < 127 for byte in chunk.name[:4])
