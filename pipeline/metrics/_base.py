"""What all metrics stand on: the checks of their input, what they refuse, and the fields of their results.

Conventions: scores are float64 vectors in which infinities pass and NaN does not; speakers are integer codes from 0.
A field's direction is that of privacy: ``higher`` where a higher value is more private. Its range is [lowest, highest].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class MetricError(ValueError):
    """The input cannot be measured: NaN, an empty class, a speaker without the comparisons that a metric needs."""


class Undefined(MetricError):
    """The input is sound, but the metric has no value on it (a ratio to 0, for example); the message is the reason."""


def check_vector(values: npt.ArrayLike, name: str) -> Array:
    """``values`` as float64 [n]; infinities pass.

    Raises:
        MetricError: not one-dimensional, or NaN.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise MetricError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if np.isnan(array).any():
        raise MetricError(f"{name}: {int(np.isnan(array).sum())} of {array.size} values are NaN")
    return array


def check_classes(target: npt.ArrayLike, nontarget: npt.ArrayLike) -> tuple[Array, Array]:
    """Both classes of scores as float64 vectors, each with at least one score.

    Raises:
        MetricError: NaN or an empty class.
    """
    pair = check_vector(target, "target scores"), check_vector(nontarget, "non-target scores")
    for array, name in zip(pair, ("target", "non-target")):
        if not array.size:
            raise MetricError(f"there is no {name} score")
    return pair


def check_codes(values: npt.ArrayLike, name: str) -> Indices:
    """Non-negative integer codes [n].

    Raises:
        MetricError: not one-dimensional, not integers, or negative.
    """
    array = np.asarray(values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise MetricError(f"{name} must be a vector of integer codes, not {array.dtype} of shape {array.shape}")
    if array.size and array.min() < 0:
        raise MetricError(f"{name} has negative codes")
    return array.astype(np.int64, copy=False)


def round_means(means: npt.ArrayLike) -> Array:
    """Means or sums of scores, to be ranked or compared: 12 decimals (fewer where they are above 1), so that those tie that tie in exact
    arithmetic. (0.2 + 0.4 is not 0.6 in binary.) NaN and infinities pass."""
    values = np.asarray(means, dtype=np.float64)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    rounded: Array = np.round(values, 12 - max(0, math.ceil(math.log10(largest))) if largest > 0 else 12)
    return rounded


def check_choice(value: str, allowed: tuple[str, ...], name: str) -> None:
    """Raises MetricError unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise MetricError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def list_some(names: list[str], limit: int = 10) -> str:
    """The first names of a list, and how many there are if that is not all."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"


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


def group(kind: type) -> Any:
    """A field of a result type that is a record of some of its values: :func:`flatten` puts them in its place."""
    meaning = (kind.__doc__ or "").strip()
    return dataclasses.field(
        metadata={"unit": "", "meaning": meaning, "private": "", "bounds": UNBOUNDED, "group": kind}
    )


def describe(result: Any) -> Mapping[str, Mapping[str, Any]]:
    """``unit``, ``meaning``, ``private`` (direction) and ``bounds`` of each field of a result (or result type) by name."""
    return {f.name: dict(f.metadata) for f in dataclasses.fields(result) if f.metadata}


def flatten(result: Any) -> dict[str, Any]:
    """The values of a result by the names of their fields, those of its groups among them."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(result):
        value = getattr(result, field.name)
        values |= flatten(value) if "group" in field.metadata else {field.name: value}
    return values
