"""What fine-tuning asks of an extractor whose network comes with weights.

An extractor that derives from :class:`Finetunable` beside :class:`pipeline.contracts.Extractor` can be adapted to a system by
``train=finetune``; the trainer knows nothing of the network but this. A network is a trunk, which may stay as it is, and a last
block, which learns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.contracts import Training
from pipeline.errors import ConfigError
from pipeline.registry import component, names

if TYPE_CHECKING:
    import torch


class Finetunable(ABC):
    """An extractor whose network can be fine-tuned.

    Vectors that the parts below make of one waveform are those that the extractor makes of it alone, to a cosine distance of
    1e-4.
    """

    @classmethod
    @abstractmethod
    def pretrained(cls, settings: Any, weights: Path) -> torch.nn.Module:
        """The network with the weights of a folder, in evaluation mode and float32 on the CPU, for :meth:`frames` to
        :meth:`write`."""

    @classmethod
    @abstractmethod
    def frames(cls, settings: Any, model: torch.nn.Module, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms float32 [b, n] at 16 kHz to what the trunk takes, [b, time, bands], level and means set as the
        extractor's settings ask."""

    @classmethod
    @abstractmethod
    def trunk(cls, model: torch.nn.Module, frames: torch.Tensor) -> torch.Tensor:
        """Frames to what the last block takes, [b, ...]."""

    @classmethod
    @abstractmethod
    def last(cls, model: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        """What the trunk gave to embeddings float32 [b, d]."""

    @classmethod
    @abstractmethod
    def learnt(cls, model: torch.nn.Module, layers: str) -> Iterable[torch.nn.Parameter]:
        """The parameters that learn: of the ``last`` block and what follows it, or ``all``."""

    @classmethod
    @abstractmethod
    def write(cls, model: torch.nn.Module, folder: Path) -> None:
        """Write the network's tensors into a folder, as a file that the extractor takes as its weights."""


def finetunable(extractor: str) -> type[Finetunable]:
    """The extractor of a name.

    Raises:
        ConfigError: there is none of this name, or its network cannot be fine-tuned.
    """
    found = component("extractors", extractor)
    if not issubclass(found, Finetunable):
        able = [name for name in names("extractors") if issubclass(component("extractors", name), Finetunable)]
        raise ConfigError(f"the network of '{extractor}' cannot be fine-tuned", remedy=f"known: {', '.join(able)}")
    return cast(type[Finetunable], found)


def finetuning(extractor: type[Any], chosen: Training | None) -> Training | None:
    """What adapts an extractor with weights to a system: the chosen trainer if it can, else fine-tuning as it is by default.

    Args:
        extractor: its class.
        chosen: the trainer of the group ``train``; with None nothing is trained.
    """
    if chosen is None or chosen.trainer.trains(extractor):
        return chosen
    trainer = component("trainers", "finetune")
    return Training(trainer, trainer.Settings.model_validate({"name": "finetune"}))
