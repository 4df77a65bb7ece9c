"""Synthetic speakers rendered to wav files: the embedded data set."""

from __future__ import annotations

from pipeline.datasets import synthetic
from pipeline.datasets.settings import DatasetSettings
from pipeline.engine.task import Work

VERSION = "synthesis 1"
READS = ("seed", "speakers", "train_speakers", "utterances", "seconds")


def render_speakers(settings: DatasetSettings, work: Work) -> None:
    """Write the wav files of the training and evaluation speakers."""
    synthetic.render_speech(settings, work.folder())
