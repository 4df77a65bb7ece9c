"""What several end-to-end tests start from: command lines in this process, and the demo, which is run once from an installed wheel outside
the clone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.datasets.conftest import Tiny
from tests.running import Command, Ended, runner
from tests.toy import HANGS

ROOT = Path(__file__).resolve().parents[2]


def elsewhere() -> dict[str, str]:
    """The environment of somebody who has the wheel alone: no settings of ours, and no way to the sources."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("VOICE_PRIVACY_")
    }


def start(python: Path, home: Path, *words: object) -> Ended:
    """A Python of the wheel's environment, with these words, as somebody who has the wheel alone."""
    done = subprocess.run(
        [python, *words], cwd=home, env=elsewhere(), capture_output=True, text=True, timeout=2 * HANGS, check=False
    )
    return Ended((done.returncode, done.stdout, done.stderr))


@dataclass(frozen=True)
class Demo:
    """A finished demo run: where it ran, its interpreter and what it came to."""

    home: Path
    python: Path
    ended: Ended

    @property
    def stdout(self) -> str:
        return self.ended.out

    @property
    def run(self) -> Path:
        return self.ended.folder

    @property
    def report(self) -> Path:
        return self.run / "report.html"

    @property
    def rows(self) -> pd.DataFrame:
        return self.ended.rows

    def call(self, *words: object) -> Ended:
        """Another command line beside it, which ends well."""
        ended = start(self.python, self.home, "-m", "pipeline", *words)
        assert ended.status == 0, ended.err
        return ended


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Command lines in this process, from a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return runner(capfd, monkeypatch)


@pytest.fixture
def small(tmp_path: Path) -> Tiny:
    """A tiny Kaldi set; whoever changes its tables saves it again."""
    return Tiny(tmp_path / "data").save()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as users get it."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel; the requirements are those of the running environment."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # A path line, not a copy: path files inside that folder, the editable install among them, are not followed.
    (site / "requirements.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return home / "bin" / "python"


@pytest.fixture(scope="session")
def demo(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """``recipe=demo`` from the wheel, in an empty folder outside the clone."""
    home = tmp_path_factory.mktemp("demo")
    ended = start(installed, home, "-m", "pipeline", "recipe=demo")
    assert ended.status == 0, ended.err
    return Demo(home, installed, ended)
