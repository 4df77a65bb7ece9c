"""A source file whose version is raised, as by whoever changes its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.engine import code


@contextmanager
def raised(module: str) -> Iterator[None]:
    """The ``VERSION`` of a module is one higher while the body runs; also after a body that fails, nothing of it is remembered."""
    read = code.read_version
    version = read(module) or code.Version(module, 1)
    higher = version._replace(number=version.number + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "read_version", lambda name: higher if name == module else read(name))
        code._collect_versions.cache_clear()
        try:
            yield
        finally:
            code._collect_versions.cache_clear()
