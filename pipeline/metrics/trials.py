"""A list of trials, and all its metrics from one sort.

Conventions: higher scores mean more similar; a trial is a target where the enrolled speaker spoke. Units and
directions stand in the fields of the result (:func:`pipeline.metrics.describe`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, Mask, MetricError, check_classes, check_codes, check_vector, quantity
from pipeline.metrics.detection import TprAtFpr, eer_kaldi, eer_rocch, eer_speechbrain, tpr_at_fpr_sorted
from pipeline.metrics.information import (
    D_ECE_MAX,
    EceProfile,
    cllr,
    cllr_of_blocks,
    d_ece_of_blocks,
    ece_profile_of_blocks,
    l_w_ceiling,
    l_w_of_blocks,
    tag,
)
from pipeline.metrics.pav import calibrate_rows, count_rows


@dataclass(frozen=True)
class Ascending:
    """Trials by ascending score."""

    scores: Array
    """[n]."""
    enrolled: npt.NDArray[Any]
    """[n] codes."""
    spoken: npt.NDArray[Any]
    """[n] codes."""
    begins: Mask
    """[n] whether the score differs from the one before."""

    @cached_property
    def rank(self) -> npt.NDArray[np.int32]:
        """[n] rank of the score, equal ones sharing theirs."""
        rank: npt.NDArray[np.int32] = np.cumsum(self.begins, dtype=np.int32) - 1
        return rank


@dataclass(frozen=True)
class Trials:
    """Scores with the speakers on both sides."""

    scores: Array
    """[n] score of each trial; higher means more similar."""
    enrolled: Indices
    """[n] code of the claimed (enrolled) speaker, in one numbering with ``spoken``."""
    spoken: Indices
    """[n] code of the speaker of the trial utterance; the trial is a target where both codes agree."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", check_vector(self.scores, "scores"))
        object.__setattr__(self, "enrolled", check_codes(self.enrolled, "enrolled speakers"))
        object.__setattr__(self, "spoken", check_codes(self.spoken, "speakers of the trial utterances"))
        if not self.scores.shape == self.enrolled.shape == self.spoken.shape:
            raise MetricError(f"{self.scores.size} scores, {self.enrolled.size} and {self.spoken.size} speakers")
        for present, name in ((self.is_target.any(), "target"), ((~self.is_target).any(), "non-target")):
            if not present:
                raise MetricError(f"there is no {name} score")

    @property
    def is_target(self) -> Mask:
        same: Mask = np.equal(self.enrolled, self.spoken)
        return same

    @cached_property
    def ascending(self) -> Ascending:
        """The trials by ascending score; of a long list it takes seconds."""
        order = np.argsort(self.scores)
        scores = self.scores[order]
        begins = np.concatenate(([True], scores[1:] != scores[:-1]))
        # Short integers are sorted and moved more quickly.
        narrow: type[np.integer[Any]] = np.int16 if self.n_codes < 2**15 else np.int32
        return Ascending(scores, self.enrolled.astype(narrow)[order], self.spoken.astype(narrow)[order], begins)

    @cached_property
    def models(self) -> Indices:
        """Codes of the enrolled speakers, ascending."""
        return np.flatnonzero(np.bincount(self.enrolled))

    @cached_property
    def speakers(self) -> Indices:
        """Codes of the speakers of either side, ascending."""
        n = self.n_codes
        return np.flatnonzero(np.bincount(self.enrolled, minlength=n) + np.bincount(self.spoken, minlength=n))

    @property
    def n_codes(self) -> int:
        return int(max(self.enrolled.max(), self.spoken.max())) + 1


@dataclass(frozen=True)
class TrialMetrics:
    """What a set of target and non-target scores says."""

    n_target: int = quantity("count", "target trials")
    n_nontarget: int = quantity("count", "non-target trials")
    eer: Mapping[str, float] = quantity(
        "fraction", "equal error rate by variant: rocch (0.5 at most), kaldi, speechbrain", "higher", bounds=(0.0, 1.0)
    )
    cllr: float = quantity("bit", "cost of the scores taken as natural-log LLRs", "higher", bounds=(0.0, math.inf))
    cllr_min: float = quantity("bit", "cost after oracle calibration", "higher", bounds=(0.0, 1.0))
    cllr_cal: float = quantity("bit", "calibration loss, cllr - cllr_min", bounds=(0.0, math.inf))
    d_ece: float = quantity(
        "bit", "disclosed information on average, PAV without the Laplace rule", "lower", bounds=(0.0, D_ECE_MAX)
    )
    l_w: float = quantity(
        "log10", "largest |LLR| of a trial, PAV with the Laplace rule", "lower", bounds=(0.0, math.inf)
    )
    l_w_ceiling: float = quantity("log10", "largest l_w that this number of trials can show")
    tag: str = quantity("label", "category of l_w, 0 (best) and A to F", "lower")
    tpr_at_fpr: tuple[TprAtFpr, ...] = quantity("fraction", "true-positive rate at FPR 1 % and 0.1 %", "lower")
    ece_profile: EceProfile = quantity("bit", "ECE of the oracle-calibrated scores against prior log-odds")


def trial_metrics(
    target: npt.ArrayLike, nontarget: npt.ArrayLike, *, fprs: tuple[float, ...] = (0.01, 0.001)
) -> TrialMetrics:
    """Every metric of a set of trials, sorted once.

    Args:
        target, nontarget: scores [T], [N]; higher means more similar; infinities are allowed.
        fprs: false-positive rates at which the true-positive rate is wanted.

    Raises:
        MetricError: NaN or an empty class.

    Example:
        >>> from pipeline.metrics import describe, trial_metrics
        >>> found = trial_metrics([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5])
        >>> {variant: round(rate, 4) for variant, rate in found.eer.items()}
        {'rocch': 0.1429, 'kaldi': 0.25, 'speechbrain': 0.225}
        >>> round(found.cllr_min, 4), round(found.d_ece, 4), found.tag
        (0.3021, 0.501, 'A')
        >>> found.tpr_at_fpr[0].reason
        '5 non-target scores cannot show a false-positive rate of 0.01'
        >>> describe(found)["d_ece"]["unit"], describe(found)["d_ece"]["private"]
        ('bit', 'lower')
    """
    t, n = check_classes(target, nontarget)
    t, n = np.sort(t), np.sort(n)
    rows = count_rows(t, n)
    plain = calibrate_rows(rows, laplace=False)
    worst = l_w_of_blocks(calibrate_rows(rows, laplace=True))
    raw, least = cllr(t, n), cllr_of_blocks(plain)
    return TrialMetrics(
        n_target=t.size,
        n_nontarget=n.size,
        eer={
            "rocch": eer_rocch(plain.target, plain.nontarget),
            "kaldi": eer_kaldi(t, n),
            "speechbrain": eer_speechbrain(t, n),
        },
        cllr=raw,
        cllr_min=least,
        cllr_cal=raw - least,
        d_ece=d_ece_of_blocks(plain),
        l_w=worst,
        l_w_ceiling=l_w_ceiling(t.size, n.size),
        tag=tag(worst),
        tpr_at_fpr=tuple(tpr_at_fpr_sorted(t, n, fpr) for fpr in fprs),
        ece_profile=ece_profile_of_blocks(plain, np.linspace(-10.0, 10.0, 201)),
    )
