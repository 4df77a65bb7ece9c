"""The verb ``validate``: the configuration, and submissions as text, HTML and CSV."""

from __future__ import annotations

import argparse
import functools
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline import evaluation
from pipeline.cli.command_line import read_command_line
from pipeline.cli.compose import evaluate_each
from pipeline.cli.failures import list_needed
from pipeline.errors import ConfigError, DataError, os_error
from pipeline.files import write_atomically
from pipeline.stages.settings import Evaluation
from pipeline.submission import Check, Report
from pipeline.submission.findings import Verdict
from pipeline.version import __version__

MOST = 5
"""So many findings of a check stand on the screen."""

PAGE_VERDICTS: tuple[Verdict, ...] = ("wrong", "warning", "ok")
"""In the order of the page."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out ``validate``; the exit status."""
    line = read_command_line(arguments, verb, [("--html", {"type": _file}), ("--training", {"action": "store_true"})])
    if line.options.html and line.sweeps:
        raise ConfigError(
            "validate: the jobs of a sweep would write over each other's files",
            remedy="leave out -m: several systems are checked together with system=[A,B]",
        )
    action = functools.partial(validate, line.options.html, line.options.training)
    return evaluate_each(line, action, without_models=True)


def validate(page: Path | None, training: bool, evaluation_asked: Evaluation, values: dict[str, Any]) -> int:
    """The configuration has been checked when this is reached; submissions are, where they and the data set are there.

    Raises:
        ConfigError: a check of audio was asked for, and there is none to be had; or a scorecard's table cannot be read.
    """
    from pipeline.report.scorecard import runs as of_runs

    of_runs.prepare_scorecard(evaluation_asked.recipe, evaluation_asked.products.scorecard)
    if evaluation_asked.dataset.is_given:
        print(f"valid: dataset {evaluation_asked.dataset.name}, metrics {', '.join(evaluation_asked.metrics)}")
        return 0
    print(
        f"valid: dataset {evaluation_asked.dataset.name}, systems {', '.join(evaluation_asked.systems)}, "
        f"extractors {', '.join(evaluation_asked.extractors)}, attackers {', '.join(evaluation_asked.attackers)}"
    )
    for line in (*evaluation_asked.models.passed_over, *list_needed(evaluation_asked)):
        print(line)
    evaluation.check_training(evaluation_asked)
    report = evaluation.check_submission(evaluation_asked, training)
    if isinstance(report, str):
        if page is not None or training:
            raise ConfigError(
                f"no audio can be checked: {report}",
                remedy="voice-privacy validate dataset=kaldi dataset.root=DIR '+system.mine={name: external, root: WAVS}'",
            )
        print(f"audio was not looked at: {report}")
        return 0
    name = evaluation_asked.dataset.label or Path(evaluation_asked.dataset.root).expanduser().resolve().name
    systems = evaluation_asked.systems.items()
    labels = [label for label, system in systems if system.component.copies(system.settings) is not None]
    for line in write(report, page, f"Submission {', '.join(labels)} to {name}"):
        print(line)
    for line in lines(
        report, f"all are in {shlex.quote(str(page))}" if page is not None else "--html FILE has them all"
    ):
        print(line)
    return DataError.status if report.is_wrong else 0


def _file(text: str) -> Path:
    if not text or "=" in text.split("/")[0]:
        raise argparse.ArgumentTypeError(f"'{text}' is no name of a file")
    # A sweep or a run may change the folder of the process.
    return Path(text).expanduser().absolute()


def write(report: Report, page: Path | None, title: str) -> list[str]:
    """Write the page, and the table beside it; a line for each file."""
    from pipeline.tables import csv

    if page is None:
        return []
    texts = {page: render_page(report, title), page.with_suffix(".findings.csv"): csv.text(report.table(), "%g")}
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise os_error(error, f"{path.name} cannot be written", path) from error
    return [f"written: {path}" for path in texts]


def render_page(report: Report, title: str) -> str:
    """The check of a submission as one page of HTML that needs nothing else: what comes from files is escaped, nothing is loaded."""
    import jinja2

    from pipeline.report.render import TEMPLATES

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    checks = [check for verdict in PAGE_VERDICTS for check in report.select(verdict)]
    return environment.get_template("submission.html.j2").render(
        report=report, checks=checks, title=title, style=style, version=__version__
    )


def lines(report: Report, all_in: str) -> Iterator[str]:
    """The checks as text, a line each, with what was found below; then what was looked at, and the verdict."""
    width = max(len(check.title) for check in report.checks)
    for check in report.checks:
        yield f"{check.verdict:8} {check.title:{width}}  {check.count if check.findings else ''}".rstrip()
        yield from _below(check, all_in)
    yield ""
    for text in report.measured:
        yield f"measured: {text}"
    yield report.verdict


def _below(check: Check, all_in: str) -> Iterator[str]:
    if check.summary:
        yield from _wrapped("", check.summary)
    for finding in check.findings[:MOST]:
        of = f"{finding.set}: " if finding.set and finding.set != finding.id else ""
        yield from _wrapped("- ", f"{of}{finding.id}{f'  {finding.what}' if finding.what else ''}")
    if len(check.findings) > MOST:
        yield from _wrapped("", f"and {len(check.findings) - MOST} more: {all_in}")
    if check.verdict in ("wrong", "warning"):
        yield from _wrapped("means: ", check.words.means)
        # It may hold commands, which are copied: their lines are not broken.
        yield f"{'':9}to do: {check.remedy}"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=120,
        initial_indent=f"{'':9}{head}",
        subsequent_indent=" " * (9 + len(head)),
        break_long_words=False,
        break_on_hyphens=False,
    )
