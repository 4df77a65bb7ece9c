"""Two runs of a random system: C_ECE's interval, and linkability across runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t as student

from pipeline import metrics as m
from pipeline.metrics.calibration import Recalibrated, weighted_linear
from tests.metrics import brute

VARIANTS = [("linear", "step"), ("isotonic", "step"), ("isotonic", "linear")]


def runs(seed=0, enrolled=6, others=2, utterances=5, shift=1.5, decimals=1, shared=0.7):
    """Two runs over the same trials; effects of speakers are partly those of both runs."""
    rng = np.random.default_rng(seed)
    n = enrolled + others
    claimed = np.repeat(np.arange(enrolled), n * utterances)
    spoken = np.tile(np.repeat(np.arange(n), utterances), enrolled)
    common = 0.5 * rng.normal(size=(enrolled, n))
    found = []
    for _ in range(2):
        effect = math.sqrt(shared) * common + math.sqrt(1 - shared) * 0.5 * rng.normal(size=(enrolled, n))
        scores = rng.normal(size=claimed.size) + shift * (claimed == spoken) + effect[claimed, spoken]
        found.append(m.Trials(np.round(scores, decimals), claimed, spoken))
    return found


def value(first, second, weights, calibration, between):
    """C_ECE and Cllr by the public function, each trial as often as its speakers say."""
    classes = []
    for run in (first, second):
        times = np.where(run.is_target, weights[run.enrolled], weights[run.enrolled] * weights[run.spoken]).astype(int)
        classes += [np.repeat(run.scores[part], times[part]) for part in (run.is_target, ~run.is_target)]
    found = m.c_ece(*classes, method=calibration, between=between)
    return found.c_ece, found.cllr_l_phi


@pytest.mark.parametrize("calibration, between", VARIANTS)
@pytest.mark.parametrize(
    "weights", [[1] * 8, [0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 1], [2, 0, 1, 3, 1, 1, 2, 0]]
)
def test_speaker_weights_stand_for_trials_left_out_or_repeated(calibration, between, weights):
    first, second = runs()
    weights = np.array(weights, dtype=float)
    got = Recalibrated(first, second, calibration, between)(weights)
    assert (got["c_ece"], got["cllr_l_phi"]) == pytest.approx(
        value(first, second, weights, calibration, between), abs=1e-9
    )


def test_the_weighted_linear_map_has_the_least_weighted_cost():
    rng = np.random.default_rng(5)
    scores, is_target = rng.normal(size=80), np.arange(80) < 30
    scores += 1.2 * is_target
    weights = rng.integers(0, 4, 80).astype(float)

    def cost(parameters):
        llr = parameters[0] * scores + parameters[1]
        parts = np.logaddexp(0, np.where(is_target, -llr, llr))
        return sum(np.average(parts[part], weights=weights[part]) for part in (is_target, ~is_target))

    got = weighted_linear(scores, is_target, weights)
    want = minimize(cost, [1, 0], tol=1e-14)
    assert (got.slope, got.offset) == pytest.approx(tuple(want.x), abs=1e-5)
    near = weighted_linear(scores, is_target, weights, start=m.Linear(got.slope + 0.3, got.offset - 0.2))
    assert (near.slope, near.offset) == pytest.approx((got.slope, got.offset), abs=1e-8)
    with pytest.raises(m.MetricError, match="no target"):
        weighted_linear(scores, is_target, np.where(is_target, 0.0, 1.0))


@pytest.mark.parametrize("calibration, between", VARIANTS)
def test_c_ece_intervals_by_hand(calibration, between):
    first, second = runs(1)
    whole = value(first, second, np.ones(8), calibration, between)
    left = [value(first, second, (np.arange(8) != s).astype(float), calibration, between) for s in range(8)]
    got = m.intervals(m.c_ece_by_speaker(first, second, calibration=calibration, between=between))
    for name, index, low, high in (("c_ece", 0, -math.inf, m.D_ECE_MAX), ("cllr_l_phi", 1, 0, math.inf)):
        pseudo = 8 * whole[index] - 7 * np.array([one[index] for one in left])
        reach = student.ppf(0.975, 5) * pseudo.std(ddof=1) / math.sqrt(8)
        want = max(pseudo.mean() - reach, low), min(pseudo.mean() + reach, high)
        assert (got[name].low, got[name].high) == pytest.approx(want, abs=1e-7)


def test_the_interval_covers_the_population_value():
    """Gaussian scores of two runs: the attacker's map is the true one, so C_ECE is the D_ECE of calibrated scores."""
    shift = 1.5
    d_prime = shift / math.sqrt(1 + 0.25)
    points = np.linspace(-9, 9, 4001)
    density = np.exp(-(points**2) / 2)
    llr = [d_prime * (points + sign * d_prime / 2) for sign in (1, -1)]
    truth = sum(np.average(m.z_function(sign * one), weights=density) for sign, one in zip((1, -1), llr))
    truth /= 2 * math.log(2)
    hits = {"linear": 0, "isotonic": 0}
    for seed in range(30):
        pair = runs(seed, enrolled=10, others=0, utterances=8, shift=shift, decimals=9)
        for calibration in hits:
            got = m.intervals(m.c_ece_by_speaker(*pair, calibration=calibration))["c_ece"]
            hits[calibration] += got.low <= truth <= got.high
    assert min(hits.values()) >= 26


def test_what_has_no_c_ece_interval():
    first, second = runs(2)
    separated = m.Trials(np.where(first.is_target, 1.0, 0.0), first.enrolled, first.spoken)
    with pytest.raises(m.Undefined, match="overlap"):
        m.intervals(m.c_ece_by_speaker(separated, second))
    assert m.intervals(m.c_ece_by_speaker(separated, second, calibration="isotonic"))["c_ece"].low is not None
    # A target of f1 at -inf makes C_ECE -inf under a linear map, which has no interval.
    scores = second.scores.copy()
    scores[np.flatnonzero(second.is_target)[0]] = -np.inf
    got = m.intervals(m.c_ece_by_speaker(first, m.Trials(scores, second.enrolled, second.spoken)))["c_ece"]
    assert got.low is None and "finite" in got.reason
    with pytest.raises(m.MetricError, match="generator"):
        m.intervals(m.c_ece_by_speaker(first, second), method="percentile")
    with pytest.raises(m.MetricError, match="calibration"):
        m.intervals(m.c_ece_by_speaker(first, second, calibration="cubic"))
    drawn = m.intervals(
        m.c_ece_by_speaker(first, second), method="bca", replicates=60, generator=np.random.default_rng(0)
    )["c_ece"]
    assert drawn.low < value(first, second, np.ones(8), "linear", "step")[0] < drawn.high


def matrices(seed=0, n_speakers=5, utterances=3, link=0.8):
    rng = np.random.default_rng(seed)
    speakers = rng.permutation(np.repeat(np.arange(n_speakers), utterances))
    same = speakers[:, None] == speakers
    return speakers, *(np.round(rng.normal(size=same.shape) + shift * same, 1) for shift in (2, link))


@pytest.mark.parametrize("similarity", ["geometric_mean", "sigmoid_mean"])
@pytest.mark.parametrize("self_pairs", ["drop", "keep"])
def test_linkage_by_loops_over_pairs(similarity, self_pairs):
    speakers, pp, p0p1 = matrices()

    def dominance(scores, kept):
        matrix = np.array(brute.similarity_matrix(scores, list(speakers), 5, similarity, "all", kept))
        off = ~np.eye(5, dtype=bool)
        return np.diag(matrix).mean() - matrix[off].mean()

    within, across = dominance(pp, "drop"), dominance(p0p1, self_pairs)
    found = m.linkage(
        m.similarity_matrix(pp, speakers, similarity=similarity),
        m.similarity_matrix(p0p1, speakers, similarity=similarity, self_pairs=self_pairs),
    )
    assert found.d_diag_p0p1_signed == pytest.approx(across, abs=1e-12)
    assert found.d_diag_p0p1 == pytest.approx(abs(across), abs=1e-12)
    assert found.p0p1_ratio == pytest.approx(abs(across) / abs(within), abs=1e-12) and not found.reasons


def test_the_same_run_twice_is_linked_as_well_as_itself():
    speakers, pp, _ = matrices(1)
    matrix = m.similarity_matrix(pp, speakers)
    assert m.linkage(matrix, matrix).p0p1_ratio == 1
    assert m.p0p1_ratio(0.5, 0.2) == 0.4 and m.p0p1_ratio(0.5, 0) == 0
    # A run in which all voices are alike has no diagonal to compare with.
    flat = m.similarity_matrix(np.zeros_like(pp), speakers)
    found = m.linkage(flat, matrix)
    assert found.p0p1_ratio is None and "D_diag(PP) is 0" in found.reasons["p0p1_ratio"]
    with pytest.raises(m.Undefined):
        m.p0p1_ratio(0.0, 0.3)


@pytest.mark.parametrize("self_pairs", ["drop", "keep"])
def test_linkage_intervals_by_hand(self_pairs):
    speakers, pp, p0p1 = matrices(2)

    def measures(kept):
        left = np.unique(speakers[kept], return_inverse=True)[1]
        found = m.linkage(
            m.similarity_matrix(pp[np.ix_(kept, kept)], left),
            m.similarity_matrix(p0p1[np.ix_(kept, kept)], left, self_pairs=self_pairs),
        )
        return np.array([found.d_diag_p0p1, found.d_diag_p0p1_signed, found.p0p1_ratio])

    pseudo = 5 * measures(speakers >= 0) - 4 * np.array([measures(speakers != s) for s in range(5)])
    reach = student.ppf(0.975, 4) * pseudo.std(axis=0, ddof=1) / math.sqrt(5)
    got = m.intervals(m.linkage_by_speaker(pp, p0p1, speakers, self_pairs=self_pairs))
    for name, centre, half, low, high in zip(
        ("d_diag_p0p1", "d_diag_p0p1_signed", "p0p1_ratio"), pseudo.mean(axis=0), reach, (0, -1, 0), (1, 1, math.inf)
    ):
        assert (got[name].low, got[name].high) == pytest.approx(
            (max(centre - half, low), min(centre + half, high)), abs=1e-10
        )


def test_a_flat_first_run_has_no_interval_of_the_ratio():
    speakers, pp, p0p1 = matrices(3)
    got = m.intervals(m.linkage_by_speaker(np.zeros_like(pp), p0p1, speakers))
    assert got["p0p1_ratio"].low is None and "finite" in got["p0p1_ratio"].reason
    assert got["d_diag_p0p1"].low is not None
