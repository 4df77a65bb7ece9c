"""Train an ECAPA-TDNN from waveforms with additive angular margin softmax (Deng et al. 2019, arXiv 1801.07698).

SpeechBrain's class, with fewer channels and steps by default: about a minute on two CPU cores. Each
batch takes its classes (speakers, at several speeds) from a shuffled round over all of them, then one utterance and one
crop of each at random: every speaker is seen equally often. The same data, settings and device give the same
bytes on CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from pipeline import audio
from pipeline.errors import ConfigError, DataError
from pipeline.registry import ComponentSettings, digest, generator, numeric
from pipeline.training._common import Utterances, determinism, finite, rounds, schedule

SAMPLE_RATE = 16_000
VERSION = 1
WEIGHTS, RECORD = "embedding_model.safetensors", "training.json"


class Settings(ComponentSettings):
    """Settings of the ECAPA trainer; all of them change the weights.

    Attributes:
        channels: of the first convolution and of the blocks; multiples of 8.
        aggregation: channels of the layer that joins the blocks.
        embedding: dimensions of the embedding.
        attention: channels of the attention, and of squeeze and excitation.
        n_mels: log-mel bands.
        steps: optimiser steps.
        batch: crops a step, each of another class where there are enough.
        crop_seconds: length of a crop; shorter utterances are repeated.
        speeds: each speaker played at each of these speeds (pitch and formants move along) is a class of its own, so
            that few speakers become more; with many speakers it asks for more steps.
        learning_rate: the highest; it rises over ``warm_up`` of the steps and falls as a cosine.
        warm_up: part of the steps over which the learning rate rises.
        weight_decay: of AdamW.
        margin: additive angle in radians.
        scale: of the cosines before the softmax.
        threads: CPU threads. Sums are rounded by thread, and training lets that grow, so the number is fixed here and not
            taken from the machine: the same settings give the same weights everywhere.
        seed: of the initial weights, the batches and the crops.
    """

    name: Literal["ecapa"] = numeric("ecapa")
    channels: tuple[int, ...] = numeric((128, 128, 128, 128), min_length=3)
    aggregation: int = numeric(384, ge=8)
    embedding: int = numeric(128, ge=2)
    attention: int = numeric(64, ge=1)
    n_mels: int = numeric(80, ge=8)
    steps: int = numeric(350, ge=1)
    batch: int = numeric(32, ge=2)
    crop_seconds: float = numeric(2.0, ge=0.1)
    speeds: tuple[Annotated[float, Field(ge=0.5, le=2)], ...] = numeric((1.0,), min_length=1)
    learning_rate: float = numeric(2e-3, gt=0)
    warm_up: float = numeric(0.1, ge=0, lt=1)
    weight_decay: float = numeric(1e-4, ge=0)
    margin: float = numeric(0.2, ge=0, lt=1.5)
    scale: float = numeric(30.0, gt=0)
    threads: int = numeric(2, ge=1)
    seed: int = numeric(0, ge=0)


def train(
    settings: Settings,
    speakers: Sequence[str],
    load: Callable[[int], np.ndarray],
    folder: Path,
    *,
    data_digest: str = "",
    ids: Sequence[str] | None = None,
    device: str = "cpu",
    progress: Callable[[int, int, float], None] | None = None,
) -> Path:
    """Train, and write ``embedding_model.safetensors`` and ``training.json``.

    Args:
        settings: what to train and how.
        speakers: the speaker of each utterance.
        load: utterance i as float32 [n] at 16 kHz.
        folder: an existing folder for the two files.
        data_digest: digest of the training data, for the record.
        ids: names of the utterances, for messages; their numbers by default.
        device: ``cpu`` or ``cuda[:N]``.
        progress: called after each step with steps done, steps in all, and the loss.

    Returns:
        ``folder``; an extractor takes it as its weights.

    Raises:
        ConfigError: channels that the architecture does not take.
        DataError: fewer than two speakers, or an utterance without usable samples.
        StageFailed: the loss is not finite, with the ids of the batch.
    """
    import torch
    from safetensors.torch import save_file

    from pipeline.models import ecapa
    from pipeline.models.margin import AngularMargin
    from pipeline.models.speechbrain_layout import FrontEnd

    if len(set(speakers)) < 2:
        raise DataError(f"training takes two speakers at least, and there are {len(set(speakers))}")
    if any(width % ecapa.RES2NET_SCALE for width in settings.channels):
        raise ConfigError(
            f"ECAPA channels are multiples of {ecapa.RES2NET_SCALE}", where=f"channels {settings.channels}"
        )
    names = list(ids) if ids is not None else [str(item) for item in range(len(speakers))]
    crops = Crops(settings, speakers, load, names)
    curve: list[float] = []
    seen = right = 0
    with determinism(settings.threads):
        torch.manual_seed(int(digest(settings.seed, "ecapa initial weights")[:15], 16))
        model = ecapa.fresh(
            n_mels=settings.n_mels,
            channels=[*settings.channels, settings.aggregation],
            embedding=settings.embedding,
            attention=settings.attention,
        ).to(device)
        head = AngularMargin(settings.embedding, crops.n_classes, settings.margin, settings.scale).to(device)
        front_end = FrontEnd(settings.n_mels).to(device)
        parameters = [*model.parameters(), *head.parameters()]
        optimiser = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        model.train()
        for step in range(settings.steps):
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * schedule(step, settings.steps, settings.warm_up)
            items, waves, labels = crops.batch(step)
            truth = torch.from_numpy(labels).to(device)
            with torch.no_grad():
                frames = front_end(torch.from_numpy(waves).to(device))
            loss, cosines = head(model(frames)[:, 0], truth)
            value = finite(float(loss.detach()), step, [names[item] for item in items])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimiser.step()
            curve.append(value)
            if step >= 0.9 * settings.steps:
                seen += len(labels)
                right += int((cosines.argmax(1) == truth).sum())
            if progress is not None:
                progress(step + 1, settings.steps, value)
        model.eval()
        state = {key: tensor.detach().cpu().contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    (folder / RECORD).write_text(
        json.dumps(
            {
                "settings": settings.numeric(),
                "data_digest": data_digest,
                "speakers": len(crops.speakers),
                "utterances": len(speakers),
                "repeated_up_to_a_crop": crops.n_repeated,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "device": str(device).split(":")[0],
                "threads": settings.threads,
                "loss": [round(value, 6) for value in curve],
                "right_in_last_tenth": round(right / seen, 4) if seen else None,
                "summary": f"loss {curve[0]:.2f} to {curve[-1]:.2f}"
                + (f", {100 * right / seen:.0f} % of the crops right in the last tenth" if seen else ""),
            },
            indent=2,
            sort_keys=True,
        )
        + "\n",
        encoding="utf-8",
    )
    return folder


def at_speed(wave: np.ndarray, speed: float, length: int) -> np.ndarray:
    """A waveform of about ``length * speed`` samples, played at this speed: ``length`` samples."""
    if speed == 1:
        return wave
    return np.resize(audio.resample(wave, round(1000 * speed), 1000), length)


class Crops:
    """Batches of crops, each of which depends on the settings, the data and the number of its step alone."""

    def __init__(
        self,
        settings: Settings,
        speakers: Sequence[str],
        load: Callable[[int], np.ndarray],
        names: Sequence[str],
    ) -> None:
        self.settings, self.utterances = settings, Utterances(load, names)
        self.speakers = sorted(set(speakers))
        number = {speaker: label for label, speaker in enumerate(self.speakers)}
        self.items: list[list[int]] = [[] for _ in self.speakers]
        for item, speaker in enumerate(speakers):
            self.items[number[speaker]].append(item)
        self.length = round(settings.crop_seconds * SAMPLE_RATE)
        self.least = max(round(self.length * speed) for speed in settings.speeds)
        self.short: set[int] = set()

    @property
    def n_classes(self) -> int:
        """Speakers times speeds; class c is speaker c // speeds at speed c % speeds."""
        return len(self.speakers) * len(self.settings.speeds)

    @property
    def n_repeated(self) -> int:
        """Utterances met so far that are shorter than a crop, and were repeated."""
        return len(self.short)

    def waveform(self, item: int) -> np.ndarray:
        """An utterance, at least as long as a crop at the highest speed.

        Raises:
            DataError: it has no samples or some that are not finite.
        """
        wave = self.utterances[item]
        if len(wave) < self.least:
            self.short.add(item)
            wave = np.resize(wave, self.least)
        return wave

    def labels(self, step: int) -> np.ndarray:
        """Classes of a step's batch, int64 [batch]: the next ones of an endless row of shuffled rounds over all classes."""
        return rounds(self.n_classes, step, self.settings.batch, self.settings.seed, "round of classes")

    def batch(self, step: int) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Items [batch], crops float32 [batch, n] and classes int64 [batch] of a step."""
        random = generator(self.settings.seed, "crops", step)
        labels = self.labels(step)
        crops = np.empty((len(labels), self.length), dtype=np.float32)
        chosen = []
        for row, label in enumerate(labels.tolist()):
            speaker, which = divmod(int(label), len(self.settings.speeds))
            item = self.items[speaker][int(random.integers(len(self.items[speaker])))]
            wave, speed = self.waveform(item), self.settings.speeds[which]
            taken = round(self.length * speed)
            start = int(random.integers(len(wave) - taken + 1))
            crops[row] = at_speed(wave[start : start + taken], speed, self.length)
            chosen.append(item)
        return chosen, crops, labels
