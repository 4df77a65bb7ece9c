"""The benchmarks of training, at sizes that take seconds: that they run, and that both loops do the same."""

from __future__ import annotations

import time

import pytest

from tests.benchmark import gpu_train, training
from tests.benchmark.training import Size


@pytest.mark.slow
def test_both_loops_take_the_same_steps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[list[float]] = []
    brain, loop = training.brain, training.Ours

    def watched(*arguments: object) -> object:
        made = brain(*arguments)
        losses.append(made[1])
        return made

    monkeypatch.setattr(training, "brain", watched)
    ours: list[training.Ours] = []
    monkeypatch.setattr(training, "Ours", lambda *arguments: ours.append(loop(*arguments)) or ours[-1])
    rows = training.compare(Size(16, 24, 8, 8, 0.5, 2, 1), 1, time.process_time)
    assert [row.name for row in rows] == ["training_16_fp32", "training_16_bf16", "training_16_bf16_both"]
    assert rows[0].limit == "ratio >= 1" and rows[1].limit == rows[2].limit == "ratio >= 1.4"
    # The first learning rates of a warm-up and SpeechBrain's constant one part the loops after the first step.
    assert ours[0].losses[0] == pytest.approx(losses[0][0], rel=1e-5)
    assert ours[1].losses[0] == pytest.approx(losses[1][0], rel=0.02)
    assert [len(one.losses) for one in ours] == [len(theirs) for theirs in losses] == [4, 4]
    told = capsys.readouterr().out
    assert "ours: {" in told and "SpeechBrain: Brain.fit" in told


def test_training_on_a_gpu_is_rehearsed(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "--steps 2 --warm-up 1 --channels 16 --batch 8 --crop 0.5 --speakers 12"
    assert gpu_train.main(["--device", "cpu", *sizes.split()]) == 0
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    rate = float(told["training"].split()[0])
    assert rate > 0 and "aim" not in told["training"]
    assert float(told["extrapolated"].split()[0]) == pytest.approx(3.6e6 / rate / 60, rel=0.01)
    assert 0 <= float(told["waiting"].split()[0]) <= 100
    assert float(told["loader"].split()[0]) > 0


@pytest.mark.parametrize("layers", ["last", pytest.param("all", marks=pytest.mark.slow)])
def test_fine_tuning_on_a_gpu_is_rehearsed(capsys: pytest.CaptureFixture[str], layers: str) -> None:
    sizes = "--steps 1 --warm-up 1 --batch 4 --crop 0.5 --speakers 3 --precision float32"
    assert gpu_train.main(["--device", "cpu", "--finetune", layers, *sizes.split()]) == 0
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    rate = float(told["fine-tuning"].split()[0])
    assert rate > 0 and float(told["vectors"].split()[0]) > 0
    assert float(told["default"].split()[0]) == pytest.approx(1920 / rate, rel=0.01)
    assert f"'layers': '{layers}'" in told["settings"]
