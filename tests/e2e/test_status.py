"""``status`` of whole runs in other processes, with an anonymiser of somebody else that waits at a gate and then breaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli
from tests import toy

TRAP = """
import time
from pathlib import Path
from typing import Literal

from pipeline.contracts import Anonymised, Anonymiser, ComponentSettings, numeric, runtime


class Settings(ComponentSettings):
    name: Literal["trap"] = numeric("trap")
    gate: str = runtime("")


class Trap(Anonymiser):
    Settings = Settings

    def anonymise(self, wave, rate, utterance):
        gate = Path(self.settings.gate)
        gate.with_name("reached").touch()
        while not gate.exists():
            time.sleep(0.02)
        return self.shut(utterance)

    def shut(self, utterance):
        raise ZeroDivisionError(f"the trap is shut on {utterance.id}")

    @classmethod
    def level(cls, settings):
        return "utterance"
"""
POINTS = "[voice_privacy.anonymisers]\ntrap = voice_privacy_trap:Trap\n"


@pytest.fixture
def started(tmp_path: Path, models: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a run over the original and the trap, with the trap's distribution beside ours; it is held at the gate."""
    site = tmp_path / "site"
    (site / "voice_privacy_trap-1.0.dist-info").mkdir(parents=True)
    (site / "voice_privacy_trap-1.0.dist-info" / "METADATA").write_text("Name: voice-privacy-trap\nVersion: 1.0\n")
    (site / "voice_privacy_trap-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    (site / "voice_privacy_trap.py").write_text(TRAP)
    (tmp_path / "conf" / "system").mkdir(parents=True)
    (tmp_path / "conf" / "system" / "trap.yaml").write_text(f"trap:\n  name: trap\n  gate: {tmp_path / 'gate'}\n")
    (tmp_path / "data").mkdir()
    toy.corpus(tmp_path / "data", speakers=4, utterances=2)

    def start(*arguments: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
        run = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "recipe=kaldi", f"dataset.root={tmp_path / 'data'}", "system=[original,trap]",
             "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false", "runtime.threads=1",
             f"paths.root={tmp_path / 'exp'}", f"--config-dir={tmp_path / 'conf'}", *arguments],
            cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PYTHONPATH": path}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        wait_until((tmp_path / "reached").exists, run)
        return run

    return start


def wait_until(reached: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    end = time.monotonic() + toy.HANGS
    while not reached():
        assert run.poll() is None, run.stderr.read() if run.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.02)


def told(capfd: pytest.CaptureFixture[str], root: Path, *arguments: str) -> dict[str, str]:
    """What ``status`` prints, by the first word of each line."""
    capfd.readouterr()
    assert cli.run(["status", "--root", str(root), *arguments]) == 0
    out = capfd.readouterr().out
    return {line.split(":")[0].split()[0] if line.split() else "": line for line in out.splitlines()} | {
        "all of it": out
    }


@pytest.mark.slow
def test_a_failing_system_shows_its_traceback_while_the_others_go_on(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = started()
    held = told(capfd, tmp_path / "exp")["all of it"]
    assert ": running since " in held.splitlines()[0] and f"process {run.pid} on " in held
    assert "running now:\n  anonymise trap" in held
    (tmp_path / "gate").touch()
    _, err = run.communicate(timeout=toy.HANGS)
    assert run.returncode == 5 and "ZeroDivisionError: the trap is shut on " in err
    ended = told(capfd, tmp_path / "exp")
    assert ": failed with exit status 5, " in ended["run"]
    assert "    | ZeroDivisionError: the trap is shut on " in ended["all of it"]
    assert ", in shut\n" in ended["all of it"] and f"    log: {tmp_path}/exp/runs/" in ended["all of it"]
    capfd.readouterr()
    assert cli.run(["status", "--json", "--root", str(tmp_path / "exp")]) == 0
    tasks = json.loads(capfd.readouterr().out)["tasks"]
    original = [task for task in tasks if "trap" not in task["label"]]
    assert original and all(task["state"] == "done" for task in original), "the others end well"
    assert {task["state"] for task in tasks if task["stage"] == "anonymise"} == {"failed"}
    log = Path(next(task["log"] for task in tasks if task["state"] == "failed"))
    assert "in shut" in log.read_text()
    if sum(task["state"] == "failed" for task in tasks) > 1:
        assert "tasks failed (all of it in " in err and "stood on it" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_has_nothing_running(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int
) -> None:
    run = started()
    follows = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "status", "--follow", "--root", str(tmp_path / "exp")], text=True,
        stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert follows.stdout is not None and "1 running" in follows.stdout.readline()
    run.send_signal(number)
    run.communicate(timeout=toy.HANGS)
    out, _ = follows.communicate(timeout=toy.HANGS)
    assert follows.returncode == 128 + number
    ended = told(capfd, tmp_path / "exp")
    state = "killed" if number == signal.SIGKILL else "stopped with exit status 143"
    assert f": {state}, " in ended["run"] and "running now" not in ended["all of it"]
    assert "interrupted" in ended["stage"] and ended["all"].split()[-2] == "1"
    assert out.endswith(ended["all of it"])
