"""The leaderboard for papers, from tables that are made up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipeline.report import board, glossary
from pipeline.report.formats import NOTHING
from pipeline.report.table import Table
from pipeline.tables import results
from tests import latex
from tests.report.test_leaderboard import ADAPTED, LAZY, NONE, SUBSET, compared, row, tables

NASTY = r"a_b%c&d#e{f}$g^h~i\j[k]|<l>"


def given(
    rows: list[dict[str, Any]], differences: list[dict[str, Any]] | None = None, name: str = ""
) -> board.ShownRun:
    made, compared_ = tables(rows, differences or [])
    return board.ShownRun(name, f"run-{name}", made, compared_, NONE, results.frame([]))


def cells(one: board.Board, head: str) -> list[str]:
    grid = next(
        grid for grid in (one.first, one.further) if any(column.head.startswith(head) for column in grid.columns)
    )
    (place,) = [number for number, column in enumerate(grid.columns) if column.head.startswith(head)]
    return [str(line[place]) for line in grid.body]


def heads(shown: Table) -> list[str]:
    return [column.head for column in shown.columns]


def notes(one: board.Board) -> str:
    return " ".join(one.notes)


def test_every_number_stands_there_with_its_interval() -> None:
    more: dict[str, Any] = {"alid": 0.4, "alid_low": 0.3, "alid_high": 0.5, "mean_d_low": 0.4, "mean_d_high": 0.6}
    (one,) = board.make_boards(
        [given([row("b2r", 0.1, **more), row("b2", 0.2, 2)], [compared("b2r", "b2", -0.1, 0.012)])]
    )
    assert cells(one, "D_ECE") == ["0.100 [0.050, 0.150]", "0.200 [0.150, 0.250]"]
    assert cells(one, "EER (%)") == ["22.00 [18.00, 27.00]"] * 2 and cells(one, "l_w") == ["2.310 (4.050)"] * 2
    assert cells(one, "D_ECE as measured") == ["0.120 [0.050, 0.150]", "0.220 [0.150, 0.250]"]
    assert cells(one, "EER of that attack") == ["25.00 [20.00, 30.00]"] * 2
    assert [head.split(" ")[0] for head in heads(one.first)] == ["rank", "system", "strongest", "EER", "D_ECE", "tag"]
    assert f"Lowest EER by another attack: b2r: {LAZY}; b2: {LAZY}." in notes(one)
    assert cells(one, "ALID") == ["0.400 [0.300, 0.500]", "–"] and cells(one, "MeanD")[0] == "0.500 [0.400, 0.600]"
    assert cells(one, "rank") == ["1", "2"] and cells(one, "strongest")[0].endswith("adapted (6)")
    assert cells(one, "G_VD") == ["−3.20"] * 2 and cells(one, "IdR") == ["4.00"] * 2
    assert one.sentences[0].startswith(f"On {SUBSET}, nothing can be said of protection")


def test_a_column_without_any_value_is_left_out() -> None:
    bare: dict[str, Any] = dict.fromkeys(("l_w", "l_w_ceiling", "mean_d", "idr", "deid", "g_vd"), math.nan)
    (one,) = board.make_boards([given([row("b2r", 0.1, tag="", **bare)])])
    assert [head.split(" ")[0] for head in heads(one.first)] == ["rank", "system", "strongest", "EER", "D_ECE"]
    assert "l_w" not in notes(one)


def test_the_scale_of_alid_stands_beside_it() -> None:
    rows = [row("b2r", 0.1, alid=0.4, alid_chance=-7.2, alid_ceiling=3.0), row("b2", 0.2, 2, alid=0.6)]
    (one,) = board.make_boards([given(rows)])
    assert cells(one, "ALID (bit)") == ["0.400 (0 to 3.000)", "0.600"] and "ALID: 0 where nothing is" in notes(one)
    assert "7.2" not in str(one)


def test_marks_and_what_is_not_there_are_said() -> None:
    rows = [
        row("b2r", 0.01, chance="within", status="partial"),
        row("b2", 0.2, 2, mean_d_by="f0", idr_by="f0", deid_by="ecapa, plda"),
        {**row("b3", math.nan, None), **dict.fromkeys(("eer", "l_w", "l_w_ceiling"), math.nan), "anonymised": True,
         "untried": "semi_informed", "status": "incomplete", "reason": "stands on 3 of 4", "attacker": ""},
    ]  # fmt: skip
    (one,) = board.make_boards([given(rows)])
    assert cells(one, "D_ECE") == ["0.010 [−0.040, 0.060] ~ †", "0.200 [0.150, 0.250]", "–"]
    said = notes(one)
    assert NOTHING in said and "† does not stand on everything" in said
    assert "no number of b3: stands on 3 of 4." in said and "Not tried: b3: semi_informed." in said
    assert "MeanD and IdR by another extractor than the attack's: b2: f0." in said and "DeID by" not in said


@pytest.mark.parametrize("several", [False, True])
def test_any_names_compile(several: bool) -> None:
    runs = [
        given(
            [row(NASTY, 0.1, subset=NASTY), row("[b", 0.2, 2, subset=NASTY), row("*b", 0.3, 3, subset=NASTY)], name="A"
        )
    ]
    if several:
        runs.append(given([row("b2", 0.1, subset=NASTY), row("b2", 0.4, 1, subset="x" + NASTY)], name=NASTY))
    text = board.to_latex(board.make_boards(runs))
    found = [latex.body(table) for table in latex.tables(text)]
    assert [len(body) for body in found] == ([4, 4, 1, 1] if several else [3, 3]), "each with a table of other numbers"
    assert r"a\_b\%c\&d\#e\{f\}\$g\textasciicircum{}h\textasciitilde{}i\textbackslash{}j{[}k{]}" in found[0][0][1]
    markdown = board.to_markdown(board.make_boards(runs))
    for one in markdown.split("\n\n"):
        columns = {line.replace(r"\|", "").count("|") for line in one.splitlines() if line.startswith("| ")}
        assert len(columns) <= 1, one


def test_the_strict_reader_notices_what_would_not_compile() -> None:
    good = board.to_latex(board.make_boards([given([row("b2", 0.1)])]))
    assert len(latex.tables(good)) == 2
    for wrong in (
        good.replace(" & b2 & ", " & b_2 & "),
        good.replace(" & b2 & ", " & b#2 & "),
        good.replace(" & b2 & ", " & b2 & & "),
        good.replace(" & b2 & ", " b2 & "),
        good.replace(r"\bottomrule", r"x & y \bottomrule"),
        good.replace(r"\end{tabular}", ""),
        good.replace("0.100", "{0.100"),
        good.replace("0.100", "$0.100"),
        good.replace("0.100", "50 % 0.100"),
        good.replace("0.100", r"\nosuch 0.100"),
        good.replace("0.100", "0.100\N{DAGGER}"),
        good.replace("{tabular}{r", "{tabular}{rr"),
        good.replace("\\midrule\n1", "\\midrule\n[1]"),
    ):
        assert wrong != good
        with pytest.raises(AssertionError):
            latex.tables(wrong)


def test_signatures_name_what_the_numbers_stand_on() -> None:
    identity = {**dict.fromkeys(results.IDENTITY, ""), **ADAPTED, "subset": SUBSET, "system": "b2", "run_id": "r"}
    rows = [
        {
            **identity,
            "metric": metric,
            "variant": variant,
            "value": 0.1,
            "signature": f"{metric}|PP|extractor:ab|v:0.2.1",
        }
        for metric, variant in (("d_ece", ""), ("eer", "rocch"), ("eer", "kaldi"), ("cllr", ""))
    ]
    rows.append(
        {**identity, "metric": "mean_d", "attacker": "", "value": 0.5, "signature": "mean_d|OP|extractor:ab|v:0.2.1"}
    )
    made, differences = tables([row("b2", 0.1)], [])
    (one,) = board.make_boards([board.ShownRun("", "r", made, differences, NONE, results.frame(rows))])
    (said,) = [note for note in one.notes if note.startswith("Signatures")]
    assert said.count("sha256 ") == 2 and "cllr" not in said and said.count("d_ece") == 1
    assert f"d_ece, eer|PP|set:{SUBSET}|ext:ecapa(trained anonymised (utterance))|be:plda|v:0.2" in said
    assert "mean_d|OP|" in said
    (rest,) = [note for note in one.notes if "from rows of each set" in note]
    symbols = [glossary.metric(name).symbol for name in ("l_w", "deid", "g_vd", "idr")]
    assert all(symbol in rest for symbol in symbols) and "MeanD" not in rest and "EER" not in rest


def test_symbols_are_those_of_the_families() -> None:
    (one,) = board.make_boards([given([row("b2", 0.1)])])
    for name in ("d_ece", "eer", "l_w", "mean_d", "idr", "deid", "g_vd"):
        symbols = [head.split(" ")[0] for head in [*heads(one.first), *heads(one.further)]]
        assert glossary.metric(name).symbol in symbols, name


def test_nothing_is_shown_of_nothing() -> None:
    assert board.make_boards([given([])]) == [] and board.to_markdown([]) == board.to_latex([]) == ""
    assert board.make_boards([]) == []
