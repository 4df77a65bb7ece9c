"""Train a speaker extractor on the training speakers of the data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.engine.task import Work
from pipeline.errors import DataError
from pipeline.registry import component, digest

RATE = 16000


def run(settings: Any, device: str, work: Work) -> None:
    """Write the weights and the training record into the artefact."""
    rows: pd.DataFrame = work.input("audio").sort_values(["speaker", "sha256"], kind="stable")
    if rows["speaker"].nunique() < 2:
        raise DataError(
            f"there are {rows['speaker'].nunique()} training speakers, and a speaker extractor needs two or more",
            cause="the data set has no training set",
            remedy="choose another extractor source, e.g. 'extractor=[ge2e]', or a data set with a training set",
        )
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
        device=device,
    )
