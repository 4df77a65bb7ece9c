"""Who is protected worst, through the command line: held against the scores themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.datasets import synthetic
from pipeline.evaluation.result import Result
from tests import toy
from tests.e2e.test_adapted import training_set
from tests.running import Command, finish

SPEAKERS, EACH = 10, 6
RUN = ("recipe=bring_your_scores", "dataset.pool=false", "report.replicates=0", "metric=[asv,lid]", "metric.lid.replicates=0",
       "metric.lid.lengths=[]", "diagnostics=false")  # fmt: skip
SHIFTS = {
    ("", "unprotected"): {0: 0.0},
    ("leaky", "ignorant"): {7: 1.0},
    ("leaky", "lazy_informed"): {3: 6.0},
    ("alike", "ignorant"): {},
    ("alike", "lazy_informed"): {},
}
"""By system and attacker, speakers whose targets score by so much higher than the others' (which have 3, 0.4 and 0.6)."""
OTHERS = {"unprotected": 4.0, "ignorant": 0.4, "lazy_informed": 0.6}


def given(root: Path) -> None:
    """A folder of score files."""
    root.mkdir()
    names = [(m, s, k) for m in range(SPEAKERS) for s in range(SPEAKERS) for k in range(EACH)]
    (root / "t.list").write_text("".join(f"s{m} s{s}-{k} {'target' if m == s else 'nontarget'}\n" for m, s, k in names))
    (root / "utt2spk").write_text("".join(f"s{s}-{k} s{s}\n" for s in range(SPEAKERS) for k in range(EACH)))
    lines = ["file,subset,system,attacker,extractor,backend,trials"]
    for number, ((system, attacker), shifts) in enumerate(SHIFTS.items()):
        random = np.random.default_rng(number)
        scores = [random.normal() + (m == s) * shifts.get(s, OTHERS[attacker]) for m, s, _ in names]
        name = f"{system or 'original'}-{attacker}.txt"
        (root / name).write_text("".join(f"s{m} s{s}-{k} {x:.6f}\n" for (m, s, k), x in zip(names, scores)))
        lines.append(f"{name},t,{system},{attacker if system else ''},resnet,cosine,t.list")
    (root / "scores.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the score files are."""
    root = tmp_path_factory.mktemp("speakers")
    given(root / "given")
    return root


@pytest.fixture(scope="module")
def run(home: Path) -> Result:
    return finish(home, *RUN, "dataset.root=given").run


def scored(root: Path, system: str, attacker: str) -> pd.DataFrame:
    table = pd.read_csv(root / f"{system}-{attacker}.txt", sep=" ", names=["model", "utterance", "score"])
    return table.assign(speaker=table["utterance"].str.split("-").str[0])


def test_the_speaker_who_was_planted_is_the_worst_under_the_strongest_attack(home: Path, run: Result) -> None:
    rows = run.speakers
    assert len(rows) == 5 * SPEAKERS and set(rows["status"]) == {"ok"}
    mine = rows[(rows["system"] == "leaky") & rows["strongest"]]
    assert set(mine["attacker"]) == {"lazy_informed"} and len(mine) == SPEAKERS
    first = mine.iloc[0]
    assert (first["speaker"], first["rank"], first["worst"], first["against_median"]) == ("s3", 1, True, "above")
    assert first["d_ece_low"] > first["median"] and (mine["against_median"].iloc[1:] != "above").all()
    assert first["before"] == "recognised" and first["original_attack"] == "unprotected: resnet, cosine"

    table = scored(home / "given", "leaky", "lazy_informed")
    own = table["model"] == table["speaker"]
    llr = metrics.calibrate(table["score"][own], table["score"][~own], laplace=True).apply(table["score"])
    for row in mine.to_dict("records"):
        his = own & (table["speaker"] == row["speaker"])
        others = ~own & ((table["speaker"] == row["speaker"]) | (table["model"] == row["speaker"]))
        assert row["eer"] == pytest.approx(metrics.eer(table["score"][his], table["score"][others]), abs=1e-12)
        assert row["d_ece"] == pytest.approx(metrics.d_ece(llr[his], llr[others]), abs=1e-12)
        best = table[his].sort_values("score", ascending=False)
        assert [row[f"utterance_{k}"] for k in (1, 2, 3)] == best["utterance"].tolist()[:3]
        both = table[others].groupby(
            [np.minimum(table["speaker"], table["model"]), np.maximum(table["speaker"], table["model"])]
        )
        means = {next(iter({*pair} - {row["speaker"]})): part["score"].mean() for pair, part in both}
        assert row["nearest"] == max(means, key=lambda name: means[name])
        assert row["own_score"] == table["score"][his].mean()
        assert row["n_target"] == EACH and row["n_nontarget"] == 2 * EACH * (SPEAKERS - 1)
    slopes = table.pivot(index="utterance", columns="model", values="score")
    truth = [list(slopes.columns).index(name.split("-")[0]) for name in slopes.index]
    core = metrics.lid(slopes, truth, metrics.loso_slopes(slopes, truth).value).speaker_alid
    for row in mine.to_dict("records"):
        assert row["alid"] == pytest.approx(core[list(slopes.columns).index(row["speaker"])], abs=1e-12)
    # Sex, F0, ranks and matrices are not in scores: that is said.
    assert mine["reason"].str.contains("mean_f0: ").all() and mine["reason"].str.contains("metric=srd").all()
    assert pd.read_csv(run.folder / "speakers.csv")["speaker"].tolist() == rows["speaker"].tolist()


def test_where_all_are_alike_nobody_is_told_apart_and_who_could_not_be_recognised_before_is_said(run: Result) -> None:
    rows = run.speakers
    mine = rows[rows["system"] == "alike"]
    assert set(mine["against_median"]) == {"alike"} and mine["worst"].any()
    assert set(rows[(rows["speaker"] == "s0") & (rows["system"] != "original")]["before"]) == {"not shown"}
    others = rows[(rows["speaker"] != "s0") & (rows["system"] != "original")]
    assert set(others["before"]) == {"recognised"}
    original = rows[rows["system"] == "original"].set_index("speaker")
    assert original.loc["s0", "rank"] == SPEAKERS and set(original["before"]) == {""}
    for row in others.to_dict("records"):
        assert row["original_d_ece"] == original.loc[row["speaker"], "d_ece"]
        assert row["original_eer"] == original.loc[row["speaker"], "eer"]


def test_the_lists_of_two_attacks_are_held_against_each_other(run: Result) -> None:
    overlap = run.worst_overlap.set_index("system")
    assert set(overlap.index) == {"leaky", "alike"} and overlap["strongest"].all() and set(overlap["listed"]) == {3}
    rows = run.speakers
    for system, row in overlap.iterrows():
        lists = [
            set(rows[(rows["system"] == system) & (rows["attacker"] == row[name]) & rows["worst"]]["speaker"])
            for name in ("attacker", "other_attacker")
        ]
        assert row["shared"] == len(lists[0] & lists[1]) and row["jaccard"] == row["shared"] / len(lists[0] | lists[1])
        assert row["shared_chance"] == pytest.approx(9 / SPEAKERS)
    assert len(pd.read_csv(run.folder / "worst_overlap.csv")) == 2


@pytest.mark.slow
def test_of_recordings_the_cause_is_told_and_the_adapted_attacker_has_matrices_too(
    tmp_path: Path, models: Path, command: Command
) -> None:
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    root, train = toy.corpus(tmp_path / "data", speakers=6, utterances=4), training_set(tmp_path / "train", 20)
    ended = command(
        "recipe=kaldi", f"dataset.root={root}", f"dataset.train={train}", "system=[original,b2]", "extractor=[ge2e,f0]",
        "attacker=[lazy_informed,semi_informed]", "backend=[cosine,wccn]", "backend.wccn.as_norm.top=16", "metric=[asv,vsm,srd]", "metric.srd.replicates=0",
        "report.replicates=0", "diagnostics=false", "runtime.device=cpu", "runtime.threads=1",
        status=0,
    )  # fmt: skip
    run, folder, rows = ended.run, ended.folder, ended.run.speakers
    assert set(rows[rows["system"] == "b2"]["attacker"]) == {"lazy_informed", "semi_informed"}
    assert set(rows["status"]) == {"ok"}
    manifest = pd.read_csv(root / "toy_enrolls" / "utt2spk", sep=" ", names=["utterance", "speaker"])
    for row in rows.to_dict("records"):
        who = synthetic.make_speaker(toy.SEED, int(row["speaker"].removeprefix("syn")))
        assert row["sex"] == who.sex and row["mean_f0"] == pytest.approx(who.glottis.f0, rel=0.25)
        seconds = sum(toy.SECONDS[number % 3] for number in range(2))
        assert (manifest["speaker"] == row["speaker"]).sum() == 2
        assert row["enrolment_seconds"] == pytest.approx(seconds, abs=0.01)
        assert np.isfinite(row["srd_rank_median"]) and (np.isfinite(row["deid"]) or row["system"] == "original")
    matrices = pd.read_parquet(folder / "figures" / "speakers.parquet")
    plain = matrices[matrices["attacker"] == ""].set_index(["subset", "backend", "speaker"])["deid"]
    for row in rows[rows["system"] == "b2"].to_dict("records"):
        assert row["deid"] == plain[row["subset"], row["backend"].partition(", ")[0], row["speaker"]], (
            "as who knows original speech sees it"
        )
    adapted = run.rows[(run.rows["attacker"] == "semi_informed") & (run.rows["metric"] == "d_diag")]
    assert len(adapted) == 2 and set(adapted["condition"]) == {"PP"} and set(adapted["status"]) == {"ok"}
    assert not (run.rows[run.rows["metric"] == "deid"]["attacker"] != "").any()
    for name in ("similarity", "zoo", "speakers"):
        table = pd.read_parquet(folder / "figures" / f"{name}.parquet")
        mine = table[table["extractor"].str.contains("trained on")]
        assert set(mine["attacker"]) == {"semi_informed"} and set(mine["subset"]) == {"toy_trials_f", "toy_trials_m"}
    assert run.pairs("pp", system="b2", subset="toy_trials_f", backend="wccn").shape == (6, 6)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("Zoo: toy_trials_f, ge2e, trained on") >= 1
    assert page.count("Voice similarity matrices: toy_trials_f, ge2e, trained on") >= 1
