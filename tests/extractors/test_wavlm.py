"""W-NT and Microsoft's WavLM on tiny models: against transformers' own forward pass and plain numpy."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers", reason="the extra wavlm is not installed: pip install transformers")

from pipeline import conformance, registry
from pipeline.errors import ConfigError, DataError, ModelMissing
from pipeline.extractors import wavlm
from pipeline.extractors.wavlm import backbone
from pipeline.extractors.wavlm.layouts import recognise
from tests import wavlm_folders as tiny

Extractor, Settings = wavlm.Extractor, wavlm.WavlmSettings


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks the hub all the same gets nothing."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def w_nt(tmp_path: Path) -> Path:
    tiny.w_nt(tmp_path / "w_nt", tiny.wavlm())
    return tmp_path / "w_nt"


@pytest.fixture
def microsoft(tmp_path: Path) -> Path:
    (tmp_path / "microsoft").mkdir()
    torch.save(tiny.microsoft(tiny.wavlm()), tmp_path / "microsoft" / "WavLM-Large.pt")
    return tmp_path / "microsoft"


def made(folder: Path, **more: Any) -> Extractor:
    return Extractor(Settings(source=str(folder), **more), folder, "cpu", 2)


def noise(n: int, seed: int = 0, level: float = 0.05) -> np.ndarray:
    return (0.01 + level * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def statistics(wave: np.ndarray, **kind: Any) -> np.ndarray:
    """Mean and deviation over time of what transformers' own forward pass gives, in double precision."""
    wave = wave.astype(np.float64)
    heard = torch.from_numpy((wave - wave.mean()) / wave.std(ddof=1))
    with torch.no_grad():
        hidden = tiny.wavlm(**kind).double()(heard[None]).last_hidden_state[0].numpy()
    return np.concatenate([hidden.mean(0), np.sqrt(np.maximum(hidden.var(0, ddof=1), 1e-10))])


def by_hand(wave: np.ndarray, head: dict[str, torch.Tensor]) -> np.ndarray:
    """W-NT's embedding: the head in plain numpy."""
    x = statistics(wave)
    for number in (1, 2):
        part = {key.split(".", 2)[2]: one.double().numpy() for key, one in head.items() if f"affine{number}." in key}
        norm = {key.split(".", 2)[2]: one.double().numpy() for key, one in head.items() if f"norm{number}." in key}
        x = np.maximum(part["weight"][:, :, 0] @ x + part["bias"], 0)
        x = (x - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-3)
    return np.asarray(x / np.linalg.norm(x))


# Numbers -----------------------------------------------------------------------------------------------------------------


def test_w_nt_is_what_numpy_makes_of_transformers(tmp_path: Path) -> None:
    head = tiny.w_nt(tmp_path, tiny.wavlm())
    waves = [noise(n, n) for n in (720, 1234, 16_000, 40_001)]
    for wave, feature in zip(waves, made(tmp_path).extract(waves), strict=True):
        assert feature.vector.shape == (tiny.EMBEDDING,)
        assert feature.weight == 1
        assert np.abs(feature.vector - by_hand(wave, head)).max() < 2e-5


@pytest.mark.parametrize("kind", [tiny.STABLE, tiny.BASE])
def test_microsofts_checkpoint_is_the_model_that_it_was_written_from(kind: dict[str, Any], tmp_path: Path) -> None:
    whole = tiny.microsoft(tiny.wavlm(**kind))
    # Large was trained on waveforms of variance 1, Base on those of the files.
    assert whole["cfg"]["normalize"] == (kind == tiny.STABLE)
    whole["cfg"]["normalize"] = True
    torch.save(whole, tmp_path / "WavLM-Large.pt")
    wave = noise(20_000)
    (feature,) = made(tmp_path, embedding_normalisation="none").extract([wave])
    assert np.abs(feature.vector - statistics(wave, **kind)).max() < 5e-5


def test_a_wavlm_that_was_trained_on_raw_waveforms_hears_them(tmp_path: Path) -> None:
    torch.save(tiny.microsoft(tiny.wavlm(**tiny.BASE)), tmp_path / "WavLM-Base.pt")
    wave = noise(8_000)
    with torch.no_grad():
        hidden = tiny.wavlm(**tiny.BASE)(torch.from_numpy(wave)[None]).last_hidden_state[0].numpy()
    expected = np.concatenate([hidden.mean(0), hidden.std(0, ddof=1)])
    assert distance(made(tmp_path).extract([wave])[0].vector, expected) < 1e-6


@pytest.mark.parametrize("kind", [tiny.STABLE, tiny.BASE])
def test_layers_are_what_each_layer_gives(kind: dict[str, Any]) -> None:
    model, waves, seen = tiny.wavlm(**kind), torch.from_numpy(noise(9_000))[None], []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda module, given, out: seen.append(out[0]))
    with torch.no_grad():
        model(waves)
        expected, seen = list(seen), seen
        found = backbone.list_layers(model, waves)
    assert len(found) == tiny.LAYERS
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_transformers_own_release_loads_where_it_is_asked_for(microsoft: Path, tmp_path: Path) -> None:
    tiny.wavlm().save_pretrained(tmp_path / "plain")
    wave = noise(12_000)
    expected = made(microsoft).extract([wave])[0].vector
    assert distance(made(tmp_path / "plain", layout="microsoft").extract([wave])[0].vector, expected) < 1e-9
    state = load_file(tmp_path / "plain" / "model.safetensors")
    (tmp_path / "plain" / "model.safetensors").unlink()
    older = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    for name in [name for name in state if "original" in name]:
        state[
            name.rsplit("parametrizations", 1)[0] + older["parametrizations" + name.rsplit("parametrizations", 1)[1]]
        ] = state.pop(name)
    torch.save(state | {"masked_spec_embed": torch.ones(tiny.WIDTH)}, tmp_path / "plain" / "pytorch_model.bin")
    assert distance(made(tmp_path / "plain", layout="microsoft").extract([wave])[0].vector, expected) < 1e-9


def test_long_audio_is_the_mean_of_its_pieces_and_short_audio_is_repeated(w_nt: Path) -> None:
    extractor = made(w_nt, longest_seconds=1, embedding_normalisation="none")
    wave = noise(40_000)
    parts = [feature.vector for feature in extractor.extract(np.array_split(wave, 3))]
    assert np.abs(extractor.extract([wave])[0].vector - np.mean(parts, axis=0)).max() < 1e-6
    unit = made(w_nt, longest_seconds=1).extract([wave])[0].vector
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-6)
    assert distance(unit, np.mean(parts, axis=0)) < 1e-7
    silent = np.concatenate([wave[:13_000], np.zeros(26_000, np.float32)])
    assert np.abs(extractor.extract([silent])[0].vector - extractor.extract([silent[:13_000]])[0].vector).max() < 1e-6
    short = noise(100)
    assert np.array_equal(extractor.extract([short])[0].vector, extractor.extract([np.resize(short, 720)])[0].vector)


def test_silence_has_no_weight_and_level_does_not_matter(w_nt: Path) -> None:
    extractor, wave = made(w_nt), noise(16_000)
    nothing = [np.zeros(16_000, np.float32), np.zeros(0, np.float32), np.full(900, 0.2, np.float32)]
    features = extractor.extract([*nothing, wave, 0.01 * wave])
    assert [feature.weight for feature in features] == [0, 0, 0, 1, 1]
    assert all(feature.reason and not feature.vector.any() for feature in features[:3])
    assert distance(features[3].vector, features[4].vector) < 1e-9


def test_signs_of_june_2026(w_nt: Path) -> None:
    wave = noise(16_000)
    plain = made(w_nt, embedding_normalisation="none").extract([wave])[0].vector
    signs = made(w_nt, embedding_normalisation="sign_vpc2026june").extract([wave])[0].vector
    # Their call, on [1, 1, d].
    theirs = torch.nn.functional.normalize(torch.from_numpy(plain)[None, None], dim=1)[0, 0].numpy()
    assert set(signs) == {-1.0, 1.0}
    assert np.array_equal(signs, theirs)


def test_it_keeps_the_contract_of_extractors(w_nt: Path) -> None:
    values = {"source": str(w_nt)}
    found = conformance.examine("extractors", "wavlm", Extractor, w_nt, values, imports=False)
    assert (found.faults, found.skipped) == ([], [])
    assert Extractor.compared_as == {"trials", "pairs", "ranks"}


# Fine-tuning -------------------------------------------------------------------------------------------------------------


def by_parts(settings: Any, model: torch.nn.Module, wave: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        frames = Extractor.frames(settings, model, torch.from_numpy(wave)[None])
        assert frames.dim() == 3
        return Extractor.last(model, Extractor.trunk(model, frames))[0].numpy()


@pytest.mark.parametrize("layout", ["w_nt", "microsoft"])
def test_the_parts_make_what_the_extractor_makes(layout: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(layout)
    settings = Settings(source=str(folder))
    model = Extractor.pretrained(settings, folder)
    for n in (300, 5_000, 30_000):
        assert distance(by_parts(settings, model, noise(n, n)), made(folder).extract([noise(n, n)])[0].vector) < 1e-6


@pytest.mark.parametrize("layout", ["w_nt", "microsoft"])
@pytest.mark.parametrize("layers", ["last", "all"])
def test_what_is_learnt_is_written_and_read_back(
    layout: str, layers: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder: Path = request.getfixturevalue(layout)
    settings, wave = Settings(source=str(folder)), noise(16_000)
    model = Extractor.pretrained(settings, folder)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    learnt = list(Extractor.learnt(model, layers))
    first = by_parts(settings, model, wave)
    frames = Extractor.frames(settings, model, torch.from_numpy(wave)[None])
    target = torch.randn(1, len(first), generator=torch.Generator().manual_seed(0))
    tiny.stepped(learnt, -(Extractor.last(model, Extractor.trunk(model, frames)) * target).sum())
    moved = {name for name, one in model.state_dict().items() if not torch.equal(one, before[name])}
    assert any("wavlm" in name for name in moved) == (layers == "all")
    assert any("affine1.weight" in name for name in moved)
    assert not any("running" in name for name in moved)
    # Biases that lift what would be cut off stay where they are.
    assert any("affine1.bias" in name for name in moved) == (layout == "w_nt")
    written = tmp_path / "written"
    written.mkdir()
    Extractor.write(model, written)
    again = made(written).extract([wave])[0].vector
    assert distance(again, by_parts(settings, model, wave)) < 1e-6
    assert distance(again, first) > 1e-4
    assert recognise(written, "auto").layout == "w_nt"
    assert distance(made(written, layout=layout).extract([wave])[0].vector, again) < 1e-9
    assert Extractor.weights(Settings(source=str(written)), tmp_path).folder == written


# Folders and weights -----------------------------------------------------------------------------------------------------


def test_without_weights_it_says_what_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing) as error:
        Extractor.weights(Settings(), tmp_path)
    assert error.value.status == 4
    assert "Orange/Speaker-wavLM-pro" in str(error.value)
    assert "fetch-models 'extractor=[wavlm]'" in str(error.value)
    with pytest.raises(ModelMissing, match=r"config\.json belongs beside it"):
        Extractor.fetch(Settings(), tmp_path)


def test_a_model_of_the_hub_is_found_where_fetch_models_puts_it(tmp_path: Path) -> None:
    place = tmp_path / "Orange--Speaker-wavLM-pro" / "main"
    place.parent.mkdir()
    tiny.w_nt(place, tiny.wavlm())
    found = Extractor.weights(Settings(), tmp_path)
    assert found.folder == place
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"num_attention_heads": 2}))
    assert Extractor.weights(Settings(), tmp_path).digest != found.digest
    changed_config = Extractor.weights(Settings(), tmp_path).digest
    (place / "README.md").write_text("of no account")
    assert Extractor.weights(Settings(), tmp_path).digest == changed_config


@pytest.mark.parametrize("layout", ["auto", "w_nt", "microsoft", "ssl_ecapa"])
def test_an_empty_folder_is_told_what_belongs_there(layout: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ModelMissing) as error:
        Extractor.weights(Settings(source=str(tmp_path), layout=layout), tmp_path)
    assert all(wanted in error.value.remedy for wanted in ("config.json and", "WavLM-Large.pt", "embedding_model.ckpt"))
    assert "notes.txt" in error.value.cause


def test_transformers_is_asked_for_by_name(w_nt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "transformers" else find(name, *more)
    )
    for call in (lambda: Extractor.weights(Settings(source=str(w_nt)), w_nt), lambda: made(w_nt)):
        with pytest.raises(ConfigError, match=r"pip install 'voice-privacy-pipeline\[wavlm\]'"):
            call()


def test_settings_are_checked_and_sources_stay_out_of_keys() -> None:
    for wrong in ({"layout": "hubert"}, {"embedding_normalisation": "sign"}, {"longest_seconds": 0.5}, {"source": ""}):
        with pytest.raises(ValidationError):
            Settings(**wrong)
    numeric = {"name", "embedding_normalisation", "longest_seconds", "resampler", "trim_zeros"}
    assert set(Settings().numeric()) == numeric
    assert registry.component("extractors", "wavlm") is Extractor


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The tensors of a folder with something changed."""
    state = load_file(folder / "model.safetensors")
    save_file(change(state) or state, folder / "model.safetensors")


def configured(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no embd_size": (lambda at: configured(at, embd_size=None), "has no embd_size"),
    "embd_size of words": (lambda at: configured(at, embd_size="many"), "no usable embd_size"),
    "another embd_size": (lambda at: configured(at, embd_size=13), r"tensor 'top_layers.affine2.bias' has shape \(12,\), not \(13,\)"),
    "another architecture": (lambda at: configured(at, model_type="hubert"), "model_type is 'hubert'"),
    "impossible sizes": (lambda at: configured(at, num_attention_heads=5), "no WavLM of this configuration"),
    "no JSON": (lambda at: (at / "config.json").write_text("{"), "configuration cannot be read"),
    "no object": (lambda at: (at / "config.json").write_text("[1]"), "it is no JSON object"),
    "damaged": (lambda at: (at / "model.safetensors").write_bytes(b"12345678"), "cannot be read as plain tensors"),
    "a tensor less": (
        lambda at: changed(at, lambda state: {name: state[name] for name in state if name != "wavlm.encoder.layers.1.layer_norm.bias"}),
        "no tensor 'encoder.layers.1.layer_norm.bias'",
    ),
    "a tensor more": (
        lambda at: changed(at, lambda state: state.update({"top_layers.affine3.weight": torch.ones(1)})),
        "tensor 'top_layers.affine3.weight' too many",
    ),
    "another width": (
        lambda at: changed(at, lambda state: state.update({"wavlm.encoder.layer_norm.bias": torch.ones(7)})),
        r"tensor 'encoder.layer_norm.bias' has shape \(7,\), not \(32,\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_are_not_w_nt_are_refused(fault: str, w_nt: Path) -> None:
    spoil, said = FAULTS[fault]
    spoil(w_nt)
    with pytest.raises(DataError, match=said) as error:
        made(w_nt)
    assert error.value.remedy or error.value.cause


class Harmful:
    """A pickle that would run code."""

    def __reduce__(self) -> Any:
        return (Path("harmed").touch, ())


def with_cfg(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda whole: {**whole, "cfg": {**whole["cfg"], **values}}


CHECKPOINTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "code": (lambda whole: whole | {"more": Harmful()}, "cannot be read as plain tensors"),
    "a bare state": (lambda whole: whole["model"], "no {cfg, model}"),
    "no tensors": (lambda whole: whole | {"model": {"a": 1}}, "something else than tensors by name"),
    "cfg without layers": (lambda whole: {**whole, "cfg": {"normalize": True}}, "there is no"),
    "no relative positions": (with_cfg(gru_rel_pos=False), "no gated relative positions"),
    "convolutions that call": (with_cfg(conv_feature_layers="__import__('os').getcwd()"), "cannot be used"),
    "convolutions that are none": (with_cfg(conv_feature_layers="7"), "cannot be used"),
    "another activation": (with_cfg(activation_fn="glu"), "no WavLM of this configuration"),
    "an unknown name": (
        lambda whole: {**whole, "model": whole["model"] | {"label_embs": torch.ones(3)}}, "tensor 'label_embs' too many"
    ),
    "a layer less": (with_cfg(encoder_layers=1), r"tensor 'encoder.layers.1.attention.gru_rel_pos_const' too many"),
}  # fmt: skip


@pytest.mark.parametrize("fault", CHECKPOINTS)
def test_checkpoints_that_are_not_microsofts_are_refused(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil, said = CHECKPOINTS[fault]
    torch.save(spoil(tiny.microsoft(tiny.wavlm())), tmp_path / "WavLM-Large.pt")
    with pytest.raises(DataError, match=said) as error:
        made(tmp_path)
    assert error.value.remedy
    assert not Path("harmed").exists()
