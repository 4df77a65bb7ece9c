"""The glossary of a page: every word that it uses, and no other. Words that are no metrics stand in ``terms.yaml``, by heading."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.report import glossary

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
    words = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
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
    of_metrics = [_describe_metric(name, metrics[name]) for name in sorted(metrics, key=glossary.rank)]
    terms = find_terms(
        " ".join([extract_text(page), *(f"{entry.long} {entry.sentence} {entry.source}" for entry in of_metrics)])
    )
    groups = [Group(METRICS, of_metrics)] if of_metrics else []
    for heading, words in read_terms():
        kept = [Entry(term.name, "", term.sentence, term.source) for term in words if term in terms]
        groups += [Group(heading, kept)] if kept else []
    return groups


def _describe_metric(name: str, direction: str) -> Entry:
    metric = glossary.metric(name)
    sentence = metric.sentence + (f" {direction[0].upper()}{direction[1:]}." if direction else "")
    return Entry(metric.symbol, metric.title if metric.title != metric.symbol else "", sentence, metric.source)


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
