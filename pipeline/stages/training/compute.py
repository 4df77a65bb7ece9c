"""Pack a training set, every file decoded once, and train an extractor on it."""

from __future__ import annotations

import pandas as pd

from pipeline.contracts import Preparation, Pretrained, Training
from pipeline.engine.task import Work
from pipeline.nets import checkpoints, waveforms
from pipeline.protocol.cuts import name_recording
from pipeline.tables import manifest

VERSION = "packing 2"


def pack_training_set(draws: int, others: int, preparation: Preparation, threads: int, work: Work) -> None:
    """Write the samples and the table of utterances (:mod:`pipeline.nets.waveforms`).

    Args:
        draws: how many copies of the training set there are, ``audio.0``, ``audio.1`` and so on among the inputs.
        others: how many training sets of other systems help, ``also.0`` and so on.
        preparation: what is done to a recording before, as to those that are evaluated.
    """
    sexes: dict[str, str] = work.input("sexes")
    parts = []
    for own, count, name in ((True, draws, "audio"), (False, others, "also")):
        for draw in range(count):
            part = manifest.rows_of(work.input(f"{name}.{draw}"))
            part = part[["utterance", "speaker", "sha256", "path"]].assign(draw=draw, own=own)
            parts.append(part)
    rows = pd.concat(parts, ignore_index=True)
    rows["sex"] = rows["speaker"].map(sexes).fillna("u")
    rows["recording"] = rows["utterance"].map(name_recording)
    waveforms.write(work.folder(), rows, threads, work.advance, preparation)


def train_extractor(training: Training, pretrained: Pretrained | None, device: str, work: Work) -> None:
    """Write the weights and the training record into the artefact; killed or stopped, it goes on from its last checkpoint."""
    speech = waveforms.read(work.input("audio").folder)
    total = training.trainer.cost(training.settings)
    reported = 0

    def progress(done: int, steps: int, loss: float) -> None:
        nonlocal reported
        work.advance(total * (done - reported) / steps)
        reported = done

    training.trainer.train(
        training.settings,
        speech,
        work.folder(),
        device=device,
        pretrained=pretrained,
        scratch=work.scratch(steps=checkpoints.read_steps),
        stopping=work.stopping,
        progress=progress,
    )
