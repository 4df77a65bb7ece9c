"""Two-covariance PLDA: training by EM and log-likelihood ratios, in float64 and in matrix form.

A vector x of speaker s is m + y_s + e with y_s ~ N(0, B) and e ~ N(0, W) (Ioffe 2006; Brümmer and de Villiers 2010).
A linear map T with T W T' = I and T B T' = diag(psi) makes all dimensions independent; models are kept and scored in
that form, which is also Kaldi's. For a mean u of n enrolment vectors and a trial vector x, both mapped, the ratio is

    log N(x; a u, v) - log N(x; 0, 1 + psi),  a = n psi / (n psi + 1),  v = 1 + psi / (n psi + 1),  summed over dimensions.

Sums are made on one thread of the BLAS: the same vectors give the same numbers whatever the number of cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
from threadpoolctl import threadpool_limits

from pipeline.backends._adaptation import choice_among
from pipeline.contracts import Choice
from pipeline.errors import DataError

VERSION = "plda model 2"
FILE = "plda.safetensors"
Start = Literal["moments", "kaldi"]
"""Where EM begins: at the estimate by moments, or at B = W = I with the mean held, as Kaldi's PldaEstimator does."""
# Below this ratio of its eigenvalues, a covariance is recorded as near-singular: Kaldi's ivector-compute-lda floors them.
SINGULAR = 1e-6
# Variance that is this small beside the whole is rounding of float32 vectors, not a difference between recordings.
NO_SPREAD = 1e-12
BLOCK = 8192


@dataclass(frozen=True)
class Plda:
    """All that lies between an embedding [d] and its place in the space of the PLDA [k]; float64.

    Attributes:
        centre: [d], subtracted from embeddings.
        lda: [k, d], what projects them.
        offset: [k], added to projections (zero unless a Kaldi transform has it).
        mean: [k], subtracted after length normalisation.
        transform: [k, k], makes the covariance within speakers I and that between them ``psi``.
        psi: [k], variances between speakers, from the largest.
    """

    centre: np.ndarray
    lda: np.ndarray
    offset: np.ndarray
    mean: np.ndarray
    transform: np.ndarray
    psi: np.ndarray

    def mapped(self, vectors: np.ndarray, counts: np.ndarray | int, *, length_normalise: bool) -> np.ndarray:
        """Embeddings [n, d], each the mean of ``counts`` [n] utterances, in the space of the PLDA: [n, k].

        With ``length_normalise`` they are brought to length sqrt(k) before the PLDA, and then scaled to the length that
        the PLDA expects of a mean of so many vectors (Kaldi's ivector-normalize-length, and --normalize-length of
        ivector-plda-scoring).

        Raises:
            DataError: the embeddings have another dimension than the model.
        """
        if vectors.ndim != 2 or vectors.shape[1] != len(self.centre):
            raise DataError(
                f"the PLDA is one of {len(self.centre)}-dimensional embeddings, and these have shape {vectors.shape}",
                cause="a PLDA that was trained on embeddings of another extractor",
                remedy="use the extractor that the PLDA was trained on, or source=trained",
            )
        with threadpool_limits(1, user_api="blas"):
            rows = (np.asarray(vectors, dtype=np.float64) - self.centre) @ self.lda.T + self.offset
            if length_normalise:
                rows = of_length(rows)
            rows = (rows - self.mean) @ self.transform.T
        if length_normalise:
            expected = self.psi + 1 / np.broadcast_to(np.asarray(counts, dtype=np.float64), len(rows))[:, None]
            rows *= _factor((rows**2 / expected).sum(1), len(self.psi))
        return np.asarray(rows)

    def write(self, folder: Path) -> None:
        """Write ``plda.safetensors``."""
        from safetensors.numpy import save_file

        save_file(
            {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)}, folder / FILE
        )


def read(folder: Path) -> Plda:
    """The model of ``plda.safetensors`` in a folder.

    Raises:
        DataError: no such file, or one that holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        held = load_file(folder / FILE)
    except (OSError, SafetensorError) as error:
        raise DataError("a trained PLDA cannot be read", where=str(folder / FILE), cause=str(error)) from error
    wanted = {field.name for field in fields(Plda)}
    if held.keys() != wanted:
        raise DataError(
            f"a trained PLDA holds {', '.join(sorted(held))} instead of {', '.join(sorted(wanted))}",
            where=str(folder / FILE),
        )
    return Plda(**held)


def of_length(rows: np.ndarray) -> np.ndarray:
    """Rows [n, k] brought to length sqrt(k); a row of zeros stays as it is."""
    return np.asarray(rows * _factor((rows**2).sum(1), rows.shape[1]))


def _factor(squares: np.ndarray, wanted: int) -> np.ndarray:
    """[n, 1], what scales squared lengths [n] to ``wanted``; 1 for those that are 0."""
    return np.asarray(np.sqrt(np.divide(wanted, squares, out=np.ones_like(squares), where=squares > 0))[:, None])


def averages(vectors: np.ndarray, group: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Means float64 [n_groups, d] of the vectors [n, d] of each group, and how many each has, int64 [n_groups]."""
    counts = np.bincount(group, minlength=n_groups)
    member = scipy.sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(n_groups, len(group)))
    return np.asarray(member @ np.asarray(vectors, dtype=np.float64)) / counts[:, None], counts


def llr(psi: np.ndarray, enrolled: np.ndarray, counts: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Natural-log likelihood ratios of all pairs, float64 [m, n]; one matrix product makes them.

    Args:
        psi: [k] variances between speakers, where those within are 1.
        enrolled: [m, k] mean of each model's vectors, mapped.
        counts: [m] how many vectors that is the mean of, >= 1.
        trials: [n, k] vectors, mapped.
    """
    kinds, kind = np.unique(counts, return_inverse=True)
    number = kinds.astype(np.float64)[:, None]
    left = 1 + number * psi
    shrunk, variance, total = number * psi / left, 1 + psi / left, 1 + psi
    # -2 LLR is log(v / t) + (x - a u)^2 / v - x^2 / t; what depends on x alone does so by the count of the model.
    of_model = 0.5 * (np.log(total) - np.log(variance)).sum(1)[kind] - 0.5 * (
        (shrunk**2 / variance)[kind] * enrolled**2
    ).sum(1)
    with threadpool_limits(1, user_api="blas"):
        of_trial = -0.5 * trials**2 @ (1 / variance - 1 / total).T
        # Both parts ride in the product as columns of their own, so that no second matrix of all pairs is needed.
        enrolled = np.hstack([enrolled * (shrunk / variance)[kind], of_model[:, None], np.eye(len(kinds))[kind]])
        trials = np.hstack([trials, np.ones((len(trials), 1)), of_trial])
        return np.asarray(enrolled @ trials.T)


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
    means, counts = averages(vectors, speaker, n_speakers)
    within = np.zeros((vectors.shape[1], vectors.shape[1]))
    for first in range(0, len(vectors), BLOCK):
        rows = vectors[first : first + BLOCK] - means[speaker[first : first + BLOCK]]
        within += rows.T @ rows
    return Statistics(counts, means, within)


def shrinkage(covariance: np.ndarray, freedom: int) -> float:
    """How far to shrink a covariance of Gaussian vectors towards a multiple of I: the oracle approximating rule.

    Args:
        covariance: [d, d] estimate.
        freedom: its degrees of freedom.

    Returns:
        The share of the multiple of I in the sum, from 0 to 1 (Chen et al. 2010, equation 23).
    """
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
        found = -0.5 * (n * (k * math.log(2 * math.pi) + log_det) + np.log(left).sum() + quadratic)
        drawn = transform @ prior @ transform.T
        log_likelihood.append(float(found / n))
        objective.append(float((found - 0.5 * pseudo * (log_det + np.trace(drawn))) / n))
        if iteration == iterations:
            break
        # Posterior of each speaker's y, where all is diagonal; then the maximum, and back to where it came from.
        expected, variance = count * psi / left * means, psi / left
        rest = means - expected
        found_within = (scatter + rest.T @ (count * rest) + np.diag((count * variance).sum(0))) / n
        moved = expected.mean(0) if start == "moments" else np.zeros(k)
        expected -= moved
        found_between = expected.T @ expected / s + np.diag(variance.mean(0))
        mean = mean + back @ moved
        within = back @ ((1 - share) * found_within + share * drawn) @ back.T
        between = back @ found_between @ back.T
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
        regularisation: share of a spherical covariance in the covariance within speakers; None chooses it on held-out
            speakers (:mod:`pipeline.backends.plda.regularisation`).
        length_normalise: see :meth:`Plda.mapped`.
        start: of EM, see :func:`two_covariance`.
        choice: whom to choose on, and whether to learn from the others alone; None holds every fifth speaker out.

    Returns:
        The model, and facts about the training as plain JSON values.

    Raises:
        DataError: the data cannot support it, with the reason.
    """
    from pipeline.backends.plda import regularisation as by_held_out

    names, speaker = np.unique(np.asarray(speakers, dtype=str), return_inverse=True)
    vectors, chain = np.asarray(vectors), Chain(lda, iterations, length_normalise, start)
    with threadpool_limits(1, user_api="blas"):
        data = supported(vectors, speaker, len(names), length_normalise)
        if regularisation is None:
            given = choice or choice_among(names[speaker].tolist())
            chosen = by_held_out.choice(vectors, names, speaker, data, chain, given)
        else:
            chosen = {"share": regularisation, "found": False, "rule": "as set"}
        if choice is not None and choice.alone:
            kept, speaker = np.unique(speaker[choice.learnt], return_inverse=True)
            names, vectors = names[kept], vectors[choice.learnt]
            data = supported(vectors, speaker, len(names), length_normalise)
        values, share = scipy.linalg.eigvalsh(data.within / data.freedom), chosen["share"]
        if share == 0 and not full_rank(data, values):
            raise DataError(
                f"the covariance within speakers is singular: {data.freedom} degrees of freedom ({len(vectors)} "
                f"vectors less {len(names)} speakers) for {vectors.shape[1]} dimensions, eigenvalues from {values[-1]:.2g} to "
                f"{max(values[0], 0):.2g}",
                cause="too few vectors a speaker, or dimensions that depend on each other",
                remedy="train on more, or leave regularisation to be found from the data (null)",
            )
        model, course = chain.fit(vectors, speaker, data, share)
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


def full_rank(data: Statistics, values: np.ndarray) -> bool:
    """Whether a covariance within speakers with these eigenvalues, ascending, can do without a spherical part."""
    return data.freedom >= len(values) and bool(values[0] >= NO_SPREAD * values[-1])


@dataclass(frozen=True)
class Chain:
    """Centring, LDA, length normalisation and PLDA, as settings.

    Attributes:
        lda, iterations, length_normalise, start: as of :func:`train`.
    """

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
                scale = float((_factor((rows**2).sum(1), used) ** 2).mean())
                rows = of_length(rows)
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


def supported(vectors: np.ndarray, speaker: np.ndarray, n_speakers: int, length_normalise: bool) -> Statistics:
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
    wrong = int((~np.isfinite(vectors)).any(1).sum())
    if wrong:
        raise DataError(f"{wrong} of {len(vectors)} vectors to train a PLDA on hold numbers that are not finite")
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
