"""Fuse the scores of several extractors or back ends for the same trials into one more attack."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.engine.task import Work
from pipeline.errors import DataError
from pipeline.metrics import Fusion, MetricError, equal_fusion, logistic_fusion
from pipeline.stages.backends import check_held_out
from pipeline.tables import scores

VERSION = "fused scores 2"


def fuse_scores(kind: str, work: Work) -> None:
    """Write ``scores.parquet`` as ``score.trials`` does, of the fused scores.

    Inputs: ``scores.0``, ``scores.1``, ... (of ``score.trials``, joined on model and utterance; a trial that one of them lacks is lost
    and named) and, in the same order, ``held_out.0``, ``held_out.1``, ... (of ``check_held_out``, joined on first and second), whose
    non-targets give the scale of each and whose trials give the weights of ``logistic``.

    Raises:
        DataError: the held-out scores cannot give scale or weights, or two inputs contradict each other on who spoke.
    """
    held_out, _ = _joined(work, "held_out", check_held_out.PAIRS, ["first", "second"], ["target"])
    same = ["target", "model_speaker", "speaker"]
    table, lost = _joined(work, "scores", scores.TRIALS, ["model", "utterance"], same)
    fusion = _fit(kind, held_out)
    try:
        fused = fusion.fused(_columns(table))
    except MetricError as error:
        raise DataError(f"scores cannot be fused: {error}", remedy="leave this extractor out of the fusion") from error
    fused_scores = table[["model_speaker", "speaker", "model", "utterance"]].assign(score=fused, target=table["target"])
    fused_scores = fused_scores.sort_values(["model", "utterance"], kind="stable")
    fused_scores.to_parquet(work.folder() / scores.TRIALS, index=False)
    scores.write_thinned(work.folder(), _thinned(work, set(fused_scores["model"])))
    work.note(
        kind=fusion.kind,
        weights=fusion.weights.tolist(),
        offset=fusion.offset,
        means=fusion.mean.tolist(),
        spreads=fusion.spread.tolist(),
        held_out={"n_target": int(held_out["target"].sum()), "n_nontarget": int((~held_out["target"]).sum())},
        lost=lost,
        n_expected=len(fused_scores) + len(lost),
        n_used=len(fused_scores),
    )


def _thinned(work: Work, used: set[str]) -> list[tuple[str, str, str]]:
    """The models that are made of fewer recordings than are listed in any of the inputs, each recording once."""
    number = 0
    thinned: dict[tuple[str, str], str] = {}
    while work.has(f"scores.{number}"):
        for model, utterance, reason in scores.thinned(work.input(f"scores.{number}").folder):
            if model in used:
                thinned.setdefault((model, utterance), reason)
        number += 1
    return [(*key, reason) for key, reason in thinned.items()]


def _fit(kind: str, held_out: pd.DataFrame) -> Fusion:
    target, values = held_out["target"].to_numpy(bool), _columns(held_out)
    try:
        return logistic_fusion(values, target) if kind == "logistic" else equal_fusion(values[~target])
    except MetricError as error:
        raise DataError(
            f"there is no {kind} fusion: {error}",
            cause="too few training speakers to hold some out, or an extractor that hears nothing in them",
            remedy="name a larger training set by dataset.train=DIR, or leave the fusion out",
        ) from error


def _columns(table: pd.DataFrame) -> np.ndarray:
    names = [name for name in table if str(name).startswith("score.")]
    return np.asarray(table[names].to_numpy(np.float64))


def _joined(work: Work, name: str, file: str, ids: list[str], same: list[str]) -> tuple[pd.DataFrame, list[list[str]]]:
    """The rows that all inputs have, with their scores as ``score.0``, ``score.1``, ...; and the others with the reason.

    Raises:
        DataError: inputs differ in a column that has to be the same.
    """
    tables: list[pd.DataFrame] = []
    while work.has(f"{name}.{len(tables)}"):
        scored = pd.read_parquet(work.input(f"{name}.{len(tables)}").path(file))
        tables.append(scored.set_index(ids).rename(columns={"score": f"score.{len(tables)}"}))
    # In the order of the first, whatever pandas makes of an intersection.
    common = tables[0].index
    for scored in tables[1:]:
        common = common[common.isin(scored.index)]
    table = tables[0].loc[common]
    for number, scored in enumerate(tables[1:], 1):
        kept = scored.loc[common]
        for column in same:
            if not (table[column].to_numpy() == kept[column].to_numpy()).all():
                raise DataError(
                    f"scores to fuse contradict each other on the {column.replace('_', ' of the ')} of a trial",
                    where=f"inputs {name}.0 and {name}.{number}",
                    cause="scores of different lists of trials",
                )
        table = table.join(kept[[f"score.{number}"]])
    lost = []
    for key in sorted({key for scored in tables for key in scored.index} - set(common)):
        lacking = ", ".join(str(number) for number, scored in enumerate(tables) if key not in scored.index)
        lost.append([" ".join(key), f"no score in {lacking}"])
    return table.reset_index(), lost
