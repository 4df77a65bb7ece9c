"""Voices that cost nothing, for tests of trainers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.nets.waveforms import Waveforms, pack_waveforms


def voice(item: int, speaker: int, seconds: float = 1.0) -> np.ndarray:
    """A harmonic tone whose pitch and brightness are the speaker's, in noise that is the item's."""
    random = np.random.default_rng(item)
    time = np.arange(int(16_000 * seconds)) / 16_000
    pitch = 100 + 25 * speaker + random.normal(0, 1)
    tone = sum(np.sin(2 * np.pi * pitch * k * time + random.uniform(0, 6)) / k ** (speaker / 3) for k in range(1, 12))
    return np.asarray(0.05 * tone + 0.003 * random.standard_normal(len(time)), dtype=np.float32)


def voices(speakers: Sequence[int], seconds: float = 1.0) -> Waveforms:
    """An utterance of each of these speakers, ``s3`` for speaker 3, named ``s3-0007`` for the seventh."""
    names = [f"s{speaker}" for speaker in speakers]
    ids = [f"{name}-{item:04d}" for item, name in enumerate(names)]
    return pack_waveforms([voice(item, speaker, seconds) for item, speaker in enumerate(speakers)], names, ids)
