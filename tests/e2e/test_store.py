"""What happens to a store between two runs: bits that flip, files that may not be read, processes that are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline import cli
from pipeline.datasets import parallel
from pipeline.engine import store as storage
from pipeline.engine.store import RECORD
from pipeline.seeds import digest
from pipeline.tables import checks, results
from tests import toy

ASKED = ("system=[original,b2]", "extractor=[ge2e]", "attacker=[ignorant,lazy_informed]", "metric=[asv,vsm]", "runtime.threads=1")  # fmt: skip
LATER = {"anonymise": ("extract", "score", "measure", "check"), "extract": ("score", "measure", "check"), "score": ("measure", "check")}  # fmt: skip
"""What has to be gone for the artefacts of a stage to be read."""


@dataclass(frozen=True)
class Finished:
    """A finished run, and how to run the same command again over a copy of its store."""

    data: Path
    exp: Path
    tasks: int
    values: dict[str, Any]

    def files(self, stage: str) -> list[Path]:
        """Files of a part of the store, below the store."""
        store = self.exp / "store"
        return sorted(path.relative_to(store) for path in (store / stage).rglob("*") if path.is_file())


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    status: int
    reused: int
    computed: int
    err: str
    values: dict[str, Any]

    @property
    def damaged(self) -> int:
        """How often it was said that something is damaged."""
        return self.err.count("is damaged:")


def found(report: Path) -> dict[str, Any]:
    """All values of a run."""
    folder, here = report.parent, ["run_id", "config_digest"]
    rows = results.read(folder).drop(columns=here)
    readers = {".parquet": pd.read_parquet, ".csv": pd.read_csv}
    tables = {
        path.name: readers[path.suffix](path).drop(columns=here, errors="ignore")
        for path in (folder / "figures").iterdir()
        if path.suffix in readers
    }
    return {"rows": rows, "judged": checks.read(folder), **tables}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].equals(other[name]) for name in one)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    root = tmp_path_factory.mktemp("finished")
    data, exp = toy.corpus(root / "data", speakers=4, utterances=4), root / "exp"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(parallel, "RACY_NS", 0)  # the corpus is younger than what is otherwise kept
        assert cli.run([f"dataset.root={data}", *ASKED, f"paths.root={exp}"]) == 0
    (report,) = exp.glob("runs/*/report.html")
    tasks = sum(int(word) for word in json.loads((report.parent / "status.json").read_text())["tasks"].split() if word.isdigit())  # fmt: skip
    return Finished(data, exp, tasks, found(report))


@pytest.fixture
def store(finished: Finished, tmp_path: Path) -> Path:
    """A copy of the store of the finished run."""
    shutil.copytree(finished.exp / "store", tmp_path / "exp" / "store")
    return tmp_path / "exp" / "store"


@pytest.fixture
def again(
    finished: Finished, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ended]]:
    """Run the same command over the copy."""
    monkeypatch.chdir(tmp_path)

    def call(*more: str) -> Ended:
        capfd.readouterr()
        status = cli.run([f"dataset.root={finished.data}", *ASKED, f"paths.root={tmp_path / 'exp'}", *more])
        out, err = capfd.readouterr()
        if status:
            return Ended(status, 0, 0, err, {})
        *_, counts, report = out.splitlines()
        return Ended(status, int(counts.split()[1]), int(counts.split()[3]), err, found(Path(report)))

    yield call


def flip(path: Path, bit: int) -> None:
    """Another value of one bit; the size stays."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def remove(store: Path, *stages: str) -> None:
    for stage in stages:
        shutil.rmtree(store / stage, ignore_errors=True)


def aside(store: Path) -> int:
    return len(list(store.rglob("*.damaged*")))


def check_mended(finished: Finished, again: Callable[..., Ended]) -> Ended:
    """The next run has the values of the clean one, whatever it had to do, and the one after it has nothing to do."""
    mended = again()
    assert mended.status == 0, mended.err
    assert same(mended.values, finished.values)
    assert mended.reused + mended.computed == finished.tasks
    assert "Traceback" not in mended.err
    return mended


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("score", ""),
        pytest.param("extract", "features", marks=pytest.mark.slow),
        pytest.param("anonymise", ".wav", marks=pytest.mark.slow),
    ],
)
def test_a_bit_that_flips_in_what_is_read_is_found_and_made_again(
    finished: Finished, store: Path, again: Callable[..., Ended], stage: str, name: str
) -> None:
    one = next(path for path in finished.files(stage) if name in str(path) and path.name != RECORD)
    flip(store / one, 8 * 1000)
    remove(store, *LATER[stage])
    mended = check_mended(finished, again)
    assert (mended.damaged, aside(store)) == (1, 1)
    assert f"the bytes of its file {Path(*one.parts[3:])} are not those that were written" in mended.err
    last = again()
    assert (last.computed, last.damaged) == (0, 0)


def test_what_is_found_and_gathered_is_looked_at_too(
    finished: Finished, store: Path, again: Callable[..., Ended]
) -> None:
    one = next(path for path in finished.files("measure") if path.name == "rows.parquet")
    flip(store / one, 8 * 1000)
    mended = check_mended(finished, again)
    assert (mended.computed, mended.damaged) == (1, 1)
    assert again().computed == 0


@pytest.mark.slow
def test_what_is_kept_beside_the_results_is_dropped_where_it_does_not_check(
    finished: Finished, store: Path, again: Callable[..., Ended]
) -> None:
    """A note of a selection, what is known of audio files, kept figures, and a count in a record."""
    note = finished.files("selections")[0]
    (store / note).write_bytes((store / note).read_bytes().replace(b"a", b"b", 1))
    known = finished.files("files")[0]
    flip(store / known, 8 * 500)
    plots = next(path for path in finished.files("draw") if path.name == "plots.json")
    flip(store / plots, 8 * 500)
    record = next(path for path in finished.files("extract") if path.name == RECORD)
    text = (store / record).read_text()
    assert '"milliseconds": []' in text
    (store / record).write_text(text.replace('"milliseconds": []', '"milliseconds": [9.5]'))
    mended = check_mended(finished, again)
    assert "its record is not what was written" in mended.err
    assert mended.computed == 1
    assert again().damaged == 0


@pytest.mark.parametrize(
    "content", ["{}", *(pytest.param(odd, marks=pytest.mark.slow) for odd in ("null", "[]", "", "[1]"))]
)
def test_a_record_of_another_kind_is_damage(
    finished: Finished, store: Path, again: Callable[..., Ended], content: str
) -> None:
    record = next(path for path in finished.files("measure") if path.name == RECORD)
    (store / record).write_text(content)
    mended = check_mended(finished, again)
    assert (mended.computed, mended.damaged, aside(store)) == (1, 1, 1)


@pytest.mark.slow
def test_a_run_that_trusts_its_store_does_not_look_but_at_audio_that_it_decodes(
    finished: Finished, store: Path, again: Callable[..., Ended]
) -> None:
    one = next(path for path in finished.files("anonymise") if path.suffix == ".wav")
    flip(store / one, 8 * 1000)
    remove(store, *LATER["anonymise"])
    trusting = again("store.verify=never")
    assert (trusting.status, trusting.damaged, aside(store)) == (3, 0, 0)
    assert "an audio file is not what it was when the data were read" in trusting.err
    assert again("store.verify=perhaps").status == 2


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (13, "chmod -R u+rwX"),
        pytest.param(24, "ulimit -n", marks=pytest.mark.slow),
        pytest.param(5, "disk or the file server", marks=pytest.mark.slow),
        pytest.param(2, "", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_read_is_an_error_and_stays_where_it_is(
    finished: Finished,
    store: Path,
    again: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    said: str,
) -> None:
    remove(store, "measure")
    real = storage.file_digest

    def fails(path: Path) -> str:
        if "score" in path.parts:
            raise OSError(number, "no", str(path))
        return real(path)

    monkeypatch.setattr(storage, "file_digest", fails)
    monkeypatch.setattr(storage, "_hashed", {})
    refused = again()
    if number == 2:  # a file that is gone is damage, and it is made again
        assert (refused.status, refused.damaged > 0) == (0, True)
        return
    assert (refused.status, aside(store)) == (5, 0)
    assert said in refused.err and "damaged" not in refused.err and "Traceback" not in refused.err
    monkeypatch.undo()
    monkeypatch.chdir(store.parent.parent)
    check_mended(finished, again)
    assert aside(store) == 0


def test_a_finished_run_reads_no_audio_again(
    finished: Finished, store: Path, again: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process starts the same command: it looks at records and rows alone."""
    read = hashed(monkeypatch)
    last = again()
    assert (last.status, last.computed) == (0, 0)
    assert same(last.values, finished.values)
    assert "check" in read and not read & {"anonymise", "extract", "score"}, read


def hashed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The stages whose artefacts are read from now on, as a new process reads them."""
    read: set[str] = set()
    real = storage.file_digest

    def listed(path: Path) -> str:
        read.add(path.parts[path.parts.index("store") + 1])
        return real(path)

    monkeypatch.setattr(storage, "file_digest", listed)
    monkeypatch.setattr(storage, "_hashed", {})
    return read


@pytest.mark.parametrize("forgotten", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_rendered_data_set_is_read_when_it_is_decoded_and_made_again_where_it_is_damaged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    """Also where its files have to be looked at anew, because what was known of them is gone."""
    asked = ("dataset=synthetic", "dataset.speakers=4", "dataset.train_speakers=0", "dataset.utterances=2", "dataset.seconds=1",
             "system=original", "extractor=[ge2e]", "metric=[asv]", "runtime.threads=1", f"paths.root={tmp_path / 'exp'}")  # fmt: skip
    monkeypatch.chdir(tmp_path)

    def call() -> tuple[int, str, str]:
        capfd.readouterr()
        return (cli.run([*asked]), *capfd.readouterr())

    status, _, err = call()
    assert status == 0, err
    read = hashed(monkeypatch)
    status, out, err = call()
    assert status == 0 and " 0 computed" in out, err
    assert "measure" in read and "synthesise" not in read
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "exp" / "store"
    wav = next(iter(sorted(store.glob("synthesise/*/*/*/*.wav"))))
    whole = wav.read_bytes()
    # Its size and its times are as they were, as those of a disk that decays.
    before = wav.stat()
    flip(wav, 8 * 1000)
    os.utime(wav, ns=(before.st_atime_ns, before.st_mtime_ns))
    remove(store, "extract", "score", "measure", *(["files"] if forgotten else []))
    status, _, err = call()
    assert status == 0, err
    assert "the bytes of its file" in err and "Traceback" not in err
    assert wav.read_bytes() == whole
    if forgotten:
        assert " 0 computed" in call()[1]


LEAVES = """
import sys
from pathlib import Path
from pipeline.engine.store import Store
store = Store(Path(sys.argv[1]))
for key in ("a" * 64, "b" * 64):
    (store.begin("extract", key) / "half").write_text("half")
    (store.scratch("train", key) / "checkpoint").write_text("far")
print("ready", flush=True)
input()
"""


def test_what_a_killed_run_left_goes_at_the_next_start_and_a_living_one_keeps_its_own(
    finished: Finished, store: Path, again: Callable[..., Ended]
) -> None:
    def left() -> list[Path]:
        return [path for path in store.rglob("*") if ".tmp-" in path.name]

    def writer() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", LEAVES, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    killed = writer()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert len(left()) == 2
    with writer() as living:
        assert len(left()) == 4
        ended = again()
        assert ended.status == 0
        assert "removed 2 leftovers" in ended.err
        assert len(left()) == 2
        living.kill()
        living.communicate()
    again()
    assert left() == []
    checkpoints = list(store.glob("train/*/*.scratch/checkpoint"))
    assert len(checkpoints) == 2, "they wait for whoever goes on: the second writer took those of the first over"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["anonymise", "check", "draw", "extract", "files", "measure", "score", "selections"])
def test_no_flipped_bit_anywhere_changes_a_value_or_costs_a_run(
    finished: Finished, tmp_path: Path, again: Callable[..., Ended], part: str
) -> None:
    """Each file of the store in turn, with all that stands on its stage removed."""
    random, store = np.random.default_rng(int(digest(part)[:8], 16)), tmp_path / "exp" / "store"
    for number, file in enumerate(finished.files(part)):
        shutil.rmtree(tmp_path / "exp", ignore_errors=True)
        shutil.copytree(finished.exp / "store", store)
        bit = int(random.integers(8 * (store / file).stat().st_size))
        flip(store / file, bit)
        remove(store, *LATER.get(part, ()), "measure")
        mended = again()
        assert mended.status == 0, (file, bit, mended.err)
        assert same(mended.values, finished.values), (file, bit)
        assert mended.err.count(file.parts[-2]) <= 2, "said once, with the new name"
        if number % 5 == 0:
            last = again()
            assert (last.computed, last.damaged) == (0, 0), (file, bit)
