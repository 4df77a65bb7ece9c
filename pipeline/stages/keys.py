"""What the plan finds things by: plain values, compared by all that they say. Their labels are for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SpeechKey:
    """Some sets of the data, as one system has them.

    Attributes:
        system: its label.
        part: the evaluation sets, the training set, or the enrolment sets alone.
        run: under which random numbers, from 1; 2 is the second run, and the draws of training and enrolment sets count on.
        level: how pseudo-voices are given, where that is not left to the system.
    """

    system: str
    part: Literal["evaluation", "training", "enrolment"] = "evaluation"
    run: int = 1
    level: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        draw = f", draw {self.run}" if self.run > 1 else ""
        if self.part == "enrolment":
            return f"{self.system}, enrolment at {self.level} level{draw}"
        if self.part == "training":
            words = f"{self.level}{draw}".lstrip(", ")
            return f"{self.system}, training set" + (f" ({words})" if words else "")
        return self.system if self.run == 1 else f"{self.system}, second run"

    def __str__(self) -> str:
        return self.label

    @property
    def file_label(self) -> str:
        """What files of vectors call it: training and evaluation sets of a system together, its second run apart."""
        return self.system if self.run == 1 else f"{self.system}@2"


@dataclass(frozen=True)
class TrainingKey:
    """Speech to train on: a training set, under so many draws of the system's random numbers, and those that help."""

    speech: SpeechKey
    draws: int = 1
    also: tuple[TrainingKey, ...] = ()

    @property
    def label(self) -> str:
        """What messages call it."""
        drawn = self.speech.label if self.draws == 1 else f"{self.speech.label}, {self.draws} draws"
        return " with ".join([drawn, *(training.speech.system for training in self.also)])


@dataclass(frozen=True)
class ExtractorKey:
    """An extractor with its weights.

    Attributes:
        name: its label in the configuration.
        learnt: the anonymised speech on which the run trains it; None for what knows original speech or comes with weights.
        system: label of the system on whose speech somebody else trained it; else ''.
    """

    name: str
    learnt: TrainingKey | None = None
    system: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        if self.system:
            return f"{self.name} of {self.system}"
        return self.name if self.learnt is None else f"{self.name}, {self.learnt.label}"

    def __str__(self) -> str:
        return self.label
