"""The answer of a run, through the command line: what each system discloses, compared with the scores themselves."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.cli.compose import compose
from pipeline.errors import ConfigError
from tests.running import Command, runner

SPEAKERS, EACH = 8, 6
TRIALS = [*itertools.product(range(SPEAKERS), range(SPEAKERS), range(EACH))]
"""Model, speaker and number of the utterance."""
MEAN = "libri_test (mean of f and m)"
SHIFTS = {
    "weak": {"ignorant": 1.2, "lazy_informed": 3.0},
    "twin": {"ignorant": 1.2, "lazy_informed": 3.0},
    "good": {"ignorant": 0.4, "lazy_informed": 0.8},
}
"""How much higher targets score on each system, by attacker."""
RUN = ("recipe=bring_your_scores", "dataset.root=given", "dataset.pool=false", "paths.root=exp", "report.replicates=60")


def scored(root: Path, system: str, attacker: str, sex: str, shift: float) -> str:
    """Write the scores of one attack; its line of ``scores.csv``."""
    random = np.random.default_rng([len(system), sum(map(ord, system)), len(attacker), ord(sex)])
    name = f"{system or 'original'}-{attacker or 'unprotected'}-{sex}.txt"
    lines = [f"{sex}{m} {sex}{s}-{k} {random.normal() + shift * (m == s):.6f}\n" for m, s, k in TRIALS]
    (root / name).write_text("".join(lines))
    return f"{name},libri_test_trials_{sex},{system},{attacker},resnet,cosine,{sex}.list\n"


def given(root: Path, systems: list[str]) -> None:
    """A folder of score files of some systems."""
    root.mkdir(exist_ok=True)
    lines = ["file,subset,system,attacker,extractor,backend,trials\n"]
    for sex in "fm":
        listed = [f"{sex}{m} {sex}{s}-{k} {'target' if m == s else 'nontarget'}\n" for m, s, k in TRIALS]
        (root / f"{sex}.list").write_text("".join(listed))
        lines.append(scored(root, "", "", sex, 4.0))
        for system in systems:
            lines += [scored(root, system, attacker, sex, shift) for attacker, shift in SHIFTS[system].items()]
    (root / "scores.csv").write_text("".join(lines))
    spoken = [f"{sex}{s}-{k} {sex}{s}\n" for sex in "fm" for s in range(SPEAKERS) for k in range(EACH)]
    (root / "utt2spk").write_text("".join(spoken))


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return runner(capfd, monkeypatch, *RUN)


def scores_of(root: Path, system: str, attacker: str, sex: str) -> pd.DataFrame:
    return pd.read_csv(root / f"{system}-{attacker}-{sex}.txt", sep=" ", names=["model", "utterance", "score"])


def d_ece(root: Path, system: str, attacker: str) -> float:
    """The mean over both lists, from the files."""
    values = []
    for sex in "fm":
        table = scores_of(root, system, attacker, sex)
        same = table["model"] == table["utterance"].str.split("-").str[0]
        values.append(metrics.d_ece_oracle(table["score"][same], table["score"][~same]))
    return float(np.mean(values))


def drop(root: Path, *beginnings: str) -> None:
    """Take lines out of the list of scores."""
    lines = (root / "scores.csv").read_text().splitlines(keepends=True)
    (root / "scores.csv").write_text("".join(line for line in lines if not line.startswith(beginnings)))


def test_the_last_screen_has_the_answer_and_it_is_that_of_the_scores(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "twin", "good"])
    ended = command("metric=[asv]", "diagnostics=false", status=0)
    lines = ended.out.splitlines()
    assert lines[0] == "What the strongest attack tried on each system discloses, compared with unprotected speech"
    own = [line for line in lines if not line.startswith(("scorecard: ", "tasks: ", "/"))]
    assert len(lines) <= 40 and max(map(len, own)) <= 100, "but for paths"
    answer = " ".join(lines[:8])
    best = max(d_ece(tmp_path / "given", "good", attacker) for attacker in SHIFTS["good"])
    for words in (
        f"On {MEAN}, good protects best: EER", "lowest of 2 attacks, lazy_informed: resnet, cosine)", "Unprotected speech: EER",
        "of at most 0.721 bit (difference: p < 0.001)", "twin protects too",
    ):  # fmt: skip
        assert words in answer
    assert f"highest of 2 attacks {best:.3f} bit: lazy_informed: resnet" in ended.out

    run = ended.run
    board = run.leaderboard[run.leaderboard["subset"] == MEAN]
    assert board["system"].tolist()[0] == "good" and board["system"].tolist()[-1] == "original"
    assert board["rank"].tolist()[:3] == [1, 2, 2] and pd.isna(board["rank"].iloc[-1]), "two alike share their rank"
    for row in board[board["anonymised"]].to_dict("records"):
        values = {attacker: d_ece(tmp_path / "given", row["system"], attacker) for attacker in SHIFTS[row["system"]]}
        assert row["attacker"] == max(values, key=lambda attacker: values[attacker])
        assert row["d_ece"] == pytest.approx(max(values.values()), abs=1e-12)
        assert row["d_ece_low"] <= row["d_ece"] <= row["d_ece_high"] and row["n_attacks"] == 2 and row["n_sets"] == 2
    for name in ("leaderboard", "attacks", "differences"):
        assert len(pd.read_csv(run.folder / f"{name}.csv")) == len(getattr(run, name)) > 0
    table = run.differences.query("subset == @MEAN and under == 'strongest' and metric == 'd_ece'")
    compared = {frozenset(pair) for pair in zip(table["system"], table["reference"])}
    assert compared == {frozenset(pair) for pair in itertools.combinations([*SHIFTS, "original"], 2)}
    assert (table["n_compared"] == 3).all() and (table["p_holm"] >= table["p_value"]).all()
    for _, family in table.groupby("unprotected"):
        np.testing.assert_allclose(np.sort(metrics.holm(family["p_value"])), np.sort(family["p_holm"]))
    assert table[table["unprotected"]]["reference"].tolist() == ["original"] * 3


@pytest.mark.slow
def test_what_is_measured_on_each_set_has_its_mean_over_sets_on_the_leaderboard(
    tmp_path: Path, command: Command
) -> None:
    given(tmp_path / "given", ["good"])
    off = ("metric.lid.replicates=0", "metric.lid.lengths=[]", "metric.asv.interval=none", "diagnostics=false")
    ended = command("metric=[asv,lid]", *off, status=0)
    row = ended.run.leaderboard.query("subset == @MEAN and system == 'good'").iloc[0]
    measured = []
    for sex in "fm":
        table = scores_of(tmp_path / "given", "good", row["attacker"], sex)
        matrix = table.pivot(index="utterance", columns="model", values="score")
        truth = np.array([matrix.columns.get_loc(name.split("-")[0]) for name in matrix.index])
        slopes = metrics.loso_slopes(matrix.to_numpy(), truth).value
        measured.append(metrics.lid(matrix.to_numpy(), truth, slopes))
    value, chance = (np.mean(of_sets) for of_sets in zip(*((lid.alid, lid.chance.alid) for lid in measured)))
    assert (row["alid"], row["alid_chance"]) == pytest.approx((value, chance), abs=1e-12) and chance < value
    assert row["alid_low"] < row["alid"] < row["alid_high"] and row["alid_ceiling"] == np.log2(SPEAKERS)
    assert f"{row['alid']:.3f} (0 to {np.log2(SPEAKERS):.3f})" in ended.out and "ALID ↓ (0 to log2 N)" in ended.out
    averaged = ended.rows[ended.rows["subset"] == MEAN]
    assert "alid" not in set(averaged["metric"]), "the results have what averages ask for"


@pytest.mark.slow
def test_a_system_that_is_added_computes_what_stands_on_it_alone(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "good"])
    first, again = (command("metric=[asv]", "diagnostics=false", status=0) for _ in range(2))
    reused, computed = again.tasks
    assert first.tasks == (0, reused) and computed == 0
    for name in ("leaderboard.csv", "attacks.csv", "differences.csv"):
        assert (first.folder / name).read_bytes() == (again.folder / name).read_bytes()
    given(tmp_path / "given", ["weak", "good", "twin"])
    # 4 score files, their 4 measures, 2 of attacks, 2 of speakers, the strongest one, and differences to the 2 others and to original.
    assert command("metric=[asv]", "diagnostics=false").tasks == (reused, 16)


@pytest.mark.slow
def test_another_baseline_and_one_that_is_not_there(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "good"])
    refused = command("report.baseline=godo", "metric=[asv]", status=2)
    assert "report.baseline" in refused.err and "godo" in refused.err
    for baseline, systems in (("good", {"weak"}), ("original", {"weak", "good"})):
        table = command(f"report.baseline={baseline}", "metric=[asv]", status=0).run.differences.query("baseline")
        assert set(table["reference"]) == {baseline} and set(table["system"]) == systems
        worse = table.query("metric == 'd_ece' and under == 'strongest'")["difference"] > 0
        assert baseline == "original" or worse.all()


def test_a_baseline_that_is_no_chosen_system_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["report.baseline=b3", "dataset.root=/nowhere"])
    (fault,) = caught.value.faults
    assert fault.where == "report.baseline" and "b3" in fault.what


def test_a_system_that_was_tried_on_one_set_alone_is_on_all_boards_with_the_reason(
    tmp_path: Path, command: Command
) -> None:
    given(tmp_path / "given", ["weak", "good"])
    drop(tmp_path / "given", *(f"{kind}-f" for kind in ("weak-ignorant", "weak-lazy_informed")))
    drop(tmp_path / "given", *(f"{kind}-m" for kind in ("good-ignorant", "good-lazy_informed")))
    ended = command("metric=[asv]", "diagnostics=false", "allow_partial=true", status=6)  # what is not there is missing
    first, second = (f"libri_test_trials_{sex}" for sex in "fm")
    answer = ended.screen[ended.screen.index("What the strongest attack") :]
    assert f"On {first}, good protects: EER" in answer, "the mean has no answer, so it does not stand first"
    assert "There is no number for weak." in answer
    board = ended.run.leaderboard.set_index(["subset", "system"])
    lacking = {(first, "weak"): first, (second, "good"): second, (MEAN, "weak"): first, (MEAN, "good"): second}
    for place, name in lacking.items():
        row = board.loc[place]
        assert row["reason"] == f"no attack was tried on {name}"
        assert pd.isna(row["rank"]) and pd.isna(row["d_ece"]) and row["anonymised"]
    for place in ((first, "good"), (second, "weak")):
        assert board.loc[place, "d_ece"] > 0 and board.loc[place, "rank"] == 1


def test_scores_of_unprotected_speech_under_another_name_protect_nobody(tmp_path: Path, command: Command) -> None:
    root = tmp_path / "given"
    given(root, ["good"])
    for sex in "fm":
        table = scores_of(root, "original", "unprotected", sex)
        moved = table.assign(score=table["score"] + 1e-3 * np.sin(np.arange(len(table))))
        moved.to_csv(root / f"copy-{sex}.txt", sep=" ", header=False, index=False)
        with (root / "scores.csv").open("a") as listed:
            listed.write(f"copy-{sex}.txt,libri_test_trials_{sex},copy,ignorant,resnet,cosine,{sex}.list\n")
    drop(root, "good-")
    ended = command("metric=[asv]", status=0)
    assert f"On {MEAN}, copy is not shown to protect: EER" in ended.screen and "(difference: p = " in ended.screen
    assert "No attacker enrolled protected speech, as anybody who has the system can" in ended.screen
    run = ended.run
    for text in (run.summary(), run.to_markdown(), run.to_latex(), run.report().read_text()):
        text = " ".join(text.replace("\\", "").split())
        assert "copy is not shown to protect" in text and "copy protects" not in text
    drop(root, "original-")
    alone = f"On {MEAN}, nothing can be said of protection, because there is no number of unprotected speech"
    assert alone in command("metric=[asv]", status=0).screen


def test_the_strongest_attack_of_each_set_counts_on_the_mean(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["good"])
    first, second = (tmp_path / "given" / f"good-{attacker}-m.txt" for attacker in SHIFTS["good"])
    one_text, other_text = first.read_text(), second.read_text()
    first.write_text(other_text)
    second.write_text(one_text)
    run = command("metric=[asv]", status=0).run
    board = run.leaderboard[run.leaderboard["system"] == "good"].set_index("subset")
    parts, mean = [board.loc[f"libri_test_trials_{sex}"] for sex in "fm"], board.loc[MEAN]
    assert [part["attacker"] for part in parts] == ["lazy_informed", "ignorant"]
    for name in ("d_ece", "lowest_eer"):
        assert mean[name] == pytest.approx(np.mean([part[name] for part in parts]), abs=1e-12), name
    ways = "f: lazy_informed: resnet, cosine; m: ignorant: resnet, cosine"
    assert mean["by_set"] == mean["lowest_eer_attack"] == ways
    assert mean["attacker"] == "lazy_informed / ignorant" and mean["d_ece_low"] < mean["d_ece"]
    alone = run.attacks.query("subset == @MEAN and system == 'good'")
    assert len(alone) == 2 and (alone["d_ece"] < mean["d_ece"]).all(), "neither is as strong on both"
