"""The strongest evidence among trials, for a claim and against it, and on how few utterances it stands.

See pipeline/metrics/README.md, section 7.

With Laplace's rule the end blocks of PAV follow from counts alone: M targets above every non-target give
ln((M + 1) N/T), whatever their scores. So the value is never given without its count.

Conventions: higher scores mean more similar; LLRs are natural logarithms (l_w is the largest of both, in log10); lower
is more private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.metrics._checks import classes
from pipeline.metrics._result import quantity
from pipeline.metrics.candidate_rank import clopper_pearson
from pipeline.metrics.pav import calibrate_rows, count_rows
from pipeline.metrics.trials import Trials


@dataclass(frozen=True)
class WorstEvidence:
    """Largest LLRs of an oracle calibration by Laplace's rule, with their counts and ceilings."""

    eps_plus: float = quantity("nat", "largest LLR of a trial: evidence for the claim", "lower")
    eps_minus: float = quantity("nat", "minus the smallest LLR: evidence against the claim (exclusion)", "lower")
    eps: float = quantity("nat", "the larger of the sizes of both: l_w times ln 10", "lower")
    eps_targets: float = quantity("nat", "largest |LLR| among targets alone, as some tables print it", "lower")
    ceiling_plus: float = quantity("nat", "the largest LLR that so many trials can show")
    ceiling_minus: float = quantity("nat", "the largest evidence against a claim that so many trials can show")
    top_targets: int = quantity("count", "targets above every non-target")
    top_target_speakers: int = quantity("count", "speakers of these targets")
    bottom_nontargets: int = quantity("count", "non-targets below every target")
    top_block: tuple[int, int] = quantity("count", "targets and non-targets in the highest block of PAV")
    top_low: float | None = quantity(
        "nat", "indicative lower limit of the LLR above every non-target, trials taken as independent"
    )
    eps_reversed: float = quantity("nat", "largest |LLR| of the negated scores")
    reversed: bool = quantity("", "the negated scores show more: classes may be the wrong way round")
    reason: str = quantity("", "why there is no lower limit, or empty")


def worst_evidence(trials: Trials) -> WorstEvidence:
    """Strongest evidence for and against the claims of a trial list.

    Args:
        trials: scores with the speakers of both sides; infinities are allowed.

    Raises:
        MetricError: an empty class.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import Trials, worst_evidence
        >>> trials = Trials(np.array([3.0, 1.0, 2.0, 0.0, 0.5, 0.2]), np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 1, 0, 1, 0]))
        >>> found = worst_evidence(trials)
        >>> round(found.eps_plus, 3), round(found.ceiling_plus, 3), found.top_targets, found.top_target_speakers
        (1.386, 1.792, 1, 1)
    """
    own = trials.is_target
    target, nontarget = classes(trials.scores[own], trials.scores[~own])
    t, n = np.sort(target), np.sort(nontarget)
    blocks = calibrate_rows(count_rows(t, n), laplace=True)
    high, low = float(blocks.llr[-1]), float(blocks.llr[0])
    held = np.abs(blocks.llr[blocks.target > 0])
    backwards = calibrate_rows(count_rows(-t[::-1], -n[::-1]), laplace=True)
    eps_targets = float(held.max())
    eps_reversed = float(np.abs(backwards.llr).max())
    above = own & (trials.scores > n[-1])
    n_above = int(above.sum())
    limit = None
    if n_above:
        limit = math.log(clopper_pearson(n_above, t.size, 0.05)[0] / clopper_pearson(0, n.size, 0.05)[1])
    return WorstEvidence(
        eps_plus=max(high, 0.0),
        eps_minus=max(-low, 0.0),
        eps=max(abs(high), abs(low)),
        eps_targets=eps_targets,
        ceiling_plus=math.log((t.size + 1) * n.size / t.size),
        ceiling_minus=math.log((n.size + 1) * t.size / n.size),
        top_targets=n_above,
        top_target_speakers=np.unique(trials.spoken[above]).size,
        bottom_nontargets=int((n < t[0]).sum()),
        top_block=(int(blocks.target[-1]), int(blocks.nontarget[-1])),
        top_low=limit,
        eps_reversed=eps_reversed,
        reversed=eps_reversed > max(abs(high), abs(low)) + 1e-12,
        reason="" if n_above else "no target stands above every non-target",
    )
