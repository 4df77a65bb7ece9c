"""The end of the process: nothing of it is lost, though the interpreter's own tear-down is left out."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pipeline.cli import output

# The entry points, and a `run` in their place that says and leaves what the test is about.
AS_MODULE = "import runpy; runpy.run_module('pipeline', run_name='__main__')"
AS_SCRIPT = "import pipeline.__main__; pipeline.__main__.main()"
WITH_RUN = """
import atexit, logging, sys, threading, time
import pipeline.cli
def run(arguments):
    {body}
pipeline.cli.run = run
sys.argv = ["voice-privacy", "given"]
{start}
"""


def ended(body: str, start: str = AS_SCRIPT, **streams: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITH_RUN.format(body="\n    ".join(body.splitlines()), start=start)]
    # Unbuffered, all would be written before the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(command, text=True, env=environment, **given)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("start", [AS_MODULE, AS_SCRIPT])
@pytest.mark.parametrize("status", [0, 3, 143])
def test_output_to_a_pipe_is_complete_and_the_exit_status_passed_on(start: str, status: int) -> None:
    done = ended(f"print('x' * 300_000 + 'end')\nprint('said', file=sys.stderr)\nreturn {status}", start)
    assert (done.returncode, done.stdout, done.stderr) == (status, "x" * 300_000 + "end\n", "said\n")


def test_exit_handlers_run_logs_are_flushed_and_threads_waited_for(tmp_path: Path) -> None:
    done = ended(
        f"""import logging.handlers
handler = logging.handlers.MemoryHandler(1000, target=logging.FileHandler({str(tmp_path / "log")!r}))
logging.getLogger().addHandler(handler)
logging.warning("last words")
atexit.register(print, "first registered")
atexit.register(print, "last registered")
released = threading.Event()
threading.Thread(target=lambda: (released.wait(), print("thread"))).start()
threading.Timer(0.2, released.set).start()
return 0"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["thread", "last registered", "first registered", ""]
    assert (tmp_path / "log").read_text() == "last words\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_no_success() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = ended("print('result')\nreturn 0", stdout=full)
        assert done.returncode == 5
        (said,) = done.stderr.splitlines()
        assert said.startswith("error: not all of the output could be written: No space left on device. ")
        assert ended("print('result')\nreturn 3", stdout=full).returncode == 3
        assert ended("sys.stderr.write('said')\nreturn 0", stderr=full).returncode == 5
        more = ended("for _ in range(3):\n    print('x' * 100_000, flush=True)\nreturn 0", stdout=full)
        assert (more.returncode, len(more.stderr.splitlines())) == (5, 1), "nothing is raised in the middle of a run"


def test_a_reader_who_has_seen_enough_is_no_fault() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = ended("print('result')\nreturn 0", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_do_not_matter() -> None:
    assert ended("sys.stdout.close()\nsys.stderr = None\nreturn 4").returncode == 4


def test_the_console_script_and_the_module_are_one_entry() -> None:
    script = Path(sysconfig.get_path("scripts")) / "voice-privacy"
    if not script.is_file():
        pytest.skip("the console script is not installed")
    assert "from voice_privacy.__main__ import main" in script.read_text()


def test_names_send_no_commands_to_a_terminal() -> None:
    r"""A name of a host, a file or a variable may hold any byte; a colour, a title or a clipboard is set by ESC, one byte CSI or BEL."""
    raw = io.BytesIO()
    stream = output.Escaping(raw, encoding="utf-8")
    stream.write("on \x1b[31mnode\x07\x9b2J\r1 \u202e, ümlaut\t→\r\n")
    output.for_rich(stream).write("\x1b[1m")
    stream.flush()
    assert raw.getvalue().decode() == "on \\x1b[31mnode\\x07\\x9b2J\\r1 \\u202e, ümlaut\t→\r\n\x1b[1m"


def test_the_command_writes_to_such_a_stream(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "\x1b]0;x\x07"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2 and "\x1b" not in done.stderr and "\\x1b]0;x\\x07" in done.stderr
