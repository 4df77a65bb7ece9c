"""pYIN in torch against the numba form: the same voicing and the same states."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from scipy.signal import resample_poly

from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.extractors.f0 import pyin_torch
from pipeline.extractors.f0.pyin_torch import Batched
from pipeline.nets import pyin
from pipeline.nets.pyin import Pitch, Tracker

OURS: dict[str, Any] = {"beta_parameters": (2.0, 10.0), "boltzmann_parameter": 8.0, "no_trough_prob": 0.0}


def spoken(count: int, seed: int = 5) -> list[np.ndarray]:
    """Utterances of 0.3 to 3 s, not in the order of their lengths."""
    return [make_utterance(make_speaker(seed, n), seed, n, 0.3 + (7 * n) % 10 * 0.3, 8000).wave for n in range(count)]


def recorded(speech: Path) -> list[np.ndarray]:
    paths = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[::12]
    read = (soundfile.read(path, frames=64000) for path in paths)
    return [resample_poly(wave, 8000, rate) for wave, rate in read]


def batched(tracker: Tracker, **options: Any) -> Batched:
    return Batched(tracker, "cpu", few=1, **options)


def assert_same(found: Sequence[Pitch], expected: Sequence[Pitch]) -> None:
    """Equal; but through silence many paths are equally probable but for the last bit of a sum, which decides."""
    assert len(found) == len(expected)
    silent, other_paths = 0, 0
    for one, other in zip(found, expected, strict=True):
        voiced = other.voiced
        np.testing.assert_array_equal(one.voiced, voiced)
        np.testing.assert_array_equal(one.state[voiced], other.state[voiced])
        np.testing.assert_array_equal(one.f0[voiced], other.f0[voiced])
        np.testing.assert_allclose(one.probability, other.probability, atol=1e-12)
        silent += int((~voiced).sum())
        other_paths += int((one.state != other.state)[~voiced].sum())
    assert other_paths <= 0.02 * silent


SETTINGS: list[dict[str, Any]] = [
    {"frame": 256},
    {"frame": 248, "mode": "srd", **OURS},
    {"frame": 250, "hop": 77, "fmin": 70.0, "fmax": 400.0, "resolution": 0.2, "switch_prob": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_equals_numba_on_synthetic_speech(settings: dict[str, Any]):
    waves, tracker = spoken(12), Tracker(8000, **settings)
    assert_same(batched(tracker).track(waves), [tracker.track(wave) for wave in waves])


@pytest.mark.parametrize("settings", SETTINGS[:2])
def test_equals_numba_on_real_speech(settings: dict[str, Any], speech: Path):
    waves, tracker = recorded(speech), Tracker(8000, **settings)
    assert_same(batched(tracker).track(waves), [tracker.track(wave) for wave in waves])


def test_equals_numba_at_another_rate():
    waves, tracker = [resample_poly(wave, 2, 1) for wave in spoken(3)], Tracker(16000, frame=1024, hop=160)
    assert_same(batched(tracker).track(waves), [tracker.track(wave) for wave in waves])


def test_equals_numba_on_what_is_no_speech():
    random = np.random.default_rng(0)
    gap = np.zeros(3000)
    waves = [
        np.zeros(0),
        np.ones(1, np.float32),
        np.zeros(8000, np.float32),
        np.full(4000, 0.1),
        random.normal(size=4000),
        np.concatenate([gap, random.normal(size=999), gap]),
        np.concatenate([gap, np.ones(1), gap]),
        0.5 * np.sin(2 * np.pi * 123.4 * np.arange(8000) / 8000),
        *(random.normal(size=size) for size in (79, 80, 81, 127, 128, 129, 255, 257)),
    ]
    tracker = Tracker(8000, frame=256)
    assert_same(batched(tracker).track(waves), [tracker.track(wave) for wave in waves])


def test_cuts_do_not_show(monkeypatch: pytest.MonkeyPatch):
    """Batches of a few files, chunks of a few frames and blocks of a few steps."""
    waves, tracker = spoken(10), Tracker(8000, frame=248, mode="srd", **OURS)
    expected = [tracker.track(wave) for wave in waves]
    monkeypatch.setattr(pyin_torch, "CHUNK", 37)
    monkeypatch.setattr(pyin_torch, "STEPS", 5)
    monkeypatch.setattr(pyin_torch, "BLOCK", 24)
    assert_same(batched(tracker, frames=700).track(waves), expected)
    assert_same(pyin_torch.track_many(tracker, waves[::-1], "cpu", frames=700), expected[::-1])


def test_difference_equals_the_direct_sums():
    frames = np.random.default_rng(1).normal(size=(20, 250))
    frames[3, 100:] = 0.0
    tracker = Tracker(8000, frame=250)
    found = batched(tracker)._difference(torch.from_numpy(frames)).numpy()
    expected = [pyin._difference(one, 1, 250, 250, tracker.shortest, tracker.longest)[0] for one in frames]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    longest = tracker.longest
    plain = [
        [
            2 * (row @ row - row[lag:] @ row[:-lag]) - (row[:lag] @ row[:lag] if lag > 1 else 0)
            for lag in range(1, longest + 1)
        ]
        for row in frames
    ]
    mean = np.cumsum(plain, axis=1) / np.arange(1, longest + 1)
    np.testing.assert_allclose(found, (np.array(plain) / mean)[:, tracker.shortest - 1 :], rtol=1e-11)


def test_a_batch_keeps_to_its_frames(monkeypatch: pytest.MonkeyPatch):
    rows: list[int] = []
    plain = Batched._forward

    def seen(self: Batched, trellis: torch.Tensor, *rest: Any) -> None:
        rows.append(len(trellis))
        plain(self, trellis, *rest)

    monkeypatch.setattr(Batched, "_forward", seen)
    waves = spoken(20)
    batched(Tracker(8000, frame=256), frames=1000).track(waves)
    assert len(rows) > 3 and max(rows) <= 1000
    assert sum(rows) >= sum(1 + len(wave) // 80 for wave in waves)


def test_few_files_go_through_numba(monkeypatch: pytest.MonkeyPatch):
    """So does one file that is longer than a batch, and whatever little is left over."""
    tracker = Tracker(8000, frame=256)
    long = np.concatenate(spoken(8))
    waves = [*spoken(10), long]
    expected = [tracker.track(wave) for wave in waves]
    sizes: list[int] = []
    plain = Batched._track

    def seen(self: Batched, waves: list[np.ndarray]) -> list[Pitch]:
        sizes.append(len(waves))
        return plain(self, waves)

    monkeypatch.setattr(Batched, "_track", seen)
    assert_same(Batched(tracker, "cpu", frames=1000, few=4).track(waves), expected)
    assert sizes and min(sizes) >= 4 and sum(sizes) < len(waves)
    sizes.clear()
    assert_same(Batched(tracker, "cpu").track(waves[:7]), expected[:7])
    assert not sizes
    assert Batched(tracker, "cpu").track([]) == []


def test_out_of_memory_halves_the_batch(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    plain = Batched._track

    def full(self: Batched, waves: list[np.ndarray]) -> list[Pitch]:
        if len(waves) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, waves)

    monkeypatch.setattr(Batched, "_track", full)
    waves, tracker = spoken(16), Tracker(8000, frame=256)
    one = batched(tracker)
    with caplog.at_level(logging.WARNING):
        assert_same(one.track(waves), [tracker.track(wave) for wave in waves])
    assert one.frames < pyin_torch.FRAMES and "out of memory" in caplog.text
    logged = len(caplog.records)
    one.track(waves[:5])
    assert len(caplog.records) == logged
    # where nothing fits, the numba form is left
    monkeypatch.setattr(Batched, "_track", lambda self, waves: (_ for _ in ()).throw(torch.OutOfMemoryError("full")))
    assert_same(Batched(tracker, "cpu").track(waves), [tracker.track(wave) for wave in waves])


def test_graphs_need_a_gpu():
    assert not batched(Tracker(8000, frame=256), graphs=True).graphs


def test_replayed_steps_are_the_same(monkeypatch: pytest.MonkeyPatch):
    """The copies around a recorded graph, whose replay is simulated by taking the steps again."""
    waves, tracker = spoken(40), Tracker(8000, frame=256)
    one = batched(tracker)
    replays = []

    class Graph:
        def replay(self) -> None:
            ((_, values, first),) = [entry for entry in one._recorded.values() if entry[0] is self]
            one._steps(values, first)
            replays.append(values.shape[1])

    nothing = {"device": lambda device: nullcontext(), "graph": lambda graph: nullcontext()}
    fake = SimpleNamespace(CUDAGraph=Graph, synchronize=lambda device: None, **nothing)
    monkeypatch.setattr(pyin_torch.torch, "cuda", fake)
    one.graphs = True
    assert_same(one.track(waves), [tracker.track(wave) for wave in waves])
    assert len(replays) > 5 and set(replays) == {32, 64}


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [False, True])
def test_equals_numba_on_a_gpu(graphs: bool, speech: Path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    waves = [*spoken(40), *recorded(speech), np.zeros(0), np.zeros(8000), np.random.default_rng(0).normal(size=8000)]
    tracker = Tracker(8000, frame=248, mode="srd", **OURS)
    found = Batched(tracker, "cuda", graphs=graphs).track(waves)
    expected = [tracker.track(wave) for wave in waves]
    voiced = np.concatenate([one.voiced == other.voiced for one, other in zip(found, expected, strict=True)])
    states = np.concatenate(
        [(one.state == other.state)[other.voiced] for one, other in zip(found, expected, strict=True)]
    )
    assert voiced.mean() >= 0.999 and states.mean() >= 0.999
