"""Tags, gains, zoo, linkability, rank disclosure at its edges, C_ECE: closed forms and edge cases."""

from __future__ import annotations

import dataclasses
import math
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from pipeline import metrics as m


@pytest.mark.parametrize(
    ("l_w", "tag"),
    [(0, "0"), (1e-13, "0"), (1e-11, "A"), (0.999, "A"), (1, "B"), (1.999, "B"), (2, "C"), (3.999, "C"), (4, "D"),
     (4.999, "D"), (5, "E"), (5.999, "E"), (6, "F"), (math.inf, "F")],
)  # fmt: skip
def test_tags_of_table_1_belong_to_the_upper_category_at_its_lower_end(l_w, tag):
    assert m.tag(l_w) == tag


@pytest.mark.parametrize("l_w", [-1e-9, math.nan])
def test_tag_refuses(l_w):
    with pytest.raises(m.MetricError):
        m.tag(l_w)


def test_d_ece_of_perfect_separation_is_1_over_2_ln_2():
    assert pytest.approx(0.7213475204444817, abs=1e-15) == m.D_ECE_MAX
    assert m.d_ece_oracle([1.0], [0.0]) == pytest.approx(m.D_ECE_MAX, abs=1e-15)


def test_the_ceiling_is_reached_by_perfect_separation_only():
    assert m.trial_metrics(np.ones(548), np.zeros(11196)).l_w == pytest.approx(m.l_w_ceiling(548, 11196), abs=1e-12)
    assert m.l_w_ceiling(548, 11196) == pytest.approx(4.05, abs=0.005)
    assert m.l_w_ceiling(100, 100) == pytest.approx(2.0, abs=0.005)
    with pytest.raises(m.MetricError, match="non-target"):
        m.l_w_ceiling(3, 0)
    with pytest.raises(m.MetricError, match="no target"):
        m.l_w_ceiling(0, 3)


def test_laplace_llrs_of_a_separated_set_in_closed_form():
    target, nontarget = m.oracle_llr([3.0, 4.0, 5.0], [0.0, 1.0], laplace=True)
    assert target == pytest.approx([math.log(4 * 2 / 3)] * 3)
    assert nontarget == pytest.approx([-math.log(3 * 3 / 2)] * 2)
    without = m.oracle_llr([3.0, 4.0, 5.0], [0.0, 1.0])
    assert without[0].tolist() == [math.inf] * 3 and without[1].tolist() == [-math.inf] * 2


def test_equal_classes_that_tell_nothing_have_tag_0():
    assert m.trial_metrics([1.0, 1.0], [1.0, 1.0]).tag == "0"


def test_a_calibration_applies_to_other_scores_as_a_step_that_holds_its_ends():
    calibration = m.calibrate([2.0, 3.0], [0.0, 2.0, 1.0], laplace=True)
    low, *_, high = calibration.llr
    assert calibration.apply([-np.inf, -9, 99, np.inf]).tolist() == [low, low, high, high]
    assert (np.diff(calibration.apply(np.linspace(-1, 4, 50))) >= 0).all()
    with pytest.raises(m.MetricError, match="NaN"):
        calibration.apply([np.nan])


@pytest.mark.parametrize("function", [
    m.eer, m.cllr, m.cllr_min, m.cllr_cal, m.d_ece, m.d_ece_oracle, m.oracle_llr, m.calibrate, m.trial_metrics,
    m.d_sys, m.ece_profile, m.linear_calibration, m.isotonic_calibration, lambda t, n: m.tpr_at_fpr(t, n, 0.5),
    lambda t, n: m.ece(t, n, 0.0), lambda t, n: m.c_ece(t, n, [1.0, 0.0], [0.0, 1.0]),
])  # fmt: skip
def test_nan_and_an_empty_class_are_refused(function):
    for target, nontarget, words in (
        ([np.nan, 1.0], [0.0], "target scores: 1 of 2 values are NaN"),
        ([1.0], [0.0, np.nan], "NaN"),
        ([], [0.0], "no target"),
        ([1.0], [], "no non-target"),
        ([[1.0]], [0.0], "one-dimensional"),
    ):
        with pytest.raises(m.MetricError, match=words):
            function(target, nontarget)
    assert issubclass(m.MetricError, ValueError) and issubclass(m.Undefined, m.MetricError)


def test_unknown_options_are_refused_by_name():
    scores, speakers = np.zeros((4, 4)), [0, 0, 1, 1]
    for call in (
        lambda: m.eer([1.0], [0.0], variant="best"),
        lambda: m.d_sys([1.0], [0.0], variant="best"),
        lambda: m.similarity_matrix(scores, speakers, similarity="best"),
        lambda: m.similarity_matrix(scores, speakers, pairing="best"),
        lambda: m.similarity_matrix(scores, speakers, self_pairs="best"),
        lambda: m.srd(np.eye(2), [0, 1], ties="best of all"),
        lambda: m.c_ece([1.0], [0.0], [1.0], [0.0], method="best"),
        lambda: m.isotonic_calibration([1.0], [0.0], between="best"),
    ):
        with pytest.raises(m.MetricError, match="must be one of"):
            call()
    for fpr in (0, 1, -0.1):
        with pytest.raises(m.MetricError, match="fpr"):
            m.tpr_at_fpr([1.0], [0.0], fpr)
    with pytest.raises(m.MetricError, match="omega"):
        m.d_sys([1.0], [0.0], omega=0)
    with pytest.raises(m.MetricError, match="finite"):
        m.ece([1.0], [0.0], np.inf)


# --- voice similarity matrices --------------------------------------------------------------------------------------


def test_what_a_similarity_matrix_refuses():
    scores = np.zeros((5, 5))
    with pytest.raises(m.MetricError, match="carla"):
        m.similarity_matrix(scores, [0, 0, 1, 1, 2], names=["anna", "berta", "carla"])
    with pytest.raises(m.MetricError, match="dora"):
        m.similarity_matrix(scores, [0, 0, 1, 1, 1], names=["anna", "berta", "dora"])
    m.similarity_matrix(scores, [0, 0, 1, 1, 2], self_pairs="keep")
    with pytest.raises(m.MetricError, match="two speakers"):
        m.similarity_matrix(scores, [0] * 5)
    with pytest.raises(m.MetricError, match="do not fit"):
        m.similarity_matrix(scores, [0, 0, 1, 1])
    with pytest.raises(m.MetricError, match="names"):
        m.similarity_matrix(scores, [0, 0, 1, 1, 1], names=["anna"])
    with pytest.raises(m.MetricError, match="integer"):
        m.similarity_matrix(scores, [0.0, 0, 1, 1, 1])
    with pytest.raises(m.MetricError, match="negative"):
        m.similarity_matrix(scores, [-1, 0, 1, 1, 1])
    with pytest.raises(m.MetricError, match="self_pairs"):
        m.similarity_matrix(scores, [0, 0, 1, 1, 1], pairing="vpc2020", self_pairs="keep")
    for where in ((0, 1), (4, 0)):
        bad = scores.copy()
        bad[where] = np.nan
        with pytest.raises(m.MetricError, match="NaN"):
            m.similarity_matrix(bad, [0, 0, 1, 1, 1])


def test_entries_that_are_not_compared_may_be_nan():
    rng = np.random.default_rng(0)
    scores, speakers = rng.normal(size=(6, 6)), [0, 0, 1, 1, 2, 2]
    want = {p: m.similarity_matrix(scores, speakers, pairing=p).matrix for p in ("all", "vpc2020")}
    np.fill_diagonal(scores, np.nan)
    assert (m.similarity_matrix(scores, speakers).matrix == want["all"]).all()
    scores[np.tril_indices(6)] = np.nan
    half = m.similarity_matrix(scores, speakers, pairing="vpc2020").matrix
    assert (half == want["vpc2020"]).all() and (half == half.T).all()


def test_scores_that_are_llrs_are_taken_as_they_are():
    llr = np.array([[0, 2, -1, -1], [2, 0, -1, -3], [-1, -1, 0, 1], [-1, -3, 1, 0.0]])
    got = m.similarity_matrix(llr, [0, 0, 1, 1], scores_are_llr=True, similarity="sigmoid_mean").matrix
    sigmoid = [1 / (1 + math.exp(-x)) for x in (2, -1.5, 1)]
    np.testing.assert_allclose(got, [[sigmoid[0], sigmoid[1]], [sigmoid[1], sigmoid[2]]], atol=1e-15)
    llr[0, 2] = -np.inf
    geometric = m.similarity_matrix(llr, [0, 0, 1, 1], scores_are_llr=True)
    assert geometric.matrix[0, 1] == 0 and geometric.matrix[1, 0] > 0
    assert geometric.impostor_llr_row[0] == -np.inf
    llr[0, 3] = np.inf
    with pytest.raises(m.MetricError, match="both"):
        m.similarity_matrix(llr, [0, 0, 1, 1], scores_are_llr=True, similarity="sigmoid_mean")


def test_deid_and_g_vd_where_they_do_not_exist():
    flat, diagonal = np.full((3, 3), 0.3), np.full((3, 3), 0.3) + 0.4 * np.eye(3)
    for function in (m.deid, m.g_vd):
        with pytest.raises(m.Undefined, match="diagonal"):
            function(flat, diagonal)
    assert m.deid(diagonal, flat) == 1
    assert m.g_vd(diagonal, flat) == -math.inf
    assert m.deid(0.3 + 0.2 * np.eye(3), diagonal) == pytest.approx(-1)
    assert m.g_vd(diagonal, 0.3 + 0.04 * np.eye(3)) == pytest.approx(-10)
    # A diagonal below the rest is just as identifying: the absolute value hides the sign.
    below = 0.5 - 0.4 * np.eye(3)
    assert m.deid(diagonal, below) == pytest.approx(0) and m.signed_dominance(below) == pytest.approx(-0.4)
    for bad in (np.zeros((2, 3)), np.zeros((1, 1)), np.full((2, 2), np.nan)):
        with pytest.raises(m.MetricError):
            m.d_diag(bad)


def test_weighted_dominance_weighs_cells_by_the_product():
    rng = np.random.default_rng(0)
    matrix = rng.uniform(size=(3, 3))
    w = np.array([2, 1, 3])
    diagonal = sum(w[i] * matrix[i, i] for i in range(3)) / 6
    cells = [(w[i] * w[j], matrix[i, j]) for i in range(3) for j in range(3) if i != j]
    off = sum(a * b for a, b in cells) / sum(a for a, _ in cells)
    assert m.signed_dominance(matrix, w) == pytest.approx(diagonal - off, abs=1e-15)
    assert m.signed_dominance(matrix, np.ones(3)) == pytest.approx(m.signed_dominance(matrix), abs=1e-15)


def test_speaker_table_and_the_worst_by_name():
    rng = np.random.default_rng(3)
    speakers = np.repeat(np.arange(4), 3)
    same = speakers[:, None] == speakers
    oo = rng.normal(size=(12, 12)) + 4 * same
    # Speaker 2 is not protected at all, the others are.
    op = np.where(speakers == 2, oo, rng.normal(size=(12, 12)))
    parts = [m.similarity_matrix(s, speakers) for s in (oo, op, op)]
    found = m.vsm_metrics(*parts, ["anna", "berta", "carla", "dora"])
    assert [row.speaker for row in found.speaker_table] == ["anna", "berta", "carla", "dora"]
    matrix = parts[1].matrix
    own = matrix[2, 2] - (matrix[2, [0, 1, 3]].sum() + matrix[[0, 1, 3], 2].sum()) / 6
    reference = parts[0].matrix
    before = reference[2, 2] - (reference[2, [0, 1, 3]].sum() + reference[[0, 1, 3], 2].sum()) / 6
    assert found.speaker_table[2].deid == pytest.approx(1 - abs(own) / abs(before), abs=1e-12)
    assert found.speaker_table[2].diagonal["op"] == matrix[2, 2]
    assert found.normalised_all_pairs.d_ece_op_oo == pytest.approx(1 - parts[1].d_ece / parts[0].d_ece, abs=1e-12)
    assert found.zoo["oo"].y.tolist() == ((parts[0].impostor_llr_row + parts[0].impostor_llr_column) / 2).tolist()
    assert found.zoo["op_original"].y.tolist() == parts[1].impostor_llr_row.tolist()
    assert found.zoo["op_protected"].y.tolist() == parts[1].impostor_llr_column.tolist()
    flat = m.similarity_matrix(np.zeros((12, 12)), speakers)
    nothing = m.vsm_metrics(flat, flat, flat, list("abcd"))
    assert nothing.deid is None and "D_diag(OO)" in nothing.reasons["deid"] and "g_vd" in nothing.reasons
    assert nothing.normalised_all_pairs.d_ece_op_oo is None


def test_zoo_characters():
    x = [5, 5, -5, -5, 1, 2, 3, 0.05]
    y = [5, -5, 5, -5, 1, 2, 0, 0.05]
    found = m.zoo(x, y)
    assert found.dunstone_yager == (
        "chameleon",
        "dove",
        "worm",
        "phantom",
        "none",
        "none",
        "none",
        "near zero evidence",
    )
    assert found.doddington == (
        "wolf/lamb", "sheep", "goat and wolf/lamb", "goat", "sheep", "sheep", "sheep", "near zero evidence"
    )  # fmt: skip
    one_high = [9, 9, 1, 2, 3, 4, 5, 6, 7], [4.5, 4.6, 9, 9, 1, 2, 3, 6, 7]
    assert m.zoo(*one_high).dunstone_yager[:2] == ("none", "none")
    # Of nine values the quartiles are values themselves, and belong to the quarter.
    nine = np.arange(10.0, 19)
    assert m.zoo(nine, nine).dunstone_yager == ("phantom",) * 3 + ("none",) * 3 + ("chameleon",) * 3
    assert m.zoo(nine, nine).doddington == ("goat",) * 3 + ("sheep",) * 3 + ("wolf/lamb",) * 3
    assert m.zoo(x[:7], y[:7]).doddington == ("",) * 7 and "8" in m.zoo(x[:7], y[:7]).note
    assert m.zoo([*x[:7], np.inf], y).doddington == ("",) * 8
    with pytest.raises(m.MetricError):
        m.zoo([1.0], [1.0, 2.0])


# --- normalised measures --------------------------------------------------------------------------------------------


def test_normalised_measures_and_their_guards():
    got = m.normalised(d_ece=(0.5, 0.125, 0.05), cllr_min=(0.2, 0.6, 0.92))
    values = got.d_ece_op_oo, got.cllr_min_op_oo, got.g_d_ece, got.g_cllr_min
    assert values == pytest.approx((0.75, 0.5, -10, -10))
    assert not got.reasons
    nothing = m.normalised(d_ece=(0.0, 0.1, 0.1), cllr_min=(1.0, 0.9, 0.9))
    assert (nothing.d_ece_op_oo, nothing.cllr_min_op_oo, nothing.g_d_ece, nothing.g_cllr_min) == (None,) * 4
    assert set(nothing.reasons) == {"d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min"}
    assert m.g_d_ece(0.3, 0.0) == m.g_cllr_min(0.4, 1.0) == -math.inf
    assert m.d_ece_op_oo(0.3, 0.3) == m.cllr_min_op_oo(0.4, 0.4) == m.g_d_ece(0.3, 0.3) == m.g_cllr_min(0.4, 0.4) == 0


# --- rank disclosure ------------------------------------------------------------------------------------------------


def test_true_references_are_joined_by_name():
    assert m.true_references(["b", "a", "b"], ["a", "b"]).tolist() == [1, 0, 1]
    with pytest.raises(m.MetricError, match=r"more than one reference for a$"):
        m.true_references(["a"], ["a", "b", "a"])
    with pytest.raises(m.MetricError, match=r"no reference for c$"):
        m.true_references(["a", "c", "c"], ["a", "b"])
    with pytest.raises(m.MetricError, match=r"19 in all"):
        m.true_references(list(range(20)), [0, 20])


def test_what_rank_disclosure_refuses():
    for similarity, truth, words in (
        ([[1.0, np.nan]], [0], "NaN"),
        ([[1.0, 0.0]], [2], "do not fit"),
        ([[1.0, 0.0]], [-1], "do not fit"),
        ([[1.0, 0.0]], [0, 1], "do not fit"),
        ([[1.0], [0.0]], [0, 0], "two references"),
        (np.zeros((0, 2)), np.zeros(0, int), "no input"),
    ):
        with pytest.raises(m.MetricError, match=words):
            m.srd(similarity, truth)
    for weights in ([1.0], [-1.0, 1.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(m.MetricError):
            m.srd(np.eye(2), [0, 1], weights=weights)
    for histogram in ([1.0], [0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]):
        with pytest.raises(m.MetricError):
            m.disclosure(histogram)


def test_ties_spread_best_worst():
    similarity = [[1.0, 1.0, 1.0, 0.0]]
    histograms = {ties: m.srd(similarity, [1], ties=ties).histogram.tolist() for ties in ("spread", "best", "worst")}
    assert histograms == {"spread": [1 / 3, 1 / 3, 1 / 3, 0], "best": [1, 0, 0, 0], "worst": [0, 0, 1, 0]}
    assert m.srd(similarity, [1]).speaker_mean_rank[1] == 2
    assert np.isnan(m.srd(similarity, [1]).speaker_mean_rank[0])


def test_speakers_weigh_equally_when_asked():
    truth = np.array([0, 0, 0, 1])
    weights = m.equal_speaker_weights(truth)
    assert weights.sum() == pytest.approx(4) and weights[:3].sum() == pytest.approx(weights[3])
    similarity = np.array([[1.0, 0], [1, 0], [1, 0], [1, 0]])
    assert m.srd(similarity, truth).empirical.idr == 0.75
    assert m.srd(similarity, truth, weights=weights).empirical.idr == pytest.approx(0.5)


def test_everybody_identified_is_a_point_mass():
    found = m.srd(np.eye(40), np.arange(40))
    assert (found.empirical.max_d, found.empirical.mean_d) == pytest.approx((math.log2(40),) * 2)
    assert (found.empirical.idr, found.empirical.rank_spread) == (1, 1 / 40)
    fit = found.beta_binomial
    assert (fit.alpha, fit.beta, fit.flag) == (None, None, "degenerate") and fit.reason
    assert (fit.disclosure.max_d, fit.disclosure.mean_d) == pytest.approx((math.log2(40),) * 2)


def test_nobody_identified_has_no_fit():
    fit = m.srd(-np.eye(5), np.arange(5), ties="worst").beta_binomial
    assert (fit.alpha, fit.beta, fit.disclosure, fit.flag) == (None, None, None, "none") and "rank 1" in fit.reason


def test_a_histogram_narrower_than_any_beta_binomial_fits_the_binomial_limit():
    histogram = np.zeros(11)
    histogram[[0, 1, 2]] = 0.3, 0.6, 0.1
    fit = m.fit_beta_binomial(histogram, 100)
    assert fit.flag == "boundary" and fit.alpha is None and fit.beta is None and "binomial" in fit.reason
    np.testing.assert_allclose(fit.gamma, binom.pmf(np.arange(11), 10, 1 - 0.3**0.1), rtol=1e-9)


def test_mass_on_the_first_and_last_rank_alone_fits_the_two_point_limit():
    histogram = np.zeros(8)
    histogram[[0, -1]] = 0.7, 0.3
    fit = m.fit_beta_binomial(histogram)
    assert fit.flag == "boundary" and fit.gamma.tolist() == pytest.approx(histogram.tolist())


# --- linkability and calibration on another run ---------------------------------------------------------------------


def test_d_sys_exact_by_hand():
    # Blocks: n below, (1 t, 1 n), then 2 t: LR 0, 1/3 / (1/2) and infinite.
    assert m.d_sys([1.0, 2.0, 3.0], [0.0, 1.0]) == pytest.approx(2 / 3)
    assert m.d_sys([1.0, 2.0, 3.0], [0.0, 1.0], omega=3) == pytest.approx((2 + (2 * 2 / 3 - 1)) / 3)


def test_pi_link_by_drawing_all_populations():
    from itertools import combinations

    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 6, (8, 6)) / 2, rng.integers(0, 6, 8)
    for population in (1, 2, 4, 6):
        wins = []
        for row, true in zip(scores, truth):
            others = [s for k, s in enumerate(row) if k != true]
            wins += [all(s <= row[true] for s in drawn) for drawn in combinations(others, population - 1)]
        assert m.pi_link(scores, truth, population) == pytest.approx(np.mean(wins), abs=1e-12)
    assert m.pi_link(np.zeros((2, 3)), [0, 1], 3) == 1
    for population in (0, 7):
        with pytest.raises(m.MetricError, match="population"):
            m.pi_link(scores, truth, population)
    with pytest.raises(m.MetricError):
        m.pi_link([[np.nan, 1.0]], [0], 1)
    with pytest.raises(m.MetricError):
        m.pi_link(scores, truth[:3], 1)


def test_pi_sing_by_hand_and_refusals():
    known = [[5.0, 3.0, 1.0], [5.0, 3.0, 1.0], [5.0, 3.0, 1.0]]
    test = [[4.1, 0.0], [4.1, 4.2], [0.0, 4.0]]
    assert m.pi_sing(test, known, 1) == pytest.approx(1 / 3)
    for per_speaker in (0, 3):
        with pytest.raises(m.MetricError, match="per_speaker"):
            m.pi_sing(test, known, per_speaker)
    with pytest.raises(m.MetricError, match="fit"):
        m.pi_sing(test[:2], known, 1)
    with pytest.raises(m.MetricError, match="NaN"):
        m.pi_sing([[np.nan]], [[1.0, 2.0]], 1)


def test_linear_calibration_against_a_general_optimiser():
    rng = np.random.default_rng(0)
    target, nontarget = 300 + 10 * rng.normal(1, 1, 60), 300 + 10 * rng.normal(-1, 1, 500)
    got = m.linear_calibration(target, nontarget)
    best = minimize(
        lambda p: m.cllr(p[0] * (target - 300) + p[1], p[0] * (nontarget - 300) + p[1]), [0.1, 0], method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000},
    )  # fmt: skip
    assert (got.slope, got.offset + 300 * got.slope) == pytest.approx(tuple(best.x), abs=1e-6)
    # Both classes weigh the same: repeating one changes nothing.
    again = m.linear_calibration(np.tile(target, 3), nontarget)
    assert (again.slope, again.offset) == pytest.approx((got.slope, got.offset), rel=1e-9)


def test_linear_calibration_at_its_edges():
    for target, nontarget in (([1.0, 2.0], [0.0, 1.0]), ([0.0, 1.0], [1.0, 2.0])):
        with pytest.raises(m.Undefined, match="overlap"):
            m.linear_calibration(target, nontarget)
    constant = m.linear_calibration([1.0, 1.0], [1.0])
    assert constant.apply([1.0, np.inf]).tolist() == [0, 0]
    with pytest.raises(m.MetricError, match="infinite"):
        m.linear_calibration([np.inf, 1.0], [0.0, 2.0])
    assert m.linear_calibration([0.0, 2.0, 3.0], [0.0, 1.0, 2.5]).apply([np.inf])[0] == np.inf


def test_isotonic_calibration_between_and_beyond_its_blocks():
    target, nontarget = [2.0, 4.0, 5.0], [0.0, 1.0, 3.0, 2.5]
    step = m.isotonic_calibration(target, nontarget)
    line = m.isotonic_calibration(target, nontarget, between="linear")
    training = np.array(target + nontarget)
    want = np.concatenate(m.oracle_llr(target, nontarget, laplace=True))
    np.testing.assert_array_equal(step.apply(training), want)
    np.testing.assert_allclose(line.apply(training), want, atol=1e-14)
    low, middle, high = (step.apply([s])[0] for s in (1.0, 2.0, 4.0))
    assert step.apply([-9.0, 1.5, 3.9, 99.0]).tolist() == [low, low, middle, high]
    assert line.apply([-9.0, 99.0]).tolist() == pytest.approx([low, high])
    assert line.apply([1.5, 3.5]) == pytest.approx([(low + middle) / 2, (middle + high) / 2])
    with pytest.raises(m.MetricError, match="infinite"):
        m.isotonic_calibration([np.inf], [0.0], between="linear")


def test_c_ece_of_calibrated_scores_and_of_a_misled_attacker():
    rng = np.random.default_rng(1)

    def run(shift, size=4000):
        return rng.normal(shift, 1, size), rng.normal(-shift, 1, size)

    # LLR of N(1, 1) against N(-1, 1) is 2s: the linear map is found, and little is lost against the oracle.
    found = m.c_ece(*run(1), *run(1))
    assert found.c_ece == pytest.approx(found.d_ece_f1, abs=0.01)
    assert found.c_ece <= found.d_ece_f1 + 1e-12
    assert found.cllr_l_phi >= found.cllr_min_f1
    isotonic = m.c_ece(*run(1), *run(1), method="isotonic")
    assert isotonic.c_ece == pytest.approx(found.c_ece, abs=0.02)
    # f1 turned around: the map of f0 misleads, C_ECE is negative although f1 itself discloses nothing by PAV.
    misled = m.c_ece(*run(1), *run(-1))
    assert misled.c_ece < -0.1 and misled.d_ece_f1 == pytest.approx(0, abs=1e-3)
    # Scores of f1 are LLRs already where slope 1 and offset 0 are found.
    target, nontarget = run(1)
    assert m.c_ece(2 * target, 2 * nontarget, 2 * target, 2 * nontarget).cllr_f1 == m.cllr(2 * target, 2 * nontarget)


def test_a_target_at_minus_infinity_makes_c_ece_minus_infinity():
    rng = np.random.default_rng(2)
    target, nontarget = rng.normal(1, 1, 50), rng.normal(-1, 1, 50)
    found = m.c_ece(target, nontarget, np.append(target, -np.inf), nontarget)
    assert found.c_ece == -math.inf and found.cllr_l_phi == math.inf
    assert math.isfinite(m.c_ece(target, nontarget, np.append(target, -np.inf), nontarget, method="isotonic").c_ece)


# --- the package ----------------------------------------------------------------------------------------------------


def test_every_field_of_a_result_says_its_unit_and_meaning():
    results = [getattr(m, name) for name in dir(m)]
    results = [r for r in results if isinstance(r, type) and dataclasses.is_dataclass(r)]
    inputs = (m.Trials, m.PhantomTrials, m.Calibration, m.Ranks, m.BySpeaker, m.ByIdentity, m.Attacks, m.LeaveOneOut)
    results = [r for r in results if r not in inputs]
    assert len(results) > 12
    units = {"", "bit", "nat", "dB", "log10", "fraction", "count", "label"}
    for result in results:
        described = m.describe(result)
        assert set(described) == {field.name for field in dataclasses.fields(result)}, result
        assert all(
            d["meaning"] and d["unit"] in units and d["private"] in {"", "higher", "lower"} for d in described.values()
        )
        assert result.__doc__ and not result.__doc__.startswith(result.__name__ + "(")


def test_the_package_imports_numpy_and_scipy_alone_and_nothing_before_it_is_used():
    code = (
        "import sys, pipeline.metrics as m; print(*sys.modules); m.eer; print(*{n.split('.')[0] for n in sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    before, after = (set(line.split()) for line in out)
    assert "numpy" not in before and {"numpy", "scipy"} <= after
    assert not after & {"torch", "pandas", "pydantic", "sklearn", "matplotlib", "pyarrow", "numba"}


def test_no_module_of_the_package_has_a_public_name():
    """An imported module would stand in the way of the function of its name."""
    modules = {module.name for module in pkgutil.iter_modules(m.__path__)}
    assert not modules & set(dir(m)) and dir(m) == m.__all__
