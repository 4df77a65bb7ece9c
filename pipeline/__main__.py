"""The console script ``voice-privacy``, and ``python -m pipeline``."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end with its exit status."""
    _leave_current_folder()
    from pipeline.cli import output, run

    _in_utf8()
    output.outlast()
    _end(run(sys.argv[1:]), _computes(sys.argv[1:]))


def _leave_current_folder() -> None:
    """Import nothing from the current folder, here and in what this process starts, where it came by an empty part of PYTHONPATH
    (``export PYTHONPATH=$PYTHONPATH:DIR``)."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [part for part in parts if part]
    if named != parts and parts != [""]:
        os.environ["PYTHONPATH"] = os.pathsep.join(named)
        here = os.getcwd()  # noqa: PTH109
        if here not in map(os.path.abspath, named) and here in sys.path:
            sys.path.remove(here)


def _computes(arguments: list[str]) -> bool:
    """Whether a command line leaves more than its output."""
    from pipeline.cli import VERBS

    is_information = any(argument in ("-h", "--help", "--version") for argument in arguments)
    verb = arguments[0] if arguments and arguments[0] in VERBS else "run"
    return verb in ("run", "prepare", "train", "fetch-models") and not is_information


def _in_utf8() -> None:
    """Start anew in Python's UTF-8 mode where the locale has another encoding for the names of files.

    Tables are UTF-8 and so are the names in them, whatever the terminal shows. Output stays in the terminal's encoding.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        encoding = sys.stdout.encoding if sys.stdout is not None else "ascii"
        environment = {"PYTHONIOENCODING": encoding, **os.environ, "PYTHONUTF8": "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _end(status: int, computes: bool) -> NoReturn:
    """End this process, without the interpreter's own tear-down.

    A thread of Arrow's pool may still hold a Python file when all work is done, and releases it when it likes. Where that
    falls into the tear-down of the interpreter, the thread may not run any more, and the process dies of SIGABRT after
    complete output ("terminate called without an active exception", apache/arrow#34314). So what the interpreter does
    before it is done here: threads are waited for, exit handlers called (those of logging among them), streams flushed.
    """
    from pipeline.cli import output

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    why = ""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if stream is None or stream.closed:
            continue
        stream.flush()
        why = why or output.explain_lost_output(number)
    if why:
        # Status 5, as for any disk that is full: what was computed is kept, what was to be read is not all there.
        kept = f" What was computed is kept (status {status} without this)." if computes else ""
        print(
            f"error: not all of the output could be written: {why}.{kept} To mend it: "
            "free space or send the output elsewhere, and run the same command again",
            file=sys.stderr,
            flush=True,
        )
        status = status or 5
    os._exit(status)


if __name__ == "__main__":
    main()
