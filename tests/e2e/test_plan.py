"""``plan`` through the command line: what is there, why the rest is not, and what it takes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

import pipeline as vp
from pipeline.engine import code, rates
from pipeline.engine.rates import FILE
from pipeline.errors import StageFailed
from tests import toy
from tests.raised import raised
from tests.running import Command, finish, runner

COMMAND = ("recipe=kaldi", "dataset.root=data", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false",
         "metric.asv.interval=none", "runtime.device=cpu", "runtime.threads=1", "system=[original,b2]")  # fmt: skip
MCADAMS = "pipeline.anonymisers.mcadams"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run."""
    home = tmp_path_factory.mktemp("plan")
    toy.corpus(home / "data", speakers=4, utterances=4)
    finish(home, *COMMAND)
    return home


@pytest.fixture
def command(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Command lines in this process, in a copy of that folder."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return runner(capfd, monkeypatch, *COMMAND)


def stage(out: str, name: str) -> list[str]:
    """The line of a stage, and those of its reasons."""
    lines = out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{name}: "))
    rest = lines[first + 1 :]
    return [lines[first], *rest[: next(place for place, line in enumerate(rest) if not line.startswith("  "))]]


def test_a_finished_run_and_one_of_which_nothing_is_known(command: Command, tmp_path: Path) -> None:
    out = command("plan", status=0).out
    assert out.splitlines()[-1] == "in all: 30 tasks, nothing to compute"
    assert stage(out, "extract") == ["extract: 6 reused, 0 to compute"]
    out = command("plan", "paths.root=other", status=0).out
    (first, *reasons) = stage(out, "extract")
    assert re.fullmatch(r"extract: 0 reused, 6 to compute; \d+ s of audio, time unknown, disk unknown", first)
    assert reasons == [
        "  3 tasks: nothing of this kind is stored, e.g. extract original 1/3",
        "  3 tasks: stand on what is to be computed, e.g. extract b2 1/3 on anonymise b2 1/3",
    ]
    assert "time: unknown (nothing like it was measured on this machine yet)" in out
    assert not (tmp_path / "other" / "runs").exists() and not (tmp_path / "other" / FILE).exists()


def test_each_kind_of_reason(command: Command, tmp_path: Path) -> None:
    out = command("plan", "system.b2.alpha=0.7").out
    assert stage(out, "anonymise")[1] == "  3 tasks: setting alpha 0.7, stored: 0.8, e.g. anonymise b2 1/3"
    assert stage(out, "extract")[0].startswith("extract: 3 reused, 3 to compute; ")
    assert "e.g. extract b2 1/3 on anonymise b2 1/3" in stage(out, "extract")[1]
    version = code.read_version(MCADAMS).number
    with raised(MCADAMS):
        reasons = stage(command("plan").out, "anonymise")
    assert f"3 tasks: version of mcadams {version + 1}, stored: {version}" in reasons[1]
    (path, *_) = sorted((tmp_path / "data" / "wav").glob("*-02.wav"))
    wave, rate = soundfile.read(path, dtype="int16")
    soundfile.write(path, (wave // 2).astype(np.int16), rate, "PCM_16")
    out = command("plan", "--tasks").out
    reasons = sorted(line.partition(": ")[2] for line in stage(out, "anonymise")[1:])
    assert reasons == ["input audio differs", "reused", "reused"]
    assert len([line for line in out.splitlines() if line.startswith("  ")]) == 30
    assert "--task" in command("plan", "--task", status=2).err


@pytest.mark.slow
def test_what_was_measured_gives_estimates_elsewhere_and_says_what_it_does_not_know(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "exp" / FILE, tmp_path / "other")
    out = command("plan", "paths.root=other").out
    assert re.search(r"^time: about \d+ s$", out, re.MULTILINE)
    assert re.search(r"^disk: about [\d.]+ MB; ", out, re.MULTILINE)
    planned = vp.plan(*COMMAND, "paths.root=other")
    files = [path for path in (tmp_path / "exp" / "store").glob("*/*/*/**/*") if path.is_file()]
    written = sum(path.stat().st_blocks * 512 for path in files if not {"files", "selections"} & {*path.parts})
    assert planned.all_takes.bytes.amount == pytest.approx(written, rel=0.1)
    assert planned.all_takes.audio_seconds == sum(task.resources.seconds for task, _ in planned.tasks)
    out = command(
        "plan", "extractor=[ge2e,f0]", "metric=[asv,srd]", "metric.srd.unit=utterance", "paths.root=other"
    ).out
    assert "time unknown" in stage(out, "extract")[0] and stage(out, "anonymise")[0].count("about") == 2
    assert re.search(
        r"^time: at least \d+ s \(\d+ of \d+ tasks are of kinds that were not measured on", out, re.MULTILINE
    )


def fill(monkeypatch: pytest.MonkeyPatch, but: Path | None = None, free: int = 10_000) -> None:
    """All disks have so little room but that of one folder."""
    real = shutil.disk_usage

    def usage(path: os.PathLike[str]) -> object:
        is_spared = but is not None and Path(path).is_relative_to(but)
        return real(path) if is_spared else real(path)._replace(free=free)

    monkeypatch.setattr(rates.shutil, "disk_usage", usage)


@pytest.mark.slow
def test_what_will_not_fit_is_refused_by_plan_and_run_and_each_remedy_mends_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fill(patch)
        command("plan", status=0)  # nothing more is needed
        command("run", status=0)
    more, store = "system.b2.alpha=0.7", tmp_path / "exp" / "store"
    before = sorted(store.rglob("record.json"))
    with monkeypatch.context() as patch:
        fill(patch, tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
        refused = command("plan", more, status=5)
        assert "in all: " in refused.out
        assert re.search(r"will not fit on the disk: about [\d.]+ MB are needed, 10 kB are free\.", refused.err)
        refused = command("run", more, status=5)
        assert refused.out == "" and "set paths.root to a folder on a disk" in refused.error.remedy
        assert sorted(store.rglob("record.json")) == before
        with pytest.raises(StageFailed):
            vp.plan(*COMMAND, more).refuse()
        shutil.copy(tmp_path / "exp" / FILE, tmp_path / "elsewhere")
        command("plan", more, "paths.root=elsewhere", status=0)
        (forget,) = re.findall(r"rm (\S+)$", refused.err, re.MULTILINE)
        Path(*shlex.split(forget)).unlink()
        command("plan", more, status=0)
    command("run", more, status=0)
