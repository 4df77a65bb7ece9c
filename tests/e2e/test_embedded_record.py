"""What the report that a run writes says of the run: how it ended, and when; and what a kill on the way leaves."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import cli
from pipeline.evaluation import conclude
from pipeline.evaluation.run_folder import RunFolder
from pipeline.tables import run_files, status
from tests.e2e.test_run_folder import arguments
from tests.sampled import mostly_slow


class Killed(BaseException):
    """As SIGKILL: nobody gets to say anything."""


def embedded(page: Path) -> dict[str, Any]:
    """The record of the run that a report holds."""
    (text,) = re.findall(r"<summary>status</summary><pre>(.*?)</pre>", page.read_text(encoding="utf-8"), re.DOTALL)
    record: dict[str, Any] = yaml.safe_load(html.unescape(text))
    return record


def only(home: Path) -> Path:
    (run,) = (home / "exp" / "runs").iterdir()
    return run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_of_a_finished_run_says_done_and_is_written_the_same_again(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments(home)) == 0
    run = only(home)
    page = run / "report.html"
    whole, record = page.read_bytes(), embedded(page)
    assert record["state"] == "done" and record["exit_status"] == 0 and record["tasks"].startswith("tasks: 0 reused")
    assert record == status.read(run)
    assert f"{record['started']} to {record['ended']}" in whole.decode()
    assert cli.run(["report", str(run)]) == 0
    assert page.read_bytes() == whole


@pytest.mark.parametrize("place", mostly_slow(("before the record", "before the report", "before the seal")))
def test_a_run_that_is_killed_on_the_way_is_never_done(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record says ``done`` last: with a report that says the same, and a seal."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    where: dict[str, tuple[Any, str]] = {
        "before the report": (conclude.render, "render"),
        "before the seal": (run_files, "seal_run"),
        "before the record": (RunFolder, "end"),
    }
    monkeypatch.setattr(*where[place], kill)
    monkeypatch.setattr(RunFolder, "last_status", lambda *_, **__: None)
    with pytest.raises(Killed):
        cli.run(arguments(home))
    run = only(home)
    assert status.read(run)["state"] == "running"
    assert (run / "report.html").exists() == (place != "before the report")
    assert (run / status.SEAL).exists() == (place == "before the record")
