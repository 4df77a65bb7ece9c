"""Linkability as a curve over the population: how often the true speaker stands first among N' candidates.

See pipeline/metrics/README.md, section 14.

One score matrix gives every population up to its own: the N' - 1 others are drawn at random from all others, and the
mean over all draws has a closed form.

Conventions: scores are [trials, candidates], higher means more similar; values are fractions, lower is more private,
and chance is 1/N' with ties ``spread``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._checks import Array, Indices, MetricError, choice
from pipeline.metrics._result import quantity
from pipeline.metrics.lid import mean_of, speaker_means
from pipeline.metrics.srd import TIES, true_ranks
from pipeline.metrics.uncertainty import BySpeaker

WEIGHTS = ("speaker", "trial")
POPULATION_BOUNDS = (0.0, 1.0)


@dataclass(frozen=True)
class PiLinkCurve:
    """Probability of standing first, by population."""

    population: Indices = quantity("count", "[P] candidates N', the true one among them")
    value: Array = quantity("fraction", "[P] pi_link at each population", "lower", bounds=POPULATION_BOUNDS)
    chance: Array = quantity("fraction", "[P] 1/N'", bounds=POPULATION_BOUNDS)
    ties: str = quantity("label", "spread, best or worst")
    tied: float = quantity("fraction", "share of trials in which another candidate equals the true one")
    n_trials: int = quantity("count", "trials")
    n_speakers: int = quantity("count", "candidates who speak in a trial")


def pi_link_curve(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    populations: Sequence[int] | None = None,
    *,
    ties: str = "spread",
    weights: str = "speaker",
) -> PiLinkCurve:
    """pi_link(N') in closed form; at N' = N it is the identification rate of SRD under the same ties and weights.

    Args:
        scores: [n, N] score of each trial against each candidate; infinities are allowed.
        truth: [n] the true candidate of each trial. Candidates without trials are distractors.
        populations: values of N', 1 to N; default all of them.
        ties: ``spread`` (broken evenly), ``best`` (a tie wins) or ``worst`` (a tie loses).
        weights: ``speaker`` (trials of a speaker, then speakers, weigh alike) or ``trial``.

    Raises:
        MetricError: NaN, shapes that do not fit, no trial, fewer than two candidates, a population outside 1 to N.

    Example:
        >>> from pipeline.metrics import pi_link_curve
        >>> scores = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5]]  # the second item has one better enrolment
        >>> pi_link_curve(scores, [0, 1]).value.tolist()
        [1.0, 0.75, 0.5]
    """
    choice(weights, WEIGHTS, "weights")
    t = np.asarray(truth, dtype=np.int64)
    each, wanted, tied = _each_trial(scores, t, populations, ties)
    n_candidates = np.asarray(scores).shape[1]
    speakers = np.unique(t)
    if weights == "speaker":
        columns = [speaker_means(column, t, n_candidates)[speakers] for column in each.T]
    else:
        columns = list(each.T)
    value = np.array([mean_of(column) for column in columns])
    return PiLinkCurve(wanted, value, 1.0 / wanted, ties, tied, t.size, speakers.size)


def pi_link_by_speaker(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    populations: Sequence[int] | None = None,
    *,
    ties: str = "spread",
    both_roles: bool = False,
) -> BySpeaker:
    """``pi_link.N'`` (speakers weighing alike) as a function of speaker weights, for intervals.

    Args:
        scores, truth, populations, ties: as of :func:`pi_link_curve`.
        both_roles: a speaker who is left out leaves the candidates too, and not the trials alone. Then populations go
            to N - 1, and only the jackknife is defined: weights are 0 or 1.

    Raises:
        MetricError: as of ``pi_link_curve``.
    """
    t = np.asarray(truth, dtype=np.int64)
    s = np.asarray(scores, dtype=np.float64)
    if both_roles and populations is None and s.ndim == 2:
        populations = range(1, s.shape[1])
    each, wanted, _ = _each_trial(s, t, populations, ties)
    n_candidates = s.shape[1]
    if both_roles and wanted.max() >= n_candidates:
        raise MetricError(f"where speakers leave the candidates, populations end at {n_candidates - 1}")
    speakers = np.unique(t)
    names = [f"pi_link.{n}" for n in wanted]

    def evaluate(weights: Array) -> dict[str, float]:
        values, own = each, t
        if both_roles and not (weights == 1).all():
            if not np.isin(weights, (0.0, 1.0)).all():
                raise MetricError("a speaker cannot be a candidate more than once: only the jackknife is defined")
            stay = np.ones(n_candidates, dtype=bool)
            stay[: weights.size] = weights > 0
            own = t[stay[t]]
            left = (np.cumsum(stay) - 1)[own]
            values, _, _ = _each_trial(s[stay[t]][:, stay], left, [int(n) for n in wanted], ties)
        held = np.bincount(own, minlength=n_candidates)
        w = weights[own] / held[own]
        if not w.sum() > 0:
            raise MetricError("no trial is left")
        return dict(zip(names, ((w @ values) / w.sum()).tolist()))

    return BySpeaker(
        evaluate,
        speakers,
        degrees=speakers.size - 1,
        bounds=dict.fromkeys(names, POPULATION_BOUNDS),
        rates={name: (0.0, 1.0) for name, n in zip(names, wanted) if n > 1},
        n_rated=speakers.size,
    )


def _strict(n_others: int, populations: Indices) -> Array:
    """C(K - m, N' - 1)/C(K, N' - 1), [K + 1, P], as a product: nothing overflows."""
    better = np.arange(n_others + 1)[:, None]
    drawn = np.arange(int(populations.max()) - 1)
    factors = np.maximum(n_others - better - drawn, 0) / (n_others - drawn)
    products = np.concatenate((np.ones((n_others + 1, 1)), np.cumprod(factors, axis=1)), axis=1)
    found: Array = products[:, populations - 1]
    return found


def _broken(best: Array, better: int, equal: int, ties: str) -> Array:
    if ties == "best":
        row: Array = best[better]
    elif ties == "worst":
        row = best[better + equal]
    else:
        row = best[better : better + equal + 1].mean(axis=0)
    return row


def _each_trial(
    scores: npt.ArrayLike, truth: Indices, populations: Sequence[int] | None, ties: str
) -> tuple[Array, Indices, float]:
    """Probability [n, P] of each trial, the populations [P], and the share of trials with ties."""
    choice(ties, TIES, "ties")
    ranks = true_ranks(scores, truth)
    n_candidates = np.asarray(scores).shape[1]
    if not truth.size:
        raise MetricError("there is no trial")
    wanted = np.arange(1, n_candidates + 1) if populations is None else np.asarray(list(populations), dtype=np.int64)
    if not wanted.size or wanted.min() < 1 or wanted.max() > n_candidates:
        raise MetricError(f"populations must lie between 1 and {n_candidates}, not {wanted.tolist()}")
    best = _strict(n_candidates - 1, wanted)
    each = np.empty((truth.size, wanted.size))
    better, equal = ranks.best - 1, ranks.worst - ranks.best
    cases, where = np.unique(better * n_candidates + equal, return_inverse=True)
    rows = [_broken(best, int(case) // n_candidates, int(case) % n_candidates, ties) for case in cases]
    each[:] = np.array(rows)[where]
    return each, wanted, float((equal > 0).mean())


def pi_sing_chance(n_speakers: int, per_speaker: int) -> float:
    """Chance of pi_sing with M = ``per_speaker`` calibration items of each of N speakers, for exchangeable scores.

    M C(NM - M + N - 1, N - 1) / C(NM + N, N), with the threshold at the M-th or at the (M+1)-th best calibration score;
    the midpoint of both, which pi_sing uses, lies within a few hundredths.

    Raises:
        MetricError: fewer than two speakers, or M below 1.
    """
    n, m = n_speakers, per_speaker
    if n < 2 or m < 1:
        raise MetricError(f"chance needs two speakers and one calibration item each, not {n} and {m}")
    # C(NM - M + N - 1, N - 1)/C(NM + N, N) as a product of N - 1 factors, times N/(NM + 1).
    drawn = np.arange(n - 1)
    ratio = np.prod((n * m - m + n - 1 - drawn) / (n * m + n - drawn))
    return float(m * n * ratio / (n * m + 1))
