"""What ``doctor`` prints: a finding a line, with its remedy below, and how many there are of each kind."""

from __future__ import annotations

import functools
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.cli.command_line import CommandLine, read_command_line
from pipeline.cli.compose import evaluate_each
from pipeline.cli.output import escaped, for_rich
from pipeline.evaluation.doctor import counts, examine, status
from pipeline.stages.settings import Evaluation

COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}
STATE, SUBJECT = 8, 11
LEAST = 60
"""Columns of a terminal below which lines are left to it."""
OF_A_MACHINE = ("paths", "runtime", "executor", "store", "hydra")
"""What may be set without saying what is to be evaluated."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out ``doctor``; the exit status."""
    line = read_command_line(arguments, verb)
    return evaluate_each(line, functools.partial(doctor, line), without_models=True, without_data=True)


def doctor(line: CommandLine, asked: Evaluation, values: dict[str, Any]) -> int:
    """Look at everything and print what was found, as it is found; the exit status."""
    # Colours on a terminal alone; a remedy is never broken, so that it can be copied.
    console = Console(file=for_rich(sys.stdout), soft_wrap=True, highlight=False, markup=False, emoji=False)
    columns = shutil.get_terminal_size().columns if console.is_terminal else 0
    findings = []
    for one in examine(asked, is_named(line)):
        findings.append(one)
        first, *rest = _lines(escaped(one.what), columns)
        head = f"{one.subject:{SUBJECT - 1}} "
        console.print(Text.assemble((f"{one.state:{STATE}}", COLOURS[one.state]), head, first))
        for more in rest:
            console.print(Text(f"{'':{STATE + SUBJECT}}{more}"))
        if one.remedy:
            console.print(Text(f"{'':{STATE + SUBJECT}}to mend it: {escaped(one.remedy)}"))
    console.print(Text(counts(findings)))
    sys.stdout.flush()
    return status(findings)


def is_named(line: CommandLine) -> bool:
    """Whether a command line says what is to be evaluated, and not only on what machine."""
    return any(override.name.partition(".")[0] not in OF_A_MACHINE for override in line.overrides)


def _lines(text: str, columns: int) -> list[str]:
    """A text as the lines of a terminal; one line for files and other programs, and for narrow terminals."""
    if columns < LEAST:
        return [text]
    return textwrap.wrap(text, columns - STATE - SUBJECT, break_long_words=False, break_on_hyphens=False) or [""]
