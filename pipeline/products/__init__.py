"""What is computed for the reader, a file or a folder for each kind of product. They are found by being here.

A product plans its tasks and what is read from them (``plan.py``, or the file itself), has its tasks in ``compute.py``, which alone keys
follow, reads what the tasks left in ``collect.py``, and says it in ``words.py``. It exports its hooks as ``KIND``. A product knows no
other one but through what that one left: artefacts, and tables of a :class:`Collection`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import Outcome
from pipeline.stages.graph import Graph
from pipeline.stages.plan import Plan
from pipeline.stages.settings import Evaluation

EER_DEFINITIONS = ("rocch", "kaldi", "speechbrain")
FIGURES = "figures"
"""The folder of a run folder with the tables for figures."""


@dataclass
class Collection:
    """What has been collected of a run.

    Attributes:
        graph: what was planned, as far as it stands on no task that failed.
        folder: of the run.
        measured: rows of results that are no averages and follow from no others.
        rows: all rows of results.
        means: further means over sets, of what the leaderboard takes of results.
        tables: what products have made of them, by name.
    """

    graph: Graph
    evaluation: Evaluation
    data: Prepared
    outcome: Outcome
    folder: Path
    measured: pd.DataFrame
    rows: pd.DataFrame
    means: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


def do_nothing(_: Any) -> None:
    """The hook of a product that has nothing to do there."""


def foresee_nothing(data: Prepared, evaluation: Evaluation) -> Iterable[str]:
    """What a product says before any compute that has nothing to say."""
    return ()


@dataclass(frozen=True)
class ProductKind:
    """The hooks of a kind of product.

    Attributes:
        order: where it comes among the others, as it reads what they left.
        plan: adds tasks and products to the graph.
        collect: reads what the tasks left, and adds tables.
        needs_speech: whether there is nothing to plan where score files are evaluated.
        foresee: says of the data, before any compute, what the product could show at best.
    """

    order: int
    plan: Callable[[Plan], None] = do_nothing
    collect: Callable[[Collection], None] = do_nothing
    needs_speech: bool = True
    foresee: Callable[[Prepared, Evaluation], Iterable[str]] = foresee_nothing


@functools.cache
def find_kinds() -> tuple[ProductKind, ...]:
    """All kinds of products, in order."""
    names = [f"{__name__}.{module.name}{'.plan' * module.ispkg}" for module in pkgutil.iter_modules(__path__)]
    kinds: list[ProductKind] = [importlib.import_module(name).KIND for name in names]
    return tuple(sorted(kinds, key=lambda kind: kind.order))


def name_in_figures(identity: Mapping[str, str], apart: str = "") -> str:
    """What tables for figures call an extractor: they tell curves apart by it alone.

    One that was trained on anonymised speech is another one, and so is one that was measured in two ways. The level is told where it
    is not the system's own, so that systems share a panel otherwise.
    """
    name, trained = identity["extractor"], identity["trained_on"]
    if trained not in ("original", "", "given"):
        own = f" ({identity['system_level'].split(',')[0]})"
        name = f"{name}, trained on {trained.removesuffix(own)}"
    return f"{name}, {apart}" if apart else name


def name_attack(row: Mapping[Any, Any]) -> str:
    """An attack in words."""
    both = ", original enrolled too" if row["condition"] == "OPP" else ""
    return f"{row['attacker']}: {row['extractor']} ({row['trained_on']}), {row['backend']}{both}"


def find_eer_definition(rows: pd.DataFrame) -> str:
    """The definition of the EER by which attacks are compared: that on the convex hull, or the first that there is."""
    present = set(rows.loc[rows["metric"] == "eer", "variant"]) if len(rows) else set()
    definitions = [name for name in EER_DEFINITIONS if name in present]
    return str((definitions or sorted(present) or EER_DEFINITIONS)[0])
