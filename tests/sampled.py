"""Cases of which a few are tried at once and all in ``make test-all``: where each is tried below the command line already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], every: int = 5) -> list[Any]:
    """The cases as parameters, all but the first of ``every`` marked slow."""
    return [
        case if place % every == 0 else pytest.param(case, marks=pytest.mark.slow) for place, case in enumerate(cases)
    ]
