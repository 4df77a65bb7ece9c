"""What is left after tasks have failed: the numbers that stand on none of them, the systems that can be ranked, and what is said of the
others.

What succeeded is always shown. But a system behind whose numbers a task failed is not ranked and not compared: the attack that failed
may have been the strongest on it, so that what remains would look more private than the system is. Its rows say so. Where nothing failed
but a check of its attacks, its rank stays, and that the check is lacking is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline.engine import failures
from pipeline.engine.task import Ref, Task
from pipeline.errors import PipelineError
from pipeline.stages.graph import Diagnosis, Graph, Heard, Source

UNPROTECTED = ("", "unprotected")
"""What results call the attacker where none attacks protected speech."""


NOT_ALL = "other attacks on this system failed, so this may not be the strongest"
"""What rows say of a system that is not ranked."""


def whole(graph: Graph, failed: Mapping[Task, PipelineError]) -> Graph:
    """The part of a graph that stands on no task that failed; without sources if there is none.

    Its ``left_out`` says which systems are not ranked, and what is not said of those that are.
    """
    behind: dict[str, set[Task]] = {}
    for system, refs in [*((one.identity["system"], _of_source(one)) for one in graph.sources),
                         *((one.identity["system"], [one.check]) for one in graph.candidates),
                         *((system, [ref]) for system, ref in graph.heard.same.items())]:  # fmt: skip
        behind.setdefault(system, set()).update(ref.task for ref in refs)
    left = {one.identity["system"] for one in graph.sources if not _fails(_of_source(one), failed)}
    reached = {system: _closure(tasks) for system, tasks in behind.items()}
    unranked = {
        system: f"system {system} {_standing(system in left)}, for {said}; what is lacking may be the strongest attack on it"
        for system, tasks in reached.items()
        if (said := _those("tasks behind its numbers", tasks, failed))
    }
    held_against = {str(one.identity["system"]) for one in graph.sources if one.identity["condition"] == "OO"}
    original = sorted(held_against & unranked.keys())
    if original:
        attacked = {one.identity["system"] for one in graph.sources if one.identity["attacker"] not in UNPROTECTED}
        for system in sorted(attacked - unranked.keys()):
            unranked[system] = (
                f"system {system} {_standing(system in left)}: its numbers are compared with those of {original[0]}, which lacks some"
            )
    lacking = {}
    for system, refs in _checks(graph).items():
        said = _those("checks of it and its attacks", _closure(ref.task for ref in refs), failed)
        if said and system not in unranked:
            lacking[system] = f"of system {system} not all is said that was to be, for {said}"
    return _without(graph, unranked, failed, list(lacking.values()))


def _standing(has_rows: bool) -> str:
    return "is not ranked, and has the rows of its other attacks alone" if has_rows else "has no row"


def _fails(refs: Iterable[Ref], failed: Mapping[Task, PipelineError]) -> bool:
    """Whether one of the tasks failed; what is done has all its sources done."""
    return any(ref.task in failed for ref in refs)


def _without(
    graph: Graph, unranked: Mapping[str, str], failed: Mapping[Task, PipelineError], lacking: Sequence[str]
) -> Graph:
    """The graph without what stands on tasks that failed and without the ranks of these systems, and of its tasks those that it needs."""

    def is_ranked(system: str, refs: Iterable[Ref]) -> bool:
        return system not in unranked and not _fails(refs, failed)

    sources = [one for one in graph.sources if not _fails(_of_source(one), failed)]
    identities, systems = [one.identity for one in sources], {one.identity["system"] for one in sources}
    rest = replace(
        graph,
        sources=[_marked(one) if one.identity["system"] in unranked else one for one in sources],
        diagnoses=[
            one for one in graph.diagnoses if one.identity in identities and not _fails(_of_diagnosis(one), failed)
        ],
        findings=[one for one in graph.findings if one[0].get("system", "") in ("", *systems)],
        candidates=[one for one in graph.candidates if is_ranked(one.identity["system"], [one.check])],
        heard=Heard(
            {
                system: refs
                for system, refs in graph.heard.systems.items()
                if system in systems and not _fails(refs, failed)
            },
            {
                system: ref
                for system, ref in graph.heard.same.items()
                if system in systems and not _fails([ref], failed)
            },
            graph.heard.trims,
        ),
        orders=[one for one in graph.orders if one[0]["system"] in systems and not _fails([one[1]], failed)],
        answered=[one for one in graph.answered if is_ranked(one.identity["system"], [one.ref])],
        compared=[one for one in graph.compared if not {one.a, one.b} & unranked.keys() and one.ref.task not in failed],
        speakers=[one for one in graph.speakers if is_ranked(one.system, [one.ref])],
        pitches={system: ref for system, ref in graph.pitches.items() if is_ranked(system, [ref])},
        left_out=[*unranked.values(), *lacking],
    )
    read = [ref for one in rest.sources for ref in _of_source(one)]
    read += [one.check for one in rest.candidates]
    read += [ref for refs in _checks(rest).values() for ref in refs]
    needed = _closure(ref.task for ref in read)
    return replace(rest, tasks=[task for task in graph.tasks if task in needed])


def _marked(source: Source) -> Source:
    """A source whose rows say that they may not be of the strongest attack."""
    if source.identity["attacker"] in UNPROTECTED:
        return source
    return replace(source, note="; ".join(filter(None, [source.note, NOT_ALL])))


def _those(what: str, tasks: Iterable[Task], failed: Mapping[Task, PipelineError]) -> str:
    """How many of some tasks failed, and the first that did so itself; '' if none."""
    theirs = {task: failed[task] for task in tasks if task in failed}
    if not theirs:
        return ""
    said = f"{len(theirs)} of the {what} failed or were not run"
    root = next((task for task in failures.select_roots(failed) if task in theirs), None)
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
    refs = (one.training, one.check, one.check_on_original, one.treatment, one.on_original, one.original_enrolment)
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
