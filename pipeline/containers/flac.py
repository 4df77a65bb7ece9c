"""FLAC (RFC 9639): what its header counts, against the number that its last frame has.

A decoder stops where the header says, or, where it says nothing, at the end of the file; it tells a cut frame itself.
"""

from __future__ import annotations

import os

from pipeline.containers.source import Source

_BEGIN = b"fLaC\x00\x00\x00\x22"
_STRIDE = 1 << 20

_TAIL = 1 << 21
"""Bytes of the largest frame that there can be: 65535 samples of 8 channels of 32 bits."""


def is_flac(head: bytes) -> bool:
    return head[:4] == b"fLaC"


def check(source: Source, start: int) -> int | None:
    """Compare the header with the last frame; the samples a channel, None if the header leaves them open."""
    head = source.at(start, 42)
    total = int.from_bytes(head[21:26], "big") & (1 << 36) - 1
    if len(head) < 42:
        raise source.bad("ends early: its header is cut")
    if _begins_again(source, start + 4):
        raise source.joined()
    if not total:
        return None
    end = _end(source, start, int.from_bytes(head[10:12], "big"), total)
    if end > total:
        raise source.odd(f"holds {end} samples, of which its header counts {total}")
    if end < total:
        raise source.cut(end, total, "samples")
    return total


def _begins_again(source: Source, place: int) -> bool:
    """Whether another file begins somewhere behind: at the border of two frames, a decoder stops there in silence."""
    while part := os.pread(source.descriptor, _STRIDE + len(_BEGIN), place):
        if _BEGIN in part:
            return True
        if len(part) >= _STRIDE and not any(part):
            # Frames of silence are short, and begin with ones.
            raise source.bad(f"holds nothing but zeros from byte {place} on: a copy that was begun and not ended")
        place += _STRIDE
    return False


def _end(source: Source, start: int, block: int, total: int) -> int:
    """The number of the sample behind the last frame, as that frame has it; the total if none is found."""
    size = 1 << 15
    while True:
        tail = source.at(max(start, source.size - size), size)
        place = len(tail)
        while (place := tail.rfind(b"\xff", 0, place)) >= 0:
            end = _frame_end(tail[place : place + 16], block)
            # Bytes that look like a header stand in one of some thousand frames; no such frame ends with the file.
            if end == total or (end is not None and _crc16(tail[place:]) == 0):
                return end
        if size >= min(source.size, _TAIL):
            return total
        size *= 8


def _frame_end(head: bytes, block: int) -> int | None:
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
