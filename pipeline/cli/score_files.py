"""Tables of ids and scores for ``from-scores``: text (plain or gzip) or parquet, read by pyarrow without a loop over lines.

Lines are ``ID1 ID2 SCORE``, ``ID1 ID2 target|nontarget`` or ``ID SPEAKER``, parted by any white space; a first line
``enroll_id trial_id score`` is taken for the header of VPC 2024. What a file is, is told by its content, not its name.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pipeline.cli.score_ids import ID
from pipeline.errors import DataError, Fault

Array = npt.NDArray[np.float64]

SCORES = ("enroll_id", "trial_id", "score")
TRIALS = ("enroll_id", "trial_id", "label")
SPEAKERS = ("id", "speaker")

_HEADER = set(SCORES[:2])
_BLOCK = 1 << 24
_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")
_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_SHAPES = {SCORES: "ID1 ID2 SCORE", TRIALS: "ID1 ID2 target|nontarget", SPEAKERS: "ID SPEAKER"}


@dataclass(frozen=True)
class Table:
    """Columns of one file; those of ids are dictionary-encoded, the score is float64."""

    where: str
    columns: dict[str, pa.ChunkedArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def ids(self, *names: str) -> list[pa.ChunkedArray]:
        return [self.columns[name] for name in names]

    @property
    def score(self) -> Array:
        """Scores [n]; a null of a parquet file is NaN."""
        column = self.columns["score"]
        if not column.null_count:
            return _numpy(column, np.float64)
        absent = _numpy(column.is_null().cast(pa.int8()), np.int8) == 1
        parts = [np.frombuffer(part.buffers()[1], np.float64, len(part), part.offset * 8) for part in column.chunks]
        return np.where(absent, np.nan, np.concatenate(parts))


def read(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a file with ``columns`` (``SCORES``, ``TRIALS`` or ``SPEAKERS``).

    Raises:
        DataError: it cannot be opened, is damaged, or lines do not have these columns; the first ten are named.
    """
    try:
        # A pipe can be read once only, and a second reading may be needed.
        source = path if path.is_file() else io.BytesIO(path.read_bytes())
        with _open(source) as stream:
            start = stream.read(4)
        if start == b"PAR1":
            return Table(str(path), _parquet(source, columns))
        return Table(str(path), _text(source, columns, str(path)))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"the gzip file is damaged: {error}", where=str(path), remedy="copy or make it anew") from error
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror or error}", where=str(path)) from error
    except pa.ArrowException as error:
        raise DataError(f"the parquet file cannot be read: {error}", where=str(path)) from error


def _numpy(column: pa.ChunkedArray, kind: type[Any]) -> npt.NDArray[Any]:
    # Arrow's own to_numpy imports pandas, and so does whatever makes an Arrow scalar.
    return np.concatenate([np.empty(0, kind), *(np.from_dlpack(chunk) for chunk in column.chunks if len(chunk))])


def _open(source: Path | io.BytesIO) -> BinaryIO:
    """The bytes of a source from their beginning, unpacked where they are gzip."""
    plain: BinaryIO = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getbuffer())
    magic = plain.read(2)
    plain.seek(0)
    return gzip.open(plain) if magic == b"\x1f\x8b" else plain  # type: ignore[return-value]


# Text ----------------------------------------------------------------------------------------------------------------


def _text(source: Path | io.BytesIO, columns: tuple[str, ...], where: str) -> dict[str, pa.ChunkedArray]:
    skip, names = _head(source, columns)
    if skip is None:
        return {name: pa.chunked_array([], type=pa.float64() if name == "score" else ID) for name in columns}
    # Most files have single blanks, which pyarrow takes as they are; others are read again with their blanks mended.
    for mended in (False, True):
        try:
            with _open(source) as stream:
                found = _parse(io.BufferedReader(_Mended(stream), _BLOCK) if mended else stream, skip, names)
        except pa.ArrowInvalid as error:
            if mended:
                raise _refusal(source, columns, where, skip, str(error)) from None
            continue
        if mended or not _holds_blanks(found):
            break
    return {name: found[name] for name in columns}


def _head(source: Path | io.BytesIO, columns: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """Lines before the data (None: there is no data), and the columns in the order of the file."""
    with _open(source) as stream:
        for before, line in enumerate(stream):
            fields = [field.decode(errors="replace").lower() for field in line.removeprefix(_BOM).split()]
            if not fields:
                continue
            if len(fields) == len(columns) == 3 and set(fields) >= _HEADER:
                return before + 1, tuple(field if field in _HEADER else columns[2] for field in fields)
            return before, columns
    return None, columns


def _parse(stream: Any, skip: int, names: tuple[str, ...]) -> pa.Table:
    try:
        return csv.read_csv(
            stream,
            csv.ReadOptions(column_names=names, skip_rows=skip, block_size=_BLOCK),
            csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, escape_char=False),
            csv.ConvertOptions(
                column_types={name: pa.float64() if name == "score" else ID for name in names},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return pa.table({name: pa.array([], pa.float64() if name == "score" else ID) for name in names})
        raise


def _holds_blanks(table: pa.Table) -> bool:
    """Whether an id is empty or holds white space: the blanks of the file are not single spaces."""
    for column in table.columns:
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else []:
            text = chunk.dictionary
            if len(text) and (pc.min(pc.binary_length(text)).as_py() == 0):
                return True
            data = text.buffers()[2]
            if data is not None and (np.frombuffer(data, np.uint8) <= ord(" ")).any():
                return True
    return False


class _Mended(io.RawIOBase):
    """A text with single spaces between fields and none at the ends of lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self.parts = _mended(stream)
        self.left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.left:
            part = next(self.parts, None)
            if part is None:
                return 0
            self.left = memoryview(part)
        size = min(len(buffer), len(self.left))
        buffer[:size] = self.left[:size]
        self.left = self.left[size:]
        return size


def _mended(stream: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_BLOCK):
        lines, end, rest = (rest + block).rpartition(b"\n")
        yield _single(lines + end)
    yield _single(rest)


def _single(lines: bytes) -> bytes:
    text = lines.translate(_BLANKS)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return text.strip(b" ")


def _refusal(
    source: Path | io.BytesIO, columns: tuple[str, ...], where: str, skip: int, parser_says: str, most: int = 10
) -> DataError:
    """The first lines that are at fault; only now are lines looked at one by one."""
    faults = []
    with _open(source) as stream:
        for number, line in enumerate(stream, 1):
            fields = line.removeprefix(_BOM if number == 1 else b"").split()
            if number <= skip or not fields:
                continue
            if len(fields) != len(columns):
                what = f"{len(fields)} fields instead of {len(columns)}"
            elif columns == SCORES and not _NUMBER.fullmatch(fields[2]):
                what = f"'{fields[2].decode(errors='replace')}' is not a number"
            elif not _is_utf8(line):
                what = "not UTF-8"
            else:
                continue
            faults.append(Fault(what, f"{where}:{number}"))
            if len(faults) == most:
                break
    return DataError(
        f"lines are not `{_SHAPES[columns]}`" + ("" if faults else f": {parser_says}"),
        where=where,
        cause="another kind of file, or one that was cut off",
        remedy="give one record a line, its fields parted by white space",
        faults=faults,
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


# Parquet -------------------------------------------------------------------------------------------------------------


def _parquet(source: Path | io.BytesIO, columns: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    """Columns by their names, or by their order where there are just as many of other names."""
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    held = file.schema_arrow.names
    if set(columns) <= set(held):
        wanted = list(columns)
    elif len(held) == len(columns):
        wanted = held
    else:
        raise pa.ArrowInvalid(f"its columns are {', '.join(held)} instead of {', '.join(columns)}")
    table = file.read(columns=wanted)
    found = {}
    for name, own in zip(columns, wanted):
        column = table[own]
        if name == "score":
            if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
                raise pa.ArrowInvalid(f"column {own} holds {column.type} instead of numbers")
            found[name] = column.cast(pa.float64())
            continue
        if column.null_count:
            raise pa.ArrowInvalid(f"column {own} has {column.null_count} rows without a value")
        found[name] = column.cast(pa.string()).dictionary_encode()
    return found
