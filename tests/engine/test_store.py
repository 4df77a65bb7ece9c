"""The store is atomic or absent: whatever kills a worker, an artefact is whole or not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.engine.store import RECORD, Store
from pipeline.seeds import digest

KEY = digest("some key")


def put(store: Store, text: str, key: str = KEY) -> None:
    folder = store.begin("stage", key)
    (folder / "sub").mkdir()
    (folder / "sub" / "value.txt").write_text(text)
    store.commit("stage", key, folder, {"settings": 1}, {"note": 2})


def test_a_committed_artefact_is_found_with_its_content_and_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.find("stage", KEY) is None
    put(store, "hello")
    found = store.find("stage", KEY)
    assert found is not None
    assert found.path("sub/value.txt").read_text() == "hello"
    # sha256 of "hello", as any other tool computes it.
    assert found.record["files"]["sub/value.txt"]["sha256"] == (
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    )
    assert found.record["notes"] == {"note": 2}


def test_an_unfinished_folder_is_no_artefact(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = store.begin("stage", KEY)
    (folder / "value.txt").write_text("half")
    assert store.find("stage", KEY) is None
    store.discard(folder)
    assert not folder.exists()


def test_equal_content_has_equal_digest_whatever_key_and_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = digest("another key")
    put(store, "same")
    put(store, "same", other)
    first, second = store.find("stage", KEY), store.find("stage", other)
    assert first is not None and second is not None
    assert first.digest == second.digest


def test_the_first_of_two_workers_wins(tmp_path: Path) -> None:
    store = Store(tmp_path)
    slow = store.begin("stage", KEY)
    (slow / "value.txt").write_text("slow")
    put(store, "fast")
    made = store.commit("stage", KEY, slow, {}, {})
    assert made.path("sub/value.txt").read_text() == "fast"
    assert not slow.exists()


@pytest.mark.parametrize("damage", ["truncate", "remove", "record", "folder"])
def test_a_damaged_artefact_is_set_aside_and_made_again(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    put(store, "hello")
    folder = store.folder("stage", KEY)
    if damage == "truncate":
        os.truncate(folder / "sub" / "value.txt", 2)
    elif damage == "remove":
        (folder / "sub" / "value.txt").unlink()
    elif damage == "folder":
        (folder / RECORD).unlink()
        (folder / RECORD).mkdir()
    else:
        (folder / RECORD).write_text("{")
    assert store.find("stage", KEY) is None
    assert list(folder.parent.glob("*.damaged-*"))
    put(store, "hello")
    assert store.find("stage", KEY) is not None


def test_no_artefact_may_bring_a_record_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = store.begin("stage", KEY)
    (folder / RECORD).write_text("{}")
    with pytest.raises(ValueError, match="the store's own"):
        store.commit("stage", KEY, folder, {}, {})
    assert store.find("stage", KEY) is None


WRITER = """
import sys
from pathlib import Path
from pipeline.engine.store import Store
from pipeline.seeds import digest
store = Store(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100000):
    key = digest("killed", number)
    folder = store.begin("stage", key)
    for name in "abc":
        (folder / name).write_bytes(bytes(5000))
    store.commit("stage", key, folder, {}, {})
"""


def _whole(root: Path) -> list[Path]:
    """The artefacts that have been committed."""
    return [path for path in (root / "stage").glob("*/*") if "." not in path.name]


def test_a_kill_at_any_instant_leaves_whole_artefacts_only(tmp_path: Path) -> None:
    for delay in (0.02, 0.05, 0.11):
        worker = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        worker.stdout.readline()
        while not _whole(tmp_path):
            assert worker.poll() is None
        time.sleep(delay)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    whole = _whole(tmp_path)
    for folder in whole:
        record = json.loads((folder / RECORD).read_text())
        assert {name: (folder / name).stat().st_size for name in "abc"} == dict.fromkeys("abc", 5000)
        assert sorted(record["files"]) == ["a", "b", "c"]
