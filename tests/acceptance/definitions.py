"""Measures of trials from their definitions, with numpy alone: no code of the package, and plain rather than fast."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

Array = np.ndarray
STEP, FAR = 0.05, 60.0
"""Of the sum over prior log-odds that stands for the integral: its error is far below 1e-12."""


def blocks(target: Array, nontarget: Array, laplace: bool = False) -> list[tuple[int, int]]:
    """(Targets, non-targets) of the blocks of pool-adjacent-violators, ascending; with ``laplace`` those of two more of each class, one
    below and one above everything."""
    distinct = np.unique(np.concatenate([target, nontarget]))
    cells = [(int((target == score).sum()), int((nontarget == score).sum())) for score in distinct]
    stack: list[tuple[int, int]] = []
    for cell in [(1, 1), *cells, (1, 1)] if laplace else cells:
        stack.append(cell)
        while len(stack) > 1 and stack[-2][0] * sum(stack[-1]) >= stack[-1][0] * sum(stack[-2]):
            (t0, n0), (t1, n1) = stack[-2:]
            stack[-2:] = [(t0 + t1, n0 + n1)]
    return stack


def llrs(pooled: Sequence[tuple[int, int]], n_target: int, n_nontarget: int) -> Array:
    """Natural logarithms of the likelihood ratios of blocks."""
    t, n = np.array(pooled, dtype=np.float64).T
    with np.errstate(divide="ignore"):
        found: Array = np.log(t) - np.log(n) + np.log(n_nontarget) - np.log(n_target)
    return found


def d_ece(target: Array, nontarget: Array) -> float:
    """The integral over the prior of its entropy less the empirical cross-entropy of the scores, calibrated on themselves; in bits."""
    pooled = blocks(target, nontarget)
    llr = llrs(pooled, target.size, nontarget.size)
    t, n = np.array(pooled, dtype=np.float64).T
    odds = np.arange(-FAR, FAR + STEP / 2, STEP)
    prior = 1 / (1 + np.exp(-odds))

    def cost(x: Array) -> Array:
        found: Array = np.logaddexp(0, x) / np.log(2)
        return found

    missed = cost(-(llr[t > 0, None] + odds))
    alarms = cost(llr[n > 0, None] + odds)
    empirical = prior * (t[t > 0] @ missed) / target.size + (1 - prior) * (n[n > 0] @ alarms) / nontarget.size
    entropy = prior * cost(-odds) + (1 - prior) * cost(odds)
    return float(((entropy - empirical) * prior * (1 - prior)).sum() * STEP)


def eer(target: Array, nontarget: Array) -> float:
    """Where the convex hull of the ROC crosses Pmiss = Pfa: the lowest crossing of any segment between two of its points."""
    thresholds = np.append(np.unique(np.concatenate([target, nontarget])), np.inf)
    missed = (target[:, None] < thresholds).mean(axis=0)
    alarms = (nontarget[:, None] >= thresholds).mean(axis=0)
    above = missed >= alarms
    m0, f0 = missed[~above, None], alarms[~above, None]
    m1, f1 = missed[None, above], alarms[None, above]
    crossing = m0 + (m1 - m0) * (f0 - m0) / ((f0 - m0) + (m1 - f1))
    return float(crossing.min())


def l_w(target: Array, nontarget: Array) -> tuple[float, float]:
    """The strongest evidence of any trial with Laplace's rule, in powers of ten, and the most that so many trials can reach."""
    sizes = target.size, nontarget.size
    # The four scores of the rule stand in the outermost blocks; a block of them alone is of no trial.
    pooled = blocks(target, nontarget, laplace=True)
    llr = np.abs(llrs(pooled, *sizes))
    alone = [place for place in (0, len(pooled) - 1) if pooled[place] == (1, 1)]
    kept = np.delete(llr, alone)
    t, n = sizes
    return float(kept.max() / np.log(10)), float(np.log10(max((t + 1) * n / t, (n + 1) * t / n)))


def tag(strongest: float) -> str:
    """The letter of Table 1 of Noé et al. 2022."""
    return next(letter for letter, end in zip("0ABCDEF", (1e-12, 1, 2, 4, 5, 6, np.inf)) if strongest < end)


# --- what each speaker contributes, and swaps ------------------------------------------------------------------------


def contributions(value: float, without: Sequence[float]) -> Array:
    """[S] pseudo-values of the jackknife by the number of speakers."""
    n = len(without)
    found: Array = (n * value - (n - 1) * np.array(without)) / n
    return found


def contend(attacks: Array, stratum: Array, enrolled: Sequence[int], beyond: float = 0.999) -> Array:
    """Which of some attacks [A, S] may be the strongest: not certainly below the one with the highest sum."""
    behind = attacks - attacks[np.argmax(attacks.sum(axis=1))]
    parts = np.stack(
        [behind[:, stratum == k].var(axis=1, ddof=1) * (stratum == k).sum() for k in range(len(enrolled))], axis=1
    )
    variance = parts.sum(axis=1)
    freedom = variance**2 / np.maximum((parts**2 / (np.array(enrolled) - 1)).sum(axis=1), 1e-300)
    reach = np.where(variance > 0, student.ppf(beyond, np.maximum(freedom, 1)) * np.sqrt(variance), 0.0)
    found: Array = np.flatnonzero(behind.sum(axis=1) >= -reach - 1e-12)
    return found


def swapped(a: Array, b: Array) -> float:
    """The two-sided p-value of that one system, b [B, S], and another, a [A, S], give away equally much, each under its strongest attack."""
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=a.shape[1])))
    return min(1.0, 2 * min(_above(a, b, signs), _above(b, a, signs)))


def _above(a: Array, b: Array, signs: Array) -> float:
    """Of that b is not above a: the worst over attacks on a of the share of swaps in which the best of b is as far above it."""
    worst = 0.0
    for against in a:
        parts = b - against
        root = np.sqrt((parts**2).sum(axis=1))
        statistic = (signs @ parts.T / np.where(root > 0, root, 1.0)).max(axis=1)
        worst = max(worst, float((statistic >= statistic[0] - 1e-12).mean()))
    return worst


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, as he words it: the k-th smallest times what is left, and never below one before it."""
    ordered = sorted(p_values)
    n = len(ordered)
    return [min(1.0, max((n - k) * ordered[k] for k in range(ordered.index(p) + 1))) for p in p_values]
