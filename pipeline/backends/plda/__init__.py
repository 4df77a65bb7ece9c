"""Two-covariance PLDA: trained in the run on the training speakers, or read from the files of a Kaldi recipe.

The chain is that of the VoicePrivacy Challenge 2020 and 2022: centring, LDA, length normalisation, PLDA. A model's
vectors are averaged first and then go the same way; scoring is told how many there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline import contracts
from pipeline.backends.plda import kaldi_files
from pipeline.backends.plda import model as plda
from pipeline.contracts import ComponentSettings, Weights, numeric, runtime
from pipeline.errors import DataError, ModelMissing
from pipeline.files import folder_digest

VERSION = 1
WEAK = "within-session PLDA, weak attacker"
"""What marks rows of a PLDA that has learnt how a speaker varies from pieces of one recording."""


class PldaSettings(ComponentSettings):
    """Settings of the PLDA back end.

    Attributes:
        source: ``trained`` (in the run), or a folder with Kaldi's ``mean.vec``, ``transform.mat`` and ``plda``. It stays
            out of keys: the digest of those files is in them.
        lda: dimensions to keep; at most those of the embedding and one less than there are speakers.
        iterations: of EM.
        regularisation: share of a spherical covariance in the covariance within speakers; null finds it from the data (it
            vanishes as the data grow), 0 is none, as in Kaldi.
        length_normalise: whether vectors are brought to one length after LDA, and once more, in scoring, to the length
            that the PLDA expects of a mean of so many. Without it ratios are those of the two-covariance model by the book.
        segment_seconds: length of the pieces where the training set has one recording a speaker.

    All but ``source`` and ``length_normalise`` concern the training alone.
    """

    name: Literal["plda"] = numeric("plda")
    source: str = runtime("trained", min_length=1)
    lda: int = numeric(200, ge=1)
    iterations: int = numeric(10, ge=1)
    regularisation: float | None = numeric(None, ge=0, lt=1)
    length_normalise: bool = numeric(True)
    segment_seconds: float = numeric(3.0, gt=0)


@dataclass(frozen=True)
class Enrolled:
    """Enrolment models: their vectors [m, k] in the space of the PLDA, and how many each is the mean of [m]."""

    vectors: np.ndarray
    counts: np.ndarray


class Backend(contracts.Backend):
    """Scores are natural-log likelihood ratios.

    Raises:
        ModelMissing: no folder is given.
        DataError: its files cannot be read, or vectors have another dimension than they say.
    """

    Settings = PldaSettings
    libraries = ("numpy", "scipy")
    weak_within_session = WEAK
    settings: PldaSettings

    def __init__(self, settings: PldaSettings, folder: Path | None = None) -> None:
        if folder is None:
            raise ModelMissing(
                "the PLDA back end was given no parameters",
                where="backend plda",
                remedy="train it in the run (source=trained) or name a folder with Kaldi's files",
            )
        super().__init__(settings, folder)
        self.model = plda.read(folder) if settings.source == "trained" else kaldi_files.read_plda(folder)

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Enrolled:
        """Enrolment models of vectors [n, d]; ``model`` [n] is the number of the model that each belongs to."""
        means, counts = plda.averages(vectors, model, n_models)
        return Enrolled(self._mapped(means, counts), counts)

    def score(self, models: Enrolled, vectors: np.ndarray) -> np.ndarray:
        """Natural-log likelihood ratios of all pairs, float64 [n_models, n_vectors]; higher means more similar."""
        return plda.llr(self.model.psi, models.vectors, models.counts, self._mapped(vectors, 1))

    @classmethod
    def gives_llrs(cls, settings: PldaSettings) -> bool:
        return True

    @classmethod
    def is_fitted(cls, settings: PldaSettings) -> bool:
        return settings.source == "trained"

    @classmethod
    def piece_seconds(cls, settings: PldaSettings) -> float:
        return settings.segment_seconds

    def _mapped(self, vectors: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
        return self.model.mapped(vectors, counts, length_normalise=self.settings.length_normalise)

    @classmethod
    def weights(cls, settings: PldaSettings, models: Path) -> Weights | None:
        """Kaldi's files on this machine; None if the parameters are trained in the run.

        Raises:
            ModelMissing: the folder lacks one of them.
            DataError: they cannot be read or do not fit together.
        """
        if settings.source == "trained":
            return None
        folder = Path(settings.source).expanduser()
        absent = [name for name in kaldi_files.PLDA_FILES if not (folder / name).is_file()]
        if absent:
            raise ModelMissing(
                f"the folder '{settings.source}' holds no {' and no '.join(absent)}",
                where="backend plda, setting source",
                remedy=f"put {', '.join(kaldi_files.PLDA_FILES)} of a Kaldi recipe there (exp/xvector_nnet_1a/xvectors_*), "
                "or set source=trained",
            )
        kaldi_files.read_plda(folder)
        return Weights(folder, folder_digest(folder, kaldi_files.PLDA_FILES))

    @classmethod
    def fit(
        cls, settings: PldaSettings, vectors: np.ndarray, speakers: Sequence[str], folder: Path, *, within_session: bool
    ) -> dict[str, Any]:
        """Train on vectors [n, d] of speakers [n], and write ``plda.safetensors`` into the folder.

        Returns:
            The record as plain JSON values: ``summary``; ``lda`` asked, used, and the dimension; ``speakers``,
            ``vectors``, ``iterations``, ``log_likelihood`` (nats a vector, by iteration), ``objective`` (the same with the prior
            that regularises, which is what EM raises), ``regularisation``, ``within_session`` and ``mark`` (what rows scored with it are marked with, or '').

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        try:
            model, facts = plda.train(
                vectors,
                speakers,
                lda=settings.lda,
                iterations=settings.iterations,
                regularisation=settings.regularisation,
                length_normalise=settings.length_normalise,
            )
        except DataError as error:
            where = "; ".join(filter(None, ["training of the back end plda", error.where]))
            raise DataError(error.what, where=where, cause=error.cause, remedy=error.remedy) from error
        model.write(folder)
        mark = WEAK if within_session else ""
        return {
            **facts,
            "settings": settings.numeric(),
            "within_session": within_session,
            "mark": mark,
            "summary": "; ".join(filter(None, [_summary(facts), mark])),
        }


def _summary(facts: dict[str, Any]) -> str:
    lda, drawn, curve = facts["lda"], facts["regularisation"], facts["objective"]
    prior = " with its prior" if drawn["share"] else ""
    asked = f" ({lda['asked']} asked)" if lda["asked"] != lda["used"] else ""
    near = "near-singular " if drawn["near_singular"] else ""
    return (
        f"{facts['vectors']} vectors of {facts['speakers']} speakers, {lda['dimension']} to {lda['used']} dimensions{asked}, "
        f"log-likelihood{prior} {curve[0]:.2f} to {curve[-1]:.2f} a vector in {facts['iterations']} iterations, "
        f"{near}covariance within speakers drawn {100 * drawn['share']:.2g} % to a spherical one"
    )
