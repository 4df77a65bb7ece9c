"""The demo from end to end: an installed wheel, the contracts of its output, and a second run."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.tables import results
from tests.e2e.conftest import Demo, elsewhere
from tests.toy import HANGS


def test_the_wheel_installs_nothing_but_pipeline_with_its_assets_and_alias(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"pipeline", "voice_privacy"}
    for asset in ("conf/config.yaml", "recipes/demo/config.yaml", "recipes/kaldi/config.yaml"):
        assert f"pipeline/_assets/{asset}" in names
    assert any(name.startswith("pipeline/_assets/data_manifests/") for name in names)


def test_the_demo_runs_outside_the_clone(demo: Demo) -> None:
    where = subprocess.run(
        [demo.python, "-c", "import pipeline; print(pipeline.__file__)"],
        cwd=demo.home,
        env=elsewhere(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(demo.python.parents[1])


def test_standard_output_ends_with_the_counts_and_the_report(demo: Demo) -> None:
    *_, counts, report = demo.stdout.splitlines()
    assert counts.startswith("tasks: 0 reused, ") and counts.endswith(" computed")
    assert Path(report).is_absolute() and Path(report).is_file()
    assert "Traceback" not in demo.stderr


def test_the_run_folder_holds_what_the_contract_names(demo: Demo) -> None:
    for name in (
        "config.yaml",
        "overrides.txt",
        "environment.json",
        "run.log",
        "status.json",
        "results.parquet",
        "results.csv",
    ):
        assert (demo.run / name).stat().st_size, name
    assert json.loads((demo.run / "status.json").read_text())["state"] == "done"
    assert (demo.run / "overrides.txt").read_text() == "recipe=demo\n"


def test_every_combination_has_its_rows_and_every_row_its_counts(demo: Demo) -> None:
    rows = results.read(demo.run)
    assert (rows["status"] == "ok").all()
    assert (rows["signature"] != "").all() and (rows["input_digest"] != "").all()
    eer = rows[rows["metric"] == "eer"]
    grid = set(zip(eer["system"], eer["attacker"], eer["condition"], eer["subset"]))
    assert len(eer) == len(grid) == (2 + 1) * (1 + 2 * 3 + 1), (
        "on two sets, and on average; one more on b2, which has one draw"
    )
    assert {(a, c, t) for a, c, t in zip(eer["attacker"], eer["condition"], eer["trained_on"])} == {
        ("unprotected", "OO", "original"), ("ignorant", "OP", "original"), ("lazy_informed", "PP", "original"),
        ("semi_informed", "PP", "anonymised (fixed)"), ("semi_informed", "PP", "anonymised (utterance)"),
        ("semi_informed", "OPP", "anonymised (fixed)"),
    }  # fmt: skip
    runs = rows[rows["metric"].isin(["c_ece", "p0p1_ratio"])]
    assert set(runs["system"]) == {"b2r"} and set(runs["attacker"]) == {
        "ignorant",
        "lazy_informed",
        "semi_informed",
        "",
    }
    assert (eer["n_used"] == eer["n_target"] + eer["n_nontarget"]).all()
    assert set(rows.loc[rows["metric"] == "idr", "extractor"]) == {"ecapa", "f0", "phones"}
    valued = rows[rows["value"].notna() & rows["low"].notna()]
    assert len(valued) > 20
    cllr = rows[rows["metric"] == "cllr"]
    assert cllr["value"].isna().all() and (cllr["reason"] != "").all()


def test_the_numbers_of_the_run_follow_from_its_scores_by_another_way(demo: Demo) -> None:
    """EER, Cllr_min and D_ECE recomputed from the stored scores with scikit-learn's isotonic regression and quadrature."""
    from scipy.integrate import quad
    from sklearn.isotonic import IsotonicRegression

    rows = results.read(demo.run)
    attacks = {"original against original ecapa cosine": ("original", "unprotected", "OO")}
    first = "b2r, enrolment at utterance level"
    draws = f"{first} and {first}, draw 2 and {first}, draw 3"
    for system, level, enrolled in (("b2", "fixed", "b2"), ("b2r", "utterance", draws)):
        by = f"against {system} ecapa, {system}, training set ({level}) cosine"
        attacks[f"original against {system} ecapa cosine"] = (system, "ignorant", "OP")
        attacks[f"{system} against {system} ecapa cosine"] = (system, "lazy_informed", "PP")
        attacks[f"{enrolled} {by}"] = (system, "semi_informed", "PP")
        if system == "b2":
            attacks[f"original and b2 {by}"] = (system, "semi_informed", "OPP")
    checked = 0
    for record in demo.home.glob("exp/store/score/*/*/record.json"):
        label = json.loads(record.read_text())["notes"]["label"]
        attack = attacks.get(label.partition(" ")[2].partition(" ")[2])
        if attack is None:
            continue
        scores = pd.read_parquet(record.with_name("scores.parquet"))
        target = scores["target"].to_numpy()
        posterior = IsotonicRegression(out_of_bounds="clip").fit_transform(scores["score"], target.astype(float))
        with np.errstate(divide="ignore"):
            llr = np.log(posterior) - np.log1p(-posterior) - np.log(target.sum() / (~target).sum())
        a, b = llr[target], llr[~target]

        def ece(prior: float, a: np.ndarray = a, b: np.ndarray = b) -> float:
            odds = np.log(prior / (1 - prior))
            return float(
                prior * np.logaddexp(0, -(a + odds)).mean() + (1 - prior) * np.logaddexp(0, b + odds).mean()
            ) / np.log(2)

        def gain(prior: float) -> float:
            return float(-(prior * np.log2(prior) + (1 - prior) * np.log2(1 - prior))) - ece(prior)

        names = ["subset", "system", "attacker", "condition"]
        mine = rows[(rows[names] == [label.split()[1], *attack]).all(axis=1)]
        value = mine.set_index(["metric", "variant"])["value"]
        assert abs(value["cllr_min", ""] - ece(0.5)) < 1e-9
        assert abs(value["d_ece", ""] - quad(gain, 1e-12, 1 - 1e-12, limit=400)[0]) < 1e-6
        checked += 1
    assert checked == 2 * len(attacks)


def test_anonymisation_protects_against_the_ignorant_attacker(demo: Demo) -> None:
    rows = results.read(demo.run).set_index(["metric", "variant", "system", "attacker", "subset"])["value"]
    for subset in {key[-1] for key in rows.index if key[0] == "d_ece"}:
        for system in ("b2", "b2r"):
            assert rows["d_ece", "", system, "ignorant", subset] < rows["d_ece", "", "original", "unprotected", subset]
            assert (
                rows["eer", "rocch", system, "ignorant", subset]
                > rows["eer", "rocch", "original", "unprotected", subset]
            )
            assert 0 < rows["deid", "", system, "", subset] <= 1


def test_each_feature_tells_the_original_speakers_apart(demo: Demo) -> None:
    """MeanD of the original speech, in bit; 12 speakers: 0.03 at chance, log2 12 = 3.58 at most."""
    rows = results.read(demo.run)
    found = rows[(rows["metric"] == "mean_d") & (rows["system"] == "original") & (rows["estimator"] == "empirical")]
    values = dict(zip(found["extractor"], found["value"]))
    assert set(values) == {"ecapa", "f0", "phones"} and values["ecapa"] > 2.5
    assert values["f0"] > 1 and values["phones"] > 1


def test_a_second_run_computes_nothing_and_gives_the_same_numbers(demo: Demo) -> None:
    done = subprocess.run(
        [demo.python, "-m", "pipeline", "recipe=demo"],
        cwd=demo.home,
        env=elsewhere(),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS,
    )
    *_, counts, report = done.stdout.splitlines()
    assert counts.endswith(" reused, 0 computed") and not counts.startswith("tasks: 0 ")
    first, second = results.read(demo.run), results.read(Path(report).parent)
    assert Path(report).parent != demo.run
    pd.testing.assert_frame_equal(first.drop(columns="run_id"), second.drop(columns="run_id"))
    again = subprocess.run(
        [sys.executable, "-m", "pipeline", "compare", demo.run, Path(report).parent], cwd=demo.home, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert again.stdout.splitlines()[-1] == f"{len(first)} rows with equal signatures, 0 rows without a counterpart"


@pytest.mark.slow
def test_weights_in_a_folder_give_the_numbers_of_the_training_that_made_them(demo: Demo) -> None:
    """One code path for all weights: folders of trained networks as ``source``, instead of the training."""
    trained = {json.loads((path / "record.json").read_text())["notes"]["label"]: path
               for path in demo.home.glob("exp/store/train/*/*")}  # fmt: skip
    weights = trained["train ecapa on original, training set"] / "embedding_model.safetensors"
    (units,) = demo.home.glob("exp/store/train/*/*/phones.safetensors")
    done = subprocess.run(
        [
            demo.python, "-m", "pipeline", "recipe=demo", "train=none", "extractor=[ecapa,phones]", "system=[original,b2]",
            f"extractor.ecapa.source={weights.parent}", f"extractor.phones.source={units.parent}", "attacker=[ignorant]",
            "metric=[asv,zebra,srd]",
        ],
        cwd=demo.home, env=elsewhere(), capture_output=True, text=True, check=True, timeout=HANGS,
    )  # fmt: skip
    rows = results.read(Path(done.stdout.splitlines()[-1]).parent)
    before = results.read(demo.run)
    key = ["trained_on", "subset", "condition", "system", "attacker", "extractor", "metric", "variant", "estimator"]
    both = rows[[*key, "value", "label"]].merge(before, on=key, suffixes=("", "_trained"))
    assert len(both) == len(rows) > 20
    pd.testing.assert_series_equal(both["value"], both["value_trained"], check_names=False)
    assert (both["label"] == both["label_trained"]).all()


@pytest.mark.slow
def test_train_prints_where_the_weights_are_and_doctor_what_the_machine_has(demo: Demo) -> None:
    def lines(*arguments: str) -> list[str]:
        command = [demo.python, "-m", "pipeline", *arguments, "recipe=demo"]
        done = subprocess.run(
            command, cwd=demo.home, env=elsewhere(), capture_output=True, text=True, check=True, timeout=HANGS
        )
        return done.stdout.splitlines()

    counts, ecapa, folder, phones, units, *adapted = lines("train")
    assert counts.startswith("tasks: ") and counts.endswith(" reused, 0 computed")
    assert ecapa.startswith("train ecapa on original, training set: loss ")
    assert (Path(folder) / "embedding_model.safetensors").is_file()
    assert "perplexity" in phones and "of 128 codes" in phones and (Path(units) / "phones.safetensors").is_file()
    said = json.loads((demo.run / "status.json").read_text())["training"]
    assert phones == f"train phones on original, training set: {said['train phones on original, training set']}"
    assert [line.partition(":")[0] for line in adapted[::2]] == [
        "train ecapa on b2, training set (fixed)", "train ecapa on b2r, training set (utterance)",
    ]  # fmt: skip
    said = "\n".join(lines("doctor"))
    assert "torch " in said and "extractor f0: needs no weights" in said and "can be written" in said
