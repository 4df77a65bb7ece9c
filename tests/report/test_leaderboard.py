"""The answer in words and on one screen, from tables that are made up."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from pipeline.report import leaderboard, verdict
from pipeline.report.formats import NOTHING
from pipeline.tables import answers
from pipeline.tables import checks as sentences

NAN = math.nan
ADAPTED = {"condition": "PP", "attacker": "semi_informed", "extractor": "ecapa", "trained_on": "anonymised (utterance)", "backend": "plda"}  # fmt: skip


LAZY = "lazy_informed: ge2e, cosine"


def row(
    system: str, value: float, rank: int | None = 1, subset: str = "libri_test_trials_f", **more: Any
) -> dict[str, Any]:
    """A row whose corrected D_ECE is ``value``; the raw maximum is higher, and another attack has the lowest EER."""
    numbers = {"d_ece": value + 0.02, "d_ece_low": value - 0.05, "d_ece_high": value + 0.05, "d_ece_corrected": value, "null_high": 0.03,
               "eer": 0.25, "eer_low": 0.2, "eer_high": 0.3, "lowest_eer": 0.22, "lowest_eer_low": 0.18, "lowest_eer_high": 0.27,
               "l_w": 2.31, "l_w_ceiling": 4.05, "tag": "C", "mean_d": 0.5, "idr": 0.04, "deid": 0.91, "g_vd": -3.2}  # fmt: skip
    about = {
        "dataset": "libri",
        "subset": subset,
        "n_sets": 1,
        "system": system,
        "anonymised": rank is not None,
        "rank": rank,
        "lowest_eer_attack": LAZY,
        "pp_attack": LAZY,
    }
    return {**about, **ADAPTED, **numbers, "n_attacks": 6, "contenders": 3, "chance": "above", "status": "ok", **more}


ORIGINAL = row("original", 0.6, None, n_attacks=1, contenders=1, lowest_eer=0.031, pp_attack="", condition="OO",
               attacker="unprotected", lowest_eer_attack="unprotected: ecapa, plda", trained_on="original")  # fmt: skip


def against_original(system: str, difference: float, p: float, **more: Any) -> dict[str, Any]:
    return compared(system, "original", difference, p, unprotected=True, **more)


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


def said_of(rows: list[dict[str, Any]], differences: list[dict[str, Any]], diagnostics: pd.DataFrame = NONE) -> str:
    return verdict.write_sentence(*tables([*rows, ORIGINAL], differences), SUBSET, diagnostics)


SCALE = "Unprotected speech: EER 3.1 %, D_ECE 0.600 bit, of at most 0.721 bit"


def test_one_system_that_the_test_separates_from_unprotected_speech_protects() -> None:
    assert said_of([row("b2r", 0.1)], [against_original("b2r", -0.5, 0.012)]) == (
        f"On {SUBSET}, b2r protects: EER 22.0 % (95 % interval 18.0 to 27.0; lowest of 6 attacks, {LAZY}), D_ECE 0.100 bit (0.050 "
        f"to 0.150). {SCALE} (difference: p = 0.012)."
    )


@pytest.mark.parametrize(
    ("value", "difference", "p", "begins", "ends"),
    [
        (0.599, -0.001, 0.4, "b2 is not shown to protect: EER 22.0 %", f"{SCALE} (difference: p = 0.4)."),
        (0.1, -0.5, 0.051, "b2 is not shown to protect: EER", "(difference: p = 0.051)."),
        (0.6, 0.0, 1.0, "b2 is not shown to protect: EER", "(difference: p = 1)."),
        (
            0.65,
            0.05,
            0.3,
            "b2 is not shown to protect and shows a higher D_ECE than unprotected speech: EER",
            "p = 0.3).",
        ),
        (0.7, 0.1, 0.01, "b2 does not protect, it discloses more than unprotected speech: EER", "p = 0.01)."),
        # The raw maxima are below one another, the corrected ones are not.
        (0.61, -0.01, 0.01, "b2 is not shown to protect and shows a higher D_ECE than unprotected", "p = 0.01)."),
    ],
)
def test_without_a_significant_difference_in_its_favour_no_system_protects(
    value: float, difference: float, p: float, begins: str, ends: str
) -> None:
    for rows in ([against_original("b2", difference, p)], [compared("original", "b2", -difference, p)]):
        said = said_of([row("b2", value)], rows)
        assert said.startswith(f"On {SUBSET}, {begins}") and said.endswith(ends), said
        assert "b2 protects" not in said


def finding(check: str, share: float, text: str) -> pd.DataFrame:
    about = {"dataset": "libri", "system": "b2"}
    return sentences.frame([(about, sentences.Finding(check, share, "fraction", f"System b2: {text}.", True))])


@pytest.mark.parametrize(
    ("changed", "diagnostics", "reason"),
    [
        ({}, finding("not_anonymised", 0.5, "108 of 216 files are the original speech"), "108 of 216 files are the original"),
        ({}, finding("same_audio", 1.0, "168 recordings hold one sound"), "168 recordings hold one sound"),
        ({}, finding("others_original", 1.0, "168 files hold the original of another"), "168 files hold the original"),
        ({}, finding("length", 1.0, "168 files last as speech of 22050 Hz does"), "168 files last as speech of 22050 Hz"),
        ({"d_ece": 0.0, "d_ece_corrected": 0.0, "lowest_eer": 0.5}, NONE, "its scores hold no evidence at all"),
        ({"rank": None, "anonymised": True, "untried": "semi_informed"}, NONE, "it was spared attacks"),
    ],
)  # fmt: skip
def test_a_lower_disclosure_that_something_else_explains_is_no_protection(
    changed: dict[str, Any], diagnostics: pd.DataFrame, reason: str
) -> None:
    own = {**row("b2", 0.1), **changed}
    said = said_of([own], [against_original("b2", -0.5, 0.01)], diagnostics)
    assert said.startswith(f"On {SUBSET}, nothing can be said of protection: {reason}") and "protects" not in said
    judged = verdict.judge(*tables([own, ORIGINAL], [against_original("b2", -0.5, 0.01)]), diagnostics).set_index(
        "system"
    )
    assert judged.loc["b2", "verdict"] == "withheld" and judged.loc["b2", "withheld"].startswith(reason)
    assert judged.loc["original", "verdict"] == ""
    two = [own, row("b3", 0.2)]
    pairs = [against_original("b2", -0.5, 0.01), against_original("b3", -0.4, 0.02)]
    said = said_of(two, pairs, diagnostics)
    assert said.startswith(f"On {SUBSET}, b3 protects: ") and f"b2 cannot be judged ({reason}" in said


def test_one_file_in_a_hundred_that_is_an_original_is_no_reason_to_withhold_a_verdict() -> None:
    rare = finding("not_anonymised", 0.01, "2 of 200 files are the original speech")
    said = said_of([row("b2", 0.1)], [against_original("b2", -0.5, 0.01)], rare)
    assert said.startswith(f"On {SUBSET}, b2 protects: ") and "2 of 200 files" in said


def test_what_was_not_tested_is_not_shown_to_protect() -> None:
    few = against_original("b2", -0.5, NAN, reason="4 speakers are too few to tell a difference from chance")
    for differences, ends in (([few], "(difference: not tested: 4 speakers are too few to tell a difference from chance)."), ([], "(difference: not tested).")):  # fmt: skip
        said = said_of([row("b2", 0.1)], differences)
        assert said.startswith(f"On {SUBSET}, b2 is not shown to protect: EER") and said.endswith(ends)


def test_without_unprotected_speech_nothing_is_said_of_protection() -> None:
    for others in ([], [row("original", NAN, None, d_ece=NAN, reason="3 < 4")]):
        said = verdict.write_sentence(*tables([row("b2", 0.1), *others], []), SUBSET, NONE)
        assert said.startswith(
            f"On {SUBSET}, nothing can be said of protection, because there is no number of unprotected speech"
        )
        assert (
            "name original among the systems" in said
            and "b2: EER 22.0 %" in said
            and "protects" not in said
            and "not shown" not in said
        )


def test_of_several_that_do_not_protect_none_is_the_best() -> None:
    rows = [row("b2r", 0.55), row("b2", 0.65, 2), row("b3", 0.7, 3)]
    differences = [against_original("b2r", -0.05, 0.4), against_original("b2", 0.05, 0.6), against_original("b3", 0.1, 0.001),
                   compared("b2r", "b2", -0.1, 0.01)]  # fmt: skip
    said = said_of(rows, differences)
    assert said.startswith(f"On {SUBSET}, no system is shown to protect. b2r: EER 22.0 % (")
    assert f"bit (0.500 to 0.600). {SCALE} (difference: p = 0.4)." in said
    assert "b2: EER 22.0 %, D_ECE 0.650 bit (a higher D_ECE than unprotected speech, p = 0.6)." in said
    assert "b3 discloses more than unprotected speech: EER 22.0 %, D_ECE 0.700 bit (p = 0.001)." in said
    assert "best" not in said and "protects" not in said


def test_an_eer_below_that_of_unprotected_speech_is_said() -> None:
    leaks = row("b2", 0.55, lowest_eer=0.02)
    alone = said_of([leaks], [against_original("b2", -0.05, 0.4)])
    assert "b2 is not shown to protect and shows a lower EER than unprotected speech: EER 2.0 %" in alone
    both = said_of(
        [row("b2r", 0.5, lowest_eer=0.01), leaks],
        [against_original("b2r", -0.05, 0.3), against_original("b2", -0.05, 0.4)],
    )
    assert "(difference: p = 0.3, b2r has a lower EER)." in both
    assert "b2: EER 2.0 %, D_ECE 0.550 bit (a lower EER than unprotected speech, p = 0.4)." in both
    more = said_of(
        [row("b2", 0.7), row("b3", 0.71)], [against_original("b2", 0.1, 0.01), against_original("b3", 0.1, 0.02)]
    )
    assert "no system is shown to protect. b2 discloses more than unprotected speech: EER" in more


def test_the_best_of_those_that_protect_comes_first() -> None:
    rows = [row("b1", 0.3), row("b2r", 0.31), row("b2", 0.33, 2), row("b3", 0.5, 2)]
    shown = [against_original(name, -0.3, 0.01) for name in ("b2r", "b2", "b3")]
    said = said_of(
        rows,
        [
            *shown,
            against_original("b1", -0.3, 0.2),
            compared("b2r", "b2", -0.02, 0.4),
            compared("b2r", "b3", -0.2, 0.02),
        ],
    )
    assert said.startswith(f"On {SUBSET}, b2r protects: EER"), "b1 has a lower D_ECE and the same rank"
    assert "b1 is not shown to protect: EER 22.0 %, D_ECE 0.300 bit (p = 0.2)." in said
    assert "b2 protects too: EER 22.0 %, D_ECE 0.330 bit (cannot be told from b2r, p = 0.4)." in said
    assert "b3 protects too: EER 22.0 %, D_ECE 0.500 bit (worse than b2r, p = 0.02)." in said
    best = said_of(rows[1:], shown)
    assert (
        best.startswith(f"On {SUBSET}, b2r protects best: EER")
        and "b2 protects too: EER 22.0 %, D_ECE 0.330 bit (not tested" in best
    )


def test_the_least_reassuring_of_several_comparisons_with_unprotected_speech_counts() -> None:
    rows = [row("b2", 0.1), row("codec", 0.55, None)]
    differences = [against_original("b2", -0.5, 0.01), compared("b2", "codec", -0.45, 0.3, unprotected=True)]
    said = said_of(rows, differences)
    assert (
        said.startswith(f"On {SUBSET}, b2 is not shown to protect")
        and "Unprotected speech: EER 22.0 %, D_ECE 0.550" in said
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_attacks": 1}, f"; the only attack, {LAZY})"),
        ({"chance": "within"}, f"b2 is {NOTHING}."),
        ({"pp_attack": ""}, "No attacker enrolled protected speech, as anybody who has the system can"),
        ({"unchecked": "diagnostics=false"}, "Whether the attacks were strong enough was not checked (diagnostics=false)."),
        ({"d_ece_low": NAN, "d_ece_high": NAN}, "D_ECE 0.100 bit. Unprotected"),
        ({"lowest_eer_low": NAN, "lowest_eer_high": NAN}, f"EER 22.0 % (lowest of 6 attacks, {LAZY})"),
    ],
)  # fmt: skip
def test_what_else_the_sentence_says(changed: dict[str, Any], words: str) -> None:
    said = said_of([row("b2", 0.1, **changed), row("b3", NAN, d_ece=NAN)], [against_original("b2", -0.5, 0.01)])
    assert words in said and "There is no number for b3." in said
    plain = said_of([row("b2", 0.1)], [against_original("b2", -0.5, 0.01)])
    assert "enrolled protected" not in plain and "not checked" not in plain and NOTHING not in plain


def test_of_many_systems_those_that_disclose_more_are_named_and_the_rest_is_counted() -> None:
    rows = [row(f"s{k}", 0.1 + 0.1 * k, k + 1) for k in range(6)] + [row("bad", 0.7, 7)]
    shown = [against_original(f"s{k}", -0.3, 0.01) for k in range(5)] + [
        against_original("s5", -0.01, 0.5),
        against_original("bad", 0.1, 0.01),
    ]
    said = said_of(rows, shown)
    assert (
        said.index("s0 protects best")
        < said.index("bad discloses more than unprotected")
        < said.index("s1 protects too")
    )
    assert "s3" not in said and said.endswith("The table has 3 more systems, of which 2 are shown to protect.")


def test_attacks_that_recognise_nobody_show_nothing() -> None:
    rows = [row("b2", 0.01, chance="within"), {**ORIGINAL, "chance": "within"}]
    said = verdict.write_sentence(*tables(rows, [against_original("b2", -0.01, 0.7)]), SUBSET, NONE)
    assert said.endswith("The attacks do not recognise unprotected speech either, so that they show nothing.")
    assert NOTHING not in said


def test_doubts_are_those_about_the_attack_of_the_first_system() -> None:
    found = doubts(("b2", "not mine."), ("b2r", "It is weak."), ("", "All are."))
    said = said_of([row("b2r", 0.1), row("b2", 0.12)], [], found)
    assert said.endswith("Doubt about the attack on b2r: It is weak.")
    both = row(
        "b2r", 0.1, n_sets=2, attacker="semi_informed / ignorant", extractor="ecapa / ge2e", by_set="f: one; m: other"
    )
    about = [
        ({"system": "b2r", "attacker": name}, sentences.Finding("some", 0.0, "", f"{name}.", True))
        for name in ("lazy", "ignorant")
    ]
    assert verdict.find_doubt(tables([both], [])[0].iloc[0].to_dict(), sentences.frame(about)) == "ignorant."


def test_nothing_is_said_where_no_system_is_attacked() -> None:
    board, differences = tables([ORIGINAL], [])
    assert (
        verdict.write_sentence(board, differences, SUBSET, NONE) == "" == leaderboard.to_text(board, differences, NONE)
    )
    assert leaderboard.to_text(*tables([], []), NONE) == ""


def test_equal_values_are_neither_less_nor_more() -> None:
    assert "b2 discloses as much as b3; p = 1" in verdict.describe_difference(
        compared("b2", "b3", 0.0, 1.0, low=NAN, n_compared=1)
    )
    equal = compared("b2r", "b2", 0.0, NAN, metric="eer", low=NAN, high=NAN, reason="few")
    assert "the EER of b2r is that of b2; not tested" in verdict.describe_difference(equal)


def test_differences_as_sentences() -> None:
    assert verdict.describe_difference(compared("b2r", "b2", -0.1, 0.012)) == (
        "On libri_test_trials_f, each under its strongest attack, b2r discloses 0.100 bit less than b2 (difference: 95 % interval "
        "-0.120 to -0.080 bit); p = 0.012 after Holm's correction for 3 comparisons: they are different."
    )
    same = compared("b2r", "b2", 0.031, 0.4, under="same", attack="ignorant: ge2e, cosine", metric="eer", n_compared=1)
    assert verdict.describe_difference(same) == (
        "On libri_test_trials_f, under ignorant: ge2e, cosine, the EER of b2r is 3.1 points higher than that of b2 (difference: "
        "95 % interval +1.1 to +5.1 points); p = 0.4: they are not shown to be different."
    )
    untested = compared("b2r", "b2", 0.0, NAN, low=NAN, high=NAN, reason="5 speakers are too few")
    assert verdict.describe_difference(untested).endswith(
        "b2r discloses as much as b2; not tested: 5 speakers are too few."
    )
    absent = compared("b2r", "b2", NAN, NAN, reason="b2: incomplete")
    assert verdict.describe_difference(absent).endswith("b2r and b2 cannot be compared: b2: incomplete.")


def test_the_first_table_is_the_answer_and_the_second_the_other_numbers() -> None:
    more: dict[str, Any] = {"alid": 1.2, "alid_low": 1.0, "alid_high": 1.4, "alid_ceiling": 3.0, "alid_chance": -7.2}
    board, differences = tables([row("b2r", 0.1, **more), row("b2", 0.2, 2, chance="within", **more), ORIGINAL], [])
    first, second = leaderboard.format_board(board, SUBSET), leaderboard.format_further(board, SUBSET)
    assert first[0].split() == ["rank", "system", "EER", "(%)", "↑", "D_ECE", "(bit)", "↓", "tag"]
    assert first[2].split() == ["1", "b2r", "22.0", "[18.0,", "27.0]", "0.100", "[0.050,", "0.150]", "C"]
    stands_on = f"      highest of 6 attacks 0.120 bit: semi_informed: ecapa, plda, adapted; lowest EER: {LAZY}; 2 others cannot be told from it"
    assert first[3] == f"{stands_on[:99]}…"
    assert "0.200 [0.150, 0.250] ~" in first[4]
    assert "1.200 (0 to 3.000)" in second[2] and "2.3 (4.0)" in second[2] and "ALID ↓ (0 to log2 N)" in second[0]
    assert "7.2" not in "".join(second), "what a blind attacker is worth stands in the tables of all numbers"
    whole = leaderboard.to_text(board, differences, NONE)
    assert all(line in whole for line in second) and stands_on in whole
    assert max(map(len, [*first, *second])) <= leaderboard.WIDTH
    assert max(map(len, leaderboard.write_legend(board))) <= leaderboard.WIDTH


def test_means_and_test_sets_come_first() -> None:
    rows = [
        row("b2", 0.1, 1, name, n_sets=n)
        for name, n in (("dev_f", 1), ("test_f", 1), ("dev mean", 2), ("test mean", 2))
    ]
    board = answers.frame("leaderboard", rows)
    assert leaderboard.order_subsets(board) == ["test mean", "dev mean", "test_f", "dev_f"]
