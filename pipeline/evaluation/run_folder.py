"""The folder of one run: what was asked, what happened, what came out. A new one each run, even when all is reused."""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop, Stopped, listen_for_signals
from pipeline.engine.task import Task
from pipeline.errors import ConfigError, PipelineError, explain_full_disk, explain_system_error
from pipeline.files import make_file_name
from pipeline.processes import this_process
from pipeline.slurm import find_own_job
from pipeline.tables import status
from pipeline.version import __version__

LIBRARIES = [
    "torch",
    "torchaudio",
    "speechbrain",
    "numpy",
    "scipy",
    "librosa",
    "pandas",
    "pyarrow",
    "soundfile",
    "soxr",
    "numba",
    "hydra-core",
    "pydantic",
    "safetensors",
    "matplotlib",
]
_SHORT = 200
"""Characters of the reason that a record keeps where there is no room for more; ``run.log`` and the screen have all of it."""

log = logging.getLogger(__name__)


class RunFolder:
    """``ROOT/runs/<UTC>-<recipe>-<Slurm job id or 6 hex>/`` with its log and its status.

    Args:
        runs: the folder of runs.
        recipe: its name.
        begun: the folder of a run that another process began, and that goes on here.
    """

    def __init__(self, runs: Path, recipe: str, begun: str = "") -> None:
        self.id = begun or (
            f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{make_file_name(recipe)}-{find_own_job() or uuid.uuid4().hex[:6]}"
        )
        try:
            runs.mkdir(parents=True, exist_ok=True)
            try:
                (runs / self.id).mkdir(exist_ok=bool(begun))
            except FileExistsError:  # two runs of one job in one second
                self.id += f"-{uuid.uuid4().hex[:6]}"
                (runs / self.id).mkdir(exist_ok=False)
            self.path = runs / self.id
            self._handler = _Log(self.path / status.LOG)
        except OSError as error:
            full = explain_full_disk(error)
            if full is not None:
                raise full from error
            raise ConfigError(
                f"no run folder can be made: {error}",
                where=str(runs),
                remedy="set paths.root to a folder that is yours",
            ) from error
        before = status.read(self.path) if begun else {}
        self._status: dict[str, Any] = {
            "started": utc(),
            **before,
            "run_id": self.id,
            "state": "running",
            "process": this_process().plain(),
            "slurm_job": find_own_job(),
        }
        logging.getLogger("pipeline").addHandler(self._handler)
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name="signs of life", daemon=True).start()

    def describe(self, config: Mapping[str, Any], arguments: Sequence[str]) -> None:
        """Write ``config.yaml``, ``overrides.txt`` and ``environment.json``."""
        text = yaml.safe_dump(dict(config), sort_keys=False)
        (self.path / "config.yaml").write_text(text, encoding="utf-8")
        text = "".join(f"{argument}\n" for argument in arguments)
        (self.path / "overrides.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
        environment = {
            "pipeline": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "host": socket.gethostname(),
            "cores": len(os.sched_getaffinity(0)),
            "slurm_job": find_own_job(),
            "libraries": {name: _version(name) for name in LIBRARIES},
        }
        (self.path / "environment.json").write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")
        self.status()

    def status(self, **changes: Any) -> None:
        """Replace ``status.json``.

        Raises:
            OSError: it cannot be written.
        """
        self._status.update(changes, updated=utc())
        status.write(self.path, self._status)

    def ending(self, **changes: Any) -> dict[str, Any]:
        """The record with which a run ends, as :meth:`end` writes it: plain JSON values."""
        now = utc()
        record: dict[str, Any] = json.loads(json.dumps({**self._status, **changes, "ended": now, "updated": now}))
        return record

    def end(self, record: Mapping[str, Any]) -> None:
        """Replace ``status.json`` by the last record.

        Raises:
            OSError: it cannot be written.
        """
        status.write(self.path, record)
        self._status = dict(record)

    def last_status(self, **changes: Any) -> None:
        """Say how the run ended; a disk that takes nothing more hides no other error."""
        try:
            try:
                self.status(ended=utc(), **changes)
            except OSError:  # a short record may still have room
                short = [str(reason)[:_SHORT] for reason in changes.get("reasons", [])[:1]]
                self.status(**{**changes, "reasons": short})
        except OSError as error:
            log.warning("%s cannot be written (%s)", self.path / status.FILE, error.strerror)

    def log(self, text: str) -> None:
        """Write a text into ``run.log`` alone (the whole of an error of which people see the paragraph)."""
        record = logging.LogRecord("pipeline", logging.ERROR, __file__, 0, text, None, None)
        self._handler.handle(record)

    def keep(self, error: PipelineError) -> None:
        """Write the whole of an error into ``run.log``, and have the error say so."""
        self.log(error.paragraph(every=True))
        error.listed_in = str(self.path / "run.log")

    def close(self) -> None:
        self._ended.set()
        logging.getLogger("pipeline").removeHandler(self._handler)
        self._handler.close()

    def _beat(self) -> None:
        while not self._ended.wait(status.BEAT_SECONDS):
            try:
                os.utime(self.path / status.FILE)
            except OSError:
                continue


class _Log(logging.FileHandler):
    """``run.log``. Where it cannot be written, that is said once, and the run goes on to say what it has to say itself."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        # The name stands in a format, and in a file that terminals show.
        host = re.sub(r"[^A-Za-z0-9_.-]", "_", socket.gethostname())
        self.setFormatter(_Utc(f"%(asctime)s {host} {find_own_job() or '-'} %(levelname)s %(name)s: %(message)s"))
        self._said = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._said:
            self._said = True
            log.warning("%s cannot be written (%s)", self.baseFilename, error.strerror)

    def close(self) -> None:
        with suppress(OSError):  # what was left in its buffer, of which handleError has told
            super().close()


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Have the messages of this process written into a file too."""
    handler = _Log(path)
    logging.getLogger("pipeline").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("pipeline").removeHandler(handler)
        handler.close()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _Utc(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%SZ"
    default_msec_format = ""


STATUS_SECONDS = 0.5
"""Between two writings of ``status.json`` while tasks go by."""


class Recording(Progress):
    """Writes into ``status.json`` which task goes on."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self._written = 0.0

    def begin(self, task: Task, where: str = "") -> None:
        if time.monotonic() - self._written > STATUS_SECONDS:
            self._written = time.monotonic()
            self.folder.status(task=task.label, tasks_done=self.tasks_done, tasks_total=self.tasks)


@contextmanager
def recorded(folder: RunFolder) -> Iterator[Stop]:
    """Have the run folder say how a run ended, whatever happens."""
    try:
        with listen_for_signals(lambda number: folder.last_status(**_stopped(Stopped(number)))) as stop:
            yield stop
    except Stopped as error:
        folder.last_status(**_stopped(error))
        log.warning("%s; run the same command again to go on", error)
        raise
    except PipelineError as error:
        _failed(folder, error)
        raise
    except (KeyboardInterrupt, SystemExit) as error:
        # A signal that fell between two handlers, or submitit, which ends a job that Slurm starts anew.
        folder.last_status(state="stopped", reasons=[f"ended from outside ({type(error).__name__})"])
        raise
    except BaseException as error:
        refused = explain_system_error(error, folder.path)
        if refused is not None:
            folder.log(traceback.format_exc())
            _failed(folder, refused)
            raise refused from error
        folder.last_status(state="failed", exit_status=1, reasons=[f"{type(error).__name__}: {error}"])
        folder.log(traceback.format_exc())
        raise
    finally:
        folder.close()


def _stopped(error: Stopped) -> dict[str, Any]:
    return {"state": "stopped", "exit_status": error.status, "reasons": [str(error)]}


def _failed(folder: RunFolder, error: PipelineError) -> None:
    folder.last_status(state="failed", exit_status=error.status, reasons=[error.paragraph(every=True)])
    folder.keep(error)
