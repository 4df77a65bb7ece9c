"""Measure: scores to rows of results and tables for figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Measured, PairRuns, Pairs, Ranks, TrialRuns, Trials
from pipeline.engine.task import Work
from pipeline.errors import DataError
from pipeline.metrics import MetricError
from pipeline.protocol.trials import TrialSet
from pipeline.registry import component
from pipeline.stages import fit
from pipeline.stages.score import SCORES
from pipeline.tables.vectors import Vectors

VERSION = 1
ROWS = "rows.parquet"


@dataclass(frozen=True)
class Context:
    """What a measure needs to know of the scores beside themselves.

    Attributes:
        are_llrs: whether trial scores are LLRs.
        backend: settings of the back end that scores pairs.
        extractor: name of the extractor whose ``pool`` makes references.
        similarity: ``cosine`` or ``euclidean``, for ranks.
    """

    are_llrs: bool = False
    backend: Any = None
    extractor: str = ""
    similarity: str = ""

    def numeric(self) -> dict[str, Any]:
        backend = self.backend.numeric() if self.backend is not None else {}
        return {
            "are_llrs": self.are_llrs,
            "backend": backend,
            "extractor": self.extractor,
            "similarity": self.similarity,
        }


def run(settings: Any, context: Context, n_expected: int, work: Work) -> None:
    """Write ``rows.parquet`` and one parquet file a figure table.

    Raises:
        DataError: the metric is not defined on this data; the message is the metric's.
    """
    module = component("families", settings.name)
    read: dict[str, Callable[[Context, int, Work], Any]] = {
        "trials": _trials,
        "trial_runs": _trial_runs,
        "pairs": _pairs,
        "pair_runs": _pair_runs,
        "ranks": _ranks,
    }
    data = read[module.MEASURES](context, n_expected, work)
    try:
        made: Measured = module.measure(settings, data)
    except MetricError as error:
        raise DataError(
            f"{settings.name} cannot be computed: {error}",
            cause="too few trials, speakers or utterances a speaker in this set",
            remedy=f"leave the metric {settings.name} out, or complete the set",
        ) from error
    folder = work.folder()
    pd.DataFrame([asdict(row) for row in made.rows]).to_parquet(folder / ROWS, index=False)
    for name, table in made.tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    read_from = ("original", "protected", "again", "reference", "input")
    empty = [entry for name in read_from for entry in _unusable(work, name)]
    # Where evidence is optional, audio without any is in the result, as a tie; it is named all the same.
    tied = bool(context.extractor) and _extractor(context).evidence_optional
    work.note("", **{**made.notes, "without_evidence" if tied else "lost": empty})


def _unusable(work: Work, name: str) -> list[list[str]]:
    try:
        vectors = work.input(name)
    except KeyError:
        return []
    return [list(entry) for entry in vectors.unusable()]


def _trials(context: Context, n_expected: int, work: Work, name: str = "scores") -> Trials:
    scores = pd.read_parquet(work.input(name).path(SCORES))
    trials: TrialSet = work.input("trials")
    return Trials(
        scores["score"].to_numpy(np.float64),
        scores["target"].to_numpy(bool),
        scores["model_speaker"].to_numpy(str),
        scores["speaker"].to_numpy(str),
        context.are_llrs,
        max(n_expected, trials.expected),
    )


def _trial_runs(context: Context, n_expected: int, work: Work) -> TrialRuns:
    ids = [
        pd.read_parquet(work.input(name).path(SCORES))[["model", "utterance"]] for name in ("scores", "scores_again")
    ]
    if not ids[0].equals(ids[1]):
        raise DataError(
            "the two runs of the system do not have scores for the same trials",
            cause="nothing could be extracted from some audio of one of them",
            remedy="leave the metric cece out, or mend that audio",
        )
    return TrialRuns(_trials(context, n_expected, work), _trials(context, n_expected, work, "scores_again"))


def _pairs(context: Context, n_expected: int, work: Work) -> Pairs:
    original: Vectors = work.input("original")
    protected: Vectors = work.input("protected")
    both = np.flatnonzero((original.weights > 0) & (protected.weights > 0))
    score = _Scoring(context, work)
    return Pairs(
        score(original.vectors[both], original.vectors[both]),
        score(original.vectors[both], protected.vectors[both]),
        score(protected.vectors[both], protected.vectors[both]),
        np.array(original.speakers)[both],
        n_expected,
    )


def _pair_runs(context: Context, n_expected: int, work: Work) -> PairRuns:
    first: Vectors = work.input("protected")
    second: Vectors = work.input("again")
    both = np.flatnonzero((first.weights > 0) & (second.weights > 0))
    score = _Scoring(context, work)
    return PairRuns(
        score(first.vectors[both], first.vectors[both]),
        score(first.vectors[both], second.vectors[both]),
        np.array(first.speakers)[both],
        n_expected,
    )


class _Scoring:
    """Scores of all utterances against all. An utterance is a model of one: both sides of a pair are treated alike."""

    def __init__(self, context: Context, work: Work) -> None:
        self.backend = component("backends", context.backend.name).Backend(context.backend, fit.folder(work))

    def __call__(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        models = self.backend.enrol(rows, np.arange(len(rows)), len(rows))
        scores: np.ndarray = self.backend.score(models, columns)
        return scores


def _ranks(context: Context, n_expected: int, work: Work) -> Ranks:
    extractor = _extractor(context)
    reference: Vectors = work.input("reference").usable()
    inputs: Vectors = work.input("input")
    if not extractor.evidence_optional:
        inputs = inputs.usable()
    speakers = tuple(sorted(set(reference.speakers)))
    pool = extractor.pool
    owner = np.array(reference.speakers)
    references = np.stack(
        [pool(reference.vectors[owner == name], reference.weights[owner == name]) for name in speakers]
    )
    column = {name: number for number, name in enumerate(speakers)}
    kept = [row for row, name in enumerate(inputs.speakers) if name in column]
    true = np.array([column[inputs.speakers[row]] for row in kept])
    similarity = np.zeros((len(kept), len(speakers)))
    told = inputs.weights[kept] > 0
    vectors = inputs.vectors[kept][told].astype(np.float64)
    similarity[told] = _similarity(vectors, references.astype(np.float64), context.similarity)
    return Ranks(similarity, true, speakers, n_expected, int((~told).sum()))


def _extractor(context: Context) -> Any:
    return component("extractors", context.extractor).Extractor


def _similarity(inputs: np.ndarray, references: np.ndarray, kind: str) -> np.ndarray:
    """[inputs, N]; higher means more similar: cosine, or minus the Euclidean distance."""
    if kind == "cosine":
        inputs = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
        references = references / np.linalg.norm(references, axis=1, keepdims=True)
        return np.asarray(inputs @ references.T)
    if kind == "euclidean":
        # Differences first: the expanded square would round away the small distances that decide ranks.
        return -np.asarray(np.sqrt(((inputs[:, None, :] - references[None, :, :]) ** 2).sum(axis=2)))
    raise ValueError(f"unknown similarity '{kind}'")
