"""Train a back end on the vectors of a training set."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.contracts import Backend, ComponentSettings, Vectors
from pipeline.engine.task import Artefact, Work

VERSION = 1
RECORD = "fit.json"


def run(backend: type[Backend], settings: ComponentSettings, within_session: bool, work: Work) -> None:
    """Write the parameters and their record. Training vectors that could not be extracted are left out, counted."""
    vectors: Vectors = work.input("vectors")
    usable = vectors.usable()
    record = backend.fit(settings, usable.vectors, usable.speakers, work.folder(), within_session=within_session)
    lost = vectors.unusable()
    record = {**record, "left_out": len(lost)}
    (work.folder() / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    work.note(left_out=[list(entry) for entry in lost])


def load(backend: type[Backend], settings: ComponentSettings, work: Work) -> Backend:
    """The back end of a task: with the parameters among its inputs, if there are any."""
    if not work.has("backend"):
        return backend(settings, None)
    given: Artefact | Path = work.input("backend")
    return backend(settings, given.folder if isinstance(given, Artefact) else Path(given))
