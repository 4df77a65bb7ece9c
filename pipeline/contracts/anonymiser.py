"""What an anonymiser is: the system that protects speech."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pipeline.contracts.component import Component


@dataclass(frozen=True)
class Utterance:
    """Which utterance a waveform is.

    Attributes:
        id: utterance id.
        speaker: speaker id.
        set: name of its set (enrolment and trial sets of one speaker differ).
        position: 0-based line of the set's wav.scp; only the challenge's own seeding looks at it.
    """

    id: str
    speaker: str
    set: str
    position: int = 0


@dataclass(frozen=True)
class Anonymised:
    """An anonymised waveform.

    Attributes:
        wave: float32 [n], as long as the original; with PCM_16 all samples are multiples of 1 / 32768.
        rate: Hz.
        subtype: how the file is to be written.
        parameters: what was drawn or measured for this utterance (alpha, gain, ``correlation`` of a program's with the original).
        passed: counts of frames in all and of what was passed through unchanged, and why.
    """

    wave: np.ndarray
    rate: int
    subtype: Literal["FLOAT", "PCM_16"] = "FLOAT"
    parameters: dict[str, float] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Copies:
    """Where the files of a system lie that was run elsewhere.

    Attributes:
        root: of the evaluation sets.
        suffix: which copies to take where several systems lie in one folder.
        second_root: the evaluation sets anonymised once more with other random numbers; '' if there are none.
        train_root: the anonymised training set; '' if it lies in ``root``.
        pattern: how the files are called, without their extension: text with ``{utterance}``.
        ignore_case: whether upper and lower case of their names are the same.
        follow_links: whether links may lead out of these folders.
        folders: of the evaluation sets by name, where ``root`` and ``suffix`` do not tell them.
    """

    root: str
    suffix: str | None
    second_root: str
    train_root: str
    pattern: str = "{utterance}"
    ignore_case: bool = False
    follow_links: bool = False
    folders: Mapping[str, str] = field(default_factory=dict)


class Anonymiser(Component):
    """A system: it protects speech. Several threads call :meth:`anonymise` of one object at once.

    Attributes:
        unchanged: whether its speech is the original speech. Every evaluation has one such system, and refers to it.
        on_device: whether :meth:`anonymise_many` uses a GPU. Where the device is no CPU, it is called by one thread with about half
            an hour of speech at once.
    """

    unchanged: ClassVar[bool] = False
    on_device: ClassVar[bool] = False

    def __init__(self, settings: Any, weights: Path | None = None, device: str = "cpu") -> None:
        """Make it ready, with the folder that :meth:`weights` found, on ``cpu`` or, where :attr:`on_device`, ``cuda[:N]``."""
        self.settings, self.device = settings, device

    @abstractmethod
    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        """One waveform, float32 [n] at ``rate`` Hz."""

    def anonymise_many(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        """Waveforms, each with its rate and utterance, of any mixture of lengths and rates; results in order."""
        return [self.anonymise(*wave) for wave in waves]

    @classmethod
    def batches_on_cpu(cls, settings: Any) -> bool:
        """Whether :meth:`anonymise_many` is to be called on a CPU too, by one thread with about half an hour of speech at once."""
        return False

    @classmethod
    def level(cls, settings: Any) -> str:
        """How pseudo-voices are given: ``fixed``, ``speaker`` or ``utterance``; '' if that is not said."""
        return ""

    @classmethod
    def shown_level(cls, settings: Any) -> str:
        """The level as tables print it, with what enrolment and trials share."""
        return cls.level(settings) or "unknown"

    @classmethod
    def reads(cls, settings: Any) -> tuple[str, ...]:
        """Columns of the manifest that results depend on, beside set, speaker and utterance."""
        return ()

    @classmethod
    def rerun(cls, settings: Any, number: int) -> Any:
        """The settings of the same system under other random numbers, those of run ``number`` from 1; None where nothing is
        random. Run 0 is that of the settings as they are."""
        return None

    @classmethod
    def at_level(cls, settings: Any, level: str) -> Any:
        """The settings of the same system with a pseudo-voice for each ``speaker`` or ``utterance``; None if it has no choice."""
        return None

    @classmethod
    def copies(cls, settings: Any) -> Copies | None:
        """Where the files lie, for a system that was run elsewhere; it then anonymises nothing."""
        return None
