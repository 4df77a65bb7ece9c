"""The glossary has every word that the report uses in headings, column heads and names, or is plain English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pipeline.products.checks import collect as judge
from pipeline.registry import list_own_names
from pipeline.report import findings as grouping
from pipeline.report import glossary, leaderboard
from pipeline.report.page.numbers import METRIC_COLUMNS
from pipeline.report.render import render
from pipeline.report.summaries import LABELS
from pipeline.tables import answers
from pipeline.tables import checks as sentences
from tests.report.conftest import NASTY_SYSTEM, SPEAKERS, SUBSETS, figure_tables
from tests.report.test_first_screen import ATTACKS, BOARD, EVIL, F, compared, row
from tests.report.test_speakers import ROWS, overlap

MakeRun = Callable[..., Path]

_PLAIN = """
    a about above after against alike all also an and another are as asked at attacked attacking before below beside
    between both but by can cannot cast checks cited citing code come comparing comparison comparisons configuration
    contents conversations could counts csv data different digital doubt each easy enough environment every everybody
    everything evidence expected figure figures files finding findings for found from full gain generated give
    glossary had hard harder has have heard hears higher hold how if in input into is it its itself key kind larger
    largest last least less like list lists long longer look lower lowest made main many marks median meets metric
    metrics more most name named names no none not note null number numbers of off on one ones only or other others
    over own page part per person pictures plane platform private promise python question random ranked read recognise
    recordings report reports results row rows said second seconds see settings shown signed silence single small so
    sources speaker speakers speech stand standing state status still strength strong stronger summary take taken
    telling test than that the their them there they this those to told two two's under up us used vectors
    verification version voice voices was well were what when where whether which who whom whose why will with without
    words would wrong year
"""
PLAIN = frozenset(_PLAIN.split())
"""Words of plain English, which need no entry."""


def cells(html: str, *heads: str) -> Iterator[str]:
    """The cells of the page's tables below some column heads."""
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        titles = [plain(one) for one in re.findall(r"<th[^>]*>(.*?)</th>", table.partition("<tbody>")[0], re.DOTALL)]
        for line in re.findall(r"<tr[^>]*>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL):
            for title, cell in zip(titles, re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.DOTALL)):
                if title in heads:
                    yield plain(cell)


def plain(html: str) -> str:
    joined = re.sub(r"</?(?:sub|wbr)>", "", html)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", joined))).strip()


def said(html: str) -> Iterator[str]:
    """Headings, what folded parts are called, column heads, and the names in columns that say what a row is."""
    body = html.partition("<body>")[2]
    for tag in ("h2", "h3", "h4", "th", "summary", "dt"):
        yield from map(plain, re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", body, re.DOTALL))
    yield from cells(
        body, "condition", "attacker", "level", "variant", "back end", "calibration", "trained on", "against chance"
    )


def unknown(texts: Iterator[str], known: frozenset[str]) -> set[str]:
    """Words that are neither plain English, nor known, nor in the glossary."""
    forms = [form for _, several in glossary.read_terms() for term in several for form in (term.name, *term.forms)]
    for name in glossary.metrics():
        one = glossary.metric(name)
        forms += [one.symbol.replace("_", "", 1), one.symbol, one.title]
    heard = {word for form in forms for word in spelled(form)}
    return {word for text in texts for word in spelled(text)} - heard - PLAIN - known


def spelled(text: str) -> list[str]:
    """Words in small letters; numbers and marks are none."""
    return [word.strip("'") for word in re.findall(r"[a-zé0-9_']*[a-zé_][a-zé0-9_']*", text.lower().replace("’", "'"))]


@pytest.fixture(scope="module")
def page(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("glossary")
    zoo = figure_tables()["zoo"]
    few = {"zoo": zoo[(zoo["subset"] == SUBSETS[0]) & zoo["system"].isin(["original", "b2"])]}
    run = make_run(folder / "run", tables=few)
    given: dict[str, list[dict[str, Any]]] = {
        "leaderboard": [
            *BOARD,
            row("c", 0.01, 1, chance="within", status="partial", alid=0.2, alid_chance=0.1, untried="too few"),
        ],
        "attacks": ATTACKS,
        "differences": [compared("b2r", "b2", 0.01), compared("b2r", "b2", 0.2, under="same")],
    }
    spoken = {
        "speakers": answers.frame("speakers", ROWS),
        "worst_overlap": answers.frame("worst_overlap", [overlap("b2", 1)]),
    }
    answers.write({name: answers.frame(name, rows) for name, rows in given.items()} | spoken, run)
    flagged = sentences.frame(
        [
            ({"subset": "t", "system": "b2"}, sentences.Finding(name, 0.5, "", "It is said.", place % 2 > 0))
            for place, name in enumerate(grouping.TITLES)
        ]
    )
    flagged.to_parquet(run / judge.TABLE, index=False)
    return render([run], folder / "out").read_text(encoding="utf-8")


def names_of_data() -> frozenset[str]:
    """Names that the data and the configuration give: they are no words of the report."""
    given = [NASTY_SYSTEM, EVIL, F, *SPEAKERS, *SUBSETS, "b2 b2r c kaldi ge2e f0 novelty index furlong cpu pooled"]
    given += [*list_own_names("extractors"), *list_own_names("backends"), *list_own_names("anonymisers")]
    return frozenset(word for text in given for word in spelled(text))


def test_every_word_of_headings_and_heads_has_an_entry(page: str) -> None:
    assert sorted(unknown(said(page), names_of_data())) == []


def test_a_new_word_is_found() -> None:
    """The test above can fail: a heading, a column head and a variant that nobody explains."""
    html = "<body><h2>Quux of speakers</h2><table><thead><tr><th>variant</th><th>frobs</th></tr></thead><tbody><tr><td>wibbly</td><td>1</td></tr></tbody></table>"
    assert unknown(said(html), frozenset()) == {"quux", "frobs", "wibbly"}


def test_every_column_head_of_tables_of_numbers_has_an_entry() -> None:
    heads = [
        *LABELS.values(),
        *(column.head for column in METRIC_COLUMNS),
        *(column.head for column in (*leaderboard.FIRST, *leaderboard.FURTHER)),
    ]
    assert unknown(iter(heads), frozenset()) == set()


def test_every_attacker_and_way_to_compute_a_number_has_an_entry() -> None:
    attackers = [path.stem for path in (Path(__file__).parents[2] / "conf" / "attacker").glob("*.yaml")]
    ways = [way for name in glossary.metrics() for way in glossary.ways(name)]
    assert len(attackers) >= 3 and {"rocch", "kaldi", "speechbrain", "empirical", "beta_binomial", "exact"} <= {*ways}
    forms = {form for _, several in glossary.read_terms() for term in several for form in (term.name, *term.forms)}
    # ``vpc`` is explained where D_sys is.
    assert {*attackers, *ways, "unprotected"} - forms <= {"vpc"} and "vpc:" in glossary.metric("d_sys").sentence


def entries(html: str) -> set[str]:
    part = html.split('<h2 id="glossary">')[1].split("</section>")[0]
    names = {re.sub(r"<span>.*?</span>", "", one) for one in re.findall(r"<dt>(.*?)</dt>", part)}
    return {unescape(re.sub(r"<sub>(.*?)</sub>", r"_\1", name)).strip() for name in names}


def test_the_words_that_every_reader_needs_are_there(page: str) -> None:
    found = entries(page)
    assert {
        "OO", "OP", "PP", "ignorant", "lazy-informed", "level", "calibration", "null band", "rocch", "goat", "sheep", "dove", "worm",
        "phantom", "chameleon", "lamb", "~", "–", "↑", "↓", "∞", "beta-binomial", "within chance", "interval", "ceiling", "tag", "EER", "D_ECE",
        "DeID_OP", "G_VD", "novelty index", "signature", "subset", "extractor", "back end", "cosine",
    } <= found  # fmt: skip
    part = page.split('<h2 id="glossary">')[1].split("</section>")[0]
    assert part.count("<dt>") == len(found), "each once"
    assert "No description came with this metric." in part


def test_terms_are_whole_sentences_and_named_once() -> None:
    every = [term for _, several in glossary.read_terms() for term in several]
    assert len({term.name for term in every}) == len(every)
    for term in every:
        assert term.sentence[0].isupper() or term.sentence[0] in "19“", term
        assert term.sentence.endswith(".") and len(term.sentence) < 400, term.name
