"""Whether an audio file is whole, by its own counts: the containers that are accepted, and what each says of its length.

A decoder reads as far as a header or its own guess tells it, and says nothing of what lies behind, or is missing. So each
kind of file that is accepted is held against its own counts here, without decoding: chunks, pages and frames are walked
over, and the bytes between them are not looked at. What cannot be checked in this way is refused, with the command that
converts it.

Here are those whose headers count bytes: containers of chunks with a name and a length each, WAV (RIFF, RIFX, RF64, BW64),
Wave64, AIFF and AIFF-C, Core Audio; and those of a header and the sound, AU (Sun, NeXT) and NIST SPHERE. After RIFF/WAVE
(Microsoft, IBM 1991), EBU Tech 3306 (RF64), ITU-R BS.2088 (BW64), Sony Wave64, Apple AIFF-C (1991) and the Core Audio
Format specification. ``frames`` has those of frames and pages.
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


def check_riff(source: Source, start: int) -> int | None:
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


def check_w64(source: Source, start: int) -> int | None:
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


def check_aiff(source: Source, start: int) -> int | None:
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


def check_caf(source: Source, start: int) -> int | None:
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


_AU_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}  # mu-law, 8 to 32 bits, float, double, A-law
_AU_UNKNOWN_LENGTH = 0xFFFFFFFF
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) ([^\n]*)$", re.MULTILINE)


def is_au(head: bytes) -> bool:
    return head[:4] in (b".snd", b"dns.")


def is_sphere(head: bytes) -> bool:
    return head[:7] == b"NIST_1A"


def check_au(source: Source, start: int) -> int | None:
    """Check an AU file; the samples a channel that it holds."""
    big = source.at(start, 4) == b".snd"
    offset, length, coding, _, channels = (source.number(start + place, 4, big) for place in range(4, 24, 4))
    size_held = source.size - start - offset
    if length != _AU_UNKNOWN_LENGTH:
        size_held = _counted(source, start + offset, length)
    width = _AU_WIDTHS.get(coding, 0) * channels
    return size_held // width if width else None


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
    _counted(source, start + size, samples * width)
    return samples


def _counted(source: Source, place: int, length: int) -> int:
    size_held = source.size - place
    if size_held < length:
        raise source.cut(max(0, size_held), length, "bytes of sound")
    if not source.holds_no_sound(place + length):
        following = source.at(place + length, 12)
        if is_au(following) or is_sphere(following):
            raise source.joined()
        more = size_held - length
        raise source.odd(f"holds {more} more bytes behind the {length} bytes of sound that its header counts")
    return length


_CHECKS: tuple[tuple[Callable[[bytes], bool], Callable[[Source, int], int | None]], ...] = (
    (is_riff, check_riff),
    (is_w64, check_w64),
    (is_aiff, check_aiff),
    (is_caf, check_caf),
    (is_au, check_au),
    (is_sphere, check_sphere),
    (frames.is_flac, frames.check_flac),
    (frames.is_ogg, frames.check_ogg),
    (frames.is_mpeg, frames.check_mpeg),
)

FORMATS = frozenset({"WAV", "WAVEX", "RF64", "W64", "AIFF", "CAF", "AU", "NIST", "FLAC", "OGG", "MP3"})
"""What libsndfile calls the containers that are checked here."""

# fmt: off
SUBTYPES = frozenset({
    "PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610",
    "ALAC_16", "ALAC_20", "ALAC_24", "ALAC_32", "VORBIS", "OPUS", "MPEG_LAYER_II", "MPEG_LAYER_III",
})
# fmt: on
"""What libsndfile calls the codings that are accepted in them."""


@dataclass(frozen=True)
class Contents:
    """What a file that is whole says of itself.

    Attributes:
        is_checked: whether it is of a kind that is known here.
        samples: samples a channel, or None where only decoding tells, as for codings by blocks.
    """

    is_checked: bool
    samples: int | None = None


def examine(source: Source) -> Contents:
    """Hold a file against its own counts. What is of no kind that is known here is not checked.

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
            return Contents(True, check(source, start))
    return Contents(False)
