"""Synthetic speakers: bytes, truth of the F0 contour, formants, variation between and within speakers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import find_peaks, freqz

from pipeline.datasets import synthetic
from pipeline.datasets.synthetic import make_speaker, make_utterance


def test_same_arguments_same_bytes_in_any_order():
    first = make_utterance(make_speaker(7, 3), 7, 2, 2.0)
    make_utterance(make_speaker(7, 5), 7, 9, 1.0)
    again = make_utterance(make_speaker(7, 3), 7, 2, 2.0)
    assert first.wave.tobytes() == again.wave.tobytes()
    assert first.f0.tobytes() == again.f0.tobytes()
    assert first.wave.dtype == np.float32 and first.f0.dtype == np.float64


def test_seed_speaker_and_index_all_matter():
    base = make_utterance(make_speaker(0, 0), 0, 0, 1.0).wave
    for other in (
        make_utterance(make_speaker(1, 0), 0, 0, 1.0),
        make_utterance(make_speaker(0, 2), 0, 0, 1.0),
        make_utterance(make_speaker(0, 0), 1, 0, 1.0),
        make_utterance(make_speaker(0, 0), 0, 1, 1.0),
    ):
        assert not np.array_equal(base, other.wave)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize("seconds", [0.01, 0.5, 3.0])
def test_length_frames_and_range(rate: int, seconds: float):
    made = make_utterance(make_speaker(0, 4), 0, 1, seconds, rate)
    assert len(made.wave) == round(seconds * rate) and made.rate == rate
    assert len(made.f0) == 1 + len(made.wave) * 100 // rate
    assert np.isfinite(made.wave).all() and np.abs(made.wave).max() <= 1.0


def test_resampled_signal_is_the_same_below_3_4_khz():
    wide = make_utterance(make_speaker(0, 1), 0, 0, 2.0).wave
    narrow = make_utterance(make_speaker(0, 1), 0, 0, 2.0, 8000).wave
    low, high = np.fft.rfft(narrow)[:6800], np.fft.rfft(wide)[:6800]
    np.testing.assert_allclose(low, high / 2, atol=2e-3)


def test_speakers_differ_as_people_do():
    people = [make_speaker(0, index) for index in range(60)]
    women = np.array([person.glottis.f0 for person in people if person.sex == "f"])
    men = np.array([person.glottis.f0 for person in people if person.sex == "m"])
    assert len(women) == len(men) == 30
    assert men.min() >= 90 and men.max() <= 160 and women.min() >= 165 and women.max() <= 320
    assert len({person.id for person in people}) == 60
    assert (
        np.mean([p.tract.length for p in people if p.sex == "f"])
        < np.mean([p.tract.length for p in people if p.sex == "m"]) - 0.1
    )


def test_cascade_equals_scipys_response_of_each_resonator():
    formants = np.array([[300.0, 870, 2240, 3500, 4500], [730, 1090, 2440, 3400, 4700]])
    bandwidths = np.array([[60.0, 90, 120, 200, 280], [80, 80, 130, 210, 250]])
    grid = np.arange(synthetic.FFT // 2 + 1) * 2 * np.pi / synthetic.FFT
    for row in range(2):
        expected = np.ones(len(grid), complex)
        for frequency, width in zip(formants[row], bandwidths[row]):
            pole = np.exp((-np.pi * width + 2j * np.pi * frequency) / synthetic.RATE)
            denominator = [1.0, -2 * pole.real, abs(pole) ** 2]
            expected *= freqz([sum(denominator)], denominator, worN=grid)[1]
        np.testing.assert_allclose(synthetic._tract_response(formants, bandwidths)[row], expected, rtol=1e-9)


def test_vowels_of_the_script_have_their_formants():
    """The spectrum of a held vowel peaks where Peterson and Barney's table, scaled, says (F1, F2; one harmonic of error)."""
    man = make_speaker(0, 1)
    made = make_utterance(man, 3, 0, 20.0)
    script = synthetic._write_script(man, _after(man, 3, 0), 20.0)
    found = []
    for name, start, stop in script:
        if name not in synthetic.VOWELS or stop - start < 0.1:
            continue
        vowel = list(synthetic.VOWELS).index(name)
        table = (
            np.array(synthetic.VOWELS[name][:2])
            * np.array(man.tract.vowels[vowel][:2])
            * np.array(man.tract.formants[:2])
        )
        middle = int((start + stop) / 2 * 16000)
        cut = made.wave[middle - 480 : middle + 480] * np.hanning(960)
        cut = np.append(cut[0], cut[1:] - 0.97 * cut[:-1])
        cepstrum = np.fft.irfft(np.log(np.abs(np.fft.rfft(cut, 4096)) + 1e-9))
        cepstrum[60:-60] = 0
        peaks = find_peaks(np.fft.rfft(cepstrum).real)[0] * 16000 / 4096
        found.append([np.abs(peaks - want).min() for want in table / man.tract.length])
    errors = np.array(found)
    assert len(errors) > 20
    assert (np.median(errors, axis=0) < [man.glottis.f0 * 0.6, man.glottis.f0]).all()


def _after(person: synthetic.Speaker, seed: int, index: int) -> np.random.Generator:
    return synthetic.generator(seed, "synthetic utterance", person.id, index)


@pytest.mark.parametrize("index", range(6))
def test_f0_is_true(index: int):
    """Demodulated by the true contour, the fundamental stands still: what is left of its frequency is below 3 % of F0."""
    made = make_utterance(make_speaker(11, index), 11, 0, 6.0)
    times = np.arange(len(made.wave)) / 16000
    frames = np.arange(len(made.f0)) / 100
    voiced = made.f0 > 0
    contour = np.interp(times, frames[voiced], made.f0[voiced])
    window = np.hanning(960) / np.hanning(960).sum()
    still = np.convolve(made.wave * np.exp(-2j * np.pi * np.cumsum(contour) / 16000), window, mode="same")
    residual = np.angle(still[80:] * np.conj(still[:-80])) / (2 * np.pi * 80 / 16000)
    inside = [f for f in range(4, len(voiced) - 4) if voiced[f - 3 : f + 4].all()]
    errors = np.array([residual[f * 160 - 40] / made.f0[f] for f in inside])
    assert len(errors) > 120
    assert np.mean(np.abs(errors) < 0.03) > 0.95
    assert abs(np.median(errors)) < 0.003


def test_unvoiced_frames_have_no_energy_at_low_frequencies():
    """Voiced and unvoiced frames of the truth differ in their energy below 500 Hz, apart from borders."""
    made = make_utterance(make_speaker(2, 1), 2, 0, 10.0)
    frames = np.arange(3, len(made.f0) - 3)
    voiced = np.array([(made.f0[f - 2 : f + 3] > 0).all() for f in frames])
    silent = np.array([(made.f0[f - 2 : f + 3] == 0).all() for f in frames])
    cuts = np.stack([made.wave[f * 160 - 240 : f * 160 + 240] for f in frames]) * np.hanning(480)
    low = 10 * np.log10((np.abs(np.fft.rfft(cuts)[:, 2:16]) ** 2).sum(axis=1))
    assert 0.5 < (made.f0 > 0).mean() < 0.85
    assert np.median(low[voiced]) - np.median(low[silent]) > 20
    threshold = (np.median(low[voiced]) + np.median(low[silent])) / 2
    assert (low[voiced] > threshold).mean() > 0.95 and (low[silent] < threshold).mean() > 0.9


def test_speakers_are_separable_but_not_trivially():
    """EER of mean log band energies (cosine, all pairs) lies between 3 % and 35 %."""
    vectors, labels = [], []
    for index in range(12):
        for number in range(8):
            wave = make_utterance(make_speaker(0, index), 0, number, 3.0).wave
            cuts = np.lib.stride_tricks.sliding_window_view(wave, 400)[::160] * np.hanning(400)
            power = np.abs(np.fft.rfft(cuts)) ** 2
            edges = np.unique(np.geomspace(3, 200, 25).astype(int))
            bands = np.log(np.add.reduceat(power, edges, axis=1) + 1e-6)
            vectors.append((bands - bands.mean(axis=1, keepdims=True)).mean(axis=0))
            labels.append(index)
    matrix = np.array(vectors)
    matrix = (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    upper = np.triu_indices(len(matrix), 1)
    same = np.equal.outer(labels, labels)[upper]
    scores = (matrix @ matrix.T)[upper]
    thresholds = np.sort(scores)
    misses = np.searchsorted(np.sort(scores[same]), thresholds) / same.sum()
    alarms = 1 - np.searchsorted(np.sort(scores[~same]), thresholds) / (~same).sum()
    eer = float(misses[np.argmin(np.abs(misses - alarms))])
    assert 0.03 < eer < 0.35


def test_utterances_of_a_speaker_vary():
    made = [make_utterance(make_speaker(0, 2), 0, number, 3.0) for number in range(8)]
    pitch = np.array([np.median(one.f0[one.f0 > 0]) for one in made])
    level = np.array([20 * np.log10(np.sqrt(np.mean(one.wave.astype(float) ** 2))) for one in made])
    assert 0.01 < np.std(np.log2(pitch)) < 0.2
    assert 0.5 < np.std(level) < 6
    assert len({one.phones for one in made}) == 8
