"""The original speech, as a system of its own: nothing is changed, and the anonymise stage has nothing to do."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from pipeline.anonymisers._types import Anonymised, Utterance
from pipeline.registry import ComponentSettings, numeric


class Settings(ComponentSettings):
    """Unprotected speech has no settings."""

    name: Literal["original"] = numeric("original")


class Anonymiser:
    """Gives back what it gets."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def level(self) -> str:
        return "none"

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        return Anonymised(np.asarray(wave, np.float32), rate)
