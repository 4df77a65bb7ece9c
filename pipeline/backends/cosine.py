"""Cosine of enrolment models and trial vectors."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import ComponentSettings, numeric

VERSION = 1


class CosineSettings(ComponentSettings):
    """Settings of the cosine back end.

    ``normalise_utterances``: enrolment vectors are brought to unit length before they are averaged, so that each
    utterance weighs the same; ``False`` is the plain mean of raw embeddings (VoicePrivacy Challenge 2024).
    """

    name: Literal["cosine"] = numeric("cosine")
    normalise_utterances: bool = numeric(True)


class Backend(contracts.Backend):
    """Scores are cosines in [-1, 1]; they are not log-likelihood ratios."""

    Settings = CosineSettings
    libraries = ("numpy",)
    settings: CosineSettings

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> np.ndarray:
        """Enrolment models.

        Args:
            vectors: [n, d] enrolment vectors.
            model: [n] index of the model that each vector belongs to.
            n_models: number of models.

        Returns:
            float64 [n_models, d], the mean vector of each model.
        """
        rows = np.asarray(vectors, dtype=np.float64)
        if self.settings.normalise_utterances:
            rows = unit(rows)
        models = np.zeros((n_models, rows.shape[1]))
        np.add.at(models, model, rows)
        return models / np.bincount(model, minlength=n_models)[:, None]

    def score(self, models: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Scores of all pairs, float64 [n_models, n_vectors]; higher means more similar."""
        return np.asarray(unit(np.asarray(models, dtype=np.float64)) @ unit(np.asarray(vectors, dtype=np.float64)).T)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows brought to unit length."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))
