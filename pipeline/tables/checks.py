"""``diagnostics.parquet``: what was found of each attack, a sentence a row. Was it strong enough?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.tables import run_files

TABLE = "diagnostics.parquet"
IDENTITY = ("dataset", "subset", "condition", "system", "attacker", "extractor", "trained_on", "backend")
COLUMNS = (*IDENTITY, "check", "value", "unit", "sentence", "flagged")

OF_NUMBERS = ("deid_against_eer",)
"""Checks that cast doubt on a number and on no attack: the attack is what shows it."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: name of the check.
        value: its number; NaN where there is none.
        unit: ``fraction``, ``count``, ``bit`` or ''.
        sentence: plain English with the number in it.
        flagged: the attack may have been too weak, or the result is not what it seems.
    """

    check: str
    value: float
    unit: str
    sentence: str
    flagged: bool


def frame(findings: Iterable[tuple[Mapping[str, str], Finding]]) -> pd.DataFrame:
    """Findings with what they are about as the table ``diagnostics.parquet``: text but for value and flagged.

    Args:
        findings: pairs of identity (some of :data:`IDENTITY`; what is absent is '') and finding.

    Raises:
        ValueError: a column that is not in the table, or one check twice for one result.
    """
    rows = []
    for identity, finding in findings:
        unknown = set(identity) - set(IDENTITY)
        if unknown:
            raise ValueError(f"not columns of the diagnostics: {sorted(unknown)}")
        rows.append({**dict.fromkeys(IDENTITY, ""), **identity, **vars(finding)})
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    kinds = {"value": "float64", "flagged": "bool"}
    table = table.astype({column: kinds.get(column, "string") for column in COLUMNS})
    key = [*IDENTITY, "check"]
    twice = table[table.duplicated(key)]
    if len(twice):
        raise ValueError(f"a check stands twice: {twice[key].to_dict('records')[:3]}")
    return table.sort_values(key, kind="stable").reset_index(drop=True)


def read(folder: Path) -> pd.DataFrame:
    """The findings in a run folder; none where there is no such file."""
    path = folder / TABLE
    return run_files.read_columns(path, COLUMNS) if path.is_file() else frame([])
