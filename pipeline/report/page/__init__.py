"""What a run's page says, a module a part; here the CSV files to take away from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        quoted = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], self.text.encode())
        return "data:text/csv;charset=utf-8," + quoted.decode("ascii")


def write_csv(table: pd.DataFrame) -> str:
    return csv.text(table.drop(columns="series", errors="ignore"), "%.10g")
