"""Attackers: what they enrol, what they try, and what their models are trained on."""

from __future__ import annotations

from typing import Literal, TypeVar

from pipeline.contracts import ComponentSettings, numeric

Speech = TypeVar("Speech")


class AttackerSettings(ComponentSettings):
    """What an attacker enrols, what the trials are, and what the attacker's models are trained on.

    Attributes:
        enrolment, trial: original or anonymised speech.
        training: of extractor and back end: the original training set, or the system's anonymised copy of it.
        training_level: how pseudo-voices are given in that copy, where the system has a choice: as the system does (``same``),
            one a ``speaker`` or one an ``utterance``. With a pseudo-voice an utterance the attacker learns what the voices of
            a speaker have in common: it was the stronger one against pseudo-voices of speakers too, and the VoicePrivacy
            Challenges of 2022 and 2024 train so. At speaker level, an attacker on pseudo-voices of utterances may be too weak.
        training_draws: how many times that copy is made, each under other random numbers; null is 3 where most training
            speakers have one recording (which is then cut into pieces, each with a pseudo-voice of its own where the
            level is ``utterance``), else 1.
    """

    enrolment: Literal["original", "anonymised"] = numeric()
    trial: Literal["original", "anonymised"] = numeric()
    training: Literal["original", "anonymised"] = numeric("original")
    training_level: Literal["same", "speaker", "utterance"] = numeric("same")
    training_draws: int | None = numeric(None, ge=1, le=20)

    @property
    def condition(self) -> str:
        """OO, OP, PO or PP: enrolment, then trial."""
        return "".join("O" if side == "original" else "P" for side in (self.enrolment, self.trial))

    @property
    def adapts(self) -> bool:
        """Whether models are trained on the system's anonymised speech."""
        return self.training == "anonymised"

    @property
    def asked(self) -> str:
        """How the training set is asked for, for signatures."""
        return f"{self.training_level} level, {self.training_draws or 'usual'} draws"

    def enrols(self, original: Speech, anonymised: Speech) -> Speech:
        """The speech that is enrolled."""
        return original if self.enrolment == "original" else anonymised

    def tries(self, original: Speech, anonymised: Speech) -> Speech:
        """The speech of the trials."""
        return original if self.trial == "original" else anonymised
