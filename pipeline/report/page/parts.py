"""What a page is made of: tables, and CSV files to take away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.tables import csv

# Bytes that are quoted in a link (RFC 3986), beside those that this one may hold; a long text has few of them.
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.~,:;/()+*-]")


@dataclass(frozen=True)
class Download:
    """A CSV twice: embedded in the page, and under ``figures/`` beside it."""

    name: str
    text: str

    @property
    def uri(self) -> str:
        quoted = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], self.text.encode())
        return "data:text/csv;charset=utf-8," + quoted.decode("ascii")


Kind = Literal["text", "number", "value", "chance", "sentence", "note", "signature"]
TEXT: Kind = "text"


@dataclass(frozen=True)
class Column:
    """A table column.

    Attributes:
        head: its heading.
        kind: how cells are set. A ``sentence`` or ``note`` may take several lines, a ``value`` is the number that the row is about,
            a ``signature`` leads to the list of signatures.
        once: how its content is called where it is the same in all rows and is said once, below the table; '' if it stays.
    """

    head: str
    kind: Kind = TEXT
    once: str = ""

    @property
    def numeric(self) -> bool:
        return self.kind in ("number", "value")


@dataclass(frozen=True)
class Table:
    """A table of the page: cells are text; ``marked`` rows stand out; the first ``left`` columns say what a row is."""

    columns: list[Column]
    body: list[list[str]]
    marked: frozenset[int] = frozenset()
    note: str = ""
    left: int = 0


def csv_text(table: pd.DataFrame) -> str:
    return csv.text(table.drop(columns="series", errors="ignore"), "%.10g")
