"""What an anonymiser is told of an utterance, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
