"""Reads run folders into one evaluation; several runs become one table and one set of figure data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from pipeline.errors import DataError
from pipeline.report import glossary, run_differences
from pipeline.tables import answers, results, run_files, status
from pipeline.tables import checks as check_tables
from pipeline.tables.checks import COLUMNS as CHECK_COLUMNS

BAD_STATES = {"partial", "failed", "interrupted", "stopped", "killed", "cancelled", "error"}


@dataclass(frozen=True)
class Run:
    """One run folder: its id and its records, as written (absent records are empty).

    Attributes:
        label: what tells it from the others of the evaluation, by what differs between them; '' of one alone.
        limits: what a reader must know.
        about: what it can be told from others by.
    """

    folder: Path
    run_id: str
    label: str
    status: dict[str, Any]
    config: dict[str, Any]
    environment: dict[str, Any]
    limits: tuple[str, ...] = ()
    about: run_differences.AboutRun = field(default_factory=lambda: run_differences.AboutRun({}))

    @property
    def problems(self) -> list[str]:
        """What ``status.json`` says went wrong; empty while a run is going or when it went well."""
        state, code = str(self.status.get("state", "")).lower(), self.status.get("exit_status")
        if state not in BAD_STATES and not (isinstance(code, int) and code != 0):
            return []
        reasons = [str(reason) for reason in self.status.get("reasons") or []]
        return reasons or [f"the run ended as '{state}'" if state else f"the run ended with exit status {code}"]


@dataclass(frozen=True)
class Evaluation:
    """One or several runs: result rows and figure data, with the order in which systems are shown.

    ``figures`` holds only tables that some run wrote; each has the added columns ``run_id`` and ``series`` (the system's
    label, followed by the run's label when there are several runs). The other tables are those of all runs, one below the other, with
    the added columns ``run_id`` and ``run`` (the run's label when there are several, else ''): ``diagnostics``, the checks of
    attacks (without ``run_id``), and the answers (:mod:`pipeline.tables.answers`), without rows of runs that wrote none.
    """

    runs: tuple[Run, ...]
    rows: pd.DataFrame
    systems: tuple[str, ...]
    figures: dict[str, pd.DataFrame] = field(default_factory=dict)
    diagnostics: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*CHECK_COLUMNS, "run"]))
    leaderboard: pd.DataFrame = field(default_factory=lambda: _no_answers("leaderboard"))
    attacks: pd.DataFrame = field(default_factory=lambda: _no_answers("attacks"))
    differences: pd.DataFrame = field(default_factory=lambda: _no_answers("differences"))

    @property
    def several(self) -> bool:
        return len(self.runs) > 1

    @property
    def series(self) -> list[str]:
        """Labels of all (system, run) pairs in the order in which figures show them."""
        return [self.name(system, run.run_id) for system in self.systems for run in self.runs]

    def shown(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows for people: ``run_id`` holds the label of the run where there are several."""
        labels = {run.run_id: run.label for run in self.runs}
        return rows.assign(run_id=rows["run_id"].map(labels).astype("string")) if self.several else rows

    def name(self, system: str, run_id: str) -> str:
        labels = {run.run_id: run.label for run in self.runs}
        return f"{system} · {labels[run_id]}" if self.several and labels[run_id] != system else system


def read(folders: Sequence[Path], endings: Mapping[Path, dict[str, Any]] = MappingProxyType({})) -> Evaluation:
    """Read run folders, given once each, in the order given.

    Args:
        folders: of the runs.
        endings: of folders whose run is about to end, the record that their ``status.json`` then holds.

    Raises:
        DataError: no folder, a folder without ``results.parquet``, a table without its columns, or two folders that hold
            the same run; all at once.
    """
    unique = list(dict.fromkeys(folder.resolve() for folder in folders))
    missing = [str(folder) for folder in unique if not (folder / "results.parquet").is_file()]
    if not unique or missing:
        raise DataError(
            "there is nothing to report" if not unique else "these are not run folders with results",
            where=", ".join(missing),
            cause="the path is not that of a run folder, or the run ended before its measure stage",
            remedy="give folders that hold results.parquet, such as exp/runs/<run>",
        )
    ending = {folder.resolve(): record for folder, record in endings.items()}
    runs, rows, checks = [], [], []
    tables: dict[str, list[pd.DataFrame]] = {}
    answer_tables: dict[str, list[pd.DataFrame]] = {}
    for run, table in labelled(unique, ending):
        runs.append(run)
        rows.append(table.assign(run_id=pd.array([run.run_id] * len(table), dtype="string")))
        checks.append(check_tables.read(run.folder).assign(run=run.label))
        for name in answers.ANSWERS:
            answer_tables.setdefault(name, []).append(
                answers.read(name, run.folder).assign(run_id=run.run_id, run=run.label)
            )
        for declared in glossary.figure_tables():
            path = run.folder / "figures" / f"{declared.name}.parquet"
            if path.is_file():
                figure_table = run_files.read_columns(path, [*declared.identity, *declared.columns])
                tables.setdefault(declared.name, []).append(figure_table.assign(run_id=run.run_id))
    twice = sorted({run.run_id for run in runs if [other.run_id for other in runs].count(run.run_id) > 1})
    if twice:
        raise DataError(f"the same run is given twice: {', '.join(twice)}", remedy="give each run once")
    merged = pd.concat(rows, ignore_index=True)
    figures = _with_ranks({name: table for name, parts in tables.items() if len(table := _below_one_another(parts))})
    seen = [*merged["system"], *(system for table in figures.values() for system in table["system"])]
    systems = _order(seen, [run.config for run in runs])
    answered = {name: _below_one_another(answer_parts) for name, answer_parts in answer_tables.items()}
    evaluation = Evaluation(tuple(runs), merged, systems, figures, _below_one_another(checks), **answered)
    for table in figures.values():
        table["series"] = [evaluation.name(system, run) for system, run in zip(table["system"], table["run_id"])]
    return evaluation


def labelled(
    folders: Sequence[Path], endings: Mapping[Path, dict[str, Any]] = MappingProxyType({})
) -> list[tuple[Run, pd.DataFrame]]:
    """Each run with its rows; ``endings`` are records of status of runs that are about to end."""
    labelled_runs: list[tuple[Run, pd.DataFrame]] = []
    for folder in folders:
        table = results.read(folder)
        ids = sorted(set(table["run_id"]) - {""})
        run_id = ids[0] if len(ids) == 1 else folder.name
        config = _read_record(folder / "config.yaml", run_files.read_yaml)
        environment = _read_record(folder / "environment.json", run_files.read_json)
        state = endings[folder] if folder in endings else status.read(folder)
        if state.get("state") == status.GARBLED:
            raise run_files.make_changed_error(folder, [status.FILE])
        run = Run(folder, run_id, "", state, config, environment, tuple(run_files.read_limits(folder)))
        about = run_differences.describe_run(table, run_id, config, environment, run.status)
        labelled_runs.append((replace(run, about=about), table))
    named = run_differences.label_runs([run.about for run, _ in labelled_runs])
    return [(replace(run, label=label), table) for (run, table), label in zip(labelled_runs, named)]


def _below_one_another(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of equal columns as one; empty ones have no say in its types."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else tables[0]


def _no_answers(name: str) -> pd.DataFrame:
    return answers.frame(name, []).assign(run_id="", run="")


def _order(seen: Iterable[str], configs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Systems as the configurations list them, ``original`` first, those that no configuration names last by name."""
    listed: list[str] = []
    for config in configs:
        systems = config.get("system")
        listed += [str(label) for label in systems] if isinstance(systems, (dict, list)) else []
    place = {label: index for index, label in reversed(list(enumerate(listed)))}
    present = {str(system) for system in seen} - {""}
    return tuple(sorted(present, key=lambda label: (label != "original", place.get(label, len(listed)), label)))


def _with_ranks(figures: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The median rank of each speaker joins the table of speakers, of the same run, system and extractor, if there are both."""
    kept = {name: table for name, table in figures.items() if name != "speaker_ranks"}
    if "speakers" not in figures or "speaker_ranks" not in figures:
        return kept
    key, value = ["run_id", "system", "extractor", "speaker"], "srd_rank_median"
    medians = figures["speaker_ranks"][[*key, value]].drop_duplicates(key)
    return {**kept, "speakers": figures["speakers"].merge(medians, on=key, how="left")}


def _read_record(path: Path, read_file: Callable[[Path], Any]) -> dict[str, Any]:
    loaded = read_file(path) if path.is_file() else {}
    return loaded if isinstance(loaded, dict) else {}
