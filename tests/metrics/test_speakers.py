"""Each speaker of a trial list: held against brute force, against the speaker table of matrices, and on sets with a known answer."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from pipeline import metrics
from pipeline.metrics import MetricError, Trials, count_listed, measure_speakers, overlap
from tests.metrics import brute


def trials(n, each, *, shift=1.0, seed=0, best=None):
    """All models with all utterances; targets score higher by ``shift``, those of the speaker ``best`` by 4."""
    random = np.random.default_rng(seed)
    enrolled, spoken = np.repeat(np.arange(n), n * each), np.tile(np.repeat(np.arange(n), each), n)
    scores = random.normal(size=enrolled.size) + np.where(spoken == best, 4.0, shift) * (enrolled == spoken)
    return Trials(scores.round(1), enrolled, spoken), np.tile(np.arange(n * each), n)


def z(llr):
    """Z by quadrature-free algebra with 30 digits."""
    c = mpmath.expm1(llr)
    return mpmath.mpf(1) / 2 + (llr - c) / c**2 if llr else mpmath.mpf(0)


def test_numbers_of_each_speaker_are_those_of_loops_over_trials():
    given, said = trials(5, 3, seed=3)
    found = measure_speakers(given, said)
    rows = list(zip(given.scores.tolist(), given.enrolled.tolist(), given.spoken.tolist()))
    target, nontarget = [s for s, e, o in rows if e == o], [s for s, e, o in rows if e != o]
    llr = brute.llr_by_score(target, nontarget, laplace=True)
    for k, who in enumerate(found.speakers.tolist()):
        own = [s for s, e, o in rows if e == o == who]
        others = [s for s, e, o in rows if e != o and who in (e, o)]
        assert (found.counts.n_target[k], found.counts.n_nontarget[k], found.counts.n_utterances[k]) == (
            len(own),
            len(others),
            3,
        )
        with mpmath.workdps(30):
            halves = [sum(z(llr[s]) for s in own) / len(own), sum(z(-llr[s]) for s in others) / len(others)]
            assert found.d_ece[k] == pytest.approx(float(sum(halves) / (2 * mpmath.log(2))), abs=1e-12)
        assert found.eer[k] == pytest.approx(float(brute.eer_rocch(own, others)), abs=1e-12)
        assert found.target_llr[k] == pytest.approx(float(sum(llr[s] for s in own) / len(own)), abs=1e-12)
        assert found.max_llr[k] == pytest.approx(max(abs(float(llr[s])) for s in own + others), abs=1e-12)
        means = {
            other: np.mean([s for s, e, o in rows if {e, o} == {who, other}]) for other in range(5) if other != who
        }
        assert found.neighbours.nearest[k] == max(means, key=lambda other: (means[other], -other))
        assert found.neighbours.nearest_score[k] == pytest.approx(max(means.values()))
        assert found.neighbours.own_score[k] == pytest.approx(np.mean(own))
    assert found.certainty.median == pytest.approx(np.median(found.d_ece))


def test_they_are_those_of_the_speaker_table_of_matrices():
    random = np.random.default_rng(5)
    speakers = np.repeat(np.arange(4), 3)
    scores = random.normal(size=(12, 12)) + 2 * np.equal.outer(speakers, speakers)
    table = metrics.similarity_matrix(scores, speakers)
    row, column = np.nonzero(~np.eye(12, dtype=bool))
    found = measure_speakers(Trials(scores[row, column], speakers[row], speakers[column]), column)
    for name, other in (("d_ece", table.speaker_d_ece), ("target_llr", table.target_llr),
                        ("impostor_llr", table.impostor_llr), ("max_llr", table.speaker_max_llr)):  # fmt: skip
        np.testing.assert_allclose(getattr(found, name), other, atol=1e-12, err_msg=name)


def deviations(given, said, who):
    """The two variances of a speaker by deleting units from sums, without pooling."""
    own = given.is_target
    target, nontarget = given.scores[own], given.scores[~own]
    llr = metrics.calibrate(target, nontarget, laplace=True).apply(given.scores)
    value = metrics.z_function(np.where(own, llr, -llr)) / (2 * math.log(2))
    mine = own & (given.enrolled == who)
    others = ~own & ((given.enrolled == who) | (given.spoken == who))

    def mean_without(unit):
        """To first order: the sums change, the means by which they are taken do not."""
        whole = value[mine].mean() + value[others].mean()
        a = ((value - value[mine].mean())[mine & unit]).sum() / mine.sum()
        b = ((value - value[others].mean())[others & unit]).sum() / others.sum()
        return whole - a - b

    found = []
    for units in ([said == u for u in np.unique(said[mine])],
                  [(given.enrolled == o) | (given.spoken == o) for o in np.unique(given.spoken) if o != who]):  # fmt: skip
        left = np.array([mean_without(unit) for unit in units])
        found.append(len(units) * ((left - left.mean()) ** 2).sum() / (len(units) - 1))
    return found


def test_the_interval_is_that_of_deleted_units_and_not_narrower_than_what_all_show():
    given, said = trials(6, 4, seed=9)
    found = measure_speakers(given, said)
    each = np.array([deviations(given, said, who) for who in range(6)])
    units = np.array([4, 5])
    shared = (each * units).mean(axis=0) / units
    variance = np.maximum(each, shared)
    free = np.where(each > shared, units - 1, 6 * (units - 1))
    degrees = variance.sum(axis=1) ** 2 / (variance**2 / free).sum(axis=1)
    with mpmath.workdps(20):
        for k in range(6):
            reach = (found.d_ece[k] - found.certainty.low[k]) / math.sqrt(variance[k].sum())
            x = degrees[k] / (degrees[k] + reach**2)
            outside = mpmath.betainc(degrees[k] / 2, 0.5, 0, x, regularized=True)
            assert float(outside) == pytest.approx(0.05, abs=1e-9)


def test_a_planted_speaker_is_the_worst_and_told_apart():
    given, said = trials(10, 8, shift=0.3, seed=1, best=6)
    found = measure_speakers(given, said)
    assert found.speakers[found.order[0]] == 6 and found.eer[6] == found.eer.min()
    assert found.certainty.p_median[6] < 0.01 and found.certainty.low[6] > found.certainty.median
    assert (np.delete(found.certainty.p_median, 6) > 0.05).all()


@pytest.mark.parametrize(("n", "each", "shift"), [(8, 3, 0.0), (8, 6, 3.0), (16, 10, 1.0)])
def test_where_all_are_alike_hardly_ever_is_one_told_apart(n, each, shift):
    called = sum(
        (measure_speakers(*trials(n, each, shift=shift, seed=seed)).certainty.p_median <= 0.05).any()
        for seed in range(60)
    )
    assert called <= 6, "at most one in twenty, of 60 sets"


def test_one_utterance_of_each_leaves_no_interval():
    found = measure_speakers(*trials(4, 1))
    assert found.certainty.reason == "no speaker has two trial utterances"
    assert (
        np.isnan(found.certainty.low).all()
        and np.isnan(found.certainty.p_median).all()
        and np.isfinite(found.d_ece).all()
    )


def test_scores_that_tell_everything_or_nothing():
    given, said = trials(4, 3)
    same = measure_speakers(Trials(np.zeros(48), given.enrolled, given.spoken), said)
    # But for the trials that Laplace's rule adds.
    assert same.d_ece == pytest.approx(0, abs=1e-3) and np.ptp(same.d_ece) == 0
    assert same.eer == pytest.approx(0.5) and (same.certainty.p_median == 1).all()
    sure = measure_speakers(Trials(given.is_target.astype(float), given.enrolled, given.spoken), said)
    assert sure.eer == pytest.approx(0) and (sure.certainty.p_median == 1).all() and np.ptp(sure.d_ece) < 1e-12
    endless = measure_speakers(Trials(np.where(given.is_target, np.inf, -np.inf), given.enrolled, given.spoken), said)
    np.testing.assert_allclose(endless.d_ece, sure.d_ece)


def test_speakers_without_both_kinds_of_trials_are_no_rows():
    # 2 is enrolled and never speaks; 3 speaks and is not enrolled.
    given = Trials(np.array([3.0, 1, 0, 2, 0.5, 0]), np.array([0, 0, 1, 1, 2, 0]), np.array([0, 1, 0, 1, 0, 3]))
    found = measure_speakers(given, [0, 1, 0, 1, 0, 2])
    assert found.speakers.tolist() == [0, 1] and found.counts.n_nontarget.tolist() == [4, 2]
    with pytest.raises(MetricError, match="5 utterances for 6 trials"):
        measure_speakers(given, [0, 1, 0, 1, 0])
    with pytest.raises(MetricError, match="no speaker has both"):
        measure_speakers(Trials(np.array([1.0, 0]), np.array([0, 1]), np.array([0, 2])), [0, 1])


def test_the_overlap_of_lists_is_counted_over_all_lists():
    for n, k in ((5, 2), (7, 3)):
        every = list(itertools.combinations(range(n), k))
        for one in (every[0], every[-1]):
            shared = [len({*one} & {*other}) for other in every]
            found = overlap(one, every[3], n)
            assert found.shared == len({*one} & {*every[3]})
            assert found.shared_chance == pytest.approx(np.mean(shared))
            assert found.jaccard_chance == pytest.approx(np.mean([s / (2 * k - s) for s in shared]))
            assert found.p_value == pytest.approx(np.mean([s >= found.shared for s in shared]))
    with pytest.raises(MetricError, match="lists of 1 and 2 out of 4"):
        overlap([0], [1, 2], 4)


def test_the_length_of_the_lists():
    assert [count_listed(n) for n in (2, 3, 4, 6, 20, 29, 40, 4949)] == [1, 1, 2, 3, 3, 3, 4, 495]
