"""The network that is fine-tuned: what it makes of views, and one step of training at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch

from pipeline.contracts import Pretrained
from pipeline.errors import StageFailed
from pipeline.nets import training
from pipeline.nets.checkpoints import add_prefix, get_optimiser_tensors, restore_optimiser, take_prefix
from pipeline.nets.margin import AngularMargin
from pipeline.nets.trainable import Finetunable
from pipeline.nets.training import rate_of_cosine, seed_torch
from pipeline.seeds import generator
from pipeline.trainers.finetune.pieces import Pieces, View, Views

VERSION = "finetune learner 1"

Batch = tuple[list[View], np.ndarray]
"""The views of a step and their classes, int64 [n]."""

CACHE = 2_000_000_000
"""Bytes of what the trunk gave that are kept at most; beyond, it is computed again whenever it is needed."""

_CLIP = 5.0  # largest norm of all gradients together
_EMBEDDED_AT_ONCE = 8  # pieces that are embedded at a time
_STARTED_FROM = 3  # views of a class whose mean vector its weights begin as, at most


class Learner(training.Learner[Batch]):
    """A network that came with weights, the softmax above it, and their optimiser.

    Batch normalisation stays in evaluation mode: its statistics are those that the network came with.

    Args:
        settings: resolved ones of the trainer.
        pretrained: the network.
        pieces: all that are heard.
        views: those that are trained on.
        device: ``cpu`` or ``cuda[:N]``.

    Attributes:
        digest: of the network as it came.
        micro_batch: pieces that go through the network at once.
    """

    def __init__(self, settings: Any, pretrained: Pretrained, pieces: Pieces, views: Views, device: str) -> None:
        self.settings, self.pieces, self.views, self.device = settings, pieces, views, device
        self.pretrained, self.on_cpu = pretrained, torch.device(device).type == "cpu"
        self.micro_batch = settings.micro_batch or (8 if self.on_cpu else 64)
        self.extractor = cast(type[Finetunable], pretrained.extractor)
        model = self.extractor.pretrained(pretrained.settings, pretrained.folder)
        self.digest = _digest(model)
        self.model = model.to(device).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        self.learnt = list(dict.fromkeys(self.extractor.learnt(self.model, settings.layers)))
        for parameter in self.learnt:
            parameter.requires_grad_(True)
        self.dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        self.cache: dict[View, torch.Tensor] = {}
        self.cached = 0
        self.head: AngularMargin | None = None

    def begin(self, stopping: Callable[[], bool]) -> bool:
        """Begin the weights of each class as the mean vector of some of its views; False if ``stopping`` said to end."""
        means = []
        for label in range(self.views.n_classes):
            if stopping():
                return False
            vectors = self.embed(self.views.first(label, _STARTED_FROM)).astype(np.float64)
            means.append((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(0))
        self._crown(torch.from_numpy(np.stack(means).astype(np.float32)))
        return True

    def _crown(self, directions: torch.Tensor) -> None:
        """Put the softmax above the network, and make the optimiser of both."""
        n_classes, dimension = directions.shape
        self.head = AngularMargin(dimension, n_classes, self.settings.margin, self.settings.scale).to(self.device)
        with torch.no_grad():
            self.head.directions.copy_(directions)
        groups = [
            {"params": self.learnt, "lr": self.settings.learning_rate},
            {"params": list(self.head.parameters()), "lr": self.settings.head_learning_rate},
        ]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=self.settings.weight_decay)

    def gradients(self, step: int, batch: Batch) -> float:
        """Compute the mean gradient over a step's pieces, in parts of ``micro_batch``, and their mean loss.

        Where memory runs out, the parts are halved for good and the step begins again.

        Raises:
            StageFailed: one piece does not fit either.
        """
        views, labels = batch
        return self.within_memory(
            lambda: self._accumulate(step, views, torch.from_numpy(labels).to(self.device)),
            len(views),
            least=1,
            device=self.device,
            items=f"pieces of {self.settings.piece_seconds:g} s",
            remedy="set piece_seconds or layers of the training lower",
        )

    def update(self, step: int, steps: int) -> None:
        assert self.head is not None
        part = rate_of_cosine(step, steps, self.settings.warm_up / steps)
        rates = (self.settings.learning_rate, self.settings.head_learning_rate)
        for group, rate in zip(self.optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * part
        torch.nn.utils.clip_grad_norm_([*self.learnt, *self.head.parameters()], _CLIP)
        self.optimiser.step()

    def embed(self, views: Sequence[View]) -> np.ndarray:
        """The vectors of views as the extractor would make them, float32 [n, d]."""
        vectors = []
        with torch.no_grad():
            for first in range(0, len(views), _EMBEDDED_AT_ONCE):
                hidden = self._hidden(views[first : first + _EMBEDDED_AT_ONCE], None)
                vectors.append(self.extractor.last(self.model, hidden).float().cpu().numpy())
        return np.concatenate(vectors)

    def weights(self) -> dict[str, torch.Tensor]:
        return {str(place): parameter.detach().cpu().clone() for place, parameter in enumerate(self.learnt)}

    def take(self, weights: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for place, parameter in enumerate(self.learnt):
                parameter.copy_(weights[str(place)])

    def tensors(self) -> dict[str, torch.Tensor]:
        assert self.head is not None
        return {
            **add_prefix("learnt", {str(place): parameter.detach() for place, parameter in enumerate(self.learnt)}),
            "directions": self.head.directions.detach(),
            **add_prefix("optimiser", get_optimiser_tensors(self.optimiser)),
        }

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        self._crown(tensors["directions"])
        self.take(take_prefix("learnt", tensors))
        restore_optimiser(self.optimiser, take_prefix("optimiser", tensors))

    def measure_cache(self, sample: View) -> tuple[int, int]:
        """Bytes of a view in the cache, and how many views fit in."""
        size = self._trunk([sample], None)[0].nbytes if self.settings.layers == "last" else 0
        return size, CACHE // size if size else 0

    def _accumulate(self, step: int, views: Sequence[View], labels: torch.Tensor) -> float:
        assert self.head is not None
        seed_torch(self.settings.seed, "step", step)
        for parameter in (*self.learnt, *self.head.parameters()):
            parameter.grad = None
        n, total = len(views), 0.0
        for rows in np.array_split(np.arange(n), -(-n // min(n, self.micro_batch))):
            hidden = self._hidden([views[row] for row in rows], step)
            with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
                vectors = self._vectors(hidden)
            loss, _ = self.head(vectors.float(), labels[torch.from_numpy(rows).to(labels.device)])
            loss = loss * (len(rows) / n)
            loss.backward()
            total += float(loss.detach())
        return total

    def _vectors(self, hidden: torch.Tensor) -> torch.Tensor:
        """Embeddings with gradients, of what goes into the layers that learn."""
        if self.settings.layers == "all":
            hidden = self.extractor.trunk(self.model, hidden)
        return self.extractor.last(self.model, hidden)

    def _hidden(self, views: Sequence[View], step: int | None) -> torch.Tensor:
        """What the layers that are computed anew take, without gradients: with ``layers: last`` what the trunk gives, else
        frames in a step and what the trunk gives outside of one."""
        with torch.no_grad():
            if self.settings.layers == "all":
                frames = self._frames(views, step)
                return frames if step is not None else self.extractor.trunk(self.model, frames)
            missing = [view for view in dict.fromkeys(views) if view not in self.cache]
            computed = dict(zip(missing, self._trunk(missing, step), strict=True))
            stacked = torch.stack(
                [(computed[view] if view in computed else self.cache[view]).float() for view in views]
            )
            for view, hidden in computed.items():
                if self.cached + hidden.nbytes <= CACHE:
                    self.cache[view] = hidden
                    self.cached += hidden.nbytes
            return stacked

    def _trunk(self, views: Sequence[View], step: int | None) -> list[torch.Tensor]:
        """What the trunk gives for each view, rounded to float16 whether it is kept or not.

        On a CPU each is computed alone: which are missing differs after a kill, and the bytes must not.
        """
        at_once = 1 if self.on_cpu else self.micro_batch
        hidden: list[torch.Tensor] = []
        with torch.no_grad():
            for first in range(0, len(views), at_once):
                frames = self._frames(views[first : first + at_once], step)
                hidden += [_round_to_half(values) for values in self.extractor.trunk(self.model, frames)]
        return hidden

    def _frames(self, views: Sequence[View], step: int | None) -> torch.Tensor:
        waves = np.stack([self.pieces.wave(view.piece, view.speed) for view in views])
        frames = self.extractor.frames(self.pretrained.settings, self.model, torch.from_numpy(waves).to(self.device))
        if any(view.masked for view in views):
            # What is computed once has the masks of its view; all others have new ones in each step.
            turn = -1 if self.settings.layers == "last" or step is None else step
            frames = torch.stack([self._mask(part, view, turn) for part, view in zip(frames, views, strict=True)])
        return frames

    def _mask(self, frames: torch.Tensor, view: View, turn: int) -> torch.Tensor:
        """Frames [time, bands] with a stretch of time and one of bands put to the mean of each band (SpecAugment, Park et al.
        2019, arXiv 1904.08779)."""
        masks = self.settings.spec_augment
        if not view.masked or masks is None:
            return frames
        random = generator(self.settings.seed, "masks", view.piece, repr(view.speed), turn)
        masked, mean = frames.clone(), frames.mean(0)
        time, bands = frames.shape
        for axis, most, n in ((0, masks.time, time), (1, masks.bands, bands)):
            width = int(random.integers(min(most, n - 1) + 1))
            start = int(random.integers(n - width + 1))
            if axis == 0:
                masked[start : start + width] = mean
            else:
                masked[:, start : start + width] = mean[start : start + width]
        return masked


def _round_to_half(hidden: torch.Tensor) -> torch.Tensor:
    half = hidden.half()
    return half if bool(torch.isfinite(half).all()) else hidden.clone()


def _digest(model: torch.nn.Module) -> str:
    """sha256 over the tensors of a network."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def check_vectors(vectors: np.ndarray, views: Sequence[View], pieces: Pieces, step: int) -> np.ndarray:
    """Vectors of views after so many steps, if they are finite.

    Raises:
        StageFailed: some are not, with the utterances.
    """
    bad = [view for view, good in zip(views, np.isfinite(vectors).all(1).tolist(), strict=True) if not good]
    if bad:
        names = sorted({pieces.audio.ids[int(pieces.items[view.piece])] for view in bad})
        raise StageFailed(
            f"the network gives vectors that are not finite after {step} steps",
            where=f"utterances {', '.join(names[:5])}",
            cause="a learning rate that is too high"
            if step
            else "weights that are broken, or audio that is not speech",
            remedy="lower learning_rate" if step else "listen to these utterances, or fetch the weights again",
        )
    return vectors
