"""Cosine back ends: vectors are centred and mapped where that was learnt, brought to unit length, averaged and compared."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pipeline import contracts
from pipeline.backends import _adaptation
from pipeline.backends._adaptation import AdaptationSettings
from pipeline.contracts import Enrolment, numeric
from pipeline.errors import DataError, ModelMissing

VERSION = "linear scoring 1"
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

    def mapped(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors [n, d], centred and mapped."""
        rows = np.asarray(vectors, dtype=np.float64)
        if self.centre is not None:
            rows = rows - self.centre
        return rows if self.transform is None else np.asarray(rows @ self.transform.T)

    def write(self, folder: Path) -> None:
        """Write ``linear.safetensors``."""
        from safetensors.numpy import save_file

        held = {field.name: getattr(self, field.name) for field in fields(self)}
        save_file(
            {name: np.ascontiguousarray(value) for name, value in held.items() if value is not None}, folder / FILE
        )


def read(folder: Path) -> Linear:
    """What :meth:`Linear.write` wrote into a folder.

    Raises:
        DataError: no such file, or one that holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        held = load_file(folder / FILE)
    except (OSError, SafetensorError) as error:
        raise DataError("a trained back end cannot be read", where=str(folder / FILE), cause=str(error)) from error
    unknown = held.keys() - {field.name for field in fields(Linear)}
    if unknown:
        raise DataError(f"a trained back end holds {', '.join(sorted(unknown))}", where=str(folder / FILE))
    return Linear(**held)


def averages(rows: np.ndarray, model: np.ndarray, n_models: int, *, normalise: bool) -> np.ndarray:
    """Mean [n_models, d] of the mapped vectors [n, d] of each model, each brought to unit length first where ``normalise``."""
    rows = unit(rows) if normalise else rows
    models = np.zeros((n_models, rows.shape[1]))
    np.add.at(models, model, rows)
    return models / np.bincount(model, minlength=n_models)[:, None]


def cohort(linear: Linear, vectors: np.ndarray, speaker: np.ndarray, *, normalise: bool) -> np.ndarray:
    """The cohort [c, d]: the mean of the vectors [n, d] of each speaker; ``speaker`` [n] is its number from 0."""
    return unit(averages(linear.mapped(vectors), speaker, int(speaker.max()) + 1, normalise=normalise))


def scores(linear: Linear, models: np.ndarray, rows: np.ndarray, top: int | None) -> np.ndarray:
    """Scores of all pairs, float64 [m, n], of models [m, d] and mapped vectors [n, d]; after AS-norm where ``top`` is given."""
    models, rows = unit(models), unit(rows)
    found = models @ rows.T
    if top is None or linear.cohort is None:
        return np.asarray(found)
    return _adaptation.normalised(found, models @ linear.cohort.T, linear.cohort @ rows.T, top)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows brought to unit length."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


class LinearBackend(contracts.Backend):
    """Scores are cosines in [-1, 1], or after AS-norm how many standard deviations they lie above those of others.

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
            self.linear = read(folder)

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> np.ndarray:
        """Enrolment models, float64 [n_models, d]: the mean vector of each.

        Args:
            vectors: [n, d] enrolment vectors.
            model: [n] index of the model that each vector belongs to.
            n_models: number of models.
        """
        return averages(self.linear.mapped(vectors), model, n_models, normalise=self.settings.normalise_utterances)

    def score(self, models: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Scores of all pairs, float64 [n_models, n_vectors]; higher means more similar."""
        top = self.settings.as_norm.top if self.settings.as_norm is not None else None
        return scores(self.linear, np.asarray(models, dtype=np.float64), self.linear.mapped(vectors), top)

    @classmethod
    def with_speakers(cls, settings: Any, count: int) -> Any:
        return _adaptation.with_speakers(settings, count)

    @classmethod
    def enrolment(cls, settings: Any) -> Enrolment:
        found: Enrolment = settings.enrolment
        return found
