"""Published tables: one printed cell a row, in the columns of the results, as text and as what may have been printed so.

The columns say what a number is in the results' own names, so that a row of a run that carries the same words is the same number.
A new table is a new CSV. See data_manifests/README.md, section 11.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import ConfigError, DataError, Fault
from pipeline.files import find_assets


class Identity(NamedTuple):
    """What a number is; the same words as in the results (``pipeline.tables.results``)."""

    subset: str
    condition: str
    system: str
    attacker: str
    extractor: str
    trained_on: str
    backend: str
    metric: str
    variant: str
    estimator: str
    input_unit: str


COLUMNS = ("source", "table", "dataset", *Identity._fields, "value", "unit", "rounding")
RULES = ("rounded", "truncated", "either", "")
"""How a print came about; '' is a text, or the mark of an empty cell, and no number."""
UNPRINTED = ("*", "-", "–", "")
"""What stands in a cell that has no number."""

Ends = tuple[float, float]


@dataclass(frozen=True)
class Printed:
    """One printed cell. ``value`` is as printed, ``unit`` is the printed one, ``rounding`` one of ``RULES``."""

    source: str
    table: str
    dataset: str
    identity: Identity
    value: str
    unit: str
    rounding: str
    file: str = ""

    def get_column(self, name: str) -> str:
        """What stands in a column of the published table, one of ``COLUMNS``."""
        return str(getattr(self.identity if name in Identity._fields else self, name))

    def replace_columns(self, **words: str) -> Printed:
        """The cell with other words in some columns."""
        identity = {name: word for name, word in words.items() if name in Identity._fields}
        other_columns = {name: word for name, word in words.items() if name not in identity}
        return replace(self, identity=self.identity._replace(**identity), **other_columns)

    @property
    def ends(self) -> Ends | None:
        """The lowest and highest number that may have been printed as ``value``, in the printed unit; None of a text."""
        return ends(self.value, self.rounding) if self.rounding else None

    @property
    def place(self) -> str:
        """Where it is printed, in short: of a repository its name, of a path its last part."""
        return f"{self.source.rpartition('/')[2]}, {self.table.rpartition('/')[2]}"


def ends(text: str, rule: str) -> Ends:
    """Ends of what may have been printed as ``text``, both included: ``0.12`` rounded is 0.115 to 0.125, cut it is 0.12 to 0.13.

    ``~100`` is read as ``100``; the last place of ``1e-4`` is that of its mantissa.

    Raises:
        ValueError: it is no number.
    """
    bare = text.removeprefix("~").replace("\N{MINUS SIGN}", "-")
    try:
        number = Decimal(bare)
    except InvalidOperation:
        raise ValueError(f"'{text}' is no number") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):  # an infinity is what it is
        return float(number), float(number)
    unit = Decimal(1).scaleb(exponent)
    below = above = unit / 2
    if rule in ("truncated", "either"):
        # Cutting moves towards zero, and what is printed as zero may have come from either side.
        up = unit if number > 0 or (number == 0 and not bare.startswith("-")) else Decimal(0)
        down = unit if number < 0 or number == 0 else Decimal(0)
        below, above = (down, up) if rule == "truncated" else (max(below, down), max(above, up))
    return float(number - below), float(number + above)


def decimals(text: str) -> int:
    """Decimals that a print has; of ``1e-4`` four."""
    try:
        exponent = Decimal(text.removeprefix("~")).as_tuple().exponent
    except InvalidOperation:
        return 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def folder() -> Path:
    """Where the published tables lie that come with the project."""
    return find_assets("data_manifests") / "reference"


def names() -> list[str]:
    """The published tables that come with the project."""
    return sorted(path.stem for path in folder().glob("*.csv") if path.stem != "sources")


def find(name: str, beside: Path | None = None) -> Path:
    """The file of a published table: a name of ours, or a path, which may start from the folder ``beside``.

    Raises:
        ConfigError: there is none.
    """
    if re.fullmatch(r"[\w-]+", name) and (folder() / f"{name}.csv").is_file():
        return folder() / f"{name}.csv"
    for path in (Path(name).expanduser(), (beside or Path()) / name):
        if path.is_file():
            return path
    raise ConfigError(
        f"there is no published table '{name}'",
        where="scorecard.tables",
        remedy=f"give the path of a CSV, or one of: {', '.join(names())}",
    )


def read(path: Path) -> list[Printed]:
    """The cells of a published table, in the order of the file.

    Raises:
        DataError: it is no such table, with all that is wrong.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"the published table cannot be read: {error}", where=str(path), remedy="save it as CSV in UTF-8"
        ) from error
    heads = tuple(lines[0]) if lines else ()
    if heads != COLUMNS:
        raise DataError(
            "the columns of the published table are not those of one",
            where=str(path),
            cause=f"it has: {', '.join(heads) or 'no line'}",
            remedy=f"make its first line: {','.join(COLUMNS)}",
        )
    cells, faults, seen = [], [], dict[tuple[str, ...], str]()
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        where = f"{path}:{number}"
        if len(line) != len(COLUMNS):
            faults.append(Fault(f"{len(line)} cells instead of {len(COLUMNS)}", where))
            continue
        words = dict(zip(COLUMNS, line))
        identity = Identity(**{name: words.pop(name) for name in Identity._fields})
        cell = Printed(**words, identity=identity, file=path.stem)
        faults += [Fault(text, where) for text in _wrong(cell)]
        before = seen.setdefault((cell.source, cell.table, *cell.identity), where)
        if before != where:
            faults.append(Fault(f"the same cell as {before}", where))
        cells.append(cell)
    if faults:
        raise DataError(
            f"{len(faults)} cells of the published table are not as they have to be",
            where=str(path),
            remedy="correct the lines named below; data_manifests/README.md, section 11, says what the columns mean",
            faults=faults,
        )
    return cells


def _wrong(cell: Printed) -> Iterator[str]:
    """What is wrong with a cell."""
    for name, value in (("source", cell.source), ("table", cell.table), ("metric", cell.identity.metric)):
        if not value:
            yield f"the column {name} is empty"
    if cell.rounding not in RULES:
        yield f"rounding is '{cell.rounding}', and not one of {', '.join(RULES[:-1])} or empty"
    elif cell.rounding:
        try:
            ends(cell.value, cell.rounding)
        except ValueError as error:
            yield f"{error}; where no number is printed, leave the column rounding empty"
