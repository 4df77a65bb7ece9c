"""The kernels of the McAdams transform against librosa, numpy.roots, scipy and polynomials with known roots."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy.signal import lfilter

from pipeline.anonymisers.mcadams import transform as mcadams
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.nets import compiled as _compiled


def frames(index: int = 0) -> np.ndarray:
    wave = make_utterance(make_speaker(5, index), 5, 0, 3.0).wave.astype(float)
    return np.lib.stride_tricks.sliding_window_view(wave, 320)[::160] * np.sqrt(np.hanning(320))


def filter_of(reals: list[float], pairs: list[complex]) -> np.ndarray:
    return np.real(np.poly([*reals, *pairs, *np.conj(pairs)]))


def moved(reals: list[float], pairs: list[complex], alpha: float) -> np.ndarray:
    return filter_of(reals, [abs(pole) * np.exp(1j * np.angle(pole) ** alpha) for pole in pairs])


def test_burg_equals_librosas():
    import librosa

    cut = frames()
    expected = np.array([librosa.lpc(frame, order=20) for frame in cut])
    residual = np.abs(mcadams.burg(cut, 20) - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert residual.max() < 1e-6


def test_hard_frames_are_bounded_or_passed():
    """Pure tones, impulses, ramps and nearly empty frames: rounding may put a pole outside the unit circle."""
    t = np.arange(320)
    shapes = [np.sin(0.3 * t), np.eye(320)[0], np.eye(320)[319], t / 320, np.ones(320), 1e-4 * np.cos(t), 0 * t]
    for window in (np.ones(320), np.sqrt(np.hanning(320))):
        hard = np.stack(shapes) * window
        new, status = mcadams.frames_through(hard, 0.8, mcadams.Framing(320, 160))
        assert np.isfinite(mcadams.burg(hard, 20)).all() and np.isfinite(new).all()
        assert np.abs(new).max() < 50
        assert status[6] == 1
        np.testing.assert_array_equal(new[status > 0], hard[status > 0])


@pytest.mark.parametrize("index", range(4))
def test_poles_equal_numpys(index: int):
    filters = mcadams.burg(frames(index), 20)
    found = mcadams.poles(filters)
    for row, roots in zip(filters, found):
        expected = np.roots(row)
        distance = np.abs(expected[:, None] - roots[None])
        assert distance.min(axis=1).max() < 1e-8 and distance.min(axis=0).max() < 1e-8
        np.testing.assert_array_equal(np.sort(roots[roots.imag > 0].imag), np.sort(-roots[roots.imag < 0].imag))


def test_random_polynomials_with_known_roots():
    random = np.random.default_rng(0)
    for _ in range(200):
        reals = random.uniform(-0.99, 0.99, 2 * random.integers(0, 4)).tolist()
        count = (20 - len(reals)) // 2
        pairs = random.uniform(0.6, 0.999, count) * np.exp(1j * random.uniform(0.05, 3.0, count))
        roots = mcadams.poles(filter_of(reals, pairs)[None])[0]
        known = np.array([*reals, *pairs, *pairs.conj()])
        assert np.abs(known[:, None] - roots[None]).min(axis=1).max() < 1e-4
        assert np.count_nonzero(roots.imag == 0) == len(reals)


@pytest.mark.parametrize(
    "reals", [[-0.9, -0.5], [-0.95, -0.95], [-0.8, -0.8, 0.7, 0.7], [0.99, -0.99], [0.0, 0.0], [-0.9, -0.9 - 1e-9]]
)
def test_real_poles_stay_even_when_double(reals: list[float]):
    """pi ** 0.8 is 2.50: a negative real pole taken for half of a pair would move by 37 degrees."""
    pairs = [0.97 * np.exp(0.3j), 0.93 * np.exp(1.1j), 0.9 * np.exp(2.2j), 0.85 * np.exp(2.9j)]
    roots = mcadams.poles(filter_of(reals, pairs)[None])
    new, stable = mcadams.move(roots, 0.8, True)
    assert stable.all()
    np.testing.assert_allclose(new[0], moved(reals, pairs, 0.8), atol=1e-6)


def test_double_complex_poles():
    pairs = [0.95 * np.exp(0.5j), 0.95 * np.exp(0.5j), 0.9 * np.exp(2.0j)]
    roots = mcadams.poles(filter_of([0.3, -0.6], pairs)[None])
    new, _ = mcadams.move(roots, 0.7, True)
    np.testing.assert_allclose(new[0], moved([0.3, -0.6], pairs, 0.7), atol=1e-6)


def test_polynomial_whose_roots_are_sought_by_eigenvalues(monkeypatch: pytest.MonkeyPatch):
    pairs = [0.97 * np.exp(0.3j), 0.93 * np.exp(1.1j)]
    monkeypatch.setattr(
        mcadams, "_aberth", lambda f: (np.zeros((len(f), f.shape[1] - 1), complex), np.zeros(len(f), bool))
    )
    roots = mcadams.poles(filter_of([-0.9, -0.9], pairs)[None])
    np.testing.assert_allclose(mcadams.move(roots, 0.8, True)[0][0], moved([-0.9, -0.9], pairs, 0.8), atol=1e-6)


def test_clipping_concerns_alpha_above_one_alone():
    pairs = [0.9 * np.exp(3.0j)]
    roots = mcadams.poles(filter_of([0.1, 0.2], pairs)[None])
    clipped = mcadams.move(roots, 1.2, True)[0][0]
    np.testing.assert_allclose(clipped, filter_of([0.1, 0.2, -0.9, -0.9], []), atol=1e-9)
    np.testing.assert_allclose(mcadams.move(roots, 1.2, False)[0][0], moved([0.1, 0.2], pairs, 1.2), atol=1e-9)


def test_unstable_filters_are_told():
    outside = mcadams.poles(filter_of([0.5, 1.01], [0.9j])[None])
    assert not mcadams.move(outside, 0.8, True)[1][0]
    assert not mcadams.move(np.full((1, 4), np.nan + 0j), 0.8, True)[1][0]


def test_refilter_equals_scipys():
    cut = frames(1)
    old = mcadams.burg(cut, 20)
    new, _ = mcadams.move(mcadams.poles(old), 0.8, True)
    expected = np.array([lfilter([1.0], b, lfilter(a, [1.0], frame)) for frame, a, b in zip(cut, old, new)])
    np.testing.assert_allclose(mcadams.refilter(cut, old, new), expected, atol=1e-9 * np.abs(expected).max())


def test_alpha_one_changes_nothing():
    wave = make_utterance(make_speaker(5, 2), 5, 0, 2.0).wave
    made, counts = mcadams.transform(wave, 1.0, mcadams.Framing(320, 160))
    np.testing.assert_allclose(made, wave, atol=1e-9)
    assert counts["near_silent"] == counts["unstable"] == 0


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch):
    wave = make_utterance(make_speaker(5, 3), 5, 0, 2.0).wave
    whole, _ = mcadams.transform(wave, 0.7, mcadams.Framing(320, 160))
    monkeypatch.setattr(mcadams, "BLOCK", 7)
    cut, _ = mcadams.transform(wave, 0.7, mcadams.Framing(320, 160))
    np.testing.assert_array_equal(whole, cut)


def test_kernels_are_compiled_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch):
    real = numba.njit

    def refuse(**options: object):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert _compiled.compiled(lambda x: x + 1)(2) == 3
