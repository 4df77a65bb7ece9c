"""Attackers: what they enrol, what they try, and what their models are trained on."""

from __future__ import annotations

from typing import Literal

from pipeline.contracts import ComponentSettings, numeric


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
        enrolment_level: how pseudo-voices are given in the anonymised enrolment, as ``training_level`` is for training.
        enrolment_draws: how many times the enrolment is anonymised, each under other random numbers; a model has the utterances
            of all, and the covariance of the back end ``wccn`` learns from them. A system that is not random, or was run
            elsewhere, gives one draw: then the enrolment together with the original one is a further attack (condition OPP).
    """

    enrolment: Literal["original", "anonymised"] = numeric()
    trial: Literal["original", "anonymised"] = numeric()
    training: Literal["original", "anonymised"] = numeric("original")
    training_level: Literal["same", "speaker", "utterance"] = numeric("same")
    training_draws: int | None = numeric(None, ge=1, le=20)
    enrolment_level: Literal["same", "speaker", "utterance"] = numeric("same")
    enrolment_draws: int = numeric(1, ge=1, le=20)

    @property
    def condition(self) -> str:
        """OO, OP, PO or PP: enrolment, then trial. Original and anonymised enrolment together put an O before it."""
        return "".join("O" if side == "original" else "P" for side in (self.enrolment, self.trial))

    @property
    def adapts(self) -> bool:
        """Whether models are trained on the system's anonymised speech."""
        return self.training == "anonymised"

    @property
    def training_request(self) -> str:
        """How the training set is asked for, for signatures."""
        return f"{self.training_level} level, {self.training_draws or 'usual'} draws"

    @property
    def enrolment_request(self) -> str:
        """How the anonymised enrolment is asked for, for signatures; '' for once, as the system does it."""
        once = self.enrolment == "original" or (self.enrolment_level, self.enrolment_draws) == ("same", 1)
        return "" if once else f"{self.enrolment_level} level, {self.enrolment_draws} draws"
