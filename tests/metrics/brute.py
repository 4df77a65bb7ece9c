"""Slow and plain implementations to compare with: exact fractions, loops over pairs. They share no code with the package."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath


def pav_blocks(target, nontarget, laplace=False):
    """[(t, n, scores)] by the textbook stack algorithm on distinct scores, in exact fractions."""
    distinct = sorted(set(target) | set(nontarget))
    cells = [[target.count(s), nontarget.count(s), [s]] for s in distinct]
    if laplace:
        cells = [[1, 1, []], *cells, [1, 1, []]]
    stack = []
    for cell in cells:
        stack.append([cell[0], cell[1], list(cell[2])])
        while len(stack) > 1:
            (t0, n0, s0), (t1, n1, s1) = stack[-2:]
            if Fraction(t0, t0 + n0) < Fraction(t1, t1 + n1):
                break
            stack[-2:] = [[t0 + t1, n0 + n1, s0 + s1]]
    return stack


def llr_by_score(target, nontarget, laplace=False):
    """{score: LLR} with 30 digits; infinities where a block holds one class."""
    found = {}
    for t, n, scores in pav_blocks(target, nontarget, laplace):
        if t == 0:
            value = -mpmath.inf
        elif n == 0:
            value = mpmath.inf
        else:
            value = mpmath.log(mpmath.mpf(t) * len(nontarget) / (mpmath.mpf(n) * len(target)))
        for score in scores:
            found[score] = value
    return found


def eer_rocch(target, nontarget):
    """EER as the largest over priors of the least Bayes risk on the ROC points: min-max duality, no hull."""
    n_target, n_nontarget = len(target), len(nontarget)
    points = {(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))}
    for threshold in set(target) | set(nontarget):
        missed = sum(s < threshold for s in target)
        alarms = sum(s >= threshold for s in nontarget)
        points.add((Fraction(missed, n_target), Fraction(alarms, n_nontarget)))
    # On the hull, the crossing with Pmiss = Pfa lies on a segment between two points on either side of the diagonal.
    best = Fraction(1)
    for m0, f0 in points:
        for m1, f1 in points:
            if m0 <= f0 and m1 >= f1:
                span = (f0 - m0) + (m1 - f1)
                crossing = m0 if span == 0 else m0 + (m1 - m0) * (f0 - m0) / span
                best = min(best, crossing)
    return best


def eer_speechbrain(target, nontarget):
    """The published loop: thresholds at scores and midpoints, first minimum of |FAR - FRR|, their mean."""
    distinct = sorted({Fraction(s) for s in target} | {Fraction(s) for s in nontarget})
    thresholds = sorted(distinct + [(a + b) / 2 for a, b in itertools.pairwise(distinct)])
    best = None
    for threshold in thresholds:
        frr = Fraction(sum(Fraction(s) <= threshold for s in target), len(target))
        far = Fraction(sum(Fraction(s) > threshold for s in nontarget), len(nontarget))
        if best is None or abs(far - frr) < best[0]:
            best = (abs(far - frr), (far + frr) / 2)
    return best[1]


def eer_kaldi(target, nontarget):
    """The loop of compute-eer."""
    target, nontarget = sorted(target), sorted(nontarget)
    position = 0
    while position + 1 < len(target):
        mirrored = max(len(nontarget) - 1 - int(len(nontarget) * position * 1.0 / len(target)), 0)
        if nontarget[mirrored] < target[position]:
            break
        position += 1
    return Fraction(position, len(target))


def ece(target_llr, nontarget_llr, pi):
    """ECE at prior pi in bits, Eq. 11 as printed, with mpmath."""
    odds = mpmath.log(pi / (1 - pi))

    def cost(x):
        return mpmath.log(1 + mpmath.exp(x), 2)

    return pi * mpmath.fsum(cost(-(a + odds)) for a in target_llr) / len(target_llr) + (1 - pi) * mpmath.fsum(
        cost(b + odds) for b in nontarget_llr
    ) / len(nontarget_llr)


def d_ece(target_llr, nontarget_llr):
    """Integral over the prior of prior entropy minus ECE, by quadrature."""

    def gap(pi):
        entropy = -pi * mpmath.log(pi, 2) - (1 - pi) * mpmath.log(1 - pi, 2)
        return entropy - ece(target_llr, nontarget_llr, pi)

    with mpmath.workdps(20):
        return mpmath.quad(gap, [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1])


def similarity_matrix(scores, speakers, n_speakers, similarity, pairing, self_pairs):
    """Voice similarity matrix, Laplace PAV and both definitions, by loops over pairs."""
    n = len(speakers)
    pairs = []
    for u in range(n):
        for v in range(n):
            if pairing == "vpc2020" and not u < v:
                continue
            if self_pairs == "drop" and u == v:
                continue
            pairs.append((u, v))
    target = [float(scores[u][v]) for u, v in pairs if speakers[u] == speakers[v]]
    nontarget = [float(scores[u][v]) for u, v in pairs if speakers[u] != speakers[v]]
    llr = llr_by_score(target, nontarget, laplace=True)
    cells = {}
    for u, v in pairs:
        i, j = speakers[u], speakers[v]
        cells.setdefault((i, j), []).append(float(llr[float(scores[u][v])]))
        if pairing == "vpc2020" and i != j:
            cells.setdefault((j, i), []).append(float(llr[float(scores[u][v])]))

    def posterior(x):
        return 1 / (1 + math.exp(-x))

    matrix = [[0.0] * n_speakers for _ in range(n_speakers)]
    for (i, j), values in cells.items():
        if similarity == "sigmoid_mean":
            matrix[i][j] = posterior(sum(values) / len(values))
        else:
            matrix[i][j] = math.prod(posterior(x) for x in values) ** (1 / len(values))
    return matrix
