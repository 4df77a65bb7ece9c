"""Limits of detection: the mixture against a mixture made by hand, and the limit against draws that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.metrics import (
    MetricError,
    PhantomTrials,
    Trials,
    align_scores,
    best_limit,
    d_ece_oracle,
    detection_limit,
    leak_curve,
    null_bands,
    trials_by_identity,
)


def design(
    random: np.random.Generator, speakers: int, each: int, step: float, spread: float
) -> tuple[PhantomTrials, Trials]:
    """Everybody enrolled against ``each`` utterances of everybody: noise of trials, models and utterances, and on original speech
    ``step`` more for targets."""
    enrolled = np.repeat(np.arange(speakers), speakers * each)
    unit = np.tile(np.arange(speakers * each), speakers)
    spoken = np.tile(np.repeat(np.arange(speakers), each), speakers)

    def noise() -> np.ndarray:
        sides = random.normal(size=speakers)[enrolled] + random.normal(size=speakers * each)[unit]
        return random.normal(size=enrolled.size) + spread * sides

    protected, original = noise(), noise() + step * (enrolled == spoken)
    return PhantomTrials(protected, original, enrolled == spoken, unit), Trials(protected, enrolled, spoken)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def test_a_mixture_is_that_of_a_loop_over_trials(random: np.random.Generator) -> None:
    phantoms, _ = design(random, 6, 4, 3.0, 0.5)
    leaks = random.random(24) < 0.4
    scores = [
        original if leaks[unit] else protected
        for protected, original, unit in zip(phantoms.protected, phantoms.unprotected, phantoms.unit)
    ]
    target = [score for score, is_target in zip(scores, phantoms.is_target) if is_target]
    others = [score for score, is_target in zip(scores, phantoms.is_target) if not is_target]
    assert phantoms.d_ece(leaks) == pytest.approx(d_ece_oracle(target, others), abs=1e-12)


def test_nobody_and_everybody_are_the_two_systems(random: np.random.Generator) -> None:
    phantoms, _ = design(random, 6, 4, 3.0, 0.5)
    for leaks, scores in ((False, phantoms.protected), (True, phantoms.unprotected)):
        alone = d_ece_oracle(scores[phantoms.is_target], scores[~phantoms.is_target])
        assert phantoms.d_ece(np.full(24, leaks)) == pytest.approx(alone, abs=1e-12)


def test_equal_scores_of_both_kinds_are_one_block() -> None:
    target = np.array([True, False, True, False])
    phantoms = PhantomTrials(np.zeros(4), np.array([1.0, 0.0, 1.0, 0.0]), target, np.array([0, 0, 1, 1]))
    # One of two targets stands out: of the others one is a target and two are not.
    assert phantoms.d_ece(np.array([True, False])) == pytest.approx(d_ece_oracle([1.0, 0.0], [0.0, 0.0]), abs=1e-12)


def test_the_limit_is_where_fresh_draws_are_seen(random: np.random.Generator) -> None:
    phantoms, _ = design(random, 10, 8, 5.0, 0.3)
    limit = detection_limit([phantoms], 0.12, generator=np.random.default_rng(1))
    assert limit.share is not None

    def power(share: float) -> float:
        return float(np.mean([phantoms.d_ece(random.random(80) < share) > 0.12 for _ in range(3000)]))

    assert power(limit.share) == pytest.approx(0.95, abs=0.02)
    assert power(0.8 * limit.share) < 0.95 < power(1.2 * limit.share)
    assert limit.rise == pytest.approx(limit.d_ece - phantoms.d_ece(np.zeros(80, bool)))


def test_a_leak_that_is_there_already_and_one_that_nobody_could_see(random: np.random.Generator) -> None:
    phantoms, _ = design(random, 6, 4, 3.0, 0.5)
    begin = phantoms.d_ece(np.zeros(24, bool))
    there = detection_limit([phantoms], begin - 0.01, generator=random)
    assert (there.share, there.rise, there.reason) == (0.0, 0.0, "")
    unseen = detection_limit([phantoms], 0.7213, generator=random)
    assert unseen.share is None and "original speech" in unseen.reason


def test_speakers_leak_as_wholes_and_sets_are_weighed(random: np.random.Generator) -> None:
    first, second = (design(random, 10, 8, 5.0, 0.3)[0] for _ in range(2))
    by_speaker = [
        PhantomTrials(part.protected, part.unprotected, part.is_target, part.unit // 8) for part in (first, second)
    ]
    apart = detection_limit(by_speaker[:1], 0.12, generator=np.random.default_rng(2), draws=400)
    by_utterance = detection_limit([first], 0.12, generator=np.random.default_rng(2), draws=400)
    assert (apart.units, by_utterance.units) == (10, 80)
    # What varies from draw to draw varies more where ten units decide: it takes a larger share to be sure.
    assert apart.share > by_utterance.share
    curve = leak_curve([first, second], 0.12, generator=random, weights=[0.25, 0.75], shares=(0.0, 1.0))
    for place, leaks in enumerate((np.zeros(80, bool), np.ones(80, bool))):
        assert curve.d_ece[place] == pytest.approx(0.25 * first.d_ece(leaks) + 0.75 * second.d_ece(leaks), abs=1e-12)
    assert curve.power.tolist() == [0.0, 1.0]


def test_equal_draws_give_equal_limits(random: np.random.Generator) -> None:
    phantoms, _ = design(random, 6, 4, 5.0, 0.3)
    limits = [detection_limit([phantoms], 0.3, generator=np.random.default_rng(3), draws=300) for _ in range(2)]
    assert limits[0] == limits[1]


def test_more_speakers_and_utterances_see_less_at_best() -> None:
    def best(speakers: int, each: int) -> float:
        enrolled = np.repeat(np.arange(speakers), speakers * each)
        spoken, unit = (
            np.tile(np.repeat(np.arange(speakers), each), speakers),
            np.tile(np.arange(speakers * each), speakers),
        )
        limit = best_limit(enrolled, spoken, unit, generator=np.random.default_rng(4), repeats=3, draws=200)
        assert limit.share is not None and limit.units == speakers * each
        return limit.share

    few, more_speech, more_speakers = best(6, 5), best(6, 20), best(16, 5)
    assert few > more_speech and few > more_speakers


def test_two_speakers_can_show_nothing() -> None:
    enrolled, spoken = np.repeat([0, 1], 6), np.tile(np.repeat([0, 1], 3), 2)
    limit = best_limit(enrolled, spoken, np.tile(np.arange(6), 2), generator=np.random.default_rng(4))
    assert limit.share is None and "too few" in limit.reason


def test_scores_are_aligned_by_their_non_targets(random: np.random.Generator) -> None:
    target = random.random(200) < 0.2
    own, other = 40 * random.normal(size=200) + 7, random.normal(size=200)
    aligned = align_scores(own, target, other)
    assert aligned[~target].mean() == pytest.approx(other[~target].mean())
    assert aligned[~target].std() == pytest.approx(other[~target].std())
    assert (np.argsort(aligned) == np.argsort(own)).all()
    assert align_scores(other, target, other) == pytest.approx(other)


@pytest.mark.parametrize(
    "build",
    [
        lambda: PhantomTrials(np.zeros(3), np.zeros(2), np.array([True, False, False]), np.arange(3)),
        lambda: PhantomTrials(np.zeros(3), np.zeros(3), np.ones(3, bool), np.arange(3)),
        lambda: PhantomTrials(np.zeros(3), np.full(3, np.nan), np.array([True, False, False]), np.arange(3)),
        lambda: align_scores(np.zeros(3), np.array([True, False, False]), np.arange(3.0)),
        lambda: detection_limit([], 0.1, generator=np.random.default_rng(0)),
    ],
    ids=["lengths", "one class", "NaN", "no scale", "no trials"],
)
def test_what_cannot_be_mixed_is_refused(build) -> None:
    with pytest.raises(MetricError):
        build()


@pytest.mark.slow
def test_over_twenty_designs_the_stated_limit_is_seen_in_95_percent_of_fresh_draws() -> None:
    random = np.random.default_rng(2026)
    powers = []
    while len(powers) < 20:
        speakers, each = int(random.choice([8, 15, 20, 30])), int(random.choice([5, 10, 20]))
        phantoms, trials = design(
            random, speakers, each, float(random.choice([2, 4, 6])), float(random.choice([0, 0.5, 1]))
        )
        band = null_bands(trials_by_identity(trials, ("d_ece",)), generator=random, replicates=400)["d_ece"]
        limit = detection_limit([phantoms], band.high, generator=random)
        if limit.share:
            draws = (phantoms.d_ece(random.random(speakers * each) < limit.share) > band.high for _ in range(4000))
            powers.append(float(np.mean(list(draws))))
    assert max(abs(power - 0.95) for power in powers) <= 0.02, powers
