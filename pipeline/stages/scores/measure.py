"""Measure: scores to rows of results and tables for figures, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import (
    ComponentSettings,
    Measured,
    MetricFamily,
    PairRuns,
    Pairs,
    ProtectedPairs,
    Ranks,
    Row,
    TrialRuns,
    Trials,
)
from pipeline.engine.task import Work
from pipeline.metrics import MetricError
from pipeline.names import join_few
from pipeline.tables import scores
from pipeline.tables.scores import ScoreMatrix

VERSION = "measures 2"
ROWS = "rows.parquet"


@dataclass(frozen=True)
class Context:
    """What a family needs to know of the scores beside themselves.

    Attributes:
        n_expected: trials, utterances or inputs that there should be.
        are_llrs: whether the scores are natural-log likelihood ratios.
        speakers: those whose inputs and references are ranked; empty for all.
        protected: whether pairs are of protected speech alone.
        n_searched: trials that there should be with those that the list lacks (``Trials.candidates``), if there are such.
        n_development: trials that there should be of other speakers, to learn from, if there are such.
    """

    n_expected: int
    are_llrs: bool = False
    speakers: tuple[str, ...] = ()
    protected: bool = False
    n_searched: int | None = None
    n_development: int | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """What of it enters keys."""
        also = {
            "speakers": list(self.speakers) or None,
            "n_searched": self.n_searched,
            "n_development": self.n_development,
        }
        entered = {name: value for name, value in also.items() if value is not None}
        return {"n_expected": self.n_expected, "are_llrs": self.are_llrs, **entered}


def measure(family: type[MetricFamily], settings: ComponentSettings, context: Context, work: Work) -> None:
    """Write ``rows.parquet`` and one parquet file a figure table.

    Metrics that are not defined on this data have no value, and the reason: what is too little for them costs no other number.
    """
    data, lacking = (_protected if context.protected else READERS[family.reads])(context, work)
    undefined = ""
    try:
        measured: Measured = (family.measure_protected if context.protected else family.measure)(settings, data)
    except MetricError as error:
        undefined = f"{settings.model_dump()['name']} cannot be computed: {error}"
        names = family.protected_metrics if context.protected else tuple(family.metrics)
        measured = Measured([Row(metric, reason=undefined) for metric in names])
    folder = work.folder()
    pd.DataFrame([family.record(row) for row in measured.rows]).to_parquet(folder / ROWS, index=False)
    for table_name, table in measured.tables.items():
        table.to_parquet(folder / f"{table_name}.parquet", index=False)
    work.note(**{**measured.notes, "partial": bool(lacking), "lacking": lacking, "undefined": undefined})


def _trials(context: Context, work: Work) -> tuple[Trials, str]:
    data, names = _as_trials(context, _table(work, "scores")), ["scores"]
    for name, expected in (("candidates", context.n_searched), ("development", context.n_development)):
        if expected is not None:
            others: dict[str, Any] = {name: _as_trials(replace(context, n_expected=expected), _table(work, name))}
            data, names = replace(data, **others), [*names, name]
    if work.has("attributes"):
        data = replace(data, attributes=work.input("attributes"))
    return data, _thinned(work, *names)


def _trial_runs(context: Context, work: Work) -> tuple[TrialRuns, str]:
    """The trials that both runs have; counts tell how many there should be."""
    names = ("scores", "scores_again")
    first, second = (_table(work, name) for name in names)
    ids = ["model", "utterance"]
    if not first[ids].equals(second[ids]):
        first_scores, second_scores = first.set_index(ids), second.set_index(ids)
        both = first_scores.index[first_scores.index.isin(second_scores.index)]
        first, second = first_scores.loc[both].reset_index(), second_scores.loc[both].reset_index()
    return TrialRuns(_as_trials(context, first), _as_trials(context, second)), _thinned(work, *names)


def _thinned(work: Work, *names: str) -> str:
    """Which models of some scores are made of fewer recordings than are listed, in words; '' for none."""
    groups = [group for name in names for group in scores.thinned(work.input(name).folder)]
    models = list(dict.fromkeys(model for model, _, _ in groups))
    lost = list(dict.fromkeys(utterance for _, utterance, _ in groups))
    if not models:
        return ""
    return f"models made of fewer enrolment recordings than are listed: {len(models)} ({join_few(models, 3)} without {join_few(lost, 3)})"


def _describe_lost(*matrices: ScoreMatrix) -> str:
    """Which recordings some matrices lack, in words; '' for none."""
    names = list(dict.fromkeys(name for matrix in matrices for name, _ in matrix.lost))
    return f"{len(names)} recordings could not be used ({join_few(names, 3)})" if names else ""


def _pairs(context: Context, work: Work) -> tuple[Pairs, str]:
    oo, op, pp = (_matrix(work, name) for name in ("oo", "op", "pp"))
    both, speakers = _common(oo, set(pp.rows))
    pairs = Pairs(_block(oo, both), _block(op, both), _block(pp, both), speakers, context.n_expected)
    return pairs, _describe_lost(oo, op, pp)


def _protected(context: Context, work: Work) -> tuple[ProtectedPairs, str]:
    pp = _matrix(work, "pp")
    ids, speakers = _common(pp, set(pp.rows))
    return ProtectedPairs(_block(pp, ids), speakers, context.n_expected), _describe_lost(pp)


def _pair_runs(context: Context, work: Work) -> tuple[PairRuns, str]:
    pp, p0p1 = (_matrix(work, name) for name in ("pp", "p0p1"))
    both, speakers = _common(pp, set(p0p1.columns))
    runs = PairRuns(_block(pp, both), _block(p0p1, both), speakers, context.n_expected)
    return runs, _describe_lost(pp, p0p1)


def _ranks(context: Context, work: Work) -> tuple[Ranks, str]:
    matrix = _matrix(work, "scores")
    if context.speakers:
        matrix = _choose_speakers(matrix, set(context.speakers))
    column = {name: number for number, name in enumerate(matrix.columns)}
    true = np.array([column[name] for name in matrix.row_speakers], dtype=np.int64)
    without = {name for name, _ in matrix.ties} & set(matrix.rows)
    ranks = Ranks(matrix.scores, true, matrix.columns, context.n_expected, len(without))
    return ranks, _describe_lost(matrix)


def _choose_speakers(matrix: ScoreMatrix, kept: Collection[str]) -> ScoreMatrix:
    rows = [place for place, speaker in enumerate(matrix.row_speakers) if speaker in kept]
    columns = [place for place, speaker in enumerate(matrix.columns) if speaker in kept]
    return replace(
        matrix,
        scores=matrix.scores[np.ix_(rows, columns)],
        rows=tuple(matrix.rows[place] for place in rows),
        row_speakers=tuple(matrix.row_speakers[place] for place in rows),
        columns=tuple(matrix.columns[place] for place in columns),
        column_speakers=tuple(matrix.column_speakers[place] for place in columns),
    )


READERS: dict[str, Callable[[Context, Work], tuple[Any, str]]] = {
    "trials": _trials,
    "trial_runs": _trial_runs,
    "pairs": _pairs,
    "pair_runs": _pair_runs,
    "ranks": _ranks,
}
"""What a family reads, and what of it is lost beside what counts tell, in words, by kind."""


def _table(work: Work, name: str) -> pd.DataFrame:
    return pd.read_parquet(work.input(name).path(scores.TRIALS))


def _as_trials(context: Context, table: pd.DataFrame) -> Trials:
    return Trials(
        table["score"].to_numpy(np.float64),
        table["target"].to_numpy(bool),
        table["model_speaker"].to_numpy(str),
        table["speaker"].to_numpy(str),
        context.are_llrs,
        context.n_expected,
        table["utterance"].to_numpy(str),
    )


def _matrix(work: Work, name: str) -> ScoreMatrix:
    return scores.read(work.input(name).folder)


def _common(matrix: ScoreMatrix, kept: Collection[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The ids of the rows that are kept, in order, and their speakers."""
    both = [(name, speaker) for name, speaker in zip(matrix.rows, matrix.row_speakers) if name in kept]
    return tuple(name for name, _ in both), np.array([speaker for _, speaker in both])


def _block(matrix: ScoreMatrix, ids: tuple[str, ...]) -> np.ndarray:
    """The scores of these utterances, float64 [n, n], rows and columns in their order."""
    if ids == matrix.rows == matrix.columns:
        return matrix.scores
    row = {name: place for place, name in enumerate(matrix.rows)}
    column = {name: place for place, name in enumerate(matrix.columns)}
    return matrix.scores[np.ix_([row[name] for name in ids], [column[name] for name in ids])]
