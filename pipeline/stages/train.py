"""Train an extractor on the training speakers of the data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.engine.task import Artefact, Work
from pipeline.registry import component, digest

RATE = 16000
RECORD = "training.json"


def run(settings: Any, device: str, work: Work) -> None:
    """Write the weights and the training record into the artefact."""
    rows: pd.DataFrame = work.input("audio").sort_values(["speaker", "sha256"], kind="stable")
    paths = [Path(path) for path in rows["path"]]

    def load(number: int) -> np.ndarray:
        wave, rate = audio.load(paths[number])
        return audio.resample(wave, rate, RATE)

    module = component("training", settings.name)
    module.train(
        settings,
        speakers=list(rows["speaker"]),
        load=load,
        folder=work.folder(),
        data_digest=digest(list(rows["sha256"])),
        ids=list(rows["utterance"]),
        device=device,
        progress=lambda done, steps, loss: work.advance(cost(settings) / steps),
    )


def cost(settings: Any) -> float:
    """Seconds of audio that a trainer hears."""
    return float(settings.steps * settings.batch * settings.crop_seconds)


def summary(trained: Artefact) -> str:
    """What the training record says in a line."""
    return str(json.loads(trained.path(RECORD).read_text(encoding="utf-8"))["summary"])
