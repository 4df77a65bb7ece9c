"""The manifest: one row for each utterance of each set, checked.

Row identity is (set, utterance): the same utterance may stand in several sets (VCTK ``_common`` and ``_all``).
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from pipeline.errors import DataError
from pipeline.files import is_below
from pipeline.seeds import canonical
from pipeline.seeds import digest as digest_of

FILE = "manifest.parquet"
IDENTITY = ["set", "utterance"]
NAMED = ["set", "utterance", "speaker"]
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
    plain = [[value if isinstance(value, str) else int(value) for value in row] for row in rows.to_numpy(object)]
    return digest_of("manifest", list(columns), plain)


def seconds(table: pd.DataFrame) -> pd.Series:
    """Duration of each row in seconds."""
    return table["samples"] / table["sample_rate"]


def read(folder: Path, content: str = "") -> pd.DataFrame:
    """The manifest in a folder whose audio lies beside it; paths are made absolute.

    Args:
        folder: of an artefact.
        content: its digest, by which the table is kept: what is damaged is made again in the same place. '' keeps nothing.
    """
    return _kept(folder, content) if content else _read(folder)


@functools.lru_cache(maxsize=512)
def _kept(folder: Path, content: str) -> pd.DataFrame:
    return _read(folder)


def _read(folder: Path) -> pd.DataFrame:
    rows = pd.read_parquet(folder / FILE)
    away = [path for path in rows["path"] if not is_below(path)]
    if away:
        raise DataError(
            f"a manifest of the store names a file that is none of its own: {away[0]}",
            where=str(folder / FILE),
            cause="it was brought in from somebody else's store, who wrote it by hand",
            remedy=f"remove the folder, and run the same command again: rm -r {shlex.quote(str(folder))}",
        )
    rows["path"] = [str(folder / path) for path in rows["path"]]
    return rows


def rows_of(source: Any) -> pd.DataFrame:
    """The rows that an input of a task stands for: rows themselves, an artefact that holds a manifest, or several."""
    if isinstance(source, pd.DataFrame):
        return source
    artefacts = source if isinstance(source, (list, tuple)) else [source]
    return pd.concat([read(artefact.folder, artefact.digest) for artefact in artefacts], ignore_index=True)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Some (set, utterance, speaker) in an order. Whoever wants the same is given the same, so that it is worked out once.

    Attributes:
        table: columns set, utterance, speaker; nobody changes it.
    """

    table: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Wanted:
        """The rows of a table that has more columns."""
        return cls(rows[NAMED].reset_index(drop=True))

    @functools.cached_property
    def text(self) -> str:
        """The rows as canonical JSON."""
        return canonical(self.table.to_numpy().tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return Wanted, (self.table,)


class Listing:
    """A manifest whose rows are found by (set, utterance).

    Args:
        rows: the manifest; nobody changes it.
        like: another one; where it has the same rows in the same order, what was found there is not looked for again.
    """

    def __init__(self, rows: pd.DataFrame, like: Listing | None = None) -> None:
        self.rows = rows
        is_same = like is not None and rows[IDENTITY].equals(like.rows[IDENTITY])
        self._places: _Places = like._places if like is not None and is_same else _Places(rows)

    def matching(self, wanted: Wanted) -> pd.DataFrame:
        """The rows of what is wanted, in its order.

        Raises:
            LookupError: rows are not there.
        """
        return self.rows.iloc[self._places.of(wanted)].reset_index(drop=True)

    def digests(self, wanted: Wanted) -> list[str]:
        """The ``sha256`` of the rows that :meth:`matching` gives; raises as it does."""
        return [str(sha256) for sha256 in self.rows["sha256"].to_numpy(object)[self._places.of(wanted)]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Listing, (self.rows,)


class _Places:
    """Where each (set, utterance) stands in a manifest."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._there = {identity: place for place, identity in enumerate(_identities(rows))}
        self._found: dict[Wanted, np.ndarray] = {}

    def of(self, wanted: Wanted) -> np.ndarray:
        """The places of what is wanted, in its order."""
        if wanted not in self._found:
            identities = _identities(wanted.table)
            missing = [identity[1] for identity in identities if identity not in self._there]
            if missing:
                names = missing[:3]
                raise LookupError(f"{len(missing)} utterances are not in the manifest of the system, first {names}")
            self._found[wanted] = np.array([self._there[identity] for identity in identities], int)
        return self._found[wanted]


def _identities(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(*(rows[name].tolist() for name in IDENTITY)))


def matching(rows: pd.DataFrame, wanted: pd.DataFrame) -> pd.DataFrame:
    """The rows of the wanted (set, utterance), in the wanted order.

    Raises:
        LookupError: rows are not there.
    """
    return Listing(rows).matching(Wanted(wanted))
