"""What the default recipe learns from 168 speakers with one 12 s file each, measured on ten others.

See conf/README.md, section 12.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pytest
import yaml

from pipeline import audio as sound
from pipeline.extractors import ecapa
from pipeline.metrics import eer
from pipeline.nets.waveforms import Waveforms, pack_waveforms
from pipeline.trainers.embedding import EmbeddingSettings, Trainer

DEFAULT = Path(__file__).parents[2] / "conf" / "train" / "default.yaml"


def heard(folder: Path) -> Waveforms:
    files = sorted(folder.rglob("*.flac"))
    return pack_waveforms(
        [sound.load(file)[0] for file in files], [file.parts[-3] for file in files], [file.stem for file in files]
    )


def waves(audio: Waveforms, seconds: float | None = None) -> list[np.ndarray]:
    """Whole utterances, or their beginnings."""
    return [audio.piece(item)[: None if seconds is None else round(16_000 * seconds)] for item in range(len(audio))]


def embedded(folder: Path, given: list[np.ndarray]) -> np.ndarray:
    extractor = ecapa.Extractor(ecapa.EcapaSettings(source="trained"), folder, "cpu", 1)
    return np.stack([feature.vector for feature in extractor.extract(given)])


def cepstra(given: list[np.ndarray]) -> np.ndarray:
    """Means of 20 MFCC over each utterance."""
    return np.stack([librosa.feature.mfcc(y=wave, sr=16_000, n_mfcc=20).mean(1) for wave in given])


def all_pairs(vectors: np.ndarray, speakers: tuple[str, ...]) -> float:
    """EER of the cosines of all pairs."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.triu_indices(len(units), 1)
    scores, target = (units @ units.T)[first, second], np.array(speakers)[first] == np.array(speakers)[second]
    return eer(scores[target], scores[~target])


def record(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_recipe_tells_unknown_speakers_apart(speech: Path, tmp_path: Path, seed: int) -> None:
    audio = heard(speech / "librispeech" / "train-clean-100")
    settings = EmbeddingSettings(**{**yaml.safe_load(DEFAULT.read_text()), "seed": seed, "architecture": "ecapa"})
    assert Trainer.train(settings, audio, tmp_path)
    made = record(tmp_path)
    assert (made["speakers"], made["speakers_trained_on"], made["single_utterance_speakers"]) == (168, 151, 168)
    # Chosen within one file of each of 17 training speakers, and labelled so.
    assert made["held_out"]["same_session"] is True
    assert "same session" in made["summary"]
    assert made["held_out"]["best_step"] in [found["step"] for found in made["verified"]]
    # The lowest EER but for noise: half a standard error over about 200 targets is a point.
    assert made["held_out"]["eer"] < min(found["eer"] for found in made["verified"]) + 0.02
    # False alarms are few: one pair of 14,028 at most.
    assert len(made["suspected_same_speaker"]) <= 1
    others = heard(speech / "librispeech" / "test-other")
    assert not set(others.speakers) & set(audio.speakers)
    whole = all_pairs(embedded(tmp_path, waves(others)), others.speakers)
    short = all_pairs(embedded(tmp_path, waves(others, 2.0)), others.speakers)
    means = all_pairs(cepstra(waves(others)), others.speakers)
    print(f"seed {seed}: EER {whole:.2%}, of 2 s {short:.2%}, of MFCC means {means:.2%}; {made['summary']}")
    assert whole < 0.04
    assert whole < means
    assert short < 0.10
