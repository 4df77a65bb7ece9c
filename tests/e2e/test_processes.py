"""``executor=processes`` through the command line: the bytes of one process, workers that are killed, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.tables import results
from tests import toy
from tests.chaos import artefacts, group_ended, last_run, values
from tests.engine.labour import gone, until

pytestmark = pytest.mark.slow
PROCESSES = ("executor=processes", "executor.workers=2", "runtime.threads=1")

PROGRAM = """
folder=${0%/*}
echo $$ >"$folder/begun.$$" && mv "$folder/begun.$$" "$folder/begun"
case "$(cat "$folder/way")" in
    kill) kill -9 $PPID; exit 1;;
    wait) while [ ! -e "$folder/go on" ]; do sleep 0.02; done;;
esac
half=$((($(wc -c <"$1") - 44) / 4 * 2))
{ head -c 44 "$1"; tail -c +$((45 + half)) "$1"; tail -c +45 "$1" | head -c $half; } >"$2"
"""
"""A user's system that kills the process that started it, or waits for a file, or puts the second half of a recording before the first."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("data") / "toy", speakers=4, utterances=4)


def own(data: Path, folder: Path, way: str, *more: str) -> list[str]:
    """A command that evaluates the program."""
    (folder / "own.sh").write_text(PROGRAM)
    (folder / "way").write_text(way)
    return [
        "recipe=kaldi", f"dataset.root={data}", "system=[original]", "extractor=[f0]", "attacker=[ignorant]", "diagnostics=false",
        f"+system.own={{name: command, command: 'sh {folder / 'own.sh'} {{input}} {{output}}'}}",
        f"paths.root={folder / 'exp'}", *PROCESSES, *more,
    ]  # fmt: skip


def states(exp: Path) -> list[str]:
    return [json.loads(path.read_text())["state"] for path in sorted(exp.glob("runs/*/status.json"))]


def test_all_values_and_artefacts_have_the_bytes_of_one_process(data: Path, tmp_path: Path) -> None:
    given = [
        "recipe=kaldi", f"dataset.root={data}", "system=[original,b2,b2r]", "extractor=[ge2e,f0]", "attacker=[ignorant,lazy_informed]",
        "runtime.threads=1",
    ]  # fmt: skip
    for name, executor in (("one", ["executor=local"]), ("two", PROCESSES)):
        assert cli.run([*given, *executor, f"paths.root={tmp_path / name}"]) == 0
    one, two = (tmp_path / name for name in ("one", "two"))
    assert values(last_run(one)) == values(last_run(two))
    found = artefacts(two / "store")
    assert found == artefacts(one / "store") and len(found[0]) > 50 and not found[1]
    journal = "".join(path.read_text() for path in last_run(two).glob("tasks/*.jsonl"))
    assert "worker 1" in journal and "worker 2" in journal


def test_a_task_that_kills_two_workers_is_named_with_status_5_and_goes_on_once_it_is_mended(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = own(data, tmp_path, "kill")
    assert cli.run(given) == 5
    err = capfd.readouterr().err
    assert states(tmp_path / "exp") == ["failed"]
    assert "was killed by SIGKILL in the middle of anonymise own" in err and "which is tried once more" in err
    assert "its worker process was killed by SIGKILL, and so did a second one" in err
    assert {row.system for row in results.read(last_run(tmp_path / "exp")).itertuples()} == {"original"}
    (tmp_path / "way").write_text("copy")
    assert cli.run(given) == 0
    out = capfd.readouterr().out
    assert int(out.splitlines()[-2].split()[1]) > 0, "what the others had done is reused"
    assert "own" in set(results.read(last_run(tmp_path / "exp"))["system"])


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_run_with_all_its_processes(data: Path, tmp_path: Path, times: int) -> None:
    """Once: after the shard in flight, and the same command goes on. Twice: at once, whatever the shard does."""
    given = own(data, tmp_path, "wait")
    run = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *given], cwd=tmp_path, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until((tmp_path / "begun").exists, toy.HANGS)
    assert run.stderr is not None
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    assert any("SIGINT: stopping after" in line for line in run.stderr)
    if times == 2:
        os.killpg(run.pid, signal.SIGINT)
    else:
        (tmp_path / "go on").touch()
    _, err = run.communicate(timeout=toy.HANGS)
    assert run.returncode == 130, err
    assert group_ended(run.pid) and "Traceback" not in err
    until(lambda: gone(int((tmp_path / "begun").read_text())))  # the program too, which is in a group of its own
    assert states(tmp_path / "exp") == ["stopped"]
    assert not list((tmp_path / "exp").rglob("*.tmp-*")) or times == 2
    (tmp_path / "go on").touch()
    assert cli.run(given) == 0
    assert states(tmp_path / "exp") == ["stopped", "done"]
    assert not list((tmp_path / "exp").rglob("*.tmp-*"))
