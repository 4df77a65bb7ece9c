"""What components of all kinds have: settings, libraries and weights."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pipeline.contracts.fields import ComponentSettings


@dataclass(frozen=True)
class Weights:
    """A folder of weights and the sha256 over the names and bytes of its files."""

    folder: Path
    digest: str


@dataclass(frozen=True)
class Download:
    """What ``fetch-models`` would bring.

    Attributes:
        source: where it comes from.
        bytes: that are downloaded; None where that is unknown.
        licence: of the weights; '' where it is unknown.
    """

    source: str
    bytes: int | None = None
    licence: str = ""

    def __str__(self) -> str:
        size = f"{(self.bytes or 0) / 1e9:.2f} GB" if (self.bytes or 0) >= 1e9 else f"{(self.bytes or 0) / 1e6:.1f} MB"
        size = "unknown size" if self.bytes is None else size
        return f"{self.source}, {size}, licence {self.licence or 'unknown'}"


class Component(ABC):
    """What components of all kinds have.

    Attributes:
        Settings: the model of its settings, with a field ``name``.
        libraries: distributions whose major.minor version changes its numbers; they enter keys.
    """

    Settings: ClassVar[type[ComponentSettings]]
    libraries: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        """The weights that these settings ask for, on this machine (``models`` is ``paths.models``); None where none are needed or the
        run makes them.

        Raises:
            ModelMissing: they are not here, or are not what their checksum says; with the command that mends it.
        """
        return None

    @classmethod
    def fetch(cls, settings: Any, models: Path) -> None:
        """Bring the weights to this machine, where :meth:`weights` raises: only the verb ``fetch-models`` calls this.

        Raises:
            ModelMissing: they cannot be had; the remedy says which files to put where by hand.
        """
        cls.weights(settings, models)

    @classmethod
    def download(cls, settings: Any) -> Download | None:
        """What :meth:`fetch` would download; None where it downloads nothing."""
        return None
