"""PLDA against known models, Gaussian densities written out, scikit-learn and SpeechBrain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.stats import multivariate_normal
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from pipeline.backends.plda import estimation
from pipeline.backends.plda import model as plda
from pipeline.backends.plda.model import Plda
from pipeline.errors import DataError

DIMENSION = 5
CHAIN: dict[str, Any] = {"lda": 200, "iterations": 10, "regularisation": None, "length_normalise": True}
BY_THE_BOOK: dict[str, Any] = CHAIN | {"regularisation": 0.0, "length_normalise": False}


def covariance(seed: int, dimension: int = DIMENSION) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return root @ root.T / dimension + 0.3 * np.eye(dimension)


MEAN = np.arange(DIMENSION) - 1.0
WITHIN, BETWEEN = covariance(1), covariance(2)


def drawn(
    counts: np.ndarray, seed: int, mean: np.ndarray = MEAN, within: np.ndarray = WITHIN, between: np.ndarray = BETWEEN
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of a two-covariance model, ``counts`` [s] of each speaker, and the number of each vector's speaker."""
    random = np.random.default_rng(seed)
    speaker = np.repeat(np.arange(len(counts)), counts)
    voices = random.multivariate_normal(mean, between, size=len(counts))
    return voices[speaker] + random.multivariate_normal(0 * mean, within, size=len(speaker)), speaker


def labels(speaker: np.ndarray) -> list[str]:
    return [f"speaker {number}" for number in speaker]


def far(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def joint_density(vectors: np.ndarray, mean: np.ndarray, within: np.ndarray, between: np.ndarray) -> float:
    """Log density of vectors [n, d] of one speaker, as one Gaussian of n times d dimensions."""
    n = len(vectors)
    whole = np.kron(np.ones((n, n)), between) + np.kron(np.eye(n), within)
    return float(multivariate_normal(np.tile(mean, n), whole).logpdf(vectors.ravel()))


def by_the_book(mean: np.ndarray, within: np.ndarray, between: np.ndarray) -> Plda:
    """A model with these parameters, and no LDA."""
    transform, _, psi = estimation.diagonalised(within, between)
    none = np.zeros(len(mean))
    return Plda(none, np.eye(len(mean)), none, mean, transform, psi)


def scores(model: Plda, enrolment: np.ndarray, of_model: np.ndarray, trials: np.ndarray, normalise: bool) -> np.ndarray:
    means, counts = plda.average_groups(enrolment, of_model, int(of_model.max()) + 1)
    return plda.llr(
        model.psi,
        model.map_vectors(means, counts, length_normalise=normalise),
        counts,
        model.map_vectors(trials, 1, length_normalise=normalise),
    )


def test_the_ratio_is_that_of_joint_gaussian_densities() -> None:
    """Models of 1, 2, 3 and 7 vectors, each in one Gaussian with the trial, and apart from it."""
    sizes = [1, 3, 7, 1, 2, 3]
    enrolment, of_model = drawn(np.array(sizes), 3)
    trials, _ = drawn(np.ones(9, dtype=int), 4)
    order = np.random.default_rng(0).permutation(len(enrolment))
    found = scores(by_the_book(MEAN, WITHIN, BETWEEN), enrolment[order], of_model[order], trials, False)
    parts = (MEAN, WITHIN, BETWEEN)
    for model in range(len(sizes)):
        given = enrolment[of_model == model]
        for column, trial in enumerate(trials):
            together = joint_density(np.vstack([given, trial]), *parts)
            apart = joint_density(given, *parts) + joint_density(trial[None], *parts)
            assert found[model, column] == pytest.approx(together - apart, abs=1e-8)


def test_the_ratio_is_the_closed_form_in_many_dimensions() -> None:
    """In 200 dimensions, against the two-covariance formula in the matrices themselves."""
    d, random = 200, np.random.default_rng(5)
    mean, within, between = random.normal(size=d), covariance(6, d), covariance(7, d)
    first, second = random.normal(size=(12, d)) * 2, random.normal(size=(15, d)) * 2
    found = scores(by_the_book(mean, within, between), first, np.arange(12), second, False)
    total = within + between
    inverse = np.linalg.inv(total)
    middle = np.linalg.inv(total - between @ inverse @ between)
    alone, cross = inverse - middle, inverse @ between @ middle
    pair = np.block([[total, between], [between, total]])
    constant = np.linalg.slogdet(total)[1] - 0.5 * np.linalg.slogdet(pair)[1]
    a, b = first - mean, second - mean
    expected = constant + 0.5 * (a @ alone * a).sum(1)[:, None] + 0.5 * (b @ alone * b).sum(1) + a @ cross @ b.T
    assert np.abs(found - expected).max() < 1e-8


def test_one_against_one_is_symmetric() -> None:
    vectors, speaker = drawn(np.full(30, 4), 8)
    for chain in (CHAIN, BY_THE_BOOK):
        model, _ = estimation.train(vectors, labels(speaker), **chain)
        found = scores(model, vectors, np.arange(len(vectors)), vectors, chain["length_normalise"])
        assert np.abs(found - found.T).max() < 1e-10


def test_parameters_of_a_known_model_are_recovered() -> None:
    counts = np.random.default_rng(0).integers(1, 12, size=6000)
    vectors, speaker = drawn(counts, 9)
    found = estimation.two_covariance(estimation.statistics(vectors, speaker, len(counts)), 10)
    assert far(found.within, WITHIN) < 0.02
    assert far(found.between, BETWEEN) < 0.05
    assert np.abs(found.mean - MEAN).max() < 0.06


def test_a_trained_chain_gives_the_ratios_of_the_true_model() -> None:
    """LDA to all dimensions is an invertible map, which leaves a ratio as it is."""
    vectors, speaker = drawn(np.full(6000, 6), 10)
    model, facts = estimation.train(vectors, labels(speaker), **BY_THE_BOOK)
    enrolment, of_model = drawn(np.full(50, 3), 11)
    trials, _ = drawn(np.ones(60, dtype=int), 12)
    found = scores(model, enrolment, of_model, trials, False)
    true = scores(by_the_book(MEAN, WITHIN, BETWEEN), enrolment, of_model, trials, False)
    assert facts["lda"] == {"asked": 200, "used": DIMENSION, "dimension": DIMENSION}
    assert np.abs(found - true).mean() < 0.05 * true.std()


def test_the_log_likelihood_is_that_of_joint_densities_and_never_falls() -> None:
    counts = np.array([1, 5, 2, 2, 9, 3, 1, 4, 4, 2, 6, 3])
    vectors, speaker = drawn(counts, 13)
    data = estimation.statistics(vectors, speaker, len(counts))
    found = estimation.two_covariance(data, 40)
    parts = (found.mean, found.within, found.between)
    total = sum(joint_density(vectors[speaker == number], *parts) for number in range(len(counts)))
    assert found.log_likelihood[-1] == pytest.approx(total / len(vectors), abs=1e-10)
    assert found.objective == found.log_likelihood and len(found.log_likelihood) == 41
    assert np.diff(found.log_likelihood).min() > -1e-12
    assert found.log_likelihood[-1] > found.log_likelihood[0] + 1e-3


def test_with_a_prior_its_objective_never_falls_and_the_covariance_is_drawn_to_it() -> None:
    counts = np.full(40, 3)
    vectors, speaker = drawn(counts, 14)
    data, towards = estimation.statistics(vectors, speaker, len(counts)), covariance(15)
    before = np.inf
    for share in (0.1, 0.5, 0.9):
        found = estimation.two_covariance(data, 60, share, towards)
        assert np.diff(found.objective).min() > -1e-12
        # The maximum: no step of EM moves it, and neither does a small step aside raise it.
        n, k, pseudo = len(vectors), DIMENSION, len(vectors) * share / (1 - share)

        def objective(within: np.ndarray, found: estimation.TwoCovariance = found, pseudo: float = pseudo) -> float:
            parts = (found.mean, within, found.between)
            likelihood = sum(joint_density(vectors[speaker == number], *parts) for number in range(len(counts)))
            inverse_wishart = np.linalg.slogdet(within)[1] + np.trace(np.linalg.solve(within, towards))
            return float(likelihood - 0.5 * pseudo * inverse_wishart)

        assert objective(found.within) == pytest.approx(n * found.objective[-1], abs=1e-8)
        for seed in range(5):
            aside = np.random.default_rng(seed).normal(size=(k, k)) * 0.01
            assert objective(found.within + aside + aside.T) < objective(found.within)
        assert far(found.within, towards) < before
        before = far(found.within, towards)


def test_speechbrain_finds_the_same_model_and_the_same_ratios() -> None:
    """With as many eigenvoices as dimensions its model is the two-covariance model; it does not fit the mean."""
    from speechbrain.processing.PLDA_LDA import PLDA, Ndx, StatObject_SB, fast_PLDA_scoring

    counts = np.full(300, 6)
    vectors, speaker = drawn(counts, 16)
    vectors -= vectors.mean(0)

    def held(names: list[str], rows: np.ndarray, prefix: str) -> Any:
        none = np.array([None] * len(rows))
        pieces = np.array([f"{prefix}{row}" for row in range(len(rows))], dtype="|O")
        return StatObject_SB(np.array(names, dtype="|O"), pieces, none, none, np.ones((len(rows), 1)), rows)

    theirs = PLDA(rank_f=DIMENSION, nb_iter=100)
    theirs.plda(held(labels(speaker), vectors, "piece "))
    ours = estimation.two_covariance(estimation.statistics(vectors, speaker, len(counts)), 100)
    assert far(ours.within, theirs.Sigma) < 1e-6
    assert far(ours.between, theirs.F @ theirs.F.T) < 1e-6
    assert np.abs(ours.mean).max() < 1e-12

    first, second = vectors[:20], vectors[100:130]
    names, others = [f"model {row}" for row in range(20)], np.array([f"trial {row}" for row in range(30)], dtype="|O")
    ndx = Ndx(models=np.array(names, dtype="|O"), testsegs=others)
    expected = fast_PLDA_scoring(
        held(names, first, "enrolment "), held(list(others), second, "trial "), ndx, theirs.mean, theirs.F,
        theirs.Sigma, check_missing=False,
    ).scoremat  # fmt: skip
    model = by_the_book(theirs.mean, theirs.Sigma, theirs.F @ theirs.F.T)
    assert np.abs(scores(model, first, np.arange(20), second, False) - expected).max() < 1e-8


def test_lda_spans_the_space_that_scikit_learn_finds() -> None:
    counts = np.random.default_rng(1).integers(2, 20, size=9)
    vectors, speaker = drawn(counts, 17, np.zeros(12), covariance(18, 12), 3 * covariance(19, 12))
    for asked, used in ((3, 3), (200, 8)):
        model, facts = estimation.train(vectors, labels(speaker), **(BY_THE_BOOK | {"lda": asked}))
        assert facts["lda"] == {"asked": asked, "used": used, "dimension": 12}
        reference = LinearDiscriminantAnalysis(solver="eigen").fit(vectors, speaker)
        angles = scipy.linalg.subspace_angles(model.lda.T, reference.scalings_[:, :used])
        assert np.rad2deg(angles.max()) < 1e-4
        assert model.centre == pytest.approx(vectors.mean(0))


def test_vectors_are_of_one_length_before_the_plda_and_of_the_expected_one_in_it() -> None:
    vectors, speaker = drawn(np.full(40, 5), 20, np.zeros(8), covariance(21, 8), covariance(22, 8))
    model, _ = estimation.train(vectors, labels(speaker), **(CHAIN | {"lda": 4}))
    counts = np.random.default_rng(0).integers(1, 9, size=len(vectors))
    found = model.map_vectors(vectors, counts, length_normalise=True)
    for vector, count, mapped in zip(vectors, counts, found, strict=True):
        y = model.lda @ (vector - model.centre)
        y = model.transform @ (y * 2 / np.linalg.norm(y) - model.mean)
        y *= np.sqrt(4 / np.sum(y**2 / (model.psi + 1 / count)))
        assert mapped == pytest.approx(y, abs=1e-12)
    assert np.linalg.norm(plda.normalise_lengths(vectors), axis=1) == pytest.approx(np.sqrt(8))
    assert (plda.normalise_lengths(np.zeros((1, 3))) == 0).all()


def test_the_order_of_vectors_and_a_rotation_of_the_space_do_not_matter() -> None:
    counts = np.array([1, 2, 3, 4] * 8)
    vectors, speaker = drawn(counts, 23, np.ones(20), covariance(24, 20), covariance(25, 20))
    trials, _ = drawn(np.ones(10, dtype=int), 26, np.ones(20), covariance(24, 20), covariance(25, 20))
    enrolment, of_model = trials[:6], np.array([0, 0, 0, 1, 2, 2])
    names = np.array(labels(speaker))
    model, facts = estimation.train(vectors, list(names), **CHAIN)
    expected = scores(model, enrolment, of_model, trials, True)

    order = np.random.default_rng(2).permutation(len(vectors))
    shuffled, other = estimation.train(vectors[order], list(names[order]), **CHAIN)
    assert np.abs(scores(shuffled, enrolment, of_model, trials, True) - expected).max() < 1e-9
    assert other["objective"] == pytest.approx(facts["objective"], abs=1e-11)

    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(20, 20)))[0]
    turned, other = estimation.train(vectors @ turn, list(names), **CHAIN)
    assert np.abs(scores(turned, enrolment @ turn, of_model, trials @ turn, True) - expected).max() < 1e-9
    assert other["regularisation"]["share"] == pytest.approx(facts["regularisation"]["share"])


def test_numbers_do_not_depend_on_the_threads_of_the_blas() -> None:
    vectors, speaker = drawn(np.full(60, 5), 27, np.zeros(64), covariance(28, 64), covariance(29, 64))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model, facts = estimation.train(vectors, labels(speaker), **CHAIN)
            found.append((model, facts, scores(model, vectors, speaker, vectors, True)))
    (one, facts_one, scores_one), (two, facts_two, scores_two) = found
    assert facts_one == facts_two and (scores_one == scores_two).all()
    assert all((getattr(one, name) == getattr(two, name)).all() for name in ("lda", "mean", "transform", "psi"))


def test_statistics_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimation, "BLOCK", 7)
    vectors, speaker = drawn(np.array([3, 9, 1, 12]), 30)
    vectors = vectors.astype(np.float32)
    found = estimation.statistics(vectors, speaker, 4)
    assert found.counts.tolist() == [3, 9, 1, 12] and found.freedom == 21
    scatter = np.zeros((DIMENSION, DIMENSION))
    for number in range(4):
        own = vectors[speaker == number].astype(np.float64)
        assert found.means[number] == pytest.approx(own.mean(0))
        scatter += (own - own.mean(0)).T @ (own - own.mean(0))
    assert found.within == pytest.approx(scatter)


@pytest.mark.parametrize("n", [3, 20, 2000])
def test_shrinkage_is_that_of_scikit_learn(n: int) -> None:
    """Which leaves out the terms in 2 / d: in 400 dimensions they move it by less than 0.5 %."""
    vectors = np.random.default_rng(n).normal(size=(n, 400)) * np.linspace(0.2, 3, 400)
    _, expected = oas(vectors, assume_centered=True)
    assert estimation.shrinkage(vectors.T @ vectors / n, n) == pytest.approx(expected, rel=5e-3)
    assert estimation.shrinkage(np.eye(4), 7) == 1.0


def test_regularisation_vanishes_as_the_data_grow_and_is_needed_where_they_are_few() -> None:
    d = 30
    parts = (np.zeros(d), covariance(31, d), covariance(32, d))
    shares = []
    for speakers in (10, 100, 2000):
        vectors, speaker = drawn(np.full(speakers, 3), 33, *parts)
        _, facts = estimation.train(vectors, labels(speaker), **CHAIN)
        shares.append(facts["regularisation"]["share"])
        assert facts["regularisation"]["near_singular"] is (speakers == 10)
        assert facts["regularisation"]["degrees_of_freedom"] == 2 * speakers
    assert shares[0] > shares[1] > shares[2] and shares[2] < 0.02

    vectors, speaker = drawn(np.full(10, 3), 33, *parts)
    with pytest.raises(DataError, match=r"20 degrees of freedom .* for 30 dimensions"):
        estimation.train(vectors, labels(speaker), **(CHAIN | {"regularisation": 0.0}))
    _, facts = estimation.train(vectors, labels(speaker), **(CHAIN | {"regularisation": 0.2}))
    assert facts["regularisation"]["share"] == 0.2 and not facts["regularisation"]["found"]


def test_dimensions_that_are_always_zero_do_no_harm() -> None:
    """As behind a ReLU. The spherical part gives them a variance, and LDA leaves them out."""
    vectors, speaker = drawn(np.full(50, 6), 34)
    padded = np.hstack([vectors, np.zeros((len(vectors), 3))]).astype(np.float32)
    model, facts = estimation.train(padded, labels(speaker), **(CHAIN | {"lda": DIMENSION}))
    assert facts["regularisation"]["near_singular"]
    assert np.abs(model.lda[:, DIMENSION:]).max() < 1e-8
    assert np.isfinite(scores(model, padded, speaker, padded, True)).all()


def test_data_that_cannot_support_it_are_refused_with_the_reason() -> None:
    vectors, speaker = drawn(np.full(4, 5), 35)
    one = np.zeros(len(vectors), dtype=int)
    cases: list[tuple[np.ndarray, np.ndarray, dict[str, Any], str]] = [
        (vectors, one, CHAIN, "1 speaker: it takes 3 or more"),
        (vectors, one, BY_THE_BOOK, "1 speaker: it takes 2 or more"),
        (vectors, speaker % 2, CHAIN, "2 speakers: it takes 3 or more"),
        (vectors, np.arange(len(vectors)), CHAIN, "one vector each"),
        (vectors[5 * speaker], speaker, CHAIN, "the vectors of each speaker are identical"),
        (np.ones_like(vectors), speaker, CHAIN, "all vectors are identical"),
        (np.full_like(vectors, np.pi, dtype=np.float32), speaker, CHAIN, "all vectors are identical"),
        (np.where(np.arange(len(vectors))[:, None] == 3, np.nan, vectors), speaker, CHAIN, "1 of 20 vectors"),
        (vectors, speaker[:-1], CHAIN, "do not go with 19"),
        (vectors, speaker, CHAIN | {"lda": 1}, "nothing but the sign"),
    ]
    for rows, numbers, chain, reason in cases:
        with pytest.raises(DataError, match=reason):
            estimation.train(rows, labels(numbers), **chain)
    model, _ = estimation.train(vectors, labels(speaker), **CHAIN)
    with pytest.raises(DataError, match="5-dimensional"):
        model.map_vectors(vectors[:, :4], 1, length_normalise=True)


def test_two_speakers_are_enough_by_the_book() -> None:
    vectors, speaker = drawn(np.full(2, 20), 36)
    model, facts = estimation.train(vectors, labels(speaker), **BY_THE_BOOK)
    assert facts["lda"]["used"] == 1 and model.psi.shape == (1,)
    found = scores(model, vectors, speaker, vectors, False)
    assert found[0, speaker == 0].mean() > found[0, speaker == 1].mean()


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    vectors, speaker = drawn(np.full(20, 4), 37)
    model, _ = estimation.train(vectors, labels(speaker), **CHAIN)
    model.write(tmp_path)
    again = plda.read_model(tmp_path)
    for name in ("centre", "lda", "offset", "mean", "transform", "psi"):
        assert getattr(again, name).dtype == np.float64
        assert (getattr(again, name) == getattr(model, name)).all()
    with pytest.raises(DataError, match="cannot be read"):
        plda.read_model(tmp_path / "nothing")
    (tmp_path / plda.FILE).write_bytes(b"no tensors")
    with pytest.raises(DataError, match="cannot be read"):
        plda.read_model(tmp_path)
