"""The words of the report that are no metrics: ``terms.yaml``, by heading."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import yaml


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
def groups() -> tuple[tuple[str, tuple[Term, ...]], ...]:
    """All words by heading."""
    read = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return tuple(
        (heading, tuple(Term(**{**one, "forms": tuple(one.get("forms", ()))}) for one in several))
        for heading, several in read.items()
    )
