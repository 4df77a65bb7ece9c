"""Speaker vectors without a network: drawn by id from the model that a PLDA assumes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from pipeline.seeds import generator
from tests.challenge.sets import SEED, Utterance
from tests.challenge.voices import STRENGTHS

HELD = 24
"""Directions in which speakers differ."""
BETWEEN = 0.6
"""Variance between speakers in those, where that within a speaker is 1."""


@cache
def mean_and_axes(dimension: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean [dimension] of all vectors and orthonormal axes [dimension, rank]."""
    random = generator(SEED, "axes", dimension)
    return 0.2 * random.normal(size=dimension), np.linalg.qr(random.normal(size=(dimension, rank)))[0]


def of(rows: Sequence[Utterance], folder: str, suffix: str, dimension: int, rank: int, model: str = "") -> np.ndarray:
    """Float32 [rows, dimension]: the mean, what is the speaker's, and what is the recording's.

    Args:
        rows: the recordings.
        folder: the set, on which the pseudo-speaker of a copy depends.
        suffix: of the copy; '' for the originals.
        dimension: of a vector.
        rank: directions in which recordings differ.
        model: what the extractor was trained on, where that is no original speech: pseudo-voices hide half as much from it.
    """
    mean, axes = mean_and_axes(dimension, rank)
    strength = STRENGTHS.get(suffix, 0.7) if suffix else 0.0
    strength /= 2 if model else 1
    hidden = np.empty((len(rows), rank))
    for place, row in enumerate(rows):
        hidden[place] = generator(SEED, "recording", suffix + model, row.id).normal(size=rank)
        own = np.sqrt(1 - strength**2) * _voice(row.speaker)
        hidden[place, :HELD] += own + strength * _voice(f"{folder}{suffix} {row.speaker}")
    return (mean + hidden @ axes.T).astype(np.float32)


@cache
def _voice(name: str) -> np.ndarray:
    return np.sqrt(BETWEEN) * generator(SEED, "voice", name).normal(size=HELD)
