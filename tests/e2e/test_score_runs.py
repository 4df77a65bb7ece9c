"""Runs of score files alone: their numbers are those of the metric core and of ``from-scores``, and no audio or torch is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.tables import published
from tests.datasets.test_scores import override, scores, vpc2024
from tests.raised import raised
from tests.running import Command, Ended
from tests.toy import HANGS

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
    """A folder with ``given``, as VPC 2024's scripts leave it."""
    home = tmp_path_factory.mktemp("scores")
    vpc2024(home / "given")
    return home


@pytest.fixture(scope="module")
def ended(place: Path) -> Ended:
    """What became of it where torch cannot be imported."""
    command = [
        sys.executable,
        "-c",
        WITHOUT_TORCH,
        "recipe=bring_your_scores",
        "dataset.root=given",
        "paths.root=exp",
        *QUICK,
    ]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return Ended((0, done.stdout, done.stderr))


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


def test_values_are_those_of_the_metric_core(place: Path, ended: Ended) -> None:
    rows = ended.rows
    for attacker, where in PLACES.items():
        both = {sex: classes(place / "given", where.format(sex=sex), sex) for sex in "fm"}
        by_set = {f"libri_test_trials_{sex}": sides for sex, sides in both.items()}
        by_set["libri_test (pooled)"] = tuple(np.concatenate(side) for side in zip(*both.values()))
        for subset, (target, nontarget) in by_set.items():
            mine = rows[(rows["subset"] == subset) & (rows["attacker"] == attacker)].set_index(["metric", "variant"])
            for variant in ("rocch", "kaldi", "speechbrain"):
                assert mine.loc[("eer", variant), "value"] == metrics.eer(target, nontarget, variant=variant)
            assert mine.loc[("cllr_min", ""), "value"] == pytest.approx(metrics.cllr_min(target, nontarget), abs=1e-12)
            zebra = metrics.zebra(target, nontarget)
            assert mine.loc[("d_ece", ""), "value"] == pytest.approx(zebra.d_ece, abs=1e-12)
            assert mine.loc[("l_w", ""), "value"] == pytest.approx(zebra.l_w, abs=1e-12)
            assert mine.loc[("tag", ""), "label"] == zebra.tag
            assert set(mine["n_target"]) == {len(target)} and set(mine["n_nontarget"]) == {len(nontarget)}


def test_published_numbers_of_score_files_are_reproduced(place: Path, ended: Ended, command: Command) -> None:
    """A table of one's own with what the metric core finds in the files, printed with two decimals: of a set, of the mean of f and m, of both
    pooled; the last names no definition, as Wang & Miao 2026 do not."""
    sides = {sex: classes(place / "given", PLACES["semi_informed"].format(sex=sex), sex) for sex in "fm"}
    each = [metrics.eer(*sides[sex], variant="speechbrain") for sex in "fm"]
    both = metrics.eer(*map(np.concatenate, zip(*sides.values())), variant="speechbrain")
    assert each[0] != pytest.approx(each[1], abs=0.005)
    printed = [
        ("libri_test_trials_f", "speechbrain", 100 * each[0]), ("libri_test (mean of f and m)", "speechbrain", 50 * sum(each)),
        ("libri_test (pooled)", "", 100 * both), ("libri_test_trials_m", "speechbrain", 100 * each[0]),
    ]  # fmt: skip
    words = {"source": "Me", "table": "1", "condition": "PP", "system": "mcadams", "attacker": "semi_informed", "extractor": "ecapa",
             "trained_on": "anonymised", "backend": "cosine", "metric": "eer", "unit": "%", "rounding": "rounded"}  # fmt: skip
    lines = [{**words, "subset": name, "variant": variant, "value": f"{value:.2f}"} for name, variant, value in printed]
    pd.DataFrame(lines, columns=list(published.COLUMNS)).to_csv("own.csv", index=False)
    run = str(place / ended.folder)
    out = command("compare", "recipe=bring_your_scores", run, "scorecard.tables=[own.csv]", status=0).out
    assert "4 published cells: 3 reproduced, 1 differs" in out or "3 reproduced, 1 within interval" in out


def test_values_and_intervals_are_those_of_from_scores(place: Path, ended: Ended, command: Command) -> None:
    data = place / "given" / "data" / "libri_test_trials_f"
    file = place / "given" / "exp" / PLACES["lazy_informed"].format(sex="f") / "scores"
    files = ("--scores", str(file), "--trials", str(data / "trials"), "--utt2spk", str(data / "utt2spk"))
    measured = json.loads(command("from-scores", "trials", *files, "--json", "-", "--replicates", "1", status=0).out)
    mine = ended.rows.query("subset == 'libri_test_trials_f' and attacker == 'lazy_informed'")
    for row in mine[mine["metric"].isin(["eer", "cllr_min", "d_ece", "l_w"])].to_dict("records"):
        value, interval = measured[row["metric"]], measured["interval"].get(row["metric"])
        if row["variant"]:
            value, interval = value[row["variant"]], interval[row["variant"]]
        assert row["value"] == pytest.approx(value, abs=1e-12)
        if interval is not None:
            assert [row["low"], row["high"]] == pytest.approx(interval, abs=1e-9)


def test_the_report_says_what_the_numbers_stand_on(ended: Ended) -> None:
    assert "evaluated from 8 score files alone" in ended.screen and "lowest of 3 attacks, " in ended.screen
    assert re.search(r"On libri_test \(mean of f and m\), mcadams (protects|is not shown to protect)", ended.screen)
    assert set(ended.rows["system"]) == {"original", "mcadams"} and set(ended.rows["status"]) == {"ok"}
    table = ended.run.scores(subset="libri_test_trials_f", attacker="semi_informed")
    assert list(table.columns) == ["model_speaker", "speaker", "model", "utterance", "score", "target"]
    digests = {signature.split("scores:")[1].split("|")[0] for signature in ended.rows["signature"]}
    assert len(digests) == 12, "four attacks on the f, the m and the pooled set"
    assert (ended.folder / "report.html").stat().st_size > 10_000


def test_a_finished_run_computes_nothing_again_and_another_score_moves_one_attack(
    place: Path, ended: Ended, tmp_path: Path, command: Command
) -> None:
    for name in ("given", "exp"):
        shutil.copytree(place / name, tmp_path / name)

    def stages() -> list[str]:
        return command("plan", "recipe=bring_your_scores", "dataset.root=given", *QUICK, status=0).out.splitlines()

    nothing = [f"{stage} reused, 0 to compute" for stage in ("score: 12", "measure: 52", "check: 12")]
    assert stages() == [*nothing, "in all: 76 tasks, nothing to compute"]
    with raised("pipeline.stages.scores.score_files"):
        assert stages()[0].startswith("score: 0 reused, 12 to compute; "), "what reads the scores has a version"
    path = tmp_path / "given" / "exp" / PLACES["ignorant"].format(sex="f") / "scores"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(reversed(lines)) + "\n")
    assert stages()[:3] == nothing, "the order of lines is no content"
    path.write_text("\n".join([*lines[1:], f"{lines[0].rsplit(' ', 1)[0]} 0.5"]) + "\n")
    assert stages()[0].startswith("score: 10 reused, 2 to compute; "), "the f set, and the pooled one"


@pytest.mark.slow
def test_distances_are_refused_until_somebody_says_so(tmp_path: Path, command: Command) -> None:
    root = vpc2024(tmp_path / "given")
    scores(tmp_path / "given" / "exp" / PLACES["unprotected"].format(sex="f") / "scores", "f", -8.0)
    bare = (
        "recipe=bring_your_scores",
        "dataset.root=given",
        "dataset.pool=false",
        "metric=[asv]",
        "metric.asv.interval=none",
    )
    refused = command("prepare", *bare, status=3)
    assert refused.out == "" and "the wrong way round, beyond chance" in refused.err
    (fault,) = refused.error.faults
    assert fault.where.endswith("libri_test_enrolls-libri_test_trials_f/scores, set libri_test_trials_f")
    assert "distances, as dataset.distances says" in command("prepare", *bare, override(refused.err), status=0).err
    kept = command(*bare, "dataset.as_is=true", "dataset.sets=[libri_test_trials_f]", status=0)
    assert "1 score files order the classes the wrong way round and are kept" in kept.screen
    assert "! The scores order the classes the wrong way round, beyond chance" in kept.out
    # All of them: negated, they are the similarities that they were made from.
    for path in root.glob("exp/*/*/scores"):
        rows = [line.split() for line in path.read_text().splitlines()]
        path.write_text("".join(f"{m} {u} {-8 * (u.split('-')[0] == m) + len(u) / 100}\n" for m, u, _ in rows))
    assert override(command("prepare", *bare, status=3).err) == "dataset.distances=true"
    command("prepare", *bare, "dataset.distances=true", status=0)


@pytest.mark.slow
def test_what_score_files_cannot_say_is_refused(tmp_path: Path, command: Command) -> None:
    vpc2024(tmp_path / "given")
    bare = ("dataset=scores", "dataset.root=given")
    refused = command("plan", *bare, "system=[original,b2]", "metric=[asv,vsm]", "+extractor.x={name: ge2e}", status=2)
    assert {fault.where for fault in refused.error.faults} == {
        "system=[original,b2]",
        "+extractor.x={name: ge2e}",
        "metric=vsm",
    }
    command("plan", *bare, "fusion=[equal]", status=2)
    command("plan", *bare, "dataset.train=given", status=2)
    # The defaults of the configuration name such metrics too: nobody asked for them.
    assert command("validate", *bare).out.startswith("valid: dataset scores, metrics asv, zebra")
    assert "measure: 0 reused, 43 to compute" in command("plan", *bare, status=0).out
