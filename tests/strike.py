"""Inside a process that is to be killed: it dies between two of its own operations on files, which no outside clock can aim at.

Python tells an audit hook of each file that is opened, renamed or removed, before it happens. :mod:`tests.chaos` has each process of a
run load this module first. The one that comes to the operation that is asked for kills itself, or the run that it works for. It happens
once: whoever makes the file ``token`` first does it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "shutil.rmtree")
VARIABLE = "TESTS_STRIKE"
"""The environment variable that says what is asked for, as JSON: see :func:`arm`."""


def arm(asked: Mapping[str, Any]) -> None:
    """Wait for an operation, and kill in its place.

    Args:
        asked: ``where``: ``write`` (an artefact is written: ``shelf`` is the folder that it gets, ``key`` its key; counted from its
            folder on, or with ``record`` from its record on), ``books`` (a file of the run or of what the store knows is replaced:
            ``root``), ``sweep`` (what a killed run left is removed). ``after``: so many such operations come first. ``victim``: ``run``
            or ``worker``. ``token``: a path. ``counted``: instead of a kill, a byte for each operation goes to the end of this file.
    """
    is_worker = "--multiprocessing-fork" in sys.orig_argv
    seen, on, busy = 0, False, False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen, on, busy
        if busy or event not in OPERATIONS or (asked["victim"] == "worker" and not is_worker):
            return
        paths = [os.fsdecode(one) for one in arguments[:2] if isinstance(one, str | bytes | os.PathLike)]
        on = on or _begins(event, paths, asked)
        if not on or not _counts(event, paths, asked):
            return
        seen += 1
        busy = True
        if asked.get("counted"):
            with open(asked["counted"], "a") as stream:  # noqa: PTH123
                stream.write(".")
        elif seen > asked["after"]:
            _strike(asked, is_worker, " ".join([event, *paths]))
        busy = False

    sys.addaudithook(hook)


def _begins(event: str, paths: list[str], asked: Mapping[str, Any]) -> bool:
    """Whether operations are counted from this one on."""
    if asked["where"] == "write":
        written = bool(paths) and paths[0].startswith(f"{asked['shelf']}/{asked['key']}.tmp-")
        return written and (event == "os.mkdir" if not asked.get("record") else paths[0].endswith("/record.json"))
    return asked["where"] == "books" or (event == "shutil.rmtree" and ".tmp-" in paths[0])


def _counts(event: str, paths: list[str], asked: Mapping[str, Any]) -> bool:
    match asked["where"]:
        case "write":
            return bool(paths) and paths[0].startswith(asked["shelf"])
        case "books":
            parts = Path(os.path.relpath(paths[-1], asked["root"])).parts if paths else ("..",)
            return (
                event == "os.rename"
                and parts[0] != ".."
                and (parts[0] != "store" or parts[1] in ("files", "selections"))
            )
        case _:
            return event in ("shutil.rmtree", "os.scandir", "os.remove", "os.rmdir")


def _strike(asked: Mapping[str, Any], is_worker: bool, said: str) -> None:
    with suppress(FileExistsError):
        token = os.open(asked["token"], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(token, said.encode("utf-8", "replace"))
        os.close(token)
        os.kill(os.getppid() if is_worker and asked["victim"] == "run" else os.getpid(), signal.SIGKILL)
