"""Averages over sets, conditions, linkability, measures on trial lists and two labels of a family, through the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.evaluation.result import Result
from tests import toy
from tests.e2e.test_precomputed import written
from tests.running import Command, runner

MEAN = "toy (mean of f and m)"
AVERAGE = (
    f"+averages.toy={{subset: '{MEAN}', weights: {{toy_trials_f: 0.75, toy_trials_m: 0.25}}, "
    "metrics: [eer, d_sys, g_vd, d_ece_op_oo]}"
)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("averages")
    root = toy.corpus(home / "data", speakers=8, utterances=4)
    for seed, label in enumerate(("original", "b2")):
        written(root, home / label, seed)
    return home


@pytest.fixture
def command(toys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Evaluate with vectors from files."""
    monkeypatch.chdir(toys)
    vectors = ", ".join(f"{label}: {toys / label}" for label in ("original", "b2"))
    return runner(
        capfd, monkeypatch, "recipe=kaldi", f"dataset.root={toys / 'data'}", "system=[b2]", "extractor=[precomputed]", "diagnostics=false",
        f"+extractor.precomputed.vectors={{{vectors}}}", "attacker=[ignorant,lazy_informed]", "runtime.threads=1",
    )  # fmt: skip


def single(rows: pd.DataFrame, **values: str) -> pd.Series:
    for name, value in values.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def parts(rows: pd.DataFrame, mean: dict[Any, Any]) -> tuple[pd.Series, pd.Series]:
    """The rows of f and m that an average is of."""
    about = {name: str(mean[name]) for name in ("metric", "variant", "condition", "attacker", "system")}
    return single(rows, subset="toy_trials_f", **about), single(rows, subset="toy_trials_m", **about)


def classes(made: Result, sex: str, attacker: str) -> list[np.ndarray]:
    """Scores of targets and of non-targets."""
    trials = made.scores(subset=f"toy_trials_{sex}", attacker=attacker)
    return [trials["score"][trials["target"] == kind].to_numpy() for kind in (True, False)]


@pytest.mark.slow
def test_averages_conditions_linkability_and_two_labels_of_a_family(command: Command) -> None:
    ended = command(
        "metric=[asv,linkability]", "+metric.again={name: asv, eer: [kaldi], interval: none}", "metric.asv.eer=[rocch,speechbrain]",
        "metric.linkability.replicates=0", AVERAGE,
        "bands={subset: toy, edges: [0.1,0.2,0.3,0.4], attacker: lazy_informed, variant: speechbrain}",
        status=0,
    )  # fmt: skip
    made, rows = ended.run, ended.rows
    means = rows[rows["subset"] == MEAN]
    assert {*zip(means["metric"], means["variant"])} == {
        ("eer", "rocch"), ("eer", "speechbrain"), ("eer", "kaldi, again"), ("d_sys", "exact"), ("d_sys", "vpc"),
    }  # fmt: skip
    for mean in means.to_dict("records"):
        f, m = parts(rows, mean)
        assert mean["value"] == pytest.approx(0.75 * f["value"] + 0.25 * m["value"])
        assert f["signature"] in mean["signature"] and m["signature"] in mean["signature"] and mean["status"] == "ok"
        assert mean["n_used"] == f["n_used"] + m["n_used"] and mean["n_speakers"] == 8
        assert mean["note"] == "weighted mean of toy_trials_f (0.75), toy_trials_m (0.25)"
        if not math.isnan(mean["low"]):
            below, above = (math.hypot(0.75 * (f["value"] - f[e]), 0.25 * (m["value"] - m[e])) for e in ("low", "high"))
            assert (mean["low"], mean["high"]) == pytest.approx((mean["value"] - below, mean["value"] + above))
    assert means["low"].notna().any()
    for variant in ("exact", "vpc"):
        about = {"subset": "toy_trials_f", "metric": "d_sys", "variant": variant, "attacker": "ignorant"}
        value = metrics.d_sys(*classes(made, "f", "ignorant"), variant=variant)
        assert single(rows, **about)["value"] == pytest.approx(value, abs=1e-12)
    # A second label adds rows, and changes neither those of the first nor what they are compared by.
    assert set(rows[rows["metric"] == "cllr_min"]["variant"]) == {"", "again"}
    assert list(made.bands["ranked_by"]) == ["lazy_informed", "strongest attack"]
    assert f"Minimum-EER condition met on {MEAN}: b2 " in ended.screen
    summary = made.summary()
    assert summary == toy.summary(ended.out)
    for text in (
        summary,
        made.to_markdown().replace("\\", ""),
        made.to_latex().replace("\\", ""),
        made.report().read_text(),
    ):
        for words in ("Minimum-EER conditions", MEAN, "cannot be told from", "condition 1: 10 %"):
            assert words in text
    for screen in (ended.out, summary):
        assert screen.startswith("What the strongest attack tried on each system discloses")
        assert f"On {MEAN}, " in screen and "EER: lowest of all attacks" in screen
    assert all(f"EER {name} (%)" in summary for name in ("rocch", "speechbrain", "kaldi, again"))


@pytest.mark.slow
def test_measures_on_trial_lists_and_matrices_by_two_pair_rules(command: Command) -> None:
    ended = command(
        "metric=[asv,zebra,vsm]", "+metric.half={name: vsm, pairing: vpc2020, interval: none}", "derived=[normalised]",
        "metric.asv.interval=none", "metric.zebra.replicates=0", "metric.vsm.interval=none", AVERAGE,
        status=0,
    )  # fmt: skip
    made, rows = ended.run, ended.rows
    means = rows[rows["subset"] == MEAN]
    assert set(means["metric"]) == {"eer", "g_vd", "d_ece_op_oo"}
    for mean in means.to_dict("records"):
        f, m = parts(rows, mean)
        assert mean["value"] == pytest.approx(0.75 * f["value"] + 0.25 * m["value"])
    for sex in "fm":
        subset = f"toy_trials_{sex}"
        oo, op = (metrics.d_ece_oracle(*classes(made, sex, attacker)) for attacker in ("unprotected", "ignorant"))
        removed = single(rows, subset=subset, metric="d_ece_op_oo", variant="trial_lists")
        assert removed["value"] == pytest.approx(1 - op / oo, abs=1e-12)
        deid = {label: single(rows, subset=subset, metric="deid", variant=label) for label in ("", "half")}
        assert deid[""]["value"] != deid["half"]["value"]
        assert deid[""]["n_target"] == 2 * deid["half"]["n_target"]
        assert single(rows, subset=subset, metric="g_d_ece", variant="all_pairs, half")["status"] == "ok"
    assert "Protected against unprotected speech" in made.summary() and "DeID_OP half (%)" in made.summary()
    similarity = pd.read_parquet(made.folder / "figures" / "similarity.parquet")
    assert set(similarity["extractor"]) == {"precomputed", "precomputed, half"}


def test_what_cannot_be_formed_is_said_first_and_costs_nothing_else(command: Command) -> None:
    asked = (
        "metric=[asv]", "metric.asv.interval=none", AVERAGE, "+averages.other={weights: {toy_trials_f: 0.5, toy_trial_m: 0.5}}",
        "derived=[normalised]", "bands={subset: toys, edges: [0.1]}",
    )  # fmt: skip
    ended = command(*asked, status=0)
    assert set(ended.rows["subset"]) == {"toy_trials_f", "toy_trials_m", MEAN}
    first, _, _ = ended.run.summary().rpartition("EER (%)")
    for words in (
        "'other' is not formed: there is no trial set toy_trial_m (there is: toy_trials_f, toy_trials_m)",
        f"'{MEAN}' is not formed of d_sys, g_vd, d_ece_op_oo: no chosen metric measures that",
        "d_ece_op_oo from trial lists is not formed: it needs d_ece, which metric=zebra gives",
        "no minimum-EER conditions: there is no 'toys'",
    ):
        assert words in first and words in ended.err
        assert words in ended.screen or "more: summary.txt" in ended.out
    assert ended.run.bands.empty and "Minimum-EER" not in ended.out


def test_faults_are_named_at_once_and_the_weights_that_are_offered_are_taken(command: Command) -> None:
    refused = command(
        "validate", "metric=[asv]", "+averages.a={weights: {toy_trials_f: 1, toy_trials_m: 2}}",
        "+averages.b={weights: {x: 1}, metrics: [err,tag]}", "+averages.c={subset: b, weights: {x: 1}}", "bands={edges: [15,20]}",
        "derived=[normal]", "averages.d.weights={x: -1}", status=2,
    )  # fmt: skip
    faults = [(fault.where, fault.what) for fault in refused.error.faults]
    for place, words in {
        "averages.a.weights": "add up to 3, not to 1", "averages.b.metrics": "did you mean eer?", "averages.c.subset": "averages.b",
        "bands.subset": "", "bands.edges": "[0.15, 0.2]?", "derived": "normalised", "averages.d.weights.x": "",
    }.items():  # fmt: skip
        assert any(where.startswith(place) and words in what for where, what in faults), (place, faults)
    offered = refused.err.partition("in the same proportions: ")[2].partition("}")[0] + "}"
    command("validate", "metric=[asv]", f"+averages.a={{weights: {offered}}}", status=0)
