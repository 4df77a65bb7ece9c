"""What a run starts: no code of the current folder, and of the user's programs their own."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from pipeline import processes

SHADOWED = ("typing", "__future__", "random", "socket", "pickle", "logging", "numpy", "hydra_plugins/evil/__init__")


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a stranger's, whose modules have names that ours import; each writes ``RAN-…`` when it runs."""
    for name in SHADOWED:
        path = tmp_path / "here" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path)!r} + '/RAN-' + __name__, 'w')\nraise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.glob("RAN-*"))


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, **environment})


def test_a_strangers_folder_is_one(strangers: Path) -> None:
    assert python("-c", "import random").returncode == 9 and ran(strangers) == ["RAN-random"]


def test_the_command_imports_nothing_from_the_current_folder(strangers: Path) -> None:
    done = python("-m", "pipeline", "--cfg", "job", "recipe=demo")
    assert (done.returncode, ran(strangers)) == (0, []), done.stderr


@pytest.mark.slow
def test_nor_where_pythonpath_has_an_empty_part(strangers: Path) -> None:
    """``export PYTHONPATH=$PYTHONPATH:DIR`` makes one, and it means the current folder. Python's own modules come before it."""
    script = "import sys; from pipeline.__main__ import main; sys.argv = ['voice-privacy', '--cfg', 'job', 'recipe=demo']; main()"
    for name in SHADOWED[:-1]:
        (strangers / f"{name}.py").unlink()
    done = python("-P", "-c", script, PYTHONPATH=f"{os.pathsep}/nowhere")
    assert (done.returncode, ran(strangers)) == (0, []), done.stderr


def test_a_process_of_a_library_does_not_and_a_program_of_the_users_does(strangers: Path) -> None:
    with processes.isolate_python():
        started = get_context("spawn").Process(target=os.getpid)
        started.start()
        code = "import random, sys; sys.path.count('') and sys.exit(1)"
        assert python("-c", code).returncode == 0
        started.join()
        assert (started.exitcode, ran(strangers)) == (0, [])
        assert processes.run_program([sys.executable, "-c", "import random"], 60)[0] == 9
    assert "PYTHONSAFEPATH" not in os.environ and ran(strangers) == ["RAN-random"]
