"""How the fields of result types say their unit, their direction and what they mean.

Conventions: the direction is that of privacy: ``higher`` where a higher value is more private.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def quantity(unit: str, meaning: str, private: str = "", **options: Any) -> Any:
    """A field of a result type, for the report and the documentation.

    Args:
        unit: ``bit``, ``dB``, ``log10``, ``nat``, ``fraction``, ``count``, ``label`` or ``""``.
        meaning: one sentence.
        private: ``higher`` or ``lower`` where a higher or lower value means better privacy, else ``""``.
        options: passed to :func:`dataclasses.field`.
    """
    return dataclasses.field(metadata={"unit": unit, "meaning": meaning, "private": private}, **options)


def describe(result: Any) -> Mapping[str, Mapping[str, str]]:
    """Unit, meaning and direction of each field of a result (or result type) by name."""
    return {f.name: dict(f.metadata) for f in dataclasses.fields(result) if f.metadata}
