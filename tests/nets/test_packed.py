"""Packed batches: convolutions against torch's padding file by file, the front end against SpeechBrain's, the budget."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from pipeline.errors import StageFailed
from pipeline.nets import batches
from pipeline.nets.packed import Convolution, Layout
from pipeline.nets.speechbrain_networks import FrontEnd, PackedFrontEnd

FRAMES = [9, 5, 23, 5, 61]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 4), (5, 1), (5, 2), (7, 1)])
@pytest.mark.parametrize("normalised", [True, False])
def test_a_packed_convolution_is_the_padded_one_of_each_file(kernel: int, dilation: int, normalised: bool) -> None:
    conv = torch.nn.Conv1d(6, 8, kernel, dilation=dilation, padding="same", padding_mode="reflect").double()
    norm = torch.nn.BatchNorm1d(8).double().eval()
    norm.weight.data = torch.tensor([1.0, -1, 0, 0.5, -2, 3, 1e-9, -0.1]).double()
    norm.bias.data.normal_()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    layout, x = Layout(FRAMES, "cpu"), torch.randn(sum(FRAMES), 6).double()
    packed = Convolution(conv, norm if normalised else None, torch.float64)
    with torch.no_grad():
        parts = [conv(part.t()[None]) for part in torch.split(x, FRAMES)]
        expected = torch.cat([(norm(part.relu()) if normalised else part)[0].t() for part in parts])
        assert torch.allclose(packed(x, packed.taps(layout)), expected, atol=1e-12)


def test_statistics_are_those_of_each_file_and_in_one_launch_too() -> None:
    layout, x = Layout(FRAMES, "cpu"), torch.randn(sum(FRAMES), 7)
    parts = [part.numpy().astype(np.float64) for part in torch.split(x, FRAMES)]
    total, top = np.stack([part.sum(0) for part in parts]), np.stack([part.max(0) for part in parts])
    for sums, largest in ((layout.sums(x), layout.largest(x)), (layout._reduced(x, "sum"), layout._reduced(x, "max"))):
        assert np.abs(sums.numpy() - total).max() < 1e-4
        assert np.abs(largest.numpy() - top).max() < 1e-6
    assert np.abs(layout.means(x).numpy() - total / np.array(FRAMES)[:, None]).max() < 1e-5
    assert torch.equal(layout.spread(layout.first), torch.tensor(np.repeat(np.cumsum([0, *FRAMES[:-1]]), FRAMES)))


@pytest.mark.parametrize("n_mels", [24, 80])
def test_the_packed_front_end_is_speechbrains_on_each_file(n_mels: int) -> None:
    random = np.random.default_rng(0)
    # Faint files beside loud ones, and a tone whose bands lie more than 80 dB apart, so that the floor of each file counts.
    gains, lengths = (1e-4, 1.0, 0.01, 0.3, 1.0), (640, 16_000, 799, 800, 30_001)
    waves = [(gain * random.standard_normal(n)).astype(np.float32) for gain, n in zip(gains, lengths)]
    waves.append(np.sin(np.arange(20_000) * 0.3).astype(np.float32))
    frames, layout = PackedFrontEnd(n_mels)(waves)
    theirs = FrontEnd(n_mels)
    assert layout.frames == [1 + len(wave) // 160 for wave in waves]
    for wave, part in zip(waves, torch.split(frames, layout.frames), strict=True):
        assert (part - theirs(torch.from_numpy(wave)[None])[0]).abs().max() < 2e-3


def test_batches_keep_to_their_budget() -> None:
    sizes = np.random.default_rng(1).integers(1, 120, 300).tolist()
    for budget in (1, 50, 119, 1000, 10**6):
        formed = batches.form_batches(sizes, budget)
        assert sorted(item for batch in formed for item in batch) == list(range(300))
        assert all(sum(sizes[item] for item in batch) <= budget or len(batch) == 1 for batch in formed)
        ordered = [sizes[item] for batch in formed for item in batch]
        assert ordered == sorted(sizes, reverse=True)
    assert len(batches.form_batches(sizes, 1000)) < sum(sizes) / 1000 * 1.2


@pytest.mark.parametrize(("n", "pieces"), [(1, 1), (99, 1), (100, 1), (101, 2), (200, 2), (201, 3), (1234, 13)])
def test_long_audio_is_cut_into_the_fewest_uniform_pieces(n: int, pieces: int) -> None:
    wave = np.arange(n, dtype=np.float32)
    cut = batches.cut_evenly(wave, 100)
    assert len(cut) == pieces
    assert np.array_equal(np.concatenate(cut), wave)
    assert max(map(len, cut)) <= 100
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


class Card:
    """A device with room for a number of samples, that gives the mean of each waveform."""

    def __init__(self, room: int) -> None:
        self.room, self.failed = room, 0

    def __call__(self, waves: Sequence[np.ndarray]) -> torch.Tensor:
        if sum(map(len, waves)) > self.room:
            self.failed += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return torch.tensor([[float(wave.mean())] for wave in waves])


@pytest.mark.parametrize("threads", [1, 3])
def test_where_memory_runs_out_the_budget_is_halved(threads: int, caplog: pytest.LogCaptureFixture) -> None:
    waves = [np.full(n, n, dtype=np.float32) for n in np.random.default_rng(2).integers(1, 9_000, 200)]
    card = Card(60_000)
    runner = batches.Batches(card, 100_000, "cpu", threads)
    with caplog.at_level(logging.WARNING):
        found = runner.run(waves)
    assert np.array_equal(found[:, 0], [len(wave) for wave in waves])
    assert 25_000 <= runner.budget <= 50_000
    assert len(caplog.records) == 1
    assert "out of memory" in caplog.text
    assert card.failed <= threads
    runner.run(waves)
    assert card.failed <= threads


def test_a_single_file_without_room_is_said_so() -> None:
    runner = batches.Batches(Card(100), 1_000, "cpu", 1)
    with pytest.raises(StageFailed, match="longest_seconds"):
        runner.run([np.ones(50, np.float32), np.ones(101, np.float32)])
