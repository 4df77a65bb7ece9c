"""Files of frames and pages that are walked over: MPEG audio, FLAC, Ogg.

- MPEG audio (ISO 11172-3, 13818-3; layers 2 and 3): frame by frame, each of which tells its own length. The header of such a
  file is a frame of its own, by which encoders count the others (Xing's or Fraunhofer's); a file without one is as long as its
  frames, whatever a decoder guesses from the first of them.
- FLAC (RFC 9639): what its header counts, against the number that its last frame has. A decoder stops where the header says,
  or, where it says nothing, at the end of the file; it tells a cut frame itself.
- Ogg (RFC 3533): one stream of pages, numbered without a gap, from its first page to its last.
"""

from __future__ import annotations

import os

from pipeline.containers.source import Source

_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}  # by version: 1, 2, 2.5
_V1_BITRATES = {
    2: (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
}  # fmt: skip  # kbit/s by the code of the layer: 2 is layer 2, 1 is layer 3
_V2_BITRATES = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MONO = 3
_STRIDE = 1 << 20
_SEARCHED = 1 << 20


class _Kind:
    """What all frames of a stream have in common, told by the header of its first."""

    def __init__(self, head: bytes) -> None:
        version, layer, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 2 & 3
        self.second, self.rate_bits = head[1] & 0xFE, head[2] & 0x0C
        self.mono = head[3] >> 6 == _MONO
        self.rate = _RATES[version][rate]
        self.samples = 576 if layer == 1 and version != 3 else 1152
        self.side = (17 if self.mono else 32) if version == 3 else (9 if self.mono else 17)
        # Bytes of a frame by the upper seven bits of its third byte (bit rate, sampling rate, padding); 0: no frame.
        self.lengths = [0] * 128
        for code, kbit in enumerate(_V1_BITRATES[layer] if version == 3 else _V2_BITRATES, 1):
            for padding in (0, 1):
                self.lengths[code << 3 | rate << 1 | padding] = self.samples // 8 * kbit * 1000 // self.rate + padding

    def length(self, head: bytes) -> int:
        """Bytes of the frame that begins so; 0 if it is none of this stream."""
        if len(head) < 4 or head[0] != 0xFF or head[1] & 0xFE != self.second or head[2] & 0x0C != self.rate_bits:
            return 0
        return self.lengths[head[2] >> 1]


def is_mpeg(head: bytes) -> bool:
    """Whether a frame of layer 2 or 3 begins here; one of "free format" tells no length, and is none."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer, rate, bitrate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 2 & 3, head[2] >> 4
    return version != 1 and layer in (1, 2) and rate != 3 and bitrate not in (0, 15)


def behind_id3(source: Source, place: int) -> int:
    """The place behind the ID3v2 tags that begin here."""
    while (head := source.at(place, 10))[:3] == b"ID3" and len(head) == 10:
        size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
        place += 10 + size + (10 if head[5] & 0x10 else 0)
    return place


def is_uncounted(source: Source) -> bool:
    """Whether a file is MPEG audio whose frames no header counts, so that a decoder can only guess how many there are."""
    start = behind_id3(source, 0)
    head = source.at(start, 4)
    return is_mpeg(head) and _counted(source, start, _Kind(head)) is None


def check_mpeg(source: Source, start: int) -> int | None:
    """Walk over the frames; the samples that they hold, or None where a header says how many of them are to be heard."""
    kind = _Kind(source.at(start, 4))
    counted = _counted(source, start, kind)
    frames, place = _walk(source, start, kind)
    frames_whole = frames - (place > source.size) - (counted is not None)
    if frames_whole < frames - (counted is not None):
        raise source.cut(frames_whole, max(frames_whole + 1, counted or 0), "frames: the last is cut")
    _check_tail(source, place, kind)
    if counted is None:
        return frames * kind.samples
    frames = frames_whole
    if frames < counted:
        raise source.cut(frames, counted, "frames")
    if frames > counted:
        raise source.odd(f"holds {frames} frames, of which its header counts {counted} (files joined to one?)")
    return None


def _counted(source: Source, start: int, kind: _Kind) -> int | None:
    """The frames that the header counts beside itself; None without one."""
    first = source.at(start, kind.length(source.at(start, 4)))
    xing = first[4 + kind.side :]
    if xing[:4] in (b"Xing", b"Info") and len(xing) >= 12 and xing[7] & 1:
        return int.from_bytes(xing[8:12], "big")
    vbri = first[36:]
    if vbri[:4] == b"VBRI" and len(vbri) >= 18:
        return int.from_bytes(vbri[14:18], "big")
    return None


def _walk(source: Source, place: int, kind: _Kind) -> tuple[int, int]:
    """Frames one behind another, and where they end, which is behind the end of the file if the last is cut."""
    frames, second, rate_bits, lengths = 0, kind.second, kind.rate_bits, kind.lengths
    while place + 4 <= source.size:
        begin, window = place, os.pread(source.descriptor, _STRIDE, place)
        offset, end = 0, len(window) - 3
        # As _Kind.length, without a call for each of many thousand frames.
        while offset < end:
            third = window[offset + 2]
            if window[offset] != 0xFF or window[offset + 1] & 0xFE != second or third & 0x0C != rate_bits:
                return frames, begin + offset
            length = lengths[third >> 1]
            if not length:
                return frames, begin + offset
            if (window[offset + 3] >> 6 == _MONO) != kind.mono:
                raise source.odd("changes between one and two channels")
            frames, offset = frames + 1, offset + length
        place = begin + offset
        if len(window) < 4:
            break
    return frames, place


def _check_tail(source: Source, place: int, kind: _Kind) -> None:
    """What lies behind the last frame may be anything but frames."""
    if source.at(place, 3) == b"ID3":
        place = behind_id3(source, place)
    if source.at(place, 3) == b"TAG":
        place += 128
    remaining = source.size - place
    if remaining <= 0:
        return
    tail = source.at(place, min(remaining, _SEARCHED))
    if remaining > _SEARCHED and not source.holds_no_sound(place):
        raise source.odd(f"holds {remaining} bytes that are no frames of its stream")
    offset = tail.find(b"\xff")
    while offset >= 0:
        head = tail[offset : offset + 4]
        # Two in a row: one alone happens by chance.
        if is_mpeg(head):
            other = _Kind(head)
            behind = tail[offset + other.length(head) :]
            if other.length(behind[:4]):
                raise source.odd(
                    f"holds more frames behind {offset} bytes that are none, or another stream (files joined to one?)"
                )
        offset = tail.find(b"\xff", offset + 1)


_FLAC_BEGIN = b"fLaC\x00\x00\x00\x22"

_TAIL = 1 << 21
"""Bytes of the largest frame that there can be: 65535 samples of 8 channels of 32 bits."""


def is_flac(head: bytes) -> bool:
    return head[:4] == b"fLaC"


def check_flac(source: Source, start: int) -> int | None:
    """Compare the header with the last frame; the samples a channel, None if the header leaves them open."""
    head = source.at(start, 42)
    total = int.from_bytes(head[21:26], "big") & (1 << 36) - 1
    if len(head) < 42:
        raise source.bad("ends early: its header is cut")
    if _begins_again(source, start + 4):
        raise source.joined()
    if not total:
        return None
    end = _find_flac_end(source, start, int.from_bytes(head[10:12], "big"), total)
    if end > total:
        raise source.odd(f"holds {end} samples, of which its header counts {total}")
    if end < total:
        raise source.cut(end, total, "samples")
    return total


def _begins_again(source: Source, place: int) -> bool:
    """Whether another file begins somewhere behind: at the border of two frames, a decoder stops there in silence."""
    while part := os.pread(source.descriptor, _STRIDE + len(_FLAC_BEGIN), place):
        if _FLAC_BEGIN in part:
            return True
        if len(part) >= _STRIDE and not any(part):
            # Frames of silence are short, and begin with ones.
            raise source.bad(f"holds nothing but zeros from byte {place} on: a copy that was begun and not ended")
        place += _STRIDE
    return False


def _find_flac_end(source: Source, start: int, block: int, total: int) -> int:
    """The number of the sample behind the last frame, as that frame has it; the total if none is found."""
    size = 1 << 15
    while True:
        tail = source.at(max(start, source.size - size), size)
        place = len(tail)
        while (place := tail.rfind(b"\xff", 0, place)) >= 0:
            end = _read_flac_end(tail[place : place + 16], block)
            # Bytes that look like a header stand in one of some thousand frames; no such frame ends with the file.
            if end == total or (end is not None and _crc16(tail[place:]) == 0):
                return end
        if size >= min(source.size, _TAIL):
            return total
        size *= 8


def _read_flac_end(head: bytes, block: int) -> int | None:
    """The number of the sample behind the frame that begins so; None if it is no header of a frame."""
    if len(head) < 6 or head[1] & 0xFE != 0xF8 or head[3] & 1 or head[2] >> 4 == 0 or head[2] & 15 == 15:
        return None
    by_sample = bool(head[1] & 1)
    length = 8 - (head[4] ^ 0xFF).bit_length() if head[4] & 0x80 else 1
    number = head[4] & (0xFF >> (length + 1 if length > 1 else 1))
    for byte in head[5 : 4 + length]:
        number = number << 6 | byte & 0x3F
    place = 4 + length
    code = head[2] >> 4
    if code in (6, 7):
        samples = int.from_bytes(head[place : place + code - 5], "big") + 1
        place += code - 5
    else:
        samples = 192 if code == 1 else 576 << code - 2 if code <= 5 else 256 << code - 8
    place += {12: 1, 13: 2, 14: 2}.get(head[2] & 15, 0)
    if place >= len(head) or _crc8(head[:place]) != head[place]:
        return None
    # The last frame may be shorter; all others have the size that the header of the file names.
    return number + samples if by_sample else number * block + samples


def _crc8(content: bytes) -> int:
    value = 0
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = (value << 1) ^ 0x107 if value & 0x80 else value << 1
    return value


def _crc16(content: bytes) -> int:
    value = 0
    for byte in content:
        value = (value << 8 & 0xFFFF) ^ _CRC16[value >> 8 ^ byte]
    return value


def _crc16_of(byte: int) -> int:
    value = byte << 8
    for _ in range(8):
        value = (value << 1) ^ 0x18005 if value & 0x8000 else value << 1
    return value


_CRC16 = [_crc16_of(byte) for byte in range(256)]


_PAGE_HEAD = 27
_FIRST_PAGE, _LAST_PAGE = 2, 4


def is_ogg(head: bytes) -> bool:
    return head[:4] == b"OggS"


def check_ogg(source: Source, start: int) -> None:
    """Walk over the pages. What they hold the decoder counts: it tells its own length and what it decodes apart."""
    place, stream, number, last = start, b"", 0, False
    while not (last and source.holds_no_sound(place)):
        head = source.at(place, _PAGE_HEAD + 255)
        if len(head) < _PAGE_HEAD or head[:4] != b"OggS":
            break
        flags, serial, count = head[5], head[14:18], int.from_bytes(head[18:22], "little")
        if place > start and flags & _FIRST_PAGE:
            raise source.odd("holds several Ogg streams, one of which alone would be read")
        if place == start:
            stream, number = serial, count
        if serial != stream or count != number:
            raise source.bad(f"lacks pages: page {count} stands where page {number} should")
        place += _PAGE_HEAD + head[26] + sum(head[_PAGE_HEAD : _PAGE_HEAD + head[26]])
        number, last = number + 1, bool(flags & _LAST_PAGE)
        if place > source.size:
            last = False
            break
    if not last:
        raise source.cut(number, number + 1, "pages or more: the last page of the stream is missing or cut")
    if not source.holds_no_sound(place):
        raise source.bad(f"holds {source.size - place} more bytes behind the last page of its stream")
