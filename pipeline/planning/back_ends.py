"""Back ends for each extractor: as they are, read from disk, or trained on the training set that the extractor goes with."""

from __future__ import annotations

import functools

from pipeline.contracts import Backend
from pipeline.engine.task import Given, Input, Task
from pipeline.errors import DataError
from pipeline.planning import speech
from pipeline.planning.extractors import LoadedExtractor
from pipeline.planning.plan import Plan, Scorer
from pipeline.planning.settings import Chosen
from pipeline.planning.speech import SpeechSet
from pipeline.protocol.cuts import Pieces
from pipeline.stages import fit


def is_fitted(plan: Plan, backend: Chosen[Backend]) -> bool:
    """Whether the run trains this back end."""
    component = backend.component
    return (
        component.is_fitted(backend.settings)
        and component.weights(backend.settings, plan.evaluation.paths.weights) is None
    )


def one_recording_each(plan: Plan) -> bool:
    """Whether fewer than half of the training speakers have a second recording."""
    counts = speech.training_rows(plan.data)["speaker"].value_counts()
    return bool(len(counts)) and float((counts >= 2).mean()) < 0.5


def back_ends(plan: Plan) -> None:
    """Each back end for each extractor."""
    for label, backend in plan.evaluation.backends.items():
        weights = backend.component.weights(backend.settings, plan.evaluation.paths.weights)
        for extractor in plan.extractors:
            if not extractor.is_scored:
                continue
            if backend.component.is_fitted(backend.settings) and not extractor.component.hears:
                plan.graph.notes.append(f"back end {label}: left out for {extractor.label}, which hears no voice")
                continue
            if backend.component.is_fitted(backend.settings) and weights is None:
                scorer = _fitted(plan, label, backend, extractor)
            else:
                scorer = Scorer(label, backend, Given(weights.digest, weights.folder) if weights else None)
            plan.scorers[label, extractor.key] = scorer


def _fitted(plan: Plan, label: str, backend: Chosen[Backend], extractor: LoadedExtractor) -> Scorer:
    """A back end that the run trains.

    Raises:
        DataError: there is nothing to train it on.
    """
    learnt = _training_set(label, extractor)
    within = one_recording_each(plan) and extractor.tables is None
    vectors: Input
    if within:
        cut = Pieces(backend.component.piece_seconds(backend.settings))
        # All at once, so that each file is decoded once for all extractors.
        scored = [one for one in plan.extractors if one.is_scored and one.learnt is not None]
        plan.features.extract([(one.learnt, one) for one in scored if one.learnt is not None], cut)
        vectors = plan.features.pieces(learnt, extractor, cut.seconds)
    else:
        vectors = plan.features.vectors(learnt, extractor, lambda: learnt.listed, "training set")
    task = plan.graph.add(
        Task(
            name="fit",
            label=f"fit {label} for {extractor.label}",
            settings={**backend.numeric(), "within_session": within},
            inputs={"vectors": vectors},
            function=functools.partial(fit.run, backend.component, backend.settings, within),
            code=(backend.module,),
            libraries=backend.component.libraries,
        )
    )
    return Scorer(label, backend, task.ref(), backend.component.weak_within_session if within else "")


def _training_set(label: str, extractor: LoadedExtractor) -> SpeechSet:
    if extractor.tables is not None and extractor.is_adapted:
        raise DataError(
            f"the back end {label} cannot be trained for vectors that know anonymised speech: of which system, is not said",
            where=f"backend {label}, extractor {extractor.name}",
            remedy=f"name parameters by backend.{label}.source=DIR, or leave the back end out",
        )
    if extractor.learnt is None:
        raise DataError(
            f"the back end {label} is trained, and there is no training set",
            where=f"backend {label}, extractor {extractor.name}",
            cause="the data set has no training speakers",
            remedy=f"name a training set by dataset.train=DIR, or parameters by backend.{label}.source=DIR",
        )
    return extractor.learnt
