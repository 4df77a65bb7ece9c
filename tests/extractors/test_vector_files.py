"""Vectors by id, from files that kaldiio, pandas and numpy wrote, and from bytes put together by Kaldi's format."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pipeline.errors import DataError
from pipeline.extractors.precomputed import files as vector_files

IDS = ["b-2", "a-1", "c-3", "a-10"]
VECTORS = np.array([[1.5, -2, 3e-5], [0, 0.1, 7], [1e-6, -1e6, 0.25], [3, 1, 4]], np.float32)
EXPECTED = dict(zip(IDS, VECTORS))


# By hand, so that no reader is tested against its own writer ------------------------------------------------------------


def float_vector(values: np.ndarray) -> bytes:
    return b"\0BFV \x04" + struct.pack("<i", len(values)) + b"".join(struct.pack("<f", value) for value in values)


def double_vector(values: np.ndarray) -> bytes:
    return b"\0BDV \x04" + struct.pack("<i", len(values)) + b"".join(struct.pack("<d", value) for value in values)


def matrix(rows: np.ndarray, kind: str = "F") -> bytes:
    head = f"\0B{kind}M \x04".encode() + struct.pack("<i", len(rows)) + b"\x04" + struct.pack("<i", rows.shape[1])
    return head + b"".join(struct.pack("<f" if kind == "F" else "<d", value) for row in rows for value in row)


def text_vector(values: np.ndarray) -> bytes:
    return b" [ " + b" ".join(b"%r" % float(value) for value in values) + b" ]\n"


def text_matrix(values: np.ndarray) -> bytes:
    return b" [\n  " + b" ".join(b"%r" % float(value) for value in values) + b" ]\n"


def archive(objects: dict[str, bytes]) -> bytes:
    return b"".join(name.encode() + b" " + body for name, body in objects.items())


def of_all(write: Callable[[np.ndarray], bytes]) -> bytes:
    return archive({name: write(values) for name, values in EXPECTED.items()})


ARCHIVES: dict[str, Callable[[np.ndarray], bytes]] = {
    "float": float_vector,
    "double": double_vector,
    "matrix of a row": lambda values: matrix(values[None]),
    "double matrix of a row": lambda values: matrix(values[None], "D"),
    "text": text_vector,
    "text matrix of a row": text_matrix,
}


def check(table: vector_files.VectorTable, tolerance: float = 0.0) -> None:
    assert table.ids == ("a-1", "a-10", "b-2", "c-3")
    assert table.vectors.dtype == np.float32
    np.testing.assert_allclose(table.vectors, [EXPECTED[name] for name in table.ids], rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_of_hand_made_bytes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.ark"
    path.write_bytes(of_all(ARCHIVES[kind]))
    check(vector_files.read_vectors(path))


def test_hand_made_bytes_are_what_kaldiio_writes(tmp_path: Path) -> None:
    kaldiio.save_ark(str(tmp_path / "x.ark"), EXPECTED)
    assert (tmp_path / "x.ark").read_bytes() == of_all(float_vector)


def test_text_whose_first_value_has_no_point(tmp_path: Path) -> None:
    # As Kaldi prints them; kaldiio takes all for integers here.
    (tmp_path / "x.ark").write_text("u1  [ 0 -0.5 1e-05 ]\nu2  [ 1e-05 2 0.5 ] \n\n")
    table = vector_files.read_vectors(tmp_path / "x.ark")
    np.testing.assert_array_equal(table.vectors, np.array([[0, -0.5, 1e-5], [1e-5, 2, 0.5]], np.float32))


@pytest.mark.parametrize("text", [False, True])
def test_scp_of_kaldiio(tmp_path: Path, text: bool) -> None:
    kaldiio.save_ark(str(tmp_path / "x.ark"), EXPECTED, scp=str(tmp_path / "x.scp"), text=text)
    check(vector_files.read_vectors(tmp_path / "x.scp"), 1e-6 * text)


def test_scp_in_any_order_of_several_archives_and_whole_files(tmp_path: Path) -> None:
    first = archive({"b-2": float_vector(EXPECTED["b-2"]), "a-1": text_vector(EXPECTED["a-1"])})
    (tmp_path / "one.ark").write_bytes(first)
    (tmp_path / "two: a.ark").write_bytes(archive({"other": double_vector(EXPECTED["c-3"])}))
    (tmp_path / "alone.vec").write_bytes(float_vector(EXPECTED["a-10"]))
    place = first.index(b"a-1 ") + 4
    (tmp_path / "x.scp").write_text(
        f"c-3 two: a.ark:6\na-1\t{tmp_path}/one.ark:{place}  \nb-2 one.ark:4\r\n\na-10 alone.vec\n"
    )
    check(vector_files.read_vectors(tmp_path / "x.scp"))


def test_relative_archives_start_at_the_scp_the_current_folder_or_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recipe" / "exp" / "xvectors"
    here = tmp_path / "elsewhere"
    for place in (folder / "exp" / "xvectors", here / "exp" / "xvectors"):
        place.mkdir(parents=True)
    monkeypatch.chdir(here)
    (folder / "x.scp").write_text("u exp/xvectors/x.ark:2\n")
    starts = (folder, here, folder.parent.parent)  # in this order
    for number, start in reversed(list(enumerate(starts))):
        (start / "exp" / "xvectors" / "x.ark").write_bytes(archive({"u": float_vector(np.array([number + 1.0]))}))
        assert vector_files.read_vectors(folder / "x.scp").vectors.tolist() == [[number + 1.0]]


def test_kaldi_folders(tmp_path: Path) -> None:
    for number, names in enumerate((IDS[:2], IDS[2:])):
        folder = tmp_path / f"xvectors_set{number}"
        folder.mkdir()
        vectors = {name: EXPECTED[name] for name in names}
        kaldiio.save_ark(str(folder / "xvector.1.ark"), vectors, scp=str(folder / "xvector.1.scp"))
        (folder / "xvector.scp").write_bytes((folder / "xvector.1.scp").read_bytes())
        kaldiio.save_ark(str(folder / "spk_xvector.ark"), {"a": VECTORS[0]}, scp=str(folder / "spk_xvector.scp"))
        kaldiio.save_ark(str(folder / "num_utts.ark"), {"a": np.array([2], np.int32)})
        (folder / "old.ark").write_bytes(b"not read: there is an scp")
        (folder / "wav.scp").write_text("a-1 flac -d -c a.flac |\n")
        (folder / "utt2spk").write_text("a-1 a\n")
        (folder / "._xvector.scp").write_bytes(b"\0\1\2")
    check(vector_files.read_vectors(tmp_path))


def test_folder_of_several_formats(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "loop").symlink_to(tmp_path)
    (tmp_path / "one.ark").write_bytes(archive({"b-2": float_vector(EXPECTED["b-2"])}))
    np.savez(tmp_path / "deep" / "two.npz", ids=IDS[1:3], vectors=VECTORS[1:3])
    pd.DataFrame({"id": IDS[2:], "vector": list(VECTORS[2:])}).to_parquet(tmp_path / "deep" / "er" / "three.parquet")
    check(vector_files.read_vectors(tmp_path))  # c-3 stands in two files, with one vector


# Tables ----------------------------------------------------------------------------------------------------------------


def _list_column(path: Path, kind: pa.DataType, vectors: np.ndarray = VECTORS) -> None:
    # Several row groups, so that the column comes in chunks.
    lists = pa.array(
        [list(map(np.float16, row)) if kind.value_type == pa.float16() else row.tolist() for row in vectors], kind
    )
    pq.write_table(pa.table({"vector": lists, "id": pa.array(IDS).dictionary_encode()}), path, row_group_size=3)


TABLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "parquet, lists of pandas": (".parquet", lambda p: pd.DataFrame({"id": IDS, "vector": list(VECTORS)}).to_parquet(p)),
    "parquet, float64 lists": (".parquet", lambda p: _list_column(p, pa.list_(pa.float64()))),
    "parquet, large lists": (".parquet", lambda p: _list_column(p, pa.large_list(pa.float32()))),
    "parquet, lists of fixed size": (".parquet", lambda p: _list_column(p, pa.list_(pa.float32(), 3))),
    "npz": (".npz", lambda p: np.savez(p, ids=np.array(IDS), vectors=VECTORS)),
    "npz, compressed, float64": (
        ".npz", lambda p: np.savez_compressed(p, ids=np.array(IDS), vectors=VECTORS.astype(np.float64)),
    ),
    "npz, big endian, by columns": (
        ".npz", lambda p: np.savez(p, ids=np.array(IDS), vectors=np.asfortranarray(VECTORS.astype(">f8"))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_others(tmp_path: Path, name: str) -> None:
    suffix, write = TABLES[name]
    write(tmp_path / f"some.file{suffix}")
    check(vector_files.read_vectors(tmp_path / f"some.file{suffix}"))


def test_float16_becomes_float32(tmp_path: Path) -> None:
    half = np.clip(VECTORS, -6e4, 6e4).astype(np.float16)
    np.savez(tmp_path / "x.npz", ids=IDS, vectors=half)
    _list_column(tmp_path / "x.parquet", pa.list_(pa.float16()), half)
    for path in sorted(tmp_path.iterdir()):
        table = vector_files.read_vectors(path)
        assert table.vectors.dtype == np.float32
        np.testing.assert_array_equal(table.vectors, half.astype(np.float32)[[1, 3, 0, 2]])


def test_the_digest_is_that_of_ids_and_vectors_alone(tmp_path: Path) -> None:
    def digest(name: str, ids: list[str], vectors: np.ndarray) -> str:
        np.savez(tmp_path / f"{name}.npz", ids=ids, vectors=vectors)
        return vector_files.read_vectors(tmp_path / f"{name}.npz").digest

    one = digest("one", IDS, VECTORS)
    (tmp_path / "x.ark").write_bytes(of_all(float_vector))
    assert vector_files.read_vectors(tmp_path / "x.ark").digest == one
    assert digest("turned", IDS[::-1], VECTORS[::-1]) == one
    assert digest("twice", [*IDS, IDS[0]], np.concatenate([VECTORS, VECTORS[:1]])) == one
    nudged = VECTORS.copy()
    nudged[2, 1] = np.nextafter(nudged[2, 1], np.float32(0))
    others = [
        digest("nudged", IDS, nudged), digest("renamed", ["b-3", *IDS[1:]], VECTORS), digest("fewer", IDS[1:], VECTORS[1:]),
        digest("swapped", [IDS[1], IDS[0], *IDS[2:]], VECTORS),
    ]  # fmt: skip
    assert len({one, *others}) == 5


# Faults ----------------------------------------------------------------------------------------------------------------


def _faults(path: Path) -> list[tuple[str, str, str]]:
    with pytest.raises(DataError) as caught:
        vector_files.read_vectors(path)
    error = caught.value
    assert error.status == 3 and error.cause and error.remedy
    for fault in error.faults:
        cause, remedy = vector_files.KINDS[fault.kind]
        assert cause in error.cause and remedy in error.remedy
    if len({fault.kind for fault in error.faults}) > 1:
        assert all(
            f"[{fault.kind}]" in error.remedy and fault.what.startswith(f"[{fault.kind}]") for fault in error.faults
        )
    return [(fault.kind, fault.what, fault.where) for fault in error.faults]


def _one(path: Path) -> tuple[str, str]:
    ((kind, what, where),) = _faults(path)
    assert where.startswith((str(path), f"{path.parent}/"))
    return kind, what


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    "line",
    ["cat x.ark |", "| touch {pwn}", "touch {pwn}|", " |touch {pwn}", "touch {pwn};cat x.ark| ", "|touch {pwn}|", "touch {pwn} |:7"],
)  # fmt: skip
def test_commands_in_an_scp_are_refused_and_not_run(tmp_path: Path, line: str) -> None:
    pwn = tmp_path / "pwn"
    (tmp_path / "x.ark").write_bytes(of_all(float_vector))
    (tmp_path / "x.scp").write_text(f"a-1 x.ark:4\nevil {line.format(pwn=pwn)}\n")
    ((kind, what, where),) = _faults(tmp_path / "x.scp")
    assert kind == "command" and "'evil'" in what and where == f"{tmp_path}/x.scp:2"
    assert not pwn.exists()


def test_a_command_is_refused_where_a_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("touch pwn |", "touch pwn |:4"):
        (tmp_path / name).write_bytes(of_all(float_vector))
    (tmp_path / "x.scp").write_text("b-2 touch pwn |:4\nb-2 touch pwn |\n")
    assert [kind for kind, _, _ in _faults(tmp_path / "x.scp")] == ["command", "command"]
    assert not (tmp_path / "pwn").exists()


def test_standard_input_and_cuts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.ark").write_bytes(of_all(float_vector))
    (tmp_path / "x.scp").write_text("a -\nb -:3\nc x.ark:4[0:1]\nd\n")
    assert [(kind, where[-2:]) for kind, _, where in _faults(tmp_path / "x.scp")] == [
        ("command", ":1"), ("command", ":2"), ("malformed", ":4"), ("matrix", ":3"),
    ]  # fmt: skip


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    pwn = tmp_path / "pwn"
    body = pickle.dumps(Bomb(pwn))
    pickle.loads(body)
    assert pwn.exists()  # the bomb works
    pwn.unlink()

    (tmp_path / "a.ark").write_bytes(archive({"u": b"PKL" + body}))
    (tmp_path / "b.scp").write_text("u a.ark:2\n")
    objects = np.empty(1, object)
    objects[0] = Bomb(pwn)
    np.savez(tmp_path / "c.npz", ids=objects, vectors=VECTORS)
    np.savez(tmp_path / "d.npz", ids=IDS[:1], vectors=objects)
    (tmp_path / "e.npz").write_bytes(body)
    (tmp_path / "f.pt").write_bytes(body)
    (tmp_path / "g.pkl").write_bytes(body)
    for path in sorted(tmp_path.iterdir()):
        assert _one(path)[0] == ("malformed" if path.name[0] in "abe" else "pickle"), path
    assert not pwn.exists()


DAMAGED: dict[str, tuple[bytes, str, str]] = {
    # name: (what follows a good vector and the id 'x', kind, part of the message)
    "rows": (matrix(VECTORS), "matrix", "4 rows and 3 columns"),
    "text rows": (b" [\n  1 2 3\n  4 5 6 ]\n", "matrix", "2 rows and 3 columns"),
    "no rows": (matrix(np.zeros((0, 3))), "matrix", "0 rows"),
    "integers": (b"\0B\x04" + struct.pack("<i", 1) + b"\x04" + struct.pack("<i", 7), "malformed", "binary type"),
    "cut off": (float_vector(VECTORS[0])[:-1], "malformed", "ends early: 12 bytes of numbers are to follow, and 11 do"),
    "header cut off": (float_vector(VECTORS[0])[:8], "malformed", "inside a header"),
    "matrix header cut off": (matrix(VECTORS[:1])[:12], "malformed", "inside a header"),
    "text cut off": (b" [ 1 2 3", "malformed", "no ']'"),
    "huge": (b"\0BFV \x04" + struct.pack("<i", 2**31 - 1), "malformed", "ends early"),
    "huge matrix": (b"\0BDM \x04" + 2 * (struct.pack("<i", 2**31 - 1) + b"\x04"), "malformed", "ends early"),
    "negative": (b"\0BFV \x04" + struct.pack("<i", -3) + b"x" * 12, "malformed", "damaged"),
    "wrong width": (b"\0BFM \x08" + struct.pack("<i", 1) + b"\x04" + struct.pack("<i", 1) + b"x" * 4, "malformed", "damaged"),
    "unknown type": (b"\0BXV \x04" + struct.pack("<i", 1) + b"x" * 4, "malformed", "binary type"),
    "words": (b"hello world\n", "malformed", "in brackets was expected"),
    "no number": (b" [ 1 two 3 ]\n", "malformed", "else than numbers"),
    "nothing": (b"", "malformed", "in brackets was expected"),
    "NaN": (float_vector(np.array([1, np.nan, 0])), "not-finite", "'x'"),
    "text NaN": (b" [ 1 nan 0 ]\n", "not-finite", "'x'"),
    "beyond float32": (double_vector(np.array([1, 1e300, 0])), "not-finite", "'x'"),
    "zero": (float_vector(np.zeros(3)), "zero", "'x'"),
    "zero as float32": (double_vector(np.full(3, 1e-60)), "zero", "'x'"),
    "another dimension": (float_vector(np.ones(4)), "dimension", "'x' has 4 values, but 2 of 3 vectors have 3"),
    "no values": (float_vector(np.ones(0)), "dimension", "'x' has 0 values"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives(tmp_path: Path, name: str) -> None:
    body, kind, said = DAMAGED[name]
    good = archive({"u": float_vector(VECTORS[0]), "v": text_vector(VECTORS[1])})
    (tmp_path / "x.ark").write_bytes(good + archive({"x": body}))
    (tmp_path / "x.scp").write_text(f"u x.ark:2\nx x.ark:{len(good) + 2}\nv x.ark:{good.index(b'v ') + 2}\n")
    for path, place in ((tmp_path / "x.ark", f"x.ark:{len(good) + 2}"), (tmp_path / "x.scp", "x.scp:2")):
        ((found, what, where),) = _faults(path)
        assert (found, where) == (kind, f"{tmp_path}/{place}") and said in what and "'x'" in what


@pytest.mark.parametrize("content", [b"\xff\xfe" * 9 + b" ", b"x" * 10_000])
def test_archives_that_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.ark").write_bytes(content)
    kind, what = _one(tmp_path / "x.ark")
    assert kind == "malformed" and "no Kaldi archive" in what


def _npz(path: Path, **arrays: object) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _frame(path: Path, **columns: object) -> None:
    pd.DataFrame(columns).to_parquet(path)


def _cut(path: Path) -> None:
    np.savez(path, ids=IDS, vectors=VECTORS)
    path.write_bytes(path.read_bytes()[:-100])


def _flipped(path: Path) -> None:
    np.savez(path, ids=IDS, vectors=VECTORS)
    content = path.read_bytes()
    place = content.index(VECTORS.tobytes())
    path.write_bytes(content[:place] + b"\x7f" + content[place + 1 :])


WRONG_TABLES: dict[str, tuple[str, Callable[[Path], object], str, str]] = {
    "fewer ids": (".npz", lambda p: _npz(p, ids=IDS[:3], vectors=VECTORS), "ids", "3 ids for 4 vectors"),
    "no ids": (".npz", lambda p: _npz(p, vectors=VECTORS), "malformed", "ids"),
    "numbers as ids": (".npz", lambda p: _npz(p, ids=range(4), vectors=VECTORS), "ids", "int64"),
    "an id without a letter": (".npz", lambda p: _npz(p, ids=["", *IDS[1:]], vectors=VECTORS), "ids", "without a letter"),
    "integers": (".npz", lambda p: _npz(p, ids=IDS, vectors=VECTORS.astype(int)), "malformed", "int64"),
    "three axes": (".npz", lambda p: _npz(p, ids=IDS, vectors=VECTORS[:, None]), "malformed", "[4 × 1 × 3]"),
    "no zip": (".npz", lambda p: p.write_bytes(b"hello"), "malformed", "no npz"),
    "cut off": (".npz", _cut, "malformed", "no npz"),
    "changed": (".npz", _flipped, "malformed", "no npz"),
    "no rows": (".npz", lambda p: _npz(p, ids=np.array([], str), vectors=VECTORS[:0]), "empty", "no vectors"),
    "no columns": (".npz", lambda p: _npz(p, ids=IDS, vectors=VECTORS[:, :0]), "malformed", "no values"),
    "no parquet": (".parquet", lambda p: p.write_bytes(b"x" * 99), "malformed", "cannot be read"),
    "no id column": (".parquet", lambda p: _frame(p, name=IDS, vector=list(VECTORS)), "ids", "there are: name, vector"),
    "numbers in the id column": (".parquet", lambda p: _frame(p, id=[1, 2, 3, 4], vector=list(VECTORS)), "ids", "else than texts"),
    "an id that is null": (".parquet", lambda p: _frame(p, id=[None, *IDS[1:]], vector=list(VECTORS)), "ids", "else than texts"),
    "no vector column": (".parquet", lambda p: _frame(p, id=IDS, x=[1.0] * 4), "ids", "there are: id, x"),
    "a vector column of texts": (".parquet", lambda p: _frame(p, id=IDS, vector=IDS), "malformed", "not a list"),
    "lists of integers": (
        ".parquet", lambda p: _frame(p, id=IDS, vector=[[1, 2]] * 4), "malformed", "not a list of real numbers"),
    "a list that is null": (
        ".parquet", lambda p: _frame(p, id=IDS, vector=[*VECTORS[:3], None]), "dimension", "'a-10' has 0 values"),
    "a value that is null": (
        ".parquet", lambda p: _frame(p, id=IDS, vector=[*VECTORS[:3].tolist(), [1.0, None, 2.0]]), "not-finite", "'a-10'"),
    "lists of other lengths": (
        ".parquet", lambda p: _frame(p, id=IDS, vector=[*VECTORS[:3], VECTORS[3, :2]]), "dimension", "'a-10' has 2 values"),
    "another type": (".csv", lambda p: p.write_text("id,vector\n"), "unknown-type", "'.csv'"),
    "an array alone": (".npy", lambda p: np.save(p, VECTORS), "unknown-type", "'.npy'"),
    "an empty archive": (".ark", lambda p: p.write_bytes(b""), "empty", "no vectors"),
    "an empty scp": (".scp", lambda p: p.write_bytes(b"\n"), "empty", "no vectors"),
    "an scp that is no text": (".scp", lambda p: p.write_bytes(b"\xff\n"), "encoding", "UTF-8"),
    "an scp without its archive": (".scp", lambda p: p.write_text("u gone.ark:3\n"), "missing-ark", "'u'"),
    "an empty folder": ("", lambda p: p.mkdir(), "empty", "holds no .scp"),
    "nothing there": ("", lambda p: None, "missing", "no such file"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_wrong_files(tmp_path: Path, name: str) -> None:
    suffix, write, kind, said = WRONG_TABLES[name]
    write(tmp_path / f"x{suffix}")
    found, what = _one(tmp_path / f"x{suffix}")
    assert found == kind and said in what


def test_one_id_with_two_vectors(tmp_path: Path) -> None:
    (tmp_path / "x.ark").write_bytes(of_all(float_vector))
    np.savez(tmp_path / "y.npz", ids=["c-3", "a-1"], vectors=VECTORS[[2, 0]])
    ((kind, what, where),) = _faults(tmp_path)
    assert kind == "duplicate" and "'a-1' has another vector" in what
    assert f"{tmp_path}/x.ark:" in what and where == f"{tmp_path}/y.npz"


def test_all_faults_of_a_folder_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.scp").write_text("u cat x |\nv gone.ark:1\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)  # nothing is read, and no fault named, twice
    bad = {
        "zero": np.zeros(3),
        "nan": np.array([np.nan, 1, 1]),
        "short": np.ones(2),
        "good": np.ones(3),
        "fine": np.ones(3),
    }
    (tmp_path / "sub" / "b.ark").write_bytes(archive({name: float_vector(values) for name, values in bad.items()}))
    (tmp_path / "sub" / "c.npz").write_bytes(b"?")
    np.savez(tmp_path / "sub" / "d.npz", ids=["good"], vectors=2 * np.ones((1, 3)))
    kinds = [kind for kind, _, _ in _faults(tmp_path)]
    assert sorted(kinds) == sorted(
        ["command", "missing-ark", "zero", "not-finite", "dimension", "malformed", "duplicate"]
    )


# Tensors of VPC 2024 -------------------------------------------------------------------------------------------------


def tensor(folder: Path, rows: dict[str, int], held: Any = None, order: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    if held is None:
        held = torch.stack([torch.full((3,), 1.0 + row) for row in range(len(rows))])
    torch.save(held, folder / "speaker_vectors.pt")
    (folder / "id2idx").write_text("".join(f"{name} {row}\n" for name, row in rows.items()))
    if order is not None:
        (folder / "idx2spk").write_text("".join(f"{row} {name}\n" for row, name in enumerate(order)))
    return folder / "speaker_vectors.pt"


def test_rows_of_a_tensor_are_told_by_id2idx(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = {f"u{number}": number for number in range(12)}
    path = tensor(tmp_path / "utt-level", rows, order=list(rows))
    tensor(tmp_path / "spk-level", {"s": 0})
    for given in (path, tmp_path):
        table = vector_files.read_vectors(given)
        assert {name: float(table.vectors[table.row[name], 0]) for name in table.ids} == {
            name: 1.0 + row for name, row in rows.items()
        }
    assert not caplog.records


def test_a_resumed_extraction_is_said_and_its_vectors_stay_whose_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """VPC 2024 sorts rows as text when it goes on: row 10 comes before row 2."""
    rows = {f"u{number}": number for number in range(12)}
    shuffled = [f"u{number}" for number in sorted(range(12), key=str)]
    table = vector_files.read_vectors(tensor(tmp_path / "x", rows, order=shuffled))
    assert [float(table.vectors[table.row[name], 0]) for name in ("u2", "u10")] == [3.0, 11.0]
    assert "10 of 12 rows are another's by idx2spk than by id2idx" in caplog.text


@pytest.mark.parametrize(
    ("rows", "held", "said"),
    [
        ({"a": 0, "b": 1}, {"a": torch.zeros(3)}, "not one matrix of real numbers"),
        ({"a": 0}, torch.ones(2, 3), "1 ids, not one for each of the 2 rows"),
        ({"a": 0, "b": 0}, torch.ones(2, 3), "2 ids, not one for each of the 2 rows"),
        ({"a": 0, "b": 1}, torch.ones(1, 3).expand(2, 3), "not one for each"),
        ({"a": 0, "b": 1}, Path("/"), "plain tensors"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, rows: dict[str, int], held: Any, said: str) -> None:
    path = tensor(tmp_path / "x", rows, held)
    with pytest.raises(DataError) as caught:
        vector_files.read_vectors(path)
    assert said in " ".join(fault.what for fault in caught.value.faults)


def test_a_tensor_without_its_table_is_refused(tmp_path: Path) -> None:
    path = tensor(tmp_path / "x", {"a": 0})
    (path.parent / "id2idx").unlink()
    with pytest.raises(DataError, match="the table of its rows"):
        vector_files.read_vectors(path)
