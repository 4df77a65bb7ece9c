"""What the tests of recipes vpc2020 and vpc2022 share: a small generated folder, and the README's commands on it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pipeline import cli
from pipeline.report.scorecard import card, settings
from pipeline.tables import results
from tests.documents import ROOT

TWO = "dataset.sets=[libri_test_trials_f,libri_test_trials_m]"
SMALL = ("dataset.protocol=reported", "runtime.device=cpu", "runtime.threads=1")
VERDICTS = {
    "reproduced", "within interval", "differs", "not run", "cannot follow from the printed inputs", "sources disagree",
}  # fmt: skip
Ran = Callable[..., tuple[int, str, str]]


def commands(recipe: str) -> list[str]:
    """The commands of a recipe's README."""
    text = (ROOT / "recipes" / recipe / "README.md").read_text()
    return re.findall(r"^    (voice-privacy .*)$", text, re.MULTILINE)


def words(command: str, root: Path) -> list[str]:
    """The arguments of a command, with the folder for DIR."""
    _, *given = shlex.split(command)
    return [word.replace("dataset.root=DIR", f"dataset.root={root}") for word in given]


def runner(home: Path, capfd: pytest.CaptureFixture[str]) -> Ran:
    """Run a command line in this process; exit status, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, f"paths.root={home / 'exp'}", *SMALL])
        return (status, *capfd.readouterr())

    return call


def rows(out: str) -> pd.DataFrame:
    """The results of a run by its output."""
    return results.read(Path(out.splitlines()[-1]).parent)


def scorecard(out: str, recipe: str) -> pd.DataFrame:
    """The scorecard of a run, which has a verdict for each cell of the recipe's tables and one row for none."""
    made = pd.read_csv(Path(out.splitlines()[-1]).parent / "scorecard.csv", dtype=str, keep_default_na=False)
    given = settings.read(recipe)
    assert given is not None
    assert len(made) == len(card.read_cells(given.tables)) > 1000
    assert set(made["verdict"]) <= VERDICTS
    return made
