"""The collector of garbage is as it was after a time in which it looks seldom, whatever happened then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipeline.host import OBJECTS, collect_seldom


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("before", [(700, 10, 10), (0, 10, 10), (OBJECTS + 1, 5, 5)])
def test_it_is_put_back(before: tuple[int, int, int]) -> None:
    gc.set_threshold(*before)
    with pytest.raises(ValueError, match="odd"), collect_seldom():
        # Who has switched it off, or has it look more seldom still, keeps that.
        assert gc.get_threshold() == (0 if before[0] == 0 else max(before[0], OBJECTS), *before[1:])
        raise ValueError("odd")
    assert gc.get_threshold() == before
