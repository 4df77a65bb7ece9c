"""A tiny folder as the scripts of the VoicePrivacy Challenge 2024 leave it: synthetic speakers in two libri sets, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline import audio
from tests import toy

SETS = {"toy_enrolls": "libri_dev_enrolls", "toy_trials_f": "libri_dev_trials_f", "toy_trials_m": "libri_dev_trials_m"}


def original(root: Path, speakers: int = 6, utterances: int = 4) -> Path:
    """``root/data`` with the sets of libri_dev."""
    data = root / "data"
    data.mkdir(parents=True)
    toy.corpus(data, speakers, utterances)
    for made, name in SETS.items():
        (data / made).rename(data / name)
        table = data / name / "wav.scp"
        lines = [line.split() for line in table.read_text().splitlines()]
        table.write_text("".join(f"{utterance} {data / path}\n" for utterance, path in lines))
    return root


def anonymise(root: Path, suffix: str, sets: Sequence[str] = tuple(SETS.values()), data: Path | None = None) -> None:
    """A copy of sets, in which each recording is turned back to front, as loud as the suffix is short."""
    for name in sets:
        for line in (root / "data" / name / "wav.scp").read_text().splitlines():
            utterance, path = line.split()
            wave, rate = audio.load(Path(path))
            copied = (data or root / "data") / f"{name}{suffix}" / "wav" / f"{utterance}.wav"
            copied.parent.mkdir(parents=True, exist_ok=True)
            audio.write(copied, wave[::-1] / len(suffix), rate, "PCM_16")
