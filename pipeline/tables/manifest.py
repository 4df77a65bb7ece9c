"""The manifest: one row for each utterance of each set, checked.

Row identity is (set, utterance): the same utterance may stand in several sets (VCTK ``_common`` and ``_all``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import pandera.pandas as pa

from pipeline.registry import digest as digest_of

IDENTITY = ["set", "utterance"]
COLUMNS = ["utterance", "speaker", "sex", "set", "role", "path", "sample_rate", "samples", "sha256", "position"]
# What the numbers depend on: not where the files lie, nor in which line of wav.scp.
KEYED = ["set", "utterance", "speaker", "sex", "role", "sample_rate", "samples", "sha256"]

# An id is a field of a Kaldi table and the name of a file.
_ID = pa.Check.str_matches(r"^[^\s/]+$")

SCHEMA = pa.DataFrameSchema(
    {
        "utterance": pa.Column(str, _ID),
        "speaker": pa.Column(str, pa.Check.str_matches(r"^\S+$")),
        "sex": pa.Column(str, pa.Check.isin(["f", "m", "u"])),
        "set": pa.Column(str, pa.Check.str_matches(r"^[^/]+$")),
        "role": pa.Column(str, pa.Check.isin(["enrolment", "trial", "train"])),
        "path": pa.Column(str, pa.Check.str_startswith("/")),
        "sample_rate": pa.Column("int64", pa.Check.gt(0)),
        "samples": pa.Column("int64", pa.Check.gt(0)),
        "sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$")),
        "position": pa.Column("int64", pa.Check.ge(0)),
    },
    unique=IDENTITY,
    strict=True,
    ordered=True,
)


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a validated manifest, ordered by set and utterance.

    Raises:
        pandera.errors.SchemaErrors: a row that breaks the schema.
    """
    table = pd.DataFrame(list(rows), columns=COLUMNS)
    for column in COLUMNS:
        table[column] = table[column].astype("int64" if column in ("sample_rate", "samples", "position") else "str")
    return validate(table.sort_values(IDENTITY, kind="stable").reset_index(drop=True))


def validate(table: pd.DataFrame) -> pd.DataFrame:
    """The table itself if it is a manifest.

    Raises:
        pandera.errors.SchemaErrors: with all that is wrong.
    """
    return SCHEMA.validate(table, lazy=True)


def digest(table: pd.DataFrame, columns: Sequence[str] = tuple(KEYED)) -> str:
    """sha256 of what numbers depend on, whatever the order of rows and wherever the files lie.

    ``position`` is no part of it; what uses it (the seeding mode ``vpc2024``) adds it: ``digest(m, [*KEYED, "position"])``.
    """
    rows = table[list(columns)].sort_values(IDENTITY, kind="stable")
    return digest_of("manifest", list(columns), [[_plain(value) for value in row] for row in rows.to_numpy(object)])


def seconds(table: pd.DataFrame) -> pd.Series:
    """Duration of each row in seconds."""
    return table["samples"] / table["sample_rate"]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)
