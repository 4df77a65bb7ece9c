"""Settings of intervals and null bands, and how families ask the metric core for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pipeline import metrics
from pipeline.contracts import ComponentSettings, numeric
from pipeline.seeds import generator

Bounds = dict[str, tuple[float, float]]


class UncertaintySettings(ComponentSettings):
    """Settings of intervals and null bands, over speakers (pipeline/metrics/README.md, section 3).

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
