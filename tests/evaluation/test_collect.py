"""Gathering: rows of measures as results, with what they are about, what they stand on, and what is said of losses."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import pytest

from pipeline import contracts
from pipeline.cli.compose import compose
from pipeline.contracts import ComponentSettings, Metric, Row, numeric
from pipeline.datasets.corpus import Dropped
from pipeline.datasets.prepare import Prepared
from pipeline.engine.store import Store
from pipeline.engine.task import Input, Task, Value, Work
from pipeline.evaluation import collect
from pipeline.evaluation.collect import Collected
from pipeline.stages.graph import Graph, Measurement
from pipeline.tables import results, run_files
from pipeline.version import __version__
from tests.running import execute

IDENTITY = {
    "dataset": "toys",
    "subset": "x_trials",
    "condition": "PP",
    "system": "b2",
    "system_level": "speaker",
    "attacker": "lazy",
    "extractor": "ear",
    "trained_on": "original",
    "backend": "cosine",
    "calibration": "oracle",
}


class _Settings(ComponentSettings):
    name: Literal["some"] = numeric("some")


class _Family(contracts.MetricFamily):
    Settings = _Settings
    reads = "trials"
    title = "Some"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "deid": Metric("D", "De-identification", "A share.", "fraction", "higher", (0, 1))
    }

    @classmethod
    def measure(cls, settings: Any, data: Any) -> contracts.Measured:
        raise AssertionError("rows are given")


def scored(name: str, **notes: Any) -> Task:
    """Scores, in the record of which these notes stand."""

    def function(work: Work) -> None:
        (work.folder() / "scores").write_text(name)
        work.note(**notes)

    return Task("score", name, function, {"name": name})


def source(
    *rows: Row,
    figure: str = "",
    partial: bool = False,
    scores: Task | None = None,
    model: Input | None = None,
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
    **identity: str,
) -> Measurement:
    """A measure that wrote these rows, and a figure table of one value."""

    def function(work: Work) -> None:
        pd.DataFrame([_Family.record(row) for row in rows]).to_parquet(work.folder() / "rows.parquet", index=False)
        if figure:
            pd.DataFrame({"y": [figure]}).to_parquet(work.folder() / "profile.parquet", index=False)
        work.note(partial=partial)

    inputs: dict[str, Input] = {"settings": Value("given", None)}
    if scores is not None:
        inputs["scores"] = scores.ref()
    about = {**IDENTITY, **identity}
    settings = {"rows": repr(rows), "figure": figure, "partial": partial, "about": repr(about)}
    task = Task("measure", f"measure {about}", function, settings, inputs)
    return Measurement(about, task.ref(), parameters or {"settings": {"a": 1}}, "trials", model, note)


def gathered(
    tmp_path: Path,
    *sources: Measurement,
    more: list[Task] | None = None,
    dropped: tuple[Dropped, ...] = (),
    **asked: str,
) -> tuple[Collected, Path]:
    """What is gathered of these measures, and the run folder."""
    graph = Graph()
    for one in sources:
        for task in (ref.task for ref in one.ref.task.sources()):
            graph.add(task)
        graph.add(one.ref.task)
    for task in more or []:
        graph.add(task)
    graph.products.extend(sources)
    outcome = execute(graph.tasks, Store(tmp_path / "store"))
    folder = tmp_path / "runs" / f"run-{len(list(tmp_path.glob('runs/*')))}"
    folder.mkdir(parents=True)
    data = Prepared("toys", pd.DataFrame(), {}, {}, dropped, ())
    evaluation = compose([f"{name}={value}" for name, value in asked.items()])[0]
    return collect.collect(graph, data, outcome, folder, "run-1", "cpu", evaluation), folder


FULL = Row(
    "deid", 0.5, low=0.4, high=0.6, null_low=0.1, null_high=0.9, ceiling=1.0, n_expected=8, n_used=8, n_speakers=4
)
SHORT = Row(
    "deid", 0.25, low=0.2, high=0.3, null_low=0.1, null_high=0.9, ceiling=1.0, label="low", n_expected=8, n_used=7
)


def only(found: Collected) -> dict[str, Any]:
    (row,) = found.rows.to_dict("records")
    return {str(name): value for name, value in row.items()}


# A complete row ------------------------------------------------------------------------------------------------------


def test_a_row_says_what_it_is_about_and_what_it_stands_on(tmp_path: Path) -> None:
    row = only(gathered(tmp_path, source(FULL))[0])
    assert {name: row[name] for name in IDENTITY} == IDENTITY
    assert (row["metric"], row["value"], row["low"], row["high"]) == ("deid", 0.5, 0.4, 0.6)
    assert (row["null_low"], row["null_high"], row["ceiling"]) == (0.1, 0.9, 1.0)
    assert (row["unit"], row["direction"]) == ("fraction", "higher is more private")
    assert (row["n_expected"], row["n_used"], row["n_speakers"]) == (8, 8, 4)
    assert pd.isna(row["n_target"]) and pd.isna(row["n_nontarget"])
    assert (row["status"], row["reason"], row["note"], row["model_digest"]) == ("ok", "", "", "")
    assert (row["run_id"], row["device"], row["code_version"], row["schema_version"]) == (
        "run-1",
        "cpu",
        __version__,
        2,
    )


def test_what_is_written_is_what_is_gathered(tmp_path: Path) -> None:
    several = [source(FULL, system=name) for name in ("b2", "original")]
    found, folder = gathered(tmp_path, *several)
    assert list(found.rows.columns) == results.COLUMNS
    pd.testing.assert_frame_equal(results.read(folder), found.rows)
    assert len(pd.read_csv(folder / "results.csv")) == 2


def test_a_family_may_know_its_condition_better_and_notes_are_joined(tmp_path: Path) -> None:
    row = only(
        gathered(tmp_path, source(Row("deid", 1.0, condition="OP", note="of the family"), note="of the back end"))[0]
    )
    assert row["condition"] == "OP" and "|OP|" in row["signature"]
    assert row["note"] == "of the family; of the back end"


def test_the_weights_behind_a_row_are_named_by_their_digest(tmp_path: Path) -> None:
    assert only(gathered(tmp_path, source(FULL, model=Value("of weights", None)))[0])["model_digest"] == "of weights"
    trained = scored("weights")
    row = only(gathered(tmp_path, source(FULL, model=trained.ref()), more=[trained])[0])
    (record,) = [json.loads(path.read_text()) for path in tmp_path.glob("store/score/*/*/record.json")]
    assert row["model_digest"] == record["digest"]


def test_a_value_that_is_not_there_for_a_reason_is_no_loss(tmp_path: Path) -> None:
    row = only(gathered(tmp_path, source(Row("deid", reason="one speaker alone", n_expected=8, n_used=8)))[0])
    assert math.isnan(row["value"]) and (row["status"], row["reason"]) == ("ok", "one speaker alone")


# Rows that do not stand on everything --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["counted", "said by the measure"])
def test_a_partial_value_is_not_written(how: str, tmp_path: Path) -> None:
    short = source(SHORT) if how == "counted" else source(FULL, partial=True)
    row = only(gathered(tmp_path, short)[0])
    assert all(math.isnan(row[name]) for name in ("value", "low", "high", "null_low", "null_high", "ceiling"))
    assert (row["status"], row["label"]) == ("incomplete", "")
    used = 7 if how == "counted" else 8
    assert row["reason"] == f"stands on {used} of 8; allow_partial=true would write it, marked"
    assert (row["n_expected"], row["n_used"]) == (8, used), "what it would stand on is still said"


@pytest.mark.parametrize("how", ["counted", "said by the measure"])
def test_on_request_it_is_written_and_marked(how: str, tmp_path: Path) -> None:
    short = source(SHORT) if how == "counted" else source(FULL, partial=True)
    row = only(gathered(tmp_path, short, allow_partial="true")[0])
    assert (row["status"], row["reason"]) == ("partial", "")
    assert row["value"] == (0.25 if how == "counted" else 0.5)
    assert row["label"] == ("low" if how == "counted" else "")


def test_one_partial_measure_leaves_the_others_alone(tmp_path: Path) -> None:
    rows = gathered(tmp_path, source(SHORT, system="b2"), source(FULL, system="b2r"))[0].rows.set_index("system")
    assert rows["status"].to_dict() == {"b2": "incomplete", "b2r": "ok"}
    assert math.isnan(rows["value"]["b2"]) and rows["value"]["b2r"] == 0.5


@pytest.mark.parametrize(("allowed", "drawn"), [("false", ["whole"]), ("true", ["part", "whole"])])
def test_no_figure_is_drawn_of_what_is_not_written(allowed: str, drawn: list[str], tmp_path: Path) -> None:
    parts = [source(FULL, figure="whole", system="b2r"), source(SHORT, figure="part", system="b2")]
    _, folder = gathered(tmp_path, *parts, allow_partial=allowed)
    table = pd.read_parquet(folder / "figures" / "profile.parquet")
    assert sorted(table["y"]) == drawn


# Signatures and digests ----------------------------------------------------------------------------------------------


def short_digest(value: Any) -> str:
    """As the documents say it: sha256 of canonical JSON, eight digits of it."""
    text = json.dumps([value], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def test_a_signature_holds_everything_but_the_system(tmp_path: Path) -> None:
    parameters = {"extractor": {"name": "ear"}, "calibration": "oracle"}
    row = Row("deid", 0.5, variant="rocch", estimator="empirical", input_unit="segment")
    found = only(gathered(tmp_path, source(row, parameters=parameters))[0])["signature"]
    assert found == "|".join(
        [
            "deid:rocch|estimator:empirical|input:segment|PP|attacker:lazy",
            f"extractor:{short_digest({'name': 'ear'})}",
            f"calibration:oracle|v:{__version__}",
        ]
    )


def test_a_signature_names_no_attacker_where_there_is_none(tmp_path: Path) -> None:
    found = only(gathered(tmp_path, source(FULL, attacker="", parameters={"protocol": "p"}))[0])["signature"]
    assert found == f"deid|PP|protocol:p|v:{__version__}"


def test_numbers_of_two_systems_are_comparable_and_other_parameters_are_not(tmp_path: Path) -> None:
    several = [source(FULL, system=name, system_level=level) for name, level in (("b2", "speaker"), ("b5", "none"))]
    several.append(source(FULL, system="b2r", parameters={"settings": {"a": 2}}))
    several += [source(FULL, system="b2", attacker="ignorant"), source(FULL, system="b2", condition="OP")]
    rows = gathered(tmp_path, *several)[0].rows
    lazy = rows[(rows["attacker"] == "lazy") & (rows["condition"] == "PP")].set_index("system")["signature"]
    assert lazy["b2"] == lazy["b5"] != lazy["b2r"]
    assert rows["signature"].nunique() == 4


def test_digests_of_the_configuration_and_of_the_inputs(tmp_path: Path) -> None:
    def digests(scores: str, **asked: str) -> tuple[str, str]:
        row = only(gathered(tmp_path, source(FULL, scores=scored(scores)), **asked)[0])
        return row["config_digest"], row["input_digest"]

    before = digests("one")
    assert digests("one") == before
    assert digests("one", **{"runtime.threads": "3", "paths.models": "/elsewhere"}) == before
    other = digests("one", **{"metric.srd.halves_seed": "5"})
    assert other[0] != before[0] and other[1] == before[1]
    other = digests("two")
    assert other[0] == before[0] and other[1] != before[1]


# What is beside the rows ---------------------------------------------------------------------------------------------


def test_a_table_for_a_figure_says_what_it_is_about(tmp_path: Path) -> None:
    several = [source(FULL, figure=name, system=name) for name in ("b2", "b2r")]
    _, folder = gathered(tmp_path, *several)
    table = pd.read_parquet(folder / "figures" / "profile.parquet")
    assert list(table.columns) == ["subset", "system", "condition", "attacker", "extractor", "backend", "y"]
    assert table["system"].tolist() == table["y"].tolist() == ["b2", "b2r"]
    assert set(table["extractor"]) == {"ear"}


@pytest.mark.parametrize(
    ("level", "trained_on", "shown"),
    [
        ("speaker, shared", "anonymised (speaker)", "ear, trained on anonymised"),
        ("speaker", "anonymised (utterance)", "ear, trained on anonymised (utterance)"),
        ("speaker", "original", "ear"),
    ],
)
def test_a_figure_tells_extractors_apart_by_what_they_were_trained_on(
    level: str, trained_on: str, shown: str, tmp_path: Path
) -> None:
    _, folder = gathered(tmp_path, source(FULL, figure="y", system_level=level, trained_on=trained_on))
    assert pd.read_parquet(folder / "figures" / "profile.parquet")["extractor"].tolist() == [shown]


def test_it_is_said_where_the_scores_lie(tmp_path: Path) -> None:
    one = scored("one")
    _, folder = gathered(tmp_path, source(FULL, scores=one, system="b2"), source(FULL, system="b2r"))
    table = run_files.read_artefacts(folder)
    assert table.drop(columns="path").to_dict("records") == [
        {**{name: IDENTITY[name] for name in run_files.ARTEFACT_IDENTITY}, "reads": "trials", "input": "scores"}
    ]
    place = run_files.find_store(folder) / table["path"][0]
    assert (place / "scores").read_text() == "one"
    assert not Path(table["path"][0]).is_absolute()


def test_what_was_lost_is_named_with_its_reason_and_where(tmp_path: Path) -> None:
    scores = scored("score x", lost=[["u1", "silent"], ["u0", "short"]], without_evidence=[["s#3", "unvoiced"]])
    again = scored("score y", lost=[["u1", "silent"]])
    dropped = (Dropped("u7", "x_trials", "cannot be read"),)
    found, folder = gathered(
        tmp_path, source(FULL, scores=scores, system="b2"), source(FULL, scores=again, system="b2r"), dropped=dropped
    )
    assert found.unextracted == [("u0", "short (score x)"), ("u1", "silent (score x)"), ("u1", "silent (score y)")]
    assert found.tied == [("s#3", "unvoiced (score x)")]
    assert json.loads((folder / collect.NOTES).read_text()) == {
        "left_out": [
            {"utterance": "u7", "set": "x_trials", "reason": "cannot be read"},
            *({"utterance": name, "reason": reason} for name, reason in found.unextracted),
        ],
        "without_evidence": [{"utterance": "s#3", "reason": "unvoiced (score x)"}],
    }
