"""Back ends for each view: as they are, read from disk, or trained on the training set that the view goes with."""

from __future__ import annotations

import functools
from typing import Any

from pipeline.engine.task import Given, Ref, Task
from pipeline.errors import DataError
from pipeline.planning import features, speech
from pipeline.planning.features import View
from pipeline.planning.grid import Plan, Scorer
from pipeline.planning.speech import Speech
from pipeline.registry import component
from pipeline.stages import fit


def is_fitted(settings: Any, plan: Plan) -> bool:
    """Whether the run trains this back end."""
    module = component("backends", settings.name)
    return hasattr(module, "fit") and module.weights(settings, plan.evaluation.paths.weights) is None


def one_recording_each(plan: Plan) -> bool:
    """Whether fewer than half of the training speakers have a second recording."""
    counts = speech.training_rows(plan.data)["speaker"].value_counts()
    return bool(len(counts)) and float((counts >= 2).mean()) < 0.5


def back_ends(plan: Plan) -> None:
    """Each back end for each view: as it is, read from disk, or trained on the training set that the view goes with."""
    seconds: dict[float, dict[tuple[str, str], tuple[Ref, ...]]] = {}
    for label, settings in plan.evaluation.backends.items():
        module = component("backends", settings.name)
        for view in plan.views:
            if not view.cls.measures & {"trials", "pairs"}:
                continue
            if not hasattr(module, "fit"):
                plan.scorers[label, view.key] = Scorer(label, settings)
                continue
            found = module.weights(settings, plan.evaluation.paths.weights)
            if found is not None:
                plan.scorers[label, view.key] = Scorer(label, settings, Given(found.digest, found.folder))
                continue
            learnt = view.learnt
            if view.tables is not None and view.trained_on != "original":
                raise DataError(
                    f"the back end {label} cannot be trained for vectors that know anonymised speech: of which system, is not said",
                    where=f"backend {label}, extractor {view.label}",
                    remedy=f"name parameters by backend.{label}.source=DIR, or leave the back end out",
                )
            if learnt is None:
                raise DataError(
                    f"the back end {label} is trained, and there is no training set",
                    where=f"backend {label}, extractor {view.label}",
                    cause="the data set has no training speakers",
                    remedy=f"name a training set by dataset.train=DIR, or parameters by backend.{label}.source=DIR",
                )
            within = one_recording_each(plan) and view.tables is None
            if within:
                length = float(settings.segment_seconds)
                if length not in seconds:
                    seconds[length] = _pieces(plan, length)
                vectors = features.piece_vectors(learnt, view, seconds[length])
            else:
                vectors = features.vectors(learnt, view, plan.refs, learnt.listed)
            task = Task(
                name="fit",
                label=f"fit {label} for {view.key}",
                version=fit.VERSION,
                settings={**settings.numeric(), "component_version": module.Backend.version, "within_session": within},
                inputs={"vectors": vectors},
                function=functools.partial(fit.run, settings, within),
                libraries=tuple(module.Backend.libraries),
            )
            plan.graph.tasks.append(task)
            note = module.WEAK if within else ""
            plan.scorers[label, view.key] = Scorer(label, settings, task.ref(), note)


def _pieces(plan: Plan, length: float) -> dict[tuple[str, str], tuple[Ref, ...]]:
    """Features of pieces of all training sets that some view goes with."""
    made: dict[tuple[str, str], tuple[Ref, ...]] = {}
    of: dict[str, tuple[Speech, list[View]]] = {}
    for view in plan.views:
        if view.learnt is not None and view.cls.measures & {"trials", "pairs"}:
            of.setdefault(view.learnt.key, (view.learnt, []))[1].append(view)
    for learnt, several in of.values():
        made.update(features.cut(learnt, several, length, plan.machine, plan.graph.tasks))
    return made
