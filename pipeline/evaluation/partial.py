"""What of a graph stands on no task that failed: its numbers, the systems that can be ranked, and what is said of the others.

What succeeded is always shown. But a system behind whose numbers a task failed is not ranked and not compared: the attack that failed
may have been the strongest on it, so that the other ones would look more private than the system is. Its rows say so. Where nothing
failed but a check of its attacks, its rank stays, and that the check is lacking is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.engine import failures
from pipeline.engine.task import Task
from pipeline.errors import PipelineError
from pipeline.stages.graph import Graph, Measurement, Product

UNPROTECTED = ("", "unprotected")
"""What results call the attacker where none attacks protected speech."""
NOT_ALL = "other attacks on this system failed, so this may not be the strongest"
"""What rows say of a system that is not ranked."""


def leave_out(graph: Graph, failed: Mapping[Task, PipelineError]) -> Graph:
    """The part of a graph that stands on no task that failed; without measurements if there is none.

    Its ``left_out`` says which systems are not ranked, and what is not said of those that are.
    """
    finished = [product for product in graph.products if not any(ref.task in failed for ref in product.refs())]
    rows = [product for product in finished if isinstance(product, Measurement)]
    unranked = _unranked(graph, {product.system for product in rows}, failed)
    unsaid = {
        system: f"of system {system} not all is said that was to be, for {reason}"
        for system, tasks in _by_system(graph, essential=False).items()
        if system not in unranked and (reason := _failures("checks of it and its attacks", tasks, failed))
    }

    def is_kept(product: Product) -> bool:
        if product.needs_rank:
            return not {product.system, *product.compared_with} & unranked.keys()
        return any(product.identity.items() <= row.identity.items() for row in rows)

    products = [_marked(product, unranked) for product in finished if is_kept(product)]
    needed = _closure(ref.task for product in products for ref in product.refs())
    tasks = [task for task in graph.tasks if task in needed]
    return replace(graph, tasks=tasks, products=products, left_out=[*unranked.values(), *unsaid.values()])


def _by_system(graph: Graph, essential: bool) -> dict[str, set[Task]]:
    behind: dict[str, set[Task]] = {}
    for product in graph.products:
        if product.is_essential == essential:
            behind.setdefault(product.system, set()).update(ref.task for ref in product.refs())
    return {system: _closure(tasks) for system, tasks in behind.items()}


def _unranked(graph: Graph, with_rows: set[str], failed: Mapping[Task, PipelineError]) -> dict[str, str]:
    def standing(system: str) -> str:
        return "is not ranked, and has the rows of its other attacks alone" if system in with_rows else "has no row"

    unranked = {
        system: f"system {system} {standing(system)}, for {reason}; what is lacking may be the strongest attack on it"
        for system, tasks in _by_system(graph, essential=True).items()
        if (reason := _failures("tasks behind its numbers", tasks, failed))
    }
    measured = graph.select(Measurement)
    original = sorted({row.system for row in measured if row.identity["condition"] == "OO"} & unranked.keys())
    if original:
        attacked = {row.system for row in measured if row.identity["attacker"] not in UNPROTECTED}
        for system in sorted(attacked - unranked.keys()):
            unranked[system] = (
                f"system {system} {standing(system)}: its numbers are compared with those of {original[0]}, which lacks some"
            )
    return unranked


def _marked(product: Product, unranked: Mapping[str, str]) -> Product:
    """A product; rows of a system that is not ranked say that they may not be of the strongest attack."""
    if not isinstance(product, Measurement) or product.system not in unranked:
        return product
    if product.identity["attacker"] in UNPROTECTED:
        return product
    return replace(product, note="; ".join(filter(None, [product.note, NOT_ALL])))


def _failures(name: str, tasks: Iterable[Task], failed: Mapping[Task, PipelineError]) -> str:
    """How many of some tasks failed, and the first that did so itself; '' if none."""
    lacking = {task: failed[task] for task in tasks if task in failed}
    if not lacking:
        return ""
    text = f"{len(lacking)} of the {name} failed or were not run"
    root = next((task for task in failures.select_roots(failed) if task in lacking), None)
    if root is None:
        return text
    cause = " ".join(failed[root].what.split())
    return f"{text}, first: {cause if cause.startswith(root.label) else f'{root.label}: {cause}'}"


def _closure(tasks: Iterable[Task]) -> set[Task]:
    reached: set[Task] = set()
    ahead = list(tasks)
    while ahead:
        task = ahead.pop()
        if task not in reached:
            reached.add(task)
            ahead += [ref.task for ref in task.sources()]
    return reached
