"""Vectors by id from other people's files: Kaldi scp and ark, parquet, npz, VPC 2024's tensor, or a folder of such files.

Nothing that stands in a file is executed: commands in an scp and pickled objects are refused. All faults are raised at once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from pipeline.faults import TABLES, Faults
from pipeline.files import NotRegular, TooLarge, open_regular, read_memory
from pipeline.names import normalise_name
from pipeline.seeds import digest
from pipeline.tables import bounds, kaldi
from pipeline.tables import text as text_tables

log = logging.getLogger(__name__)

# kind: (likely cause, what mends it)
KINDS = {
    "no-entry": (
        "a system was added, or the label of its vectors is misspelt",
        "add the system to the setting: '+extractor.precomputed.vectors={LABEL: FILE}' (LABEL@2 for the second run of a "
        "random system)",
    ),
    "missing": ("a misspelt or unmounted path", "correct the path in extractor.precomputed.vectors"),
    "unknown-type": (
        "another format",
        "write .scp, .ark, .parquet (columns id and vector) or .npz (arrays ids and vectors)",
    ),
    "pickle": (
        "a format that runs code when it is loaded, which a run never does",
        "save two plain arrays: numpy.savez(FILE, ids=numpy.array(ids, dtype=str), vectors=numpy.array(vectors, "
        "dtype='float32'))",
    ),
    "command": (
        "an scp made by a Kaldi recipe; a run starts no commands that stand in data",
        "write the vectors into plain files: copy-vector scp:THIS.scp ark,scp:FILE.ark,FILE.scp executes what the scp says, so "
        "read that first",
    ),
    "missing-ark": (
        "a moved or incomplete copy; relative paths start at the folder of the scp, at the current folder, or at a folder "
        "above the scp",
        "restore the archives, or start the run in the folder in which the recipe ran",
    ),
    **TABLES,
    "too-large": (
        "another file, one with holes, or an archive that unpacks to far more than it is",
        "correct the path, or write the vectors again; many vectors may lie in several files of one folder",
    ),
    "malformed": ("an interrupted copy, or another format", "write the file again"),
    "matrix": (
        "features of frames or of pieces instead of one vector an utterance",
        "give one vector for each utterance (a matrix with one row is taken as a vector)",
    ),
    "ids": ("ids and vectors that were written separately", "write as many ids as there are vectors, in their order"),
    "empty": ("an incomplete copy, or a folder too high or too low", "restore the files, or correct the path"),
    "duplicate": (
        "files of several systems, runs or extractors in one folder, or sets with equal ids",
        "point to the files of one system and extractor; write SET/UTTERANCE as id where sets share ids",
    ),
    "dimension": ("vectors of several extractors together", "give the vectors of one extractor"),
    "not-finite": ("an extractor that failed on the utterance", "extract the vectors again"),
    "zero": ("an utterance without speech", "extract the vectors again, or take them and their utterances out"),
    "missing-vector": (
        "vectors of another data set, or ids that are spelt otherwise",
        "add the vectors under the id UTTERANCE, SET/UTTERANCE or SPEAKER-UTTERANCE, or take the utterances out of the data "
        "set; allow_partial=true goes on without them and marks the results",
    ),
    "ambiguous": ("ids with '-' that can be cut in two ways", "write SET/UTTERANCE or UTTERANCE as id"),
}

# What extractors and recipes leave beside utterance vectors: speaker means and their counts, and Kaldi's tables of audio.
_SKIPPED = re.compile(r"\.|spk_|num_|(wav|feats|vad|cmvn)\.scp$")
_PICKLES = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib"}
TENSOR, ROWS, ORDER = "speaker_vectors.pt", "id2idx", "idx2spk"
"""Files of VPC 2024: the vectors, the row of each id, and the ids by row."""
_MEANS = "spk-level"
"""Its folder of speakers' means."""
LARGEST = 64 << 30
"""Bytes of a file of vectors: sixty million of 256 values."""
_UNPACKED, _FREE = 100, 256 << 20
"""An archive may unpack to so many times its size; real numbers hardly shrink at all. Below so many bytes nobody minds."""


def make_faults() -> Faults:
    """An empty list of faults of files of vectors."""
    return Faults(KINDS, "the vectors have")


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Vectors by id.

    Attributes:
        ids: [n], sorted, each once.
        vectors: float32 [n, d], finite, none of them zero.
        digest: sha256 of ids and vectors, whatever their order and format in the files.
        path: where they were read from.
    """

    ids: tuple[str, ...]
    vectors: np.ndarray
    digest: str
    path: Path

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}


class _Vector(NamedTuple):
    """One vector as a file has it: float [d], and where it stands."""

    id: str
    values: np.ndarray
    where: str


class _Refused(Exception):
    """A fault of one vector or file, until it is listed."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind, self.what = kind, sentence


def read_vectors(path: Path) -> VectorTable:
    """Vectors by id of a file or of all files below a folder.

    Formats: Kaldi ``*.scp`` and ``*.ark`` (binary or text; a matrix with one row is a vector), ``*.parquet`` (columns ``id``
    or ``utterance``, and ``vector``, a list), ``*.npz`` (arrays ``ids`` and ``vectors``), ``speaker_vectors.pt`` of VPC 2024 (a
    plain tensor, beside ``id2idx``). Of a folder, ``.ark`` files beside an ``.scp``, files named ``spk_…`` and ``num_…``, and
    Kaldi's tables of audio (``wav.scp``, ``feats.scp``, ...) are passed over. float64 and float16 are rounded to float32.

    Raises:
        DataError: with all faults.
    """
    faults = make_faults()
    table = gather_vectors([path], faults)
    faults.stop(path)
    assert table is not None
    return table


def gather_vectors(paths: Sequence[Path], faults: Faults) -> VectorTable | None:
    """As :func:`read_vectors` for several paths together, but faults are listed in ``faults``; None if there were any."""
    places = [Path(place).expanduser().absolute() for place in paths]
    path = places[0] if len(places) == 1 else Path(os.path.commonpath(places))
    before = len(faults.found)
    vectors: list[_Vector] = []
    files = list(dict.fromkeys(file for place in places for file in _list_files(place, faults)))
    scps = [file for file in files if file.suffix.lower() == ".scp"]
    try:
        # Together, because recipes leave xvector.1.scp, xvector.2.scp, ... beside the xvector.scp of all.
        vectors += _read_scps(scps, faults)
        for file in files:
            if file not in scps:
                vectors += _read_file(file, faults)
    except OSError as error:
        faults.add("malformed", f"cannot be read ({error.strerror or error})", error.filename or path)
    if len(faults.found) == before and not vectors:
        faults.add("empty", "there are no vectors", path)
    table = _make_table(path, vectors, faults) if vectors else None
    return table if len(faults.found) == before else None


def _list_files(path: Path, faults: Faults) -> list[Path]:
    """The files to read, by the order of their paths. Links are followed, each folder once."""
    if not path.is_dir():
        suffix = path.suffix.lower()
        if not path.exists():
            faults.add("missing", "there is no such file or folder", path)
        elif suffix in _PICKLES and path.name != TENSOR:
            faults.add("pickle", f"files of the type {suffix} hold pickled objects", path)
        elif suffix not in (".scp", *_READERS):
            faults.add("unknown-type", f"files of the type '{suffix}' are not read", path)
        else:
            return [path]
        return []
    chosen: list[Path] = []
    seen: set[str] = set()
    for folder, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        names = [name for name in names if not _SKIPPED.match(name)]
        indexed = any(name.lower().endswith(".scp") for name in names)
        for name in names:
            suffix = Path(name).suffix.lower()
            readable = suffix in (".scp", *_READERS) and (suffix not in _PICKLES or name == TENSOR)
            if readable and Path(folder).name != _MEANS and not (indexed and suffix == ".ark"):
                chosen.append(Path(folder, name))
    if not chosen:
        faults.add("empty", f"the folder holds no .scp, .ark, .parquet, .npz or {TENSOR} of utterances", path)
    return sorted(chosen)


def _make_table(path: Path, found: Sequence[_Vector], faults: Faults) -> VectorTable:
    """Check vectors and put them in the order of their ids."""
    dimensions = Counter(len(vector.values) for vector in found)
    (dimension, usual), *_ = dimensions.most_common(1)
    for vector in found:
        if len(vector.values) != dimension:
            sentence = (
                f"'{vector.id}' has {len(vector.values)} values, but {usual} of {len(found)} vectors have {dimension}"
            )
            faults.add("dimension", sentence, vector.where)
    if dimension == 0:
        faults.add("malformed", "the vectors have no values", path)
    usable = [vector._replace(id=normalise_name(vector.id)) for vector in found if len(vector.values) == dimension]
    usable.sort(key=lambda vector: vector.id)
    # What is beyond the range of float32 becomes infinite, and is refused as that.
    with np.errstate(over="ignore"):
        vectors = np.array([vector.values for vector in usable], np.float32)
    kept: list[int] = []
    for row, vector in enumerate(usable):
        if not np.isfinite(vectors[row]).all():
            faults.add("not-finite", f"'{vector.id}' has values that are NaN, infinite or beyond float32", vector.where)
        elif dimension and not vectors[row].any():
            faults.add("zero", f"'{vector.id}' is zero in all its values", vector.where)
        elif kept and usable[kept[-1]].id == vector.id:
            if not np.array_equal(vectors[kept[-1]], vectors[row]):
                first = usable[kept[-1]].where
                faults.add("duplicate", f"'{vector.id}' has another vector at {first}", vector.where)
        else:
            kept.append(row)
    vectors = np.ascontiguousarray(vectors[kept])
    ids = tuple(usable[row].id for row in kept)
    content = hashlib.sha256(vectors.astype("<f4", copy=False).tobytes()).hexdigest()
    return VectorTable(ids, vectors, digest("vectors by id", ids, dimension, content), path)


# Kaldi -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """A line of an scp: the same vector may stand in several."""

    id: str
    ark: Path
    offset: int
    where: str = field(compare=False)


def _read_scps(scps: Iterable[Path], faults: Faults) -> list[_Vector]:
    """The vectors that scps point to; every line is checked before any archive is opened."""
    entries = dict.fromkeys(entry for scp in scps for entry in _read_scp(scp, faults))
    by_ark: dict[Path, list[_Entry]] = defaultdict(list)
    for entry in entries:
        by_ark[entry.ark].append(entry)
    vectors = []
    for ark, lines in by_ark.items():
        with open_regular(ark, LARGEST) as stream:
            size = os.fstat(stream.fileno()).st_size
            for entry in sorted(lines, key=lambda line: line.offset):
                stream.seek(entry.offset)
                try:
                    values = _read_object(stream, size)
                except _Refused as error:
                    faults.add(error.kind, f"'{entry.id}' in {ark}:{entry.offset}: {error.what}", entry.where)
                else:
                    vectors.append(_Vector(entry.id, values, entry.where))
    return vectors


def _read_scp(scp: Path, faults: Faults) -> list[_Entry]:
    """The sound lines of an scp."""
    places: dict[str, Path | None] = {}
    entries = []
    for line, where in text_tables.lines(scp, faults):
        fields = line.split(maxsplit=1)
        if len(fields) == 1:
            faults.add("malformed", f"'{fields[0]}' has no path", where)
            continue
        name, place = normalise_name(fields[0]), fields[1].strip()
        parsed = re.fullmatch(r"(.+):([0-9]{1,18})", place)
        file, offset = (parsed[1], int(parsed[2])) if parsed else (place, 0)
        if place.startswith("|") or place.endswith("|") or file.rstrip().endswith("|") or file == "-":
            sentence = "reads the standard input" if file == "-" else f"is a command: {place}"
            faults.add("command", f"'{name}' {sentence}", where)
        elif place.endswith("]") and "[" in place:
            faults.add("matrix", f"'{name}' is a cut of a matrix: {place}", where)
        else:
            if file not in places:
                places[file] = _find_archive(file, scp.parent)
            ark = places[file]
            if ark is None:
                faults.add("missing-ark", f"'{name}': there is no archive {file}", where)
            else:
                entries.append(_Entry(name, ark, offset, where))
    return entries


def _find_archive(name: str, folder: Path) -> Path | None:
    """The archive of a path in an scp. Kaldi's start where the recipe ran, which is mostly a folder above the scp."""
    starts = [folder, Path.cwd(), *folder.parents]
    return next((start / name for start in starts if (start / name).is_file()), None)


def _read_ark(path: Path, faults: Faults) -> list[_Vector]:
    vectors: list[_Vector] = []
    with open_regular(path, LARGEST) as stream:
        size = os.fstat(stream.fileno()).st_size
        while name := _read_token(stream):
            start = stream.tell()
            try:
                vectors.append(_Vector(name, _read_object(stream, size), f"{path}:{start}"))
            except _Refused as error:
                faults.add(error.kind, f"'{name}': {error.what}", f"{path}:{start}")
                # After a matrix the next id follows; after anything else it cannot be found.
                if error.kind != "matrix":
                    break
    return vectors


def _read_token(stream: BinaryIO) -> str:
    """The next id of an archive, with the blank after it; '' at the end."""
    token = b""
    while byte := stream.read(1):
        if not byte.isspace():
            token += byte
        elif token:
            break
        if len(token) > 4096:
            break
    try:
        if len(token) <= 4096:
            return token.decode()
    except UnicodeDecodeError:
        pass
    raise _Refused("malformed", "no id where one was expected: this is no Kaldi archive of vectors, or it is damaged")


def _read_object(stream: BinaryIO, size: int) -> np.ndarray:
    """The vector [d] that begins here in an archive of ``size`` bytes; the stream is left behind it.

    Raises:
        _Refused: it is no vector.
    """
    start = stream.tell()
    binary = stream.read(2) == b"\0B"
    stream.seek(start + 2 * binary)
    try:
        array = kaldi.read_array(stream, size, binary)
    except kaldi.Malformed as error:
        raise _Refused("malformed", str(error)) from None
    if array.ndim == 2 and len(array) != 1:
        rows, columns = array.shape
        raise _Refused("matrix", f"a matrix of {rows} rows and {columns} columns, not one vector")
    return array.reshape(-1)


# Tables ----------------------------------------------------------------------------------------------------------------


def _read_file(path: Path, faults: Faults) -> list[_Vector]:
    try:
        return _READERS[path.suffix.lower()](path, faults)
    except _Refused as error:
        faults.add(error.kind, error.what, path)
    except NotRegular as error:
        faults.add("not-a-file", str(error.strerror), path)
    except TooLarge as error:
        faults.add("too-large", str(error.strerror), path)
    except MemoryError:
        faults.add("too-large", "does not fit into the memory of this machine", path)
    return []


def _check_unpacked(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse an archive that unpacks to far more than it is, or than memory holds."""
    size = sum(member.file_size for member in archive.infolist())
    if size > max(_FREE, _UNPACKED * path.stat().st_size):
        raise _Refused(
            "too-large", f"unpacks from {path.stat().st_size:,} bytes to {size:,}: no vectors shrink like that"
        )
    if size > read_memory():
        raise _Refused("too-large", f"takes {size:,} bytes, and this machine has {read_memory():,}")


def _pair_with_ids(path: Path, ids: Sequence[str], vectors: Sequence[np.ndarray]) -> list[_Vector]:
    if len(ids) != len(vectors):
        raise _Refused("ids", f"{len(ids)} ids for {len(vectors)} vectors")
    if not all(ids):
        raise _Refused("ids", "there are ids without a letter")
    return [_Vector(name, vector, str(path)) for name, vector in zip(ids, vectors)]


def _read_npz(path: Path, faults: Faults) -> list[_Vector]:
    with open_regular(path, LARGEST) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                _check_unpacked(archive, path)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                ids, vectors = arrays["ids"], arrays["vectors"]
        except _Refused:
            raise
        except Exception as error:  # whatever zipfile and numpy make of damaged bytes
            if isinstance(error, MemoryError):
                raise
            kind = "pickle" if "allow_pickle" in str(error) else "malformed"
            raise _Refused(kind, f"is no npz archive of plain arrays 'ids' and 'vectors' ({error})") from None
    if ids.ndim != 1 or ids.dtype.kind != "U":
        raise _Refused("ids", f"'ids' is {ids.dtype} of {ids.ndim} dimensions, not a list of texts")
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        shape = " × ".join(map(str, vectors.shape))
        raise _Refused("malformed", f"'vectors' is {vectors.dtype} [{shape}], not real numbers, one row an id")
    return _pair_with_ids(path, ids.tolist(), list(vectors))


def _read_parquet(path: Path, faults: Faults) -> list[_Vector]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with open_regular(path, LARGEST) as stream:
            size = bounds.check_parquet(stream)
            if size > read_memory():
                raise _Refused("too-large", f"takes {size:,} bytes, and this machine has {read_memory():,}")
            table = pq.ParquetFile(stream).read()
    except (NotRegular, TooLarge):
        raise
    except (pa.ArrowException, OSError) as error:
        raise _Refused("malformed", f"cannot be read ({str(error).splitlines()[0]})") from None
    name = "id" if "id" in table.column_names else "utterance"
    if not {name, "vector"} <= set(table.column_names):
        columns = ", ".join(table.column_names[:10])
        raise _Refused("ids", f"there are no columns id (or utterance) and vector (there are: {columns})")
    ids, column = table.column(name).to_pylist(), table.column("vector")
    if not all(isinstance(text, str) for text in ids):
        raise _Refused("ids", f"the column {name} holds something else than texts")
    lists = (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    )
    if not lists or not pa.types.is_floating(column.type.value_type):
        raise _Refused("malformed", f"the column vector is {column.type}, not a list of real numbers")
    # A list that is null has no values.
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    flat = pc.list_flatten(column).to_numpy()
    return _pair_with_ids(path, ids, np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else [])


def _read_tensor(path: Path, faults: Faults) -> list[_Vector]:
    """The rows of a tensor by ``id2idx``.

    VPC 2024 itself reads rows back by ``idx2spk`` sorted as text, 10 before 2, once an extraction was resumed, and then models are means of
    other speakers' vectors: where the two tables disagree, that is said.
    """
    import torch

    rows = _read_rows(path.with_name(ROWS))
    with open_regular(path, LARGEST) as stream:
        if zipfile.is_zipfile(stream):
            with zipfile.ZipFile(stream) as archive:
                _check_unpacked(archive, path)
        stream.seek(0)
        try:
            tensor = torch.load(stream, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever torch makes of damaged bytes
            if type(error).__name__ == "UnpicklingError":
                raise _Refused("pickle", "holds something else than plain tensors") from None
            raise _Refused("malformed", f"cannot be read ({str(error).splitlines()[0][:200]})") from None
    if not (isinstance(tensor, torch.Tensor) and tensor.ndim == 2 and tensor.is_floating_point()):
        raise _Refused("malformed", "is not one matrix of real numbers, a row a vector")
    if not tensor.is_contiguous() or sorted(rows.values()) != list(range(len(tensor))):
        raise _Refused("ids", f"{path.with_name(ROWS)} has {len(rows)} ids, not one for each of the {len(tensor)} rows")
    _warn_of_order(path, rows)
    return _pair_with_ids(path, sorted(rows, key=rows.__getitem__), list(tensor.double().numpy()))


def _read_rows(path: Path) -> dict[str, int]:
    """The row of each id: lines ``ID ROW``."""
    try:
        lines = [line.split() for line in text_tables.text(path).splitlines() if line.strip()]
        rows = {name: int(row) for name, row in lines}
    except text_tables.Unreadable as error:
        raise _Refused("ids" if error.kind == "malformed" else error.kind, f"{path}: {error.what}") from None
    except OSError as error:
        raise _Refused("ids", f"{path}, the table of its rows, cannot be read ({error.strerror})") from None
    except ValueError:
        raise _Refused("ids", f"{path} has lines that are not 'ID ROW'") from None
    if len(rows) != len(lines):
        raise _Refused("ids", f"{path} has an id twice")
    return rows


def _warn_of_order(path: Path, rows: dict[str, int]) -> None:
    """Warn where ``idx2spk`` beside a tensor gives other rows than ``id2idx``."""
    order = path.with_name(ORDER)
    try:
        lines = [line.split() for line in text_tables.text(order).splitlines() if line.strip()]
    except (text_tables.Unreadable, OSError):
        return
    # With the row before or behind the id, or without it.
    numbered = [fields if fields[0].isdecimal() else fields[::-1] for fields in lines if len(fields) == 2]
    told = {name: int(row) for row, name in numbered if row.isdecimal()} if len(numbered) == len(lines) else {}
    told = told or {fields[-1]: number for number, fields in enumerate(lines)}
    off = sorted(name for name, row in told.items() if name in rows and rows[name] != row)
    if off:
        log.warning(
            "%s: %d of %d rows are another's by %s than by %s, which is followed here (e.g. %s): the fault of a resumed extraction "
            "in VPC 2024, whose own scores then are of shuffled speakers",
            path, len(off), len(rows), ORDER, ROWS, ", ".join(off[:3]),
        )  # fmt: skip


_READERS: dict[str, Callable[[Path, Faults], list[_Vector]]] = {
    ".ark": _read_ark,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".pt": _read_tensor,
}
