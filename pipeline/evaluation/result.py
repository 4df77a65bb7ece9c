"""The result of a run: its rows, and the scores, matrices and ranks that they were measured on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.engine.store import Store
from pipeline.errors import ConfigError, DataError, Fault, PartialResult, PipelineError
from pipeline.files import is_below
from pipeline.names import suggest_names
from pipeline.report import board, citations, leaderboard, render, screen, summaries
from pipeline.report import findings as grouping
from pipeline.report import table as tables
from pipeline.report.figure_cache import open_cache_beside
from pipeline.tables import answers, checks, results, run_files, scores, status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pipeline.datasets.prepare import Prepared
    from pipeline.evaluation.collect import Collected

BLOCKS = ("oo", "op", "pp")
SUMMARY = "summary.txt"
"""The file of a run folder that holds :meth:`Result.summary`."""


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        folder: the run folder.
        reused, computed: tasks, where the run was made by this process.
        error: what is to be said of values that do not stand on everything that was expected; None if all do.
    """

    folder: Path
    reused: int = 0
    computed: int = 0
    error: PipelineError | None = None

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """One row a number: the results schema (see data_manifests/README.md)."""
        return results.read(self.folder)

    @functools.cached_property
    def diagnostics(self) -> pd.DataFrame:
        """What was found of each attack: was it strong enough?"""
        return checks.read(self.folder)

    @functools.cached_property
    def limits(self) -> list[str]:
        """What a reader of the numbers must know first: how the protocol was made, what is unknown, what was left out."""
        return run_files.read_limits(self.folder)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The composed configuration; empty where the folder has none."""
        path = self.folder / "config.yaml"
        config = run_files.read_yaml(path) if path.is_file() else {}
        return config if isinstance(config, dict) else {}

    @property
    def systems(self) -> list[str]:
        """Labels of the systems, in the order of the tables."""
        systems = self.config.get("system")
        return [str(label) for label in systems] if isinstance(systems, (dict, list)) else []

    @property
    def bands(self) -> pd.DataFrame:
        """The minimum-EER conditions that each system meets (columns: :data:`pipeline.tables.answers.BANDS`); none without ``bands``."""
        return answers.read_bands(self.folder)

    @functools.cached_property
    def leaderboard(self) -> pd.DataFrame:
        """One row a subset and system, best first (columns: :mod:`pipeline.tables.answers`); none of a run of an older version."""
        return answers.read("leaderboard", self.folder)

    @functools.cached_property
    def attacks(self) -> pd.DataFrame:
        """One row a subset, system and attack, the strongest first (columns: :mod:`pipeline.tables.answers`)."""
        return answers.read("attacks", self.folder)

    @functools.cached_property
    def differences(self) -> pd.DataFrame:
        """Systems compared in pairs (columns: :mod:`pipeline.tables.answers`)."""
        return answers.read("differences", self.folder)

    @functools.cached_property
    def speakers(self) -> pd.DataFrame:
        """Each speaker under each attack, the worst protected first (columns: :mod:`pipeline.tables.answers`); ``strongest`` marks
        the attack that the leaderboard shows."""
        return answers.read("speakers", self.folder)

    @functools.cached_property
    def worst_overlap(self) -> pd.DataFrame:
        """How far two attacks agree on who is protected worst (columns: :mod:`pipeline.tables.answers`)."""
        return answers.read("worst_overlap", self.folder)

    def summary(self) -> str:
        """All tables as text: first whether the systems protect, then what a reader must know, all numbers, and the findings that
        cast doubt on them. Where something is missing, that comes first."""
        doubts = grouping.text(self.diagnostics)
        answer = leaderboard.to_text(self.leaderboard, self.differences, self.diagnostics)
        first = [f"{answer}\n" if answer else "", tables.list_text(run_files.LIMITS_TITLE, self.limits)]
        metrics = self._write_conditions(tables.to_text) + summaries.to_text(self.rows, self.systems)
        return "".join(first[::-1] if self.is_short else first) + metrics + (f"\n{doubts}" if doubts else "")

    def screen(self, below: Sequence[str] = ()) -> str:
        """What of :meth:`summary` has room on one screen of a terminal, above so many other lines."""
        error = self.error.what if self.error else ""
        tables_of = (self.rows, self.leaderboard, self.differences, self.diagnostics, self.bands)
        return screen.write_screen(screen.Shown(*tables_of, self.systems, self.limits, error), below)

    @property
    def is_short(self) -> bool:
        """Whether tasks failed, or values do not stand on everything that was expected."""
        return self.error is not None or status.read(self.folder).get("state") in ("failed", "partial")

    def to_markdown(self, *, intervals: bool = True) -> str:
        """As Markdown: what a reader must know, the leaderboard with the sentence that answers, and the compact tables."""
        head = tables.list_markdown(run_files.LIMITS_TITLE, self.limits)
        return head + board.to_markdown(self.boards) + self.metrics_markdown(intervals=intervals)

    def metrics_markdown(self, *, intervals: bool = True) -> str:
        """The compact tables of all metrics as Markdown, alone."""
        metrics = summaries.to_markdown(self.rows, self.systems, intervals=intervals)
        return self._write_conditions(tables.to_markdown) + metrics

    def to_latex(self, *, intervals: bool = True) -> str:
        """As LaTeX (needs ``booktabs``), the same as :meth:`to_markdown`."""
        head = tables.list_latex(run_files.LIMITS_TITLE, self.limits)
        return head + board.to_latex(self.boards) + self.metrics_latex(intervals=intervals)

    def metrics_latex(self, *, intervals: bool = True) -> str:
        """The compact tables of all metrics as LaTeX (needs ``booktabs``), alone."""
        metrics = summaries.to_latex(self.rows, self.systems, intervals=intervals)
        return self._write_conditions(tables.to_latex) + metrics

    def _write_conditions(self, write: Callable[[tables.Table], str]) -> str:
        text = write(leaderboard.tabulate_conditions(self.bands, self.systems))
        return f"{text}\n" if text else ""

    def to_bibtex(self) -> str:
        """BibTeX entries of this program and of the papers that define the metrics of the run."""
        return citations.to_bibtex(self.rows)

    def given(self, name: str = "") -> board.ShownRun:
        """What the leaderboard is shown of; ``name`` tells it from other runs that are shown with it."""
        tables_of = (self.leaderboard, self.differences, self.diagnostics, self.rows)
        return board.ShownRun(name, self.folder.name, *tables_of)

    @property
    def boards(self) -> list[board.Board]:
        """The leaderboard as text, a table a subset."""
        return board.make_boards([self.given()])

    def signature(self, row: pd.Series | Mapping[str, Any]) -> str:
        """All parameters that a row's number depends on beside the system: numbers with equal signatures are comparable."""
        return str(row["signature"])

    def scores(self, **identity: str) -> pd.DataFrame:
        """The scores of one attack: columns model, utterance, score, target, model_speaker, speaker.

        Args:
            identity: values of columns that tell it from others: ``system=``, ``attacker=``, ``subset=``, ``extractor=``,
                ``backend=``, ``trained_on=``.

        Raises:
            ConfigError: it names no attack, or several.
            DataError: the store does not hold the scores any more.
        """
        return pd.read_parquet(self._artefact("trials", "scores", identity) / scores.TRIALS)

    def pairs(self, block: str = "op", **identity: str) -> pd.DataFrame:
        """The scores of all pairs of utterances of a set: a table with rows and columns named by utterance.

        Args:
            block: ``oo``, ``op`` (rows original, columns protected) or ``pp``.
            identity: see :meth:`scores`.
        """
        if block.lower() not in BLOCKS:
            raise ConfigError(f"there is no block '{block}'", remedy=suggest_names(block, BLOCKS))
        matrix = scores.read(self._artefact("pairs", block.lower(), identity))
        return pd.DataFrame(matrix.scores, index=list(matrix.rows), columns=list(matrix.columns))

    def ranks(self, **identity: str) -> pd.DataFrame:
        """The similarity of SRD inputs to references: rows are inputs, columns speakers; the index holds the true speaker."""
        matrix = scores.read(self._artefact("ranks", "scores", identity))
        index = pd.MultiIndex.from_arrays([list(matrix.row_speakers), list(matrix.rows)], names=["speaker", "input"])
        return pd.DataFrame(matrix.scores, index=index, columns=list(matrix.columns))

    def matrix(self, block: str | None = None, **identity: str) -> SimilarityMatrices:
        """The voice similarity matrices of a system: OO, OP and PP side by side, or one of them.

        Raises:
            ConfigError: it names no system with matrices; where several subsets have them, all are drawn.
        """
        path = self.folder / "figures" / "similarity.parquet"
        if not path.is_file():
            raise ConfigError(
                "this run has no similarity matrices", where=str(self.folder), remedy="add vsm to metric=[…]"
            )
        table = _matching(run_files.read_parquet(path), identity)
        if block is not None:
            table = _matching(table, {"block": block.upper()})
        return SimilarityMatrices(table)

    def report(self, path: Path | str | None = None) -> Path:
        """The report as one HTML file; written anew where a path is given."""
        page = self.folder / "report.html"
        if path is None and page.is_file():
            return page.resolve()
        path_written: Path = render.render(
            [self.folder], Path(path) if path is not None else page, open_cache_beside(self.folder)
        )
        return path_written.resolve()

    def _artefact(self, reads: str, what: str, identity: Mapping[str, str]) -> Path:
        listed = run_files.read_artefacts(self.folder)
        listed = listed[(listed["reads"] == reads) & (listed["input"] == what)]
        if listed.empty:
            raise ConfigError(
                f"this run has no scores of {reads}",
                where=str(self.folder),
                remedy="add a metric that reads them to metric=[…]",
            )
        matching = _matching(listed, identity)
        if "attacker" not in identity and (matching["attacker"] == "").any():
            # All pairs by who has adapted to a system are meant where they are asked for.
            matching = matching[matching["attacker"] == ""]
        places = sorted(set(matching["path"]))
        if len(places) > 1:
            apart = [name for name in run_files.ARTEFACT_IDENTITY if matching[name].nunique() > 1]
            raise ConfigError(
                f"{len(places)} sets of scores are meant; say which by {', '.join(apart)}",
                where=", ".join(f"{name}: {', '.join(sorted(set(matching[name])))}" for name in apart),
            )
        store, place = run_files.find_store(self.folder), Path(str(places[0]))
        if not is_below(str(place)) or len(place.parts) != 3:
            raise run_files.make_changed_error(self.folder, [run_files.ARTEFACTS_FILE])
        artefact = Store(store).find(place.parts[0], place.name)
        if artefact is None:
            raise DataError(
                "the store does not hold these scores any more",
                where=str(store / place),
                remedy="run the same command again; what is still there is reused",
            )
        return artefact.folder


@dataclass(frozen=True, eq=False)
class SimilarityMatrices:
    """Voice similarity matrices.

    Attributes:
        table: columns subset, system, extractor, backend, block, row_speaker, column_speaker, similarity.
    """

    table: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """One matrix with rows and columns named by speaker.

        Raises:
            ConfigError: there are several.
        """
        apart = ["subset", "system", "extractor", "backend", "block"]
        if len(self.table[apart].drop_duplicates()) != 1:
            columns = [name for name in apart if self.table[name].nunique() > 1]
            raise ConfigError(f"there are several matrices; say which by {', '.join(columns)}")
        return self.table.pivot(index="row_speaker", columns="column_speaker", values="similarity")

    def plot(self) -> Figure:
        """All matrices as one figure of matplotlib, a row a subset and system, a column a block."""
        from pipeline.families.vsm.figures import draw_matrices

        return draw_matrices(self.table)


def read(run: Path | str) -> Result:
    """A finished run, whoever made it.

    Raises:
        ConfigError: the folder holds no results.
        DataError: its files are not what the run wrote.
    """
    folder = Path(run).expanduser()
    record = status.settle(folder)
    state = status.in_words(record)
    run_files.check_seal(folder)
    if not (folder / "results.parquet").is_file():
        raise ConfigError(
            f"'{run}' is no finished run: it has no results.parquet",
            cause=state,
            remedy="name folders under paths.root/runs that hold results.parquet",
        )
    if record.get("state") == status.GARBLED:
        raise run_files.make_changed_error(folder, [status.FILE])
    return Result(folder.resolve())


def shortfall(collected: Collected, data: Prepared, allow_partial: bool, page: Path) -> PipelineError | None:
    """What is to be said, after the report is written, of values that do not stand on everything that was expected."""
    short = collected.rows["status"].isin(["partial", "incomplete"]).sum()
    if not short and not data.dropped:
        return None
    faults = [Fault(entry.reason, f"{entry.set} {entry.utterance}") for entry in data.dropped]
    faults += [Fault(reason, name) for name, reason in [*collected.unextracted, *collected.undefined]]
    of_all = f"{short} of {len(collected.rows)} results do not stand on everything that was expected"
    if not short:
        text = f"{len(data.dropped)} recordings are left out; no result is measured on them, and none is marked"
        return PartialResult(text, where=str(page), faults=faults)
    if allow_partial:
        return PartialResult(f"{of_all}; they are marked", where=str(page), faults=faults)
    cause = "too few trials, speakers or utterances a speaker for a metric (below)"
    remedy = "leave that metric out, or complete the set; finished work is reused"
    if data.dropped or collected.unextracted:
        cause = "nothing could be extracted from some audio (below): too short, silent or unvoiced"
        remedy = "mend or remove that audio, leave out the metric that needs it, or set allow_partial=true to leave it out, counted "
        remedy += "and marked; finished work is reused"
    text = f"{of_all}, and have no value; the others are written"
    return DataError(text, where=str(page), cause=cause, remedy=remedy, faults=faults)


def with_failures(failure: PipelineError | None, short: PipelineError | None, page: Path) -> PipelineError | None:
    """What is to be said where tasks failed beside the results that are whole; else what there is to be said of these."""
    if failure is None:
        return short
    written = "the numbers that stand on no failed task are written; systems that lack some are not ranked"
    also = [] if short is None else [Fault(short.what)]
    failure.faults = (*failure.faults, Fault(written, str(page)), *also)
    return failure


def _matching(table: pd.DataFrame, identity: Mapping[str, str]) -> pd.DataFrame:
    for name, value in identity.items():
        if name not in table.columns:
            raise ConfigError(f"there is no column '{name}'", remedy=suggest_names(name, map(str, table.columns)))
        kept = table[table[name] == value]
        if not len(kept):
            present = ", ".join(sorted({str(entry) for entry in table[name]})) or "none"
            raise ConfigError(f"nothing has {name}='{value}'", remedy=f"there is: {present}")
        table = kept
    return table
