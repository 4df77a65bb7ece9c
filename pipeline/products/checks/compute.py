"""Whether the scores of an attack order the classes the right way round, by which it is judged beside the results."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from pipeline.engine.task import Work
from pipeline.metrics import class_order, eer
from pipeline.tables import records, scores

VERSION = "order check 1"


def run(work: Work) -> None:
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
    found = class_order(values, target, enrolled, spoken, two_sided_ids=two_sided)
    said = {"reversed": found.is_reversed, "doubtful": found.is_doubtful}
    turned = eer(-values[target], -values[~target]) if any(said.values()) else None
    records.write(work.folder(), {**asdict(found), **said, "eer_turned": turned})
