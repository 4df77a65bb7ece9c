"""How numbers, units, counts and lists are written for people."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

DASH = "–"
"""Stands where there is no number."""
NOTHING = "not different from a system that discloses nothing, with this many speakers and trials"
UNITS = {"fraction": "%", "tag": ""}
"""Units that are written otherwise than the rows name them."""


def format_number(value: float, unit: str, *, with_unit: bool = False) -> str:
    """A value as people read it: fractions as percentages, infinities and minus signs as such, a dash for no value.

    Args:
        value: inside the pipeline (fractions in 0 to 1).
        unit: of the row: ``fraction``, ``bit``, ``log10``, ``dB``, …
        with_unit: append the unit (no-break space before it).
    """
    if value is None or pd.isna(value):
        return DASH
    shown = 100 * value if unit == "fraction" else value
    digits = {"fraction": 2, "dB": 2, "bit": 3, "log10": 3}.get(unit)
    if math.isinf(shown):
        text = "∞" if shown > 0 else "-∞"
    elif digits is None:
        text = f"{shown:.4g}"
    elif shown != 0 and abs(shown) < 0.5 * 10**-digits:
        text = f"{shown:.0e}"
    else:
        text = f"{shown:.{digits}f}"
        if float(text) == 0:
            text = text.lstrip("-")
    suffix = format_unit(unit) if with_unit else ""
    return set_minus(text) + (f"\N{NO-BREAK SPACE}{suffix}" if suffix else "")


def format_interval(low: float, high: float, unit: str) -> str:
    """``[low, high]``; '' where there is no interval."""
    if pd.isna(low) or pd.isna(high):
        return ""
    return f"[{format_number(low, unit)}, {format_number(high, unit)}]"


def format_unit(unit: str) -> str:
    """How a unit is written beside a value (fractions are shown as percentages)."""
    return UNITS.get(unit, unit)


def set_minus(text: str) -> str:
    """A number with a real minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")


def choose_arrow(direction: str) -> str:
    """↑ where higher is more private, ↓ where lower is."""
    return "↑" if direction.startswith("higher") else "↓" if direction.startswith("lower") else ""


def count_noun(number: int, noun: str) -> str:
    """``1 row`` or ``3 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join_words(words: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    items = [word for word in words if word]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""
