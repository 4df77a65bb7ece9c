"""A training that is killed at any instant goes on to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

# A process that has everything imported forks one training after the other. It kills each once so many more checkpoints lie in
# its scratch, and a moment later than that; none at all for a count below 0.
FORKS = """
import os, signal, sys, time, traceback
import torch
from pathlib import Path
from tests.trainers.voices import voices
from pipeline.trainers.embedding import EmbeddingSettings, Trainer
import pipeline.trainers.embedding.learner

torch.set_num_threads(1)
audio = voices([item % 20 for item in range(40)], 0.4)

def standing(scratch):
    return max((path.stat().st_mtime_ns for path in Path(scratch).glob("*") if path.suffix == ".safetensors"), default=0)

print("ready", flush=True)
for line in sys.stdin:
    architecture, folder, scratch, count, delay = line.split()
    settings = EmbeddingSettings(
        architecture=architecture, channels=(16, 16, 16), aggregation=24, embedding=8, attention=8, n_mels=24, steps=30,
        batch=4, micro_batch=2, crop_seconds=0.3, speeds=(0.9, 1.0), verify_every=5, patience=9, threads=1,
    )
    child = os.fork()
    if not child:
        try:
            Trainer.train(settings, audio, Path(folder), scratch=Path(scratch))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    seen, left, status = standing(scratch), int(count), None
    while status is None:
        if left > 0 and standing(scratch) != seen:
            seen, left = standing(scratch), left - 1
        if left == 0:
            time.sleep(float(delay))
            os.kill(child, signal.SIGKILL)
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
        time.sleep(0.0005)
    print(status, flush=True)
"""

Attempt = Callable[[str, Path, Path, int, float], int]


@pytest.fixture(scope="module")
def attempt() -> Iterator[Attempt]:
    """Train until so many checkpoints and seconds later; the wait status."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        assert stdout.readline() == "ready\n"

        def one(architecture: str, folder: Path, scratch: Path, count: int, delay: float = 0.0) -> int:
            for path in (folder, scratch):
                path.mkdir(exist_ok=True)
            stdin.write(f"{architecture} {folder} {scratch} {count} {delay}\n")
            stdin.flush()
            return int(stdout.readline())

        yield one
        stdin.close()


@pytest.mark.parametrize("architecture", ["ecapa", pytest.param("xvector", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_kills_do_not_change_a_byte(attempt: Attempt, tmp_path: Path, architecture: str) -> None:
    assert attempt(architecture, tmp_path / "whole", tmp_path / "unused", -1) == 0
    random = np.random.default_rng(5)
    # Before the first checkpoint, then a random moment after each next one, wherever the training is then.
    kills = [attempt(architecture, tmp_path / "made", tmp_path / "scratch", 0, random.uniform(0, 0.2))]
    while status := attempt(architecture, tmp_path / "made", tmp_path / "scratch", 1, random.uniform(0, 0.05)):
        kills.append(status)
        assert len(kills) < 12
    assert len(kills) >= 2
    assert set(kills) == {signal.SIGKILL}
    for name in ("embedding_model.safetensors", "training.json"):
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_kill_is_a_kill(attempt: Attempt, tmp_path: Path) -> None:
    assert attempt("ecapa", tmp_path / "made", tmp_path / "scratch", 0) == signal.SIGKILL
    assert list((tmp_path / "made").iterdir()) == []
