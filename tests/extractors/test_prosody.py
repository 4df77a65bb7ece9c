"""Prosody against signals whose pitch and timing are known because they were made so."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.extractors import f0
from pipeline.extractors.prosody import (
    FRAME,
    NAMES,
    RATE,
    TYPICAL,
    Extractor,
    ProsodySettings,
    describe_timing,
    describe_voicing,
)
from pipeline.nets import activity

VOICED, PAUSE = 0.4, 0.3
"""Seconds of each voiced run, and of the silence between two."""


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(ProsodySettings(), None, "cpu", 1)


def speak(low: float, high: float, runs: int = 8) -> np.ndarray:
    """Runs of a tone with harmonics whose logarithm of F0 goes from ``low`` to ``high`` in a straight line, with pauses between."""
    time = np.arange(int(VOICED * RATE)) / RATE
    f0 = np.exp(np.linspace(np.log(low), np.log(high), len(time)))
    phase = 2 * np.pi * np.cumsum(f0) / RATE
    tone = sum(np.sin(k * phase) / k for k in range(1, 8)) * 0.1
    silence = np.zeros(int(PAUSE * RATE))
    return np.concatenate([part for _ in range(runs) for part in (tone, silence)][:-1]).astype(np.float32)


def describe(extractor: Extractor, wave: np.ndarray) -> dict[str, float]:
    """The numbers of a waveform by name, before they are scaled."""
    power = activity.powers(wave, FRAME)
    active = activity.detect(power).active
    numbers = [*describe_voicing(extractor.tracker.track(wave), active), *describe_timing(power, active, 0.1)]
    return dict(zip(NAMES, numbers))


def test_pitch_that_is_known(extractor: Extractor) -> None:
    low, high = 140.0, 180.0
    numbers = describe(extractor, speak(low, high))
    step = np.log(high / low)
    assert numbers["mean log F0"] == pytest.approx(np.log(np.sqrt(low * high)), abs=0.02)
    assert numbers["spread of log F0"] == pytest.approx(step / np.sqrt(12), abs=0.01)
    assert numbers["range of log F0"] == pytest.approx(0.9 * step, abs=0.03)
    assert numbers["slope of log F0"] == pytest.approx(step / VOICED, abs=0.1)


def test_pitch_is_tracked_as_by_default_for_histograms_of_f0(extractor: Extractor) -> None:
    assert extractor.tracker == f0.Extractor(f0.F0Settings(), None, "cpu", 1).tracker


def test_runs_and_pauses_that_are_known(extractor: Extractor) -> None:
    numbers = describe(extractor, speak(150.0, 150.0))
    assert numbers["log length of voiced runs"] == pytest.approx(np.log(VOICED), abs=0.08)
    # 60 ms after a loud frame are active too, and voicing rings on for some of them.
    assert numbers["log length of pauses"] == pytest.approx(np.log(PAUSE - 0.06), abs=0.1)
    seconds = 8 * VOICED + 8 * 0.06
    assert numbers["pauses a second of active speech"] == pytest.approx(7 / seconds, rel=0.05)


def test_a_vector_is_the_scaled_numbers(extractor: Extractor) -> None:
    wave = speak(140.0, 180.0)
    (feature,) = extractor.extract([wave])
    numbers = np.array(list(describe(extractor, wave).values()))
    assert feature.weight == 1.0
    # Lengths of all pauses are equal: beyond five standard deviations nothing counts more.
    assert feature.vector == pytest.approx(((numbers - TYPICAL[:, 0]) / TYPICAL[:, 1]).clip(-5, 5), abs=1e-5)


def test_the_level_of_a_recording_says_nothing(extractor: Extractor) -> None:
    wave = speak(120.0, 160.0)
    loud, soft = (feature.vector for feature in extractor.extract([wave, 0.05 * wave]))
    assert soft == pytest.approx(loud, abs=1e-3)


def test_a_recording_is_described_alone(extractor: Extractor) -> None:
    waves = [speak(120.0, 160.0), speak(200.0, 190.0, 3), speak(90.0, 99.0, 5)]
    together = Extractor(ProsodySettings(), None, "cpu", 3).extract(waves)
    for wave, feature in zip(waves, together):
        assert np.array_equal(extractor.extract([wave])[0].vector, feature.vector)


def test_where_nothing_is_voiced_timing_is_left(extractor: Extractor) -> None:
    random = np.random.default_rng(0)
    noise = random.normal(size=(6, int(VOICED * RATE))) * 0.1
    silence = np.zeros((6, int(PAUSE * RATE)))
    (feature,) = extractor.extract([np.concatenate([noise, silence], axis=1).ravel().astype(np.float32)])
    assert feature.weight == 1.0
    assert not feature.vector[:4].any() and feature.vector[8:].any()


@pytest.mark.parametrize("wave", [np.zeros(RATE, np.float32), np.zeros(0, np.float32)], ids=["silence", "nothing"])
def test_audio_without_speech_has_a_reason(extractor: Extractor, wave: np.ndarray) -> None:
    (feature,) = extractor.extract([wave])
    assert feature.weight == 0.0 and feature.reason and not feature.vector.any()
