"""SSL-ECAPA of the VoicePrivacy Challenge 2026 on a tiny model, against its layers written out with torch's functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from speechbrain.lobes.features import Fbank
from torch.nn import functional

pytest.importorskip("transformers", reason="the extra wavlm is not installed: pip install transformers")

from pipeline import conformance
from pipeline.errors import DataError, ModelMissing
from pipeline.extractors import wavlm
from pipeline.extractors.wavlm import ssl_ecapa
from tests import wavlm_folders as tiny

Extractor, Settings = wavlm.Extractor, wavlm.WavlmSettings
CHANNELS, AGGREGATED, ATTENTION, DIMENSION, SCALE, BANDS = tiny.WIDTH, 40, 10, 9, 8, 80
State = dict[str, torch.Tensor]


def tensors(layers: int = tiny.LAYERS) -> State:
    """Tensors under the names of the challenge's checkpoints, drawn: three blocks behind the first layer, four on WavLM."""
    state: State = {}

    def conv(name: str, out: int, into: int, kernel: int = 1) -> None:
        state[f"{name}.conv.weight"], state[f"{name}.conv.bias"] = torch.empty(out, into, kernel), torch.empty(out)

    def norm(name: str, channels: int) -> None:
        for key in ("weight", "bias", "running_mean", "running_var"):
            state[f"{name}.norm.{key}"] = torch.empty(channels)
        state[f"{name}.norm.num_batches_tracked"] = torch.tensor(3)

    def tdnn(name: str, out: int, into: int, kernel: int = 1) -> None:
        conv(f"{name}.conv", out, into, kernel)
        norm(f"{name}.norm", out)

    def block(name: str, kernel: int) -> None:
        for part in ("tdnn1", "tdnn2"):
            tdnn(f"{name}.{part}", CHANNELS, CHANNELS)
        for number in range(SCALE - 1):
            tdnn(f"{name}.res2net_block.blocks.{number}", CHANNELS // SCALE, CHANNELS // SCALE, kernel)
        conv(f"{name}.se_block.conv1", 6, CHANNELS)
        conv(f"{name}.se_block.conv2", CHANNELS, 6)

    tdnn("blocks.0", CHANNELS, BANDS, 5)
    for number in range(1, 4):
        block(f"blocks.{number}", 3)
    for number in range(4):
        block(f"blocks_features.{number}", 5 if number == 0 else 3)
    state["weighted_sum.layer_weights"] = torch.empty(layers)
    tdnn("mfa", AGGREGATED, 3 * CHANNELS)
    tdnn("asp.tdnn", ATTENTION, 3 * AGGREGATED)
    conv("asp.conv", AGGREGATED, ATTENTION)
    norm("asp_bn", 2 * AGGREGATED)
    conv("fc", DIMENSION, 2 * AGGREGATED)
    random = torch.Generator().manual_seed(6)
    for name, tensor in state.items():
        if name.endswith("running_var"):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=random))
        elif tensor.is_floating_point():
            wide = tensor[0].numel() ** 0.5 if tensor.dim() > 1 else 3.0
            tensor.copy_(torch.randn(tensor.shape, generator=random) / wide + name.endswith("norm.weight"))
    return state


# The network by hand -----------------------------------------------------------------------------------------------------


def convolved(state: State, name: str, x: torch.Tensor, dilation: int = 1) -> torch.Tensor:
    weight = state[f"{name}.conv.weight"]
    reach = dilation * (weight.shape[2] - 1) // 2
    x = functional.pad(x, (reach, reach), mode="reflect") if reach else x
    return functional.conv1d(x, weight, state[f"{name}.conv.bias"], dilation=dilation)


def normalised(state: State, name: str, x: torch.Tensor) -> torch.Tensor:
    mean, variance, weight, bias = (
        state[f"{name}.norm.{key}"][:, None] for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def layer(state: State, name: str, x: torch.Tensor, dilation: int = 1) -> torch.Tensor:
    return normalised(state, f"{name}.norm", convolved(state, f"{name}.conv", x, dilation).relu())


def block(state: State, name: str, x: torch.Tensor, dilation: int) -> torch.Tensor:
    groups = layer(state, f"{name}.tdnn1", x).chunk(SCALE, dim=1)
    made = [groups[0]]
    for number in range(SCALE - 1):
        into = groups[number + 1] + (made[-1] if number else 0)
        made.append(layer(state, f"{name}.res2net_block.blocks.{number}", into, dilation))
    inner = layer(state, f"{name}.tdnn2", torch.cat(made, dim=1))
    squeezed = convolved(state, f"{name}.se_block.conv1", inner.mean(2, keepdim=True)).relu()
    return inner * convolved(state, f"{name}.se_block.conv2", squeezed).sigmoid() + x


def by_hand(state: State, wave: np.ndarray) -> np.ndarray:
    """The embedding of a waveform, in double precision behind the log-mels."""
    state = {name: one.double() for name, one in state.items()}
    with torch.no_grad():
        frames = Fbank(n_mels=BANDS)(torch.from_numpy(wave)[None]).double()
        x = (frames - frames.mean(1, keepdim=True)).transpose(1, 2)
        heard = torch.from_numpy(wave).double()
        heard = (heard - heard.mean()) / torch.sqrt(heard.var(correction=0) + 1e-5)
        model, seen = tiny.wavlm().double(), []
        for one in model.encoder.layers:
            one.register_forward_hook(lambda module, given, out: seen.append(out[0]))
        model(heard[None])
        weights = torch.exp(state["weighted_sum.layer_weights"])
        own = sum(weight * one for weight, one in zip(weights / weights.sum(), seen, strict=True)).transpose(1, 2)
        x, outputs, outputs_own = layer(state, "blocks.0", x), [], []
        for number in range(1, 4):
            x = block(state, f"blocks.{number}", x, number + 1)
            outputs.append(x)
        for number in range(4):
            own = block(state, f"blocks_features.{number}", own, number + 1)
            outputs_own.append(own)
        joined, joined_own = torch.cat(outputs, 1), torch.cat(outputs_own[1:], 1)
        # There are about half as many frames of WavLM: they are repeated from the start.
        copies = -(-joined.shape[2] // joined_own.shape[2])
        x = layer(state, "mfa", joined * joined_own.repeat(1, 1, copies)[:, :, : joined.shape[2]])
        plain = [x.mean(2, keepdim=True), x.var(2, keepdim=True, correction=0).clamp(min=1e-12).sqrt()]
        context = torch.cat([x, *(one.expand_as(x) for one in plain)], dim=1)
        attention = convolved(state, "asp.conv", layer(state, "asp.tdnn", context).tanh()).softmax(2)
        mean = (attention * x).sum(2)
        deviation = ((attention * (x - mean[:, :, None]) ** 2).sum(2)).clamp(min=1e-12).sqrt()
        pooled = normalised(state, "asp_bn", torch.cat([mean, deviation], dim=1)[:, :, None])
        return np.asarray(convolved(state, "fc", pooled)[0, :, 0].numpy())


# Tests -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the challenge gives it out: a checkpoint of a training beside Microsoft's WavLM."""
    made = tmp_path / "asv_ssl"
    made.mkdir()
    torch.save(
        {"state_dict": {f"module.{name}": one for name, one in tensors().items()}}, made / "embedding_model.ckpt"
    )
    torch.save(tiny.microsoft(tiny.wavlm()), made / "WavLM-Large.pt")
    return made


def made(folder: Path, **more: Any) -> Extractor:
    return Extractor(Settings(source=str(folder), **more), folder, "cpu", 2)


def noise(n: int, seed: int = 0) -> np.ndarray:
    return (0.05 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_it_is_what_torchs_functions_make_of_its_tensors(folder: Path) -> None:
    waves, state = [noise(n, n) for n in (1_680, 3_333, 16_000, 40_001)], tensors()
    extractor = made(folder, embedding_normalisation="none")
    for wave, feature in zip(waves, extractor.extract(waves), strict=True):
        expected = by_hand(state, wave)
        assert feature.vector.shape == (DIMENSION,)
        assert np.abs(feature.vector - expected).max() < 1e-4 * np.abs(expected).max()
    unit, signs = (made(folder, embedding_normalisation=one).extract(waves) for one in ("unit", "sign_vpc2026june"))
    expected = by_hand(state, waves[2])
    assert np.abs(unit[2].vector - expected / np.linalg.norm(expected)).max() < 1e-4
    assert np.array_equal(signs[2].vector, np.sign(expected))


def test_states_of_any_wrapping_are_the_same(folder: Path, tmp_path: Path) -> None:
    wave = noise(9_000)
    expected = made(folder).extract([wave])[0].vector
    (folder / "embedding_model.ckpt").unlink()
    torch.save(tensors(), folder / "embedding_model.ckpt")
    assert np.array_equal(made(folder).extract([wave])[0].vector, expected)
    (folder / "embedding_model.ckpt").unlink()
    save_file(tensors(), folder / "embedding_model.safetensors")
    assert np.array_equal(made(folder).extract([wave])[0].vector, expected)


@pytest.mark.parametrize(("have", "want"), [(5, 5), (5, 12), (12, 5), (10, 5), (7, 1), (1, 3)])
def test_frames_are_repeated_or_averaged(have: int, want: int) -> None:
    x = torch.arange(float(have))[None, None]
    found = ssl_ecapa.as_long(x, want)[0, 0].tolist()
    if want >= have:
        assert found == [frame % have for frame in range(want)]
    else:
        sizes = [have // want + (number >= want - have % want) for number in range(want)]
        ends = np.cumsum([0, *sizes])
        assert found == [np.mean(range(ends[number], ends[number + 1])) for number in range(want)]


def test_short_audio_is_repeated_up_to_the_least(folder: Path) -> None:
    extractor = made(folder)
    assert extractor.network.least == 1_680
    short, wave = noise(500), noise(1_680)
    assert np.array_equal(extractor.extract([short])[0].vector, extractor.extract([np.resize(short, 1_680)])[0].vector)
    assert extractor.extract([wave])[0].weight == 1


def test_it_keeps_the_contract_of_extractors(folder: Path) -> None:
    found = conformance.examine("extractors", "wavlm", Extractor, folder, {"source": str(folder)}, imports=False)
    assert (found.faults, found.skipped) == ([], [])


@pytest.mark.parametrize("layers", ["last", "all"])
def test_it_is_fine_tuned_written_and_read_back(layers: str, folder: Path, tmp_path: Path) -> None:
    settings, wave = Settings(source=str(folder)), noise(16_000)
    model = Extractor.pretrained(settings, folder)

    def embedded() -> torch.Tensor:
        frames = Extractor.frames(settings, model, torch.from_numpy(np.stack([wave, noise(16_000, 1)])))
        return Extractor.last(model, Extractor.trunk(model, frames))

    first = made(folder).extract([wave])[0].vector
    assert distance(embedded().detach()[0].numpy(), first) < 1e-6
    before = {name: one.clone() for name, one in model.state_dict().items()}
    tiny.stepped(Extractor.learnt(model, layers), embedded().pow(2).sum())
    moved = {name for name, one in model.state_dict().items() if not torch.equal(one, before[name])}
    assert "branches.fc.conv.weight" in moved
    assert any(name.startswith("branches.blocks") for name in moved) == (layers == "all")
    assert not any(name.startswith("wavlm.") or "running" in name for name in moved)
    written = tmp_path / "written"
    written.mkdir()
    Extractor.write(model, written)
    found = Extractor.weights(Settings(source=str(written)), tmp_path)
    again = made(found.folder).extract([wave])[0].vector
    assert distance(again, embedded().detach()[0].numpy()) < 1e-6
    assert distance(again, first) > 1e-5


def test_what_is_missing_is_named(folder: Path) -> None:
    (folder / "WavLM-Large.pt").unlink()
    with pytest.raises(ModelMissing, match=r"no WavLM weights of the layout ssl_ecapa"):
        Extractor.weights(Settings(source=str(folder)), folder)


def test_a_wavlm_of_another_depth_is_refused(folder: Path) -> None:
    (folder / "embedding_model.ckpt").unlink()
    torch.save(tensors(layers=5), folder / "embedding_model.ckpt")
    with pytest.raises(DataError, match="has 2 layers, and the network was trained on one of 5"):
        made(folder)


def test_a_network_of_another_kind_is_refused(folder: Path) -> None:
    for spoil, said in (
        ({"blocks.0.conv.conv.weight": None}, "no tensor 'blocks.0.conv.conv.weight'"),
        ({"blocks_features.2.tdnn2.norm.norm.bias": torch.ones(3)}, r"has shape \(3,\), not \(32,\)"),
        ({"weighted_sum.layer_weights": None}, "no tensor 'weighted_sum.layer_weights'"),
        ({"classifier.weight": torch.ones(2)}, "tensor 'classifier.weight' too many"),
    ):
        state = tensors() | spoil
        (folder / "embedding_model.ckpt").unlink()
        torch.save({name: one for name, one in state.items() if one is not None}, folder / "embedding_model.ckpt")
        with pytest.raises(DataError, match=said) as error:
            made(folder)
        assert error.value.remedy


def test_checkpoints_of_the_challenge_stand_on_the_wavlm_of_its_first_model(folder: Path, tmp_path: Path) -> None:
    """``train=found``: the branches in ``asv_anon_x/CKPT+4``, WavLM in ``asv_ssl`` alone."""
    whole = made(folder).extract([noise(8000)])[0].vector
    checkpoint = tmp_path / "asv_anon_x" / "CKPT+4"
    checkpoint.mkdir(parents=True)
    branches = folder / "embedding_model.ckpt"
    assert Extractor.with_checkpoint(Settings(), checkpoint, folder) is None
    branches.rename(checkpoint / branches.name)
    settings = Extractor.with_checkpoint(Settings(), checkpoint, folder)
    assert settings is not None and settings.numeric() == Settings().numeric()
    weights = Extractor.weights(settings, tmp_path)
    (found,) = Extractor(settings, weights.folder, "cpu", 1).extract([noise(8000)])
    np.testing.assert_array_equal(found.vector, whole)
    assert Extractor.with_checkpoint(Settings(source="mine"), checkpoint, folder) is None
