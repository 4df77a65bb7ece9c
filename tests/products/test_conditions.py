"""Minimum-EER conditions: as the challenges rank, beside our strongest attack, and what an interval leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.products import find_eer_definition
from pipeline.products.conditions import rank
from pipeline.report.leaderboard import tabulate_conditions
from pipeline.report.table import to_latex, to_markdown, to_text
from pipeline.tables import answers, results

EDGES = (0.1, 0.2, 0.3, 0.4)
MEAN = "libri_test (mean of f and m)"


def row(system: str, attacker: str, value: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    """An EER of an attack on a subset, in two definitions."""
    return {"dataset": "d", "subset": MEAN, "system": system, "attacker": attacker, "extractor": "ecapa", "trained_on": "t",
            "backend": "cosine", "status": "ok", "metric": "eer", "variant": "speechbrain", "value": value, "low": low, "high": high, **more}  # fmt: skip


ROWS = results.frame([
    row("b3", "unprotected", 0.05, 0.04, 0.06),
    row("b3", "semi_informed", 0.27322, 0.25, 0.29),
    row("b3", "semi_informed", 0.35, 0.34, 0.36, backend="plda"),
    row("b3", "lazy_informed", 0.22, 0.18, 0.31),
    row("b3", "semi_informed", 0.01, 0.0, 0.02, variant="rocch"),
    row("b3", "semi_informed", 0.02, 0.0, 0.03, subset="libri_test_trials_f"),
    row("b2", "semi_informed", 0.0452, 0.03, 0.11),
    row("b9", "semi_informed", 0.4, float("nan"), float("nan")),
])  # fmt: skip
BOARD = answers.frame(
    "leaderboard",
    [
        {"dataset": "d", "subset": subset, "system": system, "attacker": attacker, "extractor": "ecapa", "trained_on": "t", "backend": "cosine"}
        for subset, system, attacker in ((MEAN, "b3", "lazy_informed"), (MEAN, "b2", "semi_informed"))
    ],
)  # fmt: skip


def test_where_each_set_has_another_strongest_attack_the_lowest_eer_of_them_counts() -> None:
    board = BOARD.assign(
        attacker=["lazy_informed / semi_informed", "semi_informed"], backend=["plda / cosine", "cosine"]
    )
    found = rank(ROWS, board, subset=MEAN, edges=EDGES, attackers=["semi_informed"], variant="speechbrain")
    (row,) = found[(found["system"] == "b3") & (found["ranked_by"] == answers.STRONGEST)].to_dict("records")
    assert row["value"] == 0.22 and row["attack"].startswith("lazy_informed: ")


def ranked(**more: Any) -> pd.DataFrame:
    asked: dict[str, Any] = {"subset": MEAN, "edges": EDGES, "attackers": ["semi_informed"], "variant": "speechbrain"}
    return rank(ROWS, BOARD, **{**asked, **more})


def test_the_lowest_of_the_attacker_ranks_and_the_strongest_attack_stands_beside_it() -> None:
    found = tabulate_conditions(ranked(), ["b2", "b3", "b9"]).texts
    assert [line[1:3] + line[5:7] for line in found] == [
        ["b2", "semi_informed", "none", "condition 1"],
        ["b2", "strongest attack", "none", "condition 1"],
        ["b3", "semi_informed", "1, 2", ""],
        ["b3", "strongest attack", "1, 2", "condition 1, condition 3"],
        ["b9", "semi_informed", "1, 2, 3, 4", ""],
    ]
    assert found[2][3:5] == ["27.32", "[25.00, 29.00]"] and "cosine" in found[2][-1], "not the PLDA, which has more"
    assert found[-1][4] == "–"


def test_the_definition_and_the_subset_are_those_that_are_asked_for() -> None:
    assert ranked(variant="rocch")["met"].tolist() == [0]
    assert ranked(variant="")["variant"].unique().tolist() == ["rocch"], "that by which attacks are compared"
    assert ranked(subset="libri_test_trials_f")["value"].tolist() == [0.02]
    assert ranked(attackers=["nobody"])["ranked_by"].unique().tolist() == [answers.STRONGEST]
    assert ranked(edges=(0.15, 0.2, 0.25, 0.3))["met"].tolist() == [0, 0, 3, 2, 4]


def test_a_partial_eer_is_marked_with_the_condition_that_it_meets(tmp_path: Path) -> None:
    part = results.frame(
        [row("b2", "semi_informed", 0.31, 0.3, 0.35, status="partial"), row("b9", "semi_informed", 0.4, 0.39, 0.41)]
    )
    asked: dict[str, Any] = {"subset": MEAN, "edges": EDGES, "attackers": ["semi_informed"], "variant": "speechbrain"}
    found = rank(part, BOARD, **asked)
    assert dict(zip(found["system"], found["status"])) == {"b2": "partial", "b9": "ok"}
    assert [line[3] for line in tabulate_conditions(found, ["b2", "b9"]).texts if line[2] == "semi_informed"] == [
        "31.00 †",
        "40.00",
    ]
    for write in (to_text, to_markdown, to_latex):
        assert "does not stand on everything" in write(tabulate_conditions(found))
        assert "does not stand on everything" not in write(tabulate_conditions(found[found["status"] == "ok"]))


def test_attacks_are_compared_on_the_convex_hull_where_there_are_several_definitions() -> None:
    def rows(*variants: str) -> pd.DataFrame:
        return results.frame([{"dataset": "d", "metric": "eer", "variant": name, "value": 0.1} for name in variants])

    assert find_eer_definition(rows("kaldi", "rocch")) == "rocch" == find_eer_definition(rows())
    assert find_eer_definition(rows("speechbrain")) == "speechbrain" and find_eer_definition(rows("own")) == "own"


@pytest.mark.parametrize("write", [to_text, to_markdown, to_latex])
def test_every_form_says_what_the_conditions_are(write: Any) -> None:
    said = write(tabulate_conditions(ranked(), ["b3"])).replace("\\", "")
    for words in ("Minimum-EER conditions", "condition 1: 10 %, 2: 20 %, 3: 30 %, 4: 40 %", "definition speechbrain",
                  "27.32", "condition 1, condition 3"):  # fmt: skip
        assert words in said
    assert write(tabulate_conditions(ranked(subset="none"))) == ""


def test_the_table_is_kept_in_the_run_folder(tmp_path: Path) -> None:
    assert answers.read_bands(tmp_path).empty and list(answers.read_bands(tmp_path).columns) == list(answers.BANDS)
    answers.write_bands(ranked(), tmp_path)
    pd.testing.assert_frame_equal(answers.read_bands(tmp_path), ranked(), check_dtype=False)
