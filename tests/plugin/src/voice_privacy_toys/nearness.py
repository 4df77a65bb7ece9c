"""A back end: minus the Euclidean distance to the mean of the enrolment."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pipeline.contracts import Backend, ComponentSettings, numeric


class Settings(ComponentSettings):
    """There is nothing to set."""

    name: Literal["nearness"] = numeric("nearness")


class Nearness(Backend):
    """Scores are at most 0."""

    Settings = Settings

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> np.ndarray:
        return np.stack([np.asarray(vectors, np.float64)[model == number].mean(axis=0) for number in range(n_models)])

    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        return -np.linalg.norm(models[:, None, :] - np.asarray(vectors, np.float64)[None, :, :], axis=2)
