"""Means of decimals that tie exactly tie here too, though they do not in binary: held against fractions and whole numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from pipeline.metrics import (
    Trials,
    class_scores,
    length_curve,
    measure_speakers,
    pi_sing,
    zoo,
)
from pipeline.metrics._base import round_means

SPEAKERS, EACH, STEP = 8, 6, 5


def fifths(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores [n, N] in whole fifths, and the true candidate of each row."""
    truth = np.repeat(np.arange(SPEAKERS), EACH)
    random = np.random.default_rng(seed)
    return random.integers(-6, 7, size=(truth.size, SPEAKERS)) + (truth[:, None] == np.arange(SPEAKERS)), truth


def of_item(sums: list[Fraction], own: int, population: int) -> Fraction:
    """The share of draws of other candidates that the true one beats, ties broken evenly."""
    others = [one for k, one in enumerate(sums) if k != own]
    better, equal = sum(one > sums[own] for one in others), sum(one == sums[own] for one in others)
    beaten = [
        Fraction(comb(SPEAKERS - 1 - m, population - 1), comb(SPEAKERS - 1, population - 1))
        for m in range(better, better + equal + 1)
    ]
    return sum(beaten, Fraction(0)) / len(beaten)


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("scale", [1, 1000])
def test_pooled_trials_tie_as_their_fractions_do(length: int, scale: int) -> None:
    whole, truth = fifths(1)
    found = length_curve(whole / STEP * scale, truth, [length], slope=1.0)
    rates: dict[int, list[Fraction]] = {SPEAKERS: [], SPEAKERS // 2: []}
    for speaker in range(SPEAKERS):
        for rows in itertools.combinations(np.flatnonzero(truth == speaker), length):
            sums = [sum((Fraction(int(whole[row, k]), STEP) for row in rows), Fraction(0)) for k in range(SPEAKERS)]
            for population, several in rates.items():
                several.append(of_item(sums, speaker, population))
    for population, value in ((SPEAKERS, found.idr[0]), (SPEAKERS // 2, found.pi_link_half[0])):
        assert value == pytest.approx(float(sum(rates[population]) / len(rates[population])), abs=1e-12)
    assert found.eer[0] == pytest.approx(length_curve(whole, truth, [length], slope=1.0).eer[0], abs=1e-12)


def test_classes_tie_as_their_fractions_do() -> None:
    whole, truth = fifths(2)
    classes = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found, own, kept = class_scores(whole / STEP, truth, classes)
    assert kept.all() and own.tolist() == classes[truth].tolist()
    want = [
        [np.mean([Fraction(int(row[k]), STEP) for k in range(SPEAKERS) if classes[k] == c and k != t]) for c in (0, 1)]
        for row, t in zip(whole, truth)
    ]
    signs = [(one > other) - (one < other) for one, other in want]
    assert 0 in signs and np.sign(found[:, 0] - found[:, 1]).tolist() == signs


def test_a_threshold_between_two_scores_is_passed_only_by_what_lies_above() -> None:
    """(0.1 + 0.7)/2 is 0.39999999999999997 in binary, and 0.4 does not lie above 0.4."""
    assert (0.1 + 0.7) / 2 < 0.4
    assert pi_sing([[0.4, 0.1]], [[0.7, 0.1]], per_speaker=1) == 0
    assert pi_sing([[0.5, 0.1]], [[0.7, 0.1]], per_speaker=1) == 1


def test_speakers_with_equal_means_are_told_apart_by_their_codes_alone() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1."""
    rows = [(0, 0, 5.0), (1, 1, 5.0), (2, 2, 5.0)]
    rows += [(0, 1, score) for score in (0.3, 0.2, 0.1)] + [(0, 2, score) for score in (0.1, 0.2, 0.3)]
    enrolled, spoken, scores = (np.array(column) for column in zip(*rows))
    found = measure_speakers(Trials(scores.astype(float), enrolled, spoken), np.arange(len(rows)))
    assert found.neighbours.nearest[0] == 1


def test_equal_mean_llrs_are_in_the_same_quartile() -> None:
    x = np.array([0.3, 0.4, 0.3 + 0.2 + 0.1, 0.1 + 0.2 + 0.3, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert x[2] < x[3] and zoo(x, np.arange(9.0)).doddington[:4] == ("goat",) * 4, (
        "the third of nine is the lowest quartile"
    )


def test_means_are_rounded_to_their_size() -> None:
    assert round_means([0.1 + 0.2, 0.3]).tolist() == [0.3, 0.3]
    assert len(set(round_means(1e6 * np.array([0.1 + 0.2, 0.3])).tolist())) == 1
    assert round_means([1e-3, 1e-3 + 1e-11]).tolist() != [1e-3, 1e-3], "what differs stays different"
    odd = round_means([np.nan, np.inf, -np.inf])
    assert np.isnan(odd[0]) and odd[1] == np.inf and odd[2] == -np.inf
    assert round_means([]).size == 0
