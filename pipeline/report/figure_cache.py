"""Figures are kept when they have been drawn: the report of a finished run is written again without drawing anything.

A figure is kept in the store, under a key of all that it is drawn from: the table, the names of the series, the source files of the
drawing and of all of the project that it imports, and the libraries. A figure is no number, so its code has no versions to raise; any
change of a source file draws anew.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Plot
from pipeline.engine import code
from pipeline.engine.store import Damaged, Store
from pipeline.engine.task import Artefact
from pipeline.files import file_digest
from pipeline.report import glossary
from pipeline.seeds import digest
from pipeline.tables import run_files

LAYOUT = 1
STAGE, RECORD = "draw", "plots.json"
LIBRARIES = ("matplotlib", "numpy", "pandas")

log = logging.getLogger(__name__)


class FigureCache:
    """Draws figures, each once a store.

    Args:
        store: where figures are kept; None keeps none.

    Attributes:
        used: (stage, key) of the kept figures that were asked for.
    """

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self.used: set[tuple[str, str]] = set()

    def plots(self, drawing: str, table: pd.DataFrame, series: Sequence[str]) -> list[Plot]:
        """The plots of a table.

        A drawing tells runs apart by ``series``: in place of ids of runs it is given numbers in their order, because a run that
        only repeats another has an id of its own and the same figures.

        Args:
            drawing: ``module:function``.
            table: what it shows.
            series: names of the series, in order.
        """
        table, runs = _numbered(table)
        draw = functools.partial(glossary.drawing, drawing)
        drawn_plots = (
            self._kept(drawing, table, list(series), draw) if self.store is not None else draw()(table, list(series))
        )
        return [_name_runs(plot, runs) for plot in drawn_plots]

    def _kept(
        self, drawing: str, table: pd.DataFrame, series: list[str], draw: Callable[[], Callable[..., list[Plot]]]
    ) -> list[Plot]:
        parts = _parts(drawing, table, series)
        if parts is None:
            return draw()(table, series)
        store, key = self.store, digest(parts)
        assert store is not None
        self.used.add((STAGE, key))
        artefact = store.find(STAGE, key)
        if artefact is not None:
            try:
                return _read(artefact)
            except Damaged:
                log.debug("the figures of %s are drawn again", drawing)
        plots = draw()(table, series)
        try:
            folder = store.begin(STAGE, key)
            try:
                _write(plots, folder)
                store.commit(STAGE, key, folder, parts, {"label": f"draw {drawing}"})
            finally:
                store.discard(folder)
        except OSError as error:
            log.warning("figures cannot be kept in %s (%s): they are drawn again", store.root, error.strerror or error)
            self.store = None
            self.used.discard((STAGE, key))
        return plots


NOT_KEPT = FigureCache(None)
"""Draws every figure."""


def open_cache_beside(folder: Path) -> FigureCache:
    """Keeps figures in the store of this run folder alone: what is written nowhere else is up to whoever made the run."""
    kept = run_files.locate_store_beside(folder)
    return FigureCache(Store(kept)) if kept.is_dir() else NOT_KEPT


def _numbered(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table with runs numbered in the order of their ids, and their ids by number."""
    if "run_id" not in table.columns:
        return table, {}
    numbers = {str(run): f"{place:06d}" for place, run in enumerate(sorted(set(table["run_id"])))}
    ids = table["run_id"]
    return table.assign(run_id=ids.map(numbers).astype(ids.dtype)), {number: run for run, number in numbers.items()}


def _name_runs(plot: Plot, runs: dict[str, str]) -> Plot:
    if "run_id" not in plot.data.columns or not runs:
        return plot
    ids = plot.data["run_id"]
    return Plot(**{**_fields(plot), "data": plot.data.assign(run_id=ids.map(runs).astype(ids.dtype))})


def _fields(plot: Plot) -> dict[str, Any]:
    return {"kind": plot.kind, "title": plot.title, "caption": plot.caption, "alt": plot.alt, "svg": plot.svg}


def _parts(drawing: str, table: pd.DataFrame, series: list[str]) -> dict[str, Any] | None:
    """What enters the key; None where that cannot be told: a drawing without source files, or a table of strange values."""
    sources = _sources(drawing.partition(":")[0])
    try:
        hashes = pd.util.hash_pandas_object(table, index=False).to_numpy(np.uint64)
    except TypeError:
        return None
    if not sources:
        return None
    return {
        "layout": LAYOUT,
        "drawing": drawing,
        "code": sources,
        "libraries": {name: version(name) for name in LIBRARIES},
        "columns": [[str(name), str(kind)] for name, kind in table.dtypes.items()],
        "table": digest(hashes.tobytes().hex()),
        "series": series,
    }


@functools.cache
def _sources(module: str) -> dict[str, str]:
    """Digests of the source files of a module and of all of the project that it imports; empty where it has none."""
    paths = {name: code.find_source(name) for name in sorted(code.follow_imports(module))}
    if paths[module] is None:
        return {}
    return {name: file_digest(path) for name, path in paths.items() if path is not None}


def _write(plots: Sequence[Plot], folder: Path) -> None:
    for number, plot in enumerate(plots):
        plot.data.to_parquet(folder / f"{number}.parquet", index=False)
    text = json.dumps([_fields(plot) for plot in plots], ensure_ascii=False)
    (folder / RECORD).write_text(text, encoding="utf-8")


def _read(artefact: Artefact) -> list[Plot]:
    records = json.loads(artefact.path(RECORD).read_text(encoding="utf-8"))
    return [
        Plot(**record, data=pd.read_parquet(artefact.path(f"{number}.parquet")))
        for number, record in enumerate(records)
    ]
