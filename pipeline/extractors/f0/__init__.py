"""Histograms of F0 as a speaker feature: what similarity rank disclosure measures of the pitch alone.

pYIN, 65 to 450 Hz, every 10 ms, at 8 kHz; the integer lags 17 to 123 of voiced frames are counted, 107 values, and
normalised (Bäckström et al. 2025; arXiv 2605.07291). Compared by Euclidean distance.

pYIN's own settings are librosa's but for four, chosen on evidence. The frame has 248 samples, 31 ms, the shortest
multiple of eight that holds two periods of 65 Hz: longer ones blur moving pitch and stretch voicing into pauses. The
lowest trough of a frame gets nothing from thresholds that it does not pass (``no_trough_prob`` 0; librosa's 0.01
outweighs an unvoiced state, as 335 bins share that probability, and voices noise). The first trough below a threshold
gets nearly all of its probability (``boltzmann_parameter`` 8; in the paper it gets all). Thresholds are 0.17 on
average instead of 0.1 (``beta_parameters`` (2, 10)).

With librosa's settings (frames of 512) a fifth of Praat's voiced frames are off by more than 2 % on 20 files of LibriSpeech test-other,
and 31 % of its unvoiced frames are voiced; with these 4 % are off and 8 % are voiced, and both find 88 % of the voiced frames. On 24
synthetic speakers, whose F0 is known, 97 % of voiced frames lie within a lag of the truth. ``beta_parameters`` (2, 20) brings false
voicing there from 9 to 5 %, and costs real speech a quarter of its voiced frames and a third of the segments at rank 1 (56.7 to 39.4 % of
segments of 10 s among 20 speakers of dev-clean), so it is not the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import model_validator

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, numeric
from pipeline.nets.embedding import find_fault
from pipeline.nets.histograms import pool_histograms

VERSION = "f0 2"


class F0Settings(ComponentSettings):
    """Settings of the F0 extractor.

    Attributes:
        fmin, fmax: range of F0 in Hz.
        hop_ms: time between frames.
        frame: samples in a frame at 8 kHz.
        beta_parameters: shape of the beta distribution of pYIN's thresholds; the lower its mean a / (a + b), the more
            periodic a frame has to be to count as voiced.
        boltzmann_parameter: how much likelier the first of several troughs below a threshold is.
        no_trough_prob: share of the probability that the lowest trough keeps for thresholds above which it lies.
    """

    name: Literal["f0"] = numeric("f0")
    fmin: float = numeric(65.0, ge=20)
    fmax: float = numeric(450.0, le=2000)
    hop_ms: float = numeric(10.0, gt=0.5, le=100)
    frame: int = numeric(248, ge=32, multiple_of=2)
    beta_parameters: tuple[float, float] = numeric((2.0, 10.0))
    boltzmann_parameter: float = numeric(8.0, gt=0, le=100)
    no_trough_prob: float = numeric(0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> F0Settings:
        if self.fmin >= self.fmax:
            raise ValueError("fmin is below fmax")
        if self.frame * self.fmin < 2 * Extractor.sample_rate:
            needed = int(2 * Extractor.sample_rate / self.fmin) // 2 * 2 + 2
            raise ValueError(f"a frame holds two periods of fmin: at least {needed} samples")
        if min(self.beta_parameters) <= 0:
            raise ValueError("the parameters of a beta distribution are above 0")
        return self


class Extractor(contracts.Extractor):
    """Waveforms at 8 kHz to histograms of 107 lags (at the default range), shortest lag first.

    The weight of a vector is its number of voiced frames; without any it is 0, with the reason. Such audio is still an
    observation: it tells an attacker who looks at F0 nothing, so all references tie. McAdams-anonymised speech has much
    of it: the poles gather around 2.5 kHz, and the fundamental drowns.

    Files run beside each other in compiled kernels, on the CPU whatever the device is (900 times real time a thread).
    """

    Settings = F0Settings
    settings: F0Settings
    libraries = ("numpy", "numba")
    compared_as = frozenset({"ranks"})
    similarity = "euclidean"
    evidence_optional = True
    sample_rate = 8000
    pool = staticmethod(pool_histograms)

    def __init__(self, settings: F0Settings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.extractors.f0.pyin import Tracker

        super().__init__(settings, weights, device, threads)
        self.tracker = Tracker(
            self.sample_rate,
            settings.fmin,
            settings.fmax,
            settings.frame,
            round(settings.hop_ms * self.sample_rate / 1000),
            "srd",
            settings.beta_parameters,
            settings.boltzmann_parameter,
            settings.no_trough_prob,
        )
        self.dimension = self.tracker.lags

    @classmethod
    def frequencies(cls, settings: F0Settings) -> tuple[float, ...]:
        shortest, longest = int(cls.sample_rate // settings.fmax), int(cls.sample_rate // settings.fmin)
        return tuple(cls.sample_rate / lag for lag in range(shortest, longest + 1))

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Histograms of waveforms, each float32 [n] at 8 kHz."""
        reasons = [find_fault(wave) for wave in waveforms]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self._extract_single, waveforms, reasons))

    def _extract_single(self, wave: np.ndarray, reason: str) -> Feature:
        if reason:
            return Feature(np.zeros(self.dimension, np.float32), 0.0, reason)
        pitch = self.tracker.track(wave)
        counts = np.bincount(pitch.state[pitch.voiced], minlength=self.dimension)
        total = int(counts.sum())
        if not total:
            return Feature(np.zeros(self.dimension, np.float32), 0.0, "no voiced frame")
        return Feature((counts / total).astype(np.float32), float(total))
