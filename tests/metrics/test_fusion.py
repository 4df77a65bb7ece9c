"""Fusion against loops and scikit-learn's logistic regression."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pipeline import metrics as m
from pipeline.metrics.fusion import PENALTY


def drawn(seed, strengths=(2.0, 1.0, 1.2), targets=150, nontargets=900):
    random = np.random.default_rng(seed)
    target = np.arange(targets + nontargets) < targets
    common = random.normal(size=(len(target), 1))
    scores = random.normal(size=(len(target), len(strengths))) + 0.5 * common + np.outer(target, strengths)
    return scores * [10.0, 0.1, 1.0][: len(strengths)] + [100.0, -3.0, 0.0][: len(strengths)], target


def test_equal_weights_are_the_mean_of_normalised_scores():
    scores, target = drawn(1)
    tried, _ = drawn(2)
    found = m.equal_fusion(scores[~target])
    fused = found.fused(tried)
    for row, value in zip(tried.tolist(), fused.tolist()):
        z = []
        for kind in range(3):
            others = [other[kind] for other, same in zip(scores.tolist(), target) if not same]
            mean = math.fsum(others) / len(others)
            spread = math.sqrt(math.fsum((other - mean) ** 2 for other in others) / len(others))
            z.append((row[kind] - mean) / spread)
        assert value == pytest.approx(math.fsum(z) / 3, abs=1e-10)
    assert (found.kind, found.offset) == ("equal", 0.0) and found.weights.tolist() == [1 / 3] * 3


@pytest.mark.parametrize("penalty", [PENALTY, 0.1])
def test_logistic_weights_are_those_of_scikit_learn(penalty):
    scores, target = drawn(3)
    found = m.logistic_fusion(scores, target, penalty=penalty)
    z = (scores - scores[~target].mean(0)) / scores[~target].std(0)
    share = np.where(target, 0.5 / target.sum(), 0.5 / (~target).sum())
    theirs = LogisticRegression(C=1 / penalty, tol=1e-12, max_iter=10_000).fit(z, target, sample_weight=share)
    assert (theirs.coef_ > 0).all()
    assert found.weights == pytest.approx(theirs.coef_[0], abs=1e-5)
    assert found.offset == pytest.approx(theirs.intercept_[0], abs=1e-5)
    tried, _ = drawn(4)
    assert found.fused(tried) == pytest.approx(
        theirs.decision_function((tried - scores[~target].mean(0)) / scores[~target].std(0)), abs=1e-4
    )


def test_a_weight_that_would_be_negative_is_zero_and_the_others_are_those_without_it():
    scores, target = drawn(5, (1.5, 1.0, -0.7))
    found, without = m.logistic_fusion(scores, target), m.logistic_fusion(scores[:, :2], target)
    assert found.weights[2] == 0
    assert found.weights[:2] == pytest.approx(without.weights, abs=1e-5)


def test_scores_that_tell_nothing_have_equal_weights():
    scores, target = drawn(6, (-1.0, -2.0))
    found = m.logistic_fusion(scores, target)
    assert found.kind == "equal" and found.weights.tolist() == [0.5, 0.5]


def test_separable_scores_have_finite_weights_that_grow_as_the_penalty_falls():
    scores, target = drawn(7, (50.0, 20.0))
    norms = [np.linalg.norm(m.logistic_fusion(scores, target, penalty=p).weights) for p in (1e-2, PENALTY, 1e-6)]
    assert np.isfinite(norms).all() and norms[0] < norms[1] < norms[2]


def test_what_is_fused_is_calibrated_and_better_than_each():
    scores, target = drawn(8, (1.5, 1.5, 1.5), 2000, 8000)
    tried, same = drawn(9, (1.5, 1.5, 1.5), 2000, 8000)
    fused = m.logistic_fusion(scores, target).fused(tried)
    assert m.cllr_cal(fused[same], fused[~same]) < 0.01
    assert (
        m.eer(fused[same], fused[~same]) < min(m.eer(tried[same, kind], tried[~same, kind]) for kind in range(3)) - 0.02
    )


def test_what_cannot_be_fused_is_refused():
    scores, target = drawn(10)
    flat = scores.copy()
    flat[:, 1] = 3
    cases = [
        (lambda: m.equal_fusion(scores[:1]), "1 non-target scores, and a scale takes 2"),
        (lambda: m.equal_fusion(np.where(scores == scores[0, 0], np.nan, scores)), "1 of 1050 trials"),
        (lambda: m.equal_fusion(flat), "kind 1 are the same"),
        (lambda: m.equal_fusion(scores[:, 0]), r"of shape \[n, K\]"),
        (lambda: m.logistic_fusion(scores, target[1:]), "labels of shape"),
        (lambda: m.logistic_fusion(scores, np.zeros(len(target), bool)), "no target score"),
        (lambda: m.logistic_fusion(scores, np.ones(len(target), bool)), "0 non-target scores"),
        (lambda: m.equal_fusion(scores).fused(scores[:, :2]), r"of shape \[n, 3\]"),
    ]
    for call, reason in cases:
        with pytest.raises(m.MetricError, match=reason):
            call()
