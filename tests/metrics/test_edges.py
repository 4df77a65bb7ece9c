"""Edges that mutation testing found unguarded: shapes, ranges that clip, blocks of work, large speaker codes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from pipeline import metrics as m
from pipeline.metrics import uncertainty as u
from pipeline.metrics import vsm, vsm_uncertainty
from pipeline.metrics.trial_uncertainty import Reweighted

from .test_uncertainty import measured, score_matrices, trials


def test_shapes_that_do_not_fit_are_refused_on_either_side():
    for similarity, truth in ((np.zeros((2, 3)), [0, 1, 2]), (np.zeros((2, 3)), [0]), (np.zeros(3), [0])):
        with pytest.raises(m.MetricError, match="fit"):
            m.pi_link(similarity, truth, 1)
    for truth in ([0, -1], [0, 3], [0, 5]):
        with pytest.raises(m.MetricError, match="fit"):
            m.pi_link(np.zeros((2, 3)), truth, 1)
    with pytest.raises(m.MetricError, match="fit"):
        m.pi_link(np.zeros((0, 2)), np.zeros(0, int), 1)
    for test, known in ((np.zeros((2, 2, 2)), np.zeros((2, 3))), (np.zeros(2), np.zeros((2, 3)))):
        with pytest.raises(m.MetricError, match="fit"):
            m.pi_sing(test, known, 1)
    for truth in ([0], [0, 1, 1]):
        with pytest.raises(m.MetricError, match="fit"):
            m.srd(np.eye(2), truth)
    for weights in ([1.0], [1.0, 1.0, 1.0], [-0.5, 1.5]):
        with pytest.raises(m.MetricError, match="weight"):
            m.srd(np.eye(2), [0, 1], weights=weights)
    for shape in ((4, 4), (6, 6), (5, 4), (5, 6), (5,)):
        with pytest.raises(m.MetricError, match="do not fit"):
            m.similarity_matrix(np.zeros(shape), [0, 0, 1, 1, 1])
    for speakers in (0, [[0, 1]]):
        with pytest.raises(m.MetricError, match="vector of integer codes"):
            m.similarity_matrix(np.zeros((2, 2)), speakers)
    for histogram in ([], [1.0], [[0.5, 0.5]]):
        with pytest.raises(m.MetricError):
            m.disclosure(histogram)


def test_pi_sing_with_more_and_with_fewer_attacked_speakers_than_calibration_items():
    known = np.array([[5.0, 3.0, 1.0], [1.0, 5.0, 3.0]])
    # Thresholds midway between the second and the third best: 2. One item above it, then two.
    assert m.pi_sing([[2.1, 1.9, 0.0], [2.1, 2.2, 0.0]], known, 2) == 0.5
    tall = np.repeat(known[:1], 5, axis=0)
    assert m.pi_sing(np.tile([2.1, 1.9], (5, 1)), tall, 2) == 1
    for per_speaker in (0, 3, 4):
        with pytest.raises(m.MetricError, match="between 1 and 2"):
            m.pi_sing(np.zeros((5, 2)), tall, per_speaker)


def test_linear_interpolation_refuses_an_infinity_at_either_end():
    for target, nontarget in (([np.inf, 1.0], [0.0]), ([1.0, 2.0], [-np.inf, 0.0])):
        with pytest.raises(m.MetricError, match="infinite"):
            m.isotonic_calibration(target, nontarget, between="linear")


def test_a_calibration_says_whether_the_laplace_rule_was_used():
    for laplace in (False, True):
        found = m.calibrate([2.0, 3.0], [0.0, 2.5], laplace=laplace)
        assert found.laplace is laplace
        assert (found.target.sum(), found.nontarget.sum()) == (2, 2)
        # The added trials are gone from both ends, also where the end blocks hold both classes.
        mixed = m.calibrate([-1.0, 2.0, 3.0, 4.0], [-2.0, 0.0, 0.5, 3.5], laplace=laplace)
        assert (mixed.target.sum(), mixed.nontarget.sum()) == (4, 4)
    assert mixed.target.tolist() == [1, 3] and mixed.nontarget.tolist() == [3, 1]


def test_the_profile_of_trial_metrics_is_the_default_one():
    rng = np.random.default_rng(0)
    target, nontarget = rng.normal(1, 1, 30), rng.normal(-1, 1, 50)
    found, alone = m.trial_metrics(target, nontarget).ece_profile, m.ece_profile(target, nontarget)
    np.testing.assert_array_equal(found.log_odds, np.linspace(-10, 10, 201))
    np.testing.assert_array_equal(alone.log_odds, found.log_odds)
    np.testing.assert_allclose(found.ece, alone.ece, atol=1e-14)


def test_mean_d_of_equal_ranks_is_0_whatever_the_rounding():
    for n in range(2, 200):
        found = m.disclosure(np.full(n, 1 / n))
        assert found.mean_d >= 0 and found.max_d >= 0
        assert (found.mean_d, found.max_d) == pytest.approx((0, 0), abs=1e-12)


def test_the_ceiling_with_fewer_nontargets_than_targets():
    assert m.l_w_ceiling(100, 5) == pytest.approx(math.log10(120), abs=1e-15)
    assert m.trial_metrics(np.ones(100), np.zeros(5)).l_w == pytest.approx(math.log10(120), abs=1e-12)


@pytest.mark.parametrize(
    ("histogram", "flag", "law"),
    [
        ([1.0, 0.0, 0.0], "degenerate", [1.0, 0.0, 0.0]),
        ([0.5, 0.0, 0.5], "boundary", [0.5, 0.0, 0.5]),
        (binom.pmf([0, 1, 2, 3], 3, 0.4), "boundary", binom.pmf([0, 1, 2, 3], 3, 0.4)),
        ([0.5, 0.3, 0.2], "", None),
    ],
)
def test_the_log_likelihood_of_a_fit_is_that_of_its_law_times_the_inputs(histogram, flag, law):
    p = np.asarray(histogram)
    one, many = m.fit_beta_binomial(p), m.fit_beta_binomial(p, 40)
    assert one.flag == many.flag == flag
    if law is not None:
        np.testing.assert_allclose(one.gamma, law, atol=1e-9)
    held = p > 0
    want = float(p[held] @ np.log(one.gamma[held]))
    assert (one.log_likelihood, many.log_likelihood) == pytest.approx((want, 40 * want), abs=1e-8)


def test_weights_that_leave_one_class_only_are_refused():
    # Model 0 was never tried against its own speaker.
    evaluate = Reweighted(m.Trials([0.2, 1.0, 0.5], [0, 1, 0], [1, 1, 2]))
    with pytest.raises(m.MetricError, match="no target"):
        evaluate(np.array([1.0, 0, 1]))
    with pytest.raises(m.MetricError, match="no non-target"):
        evaluate(np.array([0.0, 1, 0]))


def test_bca_without_any_pull_of_a_speaker_says_so():
    got = u.bca(0.0, np.linspace(-1, 1, 50), np.full(4, 0.3))
    assert got.low is None and "do not vary" in got.reason
    assert u.no_band("why").replicates == 0 and u.no_band("why").reason == "why"


def test_calibration_loss_is_what_calibration_saves():
    rng = np.random.default_rng(1)
    target, nontarget = 3 * rng.normal(1, 1, 40), 3 * rng.normal(-1, 1, 60)
    lost = float(np.logaddexp(0, -target).mean() + np.logaddexp(0, nontarget).mean()) / (2 * math.log(2))
    llr = m.oracle_llr(target, nontarget)
    least = float(np.logaddexp(0, -llr[0]).mean() + np.logaddexp(0, llr[1]).mean()) / (2 * math.log(2))
    assert m.cllr_cal(target, nontarget) == pytest.approx(lost - least, abs=1e-12)
    assert m.trial_metrics(target, nontarget).cllr_cal == pytest.approx(lost - least, abs=1e-12)


@pytest.mark.parametrize("pairing", ["all", "vpc2020"])
def test_the_largest_llr_of_a_speaker_may_be_small(pairing):
    rng = np.random.default_rng(2)
    llr, speakers = rng.uniform(-0.4, 0.4, (9, 9)), np.repeat(np.arange(3), 3)
    np.fill_diagonal(llr, 9.0)
    used = np.triu(np.ones((9, 9), bool), 1) if pairing == "vpc2020" else ~np.eye(9, dtype=bool)
    got = m.similarity_matrix(llr, speakers, pairing=pairing, scores_are_llr=True).speaker_max_llr
    for i in range(3):
        mine = used & ((speakers == i)[:, None] | (speakers == i))
        assert got[i] == np.abs(llr[mine]).max() < 0.5


# --- ranges that clip -----------------------------------------------------------------------------------------------

RANGES = {"eer.rocch": (0, 0.5), "eer.kaldi": (0, 1), "cllr": (0, math.inf), "cllr_min": (0, 1), "cllr_cal": (0, math.inf),
          "d_ece": (0, 0.7213475204444817), "d_sys.exact": (0, 1), "tpr_at_fpr.0.1": (0, 1)}  # fmt: skip


def pseudo_interval(whole, left, bounds=(-math.inf, math.inf), degrees=None):
    """Bias-corrected jackknife by its pseudo-values."""
    n = len(left)
    pseudo = n * whole - (n - 1) * np.array(left)
    reach = student.ppf(0.975, n - 1 if degrees is None else degrees) * pseudo.std(ddof=1) / math.sqrt(n)
    return tuple(np.clip([pseudo.mean() - reach, pseudo.mean() + reach], *bounds))


def without(given, speaker):
    kept = (given.enrolled != speaker) & (given.spoken != speaker)
    return measured(given.scores[kept], given.enrolled[kept], given.spoken[kept])


@pytest.mark.parametrize("metric", RANGES)
def test_intervals_end_where_the_metric_does(metric):
    """Three enrolled speakers: a t quantile of 4.3 carries most intervals over the edge."""
    below = above = 0
    for seed in range(12):
        given = trials(seed, enrolled=3, others=1, utterances=4, shift=(0.3, 1.0, 2.5)[seed % 3])
        if metric in ("cllr", "cllr_cal"):
            given = m.Trials(2.0 * given.scores - 1.0, given.enrolled, given.spoken)
        got = m.intervals(m.trials_by_speaker(given, [metric]))[metric]
        if got.method != "jackknife" or got.low is None:
            continue
        whole = measured(given.scores, given.enrolled, given.spoken)[metric]
        left = [without(given, s)[metric] for s in range(4)]
        want = pseudo_interval(whole, left, RANGES[metric], degrees=2)
        assert (got.low, got.high) == pytest.approx(want, abs=1e-10)
        free = pseudo_interval(whole, left, degrees=2)
        below += free[0] < RANGES[metric][0]
        above += free[1] > RANGES[metric][1]
    assert below and (above or RANGES[metric][1] == math.inf)


def test_intervals_of_similarity_matrices_end_where_the_measure_does():
    ends: dict[str, list[float]] = {"d_diag": [], "signed": []}
    for seed in range(15):
        speakers, (oo, op, pp) = score_matrices(seed, n_speakers=3, utterances=3)
        # LLRs that put the diagonal of OP far below the rest.
        op = 3.0 * op + np.where(speakers[:, None] == speakers, -6.0, 3.0)
        for llr in (False, True):
            got = m.intervals(m.vsm_by_speaker({"oo": oo, "op": op, "pp": pp}, speakers, scores_are_llr=llr))
            for key in ("oo", "op", "pp"):
                for name, held in ends.items():
                    interval = got[f"{name}.{key}"]
                    if interval.low is not None and interval.high is not None:
                        held += [interval.low, interval.high]
    assert min(ends["d_diag"]) == 0 and max(ends["d_diag"]) == 1
    assert min(ends["signed"]) == -1 and max(ends["signed"]) == 1


def test_intervals_of_normalised_measures_end_at_1_and_nowhere_else():
    found = {name: [] for name in ("d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min")}
    for seed in range(12):
        shifts = (1.5, 0.2, 0.4) if seed % 2 else (0.8, 1.6, 3.0)
        parts = [trials(3 * seed + k, enrolled=3, others=0, shift=shift) for k, shift in enumerate(shifts)]
        for name, interval in m.intervals(m.normalised_by_speaker(*parts)).items():
            if interval.low is not None:
                found[name] += [interval.low, interval.high]
    for name in ("d_ece_op_oo", "cllr_min_op_oo"):
        assert min(found[name]) < -1 and max(found[name]) == 1
    for name in ("g_d_ece", "g_cllr_min"):
        assert min(found[name]) < -1 and max(found[name]) > 1


def test_each_normalised_interval_by_hand():
    parts = [trials(30), trials(31, shift=0.5), trials(32, shift=0.9)]

    def values(found):
        d, c = ([x[key] for x in found] for key in ("d_ece", "cllr_min"))
        return {
            "d_ece_op_oo": (d[0] - d[1]) / d[0],
            "cllr_min_op_oo": (c[1] - c[0]) / (1 - c[0]),
            "g_d_ece": 10 * math.log10(d[2] / d[0]),
            "g_cllr_min": 10 * math.log10((1 - c[2]) / (1 - c[0])),
        }

    whole = values([measured(x.scores, x.enrolled, x.spoken) for x in parts])
    left = [values([without(x, s) for x in parts]) for s in range(7)]
    for name, interval in m.intervals(m.normalised_by_speaker(*parts)).items():
        top = 1 if name.endswith("_oo") else math.inf
        want = pseudo_interval(whole[name], [x[name] for x in left], (-math.inf, top), degrees=4)
        assert (interval.low, interval.high) == pytest.approx(want, abs=1e-9)


def test_the_interval_of_a_paired_difference_by_hand():
    a, b = trials(20), trials(21, shift=0.6)
    got = m.paired_tests(a, b, generator=np.random.default_rng(0), metrics=("cllr_min", "eer.rocch"))
    for name, found in got.items():
        whole = [measured(x.scores, x.enrolled, x.spoken)[name] for x in (a, b)]
        left = [without(b, s)[name] - without(a, s)[name] for s in range(7)]
        want = pseudo_interval(whole[1] - whole[0], left, degrees=4)
        assert (found.interval.low, found.interval.high) == pytest.approx(want, abs=1e-12)


def test_null_bands_do_not_depend_on_how_large_the_speaker_codes_are():
    few = trials(22)
    many = m.Trials(few.scores, few.enrolled * 7000, few.spoken * 7000)
    assert many.n_codes > 2**15
    first, second = (
        m.null_bands(m.trials_by_identity(x), generator=np.random.default_rng(3), replicates=50) for x in (few, many)
    )
    assert first == second
    assert m.null_bands(m.trials_by_identity(few), generator=np.random.default_rng(3))["l_w"].replicates == 1000


# --- work in blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairing", ["all", "vpc2020"])
@pytest.mark.parametrize("llr", [False, True])
def test_blocks_of_rows_do_not_show_in_a_similarity_matrix(pairing, llr, monkeypatch):
    speakers, (scores, _, _) = score_matrices(5)
    options = {"pairing": pairing, "scores_are_llr": llr}
    whole = m.similarity_matrix(scores, speakers, **options)
    for size in (1, 20, 70):
        monkeypatch.setattr(vsm, "_CHUNK", size)
        cut = m.similarity_matrix(scores, speakers, **options)
        np.testing.assert_allclose(cut.matrix, whole.matrix, atol=1e-15)
        np.testing.assert_allclose(cut.speaker_max_llr, whole.speaker_max_llr, atol=0)
        assert (cut.n_target, cut.n_nontarget) == (whole.n_target, whole.n_nontarget)
        assert (cut.d_ece, cut.cllr_min) == pytest.approx((whole.d_ece, whole.cllr_min), abs=1e-15)


@pytest.mark.parametrize("llr", [False, True])
def test_blocks_of_pairs_do_not_show_in_reweighted_matrices(llr, monkeypatch):
    speakers, (scores, _, _) = score_matrices(6)
    values, pairs, _ = vsm.checked_pairs(scores, speakers, None, pairing="all", self_pairs="drop")
    weights = [np.array(w, dtype=float) for w in ([1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [2, 0, 3, 1, 1])]
    whole = [vsm_uncertainty.ReweightedPairs(values, pairs, "geometric_mean", llr)(w) for w in weights]
    with pytest.raises(m.MetricError, match="two speakers"):
        vsm_uncertainty.ReweightedPairs(values, pairs, "geometric_mean", llr)(np.array([0.0, 0, 2, 0, 0]))
    for size in (1, 33, 150):
        monkeypatch.setattr(vsm_uncertainty, "_PART", size)
        evaluate = vsm_uncertainty.ReweightedPairs(values, pairs, "geometric_mean", llr)
        assert [evaluate(w) for w in weights] == [pytest.approx(x, abs=1e-14) for x in whole]
