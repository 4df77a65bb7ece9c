"""What a trainer of speaker embeddings asks of an extractor whose network it makes.

An extractor that derives from :class:`Trainable` beside :class:`pipeline.contracts.Extractor` can be trained by
``train=default``; the trainer knows nothing of the network but this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from pipeline.errors import ConfigError
from pipeline.registry import component, names

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
        made: torch.Tensor = model(frames)
        return made

    @classmethod
    def forward_in_training(cls, model: torch.nn.Module, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
        """Frames [b, t, n_mels] to embeddings float32 [b, d], with gradients; the convolutions are computed in ``dtype``.

        By default that is :meth:`embeddings` under autocast. A network with a faster way of its own gives that.
        """
        import torch

        def forward(frames: torch.Tensor) -> torch.Tensor:
            with torch.autocast(frames.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
                made = cls.embeddings(model, frames)
            return made.float()

        return forward


def trainable(extractor: str) -> type[Trainable]:
    """The extractor of a name.

    Raises:
        ConfigError: there is none of this name, or its network cannot be trained.
    """
    found = component("extractors", extractor)
    if not issubclass(found, Trainable):
        able = [name for name in names("extractors") if issubclass(component("extractors", name), Trainable)]
        raise ConfigError(f"the network of '{extractor}' cannot be trained", remedy=f"known: {', '.join(able)}")
    return cast(type[Trainable], found)
