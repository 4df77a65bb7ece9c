"""Rows of one attack: what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.contracts import Row
from pipeline.families._rows import row


@dataclass(frozen=True)
class About:
    """What all rows of an attack say.

    Attributes:
        note: what the reader has to know.
        counts: of the trials.
    """

    note: str
    counts: Mapping[str, int]

    def row(self, metric: str, value: float | None = None, *, note: str = "", **more: Any) -> Row:
        """A row of a metric, as of :func:`pipeline.families._rows.row`; ``note`` is said beside what all say."""
        said = note if not self.note else f"{note}; {self.note}" if note else self.note
        return row(metric, value, note=said, counts=self.counts, **more)


def named(*parts: str) -> str:
    """A variant of some parts, of which some may be ''."""
    return ", ".join(filter(None, parts))
