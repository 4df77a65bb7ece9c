"""A run in which tasks fail: what stands on none of them is shown, whole systems alone are ranked, and everything says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest

import pipeline as vp
from pipeline import registry
from pipeline.evaluation.partial import NOT_ALL
from pipeline.tables import run_files
from tests import toy
from tests.e2e.test_adapted import training_set
from tests.running import Command, Ended, runner

QUICK = (
    "recipe=kaldi", "extractor=[ge2e]", "metric=[asv]", "metric.asv.interval=none", "runtime.device=cpu", "runtime.threads=1",
    "dataset.root=toy",
)  # fmt: skip
OF_THE_RUN = ["run_id", "config_digest"]
"""Columns that say which run a row is of, and what else was asked for."""
PLUGIN = '''
"""An anonymiser and a back end that fail while a file stands in the current folder."""

from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.contracts import Anonymised, Anonymiser, Backend, ComponentSettings, numeric
from pipeline.errors import DataError


class Settings(ComponentSettings):
    name: Literal["louder"] = numeric("louder")


class Louder(Anonymiser):
    Settings = Settings

    def anonymise(self, wave, rate, utterance):
        if Path("fails.txt").exists():
            raise RuntimeError("the vocoder lost its voice")
        if Path("refuses.txt").exists():
            raise DataError("the vocoder knows no such rate", where=utterance.id)
        return Anonymised((0.5 * wave[::-1]).astype(np.float32), rate)

    @classmethod
    def level(cls, settings):
        return "fixed"


class CentreSettings(ComponentSettings):
    name: Literal["centre"] = numeric("centre")


class Centre(Backend):
    Settings = CentreSettings

    def __init__(self, settings, folder=None):
        super().__init__(settings, folder)
        self.mean = np.load(folder / "mean.npy")

    @classmethod
    def is_fitted(cls, settings):
        return True

    @classmethod
    def fit(cls, settings, vectors, speakers, folder, *, within_session, choice=None):
        count = Path("fits.txt")
        if count.exists():
            count.write_text(count.read_text() + "x")
            if count.read_text() == "xxx":
                raise ValueError("the matrix is singular")
        np.save(folder / "mean.npy", np.asarray(vectors, np.float64).mean(axis=0))
        return {"summary": "a mean"}

    def enrol(self, vectors, model, n_models):
        centred = np.asarray(vectors, np.float64) - self.mean
        return np.stack([centred[model == number].mean(axis=0) for number in range(n_models)])

    def score(self, models, vectors):
        return -np.linalg.norm(models[:, None, :] - (np.asarray(vectors, np.float64) - self.mean)[None], axis=2)
'''
POINTS = {
    "anonymisers": EntryPoint("louder", "toys_that_fail:Louder", "voice_privacy.anonymisers"),
    "backends": EntryPoint("centre", "toys_that_fail:Centre", "voice_privacy.backends"),
}


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The distribution's components, and the argument that names its option files."""
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "toys_that_fail.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "plugin")
    for group, name in (("system", "louder"), ("backend", "centre")):
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / f"{name}.yaml").write_text(f"{name}:\n  name: {name}\n")
    monkeypatch.setattr(registry, "_find_entry_points", lambda kind: (POINTS[kind],) if kind in POINTS else ())
    registry.component.cache_clear()
    yield f"--config-dir={tmp_path / 'conf'}"
    registry.component.cache_clear()


@pytest.fixture
def evaluate(
    plugin: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Evaluations of a small data set, in which the failing components may be chosen."""
    monkeypatch.chdir(tmp_path)
    toy.corpus(tmp_path / "toy", 4, 4)
    return runner(capfd, monkeypatch, *QUICK, plugin)


def rows(ended: Ended) -> pd.DataFrame:
    return ended.rows.drop(columns=OF_THE_RUN)


def record(ended: Ended) -> dict:
    return json.loads((ended.folder / "status.json").read_text())


@pytest.mark.slow
def test_a_failing_system_has_no_row_and_the_others_have_theirs(
    evaluate: Command, command: Command, tmp_path: Path
) -> None:
    other = evaluate("attacker=[ignorant]", "system=[original,b2]", "paths.root=alone", status=0)
    alone = rows(other)
    (tmp_path / "fails.txt").touch()
    failing = ("attacker=[ignorant]", "system=[original,b2,louder]")
    ended = evaluate(*failing, status=5)
    assert "the vocoder lost its voice" in ended.err and "anonymise louder" in ended.err
    pd.testing.assert_frame_equal(rows(ended), alone)
    assert set(alone["system"]) == {"original", "b2"}, "no row, no mean and no strongest attack of the third"

    # It is the first that is said: on the screen, in the page, and in every table that is exported.
    absent = "system louder has no row"
    first = run_files.read_limits(ended.folder)[0]
    assert first.startswith(f"{absent}, for ") and "the vocoder lost its voice" in first
    assert ended.screen.startswith("! ")
    assert f"{run_files.LIMITS_TITLE}: - {first}" in ended.screen.partition("What the strongest attack")[0]
    assert toy.summary(ended.out).startswith(f"{run_files.LIMITS_TITLE}\n")
    run, page = ended.run, ended.folder / "report.html"
    for text in (page.read_text(), run.to_markdown(), run.to_latex()):
        assert absent in text
    assert set(run.leaderboard["system"]) == {"original", "b2"} and "louder" not in set(run.diagnostics["system"])
    assert (record(ended)["state"], record(ended)["exit_status"]) == ("failed", 5)
    assert "lost its voice" in record(ended)["reasons"][0]
    command("report", str(ended.folder), status=0)
    assert absent in page.read_text()
    assert absent in command("compare", str(ended.folder), str(other.folder), status=0).err

    # Nor is it taken for a whole run where what says so was removed.
    bare = tmp_path / "bare"
    shutil.copytree(ended.folder, bare)
    (bare / "limits.json").unlink()
    command("report", str(bare), status=3)  # it was written, and is missed
    (bare / "digests.json").unlink()
    assert run_files.FAILED_WITHOUT_LIMITS in command("compare", str(bare), str(other.folder), status=0).err
    assert run_files.FAILED_WITHOUT_LIMITS in vp.read(bare).to_markdown()

    # What failed is all that is left to do, once it is mended.
    (tmp_path / "fails.txt").unlink()
    mended = evaluate(*failing, status=0)
    assert set(rows(mended)["system"]) == {"original", "b2", "louder"}
    assert run_files.read_limits(mended.folder) == run_files.read_limits(ended.folder)[1:]
    pd.testing.assert_frame_equal(rows(mended).query("system != 'louder'").reset_index(drop=True), alone)


def test_without_a_whole_system_there_are_no_results(evaluate: Command, tmp_path: Path) -> None:
    """A cause that says itself whose fault it is keeps its status, with results and without."""
    (tmp_path / "refuses.txt").touch()
    failing = ("attacker=[ignorant]", "diagnostics=false", "system=[original,louder]")
    ended = evaluate(*failing, status=3)
    assert "the vocoder knows no such rate" in ended.err and set(ended.rows["system"]) == {"original"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.extractors.ge2e.Extractor.extract", lambda *_: 1 / 0)
        ended = evaluate(*failing, "paths.root=none", status=5)
    assert ended.out == "" and "ZeroDivisionError" in ended.err
    (run,) = (tmp_path / "none" / "runs").iterdir()
    assert not (run / "results.parquet").exists()
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


@pytest.mark.slow
def test_after_the_first_failure_what_is_whole_is_kept(evaluate: Command, tmp_path: Path) -> None:
    """``fail_fast``: what was done before has its rows, what was not begun has none."""
    (tmp_path / "fails.txt").touch()
    quick = ("attacker=[ignorant]", "diagnostics=false", "fail_fast=true")
    ended = evaluate(*quick, "system=[original,b2,louder]", status=5)
    assert ended.out == "", "speech is made before anything is measured"
    evaluate(*quick, "system=[original,b2]", status=0)


@pytest.mark.slow
def test_a_failing_attack_takes_the_rank_of_its_system(evaluate: Command, tmp_path: Path) -> None:
    """What succeeded is shown; but the attack that failed may have been the strongest: the system would look more private than it is."""
    train = training_set(tmp_path / "train", 12)
    adapted = (f"dataset.train={train}", "attacker=[ignorant,semi_informed]", "backend=[cosine,centre]", "train=none")
    alone = rows(evaluate(*adapted, "system=[original,b2r]", "paths.root=alone", status=0))
    failing = (*adapted, "system=[original,b2,b2r]")
    (tmp_path / "fits.txt").touch()
    ended = evaluate(*failing, status=5)
    assert "the matrix is singular" in ended.err and "fit centre for ge2e on b2, training set" in ended.err
    kept = rows(ended).query("system == 'b2'").reset_index(drop=True)
    pd.testing.assert_frame_equal(rows(ended).query("system != 'b2'").reset_index(drop=True), alone)
    assert set(kept["backend"]) == {"cosine", "centre"} and set(kept["attacker"]) == {"ignorant"}
    assert set(kept["status"]) == {"ok"} and kept["note"].str.contains(NOT_ALL).all()
    assert run_files.read_limits(ended.folder)[0].startswith(
        "system b2 is not ranked, and has the rows of its other attacks alone"
    )
    assert set(ended.run.leaderboard["system"]) == {"original", "b2r"}
    (tmp_path / "fits.txt").unlink()
    whole = rows(evaluate(*failing, status=0))
    same = whole.query("system == 'b2' and attacker == 'ignorant'").reset_index(drop=True)
    pd.testing.assert_frame_equal(same.drop(columns="note"), kept.drop(columns="note"))
    assert "semi_informed" in set(whole.query("system == 'b2'")["attacker"])

    # The same where a check on held-out original speech fails: it is behind no number, so all have theirs, and it is said.
    (tmp_path / "fits.txt").write_text("x")
    ended = evaluate(*failing, "paths.root=check", status=5)
    assert "check centre for ge2e on held-out speakers of original" in ended.err
    pd.testing.assert_frame_equal(rows(ended), whole)
    assert [text.partition(",")[0] for text in run_files.read_limits(ended.folder)[:2]] == [
        f"of system {name} not all is said that was to be" for name in ("b2", "b2r")
    ]
