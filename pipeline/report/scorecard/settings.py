"""What a recipe is held against (``recipes/NAME/scorecard.yaml``), and what a command line changes of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pipeline.contracts import ComponentSettings, runtime
from pipeline.errors import ConfigError, Fault
from pipeline.files import find_assets
from pipeline.tables.published import COLUMNS, Printed
from pipeline.tables.results import IDENTITY

FILE = "scorecard.yaml"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _columns(where: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = sorted(set(where) - {*COLUMNS, "file"})
    if unknown:
        raise ValueError(f"no columns of published tables: {', '.join(unknown)}; known: file, {', '.join(COLUMNS)}")
    return where


Some = Annotated[dict[str, list[str]], AfterValidator(_columns)]
One = Annotated[dict[str, str], AfterValidator(_columns)]
Ours = Mapping[str, list[str] | dict[str, list[str]]]
"""Words that rows must have, by column; or by metric and column."""


class Table(_Part):
    """A published table, or the cells of it that have some words in some columns.

    ``variants``: by metric, the variant of the run that stands for its cells where the print names none.
    """

    file: str
    where: Some = {}
    variants: dict[str, str] = {}


class Tolerance(_Part):
    """How far a number may lie from the print and still be called reproduced, in a unit of print, and why so far.

    ``where``: of which cells, by column; of the others only what may have been printed so.
    """

    value: float = Field(ge=0)
    unit: str = ""
    where: Some = {}
    reason: str = Field(min_length=10)


class Levels(_Part):
    """Who has a pseudo-voice in published speech (``speaker``, ``utterance``, ``fixed``): in the sets that are evaluated, and in the speech
    that an attacker learnt from. Empty where nobody says."""

    system: list[str] = []
    training: list[str] = []


class Column(_Part):
    """A column of a view: the cells with these words, or the mean of some columns before it.

    ``ours`` are the words that a row of a run has instead, where the run has the mean itself.
    """

    head: str
    where: One = {}
    mean: list[str] = []
    ours: One = {}


class View(_Part):
    """A published table as people know it, with ours among them.

    ``down`` is what each line is of: a system, with sets across; or an attacker's extractor, with systems across.
    """

    title: str
    down: Literal["system", "extractor"] = "system"
    where: Some
    columns: list[Column]
    sort: str = ""


class Scorecard(_Part):
    """Which cells a recipe is held against, and which words of a run stand for those of a source.

    Attributes:
        tables: whose cells are the rows of the card.
        witnesses: further tables, from whose cells others follow, or that print the same cell.
        variants: by metric, the definition that stands for a print without one, where its table says none.
        names: what a source calls a system, and how it is called here.
        systems, extractors, backends: for each name of a source, the labels of a run that stand for it beside the name itself.
        ours: of a run only rows with these words stand for printed cells: by column, or by metric and column, for that metric alone.
        tolerances: by metric.
        levels: who has a pseudo-voice there; a note says where a run has it otherwise.
    """

    title: str
    tables: list[Table]
    witnesses: list[Table] = []
    variants: dict[str, str] = {}
    names: dict[str, str] = {}
    systems: dict[str, list[str]] = {}
    extractors: dict[str, list[str]] = {}
    backends: dict[str, list[str]] = {}
    ours: dict[str, list[str] | dict[str, list[str]]] = {}
    tolerances: dict[str, Tolerance] = {}
    levels: Levels = Levels()
    views: list[View] = []


class Changes(ComponentSettings):
    """What is changed of the recipe's scorecard: which labels of the run stand for the published names.

    ``systems``, ``extractors``, ``backends``: by the published name, a label or several with commas; ``ours``: by a column of the
    results, what rows must have, or by a metric and a column (``scorecard.ours.max_d.variant``); ``tolerances``: by metric, in the unit that is printed; ``tables``: files instead of the recipe's.
    """

    systems: dict[str, str] = runtime({})
    extractors: dict[str, str] = runtime({})
    backends: dict[str, str] = runtime({})
    ours: dict[str, list[str] | dict[str, list[str]]] = runtime({})
    tolerances: dict[str, float] = runtime({})
    tables: list[str] = runtime([])

    @field_validator("ours", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """One word is a list of one: a variant may have commas in it."""
        if not isinstance(value, Mapping):
            return {} if value is None else value
        return {
            str(name): {str(column): _make_list(word) for column, word in words.items()}
            if isinstance(words, Mapping)
            else _make_list(words)
            for name, words in value.items()
        }

    @field_validator("systems", "extractors", "backends", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Lists and numbers as Hydra reads them, as text."""
        if not isinstance(value, Mapping):
            return {} if value is None else value
        return {
            str(name): ",".join(map(str, labels)) if isinstance(labels, (list, tuple)) else str(labels)
            for name, labels in value.items()
        }


def names() -> list[str]:
    """The recipes that have a scorecard."""
    return sorted(path.parent.name for path in find_assets("recipes").glob(f"*/{FILE}"))


def read(recipe: str, *changes: Changes) -> Scorecard | None:
    """The scorecard of a recipe with changes, the last of which win; None where the recipe has none and no table is given.

    Raises:
        ConfigError: its file is at fault, or a change names what it does not know.
    """
    path = find_assets("recipes") / recipe / FILE
    tables = [changed.tables for changed in changes if changed.tables]
    if not path.is_file():
        if not tables and any(changed != Changes() for changed in changes):
            raise ConfigError(
                f"the recipe '{recipe}' has no scorecard, and settings of one are given",
                where="scorecard",
                remedy="leave them out, or name a published table with them: scorecard.tables=[FILE.csv]; recipes with a "
                f"scorecard: {', '.join(names())}",
            )
        if not tables:
            return None
        scorecard = Scorecard(title=recipe, tables=[])
    else:
        scorecard = _read_file(path)
    for changed in changes:
        scorecard = _apply(scorecard, changed)
    return scorecard


def _read_file(path: Path) -> Scorecard:
    try:
        return Scorecard.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise ConfigError(f"the scorecard is no YAML: {error}", where=str(path), remedy="correct the file") from error
    except ValidationError as error:
        faults = [Fault(entry["msg"], ".".join(map(str, entry["loc"]))) for entry in error.errors()]
        raise ConfigError(
            "the scorecard of the recipe is not as it has to be",
            where=str(path),
            remedy="correct the fields named below; the files of other recipes are examples",
            faults=faults,
        ) from error


def _apply(card: Scorecard, changes: Changes) -> Scorecard:
    def labels(before: Mapping[str, list[str]], changed: Mapping[str, str]) -> dict[str, list[str]]:
        # What is given replaces: the name itself stands for itself no more (a mark that :mod:`card` knows).
        return {
            **before,
            **{name: [EXACTLY, *filter(None, map(str.strip, text.split(",")))] for name, text in changed.items()},
        }

    tolerances = dict(card.tolerances)
    for metric, value in changes.tolerances.items():
        unit = tolerances[metric].unit if metric in tolerances else ""
        tolerances[metric] = Tolerance(value=value, unit=unit, reason="given on the command line")
    return card.model_copy(
        update={
            "systems": labels(card.systems, changes.systems),
            "extractors": labels(card.extractors, changes.extractors),
            "backends": labels(card.backends, changes.backends),
            "ours": {**card.ours, **_check_columns(changes.ours)},
            "tolerances": tolerances,
            "tables": [Table(file=name) for name in changes.tables] or card.tables,
        }
    )


def _make_list(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, (list, tuple)) else [str(value)]


def _check_columns(words: Ours) -> Ours:
    """What rows must have, where columns are columns.

    Raises:
        ConfigError: the results have no such column.
    """
    columns = [name for name, texts in words.items() if not isinstance(texts, Mapping)]
    columns += [name for texts in words.values() if isinstance(texts, Mapping) for name in texts]
    unknown = [name for name in columns if name not in IDENTITY]
    if unknown:
        raise ConfigError(
            f"the results have no column {', '.join(unknown)}",
            where="scorecard.ours",
            remedy=f"give one of {', '.join(IDENTITY)}: scorecard.ours.COLUMN=WORD, or scorecard.ours.METRIC.COLUMN=WORD",
        )
    return words


EXACTLY = "="
"""At the head of labels: these alone, and not the published name."""


# ----------------------------------------------------------------------------------------- names on a command line


NOTHING = "none"
"""The label that says that nothing of the run stands for a published name."""


def refuse_unknown(changes: Changes, settings: Scorecard, cells: Iterable[Printed]) -> None:
    """Refuse a published name that no cell has: what is said of it would have no effect.

    Raises:
        ConfigError: with all such names, and those that there are.
    """
    names: dict[str, set[str]] = {"systems": set(), "extractors": set(), "backends": set()}
    for cell in cells:
        names["systems"] |= {cell.identity.system, settings.names.get(cell.identity.system, cell.identity.system)}
        names["extractors"].add(cell.identity.extractor)
        names["backends"].add(cell.identity.backend)
    faults = []
    for kind, labels in _list_labels(changes):
        known = sorted(names[kind] - {""})
        for name in [name for name in labels if name not in names[kind]]:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            what = f"no published name: {hint}there are {', '.join(known) or 'none'}"
            faults.append(Fault(what, f"scorecard.{kind}.{name}"))
    if faults:
        raise ConfigError(
            "the published tables have no such name",
            cause="a misspelt name, or that of another recipe",
            remedy="give scorecard.systems.PUBLISHED=LABEL with a published name on the left and a label of the run on the right",
            faults=faults,
        )


def find_unmatched(changes: Changes, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each label that the run lacks."""
    run_rows = list(rows)
    for kind, labels_of_kind in _list_labels(changes):
        available = {str(row[kind.removesuffix("s")]) for row in run_rows} - {""}
        for name, labels in labels_of_kind.items():
            for label in filter(None, map(str.strip, labels.split(","))):
                if label not in available and label != NOTHING:
                    yield (
                        f"scorecard.{kind}.{name}={label}: the run has no {kind.removesuffix('s')} of this label; "
                        f"it has {', '.join(sorted(available)) or 'none'}"
                    )


def _list_labels(changes: Changes) -> tuple[tuple[str, Mapping[str, str]], ...]:
    return ("systems", changes.systems), ("extractors", changes.extractors), ("backends", changes.backends)
