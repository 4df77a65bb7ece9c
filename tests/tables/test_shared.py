"""A table to which many processes add at once: nothing is lost, nothing half is read, damage costs what is damaged."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.tables import shared
from pipeline.tables.shared import SharedTable

SCHEMA = pa.schema({"key": pa.binary(8), "text": pa.string(), "age": pa.int64()})

WRITER = """
import sys
from pathlib import Path
import pyarrow as pa
from pipeline.tables.shared import SharedTable
schema = pa.schema({"key": pa.binary(8), "text": pa.string(), "age": pa.int64()})
table = SharedTable(Path(sys.argv[1]), schema, "key", "age")
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    row = {"key": number.to_bytes(8, "big"), "text": str(number), "age": number}
    table.add(pa.Table.from_pylist([row], schema))
    print(number, flush=True)
"""


def rows(numbers: Iterable[int], age: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [{"key": number.to_bytes(8, "big"), "text": str(number), "age": age or number} for number in numbers], SCHEMA
    )


def opened(folder: Path, **named: int) -> SharedTable:
    return SharedTable(folder, SCHEMA, "key", "age", **named)


def numbers(table: SharedTable) -> list[int]:
    """What the table holds, each row checked against itself."""
    held = table.read().to_pylist()
    assert all(row["text"] == str(int.from_bytes(row["key"], "big")) for row in held)
    return sorted(int(row["text"]) for row in held)


def pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def write(folder: Path, *several: pa.Table) -> None:
    for one in several:
        opened(folder).add(one)


def test_rows_of_all_writers_are_read(tmp_path: Path) -> None:
    assert numbers(opened(tmp_path / "none")) == []
    write(tmp_path, rows(range(3)), rows([]), rows(range(3, 10)))
    assert numbers(opened(tmp_path)) == list(range(10))
    assert opened(tmp_path).read(["text"]).column_names == ["text"]


def test_equal_rows_make_one_piece(tmp_path: Path) -> None:
    write(tmp_path, rows(range(5)), rows(range(5)))
    assert len(pieces(tmp_path)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_merging_keeps_each_key_once_with_its_newest_row(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    newest: dict[int, int] = {}
    for age in range(1, 14):
        chosen = random.choice(30, size=8, replace=False).tolist()
        newest |= dict.fromkeys(chosen, age)
        write(tmp_path, rows(chosen, age))
    opened(tmp_path).merge()
    held = opened(tmp_path).read().to_pylist()
    assert {int(row["text"]): row["age"] for row in held} == newest and len(held) == len(newest)
    (piece,) = pieces(tmp_path)
    opened(tmp_path).merge()
    assert pieces(tmp_path) == [piece]


def test_many_pieces_are_merged_by_themselves(tmp_path: Path) -> None:
    for number in range(3 * shared.MOST_PIECES):
        write(tmp_path, rows([number]))
        assert len(pieces(tmp_path)) < shared.MOST_PIECES
    assert numbers(opened(tmp_path)) == list(range(3 * shared.MOST_PIECES))


def test_a_merge_keeps_the_newest_rows_where_there_are_too_many(tmp_path: Path) -> None:
    write(tmp_path, rows(range(10)), rows(range(10, 20)))
    opened(tmp_path, most=7).merge()
    assert numbers(opened(tmp_path)) == list(range(13, 20))


def test_a_merge_that_died_before_it_took_the_pieces_away_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, rows(range(3)), rows(range(3, 6)))
    before = {path.name: path.read_bytes() for path in pieces(tmp_path)}
    opened(tmp_path).merge()
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    assert sorted(set(numbers(opened(tmp_path)))) == list(range(6))
    opened(tmp_path).merge()
    assert numbers(opened(tmp_path)) == list(range(6)) and len(pieces(tmp_path)) == 1


@pytest.mark.parametrize("when", range(4))
def test_a_merge_while_somebody_reads_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    write(tmp_path, *(rows([number]) for number in range(4)))
    asked = 0
    plain = SharedTable._piece

    def piece(self: SharedTable, name: str, columns: list[str]) -> pa.Table:
        nonlocal asked
        asked += 1
        if asked == when + 1:
            opened(tmp_path).merge()
        return plain(self, name, columns)

    monkeypatch.setattr(SharedTable, "_piece", piece)
    assert sorted(set(numbers(opened(tmp_path)))) == list(range(4))


def other_kind(path: Path) -> None:
    """A whole piece, rightly named, of another table."""
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": [1]}), buffer)
    named(path, buffer.getvalue().to_pybytes())


def named(path: Path, content: bytes) -> None:
    path.unlink()
    path.with_name(f"{shared.hashlib.sha256(content).hexdigest()}.parquet").write_bytes(content)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "empty": lambda path: path.write_bytes(b""),
    "a bit": lambda path: path.write_bytes(path.read_bytes()[:40] + b"\x55" + path.read_bytes()[41:]),
    "text": lambda path: path.write_text("key,text\n1,1\n"),
    "text, rightly named": lambda path: named(path, b"key,text\n1,1\n"),
    "another table": other_kind,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_pieces_are_set_aside_with_one_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    write(tmp_path, rows(range(3)), rows(range(3, 6)), rows(range(6, 9)))
    held = {path: pq.read_table(path)["text"].to_pylist() for path in pieces(tmp_path)}
    first, second, whole = held
    for path in (first, second):
        DAMAGE[kind](path)
    with caplog.at_level(logging.WARNING, "pipeline"):
        assert numbers(opened(tmp_path)) == sorted(map(int, held[whole]))
        assert len(caplog.records) == 1 and str(tmp_path) in caplog.text
        assert numbers(opened(tmp_path)) == sorted(map(int, held[whole]))
    assert len(caplog.records) == 1 and pieces(tmp_path) == [whole]


def test_files_of_other_names_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, rows(range(3)))
    for name in ("notes.txt", "old.parquet", ".nfs0001", f".{'0' * 64}.parquet.half"):
        (tmp_path / name).write_text("not a piece")
    with caplog.at_level(logging.WARNING, "pipeline"):
        assert numbers(opened(tmp_path)) == [0, 1, 2]
        opened(tmp_path).merge()
    assert not caplog.records and len(list(tmp_path.iterdir())) == 5


def test_what_killed_writers_left_goes_after_a_week(tmp_path: Path) -> None:
    write(tmp_path, rows(range(3)))
    left, fresh = (tmp_path / f".{'0' * 64}.parquet.{name}" for name in ("old", "new"))
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    opened(tmp_path).merge()
    assert not left.exists() and fresh.exists()


def test_a_folder_that_is_none_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        opened(tmp_path / "file" / "table").add(rows([1]))
    with pytest.raises(OSError):
        opened(tmp_path / "file").read()


def start(folder: Path, first: int, end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_add_and_merge_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, first, first + 60) for first in range(0, 240, 60)]
    while any(writer.poll() is None for writer in writers):
        seen = numbers(opened(tmp_path))
        assert set(seen) <= set(range(240))
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    opened(tmp_path).merge()
    assert numbers(opened(tmp_path)) == list(range(240))


@pytest.mark.parametrize("after", [0, 5, 16, 37])
def test_a_kill_loses_nothing_that_was_added(tmp_path: Path, after: int) -> None:
    writer = start(tmp_path, 0, 1_000_000)
    assert writer.stdout is not None
    last = next(int(line) for line in writer.stdout if int(line) >= after)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    said = [last, *(int(line) for line in writer.stdout.read().split("\n")[:-1])][-1]
    held = sorted(set(numbers(opened(tmp_path))))
    assert held in (list(range(said + 1)), list(range(said + 2)))
