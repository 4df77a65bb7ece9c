"""Linkability of pseudo-voices across two runs of a random system: M_P0P1 and its diagonal dominance.

See pipeline/metrics/README.md, section 11.

Run P0 and run P1 differ in the seed of the system alone. A diagonal in M_P0P1 says that what one run makes of a
speaker's voice points to what another run makes of it: sessions can be linked.

Conventions: scores and matrices as of :mod:`pipeline.metrics.vsm`; all values are fractions, and lower is more
private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Undefined
from pipeline.metrics._result import quantity
from pipeline.metrics.normalised import defined, or_nan
from pipeline.metrics.uncertainty import BySpeaker
from pipeline.metrics.vsm import FLAT, SimilarityMatrix, checked_pairs
from pipeline.metrics.vsm_uncertainty import ReweightedPairs

LINKAGE_BOUNDS: Mapping[str, tuple[float, float]] = {
    "d_diag_p0p1": (0.0, 1.0),
    "d_diag_p0p1_signed": (-1.0, 1.0),
    "p0p1_ratio": (0.0, math.inf),
}
"""The measures that get an interval, with their ranges."""


@dataclass(frozen=True)
class Linkage:
    """What the similarity matrix of two runs says; a value that does not exist is None, with its reason in ``reasons``."""

    d_diag_p0p1: float = quantity("fraction", "diagonal dominance of P0P1", "lower", bounds=(0.0, 1.0))
    d_diag_p0p1_signed: float = quantity("fraction", "diagonal dominance of P0P1 with its sign", bounds=(-1.0, 1.0))
    p0p1_ratio: float | None = quantity(
        "fraction",
        "D_diag(P0P1)/D_diag(PP): 0 no link between runs, 1 a link as strong as within a run",
        "lower",
        bounds=(0.0, math.inf),
    )
    reasons: Mapping[str, str] = quantity("", "why a value is missing, by name")


def p0p1_ratio(d_pp: float, d_p0p1: float) -> float:
    """D_diag(P0P1)/D_diag(PP): 0 no link between runs, 1 a link as strong as within one run; it may exceed 1.

    Args:
        d_pp: diagonal dominance of the first run with itself.
        d_p0p1: that of the first run with the second.

    Raises:
        Undefined: D_diag(PP) is 0.
    """
    if d_pp <= FLAT:
        raise Undefined("the matrix of the first run has no diagonal: D_diag(PP) is 0")
    return d_p0p1 / d_pp


def linkage(pp: SimilarityMatrix, p0p1: SimilarityMatrix) -> Linkage:
    """Diagonal dominance of P0P1 and its ratio to that of PP.

    Args:
        pp: similarity matrix of the first run.
        p0p1: that of the first run (rows) with the second (columns), over the same speakers.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import linkage, similarity_matrix
        >>> speakers = [0, 0, 1, 1, 2, 2]
        >>> llr = np.where(np.equal.outer(speakers, speakers), 2.0, -2.0)
        >>> pp, p0p1 = (similarity_matrix(llr / k, speakers, scores_are_llr=True) for k in (1, 4))
        >>> round(linkage(pp, p0p1).p0p1_ratio, 3)
        0.322
    """
    reasons: dict[str, str] = {}
    ratio = defined("p0p1_ratio", reasons, p0p1_ratio, pp.d_diag, p0p1.d_diag)
    return Linkage(p0p1.d_diag, p0p1.signed, ratio, reasons)


def linkage_by_speaker(
    pp: npt.NDArray[Any],
    p0p1: npt.NDArray[Any],
    speakers: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    similarity: str = "geometric_mean",
    self_pairs: str = "drop",
) -> BySpeaker:
    """The measures in :data:`LINKAGE_BOUNDS` as a function of speaker weights, for intervals.

    Args:
        pp, p0p1: dense scores [n, n]; in ``p0p1`` rows are the first run and columns the second.
        speakers, names, similarity: as of :func:`pipeline.metrics.similarity_matrix`; all ordered pairs are compared.
        self_pairs: ``drop`` or ``keep``, in P0P1, the two versions of one utterance.

    Raises:
        MetricError: as of ``similarity_matrix``.
    """
    parts = []
    for scores, kept in ((pp, "drop"), (p0p1, self_pairs)):
        values, pairs, _ = checked_pairs(scores, speakers, names, pairing="all", self_pairs=kept)
        parts.append(ReweightedPairs(values, pairs, similarity, scores_are_llr=False))
    n_speakers = parts[0].n_speakers

    def evaluate(weights: Array) -> dict[str, float]:
        within, across = (part(weights)[0] for part in parts)
        ratio = or_nan(p0p1_ratio, abs(within), abs(across))
        return {"d_diag_p0p1": abs(across), "d_diag_p0p1_signed": across, "p0p1_ratio": ratio}

    return BySpeaker(evaluate, np.arange(n_speakers), n_speakers - 1, LINKAGE_BOUNDS)
