"""``doctor``: each kind of finding with its exit status and remedy, through the command line; remedies that are overrides are applied."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import cli, host
from pipeline.cli import doctor as verb
from pipeline.extractors import ge2e
from tests.toy import run as in_shell

Doctor = Callable[..., tuple[int, list[str]]]
DEMO = ("recipe=demo", "extractor=[f0]", "metric=[srd]")
"""What needs neither data nor weights."""


@pytest.fixture
def doctor(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Its exit status, and its lines each with single blanks. Slurm and other programs cannot be found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    given = {"paths.root": tmp_path / "exp", "paths.models": tmp_path / "models"}

    def call(*arguments: str) -> tuple[int, list[str]]:
        more = [f"{name}={place}" for name, place in given.items() if not any(name in one for one in arguments)]
        status = cli.run(["doctor", *arguments, *more])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err, err
        return status, [" ".join(line.split()) for line in (out or err).splitlines()]

    return call


def only(lines: list[str], start: str) -> tuple[str, str]:
    """The one line that begins so, and the remedy below it."""
    (place,) = [number for number, line in enumerate(lines) if line.startswith(start)]
    below = lines[place + 1]
    return lines[place], below.removeprefix("to mend it: ") if below.startswith("to mend it: ") else ""


def on_path(folder: Path, **commands: str) -> None:
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def test_a_sound_machine_has_no_fault_and_the_last_line_counts(doctor: Doctor, tmp_path: Path) -> None:
    status, lines = doctor(*DEMO)
    states = [line.partition(" ")[0] for line in lines[:-1] if not line.startswith("to mend it: ")]
    assert status == 0 and set(states) <= {"ok", "warning"}
    warnings = states.count("warning")
    assert lines[-1] == f"{states.count('ok')} ok, {warnings} warning{'s' * (warnings != 1)}, 0 faults"
    assert {*verb.CHECKS} - {line.split()[1] for line in lines[:-1]} <= {"weights"}
    # Nothing is made, and nothing stays of what was tried.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_weights_are_told_by_checksum_and_are_a_fault_where_they_were_asked_for(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, lines = doctor()
    assert status == 0 and lines[-1].endswith(" 0 faults")
    said, remedy = only(lines, "warning weights extractor campplus: ")
    assert "81.0 MB, licence Apache-2.0" in said and said.endswith("the demo needs none")
    assert remedy.startswith("voice-privacy fetch-models 'extractor=[campplus]'")
    asked = ("recipe=kaldi", "extractor=[ge2e]")
    status, lines = doctor(*asked)
    said, remedy = only(lines, "fault weights extractor ge2e: the GE2E weights are not on this machine")
    assert status == 4 and "resemblyzer==0.1.4 of the package registry, 15.7 MB, licence Apache-2.0" in said
    assert remedy == f"voice-privacy fetch-models 'extractor=[ge2e]' paths.models={tmp_path / 'models'}"
    path = ge2e.WHEEL.path(tmp_path / "models")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    status, lines = doctor(*asked)
    assert status == 4 and "are not those of resemblyzer 0.1.4" in only(lines, "fault weights extractor ge2e")[0]
    sha256 = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setattr(ge2e, "WHEEL", ge2e.WheelFile(**{**vars(ge2e.WHEEL), "sha256": sha256}))
    status, lines = doctor(*asked)
    assert status == 0 and only(lines, f"ok weights extractor ge2e: {path.parent}, sha256 ")


@pytest.mark.slow
def test_a_package_or_python_outside_its_range_is_a_fault(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = metadata.version
    monkeypatch.setattr(verb.metadata, "version", lambda name: {"torch": "2.1.0"}.get(name) or asked(name))
    monkeypatch.setattr(verb.platform, "python_version", lambda: "3.10.4")
    status, lines = doctor(*DEMO)
    assert status == 2 and lines[-1].endswith(" 2 faults")
    said, remedy = only(lines, "fault versions torch>=")
    assert "and 2.1.0 is installed" in said and remedy.startswith(f"{sys.executable} -m pip install 'torch>=")
    assert "outside the range" in only(lines, "fault versions python 3.10.4")[0]


def test_slurm_that_is_not_here_or_gives_no_answer_is_a_fault_where_it_is_asked_for(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, lines = doctor(*DEMO, "executor=slurm")
    assert status == 2 and "executor=local" in only(lines, "fault slurm sbatch, squeue, scancel cannot be found")[1]
    commands = dict.fromkeys(("sbatch", "scancel", "squeue"), "")
    on_path(tmp_path / "bin", **commands, sinfo="echo slurm_load_partitions: Unable to contact >&2; exit 1")
    status, lines = doctor(*DEMO, "executor=slurm")
    assert status == 2 and "Unable to contact" in only(lines, "fault slurm sinfo gives no answer")[0]
    on_path(tmp_path / "bin", sinfo="echo 'gpu* up 4 nodes, at most 1-00:00:00'")
    monkeypatch.setattr(verb, "_find_version", lambda name: "" if name == "submitit" else metadata.version(name))
    status, lines = doctor(*DEMO)
    assert status == 0 and only(lines, "warning slurm submitit is not installed")[1]
    assert "ok slurm partitions: gpu* up 4 nodes, at most 1-00:00:00" in lines


def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: list[float]) -> None:
    """GPUs of 80 GB each, so much of it free."""
    cuda = SimpleNamespace(
        is_available=lambda: bool(free),
        device_count=lambda: len(free),
        mem_get_info=lambda number: (int(free[number] * 1e9), int(80e9)),
        get_device_name=lambda number: f"card {number}",
    )
    (tmp_path / "bin" / "driver").touch()
    monkeypatch.setattr(verb, "DRIVERS", (tmp_path / "bin" / "driver",))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, __version__="2.9"))


@pytest.mark.slow
def test_gpus_are_told_with_their_memory(doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        gpus(patch, tmp_path, [79, 12])
        status, lines = doctor(*DEMO, "runtime.device=cuda:7")
        remedy = only(lines, "fault device runtime.device=cuda:7, and torch 2.9 sees 2 GPUs")[1]
        assert status == 2 and remedy.startswith("runtime.device=auto")
        status, lines = doctor(*DEMO, "runtime.device=auto")
        assert status == 0 and "ok device cuda:0 card 0, 79.0 of 80.0 GB free" in lines
        assert "runtime.device=cuda:N" in only(lines, "warning device cuda:1 card 1, 12.0 of 80.0 GB free")[1]
    with monkeypatch.context() as patch:
        gpus(patch, tmp_path, [])
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert only(doctor(*DEMO)[1], "warning device there is a GPU driver")[1] == "unset CUDA_VISIBLE_DEVICES"


@pytest.mark.slow
def test_little_memory_cores_and_open_files_are_warnings(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host, "read_memory", lambda: 2_000_000_000)
    monkeypatch.setattr(verb.resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(verb, "SHARED", tmp_path / "none")
    status, lines = doctor(*DEMO, f"runtime.threads={host.count_allowed_cores() + 1}")
    assert status == 0 and lines[-1].endswith(" 4 warnings, 0 faults")
    assert only(lines, "warning machine a process may have 256")[1].startswith("ulimit -n 4096")
    assert "--shm-size" in only(lines, f"warning machine {tmp_path / 'none'} is not there")[1]
    assert (
        only(lines, f"warning machine {host.count_allowed_cores()} cores")[1]
        == f"runtime.threads={host.count_allowed_cores()}"
    )


def test_a_folder_that_cannot_be_written_is_a_fault_and_another_one_mends_it(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    status, lines = doctor(*DEMO, f"paths.root={tmp_path / 'file'}")
    assert status == 5 and "set paths.root to another folder" in only(lines, "fault store")[1]
    make = Path.mkdir

    def refuse(path: Path, *more: object, **named: object) -> None:
        if path.name.startswith(".doctor-"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        make(path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    status, lines = doctor(*DEMO)
    assert status == 5 and "mounted for reading alone" in only(lines, "fault store")[0]
    assert "fetch-models cannot put anything there" in only(lines, "warning models")[0]


def test_a_file_system_without_locks_is_a_fault_and_one_in_memory_a_warning(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        opened = os.open
        patch.setattr(verb.os, "open", lambda path, flags, *more: opened(path, flags & ~os.O_EXCL, *more))
        status, lines = doctor(*DEMO)
        assert status == 5 and "lets two processes make the same file" in only(lines, "fault store")[0]
    monkeypatch.setattr(host, "find_mount", lambda path: host.Mount(Path("/"), "tmpfs"))
    status, lines = doctor(*DEMO)
    assert status == 0 and "it lies in memory and is lost" in only(lines, "warning store")[0]


@pytest.mark.slow
def test_doctor_without_a_gpu_never_loads_torch_and_needs_no_home(tmp_path: Path) -> None:
    done = in_shell(
        "doctor", *DEMO, cwd=tmp_path, HOME="/nonexistent", PYTHONPROFILEIMPORTTIME="1", CUDA_VISIBLE_DEVICES=""
    )
    assert done.returncode == 0 and "ok      device" in done.stdout
    if not any(path.exists() for path in verb.DRIVERS):
        assert not re.search(r"\|\s+torch$", done.stderr, re.MULTILINE)
