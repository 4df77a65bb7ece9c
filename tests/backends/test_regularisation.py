"""The regularisation of PLDA, chosen on held-out speakers, on data of which the truth is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pipeline.backends.plda import estimation
from pipeline.backends.plda import model as plda
from pipeline.metrics import eer
from pipeline.protocol.held_out import hold_out_speakers, pair_held_out

CHAIN: dict[str, Any] = {"lda": 200, "iterations": 10, "length_normalise": True}


def drawn(speakers: int, each: int, values: np.ndarray, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose covariance within speakers has these eigenvalues, and that between them ``ratio`` times those."""
    d = len(values)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(speakers, d)) * np.sqrt(ratio * values), each, 0)
    rows += random.normal(size=rows.shape) * np.sqrt(values)
    return rows @ turn.T, np.repeat(np.arange(speakers), each)


def labels(speaker: np.ndarray) -> list[str]:
    return [f"s{number}" for number in speaker]


def oracle(vectors: np.ndarray, speaker: np.ndarray) -> float:
    data = estimation.statistics(vectors, speaker, int(speaker.max()) + 1)
    return min(estimation.shrinkage(data.within / data.freedom, data.freedom), 0.99)


def rates(
    vectors: np.ndarray, speaker: np.ndarray, tried: np.ndarray, who: np.ndarray, shares: list[Any]
) -> list[float]:
    """The EER of all pairs of other speakers' vectors after training with each share."""
    found = []
    first, second = np.triu_indices(len(tried), 1)
    same = who[first] == who[second]
    for share in shares:
        model, _ = estimation.train(vectors, labels(speaker), **CHAIN, regularisation=share)
        rows = model.map_vectors(tried, 1, length_normalise=True)
        scores = plda.llr(model.psi, rows, np.ones(len(rows), dtype=int), rows)[first, second]
        found.append(eer(scores[same], scores[~same]))
    return found


@pytest.mark.parametrize("condition", [1e4, 1e6])
def test_a_wide_spectrum_is_not_drowned(condition: float) -> None:
    """150 speakers, 100 dimensions: the oracle approximating rule costs 2 to 3 points of EER, and the choice nothing."""
    values = np.logspace(0, -np.log10(condition), 100)
    vectors, speaker = drawn(150, 3, values, 0.5, 1)
    tried, who = drawn(100, 4, values, 0.5, 2)
    none, rule, chosen = rates(vectors, speaker, tried, who, [0.0, oracle(vectors, speaker), None])
    assert rule > none + 0.015
    assert chosen < none + 0.003  # a standard error of the difference is about 0.003


@pytest.mark.parametrize(("speakers", "d"), [(40, 60), (60, 100)])
def test_few_data_are_drawn_as_far_as_they_need(speakers: int, d: int) -> None:
    values = np.logspace(0, -1, d)
    vectors, speaker = drawn(speakers, 2, values, 0.5, 3)
    tried, who = drawn(100, 4, values, 0.5, 4)
    little, rule, chosen = rates(vectors, speaker, tried, who, [1e-3, oracle(vectors, speaker), None])
    assert little > rule + 0.05
    assert chosen < rule + 0.01


def test_the_likelihood_is_that_of_densities_about_the_means() -> None:
    """One held-out speaker of n vectors tells as much as n - 1 independent ones: sqrt(2) times differences of two, here."""
    values = np.logspace(0, -3, 4)
    vectors, speaker = drawn(40, 2, values, 1.0, 5)
    names = sorted(set(labels(speaker)))
    number = {name: place for place, name in enumerate(names)}
    _, facts = estimation.train(vectors, labels(speaker), **CHAIN, regularisation=None)
    drawn_to = facts["regularisation"]
    assert json.loads(json.dumps(facts)) == facts
    held = hold_out_speakers(names)
    assert drawn_to["held_out_speakers"] == len(held) == 8 and len(number) == 40
    aside = np.array([name in held for name in labels(speaker)])
    differences = (vectors[::2] - vectors[1::2]) / np.sqrt(2)
    own = aside[::2]
    covariance = differences[~own].T @ differences[~own] / (~own).sum()
    level = np.trace(covariance) / 4
    for one in drawn_to["candidates"]:
        share = one["share"]
        whole = (1 - share) * covariance + share * level * np.eye(4)
        expected = multivariate_normal(np.zeros(4), whole).logpdf(differences[own]).mean()
        assert one["log_likelihood"] == pytest.approx(expected, abs=1e-9)
    shares = [one["share"] for one in drawn_to["candidates"]]
    assert shares == sorted({*estimation.SHARES, drawn_to["oracle"]})
    assert drawn_to["oracle"] == pytest.approx(oracle(vectors, speaker))
    likeliest = max(drawn_to["candidates"], key=lambda one: one["log_likelihood"])
    # Eight speakers are too few for error rates to say anything.
    assert (drawn_to["share"], drawn_to["rule"]) == (likeliest["share"], "held-out likelihood")


def test_a_share_that_costs_error_rate_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the likelihood says: here it is turned round, so that the largest share is likeliest."""
    values = np.logspace(0, -6, 60)
    vectors, speaker = drawn(150, 4, values, 0.5, 6)
    likelihoods = estimation._compare_likelihoods

    def reversed_(*given: Any) -> list[dict[str, Any]]:
        tried = likelihoods(*given)
        return [{**one, "log_likelihood": one["share"]} for one in tried if one["share"] <= 0.1]

    monkeypatch.setattr(estimation, "_compare_likelihoods", reversed_)
    _, facts = estimation.train(vectors, labels(speaker), **CHAIN, regularisation=None)
    found = facts["regularisation"]
    rate = {one["share"]: one["eer"] for one in found["candidates"]}
    assert found["rule"] == "held-out EER" and found["share"] < 0.01
    assert rate[found["share"]] == min(rate.values()) < rate[0.1] - 0.02


def test_too_few_speakers_are_left_to_the_oracle_approximating_rule_and_it_is_said() -> None:
    values = np.logspace(0, -1, 6)
    vectors, speaker = drawn(9, 5, values, 1.0, 7)
    _, facts = estimation.train(vectors, labels(speaker), **CHAIN, regularisation=None)
    found = facts["regularisation"]
    assert found["share"] == pytest.approx(oracle(vectors, speaker)) and found["rule"] == "oracle approximating"
    assert found["reason"] == "9 training speakers, and it takes 10 to choose by"

    vectors, speaker = drawn(20, 2, values, 1.0, 8)
    held = hold_out_speakers(labels(speaker))
    inside = np.array([name in held for name in labels(speaker)])
    once = np.arange(len(speaker)) % 2 == 0
    for kept, reason in ((once | ~inside, "no held-out speaker has several"), (once | inside, "do not suffice")):
        _, facts = estimation.train(vectors[kept], labels(speaker[kept]), **CHAIN, regularisation=None)
        assert facts["regularisation"]["rule"] == "oracle approximating"
        assert reason in facts["regularisation"]["reason"]


def test_the_errors_of_a_speaker_are_those_of_loops() -> None:
    random = np.random.default_rng(9)
    who = np.repeat(np.arange(6), 3)
    compared = pair_held_out(
        [f"{row}" for row in range(18)], [f"s{one}" for one in who], {f"s{one}" for one in range(6)}
    )
    speaker = who[compared.rows]
    scores = random.normal(size=len(compared.first)) + compared.target
    found = estimation.error_by_speaker(scores, compared, speaker)

    def far(threshold: float) -> float:
        missed = np.mean([score < threshold for score, same in zip(scores, compared.target) if same])
        passed = np.mean([score >= threshold for score, same in zip(scores, compared.target) if not same])
        return float(abs(missed - passed))

    threshold = min(sorted(scores), key=far)
    for one in range(6):
        own, others = [], []
        for score, first, second in zip(scores, compared.first, compared.second, strict=True):
            if speaker[first] == speaker[second] == one:
                own.append(score < threshold)
            elif one in (speaker[first], speaker[second]):
                others.append(score >= threshold)
        assert found[one] == pytest.approx((np.mean(own) + np.mean(others)) / 2)
