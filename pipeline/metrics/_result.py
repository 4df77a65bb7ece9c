"""How the fields of result types say their unit, their direction, their range and what they mean.

Conventions: the direction is that of privacy: ``higher`` where a higher value is more private. A range is [lowest,
highest], in the unit of the field.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

UNBOUNDED = (-math.inf, math.inf)


def quantity(
    unit: str, meaning: str, private: str = "", *, bounds: tuple[float, float] = UNBOUNDED, **options: Any
) -> Any:
    """A field of a result type, for the report and the documentation.

    Args:
        unit: ``bit``, ``dB``, ``log10``, ``nat``, ``fraction``, ``count``, ``label`` or ``""``.
        meaning: one sentence.
        private: ``higher`` or ``lower`` where a higher or lower value means better privacy, else ``""``.
        bounds: the lowest and the highest value that a number can have; infinite where there is no limit.
        options: passed to :func:`dataclasses.field`.
    """
    return dataclasses.field(
        metadata={"unit": unit, "meaning": meaning, "private": private, "bounds": bounds}, **options
    )


def describe(result: Any) -> Mapping[str, Mapping[str, Any]]:
    """``unit``, ``meaning``, ``private`` (direction) and ``bounds`` of each field of a result (or result type) by name."""
    return {f.name: dict(f.metadata) for f in dataclasses.fields(result) if f.metadata}
