"""Speech of the synthetic speakers by id, and what an anonymiser leaves of it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from pipeline import audio
from pipeline.audio import Subtype
from pipeline.datasets import synthetic
from pipeline.seeds import digest
from tests.challenge.sets import SEED, Utterance

RATE = synthetic.RATE
STEP = 80  # utterances last a multiple of 5 ms, so that utt2dur is short and exact

STRENGTHS = {
    "_mcadams": 0.15, "_B1": 0.35, "_B2": 0.15, "_B3": 0.85, "_B4": 0.90, "_B5": 0.95, "_B6": 0.55,
    "_T8-5": 0.97, "_T10-2": 0.93, "_T12-5": 0.88, "_T25-1": 0.96, "_anon": 0.5,
}  # fmt: skip
"""How far an anonymised voice is from its speaker towards the pseudo-speaker, by suffix: roughly the systems' order in print."""

_KEPT = ("id", "sex")


def samples(utterance: Utterance, seconds: float) -> int:
    """How long an utterance is: ``seconds`` give or take 30 %, by its id."""
    length = seconds * (0.7 + 0.6 * int(digest("length", utterance.id)[:8], 16) / 16**8)
    return max(1, round(length * RATE / STEP)) * STEP


def speaker(name: str, sex: str) -> synthetic.Speaker:
    """The voice of a speaker's name."""
    index = 2 * int(digest("voice", name)[:8], 16) + (sex == "m")
    return replace(synthetic.make_speaker(SEED, index), id=name)


def original(utterance: Utterance, seconds: float) -> np.ndarray:
    """Float32 [n] at 16 kHz."""
    return _speak(speaker(utterance.speaker, utterance.sex), utterance, seconds)


def anonymised(utterance: Utterance, seconds: float, suffix: str, pseudonym: str) -> np.ndarray:
    """The same words in a voice between the speaker's and the pseudo-speaker's, float32 [n] of the same length.

    McAdams copies end in zeros and fill the range, as the challenge's do.

    Args:
        utterance: what is said.
        seconds: as for :func:`original`.
        suffix: of the system.
        pseudonym: what the pseudo-speaker depends on: the utterance, or the speaker and the set.
    """
    own = speaker(utterance.speaker, utterance.sex)
    other = speaker(f"{suffix} {pseudonym}", utterance.sex)
    wave = _speak(_between(own, other, STRENGTHS.get(suffix, 0.7)), utterance, seconds)
    if suffix == "_mcadams":
        wave[len(wave) // 160 * 160 - 160 :] = 0
        wave *= 0.999 / np.abs(wave).max()
    return wave


def write(path: Path, wave: np.ndarray, subtype: Subtype = "PCM_16") -> None:
    """At 16 kHz, as WAV or FLAC (16 bits) by the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".flac":
        soundfile.write(path, wave, RATE, subtype="PCM_16")
    else:
        audio.write(path, wave, RATE, subtype)


def _speak(voice: synthetic.Speaker, utterance: Utterance, seconds: float) -> np.ndarray:
    number = int(digest("utterance", utterance.id)[:8], 16)
    return synthetic.make_utterance(voice, SEED, number, samples(utterance, seconds) / RATE).wave


def _between(own: Any, other: Any, share: float) -> Any:
    """A voice whose habits lie between two voices, or a part of one; the id stays, so that the words do."""
    mixed: dict[str, Any] = {}
    for habit in fields(own):
        if habit.name in _KEPT:
            continue
        mine, theirs = getattr(own, habit.name), getattr(other, habit.name)
        if is_dataclass(mine):
            mixed[habit.name] = _between(mine, theirs, share)
            continue
        a, b = np.array(mine), np.array(theirs)
        value = ((1 - share) * a + share * b).tolist()
        mixed[habit.name] = tuple(map(tuple, value)) if a.ndim == 2 else tuple(value) if a.ndim else value
    return replace(own, **mixed)
