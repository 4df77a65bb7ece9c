"""Training of a two-covariance PLDA by EM, in float64, and how far its covariance within speakers is drawn to a spherical one.

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

Sums are made on one thread of the BLAS: the same vectors give the same numbers whatever the number of cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from pipeline.backends._adaptation import choose_held_out
from pipeline.backends.plda.model import Plda, average_groups, llr, normalise_lengths, scale_factors
from pipeline.contracts import Choice
from pipeline.errors import DataError
from pipeline.metrics.detection import eer
from pipeline.protocol.held_out import FEWEST, HeldOutPairs

VERSION = "plda training 2"
Start = Literal["moments", "kaldi"]
"""Where EM begins: at the estimate by moments, or at B = W = I with the mean held, as Kaldi's PldaEstimator does."""


# Below this ratio of its eigenvalues, a covariance is recorded as near-singular: Kaldi's ivector-compute-lda floors them.
SINGULAR = 1e-6
# Variance that is this small beside the whole is rounding of float32 vectors, not a difference between recordings.
NO_SPREAD = 1e-12
BLOCK = 8192


@dataclass(frozen=True)
class Statistics:
    """All that the training needs to know of vectors [n, d] of s speakers.

    Attributes:
        counts: [s] vectors of each speaker.
        means: [s, d] mean of each speaker.
        within: [d, d] scatter about the means of the speakers (a sum, not a mean).
    """

    counts: np.ndarray
    means: np.ndarray
    within: np.ndarray

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the scatter within speakers."""
        return int(self.counts.sum()) - len(self.counts)


def statistics(vectors: np.ndarray, speaker: np.ndarray, n_speakers: int) -> Statistics:
    """Statistics of vectors [n, d]; ``speaker`` [n] is the number of the speaker that each belongs to."""
    means, counts = average_groups(vectors, speaker, n_speakers)
    within = np.zeros((vectors.shape[1], vectors.shape[1]))
    for first in range(0, len(vectors), BLOCK):
        rows = vectors[first : first + BLOCK] - means[speaker[first : first + BLOCK]]
        within += rows.T @ rows
    return Statistics(counts, means, within)


def shrinkage(covariance: np.ndarray, freedom: int) -> float:
    """How far to shrink a covariance [d, d] of so many degrees of freedom towards a multiple of I: the share of that in the sum,
    from 0 to 1, by the oracle approximating rule (Chen et al. 2010, equation 23)."""
    d = len(covariance)
    square, trace = float((covariance**2).sum()), float(np.trace(covariance)) ** 2
    below = (freedom + 1 - 2 / d) * (square - trace / d)
    above = (1 - 2 / d) * square + trace
    return 1.0 if below <= above else above / below


def diagonalised(within: np.ndarray, between: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The map [k, k] that makes ``within`` I and ``between`` diagonal, its inverse, and the diagonal from the largest.

    Raises:
        numpy.linalg.LinAlgError: ``within`` is not positive definite.
    """
    lower = scipy.linalg.cholesky(within, lower=True)
    half = scipy.linalg.solve_triangular(lower, between, lower=True)
    whitened = scipy.linalg.solve_triangular(lower, half.T, lower=True)
    psi, axes = scipy.linalg.eigh((whitened + whitened.T) / 2)
    psi, axes = np.maximum(psi[::-1], 0), axes[:, ::-1]
    transform = scipy.linalg.solve_triangular(lower, axes, lower=True, trans="T").T
    return transform, lower @ axes, psi


@dataclass(frozen=True)
class TwoCovariance:
    """A two-covariance model and the course of its training.

    Attributes:
        mean: [k].
        within: [k, k] covariance within a speaker.
        between: [k, k] covariance of the means of speakers.
        log_likelihood: of the training vectors, in nats a vector, before the first iteration and after each.
        objective: the same with the prior's part; EM never lowers it. Equal to it where nothing is regularised.
    """

    mean: np.ndarray
    within: np.ndarray
    between: np.ndarray
    log_likelihood: list[float]
    objective: list[float]


def two_covariance(
    data: Statistics,
    iterations: int,
    share: float = 0.0,
    towards: np.ndarray | None = None,
    *,
    start: Start = "moments",
) -> TwoCovariance:
    """Fit a two-covariance model by EM.

    Args:
        data: statistics of the vectors.
        iterations: of EM.
        share: weight of ``towards`` in the covariance within speakers, 0 <= share < 1: an inverse Wishart prior.
        towards: [k, k] the covariance that it is drawn to.
        start: with ``kaldi`` each iteration is one of Kaldi's, where nothing is drawn; the mean stays that of the speakers' means.

    Raises:
        numpy.linalg.LinAlgError: the covariance within speakers is singular.
    """
    n, s, k = int(data.counts.sum()), len(data.counts), data.means.shape[1]
    count = data.counts.astype(np.float64)[:, None]
    prior = np.zeros((k, k)) if towards is None else towards
    pseudo = n * share / (1 - share)

    mean = data.means.mean(0)
    if start == "kaldi":
        within, between = np.eye(k), np.eye(k)
    else:
        within = (1 - share) * data.within / data.freedom + share * prior
        spread = data.means - mean
        _, back, psi = diagonalised(within, spread.T @ spread / s)
        # Means of speakers vary by B + W / n. What is 0 would stay 0 in EM, so a hundredth is left.
        between = (back * np.maximum(psi - (1 / count).mean(), 0.01 * psi)) @ back.T

    log_likelihood, objective = [], []
    for iteration in range(iterations + 1):
        transform, back, psi = diagonalised(within, between)
        means = (data.means - mean) @ transform.T
        scatter = transform @ data.within @ transform.T
        left = 1 + count * psi
        log_det = -2 * np.linalg.slogdet(transform)[1]
        quadratic = np.trace(scatter) + (count * means**2 / left).sum()
        likelihood = -0.5 * (n * (k * math.log(2 * math.pi) + log_det) + np.log(left).sum() + quadratic)
        drawn = transform @ prior @ transform.T
        log_likelihood.append(float(likelihood / n))
        objective.append(float((likelihood - 0.5 * pseudo * (log_det + np.trace(drawn))) / n))
        if iteration == iterations:
            break
        # Posterior of each speaker's y, where all is diagonal; then the maximum, and back to where it came from.
        expected, variance = count * psi / left * means, psi / left
        residual = means - expected
        new_within = (scatter + residual.T @ (count * residual) + np.diag((count * variance).sum(0))) / n
        moved = expected.mean(0) if start == "moments" else np.zeros(k)
        expected -= moved
        new_between = expected.T @ expected / s + np.diag(variance.mean(0))
        mean = mean + back @ moved
        within = back @ ((1 - share) * new_within + share * drawn) @ back.T
        between = back @ new_between @ back.T
    return TwoCovariance(mean, within, between, log_likelihood, objective)


def train(
    vectors: np.ndarray,
    speakers: Sequence[str],
    *,
    lda: int,
    iterations: int,
    regularisation: float | None,
    length_normalise: bool,
    start: Start = "moments",
    choice: Choice | None = None,
) -> tuple[Plda, dict[str, Any]]:
    """Centring, LDA, length normalisation and PLDA of vectors [n, d] of speakers [n].

    Args:
        vectors: finite, of 2 speakers or more (3 with length normalisation), of whom one or more have several.
        speakers: the speaker of each.
        lda: dimensions asked for; used are at most those of the vectors and one less than the speakers.
        iterations: of EM.
        regularisation: share of a spherical covariance in the covariance within speakers; None chooses it on held-out speakers.
        length_normalise: see :meth:`Plda.map_vectors`.
        start: of EM, see :func:`two_covariance`.
        choice: whom to choose on, and whether to learn from the others alone; None holds every fifth speaker out.

    Returns:
        The model, and facts about the training as plain JSON values.

    Raises:
        DataError: the data cannot support it, with the reason.
    """
    names, speaker = np.unique(np.asarray(speakers, dtype=str), return_inverse=True)
    vectors, chain = np.asarray(vectors), Chain(lda, iterations, length_normalise, start)
    with threadpool_limits(1, user_api="blas"):
        data = check_statistics(vectors, speaker, len(names), length_normalise)
        if regularisation is None:
            held_out = choice or choose_held_out(names[speaker].tolist())
            chosen = choose_share(vectors, names, speaker, data, chain, held_out)
        else:
            chosen = {"share": regularisation, "found": False, "rule": "as set"}
        if choice is not None and choice.alone:
            kept, speaker = np.unique(speaker[choice.learnt], return_inverse=True)
            names, vectors = names[kept], vectors[choice.learnt]
            data = check_statistics(vectors, speaker, len(names), length_normalise)
        values = scipy.linalg.eigvalsh(data.within / data.freedom)
        if chosen["share"] == 0 and not full_rank(data, values):
            raise _refuse_singular(vectors, data, values)
        model, course = chain.fit(vectors, speaker, data, chosen["share"])
    return model, {
        "lda": {"asked": lda, "used": len(model.psi), "dimension": vectors.shape[1]},
        "speakers": len(names),
        "speakers_with_one_vector": int((data.counts == 1).sum()),
        "vectors": len(vectors),
        "iterations": iterations,
        "start": start,
        "log_likelihood": course.log_likelihood,
        "objective": course.objective,
        "regularisation": {
            **chosen,
            "near_singular": bool(values[0] < SINGULAR * values[-1]),
            "degrees_of_freedom": data.freedom,
            "smallest_eigenvalue": float(max(values[0], 0)),
            "largest_eigenvalue": float(values[-1]),
        },
        "length_normalise": length_normalise,
        "between_to_within": [float(value) for value in model.psi],
    }


def _refuse_singular(vectors: np.ndarray, data: Statistics, values: np.ndarray) -> DataError:
    return DataError(
        f"the covariance within speakers is singular: {data.freedom} degrees of freedom ({len(vectors)} "
        f"vectors less {len(data.counts)} speakers) for {vectors.shape[1]} dimensions, eigenvalues from {values[-1]:.2g} to "
        f"{max(values[0], 0):.2g}",
        cause="too few vectors a speaker, or dimensions that depend on each other",
        remedy="train on more, or leave regularisation to be found from the data (null)",
    )


def full_rank(data: Statistics, values: np.ndarray) -> bool:
    """Whether a covariance within speakers with these eigenvalues, ascending, can do without a spherical part."""
    return data.freedom >= len(values) and bool(values[0] >= NO_SPREAD * values[-1])


@dataclass(frozen=True)
class Chain:
    """Centring, LDA, length normalisation and PLDA, as settings of :func:`train`."""

    lda: int
    iterations: int
    length_normalise: bool
    start: Start

    def fit(
        self, vectors: np.ndarray, speaker: np.ndarray, data: Statistics, share: float
    ) -> tuple[Plda, TwoCovariance]:
        """The chain of vectors [n, d], given their statistics and the share of a spherical covariance.

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        d, n_speakers = vectors.shape[1], len(data.counts)
        used = min(self.lda, d, n_speakers - 1)
        if used < 2 and self.length_normalise:
            raise DataError(
                "length normalisation leaves nothing but the sign of vectors of 1 dimension",
                where=f"lda={self.lda}, {d}-dimensional vectors, {n_speakers} speakers",
                remedy="set lda to 2 or more, or length_normalise=false",
            )
        covariance = data.within / data.freedom
        covariance = (1 - share) * covariance + share * np.trace(covariance) / d * np.eye(d)
        centre = np.average(data.means, axis=0, weights=data.counts)
        spread = (data.means - centre) * np.sqrt(data.counts / len(vectors))[:, None]
        try:
            projection = diagonalised(covariance, spread.T @ spread)[0][:used]
            rows = np.concatenate(
                [(vectors[first : first + BLOCK] - centre) @ projection.T for first in range(0, len(vectors), BLOCK)]
            )
            # Projected, the (regularised) covariance within speakers is I; length normalisation scales it, by the square.
            scale = 1.0
            if self.length_normalise:
                scale = float((scale_factors((rows**2).sum(1), used) ** 2).mean())
                rows = normalise_lengths(rows)
            projected = statistics(rows, speaker, n_speakers)
            model = two_covariance(projected, self.iterations, share, scale * np.eye(used), start=self.start)
            transform, _, psi = diagonalised(model.within, model.between)
        except np.linalg.LinAlgError as error:
            raise DataError(
                f"the covariance within speakers is singular in the {used} dimensions that LDA leaves",
                cause="too few vectors a speaker",
                remedy="train on more, ask for a smaller lda, or raise regularisation",
            ) from error
        return Plda(centre, projection, np.zeros(used), model.mean, transform, psi), model


def check_statistics(vectors: np.ndarray, speaker: np.ndarray, n_speakers: int, length_normalise: bool) -> Statistics:
    """Statistics of vectors that a PLDA can be trained on.

    Raises:
        DataError: it cannot.
    """
    if vectors.ndim != 2 or len(vectors) != len(speaker) or vectors.shape[1] == 0:
        raise DataError(f"vectors of shape {vectors.shape} do not go with {len(speaker)} speaker labels")
    least = 3 if length_normalise else 2
    if n_speakers < least:
        raise DataError(
            f"a PLDA cannot be trained on {n_speakers} speaker{'s' if n_speakers != 1 else ''}: it takes {least} or more",
            cause="LDA leaves one dimension less than there are speakers"
            + (", and length normalisation takes two" if length_normalise else ""),
            remedy="choose a larger training set, or backend=[cosine]",
        )
    not_finite = int((~np.isfinite(vectors)).any(1).sum())
    if not_finite:
        raise DataError(f"{not_finite} of {len(vectors)} vectors to train a PLDA on hold numbers that are not finite")
    if len(vectors) == n_speakers:
        raise DataError(
            f"a PLDA cannot be trained on {n_speakers} speakers with one vector each: how a speaker varies is unknown",
            remedy="choose a training set with several recordings a speaker, or cut the recordings into segments",
        )
    data = statistics(vectors, speaker, n_speakers)
    spread = data.means - data.means.mean(0)
    between = float((data.counts[:, None] * spread**2).sum())
    within, level = float(np.trace(data.within)), float((data.counts[:, None] * data.means**2).sum())
    if within <= NO_SPREAD * (within + between) or within + between <= NO_SPREAD * level:
        which = "all vectors" if between <= NO_SPREAD * level else "the vectors of each speaker"
        raise DataError(
            f"a PLDA cannot be trained: {which} are identical",
            cause="the same recording under several ids, or an anonymiser that gives each speaker one fixed voice",
            remedy="choose another training set, or backend=[cosine]",
        )
    return data


# --- how far to regularise ---

SHARES = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.6)
"""Candidates, beside the share of the oracle approximating rule; 0 only where the covariance is regular without."""
MOST = 0.99
"""Drawn all the way, nothing would be left to learn."""


def choose_share(
    vectors: np.ndarray, names: np.ndarray, speaker: np.ndarray, data: Statistics, chain: Chain, held_out: Choice
) -> dict[str, Any]:
    """The share of a spherical covariance, and how it was found, for vectors [n, d] of numbered speakers [n] with ``names`` [s].

    Returns:
        Plain JSON values: ``share``, ``found`` (True), ``rule``, ``reason`` (why nothing could be held out, or ''), ``oracle`` (the
        share of that rule), ``held_out_speakers`` and ``candidates``: ``share``, ``log_likelihood`` (nats a vector) and ``eer`` where
        it was looked at.
    """
    oracle = min(shrinkage(data.within / data.freedom, data.freedom), MOST)
    record: dict[str, Any] = {"found": True, "oracle": oracle, "held_out_speakers": 0, "candidates": [], "reason": ""}
    rule = {**record, "share": oracle, "rule": "oracle approximating"}
    if len(names) < FEWEST:
        return {**rule, "reason": f"{len(names)} training speakers, and it takes {FEWEST} to choose by"}
    aside = held_out.held_out
    names_learnt, learnt_speaker = np.unique(speaker[~aside], return_inverse=True)
    names_aside, aside_speaker = np.unique(speaker[aside], return_inverse=True)
    others, own = vectors[~aside], vectors[aside]
    if len(own) == len(names_aside):
        return {**rule, "reason": "no held-out speaker has several vectors"}
    try:
        learnt = check_statistics(others, learnt_speaker, len(names_learnt), chain.length_normalise)
    except DataError as error:
        return {**rule, "reason": f"the speakers that are not held out do not suffice: {error.what}"}
    tried = _compare_likelihoods(
        sorted({*SHARES, oracle}), data, learnt, statistics(own, aside_speaker, len(names_aside))
    )
    best = max(range(len(tried)), key=lambda place: tried[place]["log_likelihood"])
    by_rate = _compare_error_rates(
        tried, best, chain, (others, learnt_speaker, learnt), vectors[held_out.rows], speaker[held_out.rows], held_out
    )
    return {
        **record,
        "share": tried[by_rate]["share"],
        "rule": "held-out likelihood" if by_rate == best else "held-out EER",
        "held_out_speakers": len(names_aside),
        "candidates": tried,
    }


def _compare_likelihoods(
    shares: list[float], data: Statistics, learnt: Statistics, held_out: Statistics
) -> list[dict[str, Any]]:
    """Candidates with the log-density of held-out vectors about their speakers' means, in nats a degree of freedom."""
    # Where nothing varies at all (dimensions that are always zero), all shares would be beaten by the smallest.
    values, axes = scipy.linalg.eigh(data.within)
    axes = axes[:, values > NO_SPREAD * values[-1]]
    covariance = learnt.within / learnt.freedom
    level = float(np.trace(covariance)) / len(covariance)
    inner = axes.T @ covariance @ axes
    own, turn = scipy.linalg.eigh((inner + inner.T) / 2)
    spread = np.einsum("ij,ij->j", axes @ turn, held_out.within @ (axes @ turn)) / held_out.freedom
    regular = full_rank(learnt, own) and len(own) == len(covariance)
    tried: list[dict[str, Any]] = []
    for share in shares:
        if share == 0 and not regular:
            continue
        drawn = (1 - share) * np.maximum(own, 0) + share * level
        density = -0.5 * float((np.log(2 * math.pi * drawn) + spread / drawn).sum())
        tried.append({"share": share, "log_likelihood": density, "eer": None})
    return tried


def _compare_error_rates(
    tried: list[dict[str, Any]],
    best: int,
    chain: Chain,
    others: tuple[np.ndarray, np.ndarray, Statistics],
    own: np.ndarray,
    speaker: np.ndarray,
    compared: Choice,
) -> int:
    """The place of the candidate after a look at the error rates of it and of smaller shares, which are noted.

    ``own`` [k, d] are the vectors that are compared, and ``speaker`` [k] the numbers of their speakers.
    """
    if not compared.n_target or not compared.n_nontarget:
        return best
    errors: dict[int, np.ndarray] = {}
    for place in range(best, -1, -1):
        try:
            model, _ = chain.fit(*others, tried[place]["share"])
        except DataError:
            continue
        rows = model.map_vectors(own, 1, length_normalise=chain.length_normalise)
        scores = llr(model.psi, rows, np.ones(len(rows), dtype=int), rows)[compared.first, compared.second]
        tried[place]["eer"] = eer(scores[compared.target], scores[~compared.target])
        errors[place] = error_by_speaker(scores, compared, speaker)
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


def error_by_speaker(scores: np.ndarray, compared: Choice | HeldOutPairs, speaker: np.ndarray) -> np.ndarray:
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
