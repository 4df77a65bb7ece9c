"""The strongest of several attacks: closed forms, brute force, and simulated sets of which the truth is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student

from pipeline.metrics import (
    D_ECE_MAX,
    Attacks,
    MetricError,
    Trials,
    average_attacks,
    collect_attacks,
    d_ece,
    difference,
    holm,
    intervals,
    leave_each_out,
    maximum_interval,
    null_draws,
    null_of_maximum,
    shared_ranks,
    simultaneous_interval,
    trial_metrics,
    trials_by_speaker,
)
from pipeline.metrics.maximum import attack_choices, joint_quantile, spread_of_sums
from pipeline.metrics.swaps import draw_swaps
from pipeline.metrics.trial_uncertainty import metric_bounds

WIDE = (-math.inf, math.inf)


def means(x: np.ndarray, stratum: str = "") -> Attacks:
    """The mean of one number a speaker [A, S]: its contributions are the numbers by S."""
    n = x.shape[1]
    without = (x.sum(axis=1, keepdims=True) - x) / (n - 1)
    names = [f"{stratum}{k:03d}" for k in range(n)]
    return collect_attacks(x.mean(axis=1), without, names, degrees=n - 1, bounds=WIDE)


def lists(n: int, seed: int = 0, speakers: int = 7, each: int = 3) -> list[Trials]:
    """Attacks on the same trials, the later the stronger."""
    random = np.random.default_rng(seed)
    enrolled = np.repeat(np.arange(speakers), speakers * each)
    spoken = np.tile(np.repeat(np.arange(speakers), each), speakers)
    common = random.normal(size=enrolled.size)
    return [
        Trials(common + random.normal(size=enrolled.size) + (0.5 + 0.5 * k) * (enrolled == spoken), enrolled, spoken)
        for k in range(n)
    ]


def measured(several: list[Trials], metric: str = "d_ece") -> Attacks:
    found = [leave_each_out(one) for one in several]
    return collect_attacks(
        [one.value[metric] for one in found],
        [one.without[metric] for one in found],
        [f"{code:03d}" for code in found[0].speakers],
        degrees=found[0].degrees,
        bounds=metric_bounds(metric),
    )


# --- closed forms and brute force --------------------------------------------------------------------------------------


def test_of_a_mean_contributions_are_the_numbers_and_the_interval_is_that_of_student() -> None:
    x = np.random.default_rng(1).normal(size=(1, 9))
    attacks = means(x)
    np.testing.assert_allclose(attacks.contributions, x / 9, atol=1e-14)
    low, high = student.interval(0.95, 8, loc=x.mean(), scale=x.std(ddof=1) / 3)
    for interval in (maximum_interval(attacks)[0], simultaneous_interval(attacks, 0)):
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("metric", ["d_ece", "eer.rocch"])
def test_of_one_attack_the_interval_is_the_jackknife_of_the_trials(metric: str) -> None:
    (one,) = lists(1, speakers=8)
    want = intervals(trials_by_speaker(one, (metric,)))[metric]
    got = simultaneous_interval(measured([one], metric), 0)
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=1e-12)
    if metric == "d_ece":
        top = maximum_interval(measured([one]))[0]
        assert (top.low, top.high) == pytest.approx((want.low, want.high), abs=1e-12)


def test_values_without_a_speaker_are_those_of_the_trials_that_are_left() -> None:
    (one,) = lists(1)
    found = leave_each_out(one)
    for place, speaker in enumerate(found.speakers):
        kept = (one.enrolled != speaker) & (one.spoken != speaker)
        want = trial_metrics(one.scores[kept & one.is_target], one.scores[kept & ~one.is_target])
        assert found.without["d_ece"][place] == pytest.approx(want.d_ece, abs=1e-12)
        assert found.without["eer.rocch"][place] == pytest.approx(want.eer["rocch"], abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_joint_quantile_of_independent_statistics_is_that_of_sidak(n: int) -> None:
    rows = np.eye(n)
    assert joint_quantile(rows, 1e9, 0.975) == pytest.approx(ndtri(0.975 ** (1 / n)), abs=0.06)
    both = joint_quantile(rows, 1e9, 0.95, two_sided=True)
    assert both == pytest.approx(ndtri((1 + 0.95 ** (1 / n)) / 2), abs=0.06)
    same = joint_quantile(np.ones((n, 1)), 12, 0.975)
    assert same == pytest.approx(student.ppf(0.975, 12), abs=0.08), "of one and the same statistic it is its own"


def test_an_attack_that_is_certainly_weaker_takes_no_part() -> None:
    x = np.random.default_rng(2).normal(size=(1, 20))
    alone = maximum_interval(means(x))[0]
    joined, contenders = maximum_interval(means(np.concatenate([x - 0.5, x])))
    assert contenders.tolist() == [1]
    assert (joined.low, joined.high) == pytest.approx((alone.low, alone.high), abs=1e-12)
    other = np.random.default_rng(3).normal(size=(1, 20))
    both, contenders = maximum_interval(means(np.concatenate([x, other - other.mean() + x.mean()])))
    assert contenders.tolist() == [0, 1]
    assert both.low is not None and alone.low is not None and both.low < alone.low


def test_an_attack_that_tells_everybody_apart_makes_nothing_certain_from_below() -> None:
    x = 0.6 + 0.2 * np.random.default_rng(5).normal(size=(1, 9))
    perfect = np.full((1, 9), D_ECE_MAX)
    bounds = (0.0, D_ECE_MAX)
    without = [(9 * one.mean() - one) / 8 for one in (perfect[0], x[0])]
    names = [f"{k}" for k in range(9)]
    both = collect_attacks([D_ECE_MAX, x.mean()], without, names, degrees=8, bounds=bounds)
    (interval, contenders), (alone, _) = maximum_interval(both), maximum_interval(both.only([1]))
    assert contenders.tolist() == [0, 1]
    assert interval.high == D_ECE_MAX and interval.low == pytest.approx(alone.low, abs=1e-12)
    assert interval.low is not None and interval.low < x.mean()
    assert maximum_interval(both.only([0]))[0].reason == "the value is the same without any one speaker"


def test_a_mean_over_sets_adds_contributions_speaker_by_speaker() -> None:
    random = np.random.default_rng(4)
    f, m = random.normal(size=(2, 10)), random.normal(size=(2, 12))
    joined = average_attacks([means(f, "f"), means(m, "m")], [0.3, 0.7])
    np.testing.assert_allclose(joined.values, 0.3 * f.mean(axis=1) + 0.7 * m.mean(axis=1), atol=1e-14)
    parts = [(0.3**2 * f[0].var(ddof=1) / 10, 9), (0.7**2 * m[0].var(ddof=1) / 12, 11)]
    variance = sum(part for part, _ in parts)
    degrees = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    low, high = student.interval(0.95, degrees, loc=joined.values[0], scale=math.sqrt(variance))
    got = maximum_interval(joined.only([0]))[0]
    assert (got.low, got.high) == pytest.approx((low, high), abs=1e-12), "Satterthwaite"
    # Of the same speakers a mean over sets is the mean of each one's means.
    g = random.normal(size=(2, 10))
    same = average_attacks([means(f), means(g)], [0.5, 0.5])
    direct = means((f + g) / 2)
    np.testing.assert_allclose(same.contributions, direct.contributions, atol=1e-14)
    assert same.degrees.tolist() == [9.0] and set(same.stratum) == {0}


def test_null_draws_are_those_of_all_attacks_with_the_same_identities() -> None:
    several = lists(3, seed=5)
    got = null_draws(several, generator=lambda _: np.random.default_rng(6), replicates=20)
    random = np.random.default_rng(6)
    for row in got:
        identity = random.permutation(7)
        for value, one in zip(row, several):
            held = identity[one.enrolled] == one.spoken
            want = trial_metrics(one.scores[held], one.scores[~held]).d_ece
            assert value == pytest.approx(want, abs=1e-12)
    band = null_of_maximum(0.3, got)
    assert band.high == pytest.approx(np.quantile(got.max(axis=1), 0.975)) and band.replicates == 20
    assert null_of_maximum(0.3, null_draws(lists(2, speakers=4), generator=lambda _: random)).low is None


def test_attacks_on_other_trials_are_refused() -> None:
    one, other = lists(1)[0], lists(1, speakers=6)[0]
    with pytest.raises(MetricError, match="same trials"):
        null_draws([one, other], generator=lambda _: np.random.default_rng(0))
    with pytest.raises(MetricError, match="same speakers"):
        difference(measured([one]), measured([other]), generator=np.random.default_rng(0))


def test_what_cannot_be_said_has_its_reason() -> None:
    flat = collect_attacks([0.5], np.full((1, 8), 0.5), [str(k) for k in range(8)], degrees=7, bounds=WIDE)
    assert maximum_interval(flat)[0].reason == "the value is the same without any one speaker"
    undefined = collect_attacks([0.5], [[0.5, np.nan, 0.4]], list("abc"), degrees=2, bounds=WIDE)
    assert "not finite" in maximum_interval(undefined)[0].reason
    few = means(np.random.default_rng(0).normal(size=(1, 5)))
    found = difference(few, few, generator=np.random.default_rng(0))
    assert found.p_value is None and found.reason == "5 speakers are too few to tell a difference from chance"
    lonely = means(np.random.default_rng(0).normal(size=(1, 2))).only([0])
    assert maximum_interval(lonely)[0].low is not None
    with pytest.raises(MetricError, match="two speakers"):
        spread_of_sums(np.ones((1, 1)), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("n_a, n_b", [(1, 1), (2, 3)])
def test_the_p_value_counts_all_swaps_of_few_speakers(n_a: int, n_b: int) -> None:
    random = np.random.default_rng(10 * n_a + n_b)
    a, b = means(random.normal(size=(n_a, 7))), means(random.normal(size=(n_b, 7)) + 0.6)
    found = difference(a, b, generator=random)
    assert found.exact and found.swaps == 64

    def statistic(parts: np.ndarray, signs: np.ndarray) -> float:
        return max(float((signs * part).sum()) / math.sqrt(float((part**2).sum())) for part in parts)

    def one_sided(first: np.ndarray, second: np.ndarray) -> float:
        shares = []
        for against in second:
            parts = first - against
            seen = statistic(parts, np.ones(7))
            drawn = [statistic(parts, np.array(signs)) for signs in itertools.product((-1.0, 1.0), repeat=7)]
            shares.append(np.mean([value >= seen - 1e-12 for value in drawn]))
        return float(max(shares))

    want = 2 * min(one_sided(b.contributions, a.contributions), one_sided(a.contributions, b.contributions))
    assert found.p_value == pytest.approx(min(1.0, want), abs=1e-12)
    if n_a == n_b == 1:
        parts = b.contributions[0] - a.contributions[0]
        sums = [abs(float(np.dot(signs, parts))) for signs in itertools.product((-1, 1), repeat=7)]
        assert found.p_value == pytest.approx(np.mean([one >= abs(parts.sum()) - 1e-12 for one in sums]))


@pytest.mark.parametrize("metric", ["d_ece", "eer.rocch"])
def test_what_is_swapped_adds_up_to_the_values_as_they_stand(metric: str) -> None:
    a, b = (measured(lists(1, seed=seed), metric) for seed in (1, 2))
    n = len(a.speakers)
    parts = b.contributions[0] - a.contributions[0]
    parts = parts - parts.mean() + (b.values[0] - a.values[0]) / n
    assert parts.sum() == pytest.approx(b.values[0] - a.values[0]) != pytest.approx((b.corrected - a.corrected)[0])
    sums = [abs(float(np.dot(signs, parts))) for signs in itertools.product((-1, 1), repeat=n)]
    found = difference(a, b, generator=np.random.default_rng(0))
    assert found.p_value == pytest.approx(np.mean([one >= abs(parts.sum()) - 1e-12 for one in sums]))


def test_the_two_directions_mirror_each_other() -> None:
    a, b = measured(lists(2, seed=1)), measured(lists(3, seed=2))
    one, other = (difference(*pair, generator=np.random.default_rng(0)) for pair in ((a, b), (b, a)))
    assert one.difference == -other.difference and one.p_value == other.p_value
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))  # type: ignore[operator]


def test_many_speakers_are_drawn_and_few_enumerated() -> None:
    signs, exact = draw_swaps(40, generator=np.random.default_rng(0), draws=50)
    assert not exact and signs.shape == (50, 40) and set(np.unique(signs)) == {-1.0, 1.0}
    signs, exact = draw_swaps(4, generator=np.random.default_rng(0))
    assert exact and len({tuple(row) for row in signs}) == 8


def test_a_system_is_not_different_from_itself() -> None:
    a = measured(lists(3))
    found = difference(a, a, generator=np.random.default_rng(0))
    assert found.difference == 0 and found.p_value == 1.0
    assert found.interval.low is not None and found.interval.low <= 0 <= (found.interval.high or 0)


def test_holm_by_hand_and_absent_values() -> None:
    np.testing.assert_allclose(holm([0.01, np.nan, 0.02, 0.9]), [0.03, np.nan, 0.04, 0.9])
    assert holm([0.5, 0.6]).tolist() == [1.0, 1.0] and holm([]).size == 0


def test_ranks_are_shared_where_nothing_separates() -> None:
    assert shared_ranks(4, []) == [1, 1, 1, 1]
    assert shared_ranks(4, [(0, 2), (0, 3), (1, 3), (0, 3)]) == [1, 1, 2, 3]


# --- simulated sets of which the truth is known --------------------------------------------------------------------

SPEAKERS, EACH = 20, 10
ROW = COLUMN = PAIR = 0.4
"""Effects of the enrolled speaker, of the speaker who spoke, and of both together, beside noise of 1 a trial."""
WHOLE = math.sqrt(ROW**2 + COLUMN**2 + PAIR**2 + 1)


def simulated(
    random: np.random.Generator, shifts: list[float], shared: float, speakers: int = SPEAKERS, metric: str = "d_ece"
) -> Attacks:
    """Attacks whose targets score higher by ``shifts``, and which have a part of everything else in common."""
    n, each = speakers, EACH
    enrolled, spoken = np.repeat(np.arange(n), n * each), np.tile(np.repeat(np.arange(n), each), n)

    def effects() -> np.ndarray:
        of = random.normal
        both = ROW * of(size=(n, 1, 1)) + COLUMN * of(size=(1, n, 1)) + PAIR * of(size=(n, n, 1))
        found: np.ndarray = (both + of(size=(n, n, each))).ravel()
        return found

    common = effects()
    return measured(
        [
            Trials(math.sqrt(shared) * common + math.sqrt(1 - shared) * effects() + shift * (enrolled == spoken), enrolled, spoken)
            for shift in shifts
        ],
        metric,
    )  # fmt: skip


def truth(shift: float) -> float:
    """D_ECE of two normal distributions so far apart: their LLR is linear in the score."""
    far = shift / WHOLE
    x = ndtri((np.arange(200_000) + 0.5) / 200_000)
    return d_ece(far * (x + far) - far**2 / 2, far * x - far**2 / 2)


STRENGTHS = {
    "six equal ones": ([1.5] * 6, 0.5),
    "six equal ones that have nothing in common": ([1.5] * 6, 0.0),
    "one strong one": ([2.2, 1.0, 1.0, 1.0, 1.0, 1.0], 0.5),
    "six of different strength": ([1.6, 1.5, 1.4, 1.2, 1.0, 0.5], 0.7),
}


def covered(name: str, runs: int) -> float:
    shifts, shared = STRENGTHS[name]
    want, hit = truth(max(shifts)), 0
    for seed in range(runs):
        found = maximum_interval(simulated(np.random.default_rng(seed), shifts, shared))[0]
        assert found.low is not None and found.high is not None
        hit += found.low <= want <= found.high
    return hit / runs


def called_different(shifts_a: list[float], shifts_b: list[float], runs: int) -> tuple[float, float]:
    """Share of runs with p <= 0.05 under each one's strongest attack, and under the first attack on both."""
    strong = same = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        a, b = simulated(random, shifts_a, 0.5, 16), simulated(random, shifts_b, 0.5, 16)
        strong += (difference(a, b, generator=random).p_value or 0) <= 0.05
        same += (difference(a.only([0]), b.only([0]), generator=random).p_value or 0) <= 0.05
    return strong / runs, same / runs


def test_the_truth_of_the_simulation_is_that_of_many_scores() -> None:
    random = np.random.default_rng(0)
    scores = WHOLE * random.normal(size=(2, 100_000))
    assert trial_metrics(scores[0] + 1.5, scores[1]).d_ece == pytest.approx(truth(1.5), abs=0.004)
    assert truth(0.0) == 0 and truth(40.0) == pytest.approx(D_ECE_MAX, abs=1e-6)


def test_a_few_simulated_intervals_and_tests() -> None:
    """A small share of the simulations below, against faults of the coarse kind."""
    assert covered("six of different strength", 12) >= 0.75
    strong, same = called_different([1.5, 1.2], [1.5, 1.2], 12)
    assert max(strong, same) <= 0.25
    far = difference(*(simulated(np.random.default_rng(k), [shift] * 2, 0.5) for k, shift in ((0, 1.0), (1, 2.5))),
                     generator=np.random.default_rng(0))  # fmt: skip
    assert far.p_value is not None and far.p_value < 0.01, "and truly different ones are told apart"


@pytest.mark.slow
@pytest.mark.parametrize("name", STRENGTHS)
def test_the_interval_of_the_maximum_covers_the_strongest_attack(name: str) -> None:
    assert 0.88 <= covered(name, 400) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize(
    "shifts_a, shifts_b",
    [
        ([1.5] * 6, [1.5] * 6),
        ([2.2] + [1.0] * 5, [2.2] + [1.0] * 5),
        ([2.2] + [1.0] * 5, [2.2] * 6),
        ([1.6, 1.5, 1.4, 1.2, 1.0, 0.5], [1.6, 1.5, 1.4, 1.2, 1.0, 0.5]),
        ([0.0] * 6, [0.0] * 6),
        ([3.0] * 6, [3.0] * 6),
    ],
    ids=["equal", "one strong", "one strong against six", "mixed", "chance", "hardly any error"],
)
def test_equally_good_systems_are_seldom_called_different(shifts_a: list[float], shifts_b: list[float]) -> None:
    strong, same = called_different(shifts_a, shifts_b, 500)
    assert strong <= 0.06, "each under its strongest attack"
    assert same <= 0.06, "under the same attack"


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["d_ece", "eer.rocch"])
@pytest.mark.parametrize("shift", [1.5, 3.0])
def test_equally_good_systems_are_seldom_called_different_under_one_attack(metric: str, shift: float) -> None:
    """The EER too; where a system makes hardly any errors as well."""
    called = 0
    for seed in range(500):
        random = np.random.default_rng([seed, 1])
        a, b = (simulated(random, [shift], 0.5, 16, metric) for _ in "ab")
        called += (difference(a, b, generator=random).p_value or 0) <= 0.05
    assert called / 500 <= 0.06


def test_the_best_choice_on_each_set_is_among_the_choices_however_many_attacks_there_are() -> None:
    random = np.random.default_rng(2)
    for sizes, most in (((3, 4), 256), ((40, 30), 36), ((9, 8, 7, 6), 20), ((50,), 4), ((2, 90, 1), 8)):
        parts = [
            collect_attacks(random.random(size), np.zeros((size, 3)), list("abc"), degrees=2, bounds=(0, 1))
            for size in sizes
        ]
        found = attack_choices(parts, most)
        assert len(found) == math.prod(sizes) if len(sizes) == 1 or math.prod(sizes) <= most else len(found) <= most
        assert len({tuple(one) for one in found.tolist()}) == len(found)
        means = sum(part.values[found[:, k]] for k, part in enumerate(parts))
        assert means.max() == pytest.approx(sum(part.values.max() for part in parts), abs=1e-15)
