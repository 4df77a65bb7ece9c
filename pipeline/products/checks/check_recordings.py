"""Whether a system that was run gave one recording for several, by which it is judged beside the results; and whether a program of the
user's anonymised at all."""

from __future__ import annotations

from dataclasses import asdict, replace

import pandas as pd

from pipeline.datasets import resemblance
from pipeline.datasets.resemblance import Resemblance
from pipeline.engine.task import Work
from pipeline.errors import DataError
from pipeline.tables import manifest, records

VERSION = "sameness check 2"


def check_recordings(work: Work) -> None:
    """Write which of the system's recordings of the originals ``listed`` hold one sound
    (:class:`pipeline.datasets.resemblance.IdenticalAudio`). It stays in the store: a run that finds everything done reads no audio for it.

    Raises:
        DataError: the program left all recordings as they were, or writes a wrong sampling rate.
    """
    listed: pd.DataFrame = work.input("listed")
    manifest_rows = manifest.matching(manifest.rows_of(work.input("audio")), listed)
    originals, rows = listed.to_dict("records"), manifest_rows.to_dict("records")
    same = resemblance.find_identical(originals, rows)
    if "parameter_correlation" in manifest_rows:
        beside = Resemblance(originals, rows, manifest_rows["parameter_correlation"].tolist())
        for _, what in beside.faults():
            raise DataError(
                f"the program of the system does not anonymise: {what}",
                cause="it passes its input through, or writes another sampling rate than its samples have",
                remedy="run it by hand on one of your recordings, and listen to what it writes",
            )
        same = replace(same, doubts=tuple(beside.doubts()))
    records.write(work.folder(), asdict(same))
