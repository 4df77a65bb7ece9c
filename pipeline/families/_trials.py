"""What families of trial scores share: their counts, and trials as the metric core takes them."""

from __future__ import annotations

import numpy as np

from pipeline import metrics
from pipeline.contracts import Trials


def counts(data: Trials) -> dict[str, int]:
    """Counts for the rows."""
    return {
        "n_expected": data.n_expected,
        "n_used": len(data.scores),
        "n_speakers": len(np.unique(data.models)),
        "n_target": int(data.target.sum()),
        "n_nontarget": int((~data.target).sum()),
    }


def coded(data: Trials) -> metrics.Trials:
    """The trials with speakers as numbers, as the metric core takes them."""
    _, codes = np.unique(np.concatenate([data.models, data.speakers]), return_inverse=True)
    return metrics.Trials(data.scores, codes[: len(data.scores)], codes[len(data.scores) :])
