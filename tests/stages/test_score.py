"""The score stage by brute force: one pair of vectors after the other, in plain Python."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest

from pipeline import contracts
from pipeline.backends import _adaptation, cosine
from pipeline.contracts import ComponentSettings, Feature, Vectors, numeric
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Ref, Task, Value, Work
from pipeline.families import srd
from pipeline.protocol import trials
from pipeline.stages.scores import compute as score
from pipeline.stages.scores import measure
from pipeline.tables import scores, vectors
from tests.running import execute

COSINE = cosine.CosineSettings()


def made(function: Callable[[Work], None], store: Path, **inputs: Value | Ref) -> Artefact:
    """The artefact of a score task."""
    before = [value.task for value in inputs.values() if isinstance(value, Ref)]
    task = Task("score", "score under test", function, inputs=inputs)
    return execute([*before, task], Store(store)).artefact(task.ref())


def given(value: Vectors) -> Value:
    return Value(vectors.content(value), value)


def drawn(seed: int, ids: Sequence[str], lost: Sequence[str] = (), weights: Sequence[float] = ()) -> Vectors:
    """Vectors of utterances named ``SPEAKER-NUMBER``, some of them lost."""
    found = np.random.default_rng(seed).standard_normal((len(ids), 5)).astype(np.float32)
    evidence = np.array(weights or [1.0] * len(ids))
    for row, name in enumerate(ids):
        if name in lost:
            found[row], evidence[row] = 0, 0
    reasons = tuple("silent" if name in lost else "" for name in ids)
    return Vectors(tuple(ids), tuple(name.partition("-")[0] for name in ids), found, evidence, reasons)


def cosine_of(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)


def cosines(rows: np.ndarray, columns: np.ndarray) -> list[list[float]]:
    return [[cosine_of(one, other) for other in columns.tolist()] for one in rows.tolist()]


# Trials --------------------------------------------------------------------------------------------------------------

ENROLLED = ("a-0", "a-1", "a-2", "b-0", "c-0")
TRIED = ("b-9", "a-9", "c-9")
LIST = trials.make_trial_set(
    "x_trials",
    "x_enrolls",
    [(name[0], name) for name in ENROLLED],
    [(model, name, model == name[0]) for model in "abc" for name in TRIED],
    9,
)


def tried(enrolment: Vectors, trial: Vectors, store: Path) -> tuple[pd.DataFrame, Artefact]:
    function = functools.partial(score.score_trials, cosine.Backend, COSINE)
    listed = Value(LIST.digest, LIST)
    found = made(function, store, enrolment=given(enrolment), trial=given(trial), trials=listed)
    return pd.read_parquet(found.path(scores.TRIALS)), found


def test_a_trial_is_the_score_of_the_mean_of_its_model(tmp_path: Path) -> None:
    enrolment, trial = drawn(1, ENROLLED), drawn(2, TRIED)
    table, found = tried(enrolment, trial, tmp_path)
    assert list(zip(table["model"], table["utterance"])) == [(m, u) for m in "abc" for u in sorted(TRIED)]
    for row in table.itertuples():
        own = [vector for name, vector in zip(ENROLLED, enrolment.vectors.tolist()) if name[0] == row.model]
        units = [[value / math.hypot(*vector) for value in vector] for vector in own]
        mean = [math.fsum(values) / len(units) for values in zip(*units)]
        assert row.score == pytest.approx(
            cosine_of(mean, trial.vectors[TRIED.index(row.utterance)].tolist()), abs=1e-12
        )
        assert row.target == (row.model == row.utterance[0])
        assert (row.model_speaker, row.speaker) == (row.model, row.utterance[0])
    assert (found.record["notes"]["n_expected"], found.record["notes"]["n_used"]) == (9, 9)


def test_a_model_stands_on_what_is_left_of_it_and_trials_without_a_side_are_named(tmp_path: Path) -> None:
    enrolment, trial = drawn(1, ENROLLED, ["a-1", "b-0"]), drawn(2, TRIED, ["c-9"])
    table, found = tried(enrolment, trial, tmp_path)
    assert list(zip(table["model"], table["utterance"])) == [(m, u) for m in "ac" for u in ("a-9", "b-9")]
    units = [enrolment.vectors[row] / math.hypot(*enrolment.vectors[row].tolist()) for row in (0, 2)]
    expected = cosine_of(np.mean(units, axis=0).tolist(), trial.vectors[1].tolist())
    assert table["score"][0] == pytest.approx(expected, abs=1e-7)  # the reference above is of float32
    assert found.record["notes"]["lost"] == [["a-1", "silent"], ["b-0", "silent"], ["c-9", "silent"]]
    assert (found.record["notes"]["n_expected"], found.record["notes"]["n_used"]) == (9, 4)
    # Model a lacks a recording; b has none left, so its trials are gone and counted.
    assert scores.thinned(found.folder) == [("a", "a-1", "silent")]


def test_a_model_has_the_utterances_of_all_draws_of_the_enrolment(tmp_path: Path) -> None:
    """One utterance is lost in one draw: the model stands on the others, and is said to be thinner."""
    first, second, trial = drawn(1, ENROLLED), drawn(3, ENROLLED, ["a-1"]), drawn(2, TRIED)
    function = functools.partial(score.score_trials, cosine.Backend, COSINE)
    listed = Value(LIST.digest, LIST)
    inputs = {"enrolment": given(first), "enrolment.1": given(second), "trial": given(trial), "trials": listed}
    found = made(function, tmp_path, **inputs)
    table = pd.read_parquet(found.path(scores.TRIALS)).set_index(["model", "utterance"])["score"]
    for model in "abc":
        own = [
            vector / math.hypot(*vector)
            for draw, lost in ((first, ()), (second, ("a-1",)))
            for name, vector in zip(ENROLLED, draw.vectors.astype(float))
            if name[0] == model and name not in lost
        ]
        for name, vector in zip(TRIED, trial.vectors.tolist()):
            expected = cosine_of(np.mean(own, axis=0).tolist(), vector)
            assert table[model, name] == pytest.approx(expected, abs=1e-12)
    assert scores.thinned(found.folder) == [("a", "a-1", "silent")]
    assert found.record["notes"]["lost"] == [["a-1", "silent"]]
    assert (found.record["notes"]["n_expected"], found.record["notes"]["n_used"]) == (9, 9)


# Pairs ---------------------------------------------------------------------------------------------------------------

ROWS = ("a-0", "a-1", "b-0", "c-0", "c-1")
COLUMNS = ("c-1", "a-0", "d-0", "b-0")


def paired(rows: Vectors, columns: Vectors, store: Path, settings: cosine.CosineSettings = COSINE) -> Artefact:
    function = functools.partial(score.score_pairs, cosine.Backend, settings)
    return made(function, store, rows=given(rows), columns=given(columns))


@pytest.mark.parametrize("normalise", [True, False])
def test_pairs_are_the_scores_of_each_row_against_each_column(normalise: bool, tmp_path: Path) -> None:
    rows, columns = drawn(1, ROWS), drawn(2, COLUMNS)
    settings = cosine.CosineSettings(normalise_utterances=normalise)
    matrix = scores.read(paired(rows, columns, tmp_path, settings).folder)
    assert (matrix.rows, matrix.row_speakers) == (ROWS, ("a", "a", "b", "c", "c"))
    assert (matrix.columns, matrix.column_speakers) == (COLUMNS, ("c", "a", "d", "b"))
    assert matrix.scores.dtype == np.float64
    np.testing.assert_allclose(matrix.scores, cosines(rows.vectors, columns.vectors), rtol=0, atol=1e-12)
    assert matrix.lost == matrix.ties == ()


def test_both_sides_of_a_pair_are_treated_alike(tmp_path: Path) -> None:
    rows, columns = drawn(1, ROWS), drawn(2, COLUMNS)
    one, other = (scores.read(paired(*sides, tmp_path).folder) for sides in ((rows, columns), (columns, rows)))
    assert (one.rows, one.columns) == (other.columns, other.rows)
    np.testing.assert_allclose(one.scores, other.scores.T, rtol=0, atol=1e-12)


def test_lost_utterances_are_left_out_of_their_own_side_alone_and_named_once(tmp_path: Path) -> None:
    rows, columns = drawn(1, ROWS, ["a-1", "c-1"]), drawn(2, COLUMNS, ["c-1", "b-0"])
    found = paired(rows, columns, tmp_path)
    matrix = scores.read(found.folder)
    assert matrix.rows == ("a-0", "b-0", "c-0") and matrix.columns == ("a-0", "d-0")
    assert matrix.row_speakers == ("a", "b", "c") and matrix.column_speakers == ("a", "d")
    expected = cosines(rows.vectors[[0, 2, 3]], columns.vectors[[1, 2]])
    np.testing.assert_allclose(matrix.scores, expected, rtol=0, atol=1e-12)
    named = [["a-1", "silent"], ["c-1", "silent"], ["b-0", "silent"]]
    assert [list(entry) for entry in matrix.lost] == found.record["notes"]["lost"] == named


class _Settings(ComponentSettings):
    name: Literal["scaled"] = numeric("scaled")


class _Scaled(contracts.Backend):
    """Inner products, times a factor that its folder holds."""

    Settings = _Settings

    def __init__(self, settings: Any, folder: Path | None = None) -> None:
        super().__init__(settings, folder)
        self.factor = float((folder / "factor").read_text()) if folder is not None else 1.0

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> np.ndarray:
        assert model.tolist() == list(range(n_models)), "one utterance, one model"
        return vectors

    def score(self, models: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return self.factor * (models.astype(float) @ vectors.T.astype(float))


def _factor(work: Work) -> None:
    (work.folder() / "factor").write_text("7")


@pytest.mark.parametrize(("parameters", "factor"), [("none", 1), ("folder", 3), ("task", 7)])
def test_pairs_take_the_parameters_of_the_back_end(parameters: str, factor: float, tmp_path: Path) -> None:
    """None where it has none, a folder on disk, or what a fit task made."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "factor").write_text("3")
    model: dict[str, Value | Ref] = {
        "none": {},
        "folder": {"backend": Value("digest", tmp_path / "weights")},
        "task": {"backend": Task("fit", "fit", _factor).ref()},
    }[parameters]
    rows, columns = drawn(1, ROWS), drawn(2, COLUMNS)
    function = functools.partial(score.score_pairs, _Scaled, _Settings())
    matrix = scores.read(made(function, tmp_path / "s", rows=given(rows), columns=given(columns), **model).folder)
    expected = [
        [math.fsum(a * b for a, b in zip(x, y)) for y in columns.vectors.tolist()] for x in rows.vectors.tolist()
    ]
    np.testing.assert_allclose(matrix.scores, factor * np.array(expected), rtol=1e-9)


# Ranks ---------------------------------------------------------------------------------------------------------------


class _Embedding(contracts.Extractor):
    """Embeddings: compared by cosine, and lost where there is nothing to hear."""

    Settings = _Settings

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        raise AssertionError("vectors are given")


class _Histogram(_Embedding):
    """Counts: compared by distance, and a tie where there is nothing to count. The reference is the sum of all counts."""

    similarity = "euclidean"
    evidence_optional: ClassVar[bool] = True

    @staticmethod
    def pool(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(vectors.T.astype(float) @ weights, np.float32)


KNOWN = ("a-0", "b-0", "b-1", "a-1", "c-0")
EVIDENCE = (2.0, 1.0, 3.0, 5.0, 1.0)
INPUTS = ("c#0", "a#0", "b#0", "a#1")


def ranked(extractor: type[contracts.Extractor], reference: Vectors, inputs: Vectors, store: Path) -> Artefact:
    function = functools.partial(score.score_ranks, extractor)
    return made(function, store, reference=given(reference), input=given(inputs))


def segments(seed: int, ids: Sequence[str] = INPUTS, lost: Sequence[str] = ()) -> Vectors:
    plain = drawn(seed, ids, lost)
    speakers = tuple(name.partition("#")[0] for name in ids)
    return Vectors(plain.ids, speakers, plain.vectors, plain.weights, plain.reasons)


def own(reference: Vectors, speaker: str) -> list[tuple[list[float], float]]:
    """Vectors and evidence of a speaker's usable references."""
    several = zip(reference.speakers, reference.vectors.tolist(), reference.weights.tolist())
    return [(vector, weight) for name, vector, weight in several if name == speaker and weight > 0]


def mean_unit(reference: Vectors, speaker: str) -> list[float]:
    held = own(reference, speaker)
    total = math.fsum(weight for _, weight in held)
    units = [[weight * value / math.hypot(*vector) / total for value in vector] for vector, weight in held]
    return [math.fsum(values) for values in zip(*units)]


def weighted_sum(reference: Vectors, speaker: str) -> list[float]:
    held = own(reference, speaker)
    return [math.fsum(weight * vector[place] for vector, weight in held) for place in range(5)]


def test_ranks_by_cosine_are_against_the_mean_of_a_speakers_references(tmp_path: Path) -> None:
    reference, inputs = drawn(3, KNOWN, weights=EVIDENCE), segments(4)
    matrix = scores.read(ranked(_Embedding, reference, inputs, tmp_path).folder)
    assert (matrix.rows, matrix.row_speakers) == (INPUTS, ("c", "a", "b", "a"))
    assert matrix.columns == matrix.column_speakers == ("a", "b", "c")
    expected = [[cosine_of(one, mean_unit(reference, speaker)) for speaker in "abc"] for one in inputs.vectors.tolist()]
    np.testing.assert_allclose(matrix.scores, expected, rtol=0, atol=1e-6)  # a reference is kept as float32
    assert matrix.lost == matrix.ties == ()


def test_ranks_by_distance_are_the_higher_the_nearer(tmp_path: Path) -> None:
    reference, inputs = drawn(3, KNOWN, weights=EVIDENCE), segments(4)
    matrix = scores.read(ranked(_Histogram, reference, inputs, tmp_path).folder)
    expected = [
        [-math.dist(one, weighted_sum(reference, speaker)) for speaker in "abc"] for one in inputs.vectors.tolist()
    ]
    np.testing.assert_allclose(matrix.scores, expected, rtol=1e-6)


def test_distances_that_differ_in_the_last_digits_are_told_apart(tmp_path: Path) -> None:
    """Squared lengths that cancel would round away what decides the rank."""
    far = np.full((3, 5), 1e4, np.float32)
    far[1, 0], far[2, 0] = 1e4 + 2**-9, 1e4 - 2**-9
    reference = Vectors(("a-0", "b-0", "c-0"), ("a", "b", "c"), far, np.ones(3), ("",) * 3)
    inputs = Vectors(("a#0",), ("a",), far[:1], np.ones(1), ("",))
    matrix = scores.read(ranked(_Histogram, reference, inputs, tmp_path).folder)
    steps = [float(far[0, 0]) - float(far[row, 0]) for row in range(3)]
    assert matrix.scores.tolist() == [[-abs(step) for step in steps]]
    assert len(set(matrix.scores[0].tolist())) > 1


def test_where_evidence_is_optional_an_input_without_any_ties_all_references(tmp_path: Path) -> None:
    reference, inputs = drawn(3, KNOWN, weights=EVIDENCE), segments(4, lost=["a#0", "b#0"])
    found = ranked(_Histogram, reference, inputs, tmp_path)
    matrix = scores.read(found.folder)
    assert matrix.rows == INPUTS, "it stays in the result"
    assert matrix.scores[1].tolist() == matrix.scores[2].tolist() == [0, 0, 0]
    told = [0, 3]
    expected = [
        [-math.dist(one, weighted_sum(reference, speaker)) for speaker in "abc"]
        for one in inputs.vectors[told].tolist()
    ]
    np.testing.assert_allclose(matrix.scores[told], expected, rtol=1e-6)
    assert matrix.ties == (("a#0", "silent"), ("b#0", "silent")) and matrix.lost == ()
    assert found.record["notes"]["without_evidence"] == [["a#0", "silent"], ["b#0", "silent"]]
    assert "lost" not in found.record["notes"]


def test_elsewhere_an_input_without_evidence_is_lost_by_name(tmp_path: Path) -> None:
    reference, inputs = drawn(3, KNOWN, weights=EVIDENCE), segments(4, lost=["a#0"])
    found = ranked(_Embedding, reference, inputs, tmp_path)
    matrix = scores.read(found.folder)
    assert matrix.rows == ("c#0", "b#0", "a#1") and matrix.row_speakers == ("c", "b", "a")
    expected = [
        [cosine_of(one, mean_unit(reference, speaker)) for speaker in "abc"]
        for one in inputs.vectors[[0, 2, 3]].tolist()
    ]
    np.testing.assert_allclose(matrix.scores, expected, rtol=0, atol=1e-6)
    assert matrix.lost == (("a#0", "silent"),) and matrix.ties == ()
    assert found.record["notes"]["lost"] == [["a#0", "silent"]]


@pytest.mark.parametrize("extractor", [_Embedding, _Histogram])
def test_a_reference_stands_on_what_is_left_of_it(extractor: type[contracts.Extractor], tmp_path: Path) -> None:
    """A speaker of whom nothing is left can be neither a reference nor ranked; whoever was lost is named."""
    reference, inputs = drawn(3, KNOWN, ["b-1", "c-0"], EVIDENCE), segments(4)
    matrix = scores.read(ranked(extractor, reference, inputs, tmp_path).folder)
    assert matrix.columns == ("a", "b")
    assert matrix.rows == ("a#0", "b#0", "a#1"), "the input of c has no reference that is its own"
    like = {_Embedding: cosine_of, _Histogram: lambda one, other: -math.dist(one, other)}[extractor]
    pooled = {_Embedding: mean_unit, _Histogram: weighted_sum}[extractor]
    expected = [[like(one, pooled(reference, name)) for name in "ab"] for one in inputs.vectors[1:].tolist()]
    np.testing.assert_allclose(matrix.scores, expected, rtol=0, atol=1e-5)
    assert {*matrix.lost, *matrix.ties} == {("b-1", "silent"), ("c-0", "silent")}


# Enrolment -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("enrolment", "join"), [("mean_of_scores", np.mean), ("max_of_scores", max)])
@pytest.mark.parametrize("adapted", [False, True])
def test_scores_of_single_utterances_are_joined_by_model(
    adapted: bool, enrolment: contracts.Enrolment, join: Callable[[list[float]], float], tmp_path: Path
) -> None:
    """After AS-norm, where there is some."""
    as_norm = _adaptation.AsNorm(top=6) if adapted else None
    settings = cosine.CosineSettings(enrolment=enrolment, as_norm=as_norm)
    inputs = {"enrolment": given(drawn(1, ENROLLED, ["a-1"])), "trial": given(drawn(2, TRIED))}
    folder = None
    if adapted:
        folder = tmp_path / "fit"
        folder.mkdir()
        training = drawn(3, [f"s{number}-0" for number in range(12)])
        cosine.Backend.fit(settings, training.vectors, training.speakers, folder, within_session=False)
        inputs["backend"] = Value("fit", folder)
    function = functools.partial(score.score_trials, cosine.Backend, settings)
    made_of = made(function, tmp_path / "store", trials=Value(LIST.digest, LIST), **inputs)
    table = pd.read_parquet(made_of.path(scores.TRIALS))
    backend = cosine.Backend(settings, folder)
    enrolled, tried = drawn(1, ENROLLED, ["a-1"]), drawn(2, TRIED)
    assert len(table) == 9
    for row in table.itertuples():
        own = [place for place, name in enumerate(ENROLLED) if name[0] == row.model and name != "a-1"]
        trial = tried.vectors[[TRIED.index(row.utterance)]]
        single = [
            backend.score(backend.enrol(enrolled.vectors[[place]], np.array([0]), 1), trial)[0, 0] for place in own
        ]
        assert row.score == pytest.approx(float(join(single)), abs=1e-10)
    assert len([place for place, name in enumerate(ENROLLED) if name[0] == "a"]) == 3


@pytest.mark.parametrize(
    ("extractor", "known", "heard", "why"),
    [
        (_Embedding, (), INPUTS, "0 speakers have a reference"),
        (_Histogram, (), INPUTS, "0 speakers have a reference"),
        (_Histogram, KNOWN[:1], (), "1 speakers have a reference"),
        (_Embedding, KNOWN, (), "no input of a speaker with a reference"),
    ],
)
def test_without_references_or_inputs_there_is_no_value_and_the_reason(
    extractor: type[contracts.Extractor], known: Sequence[str], heard: Sequence[str], why: str, tmp_path: Path
) -> None:
    """Only ``known`` and ``heard`` can be used: what is missing is named, and no number is made up."""
    gone = [*(name for name in KNOWN if name not in known), *(name for name in INPUTS if name not in heard)]
    given_ = {"reference": given(drawn(3, KNOWN, gone)), "input": given(segments(4, lost=gone))}
    ranks = Task("score", "ranks", functools.partial(score.score_ranks, extractor), inputs=given_)
    function = functools.partial(measure.measure, srd.MetricFamily, srd.SrdSettings(), measure.Context(len(INPUTS)))
    task = Task("measure", "measure", function, inputs={"scores": ranks.ref()})
    done = execute([ranks, task], Store(tmp_path))
    matrix = scores.read(done.artefact(ranks.ref()).folder)
    assert [name for name, _ in (*matrix.lost, *matrix.ties)] == gone
    rows = pd.read_parquet(done.artefact(task.ref()).path(measure.ROWS))
    assert sorted(rows["metric"]) == ["idr", "max_d", "mean_d", "rank_spread"] and rows["value"].isna().all()
    assert rows["reason"].str.contains(why).all()
