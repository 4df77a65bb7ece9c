"""What is whole after tasks have failed: the systems behind whose numbers no task failed, and what is said of the others.

A system is left out as a whole. The attack that failed may have been the strongest on it, so that what remains would look more private
than the system is; and a mean over the sets that happen to be there is a mean of something else. Where nothing failed but a check of
its attacks, its rows stay, and that the check is lacking is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline.diagnostics import Diagnosis, Heard
from pipeline.engine import failures
from pipeline.engine.task import Ref, Task
from pipeline.errors import PipelineError
from pipeline.planning import Graph, Source

UNPROTECTED = ("", "unprotected")
"""What results call the attacker where none attacks protected speech."""


def whole(graph: Graph, failed: Mapping[Task, PipelineError]) -> Graph:
    """The part of a graph that is about systems behind whose numbers no task failed; without sources if there is none.

    Its ``left_out`` says which are not, and what is not said of those that are.
    """
    behind: dict[str, set[Task]] = {}
    for system, refs in [*((one.identity["system"], _of_source(one)) for one in graph.sources),
                         *((one.identity["system"], [one.check]) for one in graph.candidates)]:  # fmt: skip
        behind.setdefault(system, set()).update(ref.task for ref in refs)
    reached = {system: _closure(tasks) for system, tasks in behind.items()}
    broken = {
        system: f"system {system} has no row, for {said}; what is lacking may be the strongest attack on it"
        for system, tasks in reached.items()
        if (said := _those("tasks behind its numbers", tasks, failed))
    }
    held_against = {str(one.identity["system"]) for one in graph.sources if one.identity["condition"] == "OO"}
    original = sorted(held_against & broken.keys())
    if original:
        attacked = {one.identity["system"] for one in graph.sources if one.identity["attacker"] not in UNPROTECTED}
        for system in sorted(attacked - broken.keys()):
            broken[system] = (
                f"system {system} has no row: its numbers are compared with those of {original[0]}, which has none"
            )
    checked = _checks(graph)
    lacking = {}
    for system, refs in checked.items():
        said = _those("checks of it and its attacks", _closure(ref.task for ref in refs), failed)
        if said and system not in broken:
            lacking[system] = f"of system {system} not all is said that was to be, for {said}"
    return _without(graph, broken, failed, list(lacking.values()))


def _without(
    graph: Graph, broken: Mapping[str, str], failed: Mapping[Task, PipelineError], lacking: Sequence[str]
) -> Graph:
    """The graph without these systems and without what stands on tasks that failed, and of its tasks those that it then needs."""

    def stays(identity: Mapping[str, str], refs: Iterable[Ref]) -> bool:
        # What is done has all its sources done.
        return identity.get("system", "") not in broken and not any(ref.task in failed for ref in refs)

    rest = replace(
        graph,
        sources=[one for one in graph.sources if stays(one.identity, _of_source(one))],
        diagnoses=[one for one in graph.diagnoses if stays(one.identity, _of_diagnosis(one))],
        findings=[one for one in graph.findings if stays(one[0], ())],
        candidates=[one for one in graph.candidates if stays(one.identity, [one.check])],
        heard=Heard(
            {system: refs for system, refs in graph.heard.systems.items() if stays({"system": system}, refs)},
            {system: ref for system, ref in graph.heard.same.items() if stays({"system": system}, [ref])},
            graph.heard.trims,
        ),
        orders=[one for one in graph.orders if stays(one[0], [one[1]])],
        answered=[one for one in graph.answered if stays(one.identity, [one.ref])],
        compared=[one for one in graph.compared if not {one.a, one.b} & broken.keys() and one.ref.task not in failed],
        speakers=[one for one in graph.speakers if stays({"system": one.system}, [one.ref])],
        pitches={system: ref for system, ref in graph.pitches.items() if stays({"system": system}, [ref])},
        left_out=[*broken.values(), *lacking],
    )
    read = [ref for one in rest.sources for ref in _of_source(one)]
    read += [one.check for one in rest.candidates]
    read += [ref for refs in _checks(rest).values() for ref in refs]
    needed = _closure(ref.task for ref in read)
    return replace(rest, tasks=[task for task in graph.tasks if task in needed])


def _those(what: str, tasks: Iterable[Task], failed: Mapping[Task, PipelineError]) -> str:
    """How many of some tasks failed, and the first that did so itself; '' if none."""
    theirs = {task: failed[task] for task in tasks if task in failed}
    if not theirs:
        return ""
    said = f"{len(theirs)} of the {what} failed or were not run"
    root = next((task for task in failures.roots(failed) if task in theirs), None)
    if root is None:
        return said
    why = " ".join(failed[root].what.split())
    return f"{said}, first: {why if why.startswith(root.label) else f'{root.label}: {why}'}"


def _checks(graph: Graph) -> dict[str, list[Ref]]:
    """The artefacts that say what is to be thought of each system's numbers, and are behind none of them."""
    found: dict[str, list[Ref]] = {}
    for diagnosis in graph.diagnoses:
        found.setdefault(diagnosis.identity["system"], []).extend(_of_diagnosis(diagnosis))
    for identity, ref in graph.orders:
        found.setdefault(identity["system"], []).append(ref)
    for system, ref in graph.heard.same.items():
        found.setdefault(system, []).append(ref)
    for system, refs in graph.heard.systems.items():
        found.setdefault(system, []).extend(refs)
    for one in graph.answered:
        found.setdefault(one.identity["system"], []).append(one.ref)
    for each in graph.speakers:
        found.setdefault(each.system, []).append(each.ref)
    for system, ref in graph.pitches.items():
        found.setdefault(system, []).append(ref)
    for two in graph.compared:
        found.setdefault(two.b, []).append(two.ref)
    return found


def _of_source(source: Source) -> list[Ref]:
    return [source.ref, *source.fits, *([source.model] if isinstance(source.model, Ref) else [])]


def _of_diagnosis(one: Diagnosis) -> list[Ref]:
    level = one.other_level[1] if one.other_level is not None else None
    refs = (one.training, one.check, one.check_on_original, one.treatment, one.on_original, level)
    return [ref for ref in refs if ref is not None]


def _closure(tasks: Iterable[Task]) -> set[Task]:
    """These tasks and all that they stand on."""
    found: set[Task] = set()
    ahead = list(tasks)
    while ahead:
        task = ahead.pop()
        if task not in found:
            found.add(task)
            ahead += [ref.task for ref in task.sources()]
    return found
