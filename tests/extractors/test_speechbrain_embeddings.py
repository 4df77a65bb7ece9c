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
from pipeline.nets import speechbrain_networks
from pipeline.nets import speechbrain_networks as networks
from pipeline.nets import waveforms as packed
from pipeline.nets.packed import Layout
from pipeline.nets.speechbrain import read_state
from pipeline.trainers import embedding as training

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
    return lambda weights: module.Extractor(module.Extractor.Settings(source=str(weights)), weights, "cpu", 2)


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


@pytest.fixture(scope="module")
def trained(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ECAPA trained on ten speakers."""
    folder = tmp_path_factory.mktemp("trained")
    paths = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[::5]
    training.Trainer.train(
        training.EmbeddingSettings(
            channels=(64, 64, 64, 64), aggregation=192, embedding=48, attention=32, architecture="ecapa",
            steps=20, batch=16, crop_seconds=1.0, threads=1,
        ),
        packed.pack_waveforms([audio.load(path)[0] for path in paths], [path.parts[-3] for path in paths]), folder,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def mixed(speech: Path) -> list[np.ndarray]:
    """Real speech of 0.1 s to 60 s."""
    paths = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[:24]
    joined = np.concatenate([audio.load(path)[0] for path in paths])
    lengths = [0.1, 60, 0.1, 0.35, 1, 2.7, 0.2, 5, 11, 23]
    return [joined[80_000 * place :][: int(16_000 * seconds)] for place, seconds in enumerate(lengths)]


def of_one_file(model: torch.nn.Module, n_mels: int, wave: np.ndarray) -> np.ndarray:
    """What SpeechBrain's own modules give for one file."""
    frames = speechbrain_networks.FrontEnd(n_mels)(torch.from_numpy(wave)[None])
    with torch.no_grad():
        vector: np.ndarray = model.eval()(frames, torch.ones(1))[0, 0].numpy()
    return vector


@pytest.fixture
def weights(kind: str, folder: Path, request: pytest.FixtureRequest) -> Path:
    """Trained weights of an ECAPA; random ones of an x-vector, with running statistics that are not those of a fresh one."""
    found: Path = request.getfixturevalue("trained") if kind == "ecapa" else folder
    return found


@pytest.mark.parametrize("seconds", [1.0, 30.0, 200.0])
@pytest.mark.parametrize("order", ["as they come", "backwards", "shuffled"])
def test_a_vector_depends_on_its_own_audio_alone(
    seconds: float, order: str, kind: str, weights: Path, mixed: list[np.ndarray]
) -> None:
    n = len(mixed)
    places = {
        "as they come": range(n),
        "backwards": range(n)[::-1],
        "shuffled": np.random.default_rng(1).permutation(n),
    }
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    extractor = module.Extractor(
        module.Extractor.Settings(source=str(weights), batch_seconds=seconds), weights, "cpu", 2
    )
    build: Any = {"ecapa": networks.build_ecapa, "xvector": networks.build_xvector}[kind]
    model, _ = build(read_state(weights))
    chosen = [mixed[place] for place in places[order]]
    for wave, feature in zip(chosen, extractor.extract(chosen), strict=True):
        # SpeechBrain's x-vectors have noise in their statistics, which moves them by 1e-7.
        assert distance(feature.vector, of_one_file(model, CLASSES[kind][2], wave)) < (
            1e-9 if kind == "ecapa" else 1e-5
        )


def test_padding_through_speechbrain_would_move_vectors(trained: Path, mixed: list[np.ndarray]) -> None:
    model, _ = networks.build_ecapa(read_state(trained))
    front_end = speechbrain_networks.FrontEnd(80)
    lengths = torch.tensor([len(wave) for wave in mixed]) / max(len(wave) for wave in mixed)
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(wave) for wave in mixed], batch_first=True)
    with torch.no_grad():
        theirs = model(front_end.less_mean(front_end.frames(padded), lengths), lengths)[:, 0].numpy()
    ours = ecapa.Extractor(ecapa.EcapaSettings(), trained, "cpu", 1).extract(mixed)
    alone = [of_one_file(model, 80, wave) for wave in mixed]
    assert sum(distance(a, b) > 1e-4 for a, b in zip(theirs, alone)) >= 5
    assert max(distance(a.vector, b) for a, b in zip(ours, alone)) < 1e-9


def test_the_number_of_threads_changes_no_byte(kind: str, weights: Path, mixed: list[np.ndarray]) -> None:
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    found = [
        module.Extractor(module.Extractor.Settings(), weights, "cpu", threads).extract(mixed) for threads in (1, 2, 5)
    ]
    for several in found[1:]:
        assert all(np.array_equal(a.vector, b.vector) for a, b in zip(found[0], several, strict=True))


def test_bfloat16_is_close_and_not_the_same(kind: str, weights: Path, mixed: list[np.ndarray]) -> None:
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    full, half = (
        module.Extractor(module.Extractor.Settings(precision=precision), weights, "cpu", 2).extract(mixed)
        for precision in ("float32", "bfloat16")
    )
    moved = [distance(a.vector, b.vector) for a, b in zip(full, half, strict=True)]
    assert 1e-8 < max(moved) < 2e-4


@pytest.mark.gpu
def test_cpu_and_gpu_agree(kind: str, weights: Path, mixed: list[np.ndarray]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    for precision, most in (("float32", 1e-5), ("bfloat16", 1e-4)):
        settings = module.Extractor.Settings(precision=precision)
        here, there = (module.Extractor(settings, weights, device, 2).extract(mixed) for device in ("cpu", "cuda"))
        assert max(distance(a.vector, b.vector) for a, b in zip(here, there, strict=True)) < most


def test_long_audio_has_the_mean_of_its_pieces(trained: Path, mixed: list[np.ndarray]) -> None:
    extractor = ecapa.Extractor(ecapa.EcapaSettings(longest_seconds=7), trained, "cpu", 2)
    whole = ecapa.Extractor(ecapa.EcapaSettings(), trained, "cpu", 2)
    for wave in (mixed[8], mixed[9]):
        pieces = np.array_split(wave, {11: 2, 23: 4}[len(wave) // 16_000])
        expected = np.mean([feature.vector for feature in whole.extract(pieces)], axis=0)
        (found,) = extractor.extract([wave])
        assert np.abs(found.vector - expected).max() < 1e-5 * np.abs(expected).max()
        assert distance(found.vector, whole.extract([wave])[0].vector) > 1e-5


def test_silent_pieces_of_long_audio_do_not_count(trained: Path, mixed: list[np.ndarray]) -> None:
    extractor = ecapa.Extractor(ecapa.EcapaSettings(longest_seconds=5), trained, "cpu", 1)
    spoken = mixed[7]
    (found,) = extractor.extract([np.concatenate([np.zeros_like(spoken), spoken])])
    assert distance(found.vector, extractor.extract([spoken])[0].vector) < 1e-9


@pytest.mark.parametrize("n", [1, 2, 80, 479, 639])
def test_short_audio_is_repeated(n: int, kind: str, folder: Path, make: Callable[[Path], Any]) -> None:
    extractor = make(folder)
    assert extractor.least_frames == {"ecapa": 5, "xvector": 4}[kind]
    wave = noise(640)[:n]
    repeated = np.concatenate([wave] * 640)[: max(n, 160 * (extractor.least_frames - 1))]
    (short,), (same,) = extractor.extract([wave]), extractor.extract([repeated])
    assert short.weight == 1
    assert np.isfinite(short.vector).all()
    assert np.array_equal(short.vector, same.vector)


@pytest.mark.parametrize("sizes", [
    ECAPA_SIZES,
    {**ECAPA_SIZES, "channels": [16, 24, 24, 48], "kernel_sizes": [3, 5, 3, 1], "dilations": [1, 2, 3, 1], "groups": [1] * 4},
    {**ECAPA_SIZES, "global_context": False, "res2net_scale": 8, "input_size": 40},
])  # fmt: skip
def test_sizes_of_an_ecapa_are_read_from_its_weights(sizes: dict[str, Any]) -> None:
    model = ECAPA_TDNN(**sizes)
    found = networks.read_ecapa_sizes(model.state_dict())
    expected = {"global_context": True, "groups": [1] * 5, **sizes}
    assert found == expected
    assert networks.count_least_ecapa_frames(found) == {5: 5, 4: 5}[len(sizes["channels"])]
    for name, tensor in model.state_dict().items():
        if name.endswith(("running_mean", "norm.bias")):
            tensor.normal_(0, 0.1)
        elif name.endswith("norm.weight"):
            tensor.normal_(0, 1)
    lengths = [5, 40, 17, 300]
    frames = torch.randn(sum(lengths), sizes["input_size"])
    with torch.no_grad():
        together = networks.PackedEcapa(model.eval(), torch.float32)(frames, Layout(lengths, "cpu"))
        alone = torch.cat([model(part[None])[0] for part in torch.split(frames, lengths)])
    assert (together - alone).abs().max() < 1e-4 * alone.abs().max()


def test_sizes_of_an_xvector_are_read_from_its_weights() -> None:
    assert networks.read_xvector_sizes(Xvector(**XVECTOR_SIZES).state_dict()) == XVECTOR_SIZES
    assert networks.read_xvector_sizes(Xvector(in_channels=24).state_dict())["tdnn_channels"] == [
        512,
        512,
        512,
        512,
        1500,
    ]


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
        ecapa.Extractor(ecapa.EcapaSettings(), tmp_path, "cpu", 1)


def test_each_kind_refuses_the_weights_of_the_other(tmp_path: Path) -> None:
    for name, model in (("e", random_model("ecapa")), ("x", random_model("xvector"))):
        (tmp_path / name).mkdir()
        torch.save(model.state_dict(), tmp_path / name / "embedding_model.ckpt")
    with pytest.raises(DataError, match="not those of an x-vector"):
        xvector.Extractor(xvector.XVectorSettings(), tmp_path / "e", "cpu", 1)
    with pytest.raises(DataError, match="not those of an ECAPA"):
        ecapa.Extractor(ecapa.EcapaSettings(), tmp_path / "x", "cpu", 1)


def test_where_weights_are_found(tmp_path: Path, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = {"ecapa": ecapa, "xvector": xvector}[kind]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    models = tmp_path / "models"
    assert module.Extractor.weights(module.Extractor.Settings(source="trained"), models) is None
    local = module.Extractor.weights(module.Extractor.Settings(source=str(folder)), models)
    assert local.folder == folder
    with pytest.raises(ModelMissing, match="holds no weights"):
        module.Extractor.weights(module.Extractor.Settings(source=str(tmp_path)), models)
    hub = module.Extractor.Settings(source="a/b", revision="main")
    with pytest.raises(ModelMissing, match=rf"fetch-models 'extractor=\[{kind}\]' extractor.{kind}.source=a/b"):
        module.Extractor.weights(hub, models)
    place = models / "a--b" / "main"
    place.parent.mkdir(parents=True)
    folder.rename(place)
    assert module.Extractor.weights(hub, models).digest == local.digest


def test_the_cache_of_the_hub_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--a--b"
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots" / commit / "embedding_model.ckpt").write_bytes(b"weights")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for revision in ("main", commit):
        found = ecapa.Extractor.weights(ecapa.EcapaSettings(source="a/b", revision=revision), tmp_path / "models")
        assert found is not None
        assert found.folder == cache / "snapshots" / commit
