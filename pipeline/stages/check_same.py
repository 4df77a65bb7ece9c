"""Whether a system that was run gave one recording for several, by which it is judged beside the results."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from pipeline.datasets import sameness
from pipeline.engine.task import Work
from pipeline.tables import manifest, records

VERSION = 1


def run(work: Work) -> None:
    """Write which of the system's recordings of the originals ``listed`` hold one sound
    (:class:`pipeline.datasets.sameness.Sameness`). It stays in the store: a run that finds everything done reads no audio for it."""
    listed: pd.DataFrame = work.input("listed")
    theirs = manifest.matching(manifest.rows_of(work.input("audio")), listed)
    records.write(work.folder(), asdict(sameness.find(listed.to_dict("records"), theirs.to_dict("records"))))
