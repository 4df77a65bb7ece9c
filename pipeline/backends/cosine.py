"""Cosine of enrolment models and trial vectors; centred and with AS-norm where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.backends import _adaptation
from pipeline.backends._linear import Linear, LinearBackend, LinearSettings, cohort
from pipeline.contracts import Choice, numeric

VERSION = "cosine 1"


class CosineSettings(LinearSettings):
    """Settings of the cosine back end: those of :class:`LinearSettings`, and whether the training vectors' mean is subtracted.

    Attributes:
        centre: subtract the mean of the training vectors. Without it and without ``as_norm`` nothing is learnt.
    """

    name: Literal["cosine"] = numeric("cosine")
    centre: bool = numeric(False)


class Backend(LinearBackend):
    """Scores are cosines in [-1, 1], or normalised ones; they are not log-likelihood ratios."""

    Settings = CosineSettings
    settings: CosineSettings

    @classmethod
    def is_fitted(cls, settings: CosineSettings) -> bool:
        return settings.centre or settings.as_norm is not None

    @classmethod
    def check_speakers(cls, settings: CosineSettings, count: int) -> None:
        what = "the mean that the back end cosine subtracts" if settings.centre else "the cohort of the back end cosine"
        _adaptation.check_training(count, what, settings.as_norm)

    @classmethod
    def fit(
        cls,
        settings: CosineSettings,
        vectors: np.ndarray,
        speakers: Sequence[str],
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        """Learn the mean of vectors [n, d] and the cohort of speakers [n], and write ``linear.safetensors`` into the folder.

        Nothing is chosen here: ``choice`` says from whom to learn.

        Returns:
            The record: ``summary``, ``settings``, ``speakers``, ``vectors``, ``cohort`` and ``within_session``.

        Raises:
            DataError: too few training speakers.
        """
        rows, labels = np.asarray(vectors, dtype=np.float64), np.asarray(speakers, dtype=str)
        if choice is not None:
            rows, labels = rows[choice.learnt], labels[choice.learnt]
        cls.check_speakers(settings, len(set(labels.tolist())))
        names, speaker = np.unique(labels, return_inverse=True)
        linear = Linear(centre=rows.mean(axis=0) if settings.centre else None)
        if settings.as_norm is not None:
            others = cohort(linear, rows, speaker, normalise=settings.normalise_utterances)
            linear = Linear(linear.centre, None, others)
        linear.write(folder)
        learnt = ["centred" if settings.centre else "", _adaptation.summary(settings.as_norm, len(names))]
        return {
            "settings": settings.numeric(),
            "speakers": len(names),
            "vectors": len(rows),
            "cohort": len(names) if settings.as_norm is not None else 0,
            "within_session": within_session,
            "summary": f"{len(rows)} vectors of {len(names)} speakers, {', '.join(filter(None, learnt))}",
        }
