"""``recipes/README.md``: somebody's anonymiser as a folder, a command and a class, by the files and commands as they stand there."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from pipeline import registry
from tests.documents import ROOT
from tests.running import Command, Ended

TEXT = (ROOT / "recipes" / "README.md").read_text()
FILES = dict(re.findall(r"`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
SHOWN = [
    (command, lines.splitlines())
    for block in re.findall(r"^```\n(\$ .*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    for command, lines in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]
SAME = ["subset", "condition", "attacker", "extractor", "trained_on", "backend", "metric", "variant"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the document; ``python`` is the interpreter of the tests."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return tmp_path


@pytest.fixture
def install(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """``pip install .`` into a folder that goes away with the test."""

    def call() -> None:
        target = home / "site"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target, "."],
            cwd=home, check=True, capture_output=True, text=True,
        )  # fmt: skip
        monkeypatch.syspath_prepend(target)
        forget()

    yield call
    forget()


def forget() -> None:
    """What was known of installed distributions."""
    importlib.invalidate_caches()
    registry._find_entry_points.cache_clear()
    registry.component.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


def rows(ended: Ended) -> pd.DataFrame:
    """What the run measured of the anonymiser."""
    return ended.rows.query("system == 'mine'").sort_values(SAME).reset_index(drop=True)


def test_the_document_has_its_files_and_commands() -> None:
    assert set(FILES) == {"mine/anonymise.py", "mine/copies.py", "mine/__init__.py", "pyproject.toml"}
    assert len(SHOWN) == 9
    function = FILES["mine/anonymise.py"].split("def anonymise")[1].split("if __name__")[0]
    assert len(function.strip().splitlines()) <= 6, "a toy"


@pytest.mark.slow
def test_the_document_runs_as_it_stands(
    home: Path, install: Callable[[], None], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command in turn. Lines that are shown come out in their order: trained networks differ between processors in
    their numbers, so of our own rows all but these; printed numbers to the digit. Folder, command and class agree to the last bit."""
    # What is installed by the test, for processes of its own.
    monkeypatch.setenv("PYTHONPATH", f"{home / 'site'}:{ROOT}")
    run, ways = "", []
    for shown, lines in SHOWN:
        words = shlex.split(shown.replace("RUN", run))
        if words[:3] == ["python", "-m", "pip"]:
            install()
            continue
        if words[0] == "voice-privacy":
            ended = command(*words[1:], status=0)
            out = ended.out
            if "'system=" in shown and "validate" not in shown:
                ways.append(rows(ended))
                run = str(ended.folder)
        else:
            out = subprocess.run(words, cwd=home, check=True, capture_output=True, text=True).stdout
        compare(lines, out)
    assert len(ways) == 3 and len(ways[0]) > 20
    for other in ways[1:]:
        pd.testing.assert_frame_equal(other[[*SAME, "value"]], ways[0][[*SAME, "value"]], check_exact=True)


def compare(lines: list[str], out: str) -> None:
    """Shown lines are printed, in their order."""
    printed = iter(named(line) for line in out.splitlines())
    for line in lines:
        if line != "...":
            assert named(line) in printed, line


def named(line: str) -> list[str]:
    """A line without what a processor decides: in rows of the anonymiser, numbers and what follows from them."""
    if " mine  " in line or line.startswith("ours: "):
        return [
            word
            for word in re.split(r"  +| mine ", line)
            if word and not re.match(r"[\d\[–-]|[A-F]$|lazy|ignorant", word)
        ]
    return ["---"] if line.startswith("----") else line.split()
