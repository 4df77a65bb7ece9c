"""A high DeID beside a low EER under PP: said with both numbers, and only where the attack on protected speech works."""

from __future__ import annotations

import ast
import csv
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pipeline
from pipeline.cli.compose import compose
from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import Outcome
from pipeline.engine.store import Store
from pipeline.products import Collection
from pipeline.products.checks import words as sentences
from pipeline.products.checks.collect import collect_checks
from pipeline.products.checks.words import Rate
from pipeline.report import findings as grouping
from pipeline.report import verdict
from pipeline.report.render import render
from pipeline.stages.graph import Graph
from pipeline.tables import answers, checks, results
from tests.report.conftest import make_run as make_run
from tests.report.conftest import row

MakeRun = Callable[..., Path]
CHECK = "deid_against_eer"
ABOUT: dict[str, Any] = {"subset": "test_f", "system": "b2", "extractor": "ecapa", "trained_on": "original"}
REFERENCE = Path(pipeline.__file__).parents[1] / "data_manifests" / "reference"


def eer(value: float, attacker: str = "semi_informed", **more: Any) -> dict[str, Any]:
    about = {**ABOUT, "trained_on": "anonymised (utterance)", "condition": "PP", "attacker": attacker, **more}
    return row("eer", value, "rocch", **about)


def deid(value: float, variant: str = "", **more: Any) -> dict[str, Any]:
    return row("deid", value, variant, **{**ABOUT, "condition": "OP", **more})


def judged(rows: list[dict[str, Any]], folder: Path, p_chance: float = math.nan) -> pd.DataFrame:
    """What is found in some rows of results, and a test of the attacks under PP on test_f and b2."""
    whose = {"dataset": rows[0]["dataset"], "subset": "test_f", "system": "b2"}
    board = answers.frame(
        "leaderboard", [{**whose, "system": "b2r", "pp_p_chance": 1e-3}, {**whose, "pp_p_chance": p_chance}]
    )
    measured, outcome = results.frame(rows), Outcome(Store(folder / "store"))
    tables = {
        "leaderboard": board,
        "attacks": answers.frame("attacks", []),
        "differences": answers.frame("differences", []),
    }
    data = Prepared("toys", pd.DataFrame(), {}, {}, (), ())
    collect_checks(Collection(Graph(), compose([])[0], data, outcome, folder, measured, measured, tables=tables))
    found = checks.read(folder)
    return found[found["check"] == CHECK]


@pytest.mark.parametrize(
    ("rate", "high", "p_chance", "flagged"),
    [
        (0.32, 0.42, 0.005, True),  # a leak that an EER of 30 % as a border passes
        (0.42, 0.50, 0.025, True),
        (0.42, 0.50, 0.026, False),  # within chance
        (0.05, 0.20, 0.04, True),  # too few speakers for the test, and the attacker finds them all the same
    ],
)
def test_the_test_of_the_attack_on_protected_speech_decides(
    rate: float, high: float, p_chance: float, flagged: bool, tmp_path: Path
) -> None:
    (found,) = judged([deid(0.9), eer(rate, low=rate / 2, high=high)], tmp_path, p_chance).to_dict("records")
    assert found["flagged"] is flagged
    assert (
        f"D_ECE {'above' if p_chance <= 0.025 else 'not shown to be above'} chance: p = {p_chance:.3f}"
        in found["sentence"]
    )
    (other,) = judged([deid(0.6), eer(rate, low=rate / 2, high=high)], tmp_path, 1e-4).to_dict("records")
    assert not other["flagged"], "DeID promises little"


@pytest.mark.parametrize(
    ("de_identified", "rate", "high", "flagged"),
    [
        (0.70, 0.30, np.nan, True),
        (0.699, 0.05, np.nan, False),  # DeID promises little
        (0.99, 0.301, np.nan, False),  # the attack hardly works
        (0.99, 0.48, 0.50, False),  # near chance: they agree
        (0.99, 0.25, 0.39, True),
        (0.99, 0.25, 0.41, False),  # few speakers: it may be near chance
    ],
)
def test_the_borders(de_identified: float, rate: float, high: float, flagged: bool, tmp_path: Path) -> None:
    low = np.nan if np.isnan(high) else rate / 2
    (found,) = judged([deid(de_identified), eer(rate, low=low, high=high)], tmp_path).to_dict("records")
    assert found["flagged"] is flagged
    assert f"DeID is {100 * de_identified:.1f} %" in found["sentence"]
    assert f"the lowest EER under PP is {100 * rate:.1f} %" in found["sentence"]
    assert ("knows original speech only" in found["sentence"]) is flagged


def test_the_lowest_eer_of_the_same_set_and_system_under_pp_stands_beside_the_usual_deid(tmp_path: Path) -> None:
    rows = [
        deid(0.2, "noe2020, half"), deid(0.9), eer(0.45, "lazy_informed"), eer(0.08), eer(0.01, "ignorant", condition="OP"),
        eer(0.02, system="b2r"), eer(0.03, subset="test_m"), eer(0.3, extractor="f0"), deid(0.95, subset="no_pp"),
    ]  # fmt: skip
    (found,) = judged(rows, tmp_path).to_dict("records")
    assert found["flagged"] and (found["subset"], found["system"], found["attacker"]) == ("test_f", "b2", "")
    assert (
        "DeID is 90.0 %" in found["sentence"]
        and "8.0 % (semi_informed: ecapa (anonymised (utterance))" in found["sentence"]
    )
    # Without its PP rows nothing is said of it.
    assert not len(judged([deid(0.95), eer(0.01, "ignorant", condition="OP")], tmp_path))


def test_published_baselines_are_flagged_by_their_adapted_attacker() -> None:
    """DeID and EER of the five baselines of the VoicePrivacy Challenge 2022 on twelve sets: 72 to 100 % beside 1 to 19 %."""
    hidden: dict[tuple[str, str], float] = {}
    rates: dict[tuple[str, str], float] = {}
    with (REFERENCE / "vpc2022_results.csv").open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            which = (line["system"], line["subset"])
            if line["metric"] == "deid":
                hidden[which] = float(line["value"])
            adapted = [line[name] for name in ("metric", "variant", "condition", "attacker")]
            if adapted == ["eer", "rocch", "PP", "semi_informed"]:
                rates[which] = float(line["value"]) / 100
    assert len(hidden) == 60 and hidden.keys() <= rates.keys()
    found = [sentences.deid_against_eer(value, Rate(rates[which]), "published") for which, value in hidden.items()]
    assert all(one.flagged for one in found)


def test_it_is_a_doubt_about_the_number_and_not_about_the_attack(make_run: MakeRun, tmp_path: Path) -> None:
    rows = [deid(0.9), eer(0.08)]
    run = make_run(tmp_path / "run", change=lambda old: old.__setitem__(slice(None), rows), tables={})
    found = judged(rows, run)
    about = {**ABOUT, "attacker": "semi_informed", "backend": "cosine", "n_sets": 1}
    assert found["flagged"].all() and verdict.find_doubt(about, found) == ""
    assert "DeID is 90.0 %" in grouping.text(found)
    page = re.sub(r"\s+", " ", render([run], tmp_path / "out").read_text(encoding="utf-8"))
    assert "Numbers that promise more than there is" in page and "that it may not have been" not in page
    assert "one who has protected speech to compare with finds the speakers" in page


def test_deid_is_said_to_be_the_view_of_who_knows_original_speech_only(make_run: MakeRun, tmp_path: Path) -> None:
    """In the table, the heading of the metric, the glossary, and the figure with its heading, caption and words for the blind."""
    page = render([make_run(tmp_path / "run", tables={})], tmp_path / "out").read_text(encoding="utf-8")
    view = "an attacker who knows original speech only"
    assert f"de-identification, in the view of {view}" in page
    assert f"DeID is the view of {view}: read the EER under PP" in page
    assert f"voice distinctiveness: the first for {view}" in page
    assert f"De-identification (100 %: to {view}" in page
    assert f'alt="De-identification for {view}' in page
    assert "DeID<sub>OP</sub> (%) ↑" in page.replace("\N{NO-BREAK SPACE}", " ")


def test_each_check_has_a_heading() -> None:
    """Every name of a check in the code; the headings are of checks that there are."""
    root = Path(pipeline.__file__).parent
    names = set()
    for path in [
        *(root / "products" / "checks").glob("*.py"),
        root / "datasets" / "resemblance.py",
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Finding", "Doubt"):
                first = node.args[0] if node.args else None
                named = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                names |= {
                    each.value for each in named if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    assert {CHECK, "held_out", "weak_extractor", "others_original"} <= names
    assert set(grouping.TITLES) == names
    assert not any("_" in title for title in grouping.TITLES.values())
    assert grouping.title("of_another") == "Of another"
