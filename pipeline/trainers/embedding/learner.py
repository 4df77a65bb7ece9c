"""The network that learns to tell speakers apart: one step of training at a time, in as many parts as memory takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pipeline.nets import training
from pipeline.nets.checkpoints import add_prefix, take_prefix
from pipeline.nets.margin import AngularMargin
from pipeline.nets.speechbrain_networks import FrontEnd
from pipeline.nets.trainable import Sizes, find_trainable
from pipeline.nets.training import rate_of_cosine, rate_of_triangle, seed_torch
from pipeline.trainers.embedding.crops import Batch

_CLIP = 5.0  # largest norm of all gradients together; SpeechBrain's default, and so VPC's
_EMBEDDED_AT_ONCE = 64  # waveforms that are embedded at a time


class Learner(training.Learner[Batch]):
    """A network, the softmax above it, and their optimiser.

    Args:
        settings: resolved ones of the embedding trainer.
        n_classes: speakers times speeds.
        device: ``cpu`` or ``cuda[:N]``.

    Attributes:
        micro_batch: crops that go through the network at once.

    Raises:
        ConfigError: sizes that the network does not take.
    """

    def __init__(self, settings: Any, n_classes: int, device: str) -> None:
        self.settings, self.device, self.micro_batch = settings, device, settings.micro_batch
        self.extractor = find_trainable(settings.architecture)
        seed_torch(settings.seed, "initial weights")
        sizes = Sizes(settings.n_mels, settings.channels, settings.aggregation, settings.embedding, settings.attention)
        self.model = self.extractor.untrained(sizes).to(device)
        self.head = AngularMargin(settings.embedding, n_classes, settings.margin, settings.scale).to(device)
        self.front_end = FrontEnd(settings.n_mels).to(device)
        self.parameters = [*self.model.parameters(), *self.head.parameters()]
        kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
        self.optimiser: torch.optim.Optimizer = kind(
            self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        self.network = self.extractor.forward_in_training(self.model, dtype)

    def gradients(self, step: int, batch: Batch) -> float:
        """Compute the mean gradient over a batch, in parts of ``micro_batch`` crops, and its mean loss.

        Where memory runs out, the parts are halved for good and the step begins again.

        Raises:
            StageFailed: parts of two crops do not fit either.
        """
        return self.within_memory(
            lambda: self._accumulate(step, batch),
            len(batch.labels),
            least=2,
            device=self.device,
            items=f"crops of {self.settings.crop_seconds} s",
            remedy="set crop_seconds or channels of the training lower",
        )

    def update(self, step: int, steps: int) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = get_learning_rate(self.settings, step, steps)
        torch.nn.utils.clip_grad_norm_(self.parameters, _CLIP)
        self.optimiser.step()

    def embed(self, waves: np.ndarray) -> np.ndarray:
        """Waveforms float32 [n, samples] to embeddings float32 [n, d], as an extractor would."""
        self.model.eval()
        # SpeechBrain's x-vectors have noise in them, also outside of training.
        seed_torch(self.settings.seed, "verification")
        with torch.no_grad():
            parts = [
                self._embed(torch.from_numpy(part).to(self.device)).float().cpu().numpy()
                for part in np.split(waves, range(_EMBEDDED_AT_ONCE, len(waves), _EMBEDDED_AT_ONCE))
            ]
        return np.concatenate(parts)

    def _embed(self, waves: torch.Tensor) -> torch.Tensor:
        return self.extractor.embeddings(self.model, self.front_end(waves))

    def tensors(self) -> dict[str, torch.Tensor]:
        return {**super().tensors(), **add_prefix("head", self.head.state_dict())}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        super().restore(tensors)
        self.head.load_state_dict(take_prefix("head", tensors))

    def _accumulate(self, step: int, batch: Batch) -> float:
        self.model.train()
        seed_torch(self.settings.seed, "step", step)
        self.optimiser.zero_grad(set_to_none=True)
        n = len(batch.labels)
        total = torch.zeros((), device=self.device)
        # A part of one crop has no variance to normalise by.
        for rows in np.array_split(np.arange(n), max(1, min(-(-n // self.micro_batch), n // 2))):
            waves, labels = (torch.from_numpy(values[rows]).to(self.device) for values in (batch.crops, batch.labels))
            with torch.no_grad():
                frames = self.front_end(waves)
            loss, _ = self.head(self.network(frames), labels)
            loss = loss * (len(rows) / n)
            loss.backward()
            total += loss.detach()
        return float(total)


def get_learning_rate(settings: Any, step: int, steps: int) -> float:
    """The learning rate of a step (from 0)."""
    if settings.schedule == "cosine":
        return float(settings.learning_rate * rate_of_cosine(step, steps, settings.warm_up))
    low = settings.lowest_learning_rate
    return float(low + (settings.learning_rate - low) * rate_of_triangle(step, settings.half_cycle))
