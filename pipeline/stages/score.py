"""Score the trials of one set: enrolment models against trial utterances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pipeline.engine.task import Work
from pipeline.protocol.trials import TrialSet
from pipeline.registry import component
from pipeline.stages import fit
from pipeline.tables.vectors import Vectors

VERSION = 1
SCORES = "scores.parquet"


def run(settings: Any, work: Work) -> None:
    """Write ``scores.parquet`` (model, utterance, score, target, and the speakers of both), joined on ids.

    Trials that lost their model or their utterance (nothing could be extracted) are left out and named in the record;
    the results say how many were expected and how many used.
    """
    trials: TrialSet = work.input("trials")
    enrolment: Vectors = work.input("enrolment")
    trial: Vectors = work.input("trial")
    lost = [*enrolment.unusable(), *trial.unusable()]
    enrolment, trial = enrolment.usable(), trial.usable()

    rows = {name: row for row, name in enumerate(enrolment.ids)}
    members = trials.enrolment[trials.enrolment["utterance"].isin(rows)]
    models = sorted(members["model"].unique())
    number = {model: row for row, model in enumerate(models)}
    backend = component("backends", settings.name).Backend(settings, fit.folder(work))
    enrolled = backend.enrol(
        enrolment.vectors[[rows[name] for name in members["utterance"]]],
        np.array([number[model] for model in members["model"]]),
        len(models),
    )
    matrix = backend.score(enrolled, trial.vectors)

    column = {name: place for place, name in enumerate(trial.ids)}
    table = trials.trials
    table = table[table["model"].isin(number) & table["utterance"].isin(column)]
    scores = matrix[
        [number[model] for model in table["model"]],
        [column[name] for name in table["utterance"]],
    ]
    speaker = dict(zip(trial.ids, trial.speakers))
    claimed = dict(zip(enrolment.ids, enrolment.speakers))
    model_speaker = {model: claimed[name] for model, name in zip(members["model"], members["utterance"])}
    made = pd.DataFrame(
        {
            "model_speaker": [model_speaker[model] for model in table["model"]],
            "speaker": [speaker[name] for name in table["utterance"]],
            "model": table["model"].astype(str).to_numpy(),
            "utterance": table["utterance"].astype(str).to_numpy(),
            "score": scores.astype(np.float64),
            "target": table["target"].astype(bool).to_numpy(),
        }
    ).sort_values(["model", "utterance"], kind="stable")
    made.to_parquet(work.folder() / SCORES, index=False)
    work.note(lost=[list(entry) for entry in lost], n_expected=len(trials.trials), n_used=len(made))
