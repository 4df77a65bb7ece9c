"""Numbers by which an attack is judged, beside the results: see :mod:`pipeline.diagnostics.sentences`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from pipeline.engine.task import Artefact, Work
from pipeline.metrics import trial_metrics
from pipeline.metrics.treatment import treatment
from pipeline.stages.score import SCORES
from pipeline.tables.vectors import Vectors

VERSION = 1
NUMBERS = "numbers.json"


def verification(work: Work) -> None:
    """Write the EER (ROCCH, a fraction) of scores."""
    scores = pd.read_parquet(work.input("scores").path(SCORES))
    values, target = scores["score"].to_numpy(np.float64), scores["target"].to_numpy(bool)
    found = trial_metrics(values[target], values[~target])
    _write(work, {"eer": found.eer["rocch"], "n_target": int(target.sum()), "n_nontarget": int((~target).sum())})


def treated(work: Work) -> None:
    """Write how similar anonymised enrolment and trial utterances are to their originals."""
    enrolment = _both(work.input("enrolment_original"), work.input("enrolment_protected"))
    trial = _both(work.input("trial_original"), work.input("trial_protected"))
    found = treatment(enrolment[0], enrolment[1], trial[0], trial[1], enrolment[2], trial[2])
    _write(work, asdict(found))


def _both(original: Vectors, protected: Vectors) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Vectors of the utterances that are usable before and after, and their speakers."""
    kept = np.flatnonzero((original.weights > 0) & (protected.weights > 0))
    return original.vectors[kept], protected.vectors[kept], [original.speakers[row] for row in kept]


def _write(work: Work, numbers: dict[str, Any]) -> None:
    (work.folder() / NUMBERS).write_text(json.dumps(numbers, indent=2, sort_keys=True, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def read(made: Artefact) -> dict[str, Any]:
    """The numbers of a check."""
    found: dict[str, Any] = json.loads(made.path(NUMBERS).read_text())
    return found
