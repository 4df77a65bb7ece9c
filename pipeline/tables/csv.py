"""CSV that a spreadsheet shows and does not obey.

A cell of text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is a formula to Excel and LibreOffice, and ids and
labels come from other people's files. Such a cell gets an apostrophe before it, and so does one that begins with apostrophes before
such a character, so that exactly one apostrophe is taken off again: by :func:`read`, or by pandas alone with ::

    pandas.read_csv(FILE, keep_default_na=False, dtype=str).replace(r"^'(?='*[=+\\-@\\t\\r\\uff1d\\uff0b\\uff0d\\uff20])", "", regex=True)
"""

from __future__ import annotations

import csv as plain
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

_OBEYED = "=+\\-@\t\r\uff1d\uff0b\uff0d\uff20"
ESCAPED, RAW = re.compile(rf"^'(?='*[{_OBEYED}])"), re.compile(rf"^(?='*[{_OBEYED}])")


def text(table: pd.DataFrame, float_format: str) -> str:
    """A table as CSV: UTF-8, commas, a header, ``\\n`` at line ends."""
    escaped, returns = table.rename(columns=_escaped), False
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            column = table.iloc[:, place].astype(object)
            # Of equal texts, of which tables are full, each is looked at once.
            cells = column.map({cell: _escaped(cell) for cell in set(column.dropna())}, na_action="ignore").tolist()
            escaped.isetitem(place, np.array([*cells, None], object)[:-1])
            returns = returns or any(isinstance(cell, str) and "\r" in cell for cell in cells)
    # A carriage return is not quoted by itself, and ends a line for most readers.
    quoting: Literal[0, 2] = plain.QUOTE_NONNUMERIC if returns else plain.QUOTE_MINIMAL
    content: str = escaped.to_csv(index=False, float_format=float_format, lineterminator="\n", quoting=quoting)
    return content


def read(path: Path, types: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table that :func:`text` wrote, cell for cell; an empty cell of text is ''.

    Args:
        path: the file.
        types: types of columns that are no text.
    """
    types = types or {}
    names = pd.read_csv(path, nrows=0).columns
    kinds = {name: types.get(ESCAPED.sub("", name), str) for name in names}
    wanted = {name: [""] for name in names if kinds[name] is not str}
    table = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=wanted)
    table = table.rename(columns=lambda name: ESCAPED.sub("", name))
    for place, kind in enumerate(kinds.values()):
        if kind is str:
            table.isetitem(place, [ESCAPED.sub("", cell) for cell in table.iloc[:, place]])
    return table


def _escaped(cell: Any) -> Any:
    return RAW.sub("'", cell, count=1) if isinstance(cell, str) else cell
