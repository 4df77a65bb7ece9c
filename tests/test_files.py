"""The one way in which a file is replaced."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.files import file_digest, make_file_name, sweep_temporary, sync_to_disk, write_atomically

CONTENT = "é\r\n\n"


@pytest.mark.parametrize(
    "content",
    [CONTENT, CONTENT.encode(), lambda path: path.write_bytes(CONTENT.encode())],
    ids=["text", "bytes", "writer"],
)
def test_the_new_file_takes_the_place_of_the_old_one(
    tmp_path: Path, content: str | bytes | Callable[[Path], object]
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    write_atomically(path, content)
    assert path.read_bytes() == CONTENT.encode()
    assert list(tmp_path.iterdir()) == [path]
    assert file_digest(path) == hashlib.sha256(CONTENT.encode()).hexdigest()


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def half(part: Path) -> None:
        part.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, half)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\udcff")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_kill_has_left_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    left = []

    def killed(part: Path) -> None:
        part.write_text("half")
        another = f"{int(part.name[-1], 16) ^ 1:x}"
        left.append(part.rename(part.with_name(f"{part.name[:-1]}{another}")))
        part.write_text("whole")

    others = [tmp_path / name for name in (".a.json", ".a.json.bak", ".b.json." + 32 * "0")]
    for other in others:
        other.write_text("somebody's")
    write_atomically(path, killed)
    assert left[0].exists()
    sweep_temporary(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_names_are_short_plain_and_told_apart_where_case_does_not_count() -> None:
    plain = ["p225_001", "1272-128104-0000", "a.b#3", "_x"]
    assert [make_file_name(text) for text in plain] == plain
    digest = hashlib.sha256(b"a/b c").hexdigest()[:16]
    assert make_file_name("a/b c") == f"a_b_c-{digest}"
    texts = [
        "", ".", "..", "-rf", "a", "A", "a.", "a" * 81, "a" * 82, "文" * 100, "文" * 101, "e\u0301", "é", "a b", "a/b", "a\0b", "a_b",
        make_file_name("A"), make_file_name("A").lower(), "\udcff",
    ]  # fmt: skip
    names = [make_file_name(text) for text in texts]
    assert len({name.casefold() for name in names}) == len(texts)
    assert all(name.isascii() and 0 < len(name) <= 80 for name in names)
    assert not any(name.startswith((".", "-")) or set(name) & set("/\0 ") for name in names)


@pytest.mark.parametrize("path", ["/proc/self", "/dev/null"])
def test_what_cannot_be_synced_is_not_synced(path: str) -> None:
    """Linux refuses it for these with EINVAL, as CIFS and 9p do for folders."""
    descriptor = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(descriptor)
    os.close(descriptor)
    sync_to_disk(Path(path))


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fails_is_an_error_and_a_file_system_that_cannot_is_none(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    if number in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_to_disk(tmp_path)
    else:
        sync_to_disk(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(synced[0])
