"""Histograms of several pieces of audio as one."""

from __future__ import annotations

import numpy as np


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
