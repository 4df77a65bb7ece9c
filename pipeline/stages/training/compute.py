"""Train an extractor on a packed training set."""

from __future__ import annotations

from pipeline.contracts import Pretrained, Training
from pipeline.engine.task import Work
from pipeline.nets import checkpoints, waveforms


def run(training: Training, pretrained: Pretrained | None, device: str, work: Work) -> None:
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
        scratch=work.scratch(steps=checkpoints.steps),
        stopping=work.stopping,
        progress=progress,
    )
