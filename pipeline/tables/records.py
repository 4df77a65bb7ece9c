"""Records as artefacts: a few named numbers, or how a training went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS, TRAINING = "numbers.json", "training.json"
SILENCE = "digital_silence"
"""What the notes of an artefact of whole recordings call it: ``files`` that were decoded, and for each of those that begins or
ends with digital silence the ``milliseconds`` of it at both ends together."""


def write(folder: Path, numbers: Mapping[str, Any]) -> None:
    """Write numbers, texts and lists of them."""
    text = json.dumps(numbers, indent=2, sort_keys=True, default=_plain)
    (folder / NUMBERS).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The numbers in a folder."""
    found: dict[str, Any] = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    return found


def training(folder: Path) -> dict[str, Any]:
    """The record of a training; it has a ``summary`` in a line."""
    found: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else str(value)
