"""A metric family of another distribution brings words, units and figures in its own file, and the report shows them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest

from pipeline import registry
from pipeline.report import glossary, summaries
from pipeline.report.render import render
from pipeline.tables import results
from tests.report.conftest import row

MakeRun = Callable[..., Path]

SOURCE = """
import pandas as pd
from pipeline import contracts, figures
from pipeline.contracts import FigureTable, Metric, RowFigure


class Furlongs(contracts.MetricFamily):
    reads = "trials"
    title = "Distances of voices"
    metrics = {
        "novelty_index": Metric(
            "N_furlong", "novelty", "How far a voice is from any other.", "furlong", "higher", (0.0, 8.0), "Chain et al. 1620"
        ),
        "novelty_spread": Metric("S", "spread of novelty", "How much novelty differs.", "furlong", summary=False),
    }
    figures = (FigureTable("furlongs", ("speaker", "distance"), "Furlongs: how far", "furlongs:table"),)
    row_figures = (RowFigure("Furlongs: how far", "furlongs:rows"), RowFigure("Glossary", "furlongs:nothing"))
    references = ("G. Chain, “A Voice a Furlong Away”, 1620.",)

    @classmethod
    def measure(cls, settings, data):
        raise NotImplementedError


def _plot(title, data):
    svg = figures.draw_svg(3, 2, lambda figure: figure.subplots().plot(range(len(data))))
    return [figures.Plot("metrics", title, "What it shows.", f"A line of {len(data)} points.", svg, data)]


def table(data, series):
    return _plot("Furlongs: of speakers", data)


def rows(data, series):
    found = data[data["metric"] == "novelty_index"]
    return _plot("Furlongs: of systems", found[["system", "value"]]) if len(found) else []


def nothing(data, series):
    return []
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install a distribution's family: the attribute of the module ``furlongs`` that its entry point names."""
    (tmp_path / "furlongs.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)

    def install(attribute: str) -> None:
        group = registry.entry_point_group("families")
        points = (EntryPoint("furlongs", f"furlongs:{attribute}", group),)
        monkeypatch.setattr(registry, "_find_entry_points", lambda kind: points if kind == "families" else ())
        _forget()

    yield install
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (registry.component, glossary.families, glossary.metrics):
        cached.cache_clear()


def only_novelty(rows: list[dict]) -> None:
    rows[:] = [
        row("novelty_index", 1.0 + index, subset="test_f", system=system, extractor="ge2e", condition="PP")
        for index, system in enumerate(("b2", "b2r"))
    ]


def furlongs() -> dict[str, pd.DataFrame]:
    identity = {"subset": "test_f", "condition": "PP", "attacker": "", "extractor": "ge2e", "backend": ""}
    return {
        "furlongs": pd.DataFrame(
            {"system": ["b2", "b2r"], "speaker": ["84", "174"], "distance": [1.0, 2.0], **identity}
        )
    }


def test_its_words_and_figures_are_in_the_report(
    plugin: Callable[[str], None], make_run: MakeRun, tmp_path: Path
) -> None:
    plugin("Furlongs")
    run = make_run(tmp_path / "run", change=only_novelty, tables=furlongs())
    html = render([run], tmp_path / "out").read_text(encoding="utf-8")
    assert "<strong>Distances of voices</strong>: 1 metric, 2 rows" in html and "Other metrics" not in html
    assert "How far a voice is from any other." in html and "(Chain et al. 1620)" in html
    assert "How much novelty differs." not in html
    assert "<li>G. Chain, “A Voice a Furlong Away”, 1620.</li>" in html
    # Two figures in one section, whose place in the page is no other's; one that gives nothing has no section.
    assert '<h2 id="metrics-2">Furlongs: how far</h2>' in html and '<a href="#metrics-2">Furlongs</a>' in html
    assert html.count("<figure ") == 2 and html.count(">Glossary</h2>") == 1
    assert (tmp_path / "out" / "figures" / "metrics-of-speakers.csv").read_text().startswith("subset,system,")
    text = summaries.to_text(results.read(run))
    assert text.startswith("Distances of voices\n") and "N_furlong (furlong)" in text


def test_without_it_the_rows_have_a_table_under_their_own_name(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", change=only_novelty, tables=furlongs())
    html = render([run], tmp_path / "out").read_text(encoding="utf-8")
    assert "<strong>Other metrics</strong>: 1 metric, 2 rows" in html and "novelty index" in html and "furlong" in html
    assert "No description came with this metric." in html and "<figure " not in html


@pytest.mark.parametrize("attribute", ["Absent", "_plot"])
def test_one_that_cannot_be_loaded_costs_its_words_alone(
    attribute: str, plugin: Callable[[str], None], make_run: MakeRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin(attribute)
    run = make_run(tmp_path / "run", change=only_novelty, tables={})
    with caplog.at_level(logging.WARNING):
        html = render([run], tmp_path / "out").read_text(encoding="utf-8")
    assert "<strong>Other metrics</strong>: 1 metric, 2 rows" in html
    assert [record.message for record in caplog.records if "furlongs" in record.message]
