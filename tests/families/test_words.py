"""What families declare is what they do: words, units, ranges, figure tables; and the rows that come of it."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline import cli
from pipeline.contracts import FIGURE_IDENTITY, Attribute, Metric, MetricFamily, Pairs, Ranks, Row
from pipeline.metrics.calibration import CECE_BOUNDS
from pipeline.metrics.vsm_uncertainty import LINKAGE_BOUNDS, VSM_BOUNDS
from pipeline.registry import component, list_names
from pipeline.report import glossary
from tests.families.runs import pair_runs, trial_runs, voices

OURS = list_names("families")
UNITS = {"fraction", "bit", "log10", "dB", "nat", "tag", ""}


def scores(family: type[MetricFamily]) -> object:
    """Something that the family can measure, with a little of everything in it."""
    if family.searches:
        made = trial_runs(3).first
        sexes = {name: "fm"[k % 2] for k, name in enumerate(np.unique(made.models).tolist())}
        spoken = {name: sexes[speaker] for name, speaker in zip(made.utterances.tolist(), made.speakers.tolist())}
        return dataclasses.replace(made, attributes={"sex": Attribute(sexes, spoken)})
    if family.reads == "trials":
        return dataclasses.replace(trial_runs(3).first, are_llrs=True)
    if family.reads == "trial_runs":
        return trial_runs(3)
    if family.reads == "pair_runs":
        return pair_runs(3)
    (original, protected, _), speakers = voices(3)
    if family.reads == "pairs":
        sides = (original @ original.T, original @ protected.T, protected @ protected.T)
        return Pairs(*sides, speakers, len(speakers))
    who, true = np.unique(speakers, return_inverse=True)
    return Ranks(
        original @ original[[np.flatnonzero(true == k)[0] for k in range(len(who))]].T, true, tuple(who), 41, 2
    )


@pytest.mark.parametrize("name", OURS)
def test_words_are_complete(name: str) -> None:
    family = component("families", name)
    assert family.title and family.metrics and family.references
    for metric in family.metrics.values():
        assert metric.symbol and metric.title and metric.sentence[0].isupper() and metric.sentence.endswith(".")
        assert metric.unit in UNITS and metric.direction in {"higher", "lower", ""} and metric.source
        assert metric.bounds[0] < metric.bounds[1]


def test_a_name_means_one_metric_and_a_table_one_figure() -> None:
    families = [component("families", name) for name in OURS]
    metrics = [metric for family in families for metric in family.metrics]
    tables = [table.name for family in families for table in family.figures]
    assert len(set(metrics)) == len(metrics) == len(glossary.metrics()) and len(set(tables)) == len(tables)
    assert sorted(m for _, names in glossary.compact() for m in names) == sorted(
        name for family in families for name, metric in family.metrics.items() if metric.summary
    )


@pytest.mark.parametrize("name", OURS)
def test_a_family_gives_what_it_declares(name: str) -> None:
    family = component("families", name)
    settings = family.Settings(**({"replicates": 40} if "replicates" in family.Settings.model_fields else {}))
    made = family.measure(settings, scores(family))
    assert {row.metric for row in made.rows} == set(family.metrics)
    assert set(made.tables) == {table.name for table in family.figures}
    for table in family.figures:
        assert set(table.columns) <= set(made.tables[table.name].columns) and set(table.identity) <= set(
            FIGURE_IDENTITY
        )
    for row in made.rows:
        _is_whole(row, family.metrics[row.metric])
    keys = [(row.metric, row.variant, row.estimator, row.input_unit, row.condition) for row in made.rows]
    assert len(set(keys)) == len(keys)


def _is_whole(row: Row, metric: Metric) -> None:
    """A number within the metric's range or a word or a reason; ends in order."""
    low, high = metric.bounds
    assert not math.isnan(row.value) or row.reason or row.label
    assert not (row.reason and not math.isnan(row.value))
    for number in (row.value, row.low, row.high, row.null_low, row.null_high, row.ceiling):
        assert math.isnan(number) or low <= number <= high
    for ends in ((row.low, row.high), (row.null_low, row.null_high)):
        assert np.isnan(ends).all() or ends[0] <= ends[1]


def test_null_bands_ceilings_and_notes_stand_beside_their_values() -> None:
    zebra, srd = (component("families", name) for name in ("zebra", "srd"))
    rows = {row.metric: row for row in zebra.measure(zebra.Settings(replicates=40), scores(zebra)).rows}
    assert rows["d_ece"].null_low <= rows["d_ece"].null_high and math.isnan(rows["d_ece"].ceiling)
    # log10 of the largest likelihood ratio that 32 targets and 224 non-targets can show, by the closed form of the rule.
    assert rows["l_w"].ceiling == pytest.approx(math.log10(max(33 * 224 / 32, 225 * 32 / 224)), abs=1e-12)
    ranked = srd.measure(srd.Settings(replicates=40, segment_seconds=30), scores(srd)).rows
    assert {(row.estimator, row.input_unit, row.variant) for row in ranked} == {
        ("empirical", "segment of 30 s", ""), ("beta_binomial", "segment of 30 s", ""),
    }  # fmt: skip
    assert all(row.note == "2 of 40 inputs hold no evidence: all references tie" and not row.reason for row in ranked)
    banded = {row.metric for row in ranked if not math.isnan(row.null_high)}
    assert banded == {row.metric for row in ranked if row.estimator == "empirical" and not math.isnan(row.null_low)}
    assert {"max_d", "mean_d"} <= banded


def test_ranges_are_those_that_intervals_are_cut_to() -> None:
    declared = {name: metric.bounds for name, metric in glossary.metrics().items()}
    for name, bounds in {**LINKAGE_BOUNDS, **CECE_BOUNDS, **VSM_BOUNDS}.items():
        # ``d_diag.oo`` and ``normalised_all_pairs.g_d_ece`` name a condition and a variant.
        metric = next(part for part in (name, *name.split(".")) if part in declared)
        assert declared[metric] == bounds, name


def test_metrics_are_spelled_as_from_scores_spells_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    utterances = [f"{speaker}{k}" for speaker in "abcd" for k in range(3)]
    draw = np.random.default_rng(0)

    def save(name: str, lines: list[str]) -> str:
        Path(name).write_text("".join(f"{line}\n" for line in lines))
        return name

    def square(name: str) -> str:
        lines = [f"{a} {b} {draw.normal(a[0] == b[0])}" for a in utterances for b in utterances]
        return save(name, lines)

    spoken = save("utt2spk", [f"{name} {name[0]}" for name in utterances])
    first, second = (
        save(name, [f"{a} {b} {draw.normal(a == b[0])}" for a in "abcd" for b in utterances]) for name in "ST"
    )
    kinds = {True: "target", False: "nontarget"}
    trials = save("trials", [f"{a} {b} {kinds[a == b[0]]}" for a in "abcd" for b in utterances])
    conditions = [part for condition in ("oo", "op", "pp") for part in (f"--{condition}", square(condition))]
    references = save("references", [f"{a} {a}" for a in "abcd"])
    sexes = save("sexes", ["a f", "b f", "c m", "d m"])
    inputs = save("inputs", [f"{b} {a} {draw.normal(a == b[0])}" for a in "abcd" for b in utterances])
    found: set[str] = set()
    for call in (
        ["trials", "--scores", first, "--trials", trials],
        ["cece", "--train", first, "--scores", second, "--trials", trials, "--method", "linear"],
        ["vsm", *conditions, "--utt2spk", spoken],
        ["srd", "--scores", inputs, "--input2spk", spoken, "--reference2spk", references],
        ["disclosure", "--scores", inputs, "--input2spk", spoken, "--reference2spk", references, "--spk2attr", sexes],
    ):
        assert cli.run(["from-scores", *call, "--replicates", "0", "--json", "-"]) == 0
        found |= _keys(json.loads(capfd.readouterr().out))
    # A family of which a verb spells something is spelled whole; from-scores has no verb for two runs of all pairs, for example.
    for name in list_names("families"):
        declared = set(component("families", name).metrics)
        assert declared <= found or not declared & found, (name, declared - found)


def _keys(tree: object) -> set[str]:
    if not isinstance(tree, dict):
        return set()
    return set(tree).union(*map(_keys, tree.values()))


def test_figures_are_drawn_by_functions_that_numbers_do_not_load() -> None:
    code = (
        "import sys; from pipeline.report import glossary; glossary.metrics(); print('matplotlib' in sys.modules);"
        "drawn = [*glossary.figure_tables(), *glossary.row_figures()];"
        "print(all(callable(glossary.drawing(one.draw)) and one.section for one in drawn if one.draw))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
