"""Train the VQ-VAE whose codes are phone-like units, from waveforms and the names of their speakers.

The log-mels of crops are encoded, quantised and decoded again with the speaker told; the loss is the mean absolute error of the
normalised mels and the commitment of the encoder to its codes, which follow it by moving averages. The same data, settings and
device give the same bytes on CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Waveforms, numeric
from pipeline.errors import DataError
from pipeline.nets.activity import FRAME, detect, powers
from pipeline.nets.checkpoints import Checkpoints
from pipeline.nets.training import (
    Course,
    Learner,
    follow_course,
    rate_of_cosine,
    repeatable,
    seed_torch,
    take_rounds,
    write_record,
)
from pipeline.seeds import generator

if TYPE_CHECKING:
    from pipeline.extractors.phones.network import Mels, Network

SAMPLE_RATE = 16_000
VERSION = "phones training 1"
WEIGHTS = "phones.safetensors"

Batch = tuple[list[int], np.ndarray, np.ndarray]
"""Utterances, crops float32 [batch, n] with active speech of power 1, and speakers int64 [batch]."""

# Batches that the mean and the deviation of each mel band are taken from; utterances, and codes of each, that the record is
# measured on.
_NORMALISED_OVER, _MEASURED_ON, _MEASURED_CODES = 20, 100, 3000


class PhonesTrainerSettings(ComponentSettings):
    """Settings of the phone trainer; all of them change the weights.

    Attributes:
        channels: of the encoder and the decoder.
        codes: size of the codebook.
        dimension: of a code.
        speaker_dimension: of what the decoder is told of a speaker.
        n_mels: log-mel bands.
        steps: optimiser steps.
        batch: crops a step.
        crop_seconds: length of a crop, a multiple of 20 ms; shorter utterances are repeated.
        learning_rate: the highest; it rises over ``warm_up`` of the steps and falls as a cosine.
        warm_up: part of the steps over which the learning rate rises.
        decay: of the moving averages that the codes are.
        commitment: weight of the distance between the encoder and its codes.
        restart: steps after which a code that nobody chose begins anew.
        held_out: part of the utterances that is not trained on, for the record.
        threads: CPU threads. Sums are rounded by thread, and training lets that grow, so the number is fixed here and not
            taken from the machine: the same settings give the same weights everywhere. One, because two that wait for each
            other at every small operation lose more than they gain as soon as anything else runs on the machine.
        seed: of the initial weights, the crops, the restarts and the choice of what is held out.
    """

    name: Literal["phones"] = numeric("phones")
    channels: int = numeric(256, ge=1)
    codes: int = numeric(512, ge=2, le=32768)
    dimension: int = numeric(64, ge=1)
    speaker_dimension: int = numeric(64, ge=1)
    n_mels: int = numeric(80, ge=8, le=80)
    steps: int = numeric(1000, ge=1)
    batch: int = numeric(32, ge=1)
    crop_seconds: float = numeric(0.64, ge=0.1)
    learning_rate: float = numeric(2e-3, gt=0)
    warm_up: float = numeric(0.1, ge=0, lt=1)
    decay: float = numeric(0.999, gt=0, lt=1)
    commitment: float = numeric(0.25, ge=0)
    restart: int = numeric(20, ge=1)
    held_out: float = numeric(0.05, ge=0, lt=1)
    threads: int = numeric(1, ge=1)
    seed: int = numeric(0, ge=0)


class Trainer(contracts.Trainer):
    """Makes ``phones.safetensors`` and ``training.json``."""

    Settings = PhonesTrainerSettings
    libraries = ("torch", "speechbrain")

    @classmethod
    def cost(cls, settings: PhonesTrainerSettings) -> float:
        return settings.steps * settings.batch * settings.crop_seconds

    @classmethod
    def train(
        cls,
        settings: PhonesTrainerSettings,
        waveforms: Waveforms,
        folder: Path,
        *,
        device: str = "cpu",
        pretrained: contracts.Pretrained | None = None,
        scratch: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> bool:
        """See the contract; this one takes two minutes, is not interrupted and needs no ``scratch``.

        Raises:
            DataError: no utterance, or one without active speech.
            StageFailed: the loss is not finite, with the ids of the batch.
        """
        from safetensors.torch import save_file

        if not len(waveforms):
            raise DataError("there is no utterance to train on")
        crops = Crops(settings, waveforms)
        with repeatable(settings.threads):
            learner = _Learner(settings, crops, device)
            course = Course(
                learner, crops.batch, lambda batch: [waveforms.ids[item] for item in batch[0]], settings.steps
            )
            follow_course(course, Checkpoints(None, ""), lambda: False, progress)
            learner.finish()
            measured = {
                "training": _measure(learner.model, learner.front_end, crops, crops.trained, device),
                "held_out": _measure(learner.model, learner.front_end, crops, crops.held_out, device),
            }
        save_file(learner.weights(), folder / WEIGHTS)
        write_record(folder, _record(settings, crops, learner, measured))
        return True


class _Learner(Learner[Batch]):
    """The network in training.

    Attributes:
        curve: loss and reconstruction error of each step.
        restarted: codes that nobody chose and that began anew.
    """

    def __init__(self, settings: PhonesTrainerSettings, crops: Crops, device: str) -> None:
        import torch

        from pipeline.extractors.phones.network import Mels, Network

        self.settings, self.crops, self.device = settings, crops, device
        self.curve: list[tuple[float, float]] = []
        self.restarted = 0
        seed_torch(settings.seed, "phones initial weights")
        self.model = Network(
            settings.n_mels,
            settings.channels,
            settings.codes,
            settings.dimension,
            len(crops.speakers),
            settings.speaker_dimension,
            settings.decay,
            settings.restart,
        ).to(device)
        self.front_end = Mels(settings.n_mels).to(device)
        with torch.no_grad():
            first = [crops.batch(step)[1] for step in range(min(_NORMALISED_OVER, settings.steps))]
            bands = torch.cat([self.front_end(torch.from_numpy(waves).to(device)) for waves in first])
            self.model.mean.copy_(bands.mean((0, 2)))
            self.model.scale.copy_(1 / bands.std((0, 2)).clamp(min=0.1))
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate)
        self.model.train()

    def gradients(self, step: int, batch: Batch) -> float:
        import torch
        from torch.nn.functional import l1_loss

        settings, model = self.settings, self.model
        _, waves, labels = batch
        truth = torch.from_numpy(labels).to(self.device)
        with torch.no_grad():
            mels = model.normalised(self.front_end(torch.from_numpy(waves).to(self.device)))
        vectors = model.encoded(mels)
        self.restarted += model.quantiser.revive(vectors.detach(), generator(settings.seed, "restarts", step))
        chosen, quantised, distance = model.quantiser(vectors)
        error = l1_loss(model.decoded(quantised, truth), mels)
        loss = error + settings.commitment * distance
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.encoded = vectors.detach(), chosen
        self.curve.append((float(loss.detach()), float(error.detach())))
        return self.curve[-1][0]

    def update(self, step: int, steps: int) -> None:
        import torch

        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * rate_of_cosine(step, steps, self.settings.warm_up)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimiser.step()
        self.model.quantiser.update(*self.encoded)

    def finish(self) -> None:
        """Make the network ready for use."""
        import torch

        self.model.eval()
        with torch.no_grad():
            trained = torch.tensor(self.crops.is_trained, device=self.device)
            # Speakers all of whose utterances are held out are decoded as the average speaker.
            self.model.speakers.weight[~trained] = self.model.speakers.weight[trained].mean(0)


def _record(
    settings: PhonesTrainerSettings, crops: Crops, learner: _Learner, measured: dict[str, Any]
) -> dict[str, Any]:
    """How the weights came, as plain JSON values."""
    curve, tenth = learner.curve, max(1, settings.steps // 10)
    return {
        "settings": settings.numeric(),
        "data_digest": crops.audio.digest,
        "speakers": len(crops.speakers),
        "utterances": len(crops.audio),
        "utterances_held_out": len(crops.held_out),
        "repeated_up_to_a_crop": len(crops.short),
        "parameters": sum(parameter.numel() for parameter in learner.model.parameters()),
        "device": str(learner.device).split(":")[0],
        "threads": settings.threads,
        "loss": [round(value, 6) for value, _ in curve],
        "reconstruction": [round(error, 6) for _, error in curve],
        "reconstruction_start": round(curve[0][1], 4),
        "reconstruction_end": round(float(np.mean([error for _, error in curve[-tenth:]])), 4),
        "codes_restarted": learner.restarted,
        "measured": measured,
        "summary": _summarise(settings.codes, curve[0][1], measured),
    }


def _measure(model: Network, front_end: Mels, crops: Crops, items: Sequence[int], device: str) -> dict[str, Any] | None:
    """How the trained network does on utterances, up to a minute of each: the mean absolute error of the normalised mels, and the codes of the
    active speech: their perplexity (two to the entropy), how many are used, and the share of the most frequent one."""
    import torch

    from pipeline.extractors.phones.network import surroundings

    error, frames = 0.0, 0
    counts = np.zeros(len(model.quantiser.codes), dtype=np.int64)
    for item in items[:_MEASURED_ON]:
        wave = crops.audio.piece(item)
        active = detect(powers(wave)).active[:_MEASURED_CODES]
        around = surroundings(wave, 0, len(active)) * crops.gain(item)
        with torch.no_grad():
            mels = model.normalised(front_end(torch.from_numpy(around)[None].to(device)))
            chosen, quantised, _ = model.quantiser(model.encoded(mels))
            decoded = model.decoded(quantised, torch.tensor([crops.speaker[item]], device=device))
            error += float((decoded - mels).abs().mean(1).sum())
        frames += mels.shape[2]
        counts += np.bincount(chosen.cpu().numpy()[active], minlength=len(counts))
    if not counts.any():
        return None
    shares = counts[counts > 0] / counts.sum()
    return {
        "utterances": len(items[:_MEASURED_ON]),
        "reconstruction": round(error / frames, 4),
        "active_codes": int(counts.sum()),
        "perplexity": round(float(np.exp2(-shares @ np.log2(shares))), 1),
        "codes_used": len(shares),
        "most_frequent": round(float(shares.max()), 4),
    }


def _summarise(codes: int, start: float, measured: dict[str, Any]) -> str:
    """The record in a line."""
    parts = []
    for place, numbers in measured.items():
        if numbers is not None:
            parts.append(
                f"{place.replace('_', ' ')}: reconstruction {start:.2f} to {numbers['reconstruction']:.2f}, perplexity "
                f"{numbers['perplexity']:.0f} of {codes} codes, {numbers['codes_used']} used over {numbers['active_codes']} "
                f"places, the most frequent {100 * numbers['most_frequent']:.1f} %"
            )
    return "; ".join(parts)


class Crops:
    """Batches of crops, each of which depends on the settings, the data and the number of its step alone.

    Attributes:
        speakers: names, sorted.
        speaker: the number of each utterance's speaker.
        trained, held_out: the utterances to train on, and those for the record.
        is_trained: for each speaker, whether there is an utterance to train on.
        short: utterances met so far that are shorter than a crop, and were repeated.
    """

    def __init__(self, settings: PhonesTrainerSettings, audio: Waveforms) -> None:
        self.settings, self.audio = settings, audio
        self.speakers = sorted(set(audio.speakers))
        number = {speaker: label for label, speaker in enumerate(self.speakers)}
        self.speaker = [number[speaker] for speaker in audio.speakers]
        order = generator(settings.seed, "held-out utterances").permutation(len(audio)).tolist()
        n_held_out = min(round(settings.held_out * len(audio)), len(audio) - 1)
        self.held_out, self.trained = order[:n_held_out], order[n_held_out:]
        heard = {self.speaker[item] for item in self.trained}
        self.is_trained = [label in heard for label in range(len(self.speakers))]
        self.length = max(1, round(settings.crop_seconds * SAMPLE_RATE / FRAME)) * FRAME + 240
        self.gains: dict[int, np.float32] = {}
        self.short: set[int] = set()

    def gain(self, item: int) -> np.float32:
        """What brings the active speech of an utterance to power 1.

        Raises:
            DataError: the utterance has no active speech.
        """
        if item not in self.gains:
            level = detect(powers(self.audio.piece(item))).level
            if level == 0:
                raise DataError("an utterance to train on has no active speech", where=self.audio.ids[item])
            self.gains[item] = np.float32(level**-0.5)
        return self.gains[item]

    def batch(self, step: int) -> Batch:
        """The crops of a step."""
        random = generator(self.settings.seed, "crops", step)
        turn = take_rounds(len(self.trained), step, self.settings.batch, self.settings.seed, "round of utterances")
        items = [self.trained[place] for place in turn]
        crops = np.empty((len(items), self.length), dtype=np.float32)
        for crop, item in zip(crops, items):
            n, gain = int(self.audio.lengths[item]), self.gain(item)
            if n < self.length:
                self.short.add(item)
            start = int(random.integers(max(n, self.length) - self.length + 1))
            wave = np.resize(self.audio.piece(item, start, min(n, start + self.length)), self.length)
            np.multiply(wave, gain, out=crop)
        return items, crops, np.array([self.speaker[item] for item in items], dtype=np.int64)
