"""Calibration trained on one run and applied to another, and the disclosure that is left, C_ECE (Noe 2022, Eq. 15-16).

See pipeline/metrics/README.md, sections 3 and 10.

Conventions: higher scores mean more similar; a map gives natural-log LLRs; C_ECE and Cllr are bits. Run f0 trains,
run f1 is attacked; they differ in the randomness of the system alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pipeline.metrics._base import (
    Array,
    Indices,
    Mask,
    MetricError,
    Undefined,
    check_choice,
    check_classes,
    check_vector,
    quantity,
)
from pipeline.metrics.information import D_ECE_MAX, cllr, cllr_min, cllr_of_blocks, d_ece, d_ece_of_blocks, d_ece_oracle
from pipeline.metrics.pav import Calibration, Rows, calibrate, calibrate_rows
from pipeline.metrics.trials import Trials
from pipeline.metrics.uncertainty import BySpeaker

METHODS = ("linear", "isotonic")
BETWEEN = ("step", "linear")
_NO_SLOPE = "the training scores lie too close together, or too far apart, for the slope of a linear calibration"


@dataclass(frozen=True)
class Linear:
    """The affine map llr = slope * score + offset (natural log)."""

    slope: float = quantity("nat", "LLR per unit of score")
    offset: float = quantity("nat", "LLR of a score of 0")

    def apply(self, scores: npt.ArrayLike) -> Array:
        """LLR [n] of each score; infinite scores give infinite LLRs (the offset, for a slope of 0).

        Raises:
            MetricError: NaN.
        """
        s = check_vector(scores, "scores")
        with np.errstate(over="ignore"):
            return np.full(s.size, self.offset) if self.slope == 0 else self.slope * s + self.offset


@dataclass(frozen=True)
class Isotonic:
    """A PAV map with the Laplace rule, held at the end values outside the trained range."""

    calibration: Calibration = quantity("", "the PAV map")
    highest: Array = quantity("", "[b] highest trained score of each block")
    between: str = quantity("label", "step: the lower block's value between two blocks; linear: interpolated")

    def apply(self, scores: npt.ArrayLike) -> Array:
        """LLR [n] of each score.

        Raises:
            MetricError: NaN.
        """
        s = check_vector(scores, "scores")
        if self.between == "step":
            return self.calibration.apply(s)
        knots = np.column_stack([self.calibration.lowest, self.highest]).ravel()
        return np.interp(s, knots, np.repeat(self.calibration.llr, 2))


@dataclass(frozen=True)
class CEce:
    """Disclosure that an attacker reaches who calibrated on run f0 and attacks run f1."""

    method: str = quantity("label", "linear or isotonic")
    c_ece: float = quantity(
        "bit",
        "D_ECE of the scores of f1 under the map of f0; 0 worthless, negative misleading",
        "lower",
        bounds=(-math.inf, D_ECE_MAX),
    )
    cllr_l_phi: float = quantity(
        "bit", "Cllr of the scores of f1 under the map of f0", "higher", bounds=(0.0, math.inf)
    )
    cllr_f1: float = quantity(
        "bit", "Cllr of the scores of f1 taken as LLRs, uncalibrated", "higher", bounds=(0.0, math.inf)
    )
    cllr_min_f1: float = quantity("bit", "Cllr of f1 after its own oracle calibration", "higher", bounds=(0.0, 1.0))
    d_ece_f0: float = quantity("bit", "D_ECE of f0 after its own oracle calibration", "lower", bounds=(0.0, D_ECE_MAX))
    d_ece_f1: float = quantity("bit", "D_ECE of f1 after its own oracle calibration", "lower", bounds=(0.0, D_ECE_MAX))


def linear_calibration(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> Linear:
    """The affine map of least Cllr (logistic regression with both classes weighed equally: LLRs, not posteriors).

    Args:
        target, nontarget: finite scores [T], [N] of the training run.

    Raises:
        MetricError: NaN, infinite scores, an empty class.
        Undefined: the classes do not overlap: the slope grows without bound; or numbers are too coarse for a slope.
    """
    t, n = check_classes(target, nontarget)
    is_target = np.concatenate([np.ones(t.size, dtype=np.bool_), np.zeros(n.size, dtype=np.bool_)])
    return weighted_linear(np.concatenate([t, n]), is_target, np.ones(is_target.size))


def weighted_linear(scores: Array, is_target: Mask, weights: Array, start: Linear | None = None) -> Linear:
    """:func:`linear_calibration` of weighted scores; the weights of either class are brought to the same sum.

    Args:
        scores: [n] finite where there is weight.
        is_target: [n].
        weights: [n] 0 or more.
        start: a map that is near, such as that of all scores when some are left out.

    Raises:
        MetricError: infinite scores, a class without weight.
        Undefined: the classes do not overlap, or the scores lie too close together or too far apart for a slope.
    """
    weighted = weights > 0
    if not weighted.all():
        scores, is_target, weights = scores[weighted], is_target[weighted], weights[weighted]
    t, n = scores[is_target], scores[~is_target]
    for array, name in ((t, "target"), (n, "non-target")):
        if not array.size:
            raise MetricError(f"there is no {name} score")
    if not np.isfinite(scores).all():
        raise MetricError("linear calibration cannot be trained on infinite scores")
    if scores.min() == scores.max():
        return Linear(0.0, 0.0)
    if n.max() <= t.min() or t.max() <= n.min():
        raise Undefined("the training scores of the two classes do not overlap: linear calibration has no finite slope")
    largest = float(np.abs(scores).max())
    if not 1e-100 <= largest <= 1e100:
        return _scaled(scores, is_target, weights, largest)
    centre, scale = float(scores.mean()), float(scores.std())
    if scale <= 0:
        raise Undefined(_NO_SLOPE)
    slope, offset = (0.0, 0.0) if start is None else (start.slope * scale, start.offset + start.slope * centre)
    slope, offset = _fit_logistic((scores - centre) / scale, is_target, weights, slope, offset)
    return Linear(slope / scale, offset - slope * centre / scale)


def _fit_logistic(x: Array, is_target: Mask, weights: Array, slope: float, offset: float) -> tuple[float, float]:
    """Slope and offset of least Cllr of standardised scores [n], by Newton's method from the ones given."""
    sign = np.where(is_target, 1.0, -1.0)
    weight = 0.5 * weights / np.where(is_target, weights[is_target].sum(), weights[~is_target].sum())

    def loss(slope: float, offset: float) -> float:
        return float(weight @ np.logaddexp(0.0, -sign * (slope * x + offset)))

    value = loss(slope, offset)
    for _ in range(200):
        wrong = expit(-sign * (slope * x + offset))
        residual = -weight * sign * wrong
        curvature = weight * wrong * (1 - wrong)
        gradient = np.array([residual @ x, residual.sum()])
        hessian = np.array([[curvature @ x**2, curvature @ x], [curvature @ x, curvature.sum()]])
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError as error:
            raise Undefined(_NO_SLOPE) from error
        if not np.isfinite(step).all():
            raise Undefined(_NO_SLOPE)
        size = 1.0
        while size > 1e-10 and loss(slope - size * step[0], offset - size * step[1]) > value:
            size /= 2
        slope, offset = slope - size * float(step[0]), offset - size * float(step[1])
        previous, value = value, loss(slope, offset)
        if float(gradient @ step) < 1e-20 or size <= 1e-10 or previous - value < 0:
            break
    return slope, offset


def _scaled(scores: Array, is_target: Mask, weights: Array, largest: float) -> Linear:
    """The map of scores of extreme size: that of the scores times a power of two."""
    power = -math.frexp(largest)[1]
    # In two steps: one power of two would leave the range of numbers where the scores are denormal.
    scaled = weighted_linear(np.ldexp(np.ldexp(scores, power // 2), power - power // 2), is_target, weights)
    try:
        slope = math.ldexp(scaled.slope, power)
    except OverflowError as error:
        raise Undefined(_NO_SLOPE) from error
    return Linear(slope, scaled.offset)


def isotonic_calibration(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, between: str = "step") -> Isotonic:
    """The PAV map with the Laplace rule, to be applied to other scores.

    Args:
        target, nontarget: scores [T], [N] of the training run.
        between: ``step`` or ``linear`` interpolation between blocks (``linear`` wants finite scores).

    Raises:
        MetricError: NaN, an empty class, infinite scores with ``linear``.
    """
    check_choice(between, BETWEEN, "between")
    t, n = check_classes(target, nontarget)
    scores = np.sort(np.concatenate([t, n]))
    if between == "linear" and not np.isfinite(scores[[0, -1]]).all():
        raise MetricError("linear interpolation between blocks cannot be trained on infinite scores")
    calibration = calibrate(t, n, laplace=True)
    return Isotonic(calibration, _highest(calibration, scores), between)


def _highest(calibration: Calibration, scores: Array) -> Array:
    """[b] highest of the ascending training scores in each block."""
    ends = np.append(np.searchsorted(scores, calibration.lowest[1:], side="left"), scores.size)
    highest: Array = scores[ends - 1]
    return highest


def c_ece(
    train_target: npt.ArrayLike,
    train_nontarget: npt.ArrayLike,
    target: npt.ArrayLike,
    nontarget: npt.ArrayLike,
    *,
    method: str = "linear",
    between: str = "step",
) -> CEce:
    """C_ECE in bits: calibrate on run f0, apply to run f1 of another randomness, take D_ECE of the result.

    Args:
        train_target, train_nontarget: scores of f0.
        target, nontarget: scores of f1.
        method: ``linear`` (c_lin) or ``isotonic`` (c_iso, Laplace rule, end values held).
        between: for ``isotonic``, ``step`` or ``linear`` between blocks.

    Raises:
        MetricError: NaN, an empty class, infinite training scores with a linear method.
        Undefined: the training classes do not overlap (``linear``).

    Example:
        >>> from pipeline.metrics import c_ece
        >>> first = [2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]
        >>> second = [0.5, 2.0, 1.0, -0.2], [0.3, -1.0, 0.8, -2.0, -0.5]
        >>> found = c_ece(*first, *second)
        >>> round(found.c_ece, 3), round(found.d_ece_f1, 3)  # the map of f0 reaches less than the best one
        (0.176, 0.399)
    """
    check_choice(method, METHODS, "method")
    mapping: Linear | Isotonic
    if method == "linear":
        mapping = linear_calibration(train_target, train_nontarget)
    else:
        mapping = isotonic_calibration(train_target, train_nontarget, between=between)
    llr_target, llr_nontarget = mapping.apply(target), mapping.apply(nontarget)
    return CEce(
        method=method,
        c_ece=d_ece(llr_target, llr_nontarget),
        cllr_l_phi=cllr(llr_target, llr_nontarget),
        cllr_f1=cllr(target, nontarget),
        cllr_min_f1=cllr_min(target, nontarget),
        d_ece_f0=d_ece_oracle(train_target, train_nontarget),
        d_ece_f1=d_ece_oracle(target, nontarget),
    )


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
    check_choice(calibration, METHODS, "calibration")
    check_choice(between, BETWEEN, "between")
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
            trained = self.train.rows(train)
            calibration = calibrate_rows(trained, laplace=True)
            highest = _highest(calibration, trained.lowest[trained.target + trained.nontarget > 0])
            mapping = Isotonic(calibration, highest, self.between)
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
        products: Array = speakers[self.enrolled] * np.where(self.is_target, 1.0, speakers[self.spoken])
        return products

    def rows(self, weights: Array) -> Rows:
        """Weights of either class along the distinct scores."""
        parts = np.where(self.is_target, weights, 0.0), np.where(self.is_target, 0.0, weights)
        target, nontarget = (np.bincount(self.row, part, self.distinct.size).astype(np.float64) for part in parts)
        return Rows(target, nontarget, self.distinct)
