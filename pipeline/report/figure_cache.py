"""Figures are kept when they have been drawn: the report of a finished run is written again without drawing anything.

A figure is kept in the store, under a key of all that it is drawn from: the table, the names of the series, the libraries, and the source
files of the drawing and of what it imports of the project, of which any change draws anew.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence
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
    """Draws figures, each once a store (None keeps none); ``used`` are (stage, key) of the kept figures that were asked for."""

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self.used: set[tuple[str, str]] = set()

    def plots(self, drawing: str, table: pd.DataFrame, series: Sequence[str]) -> list[Plot]:
        """The plots of a table by a drawing (``module:function``), for series in their order.

        In place of ids of runs a drawing is given numbers in their order, because a run that only repeats another has an id of its
        own and the same figures.
        """
        runs: dict[str, str] = {}
        if "run_id" in table.columns:
            runs = {f"{place:06d}": str(run) for place, run in enumerate(sorted(set(table["run_id"])))}
            numbers = {run: number for number, run in runs.items()}
            table = table.assign(run_id=table["run_id"].map(numbers).astype(table["run_id"].dtype))
        return [_name_runs(plot, runs) for plot in self._draw(drawing, table, list(series))]

    def _draw(self, drawing: str, table: pd.DataFrame, series: list[str]) -> list[Plot]:
        draw = functools.partial(glossary.drawing, drawing)
        store, parts = self.store, None if self.store is None else _parts(drawing, table, series)
        if store is None or parts is None:
            return draw()(table, series)
        key = digest(parts)
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
