"""Value: scores that somebody else made, in the form in which stage ``score`` writes its own."""

from __future__ import annotations

import pandas as pd

from pipeline.engine.task import Work
from pipeline.tables import scores

VERSION = "provided scores 1"


def store_scores(work: Work) -> None:
    """Write ``scores.parquet`` (model_speaker, speaker, model, utterance, score, target) of the input ``given``."""
    table: pd.DataFrame = work.input("given")
    table.to_parquet(work.folder() / scores.TRIALS, index=False)
    scores.write_thinned(work.folder(), [])
    work.note(lost=[], n_expected=len(table), n_used=len(table))
