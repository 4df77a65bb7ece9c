"""Somebody's anonymised speech: a folder of audio files, taken as it is."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import field_validator

from pipeline import contracts
from pipeline.contracts import Anonymised, ComponentSettings, Copies, Utterance, numeric, runtime
from pipeline.names import PLAIN, Pattern


class ExternalSettings(ComponentSettings):
    """Where the files are. Their bytes enter keys, the folder does not.

    Attributes:
        root: folder with ``SET_suffix/wav.scp``, which counts first, with ``SET_suffix/wav/UTT.wav``, or any ``**/UTT.ext``.
        level: printed in tables: who has a pseudo-voice of their own: nobody (``fixed``), each ``speaker``, or each ``utterance``.
        suffix: which copies to take where several systems lie in one folder as ``SET_suffix``.
        second_root: the evaluation sets anonymised once more with other random numbers, for C_ECE and M_P0P1.
        train_root: the training set anonymised by the same system, for semi-informed attackers; by default looked for in ``root``.
        folders: the folder of each set by its name, where ``SET_suffix`` under ``root`` does not tell it.
        pattern: how files are called, without the extension: plain text with ``{utterance}``, and maybe ``{set}``, ``{speaker}``, or
            ``{number}`` (any digits) at an end, such as ``{utterance}_anon``.
        ignore_case: whether upper and lower case of file names are the same.
        follow_links: whether links may lead out of the folders; what they lead to is read if it is a regular file.
    """

    name: Literal["external"] = numeric("external")
    root: str = runtime(..., min_length=1)
    level: Literal["unknown", "fixed", "speaker", "utterance"] = numeric("unknown")
    suffix: str | None = runtime(None)
    second_root: str | None = runtime(None)
    train_root: str | None = runtime(None)
    folders: dict[str, str] = runtime({})
    pattern: str = runtime(PLAIN)
    ignore_case: bool = runtime(False)
    follow_links: bool = runtime(False)

    @field_validator("pattern")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        return Pattern(text).text


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
        return Copies(
            settings.root,
            settings.suffix,
            settings.second_root or "",
            settings.train_root or "",
            settings.pattern,
            settings.ignore_case,
            settings.follow_links,
            settings.folders,
        )
