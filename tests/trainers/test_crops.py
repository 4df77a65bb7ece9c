"""Batches of the embedding trainer: who is in them, where the crops lie, speeds and chunks."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
import torch

from pipeline.errors import DataError
from pipeline.nets.training import make_ahead, rate_of_cosine, rate_of_triangle
from pipeline.nets.waveforms import Waveforms, pack_waveforms, play_at_speed
from pipeline.trainers.embedding import EmbeddingSettings, Trainer
from pipeline.trainers.embedding.crops import Batch, Crops

TINY = Trainer.resolved(
    EmbeddingSettings(batch=4, crop_seconds=0.3, speeds=(1.0,), steps=6, channels=(16, 16, 16), aggregation=24),
    "ecapa",
    6,
    18.0,
)
SPEAKERS = [f"s{item % 6}" for item in range(18)]


def noises(lengths: list[int], speakers: list[str], level: float = 0.1) -> Waveforms:
    random = np.random.default_rng(1)
    return pack_waveforms([level * random.standard_normal(length).clip(-4, 4) for length in lengths], speakers)


AUDIO = noises([16_000] * 18, SPEAKERS)


def crops(audio: Waveforms = AUDIO, **settings: object) -> Crops:
    return Crops(TINY.model_copy(update=settings), audio, audio.speakers, range(len(audio)))


def found(crop: np.ndarray, audio: Waveforms, item: int) -> list[int]:
    """Where a crop lies in an utterance."""
    windows = np.lib.stride_tricks.sliding_window_view(audio.piece(item), len(crop))
    return np.flatnonzero((windows[:, ::480] == crop[::480]).all(axis=1)).tolist()


def test_each_speaker_is_seen_equally_often_and_batches_depend_on_their_step_alone() -> None:
    made = crops()
    counts = Counter(np.concatenate([made.batch(step).labels for step in range(30)]).tolist())
    assert set(counts.values()) == {20}
    batch, again = crops().batch(4), made.batch(4)
    assert batch.utterances == again.utterances
    np.testing.assert_array_equal(batch.crops, again.crops)
    assert [SPEAKERS[item] for item in batch.utterances] == [made.speakers[label] for label in batch.labels]
    assert batch.crops.shape == (4, 4800)
    assert all(found(crop, AUDIO, item) for crop, item in zip(batch.crops, batch.utterances, strict=True))


def test_only_what_is_trained_on_is_met() -> None:
    made = Crops(TINY, AUDIO, SPEAKERS, [0, 6, 1, 7])
    assert made.speakers == ["s0", "s1"]
    assert {item for step in range(20) for item in made.batch(step).utterances} == {0, 6, 1, 7}


def test_short_utterances_are_repeated_and_counted() -> None:
    audio = noises([1600, 16_000, 4799], ["a", "b", "b"])
    made = crops(audio)
    assert made.n_repeated == 2
    rows = [
        (crop, item) for step in range(9) for crop, item in zip(made.batch(step).crops, made.batch(step).utterances)
    ]
    short = [crop for crop, item in rows if item == 0]
    assert short
    assert all(np.array_equal(crop, np.tile(audio.piece(0), 3)) for crop in short)


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1, 1.25])
def test_speed_moves_a_tone(speed: float) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(round(16_000 * speed)) / 16_000).astype(np.float32)
    made = play_at_speed(tone, speed, 16_000)
    expected = np.sin(2 * np.pi * 440 * speed * np.arange(16_000) / 16_000)
    assert made.shape == (16_000,)
    assert np.abs(made - expected)[1000:-1000].max() < 2e-3


def test_each_speed_of_a_speaker_is_a_class_of_its_own() -> None:
    made = crops(speeds=(0.9, 1.0, 1.1))
    assert made.n_classes == 18
    batches = [made.batch(step) for step in range(9)]
    assert sorted(np.concatenate([batch.labels for batch in batches]).tolist()) == sorted([*range(18)] * 2)
    for batch in batches:
        for crop, item, label in zip(batch.crops, batch.utterances, batch.labels.tolist(), strict=True):
            assert SPEAKERS[item] == made.speakers[label // 3]
            assert bool(found(crop, AUDIO, item)) == (label % 3 == 1)


def test_chunks_are_counted_as_vpc_2024_does_and_crops_lie_anywhere() -> None:
    audio = noises([4799, 4800, 16_000, 16_000], ["a", "a", "b", "c"])
    quiet = audio.piece(3).copy()
    quiet[4800:9600] *= 0.0004 / np.abs(quiet[4800:9600]).mean()
    audio = pack_waveforms([*[audio.piece(item) for item in range(3)], quiet], audio.speakers)
    made = crops(audio, items="chunks")
    # 0, 1, 3 and 3 chunks of 4800 samples, of which one is too quiet.
    assert made.chunks.tolist() == [1, 2, 2, 2, 3, 3]
    assert (made.n_vanished, made.n_items, made.n_repeated) == (1, 6, 0)
    batches = [made.batch(step) for step in range(30)]
    counts = Counter(item for batch in batches for item in batch.utterances)
    assert counts == {1: 20, 2: 60, 3: 40}
    starts = {
        place
        for batch in batches
        for crop, item in zip(batch.crops, batch.utterances)
        if item == 2
        for place in found(crop, audio, item)
    }
    assert len(starts) == 60
    assert min(starts) < 1000
    assert max(starts) > 16_000 - 4800 - 1000
    with pytest.raises(DataError, match=r"0\.3 s of speech"):
        crops(noises([4000, 4000], ["a", "b"]), items="chunks")


def test_batches_are_made_ahead_in_order() -> None:
    asked: list[tuple[int, str]] = []

    def make(step: int) -> int:
        asked.append((step, threading.current_thread().name))
        return step * step

    assert list(make_ahead(make, 3, 7)) == [(3, 9), (4, 16), (5, 25), (6, 36)]
    assert [step for step, _ in asked] == [3, 4, 5, 6]
    assert threading.main_thread().name not in {name for _, name in asked}
    assert list(make_ahead(make, 4, 4)) == []
    started, go = threading.Event(), threading.Event()

    def slow(step: int) -> int:
        if step == 1:
            started.set()
            assert go.wait(10)
        return step

    for step, _ in make_ahead(slow, 0, 2):
        if step == 0:
            # Step 1 is being made while step 0 is worked on.
            assert started.wait(10)
            go.set()


def test_a_fault_in_a_batch_comes_out() -> None:
    def make(step: int) -> Batch:
        raise DataError(f"no batch {step}")

    with pytest.raises(DataError, match="no batch 0"):
        list(make_ahead(make, 0, 3))


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [rate_of_cosine(step, 100, 0.1) for step in range(100)]
    assert np.argmax(rates) == 10
    assert rates[10] == 1
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[55] == pytest.approx(0.5)
    assert np.all(np.diff(rates[10:]) < 0)
    assert rate_of_cosine(0, 1, 0.0) == 1


def test_the_triangle_is_the_one_of_torch() -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    cyclic = torch.optim.lr_scheduler.CyclicLR(optimiser, 1e-8, 0.01, step_size_up=7, cycle_momentum=False)
    for step in range(40):
        assert 1e-8 + (0.01 - 1e-8) * rate_of_triangle(step, 7) == pytest.approx(
            optimiser.param_groups[0]["lr"], abs=1e-9
        )
        optimiser.step()
        cyclic.step()
