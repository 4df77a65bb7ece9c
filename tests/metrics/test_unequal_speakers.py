"""Speakers with unequal numbers of utterances: the test of two systems, its interval, and the corrected maximum, on simulated sets of
which the truth is known. The tables of pipeline/metrics/README.md, section 3, come from here (``python -m tests.metrics.test_unequal_speakers``)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from scipy.special import ndtri

from pipeline.metrics import (
    Attacks,
    Trials,
    average_attacks,
    collect_attacks,
    difference,
    leave_each_out,
    trial_metrics,
)
from pipeline.metrics.maximum import corrected_maximum, maximum_interval
from pipeline.metrics.trial_uncertainty import metric_bounds

WIDE = (-math.inf, math.inf)
LAYOUTS = ("equal", "3-60", "half")


def utterances(speakers: int, layout: str, equal: int = 12) -> np.ndarray:
    """Utterances a speaker: equal numbers, from 3 to 60 in equal ratios, or one speaker with half of all."""
    if layout == "equal":
        return np.full(speakers, equal)
    if layout == "3-60":
        return np.round(np.exp(np.linspace(np.log(3), np.log(60), speakers))).astype(int)
    return np.r_[4 * (speakers - 1), np.full(speakers - 1, 4)]


def weighted_means(x: np.ndarray, n: np.ndarray, prefix: str = "") -> Attacks:
    """Attacks [A, S] whose values are means over utterances, of which speakers have n [S]."""
    total, sums = n.sum(), (x * n).sum(axis=1, keepdims=True)
    names = [f"{prefix}{k:03d}" for k in range(n.size)]
    without = (sums - x * n) / (total - n)
    return collect_attacks(sums[:, 0] / total, without, names, degrees=n.size - 1, bounds=WIDE, weights=n)


def flipped(parts: np.ndarray) -> float:
    """Two-sided p-value of all sign flips."""
    sums = [abs(float(np.dot(signs, parts))) for signs in itertools.product((-1, 1), repeat=parts.size)]
    return float(np.mean([one >= abs(parts.sum()) - 1e-12 for one in sums]))


# --- by brute force ----------------------------------------------------------------------------------------------------


def test_speakers_count_as_much_as_they_have_utterances() -> None:
    random, n = np.random.default_rng(1), utterances(8, "half")
    a, b = random.normal(size=(1, 8)), random.normal(size=(1, 8)) + 0.8
    step = (b - a)[0]
    found = difference(weighted_means(a, n), weighted_means(b, n), generator=random)
    assert found.exact and found.difference == pytest.approx((n * step).sum() / n.sum())
    assert found.p_value == pytest.approx(flipped(n * step / n.sum()), abs=1e-12)
    # Hartigan 1969: the limits are order statistics of the means over all groups of speakers; of 2^8, the sixth from either end.
    groups = [np.array(kept, dtype=bool) for kept in itertools.product((0, 1), repeat=8) if any(kept)]
    means = sorted(float((n * step)[kept].sum() / n[kept].sum()) for kept in groups)
    assert (found.interval.low, found.interval.high) == pytest.approx((means[5], means[-6]), abs=1e-3)


def test_of_a_mean_over_sets_a_speaker_counts_in_each_as_he_does_there() -> None:
    random, n = np.random.default_rng(2), (utterances(7, "3-60"), utterances(7, "half"))
    steps = [random.normal(size=7), random.normal(size=7)]
    zero = np.zeros((1, 7))
    for prefixes in (("", ""), ("f", "m")):
        a, b = (
            average_attacks(
                [weighted_means(x[None] + zero, each, p) for x, each, p in zip(values, n, prefixes)], [0.3, 0.7]
            )
            for values in ([zero[0], zero[0]], steps)
        )
        parts = [0.3 * n[0] * steps[0] / n[0].sum(), 0.7 * n[1] * steps[1] / n[1].sum()]
        want = flipped(parts[0] + parts[1] if prefixes[0] == prefixes[1] else np.concatenate(parts))
        found = difference(a, b, generator=random, draws=2**14)
        assert found.exact and found.p_value == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("n_a, n_b", [(1, 1), (1, 4), (3, 2)])
def test_zero_lies_outside_the_interval_exactly_where_the_p_value_says_so(n_a: int, n_b: int) -> None:
    n, outside = utterances(9, "3-60"), set()
    for seed in range(30):
        random = np.random.default_rng([seed, n_a])
        a, b = (weighted_means(random.normal(size=(k, 9)) + shift, n) for k, shift in ((n_a, 0.0), (n_b, 1.2)))
        for two in ((a, b), (b, a)):
            found = difference(*two, generator=random)
            assert found.interval.low is not None and found.interval.high is not None and found.p_value is not None
            assert (found.interval.low > 0 or found.interval.high < 0) == (found.p_value <= 0.05)
            outside.add(found.p_value <= 0.05)
    assert outside == {True, False}


def test_the_same_difference_of_everybody_has_no_interval() -> None:
    n, x = utterances(8, "3-60"), np.random.default_rng(3).normal(size=(1, 8))
    found = difference(weighted_means(x, n), weighted_means(x + 0.5, n), generator=np.random.default_rng(0))
    assert found.interval.reason == "the difference is the same without any one speaker"
    assert found.p_value == pytest.approx(2 / 2**8)


def test_shares_of_trials_are_their_weights() -> None:
    """Of a complete list a speaker has his part of the targets; of the non-targets as he speaks, and as everybody tries him."""
    n = utterances(5, "3-60")
    spoken = np.repeat(np.arange(5), n)
    trials = Trials(
        np.random.default_rng(0).normal(size=5 * n.sum()), np.repeat(np.arange(5), n.sum()), np.tile(spoken, 5)
    )
    part = n / n.sum()
    found = leave_each_out(trials)
    np.testing.assert_allclose(found.weights, (2 * part + part + (1 - part) / 4) / 4, atol=1e-14)
    assert found.weights.sum() == pytest.approx(1)


# --- the corrected maximum ---------------------------------------------------------------------------------------------


def test_of_one_attack_it_is_the_jackknife_of_unequal_groups() -> None:
    """Busing, Meijer and van der Leeden 1999, equation for θ_J: g θ less the sum of (1 - m/n) θ(-j)."""
    n = utterances(6, "3-60")
    values = np.random.default_rng(4).normal(size=7)
    found = collect_attacks(values[:1], [values[1:]], list("abcdef"), degrees=5, bounds=WIDE, weights=n)
    want = 6 * values[0] - ((1 - n / n.sum()) * values[1:]).sum()
    low, high = (getattr(maximum_interval(found)[0], end) for end in ("low", "high"))
    assert corrected_maximum(found) == pytest.approx(np.clip(want, low, high), abs=1e-12)


def test_of_attacks_that_are_one_nothing_was_chosen_and_of_independent_ones_the_excess_is_taken_off() -> None:
    x = np.random.default_rng(5).normal(size=(1, 12))
    n = np.full(12, 5)
    same = corrected_maximum(weighted_means(np.repeat(x, 5, axis=0), n))
    assert same == pytest.approx(x.mean(), abs=0.02)
    # Two of equal value and independent errors: the median of the larger of two normals is ndtri of the root of a half.
    two = np.array([[1.0, -1.0] * 6, [1.0, 1.0, -1.0, -1.0] * 3]) + 7
    error = two[0].std(ddof=1) / math.sqrt(12)
    assert corrected_maximum(weighted_means(two, n)) == pytest.approx(7 - ndtri(math.sqrt(0.5)) * error, abs=0.02)


def test_what_no_speaker_changes_is_its_own_corrected_value() -> None:
    flat = collect_attacks([0.72], np.full((1, 8), 0.72), [str(k) for k in range(8)], degrees=7, bounds=(0, 0.7213))
    assert corrected_maximum(flat) == pytest.approx(0.72)
    nobody = collect_attacks([0.5], np.empty((1, 0)), [], degrees=0, bounds=WIDE)
    assert corrected_maximum(nobody) is None


# --- simulated sets ----------------------------------------------------------------------------------------------------

EFFECT, UNLIKE = 0.4, 0.3
"""Effects of the enrolled speaker, of the speaker who spoke and of both together, beside noise of 1 a trial; how much speakers differ in
how well they are recognised."""
WHOLE = math.sqrt(3 * EFFECT**2 + 1)
SHIFT = 1.5
SHAPES = {"equally strong": (1.0,) * 10, "unequal": (1, 0.93, 0.95, 0.9, 0.8, 0.7, 0.97, 0.6, 0.85, 0.5)}


def truth(shift: float) -> float:
    """D_ECE of the two distributions of scores, from 200,000 quantiles of each."""
    x = ndtri((np.arange(200_000) + 0.5) / 200_000)
    return trial_metrics(shift + math.hypot(WHOLE, UNLIKE * shift) * x, WHOLE * x).d_ece


def simulated(random: np.random.Generator, n: np.ndarray, shifts: Sequence[float]) -> Attacks:
    """D_ECE of attacks on a complete list of speakers with n utterances each, half of whose variance is in common."""
    speakers, spoken = n.size, np.repeat(np.arange(n.size), n)
    enrolled, tried = np.repeat(np.arange(speakers), spoken.size), np.tile(spoken, speakers)

    def effects() -> np.ndarray:
        of = random.normal
        pair = of(size=(speakers, 1)) + of(size=speakers)[spoken] + of(size=(speakers, speakers))[:, spoken]
        found: np.ndarray = (EFFECT * pair + of(size=(speakers, spoken.size))).ravel()
        return found

    half, common, known = math.sqrt(0.5), effects(), random.normal(size=speakers)
    measured = []
    for shift in shifts:
        own = 1 + UNLIKE * half * (known + random.normal(size=speakers))
        scores = half * (common + effects()) + shift * own[enrolled] * (enrolled == tried)
        measured.append(leave_each_out(Trials(scores, enrolled, tried), ("d_ece",)))
    return collect_attacks(
        [one.value["d_ece"] for one in measured],
        [one.without["d_ece"] for one in measured],
        [f"{k:03d}" for k in range(speakers)],
        degrees=speakers - 1,
        bounds=metric_bounds("d_ece"),
        weights=measured[0].weights,
    )


def optimism(speakers: int, layout: str, shape: str, runs: int) -> Iterator[tuple[int, float, float, float]]:
    """(Attacks, bias of the raw maximum, of the corrected one, both as fractions of the truth, coverage of the interval)."""
    n, found = utterances(speakers, layout), [
        simulated(np.random.default_rng([seed, speakers]), utterances(speakers, layout), SHIFT * np.array(SHAPES[shape]))
        for seed in range(runs)
    ]  # fmt: skip
    assert n.size == speakers
    want = truth(SHIFT)
    for tried in (1, 3, 6, 10):
        several = [one.only(range(tried)) for one in found]
        raw = np.mean([one.values.max() for one in several])
        corrected = np.mean([corrected_maximum(one) or 0.0 for one in several])
        ends = [maximum_interval(one)[0] for one in several]
        covered = np.mean([(one.low or 0.0) <= want <= (one.high or 0.0) for one in ends])
        yield tried, float(raw / want - 1), float(corrected / want - 1), float(covered)


def different(speakers: int, layout: str, tried: int, runs: int) -> tuple[float, float]:
    """Of equally good systems: the share that is called different at 5 %, and of intervals that exclude 0. Means over utterances."""
    n, called, off = utterances(speakers, layout), 0, 0
    for seed in range(runs):
        random = np.random.default_rng([seed, speakers, tried, 9])
        a, b = (
            weighted_means(
                math.sqrt(0.5) * (random.normal(size=(1, speakers)) + random.normal(size=(tried, speakers))), n
            )
            for _ in "ab"
        )
        found = difference(a, b, generator=random, draws=1999 if tried == 1 else 499)
        assert found.p_value is not None and found.interval.low is not None and found.interval.high is not None
        called += found.p_value <= 0.05
        off += not found.interval.low <= 0 <= found.interval.high
    return called / runs, off / runs


def measured_different(speakers: int, layout: str, tried: int, runs: int) -> float:
    """The same of D_ECE, measured on trials."""
    n = utterances(speakers, layout, 6) if layout != "3-60" else np.maximum(utterances(speakers, layout) // 2, 2)
    called = 0
    for seed in range(runs):
        random = np.random.default_rng([seed, speakers, tried, 8])
        a, b = (simulated(random, n, [SHIFT] * tried) for _ in "ab")
        called += (difference(a, b, generator=random, draws=999).p_value or 0.0) <= 0.05
    return called / runs


def test_a_few_simulated_sets_of_unequal_speakers() -> None:
    """A small share of the simulations below, against faults of the coarse kind."""
    assert max(different(8, "half", 1, 60)) <= 0.12
    rows = list(optimism(8, "3-60", "equally strong", 6))
    assert all(corrected < raw for _, raw, corrected, _ in rows)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("speakers", [8, 10, 16, 40])
def test_equally_good_systems_are_seldom_called_different_however_unequal_the_speakers(
    speakers: int, layout: str
) -> None:
    for tried in (1, 2, 6):
        called, off = different(speakers, layout, tried, 500)
        assert called <= 0.06 and off <= 0.06, f"{tried} attacks"


@pytest.mark.slow
@pytest.mark.parametrize("tried", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("speakers", [8, 16])
def test_the_same_of_d_ece_on_trials(speakers: int, layout: str, tried: int) -> None:
    assert measured_different(speakers, layout, tried, 300) <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("speakers, runs", [(8, 120), (15, 100), (40, 40)])
def test_the_corrected_maximum_is_near_the_truth_and_never_far_below(
    speakers: int, layout: str, shape: str, runs: int
) -> None:
    for tried, raw, corrected, covered in optimism(speakers, layout, shape, runs):
        assert corrected >= -0.10, f"{tried} attacks: more reassuring than the truth"
        assert corrected <= {"equal": 0.25, "3-60": 0.35, "half": 0.45}[layout] and corrected < raw, f"{tried} attacks"
        assert covered >= {"equal": 0.88, "3-60": 0.84, "half": 0.75}[layout], f"{tried} attacks"


if __name__ == "__main__":
    for size, repeats in ((8, 150), (15, 100), (40, 30)):
        for how, strength in itertools.product(LAYOUTS, SHAPES):
            for row in optimism(size, how, strength, repeats):
                print(size, how, strength, *(f"{number:.2f}" for number in row), flush=True)
