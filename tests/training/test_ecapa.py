"""The ECAPA trainer: its loss against a closed form, its batches, its determinism, and that it learns."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

from pipeline.errors import ConfigError, DataError, StageFailed
from pipeline.extractors import ecapa
from pipeline.models.margin import AngularMargin
from pipeline.training.ecapa import Crops, Settings, at_speed, schedule, train

TINY = Settings(
    channels=(16, 16, 16),
    aggregation=24,
    embedding=8,
    attention=8,
    n_mels=24,
    steps=6,
    threads=1,
    batch=4,
    crop_seconds=0.3,
    speeds=(1.0,),
)


def voice(item: int, speaker: int, seconds: float = 1.0) -> np.ndarray:
    """A harmonic tone whose pitch and brightness are the speaker's, in noise that is the item's."""
    random = np.random.default_rng(item)
    time = np.arange(int(16_000 * seconds)) / 16_000
    pitch = 100 + 25 * speaker + random.normal(0, 1)
    tone = sum(np.sin(2 * np.pi * pitch * k * time + random.uniform(0, 6)) / k ** (speaker / 3) for k in range(1, 12))
    return np.asarray(0.05 * tone + 0.003 * random.standard_normal(len(time)), dtype=np.float32)


SPEAKERS = [f"s{item % 6}" for item in range(18)]


def load(item: int) -> np.ndarray:
    return voice(item, item % 6)


def trained(folder: Path, settings: Settings = TINY) -> Path:
    folder.mkdir()
    return train(settings, SPEAKERS, load, folder, data_digest="abc")


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = trained(tmp_path / "one")
    torch.manual_seed(2)
    two = trained(tmp_path / "two")
    other = trained(tmp_path / "other", TINY.model_copy(update={"seed": 1}))
    for name in ("embedding_model.safetensors", "training.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
        assert (one / name).read_bytes() != (other / name).read_bytes()


def test_the_caller_keeps_its_random_numbers_and_threads(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    trained(tmp_path / "one", TINY.model_copy(update={"threads": 2 if threads == 1 else 1}))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_weights_are_those_of_the_real_class_and_the_record_says_how_they_came(tmp_path: Path) -> None:
    folder = trained(tmp_path / "one")
    model = ECAPA_TDNN(
        24, lin_neurons=8, channels=[16, 16, 16, 24], kernel_sizes=[5, 3, 3, 1], dilations=[1, 2, 3, 1],
        attention_channels=8, se_channels=8, groups=[1] * 4,
    )  # fmt: skip
    model.load_state_dict(load_file(folder / "embedding_model.safetensors"))
    record = json.loads((folder / "training.json").read_text())
    assert record["settings"]["seed"] == 0
    assert record["data_digest"] == "abc"
    assert (record["speakers"], record["utterances"]) == (6, 18)
    assert len(record["loss"]) == 6
    assert record["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_it_learns_to_tell_speakers_apart(tmp_path: Path) -> None:
    settings = TINY.model_copy(update={"steps": 80, "batch": 12, "learning_rate": 5e-3, "embedding": 16})
    folder = train(settings, [f"s{item % 6}" for item in range(90)], load, tmp_path)
    extractor = ecapa.Extractor(ecapa.Settings(source="trained"), folder, "cpu", 1)
    items = range(100, 118)
    vectors = np.stack([feature.vector for feature in extractor.extract([voice(item, item % 6) for item in items])])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores, speakers = vectors @ vectors.T, np.array([item % 6 for item in items])
    np.fill_diagonal(scores, -1)
    # Chance is 1 in 6.
    assert (speakers[scores.argmax(1)] == speakers).mean() > 0.7
    loss = json.loads((folder / "training.json").read_text())["loss"]
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


def test_each_speaker_is_seen_equally_often_and_batches_depend_on_their_step_alone() -> None:
    crops = Crops(TINY, SPEAKERS, load, SPEAKERS)
    counts = Counter(np.concatenate([crops.labels(step) for step in range(30)]).tolist())
    assert set(counts.values()) == {20}
    items, waves, labels = Crops(TINY, SPEAKERS, load, SPEAKERS).batch(4)
    again = crops.batch(4)
    assert items == again[0]
    assert np.array_equal(waves, again[1])
    assert [SPEAKERS[item] for item in items] == [crops.speakers[label] for label in labels]
    assert waves.shape == (4, 4800)
    for wave, item in zip(waves, items, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(load(item), 4800)
        assert (windows[:, ::480] == wave[::480]).all(axis=1).any()


def test_short_utterances_are_repeated_and_counted(tmp_path: Path) -> None:
    tmp_path.joinpath("m").mkdir()
    folder = train(TINY, ["a", "b", "b"], lambda item: voice(item, item, 1.0 if item else 0.1), tmp_path / "m")
    assert json.loads((folder / "training.json").read_text())["repeated_up_to_a_crop"] == 1
    crops = Crops(TINY, ["a"], lambda item: voice(item, item, 0.1), ["a"])
    assert np.array_equal(crops.waveform(0), np.concatenate([voice(0, 0, 0.1)] * 3))


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [schedule(step, 100, 0.1) for step in range(100)]
    assert np.argmax(rates) == 10
    assert rates[10] == 1
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[55] == pytest.approx(0.5)
    assert np.all(np.diff(rates[10:]) < 0)
    assert schedule(0, 1, 0.0) == 1


def test_a_loss_that_is_not_finite_stops_with_the_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, embeddings: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return embeddings.sum() * math.nan, embeddings

    monkeypatch.setattr(AngularMargin, "forward", broken)
    ids = [f"utt-{item}" for item in range(18)]
    with pytest.raises(StageFailed, match="nan at step 0") as caught:
        train(TINY, SPEAKERS, load, tmp_path, ids=ids)
    batch = Crops(TINY, SPEAKERS, load, ids).batch(0)[0]
    assert all(ids[item] in str(caught.value) for item in batch)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wave", [np.zeros(0, np.float32), np.array([np.nan] * 9000, np.float32)])
def test_unusable_utterances_are_named(wave: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="utt-"):
        train(TINY, ["a", "b"], lambda item: wave, tmp_path, ids=["utt-0", "utt-1"])


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two speakers"):
        train(TINY, ["a", "a"], load, tmp_path)
    with pytest.raises(ConfigError, match="multiples of 8"):
        train(TINY.model_copy(update={"channels": (12, 16, 16)}), SPEAKERS, load, tmp_path)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int, float]] = []
    train(TINY, SPEAKERS, load, tmp_path, progress=lambda *now: told.append(now))
    assert [now[:2] for now in told] == [(step, 6) for step in range(1, 7)]
    assert all(math.isfinite(now[2]) for now in told)


def test_a_kept_waveform_is_decoded_once() -> None:
    asked: list[int] = []
    crops = Crops(TINY, SPEAKERS, lambda item: asked.append(item) or load(item), SPEAKERS)
    for step in range(40):
        crops.batch(step)
    assert max(Counter(asked).values()) == 1


def test_a_trained_folder_and_a_local_one_are_read_alike(tmp_path: Path) -> None:
    folder = trained(tmp_path / "one")
    found = ecapa.weights(ecapa.Settings(source=str(folder)), tmp_path)
    assert found is not None
    assert found.folder == folder
    state = load_file(folder / "embedding_model.safetensors")
    save_file(
        {key: value for key, value in state.items() if not key.startswith("fc")}, folder / "embedding_model.safetensors"
    )
    with pytest.raises(DataError, match=r"fc\.conv\.weight"):
        ecapa.Extractor(ecapa.Settings(), folder, "cpu", 1)


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1, 1.25])
def test_speed_moves_a_tone(speed: float) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(round(16_000 * speed)) / 16_000).astype(np.float32)
    made = at_speed(tone, speed, 16_000)
    expected = np.sin(2 * np.pi * 440 * speed * np.arange(16_000) / 16_000)
    assert made.shape == (16_000,)
    assert np.abs(made - expected)[1000:-1000].max() < 2e-3


def test_each_speed_of_a_speaker_is_a_class_of_its_own() -> None:
    settings = TINY.model_copy(update={"speeds": (0.9, 1.0, 1.1)})
    crops = Crops(settings, SPEAKERS, load, SPEAKERS)
    assert crops.n_classes == 18
    assert sorted(np.concatenate([crops.labels(step) for step in range(9)]).tolist()) == sorted([*range(18)] * 2)
    for step in range(9):
        items, waves, labels = crops.batch(step)
        assert waves.shape == (4, 4800)
        assert [SPEAKERS[item] for item in items] == [crops.speakers[label // 3] for label in labels]


def test_training_at_several_speeds_is_deterministic(tmp_path: Path) -> None:
    settings = TINY.model_copy(update={"speeds": (0.9, 1.0, 1.1)})
    one, two = trained(tmp_path / "one", settings), trained(tmp_path / "two", settings)
    assert (one / "embedding_model.safetensors").read_bytes() == (two / "embedding_model.safetensors").read_bytes()
