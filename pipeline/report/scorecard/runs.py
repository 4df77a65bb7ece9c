"""The scorecard of a run: its rows beside the published cells of its recipe."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from pipeline.errors import os_error
from pipeline.report.scorecard import card, output, settings
from pipeline.report.scorecard.settings import Changes, Scorecard
from pipeline.tables import results, run_files


def make_card_of_run(folder: Path, scorecard: Scorecard) -> card.Card:
    """The card of a run folder."""
    return card.make_card(scorecard, results.records(results.read(folder)))


def write_card_of_run(folder: Path, scorecard: Scorecard) -> card.Card:
    """Make the card of a run that is about to be sealed, and write it into the folder."""
    made_card = make_card_of_run(folder, scorecard)
    output.write(folder, made_card, run_files.read_limits(folder))
    output.keep(folder, made_card)
    return made_card


def prepare_scorecard(name: str, changes: Changes) -> Scorecard | None:
    """The scorecard of a recipe, once all its tables can be read: before anything is computed that would be held against them.

    Raises:
        ConfigError: a setting is at fault, names what is not published, or there is no such table.
        DataError: a table is none.
    """
    scorecard = settings.read(name, changes)
    if scorecard is not None:
        card.read_cells(scorecard.witnesses)
        settings.refuse_unknown(changes, scorecard, card.read_cells(scorecard.tables))
    return scorecard


def read_changes(folder: Path) -> Changes:
    """What the command of a run changed of its recipe's scorecard; nothing in a run of an earlier version."""
    path = folder / "config.yaml"
    values = run_files.read_yaml(path) if path.is_file() else {}
    changes = values.get("scorecard") if isinstance(values, dict) else None
    try:
        return Changes.model_validate(changes or {})
    except ValidationError as error:
        raise run_files.make_changed_error(folder, [path.name]) from error


def read_recipe(folder: Path) -> str:
    """The recipe of a run; '' where its folder does not tell, or it is of none."""
    path = folder / "overrides.txt"
    if not path.is_file():
        return ""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise os_error(error, "a file of a run cannot be read", path) from error
    recipes = [line.partition("=")[2] for line in lines if line.lstrip("+").startswith("recipe=")]
    return recipes[-1] if recipes else ""


def is_of_another(folder: Path, name: str) -> bool:
    """Whether a run is of another recipe; False where its folder does not tell."""
    return (folder / "overrides.txt").is_file() and read_recipe(folder) != name
