"""The embedding trainer: its loss against a closed form, its gradients, its determinism, what it keeps, and that it learns."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
from speechbrain.lobes.models.Xvector import Xvector

from pipeline.errors import ConfigError, DataError, StageFailed
from pipeline.extractors import ecapa, xvector
from pipeline.extractors.ecapa import training_network
from pipeline.nets import checkpoints as _checkpoints
from pipeline.nets.margin import AngularMargin
from pipeline.nets.speechbrain_networks import FrontEnd
from pipeline.nets.training import Course, Standing
from pipeline.nets.verification import Verified
from pipeline.nets.waveforms import Waveforms, pack_waveforms
from pipeline.trainers.embedding import EmbeddingSettings, Trainer, list_speakers
from pipeline.trainers.embedding import crops as _crops
from pipeline.trainers.embedding import learner as _learner
from pipeline.trainers.embedding.crops import Batch
from pipeline.trainers.embedding.learner import Learner
from tests.trainers.voices import voice, voices

TINY = EmbeddingSettings(
    architecture="ecapa", channels=(16, 16, 16), aggregation=24, embedding=8, attention=8, n_mels=24, steps=6, threads=1,
    batch=4, crop_seconds=0.3, speeds=(1.0,),
)  # fmt: skip
XVECTOR = TINY.model_copy(update={"architecture": "xvector", "channels": (16, 16, 16, 16)})
AUDIO = voices([item % 6 for item in range(18)])
MANY = voices([item % 24 for item in range(48)], 0.5)
CONF = Path(__file__).parents[2] / "conf" / "train"


def trained(folder: Path, settings: EmbeddingSettings = TINY, audio: Waveforms = AUDIO, **more: Any) -> Path:
    folder.mkdir()
    assert Trainer.train(settings, audio, folder, **more)
    return folder


def record(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("settings", [TINY, XVECTOR, TINY.model_copy(update={"speeds": (0.9, 1.1)})])
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    tmp_path: Path, settings: EmbeddingSettings
) -> None:
    torch.manual_seed(1)
    one = contents(trained(tmp_path / "one", settings))
    torch.manual_seed(2)
    two = contents(trained(tmp_path / "two", settings))
    other = contents(trained(tmp_path / "other", settings.model_copy(update={"seed": 1})))
    assert set(one) == {"embedding_model.safetensors", "training.json"}
    assert one == two
    assert all(one[name] != other[name] for name in one)


def test_the_caller_keeps_its_random_numbers_and_threads(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    trained(tmp_path / "one", TINY.model_copy(update={"steps": 1, "threads": 2 if threads == 1 else 1}))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_weights_are_those_of_the_real_class_and_the_record_says_how_they_came(tmp_path: Path) -> None:
    audio = pack_waveforms([*(AUDIO.piece(item) for item in range(18)), voice(30, 9, 0.2)], [*AUDIO.speakers, "alone"])
    folder = trained(tmp_path / "one", audio=audio)
    model = ECAPA_TDNN(
        24, lin_neurons=8, channels=[16, 16, 16, 24], kernel_sizes=[5, 3, 3, 1], dilations=[1, 2, 3, 1],
        attention_channels=8, se_channels=8, groups=[1] * 4,
    )  # fmt: skip
    model.load_state_dict(load_file(folder / "embedding_model.safetensors"))
    made = record(folder)
    assert made["settings"]["seed"] == 0
    assert made["settings"]["architecture"] == "ecapa"
    assert made["data_digest"] == audio.digest
    assert (made["speakers"], made["utterances"]) == (7, 19)
    assert (made["single_utterance_speakers"], made["repeated_up_to_a_crop"]) == (1, 1)
    assert (made["held_out"], made["trained"]) == (None, None)
    assert "the last checkpoint" in made["summary"]
    assert len(made["loss"]) == made["steps"] == 6
    assert made["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_x_vectors_are_those_of_the_real_class(tmp_path: Path) -> None:
    folder = trained(tmp_path / "one", XVECTOR)
    model = Xvector(
        in_channels=24, tdnn_channels=[16, 16, 16, 16, 24], tdnn_blocks=5, tdnn_kernel_sizes=[5, 3, 3, 1, 1],
        tdnn_dilations=[1, 2, 3, 1, 1], lin_neurons=8,
    )  # fmt: skip
    model.load_state_dict(load_file(folder / "embedding_model.safetensors"))
    assert record(folder)["settings"]["attention"] is None


@pytest.mark.parametrize("architecture", ["ecapa", "xvector"])
def test_it_learns_to_tell_speakers_apart(tmp_path: Path, architecture: Literal["ecapa", "xvector"]) -> None:
    settings = {"ecapa": TINY, "xvector": XVECTOR}[architecture].model_copy(
        update={"steps": 60, "batch": 12, "learning_rate": 5e-3, "embedding": 16}
    )
    folder = trained(tmp_path / "one", settings, voices([item % 6 for item in range(90)]))
    module: Any = {"ecapa": ecapa, "xvector": xvector}[architecture]
    extractor = module.Extractor(module.Extractor.Settings(source="trained"), folder, "cpu", 1)
    items = range(100, 118)
    vectors = np.stack([feature.vector for feature in extractor.extract([voice(item, item % 6) for item in items])])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores, speakers = vectors @ vectors.T, np.array([item % 6 for item in items])
    np.fill_diagonal(scores, -1)
    # Chance is 1 in 6.
    assert (speakers[scores.argmax(1)] == speakers).mean() > 0.7
    loss = record(folder)["loss"]
    assert np.mean(loss[-5:]) < 0.3 * np.mean(loss[:5])


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.5])
def test_the_loss_is_the_cross_entropy_of_angles(margin: float) -> None:
    torch.manual_seed(0)
    head = AngularMargin(5, 4, margin, 30.0)
    embeddings, labels = torch.randn(7, 5), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    # Opposite to its class: the angle and the margin are more than pi, and the straight line takes over.
    embeddings[0] = -head.directions[0].detach()
    loss, _ = head(embeddings, labels)
    expected = []
    for vector, label in zip(embeddings.double().numpy(), labels.tolist(), strict=True):
        logits = []
        for number, direction in enumerate(head.directions.detach().double().numpy()):
            cosine = float(np.clip(vector @ direction / np.linalg.norm(vector) / np.linalg.norm(direction), -1, 1))
            if number == label:
                angle = math.acos(cosine)
                cosine = math.cos(angle + margin) if angle + margin < math.pi else cosine - margin * math.sin(margin)
            logits.append(30 * cosine)
        expected.append(-logits[label] + np.log(np.sum(np.exp(np.array(logits) - max(logits)))) + max(logits))
    assert abs(loss.item() - np.mean(expected)) < 1e-4


def test_gradients_of_the_loss_are_finite_where_an_embedding_meets_its_class() -> None:
    head = AngularMargin(5, 3, 0.2, 30.0)
    embeddings = head.directions.detach().clone().requires_grad_()
    head(embeddings, torch.arange(3))[0].backward()
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all()


def learner(**settings: Any) -> Learner:
    torch.set_num_threads(1)
    return Learner(Trainer.resolved(TINY.model_copy(update=settings), "ecapa", 6, 18.0), 6, "cpu")


def batch(n: int) -> Batch:
    return Batch([0] * n, np.stack([voice(item, item % 6, 0.3) for item in range(n)]), np.arange(n, dtype=np.int64) % 6)


@pytest.mark.parametrize(("n", "micro_batch", "sizes"), [(10, 4, [4, 3, 3]), (5, 2, [3, 2]), (6, 64, [6])])
def test_parts_of_a_batch_add_up_to_its_mean_gradient(n: int, micro_batch: int, sizes: list[int]) -> None:
    """Against SpeechBrain's forward pass, part by part."""
    made = learner(micro_batch=micro_batch, batch=n)
    given = batch(n)
    reference = learner(micro_batch=micro_batch, batch=n)
    total = 0.0
    reference.model.train()
    for rows in np.split(np.arange(n), np.cumsum(sizes)[:-1]):
        frames = FrontEnd(24)(torch.from_numpy(given.crops[rows]))
        loss, _ = reference.head(reference.model(frames)[:, 0], torch.from_numpy(given.labels[rows]))
        (loss * len(rows) / n).backward()
        total += loss.item() * len(rows) / n
    assert made.gradients(0, given) == pytest.approx(total, rel=1e-4)
    for mine, theirs in zip(made.parameters, reference.parameters, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        np.testing.assert_allclose(mine.grad, theirs.grad, atol=1e-3 * max(0.1, float(theirs.grad.abs().max())))
    for mine, theirs in zip(made.model.buffers(), reference.model.buffers(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)


def limited(monkeypatch: pytest.MonkeyPatch, most: int, fits: int = 0) -> None:
    """Memory for a forward pass over ``most`` crops, and for ``fits`` passes over more."""
    inner, passes = training_network.Network.forward, itertools.count()

    def forward(self: Any, frames: torch.Tensor) -> torch.Tensor:
        made = inner(self, frames)
        if len(frames) > most and next(passes) >= fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return made

    monkeypatch.setattr(training_network.Network, "forward", forward)


@pytest.mark.parametrize("fits", [0, 1])
def test_out_of_memory_halves_what_goes_through_at_once_and_not_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fits: int
) -> None:
    settings = TINY.model_copy(update={"batch": 8, "steps": 3})
    expected = trained(tmp_path / "expected", settings.model_copy(update={"micro_batch": 2}))
    # A first part of four crops fits, and moves the running statistics, before the second does not.
    limited(monkeypatch, 2, fits)
    made = trained(tmp_path / "made", settings.model_copy(update={"micro_batch": 4 if fits else 8}))
    assert contents(made)["embedding_model.safetensors"] == contents(expected)["embedding_model.safetensors"]
    assert record(made)["loss"] == record(expected)["loss"]
    assert record(made)["micro_batch"] == 2
    assert "2 at once from here on, still 8 a step" in caplog.text


def test_two_crops_that_do_not_fit_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 1)
    with pytest.raises(StageFailed, match=r"crops of 0\.3 s do not fit .*CUDA out of memory.*crop_seconds"):
        Trainer.train(TINY, AUDIO, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_is_not_finite_stops_with_the_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, embeddings: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return embeddings.sum() * math.nan, embeddings

    monkeypatch.setattr(AngularMargin, "forward", broken)
    with pytest.raises(StageFailed, match="nan at step 0") as caught:
        Trainer.train(TINY, AUDIO, tmp_path)
    assert sum(name in str(caught.value) for name in AUDIO.ids) == 4
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two speakers"):
        Trainer.train(TINY, voices([0, 0]), tmp_path)
    with pytest.raises(ConfigError, match="multiples of 8"):
        Trainer.train(TINY.model_copy(update={"channels": (12, 16, 16)}), AUDIO, tmp_path)
    with pytest.raises(ConfigError, match="epochs or steps"):
        Trainer.train(TINY.model_copy(update={"steps": None, "epochs": None}), AUDIO, tmp_path)


@pytest.mark.parametrize("settings", [TINY, XVECTOR])
def test_bfloat16_is_for_what_is_between_and_not_for_what_is_kept(tmp_path: Path, settings: EmbeddingSettings) -> None:
    wide = trained(tmp_path / "wide", settings)
    narrow = trained(tmp_path / "narrow", settings.model_copy(update={"precision": "bfloat16"}))
    state = load_file(narrow / "embedding_model.safetensors")
    assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in state.values())
    first, second = record(wide)["loss"], record(narrow)["loss"]
    assert first != second
    assert abs(first[0] - second[0]) < 0.02 * first[0]


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int, float]] = []
    trained(tmp_path / "one", progress=lambda *now: told.append(now))
    assert [now[:2] for now in told] == [(step, 6) for step in range(1, 7)]
    assert all(math.isfinite(now[2]) for now in told)


def test_a_trained_folder_and_a_local_one_are_read_alike(tmp_path: Path) -> None:
    folder = trained(tmp_path / "one")
    found = ecapa.Extractor.weights(ecapa.EcapaSettings(source=str(folder)), tmp_path)
    assert found is not None
    assert found.folder == folder
    state = load_file(folder / "embedding_model.safetensors")
    save_file(
        {key: value for key, value in state.items() if not key.startswith("fc")}, folder / "embedding_model.safetensors"
    )
    with pytest.raises(DataError, match=r"fc\.conv\.weight"):
        ecapa.Extractor(ecapa.EcapaSettings(), folder, "cpu", 1)


class Script:
    """Verification with numbers that are given, and the weights that each was of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, numbers: list[tuple[float, float]]) -> None:
        self.numbers: Iterator[tuple[float, float]] = iter(numbers)
        self.weights: list[dict[str, torch.Tensor]] = []
        monkeypatch.setattr(_crops, "verify", self)

    def __call__(self, excerpts: _crops.Excerpts, embed: Any) -> Verified:
        self.weights.append(embed.__self__.weights())
        eer, cllr_min = next(self.numbers)
        return Verified(eer, cllr_min, len(excerpts.names), 10_000, 10_000, excerpts.same_session)


def same(folder: Path, weights: dict[str, torch.Tensor]) -> bool:
    state = load_file(folder / "embedding_model.safetensors")
    return all(torch.equal(state[name], tensor) for name, tensor in weights.items())


LAST = [(0.5, 1.0)] * 2  # held out and trained on, measured again with what is kept


def test_the_best_checkpoint_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TINY.model_copy(update={"verify_every": 1})
    numbers = [(0.3, 0.9), (0.2, 0.8), (0.2, 0.7), (0.2, 0.7), (0.2, 0.75), (0.4, 0.1)]
    script = Script(monkeypatch, numbers + LAST)
    folder = trained(tmp_path / "best", settings, MANY)
    # The lowest EER, of equal ones the lowest minimum Cllr, of equal ones the earliest.
    kept = [place for place, weights in enumerate(script.weights) if same(folder, weights)]
    assert kept == [2, 6, 7], "the third verification, and what is kept, measured twice"
    assert record(folder)["held_out"]["best_step"] == 3
    script = Script(monkeypatch, numbers + LAST)
    folder = trained(tmp_path / "last", settings.model_copy(update={"checkpoint": "last"}), MANY)
    assert [place for place, weights in enumerate(script.weights) if same(folder, weights)] == [5, 6, 7]
    assert record(folder)["held_out"]["best_step"] == 6


def test_within_noise_the_lower_cllr_decides() -> None:
    """Half a standard error of an EER of 10 % over 225 targets is one point."""
    before = {"eer": 0.10, "cllr_min": 0.30}
    for eer, cllr_min, expected in (
        (0.088, 0.50, True), (0.112, 0.10, False), (0.105, 0.29, True), (0.095, 0.31, False), (0.10, 0.30, False),
    ):  # fmt: skip
        assert Verified(eer, cllr_min, 17, 225, 900, True).is_better_than(before) is expected, (eer, cllr_min)


def test_patience_ends_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Script(monkeypatch, [(0.3, 0.9), (0.2, 0.8), (0.2, 0.8), (0.3, 0.8), *LAST])
    folder = trained(tmp_path / "one", TINY.model_copy(update={"verify_every": 1, "patience": 2}), MANY)
    assert record(folder)["steps"] == 4
    assert record(folder)["held_out"]["best_step"] == 2


def test_held_out_speakers_are_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[str] = set()
    inner = Learner.gradients

    def watched(self: Learner, step: int, batch: Batch) -> float:
        met.update(MANY.speakers[item] for item in batch.utterances)
        return inner(self, step, batch)

    monkeypatch.setattr(Learner, "gradients", watched)
    made = record(trained(tmp_path / "one", TINY.model_copy(update={"steps": 12, "patience": None}), MANY))
    trained_on, held_out = _crops.split(EmbeddingSettings(), MANY.speakers)
    assert met == {MANY.speakers[item] for item in trained_on}
    assert not met & {MANY.speakers[item] for item in held_out}
    assert (made["speakers"], made["speakers_trained_on"]) == (24, 18)
    for found in (made["held_out"], made["trained"]):
        assert (found["speakers"], found["n_target"], found["n_nontarget"]) == (6, 6, 60)
        assert 0 <= found["eer"] <= 0.5
        assert found["same_session"] is False
    assert made["verified"][-1]["step"] == 12


def test_a_stopped_training_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    settings = TINY.model_copy(update={"verify_every": 2})
    expected = contents(trained(tmp_path / "expected", settings, MANY))
    scratch, folder = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    folder.mkdir()
    steps: list[int] = []
    calls = 0
    while not Trainer.train(
        settings, MANY, folder, scratch=scratch, stopping=lambda: True, progress=lambda step, *_: steps.append(step)
    ):
        calls += 1
        assert list(folder.iterdir()) == []
        assert [path.name for path in scratch.iterdir()] == [_checkpoints.FILE]
    assert calls == 6
    assert steps == [1, 2, 3, 4, 5, 6]
    assert contents(folder) == expected


@pytest.mark.parametrize("change", ["seed", "data", "architecture"])
def test_a_checkpoint_of_another_training_is_not_used(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not Trainer.train(TINY, AUDIO, tmp_path, scratch=tmp_path, stopping=lambda: True)
    settings = {"seed": TINY.model_copy(update={"seed": 1}), "architecture": XVECTOR}.get(change, TINY)
    audio = voices([item % 6 for item in range(17)]) if change == "data" else AUDIO
    steps: list[int] = []
    folder = trained(tmp_path / "made", settings, audio, scratch=tmp_path, progress=lambda step, *_: steps.append(step))
    assert steps == [1, 2, 3, 4, 5, 6]
    assert "another training" in caplog.text
    assert contents(folder) == contents(trained(tmp_path / "fresh", settings, audio))


def test_a_checkpoint_that_cannot_be_read_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not Trainer.train(TINY, AUDIO, tmp_path, scratch=tmp_path, stopping=lambda: True)
    path = tmp_path / _checkpoints.FILE
    path.write_bytes(path.read_bytes()[:-1000])
    left = tmp_path / f".{_checkpoints.FILE}.{'0' * 32}"
    left.write_bytes(b"half")
    made = trained(tmp_path / "made", scratch=tmp_path)
    assert "cannot be read" in caplog.text
    assert not left.exists()
    assert contents(made) == contents(trained(tmp_path / "fresh"))


def test_the_recipe_of_vpc_2024_is_what_its_code_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = yaml.safe_load((CONF / "vpc2024.yaml").read_text())
    settings = Trainer.resolved(EmbeddingSettings(**given), "ecapa", 921, 363.6 * 3600)
    assert settings.channels == (512,) * 4
    assert (settings.aggregation, settings.embedding, settings.attention, settings.n_mels) == (1536, 192, 128, 80)
    assert (settings.batch, settings.micro_batch, settings.crop_seconds, settings.epochs) == (256, 256, 3.0, 10)
    assert (settings.optimiser, settings.weight_decay, settings.margin, settings.scale) == ("adam", 2e-6, 0.2, 30)
    # data_manifests/README.md, section 5: 10 epochs of about 1400 updates bring the learning rate to about 0.002.
    assert _learner.get_learning_rate(settings, 0, 1) == pytest.approx(1e-8)
    assert _learner.get_learning_rate(settings, 14_000, 1) == pytest.approx(0.00215, abs=1e-5)
    assert _learner.get_learning_rate(settings, 65_000, 1) == pytest.approx(0.01)
    assert _learner.get_learning_rate(settings, 97_500, 1) == pytest.approx(0.005, rel=1e-4)
    # The same quirks on a small network: three epochs over the chunks of nine tenths of the utterances, whatever the manifest
    # says of who speaks, and the last weights.
    audio = pack_waveforms([MANY.piece(item) for item in range(48)], [f"m{item % 12}" for item in range(48)], MANY.ids)
    small = {
        name: getattr(TINY, name) for name in ("channels", "aggregation", "embedding", "attention", "n_mels", "batch")
    }
    few = {"architecture": "ecapa", "micro_batch": None, "crop_seconds": 0.2, "epochs": 3, "threads": 1}
    quirky = EmbeddingSettings(**{**given, **small, **few})
    made = record(trained(tmp_path / "one", quirky, audio))
    assert made["speakers"] == 24
    assert made["utterances_trained_on"] == 48 - round(0.1 * 48)
    assert made["steps"] == round(3 * 2 * made["utterances_trained_on"] / 4)
    assert made["held_out"]["best_step"] == made["steps"]
    assert made["settings"]["seed"] == 1986
    # As a plan gives it, resolved from the manifest: a step fewer or more would be another recipe.
    planned = Trainer.resolved(quirky, "ecapa", 24, audio.seconds)
    assert record(trained(tmp_path / "planned", planned, audio)) == made


def test_what_is_null_follows_from_the_amount_of_speech() -> None:
    small = Trainer.resolved(EmbeddingSettings(), "ecapa", 168, 2100.0)
    assert (small.channels, small.batch, small.crop_seconds, small.architecture) == ((128,) * 4, 32, 2.0, "ecapa")
    assert small.speeds == (0.9, 1.0, 1.1)
    assert small.steps == round(18 * 2100 / 64)
    assert (small.micro_batch, small.verify_every, small.held_out) == (32, small.steps // 10, 0.1)
    large = Trainer.resolved(EmbeddingSettings(), "xvector", 921, 363.6 * 3600)
    assert (large.channels, large.aggregation, large.embedding) == ((512,) * 4, 1536, 192)
    assert (large.batch, large.micro_batch, large.attention, large.speeds) == (256, 64, None, (1.0,))
    assert large.steps == pytest.approx(18 * 363.6 * 3600 / 768, abs=1)
    few = Trainer.resolved(EmbeddingSettings(), "ecapa", 19, 60.0)
    assert (few.held_out, few.steps) == (0.0, 300)
    chosen = EmbeddingSettings(channels=(64,) * 4, steps=7, batch=8, verify_every=2, architecture="xvector")
    kept = Trainer.resolved(chosen, "ecapa", 921, 363.6 * 3600)
    assert (kept.channels, kept.steps, kept.batch, kept.verify_every) == ((64,) * 4, 7, 8, 2)
    assert kept.architecture == "xvector"
    # What is resolved stays so, and epochs that steps have settled leave the key.
    assert Trainer.resolved(kept, "ecapa", 19, 60.0).model_copy(update={"held_out": 0.1}) == kept
    assert kept == Trainer.resolved(chosen.model_copy(update={"epochs": 99.0}), "ecapa", 921, 363.6 * 3600)


def test_a_second_and_a_third_turn_without_a_better_one_are_counted_from_the_best() -> None:
    course = Course(learner(), lambda step: Batch([], *[np.zeros(0)] * 2), lambda _: [], 4, patience=2)
    assert not course.is_settled(Standing())
    standing = Standing(verified=[{}] * 4, best=1)
    assert course.is_settled(standing)
    for other in ({"patience": 3}, {"patience": None}, {"keep_best": False}):
        assert not dataclasses.replace(course, **other).is_settled(standing)  # type: ignore[arg-type]


def test_going_on_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert not Trainer.train(TINY, AUDIO, tmp_path, scratch=tmp_path, stopping=lambda: True)
    trained(tmp_path / "made", scratch=tmp_path)
    assert "going on from the checkpoint at step 1" in caplog.text


def test_ids_that_merge_speakers_are_no_speakers() -> None:
    """F-01 and F-02 are two people; READER-CHAPTER-NUMBER names the reader."""
    settings = TINY.model_copy(update={"speaker_from": "utterance"})
    waves = [np.ones(1600, np.float32)] * 4
    libri = pack_waveforms(
        waves, ["19", "19", "26", "26"], ["19-198-0000", "19-227-0001", "26-495-0000", "26-496-0001"]
    )
    assert list_speakers(settings, libri) == ["19", "19", "26", "26"]
    other = pack_waveforms(waves, ["F-01", "F-01", "F-02", "M-01"], ["F-01-0", "F-01-1", "F-02-0", "M-01-0"])
    with pytest.raises(DataError, match="3 training speakers are 2 by what their ids begin with"):
        list_speakers(settings, other)
    assert list_speakers(TINY, other) == ["F-01", "F-01", "F-02", "M-01"]
