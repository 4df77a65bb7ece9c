"""``doctor``: each kind of finding with its exit status and remedy, through the command line; remedies that are overrides are applied."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import cli, host
from pipeline.evaluation.doctor import folders, installation, machine
from pipeline.extractors import ge2e
from tests import challenge_folder
from tests.datasets.conftest import Tiny
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
    for start in ("ok pipeline", "ok python", "ok packages torch ", "ok cores", "ok data synthetic: it is made here",
                  "ok weights extractor f0: needs no weights", "ok slurm not here"):  # fmt: skip
        only(lines, start)
    # Nothing is made, and nothing stays of what was tried.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_a_bare_doctor_finds_no_fault_in_data_and_models_that_nobody_asked_for(doctor: Doctor) -> None:
    status, lines = doctor()
    assert status == 0 and lines[-1].endswith(" 0 faults")
    assert "`voice-privacy doctor recipe=NAME dataset.root=DIR`" in only(lines, "ok data")[0]
    said, remedy = only(lines, "warning weights extractor campplus: ")
    assert "81.0 MB, licence Apache-2.0" in said and said.endswith("the demo needs none")
    assert remedy.startswith("voice-privacy fetch-models 'extractor=[campplus]'")
    # The same where it was asked for.
    status, lines = doctor("recipe=kaldi")
    assert status == 3 and only(lines, "fault data")[1] and only(lines, "fault weights extractor campplus: ")[1]


# Installation


@pytest.mark.slow
def test_a_package_or_python_outside_its_range_is_a_fault(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = metadata.version
    of = {"torch": "2.1.0", "speechbrain": "1.3"}
    monkeypatch.setattr(installation.metadata, "version", lambda name: of.get(name) or asked(name))
    monkeypatch.setattr(installation.platform, "python_version", lambda: "3.10.4")
    status, lines = doctor(*DEMO)
    assert status == 2 and lines[-1].endswith(" 3 faults")
    said, remedy = only(lines, "fault packages torch>=")
    assert "and 2.1.0 is installed" in said
    (wanted,) = [one for one in metadata.requires(installation.NAME) or [] if re.match(r"torch\W", one)]
    assert remedy == f"{sys.executable} -m pip install '{wanted.replace(' ', '')}'"
    assert "speechbrain" in only(lines, "fault packages speechbrain")[1]
    assert "it is outside the range" in only(lines, "fault python 3.10.4 (>=3.11)")[0]


@pytest.mark.slow
def test_an_extra_is_needed_only_by_what_asks_for_it(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = metadata.version

    def version(name: str) -> str:
        if name == "submitit":
            raise metadata.PackageNotFoundError(name)
        return asked(name)

    monkeypatch.setattr(installation.metadata, "version", version)
    on_path(
        tmp_path / "bin", sbatch="", scancel="", squeue="echo 1", sinfo="echo 'gpu* up 4 nodes, at most 1-00:00:00'"
    )
    status, lines = doctor(*DEMO)
    assert status == 0 and only(lines, "warning slurm submitit is not installed")[1]
    status, lines = doctor(*DEMO, "executor=slurm")
    remedy = only(lines, "fault slurm submitit is not installed")[1]
    assert status == 2 and "-m pip install 'submitit>=" in remedy
    assert "ok slurm partitions: gpu* up 4 nodes, at most 1-00:00:00" in lines


# Slurm


def test_slurm_that_is_not_here_or_gives_no_answer_is_a_fault_where_it_is_asked_for(
    doctor: Doctor, tmp_path: Path
) -> None:
    status, lines = doctor(*DEMO, "executor=slurm")
    remedy = only(lines, "fault slurm sbatch, squeue, scancel cannot be found")[1]
    assert status == 2 and "executor=local" in remedy
    assert doctor(*DEMO, "executor=local")[0] == 0
    on_path(tmp_path / "bin", sbatch="", scancel="", squeue="echo slurm_load_jobs: Unable to contact >&2; exit 1")
    status, lines = doctor(*DEMO, "executor=slurm")
    assert status == 2 and "Unable to contact" in only(lines, "fault slurm squeue gives no answer")[0]


# Devices and memory


def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: list[float]) -> None:
    """GPUs of 80 GB each, so much of it free."""
    cuda = SimpleNamespace(
        is_available=lambda: bool(free),
        device_count=lambda: len(free),
        mem_get_info=lambda number: (int(free[number] * 1e9), int(80e9)),
        get_device_name=lambda number: f"card {number}",
    )
    torch = SimpleNamespace(cuda=cuda, __version__="2.9", version=SimpleNamespace(cuda="12.8"))
    (tmp_path / "bin" / "driver").touch()
    monkeypatch.setattr(machine, "DRIVER", (tmp_path / "bin" / "driver",))
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.mark.slow
def test_gpus_are_told_with_their_memory(doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status, lines = doctor(*DEMO, "runtime.device=cuda")
    assert status == 2 and only(lines, "fault device runtime.device=cuda, and torch ")[1].startswith(
        "runtime.device=auto"
    )
    with monkeypatch.context() as patch:
        gpus(patch, tmp_path, [79, 12])
        status, lines = doctor(*DEMO, "runtime.device=cuda:7")
        said, remedy = only(lines, "fault device runtime.device=cuda:7, and there are 2 GPUs")
        assert status == 2 and remedy == "runtime.device=auto"
        status, lines = doctor(*DEMO, remedy)
        assert status == 0 and "ok device cuda:0 card 0, 79.0 of 80.0 GB free" in lines
        assert "runtime.device=cuda:N" in only(lines, "warning device cuda:1 card 1, 12.0 of 80.0 GB free")[1]
    with monkeypatch.context() as patch:
        gpus(patch, tmp_path, [])
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        said, remedy = only(doctor(*DEMO)[1], "warning device there is a GPU driver")
        assert "CUDA_VISIBLE_DEVICES=''" in said and remedy == "unset CUDA_VISIBLE_DEVICES"


@pytest.mark.slow
def test_little_memory_cores_and_open_files_are_warnings(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host, "read_memory", lambda: 2_000_000_000)
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(machine, "SHARED", tmp_path / "none")
    status, lines = doctor(*DEMO, f"runtime.threads={host.count_allowed_cores() + 1}")
    assert status == 0 and lines[-1].endswith(" 0 faults")
    assert only(lines, "warning memory")[0].endswith("of 2.0 GB free")
    assert only(lines, "warning open files a process may have 256")[1].startswith("ulimit -n 4096")
    assert "--shm-size" in only(lines, f"warning {tmp_path / 'none'} is not there")[1]
    remedy = only(lines, "warning cores")[1]
    assert only(doctor(*DEMO, remedy)[1], "ok cores")


# Folders


@pytest.mark.slow
def test_a_full_disk_is_a_fault_and_little_room_a_warning(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, start, status in ((0, "fault store the disk is full", 5), (2e9, "warning store 2.0 GB free; 5 GB", 0)):
        monkeypatch.setattr(
            folders.shutil, "disk_usage", lambda _, free=int(free): shutil._ntuple_diskusage(9, 9, free)
        )
        found, lines = doctor(*DEMO)
        assert found == status and "paths.root=DIR on another disk" in only(lines, start)[1]


def test_a_folder_that_cannot_be_written_is_a_fault_and_another_one_mends_it(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    status, lines = doctor(*DEMO, f"paths.root={tmp_path / 'file'}")
    said, remedy = only(lines, "fault store")
    assert status == 5 and "a file stands where a folder should be" in said and "paths.root=DIR" in remedy
    assert doctor(*DEMO, f"paths.root={tmp_path / 'other'}")[0] == 0
    made = Path.mkdir

    def refuses(path: Path, *rest: object, **more: object) -> None:
        if path.name.startswith(".doctor-"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        made(path, *rest, **more)

    monkeypatch.setattr(Path, "mkdir", refuses)
    status, lines = doctor(*DEMO)
    assert status == 5 and "mounted for reading alone" in only(lines, "fault store")[0] and only(lines, "fault runs")
    assert "fetch-models cannot put anything there" in only(lines, "warning models")[0]


@pytest.mark.parametrize("place", ["loop", "~nobody-of-this-name/exp"])
def test_a_path_that_leads_nowhere_is_a_fault_of_the_configuration(doctor: Doctor, tmp_path: Path, place: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    status, lines = doctor(*DEMO, f"paths.root={place}")
    assert status == 2 and "leads nowhere" in lines[-1] and "paths.root" in lines[-1]


def test_a_file_system_without_locks_is_a_fault(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def never_exclusive(path: object, flags: int, *rest: int, **more: int) -> int:
        return opened(path, flags & ~os.O_EXCL, *rest, **more)

    monkeypatch.setattr(folders.os, "open", never_exclusive)
    status, lines = doctor(*DEMO)
    said, remedy = only(lines, "fault store")
    assert status == 5 and "lets two processes make the same file" in said
    assert remedy == "paths.root=DIR on another disk"


@pytest.mark.slow
def test_a_store_in_memory_is_a_warning(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_mount", lambda path: host.Mount(Path("/"), "tmpfs"))
    status, lines = doctor(*DEMO)
    assert status == 0 and "it lies in memory and is lost" in only(lines, "warning store on tmpfs")[0]


# Data


def test_a_data_root_that_is_missing_is_said_before_what_follows_from_it(doctor: Doctor) -> None:
    status, lines = doctor("recipe=vpc2024", "dataset.root=/nowhere")
    assert status == 3 and lines[-1].endswith(" 1 fault")
    assert "fault data dataset.root: /nowhere is not there" in lines
    data = lines.index("fault data dataset.root: /nowhere is not there")
    after = only(lines, "warning weights extractor ecapa: may lie in the folder of the data set")[0]
    assert lines.index(after) > data and "'auto'" not in "\n".join(lines)


@pytest.mark.slow
def test_data_that_is_no_folder_or_no_set_is_a_fault(doctor: Doctor, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    asked = ("recipe=kaldi", "extractor=[f0]")
    for name, said in (("pipe", "a named pipe"), ("empty", "holds no Kaldi set")):
        status, lines = doctor(*asked, f"dataset.root={tmp_path / name}")
        assert status == 3 and said in only(lines, "fault data")[0], lines
    sound = Tiny(tmp_path / "data").save().root
    status, lines = doctor(*asked, f"dataset.root={sound}", "+system.mine={name: external, root: /nowhere}")
    assert status == 3 and only(lines, f"ok data dataset.root: {sound}")
    assert only(lines, "fault data system.mine.root: /nowhere is not there")[1].startswith("system.mine.root=PATH")


# Models


def test_models_are_told_by_their_checksum(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("recipe=kaldi", "extractor=[ge2e]", f"dataset.root={Tiny(tmp_path / 'data').save().root}")
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
def test_what_would_be_downloaded_is_unknown_where_nobody_knows(doctor: Doctor, tmp_path: Path) -> None:
    asked = ("recipe=kaldi", "extractor=[ecapa,wavlm]", f"dataset.root={Tiny(tmp_path / 'data').save().root}")
    status, lines = doctor(*asked, "extractor.ecapa.source=somebody/model")
    assert status == 4
    said = only(lines, "fault weights extractor ecapa: ")[0]
    assert said.endswith("to be downloaded: somebody/model of the model hub, unknown size, licence unknown")
    assert "1.27 GB, licence CC-BY-SA-3.0" in only(lines, "fault weights extractor wavlm: ")[0]


def test_models_that_a_challenges_folder_lacks_are_named(doctor: Doctor, tmp_path: Path) -> None:
    root = challenge_folder.original(tmp_path / "Voice-Privacy-Challenge-2024", speakers=2, utterances=2)
    challenge_folder.anonymise(root, "_mcadams")
    status, lines = doctor("recipe=vpc2024", f"dataset.root={root}")
    said, remedy = only(lines, "fault weights")
    assert status == 2 and "no trained model of a chosen extractor (ecapa) is there" in said
    assert "dataset.train=DIR" in remedy and lines[-1].endswith(" 1 fault")


# The command


@pytest.mark.slow
def test_a_bad_override_ends_with_its_fault(doctor: Doctor) -> None:
    for bad in ("recipe=nope", "paths.rot=x", "extractor=[nope]"):
        status, lines = doctor(bad)
        assert status == 2 and lines[0].startswith("error: ")


@pytest.mark.slow
def test_doctor_without_a_gpu_never_loads_torch_and_needs_no_home(tmp_path: Path) -> None:
    done = in_shell(
        "doctor", *DEMO, cwd=tmp_path, HOME="/nonexistent", PYTHONPROFILEIMPORTTIME="1", CUDA_VISIBLE_DEVICES=""
    )
    assert done.returncode == 0 and "ok      device" in done.stdout
    if not any(one.exists() for one in machine.DRIVER):
        assert not re.search(r"\|\s+torch$", done.stderr, re.MULTILINE)
