"""The McAdams transform in torch against the compiled form, which has its own independent references, and known roots."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from pipeline.anonymisers.mcadams import on_device as mcadams_torch
from pipeline.anonymisers.mcadams import transform as mcadams
from pipeline.anonymisers.mcadams.on_device import Transform
from pipeline.anonymisers.mcadams.transform import EPS, Framing
from pipeline.datasets.synthetic import make_speaker, make_utterance
from tests.anonymisers.test_transform import filter_of, frames, moved

FRAMINGS = [
    Framing(320, 160),
    Framing(320, 160, eps=EPS, edges=False, first=1),
    Framing(320, 160, eps=EPS, edges=False, clip=False),
    Framing(441, 220),
    Framing(400, 80, order=12),
]


def across(rows: np.ndarray) -> torch.Tensor:
    """The compiled form's [k, n] as this form's [n, k]."""
    return torch.from_numpy(np.ascontiguousarray(rows.T))


def waves() -> list[np.ndarray]:
    """Voices of several lengths, with digital silence, near silence and one window's length among them."""
    made = [
        make_utterance(make_speaker(5, n), 5, 0, seconds).wave for n, seconds in enumerate((1.31, 0.402, 2.0, 0.75))
    ]
    made[0] = made[0].copy()
    made[0][3000:9000] = 0.0
    made[2] = np.concatenate([made[2], 1e-7 * np.sin(np.arange(5000))]).astype(np.float32)
    return [*made, made[3][2000:2481]]


def both(
    sounds: Sequence[np.ndarray], alphas: Sequence[float], framing: Framing, transform: Transform
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each waveform by either form, after a look at the counts."""
    made = transform([torch.from_numpy(sound) for sound in sounds], alphas, framing)
    expected = [mcadams.transform(sound, alpha, framing) for sound, alpha in zip(sounds, alphas)]
    assert [counts for _, counts in made] == [counts for _, counts in expected]
    return [(ours.numpy(), theirs) for (ours, _), (theirs, _) in zip(made, expected)]


@pytest.mark.parametrize("index", range(3))
def test_the_steps_equal_the_compiled_ones(index: int):
    cut = frames(index)
    old = mcadams.burg(cut, 20)
    found = mcadams_torch.burg(across(cut), 20).numpy().T
    np.testing.assert_allclose(found, old, atol=1e-9 * np.abs(old).max())
    roots = mcadams.poles(old)
    theirs = mcadams_torch.poles(across(old)).numpy().T
    distance = np.abs(roots[:, :, None] - theirs[:, None])
    assert distance.min(axis=1).max() < 1e-9 and distance.min(axis=2).max() < 1e-9
    for alpha in (0.5, 0.8, 1.2):
        new, stable = mcadams.move(roots, alpha, True)
        ours, good = mcadams_torch.move(across(roots), torch.full((len(cut),), alpha, dtype=torch.float64), True)
        np.testing.assert_array_equal(good.numpy(), stable)
        np.testing.assert_allclose(ours.numpy().T, new, atol=1e-11 * np.abs(new).max())
        expected = mcadams.refilter(cut, old, new)
        through = mcadams_torch.refilter(across(cut), across(old), across(new)).numpy().T
        np.testing.assert_allclose(through, expected, atol=1e-8 * np.abs(expected).max())


def test_the_compiled_form_gets_few_frames(monkeypatch: pytest.MonkeyPatch):
    """One in 256 may be left over, besides those without conjugate pairs."""
    filters = mcadams.burg(np.concatenate([frames(index) for index in range(6)]), 20)
    handed = []
    real = mcadams.poles
    monkeypatch.setattr(mcadams, "poles", lambda some: handed.append(len(some)) or real(some))
    mcadams_torch.poles(across(filters))
    assert sum(handed) <= len(filters) // 100


@pytest.mark.parametrize(
    "reals", [[-0.9, -0.5], [-0.95, -0.95], [-0.8, -0.8, 0.7, 0.7], [0.99, -0.99], [0.0, 0.0], [-0.9, -0.9 - 1e-9]]
)
@pytest.mark.parametrize("copies", [1, 1000])
def test_real_poles_stay_even_when_double(reals: list[float], copies: int):
    """Alone they are left over by the simultaneous iteration; among others it goes on for them, or hands them over."""
    pairs = [0.97 * np.exp(0.3j), 0.93 * np.exp(1.1j), 0.9 * np.exp(2.2j), 0.85 * np.exp(2.9j)]
    usual = filter_of([0.3, -0.6], [*pairs[:-1], 0.7 * np.exp(0.9j)])
    size = len(filter_of(reals, pairs))
    filters = np.stack([filter_of(reals, pairs), *[np.resize(usual, size)] * (copies - 1)])
    alpha = torch.full((copies,), 0.8, dtype=torch.float64)
    new, stable = mcadams_torch.move(mcadams_torch.poles(across(filters)), alpha, True)
    assert stable[0]
    np.testing.assert_allclose(new[:, 0], moved(reals, pairs, 0.8), atol=1e-6)


def test_double_complex_poles_and_unstable_filters():
    pairs = [0.95 * np.exp(0.5j), 0.95 * np.exp(0.5j), 0.9 * np.exp(2.0j)]
    several = np.stack([
        filter_of([0.3, -0.6], pairs), filter_of([0.5, 1.01], pairs), filter_of([0.5, 0.2], [*pairs[:2], 1.02j]),
        np.full(9, np.nan), np.eye(9)[0],
    ])  # fmt: skip
    alpha = torch.tensor([0.7, 0.8, 0.8, 0.8, 0.8], dtype=torch.float64)
    new, stable = mcadams_torch.move(mcadams_torch.poles(across(several)), alpha, True)
    np.testing.assert_array_equal(stable.numpy(), [True, False, False, False, True])
    np.testing.assert_allclose(new[:, 0], moved([0.3, -0.6], pairs, 0.7), atol=1e-6)
    np.testing.assert_array_equal(new[:, 4], np.eye(9)[0])


def test_roots_of_any_multiplicity_come_in_pairs():
    """The iteration can end with a triple real root as a real and two others that mirror nothing."""
    random = np.random.default_rng(0)
    filters = []
    for count in range(60):
        pairs = random.uniform(0.6, 0.99, 8) * np.exp(1j * random.uniform(0.05, 3.0, 8))
        filters.append(filter_of([random.uniform(-0.99, 0.99)] * (2, 3, 4)[count % 3], pairs[: 8 - count % 3 // 2]))
    for size in {len(one) for one in filters}:
        several = np.stack([one for one in filters if len(one) == size])
        roots = mcadams_torch.poles(across(several))
        assert (roots.imag.sign().sum(0) == 0).all()
        again, _ = mcadams_torch.move(roots, torch.ones(len(several), dtype=torch.float64), True)
        np.testing.assert_allclose(again.numpy().T, several, atol=1e-4 * np.abs(several).max())


def test_clipping_concerns_alpha_above_one_alone():
    roots = mcadams_torch.poles(across(filter_of([0.1, 0.2], [0.9 * np.exp(3.0j)])[None]))
    alpha = torch.tensor([1.2], dtype=torch.float64)
    clipped = mcadams_torch.move(roots, alpha, True)[0][:, 0]
    np.testing.assert_allclose(clipped, filter_of([0.1, 0.2, -0.9, -0.9], []), atol=1e-9)
    free = mcadams_torch.move(roots, alpha, False)[0][:, 0]
    np.testing.assert_allclose(free, moved([0.1, 0.2], [0.9 * np.exp(3.0j)], 1.2), atol=1e-9)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_many_waveforms_equal_the_compiled_form(framing: Framing):
    """Each with its own alpha, near-silent and passed frames among them; unscaled, peaks reach 100."""
    alphas = [0.5, 0.8, 1.2, 0.65, 0.9]
    for ours, theirs in both(waves(), alphas, framing, Transform()):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * max(1.0, np.abs(theirs).max()))


def test_hard_frames_have_the_statuses_of_the_compiled_form():
    t = np.arange(320)
    shapes = [np.sin(0.3 * t), np.eye(320)[0], np.eye(320)[319], t / 320, np.ones(320), 1e-4 * np.cos(t), 0 * t]
    hard = np.stack([*shapes, np.where(t == 5, np.nan, 1.0), np.where(t == 5, np.inf, 1.0)])
    for window in (np.ones(320), np.sqrt(np.hanning(320))):
        cut = hard * window
        _, expected = mcadams.frames_through(cut, 0.8, Framing(320, 160))
        alpha = torch.full((len(cut),), 0.8, dtype=torch.float64)
        new, status = mcadams_torch.frames_through(across(cut), alpha, Framing(320, 160))
        found = status.numpy()
        np.testing.assert_array_equal(found == 1, expected == 1)
        np.testing.assert_array_equal(found[6:], [1, 2, 2])
        if window[0] == 0:
            # without a window, poles of pure tones lie on the unit circle: on which side of it is a matter of rounding
            np.testing.assert_array_equal(found, expected)
        made = new.numpy().T
        np.testing.assert_array_equal(made[found > 0], cut[found > 0])
        assert np.isfinite(made[:7]).all() and np.abs(made[:7]).max() < 50


def test_unstable_frames_pass_and_are_counted(monkeypatch: pytest.MonkeyPatch):
    real = mcadams_torch.move

    def spoil(roots: torch.Tensor, alpha: torch.Tensor, clip: bool) -> tuple[torch.Tensor, torch.Tensor]:
        filters, stable = real(roots, alpha, clip)
        stable[10:20] = False
        return filters, stable

    monkeypatch.setattr(mcadams_torch, "move", spoil)
    wave = make_utterance(make_speaker(3, 0), 3, 0, 1.0).wave
    ((made, counts),) = Transform()([torch.from_numpy(wave)], [0.8], Framing(320, 160))
    assert counts["unstable"] == 10
    np.testing.assert_allclose(made[1700:2900], wave[1700:2900], atol=1e-9)


@pytest.mark.parametrize("framing", [FRAMINGS[0], FRAMINGS[1], FRAMINGS[4]])
def test_neither_blocks_nor_neighbours_show(framing: Framing):
    sounds = [torch.from_numpy(wave) for wave in waves()]
    alphas = [0.5, 0.8, 1.2, 0.65, 0.9]
    whole = Transform()(sounds, alphas, framing)
    cut = Transform(frames=37)(sounds, alphas, framing)
    for sound, alpha, (expected, counts), (made, again) in zip(sounds, alphas, whole, cut):
        ((alone, once),) = Transform()([sound], [alpha], framing)
        assert counts == again == once
        for other in (made, alone):
            np.testing.assert_allclose(other, expected, atol=1e-8 * max(1.0, float(expected.abs().max())))


def test_out_of_memory_halves_the_block_and_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    real = mcadams_torch.frames_through

    def small(cut: torch.Tensor, alpha: torch.Tensor, framing: Framing) -> tuple[torch.Tensor, torch.Tensor]:
        if cut.shape[1] > 300:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(cut, alpha, framing)

    transform = Transform(frames=1000)
    monkeypatch.setattr(mcadams_torch, "frames_through", small)
    sounds = [*waves(), *waves()]
    with caplog.at_level(logging.WARNING):
        pairs = both(sounds, [0.8] * len(sounds), FRAMINGS[0], transform)
        assert transform.frames == 250 and len(caplog.records) == 2 and "250 frames" in caplog.text
        both(sounds, [0.8] * len(sounds), FRAMINGS[0], transform)
    assert len(caplog.records) == 2
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * max(1.0, np.abs(theirs).max()))
    monkeypatch.setattr(mcadams_torch, "frames_through", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(torch.OutOfMemoryError):
        transform([torch.from_numpy(sounds[0])], [0.8], FRAMINGS[0])


@pytest.mark.gpu
@pytest.mark.parametrize("framing", FRAMINGS)
def test_cuda_equals_the_compiled_form(framing: Framing):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    alphas = [0.5, 0.8, 1.2, 0.65, 0.9]
    made = Transform()([torch.from_numpy(wave).cuda() for wave in waves()], alphas, framing)
    again = Transform()([torch.from_numpy(wave).cuda() for wave in waves()], alphas, framing)
    for wave, alpha, (ours, counts), (same, _) in zip(waves(), alphas, made, again):
        theirs, expected = mcadams.transform(wave, alpha, framing)
        assert counts == expected
        np.testing.assert_allclose(ours.cpu(), theirs, atol=1e-6 * max(1.0, np.abs(theirs).max()))
        np.testing.assert_array_equal(ours.cpu(), same.cpu())
