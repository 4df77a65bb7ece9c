"""What the metric families say of their metrics, put together: the order of tables, words, figures, sources.

All of it comes from the families, ours and those of other distributions. The report is driven by the rows: a metric that no
family declares still gets its tables, under its own name.

The glossary of a page has its metrics, and all words of the report that are none; these stand in ``terms.yaml``, by heading.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

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


@functools.cache
def rank(name: str) -> tuple[int, str]:
    """Sort key: metrics in the order of tables, those that no family declares after them by name."""
    names = list(metrics())
    return (names.index(name) if name in names else len(names), name)


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


def ways(name: str) -> tuple[str, ...]:
    """The ways in which a metric's family computes it, the one to be read first at the front."""
    return next((tuple(family.readings) for family in families() if name in family.metrics), ())


LEAKS = FigureTable(
    "leak_curves", ("unit", "share", "d_ece", "power", "threshold"), "Limit of detection", "pipeline.report.leaks:plots",
    ("subset", "system"),
)  # fmt: skip


def figure_tables() -> list[FigureTable]:
    """The tables for figures: that of limits of detection, then those of all families, in the order of figures."""
    return [LEAKS, *(table for family in _by_figures() for table in family.figures)]


def row_figures() -> list[RowFigure]:
    """The figures of all families that are drawn from rows, in the order of figures."""
    return [figure for family in _by_figures() for figure in family.row_figures]


def references(names: Iterable[str]) -> list[str]:
    """The papers that the families of some metrics name, once each."""
    wanted = set(names)
    told = [family for family in families() if wanted & set(family.metrics)]
    return list(dict.fromkeys(paper for family in told for paper in family.references))


def drawing(name: str) -> Callable[[pd.DataFrame, list[str]], list[Plot]]:
    """The function that draws a figure, of its name ``module:function``."""
    module, _, function = name.partition(":")
    draw: Callable[[pd.DataFrame, list[str]], list[Plot]] = getattr(importlib.import_module(module), function)
    return draw


def _by_figures() -> list[type[MetricFamily]]:
    return sorted(families(), key=lambda family: FIGURES.index(family.reads))


METRICS = "Metrics"


@dataclass(frozen=True)
class Term:
    """A word of the report: as the glossary shows it, what it means, how else the page writes it, and where it is defined; ``long`` is
    the long name of a metric."""

    name: str
    sentence: str
    forms: tuple[str, ...] = ()
    source: str = ""
    long: str = ""


@functools.cache
def read_terms() -> tuple[tuple[str, tuple[Term, ...]], ...]:
    """All words by heading."""
    words = yaml.safe_load(Path(__file__).with_name("terms.yaml").read_text(encoding="utf-8"))
    return tuple(
        (heading, tuple(Term(**{**term, "forms": tuple(term.get("forms", ()))}) for term in terms))
        for heading, terms in words.items()
    )


def list_terms(directions: Mapping[str, str]) -> list[tuple[str, tuple[Term, ...]]]:
    """The words of a page by heading: its metrics, of which it is said which direction is more private, then those of all pages."""
    of_metrics = []
    for name in sorted(directions, key=rank):
        described, direction = metric(name), directions[name]
        sentence = described.sentence + (f" {direction[0].upper()}{direction[1:]}." if direction else "")
        long = described.title if described.title != described.symbol else ""
        of_metrics.append(Term(described.symbol, sentence, (), described.source, long))
    return [*([(METRICS, tuple(of_metrics))] if of_metrics else []), *read_terms()]
