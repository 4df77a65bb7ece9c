"""Rows that follow from others: averages over sets with their intervals, measures relative to unprotected speech."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline import metrics
from pipeline.cli.compose import compose
from pipeline.datasets.prepare import Prepared
from pipeline.metrics import mover
from pipeline.products import averages, conditions
from pipeline.protocol import trials
from pipeline.stages.settings import Average
from pipeline.tables import results

REFERENCE = Path(__file__).resolve().parents[2] / "data_manifests" / "reference"
WEIGHTS = {"libri_{}_trials_f": 0.25, "libri_{}_trials_m": 0.25, "vctk_{}_trials_f": 0.2, "vctk_{}_trials_m": 0.2,
           "vctk_{}_trials_f_common": 0.05, "vctk_{}_trials_m_common": 0.05}  # fmt: skip
ATTACK = {
    "dataset": "d", "condition": "PP", "system": "b2", "system_level": "speaker", "attacker": "semi_informed", "extractor": "x",
    "trained_on": "original", "backend": "plda", "calibration": "oracle", "estimator": "", "input_unit": "",
}  # fmt: skip
NAN = math.nan


def row(subset: str, metric: str, value: float | None, **more: Any) -> dict[str, Any]:
    """A row as it is gathered; absent numbers are None, as files have them."""
    numbers = dict.fromkeys(results.NUMBERS) | {"value": value}
    counts = dict(zip(results.COUNTS, (100, 100, 5, 10, 90)))
    said = {"variant": "", "label": "", "unit": "fraction", "direction": "higher is more private", "status": "ok", "reason": "",
            "note": "", "signature": f"signature of {subset}", "input_digest": subset, "model_digest": "m"}  # fmt: skip
    return {**ATTACK, "subset": subset, "metric": metric, **numbers, **counts, **said, **more}


def data(**speakers: str) -> Prepared:
    """Trial sets with these speakers, a letter each, who all enrol in one set."""
    lines, sets = [], {}
    for name, who in speakers.items():
        enrolled = [(one, f"{one}-e") for one in "abcdefghijkl"]
        tried = [(model, f"{one}-{name}", model == one) for model in who for one in who]
        lines += [(f"{one}-{name}", one, name) for one in who]
        sets[name] = trials.make_trial_set(name, "enrolls", enrolled, tried, len(tried))
    lines += [(f"{one}-e", one, "enrolls") for one in "abcdefghijkl"]
    return Prepared("d", pd.DataFrame(lines, columns=["utterance", "speaker", "set"]), sets, {}, (), ())


def challenge(split: str) -> Prepared:
    """Sets of the challenges; the common sentences of VCTK are those of the same speakers."""
    who = dict(zip(WEIGHTS, ("abc", "def", "gh", "ij", "gh", "ij")))
    return data(**{name.format(split): speakers for name, speakers in who.items()})


def printed(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_vpc_2024_means_of_f_and_m() -> None:
    for log, condition, mean in (("mcadams", "OO", 0.04590), ("sttts", "PP", 0.27322)):
        rows = [
            row(cell["subset"], "eer", float(cell["value"]) / 100, variant="speechbrain")
            for cell in printed("vpc2024_results.csv")
            if cell["metric"] == "eer" and cell["subset"] in ("libri_test_trials_f", "libri_test_trials_m")
            and cell["condition"] == condition and cell["table"] == f"results/result_for_rank_{log}"
        ]  # fmt: skip
        assert len(rows) == 2
        asked = {"t": Average(subset="mean", weights={"libri_test_trials_f": 0.5, "libri_test_trials_m": 0.5})}
        (found,) = averages.form_averages(rows, asked, challenge("test"))
        assert found["value"] == pytest.approx(mean, abs=6e-6) and found["subset"] == "mean"


@pytest.mark.parametrize(
    "system", ["mcadams", "tts_joint_hifigan", "tts_old_c", "tts_pytorch", "tts_joint_nsf_hifigan"]
)
def test_vpc_2022_weighted_averages_are_those_that_are_printed(system: str) -> None:
    log = f"baseline/results/RESULTS_summary_{system}"
    cells = [one for one in printed("vpc2022_results_summary.csv") if one["table"] == log]
    eer = {(one["subset"], one["condition"]): float(one["value"]) for one in cells if one["metric"] == "eer"}
    gain = {one["subset"]: float(one["value"]) for one in cells if one["metric"] == "g_vd"}
    for split in ("dev", "test"):
        rows = []
        for name in (one.format(split) for one in WEIGHTS):
            rows.append(
                row(name, "eer", eer[name, "OO"] / 100, attacker="unprotected", system="original", condition="OO")
            )
            rows.append(row(name, "eer", eer[name, "PP"] / 100))
            rows.append(row(name, "g_vd", gain[name], unit="dB", attacker=""))
        weights = {name.format(split): weight for name, weight in WEIGHTS.items()}
        asked = {"w": Average(subset=f"{split} (weighted average)", weights=weights, metrics=("eer", "g_vd"))}
        found = {
            (one["metric"], one["condition"]): one for one in averages.form_averages(rows, asked, challenge(split))
        }
        whole = f"{split} (weighted average)"
        # The parts are printed with four digits, so their mean may differ in the fourth.
        for condition in ("OO", "PP"):
            assert 100 * found["eer", condition]["value"] == pytest.approx(eer[whole, condition], abs=2.5e-3), condition
        assert found["g_vd", "PP"]["value"] == pytest.approx(gain[whole], abs=2.5e-3)
        assert "have speakers in common" in found["eer", "OO"]["note"] and found["eer", "OO"]["unit"] == "fraction"


def test_counts_are_added_and_speakers_who_stand_in_several_sets_count_once() -> None:
    split = challenge("test")
    rows = [row(name, "eer", 0.1, n_speakers=len(split.trials[name].trials["model"].unique())) for name in split.trials]
    weights = {name.format("test"): weight for name, weight in WEIGHTS.items()}
    (found,) = averages.form_averages(rows, {"w": Average(subset="w", weights=weights)}, split)
    assert [found[name] for name in results.COUNTS] == [600, 600, 3 + 3 + 2 + 2, 60, 540]
    assert all(f"signature of {name}" in found["signature"] for name in weights)
    heavier = {**weights, "libri_test_trials_f": 0.3, "libri_test_trials_m": 0.2}
    (other,) = averages.form_averages(rows, {"w": Average(subset="w", weights=heavier)}, split)
    assert other["signature"] != found["signature"]
    assert results.frame([found]).loc[0, "subset"] == "w"


def test_intervals_of_other_speakers_are_joined_by_mover_and_those_of_the_same_added_in_full() -> None:
    sets = data(f="ab", m="cd", f_common="ab")
    ends = {"f": (0.04, 0.16), "m": (0.12, 0.28), "f_common": (0.08, 0.12)}
    rows = [row(name, "eer", 0.2 if name == "m" else 0.1, low=low, high=high, null_low=0.4, null_high=0.6)
            for name, (low, high) in ends.items()]  # fmt: skip
    weights = {"f": 0.25, "m": 0.5, "f_common": 0.25}
    (found,) = averages.form_averages(rows, {"w": Average(subset="w", weights=weights)}, sets)
    same, other = 0.25 * 0.06 + 0.25 * 0.02, 0.5 * 0.08
    assert found["value"] == pytest.approx(0.15)
    assert found["low"] == pytest.approx(0.15 - math.sqrt(same**2 + other**2))
    assert found["high"] == pytest.approx(0.15 + math.sqrt(same**2 + other**2))
    assert found["null_high"] == pytest.approx(0.5 + math.sqrt(0.05**2 + 0.05**2))
    # Cross-sex trials make two sets dependent.
    (mixed,) = averages.form_averages(
        rows, {"w": Average(subset="w", weights=weights)}, data(f="abc", m="cd", f_common="ab")
    )
    assert mixed["high"] - mixed["value"] == pytest.approx(same + other)
    rows[0].update(low=None, high=None, null_low=None)
    (bare,) = averages.form_averages(rows, {"w": Average(subset="w", weights=weights)}, sets)
    assert bare["value"] == pytest.approx(0.15) and math.isnan(bare["low"]) and math.isnan(bare["null_low"])


def test_a_part_without_a_value_leaves_none_and_is_named() -> None:
    sets = data(f="ab", m="cd")
    asked = {"w": Average(subset="w", weights={"f": 0.5, "m": 0.5})}

    def mean(*rows: dict[str, Any]) -> dict[str, Any]:
        (found,) = averages.form_averages(rows, asked, sets)
        return found

    whole, note = row("f", "eer", 0.1, variant="rocch"), "back end of one session"
    short = mean(whole, row("m", "eer", None, variant="rocch", status="incomplete", reason="stands on 3 of 4"))
    assert math.isnan(short["value"]) and (short["status"], short["reason"]) == ("incomplete", "m: stands on 3 of 4")
    gone = mean(whole)
    assert math.isnan(gone["value"]) and (gone["status"], gone["reason"]) == ("incomplete", "m: no row")
    partial = mean(whole, row("m", "eer", 0.3, variant="rocch", status="partial", note=note))
    assert partial["value"] == pytest.approx(0.2) and partial["status"] == "partial" and f"m: {note}" in partial["note"]
    # A family that cannot be computed on a set has a row without a variant there.
    (found,) = averages.form_averages(
        [whole, row("m", "eer", None, status="incomplete", reason="asv cannot be computed")], asked, sets
    )
    assert (found["variant"], found["reason"]) == ("rocch", "m: asv cannot be computed")
    gains = [row("f", "g_vd", -2.0), row("m", "g_vd", -math.inf)]
    (gain,) = averages.form_averages(
        gains, {"w": Average(subset="w", weights={"f": 0.5, "m": 0.5}, metrics=("g_vd",))}, sets
    )
    assert gain["value"] == -math.inf and gain["status"] == "ok" and not gain["reason"]
    assert averages.form_averages([whole], {"w": Average(subset="w", weights={"f": 0.5, "x": 0.5})}, sets) == []


def test_mover_covers_where_parts_are_independent_and_adding_where_they_are_one() -> None:
    """Wilson's intervals of error rates, skewed and near 0, of which the coverage is known to be near 95 %."""
    draw, n, truth, weights = np.random.default_rng(1), 60, (0.04, 0.25), (0.6, 0.4)
    mean = sum(w * p for w, p in zip(weights, truth))
    covered = {"mover": 0, "apart": 0, "one": 0}
    rounds = 4000

    def wilson(errors: int) -> tuple[float, float]:
        found = stats.binomtest(errors, n).proportion_ci(method="wilson")
        return found.low, found.high

    known = [wilson(errors) for errors in range(n + 1)]
    for _ in range(rounds):
        counts = [draw.binomial(n, p) for p in truth]
        low, high = mover.interval([k / n for k in counts], [known[k] for k in counts], weights, [[0], [1]])  # type: ignore[misc]
        covered["mover"] += low <= mean <= high
        # The same speakers with the same luck in both sets.
        k = draw.binomial(n, truth[1])
        for name, groups in (("apart", [[0], [1]]), ("one", [[0, 1]])):
            low, high = mover.interval([k / n] * 2, [known[k]] * 2, weights, groups)  # type: ignore[misc]
            covered[name] += low <= truth[1] <= high
    share = {name: count / rounds for name, count in covered.items()}
    assert 0.94 < share["mover"] < 0.97
    assert share["one"] > 0.93 and share["apart"] < 0.88, "taken for independent, sets of one speaker cover too little"


def test_mover_of_real_intervals_agrees_with_a_bootstrap_over_the_speakers_of_both_sets() -> None:
    draw = np.random.default_rng(3)

    def listed(ease: float) -> metrics.Trials:
        own, level = draw.normal(size=(14, 6)), draw.normal(ease, 0.5, size=14)
        models, spoken = np.repeat(np.arange(14), 14 * 6), np.tile(np.repeat(np.arange(14), 6), 14)
        heard = level[spoken] * (models == spoken) + 0.3 * (own[models] * own[spoken]).sum(axis=1) / 3
        return metrics.Trials(heard + draw.normal(size=models.size), models, spoken)

    sets = [metrics.trials_by_speaker(listed(ease), ["eer.rocch"]) for ease in (1.2, 2.0)]
    values = [each.evaluate(each.everybody)["eer.rocch"] for each in sets]
    known = [metrics.intervals(each)["eer.rocch"] for each in sets]
    found = mover.interval(values, [(one.low, one.high) for one in known], [0.5, 0.5], [[0], [1]])  # type: ignore[misc]
    assert found is not None
    means = []
    for _ in range(300):
        drawn = []
        for each in sets:
            weights = np.bincount(draw.integers(14, size=14), minlength=14).astype(float)
            drawn.append(each.evaluate(weights)["eer.rocch"])
        means.append(sum(drawn) / 2)
    spread = 1.96 * float(np.std(means))
    width = (found[1] - found[0]) / 2
    assert 0.75 * spread < width < 1.6 * spread, (width, spread)


def test_an_interval_beside_its_value_is_taken_from_its_nearer_end() -> None:
    low, high = mover.interval([0.1, 0.2], [(0.12, 0.2), (0.1, 0.3)], [0.5, 0.5], [[0], [1]])  # type: ignore[misc]
    assert (low, high) == (pytest.approx(0.16 - 0.05), pytest.approx(0.16 + math.hypot(0.04, 0.05)))


def test_parts_are_grouped_through_others() -> None:
    assert mover.group_by_speakers([frozenset("ab"), frozenset("cd"), frozenset("bc"), frozenset("e")]) == [
        [0, 1, 2],
        [3],
    ]


def relative(*rows: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["metric"], one["subset"]): one for one in averages.normalise(rows)}


def test_noe_2022_table_3_follows_from_the_rows() -> None:
    printed_2, printed_3 = printed("noe2022_table2.csv"), printed("noe2022_table3.csv")
    cells = {
        (one["subset"], one["system"], one["condition"]): one["value"] for one in printed_2 if one["metric"] == "d_ece"
    }
    checked = 0
    for one in printed_3:
        if one["metric"] != "d_ece_op_oo":
            continue
        where = one["subset"]
        found = relative(
            row(where, "d_ece", float(cells[where, "original", "OO"]), attacker="unprotected", condition="OO"),
            row(where, "d_ece", float(cells[where, one["system"], "OP"]), attacker="ignorant", condition="OP"),
            row(where, "d_ece", 0.1, attacker="ignorant", condition="OP", backend="another"),
            row(where, "d_ece", 0.1, attacker="semi_informed", condition="PP", trained_on="anonymised"),
        )
        (name,) = found
        assert name == ("d_ece_op_oo", where)
        made = found[name]
        assert (made["variant"], made["attacker"], made["condition"]) == ("trial_lists", "ignorant", "OP")
        assert 100 * made["value"] == pytest.approx(float(one["value"].lstrip("~")), abs=0.12)
        checked += 1
    assert checked == 18


def test_gains_are_of_pp_and_removals_of_op_and_agree_with_the_metric_core() -> None:
    oo, op, pp = (0.5, 0.3), (0.1, 0.9), (0.3, 0.6)
    rows = []
    for (d_ece, cost), more in (
        (oo, {"attacker": "unprotected", "condition": "OO", "system": "original"}),
        (op, {"attacker": "ignorant", "condition": "OP"}),
        (pp, {"attacker": "lazy_informed", "condition": "PP"}),
    ):
        rows += [row("f", "d_ece", d_ece, **more), row("f", "cllr_min", cost, **more)]
    found = {name: one for (name, _), one in relative(*rows).items()}
    core = metrics.normalised(d_ece=(oo[0], op[0], pp[0]), cllr_min=(oo[1], op[1], pp[1]))
    assert {name: one["value"] for name, one in found.items()} == {
        name: getattr(core, name) for name in ("d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min")
    }
    assert found["g_d_ece"]["unit"] == "dB" and found["g_d_ece"]["attacker"] == "lazy_informed"
    assert all(math.isnan(one["low"]) for one in found.values())


def test_what_is_not_defined_has_no_value_and_the_reason() -> None:
    about = {"attacker": "unprotected", "condition": "OO", "system": "original"}
    attacked = row("f", "d_ece", 0.1, attacker="ignorant", condition="OP")
    (one,) = relative(row("f", "d_ece", 0.0, **about), attacked).values()
    assert math.isnan(one["value"]) and "discloses nothing" in one["reason"] and one["status"] == "ok"
    lost = row("f", "d_ece", None, status="incomplete", reason="stands on 3 of 4", **about)
    (one,) = relative(lost, attacked).values()
    assert math.isnan(one["value"]) and (one["reason"], one["status"]) == ("stands on 3 of 4", "incomplete")


def test_a_run_that_forms_nothing_has_the_digest_that_it_had() -> None:
    plain = compose(["dataset=synthetic"])[0].numeric()
    asked = compose(["dataset=synthetic", "+averages.a={weights: {x: 1}}", "derived=[normalised]"])[0].numeric()
    assert not {"averages", "derived"} & plain.keys()
    assert asked == {**plain, "derived": ["normalised"],
                     "averages": {"a": {"subset": "a", "weights": {"x": 1.0}, "metrics": ["eer"]}}}  # fmt: skip


def test_challenges_rank_by_the_attackers_that_adapt_unless_one_is_named() -> None:
    asked = ["dataset=synthetic", "attacker=[ignorant,semi_informed]", "train=default", "extractor=[ecapa]"]
    average = "+averages.a={subset: 'mean (of f and m)', weights: {x: 1}}"
    evaluation = compose([*asked, average, "bands={subset: a, edges: [0.1]}"])[0]
    assert evaluation.products.bands is not None and evaluation.products.bands.subset == "mean (of f and m)", (
        "an average by its label"
    )
    assert conditions._rankers(evaluation) == ["semi_informed"] and not list(averages.list_unformed(evaluation, ["x"]))
    named = compose([*asked, "bands={subset: x, edges: [0.1], attacker: ignorant}"])[0]
    assert conditions._rankers(named) == ["ignorant"]
    none = compose(["dataset=synthetic", "attacker=[ignorant]", "bands={subset: x, edges: [0.1]}"])[0]
    (said,) = conditions.list_unranked(none, ["x"])
    assert "by the strongest attack alone: no chosen attacker adapts" in said
