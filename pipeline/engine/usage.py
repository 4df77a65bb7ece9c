"""Which artefacts a run used: written as it goes on, read by those who clean a store.

``RUN/used/<process>.txt``: a line ``STAGE KEY`` for each artefact, whether it was found or made, after a line of comment. Each process
that performs tasks writes a file of its own, so a run that was killed says it too, as far as it got. A line that a kill has cut off is
left out: its artefact was not read by anything yet.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.task import Task
from pipeline.errors import ConfigError, DataError, os_error
from pipeline.files import write_atomically
from pipeline.processes import this_process
from pipeline.tables import status

FOLDER = "used"
_HEAD = "# artefacts that this run used: stage and key\n"
_LINE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*) ([0-9a-f]{64})")
_RUNS, _ROOT = "runs", "paths.root="

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Stage and key of an artefact."""


class UsageRecorder(Progress):
    """Writes which artefacts this process used for a run.

    A list that lacks something would let a result be removed that the run stands on. So where it cannot be written it is taken away,
    and written whole at the end.

    Args:
        run: the run folder.
        outcome: where the artefacts of tasks are found when they have ended.
    """

    def __init__(self, run: Path, outcome: Outcome) -> None:
        super().__init__()
        self.path = run / FOLDER / f"{this_process().token()}.txt"
        self.outcome = outcome
        self._all: set[Key] = set()
        self._whole = True
        self._writes = threading.Lock()
        self._append(_HEAD)

    def end(self, task: Task, computed: bool) -> None:
        super().end(task, computed)
        artefacts = [self.outcome.artefacts.get((task.id, name)) for name in task.outputs]
        self.add((task.name, artefact.key) for artefact in artefacts if artefact is not None)

    def finish(self) -> None:
        self.add((str(artefact.record["stage"]), artefact.key) for artefact in list(self.outcome.artefacts.values()))

    def add(self, keys: Iterable[Key]) -> None:
        """Write down artefacts, each once."""
        with self._writes:
            new = [key for key in dict.fromkeys(keys) if key not in self._all]
            self._all.update(new)
            if not self._whole:
                with suppress(OSError):  # it has been said, and whoever asks for the list finds none
                    self.path.parent.mkdir(exist_ok=True)
                    write_atomically(self.path, _HEAD + _lines(sorted(self._all)))
                    self._whole = True
            elif new:
                self._append(_lines(new))

    def _append(self, text: str) -> None:
        try:
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("a", encoding="ascii") as stream:
                stream.write(text)
        except OSError as error:
            self._whole = False
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            log.warning("%s cannot be written (%s): it is tried again as the run goes on", self.path, error.strerror)


def _lines(keys: Iterable[Key]) -> str:
    return "".join(f"{stage} {key}\n" for stage, key in keys)


def read_usage(run: Path) -> set[Key] | None:
    """What a run used, as far as it got; None where it does not say: it was made by an earlier version.

    Raises:
        DataError: a list is not what was written.
        StageFailed: one may not be read.
    """
    keys: set[Key] = set()
    try:
        lists = sorted((run / FOLDER).glob("*.txt"))
        texts = [(path, path.read_text(encoding="ascii", errors="replace")) for path in lists]
    except OSError as error:
        raise os_error(error, "what a run used cannot be read", run / FOLDER) from error
    for path, text in texts:
        for line in text.split("\n")[:-1]:
            match = _LINE.fullmatch(line)
            if match is not None:
                keys.add((match[1], match[2]))
            elif not line.startswith("#"):
                raise DataError(
                    f"what run {run.name} used cannot be told: a line of its list is not what was written",
                    where=str(path),
                    cause="a disk or a copy that changed bytes, or a file that was edited",
                    remedy=explain_rerun(run),
                )
    return keys if texts else None


def explain_rerun(run: Path) -> str:
    """How a run folder that says what it used is had."""
    words = "run the same evaluation again and name its new folder; what is in the store is reused"
    line = read_command(run)
    return f"{words}: {line}" if line else words


def read_command(run: Path) -> str:
    """The command of a run, over the root below which its folder lies now; '' where it does not say."""
    try:
        overrides = (run / "overrides.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    place = run.resolve().parent
    if place.name == _RUNS:  # it may have been copied here from another root
        overrides = [*(override for override in overrides if not override.startswith(_ROOT)), f"{_ROOT}{place.parent}"]
    return shlex.join(["voice-privacy", *overrides])


def list_runs(root: Path) -> list[Path]:
    """The run folders below ``paths.root``, oldest first."""
    try:
        with os.scandir(root / _RUNS) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise os_error(error, "the runs cannot be listed", root / _RUNS) from error
    return [root / _RUNS / name for name in names]


def find_run(root: Path, name: str) -> Path:
    """The run folder that somebody means: a path, or the name of one below ``paths.root``.

    Raises:
        ConfigError: there is none.
    """
    for place in (Path(name).expanduser(), root / _RUNS / name):
        if any((place / entry).exists() for entry in (status.FILE, status.LOG, FOLDER)):
            return place
    runs = [entry.name for entry in list_runs(root)]
    raise ConfigError(
        f"there is no run '{name}'",
        where=str(root / _RUNS),
        cause="it was moved or removed, or it belongs to another paths.root",
        remedy="give the path of its folder, or --root DIR"
        + (f"; the newest here: {', '.join(runs[-3:])}" if runs else ""),
    )


def is_active(run: Path) -> bool:
    """Whether a run goes on, or may: one that was killed is marked so on the way."""
    state = status.read(run).get("state")
    if state in ("running", status.GARBLED):
        state = status.settle(run).get("state")
    return state in ("running", "submitted", status.GARBLED)
