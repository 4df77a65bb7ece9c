"""Cosine with a centre and a cohort, and WCCN, by brute force: one vector after the other, in loops."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import metrics
from pipeline.backends import _adaptation, cosine, wccn
from pipeline.backends._adaptation import AsNorm
from pipeline.errors import DataError, ModelMissing
from pipeline.protocol.held_out import hold_out_speakers

D = 6


def people(speakers: int, each: int, seed: int, spread: float = 1.0) -> tuple[np.ndarray, list[str]]:
    """Vectors float32 [speakers * each, D] away from the origin, and whose they are."""
    random = np.random.default_rng(seed)
    own = np.repeat(random.normal(size=(speakers, D)), each, 0)
    rows = 2.0 + own + spread * random.normal(size=own.shape) * np.linspace(0.2, 2, D)
    return rows.astype(np.float32), [f"s{number:02d}" for number in range(speakers) for _ in range(each)]


def learn(
    settings: Any, vectors: np.ndarray, speakers: list[str], folder: Path, **more: Any
) -> tuple[Any, dict[str, Any]]:
    """The back end after training into a folder, and its record."""
    folder.mkdir(exist_ok=True)
    backend = {"cosine": cosine, "wccn": wccn}[settings.name].Backend
    record = backend.fit(settings, vectors, speakers, folder, **{"within_session": False, **more})
    assert json.loads(json.dumps(record)) == record
    return backend(settings, folder), record


def score(backend: Any, enrolled: np.ndarray, model: np.ndarray, tried: np.ndarray) -> np.ndarray:
    return np.asarray(backend.score(backend.enrol(enrolled, model, int(model.max()) + 1), tried))


def scattered(rows: np.ndarray, groups: list[Any]) -> np.ndarray:
    """Sum of the squared deviations from the means of groups, one row after the other."""
    total = np.zeros((rows.shape[1],) * 2)
    for name in set(groups):
        own = [row for row, of in zip(rows, groups) if of == name]
        for row in own:
            total += np.outer(row - sum(own) / len(own), row - sum(own) / len(own))
    return total


def dot(one: Any, other: Any) -> float:
    return math.fsum(float(a) * float(b) for a, b in zip(one, other, strict=True))


def cosine_of(one: Any, other: Any) -> float:
    return dot(one, other) / math.sqrt(dot(one, one) * dot(other, other))


def unit_of(one: np.ndarray) -> np.ndarray:
    return np.asarray(one / math.sqrt(dot(one, one)))


def mean_of(rows: list[np.ndarray], normalise: bool) -> np.ndarray:
    return np.asarray(sum(unit_of(row) if normalise else row for row in rows) / len(rows))


def as_norm_of(score: float, of_model: list[float], of_trial: list[float], top: int) -> float:
    def z(cohort: list[float]) -> float:
        highest = sorted(cohort)[-top:]
        mean = math.fsum(highest) / top
        return (score - mean) / math.sqrt(math.fsum((one - mean) ** 2 for one in highest) / top)

    return (z(of_model) + z(of_trial)) / 2


Map = Callable[[np.ndarray], np.ndarray]


def expected(
    mapped: Map, vectors: np.ndarray, speakers: list[str], enrolled: np.ndarray, model: np.ndarray, tried: np.ndarray,
    normalise: bool, top: int | None,
) -> np.ndarray:  # fmt: skip
    """Scores of all pairs, in loops; ``mapped`` takes one vector."""
    models = [mean_of([mapped(row) for row, of in zip(enrolled, model) if of == one], normalise) for one in set(model)]
    trials = [mapped(row) for row in tried]
    found = [[cosine_of(one, other) for other in trials] for one in models]
    if top is not None:
        cohort = [
            mean_of([mapped(row) for row, of in zip(vectors, speakers) if of == name], normalise)
            for name in sorted(set(speakers))
        ]
        found = [
            [
                as_norm_of(
                    score, [cosine_of(models[m], c) for c in cohort], [cosine_of(trials[t], c) for c in cohort], top
                )
                for t, score in enumerate(row)
            ]
            for m, row in enumerate(found)
        ]
    return np.array(found)


def enrolment() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return people(4, 2, 10)[0].astype(float)[:7], np.array([0, 0, 1, 1, 2, 2, 3]), people(5, 1, 11)[0].astype(float)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("top", [None, 2, 5, 12])
def test_cosine_with_a_centre_and_a_cohort(centre: bool, top: int | None, normalise: bool, tmp_path: Path) -> None:
    vectors, speakers = people(12, 3, 1)
    settings = cosine.CosineSettings(
        centre=centre, as_norm=AsNorm(top=top) if top else None, normalise_utterances=normalise
    )
    assert cosine.Backend.is_fitted(settings) is (centre or top is not None)
    if cosine.Backend.is_fitted(settings):
        backend, record = learn(settings, vectors, speakers, tmp_path)
        assert ("centred" in record["summary"], "cohort of 12" in record["summary"]) == (centre, top is not None)
    else:
        backend = cosine.Backend(settings)
    rows = vectors.astype(float)
    middle = rows.mean(0) if centre else np.zeros(D)
    enrolled, model, tried = enrolment()
    reference = expected(lambda row: row - middle, rows, speakers, enrolled, model, tried, normalise, top)
    assert score(backend, enrolled, model, tried) == pytest.approx(reference, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("top", [None, 4])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2, 1.0])
def test_wccn(shrinkage: float, top: int | None, tmp_path: Path) -> None:
    vectors, speakers = people(14, 4, 2)
    settings = wccn.WccnSettings(shrinkage=shrinkage, as_norm=AsNorm(top=top) if top else None)
    backend, record = learn(settings, vectors, speakers, tmp_path)
    assert record["shrinkage"] == {"used": shrinkage, "chosen": False, "reason": "", "candidates": []}
    rows = vectors.astype(float)
    middle = sum(rows) / len(rows)
    covariance = scattered(rows, speakers) / (len(rows) - 14)
    covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / D * np.eye(D)
    values, axes = np.linalg.eigh(np.linalg.inv(covariance))
    root = axes @ np.diag(np.sqrt(values)) @ axes.T  # another root than Cholesky's: cosines do not know the difference
    enrolled, model, tried = enrolment()
    reference = expected(lambda row: root @ (row - middle), rows, speakers, enrolled, model, tried, True, top)
    assert score(backend, enrolled, model, tried) == pytest.approx(reference, abs=1e-9)


def test_its_shrinkage_is_the_largest_within_a_standard_error_of_the_lowest_held_out_eer(tmp_path: Path) -> None:
    vectors, speakers = people(60, 4, 3, 0.8)
    _, record = learn(wccn.WccnSettings(as_norm=None), vectors, speakers, tmp_path, within_session=True)
    held = hold_out_speakers(speakers)
    rows, found = vectors.astype(float), []
    other = np.array([name not in held for name in speakers])
    for shrinkage in wccn.SHRINKAGES:
        settings = wccn.WccnSettings(as_norm=None, shrinkage=shrinkage)
        backend, _ = learn(settings, vectors[other], np.array(speakers)[other].tolist(), tmp_path / f"{shrinkage}")
        target, nontarget = [], []
        places = [place for place, name in enumerate(speakers) if name in held]
        for one in places:
            for two in [place for place in places if place > one]:
                ratio = score(backend, rows[[one]], np.array([0]), rows[[two]])[0, 0]
                (target if speakers[one] == speakers[two] else nontarget).append(ratio)
        found.append((metrics.eer(target, nontarget), metrics.cllr_min(target, nontarget), -shrinkage))
    candidates = record["shrinkage"]["candidates"]
    assert [(one["eer"], one["cllr_min"]) for one in candidates] == [pytest.approx(one[:2]) for one in found]
    lowest = min(found)[0]
    share = (lowest * len(target) + 1) / (len(target) + 2)
    near = [-one[2] for one in found if one[0] <= lowest + (share * (1 - share) / len(target)) ** 0.5]
    assert 1 < len(near) < len(found), "the rule has something to decide"
    assert record["shrinkage"]["used"] == max(near) and record["shrinkage"]["chosen"]
    assert record["held_out"]["speakers"] == len(held) == 12
    assert (record["held_out"]["n_target"], record["held_out"]["n_nontarget"]) == (len(target), len(nontarget))
    assert "one recording a speaker" in record["summary"] and "12 held-out speakers" in record["summary"]


def test_equal_rates_go_to_the_larger_shrinkage(tmp_path: Path) -> None:
    vectors, speakers = people(40, 4, 4, 1e-3)
    _, record = learn(wccn.WccnSettings(as_norm=None), vectors, speakers, tmp_path)
    assert {(one["eer"], one["cllr_min"]) for one in record["shrinkage"]["candidates"]} == {(0.0, 0.0)}
    assert record["shrinkage"]["used"] == max(wccn.SHRINKAGES)


def test_wccn_and_as_norm_find_speakers_where_the_cosine_does_not(tmp_path: Path) -> None:
    vectors, speakers = people(80, 4, 5, 0.7)
    trained, _ = learn(wccn.WccnSettings(), vectors, speakers, tmp_path)
    tried, names = people(40, 4, 6, 0.7)
    same = np.array(names)[:, None] == np.array(names)
    upper = np.triu(np.ones_like(same), 1)
    rates = []
    for backend in (cosine.Backend(cosine.CosineSettings()), trained):
        found = score(backend, tried, np.arange(160), tried)
        rates.append(metrics.eer(found[same & upper], found[~same & upper]))
    assert rates[1] < 0.75 * rates[0]


def test_a_shrinkage_that_held_out_speakers_cannot_tell_is_said(tmp_path: Path) -> None:
    vectors, speakers = people(12, 2, 7)
    held = hold_out_speakers(speakers)
    kept = [row for row, name in enumerate(speakers) if row % 2 == 0 or name not in held]
    _, record = learn(wccn.WccnSettings(as_norm=None), vectors[kept], [speakers[row] for row in kept], tmp_path)
    assert record["shrinkage"]["used"] == wccn.UNCHOSEN and not record["shrinkage"]["chosen"]
    assert "not chosen: no held-out speaker has several vectors" in record["summary"]


def test_what_cannot_be_learnt_is_refused_with_a_remedy(tmp_path: Path) -> None:
    vectors, speakers = people(12, 3, 8)
    nine = [name for name in speakers if name < "s09"]
    plain, centred = cosine.CosineSettings(as_norm=AsNorm(top=3)), cosine.CosineSettings(centre=True)
    cases: list[tuple[Any, Any, np.ndarray, list[str], str]] = [
        (cosine.Backend, centred, vectors[:27], nine, "from 9 training speakers: it takes 10"),
        (cosine.Backend, plain, vectors[:27], nine, "from 9 training speakers: it takes 10"),
        (wccn.Backend, wccn.WccnSettings(), vectors[:27], nine, "from 9 training speakers: it takes 10"),
        (wccn.Backend, wccn.WccnSettings(), vectors, speakers, r"cohort of 12 training speakers is smaller than the 50"),
        (wccn.Backend, wccn.WccnSettings(as_norm=None), vectors[::3], speakers[::3], "one vector each"),
        (wccn.Backend, wccn.WccnSettings(as_norm=None), np.repeat(vectors[::3], 3, 0), speakers, "are identical"),
        (wccn.Backend, wccn.WccnSettings(as_norm=None), np.full_like(vectors, np.nan), speakers, "not finite"),
        (
            wccn.Backend, wccn.WccnSettings(as_norm=None, shrinkage=0), np.hstack([vectors] * 5), speakers,
            "24 degrees of freedom for 30 dimensions",
        ),
    ]  # fmt: skip
    for component, settings, rows, names, reason in cases:
        with pytest.raises(DataError, match=reason) as caught:
            component.fit(settings, rows, names, tmp_path, within_session=False)
        assert not list(tmp_path.iterdir())
        if "finite" not in reason:
            assert "To mend it" in str(caught.value)
    for component, settings in ((cosine.Backend, centred), (wccn.Backend, wccn.WccnSettings())):
        with pytest.raises(ModelMissing, match="was given no parameters"):
            component(settings, None)
        with pytest.raises(DataError, match="cannot be read"):
            component(settings, tmp_path)


def test_a_cohort_of_one_vector_is_refused() -> None:
    with pytest.raises(DataError, match="3 highest cohort scores of 1 of 2 vectors are all equal"):
        _adaptation.normalise_scores(
            np.zeros((2, 1)), np.array([[0.1, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]]), np.arange(4.0)[:, None], 3
        )


@pytest.mark.parametrize("top", [None, 4])
@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("centre", ["training", "enrolment"])
def test_wccn_adapts_to_the_enrolment(centre: Any, draws: int, top: int | None, tmp_path: Path) -> None:
    """Draws join the covariance as classes of their own; the centre is that of all enrolment vectors, and the cohort keeps its own."""
    vectors, speakers = people(14, 4, 2)
    settings = wccn.WccnSettings(shrinkage=0.2, as_norm=AsNorm(top=top) if top else None, centre=centre)
    backend, _ = learn(settings, vectors, speakers, tmp_path)
    rows = vectors.astype(float)
    enrolled, model, tried = enrolment()
    # Speech under attack lies elsewhere, and its models spread otherwise than the training speakers do.
    away = np.linspace(3, -3, D)
    others = people(4, 2, 12, 2.0)[0].astype(float)[:7]
    enrolled = np.concatenate([enrolled, others][:draws]) + away
    model, tried = np.tile(model, draws), tried + away

    def roots(covariance: np.ndarray) -> np.ndarray:
        covariance = 0.8 * covariance + 0.2 * np.trace(covariance) / D * np.eye(D)
        return np.linalg.inv(np.linalg.cholesky(covariance))

    scatter, freedom = scattered(rows, speakers), len(rows) - 14
    before = after = roots(scatter / freedom)
    if draws > 1:
        after = roots((scatter + scattered(enrolled, model.tolist())) / (freedom + len(enrolled) - 4))
    middle = rows.mean(0)
    own = enrolled.mean(0) if centre == "enrolment" else middle
    cohort = []
    for name in sorted(set(speakers)):
        mean = mean_of([before @ (row - middle) for row, of in zip(rows, speakers) if of == name], True)
        cohort.append(after @ np.linalg.solve(before, mean))
    models = [mean_of([after @ (row - own) for row, of in zip(enrolled, model) if of == one], True) for one in range(4)]
    trials = [after @ (row - own) for row in tried]
    expected = [[cosine_of(one, other) for other in trials] for one in models]
    if top:
        sides = [[[cosine_of(one, c) for c in cohort] for one in side] for side in (models, trials)]
        expected = [[as_norm_of(score, sides[0][m], sides[1][t], top) for t, score in enumerate(row)]
                    for m, row in enumerate(expected)]  # fmt: skip

    found = score(backend.adapt(enrolled, model, draws), enrolled, model, tried)
    assert found == pytest.approx(np.array(expected), abs=1e-9)
    still = score(backend, enrolled, model, tried)
    assert (found == still).all() == (centre == "training" and draws == 1), "the back end itself stays as it was"


def test_centring_on_the_enrolment_undoes_a_shift_of_the_speech_under_attack(tmp_path: Path) -> None:
    vectors, speakers = people(30, 4, 2)
    enrolled, model, tried = enrolment()
    found = {}
    for centre in ("training", "enrolment"):
        settings = wccn.WccnSettings(shrinkage=0.2, as_norm=None, centre=centre)
        backend, _ = learn(settings, vectors, speakers, tmp_path / centre)
        for shift in (0.0, 5.0):
            adapted = backend.adapt(enrolled + shift, model, 1)
            found[centre, shift] = score(adapted, enrolled + shift, model, tried + shift)
    assert found["enrolment", 5.0] == pytest.approx(found["enrolment", 0.0], abs=1e-10)
    assert np.abs(found["training", 5.0] - found["training", 0.0]).max() > 0.1


def test_both_centres_are_attacks_of_their_own() -> None:
    both = wccn.WccnSettings()
    assert {name: one.centre for name, one in wccn.Backend.variants(both).items()} == {
        "": "training", "enrolment centre": "enrolment"
    }  # fmt: skip
    alone = wccn.WccnSettings(centre="enrolment")
    assert wccn.Backend.variants(alone) == {"": alone} and wccn.Backend.centres_on_enrolment(alone)
    plain = cosine.CosineSettings()
    assert cosine.Backend.variants(plain) == {"": plain} and not cosine.Backend.centres_on_enrolment(plain)
