"""Two-covariance PLDA: trained in the run on the training speakers, or read from the files of a Kaldi recipe.

The chain is that of the VoicePrivacy Challenge 2020 and 2022: centring, LDA, length normalisation, PLDA. A model's
vectors are averaged first and then go the same way; scoring is told how many there were.

A PLDA that is trained on original speech within one session, from pieces of one recording a speaker, can do harm. With CAM++ it raises
the EER on original speech from 11.4 % to 18-21 % (libri_dev, female), because it takes a change of session for another speaker. On
anonymised speech it helps. So cosine is what such extractors come with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import model_validator

from pipeline import contracts
from pipeline.backends import _adaptation
from pipeline.backends._adaptation import AdaptationSettings
from pipeline.backends.plda import model as plda
from pipeline.backends.plda.estimation import Start, train
from pipeline.contracts import Choice, Enrolment, Weights, numeric, runtime
from pipeline.errors import DataError, ModelMissing
from pipeline.files import folder_digest

VERSION = "plda 2"
COHORT = "cohort.safetensors"
WEAK = "within-session PLDA, weak attacker"
"""What marks rows of a PLDA that has learnt how a speaker varies from pieces of one recording."""


class PldaSettings(AdaptationSettings):
    """Settings of the PLDA back end, beside those of :class:`AdaptationSettings`.

    Attributes:
        source: ``trained`` (in the run), or a folder with Kaldi's ``mean.vec``, ``transform.mat`` and ``plda``, or ``found``: those
            that lie in the challenge's folder (``dataset=vpc``). It stays out of keys: the digest of those files is in them.
        lda: dimensions to keep; at most those of the embedding and one less than there are speakers.
        iterations: of EM.
        start: where EM begins: ``moments`` (the estimate by moments) or ``kaldi`` (covariances of I and a fixed mean, as Kaldi's
            PldaEstimator: with ``regularisation: 0`` its 10 iterations give Kaldi's model, which is not yet the likeliest one).
        regularisation: share of a spherical covariance in the covariance within speakers; null chooses it by the likelihood of
            held-out training speakers, never above what their EER allows. 0 is none, as in Kaldi.
        length_normalise: whether vectors are brought to one length after LDA, and once more, in scoring, to the length
            that the PLDA expects of a mean of so many. Without it ratios are those of the two-covariance model by the book.
        segment_seconds: length of the pieces where the training set has one recording a speaker.

    ``lda``, ``iterations``, ``start``, ``regularisation`` and ``segment_seconds`` concern the training alone. ``as_norm`` needs a
    PLDA that is trained in the run: a folder holds no cohort.
    """

    name: Literal["plda"] = numeric("plda")
    source: str = runtime("trained", min_length=1)
    lda: int = numeric(200, ge=1)
    iterations: int = numeric(10, ge=1)
    start: Start = numeric("moments")
    regularisation: float | None = numeric(None, ge=0, lt=1)
    length_normalise: bool = numeric(True)
    segment_seconds: float = numeric(3.0, gt=0)

    @model_validator(mode="after")
    def _has_cohort(self) -> PldaSettings:
        if self.source != "trained" and self.as_norm is not None:
            raise ValueError(
                f"as_norm takes a cohort of the training speakers' vectors, and the files in source={self.source} hold none: "
                "set as_norm=null, or source=trained"
            )
        return self


@dataclass(frozen=True)
class Enrolled:
    """Enrolment models: their vectors [m, k] in the space of the PLDA, and how many each is the mean of [m]."""

    vectors: np.ndarray
    counts: np.ndarray


class Backend(contracts.Backend):
    """Scores are natural-log likelihood ratios, unless they are normalised or joined.

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
        self.model = plda.read_model(folder) if settings.source == "trained" else plda.read_kaldi_model(folder)
        self.cohort = None
        if settings.as_norm is not None:
            self.cohort = _adaptation.read_tensors(folder / COHORT, "the cohort of a PLDA")["cohort"]

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Enrolled:
        means, counts = plda.average_groups(vectors, model, n_models)
        return Enrolled(self._map_vectors(means, counts), counts)

    def score(self, models: Enrolled, vectors: np.ndarray) -> np.ndarray:
        psi, trials = self.model.psi, self._map_vectors(vectors, 1)
        llrs = plda.llr(psi, models.vectors, models.counts, trials)
        if self.cohort is None or self.settings.as_norm is None:
            return llrs
        ones = np.ones(len(self.cohort), dtype=np.int64)
        return _adaptation.normalise_scores(
            llrs,
            plda.llr(psi, models.vectors, models.counts, self.cohort),
            plda.llr(psi, self.cohort, ones, trials),
            self.settings.as_norm.top,
        )

    @classmethod
    def reads_challenge_folder(cls, settings: PldaSettings) -> bool:
        return settings.source == "found"

    @classmethod
    def with_parameters(cls, settings: PldaSettings, folder: Path) -> PldaSettings:
        return settings.model_copy(update={"source": str(folder)})

    @classmethod
    def check_speakers(cls, settings: PldaSettings, count: int) -> None:
        _adaptation.check_cohort(count, settings.as_norm)

    @classmethod
    def with_speakers(cls, settings: Any, count: int) -> Any:
        return _adaptation.limit_cohort(settings, count)

    @classmethod
    def gives_llrs(cls, settings: PldaSettings) -> bool:
        """Only as they are: neither a normalised ratio nor a mean or maximum of several is one."""
        return settings.as_norm is None and settings.enrolment == "mean_of_embeddings"

    @classmethod
    def enrolment(cls, settings: PldaSettings) -> Enrolment:
        return settings.enrolment

    @classmethod
    def is_fitted(cls, settings: PldaSettings) -> bool:
        return settings.source == "trained"

    @classmethod
    def piece_seconds(cls, settings: PldaSettings) -> float:
        return settings.segment_seconds

    def _map_vectors(self, vectors: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
        return self.model.map_vectors(vectors, counts, length_normalise=self.settings.length_normalise)

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
        absent = [name for name in plda.KALDI_FILES if not (folder / name).is_file()]
        if absent:
            raise ModelMissing(
                f"the folder '{settings.source}' holds no {' and no '.join(absent)}",
                where="backend plda, setting source",
                remedy=f"put {', '.join(plda.KALDI_FILES)} of a Kaldi recipe there (exp/xvector_nnet_1a/xvectors_*), "
                "or set source=trained",
            )
        plda.read_kaldi_model(folder)
        return Weights(folder, folder_digest(folder, plda.KALDI_FILES))

    @classmethod
    def fit(
        cls,
        settings: PldaSettings,
        vectors: np.ndarray,
        speakers: Sequence[str],
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        """Train on vectors [n, d] of speakers [n], and write ``plda.safetensors`` into the folder.

        The cohort of AS-norm, beside it, is the mean vector of each speaker, mapped as one utterance is. A regularisation that is
        not set is chosen by ``choice``; where that says so, all is then learnt from the other speakers alone.

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        labels = np.asarray(speakers, dtype=str)
        learnt = choice.learnt if choice is not None else np.ones(len(labels), dtype=bool)
        cls.check_speakers(settings, len(set(labels[learnt].tolist())))
        try:
            model, facts = train(
                vectors,
                speakers,
                lda=settings.lda,
                iterations=settings.iterations,
                regularisation=settings.regularisation,
                length_normalise=settings.length_normalise,
                start=settings.start,
                choice=choice,
            )
        except DataError as error:
            where = "; ".join(filter(None, ["training of the back end plda", error.where]))
            raise DataError(error.what, where=where, cause=error.cause, remedy=error.remedy) from error
        model.write(folder)
        if settings.as_norm is not None:
            names, speaker = np.unique(labels[learnt], return_inverse=True)
            means, _ = plda.average_groups(np.asarray(vectors)[learnt], speaker, len(names))
            mapped = model.map_vectors(means, 1, length_normalise=settings.length_normalise)
            _adaptation.write_tensors(folder / COHORT, {"cohort": mapped})
        mark = WEAK if within_session else ""
        return {
            **facts,
            "cohort": facts["speakers"] if settings.as_norm is not None else 0,
            "settings": settings.numeric(),
            "within_session": within_session,
            "mark": mark,
            "summary": "; ".join(
                filter(None, [_summary(facts), _adaptation.describe_as_norm(settings.as_norm, facts["speakers"]), mark])
            ),
        }


def _summary(facts: dict[str, Any]) -> str:
    lda, drawn, curve = facts["lda"], facts["regularisation"], facts["objective"]
    prior = " with its prior" if drawn["share"] else ""
    request = f" ({lda['asked']} asked)" if lda["asked"] != lda["used"] else ""
    near = "near-singular " if drawn["near_singular"] else ""
    rule = f" ({drawn['rule']}{': ' + drawn['reason'] if drawn['reason'] else ''})" if drawn["found"] else ""
    return (
        f"{facts['vectors']} vectors of {facts['speakers']} speakers, {lda['dimension']} to {lda['used']} dimensions{request}, "
        f"log-likelihood{prior} {curve[0]:.2f} to {curve[-1]:.2f} a vector in {facts['iterations']} iterations, "
        f"{near}covariance within speakers drawn {100 * drawn['share']:.2g} % to a spherical one{rule}"
    )
