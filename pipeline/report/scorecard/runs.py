"""The scorecard of a run: its rows beside the published cells of its recipe."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from pipeline.errors import os_error
from pipeline.report.scorecard import card, labels, output
from pipeline.report.scorecard.settings import Changes, Scorecard
from pipeline.report.scorecard.settings import read as settings_of
from pipeline.tables import results, run_files
from pipeline.tables import run_files as files


def of_run(folder: Path, settings: Scorecard) -> card.Card:
    """The card of a run folder."""
    return card.of(settings, results.records(results.read(folder)))


def ready(name: str, changes: Changes) -> Scorecard | None:
    """The scorecard of a recipe, once all its tables can be read: before anything is computed that would be held against them.

    Raises:
        ConfigError: a setting is at fault, names what is not published, or there is no such table.
        DataError: a table is none.
    """
    found = settings_of(name, changes)
    if found is not None:
        card.cells(found.witnesses)
        labels.refuse_unknown(changes, found, card.cells(found.tables))
    return found


def recorded(folder: Path) -> Changes:
    """What the command of a run changed of its recipe's scorecard; nothing in a run of an earlier version."""
    path = folder / "config.yaml"
    values = files.read_yaml(path) if path.is_file() else {}
    given = values.get("scorecard") if isinstance(values, dict) else None
    try:
        return Changes.model_validate(given or {})
    except ValidationError as error:
        raise files.make_changed_error(folder, [path.name]) from error


def recipe(folder: Path) -> str:
    """The recipe of a run; '' where its folder does not tell, or it is of none."""
    path = folder / "overrides.txt"
    if not path.is_file():
        return ""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error
    given = [one.partition("=")[2] for one in lines if one.lstrip("+").startswith("recipe=")]
    return given[-1] if given else ""


def is_of_another(folder: Path, name: str) -> bool:
    """Whether a run is of another recipe; False where its folder does not tell."""
    return (folder / "overrides.txt").is_file() and recipe(folder) != name


def written(folder: Path, settings: Scorecard) -> card.Card:
    """Make the card of a run that is about to be sealed, and write it into the folder."""
    made = of_run(folder, settings)
    output.write(folder, made, run_files.read_limits(folder))
    output.keep(folder, made)
    return made
