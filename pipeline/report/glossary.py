"""What the metric families say of their metrics, put together: the order of tables, words, figures, sources.

All of it comes from the families, ours and those of other distributions. The report is driven by the rows: a metric that no
family declares still gets its tables, under its own name.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pipeline import registry
from pipeline.contracts import FigureTable, Metric, MetricFamily, Reads, RowFigure

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.figures import Plot

log = logging.getLogger(__name__)

TABLES: tuple[Reads, ...] = ("trials", "pairs", "trial_runs", "pair_runs", "ranks")
"""The order of tables: by what a family reads, then ours before others, then by name."""

FIGURES: tuple[Reads, ...] = ("pairs", "pair_runs", "trials", "trial_runs", "ranks")
"""The order of figures; those that are drawn from rows come last."""

OTHERS = "Other metrics"


@functools.cache
def families() -> tuple[type[MetricFamily], ...]:
    """All metric families, in the order of tables. One of another distribution that cannot be loaded is left out."""
    own_names = registry.list_own_names("families")
    loaded: dict[tuple[int, bool, str], type[MetricFamily]] = {}
    for name in registry.list_names("families"):
        try:
            family = registry.component("families", name)
            loaded[TABLES.index(family.reads), name not in own_names, name] = family
        except Exception as problem:
            if name in own_names:
                raise
            log.warning("nothing is known of the metric family %s: it cannot be loaded (%s)", name, problem)
    return tuple(family for _, family in sorted(loaded.items(), key=lambda entry: entry[0]))


@functools.cache
def metrics() -> dict[str, Metric]:
    """All declared metrics by name, in the order of tables. Of two families that declare one name, the first has it."""
    declared_metrics: dict[str, Metric] = {}
    for family in families():
        for name, declared in family.metrics.items():
            declared_metrics.setdefault(name, declared)
    return declared_metrics


def metric(name: str) -> Metric:
    """What is said of a metric; of one that no family declares, its name."""
    shown = name.replace("_", " ")
    return metrics().get(name) or Metric(shown, shown, "No description came with this metric.")


def rank(name: str) -> tuple[int, str]:
    """Sort key: metrics in the order of tables, those that no family declares after them by name."""
    return (_places().get(name, len(_places())), name)


@functools.cache
def _places() -> dict[str, int]:
    return {name: place for place, name in enumerate(metrics())}


def compact() -> list[tuple[str, list[str]]]:
    """The compact tables: title, and names of the metrics. Families with equal titles share one."""
    by_title: dict[str, list[str]] = {}
    for family in families():
        by_title.setdefault(family.title, []).extend(name for name, metric in family.metrics.items() if metric.summary)
    return [(title, names) for title, names in by_title.items() if names]


def titled(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Some metrics by the title of their family, in the order of tables; at last those that no family declares."""
    left = set(names)
    by_title: dict[str, list[str]] = {}
    for family in families():
        own = [name for name in family.metrics if name in left]
        left -= {*own}
        if own:
            by_title.setdefault(family.title, []).extend(own)
    return [*by_title.items(), *([(OTHERS, sorted(left))] if left else [])]


@functools.cache
def _ways() -> dict[str, tuple[str, ...]]:
    by_metric: dict[str, tuple[str, ...]] = {}
    for family in families():
        for name in family.metrics:
            by_metric.setdefault(name, tuple(family.readings))
    return by_metric


def ways(name: str) -> tuple[str, ...]:
    """The ways in which a metric's family computes it, the one to be read first at the front."""
    return _ways().get(name, ())


def figure_tables() -> list[FigureTable]:
    """The tables of all families for figures, in the order of figures."""
    return [table for family in _by_figures() for table in family.figures]


def row_figures() -> list[RowFigure]:
    """The figures of all families that are drawn from rows, in the order of figures."""
    return [figure for family in _by_figures() for figure in family.row_figures]


def references(names: Iterable[str] = ()) -> list[str]:
    """The papers that the families of some metrics name, once each; without names those of all families."""
    wanted = set(names)
    told = [family for family in families() if not wanted or wanted & set(family.metrics)]
    return list(dict.fromkeys(paper for family in told for paper in family.references))


def drawing(name: str) -> Callable[[pd.DataFrame, list[str]], list[Plot]]:
    """The function that draws a figure, of its name ``module:function``."""
    module, _, function = name.partition(":")
    draw: Callable[[pd.DataFrame, list[str]], list[Plot]] = getattr(importlib.import_module(module), function)
    return draw


def _by_figures() -> list[type[MetricFamily]]:
    return sorted(families(), key=lambda family: FIGURES.index(family.reads))
