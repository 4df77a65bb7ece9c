"""What one pass over a file shows: its long-term spectrum and its flat tops."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.submission import hearing


def test_bands_above_half_the_rate_are_left_out() -> None:
    """White noise at 8 kHz: what the spectrum says below 3.5 kHz does not depend on the rate."""
    wave = np.random.default_rng(0).standard_normal(32_000).astype(np.float32) * 0.1
    listeners = {}
    for rate in (16_000, 8_000):
        listeners[rate] = hearing._Listener()
        listeners[rate].add(wave, rate)
    low, full = listeners[8_000].spectrum(), listeners[16_000].spectrum()
    assert np.isfinite(full).all()
    assert np.isnan(low).any() and np.isfinite(low[:20]).all()


def test_flat_tops_are_counted_and_peaks_are_not() -> None:
    wave = (0.5 * np.sin(np.arange(16_000) * 2 * np.pi * 201.3 / 16_000)).astype(np.float32)
    listener = hearing._Listener()
    listener.add(wave, 16_000)
    assert listener.flat_tops == 0 and listener.peak == pytest.approx(0.5, abs=1e-3)
    listener = hearing._Listener()
    listener.add(np.clip(wave, -0.4, 0.4), 16_000)
    # 201 periods, each with one top and one bottom that last longer than three samples.
    assert listener.flat_tops == pytest.approx(402, abs=1)
