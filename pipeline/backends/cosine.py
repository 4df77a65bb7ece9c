"""Cosine of enrolment models and trial vectors; centred, mapped and with AS-norm where that was learnt.

Vectors are centred and mapped, brought to unit length, averaged and compared. :mod:`pipeline.backends.wccn` learns the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pipeline import contracts
from pipeline.backends import _adaptation
from pipeline.backends._adaptation import AdaptationSettings
from pipeline.contracts import Choice, Enrolment, numeric
from pipeline.errors import DataError, ModelMissing

VERSION = "cosine 1"
FILE = "linear.safetensors"


class LinearSettings(AdaptationSettings):
    """Settings that cosine back ends share.

    Attributes:
        normalise_utterances: enrolment vectors are brought to unit length before they are averaged, so that each
            utterance weighs the same; ``False`` is the plain mean (VoicePrivacy Challenge 2024).
    """

    normalise_utterances: bool = numeric(True)


@dataclass(frozen=True)
class Linear:
    """What was learnt; float64, None where nothing was.

    Attributes:
        centre: [d], subtracted from vectors.
        transform: [d, d], maps centred vectors x to ``transform @ x``.
        cohort: [c, d], mapped mean vectors of the cohort, of unit length.
        scatter: [d, d], sum of the squared deviations from the means of the training speakers, before any shrinkage.
        shrunk: [2], the degrees of freedom of ``scatter``, and the shrinkage with which it gave ``transform``.
    """

    centre: np.ndarray | None = None
    transform: np.ndarray | None = None
    cohort: np.ndarray | None = None
    scatter: np.ndarray | None = None
    shrunk: np.ndarray | None = None

    def map_vectors(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors [n, d], centred and mapped."""
        rows = np.asarray(vectors, dtype=np.float64)
        if self.centre is not None:
            rows = rows - self.centre
        return rows if self.transform is None else np.asarray(rows @ self.transform.T)

    def write(self, folder: Path) -> None:
        """Write ``linear.safetensors``."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        _adaptation.write_tensors(folder / FILE, arrays)


def read_linear(folder: Path) -> Linear:
    """What :meth:`Linear.write` wrote into a folder.

    Raises:
        DataError: no such file, or one that holds something else.
    """
    arrays = _adaptation.read_tensors(folder / FILE, "a trained back end")
    unknown = arrays.keys() - {field.name for field in fields(Linear)}
    if unknown:
        raise DataError(f"a trained back end holds {', '.join(sorted(unknown))}", where=str(folder / FILE))
    return Linear(**arrays)


def average_models(rows: np.ndarray, model: np.ndarray, n_models: int, *, normalise: bool) -> np.ndarray:
    """Mean [n_models, d] of the mapped vectors [n, d] of each model, each brought to unit length first where ``normalise``."""
    rows = scale_to_unit(rows) if normalise else rows
    models = np.zeros((n_models, rows.shape[1]))
    np.add.at(models, model, rows)
    return models / np.bincount(model, minlength=n_models)[:, None]


def make_cohort(linear: Linear, vectors: np.ndarray, speaker: np.ndarray, *, normalise: bool) -> np.ndarray:
    """The cohort [c, d]: the mean of the vectors [n, d] of each speaker; ``speaker`` [n] is its number from 0."""
    return scale_to_unit(
        average_models(linear.map_vectors(vectors), speaker, int(speaker.max()) + 1, normalise=normalise)
    )


def score_pairs(linear: Linear, models: np.ndarray, rows: np.ndarray, top: int | None) -> np.ndarray:
    """Scores of all pairs, float64 [m, n], of models [m, d] and mapped vectors [n, d]; after AS-norm where ``top`` is given."""
    models, rows = scale_to_unit(models), scale_to_unit(rows)
    cosines = models @ rows.T
    if top is None or linear.cohort is None:
        return np.asarray(cosines)
    return _adaptation.normalise_scores(cosines, models @ linear.cohort.T, linear.cohort @ rows.T, top)


def scale_to_unit(rows: np.ndarray) -> np.ndarray:
    """Rows brought to unit length."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


class LinearBackend(contracts.Backend):
    """What cosine back ends share. Scores are cosines in [-1, 1], or after AS-norm how many standard deviations they lie above others'.

    Raises:
        ModelMissing: the settings ask for parameters, and no folder is given.
    """

    libraries: ClassVar[tuple[str, ...]] = ("numpy",)
    settings: LinearSettings

    def __init__(self, settings: Any, folder: Path | None = None) -> None:
        super().__init__(settings, folder)
        if not self.is_fitted(settings):
            self.linear = Linear()
        elif folder is None:
            raise ModelMissing(
                f"the back end {settings.name} was given no parameters",
                where=f"backend {settings.name}",
                remedy="train it in the run, on a training set",
            )
        else:
            self.linear = read_linear(folder)

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> np.ndarray:
        """Enrolment models, float64 [n_models, d]: the mean vector of each."""
        return average_models(
            self.linear.map_vectors(vectors), model, n_models, normalise=self.settings.normalise_utterances
        )

    def score(self, models: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        top = self.settings.as_norm.top if self.settings.as_norm is not None else None
        return score_pairs(self.linear, np.asarray(models, dtype=np.float64), self.linear.map_vectors(vectors), top)

    @classmethod
    def with_speakers(cls, settings: Any, count: int) -> Any:
        return _adaptation.limit_cohort(settings, count)

    @classmethod
    def enrolment(cls, settings: Any) -> Enrolment:
        enrolment: Enrolment = settings.enrolment
        return enrolment


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
        subject = (
            "the mean that the back end cosine subtracts" if settings.centre else "the cohort of the back end cosine"
        )
        _adaptation.check_training(count, subject, settings.as_norm)

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
            others = make_cohort(linear, rows, speaker, normalise=settings.normalise_utterances)
            linear = Linear(linear.centre, None, others)
        linear.write(folder)
        learnt = ["centred" if settings.centre else "", _adaptation.describe_as_norm(settings.as_norm, len(names))]
        return {
            "settings": settings.numeric(),
            "speakers": len(names),
            "vectors": len(rows),
            "cohort": len(names) if settings.as_norm is not None else 0,
            "within_session": within_session,
            "summary": f"{len(rows)} vectors of {len(names)} speakers, {', '.join(filter(None, learnt))}",
        }
