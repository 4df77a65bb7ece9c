"""A training that is killed at any instant goes on to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

# A process that has everything imported forks one training after the other, and kills each after so many seconds.
FORKS = """
import os, signal, sys, time, traceback
import safetensors.torch, soxr, torch, torch._dynamo
from pathlib import Path
from tests.training.voices import voices
from pipeline.training.embedding import Settings, train
import pipeline.training._learner

torch.set_num_threads(1)
audio = voices([item % 20 for item in range(40)], 0.4)
print("ready", flush=True)
for line in sys.stdin:
    architecture, folder, scratch, seconds = line.split()
    settings = Settings(
        architecture=architecture, channels=(16, 16, 16), aggregation=24, embedding=8, attention=8, n_mels=24, steps=20,
        batch=4, micro_batch=2, crop_seconds=0.3, speeds=(0.9, 1.0), noise_db=(0, 10), verify_every=2, patience=9, threads=1,
    )
    child = os.fork()
    if not child:
        try:
            train(settings, audio, Path(folder), scratch=Path(scratch))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    end, status = time.monotonic() + float(seconds), None
    while status is None:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
        time.sleep(0.001)
    print(status, flush=True)
"""

Attempt = Callable[[str, Path, Path, float], int]


@pytest.fixture(scope="module")
def attempt() -> Iterator[Attempt]:
    """Train for at most so many seconds; the wait status."""
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

        def one(architecture: str, folder: Path, scratch: Path, seconds: float) -> int:
            for path in (folder, scratch):
                path.mkdir(exist_ok=True)
            stdin.write(f"{architecture} {folder} {scratch} {seconds}\n")
            stdin.flush()
            return int(stdout.readline())

        yield one
        stdin.close()


@pytest.mark.parametrize("architecture", ["ecapa", "xvector"])
def test_kills_do_not_change_a_byte(attempt: Attempt, tmp_path: Path, architecture: str) -> None:
    begun = time.monotonic()
    assert attempt(architecture, tmp_path / "whole", tmp_path / "unused", 300.0) == 0
    whole = time.monotonic() - begun
    random = np.random.default_rng(5)
    kills = 0
    # Early kills, some of them before the first checkpoint, then later ones; no turn has the time that the whole takes.
    while attempt(
        architecture,
        tmp_path / "made",
        tmp_path / "scratch",
        random.uniform(*((0.1, 0.4) if kills < 3 else (0.4, 0.9))) * whole,
    ):
        kills += 1
        assert kills < 50
    assert kills >= 1
    for name in ("embedding_model.safetensors", "training.json"):
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_kill_is_a_kill(attempt: Attempt, tmp_path: Path) -> None:
    assert attempt("ecapa", tmp_path / "made", tmp_path / "scratch", 0.0) == signal.SIGKILL
    assert list((tmp_path / "made").iterdir()) == []
