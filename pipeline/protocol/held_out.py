"""Which training speakers are held out, to choose by: one rule for all trainers, back ends and checks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.seeds import digest

VERSION = "held-out speakers 1"

EVERY = 5
"""One speaker of so many is held out."""

FEWEST = 10
"""Training speakers below which nothing can be chosen."""


def held_out(speakers: Iterable[str], sexes: Mapping[str, str] | None = None) -> frozenset[str]:
    """Every fifth of the speakers of each sex, in an order that depends on their names alone.

    Args:
        speakers: names, each as often as it comes.
        sexes: ``f`` or ``m`` by name; who is not there, is of a third group.
    """
    groups: dict[str, list[str]] = {}
    for name in set(speakers):
        groups.setdefault((sexes or {}).get(name, "u"), []).append(name)
    return frozenset(
        name
        for names in groups.values()
        for name in sorted(names, key=lambda name: (digest("held out", name), name))[::EVERY]
    )
