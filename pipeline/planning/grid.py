"""What the parts of the graph share while it is made: the plan, and one cell of the evaluation's grid."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Given, Input, Task
from pipeline.planning import features
from pipeline.planning.features import Refs, Trainings, View
from pipeline.planning.settings import AttackerSettings, Evaluation, Graph, Machine, Source
from pipeline.planning.speech import Speech
from pipeline.protocol.trials import TrialSet
from pipeline.registry import component
from pipeline.stages import measure


@dataclass(frozen=True)
class Scorer:
    """A back end with its parameters.

    Attributes:
        label: of the back end.
        model: its parameters; None where it has none.
        note: what the reader of its numbers must know.
    """

    label: str
    settings: Any
    model: Input | None = None
    note: str = ""

    @property
    def cls(self) -> Any:
        return component("backends", self.settings.name).Backend

    def inputs(self) -> dict[str, Input]:
        return {} if self.model is None else {"backend": self.model}


@dataclass
class Plan:
    """What the parts of the graph share while it is made.

    Attributes:
        evaluated: the evaluation sets of each system.
        second: those of the second runs of random systems.
        other: enrolment sets at the other level.
        refs: features by keys of speech and view.
        scorers: back ends by (label, key of the view).
        scored: score tasks by what they score.
        answered: the chosen metrics that are measured somewhere.
    """

    evaluation: Evaluation
    data: Prepared
    machine: Machine
    graph: Graph
    trainings: Trainings
    views: list[View]
    evaluated: dict[str, Speech] = field(default_factory=dict)
    second: dict[str, Speech] = field(default_factory=dict)
    other: dict[str, Speech] = field(default_factory=dict)
    refs: Refs = field(default_factory=dict)
    scorers: dict[tuple[str, str], Scorer] = field(default_factory=dict)
    scored: dict[tuple[str, ...], Task] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    _rows: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict)
    _vectors: dict[tuple[str, str, str, str], Input] = field(default_factory=dict)

    def rows(self, trial_set: TrialSet, side: str) -> pd.DataFrame:
        """Rows of the manifest that a trial set needs for its ``enrolment`` or for its ``trials``."""
        if (trial_set.name, side) not in self._rows:
            name, table = (
                (trial_set.enrolment_set, trial_set.enrolment)
                if side == "enrolment"
                else (trial_set.name, trial_set.trials)
            )
            rows = self.data.manifest
            self._rows[trial_set.name, side] = rows[(rows["set"] == name) & rows["utterance"].isin(table["utterance"])]
        return self._rows[trial_set.name, side]

    def vectors(self, speech: Speech, view: View, trial_set: TrialSet, side: str) -> Input:
        """The vectors of one side of a trial set."""
        key = (speech.key, view.key, trial_set.name, side)
        if key not in self._vectors:
            self._vectors[key] = features.vectors(speech, view, self.refs, self.rows(trial_set, side))
        return self._vectors[key]

    @property
    def original(self) -> Speech:
        return self.evaluated[self.evaluation.original]

    def seeing(self, kind: str, attacker: AttackerSettings | None = None, system: str = "") -> list[View]:
        """The views for a kind of measure that an attacker has; without attacker, those that know original speech only."""
        found = [view for view in self.views if kind in view.cls.measures]
        if attacker is None or attacker.training == "original":
            return [view for view in found if view.trained_on == "original"]
        learnt = self.trainings.anonymised.get((system, attacker.training_level))
        return [view for view in found if view.trained_on != "original" and (not view.system or view.learnt is learnt)]

    def adapted(self, system: str) -> list[View]:
        """The views that were trained on a system's anonymised speech."""
        return [view for view in self.views if view.trained_on != "original" and view.system in ("", system)]

    def measures(self, kind: str) -> list[tuple[str, Any]]:
        """The chosen metrics that read this kind of scores."""
        chosen = self.evaluation.metrics.items()
        return [(label, one) for label, one in chosen if kind == component("families", one.name).MEASURES]


@dataclass(frozen=True)
class Cell:
    """One cell of the evaluation's grid: what is measured, on which speech, by which attacker."""

    subset: str
    condition: str
    system: Speech
    attacker: str
    view: View
    scorer: Scorer | None
    calibration: str
    protocol: str
    similarity: str = ""

    @property
    def label(self) -> str:
        backend = self.scorer.label if self.scorer else ""
        parts = (self.subset, self.system.system, self.attacker, self.view.key, backend)
        return " ".join(part for part in parts if part)

    def identity(self, dataset: str) -> dict[str, str]:
        return {
            "dataset": dataset,
            "subset": self.subset,
            "condition": self.condition,
            "system": self.system.system,
            "system_level": self.system.level,
            "attacker": self.attacker,
            "extractor": self.view.label,
            "trained_on": self.view.trained_on,
            "backend": self.scorer.label if self.scorer else self.similarity,
            "calibration": self.calibration,
        }

    def back_end(self) -> dict[str, Any]:
        """What the signature says of the back end: its settings, and where its parameters come from."""
        if self.scorer is None:
            return {}
        model, learnt = self.scorer.model, self.view.learnt
        parameters: dict[str, Any] = {}
        if isinstance(model, Given):
            parameters = {"weights": model.digest}
        elif model is not None and learnt is not None:
            parameters = {"data": learnt.content, "note": self.scorer.note}
        return {**self.scorer.settings.numeric(), **parameters}


def measured(
    plan: Plan,
    cell: Cell,
    name: str,
    settings: Any,
    context: measure.Context,
    inputs: Mapping[str, Input],
    n_expected: int,
) -> None:
    """One measure of one cell."""
    module = component("families", settings.name)
    numbers = {**settings.numeric(), "component_version": module.VERSION, "of": context.numeric()}
    task = Task(
        name="measure",
        label=f"measure {name} {cell.label}",
        version=measure.VERSION,
        settings={**numbers, "n_expected": n_expected},
        inputs=inputs,
        function=functools.partial(measure.run, settings, context, n_expected),
        libraries=("numpy", "scipy"),
    )
    plan.graph.tasks.append(task)
    plan.answered.add(name)
    parameters = {
        "extractor": cell.view.described,
        "backend": cell.back_end(),
        "calibration": cell.calibration,
        "settings": numbers,
        "protocol": cell.protocol,
    }
    note = cell.scorer.note if cell.scorer else ""
    plan.graph.sources.append(
        Source(task.ref(), cell.identity(plan.data.name), parameters, cell.view.model(), note)
    )  # fmt: skip
