"""``plan`` through the command line: what is there, why the rest is not, and what it takes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

import pipeline as vp
from pipeline import cli
from pipeline.engine import code, room
from pipeline.engine.rates import FILE
from pipeline.errors import StageFailed
from tests import toy

ASKED = ("recipe=kaldi", "dataset.root=data", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false",
         "metric.asv.interval=none", "runtime.device=cpu", "runtime.threads=1")  # fmt: skip
SYSTEMS = "system=[original,b2]"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run."""
    home = tmp_path_factory.mktemp("plan")
    toy.corpus(home / "data", speakers=4, utterances=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert cli.run([*ASKED, SYSTEMS, f"paths.root={home / 'exp'}"]) == 0
    return home


@pytest.fixture
def command(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run a command line in this process, in a copy of that folder; exit status, standard output and standard error."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def call(verb: str, *more: str, exp: str = "exp") -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.run([verb, *ASKED, SYSTEMS, f"paths.root={exp}", *more])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def stage(out: str, name: str) -> list[str]:
    """The line of a stage, and those of its reasons."""
    lines = out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{name}: "))
    rest = lines[first + 1 :]
    return [lines[first], *rest[: next(place for place, line in enumerate(rest) if not line.startswith("  "))]]


def test_a_finished_run_and_one_of_which_nothing_is_known(command: Command, tmp_path: Path) -> None:
    status, out, err = command("plan")
    assert status == 0, err
    assert out.splitlines()[-1] == "in all: 29 tasks, nothing to compute"
    assert stage(out, "extract") == ["extract: 6 reused, 0 to compute"]
    status, out, _ = command("plan", exp="other")
    assert status == 0
    (first, *why) = stage(out, "extract")
    assert re.fullmatch(r"extract: 0 reused, 6 to compute; \d+ s of audio, time unknown, disk unknown", first)
    assert why == [
        "  3 tasks: nothing of this kind is stored, e.g. extract original 1/3",
        "  3 tasks: stand on what is to be computed, e.g. extract b2 1/3 on anonymise b2 1/3",
    ]
    assert "time: unknown (nothing like it was measured on this machine yet)" in out
    assert not (tmp_path / "other" / "runs").exists() and not (tmp_path / "other" / FILE).exists()


def test_each_kind_of_reason(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = command("plan", "system.b2.alpha=0.7")
    assert stage(out, "anonymise")[1] == "  3 tasks: setting alpha 0.7, stored: 0.8, e.g. anonymise b2 1/3"
    assert stage(out, "extract")[0].startswith("extract: 3 reused, 3 to compute; ")
    assert "e.g. extract b2 1/3 on anonymise b2 1/3" in stage(out, "extract")[1]
    version = code.read_version
    with monkeypatch.context() as patch:
        patch.setattr(
            code,
            "read_version",
            lambda name: code.Version("mcadams", 99) if name == "pipeline.anonymisers.mcadams" else version(name),
        )
        code._collect_versions.cache_clear()
        _, out, _ = command("plan")
    code._collect_versions.cache_clear()
    said = f"3 tasks: version of mcadams 99, stored: {version('pipeline.anonymisers.mcadams').number}"
    assert said in stage(out, "anonymise")[1]
    (path, *_) = sorted((tmp_path / "data" / "wav").glob("*-02.wav"))
    wave, rate = soundfile.read(path, dtype="int16")
    soundfile.write(path, (wave // 2).astype(np.int16), rate, "PCM_16")
    _, out, _ = command("plan", "--tasks")
    assert sorted(line.partition(": ")[2] for line in stage(out, "anonymise")[1:]) == [
        "input audio differs",
        "reused",
        "reused",
    ]
    assert len([line for line in out.splitlines() if line.startswith("  ")]) == 29


@pytest.mark.slow
def test_what_was_measured_gives_estimates_elsewhere_and_says_what_it_does_not_know(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "exp" / FILE, tmp_path / "other")
    _, out, _ = command("plan", exp="other")
    assert re.search(r"^time: about \d+ s$", out, re.MULTILINE) and re.search(
        r"^disk: about [\d.]+ MB; ", out, re.MULTILINE
    )
    planned = vp.plan(*ASKED, SYSTEMS, "paths.root=other")
    written = sum(path.stat().st_blocks * 512 for path in (tmp_path / "exp" / "store").glob("*/*/*/**/*") if path.is_file() and "files" not in path.parts and "selections" not in path.parts)  # fmt: skip
    assert planned.all_takes.bytes.known == pytest.approx(written, rel=0.1)
    assert planned.all_takes.audio_seconds == sum(task.resources.seconds for task, _ in planned.tasks)
    _, out, _ = command("plan", "extractor=[ge2e,f0]", "metric=[asv,srd]", "metric.srd.unit=utterance", exp="other")
    assert "time unknown" in stage(out, "extract")[0] and stage(out, "anonymise")[0].count("about") == 2
    assert re.search(
        r"^time: at least \d+ s \(\d+ of \d+ tasks are of kinds that were not measured on this", out, re.MULTILINE
    )


def full(monkeypatch: pytest.MonkeyPatch, but: Path | None = None, free: int = 10_000) -> None:
    """All disks have so little room but that of one folder."""
    real = shutil.disk_usage

    def usage(path: os.PathLike[str]) -> object:
        found = real(path)
        return found if but is not None and Path(path).is_relative_to(but) else found._replace(free=free)

    monkeypatch.setattr(room.shutil, "disk_usage", usage)


@pytest.mark.slow
def test_what_will_not_fit_is_refused_by_plan_and_run_and_each_remedy_mends_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        full(patch)
        assert command("plan")[0] == 0, "nothing more is needed"
        assert command("run")[0] == 0
    more, store = "system.b2.alpha=0.7", tmp_path / "exp" / "store"
    before = sorted(store.rglob("record.json"))
    with monkeypatch.context() as patch:
        full(patch, tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
        status, out, err = command("plan", more)
        assert status == 5 and "in all: " in out
        assert re.search(r"the results will not fit on the disk: about [\d.]+ MB are needed, 10 kB are free\.", err)
        status, out, err = command("run", more)
        assert (status, out) == (5, "") and "To mend it: set paths.root to a folder on a disk" in err
        assert sorted(store.rglob("record.json")) == before
        with pytest.raises(StageFailed, match="will not fit"):
            vp.plan(*ASKED, SYSTEMS, more, "paths.root=exp").refuse()
        shutil.copy(tmp_path / "exp" / FILE, tmp_path / "elsewhere")
        assert command("plan", more, exp="elsewhere")[0] == 0
        (forget,) = re.findall(r"rm (\S+)$", err, re.MULTILINE)
        Path(*shlex.split(forget)).unlink()
        assert command("plan", more)[0] == 0
    assert command("run", more)[0] == 0


def test_an_option_that_is_not_there_is_refused(command: Command) -> None:
    status, _, err = command("plan", "--task")
    assert status == 2 and "--task" in err
