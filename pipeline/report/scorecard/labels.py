"""What a command line says of names: whether a published name is printed anywhere, and a label is one of the run."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from pipeline.errors import ConfigError, Fault
from pipeline.report.scorecard.match import Row
from pipeline.report.scorecard.settings import Changes, Scorecard
from pipeline.tables.published import Printed

NOTHING = "none"
"""The label that says that nothing of the run stands for a published name."""


def refuse_unknown(changes: Changes, settings: Scorecard, cells: Iterable[Printed]) -> None:
    """Refuse a published name that no cell has: what is said of it would have no effect.

    Raises:
        ConfigError: with all such names, and those that there are.
    """
    known: dict[str, set[str]] = {"systems": set(), "extractors": set(), "backends": set()}
    for cell in cells:
        known["systems"] |= {cell.system, settings.names.get(cell.system, cell.system)}
        known["extractors"].add(cell.extractor)
        known["backends"].add(cell.backend)
    faults = [
        Fault(_unknown(name, sorted(known[kind] - {""})), f"scorecard.{kind}.{name}")
        for kind, given in _given(changes)
        for name in given
        if name not in known[kind]
    ]
    if faults:
        raise ConfigError(
            "the published tables have no such name",
            cause="a misspelt name, or that of another recipe",
            remedy="give scorecard.systems.PUBLISHED=LABEL with a published name on the left and a label of the run on the right",
            faults=faults,
        )


def unmatched(changes: Changes, rows: Iterable[Row]) -> Iterator[str]:
    """A line for each label that the run lacks."""
    found = list(rows)
    for kind, given in _given(changes):
        there = {str(row[kind.removesuffix("s")]) for row in found} - {""}
        for name, labels in given.items():
            for label in filter(None, map(str.strip, labels.split(","))):
                if label not in there and label != NOTHING:
                    yield (
                        f"scorecard.{kind}.{name}={label}: the run has no {kind.removesuffix('s')} of this label; "
                        f"it has {', '.join(sorted(there)) or 'none'}"
                    )


def _given(changes: Changes) -> tuple[tuple[str, Mapping[str, str]], ...]:
    return ("systems", changes.systems), ("extractors", changes.extractors), ("backends", changes.backends)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"no published name: {hint}there are {', '.join(known) or 'none'}"
