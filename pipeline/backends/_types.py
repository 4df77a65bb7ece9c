"""What a back end is: how it is made, enrols and scores, and how one that is trained comes to its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from pipeline.weights.find import Weights


class Backend(Protocol):
    """The class ``Backend`` of a back end's module; ``Backend(settings, folder)`` makes one.

    ``folder`` holds what the module's ``fit`` wrote, or what its ``weights`` found; it is None where the module has no ``fit``.

    Attributes:
        version: raised whenever scores change; enters keys.
        are_llrs: whether scores are natural-log likelihood ratios.
        libraries: distributions whose versions change the numbers; enter keys.
    """

    version: ClassVar[int]
    are_llrs: ClassVar[bool]
    libraries: ClassVar[tuple[str, ...]]

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Any:
        """Enrolment models of vectors [n, d]; ``model`` [n] is the number of the model that each belongs to."""

    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        """Scores of all pairs, float64 [n_models, n_vectors]; higher means more similar."""


class Trained(Protocol):
    """The module of a back end that is trained: it has ``WEAK`` and these two functions beside ``Settings`` and ``Backend``.

    ``WEAK`` is what marks the rows of one that was trained within sessions.

    Its ``Settings`` have ``segment_seconds``: where the training set has one recording a speaker, the recordings are cut
    into pieces of this length, and what is trained on them is marked.
    """

    def weights(self, settings: Any, models: Path) -> Weights | None:
        """Parameters that are already on this machine; None if ``fit`` makes them in the run."""

    def fit(
        self, settings: Any, vectors: np.ndarray, speakers: Sequence[str], folder: Path, *, within_session: bool
    ) -> dict[str, Any]:
        """Train on vectors [n, d] of speakers [n], write the parameters into the folder, and return the record.

        The record is plain JSON values, with a ``summary`` in a line; ``within_session`` is for the record.
        """
