"""What is found wrong is made again, with what stands on it; what cannot be read is an error; leftovers have owners."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.engine import claims
from pipeline.engine import store as storage
from pipeline.engine.outcome import Outcome, look_up_tasks
from pipeline.engine.store import RECORD, Damaged, Store
from pipeline.engine.task import Artefact, Output, Task, Work
from pipeline.errors import DataError, StageFailed
from pipeline.nets import checkpoints
from pipeline.processes import Owner, this_process
from pipeline.seeds import digest
from tests.running import execute

KEY = digest("some key")


def put(store: Store, text: str = "hello", key: str = KEY) -> Artefact:
    folder = store.begin("stage", key)
    (folder / "sub").mkdir()
    (folder / "sub" / "value").write_text(text)
    (folder / "sub-value").write_text(text)
    return store.commit("stage", key, folder, {"settings": [1, 0.1]}, {"counts": {"ü": 2}})


def flip(path: Path, bit: int = 3) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def aside(root: Path) -> list[Path]:
    return list(root.rglob("*.damaged-*"))


def counting(calls: list[str], own: Callable[[], str]) -> Callable[[Work], None]:
    """A task that writes what it reads and something of its own."""

    def function(work: Work) -> None:
        calls.append(work.task.label)  # type: ignore[attr-defined]
        read = work.input("before").path("value").read_text() if work.has("before") else ""
        (work.folder() / "value").write_text(read + own())

    return function


def writing(own: Callable[[], str], output: str) -> Callable[[Work], None]:
    """A task whose only output has a name."""

    def function(work: Work) -> None:
        (work.folder(output) / "value").write_text(own())

    return function


@pytest.mark.parametrize("again", ["one", "two"], ids=["the same bytes", "other bytes"])
def test_what_stands_on_a_damaged_artefact_goes_on_with_the_new_one(tmp_path: Path, again: str) -> None:
    """a is read by b (done) and by c (missing); d stands on b. a is damaged, and may come out different."""
    calls: list[str] = []
    text = ["one"]
    a = Task("leaf", "a", counting(calls, lambda: text[0]))
    b, c = (Task("on", name, counting(calls, str), {"name": name}, {"before": a.ref()}) for name in "bc")
    d = Task("on", "d", counting(calls, str), {"name": "d"}, {"before": b.ref()})
    execute([a, b, d], Store(tmp_path))
    flip(next(tmp_path.glob("leaf/*/*/value")))
    calls.clear()
    text[0] = again
    outcome = execute([a, b, d, c], Store(tmp_path))
    assert calls == (["a", "c"] if again == "one" else ["a", "b", "d", "c"])
    assert [outcome.artefact(task.ref()).path("value").read_text() for task in (a, b, c, d)] == [again] * 4
    assert (outcome.reused, outcome.computed) == ((2, 2) if again == "one" else (0, 4))
    assert len(aside(tmp_path)) == 1
    assert execute([a, b, d, c], Store(tmp_path)).computed == 0


def test_a_chain_of_damaged_artefacts_is_made_again_from_its_root(tmp_path: Path) -> None:
    calls: list[str] = []
    tasks = [Task("leaf", "0", counting(calls, lambda: "x"))]
    for number in range(1, 4):
        tasks.append(Task("on", str(number), counting(calls, str), {"number": number}, {"before": tasks[-1].ref()}))
    execute(tasks[:3], Store(tmp_path))
    for path in [*tmp_path.glob("*/*/*/value")]:
        flip(path)
    calls.clear()
    outcome = execute(tasks, Store(tmp_path))
    assert calls == ["0", "1", "2", "3"]
    assert (outcome.reused, outcome.computed) == (0, 4)
    assert outcome.artefact(tasks[3].ref()).path("value").read_text() == "x"


def test_two_tasks_that_made_the_same_both_have_the_new_one(tmp_path: Path) -> None:
    calls: list[str] = []
    text = ["one"]
    leaves = [Task("leaf", name, writing(lambda: text[0], name), outputs={name: Output()}) for name in "ab"]
    ends = [
        Task("on", f"on {leaf.label}", counting(calls, str), {"of": leaf.label}, {"before": leaf.ref(leaf.label)})
        for leaf in leaves
    ]
    execute(leaves, Store(tmp_path))
    assert len(list(tmp_path.glob("leaf/*/*"))) == 1, "one artefact"
    flip(next(tmp_path.glob("leaf/*/*/value")))
    text[0] = "two"
    outcome = execute([*leaves, *ends], Store(tmp_path))
    assert [outcome.artefact(task.ref()).path("value").read_text() for task in ends] == ["two", "two"]
    assert len(aside(tmp_path)) == 1
    assert execute([*leaves, *ends], Store(tmp_path)).computed == 0


def test_what_is_only_found_is_not_looked_at(tmp_path: Path) -> None:
    put(Store(tmp_path))
    flip(tmp_path / "stage" / KEY[:2] / KEY / "sub-value")
    found = Store(tmp_path).find("stage", KEY)
    assert found is not None and not aside(tmp_path)
    with pytest.raises(Damaged, match="the bytes of its file sub-value"):
        found.path("sub/value")
    assert len(aside(tmp_path)) == 1
    trusting = Store(tmp_path / "other", "never")
    flip(put(trusting).place / "sub-value")
    again = Store(tmp_path / "other", "never").find("stage", KEY)
    assert again is not None and again.folder == again.place


def test_another_process_looks_for_itself(tmp_path: Path) -> None:
    made = put(Store(tmp_path))
    assert made.folder == made.place
    flip(made.place / "sub-value")
    assert made.folder == made.place, "looked at once in a run"
    with pytest.raises(Damaged):
        pickle.loads(pickle.dumps(made)).path("sub-value")
    error = Damaged(made, "why")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_plan_counts_what_is_damaged_as_missing(tmp_path: Path) -> None:
    task = Task("leaf", "a", counting([], lambda: "x"))
    execute([task], Store(tmp_path))
    (next(tmp_path.glob(f"leaf/*/*/{RECORD}"))).write_text("[]")
    assert [reused for _, reused in look_up_tasks([task], Outcome(Store(tmp_path)))] == [False]


def test_no_flipped_bit_of_a_record_is_believed(tmp_path: Path) -> None:
    made = put(Store(tmp_path))
    whole = (made.place / RECORD).read_bytes()
    random = np.random.default_rng(0)
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << int(random.integers(8))
        (made.place / RECORD).write_bytes(content)
        found = Store(tmp_path).find("stage", KEY)
        assert found is None or (found.record == made.record and found.digest == made.digest)
        for left in aside(tmp_path):
            left.rename(made.place)


@pytest.mark.parametrize("content", ["{}", "null", "[]", "", '"text"', "1", "[" * 100_000, "\x00", "gone", "empty"])
def test_a_record_of_another_kind_is_damage(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    made = put(store)
    if content == "gone":
        (made.place / RECORD).unlink()
    elif content == "empty":
        shutil.rmtree(made.place)
        made.place.write_text("a file in its place")
    else:
        (made.place / RECORD).write_text(content)
    assert Store(tmp_path).find("stage", KEY) is None
    assert len(aside(tmp_path)) == 1
    put(store)
    assert Store(tmp_path).find("stage", KEY) is not None


def test_records_of_earlier_versions_are_read(tmp_path: Path) -> None:
    made = put(Store(tmp_path))
    record = json.loads((made.place / RECORD).read_text())
    del record["check"]
    (made.place / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True))
    found = Store(tmp_path).find("stage", KEY)
    assert found is not None and found.folder == made.place
    record["files"]["sub-value"]["sha256"] = "0" * 64
    (made.place / RECORD).write_text(json.dumps(record))
    assert Store(tmp_path).find("stage", KEY) is None


def test_too_many_open_files_is_an_error_and_nothing_is_moved(tmp_path: Path) -> None:
    put(Store(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[0]), before[1]))
    try:
        found = Store(tmp_path).find("stage", KEY)
        assert found is not None
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for read in (lambda: Store(tmp_path).find("stage", KEY), lambda: pickle.loads(pickle.dumps(found)).folder):
            with pytest.raises(StageFailed, match="ulimit -n") as caught:
                read()
            assert not isinstance(caught.value, Damaged)
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not aside(tmp_path)
    assert found.folder == found.place


def test_a_note_that_has_changed_is_not_believed(tmp_path: Path) -> None:
    store, choice = Store(tmp_path), digest("choice")
    store.remember(choice, digest("content"))
    assert store.recall(choice) == digest("content")
    (note,) = tmp_path.glob("selections/*/*")
    whole = note.read_bytes()
    for bit in range(0, 8 * len(whole), 17):
        flip(note, bit)
        assert store.recall(choice) is None
        note.write_bytes(whole)
    note.write_text(digest("content"))
    assert store.recall(choice) is None, "of an earlier version: nothing shows that it has not changed"


@pytest.mark.parametrize(
    ("raised", "cause", "remedy"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full", "paths.root"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the quota", "quota -s"),
        (PermissionError(errno.EACCES, "Permission denied", "/a b"), "this user may not", "chmod -R u+rwX '/a b'"),
        (OSError(errno.EROFS, "Read-only file system"), "mounted for reading alone", "paths.root"),
        (OSError(errno.EMFILE, "Too many open files"), "no more files open", "ulimit -n $(ulimit -Hn)"),
        (OSError(errno.ENAMETOOLONG, "File name too long"), "longer than the file system takes", "shorten the ids"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a/b.wav"), "moved or removed", "restore it"),
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected"), "", "mend the cause"),
    ],
)
def test_an_error_of_the_system_is_said_as_what_it_is(tmp_path: Path, raised: OSError, cause: str, remedy: str) -> None:
    def fails(work: Work) -> None:
        raise raised

    with pytest.raises(StageFailed, match=r"the task (failed|could not write its result): ") as caught:
        execute([Task("leaf", "the task", fails)], Store(tmp_path))
    assert cause in caught.value.cause and remedy in caught.value.remedy
    assert caught.value.where == (raised.filename or str(tmp_path))
    assert ("disk is full" in str(caught.value)) == (raised.errno == errno.ENOSPC)


HOLDER = """
import sys
from dataclasses import replace
from pathlib import Path
from pipeline.engine.store import Store
(Store(Path(sys.argv[1])).scratch("train", sys.argv[2]) / "checkpoint").write_text("far")
print("ready", flush=True)
input()
"""


def test_two_trainings_at_once_have_folders_of_their_own_and_a_dead_ones_is_taken_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        own = store.scratch("train", KEY)
        assert list(own.iterdir()) == [], "the living one keeps its own"
        assert store.scratch("train", KEY) == own
        own.rmdir()
        other.kill()
        other.communicate()
    assert store.scratch("train", KEY) == own
    assert (own / "checkpoint").read_text() == "far", "what a killed one left is gone on from"
    assert [path.name for path in own.parent.iterdir()] == [own.name]
    store.release("train", KEY)
    assert [path.name for path in own.parent.iterdir()] == [f"{KEY}.scratch"]
    assert (store.scratch("train", KEY) / "checkpoint").exists()


def test_a_training_elsewhere_keeps_its_folder_while_it_writes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    own = store.scratch("train", KEY)
    theirs = own.with_name(own.name.replace(this_process().token(), replace(this_process(), host="elsewhere").token()))
    own.rename(theirs)
    (theirs / "checkpoint").write_text("far")
    assert list(store.scratch("train", KEY).iterdir()) == []
    own.rmdir()
    silent(theirs)
    assert (store.scratch("train", KEY) / "checkpoint").exists()


def silent(folder: Path) -> None:
    long_ago = time.time() - claims.QUIET_SECONDS - 60
    os.utime(folder, (long_ago, long_ago))


@pytest.mark.parametrize(
    "owner", [replace(this_process(), host="elsewhere"), replace(this_process(), started="1@boot.namespace")]
)
def test_checkpoints_are_free_when_their_process_is_not_waited_for_any_more_and_not_before(
    owner: Owner, tmp_path: Path
) -> None:
    """Another machine, and this one before it was started anew."""
    store = Store(tmp_path)
    final = store.folder("train", KEY)
    claim = final.with_name(f"{KEY}{claims.WRITTEN}{owner.token()}-00000000")
    theirs = final.with_name(f"{KEY}.{owner.token()}{claims.SCRATCH}")
    for path in (claim, theirs):
        path.mkdir(parents=True)
    (theirs / "checkpoint").write_text("far")
    for quiet in ([theirs], [claim], [theirs, claim]):
        for path in (claim, theirs):
            os.utime(path)
        for path in quiet:
            silent(path)
        waited_for = bool(claims.find_writers(final))
        assert waited_for == (len(quiet) < 2)
        own = store.scratch("train", KEY)
        assert (own / "checkpoint").exists() != waited_for
        if waited_for:
            own.rmdir()


def test_of_several_checkpoints_the_one_with_most_steps_is_taken_over_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest is of a restart that began at step 0; one has no checkpoint at all, and one is of a process at work."""
    caplog.set_level("INFO", "pipeline")
    store = Store(tmp_path)
    final = store.folder("train", KEY)
    for pid, step in ((11, 40), (12, 90_000), (13, -1), (14, 200), (15, 95_000)):
        owner = replace(this_process(), host="elsewhere", pid=pid)
        folder = final.with_name(f"{KEY}.{owner.token()}{claims.SCRATCH}")
        folder.mkdir(parents=True)
        if step >= 0:
            checkpoints.Checkpoints(folder, "same").save({"weights": torch.zeros(2)}, {"step": step})
        if pid != 15:
            os.utime(folder, (time.time() - 1000 + pid,) * 2)
    own = store.scratch("train", KEY, checkpoints.read_steps)
    assert checkpoints.read_steps(own) == 90_000
    assert "taking over the checkpoint of process 12 of another machine at step 90000, the furthest of 4" in caplog.text


def test_what_is_old_is_swept_and_what_may_be_in_use_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store)
    shelf = store.folder("stage", KEY).parent
    day, long_ago = 24 * 3600, time.time() - claims.STALE_SECONDS - 60

    def dated(days: float) -> str:
        return time.strftime("%Y%m%d", time.gmtime(time.time() - days * day))

    kept = [
        f"{KEY}.tmp-{this_process().token()}-00000000",
        f"{KEY}.tmp-{replace(this_process(), host='elsewhere').token()}-00000000",
        f"{'e' * 64}.scratch",
        f"{KEY}.damaged-{dated(3)}-00000000",
    ]
    # The checkpoints of what is there already are of no use to anybody.
    gone = [
        f"{KEY}.tmp-{'0' * 32}",
        f"{'e' * 64}.old.scratch",
        f"{KEY}.scratch",
        f"{KEY}.damaged-{dated(40)}-00000000",
    ]
    for name in [*kept, *gone]:
        (shelf / name).mkdir()
        if name in gone[:2]:
            os.utime(shelf / name, (long_ago, long_ago))
    os.utime(shelf / kept[0], (long_ago, long_ago))
    assert store.sweep() == claims.Sweep(removed=4, damaged=1)
    assert sorted(path.name for path in shelf.iterdir()) == sorted([KEY, *kept])
    assert Store(tmp_path / "nowhere").sweep() == claims.Sweep(0, 0)


def test_the_names_of_what_is_unfinished_fit_any_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """eCryptfs takes 143 bytes, and a machine may have a name of 64."""
    me = replace(this_process(), host="node-" + "a" * 59)
    monkeypatch.setattr(claims, "this_process", lambda: me)
    monkeypatch.setattr("pipeline.engine.store.this_process", lambda: me)
    store = Store(tmp_path)
    store.remember(KEY, KEY)
    put(store)
    flip(store.folder("stage", KEY) / RECORD)
    assert store.find("stage", KEY) is None
    written, scratch = store.begin("stage", KEY), store.scratch("stage", KEY)
    names = [path.name for path in tmp_path.rglob("*")]
    assert {written.name, scratch.name} <= set(names) and len(aside(tmp_path)) == 1
    assert max(map(len, names)) <= 143, max(names, key=len)


def test_what_another_process_commits_while_it_is_looked_for_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever call it is that finds nothing: the artefact is there right after it."""
    committed: list[Artefact] = []
    for name in ("stat", "read_bytes", "exists"):
        real = getattr(Path, name)

        def late(path: Path, *rest: object, real: Callable[..., object] = real, **named: object) -> object:
            try:
                found, error = real(path, *rest, **named), None
            except FileNotFoundError as caught:
                found, error = None, caught
            if (error or found is False) and path.is_relative_to(tmp_path / "stage") and not committed:
                monkeypatch.undo()
                committed.append(put(Store(tmp_path)))
            if error:
                raise error
            return found

        monkeypatch.setattr(Path, name, late)
    Store(tmp_path).find("stage", KEY)
    assert len(committed) == 1
    assert not aside(tmp_path)
    assert Store(tmp_path).find("stage", KEY) == committed[0]


@pytest.mark.parametrize("damage", ["record", "bytes"])
def test_what_another_process_made_again_is_not_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """Two find the same damage; one is still hashing when the other has set it aside and made it again."""
    made = put(Store(tmp_path))
    flip(made.place / (RECORD if damage == "record" else "sub-value"))

    def first() -> None:
        monkeypatch.undo()
        other = Store(tmp_path)
        found = other.find("stage", KEY)
        if damage == "bytes":
            assert found is not None
            with pytest.raises(Damaged):
                other.sound(found)
        put(other, "new")

    late = Store(tmp_path)
    if damage == "record":
        real = storage.read_record

        def read(content: bytes, stage: str, key: str) -> dict[str, object]:
            first()
            return real(content, stage, key)

        monkeypatch.setattr(storage, "read_record", read)
        assert late.find("stage", KEY) is None
    else:
        found = late.find("stage", KEY)
        digest_of = storage.file_digest

        def hashed(path: Path) -> str:
            was = digest_of(path)
            first()
            return was

        monkeypatch.setattr(storage, "file_digest", hashed)
        assert found is not None
        with pytest.raises(Damaged):
            late.sound(found)
    assert len(aside(tmp_path)) == 1
    now = late.find("stage", KEY)
    assert now is not None and now.path("sub-value").read_text() == "new"


@pytest.mark.parametrize("again", [True, False], ids=["made again", "set aside"])
@pytest.mark.parametrize("error", [FileNotFoundError, DataError])
def test_what_is_taken_away_while_a_task_reads_it_is_found_or_made_again(
    tmp_path: Path, error: type[Exception], again: bool
) -> None:
    store, calls = Store(tmp_path), list[str]()
    leaf = Task("leaf", "a", counting(calls, lambda: "x"))

    def reads(work: Work) -> None:
        source: Artefact = work.input("before")
        if calls.count("reads") == 0:
            calls.append("reads")
            source.place.rename(source.place.with_name(f"{source.key}.damaged-20200101-00000000"))
            if again:
                folder = store.begin("leaf", source.key)
                (folder / "value").write_text("x")
                store.commit("leaf", source.key, folder, {}, {})
            raise error(f"no such file {source.place / 'value'}")
        (work.folder() / "value").write_text(source.path("value").read_text() + "y")

    on = Task("on", "b", reads, inputs={"before": leaf.ref()})
    outcome = execute([leaf, on], store)
    assert outcome.artefact(on.ref()).path("value").read_text() == "xy"
    assert calls == (["a", "reads"] if again else ["a", "reads", "a"])
    assert (outcome.reused, outcome.computed) == (0, 2)


def test_a_task_that_fails_over_sources_that_stand_fails_once(tmp_path: Path) -> None:
    calls: list[str] = []

    def fails(work: Work) -> None:
        calls.append("b")
        raise FileNotFoundError(2, "No such file", "/elsewhere")

    leaf = Task("leaf", "a", counting(calls, lambda: "x"))
    with pytest.raises(StageFailed, match="/elsewhere"):
        execute([leaf, Task("on", "b", fails, inputs={"before": leaf.ref()})], Store(tmp_path))
    assert calls == ["a", "b"]
