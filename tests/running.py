"""Running tasks and command lines in tests, and what they came to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

import pipeline
from pipeline import cli
from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Task
from pipeline.errors import PipelineError
from pipeline.evaluation.result import Result
from pipeline.tables import results

IDENTITY = (
    "dataset", "subset", "system", "attacker", "extractor", "backend", "metric", "variant", "value", "low", "high",
)  # fmt: skip


def execute(tasks: Sequence[Task], store: Store, stop: Stop | None = None) -> Outcome:
    """Run tasks in turn; what they made."""
    outcome = Outcome(store)
    Executor(Settings()).execute(tasks, stop or Stop(), outcome, Progress())
    return outcome


def values(*runs: Path) -> list[tuple[str, ...]]:
    """All numbers of some runs, with what they are about, in an order of their own."""
    tables = [results.read(run) for run in runs]
    rows = [table[[name for name in IDENTITY if name in table.columns]].astype(str) for table in tables]
    return sorted(tuple(row) for table in rows for row in table.to_numpy())


class Ended(tuple[int, str, str]):
    """What a command line came to: exit status, standard output and standard error.

    Attributes:
        error: the last that was explained to people.
    """

    error: PipelineError | None = None

    status = property(lambda self: self[0])
    out = property(lambda self: self[1])
    err = property(lambda self: self[2])

    @property
    def screen(self) -> str:
        """Standard output with its lines joined."""
        return " ".join(self[1].split())

    @property
    def folder(self) -> Path:
        """The run folder, by the report that the output names."""
        return Path(next(line for line in self[1].splitlines() if line.endswith("report.html"))).parent

    @functools.cached_property
    def run(self) -> Result:
        """The finished run."""
        return pipeline.read(self.folder)

    @property
    def rows(self) -> pd.DataFrame:
        """The results of the run."""
        return self.run.rows

    @property
    def scorecard(self) -> pd.DataFrame:
        """The scorecard of the run, as text."""
        return pd.read_csv(self.folder / "scorecard.csv", dtype=str, keep_default_na=False)

    @property
    def tasks(self) -> tuple[int, int]:
        """Reused and computed tasks, as the last but one line says."""
        words = self[1].splitlines()[-2].split()
        assert words[0] == "tasks:", self[1]
        return int(words[1]), int(words[3])

    @property
    def kinds(self) -> set[str]:
        """The kinds of the faults that were explained."""
        assert self.error is not None, self[2]
        return {fault.kind for fault in self.error.faults}


def carry_out(*words: str) -> int:
    """Do what a command line says, in this process, whose threads are afterwards as many as before; the exit status."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else 0
    try:
        return cli.run(words)
    finally:
        if torch is not None:
            torch.set_num_threads(threads)


def finish(home: Path, *words: str) -> Ended:
    """The only run in a folder, which several tests look at; of its output there is the last line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert carry_out(*words) == 0
    (run,) = (home / "exp" / "runs").iterdir()
    return Ended((0, f"{run / 'report.html'}\n", ""))


Command = Callable[..., Ended]
"""Takes the words of a command line, and the exit ``status`` that it must have (any, if it is left out)."""


def runner(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *before: str) -> Command:
    """Command lines in this process, which all have the same words behind their verb. Whatever goes wrong is explained."""
    explained: list[PipelineError] = []
    paragraph = PipelineError.paragraph

    def listened(error: PipelineError, every: bool = False) -> str:
        explained.append(error)
        return paragraph(error, every)

    monkeypatch.setattr(PipelineError, "paragraph", listened)

    def call(*words: str, status: int | None = None) -> Ended:
        capfd.readouterr()
        explained.clear()
        verb = words[: bool(words) and words[0].isalpha()]
        code = carry_out(*verb, *before, *words[len(verb) :])
        ended = Ended((code, *capfd.readouterr()))
        ended.error = explained[-1] if explained else None
        assert "Traceback" not in ended.err and "bug of the pipeline" not in ended.err, ended.err
        assert status in (None, code), ended.err
        return ended

    return call
