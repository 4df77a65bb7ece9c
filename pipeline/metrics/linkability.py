"""Linkability: D_sys, and pi_link with its curve over populations; they share a word, not a meaning.

See pipeline/metrics/README.md, section 14.

Conventions: higher scores mean more similar; all are fractions, and lower is more private. Score matrices are
[trials, candidates]; among N' candidates the N' - 1 others are drawn at random, and the mean over all draws has a
closed form; chance is 1/N' with ties ``spread``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, MetricError, Undefined, check_choice, check_classes, quantity
from pipeline.metrics.local_disclosure import exact_mean, speaker_means
from pipeline.metrics.pav import Calibration, calibrate
from pipeline.metrics.rank_disclosure import TIES, true_ranks
from pipeline.metrics.uncertainty import BySpeaker

D_SYS_VARIANTS = ("exact", "vpc")


def d_sys(target: npt.ArrayLike, nontarget: npt.ArrayLike, *, omega: float = 1.0, variant: str = "exact") -> float:
    """Global linkability D_sys in [0, 1] (Gomez-Barrero; Maouche): mean over targets of max(0, 2wLR/(1+wLR) - 1).

    Args:
        target, nontarget: mated and non-mated scores [T], [N].
        omega: prior odds w of mated against non-mated.
        variant: ``exact`` takes likelihood ratios from PAV without the Laplace rule; ``vpc`` is the challenge's rule of
            min(T/10, 100) equal bins and a trapezoid over their centres, for comparison with old numbers.

    Raises:
        MetricError: NaN, an empty class, omega not above 0.
        Undefined: ``vpc`` on scores that are infinite or all equal, or so close that bins between them have no width.

    Example:
        >>> from pipeline.metrics import d_sys
        >>> round(d_sys([2.0, 1.0, 3.0, 0.5], [0.0, -1.0, 1.5, -2.0, -0.5]), 4)
        0.7143
    """
    check_choice(variant, D_SYS_VARIANTS, "variant")
    t, n = check_classes(target, nontarget)
    if not omega > 0:
        raise MetricError(f"omega must be above 0, not {omega}")
    return d_sys_of_blocks(calibrate(t, n), omega) if variant == "exact" else _d_sys_binned(t, n, omega)


def d_sys_of_blocks(blocks: Calibration, omega: float = 1.0) -> float:
    """D_sys from the blocks of a calibration without the Laplace rule."""
    filled = blocks.target > 0
    # 2wLR/(1+wLR) - 1 = tanh(ln(wLR) / 2), which is 1 at LR = inf.
    link = np.maximum(np.tanh((blocks.llr[filled] + np.log(omega)) / 2), 0.0)
    return float(blocks.target[filled] @ link / blocks.n_target)


def _d_sys_binned(t: Array, n: Array, omega: float) -> float:
    bins = min(t.size // 10, 100)
    if bins < 2:
        return 0.0
    low, high = min(t.min(), n.min()), max(t.max(), n.max())
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        raise Undefined("bins of equal width need finite scores that are not all equal")
    largest = max(abs(low), abs(high))
    if not 1e-100 <= largest <= 1e100:
        # Times a power of two, which changes neither order nor result; in two steps, for denormal scores.
        power = -math.frexp(largest)[1]
        t, n = (np.ldexp(np.ldexp(values, power // 2), power - power // 2) for values in (t, n))
        low, high = min(t.min(), n.min()), max(t.max(), n.max())
    edges = np.linspace(low, high, bins + 1)
    if not (np.diff(edges) > 0).all():
        raise Undefined(f"the scores lie too close together for {bins} bins of equal width")
    mated = np.histogram(t, edges, density=True)[0]
    nonmated = np.histogram(n, edges, density=True)[0]
    ratio = np.divide(mated, nonmated, out=np.ones(bins), where=nonmated != 0)
    link = np.maximum(2 * omega * ratio / (1 + omega * ratio) - 1, 0.0)
    link[(nonmated == 0) & (mated != 0)] = 1.0
    centres = (edges[1:] + edges[:-1]) / 2
    return float(np.trapezoid(link * mated, centres))


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
    """pi_link(N') in closed form (Vauquier 2025: ties ``best``, weights ``trial``): how often the true enrolment beats N' - 1 others drawn at
    random. At N' = N it is the identification rate of SRD under the same ties and weights.

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
    check_choice(weights, WEIGHTS, "weights")
    t = np.asarray(truth, dtype=np.int64)
    chances, sizes, tied = _each_trial(scores, t, populations, ties)
    n_candidates = np.asarray(scores).shape[1]
    speakers = np.unique(t)
    if weights == "speaker":
        columns = [speaker_means(column, t, n_candidates)[speakers] for column in chances.T]
    else:
        columns = list(chances.T)
    value = np.array([exact_mean(column) for column in columns])
    return PiLinkCurve(sizes, value, 1.0 / sizes, ties, tied, t.size, speakers.size)


def pi_link_by_speaker(
    scores: npt.ArrayLike, truth: npt.ArrayLike, populations: Sequence[int] | None = None, *, ties: str = "spread"
) -> BySpeaker:
    """``pi_link.N'`` (speakers weighing alike) as a function of speaker weights, for intervals: candidates stay. Arguments and
    MetricError as of :func:`pi_link_curve`."""
    t = np.asarray(truth, dtype=np.int64)
    chances, sizes, _ = _each_trial(scores, t, populations, ties)
    counts = np.bincount(t)[t]
    names = [f"pi_link.{n}" for n in sizes]

    def evaluate(weights: Array) -> dict[str, float]:
        w = weights[t] / counts
        if not w.sum() > 0:
            raise MetricError("no trial is left")
        return dict(zip(names, ((w @ chances) / w.sum()).tolist()))

    rates = [name for name, n in zip(names, sizes) if n > 1]
    return BySpeaker.of_panel(evaluate, np.unique(t), dict.fromkeys(names, POPULATION_BOUNDS), rates)


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
    check_choice(ties, TIES, "ties")
    ranks = true_ranks(scores, truth)
    n_candidates = np.asarray(scores).shape[1]
    if not truth.size:
        raise MetricError("there is no trial")
    sizes = np.arange(1, n_candidates + 1) if populations is None else np.asarray(list(populations), dtype=np.int64)
    if not sizes.size or sizes.min() < 1 or sizes.max() > n_candidates:
        raise MetricError(f"populations must lie between 1 and {n_candidates}, not {sizes.tolist()}")
    # C(K - m, N' - 1)/C(K, N' - 1), [K + 1, P], as a product: nothing overflows.
    n_others, drawn = n_candidates - 1, np.arange(int(sizes.max()) - 1)
    factors = np.maximum(n_others - np.arange(n_candidates)[:, None] - drawn, 0) / (n_others - drawn)
    best = np.concatenate((np.ones((n_candidates, 1)), np.cumprod(factors, axis=1)), axis=1)[:, sizes - 1]
    better, equal = ranks.best - 1, ranks.worst - ranks.best
    cases, where = np.unique(better * n_candidates + equal, return_inverse=True)
    rows = [_broken(best, int(case) // n_candidates, int(case) % n_candidates, ties) for case in cases]
    return np.array(rows)[where], sizes, float((equal > 0).mean())
