"""The page's section of speakers, from tables that were made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.report import runs
from pipeline.report.page import speakers as section
from pipeline.report.render import render
from pipeline.tables import answers
from tests.report.test_report import parse

MakeRun = Callable[..., Path]
ATTACKS = {"lazy_informed": "PP", "ignorant": "OP"}
NAMES = ["<b>ann</b>", "=bob", "cid", "dan", "eve", "fay"]


def spoken(system: str, attacker: str, place: int, **more: Any) -> dict[str, Any]:
    """The row of the speaker at a place."""
    d_ece = 0.5 - 0.05 * place
    return {
        "dataset": "kaldi", "subset": "t", "system": system, "condition": ATTACKS.get(attacker, "OO"), "attacker": attacker,
        "extractor": "ge2e", "trained_on": "original", "backend": "cosine", "strongest": attacker != "ignorant",
        "speaker": NAMES[place], "rank": place + 1, "worst": place < 3, "d_ece": d_ece, "d_ece_low": d_ece - 0.1,
        "d_ece_high": d_ece + 0.1, "median": 0.375, "p_median": 0.01 if place == 0 else 1.0,
        "against_median": "above" if place == 0 else "alike", "eer": 0.1234, "original_d_ece": 0.6, "original_eer": 0.02,
        "before": "not shown" if place == 1 else "recognised", "sex": "f", "mean_f0": 199.6, "mean_f0_protected": 240.2,
        "trial_seconds": 61.2, "enrolment_seconds": 30.0, "nearest": NAMES[place - 1], "nearest_score": 0.25, "own_score": 0.5,
        "utterance_1": "u-1", "llr_1": 2.345, "n_speakers": 6, "status": "ok", **more,
    }  # fmt: skip


def overlap(system: str, shared: int, **more: Any) -> dict[str, Any]:
    other = {f"other_{name}": value for name, value in spoken(system, "ignorant", 0).items() if name in answers.ATTACK}
    own = {name: value for name, value in spoken(system, "lazy_informed", 0).items() if name in answers.ATTACK}
    return {"dataset": "kaldi", "subset": "t", "system": system, **own, **other, "strongest": True, "n_speakers": 6, "listed": 3,
            "shared": shared, "shared_chance": 1.5, "jaccard": shared / (6 - shared), "jaccard_chance": 0.39, "p_value": 0.5,
            "rank_correlation": -0.25, "names": "cid", "status": "ok", **more}  # fmt: skip


@pytest.fixture
def made(make_run: MakeRun, tmp_path: Path) -> Callable[..., Path]:
    def write(rows: list[dict[str, Any]], overlaps: list[dict[str, Any]], name: str = "run", **more: Any) -> Path:
        folder = make_run(tmp_path / name, tables={}, **more)
        found = {
            "speakers": answers.frame("speakers", rows),
            "worst_overlap": answers.frame("worst_overlap", overlaps),
        }
        answers.write(found, folder)
        return folder

    return write


ROWS = [spoken(system, attacker, place) for system in ("b2", "b2r") for attacker in ATTACKS for place in range(6)]
ROWS += [spoken("original", "unprotected", place, before="", original_d_ece=float("nan")) for place in range(6)]


def told(folders: list[Path]) -> section.Speakers:
    found = section.describe_speakers(runs.read(folders))
    assert found is not None
    return found


def test_the_worst_are_shown_with_their_values_and_the_rest_is_folded(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    folder = made(ROWS, [overlap("b2", 1), overlap("b2r", 2)])
    found = told([folder])
    assert found.worst is not None and found.every is not None and found.overlap is not None
    heads = [column.head for column in found.worst.columns]
    assert heads[:2] == ["speaker", "D_ECE of the speaker (bit) ↓"] and "ALID of the speaker (bit) ↓" not in heads, (
        "nobody has one"
    )
    assert [line[0] for line in found.worst.body] == NAMES[:3] * 2 and found.worst.marked == {0, 3}
    first = dict(zip(heads, found.worst.body[0]))
    assert first["system"] == "b2" and first["95 % interval"] == "[0.400, 0.600]" and first["own EER (%) ↑"] == "12.34"
    assert first["than the median speaker"] == "told more of (p = 0.01)"
    assert first["in original speech"] == "recognised (0.600 bit, EER 2.00 %)"
    assert first["who"] == "f, F0 200 Hz, 240 Hz protected, 61 s tried, 30 s enrolled"
    assert first["most evidence (LLR, nat)"] == "u-1 2.35" and first["taken for"].startswith("fay (mean score 0.25")
    second = dict(zip(heads, found.worst.body[1]))
    assert second["than the median speaker"] == "cannot be told apart (p = 1)"
    assert second["in original speech"].startswith("not shown to be recognised")
    assert len(found.every.body) == 18, "original speech too, each under its strongest attack"
    assert [other.title for other in found.others] == ["OP, ignorant: ge2e, cosine"]
    assert [line[0] for line in found.others[0].table.body] == NAMES[:3] * 2
    assert [line[:3] for line in found.overlap.body] == [["b2", "1 of 3", "1.50"], ["b2r", "2 of 3", "1.50"]]
    assert "another attack on the same system lists 1.5 as well, on average over 2 comparisons" in found.agreement
    page = parse(render([folder], tmp_path / "out.html"))
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    part = html[html.index('<section aria-labelledby="speakers">') :].partition("</section>")[0]
    from tests.report.test_glossary import names_of_data, said, unknown  # which reads a page with these speakers

    assert unknown(said(f"<body>{part}"), names_of_data()) == set(), "each word has an entry in the glossary"
    assert "Worst-protected speakers" in page.text and "<b>ann</b>" in page.text and found.agreement in page.text


def test_that_nobody_can_be_told_apart_is_said_first(made: Callable[..., Path]) -> None:
    alike = [spoken("b2", "lazy_informed", place, against_median="alike", p_median=1.0) for place in range(6)]
    found = told([made(alike, [])])
    assert found.sentences == [
        "No speaker is shown to be worse protected than the median speaker, so that who comes first may be chance: b2 on t (6 speakers, median "
        "0.375 bit)."
    ]
    assert found.worst is not None and not found.worst.marked and found.overlap is None and found.agreement == ""
    told_apart = told([made(ROWS, [], "other")])
    assert told_apart.sentences == [
        f"{system} on t under lazy_informed: ge2e, cosine: <b>ann</b> (0.500 bit) is told more of than the median speaker (0.375 bit), "
        "out of 6."
        for system in ("b2", "b2r")
    ]


def test_without_intervals_that_is_said(made: Callable[..., Path]) -> None:
    nothing = {"against_median": "", "p_median": float("nan"), "d_ece_low": float("nan"),
               "reason": "interval: no speaker has two trial utterances; deid: none"}  # fmt: skip
    found = told([made([spoken("b2", "lazy_informed", place, **nothing) for place in range(6)], [])])
    assert found.sentences == [
        "There are no intervals, so who comes first may be chance: b2 on t (interval: no speaker has two trial utterances)."
    ]


def test_of_many_systems_one_speaker_each_is_unfolded(made: Callable[..., Path]) -> None:
    many = [spoken(f"s{k}", "lazy_informed", place) for k in range(13) for place in range(6)]
    found = told([made(many, [])])
    assert found.worst is not None and [line[0] for line in found.worst.body] == NAMES[:1] * 13
    assert found.every is not None and len(found.every.body) == 13 * 6


def test_what_does_not_stand_on_everything_is_not_shown(made: Callable[..., Path]) -> None:
    short = {"status": "incomplete", "d_ece": float("nan"), "reason": "stands on 3 of 4"}
    folder = made([spoken("b2", "lazy_informed", place, **short) for place in range(6)], [])
    assert section.describe_speakers(runs.read([folder])) is None


def test_speakers_of_two_runs_stand_side_by_side(made: Callable[..., Path]) -> None:
    folders = [made(ROWS, [overlap("b2", 1)], name, run_id=name) for name in ("one", "two")]
    found = told(folders)
    assert found.worst is not None
    systems = [line[[column.head for column in found.worst.columns].index("system")] for line in found.worst.body]
    assert len(set(systems)) == 4 and len(found.worst.body) == 12
    assert all("run_id" in download.text.splitlines()[0] for download in found.downloads)


def test_a_csv_has_the_rows_of_the_strongest_attacks(made: Callable[..., Path]) -> None:
    found = told([made(ROWS, [overlap("b2", 1), overlap("b2", 2, strongest=False)])])
    lines = {download.name: download.text.splitlines() for download in found.downloads}
    assert len(lines["speakers.csv"]) == 1 + 18 and len(lines["worst_overlap.csv"]) == 2
    assert lines["speakers.csv"][0].startswith("dataset,subset,system,") and ",'=bob," in lines["speakers.csv"][2]
    assert pd.Series(lines["speakers.csv"]).str.contains("lazy_informed").sum() == 12
