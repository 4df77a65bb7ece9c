"""Histograms of F0 as a speaker feature: what similarity rank disclosure measures of the pitch alone.

pYIN, 65 to 450 Hz, every 10 ms, at 8 kHz; the integer lags 17 to 123 of voiced frames are counted, 107 values, and
normalised (Bäckström et al. 2025; arXiv 2605.07291). Compared by Euclidean distance.

The frame has 256 samples, 32 ms: the shortest even power of two that holds two periods of 65 Hz. Longer frames blur moving pitch
and stretch voicing into pauses. Measured with this tracker:

====================  ====  ====  ====  ====
frame at 8 kHz         256   320   384   512
====================  ====  ====  ====  ====
Praat, within 2 %     96.6  94.1  89.0  78.2
Praat, frames found   86.4  89.3  90.2  90.4
truth, within 2 %     98.1  98.0  97.6  96.2
truth, within a lag   97.3  97.3  97.0  96.0
truth, frames found   99.7  99.8  99.8  99.8
truth, false voicing   3.8   4.0   5.2   8.5
====================  ====  ====  ====  ====

in % of frames voiced in both; of those that Praat (autocorrelation, very accurate) or the truth calls voiced;
and, for false voicing, of unvoiced frames more than 20 ms from voiced speech. Praat on 10 files of LibriSpeech
test-other, the truth of 24 synthetic speakers, 4 utterances each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from pipeline.models.embedding import unusable
from pipeline.models.feature import Feature
from pipeline.models.weights import Weights
from pipeline.registry import ComponentSettings, numeric


class Settings(ComponentSettings):
    """Settings of the F0 extractor.

    Attributes:
        fmin, fmax: range of F0 in Hz.
        hop_ms: time between frames.
        frame: samples in a frame at 8 kHz.
    """

    name: Literal["f0"] = numeric("f0")
    fmin: float = numeric(65.0, ge=20)
    fmax: float = numeric(450.0, le=2000)
    hop_ms: float = numeric(10.0, gt=0.5, le=100)
    frame: int = numeric(256, ge=32, multiple_of=2)

    @model_validator(mode="after")
    def _two_periods(self) -> Settings:
        if self.fmin >= self.fmax:
            raise ValueError("fmin is below fmax")
        if self.frame * self.fmin < 2 * Extractor.sample_rate:
            needed = int(2 * Extractor.sample_rate / self.fmin) // 2 * 2 + 2
            raise ValueError(f"a frame holds two periods of fmin: at least {needed} samples")
        return self


class Extractor:
    """Waveforms at 8 kHz to histograms of 107 lags (at the default range), shortest lag first.

    The weight of a vector is its number of voiced frames; without any it is 0, with the reason. Such audio is still an
    observation: it tells an attacker who looks at F0 nothing, so all references tie. McAdams-anonymised speech has much of
    it: the poles gather around 2.5 kHz, and the fundamental drowns.
    """

    version: ClassVar[int] = 1
    measures: ClassVar[frozenset[str]] = frozenset({"ranks"})
    similarity: ClassVar[str] = "euclidean"
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "numba")
    evidence_optional: ClassVar[bool] = True
    sample_rate: int = 8000

    def __init__(self, settings: Settings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.models.pyin import Tracker

        self.settings, self.threads = settings, threads
        hop = round(settings.hop_ms * self.sample_rate / 1000)
        self.tracker = Tracker(self.sample_rate, settings.fmin, settings.fmax, settings.frame, hop, "srd")
        self.dimension = self.tracker.lags

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Histograms of waveforms, each float32 [n] at 8 kHz."""
        if self.threads > 1 and len(waveforms) > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                return list(pool.map(self._histogram, waveforms))
        return [self._histogram(wave) for wave in waveforms]

    def _histogram(self, wave: np.ndarray) -> Feature:
        reason = unusable(wave)
        if not reason:
            pitch = self.tracker.track(wave)
            counts = np.bincount(pitch.state[pitch.voiced], minlength=self.dimension)
            total = int(counts.sum())
            if total:
                return Feature((counts / total).astype(np.float32), float(total))
            reason = "no voiced frame"
        return Feature(np.zeros(self.dimension, np.float32), 0.0, reason)

    @staticmethod
    def pool(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The histogram of several together: mean weighted by voiced frames, normalised.

        Args:
            vectors: float32 [n, d].
            weights: [n], voiced frames.

        Returns:
            float32 [d]; zeros if there is no voiced frame.
        """
        total = np.asarray(weights, np.float64) @ np.asarray(vectors, np.float64)
        mass = float(total.sum())
        return np.asarray(total / mass if mass > 0 else total, np.float32)


def weights(settings: Settings, models: Path) -> Weights | None:
    """None: pYIN needs no weights."""
    return None
