"""The source files that make numbers, with their versions: ``python -m tests.sources > tests/sources.json``."""

from __future__ import annotations

import hashlib
import json
import pkgutil
import sys
from typing import Any

from pipeline import products, registry, stages
from pipeline.engine import code


def task_modules() -> list[str]:
    """The files of stages and products that hold functions of tasks: what plans, collects and words them enters no key."""
    names = [
        module.name
        for room in (stages, products)
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    return [name for name in names if (path := code.find_source(name)) and "work: Work" in path.read_text("utf-8")]


def roots() -> list[str]:
    """Every file of tasks, every component of ours that makes numbers, and what chooses vectors."""
    found = task_modules()
    for kind in registry.COMPONENT_KINDS:
        if kind != "executors":
            found += [registry.component(kind, name).__module__ for name in registry.list_own_names(kind)]
    return [*found, "pipeline.stages.selections"]


def modules() -> list[str]:
    """All modules that make numbers, by name."""
    return sorted({name for root in roots() for name in code.follow_imports(root)})


def text(module: str) -> str:
    """A file without blank lines and comment lines. Nothing that parses: syntax trees differ between Pythons."""
    path = code.find_source(module)
    assert path is not None
    lines = [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def table() -> dict[str, dict[str, Any]]:
    """Version and digest of each module."""
    return {
        module: {
            "version": " ".join(map(str, code.read_version(module) or (module, 1))),
            "source": hashlib.sha256(text(module).encode()).hexdigest()[:16],
        }
        for module in modules()
    }


if __name__ == "__main__":
    json.dump(table(), sys.stdout, indent=1)
    sys.stdout.write("\n")
