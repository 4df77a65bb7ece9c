"""The EER of some scores, by which an attack is judged beside the results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.engine.task import Work
from pipeline.metrics import trial_metrics
from pipeline.tables import records, scores

VERSION = "eer check 1"


def run(work: Work) -> None:
    """Write the EER (ROCCH, a fraction) of scores."""
    table = pd.read_parquet(work.input("scores").path(scores.TRIALS))
    values, target = table["score"].to_numpy(np.float64), table["target"].to_numpy(bool)
    found = trial_metrics(values[target], values[~target])
    counts = {"n_target": int(target.sum()), "n_nontarget": int((~target).sum())}
    records.write(work.folder(), {"eer": found.eer["rocch"], **counts})
