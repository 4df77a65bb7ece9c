"""The table ``segments`` of a Kaldi set: ``UTTERANCE RECORDING START END``, in seconds, and maybe a channel, counted from 0.

An END of -1 is that of the recording. Seconds become samples as Kaldi's ``extract-segments`` makes them: time × rate, rounded down; an
end up to :data:`OVERSHOOT` seconds behind that of the recording is taken for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.faults import Faults

if TYPE_CHECKING:
    from pipeline.datasets.records import Record

OVERSHOOT = 0.5
"""Kaldi's ``--max-overshoot``, in seconds."""


@dataclass(frozen=True)
class Segment:
    """A line of the table.

    Attributes:
        recording: its id in ``wav.scp``.
        start: in seconds.
        end: in seconds; None is the end of the recording.
        channel: counted from 0; None is all of them.
    """

    recording: str
    start: float
    end: float | None
    channel: int | None = None

    def samples(self, rate: int, length: int) -> tuple[int, int]:
        """Its first sample, and the one behind its last, in a recording of ``length`` samples at ``rate`` Hz.

        Raises:
            ValueError: it does not lie in the recording; with the reason.
        """
        seconds = length / rate
        first = int(self.start * rate)
        if first >= length:
            raise ValueError(f"begins at {self.start:g} s, and '{self.recording}' lasts {seconds:g} s")
        if self.end is None:
            return first, length
        if self.end > seconds + OVERSHOOT:
            raise ValueError(f"ends at {self.end:g} s, and '{self.recording}' lasts {seconds:g} s")
        behind = min(int(self.end * rate), length)
        if behind == first:
            raise ValueError(f"holds no sample: {self.start:g} s to {self.end:g} s at {rate} Hz")
        return first, behind


def read(lines: Iterable[Record], recordings: Collection[str], faults: Faults) -> dict[str, Segment]:
    """The sound lines of the table by utterance; what is wrong with the others is added to the faults.

    Args:
        lines: of the table, four or five fields each.
        recordings: the ids in ``wav.scp``.
        faults: of the data set.
    """
    found: dict[str, Segment] = {}
    for line in lines:
        utterance, recording, *numbers = line.fields
        try:
            segment = _segment(recording, numbers)
            if recording not in recordings:
                raise ValueError(f"the recording '{recording}' has no line in wav.scp")
        except ValueError as error:
            faults.add("segments", f"segment '{utterance}': {error}", line.where)
            continue
        found.setdefault(utterance, segment)
    return found


def _segment(recording: str, numbers: list[str]) -> Segment:
    try:
        start, end = float(numbers[0]), float(numbers[1])
    except ValueError:
        raise ValueError(f"'{numbers[0]}' and '{numbers[1]}' are no times in seconds") from None
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0:
        raise ValueError(f"'{numbers[0]}' to '{numbers[1]}' is no part of a recording")
    if end != -1 and end <= start:
        raise ValueError(f"it ends at {end:g} s, and begins at {start:g} s")
    if len(numbers) > 2 and not numbers[2].isdecimal():
        raise ValueError(f"'{numbers[2]}' is no channel; they are counted from 0")
    channel = int(numbers[2]) if len(numbers) > 2 else None
    return Segment(recording, start, None if end == -1 else end, channel)
