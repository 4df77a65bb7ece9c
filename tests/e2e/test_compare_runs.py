"""``compare RUN RUN`` and ``report RUN RUN`` through the command line: which settings differ, then differences, then rows."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import cli, metrics
from pipeline.report import runs as merged
from pipeline.tables import results
from tests.e2e.test_answers import EACH, MEAN, SPEAKERS, given

Command = Callable[..., tuple[int, str, str]]
RUN = ("recipe=bring_your_scores", "dataset.pool=false", "paths.root=exp", "report.replicates=0", "metric=[asv]",
       "diagnostics=false", "metric.asv.eer=[rocch]")  # fmt: skip
SET = "libri_test_trials_f"
WIDTH = 100


@dataclass(frozen=True)
class Runs:
    """Runs below one folder: two of the same scores, and one of others."""

    home: Path
    first: Path
    seeds: Path
    changed: Path


def run(*arguments: str) -> Path:
    """A run in the current folder."""
    before = set(Path("exp/runs").glob("*"))
    assert cli.run([*RUN, *arguments]) == 0
    (made,) = set(Path("exp/runs").glob("*")) - before
    return made


def rescored(path: Path, step: float) -> None:
    """Make targets of a file of scores score higher: what another version of a system would do."""
    rows = [line.split() for line in path.read_text().splitlines()]
    random = np.random.default_rng(5)
    path.write_text(
        "".join(f"{m} {u} {float(x) + random.normal() / 3 + step * (u[: len(m)] == m):.6f}\n" for m, u, x in rows)
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    home = tmp_path_factory.mktemp("compared")
    with contextlib.chdir(home):
        given(home / "given", ["weak", "twin", "good"])
        first, seeds = run("dataset.root=given"), run("dataset.root=given", "report.seed=3")
        given(home / "changed", ["weak", "twin"])
        for sex in "fm":
            rescored(home / "changed" / f"twin-ignorant-{sex}.txt", 1.0)
            rescored(home / "changed" / f"weak-ignorant-{sex}.txt", 0.0)
        changed = run("dataset.root=changed", "dataset.label=given", "metric.asv.eer=[rocch,kaldi]")
    yield Runs(home, first, seeds, changed)


@pytest.fixture
def command(made: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command line in a copy of the folder of the runs."""
    shutil.copytree(made.home, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.run([*arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err, err
        return status, out, err

    return call


def compared(command: Command, *folders: Path) -> str:
    status, out, err = command("compare", *map(str, folders))
    assert status == 0, err
    assert max(map(len, out.splitlines())) <= WIDTH and "overlap" not in out
    return out


def contributions(path: Path) -> tuple[float, np.ndarray]:
    """D_ECE of a file of scores, and what each speaker contributes: jackknife pseudo-values over the number of speakers, moved alike so
    that they add up to it."""
    rows = pd.read_csv(path, sep=" ", names=["m", "u", "x"])
    rows["s"] = rows["u"].str.split("-").str[0]

    def of(part: pd.DataFrame) -> float:
        held = part["m"] == part["s"]
        return float(metrics.d_ece_oracle(part["x"][held], part["x"][~held]))

    names = sorted(set(rows["s"]))
    whole = of(rows)
    left = np.array([of(rows[(rows["m"] != name) & (rows["s"] != name)]) for name in names])
    parts = (len(names) * whole - (len(names) - 1) * left) / len(names)
    return whole, parts + (whole - parts.sum()) / len(names)


def swapped(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p-value of all swaps of two runs, speaker by speaker."""
    step = b - a
    all_of_them = [abs(float(np.dot(signs, step))) for signs in itertools.product((1, -1), repeat=len(step))]
    return float(np.mean([one >= abs(step.sum()) - 1e-12 for one in all_of_them]))


def cells(out: str, subset: str, system: str, how: str) -> list[str]:
    """The numbers of a system in the table of a subset."""
    part = out[out.index(f"{subset}, {how}") :]
    line = next(line for line in part.splitlines() if line.startswith(f"{system} "))
    return re.sub(r"\[.*?\]", "", line).split()


def test_settings_come_first_then_differences_that_are_those_of_the_scores(made: Runs, command: Command) -> None:
    out = compared(command, made.first, made.changed)
    order = ["A  ", "Which settings differ", "Differences, B minus A", "rows of A without a counterpart", "equal"]
    places = [out.index(text) for text in order]
    assert places == sorted(places)
    settings = out[places[1] : places[2]]
    assert re.search(r"system: good / –", settings)
    assert re.search(r"metric.asv.eer: \[rocch\] / \[rocch, kaldi\]", settings)
    assert "Numbers do not depend on: " in settings and "dataset.root: given / changed" in settings
    assert "report" not in settings.partition("Versions")[0], "what is the same is not said"

    # The strongest attack on both systems is lazy_informed, whose scores are the same; what changed is the other one.
    raw = {}
    for system in ("twin", "weak"):
        (a, by_a), (b, by_b) = (
            contributions(made.home / folder / f"{system}-ignorant-f.txt") for folder in ("given", "changed")
        )
        raw[system] = a, b, swapped(by_a, by_b)
    corrected = metrics.holm([raw["twin"][2], raw["weak"][2]])
    for (system, (a, b, _)), p in zip(raw.items(), corrected):
        found = cells(out, SET, system, "under the same attack in both")
        assert found[1:4] == [f"{a:.3f}", f"{b:.3f}", f"{b - a:+.3f}"]
        assert float(found[4]) == pytest.approx(p, rel=0.05)
    assert corrected[0] < 0.05 < corrected[1]
    assert "twin (ignorant: resnet, cosine) discloses more in B than in A" in " ".join(out.split())
    assert "not shown to be different: weak (ignorant: resnet, cosine)" in " ".join(out.split())
    assert f"The same scores in both runs: original on {SET} and libri_test_trials_m" in " ".join(out.split())
    assert "Systems without a counterpart: good (in A alone)." in out and f"{MEAN}, under the same attack" in out
    assert "rows of A without a counterpart: the signature differs in scores" in out


@pytest.mark.slow
def test_two_seeds_differ_in_that_alone(made: Runs, command: Command) -> None:
    out = compared(command, made.first, made.seeds)
    assert re.search(r"report.seed: 0 / 3", out) and "(seed=0)" in out and "(seed=3)" in out
    assert "The same scores in both runs: original, weak, twin and good on" in " ".join(out.split())
    rows = len(results.read(made.first))
    assert out.splitlines()[-2:] == [
        f"{rows} of {rows} rows with equal signatures are equal",
        f"{rows} rows with equal signatures, 0 rows without a counterpart",
    ]


@pytest.mark.slow
def test_other_data_and_another_extractor(made: Runs, command: Command) -> None:
    folder = Path("other")
    given(folder, ["weak"])
    table = (folder / "scores.csv").read_text().replace(",resnet,", ",ecapa,")
    (folder / "scores.csv").write_text(table)
    for path in [*(folder).glob("*-f.txt"), folder / "f.list"]:
        path.write_text("".join(line for line in path.open() if not line.split()[1].startswith("f7-")))
    out = compared(command, made.first, run("dataset.root=other"))
    said = " ".join(out.split())
    assert "extractor: resnet / ecapa" in out and "(dataset given)" in out and "(dataset other)" in out
    trials = SPEAKERS * SPEAKERS * EACH, SPEAKERS * (SPEAKERS - 1) * EACH
    both = f"other trials: {trials[0]} in A, {trials[1]} in B, {trials[1]} in both"
    assert f"Not compared: original and weak on {SET}. {both}" in said
    assert "The same scores in both runs: original and weak on libri_test_trials_m." in said
    assert "rows of A without a counterpart: data set given" in out


def test_the_same_run_twice_is_said(made: Runs, command: Command) -> None:
    for again in (made.first, Path(shutil.copytree(made.first, "elsewhere"))):
        out = compared(command, made.first, again)
        assert out.startswith("A and B are the same run, ") and len(out.splitlines()) == 2


def test_scores_that_are_gone_are_said(made: Runs, command: Command) -> None:
    status, _, err = command("store", "gc", "--keep", made.first.name, "--younger", "0", "--yes", "--root", "exp")
    assert status == 0, err
    out = " ".join(compared(command, made.first, made.changed).split())
    assert "B: the store does not hold these scores any more" in out
    assert "To have the scores of B, run the same evaluation again" in out


def test_runs_without_records_and_runs_that_are_not_whole(made: Runs, command: Command) -> None:
    old = Path("old")
    old.mkdir()
    shutil.copy(made.changed / "results.parquet", old)
    out = " ".join(compared(command, made.first, old).split())
    assert "B wrote no configuration" in out and "B: this run does not say where its scores lie" in out
    assert "To have the scores of B, run the same evaluation again" in out

    short = Path(shutil.copytree(made.changed, "short"))
    (short / "digests.json").unlink()
    for name in ("leaderboard", "attacks", "differences"):
        (short / f"{name}.parquet").unlink()
    rows = results.read(short).assign(run_id="short")
    of = rows["system"].eq("twin") & rows["attacker"].eq("ignorant") & rows["subset"].eq(SET)
    rows.loc[of, ["status", "reason"]] = ["incomplete", "a recording is lost"]
    results.write(rows, short)
    out = " ".join(compared(command, made.first, short).split())
    assert f"Not compared: twin on {MEAN} and {SET}. B has no whole number: a recording is lost" in out
    assert "libri_test_trials_m, each run under its strongest attack" in out


@pytest.mark.slow
def test_a_merged_report_calls_runs_by_what_differs(made: Runs, command: Command) -> None:
    status, out, err = command("report", str(made.first), str(made.seeds))
    assert status == 0, err
    page = Path(out.strip()).read_text(encoding="utf-8")
    assert "run seed=0" in page and "run seed=3" in page and "run A" not in page
    several = merged.read([made.first.resolve(), made.changed.resolve()])
    names = [one.label for one in several.runs]
    assert names == ["with good", "without good"]
    for table in (several.leaderboard, several.attacks, several.differences):
        assert set(zip(table["run"], table["run_id"])) == {(one.label, one.run_id) for one in several.runs}
    alone = merged.read([made.first.resolve()])
    assert set(alone.leaderboard["run"]) == {""} and alone.systems and alone.runs[0].label == ""
