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
        training_level: how pseudo-voices are given in that copy: as the system does (``same``), one a ``speaker`` or one an
            ``utterance``. An attacker trained at another level than the speech under attack may be too weak.
    """

    enrolment: Literal["original", "anonymised"] = numeric()
    trial: Literal["original", "anonymised"] = numeric()
    training: Literal["original", "anonymised"] = numeric("original")
    training_level: Literal["same", "speaker", "utterance"] = numeric("same")

    @property
    def condition(self) -> str:
        """OO, OP, PO or PP: enrolment, then trial."""
        return "".join("O" if side == "original" else "P" for side in (self.enrolment, self.trial))

    @property
    def adapts(self) -> bool:
        """Whether models are trained on the system's anonymised speech."""
        return self.training == "anonymised"

    def enrols(self, original: Speech, anonymised: Speech) -> Speech:
        """The speech that is enrolled."""
        return original if self.enrolment == "original" else anonymised

    def tries(self, original: Speech, anonymised: Speech) -> Speech:
        """The speech of the trials."""
        return original if self.trial == "original" else anonymised
