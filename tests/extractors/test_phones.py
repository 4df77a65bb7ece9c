"""Phone histograms: counting, pooling, segments, exactness, level, unusable audio, and that they tell speakers apart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from pipeline import audio
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.errors import ModelMissing
from pipeline.extractors import phones
from pipeline.extractors.phones import network as vqvae
from pipeline.extractors.phones.training import PhonesTrainerSettings, Trainer
from pipeline.files import file_digest
from pipeline.nets import waveforms as packed
from pipeline.nets.activity import detect, powers

SMALL = PhonesTrainerSettings(
    channels=32, codes=48, dimension=16, steps=120, batch=12, crop_seconds=0.5, learning_rate=4e-3
)


def wave(index: int, number: int = 0, seconds: float = 3.0) -> np.ndarray:
    return make_utterance(make_speaker(6, index), 6, number, seconds).wave


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network trained on 12 synthetic speakers (indices from 20)."""
    items = [(20 + item % 12, item // 12) for item in range(60)]
    waves = [wave(*item) for item in items]
    made = tmp_path_factory.mktemp("phones")
    Trainer.train(SMALL, packed.pack_waveforms(waves, [str(index) for index, _ in items]), made)
    return made


def build(folder: Path, threads: int = 1, **settings: Any) -> phones.Extractor:
    return phones.Extractor(phones.PhonesSettings(**settings), folder, "cpu", threads)


@pytest.fixture(scope="module")
def extractor(folder: Path) -> phones.Extractor:
    return build(folder, 2)


def active_codes(extractor: phones.Extractor, samples: np.ndarray) -> list[int]:
    """By a plain loop: the codes of one file whose 20 ms are active."""
    activity = detect(powers(samples))
    codes = extractor.encoder.codes([samples], [activity.level**-0.5])[0]
    return [int(code) for code, active in zip(codes, activity.active, strict=True) if active]


def histogram(codes: list[int]) -> np.ndarray:
    counts = np.zeros(48)
    for code in codes:
        counts[code] += 1
    return counts / len(codes)


def test_histograms_count_the_active_codes(extractor: phones.Extractor) -> None:
    waves = [wave(index, 0, 2.0 + index) for index in range(3)]
    for samples, feature in zip(waves, extractor.extract(waves), strict=True):
        codes = active_codes(extractor, samples)
        assert 0.6 * len(samples) / 320 < len(codes) < len(samples) / 320
        assert feature.weight == len(codes)
        assert feature.vector.dtype == np.float32
        np.testing.assert_allclose(feature.vector, histogram(codes), atol=1e-7)


@pytest.mark.parametrize("count", [1, 3, 20, 97])
def test_segments_are_uniform_runs_of_the_joined_active_codes(extractor: phones.Extractor, count: int) -> None:
    waves = [wave(1, 0, 2.0), np.zeros(0, np.float32), wave(1, 1, 3.3), np.zeros(8000, np.float32), wave(1, 2, 1.1)]
    joined = [code for samples in (waves[0], waves[2], waves[4]) for code in active_codes(extractor, samples)]
    made = extractor.segments([(wave, 16_000) for wave in waves], count)
    assert len(made) == count
    assert sum(feature.weight for feature in made) == len(joined)
    assert {feature.weight for feature in made} <= {len(joined) // count, -(-len(joined) // count)}
    start = 0
    for feature in made:
        own = joined[start : start + int(feature.weight)]
        np.testing.assert_allclose(feature.vector, histogram(own), atol=1e-7)
        start += len(own)


def test_more_segments_than_active_codes(extractor: phones.Extractor) -> None:
    made = extractor.segments([(wave(1)[8000:10_000], 16_000)], 20)
    assert sum(feature.weight for feature in made) == len(active_codes(extractor, wave(1)[8000:10_000])) < 20
    assert {feature.weight for feature in made} == {0, 1}
    assert all(feature.reason == "" if feature.weight else feature.reason == "no active speech" for feature in made)
    assert [feature.reason for feature in extractor.segments([], 2)] == ["no active speech"] * 2


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(0, np.float32), "no samples"),
        (np.zeros(16_000, np.float32), "silent"),
        (np.array([0.5], np.float32), "no active speech"),
        (np.full(319, 0.1, np.float32), "no active speech"),
        (np.full(1600, np.nan, np.float32), "NaN"),
        (np.array([0.1, np.inf] * 800, np.float32), "NaN or infinite"),
        (np.random.default_rng(0).normal(0, 1.6e-5, 16_000).astype(np.float32), "no active speech"),
    ],
)
def test_unusable_audio(extractor: phones.Extractor, samples: np.ndarray, reason: str) -> None:
    feature = extractor.extract([wave(0), samples])[1]
    assert reason in feature.reason
    assert feature.weight == 0
    np.testing.assert_array_equal(feature.vector, np.zeros(48, np.float32))


def test_little_is_enough(extractor: phones.Extractor) -> None:
    """0.05 s are two codes; clipped speech and a constant are audio like any other."""
    short = wave(1)[8000:8800]
    odd = [short, np.clip(100 * wave(1), -1, 1), np.full(3200, 0.1, np.float32), (1e30 * wave(2)).astype(np.float32)]
    for feature in extractor.extract(odd):
        assert feature.reason == ""
        assert feature.weight > 0
        assert feature.vector.sum() == pytest.approx(1, abs=1e-6)
    assert extractor.extract([short])[0].weight == 2


def test_gain_changes_nothing(extractor: phones.Extractor) -> None:
    """Powers of two change no bit; other gains may at most move a code that lies between two."""
    whole = wave(1, 0, 10.0)
    plain, quiet, other = extractor.extract([whole, whole / 64, whole * np.float32(0.3)])
    assert plain.vector.tobytes() == quiet.vector.tobytes()
    assert plain.weight == quiet.weight == other.weight
    assert np.abs(plain.vector - other.vector).sum() * plain.weight <= 4


def test_the_activity_settings_are_used(folder: Path) -> None:
    samples = wave(1)
    for settings in ({"range_db": 10.0}, {"hangover": 0}, {"floor_dbfs": -30.0}):
        feature = build(folder, **settings).extract([samples])[0]
        level = detect(powers(samples))
        active = detect(
            powers(samples),
            settings.get("range_db", 30.0),
            settings.get("floor_dbfs", -95.0),
            int(settings.get("hangover", 3)),
        ).active
        assert feature.weight == active.sum() < level.active.sum()
        assert feature.vector.sum() == pytest.approx(1, abs=1e-6)


def test_pooling_is_counting_together(extractor: phones.Extractor) -> None:
    waves = [wave(1, number, 1.0 + number) for number in range(3)]
    features = extractor.extract(waves)
    expected = histogram([code for samples in waves for code in active_codes(extractor, samples)])
    pooled = extractor.pool(np.stack([one.vector for one in features]), np.array([one.weight for one in features]))
    np.testing.assert_allclose(pooled, expected, atol=1e-6)
    np.testing.assert_array_equal(extractor.pool(np.zeros((2, 48), np.float32), np.zeros(2)), np.zeros(48))


def test_out_of_memory_halves_the_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a GPU does, with the CPU in its place and a memory of 40 s."""
    waves = [wave(index, seconds=4.0 * (index + 1)) for index in range(5)]
    expected = build(folder).extract(waves)
    extractor = build(folder, batch_seconds=100.0)
    extractor.device = "cuda"
    inner: Callable[..., np.ndarray] = vqvae.Encoder._batch

    def small(self: vqvae.Encoder, batch: list[Any], longest: int, *rest: Any) -> np.ndarray:
        if len(batch) * longest > 40 * 50:
            raise torch.OutOfMemoryError("no more")
        return inner(self, batch, longest, *rest)

    monkeypatch.setattr(vqvae.Encoder, "_batch", small)
    with caplog.at_level(logging.WARNING):
        made = extractor.extract(waves)
    assert [one.vector.tobytes() for one in made] == [one.vector.tobytes() for one in expected]
    assert extractor.batch_seconds == 25.0
    assert caplog.text.count("out of GPU memory") == 2

    def none(self: vqvae.Encoder, *rest: Any) -> np.ndarray:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(vqvae.Encoder, "_batch", none)
    with pytest.raises(torch.OutOfMemoryError):
        extractor.extract(waves)


def test_speakers_are_nearer_to_themselves(extractor: phones.Extractor) -> None:
    """Segments of 12 unseen synthetic speakers against references of others of their utterances: chance is 1 of 12."""
    references, right = [], 0
    for index in range(12):
        features = extractor.extract([wave(index, number) for number in range(5)])
        references.append(
            extractor.pool(np.stack([one.vector for one in features]), np.array([one.weight for one in features]))
        )
    for index in range(12):
        for feature in extractor.segments([(wave(index, number), 16_000) for number in range(5, 10)], 5):
            distances = [np.linalg.norm(feature.vector - reference) for reference in references]
            right += int(np.argmin(distances)) == index
    assert right / 60 >= 4 / 12


def test_contract(tmp_path: Path, folder: Path) -> None:
    assert phones.Extractor.compared_as == {"ranks"}
    assert phones.Extractor.similarity == "euclidean"
    assert phones.Extractor.evidence_optional
    assert (phones.Extractor.sample_rate, build(folder).dimension) == (16_000, 48)
    settings = phones.PhonesSettings(source="somewhere", batch_seconds=3.0)
    assert settings.numeric() == phones.PhonesSettings().numeric()
    assert settings.numeric()["training"] == PhonesTrainerSettings().numeric()
    for fault in ({"range_db": 0}, {"hangover": -1}, {"training": {"step": 3}}, {"trainings": {}}):
        with pytest.raises(ValidationError):
            phones.PhonesSettings.model_validate(fault)


def test_where_the_weights_come_from(tmp_path: Path, folder: Path) -> None:
    assert phones.Extractor.weights(phones.PhonesSettings(), tmp_path) is None
    found = phones.Extractor.weights(phones.PhonesSettings(source=str(folder)), tmp_path)
    assert found is not None
    assert found.folder == folder
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "phones.safetensors").write_bytes((folder / "phones.safetensors").read_bytes())
    again = phones.Extractor.weights(phones.PhonesSettings(source=str(copy)), tmp_path)
    assert again is not None
    assert again.digest == found.digest != file_digest(folder / "training.json")
    with pytest.raises(ModelMissing, match=r"voice-privacy train 'extractor=\[phones\]'"):
        phones.Extractor.weights(phones.PhonesSettings(source=str(tmp_path)), tmp_path)
    with pytest.raises(ModelMissing):
        phones.Extractor(phones.PhonesSettings(), None, "cpu", 1)


def speakers_of_test_other(speech: Path) -> dict[str, list[np.ndarray]]:
    return {
        one.name: [audio.load(path)[0] for path in sorted(one.rglob("*.flac"))]
        for one in sorted((speech / "librispeech" / "test-other").iterdir())
        if one.is_dir()
    }


@pytest.mark.slow
def test_real_speakers_are_found_by_their_phones(speech: Path, tmp_path: Path) -> None:
    """Trained by default on train-clean-100: 5 utterances against 5 others of the 10 speakers of test-other, rank 1 for 9 at
    least; most codes are in use, and codes in blocks are those of the whole file. Longer than an hour, memory stays put."""
    import json
    import resource

    files = sorted((speech / "librispeech" / "train-clean-100").rglob("*.flac"))
    Trainer.train(
        phones.PhonesSettings().training,
        packed.pack_waveforms([audio.load(path)[0] for path in files], [path.parts[-3] for path in files]),
        tmp_path,
    )
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["reconstruction_start"] > 0.75
    assert record["reconstruction_end"] < 0.31
    assert record["measured"]["training"]["perplexity"] > 380
    assert record["measured"]["training"]["codes_used"] > 500
    assert record["measured"]["held_out"]["reconstruction"] < 0.35

    extractor = build(tmp_path, 2)
    pooled: list[list[np.ndarray]] = [[], []]
    people = speakers_of_test_other(speech)
    for waves in people.values():
        for half in range(2):
            features = extractor.extract(waves[5 * half : 5 * half + 5])
            weights = np.array([one.weight for one in features])
            pooled[half].append(extractor.pool(np.stack([one.vector for one in features]), weights))
    distances = np.linalg.norm(np.array(pooled[0])[:, None] - np.array(pooled[1])[None], axis=2)
    assert (distances.argmin(1) == np.arange(10)).sum() >= 9

    everyone = np.concatenate([wave for waves in people.values() for wave in waves])
    gain = detect(powers(everyone)).level ** -0.5
    in_blocks = extractor.encoder.codes([everyone], [gain])[0]
    whole = extractor.encoder.codes([everyone], [gain], size=len(in_blocks))[0]
    np.testing.assert_array_equal(in_blocks, whole)
    del whole, in_blocks
    long = np.tile(everyone, 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    feature = extractor.extract([long])[0]
    assert feature.weight > 0.6 * len(long) / 320
    # Two hours are 0.5 GB as samples; the test for silence squares them in float64 (0.9 GB).
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1.6 * 2**20
