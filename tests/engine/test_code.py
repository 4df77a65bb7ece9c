"""Imports are found wherever a statement may stand, and nowhere else; versions are read and not run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.engine import code

SOURCE = '''
"""import toy_package.in_a_docstring"""
from __future__ import annotations
import json
import toy_package.plain as other
from toy_package import from_package, a_name
from toy_package.inner import deep
from . import beside
from .inner import below
TEXT = "import toy_package.in_a_text"
if TYPE_CHECKING:
    import toy_package.typed
else:
    import toy_package.not_typed
if typing.TYPE_CHECKING:
    import toy_package.typed
elif TEXT:
    import toy_package.not_typed_either
try:
    import toy_package.tried
except ImportError:
    import toy_package.caught
else:
    import toy_package.went_well
finally:
    import toy_package.at_last
class Class:
    import toy_package.in_a_class
    async def method(self):
        for _ in ():
            with open("x"):
                while True:
                    import toy_package.nested
        match self:
            case 1:
                import toy_package.matched
'''
FOUND = {
    "plain", "from_package", "inner.deep", "beside", "inner.below", "not_typed", "not_typed_either", "tried", "caught",
    "went_well", "at_last", "in_a_class", "nested", "matched",
}  # fmt: skip


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Write a module of a package that can be imported; the function gives its name."""
    root = tmp_path / "toy_package"
    (root / "inner").mkdir(parents=True)
    for name in ("__init__", *FOUND):
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        path.write_text("")
    (root / "inner" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    caches = (code._read, code.closure, code.declared, code._versions, code._is_module)

    def write(name: str, source: str) -> str:
        (root / f"{name}.py").write_text(source)
        return f"toy_package.{name}"

    yield write
    for cache in caches:
        cache.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "toy_package"]:
        del sys.modules[name]


def test_imports_are_found_wherever_a_statement_may_stand(package: Callable[[str, str], str]) -> None:
    names = {f"toy_package.{name}" for name in FOUND} | {"toy_package"}
    assert code.imported(package("main", SOURCE)) == names
    assert code.closure("toy_package.main") == names | {"toy_package.main"}


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("", None),
        ("VERSION = 3", 3),
        ("VERSION: int = 4", 4),
        ("OTHER = VERSION = 5", 5),
        ("def f():\n VERSION = 6", None),
    ],
)
def test_versions_are_read(package: Callable[[str, str], str], source: str, version: int | None) -> None:
    name = package("main", source)
    assert code.declared(name) == version
    assert code.versions([name]) == ({} if version is None else {name: version})


@pytest.mark.parametrize("source", ["VERSION = 1 + 1", "VERSION = '1'", "VERSION: int"])
def test_a_version_that_is_no_plain_integer_is_refused(package: Callable[[str, str], str], source: str) -> None:
    name = package("main", source)
    if source == "VERSION: int":
        assert code.declared(name) is None
    else:
        with pytest.raises(TypeError, match=r"toy_package\.main"):
            code.declared(name)


def test_what_has_no_source_imports_nothing() -> None:
    assert code.closure("nowhere.at_all") == {"nowhere.at_all"} and code.declared("nowhere.at_all") is None
