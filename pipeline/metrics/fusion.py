"""Fusion of scores of several extractors (or back ends) for the same trials into one.

Each kind of scores is first brought to a common scale: less the mean of non-targets of other speakers than those under test,
divided by their standard deviation (z-normalisation; the standard deviation is divided by the number). Then the fused score is

    sum_k w_k z_k + b

with equal weights 1 / K and b = 0, or with those of a logistic regression on the scores of held-out speakers (Brümmer et al. 2007),
in which targets and non-targets weigh the same. Weights are not negative: each kind of scores is higher for the more similar, and
a weight below 0 would be noise of few held-out speakers. A small square penalty keeps them finite where the held-out scores are
separable. With a prior of one half, the fused score of the logistic kind is a natural-log likelihood ratio, as far as the held-out
speakers stand for those under test.

Conventions: higher scores mean more similar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, MetricError, quantity

VERSION = "fusion 1"

PENALTY = 1e-4
"""Half of it times the squared weights is added to the mean cost in nats, where each class has half of the weight."""


@dataclass(frozen=True)
class Fusion:
    """How K kinds of scores become one."""

    kind: Literal["equal", "logistic"] = quantity("label", "how the weights were found")
    mean: Array = quantity("", "[K] mean of each kind over non-targets")
    spread: Array = quantity("", "[K] standard deviation of each kind over non-targets")
    weights: Array = quantity("", "[K] weight of each kind, normalised by mean and spread; not negative")
    offset: float = quantity("", "what is added to the weighted sum")

    def fused(self, scores: npt.ArrayLike) -> Array:
        """The fused scores [n] of scores [n, K].

        Raises:
            MetricError: another number of kinds, or scores that are not finite.
        """
        return np.asarray((_matrix(scores, len(self.mean)) - self.mean) / self.spread @ self.weights + self.offset)


def equal_fusion(nontarget: npt.ArrayLike) -> Fusion:
    """Equal weights of z-normalised scores.

    Args:
        nontarget: [m, K] scores of non-targets: a cohort, such as held-out training speakers.

    Raises:
        MetricError: fewer than two of them, scores that are not finite, or a kind that is the same for all.

    Example:
        >>> from pipeline.metrics import equal_fusion
        >>> equal_fusion([[0.0, 10.0], [2.0, 30.0]]).fused([[3.0, 40.0], [1.0, 20.0]]).tolist()
        [2.0, 0.0]
    """
    mean, spread = _scale(_matrix(nontarget))
    return Fusion("equal", mean, spread, np.full(len(mean), 1 / len(mean)), 0.0)


def logistic_fusion(scores: npt.ArrayLike, target: npt.ArrayLike, *, penalty: float = PENALTY) -> Fusion:
    """Weights of z-normalised scores by logistic regression with a prior of one half.

    Where no kind of scores tells targets from non-targets (all weights would be 0), weights are equal: an attacker who cannot tell
    which is best does not stop.

    Args:
        scores: [m, K] of held-out trials.
        target: bool [m].
        penalty: see :data:`PENALTY`.

    Raises:
        MetricError: an empty class, scores that are not finite, or a kind that is the same for all non-targets.

    Example:
        >>> from pipeline.metrics import logistic_fusion
        >>> found = logistic_fusion([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]], [False, False, True, True])
        >>> bool(found.weights[0] > 10 * found.weights[1])  # the second kind says nothing
        True
    """
    from scipy.optimize import minimize

    values, mask = _matrix(scores), np.asarray(target, dtype=bool)
    if mask.shape != (len(values),):
        raise MetricError(f"{len(values)} scores and labels of shape {mask.shape}")
    if not mask.any():
        raise MetricError("there is no target score")
    mean, spread = _scale(values[~mask])
    kinds = len(mean)
    design = np.hstack([(values - mean) / spread, np.ones((len(values), 1))])
    sign = np.where(mask, 1.0, -1.0)
    share = np.where(mask, 0.5 / mask.sum(), 0.5 / (~mask).sum())

    def cost(parameters: Array) -> tuple[float, Array]:
        margin = sign * (design @ parameters)
        weights = np.append(parameters[:-1], 0.0)
        value = share @ np.logaddexp(0.0, -margin) + 0.5 * penalty * weights @ weights
        slope = -share * sign * np.exp(-np.logaddexp(0.0, margin))
        return float(value), np.asarray(design.T @ slope + penalty * weights)

    bounds = [(0.0, None)] * kinds + [(None, None)]
    options: Any = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
    solution = minimize(cost, np.zeros(kinds + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    if not solution[:-1].any():
        return Fusion("equal", mean, spread, np.full(kinds, 1 / kinds), 0.0)
    return Fusion("logistic", mean, spread, np.asarray(solution[:-1]), float(solution[-1]))


def _scale(nontarget: Array) -> tuple[Array, Array]:
    """Mean and standard deviation [K] of non-targets [m, K]."""
    if len(nontarget) < 2:
        raise MetricError(f"{len(nontarget)} non-target scores, and a scale takes 2 or more")
    mean, spread = nontarget.mean(axis=0), nontarget.std(axis=0)
    flat = np.flatnonzero(spread <= 1e-12 * (1 + np.abs(mean)))
    if len(flat):
        raise MetricError(f"the scores of kind {flat[0]} are the same for all non-targets: there is no scale")
    return mean, spread


def _matrix(scores: npt.ArrayLike, kinds: int | None = None) -> Array:
    """Scores as float64 [n, K], K >= 1, all finite."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or not values.shape[1] or kinds not in (None, values.shape[1]):
        expected = "K" if kinds is None else kinds
        raise MetricError(f"scores to fuse must be of shape [n, {expected}], not {values.shape}")
    finite = np.asarray(np.isfinite(values).all(axis=1))
    if not finite.all():
        raise MetricError(
            f"{int((~finite).sum())} of {len(values)} trials have scores that are not finite: they cannot be fused"
        )
    return values
