"""Imports are found wherever a statement may stand, and nowhere else; versions are read and not run."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pipeline
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
    caches = (code._read, code.follow_imports, code.read_version, code._collect_versions, code._is_module)

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
    assert code.read_imports(package("main", SOURCE)) == names
    assert code.follow_imports("toy_package.main") == names | {"toy_package.main"}


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("", None),
        ("VERSION = 3", ("toy_package.main", 3)),
        ("VERSION: int = 4", ("toy_package.main", 4)),
        ("OTHER = VERSION = 5", ("toy_package.main", 5)),
        ("VERSION = 'toy measure 6'", ("toy measure", 6)),
        ("def f():\n VERSION = 6", None),
    ],
)
def test_versions_are_read(package: Callable[[str, str], str], source: str, version: tuple[str, int] | None) -> None:
    name = package("main", source)
    assert code.read_version(name) == version
    assert code.collect_versions([name]) == (dict([version]) if version else {})


@pytest.mark.parametrize(
    "source",
    ["VERSION = 1 + 1", "VERSION = 0", "VERSION = '1'", "VERSION = 'toy'", "VERSION = 'toy 01'", "VERSION: int"],
)
def test_a_version_without_name_or_number_is_refused(package: Callable[[str, str], str], source: str) -> None:
    name = package("main", source)
    if source == "VERSION: int":
        assert code.read_version(name) is None
    else:
        with pytest.raises(ValueError, match=r"toy_package\.main"):
            code.read_version(name)


def test_two_files_with_one_name_are_refused(package: Callable[[str, str], str]) -> None:
    package("plain", "VERSION = 'toy 1'")
    name = package("main", "VERSION = 'toy 1'\nimport toy_package.plain")
    with pytest.raises(ValueError, match=r"toy_package\.plain .* toy_package\.main: toy"):
        code.collect_versions([name])


def test_the_files_of_the_project_name_their_versions_and_no_two_alike() -> None:
    modules = [
        module.name for module in pkgutil.walk_packages(pipeline.__path__, "pipeline.") if "_alias" not in module.name
    ]
    versions = {module: version for module in modules if (version := code.read_version(module)) is not None}
    assert not [module for module, version in versions.items() if version.name.startswith("pipeline.")]
    assert len({version.name for version in versions.values()}) == len(versions) > 50


def test_what_has_no_source_imports_nothing() -> None:
    assert code.follow_imports("nowhere.at_all") == {"nowhere.at_all"} and code.read_version("nowhere.at_all") is None
