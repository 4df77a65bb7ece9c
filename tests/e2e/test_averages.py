"""Averages over sets, conditions, linkability, measures on trial lists and two labels of a family, through the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pipeline import cli, metrics
from pipeline.evaluation.result import Result, read
from tests import toy
from tests.e2e.test_precomputed import written

Command = Callable[..., tuple[int, str, str]]
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
def command(toys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Evaluate with vectors from files; exit status, standard output and standard error."""
    monkeypatch.chdir(toys)
    threads = torch.get_num_threads()

    def call(*arguments: str, verb: tuple[str, ...] = ()) -> tuple[int, str, str]:
        vectors = ", ".join(f"{label}: {toys / label}" for label in ("original", "b2"))
        status = cli.run([
            *verb, "recipe=kaldi", f"dataset.root={toys / 'data'}", "system=[b2]", "extractor=[precomputed]", "diagnostics=false",
            f"+extractor.precomputed.vectors={{{vectors}}}", "attacker=[ignorant,lazy_informed]", "runtime.threads=1", *arguments,
        ])  # fmt: skip
        return (status, *capfd.readouterr())

    yield call
    torch.set_num_threads(threads)


def result(out: str) -> Result:
    return read(Path(out.splitlines()[-1]).parent)


def one(rows: pd.DataFrame, **values: str) -> pd.Series:
    for name, value in values.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def parts(rows: pd.DataFrame, mean: dict[Any, Any]) -> tuple[pd.Series, pd.Series]:
    """The rows of f and m that an average is of."""
    about = {name: str(mean[name]) for name in ("metric", "variant", "condition", "attacker", "system")}
    return one(rows, subset="toy_trials_f", **about), one(rows, subset="toy_trials_m", **about)


def classes(made: Result, sex: str, attacker: str) -> list[np.ndarray]:
    """Scores of targets and of non-targets."""
    trials = made.scores(subset=f"toy_trials_{sex}", attacker=attacker)
    return [trials["score"][trials["target"] == kind].to_numpy() for kind in (True, False)]


@pytest.mark.slow
def test_averages_conditions_linkability_and_two_labels_of_a_family(command: Command) -> None:
    status, out, err = command(
        "metric=[asv,linkability]", "+metric.again={name: asv, eer: [kaldi], interval: none}", "metric.asv.eer=[rocch,speechbrain]",
        "metric.linkability.replicates=0", AVERAGE,
        "bands={subset: toy, edges: [0.1,0.2,0.3,0.4], attacker: lazy_informed, variant: speechbrain}",
    )  # fmt: skip
    assert status == 0, err
    made = result(out)
    rows = made.rows
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
        assert one(rows, **about)["value"] == pytest.approx(value, abs=1e-12)
    # A second label adds rows, and changes neither those of the first nor what they are compared by.
    assert set(rows[rows["metric"] == "cllr_min"]["variant"]) == {"", "again"}
    assert list(made.bands["ranked_by"]) == ["lazy_informed", "strongest attack"]
    assert f"Minimum-EER condition met on {MEAN}: b2 " in " ".join(out.split())
    said = made.summary()
    assert said == toy.summary(out)
    for text in (
        said,
        made.to_markdown().replace("\\", ""),
        made.to_latex().replace("\\", ""),
        made.report().read_text(),
    ):
        for words in ("Minimum-EER conditions", MEAN, "cannot be told from", "condition 1: 10 %"):
            assert words in text
    for screen in (out, said):
        assert screen.startswith("What the strongest attack tried on each system discloses")
        assert f"On {MEAN}, " in screen and "EER: lowest of all attacks" in screen
    assert all(f"EER {name} (%)" in said for name in ("rocch", "speechbrain", "kaldi, again"))


@pytest.mark.slow
def test_measures_on_trial_lists_and_matrices_by_two_pair_rules(command: Command) -> None:
    status, out, err = command(
        "metric=[asv,zebra,vsm]", "+metric.half={name: vsm, pairing: vpc2020, interval: none}", "derived=[normalised]",
        "metric.asv.interval=none", "metric.zebra.replicates=0", "metric.vsm.interval=none", AVERAGE,
    )  # fmt: skip
    assert status == 0, err
    made = result(out)
    rows = made.rows
    means = rows[rows["subset"] == MEAN]
    assert set(means["metric"]) == {"eer", "g_vd", "d_ece_op_oo"}
    for mean in means.to_dict("records"):
        f, m = parts(rows, mean)
        assert mean["value"] == pytest.approx(0.75 * f["value"] + 0.25 * m["value"])
    for sex in "fm":
        subset = f"toy_trials_{sex}"
        oo, op = (metrics.d_ece_oracle(*classes(made, sex, attacker)) for attacker in ("unprotected", "ignorant"))
        removed = one(rows, subset=subset, metric="d_ece_op_oo", variant="trial_lists")
        assert removed["value"] == pytest.approx(1 - op / oo, abs=1e-12)
        deid = {label: one(rows, subset=subset, metric="deid", variant=label) for label in ("", "half")}
        assert deid[""]["value"] != deid["half"]["value"]
        assert deid[""]["n_target"] == 2 * deid["half"]["n_target"]
        assert one(rows, subset=subset, metric="g_d_ece", variant="all_pairs, half")["status"] == "ok"
    assert "Protected against unprotected speech" in made.summary() and "DeID_OP half (%)" in made.summary()
    similarity = pd.read_parquet(made.folder / "figures" / "similarity.parquet")
    assert set(similarity["extractor"]) == {"precomputed", "precomputed, half"}


def test_what_cannot_be_formed_is_said_first_and_costs_nothing_else(command: Command) -> None:
    asked = (
        "metric=[asv]", "metric.asv.interval=none", AVERAGE, "+averages.other={weights: {toy_trials_f: 0.5, toy_trial_m: 0.5}}",
        "derived=[normalised]", "bands={subset: toys, edges: [0.1]}",
    )  # fmt: skip
    status, out, err = command(*asked)
    assert status == 0, err
    made = result(out)
    assert set(made.rows["subset"]) == {"toy_trials_f", "toy_trials_m", MEAN}
    said = made.summary()
    said = said[: said.rindex("EER (%)")]
    for words in (
        "'other' is not formed: there is no trial set toy_trial_m (there is: toy_trials_f, toy_trials_m)",
        f"'{MEAN}' is not formed of d_sys, g_vd, d_ece_op_oo: no chosen metric measures that",
        "d_ece_op_oo from trial lists is not formed: it needs d_ece, which metric=zebra gives",
        "no minimum-EER conditions: there is no 'toys'",
    ):
        assert words in said and words in err
        assert words in " ".join(out.split()) or "more: summary.txt" in out
    assert made.bands.empty and "Minimum-EER" not in out


def test_faults_are_named_at_once_and_the_weights_that_are_offered_are_taken(command: Command) -> None:
    status, _, err = command(
        "metric=[asv]", "+averages.a={weights: {toy_trials_f: 1, toy_trials_m: 2}}", "+averages.b={weights: {x: 1}, metrics: [err,tag]}",
        "+averages.c={subset: b, weights: {x: 1}}", "bands={edges: [15,20]}", "derived=[normal]", "averages.d.weights={x: -1}",
        verb=("validate",),
    )  # fmt: skip
    assert status == 2
    for words in (
        "averages.a.weights: ", "add up to 3, not to 1", "did you mean eer?", "tag is a word and has no mean", "is that of averages.b too",
        "bands.subset: ", "bands.edges: ", "[0.15, 0.2]?", "derived: is a list of some of normalised", "averages.d.weights.x: ",
    ):  # fmt: skip
        assert words in err, words
    offered = err.partition("in the same proportions: ")[2].partition("}")[0] + "}"
    status, _, err = command("metric=[asv]", f"+averages.a={{weights: {offered}}}", verb=("validate",))
    assert status == 0, err
