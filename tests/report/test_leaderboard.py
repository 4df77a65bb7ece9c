"""The answer in words and on one screen, from tables that are made up."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from pipeline.diagnostics import sentences
from pipeline.report import leaderboard
from pipeline.report.words import NOTHING
from pipeline.tables import answers

NAN = math.nan
ADAPTED = {"condition": "PP", "attacker": "semi_informed", "extractor": "ecapa", "trained_on": "anonymised (utterance)", "backend": "plda"}  # fmt: skip


def row(
    system: str, value: float, rank: int | None = 1, subset: str = "libri_test_trials_f", **more: Any
) -> dict[str, Any]:
    numbers = {"d_ece": value, "d_ece_low": value - 0.05, "d_ece_high": value + 0.05, "null_high": 0.03, "eer": 0.25,
               "eer_low": 0.2, "eer_high": 0.3, "l_w": 2.31, "l_w_ceiling": 4.05, "tag": "C", "mean_d": 0.5, "idr": 0.04,
               "deid": 0.91, "g_vd": -3.2}  # fmt: skip
    about = {
        "dataset": "libri",
        "subset": subset,
        "n_sets": 1,
        "system": system,
        "protects": rank is not None,
        "rank": rank,
    }
    return {**about, **ADAPTED, **numbers, "n_attacks": 6, "contenders": 2, "chance": "above", "status": "ok", **more}


def compared(system: str, reference: str, difference: float, p: float, **more: Any) -> dict[str, Any]:
    about = {
        "dataset": "libri",
        "subset": "libri_test_trials_f",
        "under": "strongest",
        "metric": "d_ece",
        "unit": "bit",
    }
    numbers = {"difference": difference, "low": difference - 0.02, "high": difference + 0.02, "p_value": p / 3, "p_holm": p, "n_compared": 3}  # fmt: skip
    return {**about, "system": system, "reference": reference, **numbers, "reason": "", **more}


def tables(rows: list[dict[str, Any]], differences: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return answers.frame("leaderboard", rows), answers.frame("differences", differences)


def doubts(*said: tuple[str, str]) -> pd.DataFrame:
    return sentences.frame(
        [
            ({"dataset": "libri", "system": system}, sentences.Finding("some", 0.0, "", text, True))
            for system, text in said
        ]
    )


NONE = doubts()
SUBSET = "libri_test_trials_f"


def test_a_system_that_is_shown_to_be_better_protects_best() -> None:
    board, differences = tables([row("b2r", 0.1), row("b2", 0.2, 2)], [compared("b2r", "b2", -0.1, 0.012)])
    assert leaderboard.sentence(board, differences, SUBSET, NONE) == (
        "On libri_test_trials_f, b2r protects best: against the strongest of 6 attacks (semi_informed: ecapa, plda, adapted) it "
        "gives away 0.100 bit of D_ECE (95 % interval 0.050 to 0.150), at an EER of 25.0 %, 0.100 bit less than the next, b2 "
        "(p = 0.012)."
    )


def test_systems_that_no_test_separates_are_not_ranked_in_words_either() -> None:
    rows = [row("b2r", 0.1), row("b2", 0.12), row("b3", 0.3, 3)]
    board, differences = tables(rows, [compared("b2r", "b2", -0.02, 0.4)])
    said = leaderboard.sentence(
        board, differences, SUBSET, doubts(("b2", "not mine."), ("b2r", "It is weak."), ("", "All are."))
    )
    assert "b2r and b2 cannot be told apart; b2r has the lowest D_ECE" in said and "protects best" not in said
    assert said.endswith("Doubt about this attack: It is weak.") and "overlap" not in said


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("b2", 0.1)], "b2 is the only system that protects: against the strongest of 6 attacks"),
        ([row("b2", 0.1, n_attacks=1)], "against the only attack tried (semi_informed"),
        ([row("b2", 0.02, chance="within")], f"That is {NOTHING}."),
        (
            [row("b2", 0.1, d_ece_low=0.0, d_ece_high=0.06)],
            "(95 % interval, corrected for what few trials add, 0.000 to 0.060)",
        ),
        ([row("b2", 0.1), row("b3", 0.2)], "it was not tested against the next, b3"),
        ([row("b2", 0.1), row("b3", NAN)], "Of b3 there is no number."),
        ([row("b2", 0.1, d_ece_low=NAN, d_ece_high=NAN)], "gives away 0.100 bit of D_ECE, at an EER"),
    ],
)
def test_what_else_the_sentence_says(rows: list[dict[str, Any]], words: str) -> None:
    assert words in leaderboard.sentence(*tables(rows, []), SUBSET, NONE)


def test_nothing_is_said_where_no_system_is_attacked() -> None:
    board, differences = tables([row("original", 0.6, None)], [])
    assert leaderboard.sentence(board, differences, SUBSET, NONE) == "" == leaderboard.text(board, differences, NONE)
    assert leaderboard.text(*tables([], []), NONE) == ""


def test_equal_values_are_neither_less_nor_more() -> None:
    board, differences = tables([row("b2r", 0.1), row("b2", 0.1)], [compared("b2r", "b2", 0.0, 1.0)])
    assert leaderboard.sentence(board, differences, SUBSET, NONE).endswith("as much as the next, b2 (p = 1).")
    equal = compared("b2r", "b2", 0.0, NAN, metric="eer", low=NAN, high=NAN, reason="few")
    assert "the EER of b2r is that of b2; not tested" in leaderboard.of_difference(equal)


def test_differences_as_sentences() -> None:
    assert leaderboard.of_difference(compared("b2r", "b2", -0.1, 0.012)) == (
        "On libri_test_trials_f, each under its strongest attack, b2r gives away 0.100 bit less than b2 (difference: 95 % interval "
        "-0.120 to -0.080 bit); p = 0.012 after Holm's correction for 3 comparisons: they are different."
    )
    same = compared("b2r", "b2", 0.031, 0.4, under="same", attack="ignorant: ge2e, cosine", metric="eer", n_compared=1)
    assert leaderboard.of_difference(same) == (
        "On libri_test_trials_f, under ignorant: ge2e, cosine, the EER of b2r is 3.1 points higher than that of b2 (difference: "
        "95 % interval +1.1 to +5.1 points); p = 0.4: they are not shown to be different."
    )
    untested = compared("b2r", "b2", 0.0, NAN, low=NAN, high=NAN, reason="5 speakers are too few")
    assert leaderboard.of_difference(untested).endswith(
        "b2r gives away as much as b2; not tested: 5 speakers are too few."
    )
    absent = compared("b2r", "b2", NAN, NAN, reason="b2: incomplete")
    assert leaderboard.of_difference(absent).endswith("b2r and b2 cannot be compared: b2: incomplete.")


def test_columns_that_have_no_room_are_named_and_the_whole_table_has_them() -> None:
    board, differences = tables([row("b2r", 0.1), row("b2", 0.2, 2, chance="within")], [])
    left = leaderboard.left_out(board, SUBSET)
    assert left and left == [column.head.split()[0] for column in leaderboard.COLUMNS][-len(left) :]
    narrow, wide = leaderboard.lines(board, SUBSET), leaderboard.text(board, differences, NONE).splitlines()
    (heads,) = [line for line in wide if line.startswith("rank  system")]
    assert all(name in heads and name not in narrow[0] for name in left)
    assert max(map(len, narrow)) <= leaderboard.WIDTH < max(map(len, wide))
    assert leaderboard.left_out(board, SUBSET, width=300) == []


def test_means_and_test_sets_come_first() -> None:
    rows = [
        row("b2", 0.1, 1, name, n_sets=n)
        for name, n in (("dev_f", 1), ("test_f", 1), ("dev mean", 2), ("test mean", 2))
    ]
    board = answers.frame("leaderboard", rows)
    assert leaderboard.subsets(board) == ["test mean", "dev mean", "test_f", "dev_f"]
