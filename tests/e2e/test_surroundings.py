"""What surrounds a run: schedulers, signals, a disk that fills, runs that were killed; each through the command line."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import kaldiio
import numpy as np
import pandas as pd
import pytest

from pipeline import evaluation
from pipeline.engine.store import Store
from pipeline.evaluation import machine
from pipeline.processes import this_process
from pipeline.tables import results
from pipeline.tables import status as status_files
from tests import toy
from tests.datasets.conftest import Tiny

Command = Callable[..., tuple[int, str, str]]
SLOW = pytest.mark.slow


@pytest.fixture
def sound(tmp_path: Path) -> list[str]:
    """A command that evaluates a small set in a moment: its vectors are given."""
    tiny = Tiny(tmp_path / "data").save()
    random = np.random.default_rng(1)
    (tmp_path / "x").mkdir()
    with kaldiio.WriteHelper(f"ark,scp:{tmp_path / 'x' / 'xvector.ark'},{tmp_path / 'x' / 'xvector.scp'}") as writer:
        for path in sorted((tiny.root / "wav").iterdir()):
            writer(path.stem, random.standard_normal(8).astype(np.float32))
    return [
        "recipe=kaldi", f"dataset.root={tiny.root}", "system=[original]", "extractor=[precomputed]", "train=none",
        f"+extractor.precomputed.vectors={{original: {tmp_path / 'x'}}}", "attacker=[ignorant]", "backend=[cosine]",
        "metric=[asv]", "metric.asv.interval=none", "diagnostics=false", f"paths.root={tmp_path / 'exp'}",
    ]  # fmt: skip


def states(exp: Path) -> list[str]:
    return [json.loads(path.read_text())["state"] for path in sorted(exp.glob("runs/*/status.json"))]


# Schedulers


def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """Have nothing but these scripts be found."""
    folder.mkdir(exist_ok=True)
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("value", "threads"),
    [("3", 3), (" 3 ", 3), ("2(x3)", 2), *((odd, 0) for odd in ("", "0", "-1", "two", "4,2", "1e3", "²", "2(x3),1"))],
)
def test_cores_that_slurm_gives_are_read_or_ignored_with_a_word(
    value: str, threads: int, sound: list[str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", value)
    assert machine.threads(machine.Runtime()) == (threads or len(os.sched_getaffinity(0)))
    if value in ("2(x3)", "4,2"):
        status, _, err = command("plan", *sound)
        assert status == 0 and ("SLURM_CPUS_PER_TASK='4,2' is no number of cores" in err) == (value == "4,2")


# Sweeps


def test_a_job_that_fails_is_named_at_once_and_the_status_is_the_highest(
    sound: list[str], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "data" / "wav" / "b-t1.wav").unlink()
    roots = f"dataset.root={tmp_path / 'gone'},{tmp_path / 'data'}"
    rest = [one for one in sound if not one.startswith("dataset.root=")]
    status, out, err = command("-m", *rest, roots, "allow_partial=true")
    assert status == 6
    first, second = (f"job {number} (dataset.root={tmp_path / name})" for number, name in ((0, "gone"), (1, "data")))
    assert 0 <= err.find(f"{first}: error: ") < err.rfind("run 2")
    assert f"2 of 2 jobs did not end well; the exit status is the highest, 6:\n  {first}: exit 3\n" in err
    assert f"  {second}: exit 6\n" in err
    assert out.splitlines()[-1].endswith("report.html")
    assert sorted(states(tmp_path / "exp")) == ["failed", "partial"]


# Signals


@contextmanager
def signalled(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[list[int]]:
    """Have the signal arrive when the first result is about to be kept."""
    sent: list[int] = []
    commit = Store.commit

    def kept(self: Store, *arguments: object) -> object:
        if not sent:
            sent.append(number)
            signal.raise_signal(number)
        return commit(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", kept)
        yield sent


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(one, marks=SLOW) for one in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR2)),
    ],
)
def test_a_signal_stops_a_run_and_the_same_command_goes_on(
    number: signal.Signals, sound: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with signalled(monkeypatch, number) as sent:
        status, out, err = command(*sound)
    assert sent and (status, out) == (128 + number, "")
    assert f"stopped by {number.name}; run the same command again" in err
    assert states(tmp_path / "exp") == ["stopped"]
    status, out, _ = command(*sound)
    assert status == 0 and "tasks: 0 reused" not in out


def test_a_signal_ends_the_whole_sweep(
    sound: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with signalled(monkeypatch, signal.SIGTERM):
        status, out, err = command("-m", *sound, "runtime.threads=1,2")
    assert (status, out) == (143, "")
    assert "job 0 (runtime.threads=1): stopped by SIGTERM" in err and "job 1 (runtime.threads=2): not run" in err
    assert states(tmp_path / "exp") == ["stopped"]


@pytest.mark.slow
def test_a_hang_up_that_is_ignored_stays_so(
    sound: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:
        with signalled(monkeypatch, signal.SIGHUP) as sent:
            assert command(*sound)[0] == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sent and states(tmp_path / "exp") == ["done"]


# Runs that were killed

HELD = """
import runpy, sys
from pipeline.engine.store import Store
def held(self, *arguments):
    print("held", file=sys.stderr, flush=True)
    sys.stdin.readline()
Store.begin = held
runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
"""


def held(sound: list[str], home: Path) -> subprocess.Popen[str]:
    """A run of a process of its own that stands still before its first result; a later one would have other runs wait for it."""
    worker = subprocess.Popen(
        [sys.executable, "-c", HELD, *sound], cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stderr is not None and any(line == "held\n" for line in worker.stderr)
    return worker


@pytest.mark.slow
def test_a_second_signal_ends_a_run_at_once_and_the_record_says_so(sound: list[str], tmp_path: Path) -> None:
    worker = held(sound, tmp_path)
    worker.send_signal(signal.SIGTERM)
    assert worker.stderr is not None and any("SIGTERM: stopping after" in line for line in worker.stderr)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(toy.HANGS) == 143
    worker.communicate()
    assert states(tmp_path / "exp") == ["stopped"]


@pytest.mark.slow
def test_a_run_that_was_killed_is_said_to_be_once_and_one_that_goes_on_is_left_alone(
    sound: list[str], command: Command, tmp_path: Path
) -> None:
    worker = held(sound, tmp_path)
    (run,) = (tmp_path / "exp" / "runs").iterdir()
    _, _, err = command(*sound)
    assert "was killed" not in err and states(tmp_path / "exp") == ["running", "done"]
    status, _, err = command("report", str(run))
    assert status == 2 and "it is running since 2" in err and f"process {worker.pid} on" in err
    worker.kill()
    worker.communicate()
    status, _, err = command(*sound)
    assert status == 0 and f"run {run.name} was killed at 2" in err
    assert states(tmp_path / "exp") == ["killed", "done", "done"]
    _, _, err = command(*sound)
    assert "was killed" not in err
    status, _, err = command("report", str(run))
    assert status == 2 and "it was killed at 2" in err


def test_a_report_of_a_run_that_was_killed_at_its_end_says_so(
    sound: list[str], command: Command, tmp_path: Path
) -> None:
    assert command(*sound)[0] == 0
    (run,) = (tmp_path / "exp" / "runs").iterdir()
    record = status_files.read(run)
    gone = subprocess.Popen(["true"])
    gone.wait()
    record.update(state="running", process={**record["process"], "pid": gone.pid})
    status_files.write(run, record)
    assert command("report", str(run))[0] == 0
    assert states(tmp_path / "exp") == ["killed"] and "killed at 2" in (run / "report.html").read_text()


def queued(*jobs: tuple[str, str]) -> str:
    """A script that prints jobs and their states as squeue does, and keeps what it was asked."""
    lines = "".join(f"{job:40}{state:30}{0:<20}\\n" for job, state in jobs)
    return f'echo "$@" >> "${{0%/*}}/asked"; printf \'{lines}\''


@pytest.mark.parametrize(
    ("answer", "quiet", "state"),
    [
        (queued(("4711", "RUNNING")), True, "running"),
        pytest.param(queued(("4711", "RESV_DEL_HOLD")), True, "running", marks=SLOW),
        pytest.param(queued(("4711+0", "RUNNING")), True, "running", marks=SLOW),
        pytest.param("echo RUNNING", True, "running", marks=SLOW),
        pytest.param(queued(("4711", "CANCELLED")), False, "running", marks=SLOW),
        (queued(("4711", "CANCELLED")), True, "killed"),
        pytest.param(queued(("4712", "RUNNING")), True, "killed", marks=SLOW),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True, "killed"),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", True, "running"),
        pytest.param("", True, "running", marks=SLOW),
    ],
)
def test_a_run_on_another_machine_is_called_killed_where_it_is_silent_and_slurm_says_so(
    answer: str,
    quiet: bool,
    state: str,
    sound: list[str],
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "exp" / "runs" / "20260101T000000Z-kaldi-4711"
    run.mkdir(parents=True)
    process = {"host": f"not-{socket.gethostname()}", "pid": 7, "started": "1@2.3"}
    (run / "status.json").write_text(json.dumps({"state": "running", "process": process, "slurm_job": "4711"}))
    if quiet:
        os.utime(run / "status.json", (time.time() - 3600,) * 2)
    on_path(tmp_path / "bin", monkeypatch, **({"squeue": answer} if answer else {}))
    _, _, err = command(*sound, "dataset.root=gone")
    assert states(tmp_path / "exp")[0] == state
    assert ("was killed" in err) == (state == "killed")


def test_slurm_is_asked_once_about_all_runs_and_those_that_ended_are_opened_once(
    sound: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "exp" / "runs"
    process = {"host": f"not-{socket.gethostname()}", "pid": 7, "started": "1@2.3"}
    records = {f"2025-{number}": {"state": "done"} for number in range(20)}
    records |= {
        f"2026-{job}": {"state": "running", "process": process, "slurm_job": job} for job in ("7_0", "7_1", "8")
    }
    for name, record in records.items():
        (runs / name).mkdir(parents=True)
        (runs / name / "status.json").write_text(json.dumps(record))
        os.utime(runs / name / "status.json", (time.time() - 3600,) * 2)
    opened: list[str] = []
    read = status_files.read
    monkeypatch.setattr(status_files, "read", lambda folder: opened.append(folder.name) or read(folder))
    on_path(tmp_path / "bin", monkeypatch, squeue=queued(("7_0", "RUNNING"), ("7_1", "TIMEOUT"), ("8", "FAILED")))
    failing = [*sound, "dataset.root=gone"]
    _, _, err = command(*failing)
    assert err.count(" was killed at 2") == 2 and "run 2026-7_1 was" in err and "run 2026-8 was" in err
    assert len((tmp_path / "bin" / "asked").read_text().splitlines()) == 1
    assert opened.count("2025-3") == 1
    for expected in ({"2026-7_0", "2026-7_1", "2026-8"}, {"2026-7_0"}):  # the marked ones are seen to have ended, once
        opened.clear()
        assert "was killed" not in command(*failing)[2]
        assert {name for name in opened if name in records} == expected


@pytest.mark.parametrize(
    "odd", ["{", *(pytest.param(one, marks=SLOW) for one in ("[]", '{"state": "running", "process": 3}'))]
)
def test_a_record_that_says_nothing_is_left_alone(odd: str, sound: list[str], command: Command, tmp_path: Path) -> None:
    run = tmp_path / "exp" / "runs" / "old"
    run.mkdir(parents=True)
    (run / "status.json").write_text(odd)
    assert command(*sound, "dataset.root=gone")[0] == 3
    assert (run / "status.json").read_text() == odd


# A disk that fills


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[None]:
    """A file system of its own of this size; skipped where none may be made."""
    place.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


FULL_AT = """
import errno, os, sys
from pathlib import Path
from pipeline.engine import claims
from pipeline.engine.store import Store
from pipeline.engine.task import Output, Task
from pipeline.errors import StageFailed
from tests.running import execute

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
left = None  # writes until the disk is full; None: it has room

def hook(event, given):
    global left
    writes = event in ("os.mkdir", "os.rename") or (event == "open" and isinstance(given[2], int) and given[2] & WRITES)
    if left is None or not writes:
        return
    left -= 1
    if left < 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(given[0]))

def leaf(work):
    (work.folder() / "value").write_text("x")

def two(work):
    for name in work.missing:
        (work.folder(name) / "sub").mkdir()
        (work.folder(name) / "sub" / "value").write_text(name + work.input("before").path("value").read_text())

def held(work):
    (work.scratch() / "checkpoint").write_text("far")
    (work.folder() / "value").write_text("z")

sys.addaudithook(hook)
root, counted = Path(sys.argv[1]), []
while True:
    store = Store(root / str(len(counted)))
    first = Task("leaf", "a", leaf)
    both = Task("two", "b", two, inputs={"before": first.ref()}, outputs={"p": Output({"n": 1}), "q": Output({"n": 2})})
    tasks = [first, both, Task("train", "c", held)]
    left, failed = len(counted), ""
    try:
        execute(tasks, store)
    except StageFailed as error:
        failed = str(error)
        assert "disk is full" in failed and error.status == 5, failed
        assert str(store.root) in error.where, error.where
    room, left = left, None
    names = [path.name for path in store.root.rglob("*")] if store.root.exists() else []
    assert not [name for name in names if claims.WRITTEN in name], names
    if not failed:
        # The last write gives up a folder of checkpoints, of which there is none.
        assert room >= -1, "the disk was full, and nobody said so"
        break
    done = execute(tasks, Store(store.root))
    assert done.reused + done.computed == 3 and done.artefact(both.ref("q")).path("sub/value").read_text() == "qx"
    assert execute(tasks, Store(store.root)).computed == 0
    counted.append(done.reused)
assert counted == sorted(counted) and set(counted) == {0, 1, 2}, counted
print(len(counted))
"""
"""Tasks on a disk that is full from the n-th write on, for every n until all are done; then it has room again."""


def test_whichever_write_finds_the_disk_full_nothing_half_is_left_and_the_rest_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_AT, str(tmp_path)], capture_output=True, text=True, timeout=toy.HANGS
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15


@pytest.mark.slow
def test_a_run_goes_on_once_the_full_disk_has_room(sound: list[str], command: Command, tmp_path: Path) -> None:
    exp, rest = tmp_path / "exp", [one for one in sound if not one.startswith("paths.root=")]
    assert command(*rest, f"paths.root={tmp_path / 'clean'}")[0] == 0
    (clean,) = (tmp_path / "clean" / "runs").iterdir()
    seen = set()
    for kilobytes in (16, 40, 64, 80, 96, 128, 192):
        with small_disk(exp, kilobytes):
            status, _, err = command(*sound)
            seen.add(status)
            assert status in (0, 5) and (not status or "the disk is full" in err), (kilobytes, err)
            assert states(exp) in ([["done"]] if status == 0 else [["failed"], []]), kilobytes
            assert not [path for path in exp.rglob("*.tmp-*") if path.is_dir()]
            kept = len([path for path in exp.glob("store/*/*/*/record.json") if path.parents[2].name != "draw"])
            subprocess.run(["mount", "-o", "remount,size=8m", str(exp)], check=True)
            status, out, err = command(*sound)
            assert status == 0, err
            assert int(out.splitlines()[-2].split()[1]) == kept, "what was finished is reused"
            pd.testing.assert_frame_equal(
                results.read(Path(out.splitlines()[-1]).parent).drop(columns=["run_id", "config_digest"]),
                results.read(clean).drop(columns=["run_id", "config_digest"]),
            )
    assert 5 in seen


@pytest.mark.slow
def test_a_file_system_that_is_read_only_is_named(sound: list[str], command: Command, tmp_path: Path) -> None:
    exp = tmp_path / "exp"
    with small_disk(exp, 4096):
        assert command(*sound)[0] == 0
        subprocess.run(["mount", "-o", "remount,ro", str(exp)], check=True)
        status, _, err = command(*sound)
        assert status == 5 and "the file system is mounted for reading alone" in err and f"Where: {exp}" in err
        assert not err.startswith("run 2"), "before anything else"
        status, out, err = command("plan", *sound)
        assert status == 0 and "to compute" in out and all(line.endswith(" 0 to compute") for line in out.splitlines())
        (run,) = (exp / "runs").iterdir()
        status, out, err = command("report", str(run))
        assert (status, out) == (0, f"{run / 'report.html'}\n") and "it is as the run wrote it" in err
        assert command("compare", str(run), str(run))[0] == 0
        assert len(evaluation.read(run).rows) and len(evaluation.read(run).scores())
        status, _, err = command(*sound, "metric=[asv,zebra]")
        assert status == 5 and "the file system is mounted for reading alone" in err
        assert command("-m", *sound, "runtime.threads=1,2")[0] == 5
    rest = [one for one in sound if not one.startswith("paths.root=")]
    assert command(*rest, f"paths.root={tmp_path / 'elsewhere'}")[0] == 0


# Clocks


def jumping(monkeypatch: pytest.MonkeyPatch, jumps: Sequence[float]) -> list[float]:
    """Have the clock of this machine jump by so many seconds at each question; files get their times from another one."""
    shifts, told = itertools.cycle(jumps), []
    seconds, nanoseconds, utc = time.time, time.time_ns, time.gmtime

    def now() -> float:
        told.append(seconds() + next(shifts))
        return told[-1]

    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(1e9 * next(shifts)))
    monkeypatch.setattr(time, "gmtime", lambda at=None: utc(now() if at is None else at))
    return told


DAY = 24 * 3600.0


@pytest.mark.slow
def test_a_clock_that_jumps_takes_nothing_away_and_no_time_is_negative(
    sound: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = (0.0, 400 * DAY, -400 * DAY, 3600.0)
    assert command(*sound)[0] == 0
    exp = tmp_path / "exp"
    (first,) = (exp / "runs").iterdir()
    shelf = next(exp.glob("store/score/*"))
    elsewhere = replace(this_process(), host="elsewhere").token()
    # What a process on another machine writes now, and what another run here does.
    theirs = [shelf / f"{'a' * 64}.tmp-{elsewhere}-00000000", shelf / f"{'b' * 64}.{elsewhere}.scratch"]
    theirs += [shelf / f"{'c' * 64}.tmp-{this_process().token()}-00000000"]
    # One that a training looks for lies on the shelf of its key.
    training = exp / "store" / "train" / "bb" / theirs[1].name
    theirs.append(training)
    for path in theirs:
        path.mkdir(parents=True)
        (path / "half").write_text("half")
    known = exp / "store" / "files"
    before = {path.name for path in known.rglob("*")}
    shutil.rmtree(exp / "store" / "measure")
    with monkeypatch.context() as patch:
        told = jumping(patch, jumps)
        status, out, err = command(*sound)
        for _ in jumps:
            assert not (Store(exp / "store").scratch("train", "b" * 64) / "half").exists(), "theirs is not taken over"
    assert status == 0 and len(told) > 3, err
    assert "was killed" not in err and int(out.splitlines()[-2].split()[1]) > 0
    assert all((path / "half").exists() for path in theirs)
    assert before <= {path.name for path in known.rglob("*")}
    second = Path(out.splitlines()[-1]).parent
    pd.testing.assert_frame_equal(
        results.read(first).drop(columns="run_id"), results.read(second).drop(columns="run_id")
    )
    events = [json.loads(line) for path in second.glob("tasks/*.jsonl") for line in path.read_text().splitlines()]
    took = [event["took"] for event in events if "took" in event]
    assert took and min(took) >= 0
    notes = [json.loads(path.read_text())["notes"] for path in exp.glob("store/*/*/*/record.json")]
    assert all(note.get("seconds", 0) >= 0 for note in notes)


# Several at once

TOGETHER = """
import runpy, sys
import pipeline.cli.evaluate, pipeline.evaluation  # all that takes time before a run begins
print("ready", flush=True)
sys.stdin.readline()
runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 4])
def test_runs_that_begin_at_the_same_instant_agree(runs: int, sound: list[str], tmp_path: Path) -> None:
    exp = tmp_path / "exp"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, *sound], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for _ in range(runs)
    ]  # fmt: skip
    for one in started:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    ended = [one.communicate(timeout=toy.HANGS) for one in started]
    assert [one.returncode for one in started] == [0] * runs, [err for _, err in ended]
    said = "".join(err for _, err in ended)
    assert "Traceback" not in said and "damaged" not in said and "killed" not in said and "other bytes" not in said
    assert states(exp) == ["done"] * runs
    first, *others = [results.read(Path(out.splitlines()[-1]).parent).drop(columns="run_id") for out, _ in ended]
    for one in others:
        pd.testing.assert_frame_equal(one, first)
    assert not [path for path in (exp / "store").rglob("*") if ".tmp-" in path.name or path.name.startswith(".")]
    tasks = sum(counts := toy.counts(toy.run(*sound, cwd=tmp_path, check=True)))
    assert counts[1] == 0
    made = [int(re.search(r"tasks: \d+ reused, (\d+) computed", out)[1]) for out, _ in ended]  # type: ignore[index]
    assert sum(made) == tasks, "nothing is made twice"


# A store without locks


def test_a_file_system_without_locks_and_links_is_enough(
    sound: list[str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuses(module: ModuleType, name: str) -> None:
        def refused(*given: object, **named: object) -> None:
            asked.append(name)
            raise OSError(errno.ENOLCK if module is fcntl else errno.ENOTSUP, "Operation not supported")

        monkeypatch.setattr(module, name, refused)

    for name in ("flock", "lockf"):
        refuses(fcntl, name)
    for name in ("link", "symlink"):
        refuses(os, name)
    status, _, err = command(*sound)
    assert status == 0, err
    status, out, err = command(*sound)
    assert status == 0 and " 0 computed" in out, err
    assert not asked, "nothing of ours asks for one"
