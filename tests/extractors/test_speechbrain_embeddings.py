"""ECAPA and x-vectors against SpeechBrain's own EncoderClassifier on a model folder that SpeechBrain wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from speechbrain.inference.speaker import EncoderClassifier
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
from speechbrain.lobes.models.Xvector import Xvector
from speechbrain.utils.checkpoints import Checkpointer

from pipeline import audio
from pipeline.errors import DataError, ModelMissing
from pipeline.extractors import ecapa, xvector
from pipeline.models import ecapa as ecapa_model
from pipeline.models import speechbrain_layout
from pipeline.models import xvector as xvector_model

ECAPA_SIZES: dict[str, Any] = {
    "input_size": 80, "lin_neurons": 48, "channels": [32, 32, 32, 32, 96], "kernel_sizes": [5, 3, 3, 3, 1],
    "dilations": [1, 2, 3, 4, 1], "attention_channels": 16, "res2net_scale": 4, "se_channels": 24,
}  # fmt: skip
XVECTOR_SIZES: dict[str, Any] = {
    "in_channels": 24, "tdnn_blocks": 5, "tdnn_channels": [32, 32, 32, 32, 96], "tdnn_kernel_sizes": [5, 3, 3, 1, 1],
    "tdnn_dilations": [1, 2, 3, 1, 1], "lin_neurons": 48,
}  # fmt: skip
CLASSES = {"ecapa": (ECAPA_TDNN, ECAPA_SIZES, 80), "xvector": (Xvector, XVECTOR_SIZES, 24)}

HYPERPARAMS = """
compute_features: !new:speechbrain.lobes.features.Fbank
    n_mels: {n_mels}
mean_var_norm: !new:speechbrain.processing.features.InputNormalization
    norm_type: sentence
    std_norm: False
embedding_model: !new:{path}
{sizes}
modules:
    compute_features: !ref <compute_features>
    mean_var_norm: !ref <mean_var_norm>
    embedding_model: !ref <embedding_model>
    classifier: !ref <embedding_model>
pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        embedding_model: !ref <embedding_model>
    paths:
        embedding_model: {folder}/embedding_model.ckpt
"""


def random_model(kind: str) -> torch.nn.Module:
    """A model of the kind with weights and running statistics that are not those of a fresh one."""
    cls, sizes, _ = CLASSES[kind]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model: torch.nn.Module = cls(**sizes)
        for name, tensor in model.state_dict().items():
            if name.endswith("running_mean"):
                tensor.normal_(0, 0.1)
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
    return model.eval()


@pytest.fixture(params=["ecapa", "xvector"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    """A model folder as on the hub, saved by SpeechBrain's checkpointer."""
    made = tmp_path / "model"
    checkpoint = Checkpointer(tmp_path / "save", {"embedding_model": random_model(kind)}).save_checkpoint()
    made.mkdir()
    (checkpoint.path / "embedding_model.ckpt").rename(made / "embedding_model.ckpt")
    cls, sizes, n_mels = CLASSES[kind]
    (made / "hyperparams.yaml").write_text(HYPERPARAMS.format(
        n_mels=n_mels, path=f"{cls.__module__}.{cls.__name__}", folder=made,
        sizes="\n".join(f"    {key}: {value}" for key, value in sizes.items()),
    ))  # fmt: skip
    return made


@pytest.fixture
def make(kind: str) -> Callable[[Path], Any]:
    module = {"ecapa": ecapa, "xvector": xvector}[kind]
    return lambda weights: module.Extractor(module.Settings(source=str(weights)), weights, "cpu", 2)


def noise(n: int, seed: int = 0) -> np.ndarray:
    return (0.05 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_single_files_give_what_speechbrain_gives(
    kind: str, folder: Path, make: Callable[[Path], Any], speech: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    theirs = EncoderClassifier.from_hparams(source=str(folder), savedir=str(folder.parent / "saved"))
    paths = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[::20]
    waves = [audio.load(path)[0] for path in paths] + [noise(n) for n in (640, 1000, 16_000)]
    features = make(folder).extract(waves)
    for wave, feature in zip(waves, features, strict=True):
        with torch.no_grad():
            expected = theirs.encode_batch(torch.from_numpy(wave)[None])[0, 0].numpy()
        assert feature.vector.shape == (48,)
        assert feature.vector.dtype == np.float32
        assert distance(feature.vector, expected) < 1e-5
        assert np.abs(feature.vector - expected).max() < (1e-5 if kind == "ecapa" else 1e-3)


def test_ckpt_and_safetensors_give_the_same_vector(folder: Path, make: Callable[[Path], Any]) -> None:
    other = folder.parent / "safe"
    other.mkdir()
    save_file(torch.load(folder / "embedding_model.ckpt", weights_only=True), other / "embedding_model.safetensors")
    wave = noise(20_000)
    assert np.array_equal(make(folder).extract([wave])[0].vector, make(other).extract([wave])[0].vector)


def test_a_vector_depends_on_its_own_audio_alone(folder: Path, make: Callable[[Path], Any]) -> None:
    waves = [noise(n, n) for n in (50, 700, 16_000, 40_000)]
    extractor = make(folder)
    together = extractor.extract(waves)
    torch.manual_seed(99)
    for wave, feature in zip(waves, together, strict=True):
        assert np.array_equal(extractor.extract([wave])[0].vector, feature.vector)


@pytest.mark.parametrize("n", [1, 2, 80, 479, 639])
def test_short_audio_is_repeated(n: int, kind: str, folder: Path, make: Callable[[Path], Any]) -> None:
    extractor = make(folder)
    assert extractor.least_frames == {"ecapa": 5, "xvector": 4}[kind]
    wave = noise(640)[:n]
    repeated = np.concatenate([wave] * 640)[: max(n, 160 * (extractor.least_frames - 1))]
    short, same = extractor.extract([wave, repeated])
    assert short.weight == 1
    assert np.isfinite(short.vector).all()
    assert np.array_equal(short.vector, same.vector)


def test_silence_and_nan_have_weight_zero(folder: Path, make: Callable[[Path], Any]) -> None:
    waves = [np.zeros(16_000, np.float32), np.zeros(0, np.float32), np.full(800, np.nan, np.float32)]
    for feature, reason in zip(make(folder).extract(waves), ["silent", "no samples", "NaN"], strict=True):
        assert reason in feature.reason
        assert feature.weight == 0
        assert feature.vector.tolist() == [0] * 48


@pytest.mark.parametrize("sizes", [
    ECAPA_SIZES,
    {**ECAPA_SIZES, "channels": [16, 24, 16, 48], "kernel_sizes": [3, 5, 3, 1], "dilations": [1, 2, 3, 1], "groups": [1] * 4},
    {**ECAPA_SIZES, "global_context": False, "res2net_scale": 8, "input_size": 40},
])  # fmt: skip
def test_sizes_of_an_ecapa_are_read_from_its_weights(sizes: dict[str, Any]) -> None:
    model = ECAPA_TDNN(**sizes)
    found = ecapa_model.sizes(model.state_dict())
    expected = {"global_context": True, "groups": [1] * 5, **sizes}
    assert found == expected
    assert ecapa_model.least_frames(found) == {5: 5, 4: 5}[len(sizes["channels"])]


def test_sizes_of_an_xvector_are_read_from_its_weights() -> None:
    assert xvector_model.sizes(Xvector(**XVECTOR_SIZES).state_dict()) == XVECTOR_SIZES
    assert xvector_model.sizes(Xvector(in_channels=24).state_dict())["tdnn_channels"] == [512, 512, 512, 512, 1500]


@pytest.mark.parametrize(
    ("change", "tensor"),
    [
        (lambda state: state.pop("fc.conv.weight"), "fc.conv.weight"),
        (lambda state: state.pop("blocks.2.se_block.conv2.conv.bias"), "blocks.2.se_block.conv2.conv.bias"),
        (lambda state: state.update({"head.weight": torch.zeros(2)}), "head.weight"),
        (lambda state: state.update({"asp_bn.norm.weight": torch.zeros(2)}), "asp_bn.norm.weight"),
        (lambda state: state.update({"mfa.conv.conv.weight": torch.zeros(2)}), "mfa.conv.conv.weight"),
    ],
)
def test_another_architecture_is_refused_by_the_name_of_its_tensor(
    change: Callable[[dict[str, torch.Tensor]], Any], tensor: str, tmp_path: Path
) -> None:
    state = dict(random_model("ecapa").state_dict())
    change(state)
    torch.save(state, tmp_path / "embedding_model.ckpt")
    with pytest.raises(DataError, match=f"'{tensor}'"):
        ecapa.Extractor(ecapa.Settings(), tmp_path, "cpu", 1)


def test_each_kind_refuses_the_weights_of_the_other(tmp_path: Path) -> None:
    for name, model in (("e", random_model("ecapa")), ("x", random_model("xvector"))):
        (tmp_path / name).mkdir()
        torch.save(model.state_dict(), tmp_path / name / "embedding_model.ckpt")
    with pytest.raises(DataError, match="not those of an x-vector"):
        xvector.Extractor(xvector.Settings(), tmp_path / "e", "cpu", 1)
    with pytest.raises(DataError, match="not those of an ECAPA"):
        ecapa.Extractor(ecapa.Settings(), tmp_path / "x", "cpu", 1)


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("this must not be printed",))


@pytest.mark.parametrize("content", [b"no checkpoint", Malicious(), [torch.zeros(1)], {"a": 1}])
def test_what_is_not_plain_tensors_is_refused(content: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "embedding_model.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(DataError):
        speechbrain_layout.read_state(tmp_path)
    assert "must not" not in capsys.readouterr().out


def test_where_weights_are_found(tmp_path: Path, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    models = tmp_path / "models"
    assert module.weights(module.Settings(source="trained"), models) is None
    local = module.weights(module.Settings(source=str(folder)), models)
    assert local.folder == folder
    with pytest.raises(ModelMissing, match="holds no weights"):
        module.weights(module.Settings(source=str(tmp_path)), models)
    hub = module.Settings(source="a/b", revision="main")
    with pytest.raises(ModelMissing, match=rf"fetch-models 'extractor=\[{kind}\]' extractor.{kind}.source=a/b"):
        module.weights(hub, models)
    place = models / "a--b" / "main"
    place.parent.mkdir(parents=True)
    folder.rename(place)
    assert module.weights(hub, models).digest == local.digest


def test_the_cache_of_the_hub_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--a--b"
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots" / commit / "embedding_model.ckpt").write_bytes(b"weights")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for revision in ("main", commit):
        found = ecapa.weights(ecapa.Settings(source="a/b", revision=revision), tmp_path / "models")
        assert found is not None
        assert found.folder == cache / "snapshots" / commit
