"""How far the covariance within speakers is drawn to a spherical one: chosen on held-out training speakers.

The oracle approximating rule (Chen et al. 2010) keeps the mean square error of a covariance low, which its large eigenvalues decide.
What a ratio of densities stands on is the small ones: where they spread over orders of magnitude, that rule drowns them and weakens
the attacker. Here the share is the one under which the vectors of held-out speakers are likeliest, and a smaller one where the
likelihood, which trusts the Gaussian, costs error rate:

1. The run's held-out speakers are held out, or every fifth where the run says nothing (``contracts.Choice``).
2. Of the covariances (1 - a) S + a tr(S) / d I, S being that of the others, the one of the highest log-density of the held-out
   vectors, of all draws, about their speakers' means is taken. They are compared in the space of the vectors, the same for all
   shares; after LDA and length normalisation densities of different shares could not be compared.
3. The whole chain is trained on the others with this share and with each smaller candidate. Where a smaller one has, on the run's
   pairs, an EER that is lower by more than one standard error (of the paired differences between held-out speakers), the best such
   one is taken. With fewer than ten speakers to compare, an error rate is noise, and the likelihood decides alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from pipeline.backends.plda.model import NO_SPREAD, Chain, Statistics, full_rank, llr, shrinkage, statistics, supported
from pipeline.contracts import Choice
from pipeline.errors import DataError
from pipeline.metrics.detection import eer
from pipeline.protocol.held_out import FEWEST, HeldOutPairs

VERSION = "plda regularisation 2"

SHARES = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.6)
"""Candidates, beside the share of the oracle approximating rule; 0 only where the covariance is regular without."""
MOST = 0.99
"""Drawn all the way, nothing would be left to learn."""


def choice(
    vectors: np.ndarray, names: np.ndarray, speaker: np.ndarray, data: Statistics, chain: Chain, given: Choice
) -> dict[str, Any]:
    """The share of a spherical covariance, and how it was found.

    Args:
        vectors: [n, d], to train on.
        names: [s] of speakers.
        speaker: [n] the number of the speaker of each vector.
        data: statistics of the vectors.
        chain: what is to be trained.
        given: who is held out, and which of their vectors are compared.

    Returns:
        Plain JSON values: ``share``, ``found`` (True), ``rule``, ``reason`` (why nothing could be held out, or ''), ``oracle`` (the
        share of that rule), ``held_out_speakers`` and ``candidates``: ``share``, ``log_likelihood`` (nats a vector) and ``eer`` where
        it was looked at.
    """
    oracle = min(shrinkage(data.within / data.freedom, data.freedom), MOST)
    found: dict[str, Any] = {"found": True, "oracle": oracle, "held_out_speakers": 0, "candidates": [], "reason": ""}
    rule = {**found, "share": oracle, "rule": "oracle approximating"}
    if len(names) < FEWEST:
        return {**rule, "reason": f"{len(names)} training speakers, and it takes {FEWEST} to choose by"}
    aside = given.held
    left, other = np.unique(speaker[~aside], return_inverse=True)
    held, one = np.unique(speaker[aside], return_inverse=True)
    others, own = vectors[~aside], vectors[aside]
    if len(own) == len(held):
        return {**rule, "reason": "no held-out speaker has several vectors"}
    try:
        learnt = supported(others, other, len(left), chain.length_normalise)
    except DataError as error:
        return {**rule, "reason": f"the speakers that are not held out do not suffice: {error.what}"}
    tried = _likelihoods(sorted({*SHARES, oracle}), data, learnt, statistics(own, one, len(held)))
    best = max(range(len(tried)), key=lambda place: tried[place]["log_likelihood"])
    by_rate = _by_error(tried, best, chain, (others, other, learnt), vectors[given.rows], speaker[given.rows], given)
    return {
        **found,
        "share": tried[by_rate]["share"],
        "rule": "held-out likelihood" if by_rate == best else "held-out EER",
        "held_out_speakers": len(held),
        "candidates": tried,
    }


def _likelihoods(shares: list[float], data: Statistics, learnt: Statistics, held: Statistics) -> list[dict[str, Any]]:
    """Candidates with the log-density of held-out vectors about their speakers' means, in nats a degree of freedom."""
    # Where nothing varies at all (dimensions that are always zero), all shares would be beaten by the smallest.
    values, axes = scipy.linalg.eigh(data.within)
    axes = axes[:, values > NO_SPREAD * values[-1]]
    covariance = learnt.within / learnt.freedom
    level = float(np.trace(covariance)) / len(covariance)
    inner = axes.T @ covariance @ axes
    own, turn = scipy.linalg.eigh((inner + inner.T) / 2)
    spread = np.einsum("ij,ij->j", axes @ turn, held.within @ (axes @ turn)) / held.freedom
    regular = full_rank(learnt, own) and len(own) == len(covariance)
    tried: list[dict[str, Any]] = []
    for share in shares:
        if share == 0 and not regular:
            continue
        drawn = (1 - share) * np.maximum(own, 0) + share * level
        density = -0.5 * float((np.log(2 * math.pi * drawn) + spread / drawn).sum())
        tried.append({"share": share, "log_likelihood": density, "eer": None})
    return tried


def _by_error(
    tried: list[dict[str, Any]],
    best: int,
    chain: Chain,
    others: tuple[np.ndarray, np.ndarray, Statistics],
    own: np.ndarray,
    one: np.ndarray,
    compared: Choice,
) -> int:
    """The place of the candidate after a look at the error rates of it and of smaller shares, which are noted.

    ``own`` [k, d] are the vectors that are compared, and ``one`` [k] the numbers of their speakers.
    """
    if not compared.n_target or not compared.n_nontarget:
        return best
    errors: dict[int, np.ndarray] = {}
    for place in range(best, -1, -1):
        try:
            model, _ = chain.fit(*others, tried[place]["share"])
        except DataError:
            continue
        rows = model.mapped(own, 1, length_normalise=chain.length_normalise)
        scores = llr(model.psi, rows, np.ones(len(rows), dtype=int), rows)[compared.first, compared.second]
        tried[place]["eer"] = eer(scores[compared.target], scores[~compared.target])
        errors[place] = by_speaker(scores, compared, one)
    if best not in errors:
        return max(errors, default=best)

    def gain(place: int) -> float:
        difference = errors[best] - errors[place]
        difference = difference[np.isfinite(difference)]
        if len(difference) < FEWEST:
            return -math.inf
        noise = float(difference.std(ddof=1)) / math.sqrt(len(difference))
        return float(tried[best]["eer"] - tried[place]["eer"]) - noise

    better = [place for place in errors if place < best and gain(place) > 0]
    return min(better, key=lambda place: (tried[place]["eer"], -place), default=best)


def by_speaker(scores: np.ndarray, compared: Choice | HeldOutPairs, speaker: np.ndarray) -> np.ndarray:
    """The error rate of each speaker at the threshold where both kinds of errors are about as frequent.

    Args:
        scores: [p] of the pairs.
        compared: the pairs.
        speaker: [k] number of the speaker of each vector that is compared.

    Returns:
        [s] the mean of the share of targets below the threshold and of the share of non-targets, with the speaker on either side,
        that are not below it; NaN for a speaker without either.
    """
    target = compared.target
    true, false, at = np.sort(scores[target]), np.sort(scores[~target]), np.sort(scores)
    missed = np.searchsorted(true, at) / len(true)
    passed = 1 - np.searchsorted(false, at) / len(false)
    wrong = (scores < at[int(np.argmin(np.abs(missed - passed)))]) == target
    first, second, n = speaker[compared.first], speaker[compared.second], int(speaker.max()) + 1
    misses = _share(first[target], wrong[target], n)
    sides = np.concatenate([first[~target], second[~target]])
    return np.asarray((misses + _share(sides, np.tile(wrong[~target], 2), n)) / 2)


def _share(group: np.ndarray, wrong: np.ndarray, n_groups: int) -> np.ndarray:
    counts = np.bincount(group, minlength=n_groups).astype(np.float64)
    counts[counts == 0] = np.nan
    return np.asarray(np.bincount(group, weights=wrong.astype(np.float64), minlength=n_groups) / counts)
