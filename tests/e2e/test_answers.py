"""The answer of a run, through the command line: what each system discloses, compared with the scores themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import cli, metrics
from pipeline import read as read_run
from pipeline.cli.compose import compose
from pipeline.errors import ConfigError

Command = Callable[..., tuple[int, str, str]]
SPEAKERS, EACH = 8, 6
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
    lines = [
        f"{sex}{m} {sex}{s}-{k} {random.normal() + shift * (m == s):.6f}"
        for m in range(SPEAKERS)
        for s in range(SPEAKERS)
        for k in range(EACH)
    ]
    name = f"{system or 'original'}-{attacker or 'unprotected'}-{sex}.txt"
    (root / name).write_text("\n".join(lines) + "\n")
    return f"{name},libri_test_trials_{sex},{system},{attacker},resnet,cosine,{sex}.list"


def given(root: Path, systems: list[str]) -> None:
    """A folder of score files of some systems."""
    root.mkdir(exist_ok=True)
    lines = ["file,subset,system,attacker,extractor,backend,trials"]
    for sex in "fm":
        pairs = [
            (f"{sex}{m}", f"{sex}{s}-{k}", m == s)
            for m in range(SPEAKERS)
            for s in range(SPEAKERS)
            for k in range(EACH)
        ]
        listed = [f"{model} {name} {'target' if held else 'nontarget'}" for model, name, held in pairs]
        (root / f"{sex}.list").write_text("\n".join(listed) + "\n")
        lines.append(scored(root, "", "", sex, 4.0))
        for system in systems:
            lines += [scored(root, system, attacker, sex, shift) for attacker, shift in SHIFTS[system].items()]
    (root / "scores.csv").write_text("\n".join(lines) + "\n")
    (root / "utt2spk").write_text(
        "".join(f"{sex}{s}-{k} {sex}{s}\n" for sex in "fm" for s in range(SPEAKERS) for k in range(EACH))
    )


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.run([*RUN, *arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err, err
        return status, out, err

    return call


def d_ece(root: Path, system: str, attacker: str) -> float:
    """The mean over both lists, from the files."""
    found = []
    for sex in "fm":
        rows = pd.read_csv(root / f"{system}-{attacker}-{sex}.txt", sep=" ", names=["m", "u", "x"])
        held = rows["m"] == rows["u"].str.split("-").str[0]
        found.append(metrics.d_ece_oracle(rows["x"][held], rows["x"][~held]))
    return float(np.mean(found))


def counts(out: str) -> tuple[int, int]:
    words = out.splitlines()[-2].split()
    return int(words[1]), int(words[3])


def test_the_last_screen_has_the_answer_and_it_is_that_of_the_scores(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "twin", "good"])
    status, out, err = command("metric=[asv]", "diagnostics=false")
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0] == "What the strongest attack tried on each system discloses, compared with unprotected speech"
    own = [line for line in lines if not line.startswith(("scorecard: ", "tasks: ", "/"))]
    assert len(lines) <= 40 and max(map(len, own)) <= 100, "but for paths"
    said = " ".join(lines[:8])
    best = max(d_ece(tmp_path / "given", "good", attacker) for attacker in SHIFTS["good"])
    assert (
        f"On {MEAN}, good protects best: EER" in said and "lowest of 2 attacks, lazy_informed: resnet, cosine)" in said
    )
    assert "Unprotected speech: EER" in said and "of at most 0.721 bit (difference: p < 0.001)" in said
    assert "twin protects too" in said and f"highest of 2 attacks {best:.3f} bit: lazy_informed: resnet" in out

    run = read_run(Path(lines[-1]).parent)
    board = run.leaderboard[run.leaderboard["subset"] == MEAN]
    assert board["system"].tolist()[0] == "good" and board["system"].tolist()[-1] == "original"
    assert board["rank"].tolist()[:3] == [1, 2, 2] and pd.isna(board["rank"].iloc[-1]), "two alike share their rank"
    for row in board[board["anonymised"]].to_dict("records"):
        of = {attacker: d_ece(tmp_path / "given", row["system"], attacker) for attacker in SHIFTS[row["system"]]}
        assert row["attacker"] == max(of, key=lambda name: of[name])
        assert row["d_ece"] == pytest.approx(max(of.values()), abs=1e-12)
        assert row["d_ece_low"] <= row["d_ece"] <= row["d_ece_high"] and row["n_attacks"] == 2 and row["n_sets"] == 2
    for name in ("leaderboard", "attacks", "differences"):
        assert len(pd.read_csv(run.folder / f"{name}.csv")) == len(getattr(run, name)) > 0
    mine = run.differences[(run.differences["subset"] == MEAN) & (run.differences["under"] == "strongest")]
    d_eces = mine[mine["metric"] == "d_ece"]
    assert {frozenset(pair) for pair in zip(d_eces["system"], d_eces["reference"])} == {
        frozenset(pair)
        for pair in (("weak", "twin"), ("weak", "good"), ("twin", "good"), *((one, "original") for one in SHIFTS))
    }
    assert (d_eces["n_compared"] == 3).all() and (d_eces["p_holm"] >= d_eces["p_value"]).all()
    for _, family in d_eces.groupby("unprotected"):
        np.testing.assert_allclose(np.sort(metrics.holm(family["p_value"])), np.sort(family["p_holm"]))
    assert d_eces[d_eces["unprotected"]]["reference"].tolist() == ["original"] * 3


@pytest.mark.slow
def test_what_is_measured_on_each_set_has_its_mean_over_sets_on_the_leaderboard(
    tmp_path: Path, command: Command
) -> None:
    given(tmp_path / "given", ["good"])
    off = ("metric.lid.replicates=0", "metric.lid.lengths=[]", "metric.asv.interval=none")
    status, out, err = command("metric=[asv,lid]", "diagnostics=false", *off)
    assert status == 0, err
    run = read_run(Path(out.splitlines()[-1]).parent)
    row = run.leaderboard.query("subset == @MEAN and system == 'good'").iloc[0]
    values, chances = [], []
    for sex in "fm":
        rows = pd.read_csv(tmp_path / "given" / f"good-{row['attacker']}-{sex}.txt", sep=" ", names=["m", "u", "x"])
        matrix = rows.pivot(index="u", columns="m", values="x")
        truth = [matrix.columns.get_loc(name.split("-")[0]) for name in matrix.index]
        found = metrics.lid(
            matrix.to_numpy(), np.array(truth), metrics.loso_slopes(matrix.to_numpy(), np.array(truth)).value
        )
        values.append(found.alid)
        chances.append(found.chance.alid)
    assert row["alid"] == pytest.approx(np.mean(values), abs=1e-12) and row["alid_low"] < row["alid"] < row["alid_high"]
    assert row["alid_chance"] == pytest.approx(np.mean(chances), abs=1e-12) and row["alid_chance"] < row["alid"]
    assert f"{row['alid']:.3f} (0 to {np.log2(SPEAKERS):.3f})" in out and "ALID ↓ (0 to log2 N)" in out
    assert row["alid_ceiling"] == np.log2(SPEAKERS)
    assert "alid" not in set(run.rows[run.rows["subset"] == MEAN]["metric"]), "the results have what averages ask for"


@pytest.mark.slow
def test_a_system_that_is_added_computes_what_stands_on_it_alone(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "good"])
    _, out, _ = command("metric=[asv]", "diagnostics=false")
    first = read_run(Path(out.splitlines()[-1]).parent)
    assert counts(out)[0] == 0
    status, out, _ = command("metric=[asv]", "diagnostics=false")
    assert status == 0 and counts(out)[1] == 0
    again = read_run(Path(out.splitlines()[-1]).parent)
    for name in ("leaderboard", "attacks", "differences"):
        assert (first.folder / f"{name}.csv").read_bytes() == (again.folder / f"{name}.csv").read_bytes()
    reused = counts(out)[0]
    given(tmp_path / "given", ["weak", "good", "twin"])
    _, out, _ = command("metric=[asv]", "diagnostics=false")
    # 4 score files, their 4 measures, 2 of attacks, 2 of speakers, the strongest one, and differences to the 2 others and to original.
    assert counts(out) == (reused, 16)


@pytest.mark.slow
def test_another_baseline_and_one_that_is_not_there(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["weak", "good"])
    status, _, err = command("report.baseline=godo", "metric=[asv]")
    assert status == 2 and "report.baseline" in err and "godo" in err
    status, out, err = command("report.baseline=good", "metric=[asv]")
    assert status == 0, err
    rows = read_run(Path(out.splitlines()[-1]).parent).differences
    own = rows[rows["baseline"]]
    assert set(own["reference"]) == {"good"} and set(own["system"]) == {"weak"}
    assert (own[(own["metric"] == "d_ece") & (own["under"] == "strongest")]["difference"] > 0).all()
    status, out, err = command("report.baseline=original", "metric=[asv]")
    assert status == 0, err
    rows = read_run(Path(out.splitlines()[-1]).parent).differences
    assert set(rows[rows["baseline"]]["system"]) == {"weak", "good"}


def test_a_baseline_that_is_no_chosen_system_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["report.baseline=b3", "dataset.root=/nowhere"])
    assert [(fault.what, fault.where) for fault in caught.value.faults] == [
        ("no system b3 is chosen: chosen are original, b2, b2r", "report.baseline")
    ]


def test_a_system_that_was_tried_on_one_set_alone_is_on_all_boards_with_the_reason(
    tmp_path: Path, command: Command
) -> None:
    given(tmp_path / "given", ["weak", "good"])
    listed = tmp_path / "given" / "scores.csv"
    lines = listed.read_text().splitlines()
    listed.write_text("".join(f"{one}\n" for one in lines if not one.startswith(("weak-", "good-")) or one.split(",")[1][-1] == {"weak": "m", "good": "f"}[one[:4]]))  # fmt: skip
    status, out, _ = command("metric=[asv]", "diagnostics=false", "allow_partial=true")
    assert status == 6, "what is not there is missing"
    first, second = (f"libri_test_trials_{sex}" for sex in "fm")
    said = " ".join(out[out.index("What the strongest attack") :].split())
    assert f"On {first}, good protects: EER" in said, "the mean has no answer, so it does not stand first"
    assert "There is no number for weak." in said
    board = read_run(next(tmp_path.glob("exp/runs/*"))).leaderboard.set_index(["subset", "system"])
    lacking = {(first, "weak"): first, (second, "good"): second, (MEAN, "weak"): first, (MEAN, "good"): second}
    for place, name in lacking.items():
        assert board.loc[place, "reason"] == f"no attack was tried on {name}"
        assert (
            pd.isna(board.loc[place, "rank"]) and pd.isna(board.loc[place, "d_ece"]) and board.loc[place, "anonymised"]
        )
    for place in ((first, "good"), (second, "weak")):
        assert board.loc[place, "d_ece"] > 0 and board.loc[place, "rank"] == 1


def test_scores_of_unprotected_speech_under_another_name_protect_nobody(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["good"])
    listed = tmp_path / "given" / "scores.csv"
    lines = listed.read_text().splitlines()
    for sex in "fm":
        rows = pd.read_csv(tmp_path / "given" / f"original-unprotected-{sex}.txt", sep=" ", names=["m", "u", "x"])
        moved = rows.assign(x=rows["x"] + 1e-3 * np.sin(np.arange(len(rows))))
        moved.to_csv(tmp_path / "given" / f"copy-{sex}.txt", sep=" ", header=False, index=False)
        lines.append(f"copy-{sex}.txt,libri_test_trials_{sex},copy,ignorant,resnet,cosine,{sex}.list")
    listed.write_text("".join(f"{one}\n" for one in lines if not one.startswith("good-")))
    status, out, err = command("metric=[asv]")
    assert status == 0, err
    said = " ".join(out.split())
    assert f"On {MEAN}, copy is not shown to protect: EER" in said and "(difference: p = " in said
    assert "No attacker enrolled protected speech, as anybody who has the system can" in said
    run = read_run(Path(out.splitlines()[-1]).parent)
    texts = [
        run.summary(),
        run.to_markdown().replace("\\", ""),
        run.to_latex().replace("\\", ""),
        run.report().read_text(),
    ]
    for text in texts:
        assert "copy is not shown to protect" in " ".join(text.split()) and "copy protects" not in text
    listed.write_text("".join(f"{one}\n" for one in lines if not one.startswith(("good-", "original-"))))
    status, out, err = command("metric=[asv]")
    assert status == 0, err
    assert (
        f"On {MEAN}, nothing can be said of protection, because there is no number of unprotected speech"
        in " ".join(out.split())
    )


def test_the_strongest_attack_of_each_set_counts_on_the_mean(tmp_path: Path, command: Command) -> None:
    given(tmp_path / "given", ["good"])
    names = {(who, sex): tmp_path / "given" / f"good-{who}-{sex}.txt" for who in SHIFTS["good"] for sex in "fm"}
    one, other = (names[who, "m"].read_text() for who in ("ignorant", "lazy_informed"))
    names["ignorant", "m"].write_text(other)
    names["lazy_informed", "m"].write_text(one)
    status, out, err = command("metric=[asv]")
    assert status == 0, err
    run = read_run(Path(out.splitlines()[-1]).parent)
    board = run.leaderboard[run.leaderboard["system"] == "good"].set_index("subset")
    parts = [board.loc[f"libri_test_trials_{sex}"] for sex in "fm"]
    assert [part["attacker"] for part in parts] == ["lazy_informed", "ignorant"]
    mean = board.loc[MEAN]
    for name in ("d_ece", "lowest_eer"):
        assert mean[name] == pytest.approx(np.mean([part[name] for part in parts]), abs=1e-12), name
    assert (
        mean["by_set"] == "f: lazy_informed: resnet, cosine; m: ignorant: resnet, cosine" == mean["lowest_eer_attack"]
    )
    assert mean["attacker"] == "lazy_informed / ignorant" and mean["d_ece_low"] < mean["d_ece"]
    alone = run.attacks[(run.attacks["subset"] == MEAN) & (run.attacks["system"] == "good")]
    assert len(alone) == 2 and (alone["d_ece"] < mean["d_ece"]).all(), "neither is as strong on both"
