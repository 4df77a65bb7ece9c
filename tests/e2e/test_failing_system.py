"""A run in which tasks fail: what stands on none of them is shown, whole systems alone are ranked, and everything says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest

import pipeline as vp
from pipeline import registry
from pipeline.evaluation.partial import NOT_ALL
from pipeline.tables import results, run_files
from tests import toy

Command = Callable[..., tuple[int, str, str]]
QUICK = (
    "recipe=kaldi", "extractor=[ge2e]", "metric=[asv]", "metric.asv.interval=none", "runtime.device=cpu", "runtime.threads=1",
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
    monkeypatch.setattr(registry, "_points", lambda kind: (POINTS[kind],) if kind in POINTS else ())
    registry.component.cache_clear()
    yield f"--config-dir={tmp_path / 'conf'}"
    registry.component.cache_clear()


def of_run(out: str) -> Path:
    return Path(out.splitlines()[-1]).parent


def rows(out: str) -> pd.DataFrame:
    return results.read(of_run(out)).drop(columns=OF_THE_RUN)


def recorded(exp: Path) -> list[dict]:
    return [json.loads((run / "status.json").read_text()) for run in sorted((exp / "runs").iterdir())]


@pytest.mark.slow
def test_a_failing_system_has_no_row_and_the_others_have_theirs(plugin: str, command: Command, tmp_path: Path) -> None:
    given = (*QUICK, f"dataset.root={toy.corpus(tmp_path / 'toy', 4, 4)}", "attacker=[ignorant]", plugin)
    status, out, err = command(*given, "system=[original,b2]", f"paths.root={tmp_path / 'alone'}")
    assert status == 0, err
    alone, exp = rows(out), tmp_path / "exp"

    (tmp_path / "fails.txt").touch()
    failing = (*given, "system=[original,b2,louder]", f"paths.root={exp}")
    status, out, err = command(*failing)
    assert status == 5
    assert "the vocoder lost its voice" in err and "anonymise louder" in err
    pd.testing.assert_frame_equal(rows(out), alone)
    assert set(alone["system"]) == {"original", "b2"}, "no row, no mean and no strongest attack of the third"

    # It is the first that is said: on the screen, in the page, and in every table that is exported.
    run = of_run(out)
    first = run_files.read_limits(run)[0]
    assert first.startswith("system louder has no row, for ") and "the vocoder lost its voice" in first
    said = " ".join(out.split())
    assert (
        said.startswith("! ")
        and f"{run_files.LIMITS_TITLE}: - {first}" in said.partition("What the strongest attack")[0]
    )
    assert toy.summary(out).startswith(f"{run_files.LIMITS_TITLE}\n")
    assert "system louder has no row" in (run / "report.html").read_text()
    read = vp.read(run)
    assert "system louder has no row" in read.to_markdown() and "system louder has no row" in read.to_latex()
    assert set(read.leaderboard["system"]) == {"original", "b2"} and "louder" not in set(read.diagnostics["system"])
    (record,) = recorded(exp)
    assert (record["state"], record["exit_status"]) == ("failed", 5) and "lost its voice" in record["reasons"][0]
    (other,) = (tmp_path / "alone" / "runs").iterdir()
    for verb in (("report", str(run)), ("compare", str(run), str(other))):
        status, out, err = command(*verb)
        assert status == 0, err
        page = Path(out.splitlines()[-1])
        assert "system louder has no row" in (page.read_text() if verb[0] == "report" else err)

    # Nor is it taken for a whole run where what says so was removed.
    bare = tmp_path / "bare"
    shutil.copytree(run, bare)
    (bare / "limits.json").unlink()
    assert command("report", str(bare))[0] == 3, "it was written, and is missed"
    (bare / "digests.json").unlink()
    status, out, err = command("compare", str(bare), str(other))
    assert status == 0 and run_files.FAILED_WITHOUT_LIMITS in err
    assert run_files.FAILED_WITHOUT_LIMITS in vp.read(bare).to_markdown()

    # What failed is all that is left to do, once it is mended.
    (tmp_path / "fails.txt").unlink()
    status, out, err = command(*failing)
    assert status == 0, err
    whole = rows(out)
    assert (
        set(whole["system"]) == {"original", "b2", "louder"}
        and run_files.read_limits(of_run(out)) == run_files.read_limits(run)[1:]
    )
    pd.testing.assert_frame_equal(whole[whole["system"] != "louder"].reset_index(drop=True), alone)


def test_without_a_whole_system_there_are_no_results(plugin: str, command: Command, tmp_path: Path) -> None:
    """A cause that says itself whose fault it is keeps its status, with results and without."""
    root = toy.corpus(tmp_path / "toy", 4, 4)
    (tmp_path / "refuses.txt").touch()
    given = (*QUICK, f"dataset.root={root}", "attacker=[ignorant]", "diagnostics=false", plugin)
    status, out, err = command(*given, "system=[original,louder]", f"paths.root={tmp_path / 'exp'}")
    assert status == 3 and "the vocoder knows no such rate" in err
    assert set(rows(out)["system"]) == {"original"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.extractors.ge2e.Extractor.extract", lambda *_: 1 / 0)
        status, out, err = command(*given, "system=[original,louder]", f"paths.root={tmp_path / 'none'}")
    assert (status, out) == (5, "") and "ZeroDivisionError" in err
    (run,) = (tmp_path / "none" / "runs").iterdir()
    assert not (run / "results.parquet").exists() and recorded(tmp_path / "none")[0]["state"] == "failed"


@pytest.mark.slow
def test_after_the_first_failure_what_is_whole_is_kept(plugin: str, command: Command, tmp_path: Path) -> None:
    """``fail_fast``: what was done before has its rows, what was not begun has none."""
    root, exp = toy.corpus(tmp_path / "toy", 4, 4), f"paths.root={tmp_path / 'exp'}"
    given = (*QUICK, f"dataset.root={root}", "attacker=[ignorant]", "diagnostics=false", plugin, "fail_fast=true", exp)
    (tmp_path / "fails.txt").touch()
    status, out, _ = command(*given, "system=[original,b2,louder]")
    assert (status, out) == (5, ""), "speech is made before anything is measured"
    status, out, err = command(*given, "system=[original,b2]")
    assert status == 0, err


@pytest.mark.slow
def test_a_failing_attack_takes_the_rank_of_its_system(plugin: str, command: Command, tmp_path: Path) -> None:
    """What succeeded is shown; but the attack that failed may have been the strongest: the system would look more private than it is."""
    from tests.e2e.test_adapted import training_set

    root, train = toy.corpus(tmp_path / "toy", 4, 4), training_set(tmp_path / "train", 12)
    given = (
        *QUICK, f"dataset.root={root}", f"dataset.train={train}", "attacker=[ignorant,semi_informed]", "backend=[cosine,centre]",
        "train=none", plugin,
    )  # fmt: skip
    status, out, err = command(*given, "system=[original,b2r]", f"paths.root={tmp_path / 'alone'}")
    assert status == 0, err
    alone = rows(out)
    failing = (*given, "system=[original,b2,b2r]", f"paths.root={tmp_path / 'exp'}")
    (tmp_path / "fits.txt").touch()
    status, out, err = command(*failing)
    assert status == 5 and "the matrix is singular" in err and "fit centre for ge2e on b2, training set" in err
    found = rows(out)
    kept = found[found["system"] == "b2"].reset_index(drop=True)
    pd.testing.assert_frame_equal(found[found["system"] != "b2"].reset_index(drop=True), alone)
    assert set(kept["backend"]) == {"cosine", "centre"} and set(kept["attacker"]) == {"ignorant"}
    assert set(kept["status"]) == {"ok"} and kept["note"].str.contains(NOT_ALL).all()
    assert run_files.read_limits(of_run(out))[0].startswith(
        "system b2 is not ranked, and has the rows of its other attacks alone, for "
    )
    assert set(vp.read(of_run(out)).leaderboard["system"]) == {"original", "b2r"}
    (tmp_path / "fits.txt").unlink()
    status, out, err = command(*failing)
    assert status == 0, err
    whole = rows(out)
    ended = whole.query("system == 'b2' and attacker == 'ignorant'").reset_index(drop=True)
    pd.testing.assert_frame_equal(ended.drop(columns="note"), kept.drop(columns="note"))
    assert "semi_informed" in set(whole.query("system == 'b2'")["attacker"])

    # The same where a check on held-out original speech fails: it is behind no number, so all have theirs, and it is said.
    (tmp_path / "fits.txt").write_text("x")
    status, out, err = command(*failing[:-1], f"paths.root={tmp_path / 'check'}")
    assert status == 5 and "check centre for ge2e on held-out speakers of original" in err
    pd.testing.assert_frame_equal(rows(out), whole)
    assert [one.partition(",")[0] for one in run_files.read_limits(of_run(out))[:2]] == [
        f"of system {name} not all is said that was to be" for name in ("b2", "b2r")
    ]
