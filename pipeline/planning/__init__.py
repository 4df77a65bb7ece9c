"""The one room that knows the shape of an evaluation: settings to a graph of tasks.

``evaluation`` holds what is asked for and what comes out, ``speech`` the copies of the data that systems make, ``features``
the extractors with their weights and what they extract from which speech, ``grid`` the plan in the making and a cell of it,
``back_ends``, ``attacks`` and ``comparisons`` what is done with the vectors; ``assemble`` puts them together.
"""

from __future__ import annotations

from pipeline.planning.assemble import graph
from pipeline.planning.features import trainings
from pipeline.planning.settings import (
    AttackerSettings,
    Calibration,
    Diagnosis,
    Evaluation,
    Graph,
    Machine,
    Paths,
    Runtime,
    Source,
)
from pipeline.planning.speech import data_tasks, prepared

__all__ = [
    "AttackerSettings",
    "Calibration",
    "Diagnosis",
    "Evaluation",
    "Graph",
    "Machine",
    "Paths",
    "Runtime",
    "Source",
    "data_tasks",
    "graph",
    "prepared",
    "trainings",
]
