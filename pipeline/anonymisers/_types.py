"""What an anonymiser is: what it is told of an utterance, what it gives back, and how it may use a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import numpy as np


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
        rate: Hz, the original's.
        subtype: how the file is to be written.
        parameters: what was drawn or measured for this utterance (alpha, gain).
        passed: counts of frames in all and of what was passed through unchanged, and why.
    """

    wave: np.ndarray
    rate: int
    subtype: Literal["FLOAT", "PCM_16"] = "FLOAT"
    parameters: dict[str, float] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)


class Random(Protocol):
    """The ``Settings`` of a random anonymiser: they have these two beside ``level`` (who has a pseudo-voice of their own:
    ``fixed``, ``speaker`` or ``utterance``)."""

    def second_run(self) -> Random | None:
        """The same system under other random numbers; None where these settings leave nothing random."""

    def at_level(self, level: str) -> Random:
        """The same system with a pseudo-voice for each ``speaker`` or each ``utterance``."""


class Anonymiser(Protocol):
    """The class ``Anonymiser`` of an anonymiser's module; ``Anonymiser(settings)`` makes one.

    Several threads call ``anonymise`` of one object at once.

    Attributes:
        version: raised whenever results change; enters keys.
        libraries: distributions whose versions change the numbers; enter keys.
    """

    version: ClassVar[int]
    libraries: ClassVar[tuple[str, ...]]

    @property
    def level(self) -> str:
        """How pseudo-voices are given, as tables print it."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the manifest that results depend on, beside set, speaker and utterance."""

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        """One waveform, float32 [n] at ``rate`` Hz."""


class OnDevice(Anonymiser, Protocol):
    """An anonymiser that can use a GPU: it has ``several``, and then its class also takes a device.

    Where the device is not 'cpu', the object is made by ``Anonymiser(settings, device)``, and ``several`` alone is called,
    by one thread, with about half an hour of speech at once. Without ``several``, and on a CPU, files go through
    ``anonymise``, and the class is given its settings alone.
    """

    def several(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        """The waveforms, each with its rate and utterance, of any mixture of lengths and rates; results in order."""
