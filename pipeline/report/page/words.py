"""The glossary: every word that a page uses, and no other."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.report import glossary, terms
from pipeline.report.terms import Term

PLACE = "<!-- the words of this page -->"
"""Stands in the page where its glossary goes; no text of data can, for it is escaped."""
METRICS = "Metrics"
_HIDDEN = re.compile(r"<style>.*?</style>|<pre>.*?</pre>|<code>.*?</code>", re.DOTALL)
_ALT = re.compile(r' (?:alt|aria-label)="([^"]*)"')
_TAG = re.compile(r"</?(?:sub|wbr)[^>]*>|(<[^>]*>)")


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


def entries(page: str, metrics: Mapping[str, str]) -> list[Group]:
    """The words of a page by heading: its metrics, and the terms that it or the other entries use.

    Args:
        page: the page without its glossary.
        metrics: names of those that it shows, with which direction is more private, in words.
    """
    of_metrics = [_of_metric(name, metrics[name]) for name in sorted(metrics, key=glossary.rank)]
    found = used(" ".join([visible(page), *(f"{one.long} {one.sentence} {one.source}" for one in of_metrics)]))
    groups = [Group(METRICS, of_metrics)] if of_metrics else []
    for heading, words in terms.groups():
        kept = [Entry(one.name, "", one.sentence, one.source) for one in words if one in found]
        groups += [Group(heading, kept)] if kept else []
    return groups


def _of_metric(name: str, direction: str) -> Entry:
    said = glossary.metric(name)
    sentence = said.sentence + (f" {direction[0].upper()}{direction[1:]}." if direction else "")
    return Entry(said.symbol, said.title if said.title != said.symbol else "", sentence, said.source)


def visible(page: str) -> str:
    """What a page says: its text, without code and records, and what stands for its pictures."""
    seen = _HIDDEN.sub(" ", page)
    said = " ".join(_ALT.findall(seen))
    return html.unescape(f"{_TAG.sub(lambda tag: ' ' if tag[1] else '', seen)} {said}")


def used(text: str) -> set[Term]:
    """The terms that a text uses, with those that their sentences use."""
    left = [term for _, several in terms.groups() for term in several]
    found: set[Term] = set()
    unread = text
    while unread:
        small = unread.lower()
        new = [term for term in left if any(_is_in(form, unread, small) for form in (term.name, *term.forms))]
        left = [term for term in left if term not in new]
        found.update(new)
        unread = " ".join(term.sentence for term in new)
    return found


def _is_in(form: str, text: str, small: str) -> bool:
    """Whether a form stands in a text as a word; one with capitals as it is written, a mark alone or at the end of a number."""
    of_letters = any(character.isalnum() for character in form)
    where, sought = (small, form) if form.islower() or not of_letters else (text, form)
    if sought not in where:
        return False
    before, after = (r"(?<![\w])", r"(?![\w])") if of_letters else (r"(?<!\S)", r"(?![\w–])")
    return re.search(before + re.escape(sought) + after, where) is not None
