"""What an attack is judged by beside the results: how its scores order the classes, an EER of other scores, and how enrolment and trials
were changed."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from pipeline.contracts import Vectors
from pipeline.engine.task import Work
from pipeline.metrics import class_order, eer, trial_metrics
from pipeline.metrics.treatment import treatment
from pipeline.tables import records, scores

VERSION = "attack checks 1"


def check_order(work: Work) -> None:
    """Write how the scores order the classes, and the EER (ROCCH, a fraction) that they have when turned round.

    Without a target or without a non-target there is no order, and ``auc`` is None.
    """
    table = pd.read_parquet(work.input("scores").path(scores.TRIALS))
    values, target = table["score"].to_numpy(np.float64), table["target"].to_numpy(bool)
    if target.all() or not target.any():
        records.write(work.folder(), {"auc": None})
        return
    codes, _ = pd.factorize(pd.concat([table["model_speaker"], table["speaker"]], ignore_index=True))
    enrolled, spoken = codes[: len(table)], codes[len(table) :]
    two_sided = bool(set(table["model"]) & set(table["utterance"]))
    order = class_order(values, target, enrolled, spoken, two_sided_ids=two_sided)
    verdict = {"reversed": order.is_reversed, "doubtful": order.is_doubtful}
    turned = eer(-values[target], -values[~target]) if any(verdict.values()) else None
    records.write(work.folder(), {**asdict(order), **verdict, "eer_turned": turned})


def check_scores(work: Work) -> None:
    """Write the EER (ROCCH, a fraction) of scores."""
    table = pd.read_parquet(work.input("scores").path(scores.TRIALS))
    values, target = table["score"].to_numpy(np.float64), table["target"].to_numpy(bool)
    measured = trial_metrics(values[target], values[~target])
    counts = {"n_target": int(target.sum()), "n_nontarget": int((~target).sum())}
    records.write(work.folder(), {"eer": measured.eer["rocch"], **counts})


def check_treatment(work: Work) -> None:
    """Write how similar anonymised enrolment and trial utterances are to their originals."""
    enrolment = _usable(work.input("enrolment_original"), work.input("enrolment_protected"))
    trial = _usable(work.input("trial_original"), work.input("trial_protected"))
    compared = treatment(enrolment[0], enrolment[1], trial[0], trial[1], enrolment[2], trial[2])
    records.write(work.folder(), asdict(compared))


def _usable(original: Vectors, protected: Vectors) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Vectors of the utterances that are usable before and after, and their speakers."""
    kept = np.flatnonzero((original.weights > 0) & (protected.weights > 0))
    return original.vectors[kept], protected.vectors[kept], [original.speakers[row] for row in kept]
