"""Numbers and compact tables: text, Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pipeline.report import glossary, summaries
from pipeline.report.formats import format_number
from pipeline.tables import results


@pytest.fixture(scope="module")
def rows(make_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return results.read(make_run(tmp_path_factory.mktemp("tables") / "run"))


@pytest.mark.parametrize(
    "value, unit, shown",
    [
        (0.07664, "fraction", "7.66"),
        (0.0, "fraction", "0.00"),
        (1.0, "fraction", "100.00"),
        (0.00003, "fraction", "3e−03"),
        (0.21949, "bit", "0.219"),
        (2e-5, "bit", "2e−05"),
        (-1e-7, "bit", "−1e−07"),
        (0.0005, "bit", "0.001"),
        (3.979, "log10", "3.979"),
        (-1.7234, "dB", "−1.72"),
        (-math.inf, "dB", "−∞"),
        (math.inf, "log10", "∞"),
        (math.nan, "bit", "–"),
        (-0.0, "dB", "0.00"),
        (12345.678, "furlong", "1.235e+04"),
        (0.25, "", "0.25"),
    ],
)
def test_number(value: float, unit: str, shown: str) -> None:
    assert format_number(value, unit) == shown


def test_number_with_unit() -> None:
    assert format_number(0.5, "fraction", with_unit=True) == "50.00\N{NO-BREAK SPACE}%"
    assert format_number(-math.inf, "dB", with_unit=True) == "−∞\N{NO-BREAK SPACE}dB"


def test_values_are_held_against_their_null_bands(rows: pd.DataFrame) -> None:
    shown = summaries.present_rows(rows)
    assert (shown["chance"] != "").sum() == rows["null_low"].notna().sum() == 32
    eer = shown[shown["metric"] == "eer"]
    # By hand: 0.5 exp(-leak/3) against [0.44, 0.50].
    inside = (eer["value"] >= 0.44) & (eer["value"] <= 0.50)
    assert list(eer["chance"]) == ["within chance" if yes else "below the band" for yes in inside]
    assert set(eer["chance"]) == {"within chance", "below the band"}


def _lines(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_text_has_the_compact_tables(rows: pd.DataFrame) -> None:
    text = summaries.to_text(rows)
    head = _lines(text, "EER (%) ↑", "Cllr_min (bit) ↑", "D_ECE (bit) ↓", "l_w (log10) ↓", "tag")
    assert len(head) == 1
    line = _lines(text, "libri_dev_trials_f", "b2 ", "ignorant", "OP")[0]
    assert line.split()[-5:] == ["21.73", "0.174", "0.499", "2.900", "C"]
    assert _lines(text, "libri_dev_trials_f", "t8", "ignorant")[0].split()[-7:] == [
        "49.67",
        "~",
        "0.982",
        "0.007",
        "~",
        "0.420",
        "A",
    ]
    assert _lines(text, "DeID_OP (%) ↑", "G_VD (dB)") and _lines(text, "MaxD", "MeanD", "IdR", "RS")
    assert _lines(text, "libri_dev_trials_f", "b2 ", "58.33", "−4.00") and _lines(text, "99.67", "−∞")
    assert "novelty index (furlong)" in text and "– no value: no input has rank 1" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_original_comes_first(rows: pd.DataFrame) -> None:
    lines = [line for line in summaries.to_text(rows).splitlines() if line.startswith("libri_dev_trials_f")]
    assert "original" in lines[0] and "b2 " in lines[2]
    # A configuration that asks for a protected system alone evaluates the original speech as well.
    lines = [
        line for line in summaries.to_text(rows, ["b2r", "b2"]).splitlines() if line.startswith("libri_dev_trials_f")
    ]
    assert "original" in lines[0] and "b2r " in lines[2] and "b2 " in lines[4]
    lines = [line for line in summaries.to_text(rows, ["b2", "original"]).splitlines() if line.startswith("libri_dev")]
    assert "b2 " in lines[0] and "original" in lines[2]


def test_text_columns_are_aligned(rows: pd.DataFrame) -> None:
    block = summaries.to_text(rows).split("\n\n")[1].splitlines()
    column = block[0].index("attacker")
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in block[2:])


def test_ids_cannot_break_lines_or_markup() -> None:
    base = {
        "dataset": "d",
        "subset": "a|b\n# x",
        "system": "$_{x}^&%#~\\",
        "extractor": "<b>",
        "metric": "eer",
        "variant": "rocch",
        "value": 0.1,
        "unit": "fraction",
        "direction": "higher is more private",
        "status": "ok",
    }
    table = results.frame([base])
    line = _lines(summaries.to_text(table), "10.00")
    assert len(line) == 1 and "a|b # x" in line[0]
    markdown = _lines(summaries.to_markdown(table), "10.00")[0]
    assert markdown.replace("\\|", "").count("|") == 5 and "a\\|b # x" in markdown and "&lt;b&gt;" in markdown
    latex = _lines(summaries.to_latex(table), "10.00")[0]
    assert r"\$\_\{x\}\textasciicircum{}\&\%\#\textasciitilde{}\textbackslash{}" in latex and latex.endswith(
        r"10.00 \\"
    )


def test_markdown_shows_intervals_and_can_leave_them(rows: pd.DataFrame) -> None:
    line = _lines(summaries.to_markdown(rows), "libri\\_dev\\_trials\\_f", "| b2 |", "ignorant")[0]
    assert r"21.73 \[17.38, 26.08\]" in line
    assert "17.38, 26.08" not in summaries.to_markdown(rows, intervals=False)
    tables_only = [line for line in summaries.to_markdown(rows).splitlines() if line.startswith("|")]
    columns = [line.replace("\\|", "").count("|") for line in tables_only]
    assert len(set(columns[:18])) == 1 and "---:" in tables_only[1]


def test_latex_is_balanced(rows: pd.DataFrame) -> None:
    latex = summaries.to_latex(rows)
    plain = latex.replace(r"\{", "").replace(r"\}", "")
    assert (
        plain.count("{") == plain.count("}") and latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 4
    )
    assert r"$D_{\mathrm{ECE}}$ (bit) $\downarrow$" in latex and r"$-$$\infty$" in latex
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in body} == {10, 5, 8, 4}


def test_several_runs_show_their_ids(rows: pd.DataFrame) -> None:
    both = pd.concat([rows, rows.assign(run_id="another")], ignore_index=True)
    text = summaries.to_text(both)
    assert len(_lines(text, "another", "libri_dev_trials_f", "b2 ", "ignorant")) == 1
    assert text.splitlines()[2].startswith("run ")


def test_eer_variants_stand_side_by_side(rows: pd.DataFrame) -> None:
    eer = rows[rows["metric"] == "eer"]
    both = pd.concat([eer, eer.assign(variant="kaldi", value=eer["value"] + 0.01)], ignore_index=True)
    both = pd.concat([both, rows[rows["metric"] == "d_ece"]], ignore_index=True)
    assert _lines(summaries.to_text(both), "EER kaldi (%) ↑", "EER rocch (%) ↑")


WEAK = "within-session PLDA, a weak attacker"


def _noted(rows: pd.DataFrame, *texts: str) -> pd.DataFrame:
    """EER and D_ECE rows of one subset; those of b2 and of b2r with a note each."""
    part = rows[rows["metric"].isin(["eer", "d_ece"]) & (rows["subset"] == "libri_dev_trials_f")].copy()
    for system, text in zip(("b2", "b2r"), texts):
        part.loc[part["system"] == system, "note"] = text
    return part


def test_a_note_is_marked_beside_its_value(rows: pd.DataFrame) -> None:
    text = summaries.to_text(_noted(rows, WEAK))
    assert _lines(text, "b2 ", "ignorant")[0].split()[-4:] == ["21.73", "‡", "0.499", "‡"]
    assert "‡" not in _lines(text, "b2r ", "ignorant")[0] and "no value" not in text
    assert len(_lines(text, f"‡ {WEAK}.")) == 1
    both = _noted(rows, WEAK, "two speakers only.")
    text = summaries.to_text(both)
    assert "‡1" in _lines(text, "b2r ", "ignorant")[0] and "‡2" in _lines(text, "b2 ", "ignorant")[0]
    assert _lines(text, "‡1 two speakers only.") and _lines(text, f"‡2 {WEAK}.") and "only.." not in text
    markdown, latex = summaries.to_markdown(both), summaries.to_latex(both)
    assert _lines(markdown, "| b2 |", "ignorant", r"21.73 \[17.38, 26.08\] ‡2") and f"‡2 {WEAK}." in markdown
    assert _lines(latex, "b2 ", "ignorant", r"26.08{]} \textdaggerdbl{}2") and f"{{}}2 {WEAK}." in latex


def test_a_note_does_not_hide_why_a_value_is_missing(rows: pd.DataFrame) -> None:
    part = _noted(rows, WEAK)
    lost = part[(part["system"] == "b2") & (part["metric"] == "d_ece")].index[0]
    part.loc[lost, ["value", "low", "high", "reason"]] = [math.nan, math.nan, math.nan, "there is no target"]
    text = summaries.to_text(part)
    assert _lines(text, "– no value: there is no target.") and _lines(text, f"‡ {WEAK}.")
    assert any(line.split()[-1] == "–" for line in _lines(text, "b2 "))


def _trained(rows: pd.DataFrame, **sources: str) -> pd.DataFrame:
    part = rows[(rows["metric"] == "eer") & (rows["system"] == "b2")].copy()
    part["trained_on"] = part["attacker"].map(sources).fillna("")
    return part


def test_what_an_attacker_was_trained_on_is_said_once_where_it_follows_from_the_attacker(rows: pd.DataFrame) -> None:
    text = summaries.to_text(_trained(rows, ignorant="original", lazy_informed="anonymised (speaker)"))
    assert not _lines(text, "subset", "system", "trained on")
    assert _lines(text, "trained on original under ignorant, anonymised (speaker) under lazy_informed.")
    text = summaries.to_text(_trained(rows, ignorant="original", lazy_informed="original"))
    assert _lines(text, "For all rows:", "trained on original") and not _lines(text, "subset", "trained on")
    several = pd.concat(
        [_trained(rows, ignorant="original", lazy_informed=kind) for kind in ("original", "anonymised (utterance)")]
    )
    several = several.drop_duplicates(["subset", "attacker", "trained_on"])
    text = summaries.to_text(several)
    assert _lines(text, "subset", "system", "trained on") and len(_lines(text, "anonymised (utterance)")) == 2


def test_no_rows_no_text() -> None:
    assert summaries.to_text(results.frame([])) == summaries.to_markdown(results.frame([])) == ""


def test_unknown_metric_keeps_its_name() -> None:
    said = glossary.metric("novelty_index")
    assert said.symbol == "novelty index" and "No description" in said.sentence
