"""Intervals and null bands of similarity rank disclosure over speakers (METRIC_NOTES 1b, 8).

Inputs are reweighted by their speaker; the N references stay. Under the null hypothesis the identities of the
references are permuted as wholes, so that inputs which share a pseudo-voice stay together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array
from pipeline.metrics.srd import Ranks, disclosure, rank_all, rank_histogram, true_ranks
from pipeline.metrics.uncertainty import (
    FEWEST_PERMUTED,
    Interval,
    NullBand,
    no_band,
    null_band,
    speaker_intervals,
    zero_error_limit,
)

NULL_METRICS = ("max_d", "mean_d", "rank_spread")


def srd_intervals(
    similarity: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    ties: str = "spread",
    weights: npt.ArrayLike | None = None,
    method: str = "jackknife",
    level: float = 0.95,
    replicates: int = 1000,
    generator: np.random.Generator | None = None,
) -> dict[str, Interval]:
    """Intervals of ``mean_d`` and ``idr``; MaxD and the rank spread have a null band instead.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd.srd`.
        method: ``jackknife`` (t quantile with speakers - 1 degrees of freedom), ``percentile`` or ``bca``.
        replicates, generator: for the bootstraps.

    Raises:
        MetricError: as of ``srd``; an unknown method; a bootstrap without a generator.
    """
    t = np.asarray(truth, dtype=np.int64)
    ranks = true_ranks(similarity, t)
    n_references = np.asarray(similarity).shape[1]
    base = np.ones(t.size) if weights is None else np.asarray(weights, dtype=np.float64)

    def evaluate(speaker_weights: Array) -> dict[str, float]:
        found = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=base * speaker_weights[t]))
        return {"mean_d": found.mean_d, "idr": found.idr}

    speakers = np.unique(t)
    intervals = speaker_intervals(
        evaluate,
        speakers,
        n_references,
        degrees=speakers.size - 1,
        bounds={"mean_d": (0.0, float(np.log2(n_references))), "idr": (0.0, 1.0)},
        method=method,
        level=level,
        replicates=replicates,
        generator=generator,
    )
    rate = evaluate(np.ones(n_references))["idr"]
    limit = zero_error_limit(speakers.size, level)
    if rate <= 0:
        intervals["idr"] = Interval(0.0, limit, "zero_errors", level, speakers.size, "")
    elif rate >= 1 - 1e-12:
        intervals["idr"] = Interval(1 - limit, 1.0, "zero_errors", level, speakers.size, "")
    return intervals


def srd_null_bands(
    similarity: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    generator: np.random.Generator,
    ties: str = "spread",
    weights: npt.ArrayLike | None = None,
    replicates: int = 1000,
) -> dict[str, NullBand]:
    """Null bands of ``max_d``, ``mean_d`` and ``rank_spread``: the references' identities are permuted.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd.srd`.

    Raises:
        MetricError: as of ``srd``.
    """
    t = np.asarray(truth, dtype=np.int64)
    true_ranks(similarity, t)
    best, worst = rank_all(similarity)
    n, n_references = best.shape
    if n_references < FEWEST_PERMUTED:
        return {
            name: no_band(f"permuting {n_references} references gives too few arrangements") for name in NULL_METRICS
        }
    row = np.arange(n)

    def measure(identity: npt.NDArray[np.int64]) -> dict[str, float]:
        column = identity[t]
        ranks = Ranks(best[row, column].astype(np.int64), worst[row, column].astype(np.int64))
        found = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=weights))
        return {name: getattr(found, name) for name in NULL_METRICS}

    value = measure(np.arange(n_references))
    draws = [measure(generator.permutation(n_references)) for _ in range(replicates)]
    mean = value["mean_d"], [draw["mean_d"] for draw in draws]
    return {
        name: null_band(
            value[name],
            [draw[name] for draw in draws],
            leaks="low" if name == "rank_spread" else "high",
            tie=None if name == "mean_d" else mean,
        )
        for name in NULL_METRICS
    }
