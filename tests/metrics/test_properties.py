"""Invariances that every metric of scores inherits by joining one list.

``order``: the order of trials. ``monotone``: strictly increasing maps that keep the number of distinct float64 values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline import metrics as m


class Entry(NamedTuple):
    name: str
    measure: Callable[[np.ndarray, np.ndarray], object]
    monotone: bool
    low: float
    high: float


def tpr(target, nontarget):
    return m.tpr_at_fpr(target, nontarget, 0.2).tpr


def c_ece(method):
    def measure(target, nontarget):
        half_t, half_n = np.sort(target), np.sort(nontarget)
        try:
            return m.c_ece(half_t[::2], half_n[::2], half_t, half_n, method=method).c_ece
        except m.Undefined:
            return math.nan

    return measure


METRICS = [
    Entry("eer rocch", lambda t, n: m.eer(t, n), True, 0, 0.5),
    Entry("eer kaldi", lambda t, n: m.eer(t, n, variant="kaldi"), True, 0, 1),
    Entry("eer speechbrain", lambda t, n: m.eer(t, n, variant="speechbrain"), True, 0, 1),
    Entry("cllr", m.cllr, False, 0, math.inf),
    Entry("cllr_min", m.cllr_min, True, 0, 1 + 1e-12),
    Entry("cllr_cal", m.cllr_cal, False, -1e-12, math.inf),
    Entry("d_ece of llr", m.d_ece, False, -math.inf, m.D_ECE_MAX),
    Entry("d_ece", m.d_ece_oracle, True, 0, m.D_ECE_MAX + 1e-12),
    Entry("l_w", lambda t, n: m.trial_metrics(t, n).l_w, True, 0, math.inf),
    Entry("tag", lambda t, n: "0ABCDEF".index(m.trial_metrics(t, n).tag), True, 0, 6),
    Entry("tpr at fpr", tpr, True, 0, 1),
    Entry("d_sys exact", m.d_sys, True, 0, 1),
    Entry("c_ece linear", c_ece("linear"), False, -math.inf, m.D_ECE_MAX),
    Entry("c_ece isotonic", c_ece("isotonic"), False, -math.inf, m.D_ECE_MAX),
]
MONOTONE = [entry for entry in METRICS if entry.monotone]

# Multiples of 1/16: ties are frequent and maps keep them apart.
CLASS = st.lists(st.integers(-60, 60), min_size=5, max_size=40).map(lambda x: np.array(x) / 16)
MAPS = {
    "affine": lambda x: 7 * x - 3,
    "cubic": lambda x: x**3 + x / 8,
    "exp": np.exp,
    "arctan": np.arctan,
    "tiny": lambda x: 1e-9 * x,
}


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("entry", METRICS, ids=lambda e: e.name)
@settings(max_examples=25, deadline=None)
@given(target=CLASS, nontarget=CLASS, seed=st.integers(0, 2**16))
def test_the_order_of_trials_does_not_matter_and_the_range_holds(entry, target, nontarget, seed):
    rng = np.random.default_rng(seed)
    value = entry.measure(target, nontarget)
    assert same(value, entry.measure(rng.permutation(target), rng.permutation(nontarget)))
    assert math.isnan(value) or entry.low <= value <= entry.high


@pytest.mark.parametrize("entry", MONOTONE, ids=lambda e: e.name)
@settings(max_examples=25, deadline=None)
@given(target=CLASS, nontarget=CLASS, name=st.sampled_from(sorted(MAPS)))
def test_strictly_increasing_maps_do_not_matter(entry, target, nontarget, name):
    scores = np.concatenate([target, nontarget])
    mapped = MAPS[name](scores)
    assume(np.unique(mapped).size == np.unique(scores).size)
    assert same(entry.measure(mapped[: target.size], mapped[target.size :]), entry.measure(target, nontarget))


@pytest.mark.parametrize("entry", MONOTONE, ids=lambda e: e.name)
def test_infinities_are_scores_like_any_other(entry):
    finite = np.array([-2.0, -1.0, 0.5, 2.0]), np.array([-2.0, -1.0, 0.5, 1.0])
    infinite = np.array([-np.inf, -1.0, 0.5, np.inf]), np.array([-np.inf, -1.0, 0.5, 1.0])
    if entry.name == "tpr at fpr":
        assert entry.measure(*finite) is entry.measure(*infinite) is None
    else:
        assert entry.measure(*finite) == entry.measure(*infinite)


def test_raw_metrics_do_change_under_maps():
    """The list says which metrics are not invariant: a wrong ``False`` there would hide a lost test."""
    rng = np.random.default_rng(0)
    target, nontarget = rng.normal(1, 1, 40), rng.normal(-1, 1, 40)
    for entry in METRICS:
        if not entry.monotone and entry.name != "c_ece linear" and entry.name != "c_ece isotonic":
            assert not same(entry.measure(target, nontarget), entry.measure(2 * target, 2 * nontarget)), entry.name


@settings(max_examples=40, deadline=None)
@given(CLASS, CLASS)
def test_ece_at_even_odds_is_cllr(target, nontarget):
    assert m.ece(target, nontarget, 0.0)[0] == pytest.approx(m.cllr(target, nontarget), rel=1e-12)
    profile = m.ece_profile(target, nontarget, [0.0])
    assert profile.ece[0] == pytest.approx(m.cllr_min(target, nontarget), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(CLASS, CLASS)
def test_oracle_calibration_is_best_and_l_w_keeps_below_its_ceiling(target, nontarget):
    found = m.trial_metrics(target, nontarget)
    assert found.cllr_min <= found.cllr + 1e-12
    assert found.d_ece >= m.d_ece(target, nontarget) - 1e-12
    assert found.l_w <= found.l_w_ceiling + 1e-12
    assert found.eer["rocch"] <= found.eer["kaldi"] + 1 / target.size + 1e-12
    swapped = m.trial_metrics(-nontarget, -target)
    assert swapped.eer["rocch"] == pytest.approx(found.eer["rocch"], abs=1e-12)
    assert swapped.cllr_min == pytest.approx(found.cllr_min, abs=1e-12)
    assert swapped.d_ece == pytest.approx(found.d_ece, abs=1e-12)
    assert swapped.l_w == pytest.approx(found.l_w, abs=1e-12)


def random_vsm(seed):
    rng = np.random.default_rng(seed)
    n_speakers = int(rng.integers(2, 5))
    speakers = rng.permutation(np.concatenate([np.repeat(np.arange(n_speakers), 2), rng.integers(0, n_speakers, 4)]))
    n = speakers.size
    scores = [
        np.round(rng.normal(size=(n, n)) + shift * (speakers[:, None] == speakers), 1) for shift in (2.0, 1.0, 0.5)
    ]
    return rng, speakers, scores


VSM = st.integers(0, 2**16)
SIMILARITY = st.sampled_from(["geometric_mean", "sigmoid_mean"])


@settings(max_examples=25, deadline=None)
@given(VSM, SIMILARITY)
def test_nothing_done_gives_deid_0_and_g_vd_0(seed, similarity):
    _, speakers, (oo, _, _) = random_vsm(seed)
    same_matrix = m.similarity_matrix(oo, speakers, similarity=similarity)
    assert m.deid(same_matrix.matrix, same_matrix.matrix) == 0
    assert m.g_vd(same_matrix.matrix, same_matrix.matrix) == 0
    found = m.vsm_metrics(same_matrix, same_matrix, same_matrix, [str(i) for i in range(speakers.max() + 1)])
    assert (found.deid, found.g_vd) == (0, 0)


@settings(max_examples=25, deadline=None)
@given(VSM, SIMILARITY)
def test_vsm_ignores_order_of_utterances_names_of_speakers_and_increasing_maps(seed, similarity):
    rng, speakers, (_, op, _) = random_vsm(seed)
    want = m.similarity_matrix(op, speakers, similarity=similarity)
    order = rng.permutation(speakers.size)
    name = rng.permutation(speakers.max() + 1)
    got = m.similarity_matrix(op[np.ix_(order, order)], name[speakers[order]], similarity=similarity)
    np.testing.assert_allclose(got.matrix[np.ix_(name, name)], want.matrix, atol=1e-12)
    np.testing.assert_allclose(got.speaker_d_ece[name], want.speaker_d_ece, atol=1e-12)
    assert got.signed == pytest.approx(want.signed, abs=1e-12)
    mapped = m.similarity_matrix(np.exp(op), speakers, similarity=similarity)
    np.testing.assert_allclose(mapped.matrix, want.matrix, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(VSM)
def test_eq_6_never_exceeds_eq_2(seed):
    _, speakers, (_, op, _) = random_vsm(seed)
    geometric = m.similarity_matrix(op, speakers, similarity="geometric_mean").matrix
    assert (geometric <= m.similarity_matrix(op, speakers, similarity="sigmoid_mean").matrix + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=40).filter(any))
def test_max_d_mean_d_and_0_are_in_order(counts):
    histogram = np.array(counts) / sum(counts)
    found = m.disclosure(histogram)
    assert math.log2(len(counts)) + 1e-12 >= found.max_d >= found.mean_d - 1e-12
    assert found.mean_d >= 0
    fit = m.fit_beta_binomial(histogram)
    if fit.disclosure is None:
        assert histogram[0] == 0 and fit.flag == "none" and fit.reason
    else:
        assert fit.disclosure.max_d >= fit.disclosure.mean_d - 1e-12
        assert fit.gamma.sum() == pytest.approx(1, abs=1e-12)
        assert fit.gamma[0] == pytest.approx(histogram[0], abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 7, 40, 49])
def test_uniform_ranks_disclose_nothing(n):
    found = m.disclosure(np.full(n, 1 / n))
    assert (found.max_d, found.mean_d, found.rank_spread) == (0, pytest.approx(0, abs=1e-14), 0)
    constant = m.srd(np.zeros((3 * n, n)), np.arange(3 * n) % n)
    assert (constant.empirical.max_d, constant.empirical.mean_d) == (0, pytest.approx(0, abs=1e-14))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16))
def test_srd_ignores_order_of_inputs_and_references_and_increasing_maps(seed):
    rng = np.random.default_rng(seed)
    n, n_references = 24, 6
    similarity, truth = rng.integers(0, 9, (n, n_references)) / 8, rng.integers(0, n_references, n)
    want = m.srd(similarity, truth)
    inputs, references = rng.permutation(n), rng.permutation(n_references)
    place = np.argsort(references)
    got = m.srd(np.exp(similarity[np.ix_(inputs, references)]), place[truth[inputs]])
    np.testing.assert_allclose(got.histogram, want.histogram, atol=1e-14)
    np.testing.assert_allclose(got.speaker_mean_rank, want.speaker_mean_rank[references], atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**16))
def test_intervals_ignore_order_of_trials_and_names_of_speakers(seed):
    rng = np.random.default_rng(seed)
    enrolled, spoken = np.repeat(np.arange(5), 30), np.tile(np.repeat(np.arange(6), 5), 5)
    scores = np.round(rng.normal(size=150) + 1.0 * (enrolled == spoken), 1)
    want = m.intervals(m.trials_by_speaker(m.Trials(scores, enrolled, spoken)))
    order, name = rng.permutation(150), rng.permutation(6)
    got = m.intervals(m.trials_by_speaker(m.Trials(scores[order], name[enrolled[order]], name[spoken[order]])))
    for metric, interval in want.items():
        assert (got[metric].low, got[metric].high) == pytest.approx((interval.low, interval.high), abs=1e-10)
