"""The signal processing of the extractor, in its folder."""

from __future__ import annotations

import numpy as np


def log_energies(wave: np.ndarray, n_bands: int) -> np.ndarray:
    """Log energies of ``n_bands`` bands of equal width, float64 [n_bands]."""
    power = np.abs(np.fft.rfft(wave.astype(np.float64))) ** 2
    return np.log([1e-9 + band.mean() for band in np.array_split(power, n_bands)])
