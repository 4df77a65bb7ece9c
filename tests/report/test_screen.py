"""The last screen: 100 columns by 40 lines whatever was evaluated, what must be known in it, and the rest counted."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from pipeline.report import leaderboard, screen
from pipeline.tables import answers, checks, results
from tests.report.test_leaderboard import NAN, doubts, row

BELOW = [
    "scorecard: 9 published cells",
    "all tables in full: summary.txt, beside the report",
    "tasks: 0 reused, 9 computed",
    f"/{'exp' * 50}",
]
SETS = [f"libri_{part}_trials_{sex}" for part in ("test", "dev") for sex in "fm"]
NOTHING = pd.DataFrame()


def shown(systems: list[str], subsets: list[str], said: int = 0, **more: Any) -> screen.Shown:
    """A run with a doubt and a limit about each of its systems."""
    rows = [
        row(name, 0.1 + 0.01 * place, place + 1, subset, untried="semi_informed with f0, " * 5, chance="within", status="partial")
        for subset in subsets
        for place, name in enumerate(systems)
    ]  # fmt: skip
    rows += [row("original", 0.6, None, subset, deid=NAN) for subset in subsets]
    found = doubts(*((name, f"A doubt about {name} that has many words. " * said) for name in systems if said))
    known = [
        f"limit {number} is about {name}, " + "and has words, " * 3 * said
        for number, name in enumerate(systems)
        if said
    ]
    whole = screen.Shown(
        NOTHING, answers.frame("leaderboard", rows), answers.frame("differences", []), found, NOTHING, systems, known
    )
    return replace(whole, **more)


def columns(line: str) -> int:
    """As a terminal counts: independent of the function that is used."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else not unicodedata.combining(one) for one in line)


def fits(text: str, below: list[str]) -> bool:
    lines = [*text.splitlines(), *below]
    return max(map(columns, text.splitlines())) <= 100 and sum(-(-max(columns(line), 1) // 100) for line in lines) <= 40


@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow), 30]
)
@pytest.mark.parametrize(
    "name", ["s{}", "s{}" + "x" * 58, "聲音隱私系統{}" + "的" * 25, "e\N{COMBINING ACUTE ACCENT}{}\t\x1b"]
)
def test_it_fits_whatever_there_is(count: int, name: str) -> None:
    systems = [name.format(number) for number in range(count)]
    short = "12 of 60 results do not stand on everything that was expected " * 5
    for subsets, said, missing in ((1, 0, ""), (4, 1, ""), (4, 9, ""), (1, 9, short), (4, 1, short)):
        text = screen.write_screen(shown(systems, SETS[:subsets], said, missing=missing), BELOW)
        assert fits(text, BELOW), text
        assert "\t" not in text and "\x1b" not in text
        assert text.startswith("! 12 of 60" if missing else leaderboard.TITLE)
        assert "0.100 [0.050, 0.150] ~ †" in text and "libri_test_trials_f" in text
        assert ("limit 0 is about" in text) == (said > 0)
        assert ("more systems: leaderboard.csv" in text) == (count == 30)
        assert ("more: summary.txt" in text) or count < 30 or not said


def test_six_systems_on_four_sets_have_their_attacks_and_what_is_left_is_named() -> None:
    text = screen.write_screen(shown([f"b{number}" for number in range(6)], SETS, 1), BELOW)
    assert text.count(" bit: semi_informed: ecapa, plda, adapted") == 7, text
    assert (
        "\nall attacks: attacks.csv; also in leaderboard.csv: l_w, MeanD, IdR, DeID_OP, G_VD; libri_test_trial" in text
    )
    two = screen.write_screen(shown(["b2"], SETS[:2]), BELOW)
    assert (
        "libri_test_trials_m\nrank" in two
        and "l_w ↓ (at most)  MeanD ↓" in two
        and two.count("\nall attacks: attacks.csv\n") == 1
    ), "where there is room the others stand there too"


def test_what_was_found_wrong_comes_before_advice_and_nothing_is_said_twice() -> None:
    whose = {"dataset": "libri", "system": "b2"}
    said = [
        ("weak_extractor", "Advice."),
        ("same_audio", "All files are one."),
        ("class_order", "The wrong way round."),
    ]
    found = checks.frame(
        [(whose if number else {}, checks.Finding(check, 0.0, "", text, True)) for number, (check, text) in enumerate(said)]
    )  # fmt: skip
    text = screen.write_screen(shown(["b2"], SETS[:1], diagnostics=found))
    assert "Doubt about this attack: The wrong way round." in " ".join(text.split())
    assert " ".join(text.split()).count("The wrong way round.") == 1
    assert 0 < text.index("! All files are one.") < text.index("! Advice.")


def test_conditions_are_a_line() -> None:
    def band(system: str, by: str, met: int) -> dict[str, Any]:
        return {"subset": "libri_test", "system": system, "ranked_by": by, "met": met}

    found = pd.DataFrame(
        [band("b2", "semi_informed", 2), band("b2", "strongest attack", 0), band("b3", "strongest attack", 1)]
    )
    text = screen.write_screen(shown(["b2"], SETS[:1], bands=found))
    assert "Minimum-EER condition met on libri_test: b2 2, strongest attack none; b3 strongest attack 1\n" in text, text


# Without an attack ---------------------------------------------------------------------------------------------------


def measured(systems: int, metrics: dict[str, float], name: str = "s{}") -> pd.DataFrame:
    about = {
        "dataset": "libri",
        "condition": "OP",
        "extractor": "ge2e",
        "status": "ok",
        "run_id": "one",
        "direction": "lower",
    }
    return results.frame(
        [
            {**about, "system": name.format(number), "subset": subset, "metric": metric, "value": value + number / 100, "unit": "fraction"}
            for number in range(systems)
            for subset in SETS
            for metric, value in metrics.items()
        ]
    )  # fmt: skip


@pytest.mark.parametrize("name", ["s{}", "s{}" + "x" * 58, "聲音隱私系統{}" + "的" * 25])
@pytest.mark.parametrize("systems", [1, 30])
def test_without_an_attack_the_tables_are_cut_to_what_fits(systems: int, name: str) -> None:
    rows = measured(systems, {"idr": 0.1, "median_rank": 0.2, "deid": 0.3, "own_a": 0.4, "own_b": 0.5}, name)
    bare = screen.Shown(
        rows, answers.frame("leaderboard", []), answers.frame("differences", []), doubts(), NOTHING, [], []
    )
    text = screen.write_screen(bare, BELOW)
    assert fits(text, BELOW), text
    first, last = text.splitlines()[0], text.splitlines()[-1]
    assert first and not first.startswith("…")
    assert "10.00" in text, "a number of the first table"
    assert ("more rows" in text or systems == 1) and ("more table" in text) == last.startswith("… ")
    missing = screen.write_screen(replace(bare, missing="3 tasks failed", limits=["b3 has no row"]), BELOW)
    assert missing.startswith("! 3 tasks failed\nKnow before you read the numbers:\n- b3 has no row\n\n") and fits(
        missing, BELOW
    )


def test_columns_of_numbers_that_have_no_room_are_named() -> None:
    rows = measured(1, {f"own_metric_{number}": 0.1 for number in range(9)})
    bare = screen.Shown(
        rows, answers.frame("leaderboard", []), answers.frame("differences", []), doubts(), NOTHING, [], []
    )
    text = screen.write_screen(bare, BELOW)
    assert fits(text, BELOW) and "… no room for own metric " in text
