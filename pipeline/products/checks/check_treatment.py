"""How enrolment and trials were changed by a system, by which an attack is judged beside the results."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from pipeline.contracts import Vectors
from pipeline.engine.task import Work
from pipeline.metrics.treatment import treatment
from pipeline.tables import records

VERSION = "treatment check 1"


def run(work: Work) -> None:
    """Write how similar anonymised enrolment and trial utterances are to their originals."""
    enrolment = _both(work.input("enrolment_original"), work.input("enrolment_protected"))
    trial = _both(work.input("trial_original"), work.input("trial_protected"))
    found = treatment(enrolment[0], enrolment[1], trial[0], trial[1], enrolment[2], trial[2])
    records.write(work.folder(), asdict(found))


def _both(original: Vectors, protected: Vectors) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Vectors of the utterances that are usable before and after, and their speakers."""
    kept = np.flatnonzero((original.weights > 0) & (protected.weights > 0))
    return original.vectors[kept], protected.vectors[kept], [original.speakers[row] for row in kept]
