"""What all measures of trial scores share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pipeline import metrics
from pipeline.data.measured import Trials
from pipeline.registry import ComponentSettings, generator, numeric

Bounds = dict[str, tuple[float, float]]
Method = Literal["jackknife", "percentile", "bca", "none"]


class TrialMeasureSettings(ComponentSettings):
    """Intervals of trial metrics (METRIC_NOTES 1b).

    Attributes:
        interval: ``jackknife`` (delete one speaker, bias-corrected, t quantiles), ``percentile`` or ``bca`` (bootstraps over
            speakers, which cover too little with few speakers), or ``none``.
        replicates: of bootstraps and of null bands (enrolment models permuted whole); 0 leaves the bands out.
        seed: of the draws.
    """

    interval: Method = numeric("jackknife")
    replicates: int = numeric(1000, ge=0)
    seed: int = numeric(0, ge=0)


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


def uncertainty(settings: TrialMeasureSettings, data: Trials, names: Sequence[str]) -> Bounds:
    """Intervals by metric."""
    if settings.interval == "none" or not names:
        return {}
    found = metrics.trial_intervals(
        coded(data),
        metrics=tuple(names),
        method=settings.interval,
        replicates=settings.replicates,
        generator=generator(settings.seed, "bootstrap over speakers"),
    )
    return bounds(found)


def bounds(found: Mapping[str, Any]) -> Bounds:
    """The intervals that exist."""
    return {
        name: (each.low, each.high) for name, each in found.items() if each.low is not None and each.high is not None
    }


def bands(settings: TrialMeasureSettings, data: Trials, names: Sequence[str]) -> Bounds:
    """Null bands by metric: what systems that protect everybody show, with as many trials and speakers."""
    if not settings.replicates:
        return {}
    found = metrics.trial_null_bands(
        coded(data),
        generator=generator(settings.seed, "null band over enrolment models"),
        replicates=settings.replicates,
        metrics=tuple(names),
    )
    return bounds(found)
