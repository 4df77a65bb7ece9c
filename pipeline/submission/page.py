"""The check of a submission as one page of HTML that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import jinja2

from pipeline.report.render import TEMPLATES as REPORT
from pipeline.submission.findings import Report, Verdict
from pipeline.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
VERDICTS: dict[Verdict, str] = {
    "wrong": "wrong",
    "warning": "warning",
    "unknown": "cannot be told",
    "ok": "ok",
}
"""In the order of the page."""


def render_page(report: Report, title: str) -> str:
    """The page. Whatever comes from files is escaped, and nothing on it is loaded from elsewhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, REPORT]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (REPORT / "style.css").read_text(encoding="utf-8")
    checks = [check for verdict in VERDICTS for check in report.select(verdict)]
    return environment.get_template("submission.html.j2").render(
        report=report, checks=checks, title=title, style=style, verdicts=VERDICTS, version=__version__
    )
