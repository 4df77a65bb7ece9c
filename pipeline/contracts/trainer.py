"""What a trainer is: a training set to the weights of an extractor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from pipeline.contracts.component import Component
from pipeline.contracts.extractor import Extractor


class Waveforms(Protocol):
    """Utterances at 16 kHz, whose audio is read when somebody asks.

    Attributes:
        ids: names of the utterances.
        speakers: whose they are.
        lengths: samples of each, int64 [n], all at least 1.
        digest: of samples and all below.
        sexes: ``f``, ``m`` or ``u`` of each.
        recordings: the recording that each is, or is a piece of.
        draws: under which draw of a system's random numbers each was anonymised, from 0, int64 [n].
        own: whether each is speech of the system that is attacked, and not another's that helps to train, bool [n].
        seconds: length of all utterances together.
    """

    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def speakers(self) -> tuple[str, ...]: ...
    @property
    def lengths(self) -> np.ndarray: ...
    @property
    def digest(self) -> str: ...
    @property
    def sexes(self) -> tuple[str, ...]: ...
    @property
    def recordings(self) -> tuple[str, ...]: ...
    @property
    def draws(self) -> np.ndarray: ...
    @property
    def own(self) -> np.ndarray: ...
    @property
    def seconds(self) -> float: ...

    def __len__(self) -> int: ...

    def piece(self, item: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Samples ``start`` to ``stop`` (the end by default) of an utterance, float32."""


@dataclass(frozen=True)
class Pretrained:
    """An extractor with the weights that a training begins with."""

    extractor: type[Extractor]
    settings: Any
    folder: Path


class Trainer(Component):
    """Makes the weights of an extractor from a training set.

    ``Settings`` have numeric fields alone; equal settings on equal speech give equal weights, and one training.

    Attributes:
        adapts: whether a training begins with weights that the extractor has, instead of from nothing.
        holds_out: whether it never learns from the speakers whom ``protocol.held_out`` holds out, so that attacks with what it
            makes can be judged on them.
    """

    adapts: ClassVar[bool] = False
    holds_out: ClassVar[bool] = False

    @classmethod
    def trains(cls, extractor: type[Extractor]) -> bool:
        """Whether it can make the weights of this extractor. By default none: an extractor may bring its own trainer."""
        return False

    @classmethod
    def resolved(cls, settings: Any, extractor: str, n_speakers: int, seconds: float) -> Any:
        """The settings without nulls that stand for a choice, for the component ``extractor`` and a training set of so many speakers
        and seconds of speech."""
        return settings

    @classmethod
    def share(cls, settings: Any) -> float:
        """Which part of the training utterances is used, 0 < share <= 1; each speaker keeps one at least."""
        return 1.0

    @classmethod
    def other_systems(cls, settings: Any) -> tuple[str, ...]:
        """Labels of systems whose anonymised training sets help to train an attack on another one."""
        return ()

    @classmethod
    def code(cls, settings: Any) -> tuple[str, ...]:
        """Modules beside the trainer's own that make the weights, such as that of the network."""
        return ()

    @classmethod
    @abstractmethod
    def cost(cls, settings: Any) -> float:
        """Seconds of audio that are heard at most, for progress."""

    @classmethod
    @abstractmethod
    def train(
        cls,
        settings: Any,
        waveforms: Waveforms,
        folder: Path,
        *,
        device: str,
        pretrained: Pretrained | None = None,
        scratch: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> bool:
        """Train, and write the weights and ``training.json`` (a record with a ``summary`` in a line) into a folder.

        Args:
            settings: resolved.
            waveforms: utterances at 16 kHz and whose they are.
            folder: an existing folder; the extractor takes it as its weights.
            device: ``cpu`` or ``cuda[:N]``.
            pretrained: what to begin with, where :attr:`adapts`.
            scratch: an existing folder for checkpoints, from which a later call goes on.
            stopping: asked after each step whether to end early.
            progress: called with steps done, steps in all and the loss.

        Returns:
            Whether it is done; else ``stopping`` said to end.
        """


@dataclass(frozen=True)
class Training:
    """A trainer with its settings.

    Attributes:
        label: what messages call what is trained.
    """

    trainer: type[Trainer]
    settings: Any
    label: str = ""
