"""The run folder: a new one each run, named by time, recipe and job, with its log in UTC."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.evaluation.run_folder import RunFolder


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({}, "[0-9a-f]{6}"),
        ({"SLURM_JOB_ID": "4711"}, "4711"),
        ({"SLURM_JOB_ID": "4713", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "2"}, "4711_2"),
    ],
)
def test_the_name_holds_time_recipe_and_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], job: str
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    folder = RunFolder(tmp_path / "runs", "demo")
    folder.close()
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}Z-demo-{job}", folder.path.name)


def test_two_runs_of_a_job_in_one_second_get_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    folders = [RunFolder(tmp_path, "demo") for _ in range(3)]
    for folder in folders:
        folder.close()
    assert len({folder.path for folder in folders}) == 3 and all(folder.path.is_dir() for folder in folders)


def test_what_was_asked_and_what_happened_is_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "demo")
    folder.describe({"seed": 1}, ["a=1", "b=2"])
    logging.getLogger("pipeline.somewhere").error("it happened")
    folder.status(state="done", exit_status=0)
    folder.close()
    assert (folder.path / "overrides.txt").read_text() == "a=1\nb=2\n"
    assert json.loads((folder.path / "environment.json").read_text())["libraries"]["numpy"]
    assert json.loads((folder.path / "status.json").read_text())["state"] == "done"
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \S+ \S+ ERROR pipeline.somewhere: it happened",
        (folder.path / "run.log").read_text(),
    )


def test_a_root_that_is_a_file_is_a_fault_of_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"paths\.root"):
        RunFolder(tmp_path / "file" / "runs", "demo")
