"""``bands.parquet``: which minimum-EER conditions of a challenge each system meets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pipeline.tables import run_files

TABLE = "bands.parquet"
STRONGEST = "strongest attack"
COLUMNS = (
    "dataset", "subset", "system", "ranked_by", "attack", "variant", "value", "low", "high", "met", "least", "most", "edges", "status",
)  # fmt: skip


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write the conditions into a run folder."""
    table.to_parquet(folder / TABLE, index=False)


def read(folder: Path) -> pd.DataFrame:
    """The conditions of a run folder; none where there is no such file."""
    path = folder / TABLE
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    return run_files.read_parquet(path).reindex(columns=list(COLUMNS), fill_value="ok")
