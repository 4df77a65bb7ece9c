"""``pipeline.evaluate``, ``plan`` and ``read`` on toys: the result against vectors and lists that the test wrote itself."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import pipeline as vp
from pipeline import evaluation
from pipeline.errors import ConfigError, DataError, PartialResult
from pipeline.evaluation import SimilarityMatrices
from pipeline.metrics import trial_metrics
from tests import toy
from tests.e2e.test_precomputed import written

SYSTEMS = ("original", "b2", "b2r")


@dataclass(frozen=True)
class Toys:
    """A data set, the vectors of two made-up extractors by system, and what asks for an evaluation of them."""

    home: Path
    root: Path
    vectors: dict[tuple[str, str], dict[str, np.ndarray]] = field(default_factory=dict)

    def given(self, *more: str, exp: str = "exp") -> list[str]:
        def files(ear: str) -> str:
            return ", ".join(f"{system}: {self.home / f'{ear}-{system}'}" for system in SYSTEMS)

        return [
            "recipe=kaldi", f"dataset.root={self.root}", f"paths.root={self.home / exp}", "system=[b2,b2r]",
            "extractor=[precomputed]", f"+extractor.precomputed.vectors={{{files('precomputed')}}}",
            f"+extractor.other={{name: precomputed, vectors: {{{files('other')}}}}}",
            "attacker=[ignorant,lazy_informed]", "metric=[asv,vsm,srd]", "metric.srd.unit=utterance", "metric.srd.replicates=0",
            "metric.asv.interval=none", "metric.vsm.interval=none", "metric.srd.interval=none", "diagnostics=false",
            "runtime.device=cpu", "runtime.threads=1", *more,
        ]  # fmt: skip

    def speakers(self, name: str) -> dict[str, str]:
        """Speaker by utterance of a set, in the order of the ids."""
        lines = (self.root / name / "utt2spk").read_text().split("\n")
        return dict(sorted(line.split() for line in lines if line))

    def trials(self, name: str) -> dict[tuple[str, str], bool]:
        lines = (self.root / name / "trials").read_text().splitlines()
        return {(model, utterance): label == "target" for model, utterance, label in map(str.split, lines)}


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    home = tmp_path_factory.mktemp("api")
    made = Toys(home, toy.corpus(home / "data", speakers=6, utterances=6))
    for seed, (ear, system) in enumerate((ear, system) for ear in ("precomputed", "other") for system in SYSTEMS):
        made.vectors[ear, system] = written(made.root, home / f"{ear}-{system}", seed)
    return made


@pytest.fixture(scope="module")
def result(toys: Toys) -> vp.Result:
    return vp.evaluate(*toys.given())


def unit(vector: np.ndarray) -> np.ndarray:
    wide = vector.astype(np.float64)
    return wide / np.sqrt((wide**2).sum())


ONE = {"system": "b2", "subset": "toy_trials_f", "extractor": "precomputed"}


# Evaluating ----------------------------------------------------------------------------------------------------------


def test_an_evaluation_leaves_a_run_and_prints_nothing(toys: Toys, capfd: pytest.CaptureFixture[str]) -> None:
    made = vp.evaluate(*toys.given())
    assert capfd.readouterr().out == ""
    assert made.error is None
    assert made.folder.parent == toys.home / "exp" / "runs"
    assert (made.folder / "overrides.txt").read_text().splitlines() == toys.given()
    assert made.systems == ["b2", "b2r"]


def test_the_same_again_computes_nothing_and_gives_the_same_numbers(toys: Toys, result: vp.Result) -> None:
    again = vp.evaluate(*toys.given())
    assert (again.computed, again.reused) == (0, result.computed + result.reused)
    assert again.folder != result.folder
    pd.testing.assert_frame_equal(again.rows.drop(columns="run_id"), result.rows.drop(columns="run_id"))


def test_a_plan_says_what_would_be_reused_and_computed(toys: Toys, result: vp.Result) -> None:
    done = vp.plan(*toys.given())
    assert all(reused for _, reused in done.tasks) and len(done.tasks) == result.reused + result.computed
    new = vp.plan(*toys.given(exp="nowhere"))
    assert not any(reused for _, reused in new.tasks)
    assert [task.label for task, _ in new.tasks] == [task.label for task, _ in done.tasks]
    counts = new.counts()
    assert set(counts) == {"anonymise", "check", "score", "measure"}, "vectors are read, not extracted"
    assert str(new).splitlines() == [f"{name}: 0 reused, {missing} to compute" for name, (_, missing) in counts.items()]
    assert not (toys.home / "nowhere" / "runs").exists()


def test_a_change_of_a_metric_measures_anew_and_nothing_else(toys: Toys, result: vp.Result) -> None:
    planned = vp.plan(*toys.given("metric.srd.halves_seed=1"))
    assert {task.label.split()[0] for task, reused in planned.tasks if not reused} == {"score", "measure"}
    assert all("ranks" in task.label for task, reused in planned.tasks if not reused and task.name == "score")
    planned = vp.plan(*toys.given("metric.vsm.pairing=vpc2020"))
    assert {task.label.split()[1] for task, reused in planned.tasks if not reused} == {"vsm"}


def test_it_works_outside_the_main_thread(toys: Toys, result: vp.Result) -> None:
    """Signals can only be listened to in the main thread; a notebook's server may use another."""
    found: list[vp.Planned] = []
    thread = threading.Thread(target=lambda: found.append(vp.plan(*toys.given())))
    thread.start()
    thread.join(timeout=toy.HANGS)
    assert all(reused for _, reused in found[0].tasks)


def test_faults_are_raised_all_at_once(toys: Toys) -> None:
    with pytest.raises(ConfigError) as caught:
        vp.evaluate(*toys.given("runtime.threads=0", "system.b2.alfa=1"))
    assert {fault.where for fault in caught.value.faults} == {"runtime.threads", "system.b2.alfa"}
    with pytest.raises(ConfigError, match="no option 'b9'"):
        vp.plan("system=b9")
    with pytest.raises(DataError):
        vp.evaluate(*toys.given(f"dataset.root={toys.home / 'gone'}"))


@pytest.mark.slow
def test_what_does_not_stand_on_everything_is_told_by_the_result(toys: Toys, result: vp.Result) -> None:
    ranked = result.ranks(system="b2", extractor="other").index.get_level_values("input")
    lost = next(name for name in toys.speakers("toy_trials_f") if name in ranked)
    few = toys.home / "few"
    few.mkdir()
    lines = (toys.home / "other-b2" / "xvector.scp").read_text().splitlines(keepends=True)
    (few / "xvector.scp").write_text("".join(line for line in lines if line.split()[0] != lost))
    given = toys.given(f"extractor.other.vectors.b2={few}", exp="partial")
    with pytest.raises(DataError, match=lost):
        vp.evaluate(*given)
    made = vp.evaluate(*given, "allow_partial=true")
    assert isinstance(made.error, PartialResult) and made.error.status == 6 and lost in str(made.error)
    rows = made.rows
    short = rows["status"] == "partial"
    assert short.any() and set(rows.loc[short, "extractor"]) == {"other"} and set(rows.loc[short, "system"]) == {"b2"}
    assert (rows.loc[short, "n_used"] < rows.loc[short, "n_expected"]).all()


# Reading -------------------------------------------------------------------------------------------------------------


def test_a_run_is_read_by_its_folder(result: vp.Result) -> None:
    for run in (result.folder, str(result.folder)):
        found = vp.read(run)
        pd.testing.assert_frame_equal(found.rows, result.rows)
        assert (found.reused, found.computed, found.error) == (0, 0, None)
        pd.testing.assert_frame_equal(
            found.scores(**ONE, attacker="ignorant"), result.scores(**ONE, attacker="ignorant")
        )
    with pytest.raises(ConfigError, match="no finished run"):
        vp.read(result.folder.parent)


def test_rows_are_of_every_metric_system_and_extractor(result: vp.Result) -> None:
    rows = result.rows
    assert set(rows["status"]) == {"ok"} and set(rows["run_id"]) == {result.folder.name}
    eer = rows[rows["metric"] == "eer"]
    assert {tuple(row) for row in eer[["system", "attacker", "extractor", "subset"]].to_numpy()} == {
        (system, attacker, ear, subset)
        for ear in ("precomputed", "other")
        for subset in ("toy_trials_f", "toy_trials_m", "toy (mean of f and m)")
        for system, attacker in [("original", "unprotected"), *((s, a) for s in ("b2", "b2r") for a in ("ignorant", "lazy_informed"))]
    }  # fmt: skip
    assert {"deid", "g_vd", "idr", "mean_d"} <= set(rows["metric"])
    assert set(result.diagnostics["check"]) == {"deid_against_eer"}, "of numbers that are there anyway"


# Scores --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attacker", "enrolled", "tried"),
    [("ignorant", "original", "b2r"), ("lazy_informed", "b2r", "b2r"), ("unprotected", "original", "original")],
)
def test_scores_are_those_of_the_attack(
    attacker: str, enrolled: str, tried: str, toys: Toys, result: vp.Result
) -> None:
    """Cosines of the mean unit vector of each model with each trial utterance, and the EER is theirs."""
    about = {"system": tried, "attacker": attacker, "extractor": "other", "subset": "toy_trials_m"}
    table = result.scores(**about)
    listed = toys.trials("toy_trials_m")
    assert dict(zip(zip(table["model"], table["utterance"]), table["target"])) == listed and len(table) == len(listed)
    whose = toys.speakers("toy_enrolls")
    for row in table.itertuples():
        own = [unit(toys.vectors["other", enrolled][name]) for name, who in whose.items() if who == row.model]
        expected = unit(np.mean(own, axis=0)) @ unit(toys.vectors["other", tried][row.utterance])
        assert row.score == pytest.approx(expected, abs=1e-12)
        assert (row.model_speaker, row.speaker) == (row.model, toys.speakers("toy_trials_m")[row.utterance])
    target = table["target"].to_numpy(bool)
    found = trial_metrics(table["score"].to_numpy()[target], table["score"].to_numpy()[~target])
    rows = result.rows
    same = np.logical_and.reduce([rows[name] == value for name, value in about.items()])
    values = rows[same & (rows["metric"] == "eer")].set_index("variant")["value"]
    assert values["rocch"] == found.eer["rocch"]


@pytest.mark.parametrize(
    ("block", "rows", "columns"),
    [("oo", "original", "original"), ("op", "original", "b2"), ("pp", "b2", "b2"), ("OP", "original", "b2")],
)
def test_pairs_are_of_all_utterances_of_a_set(
    block: str, rows: str, columns: str, toys: Toys, result: vp.Result
) -> None:
    table = result.pairs(block, **ONE)
    names = list(toys.speakers("toy_trials_f"))
    assert list(table.index) == list(table.columns) == names
    first, second = ([unit(toys.vectors["precomputed", side][name]) for name in names] for side in (rows, columns))
    np.testing.assert_allclose(table.to_numpy(), np.array(first) @ np.array(second).T, rtol=0, atol=1e-12)
    if block == "op":
        pd.testing.assert_frame_equal(result.pairs(**ONE), table)


def test_ranks_are_against_one_reference_a_speaker(toys: Toys, result: vp.Result) -> None:
    """Which utterances are references is the protocol's; the others are ranked, and IdR is how often they find their own."""
    table = result.ranks(system="b2", extractor="other")
    whose = {
        name: who
        for part in ("toy_enrolls", "toy_trials_f", "toy_trials_m")
        for name, who in toys.speakers(part).items()
    }
    held = toys.vectors["other", "b2"]
    ranked = list(table.index.get_level_values("input"))
    assert set(ranked) <= set(whose) and len(set(ranked)) == len(ranked) == len(whose) // 2
    references = {
        who: unit(np.mean([unit(held[name]) for name in whose if whose[name] == who and name not in ranked], axis=0))
        for who in sorted(set(whose.values()))
    }
    assert list(table.columns) == list(references)
    expected = [[unit(held[name]) @ references[who] for who in references] for name in ranked]
    np.testing.assert_allclose(table.to_numpy(), expected, rtol=0, atol=1e-6)
    assert table.index.get_level_values("speaker").tolist() == [whose[name] for name in ranked]
    found = np.mean([list(references)[np.argmax(row)] == whose[name] for row, name in zip(expected, ranked)])
    rows = result.rows
    idr = rows[(rows["metric"] == "idr") & (rows["system"] == "b2") & (rows["extractor"] == "other")]
    assert idr.set_index("estimator")["value"]["empirical"] == pytest.approx(found, abs=1e-12)


def test_what_is_ambiguous_is_refused_with_the_choices(result: vp.Result) -> None:
    with pytest.raises(ConfigError) as caught:
        result.scores(system="b2", extractor="other")
    assert "4 sets of scores are meant; say which by " in caught.value.what
    assert {"subset", "attacker"} <= set(re.split(r"[ ,]+", caught.value.what))
    assert "attacker: ignorant, lazy_informed" in caught.value.where
    assert "subset: toy_trials_f, toy_trials_m" in caught.value.where
    with pytest.raises(ConfigError, match="say which by subset, extractor"):
        result.pairs("op", system="b2")
    with pytest.raises(ConfigError, match=r"say which by .*system"):
        result.ranks(extractor="other")
    with pytest.raises(ConfigError, match="several matrices; say which by subset, extractor, block"):
        result.matrix(system="b2").to_frame()


def test_what_is_not_there_is_refused_with_what_is(result: vp.Result) -> None:
    with pytest.raises(ConfigError, match=r"nothing has system='b3'.*there is: b2, b2r, original"):
        result.scores(system="b3")
    with pytest.raises(ConfigError, match=r"nothing has attacker='lazy_informed'.*there is: unprotected"):
        result.scores(system="original", attacker="lazy_informed")
    with pytest.raises(ConfigError, match=r"there is no column 'sytem'.*known: .*system"):
        result.matrix(sytem="b2")
    with pytest.raises(ConfigError, match=r"there is no block 'po'.*known: oo, op, pp"):
        result.pairs("po", **ONE)


# Matrices, tables, report --------------------------------------------------------------------------------------------


def test_a_matrix_is_named_by_speaker_and_drawn(toys: Toys, result: vp.Result) -> None:
    matrices = result.matrix(**ONE)
    assert isinstance(matrices, SimilarityMatrices)
    assert set(matrices.table["block"]) == {"OO", "OP", "PP"} and set(matrices.table["system"]) == {"b2"}
    names = sorted(set(toys.speakers("toy_trials_f").values()))
    frames = {}
    for block in ("OO", "OP", "PP"):
        frames[block] = result.matrix(block.lower(), **ONE).to_frame()
        assert list(frames[block].index) == list(frames[block].columns) == names
    assert np.allclose(frames["OO"], frames["OO"].T) and not np.allclose(frames["OP"], frames["OP"].T)
    figure = matrices.plot()
    assert isinstance(figure, Figure)
    drawn = [axis.get_images()[0].get_array() for axis in figure.axes if axis.get_images()]
    assert len(drawn) == 3
    for image, frame in zip(drawn, frames.values(), strict=True):
        np.testing.assert_allclose(np.ma.filled(image, np.nan), frame.to_numpy())
    assert len([axis for axis in result.matrix(system="b2").plot().axes if axis.get_images()]) == 3 * 2 * 2


def test_a_run_without_matrices_pairs_or_ranks_says_what_to_add(toys: Toys, result: vp.Result) -> None:
    given = [one for one in toys.given() if not one.startswith(("metric.vsm", "metric.srd", "metric="))]
    made = vp.evaluate(*given, "metric=[asv]")
    with pytest.raises(ConfigError, match="no similarity matrices") as caught:
        made.matrix(system="b2")
    assert "vsm" in caught.value.remedy
    for ask in (made.pairs, made.ranks):
        with pytest.raises(ConfigError, match=r"this run has no scores of (pairs|ranks)"):
            ask(system="b2")
    assert len(made.scores(**ONE, attacker="ignorant"))


def test_tables_hold_the_numbers_of_the_rows(result: vp.Result) -> None:
    rows = result.rows
    eer = rows[(rows["metric"] == "eer") & (rows["variant"] == "rocch")]
    shown = [f"{100 * value:.2f}" for value in eer["value"]]
    assert len(shown) == 30
    for text in (result.summary(), result.to_markdown(), result.to_latex()):
        assert all(value in text for value in shown)
        assert all(name in text for name in ("b2r", "original", "ignorant", "precomputed", "other"))
    latex = result.to_latex()
    assert latex.count("\\toprule") == latex.count("\\bottomrule") >= 3, "one table a family"
    assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}")
    assert re.search(r"^\|.*EER", result.to_markdown(), re.MULTILINE)


def test_equal_signatures_are_comparable_numbers(result: vp.Result) -> None:
    rows = result.rows
    eer = rows[(rows["metric"] == "eer") & (rows["attacker"] == "lazy_informed") & (rows["subset"] == "toy_trials_f")]
    first = eer.iloc[0]
    assert result.signature(first) == first["signature"] == result.signature(first.to_dict())
    assert result.signature(first).startswith("eer")
    signatures = {key: set(part["signature"]) for key, part in eer.groupby(["system", "extractor"])}
    assert signatures["b2", "other"] == signatures["b2r", "other"]
    assert not signatures["b2", "other"] & set(rows.loc[rows["attacker"] == "ignorant", "signature"])


def test_the_report_is_one_page_and_can_be_written_elsewhere(toys: Toys, result: vp.Result) -> None:
    page = result.report()
    assert page == result.folder / "report.html" and page.is_absolute()
    elsewhere = result.report(toys.home / "copy.html")
    assert elsewhere == toys.home / "copy.html"
    for path in (page, elsewhere):
        assert "Voice similarity matrices" in path.read_text()
    assert result.report(str(toys.home / "copy.html")) == elsewhere


# The store -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_store(toys: Toys, result: vp.Result) -> Iterator[None]:
    store = toys.home / "exp" / "store"
    aside = store.rename(toys.home / "aside")
    yield
    aside.rename(store)


@pytest.mark.slow
def test_a_removed_store_is_said_and_all_but_the_scores_is_there(
    without_store: None, result: vp.Result, tmp_path: Path
) -> None:
    found = vp.read(result.folder)
    for ask in (lambda: found.scores(**ONE, attacker="ignorant"), lambda: found.pairs("op", **ONE),
                lambda: found.ranks(system="b2", extractor="other")):  # fmt: skip
        with pytest.raises(DataError, match="the store does not hold these scores any more") as caught:
            ask()
        assert "run the same command again" in caught.value.remedy
    pd.testing.assert_frame_equal(found.rows, result.rows)
    assert found.summary() == result.summary()
    pd.testing.assert_frame_equal(found.matrix("oo", **ONE).to_frame(), result.matrix("oo", **ONE).to_frame())
    assert found.report().is_file() and found.report(tmp_path / "again.html").is_file()


def test_scores_are_found_when_run_and_store_are_moved_together(toys: Toys, result: vp.Result) -> None:
    before = result.scores(**ONE, attacker="ignorant")
    moved = (toys.home / "exp").rename(toys.home / "moved")
    try:
        found = vp.read(moved / "runs" / result.folder.name)
        pd.testing.assert_frame_equal(found.scores(**ONE, attacker="ignorant"), before)
    finally:
        moved.rename(toys.home / "exp")


# Importing -----------------------------------------------------------------------------------------------------------


def loaded(code: str) -> set[str]:
    """Top-level modules that a process has loaded after some code."""
    script = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"torch", "numpy", "pandas", "scipy", "pyarrow", "hydra", "omegaconf", "pydantic", "matplotlib", "librosa", "numba",
         "speechbrain", "soundfile", "yaml"}  # fmt: skip


def test_importing_loads_nothing() -> None:
    assert not HEAVY & loaded("import pipeline")
    assert not HEAVY & loaded(
        "import pipeline; pipeline.evaluate, pipeline.plan, pipeline.read, pipeline.__version__, pipeline.errors"
    )


def test_metrics_need_numpy_and_scipy_alone() -> None:
    assert HEAVY & loaded("import pipeline; pipeline.metrics.eer") <= {"numpy", "scipy"}


def test_everything_that_is_promised_is_there() -> None:
    assert set(vp.__all__) >= {"evaluate", "plan", "read", "metrics", "contracts", "errors", "Result", "Planned"}
    for name in vp.__all__:
        assert getattr(vp, name) is not None
    assert (vp.Result, vp.Planned) == (evaluation.Result, evaluation.Planned)
    with pytest.raises(AttributeError, match="no attribute 'evalaute'"):
        vp.evalaute  # type: ignore[attr-defined]  # noqa: B018


def test_examples_in_docstrings_run() -> None:
    """Of all modules that have any; those of ``pipeline.metrics`` have a test of their own, too."""
    root = Path(vp.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            name = ".".join(["pipeline", *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
            assert not doctest.testmod(importlib.import_module(name)).failed, name
