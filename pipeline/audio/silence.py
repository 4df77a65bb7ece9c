"""Exact zeros at the ends of a waveform: what encoders, cutters and anonymisers pad with."""

from __future__ import annotations

import numpy as np

# Speech of 16 bits begins or ends with a zero sample by chance (10 % of LibriSpeech's flac files; 1.5 % with 8 of them at 16 kHz),
# and the challenge's B2 ends all of its files with more.
DIGITAL_SILENCE_MS = 0.5
"""A run of exact zeros at an end that is so long is digital silence."""


def zeros_at_ends(wave: np.ndarray) -> tuple[int, int]:
    """How many samples at the begin and at the end of a waveform [n] are exactly zero; (n, 0) for zeros alone."""
    sounds = np.asarray(wave) != 0
    if not sounds.any():
        return len(sounds), 0
    return int(sounds.argmax()), int(sounds[::-1].argmax())


def without_zeros_at_ends(wave: np.ndarray) -> np.ndarray:
    """The waveform [n] from its first to its last sample that is not exactly zero; empty for zeros alone."""
    leading, trailing = zeros_at_ends(wave)
    return wave[leading : len(wave) - trailing]
