"""The first screen, from tables that are made up: what stands where, what each dot shows, and what is said where there is no number."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline import cli
from pipeline.report import verdict
from pipeline.report.formats import NOTHING
from pipeline.report.page.answer import FULL, make_axis
from pipeline.report.render import ANCHORS, MOST_SHOWN, render
from pipeline.tables import answers
from pipeline.tables import checks as sentences
from tests.report.test_attack import check
from tests.report.test_report import parse

MakeRun = Callable[..., Path]
NAN = math.nan
EVIL = "<script>alert('x')</script>\" onmouseover=\"y"
F, M = "libri_test_trials_f", "libri_test_trials_m"
ADAPTED = {"condition": "PP", "attacker": "semi_informed", "extractor": "ecapa", "trained_on": "anonymised (utterance)", "backend": "plda"}  # fmt: skip
LAZY = {"condition": "PP", "attacker": "lazy_informed", "extractor": "ecapa", "trained_on": "original", "backend": "cosine"}  # fmt: skip
NONE = {"condition": "OO", "attacker": "unprotected", "extractor": "ecapa", "trained_on": "original", "backend": "cosine"}  # fmt: skip


def row(system: str, value: float, rank: int | None = 1, subset: str = F, **more: Any) -> dict[str, Any]:
    about = {"dataset": "libri", "subset": subset, "n_sets": 1, "system": system, "anonymised": rank is not None, "rank": rank,
             "n_attacks": 2, "contenders": 1, "chance": "above", "status": "ok", "n_speakers": 29, "n_target": 1449,
             "n_nontarget": 14080}  # fmt: skip
    numbers = {"d_ece": value + 0.02, "d_ece_low": value - 0.05, "d_ece_high": value + 0.05, "d_ece_corrected": value, "null_low": 0.001,
               "null_high": 0.03, "eer": 0.25, "eer_low": 0.2, "eer_high": 0.3, "lowest_eer": 0.22, "lowest_eer_low": 0.18,
               "lowest_eer_high": 0.27, "lowest_eer_attack": "lazy_informed: ecapa, cosine", "pp_attack": "one", "l_w": 2.31, "l_w_ceiling": 4.05, "tag": "C", "deid": 0.91,
               "deid_low": 0.85, "deid_high": 0.97}  # fmt: skip
    return {**about, **(ADAPTED if rank else NONE), **numbers, **more}


def attack(system: str, value: float, about: dict[str, str], subset: str = F, **more: Any) -> dict[str, Any]:
    numbers = {"d_ece": value, "d_ece_low": value - 0.02, "d_ece_high": value + 0.02, "eer": 0.25, "eer_low": 0.2, "eer_high": 0.3}  # fmt: skip
    return {"dataset": "libri", "subset": subset, "system": system, **about, **numbers, "contends": True, **more}


def compared(system: str, reference: str, p: float, under: str = "strongest", **more: Any) -> dict[str, Any]:
    about = {"dataset": "libri", "subset": F, "under": under, "system": system, "reference": reference, "metric": "d_ece", "unit": "bit"}  # fmt: skip
    numbers = {"difference": -0.1, "low": -0.12, "high": -0.08, "p_value": p / 3, "p_holm": p, "n_compared": 3}
    return {**about, "attack": "lazy_informed: ecapa, cosine", **numbers, **more}


BOARD = [row("b2r", 0.1), row(EVIL, 0.12), row("b2", 0.3, 3), row("original", 0.6, None, n_attacks=1, deid=NAN)]
ATTACKS = [
    attack("b2r", 0.1, ADAPTED),
    attack("b2r", 0.05, LAZY),
    attack(EVIL, 0.12, ADAPTED),
    attack("b2", 0.3, ADAPTED),
    attack("b2", 0.2, LAZY),
    attack("original", 0.6, NONE),
]


def page(
    make_run: MakeRun,
    folder: Path,
    board: list[dict[str, Any]],
    attacks: list[dict[str, Any]] | None = None,
    differences: list[dict[str, Any]] | None = None,
    **more: Any,
) -> str:
    return render([run_of(make_run, folder / "run", board, attacks, differences, **more)], folder / "out").read_text()


def run_of(
    make_run: MakeRun,
    folder: Path,
    board: list[dict[str, Any]],
    attacks: list[dict[str, Any]] | None = None,
    differences: list[dict[str, Any]] | None = None,
    *,
    tables: dict[str, pd.DataFrame] | None = None,
    doubts: int = 0,
    limits: int = 0,
    **more: Any,
) -> Path:
    def few(rows: list[dict[str, Any]]) -> None:
        rows[:] = [one for one in rows if one["metric"] == "eer"]

    run = make_run(folder, **{"change": few, **more}, tables={} if tables is None else tables)
    given = {"leaderboard": board, "attacks": attacks or [], "differences": differences or []}
    answers.write({name: answers.frame(name, rows) for name, rows in given.items()}, run)
    if doubts:
        pd.DataFrame([check(f"Doubt {n}.", True) for n in range(doubts)]).to_parquet(run / "diagnostics.parquet")
    (run / "limits.json").write_text(json.dumps([f"Limit {n}." for n in range(limits)]))
    return run


def part(html: str, tag: str, marked: str) -> ET.Element:
    """The element that starts with this attribute, parsed strictly."""
    start = html.index(marked)
    start = html.rindex(f"<{tag}", 0, start)
    depth, place = 0, start
    while True:
        opened, closed = html.find(f"<{tag}", place), html.index(f"</{tag}>", place)
        if opened != -1 and opened < closed:
            depth, place = depth + 1, opened + 1
            continue
        depth, place = depth - 1, closed + 1
        if not depth:
            return ET.fromstring(html[start : closed + len(f"</{tag}>")].replace("<wbr>", "").replace("&nbsp;", " "))


def words(element: ET.Element | None) -> str:
    assert element is not None
    return " ".join(" ".join(element.itertext()).split())


def lines(html: str, marked: str = 'id="leaderboard"') -> dict[str, ET.Element]:
    return {
        one.attrib["data-system"]: one
        for one in part(html, "section", marked).iter("tr")
        if "data-system" in one.attrib
    }


def cell(line: ET.Element, metric: str) -> str:
    return words(line.find(f".//*[@data-metric='{metric}']"))


@pytest.fixture(scope="module")
def html(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(
        make_run,
        tmp_path_factory.mktemp("first"),
        BOARD,
        ATTACKS,
        [
            compared("b2r", "b2", 0.012, baseline=True),
            compared(EVIL, "b2", 0.4, baseline=True),
            compared("b2r", EVIL, 0.9),
        ],
        doubts=5,
        limits=5,
        status={"state": "partial", "reasons": ["2 files"]},
    )


def test_what_stands_first_and_what_last(make_run: MakeRun, tmp_path: Path) -> None:
    html = page(
        make_run, tmp_path, BOARD, ATTACKS, [compared("b2r", "b2", 0.012)], doubts=1, limits=1, tables=None,
        status={"state": "partial", "reasons": ["2 files"]},
    )  # fmt: skip
    ids = ["answer", "leaderboard", "doubt", "limits", "boards", "differences", "metrics", "summary", "attack", "glossary", "comparing", "facts", "signatures"]  # fmt: skip
    places = [html.index(f' id="{name}"') for name in ids]
    assert places == sorted(places)
    assert html.index('role="alert"') < places[0] and places[3] < html.index("<nav") < places[4]
    assert set(ids) <= set(ANCHORS)


def test_pictures_stand_between_speakers_and_numbers(make_run: MakeRun, tmp_path: Path) -> None:
    from tests.report.conftest import figure_tables

    figures = figure_tables()
    ranks = figures["ranks"]
    few = {"speakers": figures["speakers"], "ranks": ranks[(ranks["system"] == "b2") & (ranks["extractor"] == "f0")]}
    html = page(make_run, tmp_path, BOARD, ATTACKS, tables=few)
    places = [html.index(f' id="{name}"') for name in ("leaderboard", "speakers", "ranks", "metrics")]
    assert places == sorted(places)


def test_the_sentence_is_that_of_the_terminal(html: str) -> None:
    board = answers.frame("leaderboard", BOARD)
    differences = answers.frame("differences", [compared("b2r", "b2", 0.012), compared("b2r", EVIL, 0.9)])
    said = verdict.write_sentence(board, differences, F, pd.DataFrame([check("Doubt 0.", True)]).iloc[:0])
    assert said.startswith(f"On {F}, no system is shown to protect. b2r: EER 22.0 %") and f"{EVIL}: EER" in said
    assert said in words(part(html, "div", 'id="answer"'))


def test_rows_have_ranks_values_and_what_belongs_to_them(html: str) -> None:
    found = lines(html)
    assert list(found) == ["b2r", EVIL, "b2", "original"]
    assert [cell(line, "rank") for line in found.values()] == ["1=", "1=", "3", "–"]
    assert cell(found["b2"], "d_ece") == "0.300 [0.250, 0.350]" and cell(found["b2"], "eer") == "22.0 [18.0, 27.0]"
    assert cell(found["b2"], "tag") == "C"
    assert {one.attrib["data-metric"] for one in found["b2"].iter() if "data-metric" in one.attrib} == {
        "rank",
        "eer",
        "d_ece",
        "tag",
    }
    text = words(found["b2r"])
    assert (
        "highest of 2 attacks 0.120 bit: semi_informed: ecapa, plda, adapted; lowest EER: lazy_informed: ecapa, cosine"
        in text
    )
    (folded,) = part(html, "section", 'id="leaderboard"').iter("details")
    table = [[words(one) for one in line] for line in folded.iter("tr")]
    assert table[0] == [
        "system",
        "D ECE as measured (bit)",
        "EER of that attack (%)",
        "l w ↓ (at most)",
        "DeID OP ↑",
    ], "no column without a value"
    assert (
        table[3] == ["b2", "0.320 [0.250, 0.350]", "25.0 [20.0, 30.0]", "2.3 (4.0)", "91.0 [85.0, 97.0]"]
        and table[4][-1] == "–"
    )
    assert "29 speakers, 1449 target trials, 14080 non-target trials" in words(
        part(html, "section", 'id="leaderboard"')
    )


def test_dots_and_lines_stand_where_their_values_are(html: str) -> None:
    """Places are taken from the ticks of the axis, not from the code that sets them."""
    board = part(html, "section", 'id="leaderboard"')
    ticks = {float(words(one)): float(one.attrib["style"].split(":")[1].rstrip("%")) for one in board.iter("span") if "style" in one.attrib}  # fmt: skip
    unit = ticks[0.2] / 0.2
    assert ticks[0.0] == 0 and len(ticks) >= 3
    assert all(math.isclose(place, value * unit, abs_tol=0.02) for value, place in ticks.items())

    def at(element: ET.Element | None, name: str) -> float:
        assert element is not None
        return float(element.attrib[name].rstrip("%")) / unit

    values = {"b2r": (0.1, [0.05]), EVIL: (0.12, []), "b2": (0.3, [0.2]), "original": (0.6, [])}
    for system, line in lines(html).items():
        strip = line.find(".//svg")
        assert strip is not None
        strongest, others = values[system]
        dots = [(one.attrib["class"], at(one, "cx")) for one in strip.iter("circle")]
        assert [kind for kind, _ in dots] == ["dot"] * len(others) + ["dot strongest"]
        assert [value for _, value in dots] == pytest.approx([*others, strongest], abs=0.001)
        interval = strip.find("line[@class='interval']")
        assert (at(interval, "x1"), at(interval, "x2")) == pytest.approx(
            (strongest - 0.05, strongest + 0.05), abs=0.001
        )
        assert at(strip.find("line[@class='chance']"), "x1") == pytest.approx(0.03, abs=0.001)
        assert at(strip.find("line[@class='unprotected']"), "x1") == pytest.approx(0.6, abs=0.001)
        assert strip.attrib["role"] == "img" and strip.attrib["aria-label"].startswith(f"{system}: strongest attack ")


def test_each_dot_names_its_attack(html: str) -> None:
    titles = [words(one) for one in lines(html)["b2r"].iter("title")]
    assert titles == [
        "lazy_informed: ecapa, cosine: 0.050 bit",
        "semi_informed: ecapa, plda, adapted: 0.120 bit, corrected 0.100, 95 % interval 0.050 to 0.150",
    ]


def test_few_notices_are_open_and_none_is_lost(html: str) -> None:
    for marked, kind in (('aria-labelledby="doubt"', "Doubt"), ('aria-labelledby="limits"', "Limit")):
        box = part(html, "div", marked)
        assert words(box).count(f"{kind} ") == 5
        folded = box.find("details")
        assert words(folded).count(f"{kind} ") == 5 - MOST_SHOWN and f"{5 - MOST_SHOWN} more" in words(folded)


def test_above_the_leaderboard_stands_how_much_is_to_be_known_first(html: str) -> None:
    (link,) = [one for one in part(html, "section", 'id="leaderboard"').iter("a") if one.get("href") == "#limits"]
    assert words(link) == "5 things to know first"


def test_differences_begin_with_the_baseline(html: str) -> None:
    section = part(html, "section", 'aria-labelledby="differences"')
    said = [words(one) for one in section.iter("li")]
    assert said[0].startswith(f"On {F}, each under its")
    assert len(said) == 2 and said[0].endswith("they are different.") and said[1].endswith("not shown to be different.")
    table = [[words(one) for one in line] for line in section.iter("tr")]
    assert table[0] == ["system", "compared with", "D ECE (bit)", "95 % interval", "p", "p (Holm)", "different"]
    assert table[1] == ["b2r", "b2", "−0.100", "[−0.120, −0.080]", "0.004", "0.012", "yes"]
    assert table[3][:2] == ["b2r", EVIL] and table[3][-1] == "not shown"
    assert "overlap does not say it" in words(section)


def test_one_attack_on_both_is_folded(make_run: MakeRun, tmp_path: Path) -> None:
    rows = [
        compared("b2r", "b2", 0.012),
        compared("b2r", "b2", 0.3, "same"),
        compared("b2r", "b2", 0.2, "same", metric="eer"),
    ]
    html = page(make_run, tmp_path, BOARD, ATTACKS, rows)
    section = part(html, "section", 'aria-labelledby="differences"')
    folded = section.find("details")
    assert "Under the same attack on both: 1 comparison" in words(folded)
    assert "lazy_informed: ecapa, cosine b2r b2" in words(folded) and "−10.0" in words(folded)


def test_what_a_row_says_without_a_number(make_run: MakeRun, tmp_path: Path) -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            "d_ece",
            "d_ece_low",
            "d_ece_high",
            "d_ece_corrected",
            "null_high",
            "eer",
            "eer_low",
            "eer_high",
            "lowest_eer",
        ),
        NAN,
    )
    board = [
        row("b2r", 0.02, chance="within", status="partial", untried="semi_informed with f0", contenders=2),
        row("b2", 0.1, None, anonymised=True, **nothing, status="incomplete", reason="3 < 4 speakers"),
    ]
    html = page(make_run, tmp_path, board, [attack("b2r", 0.02, ADAPTED)])
    found = lines(html)
    assert cell(found["b2"], "d_ece") == "–" and found["b2"].find(".//svg") is None
    assert "no number: 3 < 4 speakers" in words(found["b2"])
    assert found["b2r"].attrib["class"] == "marked" and cell(found["b2r"], "d_ece").startswith("0.020 ~ †")
    text = words(part(html, "section", 'id="leaderboard"'))
    assert f"~ {NOTHING}." in text and "† does not stand on everything" in text
    assert "1 other cannot be told from it; not tried: semi_informed with f0" in text
    assert found["b2r"].find(".//line[@class='unprotected']") is None


def test_no_number_at_all_is_said(make_run: MakeRun, tmp_path: Path) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("d_ece", "d_ece_low", "d_ece_high", "null_high"), NAN)
    html = page(make_run, tmp_path / "a", [row("b2", 0.1, None, anonymised=True, **nothing, reason="too few speakers")])
    assert words(part(html, "div", 'id="answer"')) == "There is no number for b2: too few speakers."
    html = page(make_run, tmp_path / "b", [row("original", 0.6, None)])
    assert "No protected speech was attacked" in words(part(html, "div", 'id="answer"'))


@pytest.mark.parametrize("subsets", [1, 2, 3])
def test_means_come_first_and_many_subsets_are_folded(make_run: MakeRun, tmp_path: Path, subsets: int) -> None:
    names = [F, M, "f and m"][:subsets]
    board = [row("b2", 0.1, 1, name, n_sets=2 if name == "f and m" else 1) for name in names]
    html = page(make_run, tmp_path, board)
    first = words(part(html, "section", 'id="leaderboard"'))
    assert first.startswith("f and m : mean of 2 sets" if subsets == 3 else F)
    others = part(html, "section", 'aria-labelledby="boards"')
    assert len([one for one in others.iter("tr") if "data-system" in one.attrib]) == subsets - 1
    folded = [one for one in others.iter("details") if one.find(".//tr[@data-system]") is not None]
    assert len(folded) == (2 if subsets == 3 else 0)


def test_several_runs_have_no_ranks_and_their_labels(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [
        run_of(make_run, tmp_path / name, [row("b2", value), row("b2r", value + 0.1, 2)], run_id=f"run-{name}")
        for name, value in (("one", 0.3), ("two", 0.1))
    ]
    html = render(runs, tmp_path / "out").read_text()
    section = part(html, "section", 'id="leaderboard"')
    rows = [one for one in section.iter("tr") if "data-system" in one.attrib]
    assert [cell(one, "d_ece")[:5] for one in rows] == ["0.100", "0.200", "0.300", "0.400"]
    labels = [words(one.find("th")) for one in rows]
    assert len(set(labels)) == 4 and [label.split(" · ")[0] for label in labels] == ["b2", "b2r", "b2", "b2r"]
    assert section.find(".//*[@data-metric='rank']") is None and "No rank: systems of different runs" in words(section)
    assert words(part(html, "div", 'id="answer"')).count("Run ") == 2


def test_without_attacks_the_numbers_come_first(make_run: MakeRun, tmp_path: Path) -> None:
    html = page(make_run, tmp_path, [])
    assert 'id="answer"' not in html and 'id="leaderboard"' not in html and "there is no leaderboard" in html
    header = ET.fromstring(html[html.index("<header>") : html.index("</header>") + len("</header>")])
    summary = header.find(".//*[@id='summary']")
    assert summary is not None and header.find(".//details[@class='part']") is None


def test_the_command_writes_it(make_run: MakeRun, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    run = run_of(make_run, tmp_path / "run", BOARD, ATTACKS)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["report", str(run)]) == 0
    written = Path(capfd.readouterr().out.splitlines()[-1])
    assert written == run / "report.html"
    shown = parse(written)
    assert EVIL in shown.text and not shown.all("script")
    assert [one["data-system"] for one in shown.all("tr") if "data-system" in one] == ["b2r", EVIL, "b2", "original"]


@pytest.mark.parametrize(
    "values", [[0.0], [1e-5], [0.004, NAN], [0.03, 0.021], [0.11], [0.35], [0.6], [FULL], [9.0], [NAN], []]
)
def test_an_axis_holds_its_values_and_few_ticks(values: list[float]) -> None:
    found = make_axis(values)
    known = [min(value, FULL) for value in values if not math.isnan(value)]
    assert 0 < found.top <= FULL + 1e-9 and all(value <= found.top + 1e-9 for value in known)
    places = [place for place, _ in found.ticks]
    assert places[0] == 0 and places == sorted(set(places)) and places[-1] <= 100 and 2 <= len(places) <= 7
    assert len({text for _, text in found.ticks}) == len(places)
    assert all(float(text) * 100 / found.top == pytest.approx(place, abs=0.01) for place, text in found.ticks)


def test_a_number_that_promises_more_than_there_is_stands_on_the_first_screen(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run = run_of(make_run, tmp_path / "run", BOARD, ATTACKS)
    name = sorted(sentences.OF_NUMBERS)[0]
    pd.DataFrame([check("DeID looks < good.", True, name), check("Another.", True, name)]).to_parquet(
        run / "diagnostics.parquet"
    )
    html = render([run], tmp_path / "out").read_text()
    box = words(part(html, "div", 'aria-labelledby="doubt"'))
    assert box == "Numbers that promise more than there is DeID looks < good. And 1 more: which results ."


def test_what_was_found_wrong_comes_before_advice(make_run: MakeRun, tmp_path: Path) -> None:
    run = run_of(make_run, tmp_path / "run", BOARD, ATTACKS)
    rows = [
        check("Add an attacker.", True, verdict.ADVICE[0]),
        check("It has learned nothing.", True, "on_original"),
    ]
    pd.DataFrame(rows).to_parquet(run / "diagnostics.parquet")
    box = words(part(render([run], tmp_path / "out").read_text(), "div", 'aria-labelledby="doubt"'))
    assert box.index("It has learned nothing.") < box.index("Add an attacker.")
