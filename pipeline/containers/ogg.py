"""Ogg (RFC 3533): one stream of pages, numbered without a gap, from its first page to its last."""

from __future__ import annotations

from pipeline.containers.source import Source

_HEAD = 27
_FIRST, _LAST = 2, 4


def is_ogg(head: bytes) -> bool:
    return head[:4] == b"OggS"


def check(source: Source, start: int) -> None:
    """Walk over the pages. What they hold the decoder counts: it tells its own length and what it decodes apart."""
    place, stream, number, last = start, b"", 0, False
    while not (last and source.holds_no_sound(place)):
        head = source.at(place, _HEAD + 255)
        if len(head) < _HEAD or head[:4] != b"OggS":
            break
        flags, serial, count = head[5], head[14:18], int.from_bytes(head[18:22], "little")
        if place > start and flags & _FIRST:
            raise source.odd("holds several Ogg streams, one of which alone would be read")
        if place == start:
            stream, number = serial, count
        if serial != stream or count != number:
            raise source.bad(f"lacks pages: page {count} stands where page {number} should")
        place += _HEAD + head[26] + sum(head[_HEAD : _HEAD + head[26]])
        number, last = number + 1, bool(flags & _LAST)
        if place > source.size:
            last = False
            break
    if not last:
        raise source.cut(number, number + 1, "pages or more: the last page of the stream is missing or cut")
    if not source.holds_no_sound(place):
        raise source.bad(f"holds {source.size - place} more bytes behind the last page of its stream")
