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


def test_a_sound_machine_has_no_fault_and_the_last_line_counts(doctor: Doctor, tmp_path: Path) -> None:
    status, lines = doctor(*DEMO)
    states = [line.partition(" ")[0] for line in lines[:-1] if not line.startswith("to mend it: ")]
    assert status == 0 and set(states) <= {"ok", "warning"}
    warnings = states.count("warning")
    assert lines[-1] == f"{states.count('ok')} ok, warnings: {warnings}, faults: 0"
    assert {*verb.CHECKS} - {line.split()[1] for line in lines[:-1]} <= {"weights", "slurm"}
    # Nothing is made, and nothing stays of what was tried.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


def test_weights_are_told_by_checksum_and_are_a_fault_where_they_were_asked_for(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, lines = doctor()
    assert status == 0 and lines[-1].endswith("faults: 0")
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
    assert status == 4 and "are not those of resemblyzer==0.1.4" in only(lines, "fault weights extractor ge2e")[0]
    sha256 = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setattr(ge2e, "WHEEL", ge2e.WheelFile(**{**vars(ge2e.WHEEL), "sha256": sha256}))
    status, lines = doctor(*asked)
    assert status == 0 and only(lines, f"ok weights extractor ge2e: {path.parent}, sha256 ")


def test_a_package_outside_its_range_is_a_fault(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = metadata.version
    monkeypatch.setattr(verb.metadata, "version", lambda name: {"torch": "2.1.0"}.get(name) or asked(name))
    status, lines = doctor(*DEMO)
    said, remedy = only(lines, "fault versions torch>=")
    assert status == 2 and "installed is 2.1.0" in said
    assert remedy.startswith(f"{sys.executable} -m pip install 'torch>=")


def test_slurm_that_is_not_here_is_a_fault_where_it_is_asked_for(doctor: Doctor) -> None:
    status, lines = doctor(*DEMO, "executor=slurm")
    assert status == 2 and "executor=local" in only(lines, "fault slurm ")[1]


@pytest.mark.parametrize("free", [[79, 12], []])
def test_gpus_are_told_with_their_memory(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: list[float]
) -> None:
    cuda = SimpleNamespace(
        is_available=lambda: bool(free),
        device_count=lambda: len(free),
        mem_get_info=lambda number: (int(free[number] * 1e9), int(80e9)),
        get_device_name=lambda number: f"card {number}",
    )
    (tmp_path / "driver").touch()
    monkeypatch.setattr(verb, "DRIVERS", (tmp_path / "driver",))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, __version__="2.9"))
    lines = doctor(*DEMO)[1]
    if free:
        assert "ok device cuda:1 card 1, 12.0 of 80.0 GB free" in lines
    else:
        assert "CUDA_VISIBLE_DEVICES" in only(lines, "warning device there is a GPU driver")[1]


def test_little_memory_and_few_cores_are_warnings(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "read_memory", lambda: 2_000_000_000)
    cores = host.count_allowed_cores()
    status, lines = doctor(*DEMO, f"runtime.threads={cores + 1}")
    assert status == 0 and "sbatch --mem" in only(lines, "warning machine 2.0 of 2.0 GB")[1]
    assert only(lines, f"warning machine {cores} cores")[1] == f"runtime.threads={cores}"


def test_a_folder_that_cannot_be_written_is_a_fault(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    status, lines = doctor(*DEMO, f"paths.root={tmp_path / 'file'}")
    assert status == 5 and "set paths.root to another folder" in only(lines, "fault store")[1]

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(verb.tempfile, "TemporaryDirectory", refuse)
    status, lines = doctor(*DEMO)
    assert status == 5 and "mounted for reading alone" in only(lines, "fault store")[0]
    assert "fetch-models cannot put anything there" in only(lines, "warning models")[0]


@pytest.mark.slow
def test_doctor_without_a_gpu_never_loads_torch_and_needs_no_home(tmp_path: Path) -> None:
    done = in_shell(
        "doctor", *DEMO, cwd=tmp_path, HOME="/nonexistent", PYTHONPROFILEIMPORTTIME="1", CUDA_VISIBLE_DEVICES=""
    )
    assert done.returncode == 0 and "ok      device" in done.stdout
    if not any(path.exists() for path in verb.DRIVERS):
        assert not re.search(r"\|\s+torch$", done.stderr, re.MULTILINE)
