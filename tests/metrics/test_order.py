"""The order of classes: the AUC against counting pairs, and how often scores that say nothing are taken for a wrong order."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from pipeline.metrics import MetricError, area, class_order, rank_order

Lists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def pairs_won(target: np.ndarray, nontarget: np.ndarray) -> float:
    """One pair after the other."""
    won = sum((t > n) + (t == n) / 2 for t in target for n in nontarget)
    return float(won / (len(target) * len(nontarget)))


def test_the_area_counts_pairs() -> None:
    random = np.random.default_rng(0)
    for sizes in ((1, 1), (3, 7), (9, 2), (20, 20)):
        for values in ([-1.0, 0.0, 1.0], [-np.inf, 0.0, np.inf], [0.0], list(random.normal(size=50))):
            target, nontarget = (random.choice(values, size) for size in sizes)
            assert area(target, nontarget) == pytest.approx(pairs_won(target, nontarget), abs=1e-15)
    for bad in (([], [1.0]), ([np.nan], [1.0])):
        with pytest.raises(MetricError):
            area(*bad)


def table(scores: np.ndarray, models: np.ndarray, spoken: np.ndarray) -> Lists:
    row, column = np.indices(scores.shape).reshape(2, -1)
    first, second = models[row], spoken[column]
    return scores[row, column], first == second, first, second


def nothing(random: np.random.Generator, kind: int, speakers: int, each: int) -> Lists:
    """Scores in which models, utterances and speakers have effects of their own, and identity means nothing."""
    spoken = np.repeat(np.arange(speakers), each)
    noise = random.normal(size=(speakers, spoken.size))
    if kind == 0:
        effects = 2 * random.normal(size=(speakers, 1)) + 2 * random.normal(size=speakers)[spoken]
        return table(noise + effects, np.arange(speakers), spoken)
    # Every speaker has a voice of his own on either side, in a few dimensions, as pseudo-speakers drawn for each have.
    dimensions = 1 + kind % 4
    one, other = random.normal(size=(2, speakers, dimensions))
    return table(one @ other[spoken].T + 0.5 * noise, np.arange(speakers), spoken)


def test_scores_that_say_nothing_are_refused_as_rarely_as_stated() -> None:
    """1,000 data sets; of 1 in 1,000 expected, more than 6 have a chance of 1 in 12,000."""
    random = np.random.default_rng(1)
    found = []
    for number in range(1000):
        speakers, each = int(random.integers(3, 25)), int(random.integers(2, 7))
        scores, is_target, first, second = nothing(random, number % 5, speakers, each)
        if number % 3 == 0:  # groups that are not tried against each other, or a list that was thinned
            kept = first % 2 == second % 2
        elif number % 3 == 1:
            kept = is_target | (random.random(scores.size) < 0.3)
        else:
            kept = np.ones(scores.size, bool)
        if not (kept & ~is_target).any():
            continue
        found.append(class_order(scores[kept], is_target[kept], first[kept], second[kept]))
    assert len(found) > 950
    assert sum(one.is_reversed for one in found) <= 6
    below = [one for one in found if one.auc < 0.5]
    assert 0.35 < len(below) / len(found) < 0.65
    tested = np.array([one.p_value for one in below if one.p_value is not None])
    assert (tested < 0.02).sum() / len(found) < 0.035, "the lower half of a test of 2 %"


def test_trials_taken_for_independent_would_refuse_far_too_often() -> None:
    """The same data with the test of Mann and Whitney: what the structure of speakers is for."""
    random = np.random.default_rng(2)
    wrong = ours = 0
    for number in range(300):
        scores, is_target, first, second = nothing(random, 1 + number % 4, 12, 6)
        wrong += mannwhitneyu(scores[is_target], scores[~is_target], alternative="less").pvalue < 1e-3
        ours += class_order(scores, is_target, first, second).is_reversed
    assert wrong > 20 and ours <= 3


def test_recordings_on_both_sides() -> None:
    """All pairs of one set of vectors without speakers in them: a matrix that is symmetrical."""
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(300):
        vectors = random.normal(size=(30, 3))
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        scores, is_target, first, second = table(vectors @ vectors.T, *2 * [np.repeat(np.arange(10), 3)])
        kept = ~np.eye(30, dtype=bool).ravel()
        found = class_order(scores[kept], is_target[kept], first[kept], second[kept], two_sided_ids=True)
        refused += found.is_reversed
    assert refused <= 2


@pytest.mark.parametrize("speakers", [6, 8, 40])
def test_distances_are_the_wrong_way_round(speakers: int) -> None:
    random = np.random.default_rng(4)
    spoken = np.repeat(np.arange(speakers), 4)
    scores, is_target, first, second = table(random.normal(size=(speakers, spoken.size)), np.arange(speakers), spoken)
    wrong = class_order(scores - 2.0 * is_target, is_target, first, second)
    assert wrong.is_reversed and wrong.auc < 0.25 and not wrong.is_doubtful
    right = class_order(scores + 2.0 * is_target, is_target, first, second)
    assert not right.is_reversed and right.p_value is None and right.auc > 0.75
    thinned = is_target | (random.random(is_target.size) < 0.5)
    kept = class_order(*(each[thinned] for each in (scores - 3.0 * is_target, is_target, first, second)))
    assert kept.is_reversed


def test_few_speakers_are_a_doubt_and_no_refusal() -> None:
    """Of two models, each is as likely nearer to the other's speaker: every arrangement of a few may come by chance."""
    scores = np.tile([[-5.0], [5.0]], (1, 10))
    scores[:, 5:] *= -1
    found = class_order(
        *table(scores + np.random.default_rng(0).normal(size=scores.shape), np.arange(2), np.repeat([0, 1], 5))
    )
    assert found.auc == 0 and not found.is_reversed and found.is_doubtful and "too few" in found.reason
    weak = class_order(*table(np.zeros((2, 4)), np.arange(2), np.repeat([0, 1], 2)))
    assert (weak.auc, weak.is_reversed, weak.is_doubtful) == (0.5, False, False)


def test_the_table_agrees_with_all_permutations_of_models() -> None:
    """The p-value against the share of all 5,040 arrangements of seven models that are as low."""
    random = np.random.default_rng(6)
    ours, exact = [], []
    for _ in range(12):
        scores, is_target, first, second = nothing(random, 4, 7, 3)
        found = class_order(scores, is_target, first, second)
        if found.p_value is None:
            continue
        ranks = np.argsort(np.argsort(scores))
        mean = np.zeros((7, 7))
        np.add.at(mean, (first, second), ranks / 3)
        own = np.trace(mean)
        exact.append(
            np.mean([sum(mean[i, j] for i, j in enumerate(order)) <= own + 1e-9 for order in permutations(range(7))])
        )
        ours.append(found.p_value)
    assert len(ours) >= 4
    np.testing.assert_allclose(ours, exact, atol=0.05)


def test_ranks_of_references() -> None:
    random = np.random.default_rng(5)
    truth = np.repeat(np.arange(12), 5)
    similarity = random.normal(size=(60, 12))
    assert not rank_order(similarity, truth, truth).is_reversed
    similarity[np.arange(60), truth] -= 2
    found = rank_order(similarity, truth, truth)
    beaten = [(row[k] > np.delete(row, k)).mean() for row, k in zip(similarity, truth)]
    assert found.auc == pytest.approx(np.mean(beaten), abs=1e-12)
    assert found.is_reversed and not rank_order(-similarity, truth, truth).is_reversed


def test_extreme_scores_have_an_order() -> None:
    spoken = np.repeat(np.arange(8), 3)
    scores, is_target, first, second = table(np.random.default_rng(7).normal(size=(8, 24)), np.arange(8), spoken)
    for values in (np.where(is_target, -np.inf, np.inf), np.where(is_target, -1.7e308, 1.7e308), scores * 5e-324):
        found = class_order(values, is_target, first, second)
        assert math.isfinite(found.auc)
    assert class_order(np.where(is_target, -np.inf, np.inf), is_target, first, second).is_reversed
