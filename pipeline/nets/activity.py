"""Which parts of a waveform are active: voice activity by energy, whatever the level of the recording.

The rule, on frames of 20 ms that do not overlap:

1. Frames at or below ``floor_dbfs`` are silent: 16-bit audio has rounding noise at -101 dBFS, and with dither at -96 dBFS.
2. The level of a file is the mean power of its loud frames; loud are those within ``range_db`` of the level. Starting with
   all frames above the floor, the two are brought into agreement: the level only rises, so that this ends.
3. A frame is active if it is loud or follows a loud one within ``hangover`` frames: closures and fading ends are speech.

The level comes from power and thus from time, so neither long pauses nor a short click move it much. Digital silence has no
active frame; steady noise has nothing else, because energy does not tell it from speech.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRAME = 320
"""Samples in a frame, 20 ms at 16 kHz."""

RANGE_DB, FLOOR_DBFS, HANGOVER = 30.0, -95.0, 3


@dataclass(frozen=True)
class Activity:
    """What is active of a waveform.

    Attributes:
        active: bool [n], for each frame.
        level: mean power of the loud frames, full scale 1; 0 if there is none.
    """

    active: np.ndarray
    level: float


def powers(wave: np.ndarray, frame: int = FRAME) -> np.ndarray:
    """Mean square of each whole frame of a waveform [n]: float64 [n // frame]."""
    frames = wave[: len(wave) // frame * frame].reshape(-1, frame)
    return np.asarray(np.einsum("ij,ij->i", frames, frames, dtype=np.float64) / frame)


def detect(
    power: np.ndarray, range_db: float = RANGE_DB, floor_dbfs: float = FLOOR_DBFS, hangover: int = HANGOVER
) -> Activity:
    """The active frames of a file.

    Args:
        power: mean square of each frame, float64 [n].
        range_db: how far below the level a frame may lie and still be loud.
        floor_dbfs: dB re full scale at and below which everything is silent.
        hangover: frames after a loud one that are active too.
    """
    floor = 10 ** (floor_dbfs / 10)
    loud = power > floor
    level = 0.0
    while loud.any():
        level = float(power[loud].mean())
        # A rounded mean may lie above all frames; the loudest is loud at any range.
        within = power > max(floor, min(level * 10 ** (-range_db / 10), np.nextafter(power.max(), 0)))
        if (within == loud).all():
            break
        loud = within
    active = np.convolve(loud, np.ones(hangover + 1))[: len(loud)] > 0 if len(loud) else loud
    return Activity(active, level)
