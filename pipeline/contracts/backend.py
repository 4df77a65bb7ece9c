"""What a back end is: vectors to scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pipeline.contracts.component import Component
from pipeline.errors import ModelMissing

Enrolment = Literal["mean_of_embeddings", "mean_of_scores", "max_of_scores"]
"""How several enrolment recordings of a speaker become one score of a trial."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What a back end chooses by while it is fitted: the run's held-out speakers, whom no network of the run has learnt from.

    Attributes:
        held_out: bool [n], whether each of the vectors that are given to :meth:`Backend.fit` is one of a held-out speaker, of
            whichever draw of the anonymiser's random numbers.
        rows: int [k], rows among those vectors that are compared, all of the first draw.
        first, second: int [p], the two sides of each pair, as places in ``rows``; each pair comes once.
        target: bool [p], whether both are of one speaker.
        speakers: speakers that are compared.
        alone: whether the back end is to learn from the other speakers alone, as for a check on the held-out ones. If not, it
            chooses on the held-out speakers, after learning from the others, and then learns from all.
    """

    held_out: np.ndarray
    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    target: np.ndarray
    speakers: int
    alone: bool = False

    @property
    def n_target(self) -> int:
        return int(self.target.sum())

    @property
    def n_nontarget(self) -> int:
        return len(self.target) - self.n_target

    @property
    def learnt(self) -> np.ndarray:
        """bool [n], the vectors to learn from in the end."""
        return ~self.held_out if self.alone else np.ones(len(self.held_out), dtype=bool)


class Backend(Component):
    """Vectors to scores.

    Attributes:
        weak_within_session: what marks rows whose parameters were fitted within sessions, from pieces of one recording.
    """

    weak_within_session: ClassVar[str] = ""

    def __init__(self, settings: Any, folder: Path | None = None) -> None:
        """Read the parameters that :meth:`fit` wrote or :meth:`weights` found; None where there are none."""
        self.settings = settings

    @abstractmethod
    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Any:
        """Enrolment models of vectors [n, d]; ``model`` [n] is the number of the model that each belongs to."""

    @abstractmethod
    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        """Scores of all pairs, float64 [n_models, n_vectors]; higher means more similar."""

    def adapt(self, vectors: np.ndarray, model: np.ndarray, draws: int) -> Backend:
        """The back end as it is after hearing all enrolment vectors [n, d], with the index of the model of each [n]; ``draws`` says how
        many times the enrolment was protected, each time under other random numbers."""
        return self

    @classmethod
    def variants(cls, settings: Any) -> Mapping[str, Any]:
        """The settings of each attack that its parameters serve, by what is added to the label; each is scored by itself."""
        return {"": settings}

    @classmethod
    def centres_on_enrolment(cls, settings: Any) -> bool:
        """Whether vectors are centred on the enrolment: on the speech under attack, not on the training speech."""
        return False

    @classmethod
    def gives_llrs(cls, settings: Any) -> bool:
        """Whether scores are natural-log likelihood ratios."""
        return False

    @classmethod
    def is_fitted(cls, settings: Any) -> bool:
        """Whether :meth:`fit` makes parameters in the run where :meth:`weights` finds none."""
        return False

    @classmethod
    def reads_challenge_folder(cls, settings: Any) -> bool:
        """Whether its parameters are to be those that lie in a challenge's folder."""
        return False

    @classmethod
    def with_parameters(cls, settings: Any, folder: Path) -> Any:
        """The settings with the folder of parameters that was found."""
        return settings

    @classmethod
    def with_speakers(cls, settings: Any, count: int) -> Any:
        """The settings with which it can be fitted to so many speakers, fewer than it will be: some are held out to choose by."""
        return settings

    @classmethod
    def check_speakers(cls, settings: Any, count: int) -> None:
        """Refuse a training set of so few speakers that it cannot be fitted: a plan asks before anything is extracted.

        Raises:
            DataError: with the reason; ``<label>`` in its remedy stands for the back end's.
        """

    @classmethod
    def enrolment(cls, settings: Any) -> Enrolment:
        """How several enrolment recordings become one score: :meth:`enrol` joins them, or the score stage joins their scores."""
        return "mean_of_embeddings"

    @classmethod
    def piece_seconds(cls, settings: Any) -> float:
        """Length of the pieces into which training recordings are cut where there is one a speaker."""
        return 3.0

    @classmethod
    def fit(
        cls,
        settings: Any,
        vectors: np.ndarray,
        speakers: Sequence[str],
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        """Train on vectors [n, d] of speakers [n], write the parameters into the folder, and return the record.

        The record is plain JSON values, with a ``summary`` in a line; ``within_session`` is for the record. What is chosen, is
        chosen by ``choice``, and learnt is from the vectors that it says; None leaves it to the back end whom it holds out.

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        raise ModelMissing(f"the back end {settings.name} cannot be trained")
