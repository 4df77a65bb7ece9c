"""Digests of plain values and the random generators seeded by them; light, so that every verb can afford it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np


def digest(*parts: Any) -> str:
    """sha256 (hex) over a sequence of plain values, as canonical JSON; the one way in which seeds and keys are made."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def generator(seed: int, purpose: str, *ids: str | int) -> np.random.Generator:
    """A random generator that depends on (seed, purpose, ids) alone, never on position, process or order.

    See conf/README.md, section 14.
    """
    return np.random.default_rng(int(digest(seed, purpose, *ids), 16))
