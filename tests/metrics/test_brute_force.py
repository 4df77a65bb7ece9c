"""Against slow, plain implementations: exact fractions, loops over pairs, numerical quadrature."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import metrics as m

from . import brute

# Eighths make ties frequent and midpoints exact.
SCORES = st.lists(st.integers(-12, 12).map(lambda x: x / 8), min_size=1, max_size=14)


@settings(max_examples=80, deadline=None)
@given(SCORES, SCORES, st.booleans())
def test_pav(target, nontarget, laplace):
    want = brute.llr_by_score(target, nontarget, laplace)
    for scores, got in zip((target, nontarget), m.oracle_llr(target, nontarget, laplace=laplace)):
        np.testing.assert_allclose(got, [float(want[s]) for s in scores], rtol=0, atol=1e-13)


@settings(max_examples=80, deadline=None)
@given(SCORES, SCORES)
def test_eer_variants(target, nontarget):
    assert m.eer(target, nontarget) == pytest.approx(float(brute.eer_rocch(target, nontarget)), abs=1e-15)
    for variant in ("kaldi", "speechbrain"):
        want = getattr(brute, f"eer_{variant}")(target, nontarget)
        assert m.eer(target, nontarget, variant=variant) == pytest.approx(float(want), abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(
    SCORES, st.lists(st.integers(-12, 12).map(lambda x: x / 8), min_size=10, max_size=30), st.sampled_from([0.1, 0.3])
)
def test_tpr_at_fpr(target, nontarget, fpr):
    best = 0
    for threshold in [*set(target), *set(nontarget), math.inf]:
        if sum(s >= threshold for s in nontarget) <= fpr * len(nontarget) + 1e-9:
            best = max(best, sum(s >= threshold for s in target))
    found = m.tpr_at_fpr(target, nontarget, fpr)
    assert found.tpr == best / len(target)
    assert found.few == (found.false_alarms < 10)


def test_tpr_needs_enough_nontargets():
    found = m.tpr_at_fpr([1.0], np.zeros(999), 0.001)
    assert found.tpr is None and "999" in found.reason
    assert m.tpr_at_fpr([1.0], np.zeros(1000), 0.001).tpr == 1.0
    assert m.tpr_at_fpr([0.0], np.zeros(1000), 0.001).tpr == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_d_ece_is_the_integral_of_prior_entropy_minus_ece(seed):
    rng = np.random.default_rng(seed)
    target, nontarget = rng.normal(1, 2, 4), rng.normal(-1, 2, 5)
    want = brute.d_ece(list(map(float, target)), list(map(float, nontarget)))
    assert m.d_ece(target, nontarget) == pytest.approx(float(want), abs=1e-9)


def test_ece_and_prior_entropy_at_priors():
    target, nontarget = [2.0, -1.0, 0.3], [-3.0, 0.5]
    for pi in (0.01, 0.3, 0.5, 0.99):
        odds = math.log(pi / (1 - pi))
        want = float(brute.ece(target, nontarget, mpmath.mpf(pi)))
        assert m.ece(target, nontarget, odds)[0] == pytest.approx(want, abs=1e-12)
        entropy = -pi * math.log2(pi) - (1 - pi) * math.log2(1 - pi)
        assert m.prior_entropy(odds)[0] == pytest.approx(entropy, abs=1e-12)


def test_ece_profile_of_oracle_scores_integrates_to_d_ece():
    rng = np.random.default_rng(4)
    target, nontarget = rng.normal(1, 1, 40), rng.normal(-1, 1, 60)
    grid = np.linspace(-30, 30, 6001)
    profile = m.ece_profile(target, nontarget, grid)
    density = np.exp(-np.logaddexp(0, grid) - np.logaddexp(0, -grid))
    assert np.trapezoid(profile.disclosed * density, grid) == pytest.approx(m.d_ece_oracle(target, nontarget), abs=1e-6)
    llr = m.oracle_llr(target, nontarget)
    np.testing.assert_allclose(profile.ece, m.ece(*llr, grid), atol=1e-12)
    raw = m.ece_profile(target, nontarget, oracle=False)
    np.testing.assert_allclose(raw.ece, m.ece(target, nontarget, raw.log_odds), atol=1e-14)
    np.testing.assert_allclose(raw.disclosed, raw.prior_entropy - raw.ece, atol=0)


def test_z_function_between_its_branches():
    with mpmath.workdps(40):
        for l in [*np.linspace(-0.1, 0.1, 41), -700.0, -60.0, -1.0, 1.0, 36.0, 700.0]:  # noqa: E741
            if l == 0:
                continue
            c = mpmath.exp(mpmath.mpf(float(l))) - 1
            want = mpmath.mpf(1) / 2 + (mpmath.mpf(float(l)) - c) / c**2
            assert abs(m.z_function(l) / float(want) - 1) < 1e-11, l
    assert m.z_function([np.inf, -np.inf, 0.0]).tolist() == [0.5, -np.inf, 0.0]


@pytest.mark.parametrize("similarity", ["geometric_mean", "sigmoid_mean"])
@pytest.mark.parametrize(("pairing", "self_pairs"), [("all", "drop"), ("all", "keep"), ("vpc2020", "drop")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_similarity_matrix_by_loops_over_pairs(similarity, pairing, self_pairs, dtype):
    rng = np.random.default_rng(7)
    speakers = np.array([2, 0, 1, 0, 2, 1, 1, 0, 3, 3])
    scores = np.round(rng.normal(size=(10, 10)) + 1.2 * (speakers[:, None] == speakers), 1).astype(dtype)
    options = {"similarity": similarity, "pairing": pairing, "self_pairs": self_pairs}
    got = m.similarity_matrix(scores, speakers, **options)
    want = np.array(brute.similarity_matrix(scores.tolist(), speakers.tolist(), 4, **options))
    np.testing.assert_allclose(got.matrix, want, atol=1e-12)
    off = want[~np.eye(4, dtype=bool)]
    assert got.signed == pytest.approx(np.diag(want).mean() - off.mean(), abs=1e-12)
    assert got.d_diag == abs(got.signed)


def test_what_is_said_of_each_speaker_by_loops_over_pairs():
    rng = np.random.default_rng(8)
    speakers = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    scores = rng.normal(size=(9, 9)) + 1.5 * (speakers[:, None] == speakers)
    got = m.similarity_matrix(scores, speakers)
    pairs = [(u, v) for u in range(9) for v in range(9) if u != v]
    target = [scores[u, v] for u, v in pairs if speakers[u] == speakers[v]]
    nontarget = [scores[u, v] for u, v in pairs if speakers[u] != speakers[v]]
    llr = {s: float(value) for s, value in brute.llr_by_score(target, nontarget, laplace=True).items()}
    assert (got.n_target, got.n_nontarget) == (len(target), len(nontarget))
    assert got.d_ece == pytest.approx(m.d_ece_oracle(target, nontarget), abs=1e-14)
    assert got.cllr_min == pytest.approx(m.cllr_min(target, nontarget), abs=1e-14)
    for i in range(3):
        own = [llr[scores[u, v]] for u, v in pairs if speakers[u] == speakers[v] == i]
        row = [llr[scores[u, v]] for u, v in pairs if speakers[u] == i != speakers[v]]
        column = [llr[scores[u, v]] for u, v in pairs if speakers[v] == i != speakers[u]]
        assert got.target_llr[i] == pytest.approx(np.mean(own), abs=1e-12)
        assert got.impostor_llr_row[i] == pytest.approx(np.mean(row), abs=1e-12)
        assert got.impostor_llr_column[i] == pytest.approx(np.mean(column), abs=1e-12)
        assert got.speaker_d_ece[i] == pytest.approx(m.d_ece(own, row + column), abs=1e-12)
        assert got.speaker_max_llr[i] == pytest.approx(max(map(abs, own + row + column)), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["spread", "best", "worst"]))
def test_rank_histogram_by_sorting(seed, ties):
    rng = np.random.default_rng(seed)
    n, n_references = rng.integers(1, 12), rng.integers(2, 7)
    similarity = rng.integers(0, 5, (n, n_references)) / 4
    truth = rng.integers(0, n_references, n)
    weights = rng.integers(0, 3, n) + (np.arange(n) == 0)
    want = np.zeros(n_references)
    for row, true, weight in zip(similarity, truth, weights):
        better = sum(s > row[true] for s in row)
        tied = sum(s == row[true] for s in row)
        places = {"spread": range(better, better + tied), "best": [better], "worst": [better + tied - 1]}[ties]
        for place in places:
            want[place] += weight / len(places) / weights.sum()
    got = m.srd(similarity, truth, ties=ties, weights=weights)
    np.testing.assert_allclose(got.histogram, want, atol=1e-14)
    assert got.empirical.idr == pytest.approx(want[0], abs=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_constrained_beta_binomial_against_scipy_and_a_fine_grid(seed):
    from scipy.optimize import brentq
    from scipy.stats import betabinom

    rng = np.random.default_rng(seed)
    counts = np.bincount(betabinom(14, 0.6, 1.7).rvs(300, random_state=rng), minlength=15)
    p = counts / counts.sum()
    best = -np.inf
    for alpha in np.geomspace(0.05, 20, 400):
        beta = brentq(lambda b, a=alpha: betabinom.pmf(0, 14, a, b) - p[0], 1e-6, 1e5)
        best = max(best, float(counts @ betabinom.logpmf(np.arange(15), 14, alpha, beta)))
    fit = m.fit_beta_binomial(p, counts.sum())
    assert fit.gamma[0] == pytest.approx(p[0], abs=1e-9)
    np.testing.assert_allclose(fit.gamma, betabinom.pmf(np.arange(15), 14, fit.alpha, fit.beta), rtol=1e-8)
    assert best - 1e-9 <= fit.log_likelihood <= best + 0.05
