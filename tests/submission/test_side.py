"""What one pass over a file shows: its flat tops."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.submission.findings import TopCounter


def test_flat_tops_are_counted_and_peaks_are_not() -> None:
    wave = (0.5 * np.sin(np.arange(16_000) * 2 * np.pi * 201.3 / 16_000)).astype(np.float32)
    listener = TopCounter()
    listener.add(wave, 16_000)
    assert listener.flat_tops == 0 and listener.peak == pytest.approx(0.5, abs=1e-3)
    listener = TopCounter()
    listener.add(np.clip(wave, -0.4, 0.4), 16_000)
    # 201 periods, each with one top and one bottom that last longer than three samples.
    assert listener.flat_tops == pytest.approx(402, abs=1)
