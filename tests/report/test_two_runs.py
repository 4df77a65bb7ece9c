"""Figures and tables of two runs of a random system, from what the measures give."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipeline.contracts import TrialRuns
from pipeline.families import cece, p0p1
from pipeline.families.cece import profile
from pipeline.figures import write_heading
from pipeline.report import summaries
from pipeline.report.formats import format_number
from pipeline.report.render import render
from pipeline.report.table import escape_latex
from pipeline.tables import results
from tests import browser
from tests.families.runs import pair_runs, trial_runs

MakeRun = Callable[..., Path]
SVG = "{http://www.w3.org/2000/svg}"
RUN = {"run_id": "20270101T000000Z-x-abcdef", "status": "ok", "signature": "s", "dataset": "kaldi", "subset": "test_f"}
SYSTEMS = {"b2r": 0.9, "t25": 0.2}
ATTACKERS = {"ignorant": "OP", "lazy_informed": "PP"}
CURVES = ("f0", "f1", "linear", "isotonic")


def content(separated: bool = False) -> tuple[list[dict], dict[str, pd.DataFrame]]:
    """Result rows and figure data; ``separated``: the linear map of b2r's first run does not exist."""
    rows: list[dict] = []
    figures: dict[str, list[pd.DataFrame]] = {"cece_profile": [], "similarity_runs": []}

    def add(module, data, **identity) -> None:
        family = module.MetricFamily
        made = family.measure(family.Settings(), data)
        for one in made.rows:
            found = family.record(one)
            rows.append({**RUN, **identity, **found, "condition": found["condition"] or identity["condition"]})
        for name, table in made.tables.items():
            figures[name].append(table.assign(subset=RUN["subset"], **identity))

    for number, (system, leak) in enumerate(SYSTEMS.items()):
        shared = {"system": system, "extractor": "ge2e", "backend": "cosine"}
        for attacker, condition in ATTACKERS.items():
            data = trial_runs(number, leak=leak)
            if separated and system == "b2r":
                first = replace(data.first, scores=np.where(data.first.target, 1.0, 0.0))
                data = TrialRuns(first, data.second)
            add(cece, data, **shared, attacker=attacker, condition=condition)
        add(p0p1, pair_runs(number, leak=leak), **shared, attacker="", condition="PP")
    return rows, {name: pd.concat(parts, ignore_index=True) for name, parts in figures.items()}


FIGURES = ("Empirical cross-entropy", "Voice similarity matrices")
"""How the description of each figure begins."""


def made(make_run: MakeRun, folder: Path, separated: bool = False) -> tuple[Path, str, list[dict]]:
    rows, figures = content(separated)
    run = make_run(folder / "run", change=lambda old: old.__setitem__(slice(None), rows), tables=figures)
    page = render([run], folder / "out")
    return page, page.read_text(encoding="utf-8"), rows


@pytest.fixture(scope="module")
def built(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[dict]]:
    return made(make_run, tmp_path_factory.mktemp("two_runs"))


def picture(html: str, start: str) -> tuple[str, ET.Element]:
    found = [p for p in browser.pictures(html) if p["alt"].startswith(start)]
    assert len(found) == 1
    return found[0]["alt"], ET.fromstring(base64.b64decode(found[0]["src"].partition(",")[2]))


def test_legends_hold_c_ece_and_cllr_of_the_rows(built: tuple[Path, str, list[dict]]) -> None:
    alt, _ = picture(built[1], "Empirical cross-entropy")
    value = {(r["metric"], r["variant"], r["system"], r["attacker"]): r["value"] for r in built[2]}
    for system in SYSTEMS:
        for attacker in ATTACKERS:
            panel = next(part for part in re.split("; (?=ge2e)|: (?=ge2e)", alt) if f"{attacker} · {system}:" in part)
            for method in ("linear", "isotonic"):
                pair = (value[metric, method, system, attacker] for metric in ("c_ece", "cllr_l_phi"))
                shown = "; ".join(f"{number:.3f}".replace("-", "−") for number in pair)
                assert f"f1, {method} from f0 [{shown}]" in panel
            assert f"f1, oracle [{value['d_ece_f1', '', system, attacker]:.3f};" in panel


def test_every_curve_is_drawn_where_its_numbers_say(built: tuple[Path, str, list[dict]]) -> None:
    _, svg = picture(built[1], "Empirical cross-entropy")
    table = content()[1]["cece_profile"]
    for name in (*CURVES, "prior"):
        groups = [element for element in svg.iter() if element.get("id", "") == f"cece-{name}"]
        assert len(groups) == 4
    # By height: in each panel, curves at even odds are ordered on the page as their Cllr.
    drawn = {}
    for name in CURVES:
        for panel, group in enumerate(element for element in svg.iter() if element.get("id", "") == f"cece-{name}"):
            path = group.find(f"{SVG}path")
            assert path is not None
            heights = [float(y) for _, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path.get("d", ""))]
            drawn[panel, name] = min(heights)
    places = [("ignorant", "b2r"), ("ignorant", "t25"), ("lazy_informed", "b2r"), ("lazy_informed", "t25")]
    for panel, (attacker, system) in enumerate(places):
        part = table[(table["attacker"] == attacker) & (table["system"] == system)]
        highest = part.groupby("profile")["ece"].max()
        pairs = [(drawn[panel, name], -highest[name]) for name in CURVES]
        assert [p[0] for p in sorted(pairs)] == [p[0] for p in sorted(pairs, key=lambda p: p[1])]


def test_a_map_without_a_value_is_named_and_not_drawn(make_run: MakeRun, tmp_path: Path) -> None:
    _, html, _ = made(make_run, tmp_path, separated=True)
    alt, svg = picture(html, "Empirical cross-entropy")
    paths = [element.findall(f"{SVG}path") for element in svg.iter() if element.get("id", "") == "cece-linear"]
    assert sorted(len([p for p in found if p.get("d")]) for found in paths) == [0, 0, 1, 1]
    assert alt.count("f1, linear from f0 [") == 2 and alt.count("f1, isotonic from f0 [") == 4
    text = re.sub(r"<[^>]+>", "", html)
    assert "– no value: the training scores of the two classes do not overlap" in text


def test_matrix_of_two_runs_is_placed_as_promised(built: tuple[Path, str, list[dict]]) -> None:
    """PP on the left and P0P1 on the right, rows the first run, in one order of speakers."""
    alt, svg = picture(built[1], "Voice similarity matrices of 8 speakers within and between two runs")
    source = content()[1]["similarity_runs"]
    source = source[source["system"] == "b2r"]
    speakers = sorted(set(source["row_speaker"]))
    blocks = {
        block: part.set_index(["row_speaker", "column_speaker"])["similarity"].unstack().loc[speakers, speakers]
        for block, part in source.groupby("block")
    }
    expected = np.hstack([blocks["PP"].to_numpy(), blocks["P0P1"].to_numpy()])
    raster = next(svg.iter(f"{SVG}image"))
    href = next(value for name, value in raster.attrib.items() if name.endswith("href"))
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.split(",")[1]))).convert("RGB"), dtype=float)
    if "scale(1 -1)" in raster.get("transform", ""):
        pixels = pixels[::-1]
    brightness = pixels @ [0.2126, 0.7152, 0.0722]
    assert brightness.shape == (8, 16)
    assert np.corrcoef(brightness.ravel(), expected.ravel())[0, 1] > 0.99
    diagonal, off = np.diagonal(blocks["P0P1"]).mean(), ~np.eye(8, dtype=bool)
    assert f"P0P1 {diagonal:.2f} / {blocks['P0P1'].to_numpy()[off].mean():.2f}" in alt


def test_figures_have_their_data_beside_them(built: tuple[Path, str, list[dict]]) -> None:
    beside = {path.name: pd.read_csv(path) for path in (built[0].parent / "figures").glob("*.csv")}
    assert set(beside) == {"cece-test-f.csv", "similarity-test-f-ge2e.csv"}
    curves = beside["cece-test-f.csv"]
    assert len(curves) == len(content()[1]["cece_profile"]) and set(curves["profile"]) == set(CURVES)
    matrices = beside["similarity-test-f-ge2e.csv"]
    assert set(matrices["block"]) == {"PP", "P0P1"} and len(matrices) == 2 * 2 * 64


def test_compact_tables_of_two_runs(built: tuple[Path, str, list[dict]]) -> None:
    text = summaries.to_text(results.frame(built[2]), list(SYSTEMS))
    head = next(line for line in text.splitlines() if "C_ECE isotonic (bit) ↓" in line)
    assert "C_ECE linear (bit) ↓" in head and "variant" not in head
    value = {(r["metric"], r["variant"], r["system"], r["attacker"]): r["value"] for r in built[2]}
    line = next(one for one in text.splitlines() if "b2r" in one and "lazy_informed" in one)
    assert line.split()[-2:] == [
        format_number(value["c_ece", method, "b2r", "lazy_informed"], "bit") for method in ("isotonic", "linear")
    ]
    assert any("D_diag P0P1 (%) ↓" in one and "P0P1/PP (%) ↓" in one for one in text.splitlines())
    ratio = format_number(value["p0p1_ratio", "", "t25", ""], "fraction")
    assert any("t25" in one and one.endswith(f" {ratio}") for one in text.splitlines())
    assert "$\\rightarrow$" in escape_latex("f0→f1")


def test_minus_infinity_is_shown_as_such() -> None:
    row = {**RUN, "metric": "c_ece", "variant": "linear", "value": -np.inf, "unit": "bit", "system": "x"}
    assert "−∞" in summaries.to_text(results.frame([row]))
    curve = content()[1]["cece_profile"]
    curve = curve[(curve["system"] == "b2r") & (curve["attacker"] == "ignorant")].assign(series="b2r")
    broken = curve["profile"] == "linear"
    curve.loc[broken, ["ece", "d_ece", "cllr"]] = [np.inf, -np.inf, np.inf]
    (plot,) = profile.plots(curve, ["b2r"])
    assert "f1, linear from f0 [−∞; ∞]" in plot.alt


@pytest.mark.parametrize(
    "parts, want",
    [
        (["ge2e", "", "ignorant"], "ge2e · ignorant"),
        (["ecapa, trained on anonymised (speaker)", "cosine", "semi_informed"],
         "ecapa, trained on anonymised (speaker)\ncosine · semi_informed"),
        (["x" * 60, "ignorant"], "x" * 22 + "…" + "x" * 21 + "\nignorant"),
    ],
)  # fmt: skip
def test_long_titles_of_panels_take_two_lines(parts: list[str], want: str) -> None:
    assert write_heading(parts) == want


def test_two_runs_in_a_browser(built: tuple[Path, str, list[dict]], tmp_path: Path) -> None:
    """Each set of data has its figure, and each figure shows it."""
    pictures = browser.pictures(built[1])
    kinds = [next(one for one in FIGURES if picture["alt"].startswith(one)) for picture in pictures]
    assert sorted(kinds) == sorted(FIGURES)
    browser.figures_show_data(pictures, tmp_path)
