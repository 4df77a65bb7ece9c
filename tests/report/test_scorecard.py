"""The scorecard: prints as intervals, every verdict, what follows from what, and the forms that it is written in."""

from __future__ import annotations

import csv
import functools
import io
import math
from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import ConfigError, DataError
from pipeline.report.scorecard import card, consistency, output, settings
from pipeline.tables import published, results

RUN: dict[str, Any] = {
    "dataset": "vpc", "system_level": "utterance", "calibration": "oracle", "unit": "fraction", "status": "ok",
    "run_id": "r", "n_expected": 100, "n_used": 100,
}  # fmt: skip
ECAPA = {"extractor": "ecapa", "backend": "cosine", "metric": "eer", "variant": "speechbrain"}


def eer(
    system: str, subset: str, value: float, low: float = np.nan, high: float = np.nan, **more: Any
) -> dict[str, Any]:
    """A row of a run as VPC 2024 measures it."""
    own = system != "original"
    words = {
        "condition": "PP" if own else "OO", "attacker": "semi_informed" if own else "unprotected",
        "trained_on": "anonymised (utterance)" if own else "original", "subset": subset, "system": system, "value": value,
        "low": low, "high": high,
    }  # fmt: skip
    return {**RUN, **ECAPA, **words, **more}


def made(recipe: str, *rows: dict[str, Any], changes: settings.Changes | None = None) -> card.Card:
    """The card of a recipe and of rows that went through the results' own schema."""
    if not rows and changes is None:
        return bare(recipe)
    found = settings.read(recipe, changes or settings.Changes())
    assert found is not None
    return card.make_card(found, results.records(results.frame(rows)))


@functools.cache
def bare(recipe: str) -> card.Card:
    """The card of a recipe and of a run that has no row."""
    found = settings.read(recipe)
    assert found is not None
    return card.make_card(found, [])


def line(made: card.Card, system: str, subset: str, **words: str) -> card.Line:
    """The first line of a system in a set."""
    names = made.settings.names
    return next(
        one
        for one in made.lines
        if names.get(one.cell.identity.system, one.cell.identity.system) == system
        and one.cell.identity.subset == subset
        and all(one.cell.get_column(name) == word for name, word in words.items())
    )


# What may have been printed so --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["rounded", "truncated"])
@pytest.mark.parametrize("digits", [0, 1, 2])
def test_a_print_holds_exactly_what_prints_so(rule: str, digits: int) -> None:
    """Brute force: numbers on a fine grid are printed, and their prints read back."""
    unit = Decimal(1).scaleb(-digits)
    rounding = (ROUND_HALF_EVEN, ROUND_HALF_UP) if rule == "rounded" else (ROUND_DOWN,)
    numbers = [Decimal(number) * unit / 8 for number in range(-60, 61)]
    for number in numbers:
        for how in rounding:
            text = str(number.quantize(unit, rounding=how))
            low, high = published.ends(text, rule)
            assert low <= float(number) <= high, (text, number)
            assert high - low <= 2 * float(unit) + 1e-12
            for other in numbers:
                inside = low + 1e-9 < float(other) < high - 1e-9
                same = other.quantize(unit, rounding=how) == Decimal(text)
                assert same or not inside or rule == "truncated", (text, other)
                if rule == "truncated" and inside and not other.is_zero():
                    assert same or Decimal(text) == 0, (text, other)


def test_prints_that_are_no_plain_numbers() -> None:
    assert published.ends("~100", "rounded") == (99.5, 100.5)
    assert published.ends("1e-4", "rounded") == pytest.approx((0.5e-4, 1.5e-4))
    assert published.ends("-4e-7", "rounded") == pytest.approx((-4.5e-7, -3.5e-7))
    assert published.ends("0.88", "truncated") == (0.88, 0.89) and published.ends("-0.88", "truncated") == (
        -0.89,
        -0.88,
    )
    assert published.ends("56.62", "either") == (56.615, 56.63)
    assert published.ends("inf", "rounded") == (math.inf, math.inf)
    with pytest.raises(ValueError, match="no number"):
        published.ends("C", "rounded")


def test_maxd_of_37_of_800_is_the_printed_one_only_when_it_is_cut() -> None:
    found = math.log2(40 * 37 / 800)
    assert published.ends("0.88", "truncated")[0] <= found <= published.ends("0.88", "truncated")[1]
    assert found > published.ends("0.88", "rounded")[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda head, one, other: [head.replace("rounding", "rounded"), one, other], "columns"),
        (lambda head, one, other: [head, one.replace("rounded", "guessed"), other], "rounding is 'guessed'"),
        (lambda head, one, other: [head, one.replace(",7.48,", ",seven,"), other], "'seven' is no number"),
        (lambda head, one, other: [head, one, one], "the same cell as"),
        (lambda head, one, other: [head, one.removesuffix(",rounded"), other], "16 cells instead of 17"),
        (lambda head, one, other: [head, "," + one.partition(",")[2], other], "the column source is empty"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    lines = [",".join(published.COLUMNS), _own("a", "7.48"), _own("b", "9.1")]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(change(*lines)) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        published.read(path)
    assert said in str(caught.value) and "own.csv" in str(caught.value)


def _own(system: str, value: str) -> str:
    words = {
        "source": "Me 2027", "table": "Table 1", "subset": "libri_test_trials_f", "condition": "PP", "system": system,
        "metric": "eer", "variant": "speechbrain", "value": value, "unit": "%", "rounding": "rounded",
    }  # fmt: skip
    return ",".join(words.get(name, "") for name in published.COLUMNS)


# Verdicts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "interval", "verdict"),
    [
        (0.07483, (0.05, 0.10), consistency.REPRODUCED),
        (0.08483, (0.05, 0.10), consistency.REPRODUCED),  # at the end of the tolerance of one point
        (0.0949, (0.05, 0.10), consistency.WITHIN),
        (0.0949, (0.08, 0.10), consistency.DIFFERS),
        (0.0949, (np.nan, np.nan), consistency.DIFFERS),
    ],
)
def test_a_number_is_reproduced_within_its_interval_or_differs(
    value: float, interval: tuple[float, float], verdict: str
) -> None:
    row, near = eer("b2", "libri_test_trials_f", value, *interval), settings.Changes(tolerances={"eer": 1.0})
    found = line(made("vpc2024", row, changes=near), "B2", "libri_test_trials_f")
    assert found.verdict == verdict and found.cell.value == "7.483"
    assert found.difference == pytest.approx(100 * value - 7.483)


def test_each_printed_cell_has_a_line_and_what_was_not_run_says_why() -> None:
    found = made("vpc2024", eer("b2", "libri_test_trials_f", 0.07483))
    assert len(found.lines) == 224 and sum(one.verdict == consistency.REPRODUCED for one in found.lines) == 1
    assert line(found, "B3", "libri_test_trials_f").note == "no such system"
    assert line(found, "B2", "libri_test_trials_m").note == "no such row"
    assert line(found, "B2", "libri_test_asr").note == "not measured here"
    assert sum(found.counts().values()) == 224


@pytest.mark.parametrize(
    ("recipe", "tables"),
    [
        ("vpc2020", {"noe2020_table2": 24, "noe2022_table2": 120, "noe2022_table3": 54, "noe2022_table4": 54,
                     "vpc2020_baseline_results": 480, "zebra_vpc2020_results": 648, "vpc2022_results_old": 1464}),
        ("vpc2022", {"vpc2022_results": 3280, "vpc2022_results_summary": 400}),
        ("vpc2024", {"vpc2024_results": 224}),
        ("vpac", {"vpac_attackers": 133}),
        ("srd2026", {"srd2026_table1": 68, "srd2026_table2": 32}),
        ("bring_your_scores", {"wang_miao_2026_table3": 35, "vpac_attackers": 28}),
    ],
)  # fmt: skip
def test_every_row_of_every_table_has_a_verdict_with_no_run_of_it(recipe: str, tables: dict[str, int]) -> None:
    found = made(recipe)
    assert Counter(one.cell.file for one in found.lines) == tables
    assert {one.verdict for one in found.lines} <= {consistency.NOT_RUN, consistency.CANNOT, consistency.DISAGREE}
    text = output.to_text(found)
    assert text.count("\n") > sum(tables.values()) and f"{sum(tables.values())} published cells:" in text


def test_a_print_that_other_sources_contradict_says_so_and_ours_may_still_be_it() -> None:
    """SRD 2026 prints 33.2 % for T12-5, the Attacker Challenge 42.8 % for the same attacker."""
    subset = "libri_test (mean of f and m)"
    for value, verdict in ((0.332, consistency.REPRODUCED), (0.428, consistency.DISAGREE)):
        found = line(made("srd2026", eer("t12_5", subset, value, value - 0.01, value + 0.01)), "T12-5", subset)
        assert found.verdict == verdict and "VoxATtack@9fe67f1, Table1.png prints 42.8" in found.note
    found = line(made("srd2026"), "T12-5", subset)
    assert (found.cell.value, found.verdict) == ("33.2", consistency.DISAGREE) and found.note.startswith("not run; ")
    assert line(made("srd2026"), "T25-1", subset).verdict == consistency.DISAGREE
    assert line(made("srd2026"), "B3", subset).verdict == consistency.NOT_RUN


def test_a_print_that_contradicts_its_own_inputs_cannot_follow() -> None:
    words = {"metric": "cllr_min_op_oo", "file": "noe2022_table3"}
    found = line(made("vpc2020"), "B2", "libri_test_trials_f", **words)
    assert found.verdict == consistency.CANNOT and "0.184, 0.686 of Voice-Privacy-Challenge-2020@f58ef14" in found.note
    assert line(made("vpc2020"), "B1", "libri_test_trials_f", **words).verdict == consistency.NOT_RUN
    ours = {
        **RUN, "metric": "cllr_min_op_oo", "variant": "trial_lists", "subset": "libri_test_trials_f", "condition": "OP",
        "attacker": "ignorant", "extractor": "xvector", "trained_on": "original", "backend": "plda", "system": "b2",
    }  # fmt: skip
    for value, verdict in ((0.6132, consistency.REPRODUCED), (0.6150, consistency.CANNOT)):
        assert line(made("vpc2020", {**ours, "value": value}), "B2", "libri_test_trials_f", **words).verdict == verdict


def test_a_row_that_is_not_whole_is_said_beside_the_verdict() -> None:
    part = eer("b2", "libri_test_trials_f", 0.07483, status="partial", n_used=90)
    none = eer("b2", "libri_test_trials_m", np.nan, status="incomplete", reason="3 recordings are missing", n_used=97)
    found = made("vpc2024", part, none)
    one, other = (line(found, "B2", f"libri_test_trials_{sex}") for sex in "fm")
    assert (one.verdict, one.note) == (consistency.PARTIAL, "partial, 90 of 100 used")
    assert (other.verdict, other.note) == (
        consistency.NOT_RUN, "incomplete, 97 of 100 used: 3 recordings are missing",
    )  # fmt: skip


def test_several_rows_for_one_cell_are_a_fault_and_its_remedy_mends_it() -> None:
    rows = [eer(name, "libri_test_trials_f", 0.07483) for name in ("b2", "b2_vpc2024")]
    found = made("vpc2024", *rows)
    assert line(found, "B2", "libri_test_trials_f").verdict == consistency.SEVERAL
    with pytest.raises(ConfigError) as caught:
        card.refuse_ambiguous(found, Path("run"))
    assert "'b2', 'b2_vpc2024'" in str(caught.value) and "'scorecard.systems.B2=b2'" in caught.value.remedy
    mended = made("vpc2024", *rows, changes=settings.Changes(systems={"B2": "b2"}))
    assert not mended.faults and line(mended, "B2", "libri_test_trials_f").verdict == consistency.REPRODUCED


def test_labels_given_replace_those_of_the_recipe() -> None:
    rows = [eer("b2", "libri_test_trials_f", 0.07483), eer("mine", "libri_test_trials_f", 0.5, extractor="e")]
    changes = settings.Changes.model_validate({"systems": {"B2": ["mine"]}, "extractors": {"ecapa": "e"}})
    found = line(made("vpc2024", *rows, changes=changes), "B2", "libri_test_trials_f")
    assert found.row is not None and found.row["system"] == "mine" and found.verdict == consistency.DIFFERS
    wide = settings.Changes(tolerances={"eer": 50})
    assert line(made("vpc2024", *rows, changes=wide), "B2", "libri_test_trials_f").tolerance == 50


def test_units_are_brought_together_and_tags_are_compared_as_text() -> None:
    words = {
        **RUN, "extractor": "xvector", "trained_on": "original", "backend": "plda", "condition": "OO",
        "attacker": "unprotected", "system": "original", "subset": "libri_test_trials_f",
    }  # fmt: skip
    rows = [
        {**words, "metric": "tag", "unit": "tag", "label": "C"},
        {**words, "metric": "d_ece", "unit": "bit", "value": 0.58},
    ]
    rows.append({**words, "metric": "l_w", "unit": "furlong", "value": 3.979})
    found = made("vpc2020", *rows)
    table = {"file": "noe2022_table2"}
    assert line(found, "original", "libri_test_trials_f", metric="tag", **table).verdict == consistency.REPRODUCED
    assert line(found, "original", "libri_test_trials_f", metric="d_ece", **table).verdict == consistency.DIFFERS
    odd = line(found, "original", "libri_test_trials_f", metric="l_w", **table)
    assert odd.row is not None and odd.value is None and "furlong" in odd.note
    assert consistency.convert("fraction", "%") == 100 and consistency.convert("bit", "nat") is None


@pytest.mark.parametrize(
    ("label", "name", "known", "stands"),
    [
        ("b2", "B2", {}, True),
        ("b2_vpc2020", "B2", {}, False),
        ("b2_vpc2020", "B2", {"B2": ["b2_vpc2020"]}, True),
        ("b2", "B2", {"B2": [settings.EXACTLY, "mine"]}, False),
        ("mine", "B2", {"B2": [settings.EXACTLY, "mine"]}, True),
    ],
)
def test_which_labels_stand_for_a_name(label: str, name: str, known: dict[str, list[str]], stands: bool) -> None:
    assert card.stands_for(label, (name,), known) is stands


# What follows from what ------------------------------------------------------------------------------------------------


def recomputed(recipe: str) -> dict[tuple[str, str], Counter[str]]:
    counted: dict[tuple[str, str], Counter[str]] = {}
    for one in bare(recipe).checks:
        counted.setdefault((one.cell.file, one.cell.identity.metric), Counter())[one.verdict] += 1
    return counted


def test_what_follows_of_noe_2022() -> None:
    """As recomputed by hand: 18 ratios, 24 tags and all repeats follow; of B2, 4 + 3 + 2 normalised cells do not, and 7 of B2's cells
    and one of the original's are printed otherwise by zebra's results; B2r and C_ECE have no counterpart."""
    found = recomputed("vpc2020")
    follow, cannot, disagree, none = (
        consistency.FOLLOWS,
        consistency.CANNOT,
        consistency.DISAGREE,
        consistency.UNCHECKED,
    )
    assert found["noe2022_table2", "tag"] == {follow: 24} and found["noe2022_table2", "c_ece"] == {none: 12}
    assert found["noe2022_table2", "deid"] == found["noe2022_table3", "deid"] == {follow: 18}
    assert found["noe2022_table2", "g_vd"] == found["noe2022_table4", "g_vd"] == {follow: 18}
    assert found["noe2022_table2", "l_w"] == {follow: 11, disagree: 7, none: 6}
    assert found["noe2022_table3", "d_ece_op_oo"] == {follow: 18}
    assert found["noe2022_table3", "cllr_min_op_oo"] == {follow: 8, cannot: 4, none: 6}
    assert found["noe2022_table4", "g_cllr_min"] == {follow: 9, cannot: 3, none: 6}
    assert found["noe2022_table4", "g_d_ece"] == {follow: 10, cannot: 2, none: 6}


def test_what_follows_of_averages_and_ranks() -> None:
    srd, vpac, vpc2022 = recomputed("srd2026"), recomputed("vpac"), recomputed("vpc2022")
    assert srd["srd2026_table1", "eer"] == {consistency.FOLLOWS: 4, consistency.DISAGREE: 4}
    # The five rows whose largest share is not at rank 1.
    assert srd["srd2026_table1", "max_d"] == {consistency.FOLLOWS: 10, consistency.CONSISTENT: 5}
    assert srd["srd2026_table2", "max_d"] == {consistency.FOLLOWS: 8}
    # Printed 41.8 as the mean of 41.8 and 40.6.
    assert vpac["vpac_attackers", "eer"][consistency.CANNOT] == 1
    # The weighted averages of five systems, dev and test, follow with the official weights.
    assert vpc2022["vpc2022_results_summary", "g_vd"] == {consistency.FOLLOWS: 70}
    assert recomputed("vpc2024")["vpc2024_results", "uar"] == {consistency.FOLLOWS: 28}


@pytest.mark.parametrize(
    ("metric", "change", "verdict"),
    [
        ("max_d", "0.64", consistency.CANNOT),  # no whole count of 800 is cut to it
        ("max_d", "0.52", consistency.CANNOT),  # less than rank 1 discloses
        ("idr", "3.65", consistency.CANNOT),
        ("rank_spread", "46.0", consistency.CANNOT),
        ("mean_d", "0.70", consistency.CANNOT),
    ],
)
def test_a_changed_cell_of_srd_is_found(metric: str, change: str, verdict: str) -> None:
    cells = published.read(published.find("srd2026_table1"))
    place = next(
        index for index, cell in enumerate(cells)
        if (cell.identity.system, cell.identity.trained_on, cell.identity.metric) == ("B3", "original", metric)
    )  # fmt: skip
    assert consistency.check_cells([cells[place]], cells, {})[0].verdict == consistency.CONSISTENT
    changed = cells[place].replace_columns(value=change)
    known = [*cells[:place], changed, *cells[place + 1 :]]
    assert consistency.check_cells([changed], known, {})[0].verdict == verdict


# Forms ---------------------------------------------------------------------------------------------------------------


def nasty() -> card.Card:
    rows = [eer(name, "libri_test_trials_f", value) for name, value in (("b2", 0.0748), ("=my_sys%<b>|", 0.2))]
    return made("vpc2024", *rows)


def test_a_system_of_ours_has_its_row_in_the_published_table() -> None:
    table = output.fill_view(nasty().settings.views[0], nasty())
    names = [one[0] for one in table.body]
    assert names[0] == "original" and {"B2 (mcadams)", "B6 (asrbn_hifigan_bn_tdnnf_600h_vq_48_v1)"} <= set(names)
    shown = {names[place]: table.body[place] for place in table.marked}
    assert shown["ours: b2 (for B2)"][4] == "7.480" and shown["ours: =my_sys%<b>|"][4] == "20.000"
    means = {one[0]: one[6] for one in table.body}
    assert means["B3 (sttts)"] == "27.322"  # the mean of the printed f and m
    order = [float(one[6]) for one in table.body[1:] if one[6] != "–"]
    assert order == sorted(order) and len(order) == 7


def test_means_of_a_run_stand_where_those_of_the_print_do() -> None:
    found = made("vpc2024", eer("mine", "libri_test (mean of f and m)", 0.31), eer("mine", "libri_test_trials_f", 0.3))
    table = output.fill_view(found.settings.views[0], found)
    (place,) = table.marked
    assert table.body[place] == ["ours: mine", "–", "–", "–", "30.000", "–", "31.000"]


def test_an_attack_of_ours_is_one_more_line_among_attackers() -> None:
    """Each extractor, what it was trained on, and back end is a line; the mean stands where all systems do."""
    heads = ("B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1")
    mine = {"extractor": "campplus", "backend": "wccn"}
    rows = [eer(name, "libri_test (mean of f and m)", 0.2 + 0.01 * place, **mine) for place, name in enumerate(heads)]
    rows.append(eer("B3", "libri_test (mean of f and m)", 0.1, extractor="campplus"))
    found = made("vpac", *rows)
    table = output.fill_view(found.settings.views[0], found)
    assert [column.head for column in table.columns] == ["attacker", *heads, "mean"]
    lines = {one[0]: one[1:] for one in table.body}
    assert lines["ours: campplus (anonymised (utterance)), wccn"] == [
        "20.0", "21.0", "22.0", "23.0", "24.0", "25.0", "26.0", "23.0",
    ]  # fmt: skip
    assert lines["ours: campplus (anonymised (utterance)), cosine"] == ["10.0", *7 * ("–",)]
    assert lines["A.5"][-1] == "–", "there is no mean of a line with a star"
    assert lines["ecapa"][0] == "27.3" and {"A.20", "VoxATtack"} <= lines.keys()
    assert sum(one.row is not None for one in found.lines) == 0, "it stands for no published attacker"


def test_forms_escape_what_others_wrote() -> None:
    limits = ["sexes unknown: 50 % & more"]
    text, page, latex = (form(nasty(), limits) for form in (output.to_text, output.to_markdown, output.to_latex))
    assert text.startswith("Know before you read the numbers") and "ours: =my_sys%<b>|" in text
    assert "ours: =my\\_sys%&lt;b&gt;\\|" in page and page.count("| libri\\_test\\_trials\\_f |") >= 7
    assert r"ours: =my\_sys\%\textless{}b\textgreater{}\textbar{}" in latex and r"50 \% \& more" in latex
    assert latex.count(r"\begin{longtable}") == latex.count(r"\end{longtable}") == 2
    assert latex.count(r" \\") >= 224 and "within interval" in text


def test_the_csv_has_every_cell_with_full_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(output.to_csv(nasty()))))
    assert len(rows) == 224
    (ours,) = [row for row in rows if row["ours"]]
    assert (ours["published"], ours["ours"], ours["verdict"]) == ("7.483", "7.48", consistency.DIFFERS)
    assert (float(ours["published_low"]), float(ours["published_high"])) == (7.4825, 7.4835)
    assert (ours["our_system"], ours["our_trained_on"]) == ("b2", "anonymised (utterance)")


@pytest.mark.parametrize("name", settings.names())
def test_each_scorecard_is_sound(name: str) -> None:
    """Columns of views are filled, tolerances have their reason, and names are those that are printed."""
    found = made(name)
    printed = {one.cell.identity.system for one in found.lines}
    witnessed = {cell.identity.system for cell in card.read_cells(found.settings.witnesses)}
    assert set(found.settings.names) <= printed | witnessed
    assert set(found.settings.systems) <= printed | set(found.settings.names.values())
    for view in found.settings.views:
        table = output.fill_view(view, found)
        assert len(table.body) >= 2 and view.sort in [column.head for column in table.columns]
        for place, column in enumerate(table.columns):
            assert any(one[place] != "–" for one in table.body), (view.title, column.head)


def test_a_scorecard_with_an_unknown_field_or_column_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "find_assets", lambda kind: tmp_path)
    (tmp_path / "mine").mkdir()
    for text, said in (
        ("title: a\ntables: []\ntolerance: 1\n", "tolerance"),
        ("title: a\ntables:\n  - {file: x, where: {set: [a]}}\n", "no columns of published tables: set"),
        ("title: [", "no YAML"),
    ):
        (tmp_path / "mine" / "scorecard.yaml").write_text(text)
        with pytest.raises(ConfigError) as caught:
            settings.read("mine")
        assert said in str(caught.value) and "mine/scorecard.yaml" in str(caught.value)
    assert settings.read("other") is None
