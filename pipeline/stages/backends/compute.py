"""Train a back end on the vectors of a training set, of one or of several draws of the anonymiser's random numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pipeline.contracts import Backend, Choice, ComponentSettings, Vectors
from pipeline.engine.task import Artefact, Work
from pipeline.protocol.held_out import hold_out_speakers, pair_held_out

VERSION = "back end fit 3"
RECORD = "fit.json"


def fit_backend(backend: type[Backend], settings: ComponentSettings, within_session: bool, work: Work) -> None:
    """Write the parameters and their record. Training vectors that could not be extracted are left out, counted.

    The input ``vectors`` is the first draw; ``vectors.1``, ``vectors.2``, ... are others, of which all vectors count as well.
    ``sexes`` (``f``, ``m`` or ``u`` by speaker, of all speakers of the training set, whether or not they have usable vectors)
    says who is held out to choose by: those whom the run's networks do not learn from. Without it the back end decides.
    """
    draws = read_draws(work)
    usable = [draw.usable() for draw in draws]
    speakers = [name for draw in usable for name in draw.speakers]
    vectors = np.concatenate([draw.vectors for draw in usable])
    choice: Choice | None = None
    if work.has("sexes"):
        # By the pairs that the check on held-out speakers compares.
        sexes: dict[str, str] = work.input("sexes")
        held_out = hold_out_speakers(sexes, sexes)
        choice = pair_held_out(usable[0].ids, usable[0].speakers, held_out, sexes).choice(speakers, held_out)
    record = backend.fit(settings, vectors, speakers, work.folder(), within_session=within_session, choice=choice)
    unusable = [entry for draw in draws for entry in draw.unusable()]
    record = {**record, "left_out": len(unusable), "draws": len(draws)}
    (work.folder() / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    work.note(left_out=[list(entry) for entry in unusable])


def read_draws(work: Work, name: str = "vectors") -> list[Vectors]:
    """The vectors of an input, a set a draw of the anonymiser's random numbers: ``vectors``, ``vectors.1``, ``vectors.2``, ..."""
    artefacts = [work.input(name)]
    while work.has(f"{name}.{len(artefacts)}"):
        artefacts.append(work.input(f"{name}.{len(artefacts)}"))
    return artefacts


def load_backend(backend: type[Backend], settings: ComponentSettings, work: Work) -> Backend:
    """The back end of a task: with the parameters among its inputs, if there are any."""
    if not work.has("backend"):
        return backend(settings, None)
    source: Artefact | Path = work.input("backend")
    return backend(settings, source.folder if isinstance(source, Artefact) else Path(source))
