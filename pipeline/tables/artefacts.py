"""Where the scores lie that the rows of a run were measured on: ``artefacts.parquet`` of a run folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from pipeline.errors import DataError
from pipeline.tables import written

FILE, STORE = "artefacts.parquet", "store.json"
IDENTITY = ["dataset", "subset", "condition", "system", "attacker", "extractor", "trained_on", "backend"]
COLUMNS = [*IDENTITY, "reads", "input", "path"]


def write(rows: Iterable[Mapping[str, str]], store_root: Path, folder: Path) -> None:
    """Write the table.

    Args:
        rows: identity of what was measured, the kind of scores that the family ``reads``, the name of the ``input`` and the
            ``path`` of its artefact below the store.
        store_root: the store.
        folder: the run folder.
    """
    table = pd.DataFrame(list(rows), columns=COLUMNS, dtype="str").drop_duplicates()
    table.to_parquet(folder / FILE, index=False)
    (folder / STORE).write_text(json.dumps({"store": str(store_root)}) + "\n", encoding="utf-8")


def read(folder: Path) -> pd.DataFrame:
    """The table of a run folder.

    Raises:
        DataError: the run was made by a version that wrote none.
    """
    if not (folder / FILE).is_file():
        raise DataError(
            "this run does not say where its scores lie",
            where=str(folder / FILE),
            cause="it was made by an older version",
            remedy="run the evaluation again; what is in the store is reused",
        )
    return written.parquet(folder / FILE)


def beside(folder: Path) -> Path:
    """Where the store of a run folder lies that is still where it was made."""
    return folder.parent.parent / "store"


def store(folder: Path) -> Path:
    """The store of a run folder: the one beside its ``runs``, or the one that it was made with.

    Raises:
        DataError: it says none.
    """
    if beside(folder).is_dir():
        return beside(folder)
    found = written.json_of(folder / STORE)
    if not isinstance(found, dict) or not isinstance(found.get("store"), str):
        raise written.changed(folder, [STORE])
    return Path(found["store"])
