"""The one room that knows the shape of an evaluation: settings to a graph of tasks.

``settings`` holds what is asked for, ``graph`` what comes out; ``keys`` what things are found by. ``speech`` are the copies of the
data that systems make, ``extractors`` those with their weights, ``features`` what is extracted from which speech. ``plan`` is the
plan in the making and a cell of it; ``back_ends``, ``attacks`` and ``comparisons`` are what is done with the vectors; ``selections``
what tasks read of each other; ``assemble`` puts them together.
"""

from __future__ import annotations

from pipeline.planning.assemble import graph
from pipeline.planning.back_ends import refuse_too_few
from pipeline.planning.extractors import is_fitted, trainings
from pipeline.planning.graph import Graph, Source
from pipeline.planning.settings import Chosen, Evaluation, Machine, Paths, Runtime, Storage
from pipeline.planning.speech import SpeechSets, data_tasks, prepared

__all__ = [
    "Chosen",
    "Evaluation",
    "Graph",
    "Machine",
    "Paths",
    "Runtime",
    "Source",
    "SpeechSets",
    "Storage",
    "data_tasks",
    "graph",
    "is_fitted",
    "prepared",
    "refuse_too_few",
    "trainings",
]
