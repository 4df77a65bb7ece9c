"""The original speech, as a system of its own: nothing is changed, and the anonymise stage has nothing to do."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import Anonymised, ComponentSettings, Utterance, numeric


class OriginalSettings(ComponentSettings):
    """Unprotected speech has no settings."""

    name: Literal["original"] = numeric("original")


class Anonymiser(contracts.Anonymiser):
    """Gives back what it gets."""

    Settings = OriginalSettings
    unchanged = True

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        return Anonymised(np.asarray(wave, np.float32), rate)

    @classmethod
    def shown_level(cls, settings: Any) -> str:
        return "none"
