"""What trainers ask of an extractor whose network they make or adapt; they know nothing of the network but this.

An extractor that derives from :class:`Trainable` beside :class:`pipeline.contracts.Extractor` can be trained by
``train=default``. One that derives from :class:`Finetunable` has a network that comes with weights, and can be adapted to a
system by ``train=finetune``: a trunk, which may stay as it is, and a last block, which learns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline.contracts import Training
from pipeline.errors import ConfigError
from pipeline.registry import component, list_names

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sizes:
    """How large a network is to be.

    Attributes:
        n_mels: log-mel bands of a frame.
        channels: of the first convolution and of the blocks or layers after it.
        aggregation: channels of the layer before the pooling.
        embedding: dimensions of the embedding.
        attention: channels of the attention; None where the network has none (:attr:`Trainable.without`).
    """

    n_mels: int
    channels: tuple[int, ...]
    aggregation: int
    embedding: int
    attention: int | None = None


class Trainable(ABC):
    """An extractor whose network a trainer can make.

    The trainer writes the tensors of the network by name into ``embedding_model.safetensors``, of which the extractor is
    then built.

    Attributes:
        without: fields of :class:`Sizes` that mean nothing to the network; the trainer then has no such setting.
    """

    without: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    @abstractmethod
    def untrained(cls, sizes: Sizes) -> torch.nn.Module:
        """A network whose weights are drawn from torch's global generator.

        Raises:
            ConfigError: there is no network of these sizes.
        """

    @classmethod
    def embeddings(cls, model: torch.nn.Module, frames: torch.Tensor) -> torch.Tensor:
        """Frames float32 [b, t, n_mels], log-mels less their mean, to embeddings [b, d], as the extractor computes them."""
        vectors: torch.Tensor = model(frames)
        return vectors

    @classmethod
    def forward_in_training(cls, model: torch.nn.Module, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
        """Frames [b, t, n_mels] to embeddings float32 [b, d], with gradients; the convolutions are computed in ``dtype``.

        By default that is :meth:`embeddings` under autocast. A network with a faster way of its own gives that.
        """
        import torch

        def forward(frames: torch.Tensor) -> torch.Tensor:
            with torch.autocast(frames.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
                vectors = cls.embeddings(model, frames)
            return vectors.float()

        return forward


class Finetunable(ABC):
    """An extractor whose network can be fine-tuned.

    Vectors that the parts below make of one waveform are those that the extractor makes of it alone, to a cosine distance of
    1e-4. By default the network of :meth:`pretrained` has all but that one as methods of its own.
    """

    @classmethod
    @abstractmethod
    def pretrained(cls, settings: Any, weights: Path) -> torch.nn.Module:
        """The network with the weights of a folder, in evaluation mode and float32 on the CPU, for :meth:`frames` to
        :meth:`write`."""

    @classmethod
    def frames(cls, settings: Any, model: Any, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms float32 [b, n] at 16 kHz to what the trunk takes, [b, time, bands], level and means set as the
        extractor's settings ask."""
        frames: torch.Tensor = model.frames(waves)
        return frames

    @classmethod
    def trunk(cls, model: Any, frames: torch.Tensor) -> torch.Tensor:
        """Frames to what the last block takes, [b, ...]."""
        hidden: torch.Tensor = model.trunk(frames)
        return hidden

    @classmethod
    def last(cls, model: Any, hidden: torch.Tensor) -> torch.Tensor:
        """What the trunk gave to embeddings float32 [b, d]."""
        vectors: torch.Tensor = model.last(hidden)
        return vectors

    @classmethod
    def learnt(cls, model: Any, layers: str) -> Iterable[torch.nn.Parameter]:
        """The parameters that learn: of the ``last`` block and what follows it, or ``all``."""
        parameters: Iterable[torch.nn.Parameter] = model.learnt(layers)
        return parameters

    @classmethod
    def write(cls, model: Any, folder: Path) -> None:
        """Write the network's tensors into a folder, as a file that the extractor takes as its weights."""
        model.write(folder)


def find_trainable(extractor: str) -> type[Trainable]:
    """The extractor of a name; raises ConfigError where there is none, or its network cannot be trained."""
    chosen: type[Trainable] = _find_capable(extractor, Trainable, "trained")
    return chosen


def find_finetunable(extractor: str) -> type[Finetunable]:
    """The extractor of a name; raises ConfigError where there is none, or its network cannot be fine-tuned."""
    chosen: type[Finetunable] = _find_capable(extractor, Finetunable, "fine-tuned")
    return chosen


def _find_capable(extractor: str, kind: Any, verb: str) -> Any:
    chosen = component("extractors", extractor)
    if not issubclass(chosen, kind):
        able = [name for name in list_names("extractors") if issubclass(component("extractors", name), kind)]
        raise ConfigError(f"the network of '{extractor}' cannot be {verb}", remedy=f"known: {', '.join(able)}")
    return chosen


def choose_finetuning(extractor: type[Any], chosen: Training | None) -> Training | None:
    """What adapts an extractor with weights to a system: the chosen trainer of the group ``train`` if it can, else fine-tuning as it
    is by default; with None nothing is trained."""
    if chosen is None or chosen.trainer.trains(extractor):
        return chosen
    trainer = component("trainers", "finetune")
    return Training(trainer, trainer.Settings.model_validate({"name": "finetune"}))
