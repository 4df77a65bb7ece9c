"""Digests of plain values and the random generators seeded by them; light, so that every verb can afford it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode
"""A plain value as canonical JSON."""


def digest(*parts: Any) -> str:
    """sha256 (hex) over a sequence of plain values, as canonical JSON; the one way in which seeds and keys are made."""
    return hashlib.sha256(canonical(parts).encode("utf-8")).hexdigest()


def digest_of_texts(*parts: str) -> str:
    """The same over values of which the canonical JSON is given, for those who have it already."""
    return hashlib.sha256(f"[{','.join(parts)}]".encode()).hexdigest()


def generator(seed: int, purpose: str, *ids: str | int) -> np.random.Generator:
    """A random generator that depends on (seed, purpose, ids) alone, never on position, process or order.

    See conf/README.md, section 14.
    """
    return np.random.default_rng(int(digest(seed, purpose, *ids), 16))
