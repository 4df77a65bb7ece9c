"""The small clean data that is edited, and what its edited tables say to a plain reader: the numbers that are right."""

from __future__ import annotations

import shutil
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from pipeline.datasets import synthetic
from pipeline.extractors import ge2e
from tests import toy

SEED = 11
RATE = 16_000
SETS = ("x_enrolls", "x_trials_f", "x_trials_m")
SPEAKERS = {"f": ["f1", "fé2", "f3"], "m": ["m1", "m2", "m3"]}


def build(root: Path) -> Path:
    """Six speakers, two utterances enrolled and two tried each; one speaker's name is not ASCII."""
    rows: dict[str, list[toy.Row]] = {name: [] for name in SETS}
    (root / "wav").mkdir(parents=True)
    for place, (sex, speaker) in enumerate((sex, speaker) for sex, names in SPEAKERS.items() for speaker in names):
        who = synthetic.make_speaker(SEED, place)
        for number in range(4):
            wave = synthetic.make_utterance(who, SEED, number, 0.9).wave
            utterance, path = f"{speaker}-{number}", f"wav/{speaker}-{number}.wav"
            soundfile.write(root / path, np.asarray(wave, np.float32), RATE, subtype="PCM_16")
            rows["x_enrolls" if number < 2 else f"x_trials_{sex}"].append((utterance, speaker, sex, path))
    for name, members in rows.items():
        is_enrolment = name == "x_enrolls"
        toy.write_set(root / name, members, None if is_enrolment else SPEAKERS[name[-1]], is_enrolment)
    return root


def anonymised(root: Path, to: Path) -> Path:
    """Somebody's anonymised copy: every utterance backwards."""
    for name in SETS:
        for line in (root / name / "wav.scp").read_text(encoding="utf-8").splitlines():
            wave, rate = soundfile.read(root / line.split()[1], dtype="int16")
            path = to / f"{name}_anon" / "wav" / f"{line.split()[0]}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, wave[::-1], rate, subtype="PCM_16")
    return to


def restore(clean: Path, root: Path) -> None:
    """The clean data once more; hard links would let an edit reach the original, so files are copied."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(clean, root)


def table(path: Path) -> list[list[str]]:
    """Lines of fields, as anybody reads them.

    Raises:
        ValueError: no UTF-8.
    """
    text = unicodedata.normalize("NFC", path.read_bytes().decode("utf-8-sig"))
    return [line.split() for line in text.split("\n") if line.strip()]


@dataclass
class Voices:
    """Vectors of audio files, by what a decoder gives."""

    weights: Path
    known: dict[bytes, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extractor = ge2e.Extractor(ge2e.Ge2eSettings(), self.weights, "cpu", 1)

    def vector(self, path: Path) -> np.ndarray:
        """The vector of a file [d]."""
        wave, rate = soundfile.read(path, dtype="float32")
        assert rate == RATE and wave.ndim == 1
        wave = np.trim_zeros(wave)  # as the extractor's settings ask by default
        if wave.tobytes() not in self.known:
            self.known[wave.tobytes()] = np.asarray(self.extractor.extract([wave])[0].vector, np.float64)
        return self.known[wave.tobytes()]


Scores = dict[tuple[str, str, str], tuple[float, bool]]
"""(trial set, model, utterance) to score and whether it is a target trial."""


def expected(root: Path, voices: Voices, audio: dict[tuple[str, str], Path] | None = None) -> Scores:
    """What the tables say: every trial's cosine of the model's mean unit vector and the utterance's vector.

    Args:
        root: the data set.
        voices: of its audio.
        audio: the file of an utterance of a set, where it is not the one of wav.scp.

    Raises:
        Exception: the tables do not fit together; which one does not matter.
    """
    paths = {(name, utterance): root / path for name in SETS for utterance, path in table(root / name / "wav.scp")}
    speaker = {(name, utterance): who for name in SETS for utterance, who in table(root / name / "utt2spk")}
    paths.update(audio or {})
    members: dict[str, list[str]] = {}
    for (utterance,) in table(root / "x_enrolls" / "enrolls"):
        members.setdefault(speaker["x_enrolls", utterance], []).append(utterance)
    found: Scores = {}
    for name in SETS[1:]:
        for model, utterance, label in table(root / name / "trials"):
            target = {"target": True, "nontarget": False}[label]
            if target != (speaker[name, utterance] == model):
                raise ValueError("a label that contradicts the speaker")
            mean = np.mean([_unit(voices.vector(paths["x_enrolls", one])) for one in members[model]], axis=0)
            score = float(_unit(mean) @ _unit(voices.vector(paths[name, utterance])))
            found[name, model, utterance] = score, target
    return found


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
