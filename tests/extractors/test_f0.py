"""F0 histograms: counts of true lags, pooling, unusable audio, independence of neighbours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.extractors import f0
from pipeline.nets.pyin import Tracker


@pytest.fixture(scope="module")
def extractor() -> f0.Extractor:
    return f0.Extractor(f0.F0Settings(), None, "cpu", 2)


def wave(index: int, number: int = 0, seconds: float = 3.0) -> np.ndarray:
    return make_utterance(make_speaker(6, index), 6, number, seconds, 8000).wave


def test_histogram_follows_the_true_lags(extractor: f0.Extractor):
    """Total variation to the histogram of the true contour, both smoothed by the one lag that pYIN may miss by."""
    smooth = np.ones(5) / 5
    for index in range(4):
        made = make_utterance(make_speaker(6, index), 6, 0, 20.0, 8000)
        feature = extractor.extract([made.wave])[0]
        truth = np.bincount(np.rint(8000 / made.f0[made.f0 > 0]).astype(int) - 17, minlength=107)
        expected = np.convolve(truth / truth.sum(), smooth, mode="same")
        assert feature.vector.shape == (107,) and feature.vector.dtype == np.float32
        assert feature.vector.sum() == pytest.approx(1, abs=1e-6) and (feature.vector >= 0).all()
        assert np.abs(np.convolve(feature.vector, smooth, mode="same") - expected).sum() / 2 < 0.1
        # some windows that touch voiced speech count as voiced
        assert 0.97 * truth.sum() <= feature.weight <= 1.1 * truth.sum()


def test_alone_and_among_others(extractor: f0.Extractor):
    waves = [wave(index, seconds=0.5 + index) for index in range(5)]
    together = extractor.extract(waves)
    backwards = extractor.extract(waves[::-1])[::-1]
    single = f0.Extractor(f0.F0Settings(), None, "cpu", 1)
    for one, a, b in zip(waves, together, backwards):
        alone = single.extract([one])[0]
        assert alone.vector.tobytes() == a.vector.tobytes() == b.vector.tobytes()
        assert alone.weight == a.weight == b.weight


@pytest.mark.parametrize(
    ("audio", "reason"),
    [
        (np.zeros(0, np.float32), "no samples"),
        (np.zeros(8000, np.float32), "silent"),
        (np.array([0.5], np.float32), "no voiced frame"),
        (np.random.default_rng(0).normal(0, 0.1, 8000).astype(np.float32), "no voiced frame"),
        (np.full(800, np.nan, np.float32), "NaN"),
    ],
)
def test_unusable_audio(extractor: f0.Extractor, audio: np.ndarray, reason: str):
    feature = extractor.extract([audio])[0]
    assert reason in feature.reason and feature.weight == 0
    np.testing.assert_array_equal(feature.vector, np.zeros(107, np.float32))


def test_gain_changes_nothing(extractor: f0.Extractor):
    loud, quiet = extractor.extract([wave(1), wave(1) / 64])
    np.testing.assert_array_equal(loud.vector, quiet.vector)


def test_pooling_is_counting_together(extractor: f0.Extractor):
    features = extractor.extract([wave(1, number, 1.0 + number) for number in range(3)])
    counts = sum(np.rint(one.vector.astype(float) * one.weight) for one in features)
    pooled = extractor.pool(np.stack([one.vector for one in features]), np.array([one.weight for one in features]))
    np.testing.assert_allclose(pooled, counts / counts.sum(), atol=1e-6)
    np.testing.assert_array_equal(extractor.pool(np.zeros((2, 107), np.float32), np.zeros(2)), np.zeros(107))


def test_speakers_are_nearer_to_themselves(extractor: f0.Extractor):
    """One of 8 synthetic speakers from another of their utterances by Euclidean distance: chance is 1 of 8."""
    first = [extractor.extract([wave(index, 0, 6.0)])[0].vector for index in range(8)]
    second = [extractor.extract([wave(index, 1, 6.0)])[0].vector for index in range(8)]
    nearest = [int(np.argmin([np.linalg.norm(a - b) for b in second])) for a in first]
    assert sum(found == index for index, found in enumerate(nearest)) >= 4


def test_contract(tmp_path: Path):
    assert f0.Extractor.compared_as == {"ranks"} and f0.Extractor.similarity == "euclidean"
    assert f0.Extractor.sample_rate == 8000 and f0.Extractor.weights(f0.F0Settings(), tmp_path) is None
    assert f0.F0Settings().numeric() == {
        "name": "f0",
        "fmin": 65.0,
        "fmax": 450.0,
        "hop_ms": 10.0,
        "frame": 248,
        "beta_parameters": [2.0, 10.0],
        "boltzmann_parameter": 8.0,
        "no_trough_prob": 0.0,
        "implementation": "ours",
    }


def test_settings_reach_the_tracker():
    chosen = f0.F0Settings(
        hop_ms=5.0, frame=320, beta_parameters=(3.0, 7.0), boltzmann_parameter=1.0, no_trough_prob=0.5
    )
    expected = Tracker(8000, 65.0, 450.0, 320, 40, "srd", (3.0, 7.0), 1.0, 0.5)
    assert f0.Extractor(chosen, None, "cpu", 1).tracker == expected


def batched(extractor: f0.Extractor, device: str) -> None:
    """Makes an extractor work as it does on a GPU."""
    from pipeline.extractors.f0.pyin_torch import Batched

    extractor._track = Batched(extractor.tracker, device, few=1).track


def test_the_form_for_a_gpu_gives_the_same(extractor: f0.Extractor):
    waves = [wave(index, seconds=0.5 + index % 3) for index in range(9)]
    waves[4:4] = [np.zeros(0, np.float32), np.zeros(8000, np.float32), np.full(800, np.nan, np.float32)]
    other = f0.Extractor(f0.F0Settings(), None, "cpu", 1)
    batched(other, "cpu")
    for one, two in zip(extractor.extract(waves), other.extract(waves), strict=True):
        assert one.vector.tobytes() == two.vector.tobytes()
        assert one.weight == two.weight and one.reason == two.reason
    assert other.extract([]) == []


@pytest.mark.gpu
def test_histograms_on_a_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    waves = [wave(index, seconds=2.0 + index % 5) for index in range(24)]
    expected = f0.Extractor(f0.F0Settings(), None, "cpu", 2).extract(waves)
    for one, two in zip(f0.Extractor(f0.F0Settings(), None, "cuda", 2).extract(waves), expected, strict=True):
        assert np.abs(one.vector - two.vector).sum() / 2 <= 1e-3
        assert abs(one.weight - two.weight) <= 1e-3 * two.weight


def test_follows_the_truth_of_synthetic_speakers(extractor: f0.Extractor):
    """The numbers of the table in the module, with some room: the default trades false voicing for real speech."""
    counts = np.zeros(5)
    for index in range(24):
        made = make_utterance(make_speaker(0, index), 0, 0, 3.0, 8000)
        pitch, spoken = extractor.tracker.track(made.wave), made.f0 > 0
        both = spoken & pitch.voiced
        close = np.abs(pitch.state[both] + 17 - 8000 / made.f0[both]) <= 1
        counts += [spoken.sum(), both.sum(), close.sum(), (~spoken).sum(), (pitch.voiced & ~spoken).sum()]
    assert counts[1] >= 0.98 * counts[0] and counts[2] >= 0.97 * counts[1] and counts[4] <= 0.11 * counts[3]


@pytest.mark.parametrize(
    "fault", [{"fmin": 500.0}, {"frame": 240}, {"frame": 257}, {"hop": 10}, {"beta_parameters": [0, 1]}]
)
def test_settings_that_contradict_themselves(fault: dict[str, object]):
    with pytest.raises(ValidationError):
        f0.F0Settings.model_validate(fault)


def test_librosas_implementation_is_our_pyin_read_as_librosa_reads_it():
    """Bins of 10 cents as lags: bit-equal to our tracker in its mode ``librosa``."""
    settings = f0.F0Settings(implementation="librosa")
    textbook, ours = (f0.Extractor(chosen, None, "cpu", 1) for chosen in (settings, f0.F0Settings()))
    tracker = replace(ours.tracker, mode="librosa")
    for index in range(2):
        audio = wave(index, seconds=2.0)
        pitch = tracker.track(audio)
        lags = np.clip(np.rint(8000 / pitch.f0[pitch.voiced]).astype(int) - 17, 0, 106)
        counts = np.bincount(lags, minlength=107)
        feature = textbook.extract([audio])[0]
        np.testing.assert_array_equal(feature.vector, (counts / counts.sum()).astype(np.float32))
        assert feature.weight == counts.sum() > 0
        assert 0 < np.abs(feature.vector - ours.extract([audio])[0].vector).sum() < 1
