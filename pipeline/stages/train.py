"""Train an extractor on a packed training set."""

from __future__ import annotations

import json
from typing import Any

from pipeline.engine.task import Artefact, Work
from pipeline.nets import waveforms as packed
from pipeline.registry import component

RECORD = "training.json"


def run(settings: Any, device: str, work: Work) -> None:
    """Write the weights and the training record into the artefact; killed or stopped, it goes on from its last checkpoint."""
    audio = packed.read(work.input("audio").folder)
    total = cost(settings)
    heard = 0

    def progress(done: int, steps: int, loss: float) -> None:
        nonlocal heard
        work.advance(total * (done - heard) / steps)
        heard = done

    component("trainers", settings.name).train(
        settings, audio, work.folder(), device=device, scratch=work.scratch(), stopping=work.stopping, progress=progress
    )  # fmt: skip


def cost(settings: Any) -> float:
    """Seconds of audio that a trainer hears at most."""
    return float(settings.steps * settings.batch * settings.crop_seconds)


def record(trained: Artefact) -> dict[str, Any]:
    """The training record."""
    read: dict[str, Any] = json.loads(trained.path(RECORD).read_text(encoding="utf-8"))
    return read


def summary(trained: Artefact) -> str:
    """What the training record says in a line."""
    return str(record(trained)["summary"])
