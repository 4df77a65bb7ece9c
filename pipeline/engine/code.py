"""Which source files make a number, found by following imports, and the versions that they declare.

A task names the modules that make its numbers: its own stage and the components that it uses. All that these import, directly or
through others, makes the numbers too. A file whose numbers change raises its ``VERSION``, and every key that stands on it moves.
A version is a name and a number in one text, ``VERSION = "cosine 1"``: keys and signatures have the name and not the module, so
that a file can be moved and moves no key. No two files have one name. A plain integer is allowed in other distributions; it is
named by its module.

Followed are imports anywhere in a file, also inside functions, of modules of the project and of the distribution's own package
where a plug-in is asked for. Not followed are imports under ``TYPE_CHECKING``, names in texts, and other libraries: their versions
enter keys by :attr:`pipeline.engine.task.Task.libraries`.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = __name__.partition(".")[0]
_FORM = re.compile(r"(\S+(?: \S+)*) ([1-9][0-9]*)")


class Version(NamedTuple):
    """What a file declares: the name of what it makes, and a number that is raised when it makes other numbers."""

    name: str
    number: int


def collect_versions(modules: Iterable[str]) -> dict[str, int]:
    """The declared versions of all files that make the numbers of these modules, by name; what declares none is left out."""
    return dict(_collect_versions(frozenset(modules)))


@functools.cache
def _collect_versions(modules: frozenset[str]) -> tuple[Version, ...]:
    versions: dict[str, Version] = {}
    makers: dict[str, str] = {}
    for module in sorted({imported for root in modules for imported in follow_imports(root)}):
        version = read_version(module)
        if version is not None:
            if version.name in versions:
                raise ValueError(f"VERSION of {module} has the name of that of {makers[version.name]}: {version.name}")
            versions[version.name], makers[version.name] = version, module
    return tuple(versions[name] for name in sorted(versions))


@functools.cache
def follow_imports(module: str) -> frozenset[str]:
    """A module and all that it imports, directly or through others."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += read_imports(name)
    return frozenset(reached)


@functools.cache
def read_version(module: str) -> Version | None:
    """``VERSION`` of a module, read and not run; None where it declares none.

    Raises:
        ValueError: it is neither a text of a name and a number above 0, nor such a number.
    """
    node = _read(module)[1]
    if node is None:
        return None
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int) and value > 0:
        return Version(module, value)
    if not isinstance(value, str) or (match := _FORM.fullmatch(value)) is None:
        raise ValueError(f'VERSION of {module} is neither a name and a number ("cosine 1") nor a number')
    return Version(match[1], int(match[2]))


def read_imports(module: str) -> frozenset[str]:
    """Modules of the project and of the module's own package that a module imports."""
    return _read(module)[0]


def find_source(module: str) -> Path | None:
    """The source file of a module; None where it has none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):  # a function of a script or of a notebook
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


@functools.cache
def _read(module: str) -> tuple[frozenset[str], ast.expr | None]:
    """What a module imports, and the value of its ``VERSION``: each file is parsed once."""
    source = find_source(module)
    tree = ast.parse(source.read_bytes() if source is not None else b"")
    packages = {PROJECT, module.partition(".")[0]}
    return frozenset(_find_imports(tree, module, packages)), _find_version(tree)


def _find_version(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "VERSION" for target in targets):
                return node.value
    return None


def _find_imports(node: ast.AST, module: str, packages: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in packages)
    elif isinstance(node, ast.ImportFrom):
        yield from _find_from_imports(node, module, packages)
    else:
        for child in _list_statements(node):
            # An import is a statement: expressions, nine nodes in ten, hold none.
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from _find_imports(child, module, packages)


def _list_statements(node: ast.AST) -> Iterable[ast.AST]:
    """What a statement holds; what is there for type checkers alone is left out."""
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        return node.orelse
    return ast.iter_child_nodes(node)


def _find_from_imports(node: ast.ImportFrom, module: str, packages: Collection[str]) -> Iterator[str]:
    """``from a.b import c`` is the module ``a.b.c`` if there is one, else ``a.b``."""
    base = node.module or ""
    if node.level:
        source = find_source(module)
        is_package = source is not None and source.name == "__init__.py"
        above = module.split(".")[: len(module.split(".")) - node.level + is_package]
        base = ".".join([*above, base]) if base else ".".join(above)
    if base.partition(".")[0] not in packages:
        return
    for alias in node.names:
        name = f"{base}.{alias.name}"
        yield name if _is_module(name) else base


@functools.cache
def _is_module(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    spec = importlib.util.find_spec(parent)
    places = spec.submodule_search_locations if spec is not None else None
    return any(
        (Path(place) / f"{last}.py").is_file() or (Path(place) / last / "__init__.py").is_file()
        for place in places or []
    )


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
