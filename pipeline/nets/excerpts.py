"""Excerpts of one length from utterances of any, and how they sound at another speed."""

from __future__ import annotations

import numpy as np

from pipeline import audio as sound
from pipeline.nets.waveforms import Waveforms


def middle(audio: Waveforms, item: int, start: int, stop: int, length: int) -> np.ndarray:
    """``length`` samples from the middle of samples ``start`` to ``stop`` of an utterance, float32; what is shorter is
    repeated."""
    skipped = max(0, stop - start - length) // 2
    return np.resize(audio.piece(item, start + skipped, min(stop, start + skipped + length)), length)


def at_speed(wave: np.ndarray, speed: float, length: int) -> np.ndarray:
    """A waveform of about ``length * speed`` samples, played at this speed: ``length`` samples."""
    if speed == 1:
        return wave
    return np.resize(sound.resample(wave, round(1000 * speed), 1000), length)
