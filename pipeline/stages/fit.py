"""Train a back end on the vectors of a training set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.engine.task import Artefact, Work
from pipeline.registry import component
from pipeline.tables.vectors import Vectors

VERSION = 1
RECORD = "fit.json"


def run(settings: Any, within_session: bool, work: Work) -> None:
    """Write the parameters and their record. Training vectors that could not be extracted are left out, counted."""
    vectors: Vectors = work.input("vectors")
    usable = vectors.usable()
    record = component("backends", settings.name).fit(
        settings, usable.vectors, usable.speakers, work.folder(), within_session=within_session
    )
    lost = vectors.unusable()
    record = {**record, "left_out": len(lost)}
    (work.folder() / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    work.note(left_out=[list(entry) for entry in lost])


def folder(work: Work) -> Path | None:
    """The folder of a back end's parameters among a task's inputs; None for one that has none."""
    try:
        given = work.input("backend")
    except KeyError:
        return None
    return given.folder if isinstance(given, Artefact) else Path(given)
