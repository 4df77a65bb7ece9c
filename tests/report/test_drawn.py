"""Figures that are kept: the same page as when all are drawn, drawn anew exactly where something changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline import cli
from pipeline.contracts import Plot
from pipeline.engine.store import Store
from pipeline.report import figure_cache, glossary
from pipeline.report.figure_cache import FigureCache
from pipeline.report.render import render

from .conftest import figure_tables

MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """The table of one small figure, because drawing takes time."""
    zoo = figure_tables()["zoo"]
    return {"zoo": zoo[(zoo["subset"] == zoo["subset"].iloc[0]) & (zoo["system"] == zoo["system"].iloc[0])]}


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The drawings that were carried out."""
    found: list[str] = []
    plain = glossary.drawing

    def drawing(name: str) -> Callable[..., list[Plot]]:
        found.append(name)
        return plain(name)

    monkeypatch.setattr(glossary, "drawing", drawing)
    yield found


def page(run: Path, *more: Path, store: Store | None = None) -> str:
    return render([run, *more], run.parent / "out", FigureCache(store)).read_text(encoding="utf-8")


def test_the_page_is_the_same_and_nothing_is_drawn_twice(
    make_run: MakeRun, tmp_path: Path, tables: dict[str, pd.DataFrame], painted: list[str]
) -> None:
    run, store = make_run(tmp_path / "run", tables=tables), Store(tmp_path / "store")
    fresh = page(run)
    count = len(painted)
    assert count >= 2 and page(run, store=store) == fresh and len(painted) == 2 * count
    assert page(run, store=store) == fresh and len(painted) == 2 * count


@pytest.mark.slow
def test_a_run_that_repeats_another_has_its_figures(
    make_run: MakeRun, tmp_path: Path, tables: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[str] = []
    monkeypatch.setattr(glossary, "drawing", lambda name: painted.append(name) or _one_plot)
    store = Store(tmp_path / "store")
    first, second = (make_run(tmp_path / name, run_id=name, tables=tables) for name in ("a-run", "b-run"))
    page(first, store=store)
    painted.clear()
    kept = page(second, store=store)
    assert not painted
    assert kept == page(second)
    # Both together are other figures, with the ids of both in what is handed out.
    both = page(first, second, store=store)
    assert painted and both == page(first, second) == page(first, second, store=store)


def test_the_command_draws_what_the_store_does_not_have(
    make_run: MakeRun,
    tmp_path: Path,
    tables: dict[str, pd.DataFrame],
    painted: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "exp" / "runs" / "a", tables=tables)
    (tmp_path / "exp" / "store").mkdir()
    assert cli.run(["report", str(run)]) == 0 and len(painted) >= 2
    first = (run / "report.html").read_bytes()
    painted.clear()
    assert cli.run(["report", str(run)]) == 0 and not painted
    assert (run / "report.html").read_bytes() == first


def plots(store: Store, table: pd.DataFrame, series: list[str]) -> list[Plot]:
    (zoo,) = (one.draw for one in glossary.figure_tables() if one.name == "zoo")
    return FigureCache(store).plots(zoo, table, series)


def moved(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(x=[table["x"].iloc[0] + 1e-9, *table["x"].iloc[1:]])


CHANGES: dict[str, Callable[[pd.DataFrame, list[str]], tuple[pd.DataFrame, list[str]]]] = {
    "a value": lambda table, series: (moved(table), series),
    "the order of rows": lambda table, series: (table.iloc[::-1].reset_index(drop=True), series),
    "a row": lambda table, series: (table.iloc[1:], series),
    "the name of a column": lambda table, series: (table.assign(more=1), series),
    "the kind of a column": lambda table, series: (table.assign(speaker=table["speaker"].astype("category")), series),
    "the order of series": lambda table, series: (table, series[::-1]),
}


@pytest.mark.parametrize("what", [*CHANGES, "the source", "a library", "the layout", "nothing"])
def test_what_changed_is_drawn_anew(
    tmp_path: Path,
    tables: dict[str, pd.DataFrame],
    painted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    store, table = Store(tmp_path), tables["zoo"].assign(run_id="a", series=tables["zoo"]["system"])
    series = [*sorted(set(table["series"])), "another"]
    monkeypatch.setattr(glossary, "drawing", lambda name: painted.append(name) or _one_plot)
    first = plots(store, table, series)
    if what == "the source":
        sources = figure_cache._sources
        monkeypatch.setattr(figure_cache, "_sources", lambda module: sources(module) | {"pipeline.figures": "0" * 64})
    elif what == "a library":
        monkeypatch.setattr(figure_cache, "version", lambda name: f"9 {name}")
    elif what == "the layout":
        monkeypatch.setattr(figure_cache, "LAYOUT", 10_000)
    elif what in CHANGES:
        table, series = CHANGES[what](table, series)
    again = plots(store, table, series)
    assert len(painted) == (1 if what == "nothing" else 2)
    if what == "nothing":
        pd.testing.assert_frame_equal(again[0].data, first[0].data)


def _one_plot(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    return [Plot("zoo", "title", "caption", "alt", f"<svg>{series}</svg>", table.reset_index(drop=True))]


def test_runs_are_numbers_to_a_drawing_and_ids_to_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def draw(table: pd.DataFrame, series: list[str]) -> list[Plot]:
        seen.append(table["run_id"].tolist())
        return _one_plot(table, series)

    monkeypatch.setattr(glossary, "drawing", lambda name: draw)
    table = pd.DataFrame({"run_id": ["run-b", "run-a", "run-b"], "x": [1.0, 2.0, float("nan")]})
    for store in (None, Store(tmp_path), Store(tmp_path)):
        (plot,) = FigureCache(store).plots("pipeline.figures:draw", table, ["s"])
        pd.testing.assert_frame_equal(plot.data, table)
    assert seen == [["000001", "000000", "000001"]] * 2


def test_a_drawing_without_source_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossary, "drawing", lambda name: _one_plot)
    FigureCache(Store(tmp_path)).plots("a_module_that_is_nowhere:draw", pd.DataFrame({"x": [1]}), ["s"])
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_kept_it_draws_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(glossary, "drawing", lambda name: _one_plot)
    (tmp_path / "store").write_text("")
    several = FigureCache(Store(tmp_path / "store"))
    with caplog.at_level(logging.WARNING, "pipeline"):
        for value in (1, 2):
            assert several.plots("pipeline.figures:draw", pd.DataFrame({"x": [value]}), ["s"])
    (said,) = caplog.messages
    assert "drawn again" in said
