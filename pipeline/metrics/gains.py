"""Measures of a protected system relative to unprotected speech (Noe 2022, Eq. 17-20, corrected).

See pipeline/metrics/README.md, section 12.

Conventions: D_ECE and Cllr_min come in bits, after oracle calibration, in the order OO, OP, PP; ratios are fractions,
where higher is more private, and gains are dB. In Eq. 20, PP stands in the numerator. Where the original speech
discloses nothing (D_ECE(OO) is 0, Cllr_min(OO) is 1), they are Undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.metrics._base import Undefined, quantity

# Sums over many trials leave rounding of this order where the exact value is 0.
_ZERO = 1e-12

NORMALISED_BOUNDS = {
    "d_ece_op_oo": (-math.inf, 1.0),
    "cllr_min_op_oo": (-math.inf, 1.0),
    "g_d_ece": (-math.inf, math.inf),
    "g_cllr_min": (-math.inf, math.inf),
}
"""Range of each measure."""


@dataclass(frozen=True)
class Normalised:
    """Eq. 17-20 of one system; a value that does not exist is None, with its reason in ``reasons``."""

    d_ece_op_oo: float | None = quantity(
        "fraction", "1 - D_ECE(OP)/D_ECE(OO): disclosed information removed", "higher", bounds=(-math.inf, 1.0)
    )
    cllr_min_op_oo: float | None = quantity(
        "fraction", "(C(OP) - C(OO))/(1 - C(OO)) of Cllr_min", "higher", bounds=(-math.inf, 1.0)
    )
    g_d_ece: float | None = quantity("dB", "10 log10(D_ECE(PP)/D_ECE(OO)): gain of voice distinctiveness")
    g_cllr_min: float | None = quantity("dB", "10 log10((1 - C(PP))/(1 - C(OO))) of Cllr_min")
    reasons: Mapping[str, str] = quantity("", "why a value is missing, by name")


def d_ece_op_oo(oo: float, op: float) -> float:
    """1 - D_ECE(OP)/D_ECE(OO), a fraction (Eq. 17): 0 nothing gained, 1 nothing left."""
    if abs(oo) <= _ZERO:
        raise Undefined("the original speech discloses nothing: D_ECE(OO) is 0")
    return 1 - op / oo


def cllr_min_op_oo(oo: float, op: float) -> float:
    """(Cllr_min(OP) - Cllr_min(OO)) / (1 - Cllr_min(OO)), a fraction (Eq. 18)."""
    if abs(1 - oo) <= _ZERO:
        raise Undefined("the original speech discloses nothing: Cllr_min(OO) is 1")
    return (op - oo) / (1 - oo)


def g_d_ece(oo: float, pp: float) -> float:
    """10 log10(D_ECE(PP)/D_ECE(OO)) in dB (Eq. 19); -inf when the protected speech tells no speakers apart."""
    if abs(oo) <= _ZERO:
        raise Undefined("the original speech discloses nothing: D_ECE(OO) is 0")
    return decibel(pp / oo)


def g_cllr_min(oo: float, pp: float) -> float:
    """10 log10((1 - Cllr_min(PP))/(1 - Cllr_min(OO))) in dB (Eq. 20, with PP in the numerator, where OO is printed)."""
    if abs(1 - oo) <= _ZERO:
        raise Undefined("the original speech discloses nothing: Cllr_min(OO) is 1")
    return decibel((1 - pp) / (1 - oo))


def decibel(ratio: float) -> float:
    """10 log10 of a ratio, -inf for 0."""
    return float(10 * np.log10(ratio)) if ratio > _ZERO else float("-inf")


def normalised(*, d_ece: tuple[float, float, float], cllr_min: tuple[float, float, float]) -> Normalised:
    """Eq. 17-20 from the oracle D_ECE and Cllr_min (bits) of OO, OP and PP, in this order.

    Example:
        >>> from pipeline.metrics import normalised
        >>> found = normalised(d_ece=(0.5, 0.1, 0.3), cllr_min=(0.3, 0.9, 0.6))
        >>> round(found.d_ece_op_oo, 3), round(found.g_d_ece, 2)
        (0.8, -2.22)
        >>> normalised(d_ece=(0.0, 0.0, 0.0), cllr_min=(0.3, 0.9, 0.6)).reasons["g_d_ece"]
        'the original speech discloses nothing: D_ECE(OO) is 0'
    """
    reasons: dict[str, str] = {}
    return Normalised(
        d_ece_op_oo=value_or_reason("d_ece_op_oo", reasons, d_ece_op_oo, d_ece[0], d_ece[1]),
        cllr_min_op_oo=value_or_reason("cllr_min_op_oo", reasons, cllr_min_op_oo, cllr_min[0], cllr_min[1]),
        g_d_ece=value_or_reason("g_d_ece", reasons, g_d_ece, d_ece[0], d_ece[2]),
        g_cllr_min=value_or_reason("g_cllr_min", reasons, g_cllr_min, cllr_min[0], cllr_min[2]),
        reasons=reasons,
    )


def normalised_values(d_ece: Sequence[float], cllr_min: Sequence[float]) -> dict[str, float]:
    """Eq. 17-20 by name from OO, OP, PP; NaN where undefined."""
    return {
        "d_ece_op_oo": value_or_nan(d_ece_op_oo, d_ece[0], d_ece[1]),
        "cllr_min_op_oo": value_or_nan(cllr_min_op_oo, cllr_min[0], cllr_min[1]),
        "g_d_ece": value_or_nan(g_d_ece, d_ece[0], d_ece[2]),
        "g_cllr_min": value_or_nan(g_cllr_min, cllr_min[0], cllr_min[2]),
    }


def value_or_reason(
    name: str, reasons: dict[str, str], function: Callable[..., float], *arguments: object
) -> float | None:
    """The value of ``function``, or None with its reason noted under ``name``."""
    try:
        return function(*arguments)
    except Undefined as undefined:
        reasons[name] = str(undefined)
        return None


def value_or_nan(function: Callable[..., float], *arguments: object) -> float:
    """The value of ``function``, or NaN."""
    value = value_or_reason("", {}, function, *arguments)
    return math.nan if value is None else value
