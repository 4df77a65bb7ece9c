"""Two runs side by side: numbers with equal signatures, which are the comparable ones (a first version)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.report import tables
from pipeline.tables import results

KEY = [*results.IDENTITY, "signature"]


def pair(first: Path, second: Path) -> tuple[pd.DataFrame, int]:
    """Rows that both runs have with the same identity and signature, and how many have none to compare with.

    Returns:
        A table with the columns of ``KEY``, ``unit``, ``value_first``, ``value_second`` and ``difference``; and the number
        of rows of either run that are left over.
    """
    a, b = results.read(first), results.read(second)
    both = a[[*KEY, "unit", "value"]].merge(b[[*KEY, "value"]], on=KEY, suffixes=("_first", "_second"))
    both["difference"] = both["value_second"] - both["value_first"]
    return both, len(a) + len(b) - 2 * len(both)


def to_text(first: Path, second: Path) -> str:
    """The comparison as lines: metric, where, both values, and the difference where there is one."""
    both, left = pair(first, second)
    both = both.assign(defined=tables.words(both, tables.DEFINED_BY))
    valued = both[both["value_first"].notna() | both["value_second"].notna()]
    lines = []
    for row in valued.to_dict("records"):
        place = " ".join(
            str(row[name])
            for name in ("subset", "system", "condition", "attacker", "extractor", "defined")
            if row[name]
        )
        values = [tables.number(row[name], row["unit"], with_unit=True) for name in ("value_first", "value_second")]
        same = row["difference"] == 0 or np.isnan(row["difference"])
        change = "equal" if same else f"difference {tables.number(row['difference'], row['unit'], with_unit=True)}"
        lines.append(f"{row['metric']}  {place}  {values[0]}  {values[1]}  {change}")
    lines.append(f"{len(both)} rows with equal signatures, {left} rows without a counterpart")
    return "\n".join(lines)
