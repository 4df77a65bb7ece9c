"""From scores to the strongest attack and to differences: held against the metric core on the same trials."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from pipeline import metrics
from pipeline.engine.outcome import Outcome
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Work
from pipeline.metrics import Attacks, Trials
from pipeline.metrics.maximum import corrected_maximum, maximum_interval
from pipeline.metrics.trial_uncertainty import metric_bounds
from pipeline.products.strongest import compute as stage
from pipeline.products.strongest.compute import ATTACKS, ROWS, Listed, Sets, Two
from pipeline.seeds import generator
from pipeline.tables import records, scores
from tests.running import execute

SPEAKERS, EACH, REPLICATES = 7, 4, 30


def table(shift: float, seed: int, who: str = "f") -> pd.DataFrame:
    """Scores of one attack on all models with all utterances; targets score higher by ``shift``."""
    random = np.random.default_rng(seed)
    rows = [
        (f"{who}{m}", f"{who}{s}", f"m-{who}{m}", f"{who}{s}-{k}", random.normal() + shift * (m == s), m == s)
        for m in range(SPEAKERS)
        for s in range(SPEAKERS)
        for k in range(EACH)
    ]
    columns = ["model_speaker", "speaker", "model", "utterance", "score", "target"]
    return pd.DataFrame(rows, columns=columns).sort_values(["model", "utterance"], ignore_index=True)


def given(name: str, of: pd.DataFrame) -> Task:
    def write(work: Work) -> None:
        of.to_parquet(work.folder() / scores.TRIALS, index=False)
        scores.write_thinned(work.folder(), [])

    return Task("score", name, write, {"name": name})


def attacked(
    name: str, tables: list[pd.DataFrame], subset: str = "f", *, has_speakers: bool = True, replicates: int = REPLICATES
) -> tuple[list[Task], Task]:
    made = [given(f"{name}.{subset}.{k}", one) for k, one in enumerate(tables)]
    listed = Listed(subset, len(made), len(tables[0]), has_speakers, replicates, 3)
    inputs = {f"scores.{k}": one.ref() for k, one in enumerate(made)}
    settings = {"subset": subset, "has_speakers": has_speakers, "replicates": replicates}
    return made, Task("measure", name, functools.partial(stage.measure_contributions, listed), settings, inputs)


def answered(sets: Sets, made: Mapping[str, Task]) -> Task:
    inputs = {f"attacks.{k}": one.ref() for k, one in enumerate(made.values())}
    return Task("measure", "strongest", functools.partial(stage.choose_strongest, sets), {}, inputs)


def coded(tables: list[pd.DataFrame]) -> list[Trials]:
    names = sorted(set(tables[0]["speaker"]) | set(tables[0]["model_speaker"]))
    place = {name: code for code, name in enumerate(names)}
    sides = [tables[0][name].map(place).to_numpy() for name in ("model_speaker", "speaker")]
    return [Trials(one["score"].to_numpy(), *sides) for one in tables]


def direct(tables: list[pd.DataFrame], metric: str) -> Attacks:
    found = [metrics.leave_each_out(one) for one in coded(tables)]
    names = sorted(set(tables[0]["speaker"]))
    values, without = [one.value[metric] for one in found], [one.without[metric] for one in found]
    return metrics.collect_attacks(values, without, names, degrees=SPEAKERS - 1, bounds=metric_bounds(metric))


def permutes(tables: list[pd.DataFrame], group: np.ndarray) -> np.random.Generator:
    names = sorted(set(tables[0]["model_speaker"]) | set(tables[0]["speaker"]))
    return generator(3, "null band of the strongest attack", *(names[code] for code in group))


F = [table(0.5, 1), table(2.4, 2), table(1.0, 3)]
M = [table(0.5, 4, "m"), table(0.8, 5, "m"), table(2.4, 6, "m")]
MEAN = {"f": 0.25, "m": 0.75}


def of_all_pairs(on_f: Attacks, on_m: Attacks) -> Attacks:
    """Each attack on f with each on m, as if each pair were one attack."""
    pairs = [(a, b) for a in range(3) for b in range(3)]
    alike = on_f.only([a for a, _ in pairs]), on_m.only([b for _, b in pairs])
    return metrics.average_attacks(alike, list(MEAN.values()))


def read(outcome: Outcome, task: Task, name: str = ROWS) -> pd.DataFrame:
    return pd.read_parquet(outcome.artefact(task.ref()).path(name))


def test_the_strongest_attack_is_that_of_the_metric_core_on_sets_and_on_their_mean(tmp_path: Path) -> None:
    (on_f, of_f), (on_m, of_m) = attacked("b2", F), attacked("b2", M, "m")
    last = answered(Sets({"f": (0, 1, 2), "m": (0, 1, 2)}, {"mean": MEAN}), {"f": of_f, "m": of_m})
    outcome = execute([*on_f, *on_m, of_f, of_m, last], Store(tmp_path))
    rows = read(outcome, last).set_index("subset")
    parts = {"f": direct(F, "d_ece"), "m": direct(M, "d_ece")}
    parts["mean"] = of_all_pairs(parts["f"], parts["m"])
    draws = {
        name: metrics.null_draws(
            coded(tables),
            generator=functools.partial(permutes, tables),
            replicates=REPLICATES,
        )
        for name, tables in (("f", F), ("m", M))
    }
    draws["mean"] = np.concatenate([0.25 * draws["f"][:, [a]] + 0.75 * draws["m"] for a in range(3)], axis=1)
    eers = {"f": direct(F, "eer.rocch"), "m": direct(M, "eer.rocch")}
    eers["mean"] = of_all_pairs(eers["f"], eers["m"])
    for name, of in parts.items():
        best = int(np.argmax(of.values))
        row, (interval, contend) = rows.loc[name], maximum_interval(of)
        chosen = {best // 3, best % 3} if name == "mean" else {best}
        assert ({int(one) for one in row["attack"].split()}, row["n_attacks"]) == (chosen, 3)
        assert (row["d_ece"], row["d_ece_low"], row["d_ece_high"]) == (of.values.max(), interval.low, interval.high)
        contenders = {one for k in contend for one in ((k // 3, k % 3) if name == "mean" else (k,))}
        assert row["contenders"] == " ".join(map(str, sorted(contenders)))
        assert row["d_ece_corrected"] == pytest.approx(corrected_maximum(of), abs=1e-12)
        assert row["lowest_eer"] == eers[name].values.min(), "of any choice on each set"
        assert row["eer"] == eers[name].values[best]
        eer = metrics.simultaneous_interval(eers[name], best)
        assert (row["eer_low"], row["eer_high"]) == (eer.low, eer.high)
        band = metrics.null_of_maximum(float(of.values.max()), draws[name])
        assert (row["null_low"], row["null_high"], row["p_chance"]) == (band.low, band.high, band.p_value)
    assert {name: rows.loc[name, "attack"] for name in parts} == {"f": "1", "m": "2", "mean": "1 2"}
    assert rows.loc["mean", "d_ece"] == 0.25 * rows.loc["f", "d_ece"] + 0.75 * rows.loc["m", "d_ece"]
    assert rows.loc["mean", "alid_ceiling"] == pytest.approx(np.log2(SPEAKERS))
    behind = read(outcome, last, ATTACKS)
    assert behind[behind["subset"] == "f"]["attack"].tolist() == ["1", "2", "0"], "the strongest first"
    assert behind[behind["subset"] == "mean"]["attack"].tolist() == ["2", "1", "0"], "each on both sets"
    one = behind[(behind["subset"] == "f") & (behind["attack"] == "0")].iloc[0]
    alone = metrics.intervals(metrics.trials_by_speaker(coded(F)[0]))["d_ece"]
    assert (one["d_ece_low"], one["d_ece_high"]) == pytest.approx((alone.low, alone.high), abs=1e-12)


def test_attacks_are_compared_on_the_trials_that_all_have(tmp_path: Path) -> None:
    less = F[1].drop(index=[0, 5, 9]).sample(frac=1, random_state=1)
    on_f, of_f = attacked("b2", [F[0], less])
    outcome = execute([*on_f, of_f], Store(tmp_path))
    made = outcome.artefact(of_f.ref())
    numbers = records.read(made.folder)
    assert (numbers["n_used"], numbers["n_expected"]) == (len(F[0]) - 3, len(F[0]))
    values = pd.read_parquet(made.path(ATTACKS)).set_index("attack")["d_ece"]
    for number, one in enumerate((F[0].drop(index=[0, 5, 9]), less)):
        want = metrics.d_ece_oracle(one["score"][one["target"]], one["score"][~one["target"]])
        assert values[number] == pytest.approx(want, abs=1e-12)


def test_differences_are_those_of_the_metric_core(tmp_path: Path) -> None:
    other = [table(0.4, 7), table(2.0, 8)]
    (on_a, of_a), (on_b, of_b) = attacked("a", F), attacked("b", other)
    two = Two(Sets({"f": (0, 1, 2)}, {}), Sets({"f": (0, 1)}, {}), ((0, 0), (2, 1)), 5)
    task = Task(
        "measure", "two", functools.partial(stage.compare_systems, two), {}, {"a.0": of_a.ref(), "b.0": of_b.ref()}
    )
    outcome = execute([*on_a, *on_b, of_a, of_b, task], Store(tmp_path))
    rows = read(outcome, task).set_index(["under", "metric", "attack_a", "attack_b"])
    a, b = direct(F, "d_ece"), direct(other, "d_ece")
    random = functools.partial(generator, 5, "swaps of two systems")
    want = metrics.difference(a, b, generator=random())
    got = rows.loc[("strongest", "d_ece", "1", "1")]
    assert (got["difference"], got["low"], got["high"]) == (want.difference, want.interval.low, want.interval.high)
    assert got["p_value"] == want.p_value and got["exact"] == 1 and got["swaps"] == 2 ** (SPEAKERS - 1)
    assert got["difference"] == pytest.approx(b.values.max() - a.values.max())
    eer = rows.loc[("strongest", "eer", "1", "1")]
    assert np.isnan(eer["p_value"]) and eer["reason"].startswith("the test is that of D_ECE")
    assert eer["a"] == direct(F, "eer.rocch").values.min() and eer["b"] == direct(other, "eer.rocch").values.min()
    assert eer["low"] < eer["difference"] == eer["b"] - eer["a"] < eer["high"]
    for metric, core in stage.METRICS.items():
        want = metrics.difference(direct(F, core).only([2]), direct(other, core).only([1]), generator=random())
        assert rows.loc[("same", metric, "2", "1")]["p_value"] == want.p_value
    assert len(rows) == 6


def test_other_trials_are_not_compared_and_unknown_speakers_have_values_alone(tmp_path: Path) -> None:
    (on_a, of_a), (on_b, of_b) = attacked("a", F[:1]), attacked("b", [F[1].iloc[:-1]])
    on_c, of_c = attacked("c", F[1:], has_speakers=False)
    sets, nobody = Sets({"f": (0,)}, {}), Sets({"f": (0, 1)}, {})
    tasks = [
        Task("measure", name, functools.partial(stage.compare_systems, Two(sets, of, (), 0)), {"n": name}, {"a.0": of_a.ref(), "b.0": made.ref()})
        for name, of, made in (("two", sets, of_b), ("three", nobody, of_c))
    ]  # fmt: skip
    alone = answered(nobody, {"f": of_c})
    outcome = execute([*on_a, *on_b, *on_c, of_a, of_b, of_c, *tasks, alone], Store(tmp_path))
    rows = read(outcome, tasks[0])
    assert (
        set(rows["reason"]) == {"the two systems were not tried on the same trials"} and rows["difference"].isna().all()
    )
    rows = read(outcome, tasks[1])
    assert rows["p_value"].isna().all() and "speakers" in rows["reason"][0] and rows["difference"].notna().all()
    row = read(outcome, alone).iloc[0]
    assert row["attack"] == "0" and np.isnan(row["d_ece_low"]) and row["interval_reason"] and row["null_reason"]


def test_a_class_without_trials_has_a_reason_and_no_number(tmp_path: Path) -> None:
    on_f, of_f = attacked("b2", [one[~one["target"]] for one in F])
    last = answered(Sets({"f": (0, 1, 2)}, {}), {"f": of_f})
    outcome = execute([*on_f, of_f, last], Store(tmp_path))
    row = read(outcome, last).iloc[0]
    assert row["reason"] == "there is no target score" and np.isnan(row["d_ece"])


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for place in ("one", "two"):
        on_f, of_f = attacked("b2", F)
        last = answered(Sets({"f": (0, 1, 2)}, {}), {"f": of_f})
        outcome = execute([*on_f, of_f, last], Store(tmp_path / place))
        contents.append([outcome.artefact(one.ref()).digest for one in (of_f, last)])
    assert contents[0] == contents[1]


def null_of_mean(tmp_path: Path, parts: dict[str, list[pd.DataFrame]], **more: Any) -> pd.Series:
    """The row of the plain mean over sets."""
    tasks, made = [], {}
    for subset, tables in parts.items():
        scored, made[subset] = attacked("b2", tables, subset, **more)
        tasks += [*scored, made[subset]]
    ids = {subset: tuple(range(len(tables))) for subset, tables in parts.items()}
    last = answered(Sets(ids, {"mean": dict.fromkeys(parts, 1 / len(parts))}), made)
    outcome = execute([*tasks, last], Store(tmp_path))
    found: pd.Series = read(outcome, last).set_index("subset").loc["mean"]
    return found


def test_speakers_of_two_sets_change_places_alike_in_both(tmp_path: Path) -> None:
    again = [table(0.5, 11), table(2.4, 12), table(1.0, 13)]
    row = null_of_mean(tmp_path / "shared", {"f": F, "common": again})
    draws = np.full((REPLICATES, 3), np.nan)
    random = permutes(F, np.arange(SPEAKERS))
    for draw in draws:
        identity = random.permutation(SPEAKERS)
        values = []
        for one in (*coded(F), *coded(again)):
            held = identity[one.enrolled] == one.spoken
            values.append(metrics.trial_metrics(one.scores[held], one.scores[~held]).d_ece)
        draw[:] = np.reshape(values, (2, 3)).max(axis=1).mean()
    band = metrics.null_of_maximum(row["d_ece"], draws)
    assert (row["null_low"], row["null_high"], row["p_chance"]) == pytest.approx((band.low, band.high, band.p_value))
    # Twice the same set is that set.
    twice, alone = (
        null_of_mean(tmp_path / name, parts) for name, parts in (("twice", {"f": F, "f2": F}), ("alone", {"f": F}))
    )
    assert (
        twice[["null_low", "null_high", "p_chance"]].tolist() == alone[["null_low", "null_high", "p_chance"]].tolist()
    )


def test_why_a_mean_has_no_null_band(tmp_path: Path) -> None:
    moved = [one.replace({name: {"f0": "g0"} for name in ("model_speaker", "speaker")}) for one in F]
    few = [
        one[one["model_speaker"].isin(["m0", "m1"]) & one["speaker"].isin(["m0", "m1"])].reset_index(drop=True)
        for one in M
    ]
    for name, parts, more, reason in (
        ("overlap", {"f": F, "g": moved}, {}, "some of the enrolled speakers of one set are enrolled in another, and not all: they cannot "
         "change places alike in both"),
        ("few", {"f": F, "m": few}, {}, "too few enrolled speakers to permute"),
        ("none", {"f": F, "m": M}, {"replicates": 0}, "no permutations were asked for (report.replicates=0)"),
        ("unknown", {"f": F, "m": M}, {"has_speakers": False}, "the speakers are not known"),
    ):  # fmt: skip
        row = null_of_mean(tmp_path / name, parts, **more)
        assert row["null_reason"] == reason and np.isnan(row["null_high"]), name


def held_by_chance(random: np.random.Generator) -> tuple[bool, bool]:
    """Of three sets with the same speakers and no information about them: whether the mean D_ECE lies above its band, where speakers
    change places alike, and where each set has its own permutations."""
    n, each, n_sets, replicates = 10, 3, 3, 100
    enrolled, spoken = np.repeat(np.arange(n), n * each), np.tile(np.repeat(np.arange(n), each), n)
    # How alike two voices sound stays from one set to the other.
    alike = random.normal(size=(n, n))
    sets = [
        Trials(alike[enrolled, spoken] + 0.3 * random.normal(size=enrolled.size), enrolled, spoken)
        for _ in range(n_sets)
    ]
    value = float(
        np.mean(
            [
                metrics.trial_metrics(one.scores[enrolled == spoken], one.scores[enrolled != spoken]).d_ece
                for one in sets
            ]
        )
    )
    above = []
    for seeds in ([0] * n_sets, range(n_sets)):
        start = int(random.integers(2**31))
        draws = [
            metrics.null_draws(
                [one], generator=lambda _, k=start + seed: np.random.default_rng(k), replicates=replicates
            )  # type: ignore[misc]
            for one, seed in zip(sets, seeds)
        ]
        band = metrics.null_of_maximum(value, np.mean(draws, axis=0))
        assert band.high is not None
        above.append(value > band.high)
    return above[0], above[1]


@pytest.mark.slow
def test_the_band_of_a_mean_over_sets_that_share_their_speakers_holds() -> None:
    random = np.random.default_rng(3)
    found = np.mean([held_by_chance(random) for _ in range(200)], axis=0)
    assert found[0] <= 0.055, f"2.5 % on that side, 200 times: {found}"
    assert found[1] > 0.08, f"what is shared makes the mean vary more than independent permutations say: {found}"


@pytest.mark.parametrize("n", [1, 3])
def test_an_eer_of_zero_has_the_exact_limit_of_as_many_attacks_as_were_tried(tmp_path: Path, n: int) -> None:
    """Binomial: of so many speakers none is missed with a probability of 2.5 % (shared among the attacks) at the limit."""
    made, of_f = attacked("clear", [table(40.0, 1), *(table(3.0, 2 + k) for k in range(n - 1))])
    last = answered(Sets({"f": tuple(range(n))}, {}), {"f": of_f})
    outcome = execute([*made, of_f, last], Store(tmp_path))
    row, behind = read(outcome, last).iloc[0], read(outcome, last, ATTACKS).iloc[0]
    assert row["eer"] == row["eer_low"] == 0 and row["attack"] == "0"
    assert binom.pmf(0, SPEAKERS, row["eer_high"]) == pytest.approx(0.025 / n)
    assert binom.pmf(0, SPEAKERS, behind["eer_high"]) == pytest.approx(0.025)
    assert (row["lowest_eer"], row["lowest_eer_low"], row["lowest_eer_high"]) == (0, 0, row["eer_high"])
    assert np.isnan(row["d_ece_low"]) == (n == 1), "of one attack there is no interval, of several one from below"
    assert n == 1 or row["d_ece_low"] < row["d_ece"] == row["d_ece_high"]


def test_the_lowest_eer_is_that_of_all_attacks_with_the_interval_of_the_minimum(tmp_path: Path) -> None:
    """The mirror of the maximum: of 1/2 - EER, which is higher the more is disclosed."""
    on_f, of_f = attacked("b2", F)
    last = answered(Sets({"f": (0, 1, 2)}, {}), {"f": of_f})
    row = read(execute([*on_f, of_f, last], Store(tmp_path)), last).iloc[0]
    eer = direct(F, "eer.rocch")
    without = 0.5 - np.array([metrics.leave_each_out(one).without["eer.rocch"] for one in coded(F)])
    mirrored = metrics.collect_attacks(0.5 - eer.values, without, eer.speakers, degrees=SPEAKERS - 1, bounds=(0.0, 0.5))
    interval, _ = maximum_interval(mirrored)
    assert interval.low is not None and interval.high is not None and interval.low > 0
    assert row["lowest_eer"] == eer.values.min() and row["lowest_eer_attack"] == str(np.argmin(eer.values))
    assert (0.5 - row["lowest_eer_high"], 0.5 - row["lowest_eer_low"]) == pytest.approx((interval.low, interval.high))


def test_the_strongest_attack_that_enrols_protected_speech_is_tested_against_its_own_chance(tmp_path: Path) -> None:
    on_f, of_f = attacked("b2", F)
    on_m, of_m = attacked("b2", M, "m")
    last = answered(Sets({"f": (0, 1, 2), "m": (0, 1, 2)}, {"mean": MEAN}, (0, 2)), {"f": of_f, "m": of_m})
    none = Task(
        "measure",
        "none",
        functools.partial(stage.choose_strongest, Sets({"f": (0, 1, 2)}, {})),
        {},
        {"attacks.0": of_f.ref()},
    )
    outcome = execute([*on_f, *on_m, of_f, of_m, last, none], Store(tmp_path))
    rows = read(outcome, last).set_index("subset")
    values = {name: direct(of, "d_ece").values[[0, 2]].max() for name, of in (("f", F), ("m", M))}
    assert rows["pp_attack"].to_dict() == {"f": "2", "m": "2", "mean": "2 2"}
    assert rows.loc["f", "pp_d_ece"] == values["f"] < rows.loc["f", "d_ece"]
    assert rows.loc["mean", "pp_d_ece"] == 0.25 * values["f"] + 0.75 * values["m"]
    draws = metrics.null_draws(coded(F), generator=functools.partial(permutes, F), replicates=REPLICATES)[:, [0, 2]]
    assert rows.loc["f", "pp_p_chance"] == metrics.null_of_maximum(values["f"], draws).p_value
    (row,) = read(outcome, none).to_dict("records")
    assert row["pp_attack"] == "" and np.isnan(row["pp_p_chance"])


def test_two_systems_are_compared_on_a_mean_by_the_strongest_attack_on_each_set(tmp_path: Path) -> None:
    other = [table(0.4, 7), table(2.0, 8), table(2.2, 9)]
    (on_a, of_a), (on_m, of_m), (on_b, of_b) = attacked("a", F), attacked("a", M, "m"), attacked("b", other)
    sets = Sets({"f": (0, 1, 2), "m": (0, 1, 2)}, {"mean": MEAN})
    inputs = {"a.0": of_a.ref(), "a.1": of_m.ref(), "b.0": of_b.ref(), "b.1": of_m.ref()}
    task = Task("measure", "two", functools.partial(stage.compare_systems, Two(sets, sets, (), 5)), {}, inputs)
    outcome = execute([*on_a, *on_m, *on_b, of_a, of_m, of_b, task], Store(tmp_path))
    row = read(outcome, task).set_index(["subset", "metric"]).loc[("mean", "d_ece")]
    f, g, m = (direct(of, "d_ece") for of in (F, other, M))
    want = metrics.difference(of_all_pairs(f, m), of_all_pairs(g, m), generator=generator(5, "swaps of two systems"))
    assert (row["attack_a"], row["attack_b"]) == ("1 2", "2 2")
    assert row["difference"] == pytest.approx(0.25 * (g.values.max() - f.values.max()), abs=1e-15)
    assert row["p_value"] == want.p_value
    assert (row["low"], row["high"]) == pytest.approx((want.interval.low, want.interval.high), abs=1e-6)
