"""Answers: what is written of attacks that do not stand on everything, ranks, and columns from other rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.cli.compose import compose
from pipeline.datasets.prepare import Prepared
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Work
from pipeline.products import Collection
from pipeline.products.strongest.collect import Candidate, StrongestAttack, SystemPair, collect_strongest
from pipeline.products.strongest.compute import ATTACKS, ROWS
from pipeline.stages.graph import Graph
from pipeline.tables import records, results
from tests.running import execute

ATTACK = {"condition": "PP", "attacker": "lazy", "extractor": "ear", "trained_on": "original", "backend": "cosine"}
VALUES = {"b2": 0.3, "b2r": 0.2, "b3": 0.25, "original": 0.6}


def strongest_rows(value: float, used: int = 40, reason: str = "") -> list[dict[str, Any]]:
    numbers = {"d_ece": value, "d_ece_low": value - 0.1, "d_ece_high": value + 0.1, "null_low": 0.0, "null_high": 0.05,
               "p_chance": 0.001, "eer": 0.3, "eer_low": 0.2, "eer_high": 0.4, "d_ece_corrected": value - 0.01,
               "lowest_eer": 0.28, "lowest_eer_low": 0.18, "lowest_eer_high": 0.39, "lowest_eer_attack": "1",
               "pp_attack": "0", "pp_d_ece": value, "pp_eer": 0.3, "pp_p_chance": 0.002, "alid_ceiling": 3.0}  # fmt: skip
    about = {
        "subset": "t",
        "attack": "0",
        "n_attacks": 2.0,
        "contenders": "0 1",
        "n_expected": 40.0,
        "n_used": float(used),
    }
    counts = {
        "n_target": 8.0,
        "n_nontarget": 32.0,
        "n_speakers": 8.0,
        "interval_reason": "",
        "null_reason": "",
        "reason": reason,
    }
    if reason:
        about = {**about, "attack": ""}
        numbers = {name: "" if name.endswith("_attack") else math.nan for name in numbers}
    return [{**about, **numbers, **counts}]


def difference_rows(value: float, p: float) -> list[dict[str, Any]]:
    row = {"subset": "t", "under": "strongest", "attack_a": "0", "attack_b": "0", "metric": "d_ece", "a": 0.3, "b": 0.3 + value,
           "difference": value, "low": value - 0.01, "high": value + 0.01, "p_value": p, "n_speakers": 8.0, "swaps": 128.0,
           "exact": 1.0, "reason": ""}  # fmt: skip
    return [row]


def made(name: str, **tables: list[dict[str, Any]]) -> Task:
    def write(work: Work) -> None:
        for table, rows in tables.items():
            pd.DataFrame(rows).to_parquet(work.folder() / f"{table}.parquet", index=False)

    return Task("measure", name, write, {"name": name})


def told(name: str, record: dict[str, Any]) -> Task:
    return Task("check", name, lambda work: records.write(work.folder(), record), {"name": name})


def measured(metric: str, system: str, **more: Any) -> dict[str, Any]:
    about = {
        "dataset": "toys",
        "subset": "t",
        "system": system,
        **ATTACK,
        "metric": metric,
        "value": 0.5,
        "status": "ok",
    }
    return {**about, **more}


def answered(
    tmp_path: Path,
    pairs: dict[tuple[str, str], tuple[float, float]],
    rows: list[dict[str, Any]] | None = None,
    allow_partial: bool = False,
    **used: int,
) -> dict[str, pd.DataFrame]:
    graph = Graph()
    for system, value in VALUES.items():
        held = strongest_rows(value, used.get(system, 40))
        behind = [{"subset": "t", "attack": k, **dict.fromkeys(("d_ece", "d_ece_low", "d_ece_high", "eer", "eer_low", "eer_high"), value), "contends": 1.0} for k in (0.0, 1.0)]  # fmt: skip
        task = graph.add(made(system, **{Path(ROWS).stem: held, Path(ATTACKS).stem: behind}))
        identity = {"dataset": "toys", "system": system, "system_level": ""}
        two = (ATTACK, {**ATTACK, "attacker": "other"})
        graph.products.append(
            StrongestAttack(identity, task.ref(), two, {"t": (0, 1)}, ("x with y",), system != "original")
        )
    check = graph.add(told("held out", {"eer": 0.04}))
    graph.products.append(Candidate({"dataset": "toys", "system": "b2", **ATTACK}, check.ref()))
    for (a, b), (value, p) in pairs.items():
        task = graph.add(made(f"{a} {b}", rows=difference_rows(value, p)))
        graph.products.append(SystemPair({"system": b}, task.ref(), a, a == "b2"))
    table = results.frame(rows if rows is not None else [measured("eer", system) for system in VALUES])
    return collected(graph, table, tmp_path, f"allow_partial={str(allow_partial).lower()}")


def collected(graph: Graph, table: pd.DataFrame, folder: Path, *overrides: str) -> dict[str, pd.DataFrame]:
    """The tables that are made of a graph and of rows of results."""
    evaluation = compose(overrides)[0]
    data = Prepared("toys", pd.DataFrame(), dict.fromkeys(table["subset"]), {}, (), ())
    outcome = execute(graph.tasks, Store(folder))
    collection = Collection(graph, evaluation, data, outcome, folder, table, table)
    collect_strongest(collection)
    return collection.tables


PAIRS = {("b2", "b2r"): (-0.1, 0.01), ("b2", "b3"): (-0.05, 0.03), ("b3", "b2r"): (-0.05, 0.6)}


def test_ranks_are_those_of_the_corrected_tests(tmp_path: Path) -> None:
    found = answered(tmp_path, PAIRS)
    board = found["leaderboard"].set_index("system")
    # 0.01 by 3, then 0.03 by 2: of the two that seem different one is.
    assert found["differences"]["p_holm"].tolist() == pytest.approx([0.03, 0.06, 0.6])
    assert list(board.index) == ["b2r", "b3", "b2", "original"]
    assert board["rank"].tolist()[:3] == [1, 1, 2] and pd.isna(board.loc["original", "rank"])
    assert board.loc["b2", "untried"] == "x with y" and board.loc["b2", "contenders"] == 2
    assert board.loc["b2", "chance"] == "above" and board.loc["b2", "attacker"] == "lazy"
    assert (board.loc["b2", "lowest_eer"], board.loc["b2", "lowest_eer_attack"]) == (0.28, "other: ear, cosine")
    assert set(found["differences"]["n_compared"]) == {3} and found["differences"]["baseline"].tolist() == [
        True,
        True,
        False,
    ]
    assert found["differences"]["sentence"].str.startswith("On t, each under its strongest attack, ").all()
    attacks = found["attacks"].set_index(["system", "attacker"])
    assert len(attacks) == 8 and attacks["held_out"].dropna().to_dict() == {("b2", "lazy"): 0.04}


@pytest.mark.parametrize("allow_partial", [True, False])
def test_what_does_not_stand_on_everything_has_no_number_or_a_mark(allow_partial: bool, tmp_path: Path) -> None:
    rows = [measured("eer", system, status="partial" if system == "b3" else "ok") for system in VALUES]
    found = answered(tmp_path, PAIRS, rows, allow_partial, b2=39)
    board, differences = found["leaderboard"].set_index("system"), found["differences"]
    marked = "partial" if allow_partial else "incomplete"
    assert board["status"].to_dict() == {"b2r": "ok", "b3": marked, "b2": marked, "original": "ok"}
    assert differences["status"].tolist() == [marked] * 3
    if allow_partial:
        assert board["d_ece"].notna().all() and differences["p_value"].notna().all()
        return
    assert np.isnan(board.loc["b2", "d_ece"]) and pd.isna(board.loc["b2", "rank"]) and board.loc["b2", "attacker"] == ""
    assert board.loc["b2", "reason"] == "stands on 39 of 40; allow_partial=true would write it, marked"
    assert differences[["difference", "p_value", "p_holm"]].isna().all(axis=None)
    assert found["attacks"].loc[found["attacks"]["system"] == "b3", "d_ece"].isna().all()


def test_columns_of_other_rows_are_of_the_same_extractor_or_of_what_discloses_most(tmp_path: Path) -> None:
    rows = [measured("eer", system) for system in VALUES]
    rows += [
        measured("alid", "b2", value=0.3, low=0.1, high=0.4, variant="loso"), measured("alid_chance", "b2", value=-0.02, variant="loso"),
        measured("alid", "b2", value=0.9, variant="loso", attacker="other"), measured("alid_chance", "b2", value=-0.7, variant="loso", attacker="other"),
        measured("l_w", "b2", value=2.5, ceiling=4.0), measured("tag", "b2", value=math.nan, label="C"),
        measured("mean_d", "b2", attacker="", subset="pooled", value=0.4, low=0.3, high=0.5, estimator="empirical"),
        measured("mean_d", "b2", attacker="", subset="pooled", value=0.9, extractor="f0", estimator="empirical"),
        measured("mean_d", "b2r", attacker="", subset="pooled", value=0.4, extractor="f0", estimator="empirical"),
        measured("mean_d", "b2r", attacker="", subset="pooled", value=0.6, extractor="phones", estimator="empirical"),
        measured("mean_d", "b2r", attacker="", subset="pooled", value=9.0, extractor="phones", estimator="beta_binomial"),
        measured("deid", "b2r", attacker="", condition="OP", value=0.9, extractor="f0"),
        measured("deid", "b2r", attacker="", condition="OP", value=0.7, extractor="phones"),
    ]  # fmt: skip
    board = answered(tmp_path, PAIRS, rows)["leaderboard"].set_index("system")
    b2, b2r = board.loc["b2"], board.loc["b2r"]
    assert (b2["l_w"], b2["l_w_ceiling"], b2["tag"]) == (2.5, 4.0, "C")
    assert (b2["alid"], b2["alid_low"], b2["alid_high"], b2["alid_chance"]) == (0.3, 0.1, 0.4, -0.02), "of this attack"
    assert b2["alid_by"] == "ear, cosine"
    assert (b2["mean_d"], b2["mean_d_low"], b2["mean_d_high"], b2["mean_d_by"]) == (0.4, 0.3, 0.5, "ear")
    assert (b2r["mean_d"], b2r["mean_d_by"]) == (0.6, "phones"), "the higher discloses more"
    assert (b2r["deid"], b2r["deid_by"]) == (0.7, "phones, cosine"), "the lower discloses more"
    assert np.isnan(board.loc["b3", "mean_d"])


def test_an_attack_that_is_not_on_all_sets_is_not_tried_on_the_others(tmp_path: Path) -> None:
    graph = Graph()
    one = strongest_rows(0.3)[0]
    task = graph.add(
        made(
            "b2", **{Path(ROWS).stem: [{**one, "subset": name} for name in ("f", "m", "both")], Path(ATTACKS).stem: []}
        )
    )
    two = (ATTACK, {**ATTACK, "attacker": "other", "trained_on": "anonymised"})
    identity = {"dataset": "toys", "system": "b2", "system_level": ""}
    graph.products.append(StrongestAttack(identity, task.ref(), two, {"f": (0, 1), "m": (0,)}, ("x with y",), True))
    rows = results.frame([measured("eer", "b2", subset=name) for name in ("f", "m")])
    tables = collected(graph, rows, tmp_path, "+averages.both={weights: {f: 0.5, m: 0.5}}")
    board = tables["leaderboard"].set_index("subset")
    assert board["untried"].to_dict() == {
        "f": "x with y", "m": "x with y, other: ear, cosine, adapted on m", "both": "x with y, other: ear, cosine, adapted on m",
    }  # fmt: skip
