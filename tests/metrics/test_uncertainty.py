"""Intervals, null bands and paired tests: against metrics of plain subsets, closed forms, and simulated truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from pipeline import metrics as m
from pipeline.metrics import uncertainty as u
from pipeline.metrics.trial_uncertainty import Reweighted, _exchangeable
from pipeline.metrics.vsm import checked_pairs
from pipeline.metrics.vsm_uncertainty import CONDITIONS, ReweightedPairs

ALL = (
    "eer.rocch",
    "eer.kaldi",
    "eer.speechbrain",
    "cllr",
    "cllr_min",
    "cllr_cal",
    "d_ece",
    "d_sys.exact",
    "tpr_at_fpr.0.1",
)


def trials(seed=0, enrolled=5, others=2, utterances=6, shift=1.2, decimals=1):
    """Every model against every utterance, with speaker and speaker-pair effects."""
    rng = np.random.default_rng(seed)
    n = enrolled + others
    model = np.repeat(np.arange(enrolled), n * utterances)
    spoken = np.tile(np.repeat(np.arange(n), utterances), enrolled)
    scores = rng.normal(size=model.size) + 0.4 * rng.normal(size=n)[model] + 0.4 * rng.normal(size=n)[spoken]
    scores += 0.4 * rng.normal(size=(n, n))[model, spoken] + shift * (model == spoken)
    return m.Trials(np.round(scores, decimals), model, spoken)


def measured(scores, enrolled, spoken):
    target, nontarget = scores[enrolled == spoken], scores[enrolled != spoken]
    found = m.trial_metrics(target, nontarget, fprs=(0.1,))
    return {
        **{f"eer.{variant}": value for variant, value in found.eer.items()},
        "cllr": found.cllr,
        "cllr_min": found.cllr_min,
        "cllr_cal": found.cllr_cal,
        "d_ece": found.d_ece,
        "d_sys.exact": m.d_sys(target, nontarget),
        "tpr_at_fpr.0.1": found.tpr_at_fpr[0].tpr,
    }


@pytest.mark.parametrize("speaker", [None, 0, 3, 6])
def test_reweighting_is_the_metric_of_the_trials_that_are_left(speaker):
    given = trials()
    weights = np.ones(given.n_codes)
    kept = np.ones(given.scores.size, dtype=bool)
    if speaker is not None:
        weights[speaker] = 0
        kept = (given.enrolled != speaker) & (given.spoken != speaker)
    got = Reweighted(given, ALL)(weights)
    want = measured(given.scores[kept], given.enrolled[kept], given.spoken[kept])
    assert got == pytest.approx(want, abs=1e-12)


def test_a_speaker_drawn_twice_counts_target_trials_twice_and_pairs_by_the_product():
    given = trials(1)
    weights = np.array([2.0, 0.0, 3.0, 1.0, 1.0, 2.0, 0.0])
    times = np.where(
        given.is_target, weights[given.enrolled], weights[given.enrolled] * weights[given.spoken]
    ).astype(int)  # fmt: skip
    repeated = (np.repeat(a, times) for a in (given.scores, given.enrolled, given.spoken))
    assert Reweighted(given, ALL)(weights) == pytest.approx(measured(*repeated), abs=1e-12)


def test_codes_may_be_many():
    few, spread = trials(1), trials(1)
    many = m.Trials(spread.scores, spread.enrolled * 400, spread.spoken * 400)
    weights = np.array([2.0, 0.0, 3.0, 1.0, 1.0, 2.0, 0.0])
    wide = np.zeros(many.n_codes)
    wide[::400] = weights
    assert Reweighted(many, ALL)(wide) == Reweighted(few, ALL)(weights)


@pytest.mark.parametrize("metric", ["eer.rocch", "cllr_min", "d_ece"])
def test_the_jackknife_interval_by_hand(metric):
    given = trials(2)
    whole = measured(given.scores, given.enrolled, given.spoken)[metric]
    left = []
    for speaker in range(7):
        kept = (given.enrolled != speaker) & (given.spoken != speaker)
        left.append(measured(given.scores[kept], given.enrolled[kept], given.spoken[kept])[metric])
    pseudo = 7 * whole - 6 * np.array(left)
    reach = student.ppf(0.975, 4) * pseudo.std(ddof=1) / math.sqrt(7)
    top = {"eer.rocch": 0.5, "cllr_min": 1.0, "d_ece": m.D_ECE_MAX}[metric]
    want = np.clip([pseudo.mean() - reach, pseudo.mean() + reach], 0, top)
    got = m.intervals(m.trials_by_speaker(given, [metric]))[metric]
    assert (got.low, got.high) == pytest.approx(tuple(want), abs=1e-12)
    assert (got.method, got.level, got.n_speakers, got.reason) == ("jackknife", 0.95, 7, "")


def test_the_jackknife_of_a_mean_is_the_t_interval():
    x = np.random.default_rng(0).normal(size=12)
    left = [np.delete(x, i).mean() for i in range(12)]
    got = u.jackknife(x.mean(), left, degrees=11, bounds=(-math.inf, math.inf), level=0.9)
    reach = student.ppf(0.95, 11) * x.std(ddof=1) / math.sqrt(12)
    assert (got.low, got.high) == pytest.approx((x.mean() - reach, x.mean() + reach), abs=1e-12)


def test_a_metric_of_ones_own_has_intervals_by_every_method():
    """The mean of one number a speaker: the jackknife is the t interval, the bootstraps are those of scipy."""
    from scipy.stats import bootstrap

    x = np.random.default_rng(3).exponential(size=40)
    codes = np.arange(40) * 3

    def mean(weights):
        return {"mean": float(np.average(x, weights=weights[codes]))}

    metric = m.BySpeaker(mean, codes, degrees=39, bounds={"mean": (0.0, math.inf)})
    got = m.intervals(metric)["mean"]
    reach = student.ppf(0.975, 39) * x.std(ddof=1) / math.sqrt(40)
    assert (got.low, got.high) == pytest.approx((x.mean() - reach, x.mean() + reach), abs=1e-12)
    for ours, theirs in (("percentile", "percentile"), ("bca", "BCa")):
        got = m.intervals(metric, method=ours, level=0.8, replicates=8000, generator=np.random.default_rng(4))["mean"]
        want = bootstrap((x,), np.mean, n_resamples=8000, method=theirs, rng=5, confidence_level=0.8)
        assert (got.low, got.high) == pytest.approx(tuple(want.confidence_interval), abs=0.02)
        assert (got.method, got.level, got.n_speakers) == (ours, 0.8, 40)


@pytest.mark.parametrize(
    "value, top, clean, want",
    [
        (0.0, 1.0, (0.0,), (0, 0.75)),
        (0.0, 0.5, (0.0, 1.0), (0, 0.5)),
        (0.0, 1.0, (1.0,), None),
        (1.0, 1.0, (0.0, 1.0), (0.25, 1)),
        (1.0, 1.0, (0.0,), None),
        (0.5, 1.0, (0.0, 1.0), None),
    ],
)
def test_a_rate_without_errors_has_the_exact_limit_within_its_range(value, top, clean, want):
    """At a level of one half, one speaker without an error has a rate below 1 - 0.25."""
    speakers, bounds = np.arange(4), {"rate": (0.0, top)}
    got = m.intervals(m.BySpeaker(lambda w: {"rate": value}, speakers, 3, bounds, {"rate": clean}, 1), level=0.5)[
        "rate"
    ]
    if want is None:
        assert got.method == "jackknife" and got.low is None and "same" in got.reason
    else:
        assert (got.low, got.high, got.method, got.n_speakers) == (*want, "zero_errors", 1)


def test_a_metric_of_ones_own_has_a_null_band():
    """How many of five people are who they seem to be: 5 of 5, which one permutation of 120 reaches."""

    def fixed(identity):
        hits = float((identity[10:] == np.arange(10, 15)).sum())
        if hits == 1:
            raise m.MetricError("not to be measured")
        return {"hits": hits, "misses": 5 - hits, "flat": 0.0}

    metric = m.ByIdentity(
        fixed, [np.arange(10, 15)], "people", ("misses", "hits", "flat"), {"flat": "hits"}, low=("misses",)
    )
    got = m.null_bands(metric, generator=np.random.default_rng(0), replicates=3000)
    assert list(got) == ["misses", "hits", "flat"]
    # 45 of 120 permutations leave exactly one in place.
    assert got["hits"].replicates == pytest.approx(3000 * 75 / 120, rel=0.06)
    assert (got["hits"].low, got["hits"].high, got["misses"].low) == (0, 3, 2)
    assert got["hits"].p_value == got["misses"].p_value == got["flat"].p_value == pytest.approx(1 / 75, abs=0.01)
    few = m.ByIdentity(fixed, [np.arange(10, 14)], "people", ("hits",))
    assert m.null_bands(few, generator=np.random.default_rng(0))["hits"].reason == (
        "permuting 4 people gives too few arrangements"
    )


def test_percentile_and_bca_against_scipy():
    from scipy.stats import bootstrap

    x = np.random.default_rng(1).exponential(size=40)
    rng = np.random.default_rng(2)
    draws = np.array([rng.choice(x, 40).mean() for _ in range(20000)])
    left = np.array([np.delete(x, i).mean() for i in range(40)])
    for ours, method in ((u.percentile(draws, n_speakers=40), "percentile"), (u.bca(x.mean(), draws, left), "BCa")):
        theirs = bootstrap((x,), np.mean, n_resamples=20000, method=method, rng=3).confidence_interval
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_bootstraps_are_seeded_and_contain_the_middle():
    given = trials(3, enrolled=8)
    value = measured(given.scores, given.enrolled, given.spoken)["eer.rocch"]
    for method in ("percentile", "bca"):
        first, again = (
            m.intervals(m.trials_by_speaker(given), method=method, replicates=200, generator=np.random.default_rng(5))
            for _ in range(2)
        )
        assert first == again
        assert first["eer.rocch"].low < value < first["eer.rocch"].high
    with pytest.raises(m.MetricError, match="generator"):
        m.intervals(m.trials_by_speaker(given), method="bca")


def test_no_error_gives_the_exact_limit_and_never_0_to_0():
    given = trials(4, shift=50)
    got = m.intervals(m.trials_by_speaker(given, ("eer.rocch", "eer.kaldi", "d_ece", "tpr_at_fpr.0.1")))
    limit = 1 - 0.025 ** (1 / 5)
    assert limit > 0.5
    assert (got["eer.rocch"].low, got["eer.rocch"].high, got["eer.rocch"].method) == (0, 0.5, "zero_errors")
    assert (got["eer.kaldi"].low, got["eer.kaldi"].high) == (0, pytest.approx(limit))
    assert (got["tpr_at_fpr.0.1"].low, got["tpr_at_fpr.0.1"].high) == (pytest.approx(1 - limit), 1)
    assert got["d_ece"].low is None and got["d_ece"].reason
    assert m.zero_error_limit(40) == pytest.approx(0.0881, abs=1e-4)


def test_intervals_say_why_there_is_none():
    one = m.Trials([1.0, 0.0, 0.5], [0, 0, 0], [0, 1, 2])
    got = m.intervals(m.trials_by_speaker(one))["eer.rocch"]
    assert got.method == "zero_errors" or got.reason
    assert m.intervals(m.trials_by_speaker(one))["cllr_min"].low is None
    assert "two enrolled" in m.intervals(m.trials_by_speaker(one))["cllr_min"].reason
    infinite = trials(5)
    infinite.scores[infinite.is_target.argmax()] = -np.inf
    assert "finite" in m.intervals(m.trials_by_speaker(infinite, ["cllr"]))["cllr"].reason
    with pytest.raises(m.MetricError, match="nonsense"):
        m.intervals(m.trials_by_speaker(infinite, ["nonsense"]))
    with pytest.raises(m.MetricError, match="non-target"):
        m.Trials([1.0], [0], [0])


def test_null_bands_are_those_of_permuted_models():
    """All 120 permutations of five models by hand; random ones must lie within them and reach the same median."""
    given = trials(6)
    want = []
    for identity in itertools.permutations(range(5)):
        claimed = np.array(identity)[given.enrolled]
        target = claimed == given.spoken
        want.append(m.d_ece_oracle(given.scores[target], given.scores[~target]))
    got = m.null_bands(m.trials_by_identity(given), generator=np.random.default_rng(0), replicates=3000)["d_ece"]
    assert got.median == pytest.approx(np.median(want), rel=0.05)
    assert got.high == pytest.approx(np.quantile(want, 0.975), rel=0.2)
    value = m.d_ece_oracle(given.scores[given.is_target], given.scores[~given.is_target])
    assert got.p_value == pytest.approx(np.mean(np.array(want) >= value - 1e-12), abs=0.02)


def test_the_tail_that_counts_is_the_one_that_discloses():
    """A low EER or Cllr_min discloses, a high D_ECE does: scores that tell everybody apart are beyond chance by all of them."""
    random = np.random.default_rng(5)
    enrolled, spoken = np.repeat(np.arange(8), 64), np.tile(np.repeat(np.arange(8), 8), 8)
    given = m.Trials(random.normal(size=512) + 4.0 * (enrolled == spoken), enrolled, spoken)
    names = ("d_ece", "l_w", "cllr_min", "eer.rocch", "d_sys.exact")
    found = m.null_bands(m.trials_by_identity(given, names), generator=random, replicates=200)
    assert {name: found[name].p_value < 0.02 for name in names} == dict.fromkeys(names, True)


def test_models_of_two_sexes_are_not_exchanged_when_trials_are_of_one_sex():
    f, mm = trials(7, enrolled=5, others=0), trials(8, enrolled=6, others=1)
    both = m.Trials(
        np.concatenate([f.scores, mm.scores]),
        np.concatenate([f.enrolled, mm.enrolled + 5]),
        np.concatenate([f.spoken, mm.spoken + 5]),
    )
    groups = _exchangeable(both, np.unique(both.enrolled))
    assert [group.tolist() for group in groups] == [list(range(5)), list(range(5, 11))]
    got = m.null_bands(m.trials_by_identity(both), generator=np.random.default_rng(0), replicates=20)
    assert set(got) == {"d_ece", "l_w"} and got["l_w"].low <= got["l_w"].median <= got["l_w"].high
    few = m.null_bands(m.trials_by_identity(trials(enrolled=4)), generator=np.random.default_rng(0))["d_ece"]
    assert few.high is None and few.reason


def test_paired_test_enumerates_swaps_of_few_speakers():
    a, b = trials(9), trials(10, shift=0.4)
    b = m.Trials(5 * b.scores - 3, b.enrolled, b.spoken)
    got = m.paired_tests(a, b, generator=np.random.default_rng(0))["d_ece"]
    whole = [measured(t.scores, t.enrolled, t.spoken)["d_ece"] for t in (a, b)]
    assert got.exact and got.replicates == 16
    assert got.difference == pytest.approx(whole[1] - whole[0], abs=1e-12)

    def ranks(x):
        return np.array([(x < s).sum() + (x == s).sum() / 2 for s in x])

    rank_a, rank_b = ranks(a.scores), ranks(b.scores)
    reached = 0
    for swap in itertools.product((False, True), repeat=5):
        swapped = np.array([*swap, False, False])[a.enrolled]
        first, second = np.where(swapped, rank_b, rank_a), np.where(swapped, rank_a, rank_b)
        difference = (
            measured(second, a.enrolled, a.spoken)["d_ece"] - measured(first, a.enrolled, a.spoken)["d_ece"]
        )  # fmt: skip
        reached += abs(difference) >= abs(got.difference) - 1e-12
    assert got.p_value == pytest.approx(reached / 32, abs=1e-12)


def test_paired_test_of_a_system_with_itself_and_with_a_better_one():
    a = trials(11, enrolled=12, utterances=8, shift=3)
    same = m.paired_tests(a, a, generator=np.random.default_rng(0), replicates=60)["eer.rocch"]
    assert (same.difference, same.p_value) == (0, 1)
    rng = np.random.default_rng(1)
    worse = m.Trials(a.scores + 3 * rng.normal(size=a.scores.size), a.enrolled, a.spoken)
    got = m.paired_tests(a, worse, generator=np.random.default_rng(0), replicates=99)["cllr_min"]
    assert got.difference > 0 and got.p_value == pytest.approx(0.01) and not got.exact
    assert got.interval.low < got.difference < got.interval.high
    with pytest.raises(m.MetricError, match="same trials"):
        m.paired_tests(a, trials(), generator=rng)


def test_normalised_intervals_by_hand():
    parts = [trials(12), trials(13, shift=0.5), trials(14, shift=0.9)]
    left = []
    for speaker in range(7):
        d, c = [], []
        for part in parts:
            kept = (part.enrolled != speaker) & (part.spoken != speaker)
            found = measured(part.scores[kept], part.enrolled[kept], part.spoken[kept])
            d.append(found["d_ece"])
            c.append(found["cllr_min"])
        left.append((m.d_ece_op_oo(d[0], d[1]), m.g_cllr_min(c[0], c[2])))
    whole = [measured(p.scores, p.enrolled, p.spoken) for p in parts]
    values = (
        m.d_ece_op_oo(whole[0]["d_ece"], whole[1]["d_ece"]),
        m.g_cllr_min(whole[0]["cllr_min"], whole[2]["cllr_min"]),
    )
    got = m.intervals(m.normalised_by_speaker(*parts))
    for name, value, column, top in zip(("d_ece_op_oo", "g_cllr_min"), values, zip(*left), (1, math.inf)):
        pseudo = 7 * value - 6 * np.array(column)
        reach = student.ppf(0.975, 4) * pseudo.std(ddof=1) / math.sqrt(7)
        want = (pseudo.mean() - reach, min(pseudo.mean() + reach, top))
        assert (got[name].low, got[name].high) == pytest.approx(want, abs=1e-10)


def score_matrices(seed=0, n_speakers=5, utterances=4):
    rng = np.random.default_rng(seed)
    speakers = rng.permutation(np.repeat(np.arange(n_speakers), utterances))
    n = speakers.size
    same = speakers[:, None] == speakers
    return speakers, [np.round(rng.normal(size=(n, n)) + shift * same, 1) for shift in (2, 1, 1.5)]


@pytest.mark.parametrize("similarity", ["geometric_mean", "sigmoid_mean"])
@pytest.mark.parametrize("pairing", ["all", "vpc2020"])
@pytest.mark.parametrize("llr", [False, True])
@pytest.mark.parametrize("speaker", [None, 0, 3])
def test_reweighted_pairs_are_the_matrix_of_the_speakers_that_are_left(similarity, pairing, llr, speaker):
    speakers, (_, scores, _) = score_matrices()
    values, pairs, _ = checked_pairs(scores, speakers, None, pairing=pairing, self_pairs="drop")
    weights, kept = np.ones(5), np.ones(speakers.size, dtype=bool)
    if speaker is not None:
        weights[speaker], kept = 0, speakers != speaker
    got = ReweightedPairs(values, pairs, similarity, llr)(weights)
    left = np.unique(speakers[kept], return_inverse=True)[1]
    want = m.similarity_matrix(
        scores[np.ix_(kept, kept)], left, similarity=similarity, pairing=pairing, scores_are_llr=llr
    )
    assert got == pytest.approx((want.signed, want.d_ece, want.cllr_min), abs=1e-12)


def test_a_speaker_drawn_twice_weighs_w_on_the_diagonal_and_w_w_off_it():
    speakers, (_, scores, _) = score_matrices(1)
    values, pairs, _ = checked_pairs(scores, speakers, None, pairing="all", self_pairs="drop")
    weights = np.array([2.0, 1, 0, 3, 1])
    got = ReweightedPairs(values, pairs, "geometric_mean", False)(weights)
    off = ~np.eye(speakers.size, dtype=bool)
    i, j = (np.broadcast_to(s, scores.shape)[off] for s in (speakers[:, None], speakers))
    times = np.where(i == j, weights[i], weights[i] * weights[j]).astype(int)
    flat = np.repeat(scores[off], times), np.repeat(i == j, times)
    calibration = m.calibrate(flat[0][flat[1]], flat[0][~flat[1]], laplace=True)
    cells = [
        [np.exp(-np.logaddexp(0, -calibration.apply(scores[off][(i == a) & (j == b)])).mean()) for b in range(5)]
        for a in range(5)
    ]
    held = [0, 1, 3, 4]
    want = m.signed_dominance(np.array(cells)[np.ix_(held, held)], weights[held])
    assert got[0] == pytest.approx(want, abs=1e-12)
    assert got[1] == pytest.approx(m.d_ece_oracle(flat[0][flat[1]], flat[0][~flat[1]]), abs=1e-12)


def test_vsm_intervals_by_hand_and_by_bootstrap():
    speakers, matrices = score_matrices(2)

    def measures(kept):
        left = np.unique(speakers[kept], return_inverse=True)[1]
        parts = [m.similarity_matrix(s[np.ix_(kept, kept)], left) for s in matrices]
        found = m.vsm_metrics(*parts, [str(i) for i in range(left.max() + 1)])
        return {"deid": found.deid, "g_vd": found.g_vd, "d_diag.op": found.d_diag["op"],
                "normalised_all_pairs.g_d_ece": found.normalised_all_pairs.g_d_ece}  # fmt: skip

    whole = measures(np.ones(speakers.size, dtype=bool))
    left = [measures(speakers != s) for s in range(5)]
    metric = m.vsm_by_speaker(dict(zip(CONDITIONS, matrices)), speakers)
    got = m.intervals(metric)
    for name, value in whole.items():
        pseudo = 5 * value - 4 * np.array([found[name] for found in left])
        reach = student.ppf(0.975, 4) * pseudo.std(ddof=1) / math.sqrt(5)
        low, high = pseudo.mean() - reach, pseudo.mean() + reach
        if name == "deid":
            high = min(high, 1)
        if name == "d_diag.op":
            low, high = max(low, 0), min(high, 1)
        assert (got[name].low, got[name].high) == pytest.approx((low, high), abs=1e-10)
    drawn = m.intervals(metric, method="percentile", replicates=40, generator=np.random.default_rng(0))
    assert drawn["signed.oo"].low < drawn["signed.oo"].high


def test_three_speakers_have_vsm_intervals_and_two_have_not():
    for n_speakers in (3, 2):
        speakers, matrices = score_matrices(4, n_speakers=n_speakers)
        got = m.intervals(m.vsm_by_speaker(dict(zip(CONDITIONS, matrices)), speakers))["d_diag.oo"]
        assert (got.low is None) == (n_speakers == 2) == bool(got.reason)


def test_srd_intervals_by_hand_and_limits():
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(6), 5)
    similarity = rng.normal(size=(30, 6))
    similarity[np.arange(30), truth] += 1
    whole = m.srd(similarity, truth).empirical
    left = [m.srd(similarity[truth != s], truth[truth != s]).empirical for s in range(6)]
    got = m.intervals(m.srd_by_speaker(similarity, truth))
    for name in ("mean_d", "idr"):
        pseudo = 6 * getattr(whole, name) - 5 * np.array([getattr(x, name) for x in left])
        reach = student.ppf(0.975, 5) * pseudo.std(ddof=1) / math.sqrt(6)
        want = max(pseudo.mean() - reach, 0), pseudo.mean() + reach
        assert (got[name].low, got[name].high) == pytest.approx(want, abs=1e-10)
    sure = np.eye(6)[truth]
    limit = 1 - 0.025 ** (1 / 6)
    always, never = (
        m.intervals(m.srd_by_speaker(sure, truth))["idr"],
        m.intervals(m.srd_by_speaker(-sure, truth, ties="worst"))["idr"],
    )
    assert (always.low, always.high) == pytest.approx((1 - limit, 1), abs=1e-12)
    assert (never.low, never.high) == pytest.approx((0, limit), abs=1e-12)


def test_srd_null_bands_are_those_of_permuted_references():
    rng = np.random.default_rng(4)
    truth = np.repeat(np.arange(5), 4)
    similarity = np.round(rng.normal(size=(20, 5)), 1)
    similarity[np.arange(20), truth] += 0.8
    want = [m.srd(similarity, np.array(p)[truth]).empirical for p in itertools.permutations(range(5))]
    got = m.null_bands(m.srd_by_identity(similarity, truth), generator=np.random.default_rng(0), replicates=2000)
    for name in ("max_d", "mean_d", "rank_spread"):
        exact = np.array([getattr(x, name) for x in want])
        assert got[name].median == pytest.approx(np.median(exact), rel=0.1)
        mine = m.srd(similarity, truth).empirical
        value = getattr(mine, name)
        beyond = exact < value - 1e-12 if name == "rank_spread" else exact > value + 1e-12
        # Equal values are told apart by their mean disclosure.
        second = np.array([x.mean_d for x in want]) >= mine.mean_d - 1e-12
        tail = beyond | (np.abs(exact - value) <= 1e-12) & second
        assert got[name].p_value == pytest.approx(tail.mean(), abs=0.04)
    few = m.null_bands(m.srd_by_identity(np.eye(3), np.arange(3)), generator=np.random.default_rng(0))
    assert few["max_d"].high is None and few["max_d"].reason


def test_the_default_interval_covers_the_population_value():
    """60 simulated sets of 12 enrolled speakers; the full simulation belongs to the benchmark."""
    shift, spread = 1.5, math.sqrt(1 + 3 * 0.4**2)
    truth = norm.cdf(-shift / 2 / spread)
    hits = 0
    for seed in range(60):
        got = m.intervals(
            m.trials_by_speaker(trials(seed, enrolled=12, others=0, shift=shift, decimals=6), ["eer.rocch"])
        )
        hits += got["eer.rocch"].low <= truth <= got["eer.rocch"].high
    assert hits >= 50


def test_null_band_and_p_value_by_hand():
    draws = np.arange(1, 100) / 100
    got = u.null_band(0.98, draws)
    assert (got.low, got.median, got.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.5, 0.975])))
    assert got.p_value == pytest.approx((2 + 1) / 100) and got.replicates == 99
    assert u.null_band(0.02, draws, leaks="low").p_value == pytest.approx((2 + 1) / 100)
    assert u.null_band(2.0, draws).p_value == pytest.approx(0.01)


def test_bca_of_draws_that_tie_with_the_value():
    """Half of a tie counts as below: symmetric draws around the value and symmetric pulls give the percentile interval."""
    draws = np.repeat([-2.0, -1.0, 0.0, 1.0, 2.0], [5, 20, 50, 20, 5])
    got = u.bca(0.0, draws, np.array([-1.0, 0.0, 1.0]))
    want = u.percentile(draws, n_speakers=3)
    assert (got.low, got.high) == (want.low, want.high)
    assert "one side" in u.bca(9.0, draws, np.array([-1.0, 0.0, 1.0])).reason
    assert "finite" in u.bca(0.0, [np.inf], np.array([-1.0, 1.0])).reason
    assert "finite" in u.percentile([np.nan, 1.0], n_speakers=3).reason


def test_a_clipped_interval_and_one_that_cannot_be_given():
    left = [0.1, 0.2, 0.4]
    assert u.jackknife(0.2, left, degrees=2, bounds=(0, 0.5)).low == 0
    assert u.jackknife(0.2, left, degrees=2, bounds=(0, 0.5)).high == 0.5
    assert "two enrolled" in u.jackknife(0.2, left, degrees=0, bounds=(0, 1)).reason
    assert "finite" in u.jackknife(math.inf, left, degrees=2, bounds=(0, 1)).reason
    assert "same" in u.jackknife(0.2, [0.2] * 3, degrees=2, bounds=(0, 1)).reason
    with pytest.raises(m.MetricError):
        u.zero_error_limit(0)


def test_equal_worst_cases_are_told_apart_by_the_average():
    """l_w takes few values: its p-value is that of the pair (l_w, D_ECE) among all permutations of five models."""
    rng = np.random.default_rng(11)
    enrolled, spoken = np.repeat(np.arange(5), 20), np.tile(np.repeat(np.arange(5), 4), 5)
    scores = np.round(rng.normal(size=100) + 0.4 * (enrolled == spoken), 1)
    pairs = []
    for moved in itertools.permutations(range(5)):
        is_target = np.array(moved)[enrolled] == spoken
        found = m.trial_metrics(scores[is_target], scores[~is_target])
        pairs.append((round(found.l_w, 9), round(found.d_ece, 9)))
    own = pairs[0]
    assert len({first for first, _ in pairs}) < len(set(pairs))
    got = m.null_bands(
        m.trials_by_identity(m.Trials(scores, enrolled, spoken), ("l_w",)),
        generator=np.random.default_rng(0),
        replicates=2000,
    )
    assert set(got) == {"l_w"}
    assert got["l_w"].p_value == pytest.approx(np.mean([pair >= own for pair in pairs]), abs=0.03)
