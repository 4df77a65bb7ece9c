"""A source file whose version is raised, as by whoever changes its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.engine import code


@contextmanager
def raised(module: str) -> Iterator[None]:
    """The ``VERSION`` of a module is one higher while the body runs; also after a body that fails, nothing of it is remembered."""
    declared = code.declared
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "declared", lambda name: (declared(name) or 1) + 1 if name == module else declared(name))
        code._versions.cache_clear()
        try:
            yield
        finally:
            code._versions.cache_clear()
