"""Checks of the attack: equal sentences once, doubts first, and a page that stays readable."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import DataError
from pipeline.report import findings as diagnostics
from pipeline.report.render import MOST_SHOWN, render
from tests import browser

MakeRun = Callable[..., Path]


def check(sentence: str, flagged: bool = False, name: str = "held_out", **place: str) -> dict:
    base = {
        "dataset": "kaldi", "subset": "test_f", "condition": "PP", "system": "b2", "attacker": "semi_informed",
        "extractor": "ecapa", "trained_on": "anonymised (speaker)", "backend": "cosine",
    }  # fmt: skip
    return {**base, **place, "check": name, "value": 0.1, "unit": "fraction", "sentence": sentence, "flagged": flagged}


def frame(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def test_equal_sentences_are_said_once_with_all_that_they_apply_to() -> None:
    cells = itertools.product(("test_f", "test_m"), ("b2", "b2r"), ("cosine", "plda"))
    rows = [check("EER is 9 %.", subset=s, system=y, backend=b) for s, y, b in cells]
    rows.append(check("EER is 8 %.", subset="test_f", system="b2r"))
    found = diagnostics.findings(frame(*rows))
    assert found.places == ("subset", "system", "backend")
    first, second = found.each
    assert first.applies == "subsets test_f, test_m; systems b2, b2r; back ends cosine, plda"
    assert second.applies == "subset test_f; system b2r; back end cosine"


@pytest.mark.parametrize("seed", range(6))
def test_boxes_hold_exactly_the_cells(seed: int) -> None:
    everything = list(itertools.product(("f", "m", "x"), ("b2", "b2r"), ("cosine", "plda")))
    kept = [cell for number, cell in enumerate(everything) if (number * 7 + seed * 5) % 11 % 3]
    others = [check("Other.", subset=s, system=y, backend=b) for s, y, b in everything]
    rows = [check("Said.", subset=s, system=y, backend=b) for s, y, b in kept]
    found = diagnostics.findings(frame(*rows, *others))
    (finding,) = [one for one in found.each if one.sentence == "Said."]
    cells = [cell for box in finding.boxes for cell in itertools.product(*box)]
    assert sorted(cells) == sorted(kept) and len(set(cells)) == len(cells)
    assert len(finding.boxes) < len(kept)


def test_what_follows_from_the_attacker_is_not_repeated() -> None:
    rows = [
        check("A.", condition="OP", attacker="ignorant", trained_on="original"),
        check("B.", condition="PP", attacker="semi_informed"),
    ]
    assert diagnostics.findings(frame(*rows)).places == ("attacker",)
    rows.append(check("C.", trained_on="anonymised (utterance)"))
    assert diagnostics.findings(frame(*rows)).places == ("attacker", "trained_on")


def test_many_values_that_are_all_there_are_counted() -> None:
    subsets = [f"set_{number}" for number in range(5)]
    rows = [check("A.", subset=name) for name in subsets] + [check("B.", subset=name) for name in subsets[:4]]
    first, second = diagnostics.findings(frame(*rows)).each
    assert first.applies == "all 5 subsets" and second.applies == "subsets set_0, set_1, set_2, set_3"


def test_text_has_the_doubts_alone_one_a_line() -> None:
    rows = [check("Fine."), check("Bad\nnews 30 %.", True), check("Worse 40 %.", True, subset="test_m")]
    assert diagnostics.text(frame(*rows)) == "! Bad news 30 %. (subset test_f)\n! Worse 40 %. (subset test_m)\n"
    assert diagnostics.text(frame(check("Bad.", True))) == "! Bad.\n"
    assert diagnostics.text(frame(check("Fine."))) == ""
    assert diagnostics.text(pd.DataFrame(columns=list(check("")))) == ""


def few(rows: list[dict]) -> None:
    rows[:] = [row for row in rows if row["metric"] == "tag"]


def page(make_run: MakeRun, folder: Path, *rows: dict) -> str:
    run = make_run(folder / "run", tables={}, change=few)
    frame(*rows).to_parquet(run / "diagnostics.parquet")
    return render([run], folder / "out").read_text(encoding="utf-8")


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def test_200_sentences_stay_readable(make_run: MakeRun, tmp_path: Path) -> None:
    doubts = [check(f"Doubt number {n} of 30 %.", True, "on_original", subset=f"set_{n % 4}") for n in range(20)]
    others = [
        check(f"All is well in number {n}.", name=("held_out", "test_gap")[n % 2], subset=f"set_{n % 4}")
        for n in range(180)
    ]
    html = page(make_run, tmp_path, *others, *doubts)
    head, rest = html.split('<p class="lead">')
    assert all(f"Doubt number {n} of 30 %." in head for n in range(20))
    open_part = re.sub(r"<details>.*?</details>", "", head, flags=re.DOTALL)
    assert open_part.count("Doubt number") == MOST_SHOWN and f"{20 - MOST_SHOWN} more" in head
    section = rest.split('<h2 id="attack">')[1].split("</section>")[0]
    folded = "".join(re.findall(r"<details>.*?</details>", section, flags=re.DOTALL))
    assert folded.count("All is well in number") == section.count("All is well in number") == 180
    assert section.count('<tr class="marked">') == section.count("Doubt number") == 20
    assert section.index("Doubt number") < section.index("All is well")
    assert all(f"{diagnostics.title(check)}: 90 findings" in plain(folded) for check in ("held_out", "test_gap"))
    embedded = re.search(r'download="diagnostics.csv" href="([^"]*)"', html)
    assert embedded and embedded[1].count("%0A") == 201
    dom = browser.dom(tmp_path / "out" / "report.html", tmp_path)
    assert dom.count("Doubt number 19 of 30") == 2


def test_doubts_come_right_after_the_partial_banner(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", tables={}, change=few, status={"state": "partial", "reasons": ["a file is missing"]}
    )
    frame(check("<b>Weak</b> attack of 35 %.", True)).to_parquet(run / "diagnostics.parquet")
    html = render([run], tmp_path / "out").read_text(encoding="utf-8")
    places = [html.index(text) for text in ("a file is missing", "&lt;b&gt;Weak&lt;/b&gt; attack", '<p class="lead">')]
    assert places == sorted(places) and "<b>Weak" not in html
    assert "1 finding says that it may not have been" in plain(html)


def test_no_doubt_no_alarm(make_run: MakeRun, tmp_path: Path) -> None:
    html = page(make_run, tmp_path, check("EER on held-out speakers is 4.0 %."))
    assert "None of them casts doubt" in html and 'role="note"' not in html
    assert "1 finding<" in html


def test_runs_are_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, run_id=name, tables={}, change=few) for name in ("one", "two")]
    frame(check("Only in A, 31 %.", True), check("In both.")).to_parquet(runs[0] / "diagnostics.parquet")
    frame(check("In both.")).to_parquet(runs[1] / "diagnostics.parquet")
    text = plain(render(runs, tmp_path / "out").read_text(encoding="utf-8"))
    assert "Only in A, 31 %. (run A)" in text and "A, B In both." in text


def test_a_run_without_checks_has_no_section(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", tables={}, change=few)
    assert '<h2 id="attack">' not in render([run], tmp_path / "out").read_text(encoding="utf-8")
    pd.DataFrame({"sentence": ["x"]}).to_parquet(run / "diagnostics.parquet")
    with pytest.raises(DataError, match="lacks columns: dataset"):
        render([run], tmp_path / "out")
