"""The page: self-contained, safe against hostile ids, complete, deterministic, and drawn."""

from __future__ import annotations

import base64
import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote_to_bytes

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipeline.errors import DataError
from pipeline.report import runs
from pipeline.report.render import render
from pipeline.tables import results
from tests import browser

MakeRun = Callable[..., Path]
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "img", "br", "wbr", "hr", "input"}


@dataclass
class Page(HTMLParser):
    """Every element with its attributes, and the text outside of style sheets."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> does not close the element that is open"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def parse(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def images(page: Page) -> list[ET.Element]:
    """The SVG documents of the page's figures, parsed."""
    found = []
    for image in page.all("img"):
        head, _, body = image["src"].partition(",")
        assert head == "data:image/svg+xml;base64"
        found.append(ET.fromstring(base64.b64decode(body, validate=True)))
    return found


def downloads(page: Page) -> dict[str, bytes]:
    found = {}
    for link in page.all("a"):
        if "download" in link:
            head, _, body = link["href"].partition(",")
            assert head == "data:text/csv;charset=utf-8"
            found[link["download"]] = unquote_to_bytes(body)
    return found


@pytest.fixture(scope="module")
def built(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(Run folder, report) of one full run."""
    folder = tmp_path_factory.mktemp("report")
    run = make_run(folder / "run")
    return run, render([run], folder / "out")


@pytest.fixture(scope="module")
def page(built: tuple[Path, Path]) -> Page:
    return parse(built[1])


def test_path_is_absolute_and_named(built: tuple[Path, Path]) -> None:
    assert built[1].is_absolute() and built[1].name == "report.html" and built[1].is_file()


def test_page_is_well_formed_and_ids_are_unique(page: Page) -> None:
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 10
    anchors = {link["href"][1:] for link in page.all("a") if link.get("href", "").startswith("#")}
    assert anchors and anchors <= set(ids)


def test_nothing_is_loaded(built: tuple[Path, Path], page: Page) -> None:
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            value = attributes.get(name, "")
            assert re.match(r"^(#|data:|$)", value), f"<{tag} {name}={value[:60]}>"
        assert not any(name.startswith("on") for name in attributes), f"<{tag}> holds a handler"
    assert not page.all("script") and not page.all("iframe") and not page.all("object")
    style = (built[1].read_text(encoding="utf-8").split("<style>")[1]).split("</style>")[0]
    assert "url(" not in style and "@import" not in style
    for svg in images(page):
        for element in svg.iter():
            assert element.tag not in {f"{SVG}script", f"{SVG}foreignObject"}
            for name, value in element.attrib.items():
                if name.endswith("href"):
                    assert value.startswith(("#", "data:image/png;base64,"))


def test_hostile_ids_are_text(page: Page) -> None:
    for hostile in (
        '<script>alert("s")</script>',
        '" onmouseover="x',
        "t8<script>alert('t8')</script>",
        "a--><b>",
        'set $x_2$ <i>&amp;</i> "m"',
        "<b>box</b>",
    ):
        assert hostile in page.text, hostile
    assert not page.all("b") and not page.all("i")


def test_every_figure_has_alt_text_with_numbers(page: Page) -> None:
    pictures = page.all("img")
    assert len(pictures) == 2 + 2 + 2 + 1 + 1
    for picture in pictures:
        assert len(picture["alt"]) > 80 and re.search(r"\d\.\d", picture["alt"])


def test_alt_text_tells_the_data(page: Page, built: tuple[Path, Path]) -> None:
    profile = pd.read_parquet(built[0] / "figures" / "ece_profile.parquet")
    middle = profile[
        (profile["log_odds"] == 0)
        & (profile["system"] == "b2")
        & (profile["attacker"] == "ignorant")
        & (profile["subset"] == "libri_dev_trials_f")
    ]["ece"].item()
    alt = next(p["alt"] for p in page.all("img") if "cross-entropy" in p["alt"] and "libri_dev_trials_f" in p["alt"])
    assert f"b2 {middle:.2f} bit" in alt
    plane = next(p["alt"] for p in page.all("img") if p["alt"].startswith("De-identification"))
    assert "ge2e, b2: 58.3 %, −4.00 dB" in plane and "−∞ dB" in plane


def test_every_figure_has_its_csv_beside_and_inside(built: tuple[Path, Path], page: Page) -> None:
    embedded = downloads(page)
    beside = {path.name: path.read_bytes() for path in (built[1].parent / "figures").glob("*.csv")}
    assert len(beside) == len(page.all("img")) == 8
    assert {name: embedded[name] for name in beside} == beside
    assert set(embedded) - set(beside) == {"results.csv", "speakers-matrices.csv"}


@pytest.mark.parametrize(
    "name, prefix, values",
    [
        ("similarity", "similarity-", ["similarity"]),
        ("zoo", "zoo-", ["x", "y"]),
        ("ece_profile", "ece-", ["ece", "prior"]),
        ("ranks", "ranks-", ["share", "fit"]),
    ],
)
def test_csv_holds_the_data(built: tuple[Path, Path], page: Page, name: str, prefix: str, values: list[str]) -> None:
    source = pd.read_parquet(built[0] / "figures" / f"{name}.parquet")
    parts = [
        list(csv.DictReader(io.StringIO(body.decode("utf-8"), newline="")))
        for file, body in downloads(page).items()
        if file.startswith(prefix)
    ]
    lines = [line for part in parts for line in part]
    assert len(lines) == len(source)
    for column in values:
        np.testing.assert_allclose(sorted(float(line[column]) for line in lines), sorted(source[column]), rtol=1e-9)
    assert {line["system"] for line in lines} == set(source["system"])


def test_results_csv_holds_every_row(built: tuple[Path, Path], page: Page) -> None:
    lines = list(csv.DictReader(io.StringIO(downloads(page)["results.csv"].decode("utf-8"), newline="")))
    source = results.read(built[0])
    assert list(lines[0]) == results.COLUMNS and len(lines) == len(source)


def _marked(svg: ET.Element, prefix: str) -> list[ET.Element]:
    return [element for element in svg.iter() if element.get("id", "").startswith(prefix)]


def test_every_figure_draws_its_data(page: Page) -> None:
    drawn = {picture["alt"].split()[0]: svg for picture, svg in zip(page.all("img"), images(page))}
    # One curve for each of unprotected and three systems, in two panels; the prior in each.
    assert len(_marked(drawn["Empirical"], "ece-")) == 2 * (4 + 1)
    assert all(len(element.findall(f"{SVG}path")) == 1 for element in _marked(drawn["Empirical"], "ece-"))
    # 12 speakers, 4 blocks, 3 systems.
    assert len(_marked(drawn["Zoo"], "zoo-")) == 12 * 4 * 3
    assert len(_marked(drawn["Rank"], "ranks-")) == 4 * 2 and len(_marked(drawn["Rank"], "fit-")) == 4 * 2
    assert len(_marked(drawn["Rank"], "chance-")) == 4
    assert len(_marked(drawn["De-identification"], "plane-point")) == 2 * 3
    rasters = list(drawn["Voice"].iter(f"{SVG}image"))
    assert len(rasters) >= 3
    for raster in rasters[:3]:
        href = next(value for name, value in raster.attrib.items() if name.endswith("href"))
        picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.split(",")[1]))).convert("RGB"))
        assert picture.shape[:2] == (24, 24) and len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_similarity_block_is_placed_as_promised(page: Page, built: tuple[Path, Path]) -> None:
    """OO top left, OP top right, PO its transpose bottom left, PP bottom right, in one speaker order."""
    source = pd.read_parquet(built[0] / "figures" / "similarity.parquet")
    source = source[(source["subset"] == "libri_dev_trials_f") & (source["system"] == "b2")]
    speakers = sorted(set(source["row_speaker"]))
    blocks = {
        block: part.set_index(["row_speaker", "column_speaker"])["similarity"]
        .unstack()
        .loc[speakers, speakers]
        .to_numpy()
        for block, part in source.groupby("block")
    }
    expected = np.block([[blocks["OO"], blocks["OP"]], [blocks["OP"].T, blocks["PP"]]])
    svg = next(
        s for p, s in zip(page.all("img"), images(page)) if "similarity matrices" in p["alt"] and "libri" in p["alt"]
    )
    raster = next(svg.iter(f"{SVG}image"))
    href = next(value for name, value in raster.attrib.items() if name.endswith("href"))
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.split(",")[1]))).convert("RGB"), dtype=float)
    if "scale(1 -1)" in raster.get("transform", "") or "scale(1,-1)" in raster.get("transform", ""):
        picture = picture[::-1]
    # cividis grows brighter all the way, so that the order of brightness is the order of values.
    brightness = picture @ [0.2126, 0.7152, 0.0722]
    order = np.argsort(expected.ravel(), kind="stable")
    assert np.all(np.diff(brightness.ravel()[order]) >= -1.0)
    assert np.corrcoef(brightness.ravel(), expected.ravel())[0, 1] > 0.99


def test_tables_show_values_in_their_units(page: Page) -> None:
    text = re.sub(r"\s+", " ", page.text)
    for shown in (
        "21.73",
        "[17.38, 26.08]",
        "[44.00, 50.00]",
        "within chance",
        "−∞",
        "no input has rank 1",
        "3.980",
        "cost of the log-likelihood ratio: 16 rows: scores are not LLRs.",
        "higher is more private",
        "lower is more private",
        "1.235e+04",
        "furlong",
        "novelty index",
        "369",
        "3 095",
    ):
        assert shown in text, shown


def test_header_is_not_partial_when_all_is_well(page: Page) -> None:
    assert "PARTIAL" not in page.text
    assert "2026-11-27T10:15:00Z to 2026-11-27T10:21:09Z" in page.text and "c0ffeec0ffeec0ff" in page.text


def test_partial_banner_names_the_reasons(make_run: MakeRun, tmp_path: Path) -> None:
    def spoil(rows: list[dict]) -> None:
        rows[0].update(status="partial", reason="3 utterances of speaker 84 cannot be read", n_used=3461)

    run = make_run(
        tmp_path / "run", change=spoil, tables={}, status={"state": "partial", "reasons": ["2 files <missing>"]}
    )
    page = parse(render([run], tmp_path / "out.html"))
    assert "PARTIAL" in page.text and "3 utterances of speaker 84 cannot be read" in page.text
    assert "2 files <missing>" in page.text and "1 of them use less than was expected" in page.text
    assert "EER for libri_dev_trials_f / original" in re.sub(r"\s+", " ", page.text)
    assert any(attributes.get("class") == "marked" for attributes in page.all("tr"))


def test_missing_tables_leave_their_blocks_out(make_run: MakeRun, tmp_path: Path) -> None:
    def only_eer(rows: list[dict]) -> None:
        rows[:] = [row for row in rows if row["metric"] == "eer"]

    run = make_run(tmp_path / "run", change=only_eer, tables={})
    for record in ("status.json", "config.yaml", "environment.json"):
        (run / record).unlink()
    page = parse(render([run], tmp_path / "out"))
    assert not page.all("img") and "Zoo" not in page.text and "Worst-protected" not in page.text
    assert "21.73" in page.text


@pytest.mark.slow
def test_same_input_same_bytes(make_run: MakeRun, tmp_path: Path, built: tuple[Path, Path]) -> None:
    again = render([make_run(tmp_path / "elsewhere")], tmp_path / "other" / "report.html")
    assert again.read_bytes() == built[1].read_bytes()
    assert b"elsewhere" not in again.read_bytes()


def test_runs_are_merged(make_run: MakeRun, tmp_path: Path, built: tuple[Path, Path]) -> None:
    def better(rows: list[dict]) -> None:
        for row in rows:
            if row["metric"] == "eer" and row["system"] == "b2":
                row["value"] = 0.4321

    profiles = {"ece_profile": pd.read_parquet(built[0] / "figures" / "ece_profile.parquet")}
    runs = [
        make_run(tmp_path / "a", run_id="run-one", tables=profiles),
        make_run(tmp_path / "b", run_id="run-two", tables=profiles, change=better),
    ]
    page = parse(render([*runs, runs[0]], tmp_path / "out"))
    assert "run-one" in page.text and "run-two" in page.text and "43.21" in page.text and "21.73" in page.text
    lines = list(csv.DictReader(io.StringIO(downloads(page)["results.csv"].decode(), newline="")))
    assert {line["run_id"] for line in lines} == {"run-one", "run-two"}
    alt = next(p["alt"] for p in page.all("img") if "cross-entropy" in p["alt"])
    assert "b2 · A" in alt and "b2 · B" in alt


def ranks_of(speakers: pd.DataFrame, first: float) -> pd.DataFrame:
    """A median rank of each speaker of each system and extractor: ``first``, ``first`` + 1, …"""
    table = speakers[["system", "extractor", "speaker"]].drop_duplicates().sample(frac=1, random_state=0)
    return table.assign(srd_rank_median=first + np.arange(len(table)))


def test_ranks_join_the_speakers_of_their_run_system_and_extractor(make_run: MakeRun, tmp_path: Path, built: tuple[Path, Path]) -> None:  # fmt: skip
    """Of two runs the first has ranks."""
    speakers = pd.read_parquet(built[0] / "figures" / "speakers.parquet").drop(columns="srd_rank_median")
    medians = ranks_of(speakers, 1.5)
    folders = [
        make_run(tmp_path / "a", run_id="a", tables={"speakers": speakers, "speaker_ranks": medians}),
        make_run(tmp_path / "b", run_id="b", tables={"speakers": speakers}),
    ]
    known = {tuple(row[:3]): row[3] for row in medians.itertuples(index=False)}
    found = runs.read(folders)
    assert "speaker_ranks" not in found.figures and len(found.figures["speakers"]) == 2 * len(speakers)
    for row in found.figures["speakers"].itertuples():
        wanted = {"a": known[row.system, row.extractor, row.speaker], "b": np.nan}[row.run_id]
        assert np.array_equal(row.srd_rank_median, wanted, equal_nan=True)
    assert "srd_rank_median" not in runs.read(folders[1:2]).figures["speakers"]
    for names, there in ((folders[:1], True), (folders[1:], False)):
        page = parse(render(names, tmp_path / "out"))
        assert ("srd_rank_median" in downloads(page)["speakers-matrices.csv"].decode()) == there


def test_ranks_without_a_speaker_table_need_none(make_run: MakeRun, tmp_path: Path, built: tuple[Path, Path]) -> None:
    medians = ranks_of(pd.read_parquet(built[0] / "figures" / "speakers.parquet"), 1.0)
    page = parse(render([make_run(tmp_path / "run", tables={"speaker_ranks": medians})], tmp_path / "out"))
    assert "Worst-protected" not in page.text


def test_no_run_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not run folders.*results\.parquet"):
        render([tmp_path], tmp_path / "out")
    with pytest.raises(DataError, match="nothing to report"):
        render([], tmp_path / "out")


def test_figure_data_of_another_version_is_an_error(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    pd.DataFrame({"subset": ["a"]}).to_parquet(run / "figures" / "zoo.parquet")
    with pytest.raises(DataError, match=r"zoo\.parquet lacks columns: system, "):
        render([run], tmp_path / "out")


@pytest.mark.slow
def test_opens_in_a_browser_without_network(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Headless Chromium with every host unresolvable: each image is loaded at its size, and each shows colour."""
    html = browser.dom(built[1], tmp_path)
    assert html.count("<img ") == 8 and "Voice similarity matrices" in html
    assert not re.search(r"<script|<iframe", html)
    pixels = browser.screenshot(built[1], tmp_path, 14000)
    assert pixels.shape == (14000, 1200, 3)
    # Text is grey or blue-black; only figures hold strong colour, at least a few rows of pixels each.
    vivid = (pixels.max(2) - pixels.min(2) > 90).sum(1) > 3
    assert vivid.sum() > 8 * 40
    browser.figures_show_data(parse(built[1]).all("img"), tmp_path)


def test_unprotected_speech_alone_has_a_report(make_run: MakeRun, tmp_path: Path, built: tuple[Path, Path]) -> None:
    def only_original(rows: list[dict]) -> None:
        rows[:] = [row for row in rows if row["system"] == "original"]

    figures = {
        name: pd.read_parquet(built[0] / "figures" / f"{name}.parquet")
        for name in ("similarity", "zoo", "ece_profile", "ranks", "speakers")
    }
    figures = {
        name: table[(table["system"] == "original") & table["subset"].isin(["libri_dev_trials_f", "pooled"])]
        for name, table in figures.items()
    }
    run = make_run(tmp_path / "run", change=only_original, tables=figures)
    page = parse(render([run], tmp_path / "out"))
    assert len(page.all("img")) == 4 and "unprotected speech." in page.text
    matrix = next(svg for picture, svg in zip(page.all("img"), images(page)) if "similarity matrices" in picture["alt"])
    raster = next(matrix.iter(f"{SVG}image"))
    href = next(value for name, value in raster.attrib.items() if name.endswith("href"))
    assert Image.open(io.BytesIO(base64.b64decode(href.split(",")[1]))).size == (12, 12)
