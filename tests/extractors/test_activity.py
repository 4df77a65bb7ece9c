"""Voice activity by energy: the rule by brute force, synthetic speech with known silence, level, and what has no speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline import audio
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.nets.activity import FRAME, detect, powers


def wave(index: int, seconds: float = 4.0) -> np.ndarray:
    return make_utterance(make_speaker(3, index), 3, 0, seconds).wave


def test_powers_are_mean_squares_of_whole_frames() -> None:
    made = wave(0, 1.0)[: 3 * FRAME + 100]
    expected = [float(np.mean(made[FRAME * k : FRAME * (k + 1)].astype(float) ** 2)) for k in range(3)]
    np.testing.assert_allclose(powers(made), expected, rtol=1e-12)
    assert len(powers(made[: FRAME - 1])) == 0


@pytest.mark.parametrize("hangover", [0, 1, 4])
def test_the_rule_by_brute_force(hangover: int) -> None:
    """The level is the one that agrees with itself; a frame is active if one of the last frames is loud."""
    random = np.random.default_rng(0)
    for _ in range(50):
        power = 10 ** (random.uniform(-11, -1, 40))
        made = detect(power, 20.0, -90.0, hangover)
        loud = power > 1e-9
        for _ in range(100):
            loud = power > max(1e-9, power[loud].mean() / 100)
        assert made.level == pytest.approx(power[loud].mean())
        expected = [any(loud[max(0, place - hangover) : place + 1]) for place in range(len(power))]
        np.testing.assert_array_equal(made.active, expected)


def test_inserted_silence_is_found() -> None:
    """Pauses of noise 45 dB below the speech between utterances; the hangover is the only part of them that is active."""
    random = np.random.default_rng(1)
    for index in range(4):
        spoken = wave(index)
        level = np.sqrt(detect(powers(spoken)).level)
        pause = (level * 10 ** (-45 / 20) * random.standard_normal(50 * FRAME)).astype(np.float32)
        whole = len(spoken) // FRAME * FRAME
        active = detect(powers(np.concatenate([pause, spoken[:whole], pause]))).active
        frames = whole // FRAME
        assert not active[:50].any()
        assert not active[50 + frames + 3 :].any()
        # The speech alone and within pauses has the same active frames.
        np.testing.assert_array_equal(active[50 : 50 + frames], detect(powers(spoken[:whole])).active)
        assert active[50 : 50 + frames].mean() > 0.7


def test_phones_are_active_and_margins_are_not() -> None:
    """Synthetic utterances begin and end in at least 80 ms of near silence; their voiced frames are speech."""
    for index in range(6):
        made = make_utterance(make_speaker(5, index), 5, 0, 4.0)
        active = detect(powers(made.wave)).active
        assert not active[:2].any()
        # A frame of F0 every 10 ms: those in the middle of 20 ms.
        voiced = made.f0[1 : 2 * len(active) : 2] > 0
        assert active[voiced].mean() > 0.98


def test_gain_changes_nothing() -> None:
    power = powers(wave(1))
    for gain in (1 / 64, 0.5, 3.0):
        made, moved = detect(power), detect(powers(np.float32(gain) * wave(1)))
        np.testing.assert_array_equal(made.active, moved.active)
        assert moved.level == pytest.approx(made.level * gain**2, rel=1e-6)


def test_a_click_does_not_hide_the_speech() -> None:
    spoken = wave(2) * 0.3
    clicked = spoken.copy()
    clicked[FRAME * 100 + 10] = 1.0
    a, b = detect(powers(spoken)).active, detect(powers(clicked)).active
    assert (a == b).mean() > 0.95


def test_what_has_no_speech() -> None:
    for power in (np.zeros(0), np.zeros(50), np.full(50, 10**-9.6)):
        made = detect(power)
        assert not made.active.any()
        assert len(made.active) == len(power)
        assert made.level == 0
    # Steady noise cannot be told from speech by energy: all of it is active, even at a range of almost nothing.
    noise = powers(np.random.default_rng(0).normal(0, 0.01, 16_000).astype(np.float32))
    assert detect(noise).active.all()
    assert detect(np.full(20, 0.1), range_db=1e-9).active.all()


def test_real_speech(speech: Path) -> None:
    """Read speech is active for most of the time; a second of digital silence at each end of it never is."""
    for path in sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[::10]:
        spoken, _ = audio.load(path)
        silence = np.zeros(50 * FRAME, np.float32)
        active = detect(powers(np.concatenate([silence, spoken, silence]))).active
        frames = len(spoken) // FRAME
        assert 0.6 < active[50 : 50 + frames].mean() <= 1
        assert not active[:50].any()
        assert not active[50 + frames + 4 :].any()
