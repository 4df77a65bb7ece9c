"""The demo from end to end: an installed wheel, the contracts of its output, and a second run."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.e2e.conftest import Demo, start


def test_the_wheel_installs_nothing_but_pipeline_with_its_assets_and_alias(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"pipeline", "voice_privacy"}
    for asset in ("conf/config.yaml", "recipes/demo/config.yaml", "recipes/kaldi/config.yaml"):
        assert f"pipeline/_assets/{asset}" in names
    assert any(name.startswith("pipeline/_assets/data_manifests/") for name in names)


def test_the_demo_runs_outside_the_clone_and_its_output_ends_with_the_counts_and_the_report(demo: Demo) -> None:
    where = start(demo.python, demo.home, "-c", "import pipeline; print(pipeline.__file__)")
    assert Path(where.out.strip()).is_relative_to(demo.python.parents[1])
    *_, counts, report = demo.stdout.splitlines()
    assert counts.startswith("tasks: 0 reused, ") and counts.endswith(" computed")
    assert Path(report).is_absolute() and Path(report).is_file()
    assert "Traceback" not in demo.ended.err


def test_the_run_folder_holds_what_the_contract_names(demo: Demo) -> None:
    names = "config.yaml overrides.txt environment.json run.log status.json results.parquet results.csv"
    assert {name: (demo.run / name).stat().st_size > 0 for name in names.split(" ")} == dict.fromkeys(
        names.split(" "), True
    )
    assert json.loads((demo.run / "status.json").read_text())["state"] == "done"
    assert (demo.run / "overrides.txt").read_text() == "recipe=demo\n"


def test_every_combination_has_its_rows_and_every_row_its_counts(demo: Demo) -> None:
    rows = demo.rows
    assert (rows["status"] == "ok").all()
    assert (rows["signature"] != "").all() and (rows["input_digest"] != "").all()
    eer = rows[rows["metric"] == "eer"]
    grid = set(zip(eer["system"], eer["attacker"], eer["condition"], eer["subset"]))
    n_attacks = 1 + 2 * 3 + 1  # one more on b2, which has one draw
    assert len(eer) == len(grid) == (2 + 1) * n_attacks, "on two sets, and on average"
    assert set(zip(eer["attacker"], eer["condition"], eer["trained_on"])) == {
        ("unprotected", "OO", "original"), ("ignorant", "OP", "original"), ("lazy_informed", "PP", "original"),
        ("semi_informed", "PP", "anonymised (fixed)"), ("semi_informed", "PP", "anonymised (utterance)"),
        ("semi_informed", "OPP", "anonymised (fixed)"),
    }  # fmt: skip
    runs = rows[rows["metric"].isin(["c_ece", "p0p1_ratio"])]
    assert set(runs["system"]) == {"b2r"}
    assert set(runs["attacker"]) == {"ignorant", "lazy_informed", "semi_informed", ""}
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

    rows = demo.rows
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
            missed, alarms = np.logaddexp(0, -(a + odds)).mean(), np.logaddexp(0, b + odds).mean()
            return float(prior * missed + (1 - prior) * alarms) / np.log(2)

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
    values = demo.rows.set_index(["metric", "variant", "system", "attacker", "subset"])["value"]
    for subset in {key[-1] for key in values.index if key[0] == "d_ece"}:
        for system in ("b2", "b2r"):
            d_ece, eer = (
                [
                    values[metric, variant, *attack, subset]
                    for attack in ((system, "ignorant"), ("original", "unprotected"))
                ]
                for metric, variant in (("d_ece", ""), ("eer", "rocch"))
            )
            assert d_ece[0] < d_ece[1] and eer[0] > eer[1] and 0 < values["deid", "", system, "", subset] <= 1


def test_each_feature_tells_the_original_speakers_apart(demo: Demo) -> None:
    """MeanD of the original speech, in bit; 12 speakers: 0.03 at chance, log2 12 = 3.58 at most."""
    mean_d = demo.rows.query("metric == 'mean_d' and system == 'original' and estimator == 'empirical'")
    values = dict(zip(mean_d["extractor"], mean_d["value"]))
    assert set(values) == {"ecapa", "f0", "phones"} and values["ecapa"] > 2.5 and min(values.values()) > 1


def test_a_second_run_computes_nothing_and_gives_the_same_numbers(demo: Demo) -> None:
    again = demo.call("recipe=demo")
    assert again.tasks[0] > 0 and again.tasks[1] == 0 and again.folder != demo.run
    pd.testing.assert_frame_equal(demo.rows.drop(columns="run_id"), again.rows.drop(columns="run_id"))
    compared = demo.call("compare", demo.run, again.folder).out.splitlines()[-1]
    assert compared == f"{len(demo.rows)} rows with equal signatures, 0 rows without a counterpart"


@pytest.mark.slow
def test_weights_in_a_folder_give_the_numbers_of_the_training_that_made_them(demo: Demo) -> None:
    """One code path for all weights: folders of trained networks as ``source``, instead of the training."""
    trained = {json.loads((path / "record.json").read_text())["notes"]["label"]: path
               for path in demo.home.glob("exp/store/train/*/*")}  # fmt: skip
    weights = trained["train ecapa on original, training set"]
    (units,) = demo.home.glob("exp/store/train/*/*/phones.safetensors")
    rows = demo.call(
        "recipe=demo", "train=none", "extractor=[ecapa,phones]", "system=[original,b2]", f"extractor.ecapa.source={weights}",
        f"extractor.phones.source={units.parent}", "attacker=[ignorant]", "metric=[asv,zebra,srd]",
    ).rows  # fmt: skip
    key = ["trained_on", "subset", "condition", "system", "attacker", "extractor", "metric", "variant", "estimator"]
    both = rows[[*key, "value", "label"]].merge(demo.rows, on=key, suffixes=("", "_trained"))
    assert len(both) == len(rows) > 20
    pd.testing.assert_series_equal(both["value"], both["value_trained"], check_names=False)
    assert (both["label"] == both["label_trained"]).all()


@pytest.mark.slow
def test_train_prints_where_the_weights_are_and_doctor_what_the_machine_has(demo: Demo) -> None:
    counts, ecapa, folder, phones, units, *adapted = demo.call("train", "recipe=demo").out.splitlines()
    assert counts.startswith("tasks: ") and counts.endswith(" reused, 0 computed")
    assert ecapa.startswith("train ecapa on original, training set: loss ")
    assert (Path(folder) / "embedding_model.safetensors").is_file()
    assert "perplexity" in phones and "of 128 codes" in phones and (Path(units) / "phones.safetensors").is_file()
    label = "train phones on original, training set"
    assert phones == f"{label}: {json.loads((demo.run / 'status.json').read_text())['training'][label]}"
    assert [line.partition(":")[0] for line in adapted[::2]] == [
        "train ecapa on b2, training set (fixed)", "train ecapa on b2r, training set (utterance)",
    ]  # fmt: skip
    assert "torch " in demo.call("doctor", "recipe=demo").out
