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
    several = read_draws(work)
    usable = [one.usable() for one in several]
    speakers = [name for one in usable for name in one.speakers]
    vectors = np.concatenate([one.vectors for one in usable])
    choice = _choice(usable, speakers, work.input("sexes")) if work.has("sexes") else None
    record = backend.fit(settings, vectors, speakers, work.folder(), within_session=within_session, choice=choice)
    lost = [entry for one in several for entry in one.unusable()]
    record = {**record, "left_out": len(lost), "draws": len(several)}
    (work.folder() / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    work.note(left_out=[list(entry) for entry in lost])


def _choice(several: list[Vectors], speakers: list[str], sexes: dict[str, str]) -> Choice:
    """What to choose by: the pairs that the check on held-out speakers compares; ``speakers`` [n] are those of all draws."""
    held = hold_out_speakers(sexes, sexes)
    return pair_held_out(several[0].ids, several[0].speakers, held, sexes).choice(speakers, held)


def read_draws(work: Work, name: str = "vectors") -> list[Vectors]:
    """The vectors of an input, a set a draw of the anonymiser's random numbers: ``vectors``, ``vectors.1``, ``vectors.2``, ..."""
    found = [work.input(name)]
    while work.has(f"{name}.{len(found)}"):
        found.append(work.input(f"{name}.{len(found)}"))
    return found


def load_backend(backend: type[Backend], settings: ComponentSettings, work: Work) -> Backend:
    """The back end of a task: with the parameters among its inputs, if there are any."""
    if not work.has("backend"):
        return backend(settings, None)
    given: Artefact | Path = work.input("backend")
    return backend(settings, given.folder if isinstance(given, Artefact) else Path(given))
