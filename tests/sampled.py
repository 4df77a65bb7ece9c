"""Cases of which a few are tried at once and all in ``make test-all``: where each is tried below the command line already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], every: int = 5) -> list[Any]:
    """The cases as parameters, all but the first of ``every`` marked slow."""
    several = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*one, marks=() if place % every == 0 else pytest.mark.slow) for place, one in enumerate(several)
    ]
