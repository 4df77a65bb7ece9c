"""Measures of disclosure against closed forms, brute force and simulation; what they refuse; what does not move them."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from scipy.stats import binomtest

from pipeline import metrics as m


def matrix(seed=0, speakers=7, trials=5, shift=1.0, shared=0.0, extra=0, decimals=None):
    """Scores [n, N], true candidates [n]: the true one is higher by ``shift``; trials share rows by ``shared``."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(speakers), trials)
    scores = rng.normal(size=(truth.size, speakers + extra)) * math.sqrt(1 - shared)
    scores += math.sqrt(shared) * rng.normal(size=(speakers, speakers + extra))[truth]
    scores[np.arange(truth.size), truth] += shift
    return (scores if decimals is None else np.round(scores, decimals)), truth


def plain_bits(scores, truth, w):
    """LID in the words of the definition: no trick for numbers that leave their range."""
    n_candidates = scores.shape[1]
    found = []
    for row, own in zip(scores, truth):
        z = (row - row.mean()) / row.std(ddof=1)
        p = np.exp(w * z) / np.exp(w * z).sum()
        found.append(math.log2(n_candidates * p[own]))
    return np.array(found)


def frozen(result):
    """A result as bytes."""
    parts = dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result
    return {
        k: frozen(v) if isinstance(v, dict) else v.tobytes() if isinstance(v, np.ndarray) else v
        for k, v in parts.items()
    }


# --- LID ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [0.0, 0.3, 1.7])
def test_lid_is_its_definition(w):
    scores, truth = matrix(extra=3)
    found = m.lid(scores, truth, w)
    want = plain_bits(scores, truth, w)
    np.testing.assert_allclose(found.lid, want, atol=1e-12)
    assert found.alid == pytest.approx(want.mean(), abs=1e-12)
    assert np.isnan(found.speaker_alid[7:]).all() and found.n_speakers == 7
    if w:
        assert found.pdr == (want > 0).mean()
        split = found.pdr * found.lid_plus + (1 - found.pdr) * found.lid_minus
        assert found.alid == pytest.approx(split, abs=1e-12)
    else:
        assert (found.alid, found.pdr, found.lid_plus) == (0.0, 0.0, None)
        assert found.reason


def test_chance_is_the_mean_over_all_permutations_of_identities():
    scores, truth = matrix(speakers=4, trials=2)
    found = m.lid(scores, truth, 0.8)
    permuted = [m.lid(scores, np.array(p)[truth], 0.8) for p in itertools.permutations(range(4))]
    for name in ("alid", "alid_speaker", "pdr", "pdr_speaker"):
        mean = np.mean([getattr(one, name) for one in permuted])
        assert getattr(found.chance, name) == pytest.approx(mean, abs=1e-12), name


def test_no_row_exceeds_the_ceiling_and_the_best_row_reaches_it():
    row = np.zeros((1, 9))
    row[0, 4] = 1.0
    best = m.lid(row, [4], 1.3)
    assert best.lid_max == pytest.approx(best.lid_max_ceiling, abs=1e-12)
    rng = np.random.default_rng(0)
    many = rng.standard_t(1.2, size=(2000, 9))
    found = m.lid(many, many.argmax(axis=1), 1.3)
    assert found.lid_max <= best.lid_max_ceiling + 1e-12


def test_with_two_candidates_scores_do_not_matter():
    rng = np.random.default_rng(0)
    values = np.unique(m.lid(rng.normal(size=(50, 2)), rng.integers(0, 2, 50), 1.0).lid.round(12))
    want = [math.log2(2 / (1 + math.exp(sign * math.sqrt(2)))) for sign in (1, -1)]
    np.testing.assert_allclose(values, want, atol=1e-11)


def test_llrs_as_they_are_with_two_candidates_are_a_cllr_of_differences():
    llr, truth = matrix(speakers=2, trials=20)
    own = llr[np.arange(40), truth]
    want = 1 - np.mean(np.log2(1 + np.exp(llr[np.arange(40), 1 - truth] - own)))
    assert m.lid_of_llr(llr, truth).alid == pytest.approx(want, abs=1e-12)
    assert m.lid_of_llr(llr, truth).lid_max_ceiling == 1.0


def test_scores_of_extreme_size_and_rows_of_equal_scores():
    scores, truth = matrix()
    want = m.lid(scores, truth, 1.0).lid
    for factor in (1e300, 1e-300, 2.0**-1060):
        tolerance = 1e-12 if factor > 1e-305 else 1e-1
        np.testing.assert_allclose(m.lid(scores * factor, truth, 1.0).lid, want, atol=tolerance)
    np.testing.assert_allclose(m.lid(-0.5 + 3 * scores, truth, 1.0).lid, want, atol=1e-12)
    flat = np.full((3, 4), 0.1)  # 0.1 has no exact mean
    assert (m.row_z(flat) == 0).all() and (m.lid(flat, [0, 1, 2], 5.0).lid == 0).all()
    assert m.softmax_slope(flat, [0, 1, 2]).value == 0.0
    assert np.isfinite(m.row_z([[1.7e308, -1.7e308, 0.0]])).all()


def test_the_slope_is_where_the_loss_is_least():
    scores, truth = matrix(shift=0.7)
    scores, truth = scores[3:], truth[3:]  # speakers of unequal numbers
    z = m.row_z(scores)
    weight = 1 / (np.unique(truth).size * np.bincount(truth)[truth])

    def loss(w):
        log_p = log_softmax(w * z, axis=1)
        lse = w * z[:, 0] - log_p[:, 0]
        return weight @ (-log_p[np.arange(truth.size), truth] + lse / truth.size)

    want = minimize_scalar(loss, bounds=(-1, 5), method="bounded", options={"xatol": 1e-10}).x
    assert m.softmax_slope(scores, truth).value == pytest.approx(want, abs=1e-6)


def test_the_published_slope_is_where_its_loss_is_least():
    scores, truth = matrix(shift=0.7)
    z, own = m.row_z(scores), np.arange(7) == truth[:, None]
    weight = np.where(own, z.size / (2 * own.sum()), z.size / (2 * (~own).sum()))

    def loss(x):
        return x[0] ** 2 / 2 + (weight * np.logaddexp(0, np.where(own, -1, 1) * (x[0] * z + x[1]))).sum()

    want = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(m.published_slope(scores, truth), want, atol=1e-5)


def test_slopes_from_the_others_are_slopes_of_the_trials_that_are_left():
    scores, truth = matrix(extra=2)
    found = m.loso_slopes(scores, truth)
    for speaker in range(7):
        left = truth != speaker
        want = m.softmax_slope(scores[left], truth[left])
        assert found.unconstrained[speaker] == pytest.approx(want.unconstrained, abs=1e-12)
    assert np.isnan(found.value[7:]).all()


def test_a_slope_is_finite_where_every_trial_is_won_and_0_where_scores_are_the_wrong_way_round():
    scores, truth = matrix(shift=50.0)
    assert 0 < m.softmax_slope(scores, truth).value < 1e3
    wrong = m.softmax_slope(-scores, truth)
    assert wrong.value == 0.0 and wrong.unconstrained < 0


@pytest.mark.parametrize("speakers", [1, 2])
def test_too_few_speakers_for_slopes_from_the_others(speakers):
    scores, truth = matrix(speakers=speakers, extra=3)
    with pytest.raises(m.Undefined, match="3 speakers"):
        m.loso_slopes(scores, truth)
    with pytest.raises(m.Undefined, match="3 speakers"):
        m.lid_by_identity(scores, truth)
    assert math.isfinite(m.lid(scores, truth, 1.0).alid_speaker)


def test_one_target_of_one_speaker_has_values_and_no_interval():
    scores, truth = matrix(speakers=1, trials=1, extra=4)
    assert m.lid(scores, truth, 1.0).n_trials == 1
    assert m.rank_llr(scores, truth).gamma.sum() == 1
    assert m.pi_link_curve(scores, truth).value[0] == 1
    found = m.intervals(m.lid_by_speaker(scores, truth, 1.0))["alid"]
    assert found.low is None and "two enrolled speakers" in found.reason


MEASURES = {
    "lid": lambda s, t: m.lid(s, t, 1.0),
    "attribute": lambda s, t: m.attribute_part(s, t, np.arange(s.shape[1]) % 2, 1.0),
    "stranger": lambda s, t: m.stranger(s, t, np.arange(s.shape[1]) % 2, 1.0),
    "softmax": m.softmax_slope,
    "published": m.published_slope,
    "loso": m.loso_slopes,
    "rank": m.rank_llr,
    "pi_link": m.pi_link_curve,
    "length": lambda s, t: m.length_curve(s, t, [1, 2]),
}
FINITE = sorted(set(MEASURES) - {"rank", "pi_link"})


@pytest.mark.parametrize("name", sorted(MEASURES))
@pytest.mark.parametrize(
    ("value", "shape"), [(math.nan, "fits"), (None, "row"), (None, "range"), (None, "one"), (None, "empty")]
)
def test_what_cannot_be_measured_is_refused(name, value, shape):
    scores, truth = matrix()
    if value is not None:
        scores[3, 2] = value
    elif shape == "one":
        scores, truth = scores[:, :1], np.zeros_like(truth)
    elif shape == "empty":
        scores, truth = scores[:0], truth[:0]
    else:
        truth = truth[:-1] if shape == "row" else truth + 1
    with pytest.raises(m.MetricError):
        MEASURES[name](scores, truth)


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_a_posterior_refuses_infinite_scores(name, value):
    scores, truth = matrix()
    scores[3, 2] = value
    with pytest.raises(m.MetricError, match="1 of 245 scores are NaN or infinite"):
        MEASURES[name](scores, truth)


def test_ranks_take_infinite_scores_like_others():
    scores, truth = matrix()
    scores[3, truth[3]], scores[4, truth[4]] = math.inf, -math.inf
    finite = np.clip(scores, -99, 99)
    for measure in (m.rank_llr, m.pi_link_curve):
        assert frozen(measure(scores, truth)) == frozen(measure(finite, truth))


@pytest.mark.parametrize("slope", [-0.1, math.nan, math.inf, [1.0, 2.0]])
def test_a_slope_that_is_none_is_refused(slope):
    with pytest.raises(m.MetricError, match="slope"):
        m.lid(*matrix(), slope)


# --- order does not matter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_trials_and_candidates_changes_no_byte(seed):
    scores, truth = matrix(seed, trials=4, extra=2, decimals=1 if seed % 2 else None)
    rng = np.random.default_rng(seed + 100)
    rows, columns = rng.permutation(truth.size), rng.permutation(scores.shape[1])
    place = np.argsort(columns)
    moved, own = scores[np.ix_(rows, columns)], place[truth[rows]]
    classes = np.arange(scores.shape[1]) % 3

    for fit in (m.softmax_slope, m.published_slope):
        assert fit(scores, truth) == fit(moved, own)
    slopes = m.loso_slopes(scores, truth).value
    assert slopes[columns].tobytes() == m.loso_slopes(moved, own).value.tobytes()

    before, after = m.lid(scores, truth, slopes), m.lid(moved, own, slopes[columns])
    assert before.lid[rows].tobytes() == after.lid.tobytes()
    assert before.speaker_alid[columns].tobytes() == after.speaker_alid.tobytes()
    for name in ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_plus", "lid_minus", "lid_max", "chance"):
        assert getattr(before, name) == getattr(after, name), name

    before, after = (
        m.attribute_part(scores, truth, classes, 1.0), m.attribute_part(moved, own, classes[columns], 1.0)
    )  # fmt: skip
    for name in ("mean_attribute", "mean_within_speaker", "chance_attribute", "chance_within", "prior_entropy"):
        assert getattr(before, name) == getattr(after, name), name
    assert frozen(m.pi_link_curve(scores, truth)) == frozen(m.pi_link_curve(moved, own))
    assert frozen(m.rank_llr(scores, truth)) == frozen(m.rank_llr(moved, own))
    before, after = m.length_curve(scores, truth, [1, 3]), m.length_curve(moved, own, [1, 3])
    for name in ("idr", "pi_link_half", "alid", "slopes"):
        assert getattr(before, name).tobytes() == getattr(after, name).tobytes(), name
    np.testing.assert_allclose(before.eer, after.eer, atol=1e-12)


# --- intervals and null bands of LID ---------------------------------------------------------------------------------


def test_weights_of_0_are_speakers_left_out():
    scores, truth = matrix(extra=1)
    slopes = m.loso_slopes(scores, truth).value
    metric = m.lid_by_speaker(scores, truth, slopes)
    weights = np.ones(7)
    weights[[2, 5]] = 0
    left = weights[truth] > 0
    want = m.lid(scores[left], truth[left], slopes)
    for name, value in metric.evaluate(weights).items():
        assert value == pytest.approx(getattr(want, name), abs=1e-12)
    with pytest.raises(m.MetricError, match="no trial"):
        metric.evaluate(np.zeros(7))


@pytest.mark.parametrize("shift", [0.0, 1.0, 6.0])
def test_permuted_identities_learn_their_own_slopes(shift):
    scores, truth = matrix(shift=shift, speakers=6)
    metric = m.lid_by_identity(scores, truth)
    rng = np.random.default_rng(1)
    for identity in (np.arange(6), rng.permutation(6), rng.permutation(6)):
        own = identity[truth]
        # The slope of a speaker comes from the trials of all others, whoever they pass for.
        slopes = np.empty(6)
        for speaker in range(6):
            left = truth != speaker
            slopes[own[~left][0]] = m.softmax_slope(scores[left], own[left]).value
        want, found = m.lid(scores, own, slopes), metric.evaluate(identity)
        for name in ("alid", "alid_speaker"):
            assert found[name] == pytest.approx(getattr(want, name), abs=1e-6), name
        # PDR and LID_max are functions of the slope: theirs are the slopes of the true identities.
        spoken = m.loso_slopes(scores, truth).value
        passing = np.empty(6)
        passing[identity] = spoken
        want = m.lid(scores, own, passing)
        for name in ("pdr", "pdr_speaker", "lid_max"):
            assert found[name] == pytest.approx(getattr(want, name), abs=1e-12), name


def test_permuted_identities_at_a_given_slope():
    scores, truth = matrix(speakers=6, extra=2)
    identity = np.random.default_rng(1).permutation(8)
    found = m.lid_by_identity(scores, truth, 0.7).evaluate(identity)
    want = m.lid(scores, identity[truth], 0.7)
    for name in ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_max"):
        assert found[name] == pytest.approx(getattr(want, name), abs=1e-12)


def test_a_leak_lies_above_its_null_band_and_chance_does_not():
    found = {}
    for shift in (0.0, 1.5):
        scores, truth = matrix(3, speakers=8, shift=shift, shared=0.5)
        bands = m.null_bands(m.lid_by_identity(scores, truth), generator=np.random.default_rng(0), replicates=200)
        found[shift] = bands["alid_speaker"]
    assert found[1.5].p_value < 0.01 and found[0.0].p_value > 0.05


def test_learning_from_the_others_does_not_invent_disclosure():
    """At chance, with trials that share a pseudo-voice, a slope of the trials themselves finds bits that are not there."""
    loso, own = [], []
    for seed in range(60):
        scores, truth = matrix(seed, speakers=8, trials=6, shift=0.0, shared=0.6)
        loso.append(m.lid(scores, truth, m.loso_slopes(scores, truth).value).alid)
        own.append(m.lid(scores, truth, m.softmax_slope(scores, truth).value).alid)
    assert np.mean(loso) < 0 < 0.02 < np.mean(own)


def test_alid_at_the_right_slope_is_the_information_of_the_posterior():
    """Gaussian scores of one spread: the posterior is a softmax, so the mean disclosure is the mutual information."""
    scores, truth = matrix(0, speakers=10, trials=800, shift=1.0)
    right = m.lid_of_llr(scores, truth).alid
    slope = m.softmax_slope(scores, truth).value
    assert m.lid(scores, truth, slope).alid == pytest.approx(right, abs=0.05)
    assert m.lid(scores, truth, 2.5 * slope).alid < right


# --- attributes -----------------------------------------------------------------------------------------------------


def test_parts_add_up_and_a_class_of_all_says_nothing():
    scores, truth = matrix(extra=3)
    whole = m.lid(scores, truth, 1.2)
    for classes in (np.arange(10) % 3, np.zeros(10, dtype=int), np.arange(10)):
        found = m.attribute_part(scores, truth, classes, 1.2)
        np.testing.assert_allclose(found.attribute + found.within, whole.lid, atol=1e-12)
        assert found.chance_attribute + found.chance_within == pytest.approx(whole.chance.alid, abs=1e-12)
        assert found.attribute.max() <= found.ceiling + 1e-12
    assert np.abs(found.within).max() == 0  # everybody is a class: nothing is left within
    nothing = m.attribute_part(scores, truth, np.zeros(10, dtype=int), 1.2)
    assert (nothing.attribute == 0).all() and nothing.prior_entropy == 0


def test_a_system_that_keeps_sex_alone_discloses_sex_alone():
    rng = np.random.default_rng(0)
    sex = np.arange(16) % 2
    truth = np.repeat(np.arange(16), 20)
    scores = rng.normal(size=(320, 16)) + 1.5 * (sex[truth][:, None] == sex)
    slope = m.loso_slopes(scores, truth).value
    found = m.attribute_part(scores, truth, sex, slope)
    assert found.mean_attribute > 0.3 and found.mean_within < 0.02
    assert m.stranger(scores, truth, sex, slope).mean > 0.3


def test_identity_does_not_pass_for_the_attribute_of_a_stranger():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(12), 20)
    scores = rng.normal(size=(240, 12)) + 2.5 * (truth[:, None] == np.arange(12))
    sex = np.arange(12) % 2
    found = m.stranger(scores, truth, sex, 0.3)
    assert found.mean == pytest.approx(found.chance, abs=0.02)
    assert m.attribute_part(scores, truth, sex, 0.3).mean_attribute > found.mean + 0.05  # with the speaker left in


def test_a_stranger_who_is_alone_in_the_class_has_no_value():
    scores, truth = matrix(speakers=4)
    found = m.stranger(scores, truth, [0, 0, 1, 2], 1.0)
    assert found.n_undefined == 10 and np.isnan(found.bits[10:]).all() and np.isfinite(found.mean)
    nobody = m.stranger(scores, truth, [0, 1, 2, 3], 1.0)
    assert nobody.mean is None and nobody.reason


def test_scores_of_classes_leave_the_speaker_out():
    scores, truth = matrix(speakers=5)
    classes = np.array([0, 0, 1, 1, 2])
    found, own, kept = m.class_scores(scores, truth, classes)
    assert kept.tolist() == (truth < 4).tolist() and own.tolist() == classes[truth[kept]].tolist()
    assert found[0, 0] == scores[0, 1] and found[0, 1] == pytest.approx(scores[0, 2:4].mean(), abs=1e-15)
    with pytest.raises(m.MetricError, match="without gaps"):
        m.class_scores(scores, truth, [0, 0, 2, 2, 2])
    with pytest.raises(m.MetricError, match="4 classes do not fit 5"):
        m.class_scores(scores, truth, [0, 0, 1, 1])


# --- ranks as evidence ----------------------------------------------------------------------------------------------


def test_the_llr_of_a_rank_is_bayes_rule():
    scores, truth = matrix(shift=0.8)
    found = m.rank_llr(scores, truth)
    posterior = 1 / (1 + np.exp(-(found.llr + math.log(1 / 6))))  # at the prior of 1 among 7
    np.testing.assert_allclose(posterior, found.gamma, atol=1e-12)
    assert (found.llr_laplace <= found.ceiling + 1e-12).all() and (found.llr_laplace >= found.floor - 1e-12).all()
    assert found.gamma[0] == m.srd(scores, truth).empirical.idr


def test_all_at_rank_1_reach_the_ceiling_and_nobody_the_floor():
    scores, truth = matrix(shift=50.0)
    found = m.rank_llr(scores, truth)
    assert found.first.rank_one == pytest.approx(found.ceiling, abs=1e-12) == found.eps_plus
    assert found.llr_laplace[-1] == pytest.approx(found.floor, abs=1e-12)
    assert found.llr[0] == math.inf and found.llr[-1] == -math.inf and found.first.rank_one_high == math.inf


def test_limits_are_those_of_scipy_and_need_whole_counts():
    scores, truth = matrix(shift=0.8)
    found = m.rank_llr(scores, truth)
    count = round(found.gamma[0] * truth.size)
    want = binomtest(count, truth.size).proportion_ci(0.95, "exact")
    assert (found.first.rank_one_share_low, found.first.rank_one_share_high) == pytest.approx(
        (want.low, want.high), abs=1e-12
    )
    want = binomtest(round(found.gamma[found.top.top_rank - 1] * truth.size), truth.size).proportion_ci(
        1 - 0.05 / 7, "exact"
    )
    assert found.top.top_low == pytest.approx(float(m.llr_of_share([want.low], 7)[0]), abs=1e-9)
    weighed = m.rank_llr(scores, truth, weights=np.ones(truth.size))
    assert weighed.first.rank_one_low is None and "weights" in weighed.reason
    tied = m.rank_llr(np.zeros((3, 7)), [0, 1, 2])
    assert tied.first.rank_one_low is None and "ties" in tied.reason
    assert np.abs(tied.llr).max() < 1e-12


# --- linkability by population ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["spread", "best", "worst"])
def test_pi_link_is_the_mean_over_all_sets_of_others(ties):
    scores, truth = matrix(speakers=4, trials=2, extra=2, decimals=0, shift=0.5)
    win = {
        "best": lambda own, rest: float(own >= rest.max()),
        "worst": lambda own, rest: float(own > rest.max()),
        "spread": lambda own, rest: float(own >= rest.max()) / (1 + (rest == own).sum()),
    }[ties]
    found = m.pi_link_curve(scores, truth, [2, 3, 4, 6], ties=ties, weights="trial")
    for population, value in zip((2, 3, 4, 6), found.value):
        each = []
        for row, own in zip(scores, truth):
            others = np.delete(row, own)
            sets = itertools.combinations(range(5), population - 1)
            each.append(np.mean([win(row[own], others[list(chosen)]) for chosen in sets]))
        assert value == pytest.approx(np.mean(each), abs=1e-12)
    assert found.tied > 0.3


def test_a_constant_score_links_nobody_and_populations_of_a_thousand_do_not_overflow():
    found = m.pi_link_curve(np.zeros((2, 1200)), [0, 1], [1, 2, 600, 1200])
    np.testing.assert_allclose(found.value, found.chance, rtol=1e-9)
    assert found.tied == 1
    assert m.pi_link_curve(np.zeros((2, 30)), [0, 1], ties="worst").value[1:].max() == 0


def test_the_curve_falls_and_ends_at_the_identification_rate():
    scores, truth = matrix(extra=3, decimals=1)
    found = m.pi_link_curve(scores, truth)
    assert (np.diff(found.value) <= 1e-12).all() and found.value[0] == 1
    weights = m.equal_speaker_weights(truth)
    assert found.value[-1] == pytest.approx(m.srd(scores, truth, weights=weights).empirical.idr, abs=1e-12)
    best = m.pi_link_curve(scores, truth, [4], ties="best", weights="trial").value[0]
    assert best == pytest.approx(m.pi_link(scores, truth, 4), abs=1e-12)


def test_a_speaker_who_leaves_both_roles_leaves_rows_and_columns():
    scores, truth = matrix(speakers=6, extra=1, decimals=1)
    weights = np.ones(6)
    weights[2] = 0
    left = truth != 2
    for both, columns in ((False, np.arange(7)), (True, np.delete(np.arange(7), 2))):
        got = m.pi_link_by_speaker(scores, truth, [2, 5], both_roles=both).evaluate(weights)
        own = np.searchsorted(columns, truth[left])
        want = m.pi_link_curve(scores[left][:, columns], own, [2, 5])
        assert list(got.values()) == pytest.approx(want.value.tolist(), abs=1e-12)
    with pytest.raises(m.MetricError, match="only the jackknife"):
        m.pi_link_by_speaker(scores, truth, [2], both_roles=True).evaluate(2 * weights)
    with pytest.raises(m.MetricError, match="end at 6"):
        m.pi_link_by_speaker(scores, truth, [7], both_roles=True)


@pytest.mark.parametrize("populations", [[0], [8], []])
def test_populations_outside_the_candidates_are_refused(populations):
    with pytest.raises(m.MetricError, match="between 1 and 7"):
        m.pi_link_curve(*matrix(), populations)


def test_chance_of_pi_sing_is_met_by_exchangeable_scores():
    rng = np.random.default_rng(0)
    n, per_speaker, hits = 4, 2, 0
    for _ in range(4000):
        scores = rng.permutation(n * per_speaker + n)
        threshold = np.sort(scores[n:])[-per_speaker]
        hits += (scores[:n] > threshold).sum() == 1
    assert hits / 4000 == pytest.approx(m.pi_sing_chance(n, per_speaker), abs=4 * 0.5 / math.sqrt(4000))
    with pytest.raises(m.MetricError):
        m.pi_sing_chance(1, 1)


# --- low false-positive rates, and the strongest evidence -------------------------------------------------------------


def as_trials(scores, truth):
    n, n_candidates = scores.shape
    return m.Trials(scores.ravel(), np.tile(np.arange(n_candidates), n), np.repeat(truth, n_candidates))


def test_alarms_of_one_pair_of_speakers_are_said_to_be_that():
    scores, truth = matrix(speakers=7, trials=30, shift=3.0)
    scores[truth == 0, 1] += 20  # speaker 0 sounds like candidate 1
    found = m.tpr_evidence(as_trials(scores, truth), 0.02)
    counts = found.counts
    assert (counts.allowed, counts.alarms, counts.alarm_pairs, found.few, found.few_pairs) == (25, 25, 1, False, True)
    assert found.tpr == m.tpr_at_fpr(*split(scores, truth), 0.02).tpr
    none = m.tpr_evidence(as_trials(scores, truth), 1e-5)
    assert none.tpr is None and none.counts.allowed == 0 and "1260 non-target scores" in none.reason


def split(scores, truth):
    own = np.arange(scores.shape[1]) == truth[:, None]
    return scores[own], scores[~own]


def test_evidence_above_all_nontargets_comes_from_counts_alone():
    for top in (5.0, 500.0):
        scores, truth = matrix(shift=0.0)
        scores[[0, 1, 6], [0, 0, 1]] = top
        found = m.worst_evidence(as_trials(scores, truth))
        assert (found.extremes.top_targets, found.extremes.top_target_speakers) == (3, 2)
        assert found.eps_plus == pytest.approx(math.log(4 * 6), abs=1e-12)
        assert found.eps / math.log(10) == pytest.approx(m.trial_metrics(*split(scores, truth)).l_w, abs=1e-12)
    backwards = m.worst_evidence(as_trials(-matrix(shift=3.0)[0], matrix()[1]))
    assert backwards.reversed and backwards.eps_reversed > backwards.eps


# --- pooled utterances ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["mean_row", "llr_sum", "llr_mean"])
def test_pooling_is_the_mean_over_all_choices_of_trials(rule):
    scores, truth = matrix(speakers=3, trials=4, extra=2)
    z = m.row_z(scores)
    bits, first = [], []
    for speaker in range(3):
        own = np.flatnonzero(truth == speaker)
        for chosen in itertools.combinations(own, 3):
            rows = scores[list(chosen)].mean(axis=0)
            logits = {
                "mean_row": (rows - rows.mean()) / rows.std(ddof=1),
                "llr_sum": z[list(chosen)].sum(axis=0),
                "llr_mean": z[list(chosen)].mean(axis=0),
            }[rule]
            bits.append(math.log2(5) + log_softmax(0.8 * logits)[speaker] / math.log(2))
            first.append(rows.argmax() == speaker)
    found = m.length_curve(scores, truth, [3], rule=rule, slope=0.8)
    assert found.alid[0] == pytest.approx(np.mean(bits), abs=1e-12)
    assert found.idr[0] == np.mean(first) and found.n_items[0] == 12


def test_one_utterance_pooled_is_the_measure_itself():
    scores, truth = matrix()
    found = m.length_curve(scores, truth, [1])
    slopes = m.loso_slopes(scores, truth).value
    assert found.alid[0] == pytest.approx(m.lid(scores, truth, slopes).alid_speaker, abs=1e-12)
    assert found.eer[0] == pytest.approx(m.eer(*split(scores, truth)), abs=1e-12)


def test_the_same_speakers_stand_at_each_length():
    scores, truth = matrix(speakers=5, trials=6)
    keep = np.flatnonzero((truth != 3) | (np.arange(truth.size) % 6 < 2))  # speaker 3 has two trials
    found = m.length_curve(scores[keep], truth[keep], [1, 3])
    alone = m.length_curve(scores[truth != 3], truth[truth != 3], [1])
    assert found.panel.tolist() == [0, 1, 2, 4]
    assert (found.idr[0], found.alid[0]) == (alone.idr[0], alone.alid[0])
    with pytest.raises(m.MetricError, match="no speaker has 7 trials"):
        m.length_curve(scores, truth, [7])


def test_more_speech_says_more_but_not_of_a_shared_pseudo_voice():
    scores, truth = matrix(2, speakers=10, trials=6, shift=0.8)
    found = m.length_curve(scores, truth, [1, 3, 6])
    assert (np.diff(found.alid) > 0).all() and (np.diff(found.idr) > 0).all() and (np.diff(found.eer) < 0).all()
    scores, truth = matrix(2, speakers=10, trials=6, shift=0.0, shared=0.7)
    bold = m.length_curve(scores, truth, [1, 3, 6], rule="llr_sum", slope=1.0)
    assert (np.diff(bold.alid) < -0.5).all()
    assert np.abs(m.length_curve(scores, truth, [1, 3, 6]).alid).max() < 0.2


def test_draws_are_seeded_agree_with_all_choices_and_need_a_generator():
    scores, truth = matrix(speakers=4, trials=10)
    everything = m.length_curve(scores, truth, [5])
    drawn = [m.length_curve(scores, truth, [5], subsets=200, generator=np.random.default_rng(3)) for _ in range(2)]
    assert frozen(drawn[0]) == frozen(drawn[1]) and drawn[0].drawn.all() and not everything.drawn.any()
    assert (everything.n_items[0], drawn[0].n_items[0]) == (4 * 252, 800)
    assert drawn[0].idr[0] == pytest.approx(everything.idr[0], abs=0.1)
    with pytest.raises(m.MetricError, match="needs a generator"):
        m.length_curve(scores, truth, [5], subsets=200)
    for lengths in ([], [0]):
        with pytest.raises(m.MetricError, match="1 or more"):
            m.length_curve(scores, truth, lengths)


def test_too_few_speakers_leave_the_bits_of_a_length_out_and_say_so():
    scores, truth = matrix(speakers=2, extra=4)
    found = m.length_curve(scores, truth, [1, 2])
    assert np.isnan(found.alid).all() and "3 speakers" in found.reason and np.isfinite(found.idr).all()


def test_lengths_by_speaker():
    scores, truth = matrix(speakers=6, trials=4)
    metric = m.length_by_speaker(scores, truth, [1, 2], slope=0.9)
    whole = m.length_curve(scores, truth, [1, 2], slope=0.9)
    found = metric.evaluate(np.ones(6))
    for name in ("idr", "eer", "alid"):
        assert [found[f"{name}.{k}"] for k in (1, 2)] == pytest.approx(getattr(whole, name).tolist(), abs=1e-12)
    weights = np.ones(6)
    weights[4] = 0
    left = m.length_curve(scores[truth != 4], truth[truth != 4], [1, 2], slope=0.9)
    found = metric.evaluate(weights)
    for name in ("idr", "eer", "alid"):
        assert [found[f"{name}.{k}"] for k in (1, 2)] == pytest.approx(getattr(left, name).tolist(), abs=1e-12)
    ends = m.intervals(metric)
    assert ends["alid.2"].low < whole.alid[1] < ends["alid.2"].high


@pytest.mark.parametrize(
    ("w", "alid", "pdr", "largest"), [(0.03, -0.001, 0.50, (0.11, 0.15)), (0.3, -0.063, 0.44, (1.03, 1.43)), (1.0, -0.69, 0.32, (2.97, 3.94))]
)  # fmt: skip
def test_chance_of_as_many_trials_as_the_challenge_has(w, alid, pdr, largest):
    """Independent scores, 997 trials against 29 candidates: the document's figures, which were simulated elsewhere."""
    rng = np.random.default_rng(int(100 * w))
    found = [m.lid(rng.normal(size=(997, 29)), rng.integers(0, 29, 997), w) for _ in range(20)]
    assert found[0].chance.alid == pytest.approx(alid, abs=0.01)
    assert np.mean([one.alid for one in found]) == pytest.approx(alid, abs=0.02)
    assert found[0].chance.pdr == pytest.approx(pdr, abs=0.01)
    inside = [largest[0] - 0.005 <= one.lid_max <= largest[1] + 0.005 for one in found]
    assert np.mean(inside) >= 0.8


@pytest.mark.parametrize("decimals", [1, 8])
def test_rates_at_few_alarms_of_the_highest_scores_are_those_of_all(decimals: int) -> None:
    scores, truth = matrix(5, speakers=7, trials=30, extra=2, shift=1.5)
    trials = as_trials(scores.round(decimals), truth)
    found = m.tpr_by_speaker(trials, [0.01, 0.02])
    want = m.trials_by_speaker(trials, ["tpr_at_fpr.0.01", "tpr_at_fpr.0.02"])
    assert (found.degrees, found.n_rated) == (want.degrees, want.n_rated)
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(60):
        weights = rng.multinomial(9, np.full(9, 1 / 9)).astype(float)
        try:
            expected = want.evaluate(weights)
        except m.MetricError:
            with pytest.raises(m.MetricError):
                found.evaluate(weights)
            continue
        assert found.evaluate(weights) == pytest.approx(expected, abs=1e-15, nan_ok=True)
        compared += 1
    assert compared > 40
    # All alarms of one pair of speakers, which most draws give more weight than the highest scores hold.
    heavy = np.ones(9)
    heavy[:2] = 40.0
    assert found.evaluate(heavy) == pytest.approx(want.evaluate(heavy), abs=1e-15)


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_the_slope_for_strangers_is_that_of_the_best_score_of_the_other_speakers(shift: float) -> None:
    scores, truth = matrix(2, speakers=8, trials=5, shift=0.5)
    classes = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    scores = scores + shift * (classes[truth][:, None] == classes)
    found = m.stranger_slopes(scores, truth, classes)
    z = (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, ddof=1, keepdims=True)

    def loss(w: float, left_out: int) -> float:
        total, pseudo, n = 0.0, 0.0, 0
        for row, own in zip(z, truth):
            if own == left_out:
                continue
            rest = [k for k in range(8) if k != own]
            p = np.exp(w * row[rest] - max(w * row[rest]))
            p /= p.sum()
            of = {c: math.log(sum(x for x, k in zip(p, rest) if classes[k] == c)) for c in set(classes[rest])}
            total -= of[classes[own]]
            pseudo -= sum(of[classes[k]] for k in rest) / 7
            n += 1
        return (total + pseudo / n) / n

    for speaker in range(8):
        want = minimize_scalar(loss, bounds=(0, 30), args=(speaker,), method="bounded", options={"xatol": 1e-9})
        assert found[speaker] == pytest.approx(want.x, rel=2e-3, abs=2e-5)
        assert loss(found[speaker], speaker) == pytest.approx(want.fun, abs=1e-7)
    with pytest.raises(m.Undefined, match="3 speakers"):
        m.stranger_slopes(scores[truth < 2], truth[truth < 2], classes)


def test_strangers_at_chance_do_not_disclose_their_class() -> None:
    """With a slope for persons the value at chance lies below 0; with that of the question it does not."""
    persons, question = [], []
    classes = np.repeat([0, 1], 6)
    for seed in range(20):
        scores, truth = matrix(seed, speakers=12, trials=6, shift=1.5)
        persons.append(m.stranger(scores, truth, classes, m.loso_slopes(scores, truth).value).mean)
        question.append(m.stranger(scores, truth, classes, m.stranger_slopes(scores, truth, classes)).mean)
    assert np.mean(persons) < -0.1 and abs(np.mean(question)) < 0.02


def test_the_class_of_an_utterance_may_differ_from_that_of_its_speaker() -> None:
    scores, truth = matrix(1, speakers=6, trials=4)
    classes, spoken = np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(0).integers(0, 3, truth.size)
    found = m.stranger(scores, truth, classes, 0.8, spoken)
    z = (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, ddof=1, keepdims=True)
    for row, own, of, bits in zip(z, truth, spoken, found.bits):
        p = np.exp(0.8 * row)
        p[own] = 0
        alike = (classes == of) & (np.arange(6) != own)
        assert bits == pytest.approx(math.log2(p[alike].sum() / p.sum() / (alike.sum() / 5)), abs=1e-12)
    own_class = m.stranger(scores, truth, classes, 0.8, classes[truth])
    np.testing.assert_allclose(own_class.bits, m.stranger(scores, truth, classes, 0.8).bits, atol=1e-15)


@pytest.mark.parametrize(("shift", "trials"), [(0.6, 8), (1.5, 4), (0.0, 8), (8.0, 3)])
def test_slopes_of_many_speakers_are_those_of_each_learnt_alone(shift: float, trials: int) -> None:
    scores, truth = matrix(4, speakers=24, trials=trials, shift=shift, shared=0.1)
    found = m.loso_slopes(scores, truth)
    for speaker in (0, 7, 23):
        want = m.softmax_slope(scores[truth != speaker], truth[truth != speaker])
        assert found.unconstrained[speaker] == pytest.approx(want.unconstrained, rel=1e-11, abs=1e-12)
        assert found.value[speaker] == max(found.unconstrained[speaker], 0.0)
