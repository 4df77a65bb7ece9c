"""When Python looks for garbage that refers to itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 200_000
"""Made since the collector looked last, before it looks again; 700 by default, so that it is at work a third of the time where a
million values are made that stay."""


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Have the collector look seldom, as is right where many values are made that stay: lists of a corpus, tasks of a plan."""
    before = gc.get_threshold()
    gc.set_threshold(max(OBJECTS, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
