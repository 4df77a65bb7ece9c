"""Containers of a header and the sound, and nothing else: AU (Sun, NeXT) and NIST SPHERE."""

from __future__ import annotations

import re

from pipeline.containers.source import WINDOW, Source

_AU_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}  # mu-law, 8 to 32 bits, float, double, A-law
_AU_UNKNOWN_LENGTH = 0xFFFFFFFF
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) ([^\n]*)$", re.MULTILINE)


def is_au(head: bytes) -> bool:
    return head[:4] in (b".snd", b"dns.")


def is_sphere(head: bytes) -> bool:
    return head[:7] == b"NIST_1A"


def au(source: Source, start: int) -> int | None:
    """Check an AU file; the samples a channel that it holds."""
    big = source.at(start, 4) == b".snd"
    offset, length, coding, _, channels = (source.number(start + place, 4, big) for place in range(4, 24, 4))
    size_held = source.size - start - offset
    if length != _AU_UNKNOWN_LENGTH:
        size_held = _counted(source, start + offset, length)
    width = _AU_WIDTHS.get(coding, 0) * channels
    return size_held // width if width else None


def sphere(source: Source, start: int) -> int | None:
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
