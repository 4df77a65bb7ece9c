"""Tables of ids and scores: text (plain or gzip) or parquet, read by pyarrow without a loop over lines.

Lines are ``ID1 ID2 SCORE``, ``ID1 ID2 target|nontarget`` or ``ID SPEAKER``, parted by any white space; other layouts:
:mod:`pipeline.datasets.scores.columns`. Scores that the pipeline keeps (``scores.parquet``, ``scores.safetensors`` with its rows
and columns) are read too. What a file is, is told by its content, not its name. Ids are compared in NFC.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
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

from pipeline.datasets.scores.columns import (
    SCORES,
    SHAPES,
    SPEAKERS,
    TRIALS,
    Layout,
    Unclear,
    detect_layout,
    is_number,
    match_header,
    split_fields,
)
from pipeline.errors import DataError, Fault
from pipeline.files import NotRegular, open_regular
from pipeline.tables import bounds

__all__ = ["SCORES", "SPEAKERS", "TRIALS", "Array", "Table", "read_table"]
Array = npt.NDArray[np.float64]

ID = pa.dictionary(pa.int32(), pa.string())
"""The type of columns of ids."""

TRIAL_SCORES, MATRIX = "scores.parquet", "scores.safetensors"
"""Scores of trials and of all pairs as the pipeline keeps them."""

_BLOCK, _LONGEST_LINE, _LARGEST_PIPE = 1 << 24, 1 << 20, 8 << 30
_SAMPLE = 1000
_OUR_COLUMNS = {"model_speaker", "speaker", "model", "utterance"}
Columns = dict[str, pa.ChunkedArray]


@dataclass(frozen=True)
class Table:
    """Columns of one file; those of ids are dictionary-encoded, the score is float64."""

    where: str
    columns: Columns
    note: str = ""
    """What was made of columns that are not as we write them."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def ids(self, *names: str) -> list[pa.ChunkedArray]:
        return [self.columns[name] for name in names]

    @property
    def score(self) -> Array:
        """Scores [n]; a null of a parquet file is NaN."""
        return np.asarray(self.columns["score"].to_numpy(), np.float64)


def read_table(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a file with ``columns`` (``SCORES``, ``TRIALS`` or ``SPEAKERS``), or the folder of scores that the pipeline keeps.

    Raises:
        DataError: it cannot be opened, is no file, is damaged, or lines do not have these columns; the first ten are named.
    """
    try:
        if path.is_dir():
            path = next((path / name for name in (TRIAL_SCORES, MATRIX) if (path / name).is_file()), path)
        if path.name == MATRIX:
            return Table(str(path), _read_matrix(path, columns))
        source = _open_source(path)
        with _open_bytes(source) as stream:
            is_parquet = stream.read(4) == b"PAR1"
            if is_parquet:
                bounds.check_parquet(stream)
        read = _read_parquet(source, columns) if is_parquet else _read_text(source, columns, str(path))
        composed = {name: column if name == "score" else _compose_ids(column) for name, column in read[0].items()}
        return Table(str(path), composed, read[1])
    except NotRegular as error:
        raise DataError(
            f"the path {error.strerror}",
            where=str(path),
            cause="a pipe or a device in the place of a file",
            remedy="write what comes through it to a file, or give <(COMMAND)",
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"the gzip file is damaged: {error}", where=str(path), remedy="copy or make it anew") from error
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror or error}", where=str(path)) from error
    except pa.ArrowException as error:
        raise DataError(f"the parquet file cannot be read: {error}", where=str(path)) from error


def _open_source(path: Path) -> Path | io.BytesIO:
    """A regular file, or what came through a pipe of the shell (``<(...)``), which can be read once only.

    Raises:
        NotRegular: another pipe, a device or a socket.
        OSError: it cannot be read.
    """
    try:
        with open_regular(path) as stream:
            # What the system only shows as a file (/proc) has no size, and may never end.
            return path if os.fstat(stream.fileno()).st_size else io.BytesIO()
    except NotRegular:
        if not (stat.S_ISFIFO(path.stat().st_mode) and str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))):
            raise
    with path.open("rb") as stream:
        content = stream.read(_LARGEST_PIPE + 1)
    if len(content) > _LARGEST_PIPE:
        raise OSError(errno.EFBIG, f"more than {_LARGEST_PIPE:,} bytes came through the pipe")
    return io.BytesIO(content)


def _compose_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids in NFC: a name typed on one system and copied from another is one name."""
    if all(pc.all(pc.string_is_ascii(chunk.dictionary), min_count=0).as_py() for chunk in column.chunks):
        return column
    return pc.utf8_normalize(column.cast(pa.string()), form="NFC").dictionary_encode()


def _open_bytes(source: Path | io.BytesIO) -> BinaryIO:
    """The bytes of a source from their beginning, unpacked where they are gzip."""
    plain: BinaryIO = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getbuffer())
    magic = plain.read(2)
    plain.seek(0)
    return gzip.open(plain) if magic == b"\x1f\x8b" else plain  # type: ignore[return-value]


# Text ----------------------------------------------------------------------------------------------------------------


def _read_text(source: Path | io.BytesIO, columns: tuple[str, ...], where: str) -> tuple[Columns, str]:
    with _open_bytes(source) as stream:
        lines = [line for _, line in zip(range(_SAMPLE), _read_lines(stream, where))]
    try:
        layout = detect_layout(lines, columns)
    except Unclear as error:
        raise DataError(
            f"lines are not `{SHAPES[columns]}`: {error}",
            where=where,
            remedy=f"write a file with lines `{SHAPES[columns]}`",
        ) from None
    if layout is None:
        return {name: pa.chunked_array([], type=_column_type(name)) for name in columns}, ""
    # Most files have single blanks, which pyarrow takes as they are; others are read again with their blanks mended.
    for mended in (True,) if layout.delimiter else (False, True):
        try:
            with _open_bytes(source) as stream:
                table = _parse_csv(_mend_blanks(stream, layout.delimiter) if mended else stream, layout, columns)
        except pa.ArrowInvalid as error:
            if mended:
                raise _refuse_lines(source, columns, layout, where, str(error)) from None
            continue
        if mended or not _has_blanks(table):
            break
    return {name: table[name] for name in columns}, layout.note


def _column_type(name: str) -> pa.DataType:
    return pa.float64() if name == "score" else ID


def _read_lines(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """The lines of a text, without a byte order mark.

    Raises:
        DataError: what is in it is no text, or text in another encoding.
    """
    first = True
    while line := stream.readline(_LONGEST_LINE):
        if first and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(
                "the file is UTF-16, not UTF-8",
                where=where,
                cause="a file written by PowerShell or a spreadsheet",
                remedy="save it as UTF-8 (iconv -f UTF-16 -t UTF-8)",
            )
        if b"\0" in line or (len(line) == _LONGEST_LINE and not line.endswith(b"\n")):
            what = "zero bytes" if b"\0" in line else f"a line of more than {_LONGEST_LINE:,} bytes"
            raise DataError(f"the file holds {what}: it is no text table", where=where, remedy="correct the path")
        yield line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False


def _parse_csv(stream: Any, layout: Layout, columns: tuple[str, ...]) -> pa.Table:
    try:
        return csv.read_csv(
            stream,
            csv.ReadOptions(column_names=layout.names, skip_rows=layout.skip, block_size=_BLOCK),
            csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, escape_char=False),
            csv.ConvertOptions(
                column_types={name: _column_type(name) for name in columns},
                include_columns=list(columns),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return pa.table({name: pa.array([], _column_type(name)) for name in columns})
        raise


def _has_blanks(table: pa.Table) -> bool:
    """Whether an id is empty or holds white space: the blanks of the file are not single spaces."""
    words = [chunk.dictionary for column in table.columns if column.type == ID for chunk in column.chunks]
    return any(pc.any(pc.match_substring_regex(ids, r"^$|[\x00-\x20]"), min_count=0).as_py() for ids in words)


def _mend_blanks(stream: BinaryIO, delimiter: bytes) -> io.BytesIO:
    """A text with single spaces between fields and none at the ends of lines."""
    blanks = bytes.maketrans(b"\t\v\f\r" + delimiter, b"    " + b" " * len(delimiter))
    text = stream.read().translate(blanks, b'"' if delimiter else b"")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return io.BytesIO(text.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" "))


def _refuse_lines(
    source: Path | io.BytesIO, columns: tuple[str, ...], layout: Layout, where: str, parser_says: str, most: int = 10
) -> DataError:
    """The first lines that are at fault; only now are lines looked at one by one."""
    faults = []
    score = layout.names.index("score") if "score" in columns else None
    with _open_bytes(source) as stream:
        for number, line in enumerate(_read_lines(stream, where), 1):
            cells = split_fields(line, layout.delimiter)
            if number <= layout.skip or not cells:
                continue
            if len(cells) != len(layout.names):
                what = f"{len(cells)} fields instead of {len(layout.names)}"
            elif score is not None and not is_number(cells[score]):
                what = f"'{cells[score]}' is not a number"
            elif line.decode(errors="replace").encode() != line:
                what = "not UTF-8"
            else:
                continue
            faults.append(Fault(what, f"{where}:{number}"))
            if len(faults) == most:
                break
    return DataError(
        f"lines are not `{SHAPES[columns]}`" + ("" if faults else f": {parser_says}"),
        where=where,
        cause="another kind of file, or one that was cut off",
        remedy="give one record a line, its fields parted by white space",
        faults=faults,
    )


# Parquet and matrices ------------------------------------------------------------------------------------------------


def _read_parquet(source: Path | io.BytesIO, columns: tuple[str, ...]) -> tuple[Columns, str]:
    """Columns by their names, or by their order where there are just as many of other names; and what was made of them."""
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    header = file.schema_arrow.names
    if columns == SPEAKERS and set(header) >= _OUR_COLUMNS:
        return _read_both_sides(file.read(columns=sorted(_OUR_COLUMNS))), ""
    named = match_header(header, columns)
    note = ""
    if set(columns) <= set(header):
        wanted = list(columns)
    elif named:
        wanted = [header[named.index(name)] for name in columns]
        note = "" if set(header) >= _OUR_COLUMNS else f"columns {', '.join(wanted)} taken for {', '.join(columns)}"
    elif len(header) == len(columns):
        wanted = header
    else:
        raise pa.ArrowInvalid(f"its columns are {', '.join(header)} instead of {', '.join(columns)}")
    table = file.read(columns=wanted)
    columns_read = {}
    for name, own in zip(columns, wanted):
        column = table[own]
        if name == "score":
            if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
                raise pa.ArrowInvalid(f"column {own} holds {column.type} instead of numbers")
            columns_read[name] = column.cast(pa.float64())
            continue
        if column.null_count:
            raise pa.ArrowInvalid(f"column {own} has {column.null_count} rows without a value")
        columns_read[name] = column.cast(pa.string()).dictionary_encode()
    return columns_read, note


def _read_both_sides(table: pa.Table) -> Columns:
    """Ids and speakers of both sides of our scores of trials, each id once."""
    sides = [
        table.select(names).rename_columns(list(SPEAKERS))
        for names in (["model", "model_speaker"], ["utterance", "speaker"])
    ]
    both = pa.concat_tables([side.group_by(list(SPEAKERS)).aggregate([]) for side in sides])
    each = both.group_by(list(SPEAKERS)).aggregate([])
    return {name: each[name].cast(pa.string()).dictionary_encode() for name in SPEAKERS}


def _read_matrix(path: Path, columns: tuple[str, ...]) -> Columns:
    """All cells of a matrix that the pipeline keeps, as lines.

    Raises:
        DataError: it is damaged, or not scores are asked for.
    """
    from pyarrow import parquet
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if columns != SCORES:
        raise DataError(
            f"a matrix of scores instead of `{SHAPES[columns]}`",
            where=str(path),
            remedy=f"give {path.with_name('rows.parquet')} or {path.with_name('columns.parquet')} for ids and speakers",
        )
    try:
        scores = load_file(path)["scores"]
    except (SafetensorError, KeyError) as error:
        raise DataError(f"the matrix of scores is damaged: {error}", where=str(path), remedy="make it anew") from error
    ids = [parquet.read_table(path.with_name(f"{name}.parquet"))["id"] for name in ("rows", "columns")]
    if scores.shape != tuple(map(len, ids)):
        raise DataError(
            f"the matrix is of shape {scores.shape}, its ids are {len(ids[0])} and {len(ids[1])}", where=str(path)
        )
    places = np.indices(scores.shape, dtype=np.int32).reshape(2, -1)
    encoded = {
        name: pa.chunked_array([pa.DictionaryArray.from_arrays(place, names.cast(pa.string()).combine_chunks())])
        for name, place, names in zip(SCORES, places, ids)
    }
    return {**encoded, "score": pa.chunked_array([pa.array(scores.ravel(), pa.float64())])}
