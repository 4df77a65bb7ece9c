"""What the metric families say of their metrics, put together: the order of tables, words, figures, sources.

All of it comes from the families, ours and those of other distributions. The report is driven by the rows: a metric that no
family declares still gets its tables, under its own name.

The glossary of a page has every word that it uses, and no other. Words that are no metrics stand in ``terms.yaml``, by heading.
"""

from __future__ import annotations

import functools
import html
import importlib
import logging
import re
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


PLACE = "<!-- the words of this page -->"
"""Stands in the page where its glossary goes; no text of data can, for it is escaped."""
METRICS = "Metrics"
_HIDDEN = re.compile(r"<style>.*?</style>|<pre>.*?</pre>|<code>.*?</code>", re.DOTALL)
_ALT = re.compile(r' (?:alt|aria-label)="([^"]*)"')
_TAG = re.compile(r"</?(?:sub|wbr)[^>]*>|(<[^>]*>)")


@dataclass(frozen=True)
class Term:
    """A word of the report.

    Attributes:
        name: as the glossary shows it.
        sentence: what it means.
        forms: how else the page writes it; the name itself need not be repeated.
        source: where it is defined.
    """

    name: str
    sentence: str
    forms: tuple[str, ...] = ()
    source: str = ""


@functools.cache
def read_terms() -> tuple[tuple[str, tuple[Term, ...]], ...]:
    """All words by heading."""
    words = yaml.safe_load(Path(__file__).with_name("terms.yaml").read_text(encoding="utf-8"))
    return tuple(
        (heading, tuple(Term(**{**term, "forms": tuple(term.get("forms", ()))}) for term in terms))
        for heading, terms in words.items()
    )


@dataclass(frozen=True)
class Entry:
    """A word with what it means; ``long`` is its long name."""

    name: str
    long: str
    sentence: str
    source: str


@dataclass(frozen=True)
class Group:
    """Words under one heading."""

    heading: str
    entries: list[Entry]


def list_entries(page: str, metrics: Mapping[str, str]) -> list[Group]:
    """The words of a page by heading: its metrics, and the terms that it or the other entries use.

    Args:
        page: the page without its glossary.
        metrics: names of those that it shows, with which direction is more private, in words.
    """
    of_metrics = [_describe_metric(name, metrics[name]) for name in sorted(metrics, key=rank)]
    terms = find_terms(
        " ".join([extract_text(page), *(f"{entry.long} {entry.sentence} {entry.source}" for entry in of_metrics)])
    )
    groups = [Group(METRICS, of_metrics)] if of_metrics else []
    for heading, words in read_terms():
        kept = [Entry(term.name, "", term.sentence, term.source) for term in words if term in terms]
        groups += [Group(heading, kept)] if kept else []
    return groups


def _describe_metric(name: str, direction: str) -> Entry:
    described = metric(name)
    sentence = described.sentence + (f" {direction[0].upper()}{direction[1:]}." if direction else "")
    return Entry(
        described.symbol, described.title if described.title != described.symbol else "", sentence, described.source
    )


def extract_text(page: str) -> str:
    """What a page says: its text, without code and records, and what stands for its pictures."""
    shown = _HIDDEN.sub(" ", page)
    pictures = " ".join(_ALT.findall(shown))
    return html.unescape(f"{_TAG.sub(lambda tag: ' ' if tag[1] else '', shown)} {pictures}")


def find_terms(text: str) -> set[Term]:
    """The terms that a text uses, with those that their sentences use."""
    unused = [term for _, terms in read_terms() for term in terms]
    used: set[Term] = set()
    while text:
        small = text.lower()
        new = [term for term in unused if any(_is_in(form, text, small) for form in (term.name, *term.forms))]
        unused = [term for term in unused if term not in new]
        used.update(new)
        text = " ".join(term.sentence for term in new)
    return used


def _is_in(form: str, text: str, small: str) -> bool:
    """Whether a form stands in a text as a word; one with capitals as it is written, a mark alone or at the end of a number."""
    of_letters = any(character.isalnum() for character in form)
    where, sought = (small, form) if form.islower() or not of_letters else (text, form)
    if sought not in where:
        return False
    before, after = (r"(?<![\w])", r"(?![\w])") if of_letters else (r"(?<!\S)", r"(?![\w–])")
    return re.search(before + re.escape(sought) + after, where) is not None
