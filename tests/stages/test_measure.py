"""What the measure stage gives a family to read of the scores, and what it writes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest

from pipeline import contracts
from pipeline.contracts import (
    ComponentSettings,
    Measured,
    Metric,
    PairRuns,
    Pairs,
    ProtectedPairs,
    Ranks,
    Reads,
    Row,
    TrialRuns,
    Trials,
    numeric,
)
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Task, Work
from pipeline.metrics import MetricError
from pipeline.stages.scores import measure
from pipeline.stages.scores.measure import Context
from pipeline.tables import scores
from pipeline.tables.scores import ScoreMatrix
from tests.running import execute


class _Settings(ComponentSettings):
    name: Literal["kept"] = numeric("kept")


class _Family(contracts.MetricFamily):
    """Keeps what it was given to read."""

    Settings = _Settings
    title = "Kept"
    metrics: ClassVar[Mapping[str, Metric]] = {"total": Metric("T", "Total", "A sum.", "bit", "lower")}
    seen: ClassVar[list[Any]] = []

    @classmethod
    def measure(cls, settings: Any, data: Any) -> Measured:
        cls.seen.append(data)
        table = pd.DataFrame({"x": [1, 2]})
        return Measured([Row("total", 3.5, n_used=2, n_expected=3)], {"figure": table}, {"remark": "so"})


def family(kind: Reads) -> type[_Family]:
    return type(f"_Family_{kind}", (_Family,), {"reads": kind, "seen": []})


def wrote(name: str, write: Callable[[Path], Any]) -> Task:
    def function(work: Work) -> None:
        write(work.folder())

    return Task("score", name, function, {"name": name})


def measured(
    kind: Reads, context: Context, store: Path, of: type[_Family] | None = None, **inputs: Task
) -> tuple[Any, Artefact]:
    """What a family of this kind is given of these score tasks, and the artefact of the measure."""
    chosen = of or family(kind)
    function = functools.partial(measure.measure, chosen, _Settings(), context)
    task = Task("measure", "measure", function, inputs={name: made.ref() for name, made in inputs.items()})
    outcome = execute([*inputs.values(), task], Store(store))
    return chosen.seen[-1] if chosen.seen else None, outcome.artefact(task.ref())


# Trials --------------------------------------------------------------------------------------------------------------

TRIED = pd.DataFrame(
    [("a", "b", "m-a", "b-1", -0.5, False), ("a", "a", "m-a", "a-1", 0.75, True), ("b", "b", "m-b", "b-1", 0.25, True)],
    columns=["model_speaker", "speaker", "model", "utterance", "score", "target"],
)


def trial_scores(name: str, table: pd.DataFrame, thinned: Sequence[tuple[str, str, str]] = ()) -> Task:
    def write(folder: Path) -> None:
        table.to_parquet(folder / scores.TRIALS, index=False)
        scores.write_thinned(folder, thinned)

    return wrote(f"{name} {thinned}", write)


@pytest.mark.parametrize("are_llrs", [True, False])
def test_trials_are_read_as_they_stand(are_llrs: bool, tmp_path: Path) -> None:
    data, _ = measured("trials", Context(5, are_llrs), tmp_path, scores=trial_scores("one", TRIED))
    assert isinstance(data, Trials)
    assert data.scores.tolist() == [-0.5, 0.75, 0.25] and data.scores.dtype == np.float64
    assert data.target.tolist() == [False, True, True] and data.target.dtype == bool
    assert data.models.tolist() == ["a", "a", "b"] and data.speakers.tolist() == ["b", "a", "b"]
    assert (data.n_expected, data.are_llrs) == (5, are_llrs)


def test_two_runs_are_of_the_same_trials_in_the_same_order(tmp_path: Path) -> None:
    second = TRIED.assign(score=[1.0, 2.0, 3.0])
    data, _ = measured(
        "trial_runs", Context(3), tmp_path, scores=trial_scores("0", TRIED), scores_again=trial_scores("1", second)
    )
    assert isinstance(data, TrialRuns)
    assert data.first.scores.tolist() == [-0.5, 0.75, 0.25] and data.second.scores.tolist() == [1, 2, 3]
    others = {
        "shorter": (second.iloc[:2], [-0.5, 0.75], [1, 2]),
        "in another order": (second.iloc[::-1], [-0.5, 0.75, 0.25], [1, 2, 3]),
        "with another trial": (second.assign(utterance=["b-1", "a-1", "b-2"]), [-0.5, 0.75], [1, 2]),
    }
    for name, (other, before, after) in others.items():
        data, _ = measured(
            "trial_runs",
            Context(3),
            tmp_path / name,
            scores=trial_scores("0", TRIED),
            scores_again=trial_scores(name, other),
        )
        assert isinstance(data, TrialRuns) and data.second.n_expected == 3
        assert (data.first.scores.tolist(), data.second.scores.tolist()) == (before, after), name
        assert data.first.speakers.tolist() == data.second.speakers.tolist()
        assert data.first.utterances is not None and data.second.utterances is not None
        assert data.first.utterances.tolist() == data.second.utterances.tolist()


@pytest.mark.parametrize("kind", ["trials", "trial_runs"])
def test_models_that_lack_a_recording_make_trials_partial_by_name(kind: Reads, tmp_path: Path) -> None:
    thinned = [("m-a", "a-7", "silent"), ("m-a", "a-8", "silent"), ("m-b", "b-7", "silent")]
    runs = {"scores": trial_scores("0", TRIED, thinned[:1]), "scores_again": trial_scores("1", TRIED, thinned)}
    inputs = runs if kind == "trial_runs" else {"scores": trial_scores("one", TRIED, thinned)}
    notes = measured(kind, Context(3), tmp_path, **inputs)[1].record["notes"]
    assert notes["partial"] is True
    assert notes["lacking"] == (
        "models made of fewer enrolment recordings than are listed: 2 (m-a, m-b without a-7, a-8, b-7)"
    )


# Pairs ---------------------------------------------------------------------------------------------------------------

# What a score should be, by the two ids alone: blocks with other rows and columns hold the same numbers.
LETTERS = {name: float(place) for place, name in enumerate("abcdefgh", 1)}


def value(block: str, row: str, column: str) -> float:
    return {"oo": 0.0, "op": 1000.0, "pp": 2000.0, "p0p1": 3000.0}[block] + 10 * LETTERS[row] + LETTERS[column]


def matrix(block: str, rows: str, columns: str, lost: Sequence[str] = ()) -> Task:
    """The scores of a block; utterance ``x`` is of speaker ``X``."""
    made = ScoreMatrix(
        np.array([[value(block, row, column) for column in columns] for row in rows]),
        tuple(rows),
        tuple(rows.upper()),
        tuple(columns),
        tuple(columns.upper()),
        tuple((name, "silent") for name in lost),
    )
    return wrote(f"{block} {rows} {columns}", lambda folder: scores.write(folder, made))


def block(name: str, ids: str) -> list[list[float]]:
    return [[value(name, row, column) for column in ids] for row in ids]


@pytest.mark.parametrize(
    ("original", "protected", "both"),
    [
        ("abcd", "abcd", "abcd"),
        ("abd", "abcd", "abd"),  # c was lost before it was protected
        ("abcd", "bcd", "bcd"),
        ("abde", "acdf", "ad"),
        ("dbca", "abcd", "dbca"),  # another order: the ids decide, not the places
    ],
)
def test_pairs_are_of_the_utterances_that_both_sides_have(
    original: str, protected: str, both: str, tmp_path: Path
) -> None:
    data, made = measured(
        "pairs",
        Context(6),
        tmp_path,
        oo=matrix("oo", original, original),
        op=matrix("op", original, protected),
        pp=matrix("pp", protected, protected),
    )
    assert isinstance(data, Pairs)
    assert data.oo.tolist() == block("oo", both)
    assert data.op.tolist() == block("op", both), "rows original, columns protected, each utterance in its place"
    assert data.pp.tolist() == block("pp", both)
    assert data.speakers.tolist() == list(both.upper())
    assert data.n_expected == 6
    assert made.record["notes"]["partial"] is False


@pytest.mark.parametrize("where", ["oo", "op", "pp"])
def test_a_loss_in_any_block_makes_pairs_partial(where: str, tmp_path: Path) -> None:
    blocks = {name: matrix(name, "ab", "ab", ["c"] if name == where else []) for name in ("oo", "op", "pp")}
    assert measured("pairs", Context(3), tmp_path, **blocks)[1].record["notes"]["partial"] is True


def test_pairs_of_protected_speech_alone_are_measured_as_such(tmp_path: Path) -> None:
    class Adapted(_Family):
        reads: ClassVar[Reads] = "pairs"
        seen: ClassVar[list[Any]] = []
        protected_metrics: ClassVar[tuple[str, ...]] = ("total",)

        @classmethod
        def measure_protected(cls, settings: Any, data: Any) -> Measured:
            cls.seen.append(data)
            if not data.n_expected:
                raise MetricError("nobody")
            return Measured([Row("total", 1.0)])

    pp = matrix("pp", "dbca", "abcd", ["e"])
    data, made = measured("pairs", Context(5, protected=True), tmp_path, Adapted, pp=pp)
    assert isinstance(data, ProtectedPairs) and data.pp.tolist() == block("pp", "dbca")
    assert (data.speakers.tolist(), data.n_expected) == (list("DBCA"), 5)
    assert made.record["notes"]["partial"] is True and "e" in made.record["notes"]["lacking"]
    _, made = measured("pairs", Context(0, protected=True), tmp_path / "none", Adapted, pp=pp)
    (row,) = pd.read_parquet(made.path(measure.ROWS)).to_dict("records")
    assert (row["metric"], row["reason"]) == ("total", "kept cannot be computed: nobody")


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [("abc", "abc", "abc"), ("abcd", "acd", "acd"), ("acd", "abcd", "acd"), ("cab", "abd", "ab")],
)
def test_two_runs_are_of_the_utterances_that_both_have(first: str, second: str, both: str, tmp_path: Path) -> None:
    data, made = measured(
        "pair_runs", Context(4), tmp_path, pp=matrix("pp", first, first), p0p1=matrix("p0p1", first, second)
    )
    assert isinstance(data, PairRuns)
    assert data.pp.tolist() == block("pp", both) and data.p0p1.tolist() == block("p0p1", both)
    assert (data.speakers.tolist(), data.n_expected) == (list(both.upper()), 4)
    assert made.record["notes"]["partial"] is False


@pytest.mark.parametrize("where", ["pp", "p0p1"])
def test_a_loss_in_either_run_makes_them_partial(where: str, tmp_path: Path) -> None:
    blocks = {name: matrix(name, "ab", "ab", ["c"] if name == where else []) for name in ("pp", "p0p1")}
    assert measured("pair_runs", Context(3), tmp_path, **blocks)[1].record["notes"]["partial"] is True


# Ranks ---------------------------------------------------------------------------------------------------------------


def similarities(lost: Sequence[str] = (), ties: Sequence[str] = ()) -> Task:
    made = ScoreMatrix(
        np.arange(8.0).reshape(4, 2),
        ("b#0", "a#0", "b#1", "a#1"),
        ("b", "a", "b", "a"),
        ("a", "b"),
        ("a", "b"),
        tuple((name, "silent") for name in lost),
        tuple((name, "unvoiced") for name in ties),
    )
    return wrote(f"ranks {lost} {ties}", lambda folder: scores.write(folder, made))


@pytest.mark.parametrize(
    ("lost", "ties", "without", "partial"),
    [([], [], 0, False), (["c#0"], [], 0, True), ([], ["a#0", "b#1"], 2, False), ([], ["a#0", "a-7"], 1, False)],
)
def test_ranks_know_the_column_of_the_true_speaker_and_count_inputs_without_evidence(
    lost: list[str], ties: list[str], without: int, partial: bool, tmp_path: Path
) -> None:
    """A reference without evidence (a-7) is named among the ties, and is no input."""
    data, made = measured("ranks", Context(5), tmp_path, scores=similarities(lost, ties))
    assert isinstance(data, Ranks)
    assert data.similarity.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert data.true.tolist() == [1, 0, 1, 0] and data.speakers == ("a", "b")
    assert (data.n_expected, data.without_evidence) == (5, without)
    assert made.record["notes"]["partial"] is partial


# What it writes ------------------------------------------------------------------------------------------------------


def test_rows_have_the_unit_and_direction_of_the_family_and_figures_are_tables(tmp_path: Path) -> None:
    _, made = measured("trials", Context(3), tmp_path, scores=trial_scores("one", TRIED))
    assert {path.name for path in made.folder.iterdir()} == {"rows.parquet", "figure.parquet", "record.json"}
    (row,) = pd.read_parquet(made.path(measure.ROWS)).to_dict("records")
    assert (row["metric"], row["value"], row["unit"], row["direction"]) == (
        "total",
        3.5,
        "bit",
        "lower is more private",
    )
    assert (row["n_used"], row["n_expected"]) == (2, 3)
    assert pd.read_parquet(made.path("figure.parquet"))["x"].tolist() == [1, 2]
    notes = json.loads((made.folder / "record.json").read_text())["notes"]
    assert (notes["remark"], notes["partial"]) == ("so", False)


def test_a_metric_that_is_not_defined_on_the_data_has_no_value_and_the_reason(tmp_path: Path) -> None:
    class Refusing(_Family):
        reads = "trials"

        @classmethod
        def measure(cls, settings: Any, data: Any) -> Measured:
            raise MetricError("no target scores")

    _, made = measured("trials", Context(3), tmp_path, Refusing, scores=trial_scores("one", TRIED))
    (row,) = pd.read_parquet(made.path(measure.ROWS)).to_dict("records")
    assert row["metric"] == "total" and np.isnan(row["value"])
    assert row["reason"] == made.record["notes"]["undefined"] == "kept cannot be computed: no target scores"


def test_every_kind_that_a_family_may_read_has_its_reader() -> None:
    assert set(measure.READERS) == set(contracts.Reads.__args__)  # type: ignore[attr-defined]
