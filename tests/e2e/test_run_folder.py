"""What happens to a run folder after its run: bits that flip, records that were cut off, files that may not be read."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kaldiio
import numpy as np
import pytest

from pipeline import cli, evaluation, files
from pipeline.errors import DataError
from pipeline.evaluation.run_folder import RunFolder
from pipeline.tables import records
from pipeline.tables import status as status_files
from tests.datasets.conftest import Tiny
from tests.sampled import mostly_slow

Command = Callable[..., tuple[int, str, str]]


def arguments(home: Path) -> list[str]:
    """A run of a second or so: vectors that were made elsewhere."""
    tiny = Tiny(home / "data").save()
    (home / "x").mkdir()
    random = np.random.default_rng(3)
    with kaldiio.WriteHelper(f"ark,scp:{home / 'x' / 'xvector.ark'},{home / 'x' / 'xvector.scp'}") as writer:
        for path in sorted((tiny.root / "wav").iterdir()):
            writer(path.stem, random.standard_normal(8).astype(np.float32))
    return [
        "recipe=kaldi", f"dataset.root={tiny.root}", "system=[original]", "extractor=[precomputed]", "train=none",
        f"+extractor.precomputed.vectors={{original: {home / 'x'}}}", "attacker=[ignorant]", "backend=[cosine]",
        "metric=[asv,zebra]", "metric.asv.interval=none", "metric.zebra.interval=none", "diagnostics=true", f"paths.root={home / 'exp'}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    home = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert cli.run(arguments(home)) == 0
    (run,) = (home / "exp" / "runs").iterdir()
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, beside no store."""
    return Path(shutil.copytree(finished, tmp_path / finished.name))


def flip(path: Path, bit: int) -> None:
    """Another value of one bit; the size stays."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


# Bits


DATA = (
    "results.parquet", "leaderboard.parquet", "diagnostics.parquet", "artefacts.parquet", "figures/ece_profile.parquet",
    "limits.json", "store.json", "environment.json", "config.yaml", "overrides.txt", "status.json", "digests.json",
)  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_a_flipped_bit_anywhere_in_a_file_is_named(name: str, run: Path) -> None:
    whole = (run / name).read_bytes()
    random = np.random.default_rng(1)
    for bit in random.integers(0, 8 * len(whole), 12):
        flip(run / name, int(bit))
        if json_value(whole) is not None and json_value((run / name).read_bytes()) == json_value(whole):
            assert name in ("status.json", "digests.json")  # white space between values, which says nothing
        else:
            with pytest.raises(DataError, match=re.escape(name)) as caught:
                evaluation.read(run)
            assert "not what was written" in caught.value.what and run.name in caught.value.what
        (run / name).write_bytes(whole)
    assert len(evaluation.read(run).rows)


def test_a_signed_record_shows_every_bit_that_changes_what_it_says() -> None:
    record = {"state": "done", "exit_status": 0, "reasons": ["für"], "process": {"pid": 7}}
    whole = records.encode_signed(record).encode()
    assert records.decode_signed(whole) == record == records.decode_signed(json.dumps(record).encode())
    shown = 0
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            assert records.decode_signed(bytes(changed)) == record
        except ValueError:
            shown += 1
    assert shown > 7 * len(whole)


def json_value(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


@pytest.mark.slow
def test_damage_is_said_and_the_command_in_the_message_mends_it(finished: Path, run: Path, command: Command) -> None:
    assert command("report", str(run))[0] == 0
    for name in ("results.parquet", "figures/ece_profile.parquet"):
        flip(run / name, 4000)
    for words in (["report", str(run)], ["compare", str(run), str(finished)]):
        status, _, err = command(*words)
        assert status == 3
        assert f"figures/ece_profile.parquet, results.parquet of run {run.name} are not what was written" in err
    again = err.strip().splitlines()[-1].partition(": voice-privacy ")[2]
    status, out, _ = command(*shlex.split(again))
    assert status == 0 and "0 computed" in out
    assert command("report", str(Path(out.splitlines()[-1]).parent))[0] == 0


def test_a_file_that_is_gone_is_named_and_what_people_edit_is_not_looked_at(run: Path, command: Command) -> None:
    (run / "results.csv").write_text("mine\n")
    assert command("report", str(run))[0] == 0
    (run / "limits.json").unlink()
    status, _, err = command("report", str(run))
    assert status == 3 and f"limits.json of run {run.name} is not what was written" in err


@pytest.mark.parametrize(
    "name", mostly_slow(one for one in DATA if one not in ("digests.json", "overrides.txt", "store.json"))
)
def test_a_run_without_digests_is_read_and_what_cannot_be_parsed_is_named(
    name: str, run: Path, command: Command
) -> None:
    (run / "digests.json").unlink()
    assert command("report", str(run))[0] == 0
    (run / name).write_bytes(b"\xff\x00{[")
    if name == "artefacts.parquet":  # no page shows it
        with pytest.raises(DataError, match=name):
            evaluation.read(run).scores()
        return
    status, _, err = command("report", str(run))
    assert status == 3 and f"{name} of run {run.name}" in err and "To mend it: run the same evaluation again" in err


# Records


@contextmanager
def largest(size: int) -> Iterator[None]:
    """Have the system refuse to make any file larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_record_that_may_not_grow_stays_whole(tmp_path: Path) -> None:
    status_files.write(tmp_path, {"state": "running", "task": "x" * 100})
    before = (tmp_path / "status.json").read_bytes()
    for size in (100, len(before), len(before) + 50):
        with largest(size), pytest.raises(OSError, match="File too large"):
            status_files.write(tmp_path, {"state": "failed", "reasons": ["y" * 1000]})
        assert (tmp_path / "status.json").read_bytes() == before


def test_a_long_reason_that_finds_no_room_is_kept_short(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "kaldi")
    folder.describe({}, [])
    room = (folder.path / "status.json").stat().st_size + 400
    with largest(room):
        folder.last_status(state="failed", exit_status=5, reasons=["the disk " + "y" * 1000])
    folder.close()
    record = status_files.read(folder.path)
    assert record["state"] == "failed" and record["reasons"][0].startswith("the disk yy")
    assert (folder.path / "status.json").stat().st_size <= room


@pytest.mark.parametrize("garbled", ["{", "\x00" * 300])
def test_a_record_that_cannot_be_read_counts_as_of_a_killed_run_once_it_is_silent(
    garbled: str, finished: Path, tmp_path: Path, command: Command
) -> None:
    gone = tmp_path / "exp" / "runs" / "20260101T000000Z-kaldi-4711"
    gone.mkdir(parents=True)
    (gone / "status.json").write_text(garbled)
    failing = ["recipe=kaldi", "dataset.root=gone", f"paths.root={tmp_path / 'exp'}"]
    _, _, err = command(*failing)
    assert f"run {gone.name} may still go on: its status.json is not what was written" in err
    status, _, err = command("report", str(gone))
    assert status == 2 and "its status.json is not what was written" in err
    os.utime(gone / "status.json", (time.time() - 3600,) * 2)
    _, _, err = command(*failing)
    assert f"run {gone.name} was killed at 2" in err
    assert json.loads((gone / "status.json").read_text())["state"] == "killed"
    assert gone.name not in command(*failing)[2]


def test_a_finished_run_whose_record_was_damaged_is_never_marked_as_killed(run: Path, command: Command) -> None:
    (run / "status.json").write_text("{")
    os.utime(run / "status.json", (time.time() - 3600,) * 2)
    os.utime(run / "run.log", (time.time() - 3600,) * 2)
    status, _, err = command("report", str(run))
    assert status == 3 and f"status.json of run {run.name} is not what was written" in err
    assert (run / "status.json").read_text() == "{"


# The system


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Have the system refuse to open a file, as it does for another user; root may open any."""
    opened = files.os.open
    open_path = Path.open

    def refuse(name: Path) -> None:
        def guarded(path, *rest, **more):
            if Path(path) == name:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return opened(path, *rest, **more)

        def guarded_path(path, *rest, **more):
            if path == name:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return open_path(path, *rest, **more)

        monkeypatch.setattr(files.os, "open", guarded)
        monkeypatch.setattr(Path, "open", guarded_path)

    return refuse


def test_loading_says_that_a_file_may_not_be_read_and_not_that_it_is_damaged(
    tmp_path: Path, denied: Callable[[Path], None]
) -> None:
    from pipeline.errors import ModelMissing
    from pipeline.extractors.ge2e import network as encoder
    from pipeline.extractors.wavlm import layouts
    from pipeline.nets import states

    for load, name in (
        (encoder.load, "pretrained.pt"),
        (states.read_checkpoint, "pytorch_model.bin"),
        (lambda path: layouts.read_configuration(path.parent), layouts.CONFIG),
        (states.read_tensors, "model.safetensors"),
    ):
        path = tmp_path / name
        path.write_bytes(b"weights")
        denied(path)
        with pytest.raises(ModelMissing, match="weights cannot be read: Permission denied") as caught:
            load(path)
        assert caught.value.where == str(path)


@pytest.mark.parametrize(("number", "remedy"), [(errno.EACCES, "chmod -R u+rwX '/a b/c'"), (errno.EIO, "see whether")])
def test_an_error_of_the_system_that_nobody_explained_is_no_bug(
    number: int, remedy: str, finished: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "/a b/c")

    monkeypatch.setattr("pipeline.evaluation.run.assemble_graph", refuses)
    asked = arguments(tmp_path)
    for verb in ([], ["plan"]):
        status, _, err = command(*verb, *asked)
        assert status == 5 and os.strerror(number) in err and "Where: /a b/c." in err and remedy in err
    (run,) = (tmp_path / "exp" / "runs").iterdir()
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    assert "Traceback" in (run / "run.log").read_text()
