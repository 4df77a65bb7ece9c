"""What measures share: settings of intervals and null bands, how they are made, and trials as the core takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from pipeline import metrics
from pipeline.contracts import Trials
from pipeline.registry import ComponentSettings, generator, numeric

Bounds = dict[str, tuple[float, float]]


class UncertaintySettings(ComponentSettings):
    """Settings of intervals and null bands, over speakers.

    Attributes:
        interval: ``jackknife`` (delete one speaker, bias-corrected, t quantiles), ``percentile`` or ``bca`` (bootstraps
            over speakers, which cover too little with few speakers), or ``none``.
        replicates: of bootstraps, and of null bands where there are any (enrolment models or references permuted
            whole); 0 leaves the bands out.
        seed: of the draws.
    """

    interval: Literal["jackknife", "percentile", "bca", "none"] = numeric("jackknife")
    replicates: int = numeric(1000, ge=0)
    seed: int = numeric(0, ge=0)


def intervals(settings: UncertaintySettings, metric: Callable[[], metrics.BySpeaker]) -> Bounds:
    """The intervals that exist, by the name of the value; ``metric`` is called where intervals are wanted."""
    if settings.interval == "none":
        return {}
    return _bounds(
        metrics.intervals(
            metric(),
            method=settings.interval,
            replicates=settings.replicates,
            generator=generator(settings.seed, "bootstrap over speakers"),
        )
    )


def bands(settings: UncertaintySettings, metric: Callable[[], metrics.ByIdentity], purpose: str) -> Bounds:
    """The null bands that exist, by name: what systems that protect everybody show, with as much data.

    Args:
        metric: called where bands are wanted.
        purpose: of the draws, which it seeds.
    """
    if not settings.replicates:
        return {}
    random = generator(settings.seed, purpose)
    return _bounds(metrics.null_bands(metric(), generator=random, replicates=settings.replicates))


def _bounds(found: Mapping[str, metrics.Interval] | Mapping[str, metrics.NullBand]) -> Bounds:
    return {
        name: (each.low, each.high) for name, each in found.items() if each.low is not None and each.high is not None
    }


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
