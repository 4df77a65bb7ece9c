"""Treatment of enrolment and trials: scipy's t tests, systems like T10-2, false alarms under B2 and B2r."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipeline import audio
from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
from pipeline.contracts import Utterance
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.errors import ModelMissing
from pipeline.extractors import ge2e
from pipeline.metrics import MetricError, Undefined
from pipeline.metrics.treatment import ABSOLUTE, FEWEST_PAIRED, RELATIVE, UNCHANGED, Treatment, treatment

B2 = {"level": "fixed", "alpha": 0.8}
B2R = {"level": "speaker", "alpha_range": [0.7, 0.9]}


def at(similarity):
    """Unit vectors [n, 2] that have these cosine similarities to (1, 0)."""
    cosine = np.asarray(similarity, dtype=float)
    return np.stack([cosine, np.sqrt(1 - cosine**2)], axis=1)


def found(enrolment, trial, enrolled=None, tried=None):
    """The treatment of utterances with these similarities, one a speaker unless speakers are given."""
    enrolled = [f"s{k}" for k in range(len(enrolment))] if enrolled is None else list(enrolled)
    tried = [f"s{k}" for k in range(len(trial))] if tried is None else list(tried)
    one = np.array([1.0, 0.0])
    return treatment(
        np.tile(one, (len(enrolment), 1)), at(enrolment), np.tile(one, (len(trial), 1)), at(trial), enrolled, tried
    )


def spread(mean, count, width=1e-3):
    """Values with exactly this mean, and a little spread that the paired test can work with."""
    return mean + width * np.linspace(-1, 1, count)


def test_each_speaker_weighs_the_same_and_pairs_are_tested_as_by_scipy():
    random = np.random.default_rng(0)
    enrolled, tried = np.repeat(list("abcdef"), [1, 2, 3, 4, 5, 6]), np.repeat(list("abcdef"), [6, 5, 4, 3, 2, 1])
    first, second = random.uniform(0.5, 0.9, 21), random.uniform(0.4, 0.8, 21)
    by_hand = [[v[s == name].mean() for name in "abcdef"] for v, s in ((first, enrolled), (second, tried))]
    made = found(first, second, enrolled, tried)
    assert made.paired
    assert (made.enrolment, made.trial) == pytest.approx((np.mean(by_hand[0]), np.mean(by_hand[1])), abs=1e-12)
    assert made.difference == pytest.approx(np.mean(by_hand[0]) - np.mean(by_hand[1]), abs=1e-12)
    assert made.relative == pytest.approx(made.difference / (1 - np.mean(by_hand[1])), abs=1e-12)
    assert made.p_value == pytest.approx(stats.ttest_rel(*by_hand).pvalue, rel=1e-9)


def test_different_speakers_are_two_groups_as_by_scipy():
    random = np.random.default_rng(1)
    first, second = random.uniform(0.6, 0.9, 7), random.uniform(0.3, 0.8, 12)
    made = found(first, second, [f"a{k}" for k in range(7)], [f"b{k}" for k in range(12)])
    assert not made.paired
    assert (made.enrolment_speakers, made.trial_speakers) == (7, 12)
    assert made.p_value == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue, rel=1e-9)


def test_speakers_of_one_set_alone_are_left_out_of_pairs():
    """As in the challenge's lists: all enrolled speakers stand in the trials, and others too."""
    made = found([0.7, 0.6, 0.8], [0.7, 0.6, 0.8, 0.1, 0.1], tried=["s0", "s1", "s2", "x", "y"])
    assert made.paired and made.difference == 0 and made.trial_speakers == 3
    few = found([0.7, 0.6], [0.7, 0.6, 0.1], tried=["s0", "s1", "x"])
    assert not few.paired and few.trial_speakers == FEWEST_PAIRED
    minority = found([0.7] * 8, [0.6] * 8, tried=[f"s{k}" if k < 3 else f"x{k}" for k in range(8)])
    assert not minority.paired and minority.trial_speakers == 8


def test_swapping_the_sets_turns_the_sign():
    random = np.random.default_rng(2)
    first, second = random.uniform(0.7, 0.9, 9), random.uniform(0.3, 0.5, 9)
    one, other = found(first, second), found(second, first)
    assert one.differs and other.differs
    assert (one.difference, one.relative) == pytest.approx((-other.difference, -other.relative), abs=1e-12)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)


def test_the_length_of_vectors_does_not_matter():
    random = np.random.default_rng(3)
    vectors = [random.standard_normal((10, 5)) for _ in range(4)]
    names = [str(k // 2) for k in range(10)]
    one = treatment(*vectors, names, names)
    other = treatment(*(v * random.uniform(0.1, 9, (10, 1)) for v in vectors), names, names)
    for field in dataclasses.fields(Treatment):
        assert getattr(one, field.name) == pytest.approx(getattr(other, field.name), abs=1e-9), field.name


def test_identical_speech_in_both_sets_is_treated_alike():
    made = found([1.0] * 6, [1.0] * 6)
    assert (made.difference, made.relative, made.p_value, made.differs) == (0, 0, 1, False)
    assert made.enrolment_unchanged == made.trial_unchanged == 1


@pytest.mark.parametrize("speakers", [1, 2, 5])
def test_an_unprotected_set_needs_no_statistics(speakers):
    copies, protected = np.full(speakers, UNCHANGED + 1e-3), np.linspace(0.6, 0.7, speakers)
    assert found(copies, protected).differs
    assert found(protected, copies).differs
    assert found(copies, protected, tried=[f"x{k}" for k in range(speakers)]).differs
    assert not found(protected, protected[::-1]).differs


def test_one_speaker_has_no_p_value():
    assert found([0.9], [0.5]).p_value is None and not found([0.9], [0.5]).differs


@pytest.mark.parametrize(("share", "differs"), [(RELATIVE - 0.01, False), (RELATIVE + 0.01, True)])
def test_a_difference_has_to_matter(share, differs):
    """With a spread this small every difference is significant."""
    made = found(spread(1 - 0.4 * (1 - share), 8), np.full(8, 0.6))
    assert made.p_value < 1e-9
    assert made.differs is differs


@pytest.mark.parametrize(("difference", "differs"), [(ABSOLUTE - 0.001, False), (ABSOLUTE + 0.001, True)])
def test_where_little_was_removed_differences_do_not_matter(difference, differs):
    made = found(spread(0.95 + difference, 8, 1e-5), np.full(8, 0.95))
    assert made.relative > RELATIVE and made.p_value < 1e-9
    assert made.differs is differs


def test_a_difference_has_to_be_significant():
    """0.4 of what was removed, which 4 speakers with a spread of their own cannot show and 40 can."""
    pattern = np.array([-0.2, 0.2, -0.1, 0.1])
    few = found(0.7 + pattern, np.full(4, 0.5))
    many = found(0.7 + np.tile(pattern, 10), np.full(40, 0.5))
    assert few.relative == pytest.approx(many.relative) and few.relative == pytest.approx(0.4)
    assert not few.differs and many.differs


def test_utterances_without_a_vector_are_left_out_and_counted():
    before, after = at([1.0] * 4), at([0.5, 0.6, 0.7, 0.8])
    before[0], after[1] = 0, 0
    whole = at([1.0] * 4), at([0.6] * 4)
    made = treatment(before, after, *whole, list("abcd"), list("abcd"))
    assert made.left_out == 2 and made.enrolment == pytest.approx(0.75) and made.enrolment_speakers == 2
    with pytest.raises(Undefined, match="trial: no utterance"):
        treatment(*whole, before * 0, after, list("abcd"), list("abcd"))


def test_what_cannot_be_compared_is_refused():
    good = at([0.5, 0.6]), at([0.5, 0.6])
    with pytest.raises(MetricError, match="enrolment: a vector has a value that is not finite"):
        treatment(good[0], np.full((2, 2), np.nan), *good, ["a", "b"], ["a", "b"])
    with pytest.raises(MetricError, match="do not belong together"):
        treatment(*good, good[0], good[1][:1], ["a", "b"], ["a", "b"])
    with pytest.raises(MetricError, match="of 1 speakers"):
        treatment(*good, *good, ["a"], ["a", "b"])


# GE2E similarity after McAdams with alpha 0.5, 0.7, 0.8, 0.9 of LibriSpeech dev-clean (475 utterances): means measured, and
# standard deviations of a speaker and of an utterance within it, no smaller than measured.
ALPHAS, KEPT, OF_SPEAKER, OF_UTTERANCE = [0.5, 0.7, 0.8, 0.9], [0.40, 0.576, 0.692, 0.843], 0.045, 0.05


def simulated(random, speakers, alphas, utterances=5):
    """Similarities [speakers * utterances] of one set, and their speakers."""
    base = np.interp(alphas, [*ALPHAS, 1.0], [*KEPT, 1.0]) + OF_SPEAKER * random.standard_normal(speakers)
    values = np.repeat(base, utterances) + OF_UTTERANCE * random.standard_normal(speakers * utterances)
    return np.clip(values, -1, 1), np.repeat(np.arange(speakers), utterances).astype(str)


@pytest.mark.parametrize("speakers", [3, 8, 20])
def test_false_alarms_and_detection_over_many_seeds(speakers):
    """B2 and B2r are flagged in fewer than 1 % of data sets, an enrolment that was left as it is always."""
    random = np.random.default_rng(speakers)
    rounds, alarms, hits = 500, {"b2": 0, "b2r": 0}, 0
    for _ in range(rounds):
        draws = {"b2": lambda: np.full(speakers, 0.8), "b2r": lambda: random.uniform(0.7, 0.9, speakers)}
        for name, draw in draws.items():
            (first, enrolled), (second, tried) = (simulated(random, speakers, draw()) for _ in range(2))
            alarms[name] += found(first, second, enrolled, tried).differs
        hits += found(np.ones(first.size), second, enrolled, tried).differs
    assert max(alarms.values()) < 0.01 * rounds
    assert hits == rounds


def test_an_enrolment_much_less_protected_is_found():
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        (first, enrolled), (second, tried) = (simulated(random, 15, np.full(15, alpha)) for alpha in (0.9, 0.8))
        hits += found(first, second, enrolled, tried).differs
    assert hits >= 198


def bands(wave):
    """Mean log band energies: a plain feature that needs no weights."""
    cuts = np.lib.stride_tricks.sliding_window_view(wave, 400)[::160] * np.hanning(400)
    power = np.abs(np.fft.rfft(cuts)) ** 2
    edges = np.unique(np.geomspace(3, 200, 25).astype(int))
    logs = np.log(np.add.reduceat(power, edges, axis=1) + 1e-6)
    return (logs - logs.mean(axis=1, keepdims=True)).mean(axis=0)


def anonymised(waves, settings):
    """Waveforms (speaker, set, wave) after McAdams."""
    made = Anonymiser(McAdamsSettings.model_validate(settings))
    return [
        made.anonymise(wave, 16000, Utterance(f"{name}-{part}-{k}", name, part, k)).wave
        for k, (name, part, wave) in enumerate(waves)
    ]


def compared(waves, before, after):
    parts = {part: [k for k, one in enumerate(waves) if one[1] == part] for part in ("enrolment", "trial")}
    names = {part: [waves[k][0] for k in chosen] for part, chosen in parts.items()}
    enrolled, tried = parts["enrolment"], parts["trial"]
    return treatment(before[enrolled], after[enrolled], before[tried], after[tried], names["enrolment"], names["trial"])


def check_systems(waves, embed, systems):
    """The systems are not flagged; with enrolment or trials left unprotected they are."""
    before = embed([wave for _, _, wave in waves])
    is_enrolment = np.array([part == "enrolment" for _, part, _ in waves])[:, None]
    for settings in systems:
        after = embed(anonymised(waves, settings))
        assert not compared(waves, before, after).differs
        unprotected = compared(waves, before, np.where(is_enrolment, before, after))
        assert unprotected.differs and unprotected.relative == pytest.approx(1)
        assert unprotected.p_value < 0.01 and unprotected.enrolment_unchanged == 1
        assert compared(waves, before, np.where(is_enrolment, after, before)).relative == pytest.approx(-1)


def test_synthetic_speakers_with_an_unprotected_enrolment_are_flagged_and_b2_is_not():
    people = [make_speaker(0, index) for index in range(6)]
    waves = [
        (person.id, part, make_utterance(person, seed, number, 2.0).wave)
        for person in people
        for seed, part in enumerate(("enrolment", "trial"))
        for number in range(2)
    ]
    check_systems(waves, lambda some: np.stack([bands(wave) for wave in some]), (B2, B2R))


def test_real_speakers_with_an_unprotected_enrolment_are_flagged_and_b2_is_not(speech: Path, models: Path):
    try:
        weights = ge2e.Extractor.weights(ge2e.Ge2eSettings(), models)
    except ModelMissing as missing:
        pytest.skip(str(missing))
    extractor = ge2e.Extractor(ge2e.Ge2eSettings(), weights.folder, "cpu", 1)
    waves = [
        (folder.name, part, audio.load(path)[0][: 2 * 16000])
        for folder in sorted((speech / "librispeech" / "test-other").iterdir())
        for part, path in zip(("enrolment", "trial"), sorted(folder.rglob("*.flac")))
    ]
    assert len(waves) == 20
    check_systems(waves, lambda some: np.stack([feature.vector for feature in extractor.extract(some)]), (B2,))
