"""A graph has each task once, and no two functions share a key."""

from __future__ import annotations

import pytest

from pipeline.engine.task import Task, Value, Work
from pipeline.stages.graph import Graph


def count_speakers(work: Work) -> None:
    """One function of this module."""


def count_utterances(work: Work) -> None:
    """Another one, whose key tells it apart by nothing."""


def make_task(function: object) -> Task:
    return Task(name="check", label="", function=function, inputs={"manifest": Value("m", "0" * 64)})


def test_a_task_that_is_planned_twice_is_done_once() -> None:
    graph = Graph()
    for _ in range(2):
        graph.add(make_task(count_speakers))
    assert len(graph.tasks) == 1


def test_two_functions_with_one_key_are_refused() -> None:
    graph = Graph()
    graph.add(make_task(count_speakers))
    with pytest.raises(AssertionError, match="count_utterances and count_speakers have one key"):
        graph.add(make_task(count_utterances))
