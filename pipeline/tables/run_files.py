"""The files of a run folder: sealed by digests (``digests.json``) and read again; what a reader must know first; where its scores lie.

``results.csv``, ``report.html`` and ``figures/*.csv`` are for people, who may edit them; ``status.json`` has its digest in itself.

A limit (``limits.json``, a list of sentences) is something that the numbers do not show: a protocol that was made here because no lists
came with the data, sexes that nobody knows, sets, utterances and trials that were left out, and what was asked for and gives no row. It
stands above all tables of the report, of what is printed, and of Markdown and LaTeX.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from pipeline import files
from pipeline.errors import DataError, PipelineError, os_error
from pipeline.files import NotRegular, TooLarge, read_memory, read_regular, write_atomically
from pipeline.tables import bounds, records, status

_FIGURES = "figures"
_OVERRIDES = "overrides.txt"
_SEALED = ("*.parquet", "*.json", "config.yaml", _OVERRIDES, f"{_FIGURES}/*.parquet")

LIMITS_FILE = "limits.json"
LIMITS_TITLE = "Know before you read the numbers"
SEXES_UNKNOWN = "sexes unknown: pairs across sexes are tried, which is easier to resist"
FAILED_WITHOUT_LIMITS = (
    f"tasks of this run failed, and which systems have no row for it cannot be told: its {LIMITS_FILE} is gone"
)

ARTEFACTS_FILE, STORE_FILE = "artefacts.parquet", "store.json"
ARTEFACT_IDENTITY = ["dataset", "subset", "condition", "system", "attacker", "extractor", "trained_on", "backend"]
ARTEFACT_COLUMNS = [*ARTEFACT_IDENTITY, "reads", "input", "path"]


# ----------------------------------------------------------------------------------------------------------------- seals


def seal_run(folder: Path) -> None:
    """Write the digests of the files that a finished run has written into its folder."""
    paths = sorted({path for pattern in _SEALED for path in folder.glob(pattern)})
    digests = {
        path.relative_to(folder).as_posix(): files.file_digest(path)
        for path in paths
        if path.name not in (status.SEAL, status.FILE)
    }
    write_atomically(folder / status.SEAL, records.encode_signed({"sha256": digests}))


def check_seal(folder: Path) -> None:
    """Look at the files of a run that is about to be read. One of a version that wrote no digests is taken as it is.

    Raises:
        DataError: some are not what was written, by name.
        StageFailed: one may not be read.
    """
    path = folder / status.SEAL
    try:
        digests = records.decode_signed(read_regular(path, read_memory()))["sha256"].items()
    except (FileNotFoundError, NotADirectoryError):
        return
    except NotRegular as error:
        raise make_changed_error(folder, [status.SEAL]) from error
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error
    except (ValueError, LookupError, AttributeError) as error:
        raise make_changed_error(folder, [status.SEAL]) from error
    changed = [name for name, digest in digests if not _has_digest(_find_inside(folder, name), digest)]
    if changed:
        raise make_changed_error(folder, changed)


def _find_inside(folder: Path, name: str) -> Path:
    try:
        return files.resolve_inside(folder, name)
    except files.Outside as error:
        raise DataError(
            f"{status.SEAL} of run {folder.resolve().name} names a file that is none of the run: {error}",
            where=str(folder / status.SEAL),
            cause="somebody wrote it by hand, or put a link in the place of a file of the run",
            remedy=describe_rerun(folder),
        ) from error


def _has_digest(path: Path, digest: str) -> bool:
    try:
        files.open_regular(path).close()  # a pipe would be waited for
        return files.file_digest(path) == digest
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegular):
        return False
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error


def make_changed_error(folder: Path, names: Sequence[str]) -> DataError:
    """That files of a run folder are not what was written."""
    return DataError(
        f"{', '.join(names)} of run {folder.resolve().name} {'is' if len(names) == 1 else 'are'} not what was written",
        where=", ".join(str(folder / name) for name in names),
        cause="a disk or a copy that changed bytes, or a file that was edited or removed",
        remedy=describe_rerun(folder, has_overrides=_OVERRIDES not in names),
    )


def describe_rerun(folder: Path, has_overrides: bool = True) -> str:
    """How a run folder with the same content is had."""
    text = "run the same evaluation again and name its new folder; what is in the store is reused"
    try:
        overrides = (
            read_regular(folder / _OVERRIDES, read_memory()).decode("utf-8").splitlines() if has_overrides else []
        )
    except (OSError, ValueError):
        overrides = []
    return f"{text}: {shlex.join(['voice-privacy', *overrides])}" if overrides else text


# --------------------------------------------------------------------------------------------------------------- reading


def read_parquet(path: Path) -> pd.DataFrame:
    """A table of a run folder.

    Raises:
        DataError: it cannot be parsed.
        StageFailed: it may not be read.
    """
    try:
        with files.open_regular(path) as stream:
            bounds.check_parquet(stream)
            return pd.read_parquet(stream)
    except Exception as error:  # a damaged file lets errors of many kinds through, of several libraries
        raise _make_unread_error(path, error) from error


def read_columns(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Some columns of a table of a run folder; raises as :func:`read_parquet`, and DataError where it lacks some."""
    table = read_parquet(path)
    lacking = [column for column in columns if column not in table.columns]
    if lacking:
        raise DataError(
            f"{path.name} lacks columns: {', '.join(lacking)}",
            where=str(path),
            cause="the file comes from another version",
            remedy="read it with the version that wrote it, or run the evaluation again",
        )
    return table[[*columns]]


def read_json(path: Path) -> Any:
    """What a JSON file of a run folder holds; raises as :func:`read_parquet`."""
    try:
        return json.loads(read_regular(path, read_memory()).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _make_unread_error(path, error) from error


def read_yaml(path: Path) -> Any:
    """What a YAML file of a run folder holds; raises as :func:`read_parquet`."""
    try:
        return bounds.read_yaml(read_regular(path, read_memory()).decode("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _make_unread_error(path, error) from error


def _make_unread_error(path: Path, error: Exception) -> PipelineError:
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, NotRegular | TooLarge):
        return os_error(error, "a file of a run cannot be read", path)
    folder = path.parent.parent if path.parent.name == _FIGURES else path.parent
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DataError(
        f"{path.relative_to(folder)} of run {folder.resolve().name} cannot be read",
        where=str(path),
        cause=f"its bytes have changed, or another program wrote it ({reason})",
        remedy=describe_rerun(folder),
    )


# ---------------------------------------------------------------------------------------------------------------- limits


def write_limits(folder: Path, limits: Sequence[str]) -> None:
    """Write the limits, each once, in their order."""
    write_atomically(folder / LIMITS_FILE, json.dumps(list(dict.fromkeys(limits)), indent=1) + "\n")


def read_limits(folder: Path) -> list[str]:
    """The limits of a run; raises DataError where the file is no list."""
    if not (folder / LIMITS_FILE).exists():
        return [FAILED_WITHOUT_LIMITS] if status.read(folder).get("state") == "failed" else []
    limits = read_json(folder / LIMITS_FILE)
    if not isinstance(limits, list):
        raise make_changed_error(folder, [LIMITS_FILE])
    return [str(limit) for limit in limits]


# ------------------------------------------------------------------------------------------------- where the scores lie


def write_artefacts(rows: Iterable[Mapping[str, str]], store_root: Path, folder: Path) -> None:
    """Write where the scores lie that the rows of a run were measured on.

    Args:
        rows: identity of what was measured, what the family ``reads``, the ``input`` and the ``path`` of its artefact below the store.
        store_root: the store.
        folder: the run folder.
    """
    table = pd.DataFrame(list(rows), columns=ARTEFACT_COLUMNS, dtype="str").drop_duplicates()
    table.to_parquet(folder / ARTEFACTS_FILE, index=False)
    (folder / STORE_FILE).write_text(json.dumps({"store": str(store_root)}) + "\n", encoding="utf-8")


def read_artefacts(folder: Path) -> pd.DataFrame:
    """The table that :func:`write_artefacts` wrote; raises DataError where there is none."""
    if not (folder / ARTEFACTS_FILE).is_file():
        raise DataError(
            "this run does not say where its scores lie",
            where=str(folder / ARTEFACTS_FILE),
            cause="it was made by an older version",
            remedy="run the evaluation again; what is in the store is reused",
        )
    return read_parquet(folder / ARTEFACTS_FILE)


def locate_store_beside(folder: Path) -> Path:
    """Where the store of a run folder lies that is still where it was made."""
    return folder.parent.parent / "store"


def find_store(folder: Path) -> Path:
    """The store of a run folder: the one beside its ``runs``, or the one that it was made with; raises DataError where it says none."""
    if locate_store_beside(folder).is_dir():
        return locate_store_beside(folder)
    record = read_json(folder / STORE_FILE)
    if not isinstance(record, dict) or not isinstance(record.get("store"), str):
        raise make_changed_error(folder, [STORE_FILE])
    return Path(record["store"])
