"""Runs of score files alone: their numbers are those of the metric core and of ``from-scores``, and no audio or torch is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import cli, metrics
from pipeline import read as read_run
from pipeline.tables import published
from tests.datasets.test_scores import override, scores, vpc2024
from tests.raised import raised
from tests.toy import HANGS

Command = Callable[..., tuple[int, str, str]]

WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchaudio", "speechbrain"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
from pipeline.cli import run

sys.exit(run(sys.argv[1:]))
"""
QUICK = ["metric.asv.replicates=0", "metric.zebra.replicates=0"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``given``, as VPC 2024's scripts leave it, and ``exp``, in which it was run where torch cannot be imported."""
    home = tmp_path_factory.mktemp("scores")
    vpc2024(home / "given")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "recipe=bring_your_scores", "dataset.root=given", "paths.root=exp", *QUICK],
        cwd=home, capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (home / "stdout").write_text(done.stdout)
    return home


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, "paths.root=exp"])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err
        return status, out, err

    return call


def folder(home: Path) -> Path:
    return home / Path((home / "stdout").read_text().splitlines()[-1]).parent


def classes(root: Path, where: str, sex: str) -> tuple[np.ndarray, np.ndarray]:
    """Target and non-target scores of a file, read without the pipeline."""
    rows = pd.read_csv(root / "exp" / where / "scores", sep=" ", names=["m", "u", "x"], dtype={"m": str})
    target = rows["m"] == rows["u"].str.split("-").str[0]
    return rows["x"][target].to_numpy(), rows["x"][~target].to_numpy()


PLACES = {
    "unprotected": "asv_orig/libri_test_enrolls-libri_test_trials_{sex}",
    "ignorant": "asv_orig/libri_test_enrolls-libri_test_trials_{sex}_mcadams",
    "lazy_informed": "asv_orig/libri_test_enrolls_mcadams-libri_test_trials_{sex}_mcadams",
    "semi_informed": "asv_anon_mcadams/libri_test_enrolls_mcadams-libri_test_trials_{sex}_mcadams",
}


def test_values_are_those_of_the_metric_core(place: Path) -> None:
    rows = read_run(folder(place)).rows
    for attacker, where in PLACES.items():
        both = {sex: classes(place / "given", where.format(sex=sex), sex) for sex in "fm"}
        of = {f"libri_test_trials_{sex}": one for sex, one in both.items()}
        of["libri_test (pooled)"] = tuple(np.concatenate(side) for side in zip(*both.values()))
        for subset, (target, nontarget) in of.items():
            mine = rows[(rows["subset"] == subset) & (rows["attacker"] == attacker)].set_index(["metric", "variant"])
            for variant in ("rocch", "kaldi", "speechbrain"):
                assert mine.loc[("eer", variant), "value"] == metrics.eer(target, nontarget, variant=variant)
            assert mine.loc[("cllr_min", ""), "value"] == pytest.approx(metrics.cllr_min(target, nontarget), abs=1e-12)
            found = metrics.zebra(target, nontarget)
            assert mine.loc[("d_ece", ""), "value"] == pytest.approx(found.d_ece, abs=1e-12)
            assert mine.loc[("l_w", ""), "value"] == pytest.approx(found.l_w, abs=1e-12)
            assert mine.loc[("tag", ""), "label"] == found.tag
            assert set(mine["n_target"]) == {len(target)} and set(mine["n_nontarget"]) == {len(nontarget)}


def test_published_numbers_of_score_files_are_reproduced(place: Path, command: Command) -> None:
    """A table of one's own with what the metric core finds in the files, printed with two decimals: of a set, of the mean of f and m, of both
    pooled; the last names no definition, as Wang & Miao 2026 do not."""
    of = {sex: classes(place / "given", PLACES["semi_informed"].format(sex=sex), sex) for sex in "fm"}
    each = [metrics.eer(*of[sex], variant="speechbrain") for sex in "fm"]
    both = metrics.eer(*map(np.concatenate, zip(*of.values())), variant="speechbrain")
    assert each[0] != pytest.approx(each[1], abs=0.005)
    printed = [
        ("libri_test_trials_f", "speechbrain", 100 * each[0]), ("libri_test (mean of f and m)", "speechbrain", 50 * sum(each)),
        ("libri_test (pooled)", "", 100 * both), ("libri_test_trials_m", "speechbrain", 100 * each[0]),
    ]  # fmt: skip
    words = {"source": "Me", "table": "1", "condition": "PP", "system": "mcadams", "attacker": "semi_informed", "extractor": "ecapa",
             "trained_on": "anonymised", "backend": "cosine", "metric": "eer", "unit": "%", "rounding": "rounded"}  # fmt: skip
    lines = [{**words, "subset": name, "variant": variant, "value": f"{value:.2f}"} for name, variant, value in printed]
    pd.DataFrame(lines, columns=list(published.COLUMNS)).to_csv("own.csv", index=False)
    status, out, err = command("compare", "recipe=bring_your_scores", str(folder(place)), "scorecard.tables=[own.csv]")
    assert status == 0, err
    assert "4 published cells: 3 reproduced, 1 differs" in out or "3 reproduced, 1 within interval" in out


def test_values_and_intervals_are_those_of_from_scores(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = place / "given" / "data" / "libri_test_trials_f"
    file = place / "given" / "exp" / PLACES["lazy_informed"].format(sex="f") / "scores"
    given = [
        "--scores",
        file,
        "--trials",
        data / "trials",
        "--utt2spk",
        data / "utt2spk",
        "--json",
        "-",
        "--replicates",
        1,
    ]
    capfd.readouterr()
    assert cli.run(["from-scores", "trials", *map(str, given)]) == 0
    said = json.loads(capfd.readouterr().out)
    rows = read_run(folder(place)).rows
    mine = rows[(rows["subset"] == "libri_test_trials_f") & (rows["attacker"] == "lazy_informed")]
    for row in mine[mine["metric"].isin(["eer", "cllr_min", "d_ece", "l_w"])].to_dict("records"):
        value, interval = said[row["metric"]], said["interval"].get(row["metric"])
        if row["variant"]:
            value, interval = value[row["variant"]], interval[row["variant"]]
        assert row["value"] == pytest.approx(value, abs=1e-12)
        if interval is not None:
            assert [row["low"], row["high"]] == pytest.approx(interval, abs=1e-9)


def test_the_report_says_what_the_numbers_stand_on(place: Path) -> None:
    out = (place / "stdout").read_text()
    assert "evaluated from 8 score files alone" in " ".join(out.split())
    assert re.search(
        r"On libri_test \(mean of f and m\), mcadams (protects|is not shown to protect)", " ".join(out.split())
    )
    assert "lowest of 3 attacks, " in " ".join(out.split())
    run = read_run(folder(place))
    assert set(run.rows["system"]) == {"original", "mcadams"} and set(run.rows["status"]) == {"ok"}
    table = run.scores(subset="libri_test_trials_f", attacker="semi_informed")
    assert list(table.columns) == ["model_speaker", "speaker", "model", "utterance", "score", "target"]
    digests = {s.split("scores:")[1].split("|")[0] for s in run.rows["signature"]}
    assert len(digests) == 12, "four attacks on the f, the m and the pooled set"
    assert (folder(place) / "report.html").stat().st_size > 10_000


def test_a_finished_run_computes_nothing_again_and_another_score_moves_one_attack(
    place: Path, tmp_path: Path, command: Command
) -> None:
    for name in ("given", "exp"):
        shutil.copytree(place / name, tmp_path / name)
    asked = ["plan", "recipe=bring_your_scores", "dataset.root=given", *QUICK]
    status, out, _ = command(*asked)
    assert (status, out) == (
        0,
        "score: 12 reused, 0 to compute\nmeasure: 51 reused, 0 to compute\ncheck: 12 reused, 0 to compute\n"
        "in all: 75 tasks, nothing to compute\n",
    )
    with raised("pipeline.stages.scores.score_files"):
        assert command(*asked)[1].startswith("score: 0 reused, 12 to compute; "), "what reads the scores has a version"
    path = tmp_path / "given" / "exp" / PLACES["ignorant"].format(sex="f") / "scores"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(reversed(lines)) + "\n")
    assert command(*asked)[1] == out, "the order of lines is no content"
    path.write_text("\n".join([*lines[1:], f"{lines[0].rsplit(' ', 1)[0]} 0.5"]) + "\n")
    assert command(*asked)[1].startswith("score: 10 reused, 2 to compute; "), "the f set, and the pooled one"


@pytest.mark.slow
def test_distances_are_refused_until_somebody_says_so(tmp_path: Path, command: Command) -> None:
    root = vpc2024(tmp_path / "given")
    scores(tmp_path / "given" / "exp" / PLACES["unprotected"].format(sex="f") / "scores", "f", -8.0)
    asked = [
        "recipe=bring_your_scores",
        "dataset.root=given",
        "dataset.pool=false",
        "metric=[asv]",
        "metric.asv.interval=none",
    ]
    status, out, err = command("prepare", *asked)
    assert (status, out) == (3, "") and "the wrong way round, beyond chance" in err
    assert "libri_test_enrolls-libri_test_trials_f/scores, set libri_test_trials_f: a target scores above" in err
    status, _, err_again = command("prepare", *asked, override(err))
    assert status == 0, err_again
    assert "distances, as dataset.distances says" in err_again
    status, out, _ = command(*asked, "dataset.as_is=true", "dataset.sets=[libri_test_trials_f]")
    assert status == 0
    assert "1 score files order the classes the wrong way round and are kept" in " ".join(out.split())
    assert "! The scores order the classes the wrong way round, beyond chance" in out
    # All of them: negated, they are the similarities that they were made from.
    for path in root.glob("exp/*/*/scores"):
        rows = [line.split() for line in path.read_text().splitlines()]
        path.write_text("".join(f"{m} {u} {-8 * (u.split('-')[0] == m) + len(u) / 100}\n" for m, u, _ in rows))
    status, _, err = command("prepare", *asked)
    assert status == 3 and override(err) == "dataset.distances=true"
    assert command("prepare", *asked, "dataset.distances=true")[0] == 0


@pytest.mark.slow
def test_what_score_files_cannot_say_is_refused(tmp_path: Path, command: Command) -> None:
    vpc2024(tmp_path / "given")
    asked = ["plan", "dataset=scores", "dataset.root=given"]
    status, _, err = command(*asked, "system=[original,b2]", "metric=[asv,vsm]", "+extractor.x={name: ge2e}")
    assert status == 2
    assert "system=[original,b2]: score files say this themselves" in err and "+extractor.x=" in err
    assert "metric=vsm: it compares all pairs" in err and "metric=asv" not in err
    assert command(*asked, "fusion=[equal]")[0] == 2
    assert command(*asked, "dataset.train=given")[0] == 2
    # The defaults of the configuration name such metrics too: nobody asked for them.
    assert command("validate", *asked[1:])[1].startswith("valid: dataset scores, metrics asv, zebra")
    status, out, _ = command("plan", "dataset=scores", "dataset.root=given")
    assert status == 0 and "measure: 0 reused, 34 to compute" in out
