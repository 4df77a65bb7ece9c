"""Back ends for each extractor: as they are, read from disk, or trained on the speech that the attacker has."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.contracts import Backend
from pipeline.engine.task import Input, Ref, Task, Value
from pipeline.errors import ConfigError, DataError, Fault
from pipeline.protocol.cuts import Pieces, Whole
from pipeline.stages.backends import check_held_out, compute
from pipeline.stages.settings import Chosen
from pipeline.stages.speech.plan import TrainingSet
from pipeline.stages.training.plan import LoadedExtractor, is_fitted

if TYPE_CHECKING:
    from pipeline.stages.plan import Plan


@dataclass(frozen=True)
class Scorer:
    """A back end with its parameters, for one extractor.

    Attributes:
        label: of the back end.
        model: its parameters; None where it has none.
        learnt: the training set that goes with it: that of its parameters, or of its check.
        note: what the reader of its numbers must know.
        check: how well it tells held-out training speakers apart.
        variant: which of the attacks that its parameters serve; '' for the first.
    """

    label: str
    chosen: Chosen[Backend]
    model: Input | None = None
    learnt: TrainingSet | None = None
    note: str = ""
    check: Ref | None = None
    variant: str = ""

    @property
    def component(self) -> type[Backend]:
        return self.chosen.component

    @property
    def shown(self) -> str:
        """What tables call it."""
        return f"{self.label}, {self.variant}" if self.variant else self.label

    @property
    def centred(self) -> bool:
        """Whether it centres vectors on the enrolment."""
        return self.component.centres_on_enrolment(self.chosen.settings)

    @property
    def variants(self) -> list[Scorer]:
        """The back end in each way in which its parameters are an attack of their own."""
        variants = self.component.variants(self.chosen.settings).items()
        return [replace(self, chosen=replace(self.chosen, settings=way), variant=name) for name, way in variants]

    @property
    def gives_llrs(self) -> bool:
        """Whether scores are natural-log likelihood ratios."""
        return self.component.gives_llrs(self.chosen.settings)

    @property
    def is_trained(self) -> bool:
        """Whether the run makes its parameters."""
        return isinstance(self.model, Ref)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Utterances that were left out of the speech on which the run trains it."""
        return self.learnt.left_out if self.is_trained and self.learnt is not None else ()

    def inputs(self) -> dict[str, Input]:
        """What score tasks read beside vectors."""
        return {} if self.model is None else {"backend": self.model}

    @property
    def described(self) -> dict[str, Any]:
        """What the signature says of the back end: its settings, and where its parameters come from."""
        parameters: dict[str, Any] = {}
        if isinstance(self.model, Value):
            parameters = {"weights": self.model.digest}
        elif self.is_trained and self.learnt is not None:
            parameters = {"data": self.learnt.content, "anonymised": self.learnt.request, "note": self.note}
        return {**self.chosen.numeric(), **parameters}


def plan_back_ends(plan: Plan) -> None:
    """Each back end for each extractor, on original speech and on that of each system that an attacker trains on.

    Raises:
        DataError: there is nothing to train one on.
    """
    if not any(plan.families(reads) for reads in ("trials", "trial_runs", "pairs", "pair_runs")):
        return
    _extract(plan)
    for label, chosen in plan.evaluation.backends.items():
        for extractor in plan.scored:
            backend = _for_vectors(plan, label, chosen, extractor)
            weights = backend.weights(plan.evaluation.paths.weights)
            parameters = Value(weights.digest, weights.folder) if weights else None
            if backend.component.is_fitted(backend.settings) and not extractor.component.hears:
                plan.graph.notes.append(f"back end {label}: left out for {extractor.label}, which hears no voice")
                continue
            for learnt in _training_sets(plan, extractor):
                key = (label, extractor.key, learnt.key if learnt is not None else None)
                if not is_fitted(plan.evaluation, backend):
                    plan.scorers[key] = _check(plan, Scorer(label, backend, parameters, learnt), extractor)
                    continue
                if learnt is None:
                    raise _make_no_speech(label, extractor)
                plan.graph.trained_on.setdefault(label, {})[learnt.label] = learnt.rows["speaker"].nunique()
                plan.scorers[key] = _fit(plan, label, backend, extractor, learnt)


def refuse_too_few(backends: Mapping[str, Chosen[Backend]], counts: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse training sets of too few speakers for the back ends that are to be trained on them.

    Args:
        backends: by label.
        counts: of the speakers, by the label of the back end and what messages call the training set.

    Raises:
        DataError: with all of them.
    """
    faults: dict[tuple[str, str], list[str]] = {}
    remedies: dict[str, None] = {}
    for label, sets in counts.items():
        for name, count in sets.items():
            try:
                backends[label].component.check_speakers(backends[label].settings, count)
            except DataError as error:
                faults.setdefault((label, error.what), []).append(name)
                remedies[error.remedy.replace("<label>", label)] = None
    if faults:
        listed = [Fault(text, f"backend.{label} on {'; '.join(names)}") for (label, text), names in faults.items()]
        others = listed if len(listed) > 1 else []
        raise DataError(listed[0].what, where=listed[0].where, remedy="; ".join(remedies), faults=others)


def _for_vectors(plan: Plan, label: str, chosen: Chosen[Backend], extractor: LoadedExtractor) -> Chosen[Backend]:
    """The back end with the parameters that go with the vectors of a model that learnt from a system's speech, where it is such.

    Raises:
        ConfigError: its parameters are of another model.
    """
    if extractor.tables is None or not extractor.of_system:
        return chosen
    matching = plan.evaluation.models.backends.get((label, extractor.of_system))
    if matching is None and chosen.weights(plan.evaluation.paths.weights) is not None:
        raise ConfigError(
            f"the parameters of the back end {label} go with vectors that know original speech, and those of {extractor.label} do not",
            where=f"backend {label}, extractor {extractor.name}",
            remedy=f"set backend.{label}.source=found, or leave the attackers with training=anonymised out",
        )
    return matching or chosen


def _training_sets(plan: Plan, extractor: LoadedExtractor) -> Iterator[TrainingSet | None]:
    """The speech on which attackers with this extractor train their back end: original, or that of a system."""
    trainings = plan.trainings
    if extractor.tables is not None:
        yield None if extractor.is_adapted else trainings.original
    elif extractor.system:
        yield trainings.known_to(extractor)
    else:
        yield trainings.original
        yield from {learnt.key: learnt for learnt in trainings.anonymised.values()}.values()


def _make_no_speech(label: str, extractor: LoadedExtractor) -> DataError:
    where = f"backend {label}, extractor {extractor.name}"
    if extractor.tables is not None and extractor.is_adapted:
        return DataError(
            f"the back end {label} cannot be trained for vectors that know anonymised speech: of which system, is not said",
            where=where,
            remedy=f"name parameters by backend.{label}.source=DIR, or leave the back end out",
        )
    return DataError(
        f"the back end {label} is trained, and there is no training set",
        where=where,
        cause="the data set has no training speakers",
        remedy=f"name a training set by dataset.train=DIR, or parameters by backend.{label}.source=DIR if it takes them, or leave "
        "the back end out",
    )


def _extract(plan: Plan) -> None:
    """What back ends and checks need of the training sets, all at once: each file is decoded once for all extractors."""
    needs: dict[Pieces | Whole, list[tuple[TrainingSet, LoadedExtractor]]] = {}
    fitted = [backend for backend in plan.evaluation.backends.values() if is_fitted(plan.evaluation, backend)]
    for extractor in plan.scored:
        for learnt in _training_sets(plan, extractor):
            if learnt is None or extractor.tables is not None:
                continue
            for backend in plan.evaluation.backends.values():
                if backend in fitted or plan.judges(extractor, learnt):
                    needs.setdefault(_cut(backend, extractor, learnt), []).append((learnt, extractor))
    for cut, pairs in needs.items():
        plan.features.extract([(draw, extractor) for learnt, extractor in pairs for draw in learnt.draws], cut)


def _cut(backend: Chosen[Backend], extractor: LoadedExtractor, learnt: TrainingSet) -> Pieces | Whole:
    """How the recordings of a training set are cut for a back end: at all if most speakers have one that is whole."""
    if not learnt.one_each or learnt.pieces or extractor.tables is not None:
        return Whole()
    return Pieces(backend.component.piece_seconds(backend.settings))


def _vectors(plan: Plan, backend: Chosen[Backend], extractor: LoadedExtractor, learnt: TrainingSet) -> dict[str, Input]:
    """The vectors of a training set as inputs, one a draw: ``vectors``, ``vectors.1`` and so on."""
    cut, features = _cut(backend, extractor, learnt), plan.features
    inputs = {}
    for number, draw in enumerate(learnt.draws):
        inputs[f"vectors.{number}" if number else "vectors"] = (
            features.pieces(draw, extractor, cut.seconds)
            if isinstance(cut, Pieces)
            else features.vectors(draw, extractor, draw.wanted)
        )
    return inputs


def _fit(plan: Plan, label: str, backend: Chosen[Backend], extractor: LoadedExtractor, learnt: TrainingSet) -> Scorer:
    within = learnt.one_each and extractor.tables is None
    task = plan.graph.add(
        Task(
            name="fit",
            label=f"fit {label} for {extractor.label} on {learnt.label}",
            settings={**backend.numeric(), "within_session": within},
            inputs={**_vectors(plan, backend, extractor, learnt), "sexes": learnt.sexes},
            function=functools.partial(compute.fit_backend, backend.component, backend.settings, within),
            code=(backend.module,),
            libraries=backend.component.libraries,
        )
    )
    # On anonymised speech it is no weakness: what varies with the pseudo-voice varies within a session too.
    note = backend.component.weak_within_session if within and not learnt.anonymised else ""
    return _check(plan, Scorer(label, backend, task.ref(), learnt, note), extractor)


def _check(plan: Plan, scorer: Scorer, extractor: LoadedExtractor) -> Scorer:
    """A scorer with its check on held-out training speakers, where there is speech for one."""
    learnt, backend = scorer.learnt, scorer.chosen
    if learnt is None or extractor.tables is not None or not plan.judges(extractor, learnt):
        return scorer
    within = learnt.one_each
    parameters: dict[str, Input] = {"backend": scorer.model} if isinstance(scorer.model, Value) else {}
    task = plan.graph.add(
        Task(
            name="check",
            label=f"check {scorer.label} for {extractor.label} on held-out speakers of {learnt.label}",
            settings={**backend.numeric(), "within_session": within},
            inputs={**_vectors(plan, backend, extractor, learnt), "sexes": learnt.sexes, **parameters},
            function=functools.partial(check_held_out.check_held_out, backend.component, backend.settings, within),
            code=(backend.module,),
            libraries=("numpy", "scipy", *backend.component.libraries),
        )
    )
    return replace(scorer, check=task.ref())
