"""How well an embedding tells speakers apart whom it was not trained on, and which of two checkpoints is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.metrics.detection import eer
from pipeline.metrics.information import cllr_min

VERSION = "held-out verification 1"


@dataclass(frozen=True)
class Verified:
    """How well cosines tell the speakers of excerpts apart.

    Attributes:
        eer: fraction.
        cllr_min: bits.
        speakers, n_target, n_nontarget: counts.
        same_session: targets are parts of one utterance.
    """

    eer: float
    cllr_min: float
    speakers: int
    n_target: int
    n_nontarget: int
    same_session: bool

    def is_better_than(self, before: Mapping[str, Any]) -> bool:
        """Whether a checkpoint is better than the best before it, given as ``eer`` and ``cllr_min``.

        Its EER must be lower by more than half a standard error; within that, which is noise, the lower minimum Cllr decides: it
        changes with every score, where the EER counts a few at one threshold.
        """
        noise = 0.5 * math.sqrt(max(self.eer * (1 - self.eer), 0.0) / self.n_target)
        if abs(self.eer - before["eer"]) > noise:
            return self.eer < float(before["eer"])
        return self.cllr_min < float(before["cllr_min"])


def verify_pairs(
    vectors: np.ndarray, first: np.ndarray, second: np.ndarray, target: np.ndarray, speakers: int, same_session: bool
) -> Verified:
    """The cosines of pairs (``first`` and ``second``, int64 [pairs]) of vectors [n, d]; ``target`` says which are of one speaker."""
    units = to_units(vectors)
    scores = (units @ units.T)[first, second]
    same, others = scores[target], scores[~target]
    return Verified(eer(same, others), cllr_min(same, others), speakers, len(same), len(others), same_session)


def to_units(vectors: np.ndarray) -> np.ndarray:
    """Vectors [n, d] brought to length 1, float64."""
    wide = vectors.astype(np.float64)
    units: np.ndarray = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return units
