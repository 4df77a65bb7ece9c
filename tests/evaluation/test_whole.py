"""What of a graph is whole after some of its tasks failed: whole systems, and nothing that stands on what is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pipeline.engine import failures
from pipeline.engine.task import Task
from pipeline.errors import PipelineError, StageFailed
from pipeline.evaluation.whole import whole
from pipeline.planning import Graph
from tests import key_table
from tests.planning.test_planning import planned

ALL = (
    "system=[original,b2,b2r]", "extractor=[ge2e,ecapa,f0]", "backend=[cosine,wccn]", "attacker=[ignorant,semi_informed]",
    "metric=[asv,vsm,srd]",
)  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> Iterator[Graph]:
    with key_table.made_up_weights():
        yield planned(*ALL)


def after(graph: Graph, fails: Callable[[Task], bool]) -> dict[Task, PipelineError]:
    """What fails of a graph that is run, by the rule of the executors."""
    failed: dict[Task, PipelineError] = {}
    for task in graph.tasks:
        if any(ref.task in failed for ref in task.sources()):
            failed[task] = failures.not_run(task)
        elif fails(task):
            failed[task] = StageFailed(f"{task.label} failed with ValueError: no good")
    assert failed
    return failed


def systems(graph: Graph) -> set[str]:
    return {source.identity["system"] for source in graph.sources}


CASES = {
    "anonymise b2 1/": {"original", "b2r"},
    "train ecapa on b2, training set": {"original", "b2r"},
    "fit wccn for ge2e on b2, training set": {"original", "b2r"},
    "measure vsm": {"original"},
    "check order of": {"original", "b2", "b2r"},
    "measure attacks on b2 ": {"original", "b2", "b2r"},
    "measure differences between b2 and b2r": {"original", "b2", "b2r"},
    "check treatment of": {"original", "b2", "b2r"},
    "extract original 1/": set(),
    "fit wccn for ge2e on original, training set": set(),
}


@pytest.mark.parametrize(("label", "left"), CASES.items())
def test_a_system_is_whole_or_has_no_row(graph: Graph, label: str, left: set[str]) -> None:
    """An extractor that learns from a system is used on original speech too: its failure must not take that along."""
    failed = after(graph, lambda task: task.label.startswith(label))
    rest = whole(graph, failed)
    assert systems(rest) == left
    for system in left:
        assert [one for one in rest.sources if one.identity["system"] == system] == [
            one for one in graph.sources if one.identity["system"] == system
        ], "all its rows or none"
    done = {task for task in graph.tasks if task not in failed}
    assert set(rest.tasks) <= done
    assert {ref.task for task in rest.tasks for ref in task.sources()} <= set(rest.tasks)
    said = " ".join(rest.left_out)
    for system in systems(graph) - left:
        assert f"system {system} has no row" in said
    assert "no good" in said or not left
    for what in (rest.diagnoses, rest.candidates):
        assert {one.identity["system"] for one in what} <= left
    assert {identity["system"] for identity, _ in rest.orders} <= left
    assert set(rest.heard.systems) <= left and set(rest.heard.same) <= left


def test_what_is_held_against_original_speech_needs_it(graph: Graph) -> None:
    """Attacks are; what protected speech shows by itself is not."""
    of = {one.ref.task: one.identity for one in graph.sources}
    failed = after(graph, lambda task: task in of and of[task]["attacker"] == "unprotected")
    rest = whole(graph, failed)
    assert not rest.sources
    assert "system b2 has no row: its numbers are compared with those of original, which has none" in rest.left_out

    alone = planned("system=[original,b2,b2r]", "extractor=[f0]", "metric=[srd]")
    of = {one.ref.task: one.identity for one in alone.sources}
    rest = whole(alone, after(alone, lambda task: task in of and of[task]["system"] == "original"))
    assert systems(rest) == {"b2", "b2r"}
