"""Which source files make a number, found by following imports, and their versions.

A task names the modules that make its numbers: its own stage and the components that it uses. All that these import, directly or
through others, makes the numbers too. A file whose numbers change raises its ``VERSION`` (an integer at module level; 1 where there
is none), and every key that stands on it moves.

Followed are imports anywhere in a file, also inside functions, of modules of the project and of the distribution's own package
where a plug-in is asked for. Not followed are imports under ``TYPE_CHECKING``, names in texts, and other libraries: their versions
enter keys by :attr:`pipeline.engine.task.Task.libraries`.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

PROJECT = __name__.partition(".")[0]


def versions(modules: Iterable[str]) -> dict[str, int]:
    """The declared versions of all files that make the numbers of these modules, by module; what declares none is left out."""
    return dict(_versions(frozenset(modules)))


@functools.cache
def _versions(modules: frozenset[str]) -> tuple[tuple[str, int], ...]:
    files = sorted({name for module in modules for name in closure(module)})
    return tuple((name, number) for name in files if (number := declared(name)) is not None)


@functools.cache
def closure(module: str) -> frozenset[str]:
    """A module and all that it imports, directly or through others."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(name)
    return frozenset(found)


@functools.cache
def declared(module: str) -> int | None:
    """``VERSION`` of a module, read and not run; None where it declares none."""
    value = _read(module)[1]
    if value is None:
        return None
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        return value.value
    raise TypeError(f"VERSION of {module} is not a plain integer")


def imported(module: str) -> frozenset[str]:
    """Modules of the project and of the module's own package that a module imports."""
    return _read(module)[0]


def path(module: str) -> Path | None:
    """The source file of a module; None where it has none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):  # a function of a script or of a notebook
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


@functools.cache
def _read(module: str) -> tuple[frozenset[str], ast.expr | None]:
    """What a module imports, and the value of its ``VERSION``: each file is parsed once."""
    source = path(module)
    tree = ast.parse(source.read_bytes() if source is not None else b"")
    packages = {PROJECT, module.partition(".")[0]}
    return frozenset(_imports(tree, module, packages)), _version(tree)


def _version(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "VERSION" for target in targets):
                return node.value
    return None


def _imports(node: ast.AST, module: str, packages: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in packages)
    elif isinstance(node, ast.ImportFrom):
        yield from _from(node, module, packages)
    else:
        for child in _parts(node):
            # An import is a statement: expressions, nine nodes in ten, hold none.
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from _imports(child, module, packages)


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    """What a statement holds; what is there for type checkers alone is left out."""
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        return node.orelse
    return ast.iter_child_nodes(node)


def _from(node: ast.ImportFrom, module: str, packages: Collection[str]) -> Iterator[str]:
    """``from a.b import c`` is the module ``a.b.c`` if there is one, else ``a.b``."""
    base = node.module or ""
    if node.level:
        source = path(module)
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
