"""The folder of one run: what was asked, what happened, what came out. A new one each run, even when all is reused."""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import ConfigError, PipelineError
from pipeline.files import name_of, write_atomically
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


class RunFolder:
    """``ROOT/runs/<UTC>-<recipe>-<Slurm job id or 6 hex>/`` with its log and its status."""

    def __init__(self, runs: Path, recipe: str) -> None:
        self.id = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name_of(recipe)}-{job() or uuid.uuid4().hex[:6]}"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            try:
                (runs / self.id).mkdir(exist_ok=False)
            except FileExistsError:  # two runs of one job in one second
                self.id += f"-{uuid.uuid4().hex[:6]}"
                (runs / self.id).mkdir(exist_ok=False)
            self.path = runs / self.id
        except OSError as error:
            raise ConfigError(
                f"no run folder can be made: {error}",
                where=str(runs),
                remedy="set paths.root to a folder that is yours",
            ) from error
        self._status: dict[str, Any] = {"run_id": self.id, "state": "running", "started": utc()}
        self._handler = logging.FileHandler(self.path / "run.log", encoding="utf-8", errors="backslashreplace")
        self._handler.setFormatter(
            _Utc(f"%(asctime)s {socket.gethostname()} {job() or '-'} %(levelname)s %(name)s: %(message)s")
        )
        logging.getLogger("pipeline").addHandler(self._handler)

    def describe(self, config: Mapping[str, Any], arguments: Sequence[str]) -> None:
        """Write ``config.yaml``, ``overrides.txt`` and ``environment.json``."""
        text = yaml.safe_dump(dict(config), sort_keys=False)
        (self.path / "config.yaml").write_text(text, encoding="utf-8")
        given = "".join(f"{argument}\n" for argument in arguments)
        (self.path / "overrides.txt").write_text(given, encoding="utf-8", errors="surrogateescape")
        environment = {
            "pipeline": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "host": socket.gethostname(),
            "cores": len(os.sched_getaffinity(0)),
            "slurm_job": job(),
            "libraries": {name: _version(name) for name in LIBRARIES},
        }
        (self.path / "environment.json").write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")
        self.status()

    def status(self, **changes: Any) -> None:
        """Replace ``status.json``."""
        self._status.update(changes, updated=utc())
        write_atomically(self.path / "status.json", json.dumps(self._status, indent=1) + "\n")

    def log(self, text: str) -> None:
        """Write a text into ``run.log`` alone (the whole of an error of which people see the paragraph)."""
        record = logging.LogRecord("pipeline", logging.ERROR, __file__, 0, text, None, None)
        self._handler.handle(record)

    def keep(self, error: PipelineError) -> None:
        """Write the whole of an error into ``run.log``, and have the error say so."""
        self.log(error.paragraph(most=len(error.faults)))
        error.listed_in = str(self.path / "run.log")

    def close(self) -> None:
        logging.getLogger("pipeline").removeHandler(self._handler)
        self._handler.close()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def job() -> str:
    """The Slurm job, with the task of an array; '' outside Slurm."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '0')}"
    return os.environ.get("SLURM_JOB_ID", "")


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _Utc(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%SZ"
    default_msec_format = ""
