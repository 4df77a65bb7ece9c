"""``voice-privacy export RUN… --format latex|markdown|csv|bibtex``: a run as a paper or another program wants it, on standard output."""

from __future__ import annotations

import argparse
import difflib
import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.options import Parser, find_root
from pipeline.cli.output import log_to_stderr
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.evaluation import Result
    from pipeline.report.board import ShownRun

log = logging.getLogger(__name__)

FORMATS = ("markdown", "latex", "csv", "bibtex")
WHAT = ("leaderboard", "table")
BOOKTABS = "% needs \\usepackage{booktabs}\n"


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for; the exit status.

    Raises:
        ConfigError: a folder is no finished run, or a run has not what is asked for.
        DataError: the files of a run are not what it wrote.
    """
    log_to_stderr()
    options = _parser().parse(arguments)
    from pipeline import evaluation
    from pipeline.engine import usage

    if options.format == "bibtex" and options.what:
        raise ConfigError(
            "BibTeX is of the program and its sources, not of a table",
            where=f"--what {options.what}",
            remedy=_command(options.runs, "bibtex"),
        )
    root = find_root(options.root)
    folders = dict.fromkeys(usage.find_run(root, name).resolve() for name in options.runs)  # each once
    runs = [evaluation.read(folder) for folder in folders]
    if options.format in ("csv", "bibtex"):
        _warn(runs)
    if options.format == "bibtex":
        text = _bibtex(runs)
    elif options.what == "table":
        text = _table(runs, options.format)
    else:
        text = _leaderboard(runs, options)
    print(text, end="")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy export",
        description="Print tables of finished runs for a paper, or for another program: voice-privacy export RUN --format latex > "
        "table.tex. Of several runs, one table.",
    )
    parser.overrides = ("paths.root",)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or its name below ROOT/runs")
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="latex needs the package booktabs")
    parser.add_argument(
        "--what",
        choices=WHAT,
        help="leaderboard (the default): one row a system, best first, with the sentence that answers; table: the tables of all metrics",
    )
    parser.add_argument("--subset", action="append", default=[], help="a subset of the leaderboard; again for more")
    parser.add_argument("--root", help="where the runs lie: their paths.root ($VOICE_PRIVACY_ROOT, else ./exp)")
    return parser


def _command(runs: Sequence[str | Path], kind: str, what: str = "", more: Sequence[str] = ()) -> str:
    options = ["--format", kind, *(["--what", what] if what else []), *more]
    return shlex.join(["voice-privacy", "export", *map(str, runs), *options])


def label_runs(runs: Sequence[Result]) -> dict[str, Result]:
    """The runs by what tells them apart; '' where there is one.

    Raises:
        DataError: two folders hold the same run.
    """
    from pipeline.report.runs import read

    if len(runs) == 1:
        return {"": runs[0]}
    return {told.label: result for told, result in zip(read([run.folder for run in runs]).runs, runs)}


def _limits(named: Mapping[str, Result]) -> list[str]:
    """What a reader must know first; of some of the runs, by name."""
    runs_by_limit: dict[str, list[str]] = {}
    for name, run in named.items():
        for limit in run.limits:
            runs_by_limit.setdefault(limit, []).append(name)
    return [
        limit if len(whose) == len(named) else f"{', '.join(whose)}: {limit}" for limit, whose in runs_by_limit.items()
    ]


def _warn(runs: Sequence[Result]) -> None:
    for run in runs:
        begins = f"{run.folder.name}: " if len(runs) > 1 else ""
        for limit in run.limits:
            log.warning("%s%s", begins, limit)
        for kind, meaning in {"partial": "are marked, and not to be compared", "incomplete": "have no value"}.items():
            count = int((run.rows["status"] == kind).sum())
            if count:
                log.warning(
                    "%s%d of %d results do not stand on everything that was expected: they %s (status: %s)",
                    begins, count, len(run.rows), meaning, kind,
                )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- writing


def _leaderboard(runs: Sequence[Result], options: argparse.Namespace) -> str:
    from pipeline.report import board
    from pipeline.report.table import list_latex, list_markdown
    from pipeline.tables.run_files import LIMITS_TITLE

    lacking = [run for run in runs if not len(run.leaderboard)]
    if lacking:
        raise ConfigError(
            "there is no leaderboard: it ranks systems by the strongest attack on them, and there is none",
            where=", ".join(str(run.folder) for run in lacking),
            cause="the run has no metric of trials or no attacker, or an earlier version made it",
            remedy=f"all that was measured: {_command(options.runs, options.format, 'table')}; or run it again with an attacker and "
            "a metric that reads trials",
        )
    named = label_runs(runs)
    if options.format == "csv":
        return _csv({name: _wanted(run.leaderboard, options) for name, run in named.items()}, named)
    for run in runs:
        _wanted(run.leaderboard, options)
    boards: list[ShownRun] = [run.given(name) for name, run in named.items()]
    shown = board.make_boards(boards, options.subset)
    if options.format == "latex":
        return BOOKTABS + list_latex(LIMITS_TITLE, _limits(named)) + board.to_latex(shown)
    return list_markdown(LIMITS_TITLE, _limits(named)) + board.to_markdown(shown)


def _wanted(table: pd.DataFrame, options: argparse.Namespace) -> pd.DataFrame:
    if not options.subset:
        return table
    subsets = list(dict.fromkeys(table["subset"].astype(str)))
    for name in options.subset:
        if name not in subsets:
            near = difflib.get_close_matches(name, subsets, n=1, cutoff=0) or subsets[:1]
            raise ConfigError(
                f"the leaderboard has no subset '{name}'",
                where=f"--subset {shlex.quote(name)}",
                cause=f"it has {', '.join(subsets)}",
                remedy=_command(options.runs, options.format, options.what or "", ["--subset", near[0]]),
            )
    return table[table["subset"].isin(options.subset)]


def _csv(parts: Mapping[str, pd.DataFrame], named: Mapping[str, Result]) -> str:
    import pandas as pd

    from pipeline.tables import csv

    if len(parts) == 1:
        return csv.text(next(iter(parts.values())), "%.17g")
    told = []
    for name, table in parts.items():
        told.append(table.copy())
        if "run_id" not in table:
            told[-1].insert(0, "run_id", named[name].folder.name)
    return csv.text(pd.concat(told, ignore_index=True), "%.17g")


def _table(runs: Sequence[Result], kind: str) -> str:
    import pandas as pd

    from pipeline.report import summaries
    from pipeline.report.table import escape_latex, escape_markdown, list_latex, list_markdown
    from pipeline.tables.run_files import LIMITS_TITLE

    named = label_runs(runs)
    if kind == "csv":
        return _csv({name: run.rows for name, run in named.items()}, named)
    limits = _limits(named)
    latex = kind == "latex"
    begins = BOOKTABS + list_latex(LIMITS_TITLE, limits) if latex else list_markdown(LIMITS_TITLE, limits)
    if len(runs) == 1:
        return begins + (runs[0].metrics_latex() if latex else runs[0].metrics_markdown())
    # All rows of a folder are its own: the column tells the runs apart by the letter that the limits have.
    rows = pd.concat([run.rows.assign(run_id=name) for name, run in named.items()], ignore_index=True)
    systems = list(dict.fromkeys(system for run in runs for system in run.systems))
    which = "Runs: " + "; ".join(f"{name} is {run.folder.name}" for name, run in named.items()) + "."
    if latex:
        return begins + f"{escape_latex(which)}\n\n" + summaries.to_latex(rows, systems)
    return begins + f"{escape_markdown(which)}\n\n" + summaries.to_markdown(rows, systems)


def _bibtex(runs: Sequence[Result]) -> str:
    import pandas as pd

    from pipeline.report import citations

    return citations.to_bibtex(pd.concat([run.rows for run in runs], ignore_index=True))
