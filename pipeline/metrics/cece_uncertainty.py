"""C_ECE by speaker, for intervals.

See pipeline/metrics/README.md, sections 3 and 10.

A speaker's weight w enters the calibration on run f0 and the evaluation on run f1 alike: a target trial weighs w_i, a
non-target trial w_i w_j. A speaker left out is thus unknown to the attacker who calibrates, and not attacked.

Conventions: as of :mod:`pipeline.metrics.calibration`; both runs are in one numbering of speakers.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.metrics._checks import Array, Indices, choice
from pipeline.metrics.calibration import BETWEEN, METHODS, Isotonic, Linear, weighted_isotonic, weighted_linear
from pipeline.metrics.cllr import cllr_of_blocks
from pipeline.metrics.ece import D_ECE_MAX, d_ece_of_blocks
from pipeline.metrics.pav import Calibration, Rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import BySpeaker

CECE_BOUNDS = {"c_ece": (-math.inf, D_ECE_MAX), "cllr_l_phi": (0.0, math.inf)}
"""The values that get an interval, with their ranges."""


def c_ece_by_speaker(first: Trials, second: Trials, *, calibration: str = "linear", between: str = "step") -> BySpeaker:
    """C_ECE and the Cllr under the map of f0 as a function of speaker weights (the same in both runs), for intervals.

    Args:
        first: scores of f0, on which the map is trained.
        second: scores of f1, in the same numbering of speakers.
        calibration: ``linear`` or ``isotonic``, with ``between`` as of :func:`pipeline.metrics.c_ece`.

    Raises:
        MetricError: an unknown calibration, infinite training scores with a linear map.
        Undefined: the training classes do not overlap (``linear``).
    """
    choice(calibration, METHODS, "calibration")
    choice(between, BETWEEN, "between")
    return BySpeaker(
        Recalibrated(first, second, calibration, between),
        np.unique(np.concatenate([first.enrolled, first.spoken, second.enrolled, second.spoken])),
        degrees=np.unique(second.enrolled).size - 1,
        bounds=CECE_BOUNDS,
    )


class Recalibrated:
    """C_ECE and Cllr of run f1 under the map of run f0, under speaker weights; each run is sorted once."""

    def __init__(self, first: Trials, second: Trials, calibration: str, between: str) -> None:
        self.linear, self.between = calibration == "linear", between
        self.train, self.test = _Sorted(first), _Sorted(second)
        self.start = None
        if self.linear:
            self.start = weighted_linear(self.train.scores, self.train.is_target, np.ones(self.train.scores.size))

    def __call__(self, weights: Array) -> dict[str, float]:
        """Both values under speaker weights [codes].

        Raises:
            MetricError: a class has no weight; the training classes do not overlap (linear).
        """
        train, test = self.train.weights(weights), self.test.weights(weights)
        mapping: Linear | Isotonic
        if self.linear:
            mapping = weighted_linear(self.train.scores, self.train.is_target, train, self.start)
        else:
            mapping = weighted_isotonic(self.train.rows(train), self.between)
        rows = self.test.rows(test)
        # One block a distinct score of f1; laplace only says that D_ECE may lie below 0.
        blocks = Calibration(rows.lowest, mapping.apply(rows.lowest), rows.target, rows.nontarget, laplace=True)
        return {"c_ece": d_ece_of_blocks(blocks), "cllr_l_phi": cllr_of_blocks(blocks)}


class _Sorted:
    """A run's scores, ascending, with the speakers of each trial and its row of equal scores."""

    def __init__(self, trials: Trials) -> None:
        order = np.argsort(trials.scores, kind="stable")
        self.scores: Array = trials.scores[order]
        self.enrolled: Indices = trials.enrolled[order]
        self.spoken: Indices = trials.spoken[order]
        self.is_target = self.enrolled == self.spoken
        self.distinct, self.row = np.unique(self.scores, return_inverse=True)

    def weights(self, speakers: Array) -> Array:
        """Weight of each trial: w_i of a target, w_i w_j of a non-target."""
        found: Array = speakers[self.enrolled] * np.where(self.is_target, 1.0, speakers[self.spoken])
        return found

    def rows(self, weights: Array) -> Rows:
        """Weights of either class along the distinct scores."""
        size = self.distinct.size
        target = np.bincount(self.row, np.where(self.is_target, weights, 0.0), size).astype(np.float64, copy=False)
        nontarget = np.bincount(self.row, np.where(self.is_target, 0.0, weights), size).astype(np.float64, copy=False)
        return Rows(target, nontarget, self.distinct)
