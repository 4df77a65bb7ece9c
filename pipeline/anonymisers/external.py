"""Somebody's anonymised speech: a folder of audio files, taken as it is."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import Anonymised, ComponentSettings, Copies, Utterance, numeric, runtime


class ExternalSettings(ComponentSettings):
    """Where the files are. Their bytes enter keys, the folder does not.

    Attributes:
        root: folder with ``SET_suffix/wav/UTT.wav``, or any ``**/UTT.ext``.
        suffix: which copies to take where several systems lie in one folder as ``SET_suffix``.
        level: printed in tables: how pseudo-voices were given ('speaker', 'utterance', ...).
        second_root: the evaluation sets anonymised once more with other random numbers, for C_ECE and M_P0P1.
        train_root: the training set anonymised by the same system, for semi-informed attackers; by default ``root``.
    """

    name: Literal["external"] = numeric("external")
    root: str = runtime(..., min_length=1)
    level: str = numeric("unknown")
    suffix: str | None = runtime(None)
    second_root: str | None = runtime(None)
    train_root: str | None = runtime(None)


class Anonymiser(contracts.Anonymiser):
    """Speech that was anonymised elsewhere; there is nothing to do."""

    Settings = ExternalSettings

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        raise TypeError("the files of an external system are taken as they are")

    @classmethod
    def level(cls, settings: ExternalSettings) -> str:
        return settings.level

    @classmethod
    def copies(cls, settings: ExternalSettings) -> Copies:
        return Copies(settings.root, settings.suffix, settings.second_root or "", settings.train_root or settings.root)
