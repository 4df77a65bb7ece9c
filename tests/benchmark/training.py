"""Speed of training a speaker embedding against SpeechBrain's own loop: the same model, crops, batch, optimiser and threads.

Ours is what the trainer does in a step: crops made ahead in a thread, ``Learner.gradients``, ``Learner.update``. SpeechBrain's
is ``Brain.fit`` with what its VoxCeleb recipe is made of: Fbank, sentence mean, ECAPA_TDNN, Classifier, additive angular
margin; its bfloat16 is Brain's ``precision: bf16``.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.benchmark.harness import Row, Skipped, interleaved, row, speech

THREADS, RATE = 2, 16_000


@dataclass(frozen=True)
class Size:
    """A model and its batches, and how much is timed: steps of a call, calls."""

    channels: int
    embedding: int
    attention: int
    batch: int
    seconds: float
    steps: int
    runs: int


SIZES = (Size(128, 128, 64, 32, 2.0, 4, 7), Size(512, 192, 128, 32, 3.0, 1, 5))


@functools.cache
def waveforms() -> tuple[Any, str]:
    """Speech to train on, and what it is: an utterance of each speaker of train-clean-100, or noise of 60 speakers."""
    from pipeline.audio import load
    from pipeline.nets import waveforms as packed

    try:
        found = sorted((speech() / "librispeech" / "train-clean-100").rglob("*.flac"))
    except Skipped:
        found = []
    of_speaker = {path.name.split("-")[0]: path for path in found}
    if of_speaker:
        return packed.pack_waveforms([load(path)[0] for path in of_speaker.values()], list(of_speaker)), "LibriSpeech"
    random = np.random.default_rng(0)
    waves = [0.1 * random.standard_normal(5 * RATE) for _ in range(60)]
    return packed.pack_waveforms(waves, [str(number) for number in range(60)]), "noise"


def settings(size: Size, precision: Literal["float32", "bfloat16"], threads: int) -> Any:
    """Of our trainer."""
    from pipeline.trainers.embedding import EmbeddingSettings, Trainer

    chosen = EmbeddingSettings(
        architecture="ecapa", channels=(size.channels,) * 4, aggregation=3 * size.channels, embedding=size.embedding,
        attention=size.attention, batch=size.batch, micro_batch=size.batch, crop_seconds=size.seconds, speeds=(1.0,),
        held_out=0.0, steps=1000, precision=precision, threads=threads,
    )  # fmt: skip
    return Trainer.resolved(chosen, "ecapa", 0, 0.0)


class Ours:
    """The trainer's loop."""

    def __init__(self, chosen: Any, crops: Any) -> None:
        from pipeline.trainers.embedding.learner import Learner

        self.learner, self.crops, self.step = Learner(chosen, crops.n_classes, "cpu"), crops, 0
        self.losses: list[float] = []

    def train(self, steps: int) -> None:
        """Go on by some steps."""
        from pipeline.nets.training import make_ahead

        for step, batch in make_ahead(self.crops.batch, self.step, self.step + steps):
            self.losses.append(self.learner.gradients(step, batch))
            self.learner.update(step, self.learner.settings.steps)
        self.step += steps


def brain(learner: Any, crops: Any, precision: Literal["fp32", "bf16"]) -> tuple[Callable[[int], None], list[float]]:
    """SpeechBrain's loop, which begins with the weights of a learner: a function that goes on by some steps, and its losses."""
    import torch
    from speechbrain.core import Brain
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import Classifier
    from speechbrain.nnet.losses import AdditiveAngularMargin, LogSoftmaxWrapper
    from speechbrain.processing.features import InputNormalization

    from pipeline.nets import speechbrain_networks as ecapa

    chosen = learner.settings
    model = ecapa.make_ecapa(chosen.n_mels, [*chosen.channels, chosen.aggregation], chosen.embedding, chosen.attention)
    model.load_state_dict(learner.model.state_dict())
    classifier = Classifier(chosen.embedding, lin_blocks=0, out_neurons=crops.n_classes)
    classifier.weight.data.copy_(learner.head.directions)
    losses: list[float] = []

    class Speakers(Brain):
        def compute_forward(self, batch: Any, stage: Any) -> torch.Tensor:
            waves, _ = batch
            frames = self.modules.mean_var_norm(self.modules.compute_features(waves), torch.ones(len(waves)))
            scores: torch.Tensor = self.modules.classifier(self.modules.embedding_model(frames))
            return scores

        def compute_objectives(self, predictions: torch.Tensor, batch: Any, stage: Any) -> torch.Tensor:
            loss: torch.Tensor = self.hparams.compute_cost(predictions, batch[1][:, None], torch.ones(len(predictions)))
            return loss

        def on_fit_batch_end(self, batch: Any, outputs: Any, loss: torch.Tensor, should_step: bool) -> None:
            losses.append(float(loss.detach()))

    class Batches(torch.utils.data.IterableDataset):
        def __init__(self, numbers: range) -> None:
            self.numbers = numbers

        def __iter__(self) -> Any:
            for number in self.numbers:
                batch = crops.batch(number)
                yield torch.from_numpy(batch.crops), torch.from_numpy(batch.labels)

    loop = Speakers(
        modules={
            "compute_features": Fbank(n_mels=chosen.n_mels),
            "mean_var_norm": InputNormalization(norm_type="sentence", std_norm=False),
            "embedding_model": model,
            "classifier": classifier,
        },
        opt_class=lambda parameters: torch.optim.AdamW(
            parameters, lr=chosen.learning_rate, weight_decay=chosen.weight_decay
        ),
        hparams={"compute_cost": LogSoftmaxWrapper(AdditiveAngularMargin(chosen.margin, chosen.scale))},
        run_opts={"device": "cpu", "precision": precision},
    )
    done = itertools.count()

    def train(steps: int) -> None:
        numbers = [next(done) for _ in range(steps)]
        loader = torch.utils.data.DataLoader(Batches(range(numbers[0], numbers[-1] + 1)), batch_size=None)
        loop.fit(range(1), loader, progressbar=False)

    return train, losses


def training(threads: int = THREADS, clock: Any = time.perf_counter) -> list[Row]:
    """Two sizes of ECAPA, each in float32 and in bfloat16."""
    return [made for size in SIZES for made in compare(size, threads, clock)]


def compare(size: Size, threads: int, clock: Any) -> list[Row]:
    """Rows of a size; the settings of both loops are printed."""
    import torch

    from pipeline.nets.training import repeatable
    from pipeline.trainers.embedding.crops import Crops

    audio, kind = waveforms()
    exact, half = settings(size, "float32", threads), settings(size, "bfloat16", threads)
    crops = Crops(exact, audio, audio.speakers, range(len(audio)))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours, ours_half = Ours(exact, crops), Ours(half, crops)
        theirs, losses = brain(ours.learner, crops, "fp32")
        theirs_half, _ = brain(ours.learner, crops, "bf16")
        same = (
            f"ECAPA {size.channels}, {3 * size.channels} aggregated, embeddings of {size.embedding}, {crops.n_classes} "
            f"speakers ({kind}), {size.batch} crops of {size.seconds:g} s, AdamW, gradients clipped, CPU, {threads} threads"
        )
        print(f"both: {same}")
        print(f"ours: {exact.numeric()}, and the same with precision=bfloat16; deterministic algorithms")
        print(
            "SpeechBrain: Brain.fit, DataLoader(num_workers=0), Fbank, InputNormalization(sentence, no std), ECAPA_TDNN, "
            "Classifier, LogSoftmaxWrapper(AdditiveAngularMargin), precision fp32 and bf16 (autocast)"
        )

        def mine(loop: Ours) -> None:
            with repeatable(threads):
                loop.train(size.steps)

        calls = [
            lambda: mine(ours),
            lambda: mine(ours_half),
            lambda: theirs(size.steps),
            lambda: theirs_half(size.steps),
        ]
        for call in calls:
            call()
        far = abs(ours.losses[0] - losses[0]) / losses[0]
        assert far < 1e-4, f"the losses of the first step are {far:.1e} apart"
        taken = interleaved(calls, size.runs, clock)
    finally:
        torch.set_num_threads(before)
    rate, rate_half, their_rate, their_rate_half = (size.steps * size.batch / seconds for seconds in taken)
    name, slow = f"training_{size.channels}", f"SpeechBrain's loop in fp32 ({their_rate:.0f}/s)"
    fast = f"SpeechBrain's loop in bf16 ({their_rate_half:.0f}/s)"
    half_ratio, both_ratio = rate_half / their_rate, rate_half / their_rate_half
    return [
        row(f"{name}_fp32", rate, "crops/s", f"{same}, to {slow}", ratio=rate / their_rate, at_least=1.0),
        row(f"{name}_bf16", rate_half, "crops/s", f"the same in bfloat16, to {slow}", ratio=half_ratio, at_least=1.4),
        row(
            f"{name}_bf16_both",
            rate_half,
            "crops/s",
            f"the same in bfloat16, to {fast}",
            ratio=both_ratio,
            at_least=1.4,
        ),
    ]
