"""Whether an audio file is whole, by its own counts: the containers that are accepted, and what each says of its length.

A decoder reads as far as a header or its own guess tells it, and says nothing of what lies behind, or is missing. So each
kind of file that is accepted is held against its own counts here, without decoding: chunks, pages and frames are walked
over, and the bytes between them are not looked at. What cannot be checked in this way is refused, with the command that
converts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.containers import chunks, flac, flat, mpeg, ogg
from pipeline.containers.source import Source
from pipeline.errors import DataError

_CHECKS: tuple[tuple[Callable[[bytes], bool], Callable[[Source, int], int | None]], ...] = (
    (chunks.is_riff, chunks.riff),
    (chunks.is_w64, chunks.w64),
    (chunks.is_aiff, chunks.aiff),
    (chunks.is_caf, chunks.caf),
    (flat.is_au, flat.au),
    (flat.is_sphere, flat.sphere),
    (flac.is_flac, flac.check),
    (ogg.is_ogg, ogg.check),
    (mpeg.is_mpeg, mpeg.check),
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
    start = mpeg.behind_id3(source, 0)
    head = source.at(start, 48)
    for fits, check in _CHECKS:
        if fits(head):
            return Contents(True, check(source, start))
    return Contents(False)
