"""Similarity rank disclosure by speaker and by identity, for intervals and null bands.

See pipeline/metrics/README.md, sections 3 and 13.

Inputs are weighted by their speaker; the N references stay. Under the null hypothesis the identities of the
references are permuted as wholes, so that inputs which share a pseudo-voice stay together.

Conventions: as of :mod:`pipeline.metrics.srd`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Indices
from pipeline.metrics.srd import Ranks, disclosure, rank_all, rank_histogram, true_ranks
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker

NULL_METRICS = ("max_d", "mean_d", "rank_spread")


def srd_by_speaker(
    similarity: npt.ArrayLike, truth: npt.ArrayLike, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> BySpeaker:
    """``mean_d`` and ``idr`` as a function of speaker weights, for intervals; MaxD and RS have a null band instead.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd.srd`.

    Raises:
        MetricError: as of ``srd``.
    """
    t = np.asarray(truth, dtype=np.int64)
    ranks = true_ranks(similarity, t)
    n_references = np.asarray(similarity).shape[1]
    base = np.ones(t.size) if weights is None else np.asarray(weights, dtype=np.float64)

    def evaluate(speaker_weights: Array) -> dict[str, float]:
        found = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=base * speaker_weights[t]))
        return {"mean_d": found.mean_d, "idr": found.idr}

    speakers = np.unique(t)
    return BySpeaker(
        evaluate,
        speakers,
        degrees=speakers.size - 1,
        bounds={"mean_d": (0.0, float(np.log2(n_references))), "idr": (0.0, 1.0)},
        rates={"idr": (0.0, 1.0)},
        n_rated=speakers.size,
    )


def srd_by_identity(
    similarity: npt.ArrayLike, truth: npt.ArrayLike, ties: str = "spread", weights: npt.ArrayLike | None = None
) -> ByIdentity:
    """``max_d``, ``mean_d`` and ``rank_spread`` as a function of the references' identities, for null bands.

    Equal MaxD and RS are told apart by MeanD.

    Args:
        similarity, truth, ties, weights: as of :func:`pipeline.metrics.srd.srd`.

    Raises:
        MetricError: as of ``srd``.
    """
    t = np.asarray(truth, dtype=np.int64)
    true_ranks(similarity, t)
    best, worst = rank_all(similarity)
    n, n_references = best.shape
    row = np.arange(n)

    def evaluate(identity: Indices) -> dict[str, float]:
        column = identity[t]
        ranks = Ranks(best[row, column].astype(np.int64), worst[row, column].astype(np.int64))
        found = disclosure(rank_histogram(ranks, n_references, ties=ties, weights=weights))
        return {"max_d": found.max_d, "mean_d": found.mean_d, "rank_spread": found.rank_spread}

    return ByIdentity(
        evaluate,
        [np.arange(n_references)],
        "references",
        NULL_METRICS,
        ties={"max_d": "mean_d", "rank_spread": "mean_d"},
        low=("rank_spread",),
    )
