"""An anonymiser with weights: the spectrum mirrored, mixed with the original by a share that a file of weights holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.contracts import Anonymised, Anonymiser, ComponentSettings, Utterance, Weights, numeric
from pipeline.errors import ModelMissing
from pipeline.files import folder_digest

FILE = "share.txt"


class Settings(ComponentSettings):
    """There is nothing to set."""

    name: Literal["mirror"] = numeric("mirror")


class Mirror(Anonymiser):
    """Everybody sounds mirrored."""

    Settings = Settings

    def __init__(self, settings: Any, weights: Path | None = None, device: str = "cpu") -> None:
        super().__init__(settings, weights, device)
        assert weights is not None
        self.share = float((weights / FILE).read_text())

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        mirrored = wave * np.where(np.arange(len(wave)) % 2, -1.0, 1.0)
        mixed = self.share * mirrored + (1 - self.share) * wave
        return Anonymised(mixed.astype(np.float32), rate, parameters={"share": self.share})

    @classmethod
    def level(cls, settings: Any) -> str:
        return "fixed"

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        folder = models / "mirror"
        if not (folder / FILE).is_file():
            raise ModelMissing(
                "the weights of mirror are not on this machine, and a run never downloads",
                where=str(folder / FILE),
                remedy="run voice-privacy fetch-models 'system=[original,mirror]'",
            )
        return Weights(folder, folder_digest(folder, [FILE]))

    @classmethod
    def fetch(cls, settings: Any, models: Path) -> None:
        folder = models / "mirror"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text("0.8")
