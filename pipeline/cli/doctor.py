"""What ``doctor`` prints: a finding a line, with its remedy below, and how many there are of each kind."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from pipeline.evaluation.doctor import counts, examine, status
from pipeline.planning import Evaluation

COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}
SUBJECT = 11


def doctor(asked: Evaluation) -> int:
    """Look at everything and print what was found, as it is found; the exit status."""
    # Colours on a terminal alone; no line is broken, so that a remedy can be copied.
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False, markup=False, emoji=False)
    findings = []
    for one in examine(asked):
        findings.append(one)
        console.print(Text.assemble((f"{one.state:8}", COLOURS[one.state]), f"{one.subject:{SUBJECT}}{one.what}"))
        if one.remedy:
            console.print(Text(f"{'':8}{'':{SUBJECT}}to mend it: {one.remedy}"))
    console.print(Text(counts(findings)))
    sys.stdout.flush()
    return status(findings)
