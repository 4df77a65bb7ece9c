"""Error rates of accepting and rejecting claims: equal error rate in three definitions, TPR at a given FPR.

See pipeline/metrics/README.md, sections 4 and 15.

Conventions: higher scores mean more similar; rates are fractions. A higher EER is more private, 0.5 is chance; equal
scores are accepted or rejected together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, MetricError, check_choice, check_classes, quantity
from pipeline.metrics.pav import calibrate_rows, count_rows

EER_VARIANTS = ("rocch", "kaldi", "speechbrain")


@dataclass(frozen=True)
class TprAtFpr:
    """True-positive rate at a false-positive rate."""

    fpr: float = quantity("fraction", "allowed false-positive rate")
    tpr: float | None = quantity("fraction", "share of targets accepted at that rate, ties counted whole", "lower")
    false_alarms: int = quantity("count", "non-targets that may be accepted at that rate")
    few: bool = quantity("", "fewer than 10 false alarms: the value is coarse")
    reason: str = quantity("", "why there is no value, or empty")


def eer(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, variant: str = "rocch") -> float:
    """Equal error rate, a fraction.

    Args:
        target, nontarget: scores [T], [N]; higher means more similar; infinities are allowed.
        variant: ``rocch`` (on the convex hull of the ROC; at most 0.5), ``kaldi`` (``compute-eer``, used by VPC 2020
            and 2022), ``speechbrain`` (first minimum of |FAR - FRR| over the scores, used by VPC 2024 and 2026; here
            in exact arithmetic). The last two can exceed 0.5.

    Raises:
        MetricError: NaN, an empty class, an unknown variant.

    Example:
        >>> from pipeline.metrics import eer
        >>> target, nontarget = [2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]
        >>> eer(target, nontarget)  # on the convex hull of the ROC
        0.14285714285714285
        >>> eer(target, nontarget, variant="kaldi"), eer(target, nontarget, variant="speechbrain")
        (0.25, 0.225)
    """
    check_choice(variant, EER_VARIANTS, "variant")
    t, n = check_classes(target, nontarget)
    t, n = np.sort(t), np.sort(n)
    if variant == "kaldi":
        return eer_kaldi(t, n)
    if variant == "speechbrain":
        return eer_speechbrain(t, n)
    blocks = calibrate_rows(count_rows(t, n), laplace=False)
    return eer_rocch(blocks.target, blocks.nontarget)


def eer_rocch(target: Array, nontarget: Array) -> float:
    """EER on the ROC convex hull, from the counts of PAV blocks [b]; exact in integers up to the last division."""
    accepted = np.concatenate(([0.0], np.cumsum(nontarget)))
    missed = np.concatenate(([0.0], np.cumsum(target)))
    n_target, n_nontarget = missed[-1], accepted[-1]
    alarms = n_nontarget - accepted
    k = int(np.argmax(missed * n_nontarget >= alarms * n_target))
    m0, m1, f0, f1 = missed[k - 1], missed[k], alarms[k - 1], alarms[k]
    return float((m1 * f0 - m0 * f1) / ((m1 - m0) * n_nontarget + (f0 - f1) * n_target))


def eer_kaldi(target: npt.NDArray[Any], nontarget: npt.NDArray[Any]) -> float:
    """Kaldi's EER of two ascending score vectors: k/T of the first target k above the non-target at the mirrored rank."""
    n_target, n_nontarget = target.size, nontarget.size
    k = np.arange(n_target)
    mirrored = np.maximum(n_nontarget - 1 - n_nontarget * k // n_target, 0)
    above = nontarget[mirrored] < target
    # compute-eer stops at the last target whatever its score.
    above[-1] = True
    return float(np.argmax(above) / n_target)


def eer_speechbrain(target: npt.NDArray[Any], nontarget: npt.NDArray[Any]) -> float:
    """SpeechBrain's EER of two ascending score vectors.

    A threshold at a score or between two scores rejects everything up to that score, so the candidates are the states
    after each distinct score. FRR - FAR rises strictly over them: only the two states at its change of sign compete.
    """
    n_target, n_nontarget = target.size, nontarget.size

    def state(score: Any) -> tuple[int, int]:
        misses = int(np.searchsorted(target, score, side="right"))
        alarms = n_nontarget - int(np.searchsorted(nontarget, score, side="right"))
        return misses, alarms

    def excess(score: Any) -> int:
        misses, alarms = state(score)
        return misses * n_nontarget - alarms * n_target

    def first(scores: npt.NDArray[Any]) -> int:
        low, high = 0, scores.size
        while low < high:
            middle = (low + high) // 2
            if excess(scores[middle]) >= 0:
                high = middle
            else:
                low = middle + 1
        return low

    at_target, at_nontarget = first(target), first(nontarget)
    reached = [s[i] for s, i in ((target, at_target), (nontarget, at_nontarget)) if i < s.size]
    before = [s[i - 1] for s, i in ((target, at_target), (nontarget, at_nontarget)) if i > 0]
    upper = state(min(reached))
    best = upper
    if before:
        lower = state(max(before))
        gap_lower = lower[1] * n_target - lower[0] * n_nontarget
        if gap_lower <= upper[0] * n_nontarget - upper[1] * n_target:
            best = lower
    return (best[0] * n_nontarget + best[1] * n_target) / (2 * n_target * n_nontarget)


def tpr_at_fpr(target: npt.ArrayLike, nontarget: npt.ArrayLike, fpr: float) -> TprAtFpr:
    """True-positive rate at the strictest threshold that lets at most ``fpr`` of the non-targets pass.

    Equal scores are accepted or rejected together and nothing is interpolated.

    Raises:
        MetricError: NaN, an empty class, ``fpr`` outside (0, 1).

    Example:
        >>> from pipeline.metrics import tpr_at_fpr
        >>> tpr_at_fpr([2.0, 1.0, 3.0, 0.5], [0.7, -1.0, 1.5, -2.0, -0.5], 0.2).tpr  # 1.5 may pass, 0.7 may not
        0.75
    """
    t, n = check_classes(target, nontarget)
    return tpr_at_fpr_sorted(np.sort(t), np.sort(n), fpr)


def tpr_at_fpr_sorted(target: npt.NDArray[Any], nontarget: npt.NDArray[Any], fpr: float) -> TprAtFpr:
    """:func:`tpr_at_fpr` of two ascending score vectors."""
    if not 0 < fpr < 1:
        raise MetricError(f"fpr must lie between 0 and 1, not {fpr}")
    # 0.001 * 1000 must count as one false alarm whatever the rounding of the product.
    alarms = int(np.floor(fpr * nontarget.size * (1 + 1e-12)))
    if alarms < 1:
        reason = f"{nontarget.size} non-target scores cannot show a false-positive rate of {fpr:g}"
        return TprAtFpr(fpr, None, alarms, True, reason)
    first_refused = nontarget[-1 - alarms]
    accepted = target.size - np.searchsorted(target, first_refused, side="right")
    return TprAtFpr(fpr, float(accepted / target.size), alarms, alarms < 10, "")
