"""Whether a run folder holds what its run wrote (``digests.json``), and how its files are read.

``results.csv``, ``report.html`` and ``figures/*.csv`` are for people, who may edit them; ``status.json`` has its digest in itself.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from pipeline.errors import DataError, PipelineError, os_error
from pipeline.files import (
    NotRegular,
    Outside,
    TooLarge,
    file_digest,
    open_regular,
    read_memory,
    read_regular,
    resolve_inside,
    write_atomically,
)
from pipeline.tables import bounds, signed, status

FILE = status.SEAL
_FIGURES = "figures"
_OVERRIDES = "overrides.txt"
_KEPT = ("*.parquet", "*.json", "config.yaml", _OVERRIDES, f"{_FIGURES}/*.parquet")


def seal(folder: Path) -> None:
    """Write the digests of the files that a finished run has written into its folder."""
    paths = sorted({path for pattern in _KEPT for path in folder.glob(pattern)})
    kept = {
        path.relative_to(folder).as_posix(): file_digest(path) for path in paths if path.name not in (FILE, status.FILE)
    }
    write_atomically(folder / FILE, signed.text({"sha256": kept}))


def check(folder: Path) -> None:
    """Look at the files of a run that is about to be read. One of a version that wrote no digests is taken as it is.

    Raises:
        DataError: some are not what was written, by name.
        StageFailed: one may not be read.
    """
    path = folder / FILE
    try:
        kept = signed.read(read_regular(path, read_memory()))["sha256"].items()
    except (FileNotFoundError, NotADirectoryError):
        return
    except NotRegular as error:
        raise changed(folder, [FILE]) from error
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error
    except (ValueError, LookupError, AttributeError) as error:
        raise changed(folder, [FILE]) from error
    wrong = [name for name, digest in kept if not _is(_inside(folder, name), digest)]
    if wrong:
        raise changed(folder, wrong)


def _inside(folder: Path, name: str) -> Path:
    try:
        return resolve_inside(folder, name)
    except Outside as error:
        raise DataError(
            f"{FILE} of run {folder.resolve().name} names a file that is none of the run: {error}",
            where=str(folder / FILE),
            cause="somebody wrote it by hand, or put a link in the place of a file of the run",
            remedy=again(folder),
        ) from error


def _is(path: Path, digest: str) -> bool:
    try:
        open_regular(path).close()  # a pipe would be waited for
        return file_digest(path) == digest
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegular):
        return False
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error


def changed(folder: Path, names: Sequence[str]) -> DataError:
    """That files of a run folder are not what was written."""
    return DataError(
        f"{', '.join(names)} of run {folder.resolve().name} {'is' if len(names) == 1 else 'are'} not what was written",
        where=", ".join(str(folder / name) for name in names),
        cause="a disk or a copy that changed bytes, or a file that was edited or removed",
        remedy=again(folder, known=_OVERRIDES not in names),
    )


def parquet(path: Path) -> pd.DataFrame:
    """A table of a run folder.

    Raises:
        DataError: it cannot be parsed.
        StageFailed: it may not be read.
    """
    try:
        with open_regular(path) as stream:
            bounds.check_parquet(stream)
            return pd.read_parquet(stream)
    except Exception as error:  # a damaged file lets errors of many kinds through, of several libraries
        raise _unread(path, error) from error


def json_of(path: Path) -> Any:
    """What a JSON file of a run folder holds.

    Raises:
        DataError: it cannot be parsed.
        StageFailed: it may not be read.
    """
    try:
        return json.loads(read_regular(path, read_memory()).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unread(path, error) from error


def yaml_of(path: Path) -> Any:
    """What a YAML file of a run folder holds.

    Raises:
        DataError: it cannot be parsed.
        StageFailed: it may not be read.
    """
    try:
        return bounds.read_yaml(read_regular(path, read_memory()).decode("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _unread(path, error) from error


def _unread(path: Path, error: Exception) -> PipelineError:
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, NotRegular | TooLarge):
        return os_error(error, "a file of a run cannot be read", path)
    folder = path.parent.parent if path.parent.name == _FIGURES else path.parent
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DataError(
        f"{path.relative_to(folder)} of run {folder.resolve().name} cannot be read",
        where=str(path),
        cause=f"its bytes have changed, or another program wrote it ({said})",
        remedy=again(folder),
    )


def again(folder: Path, known: bool = True) -> str:
    """How a run folder with the same content is had."""
    words = "run the same evaluation again and name its new folder; what is in the store is reused"
    try:
        given = read_regular(folder / _OVERRIDES, read_memory()).decode("utf-8").splitlines() if known else []
    except (OSError, ValueError):
        given = []
    return f"{words}: {shlex.join(['voice-privacy', *given])}" if given else words
