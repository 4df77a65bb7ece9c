"""The phone VQ-VAE: its front end, codebook and folded encoder against other implementations and plain loops."""

from __future__ import annotations

import librosa
import numpy as np
import pytest
import torch

from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.errors import DataError
from pipeline.extractors.phones import network as vqvae
from pipeline.extractors.phones.network import (
    CODE,
    Encoder,
    Mels,
    Network,
    Quantiser,
    filters,
    folded,
    nearest,
    surroundings,
)


def trained_like(channels: int = 24, codes: int = 32, seed: int = 0) -> Network:
    """A network whose batch norms have seen something and whose codes lie among its vectors."""
    torch.manual_seed(seed)
    model = Network(80, channels, codes, 8, 3, 4)
    model.mean.uniform_(-12, -8)
    model.scale.uniform_(0.3, 0.6)
    mels = model.normalised(Mels(80)(torch.from_numpy(np.stack([padded(wave(k)) for k in range(4)]))))
    for _ in range(20):
        vectors = model.encoded(mels).detach()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.uniform_(-0.3, 0.3)
    model.eval()
    vectors = model.encoded(mels).detach()
    model.quantiser.codes.copy_(vectors[torch.randperm(len(vectors))[:codes]])
    return model


def wave(index: int, seconds: float = 2.0) -> np.ndarray:
    made = make_utterance(make_speaker(3, index), 3, 0, seconds).wave
    return np.asarray(made / np.sqrt(np.mean(made**2)), np.float32)


def padded(samples: np.ndarray) -> np.ndarray:
    return surroundings(samples, 0, len(samples) // CODE)


@pytest.fixture(scope="module")
def model() -> Network:
    return trained_like()


@pytest.fixture(scope="module")
def encoder(model: Network) -> Encoder:
    return Encoder(model.state_dict(), "cpu")


def plain(model: Network, samples: np.ndarray) -> np.ndarray:
    """Codes of a whole file by the training network in evaluation mode, the nearest ones by distance in float64."""
    with torch.no_grad():
        vectors = model.encoded(model.normalised(Mels(80)(torch.from_numpy(padded(samples))[None]))).double()
        return torch.cdist(vectors, model.quantiser.codes.double()).argmin(1).numpy()


def test_filters_are_slaneys_of_sum_one() -> None:
    expected = librosa.filters.mel(sr=16_000, n_fft=400, n_mels=80, htk=False, norm=None).T
    np.testing.assert_allclose(filters(80), expected / expected.sum(0), atol=1e-6)


def test_mels_are_those_of_plain_frames() -> None:
    samples = wave(0, 0.5)
    made = Mels(80)(torch.from_numpy(padded(samples))[None])[0].numpy()
    assert made.shape == (80, 50)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    for frame in (0, 1, 20, 49):
        centre = 160 * frame + 80
        cut = np.array([samples[k] if 0 <= k < len(samples) else 0.0 for k in range(centre - 200, centre + 200)])
        power = np.abs(np.fft.rfft(cut * window / np.sqrt((window**2).sum()))) ** 2
        np.testing.assert_allclose(made[:, frame], np.log(power @ filters(80) + 1e-7), atol=2e-3)


def test_white_noise_of_power_one_is_at_zero_and_silence_at_the_floor() -> None:
    noise = np.random.default_rng(0).standard_normal(32_000).astype(np.float32)
    mels = Mels(80)(torch.from_numpy(np.stack([noise, np.zeros_like(noise)])[:, : 99 * CODE + 240])).exp()
    assert float(mels[0].mean()) == pytest.approx(1, abs=0.03)
    np.testing.assert_allclose(mels[1].numpy(), vqvae.FLOOR, rtol=1e-4)


def test_nearest_is_the_smallest_distance() -> None:
    torch.manual_seed(0)
    vectors, codes = torch.randn(500, 8), torch.randn(40, 8)
    expected = [
        int(np.argmin([np.sum((v - c) ** 2) for c in codes.double().numpy()])) for v in vectors.double().numpy()
    ]
    assert nearest(vectors, codes).tolist() == expected


def test_gradient_passes_straight_through_and_pulls_to_the_codes() -> None:
    torch.manual_seed(0)
    quantiser = Quantiser(6, 3, 0.9, 5)
    quantiser.codes.normal_()
    vectors, weights = torch.randn(7, 3, requires_grad=True), torch.randn(7, 3)
    chosen, quantised, distance = quantiser(vectors)
    np.testing.assert_allclose(quantised.detach().numpy(), quantiser.codes[chosen].numpy(), atol=1e-6)
    straight = torch.autograd.grad((quantised * weights).sum(), vectors, retain_graph=True)[0]
    np.testing.assert_array_equal(straight.numpy(), weights.numpy())
    pull = torch.autograd.grad(distance, vectors)[0].numpy()
    np.testing.assert_allclose(pull, 2 * (vectors.detach() - quantiser.codes[chosen]).numpy() / 21, atol=1e-6)


def test_codes_follow_by_moving_averages() -> None:
    """Against a loop over codes and vectors in float64: ratios of averages that start at nothing."""
    random = np.random.default_rng(0)
    quantiser = Quantiser(5, 3, 0.8, 100)
    start = random.normal(size=(5, 3)).astype(np.float32)
    quantiser.codes.copy_(torch.from_numpy(start))
    codes, counts, sums, idle = start.astype(float), np.zeros(5), np.zeros((5, 3)), np.full(5, 100)
    for _ in range(30):
        vectors = random.normal(size=(11, 3)).astype(np.float32)
        # The last code is never chosen and stays where it is.
        chosen = random.integers(4, size=11)
        quantiser.update(torch.from_numpy(vectors), torch.from_numpy(chosen))
        for code in range(5):
            own = [vector for vector, choice in zip(vectors, chosen) if choice == code]
            counts[code] = 0.8 * counts[code] + 0.2 * len(own)
            sums[code] = 0.8 * sums[code] + 0.2 * np.sum(own, axis=0, dtype=float)
            idle[code] = 0 if own else idle[code] + 1
            if counts[code] > 0:
                codes[code] = sums[code] / counts[code]
    np.testing.assert_allclose(quantiser.codes.numpy(), codes, atol=1e-5)
    np.testing.assert_allclose(quantiser.counts.numpy(), counts, atol=1e-5)
    np.testing.assert_array_equal(quantiser.idle.numpy(), idle)
    np.testing.assert_array_equal(quantiser.codes.numpy()[4], start[4])


def test_idle_codes_begin_anew_among_the_vectors() -> None:
    quantiser = Quantiser(6, 2, 0.9, 3)
    vectors = torch.arange(40.0).reshape(20, 2)
    assert quantiser.revive(vectors, np.random.default_rng(0)) == 6
    assert len(set(quantiser.codes[:, 0].tolist())) == 6
    assert all((vectors == code).all(1).any() for code in quantiser.codes)
    before = quantiser.codes.clone()
    for _ in range(3):
        assert quantiser.revive(vectors, np.random.default_rng(1)) == 0
        quantiser.update(before[:4], torch.arange(4))
    assert quantiser.idle.tolist() == [0, 0, 0, 0, 3, 3]
    assert quantiser.revive(vectors + 100, np.random.default_rng(2)) == 2
    np.testing.assert_allclose(quantiser.codes[:4].numpy(), before[:4].numpy(), atol=1e-5)
    assert (quantiser.codes[4:] >= 100).all()
    assert quantiser.counts[4:].tolist() == [0, 0]
    # More codes than vectors: some are drawn twice.
    assert Quantiser(6, 2, 0.9, 3).revive(vectors[:2], np.random.default_rng(0)) == 6


def test_folded_convolutions_are_the_unfolded_ones(model: Network) -> None:
    hidden = torch.randn(2, 80, 30)
    for place in range(0, 15, 3):
        layer, norm = model.encoder[place], model.encoder[place + 1]
        weight, bias = folded(layer, norm)
        with torch.no_grad():
            expected = norm(layer(hidden))
            made = torch.nn.functional.conv1d(hidden, weight, bias, layer.stride, padding=1)
        np.testing.assert_allclose(made.numpy(), expected.numpy(), atol=1e-4)
        hidden = expected.relu()


def test_codes_are_those_of_the_training_network(model: Network, encoder: Encoder) -> None:
    for index in range(4):
        samples = wave(index, 3.0)
        made = encoder.codes([samples], [1.0])[0]
        np.testing.assert_array_equal(made, plain(model, samples))
        assert len(set(made.tolist())) > 5
        np.testing.assert_array_equal(encoder.codes([samples / 4], [4.0])[0], made)


@pytest.mark.parametrize("size", [1, 3, 7, 50, 149, 150])
def test_blocks_give_the_codes_of_the_whole_file(encoder: Encoder, size: int) -> None:
    samples = wave(1, 3.0)
    np.testing.assert_array_equal(encoder.codes([samples], [1.0], size=size)[0], encoder.codes([samples], [1.0])[0])


def test_less_context_would_not_do(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """That blocks agree is no accident of this network: with two codes less they do not."""
    samples = wave(1, 3.0)
    whole = encoder.codes([samples], [1.0])[0]
    monkeypatch.setattr(vqvae, "CONTEXT", vqvae.CONTEXT - 2)
    assert (encoder.codes([samples], [1.0], size=3)[0] != whole).any()


@pytest.mark.parametrize("batch_seconds", [0.0, 1.0, 4.0, 1000.0])
def test_neighbours_and_padding_change_nothing(encoder: Encoder, batch_seconds: float) -> None:
    waves = [wave(index, seconds) for index, seconds in enumerate([0.3, 2.0, 0.02, 1.37, 5.0, 0.05, 2.0])]
    waves += [np.zeros(0, np.float32), waves[0][:319]]
    gains = [1.0, 0.5, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0]
    together = encoder.codes(waves, gains, batch_seconds, size=100)
    for samples, gain, made in zip(waves, gains, together):
        np.testing.assert_array_equal(made, encoder.codes([samples], [gain])[0])
        assert len(made) == len(samples) // 320


def test_batches_keep_to_their_budget(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    inner = Encoder._batch
    monkeypatch.setattr(
        Encoder, "_batch", lambda self, batch, longest, *rest: (
            shapes.append(len(batch) * longest), inner(self, batch, longest, *rest))[1],
    )  # fmt: skip
    encoder.codes([wave(index, 0.5 + index / 2) for index in range(6)], [1.0] * 6, 4.0)
    assert max(shapes) <= 4.0 * 50
    assert len(shapes) < 6


def test_loading_draws_no_random_numbers(model: Network) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Encoder(model.state_dict(), "cpu")
    assert torch.equal(torch.rand(3), expected)


def test_weights_of_something_else_are_named(model: Network) -> None:
    state = model.state_dict()
    with pytest.raises(DataError, match="phone VQ-VAE"):
        Encoder({key: value for key, value in state.items() if key != "quantiser.codes"}, "cpu")
    with pytest.raises(DataError, match=r"decoder\.6\.bias"):
        Encoder({key: value for key, value in state.items() if key != "decoder.6.bias"}, "cpu")
    with pytest.raises(DataError, match=r"encoder\.1\.weight"):
        Encoder({**state, "encoder.1.weight": torch.ones(3)}, "cpu")


@pytest.mark.gpu
def test_codes_on_a_gpu_are_those_of_a_cpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    model = trained_like(256, 512)
    waves = [wave(index, 3.0 + index) for index in range(12)]
    one = Encoder(model.state_dict(), "cpu").codes(waves, [1.0] * 12)
    two = Encoder(model.state_dict(), "cuda").codes(waves, [1.0] * 12, 30.0)
    assert (np.concatenate(one) == np.concatenate(two)).mean() >= 0.999
