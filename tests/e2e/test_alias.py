"""``voice_privacy``, the name under which the wheel's package can be found where another module is called ``pipeline``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.conftest import elsewhere

SAME = """
import sys, voice_privacy as vp
assert "numpy" not in sys.modules, "nothing is loaded before it is used"
from voice_privacy import errors
import pipeline
print(vp.evaluate is pipeline.evaluate, vp.errors is errors is pipeline.errors, vp.__version__ == pipeline.__version__)
"""


def call(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([installed, *words], cwd=folder, env=elsewhere(), capture_output=True, text=True)


def test_the_alias_of_the_wheel_is_the_package_and_names_an_intruder(installed: Path, tmp_path: Path) -> None:
    done = call(installed, tmp_path, "-c", SAME)
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr
    (tmp_path / "pipeline.py").write_text("print('the intruder runs')\n")
    done = call(installed, tmp_path, "-c", SAME)
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert (
        last.startswith("ImportError: ") and str(tmp_path / "pipeline.py") in last and "To mend it: rename it" in last
    )
    done = call(installed, tmp_path, "-m", "voice_privacy", "--version")  # which leaves the current folder out
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


def test_the_console_script_names_an_intruder(installed: Path, tmp_path: Path) -> None:
    """One that stands on PYTHONPATH, or was installed by another distribution."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("print('the intruder runs')\n")
    script = tmp_path / "voice-privacy"
    script.write_text("from voice_privacy.__main__ import main\nmain()\n")
    done = call(installed, tmp_path, script, "--version")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("error: voice_privacy needs")
    assert str(tmp_path / "pipeline") in done.stderr and "Traceback" not in done.stderr
