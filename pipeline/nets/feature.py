"""What an extractor makes of one piece of audio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Feature:
    """A feature vector with its evidence.

    Attributes:
        vector: float32 [d]; zeros where nothing could be extracted.
        weight: how much evidence the vector stands on (voiced frames of an F0 histogram; 1 for an embedding, 0 if unusable).
        reason: '' or why the vector is unusable.
    """

    vector: np.ndarray
    weight: float = 1.0
    reason: str = ""


def pool_histograms(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The histogram of several together: their mean weighted by what each was counted over, normalised.

    Args:
        vectors: float32 [n, d].
        weights: [n], frames or codes counted.

    Returns:
        float32 [d]; zeros if nothing was counted.
    """
    total = np.asarray(weights, np.float64) @ np.asarray(vectors, np.float64)
    mass = float(total.sum())
    return np.asarray(total / mass if mass > 0 else total, np.float32)
