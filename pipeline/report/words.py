"""How the page says lists, and that a number is one of chance."""

from __future__ import annotations

from collections.abc import Iterable

NOTHING = "not different from a system that discloses nothing, with this many speakers and trials"


def counted(number: int, noun: str) -> str:
    """``1 row`` or ``3 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def joined(parts: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    items = [part for part in parts if part]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""
