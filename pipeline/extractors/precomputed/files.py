"""Vectors by id from other people's files: Kaldi scp and ark, parquet, npz, safetensors, or a folder of such files.

Nothing that stands in a file is executed: a command in an scp and a pickled object are refused before kaldiio, which would
run the one and load the other, or numpy come to them. All faults of a file are raised at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import struct
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from pipeline.faults import TABLES, Faults
from pipeline.files import NotRegular, TooLarge, open_regular, read_memory
from pipeline.names import normalise_name
from pipeline.seeds import digest
from pipeline.tables import bounds
from pipeline.tables import text as text_tables

if TYPE_CHECKING:
    import pyarrow as pa

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
        "write .scp, .ark, .parquet (columns id and vector), .npz or .safetensors (ids and vectors)",
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
    "ambiguous": (
        "ids with '-' that can be cut in two ways",
        "write SET/UTTERANCE or UTTERANCE as id",
    ),
}

# What extractors and recipes leave beside utterance vectors: speaker means and their counts, and Kaldi's tables of audio.
_SKIPPED = re.compile(r"\.|spk_|num_|(wav|feats|vad|cmvn)\.scp$")
_PICKLES = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib"}
_LONGEST_ID = 4096
TENSOR, ROWS, ORDER = "speaker_vectors.pt", "id2idx", "idx2spk"
"""Files of VPC 2024: the vectors, the row of each id, and the ids by row."""
_MEANS = "spk-level"
"""Its folder of speakers' means."""
LARGEST = 64 << 30
"""Bytes of a file of vectors: sixty million of 256 values."""
LONGEST = 1 << 20
"""Values of a vector; no extractor gives nearly as many."""
_UNPACKED, _FREE = 100, 256 << 20
"""An npz may unpack to so many times its size; real numbers hardly shrink at all. Below so many bytes nobody minds."""


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


@dataclass(frozen=True, eq=False)
class _Vector:
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

    Formats: Kaldi ``*.scp`` and ``*.ark`` (binary or text; a matrix with one row is a vector), ``*.parquet`` (a column ``id``
    or ``utterance``, and a list column ``vector`` or columns ``0``, ``1``, ... or ``v0``, ``v1``, ...), ``*.npz`` (arrays
    ``ids`` and ``vectors``), ``*.safetensors`` (tensor ``vectors``; ids a line each in ``NAME.ids.txt`` or as a JSON list in
    the metadata entry ``ids``), ``speaker_vectors.pt`` of VPC 2024 (one plain tensor, beside ``id2idx``). Of a folder, ``.ark`` files beside an ``.scp``, files named ``spk_…`` and ``num_…``, and
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
    """As :func:`read` for one path or several together, but faults are listed in ``faults``; None if there were any."""
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
    """The files to read, by the order of their relative paths. Links are followed, each folder once."""
    if not path.is_dir():
        suffix = path.suffix.lower()
        if not path.is_file():
            try:
                with open_regular(path):
                    pass
            except NotRegular as error:
                faults.add("not-a-file", str(error.strerror), path)
            except OSError:
                faults.add("missing", "there is no such file or folder", path)
        elif suffix in _PICKLES and path.name != TENSOR:
            faults.add("pickle", f"files of the type {suffix} hold pickled objects", path)
        elif suffix not in (".scp", *_READERS):
            faults.add("unknown-type", f"files of the type '{suffix}' are not read", path)
        else:
            return [path]
        return []
    chosen: list[Path] = []
    others: set[str] = set()
    seen: set[str] = set()
    for folder, below, names in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        indexed = any(name.lower().endswith(".scp") and not name.startswith((".", "spk_", "num_")) for name in names)
        for name in names:
            suffix = Path(name).suffix.lower()
            if suffix not in (".scp", *_READERS) or (suffix in _PICKLES and name != TENSOR):
                others.add(suffix)
            elif not _SKIPPED.match(name) and Path(folder).name != _MEANS and not (indexed and suffix == ".ark"):
                chosen.append(Path(folder, name))
    if not chosen:
        pickles = sorted(others & _PICKLES)
        if pickles:
            faults.add("pickle", f"the folder holds files of pickled objects alone ({', '.join(pickles)})", path)
        else:
            faults.add("empty", "the folder holds no .scp, .ark, .parquet, .npz or .safetensors of utterances", path)
    return sorted(chosen)


def _make_table(path: Path, vectors_by_id: Sequence[_Vector], faults: Faults) -> VectorTable:
    """Check vectors and put them in the order of their ids."""
    dimensions = Counter(len(vector.values) for vector in vectors_by_id)
    (dimension, usual), *_ = dimensions.most_common(1)
    for vector in vectors_by_id:
        if len(vector.values) != dimension:
            sentence = f"'{vector.id}' has {len(vector.values)} values, but {usual} of {len(vectors_by_id)} vectors have {dimension}"
            faults.add("dimension", sentence, vector.where)
    if dimension == 0:
        faults.add("malformed", "the vectors have no values", path)
    vectors_by_id = [
        replace(vector, id=normalise_name(vector.id)) for vector in vectors_by_id if len(vector.values) == dimension
    ]
    vectors_by_id = sorted(vectors_by_id, key=lambda vector: vector.id)
    vectors = np.empty((len(vectors_by_id), dimension), np.float32)
    # What is beyond the range of float32 becomes infinite, and is refused as that.
    with np.errstate(over="ignore"):
        for row, vector in enumerate(vectors_by_id):
            vectors[row] = vector.values
    finite: np.ndarray = np.asarray(np.isfinite(vectors).all(axis=1))
    zero: np.ndarray = np.asarray((vectors == 0).all(axis=1))
    kept: list[int] = []
    for row, vector in enumerate(vectors_by_id):
        if not finite[row]:
            faults.add("not-finite", f"'{vector.id}' has values that are NaN, infinite or beyond float32", vector.where)
        elif zero[row] and dimension:
            faults.add("zero", f"'{vector.id}' is zero in all its values", vector.where)
        if kept and vectors_by_id[kept[-1]].id == vector.id:
            first = vectors_by_id[kept[-1]]
            if not np.array_equal(vectors[kept[-1]], vectors[row]) and finite[row] and finite[kept[-1]]:
                faults.add("duplicate", f"'{vector.id}' has another vector at {first.where}", vector.where)
        else:
            kept.append(row)
    vectors = np.ascontiguousarray(vectors[kept])
    ids = tuple(vectors_by_id[row].id for row in kept)
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
        name = ""
        try:
            while name := _read_token(stream):
                start = stream.tell()
                try:
                    vectors.append(_Vector(name, _read_object(stream, size), f"{path}:{start}"))
                except _Refused as error:
                    faults.add(error.kind, f"'{name}': {error.what}", f"{path}:{start}")
                    # After a matrix the next id follows; after anything else it cannot be found.
                    if error.kind != "matrix":
                        break
        except _Refused as error:
            faults.add(error.kind, error.what, f"{path}:{stream.tell()}")
    return vectors


def _read_token(stream: BinaryIO) -> str:
    """The next id of an archive, with the blank after it; '' at the end."""
    token = b""
    while byte := stream.read(1):
        if not byte.isspace():
            token += byte
        elif token:
            break
        if len(token) > _LONGEST_ID:
            raise _Refused("malformed", f"no id in {_LONGEST_ID} bytes: this is no Kaldi archive of vectors")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _Refused("malformed", "an id that is no text: this is no Kaldi archive, or it is damaged") from None


def _read_object(stream: BinaryIO, size: int) -> np.ndarray:
    """The vector [d] that begins here in an archive of ``size`` bytes; the stream is left behind it.

    The header is read here first: kaldiio unpickles what begins with PKL, and takes a vector that ends early for a short one.

    Raises:
        _Refused: it is no vector.
    """
    start = stream.tell()
    head = stream.read(32)
    stream.seek(start)
    if not head.startswith(b"\0B"):
        return _read_text_vector(stream, head)
    shape, length = _read_header(head)
    if start + length > size:
        raise _Refused("malformed", f"the archive ends early: {length} bytes are to follow, and {size - start} do")
    if len(shape) == 2 and shape[0] != 1:
        stream.seek(start + length)
        raise _not_single(shape)
    if shape[-1] > LONGEST:
        raise _Refused("too-large", f"a vector of {shape[-1]:,} values; at most {LONGEST:,} are read")
    from kaldiio.matio import read_kaldi

    values = np.asarray(read_kaldi(stream))
    if len(shape) == 1:
        return values
    return _take_single_row(values)


def _read_header(head: bytes) -> tuple[tuple[int, ...], int]:
    """The shape that a binary header tells, and the bytes of header and values together."""
    kind = head[2:].split(b" ")[0]
    begin = 3 + len(kind)
    single, two, packed = "<Bi", "<BiBi", "<8xii"
    layout = {b"FV": single, b"DV": single, b"FM": two, b"DM": two, b"CM": packed, b"CM2": packed, b"CM3": packed}
    if kind not in layout:
        contents = "integers" if head[2:3] == b"\4" else f"the binary type {kind[:8]!r}"
        raise _Refused("malformed", f"{contents} instead of a vector of real numbers")
    try:
        numbers: tuple[int, ...] = struct.unpack_from(layout[kind], head, begin)
    except struct.error:
        raise _Refused("malformed", "the archive ends early, inside a header") from None
    # The sizes of what is not compressed each follow a byte that tells their width.
    widths, shape = ((), numbers) if kind.startswith(b"C") else (numbers[::2], numbers[1::2])
    if min(shape) < 0 or set(widths) - {4}:
        raise _Refused("malformed", "the header is damaged")
    begin += struct.calcsize(layout[kind])
    width = {b"FV": 4, b"FM": 4, b"DV": 8, b"DM": 8, b"CM2": 2}.get(kind, 1)
    count = math.prod(shape)
    # CM has four 16-bit percentiles for each column.
    return shape, begin + width * count + (8 * shape[1] if kind == b"CM" else 0)


def _read_text_vector(stream: BinaryIO, head: bytes) -> np.ndarray:
    """A vector ``[ 1 2.5 … ]`` or a matrix with a row a line.

    Not by kaldiio, which takes all values for integers when the first has no point.
    """
    if not head.lstrip().startswith(b"["):
        magics = {
            b"PKL": "pickle",
            b"NPY": "malformed",
            b"AUDIO": "malformed",
            b"RIFF": "malformed",
            b"fLaC": "malformed",
        }
        for magic, kind in magics.items():
            if head.startswith(magic):
                raise _Refused(kind, f"an object of the type {magic.decode()} instead of a vector")
        raise _Refused("malformed", "neither a binary nor a text vector begins here")
    text = b""
    while b"]" not in text:
        line = stream.readline(32 * LONGEST)
        if len(text) + len(line) > 32 * LONGEST - 1:
            raise _Refused("too-large", f"a vector of more than {32 * LONGEST:,} bytes of text")
        if not line:
            raise _Refused("malformed", "the archive ends early: no ']' follows")
        text += line
    inside, _, following = text.partition(b"]")
    if following.strip():
        raise _Refused("malformed", f"{following.strip()[:20]!r} follows a vector in its line")
    lines = [line.split() for line in inside.replace(b"[", b" ", 1).split(b"\n")]
    try:
        rows = [[float(value) for value in line] for line in lines if line]
    except ValueError as error:
        raise _Refused("malformed", f"not a number: {error}") from None
    if len({len(row) for row in rows}) > 1:
        raise _Refused("matrix", f"{len(rows)} rows of different lengths instead of one vector")
    return _take_single_row(np.array(rows or [[]], np.float64))


def _take_single_row(matrix: np.ndarray) -> np.ndarray:
    if len(matrix) != 1:
        raise _not_single(matrix.shape)
    row: np.ndarray = matrix[0]
    return row


def _not_single(shape: Sequence[int]) -> _Refused:
    return _Refused("matrix", f"a matrix of {shape[0]} rows and {shape[1]} columns, not one vector")


# Tables ----------------------------------------------------------------------------------------------------------------


def _read_file(path: Path, faults: Faults) -> list[_Vector]:
    try:
        return _READERS[path.suffix.lower()](path, faults)
    except _Refused as error:
        faults.add(error.kind, error.what, path)
    except (NotRegular, TooLarge) as error:
        faults.add("not-a-file" if isinstance(error, NotRegular) else "too-large", str(error.strerror), path)
    except MemoryError:
        faults.add("too-large", "does not fit into the memory of this machine", path)
    return []


def _check_memory(title: str, size: int) -> None:
    """Refuse what takes more memory than there is, before it is asked for."""
    if size > read_memory():
        raise _Refused("too-large", f"{title} takes {size:,} bytes, and this machine has {read_memory():,}")


def _rows(path: Path, ids: Sequence[str], vectors: np.ndarray) -> list[_Vector]:
    """The rows of a matrix [n, d] with their ids."""
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        shape = " × ".join(str(size) for size in vectors.shape)
        raise _Refused(
            "malformed", f"'vectors' is {vectors.dtype} [{shape}], not a matrix of real numbers, one row an id"
        )
    return _pair_with_ids(path, ids, list(vectors))


def _pair_with_ids(path: Path, ids: Sequence[str], vectors: Sequence[np.ndarray]) -> list[_Vector]:
    if len(ids) != len(vectors):
        raise _Refused("ids", f"{len(ids)} ids for {len(vectors)} vectors")
    if not all(ids):
        raise _Refused("ids", "there are ids without a letter")
    return [_Vector(name, vector, str(path)) for name, vector in zip(ids, vectors)]


def _read_npz(path: Path, faults: Faults) -> list[_Vector]:
    arrays: dict[str, np.ndarray] = {}
    with open_regular(path, LARGEST) as stream:
        if not zipfile.is_zipfile(stream):
            stream.seek(0)
            pickled = stream.read(1) == b"\x80"
            raise _Refused("pickle", "is a pickled object") if pickled else _Refused("malformed", "is no npz archive")
        try:
            _check_npz(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in ("ids", "vectors")}
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
            if "allow_pickle" in str(error):
                raise _Refused("pickle", "'ids' or 'vectors' is an array of pickled objects") from None
            raise _Refused("malformed", f"is damaged ({error})") from None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "US":
        raise _Refused("ids", f"'ids' is {ids.dtype} of {ids.ndim} dimensions, not a list of texts")
    if ids.dtype.kind == "S":
        ids = np.char.decode(ids, "utf-8", "replace")
    return _rows(path, [str(name) for name in ids], arrays["vectors"])


def _check_npz(stream: BinaryIO) -> None:
    """What the two arrays will take is checked before any of it is unpacked: by the list of contents, and by their headers."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.namelist()
        for name in ("ids", "vectors"):
            if f"{name}.npy" not in members:
                names = ", ".join(member.removesuffix(".npy") for member in members)
                raise _Refused("malformed", f"there is no array '{name}' (there are: {names})")
            listed = archive.getinfo(f"{name}.npy")
            _check_memory(f"the array '{name}'", listed.file_size)
            if listed.file_size > max(_FREE, _UNPACKED * listed.compress_size):
                sentence = f"the array '{name}' unpacks from {listed.compress_size:,} bytes to {listed.file_size:,}"
                raise _Refused("too-large", f"{sentence}: no vectors shrink like that")
            with archive.open(listed) as packed:
                version = np.lib.format.read_magic(packed)
                header = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                shape, _, kind = header(packed)
                if kind.hasobject:
                    raise _Refused("pickle", "'ids' or 'vectors' is an array of pickled objects")
                if packed.tell() + math.prod(shape) * kind.itemsize != listed.file_size:
                    sentence = (
                        f"the array '{name}' of {' × '.join(map(str, shape))} {kind} is no {listed.file_size:,} bytes"
                    )
                    raise _Refused("malformed", f"is damaged ({sentence})")


def _read_safetensors(path: Path, faults: Faults) -> list[_Vector]:
    from safetensors import SafetensorError, safe_open

    with open_regular(path, LARGEST):
        pass
    try:
        with safe_open(path, framework="numpy") as stored:
            names, metadata = list(stored.keys()), stored.metadata() or {}
            if "vectors" not in names:
                raise _Refused("malformed", f"there is no tensor 'vectors' (there are: {', '.join(names)})")
            _check_memory("the tensor 'vectors'", 8 * math.prod(stored.get_slice("vectors").get_shape()))
            vectors = np.asarray(stored.get_tensor("vectors"))
    except (SafetensorError, TypeError) as error:
        # TypeError: a type that numpy has not, bfloat16.
        raise _Refused("malformed", f"cannot be read ({error})") from None
    return _rows(path, _read_ids(path, metadata.get("ids")), vectors)


def _read_ids(path: Path, stored: str | None) -> list[str]:
    """The ids of a file of tensors, from the file beside it or from its metadata."""
    beside = path.with_name(f"{path.stem}.ids.txt")
    tables: list[list[str]] = []
    if beside.exists():
        try:
            tables.append([line.strip() for line in text_tables.text(beside).rstrip().split("\n")])
        except text_tables.Unreadable as error:
            raise _Refused("ids" if error.kind == "malformed" else error.kind, f"{beside}: {error.what}") from None
    if stored is not None:
        try:
            ids = json.loads(stored)
        except (ValueError, RecursionError):
            ids = None
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
            raise _Refused("ids", "the metadata entry 'ids' is no JSON list of texts")
        tables.append(ids)
    if not tables:
        raise _Refused("ids", f"there is neither {beside} nor a metadata entry 'ids'")
    if tables[0] != tables[-1]:
        raise _Refused("ids", f"the metadata entry 'ids' and {beside} disagree")
    return tables[0]


def _read_parquet(path: Path, faults: Faults) -> list[_Vector]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path, LARGEST) as stream:
            _check_memory("the table", bounds.check_parquet(stream))
            table = pq.ParquetFile(stream).read()
    except (NotRegular, TooLarge):
        raise
    except (pa.ArrowException, OSError) as error:
        raise _Refused("malformed", f"cannot be read ({str(error).splitlines()[0]})") from None
    column = next((name for name in ("id", "utterance") if name in table.column_names), None)
    if column is None:
        raise _Refused("ids", f"there is no column id or utterance (there are: {', '.join(table.column_names[:10])})")
    ids = table.column(column)
    values = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if not (pa.types.is_string(values) or pa.types.is_large_string(values)) or ids.null_count:
        raise _Refused("ids", f"the column {column} is {ids.type} with {ids.null_count} nulls, not texts alone")
    if "vector" in table.column_names:
        return _pair_with_ids(path, ids.to_pylist(), _read_list_column(table.column("vector")))
    return _rows(path, ids.to_pylist(), _read_numbered_columns(table))


def _read_list_column(column: pa.ChunkedArray) -> list[np.ndarray]:
    """The vectors of a column of lists; a list that is null has no values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    )
    if not lists or not pa.types.is_floating(column.type.value_type):
        raise _Refused("malformed", f"the column vector is {column.type}, not a list of real numbers")
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    flat = pc.list_flatten(column).to_numpy()
    return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _read_numbered_columns(table: pa.Table) -> np.ndarray:
    """The columns 0, 1, ... or v0, v1, ... as a matrix [n, d]."""
    import pyarrow as pa

    numbered = {name: int(name.lstrip("v")) for name in table.column_names if re.fullmatch(r"v?[0-9]{1,6}", name)}
    names = sorted(numbered, key=lambda name: numbered[name])
    if not names or [numbered[name] for name in names] != list(range(len(names))):
        raise _Refused("malformed", "there is no column vector, and no columns 0, 1, … or v0, v1, … without a gap")
    for name in names:
        if not pa.types.is_floating(table.column(name).type):
            raise _Refused("malformed", f"the column {name} is {table.column(name).type}, not real numbers")
    return np.column_stack([table.column(name).to_numpy() for name in names])


def _read_tensor(path: Path, faults: Faults) -> list[_Vector]:
    """The rows of a tensor by ``id2idx``.

    VPC 2024 itself reads rows back by ``idx2spk`` sorted as text, 10 before 2, once an extraction was resumed, and then models are means of
    other speakers' vectors: where the two tables disagree, that is said.
    """
    import torch

    rows = _read_rows(path.with_name(ROWS))
    with open_regular(path, LARGEST) as stream:
        if zipfile.is_zipfile(stream):
            stream.seek(0)
            with zipfile.ZipFile(stream) as archive:
                size = sum(member.file_size for member in archive.infolist())
            if size > max(_FREE, _UNPACKED * path.stat().st_size):
                raise _Refused("too-large", f"unpacks to {size:,} bytes: no vectors shrink like that")
            _check_memory("the tensor", size)
        stream.seek(0)
        try:
            tensor = torch.load(stream, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever torch makes of damaged bytes
            if type(error).__name__ == "UnpicklingError":
                raise _Refused("pickle", "holds something else than plain tensors") from None
            raise _Refused("malformed", f"cannot be read ({str(error).splitlines()[0][:200]})") from None
    if (
        not isinstance(tensor, torch.Tensor)
        or tensor.ndim != 2
        or not tensor.is_floating_point()
        or not tensor.is_contiguous()
    ):
        raise _Refused("malformed", "is not one matrix of real numbers, a row a vector")
    if sorted(rows.values()) != list(range(len(tensor))):
        raise _Refused("ids", f"{path.with_name(ROWS)} has {len(rows)} ids, not one for each of the {len(tensor)} rows")
    _warn_of_order(path, rows)
    names = sorted(rows, key=lambda name: rows[name])
    return _rows(path, names, tensor.double().numpy())


def _read_rows(path: Path) -> dict[str, int]:
    """The row of each id: lines ``ID ROW``."""
    try:
        lines = [line.split() for line in text_tables.text(path).splitlines() if line.strip()]
    except text_tables.Unreadable as error:
        raise _Refused("ids" if error.kind == "malformed" else error.kind, f"{path}: {error.what}") from None
    except OSError as error:
        raise _Refused("ids", f"{path}, the table of its rows, cannot be read ({error.strerror})") from None
    for number, fields in enumerate(lines, 1):
        if len(fields) != 2 or not re.fullmatch(r"[0-9]{1,12}", fields[1]):
            raise _Refused("ids", f"{path}:{number} is not 'ID ROW'")
    rows = {fields[0]: int(fields[1]) for fields in lines}
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
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".pt": _read_tensor,
}
