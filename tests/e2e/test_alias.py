"""``voice_privacy``, the name under which the wheel's package can be found where another module is called ``pipeline``."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import start

SAME = """
import sys, voice_privacy as vp
assert "numpy" not in sys.modules, "nothing is loaded before it is used"
from voice_privacy import errors
import pipeline
print(vp.evaluate is pipeline.evaluate, vp.errors is errors is pipeline.errors, vp.__version__ == pipeline.__version__)
"""


def test_the_alias_of_the_wheel_is_the_package_and_names_an_intruder(installed: Path, tmp_path: Path) -> None:
    ended = start(installed, tmp_path, "-c", SAME)
    assert (ended.status, ended.out) == (0, "True True True\n"), ended.err
    (tmp_path / "pipeline.py").write_text("print('the intruder runs')\n")
    ended = start(installed, tmp_path, "-c", SAME)
    last = ended.err.splitlines()[-1]
    assert (ended.status, ended.out) == (1, "") and last.startswith("ImportError: ")
    assert str(tmp_path / "pipeline.py") in last and "To mend it: rename it" in last
    ended = start(installed, tmp_path, "-m", "voice_privacy", "--version")  # which leaves the current folder out
    assert (ended.status, ended.err) == (0, "") and ended.out


def test_the_console_script_names_an_intruder(installed: Path, tmp_path: Path) -> None:
    """One that stands on PYTHONPATH, or was installed by another distribution."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("print('the intruder runs')\n")
    script = tmp_path / "voice-privacy"
    script.write_text("from voice_privacy.__main__ import main\nmain()\n")
    ended = start(installed, tmp_path, script, "--version")
    assert (ended.status, ended.out) == (2, "") and ended.err.startswith("error: voice_privacy needs")
    assert str(tmp_path / "pipeline") in ended.err and "Traceback" not in ended.err
