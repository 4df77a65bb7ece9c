"""JSON records: numbers and trainings of artefacts, and records that show whether they are what was written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS, TRAINING = "numbers.json", "training.json"
SILENCE = "digital_silence"
"""What the notes of an artefact of whole recordings call it: ``files`` that were decoded, and for each of those that begins or
ends with digital silence the ``milliseconds`` of it at both ends together."""
_CHECK = "check"


def write(folder: Path, numbers: Mapping[str, Any]) -> None:
    """Write numbers, texts and lists of them."""
    text = json.dumps(numbers, indent=2, sort_keys=True, default=_make_plain)
    (folder / NUMBERS).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The numbers in a folder."""
    numbers: dict[str, Any] = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    return numbers


def read_training(folder: Path) -> dict[str, Any]:
    """The record of a training; it has a ``summary`` in a line."""
    record: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
    return record


def _make_plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else str(value)


def encode_signed(record: Mapping[str, Any]) -> str:
    """A record of plain JSON values as text with a digest over all of it; :func:`decode_signed` reads it."""
    return json.dumps({**record, _CHECK: _digest(record)}, indent=1) + "\n"


def decode_signed(content: bytes) -> dict[str, Any]:
    """What :func:`encode_signed` was given. A record without a digest, of an earlier version or another program, is taken as it is.

    Raises:
        ValueError: it is no JSON, no mapping, or not what was written.
    """
    try:
        record = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is no JSON of ours") from None
    if not isinstance(record, dict):
        raise ValueError("it is no mapping")
    check = record.pop(_CHECK, None)
    # Where a bit of the name of the digest has changed, the digest stands there by another name.
    nameless = any(isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in record.values())
    if nameless if check is None else check != _digest(record):
        raise ValueError("its bytes are not those that were written")
    return record


def _digest(record: Mapping[str, Any]) -> str:
    # As it is read again: tuples are lists by then, and all keys are texts.
    decoded = json.loads(json.dumps(record))
    return hashlib.sha256(json.dumps(decoded, sort_keys=True).encode()).hexdigest()
