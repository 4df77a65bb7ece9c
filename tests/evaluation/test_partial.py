"""What of a graph is left after some of its tasks failed: all that stands on none of them, and ranks of whole systems alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pipeline.engine import failures
from pipeline.engine.task import Task
from pipeline.errors import PipelineError, StageFailed
from pipeline.evaluation.partial import NOT_ALL, leave_out
from pipeline.products.checks.collect import AttackCheck, ClassOrder
from pipeline.products.strongest.collect import Candidate, StrongestAttack, SystemPair
from pipeline.stages.graph import Graph, Measurement
from tests import key_table
from tests.evaluation.test_assemble import planned

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
            failed[task] = failures.make_not_run(task)
        elif fails(task):
            failed[task] = StageFailed(f"{task.label} failed with ValueError: no good")
    assert failed
    return failed


def systems(graph: Graph) -> set[str]:
    return {source.identity["system"] for source in graph.select(Measurement)}


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


@pytest.mark.parametrize(("label", "ranked"), CASES.items())
def test_what_succeeded_stays_and_whole_systems_alone_are_ranked(graph: Graph, label: str, ranked: set[str]) -> None:
    """An extractor that learns from a system is used on original speech too: its failure must not take that along."""
    failed = after(graph, lambda task: task.label.startswith(label))
    rest = leave_out(graph, failed)
    done = {task for task in graph.tasks if task not in failed}
    refs = [one.ref for one in graph.select(Measurement) if {one.ref.task, *(of.task for of in one.fits)} <= done]
    assert [one.ref for one in rest.select(Measurement)] == refs, "every number whose tasks are done, and no other"
    assert {one.identity["system"] for one in rest.select(StrongestAttack)} == ranked & {
        one.identity["system"] for one in graph.select(StrongestAttack) if one.ref.task in done
    }
    assert not {name for one in rest.select(SystemPair) for name in (one.system, one.reference)} - ranked
    for source in rest.select(Measurement):
        marked = source.identity["system"] not in ranked and source.identity["attacker"] not in ("", "unprotected")
        assert (NOT_ALL in source.note) == marked
    assert set(rest.tasks) <= done
    assert {ref.task for task in rest.tasks for ref in task.sources()} <= set(rest.tasks)
    said = " ".join(rest.left_out)
    for system in systems(graph) - ranked:
        standing = (
            "is not ranked, and has the rows of its other attacks alone" if system in systems(rest) else "has no row"
        )
        assert f"system {system} {standing}" in said
    assert "no good" in said
    for what in (rest.select(AttackCheck), rest.select(Candidate), rest.select(ClassOrder)):
        assert {one.identity["system"] for one in what} <= systems(rest)


def test_a_back_end_that_fails_leaves_the_numbers_of_the_others(graph: Graph) -> None:
    failed = after(graph, lambda task: task.label == "fit wccn for ge2e on original, training set")
    rest = leave_out(graph, failed)
    left = {
        (one.identity["system"], one.identity["backend"])
        for one in rest.select(Measurement)
        if one.identity["extractor"] == "ge2e"
    }
    assert {("original", "cosine"), ("b2", "cosine"), ("b2r", "cosine")} <= left and ("original", "wccn") not in left
    assert not rest.select(StrongestAttack), "the attack that failed may have been the strongest"


def test_what_is_held_against_original_speech_is_not_ranked_without_it(graph: Graph) -> None:
    """Attacks are; what protected speech shows by itself is not."""
    of = {one.ref.task: one.identity for one in graph.select(Measurement)}
    failed = after(graph, lambda task: task in of and of[task]["attacker"] == "unprotected")
    rest = leave_out(graph, failed)
    said = "system b2 is not ranked, and has the rows of its other attacks alone: its numbers are compared with those of original"
    assert any(line.startswith(said) for line in rest.left_out) and not rest.select(StrongestAttack)

    alone = planned("system=[original,b2,b2r]", "extractor=[f0]", "metric=[srd]")
    of = {one.ref.task: one.identity for one in alone.select(Measurement)}
    rest = leave_out(alone, after(alone, lambda task: task in of and of[task]["system"] == "original"))
    assert systems(rest) == {"b2", "b2r"}
