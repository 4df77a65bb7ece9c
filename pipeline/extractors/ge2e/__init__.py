"""GE2E d-vectors (256 dimensions): the offline speaker embedding for real speech. It is no ECAPA, and no table calls it so.

The weights come inside the Resemblyzer 0.1.4 wheel (Apache-2.0). Its mel frames have no logarithm, so that gain changes
the embedding: by default the level of each file is brought to -30 dBFS, up or down.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.contracts import Download, Feature, Weights, numeric
from pipeline.errors import ModelMissing
from pipeline.nets import embedding
from pipeline.nets.embedding import EmbeddingExtractor, PreparationSettings
from pipeline.weights.fetch import fetch_wheel_file
from pipeline.weights.find import WheelFile, fetch_command, find_wheel_weights

VERSION = "ge2e 1"
FILE = "pretrained.pt"
WHEEL = WheelFile(
    requirement="resemblyzer==0.1.4",
    member=f"resemblyzer/{FILE}",
    sha256="39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
    folder="ge2e",
    title="GE2E",
    bytes=15_747_704,
    licence="Apache-2.0",
)


class Ge2eSettings(PreparationSettings):
    """Settings of the GE2E extractor; how recordings are prepared stands at the base class.

    Attributes:
        level: ``normalise`` brings the RMS level of each file to ``level_dbfs``; ``raise_only`` leaves louder files
            alone, as Resemblyzer does (an anonymiser's gain then moves the scores); ``keep`` changes nothing.
        level_dbfs: the level in dB re full scale.
    """

    name: Literal["ge2e"] = numeric("ge2e")
    level: Literal["normalise", "raise_only", "keep"] = numeric("normalise")
    level_dbfs: float = numeric(-30.0, ge=-90, le=0)


class Extractor(EmbeddingExtractor):
    """Waveforms at 16 kHz to unit vectors of 256 non-negative values.

    Files go through the model one at a time, so that a vector depends on its own audio alone. Audio shorter than 1.6 s
    is followed by zeros up to 1.6 s; silent audio has weight 0.
    """

    Settings = Ge2eSettings
    libraries = ("torch", "numpy")
    settings: Ge2eSettings

    def __init__(self, settings: Ge2eSettings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.extractors.ge2e import network as ge2e

        if weights is None:
            raise ModelMissing("the GE2E extractor was given no weights", where=f"extractor {settings.name}")
        super().__init__(settings, weights, device, threads)
        self.dimension = ge2e.DIMENSION
        self.encoder = ge2e.load(weights / FILE).to(device)

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short and silent ones."""

        def embed(wave: np.ndarray) -> Feature:
            reason = embedding.find_fault(wave)
            if reason:
                return embedding.make_unusable(self.dimension, reason)
            levelled = embedding.set_level(wave, self.settings.level, self.settings.level_dbfs)
            vector = self.encoder.embed(embedding.to_tensor(levelled, self.device))
            return embedding.make_feature(vector.cpu().numpy())

        return embedding.run_each(embed, waveforms, self.device, self.threads)

    @classmethod
    def weights(cls, settings: Ge2eSettings, models: Path) -> Weights:
        return find_wheel_weights(WHEEL, models, fetch_command("extractor", settings, models))

    @classmethod
    def fetch(cls, settings: Ge2eSettings, models: Path) -> None:
        fetch_wheel_file(WHEEL, models)

    @classmethod
    def download(cls, settings: Ge2eSettings) -> Download:
        return WHEEL.download()
