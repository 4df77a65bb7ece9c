"""An extractor with weights: log energies of 20 bands, each minus the mean that a file of weights holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.contracts import ComponentSettings, Extractor, Feature, Weights, numeric
from pipeline.errors import ModelMissing
from pipeline.files import folder_digest
from voice_privacy_toys.band_energies import bands

VERSION = 3
FILE = "means.json"


class Settings(ComponentSettings):
    """Settings of the band energies: ``n_bands`` of equal width."""

    name: Literal["band_energies"] = numeric("band_energies")
    n_bands: int = numeric(20, ge=4)


class BandEnergies(Extractor):
    """Vectors of ``n_bands`` values; silent audio has weight 0."""

    Settings = Settings

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        super().__init__(settings, weights, device, threads)
        assert weights is not None
        self.means = np.array(json.loads((weights / FILE).read_text())[: settings.n_bands])

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        return [self._one(wave) for wave in waveforms]

    def _one(self, wave: np.ndarray) -> Feature:
        if not len(wave) or not wave.any():
            return Feature(np.zeros(self.settings.n_bands, np.float32), 0.0, "silent")
        return Feature((bands.log_energies(wave, self.settings.n_bands) - self.means).astype(np.float32))

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        folder = models / "band-energies"
        if not (folder / FILE).is_file():
            raise ModelMissing(
                "the weights of band_energies are not on this machine, and a run never downloads",
                where=str(folder / FILE),
                remedy="run voice-privacy fetch-models 'extractor=[band_energies]'",
            )
        return Weights(folder, folder_digest(folder, [FILE]))

    @classmethod
    def fetch(cls, settings: Any, models: Path) -> None:
        folder = models / "band-energies"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps([float(-n) for n in range(64)]))
