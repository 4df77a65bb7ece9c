"""What one more product may touch: its own file or folder. It is found by being there, and knows no other product."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from pipeline import products

ROOM = Path(products.__path__[0])
NAMES = [module.name for module in pkgutil.iter_modules(products.__path__)]


def test_each_product_is_found_in_an_order_of_its_own() -> None:
    kinds = products.find_kinds()
    assert len(kinds) == len(NAMES) == len({kind.order for kind in kinds})


@pytest.mark.parametrize("name", NAMES)
def test_a_product_imports_no_other_product(name: str) -> None:
    files = [ROOM / f"{name}.py"] if (ROOM / f"{name}.py").is_file() else sorted((ROOM / name).glob("*.py"))
    imported = {found for path in files for found in re.findall(r"pipeline\.products\.(\w+)", path.read_text("utf-8"))}
    assert imported <= {name}


def test_no_task_of_a_product_or_a_stage_imports_what_plans_it() -> None:
    """Keys follow the imports of tasks: the planner would stand in every key."""
    for path in [*ROOM.rglob("*.py"), *(ROOM.parent / "stages").rglob("*.py")]:
        if path.name not in ("plan.py", "collect.py", "__init__.py") and path.parent.name not in ("products", "stages"):
            text = path.read_text("utf-8")
            assert not re.search(r"^from pipeline\.\S+ import .*\bplan\b|\.plan import", text, re.M), path
