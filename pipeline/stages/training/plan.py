"""Extractors with their weights, and the trainings that make them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from pipeline.contracts import Backend, Extractor, Preparation, Pretrained, Training, Transcripts, VectorSource, Weights
from pipeline.engine import code
from pipeline.engine.task import Input, Output, Resources, Task, Value
from pipeline.errors import ConfigError, DataError
from pipeline.stages.features.compute import ExtractorSpec
from pipeline.stages.graph import ExtractorKey, TrainingKey
from pipeline.stages.settings import Chosen, Evaluation
from pipeline.stages.speech import plan as speeches
from pipeline.stages.speech.plan import SpeechSet, SpeechSets, TrainingSet
from pipeline.stages.training import compute


@dataclass(frozen=True, eq=False)
class LoadedExtractor:
    """An extractor with its weights.

    Attributes:
        name: its label in the configuration.
        weights: found on this machine; None where a task makes them, or none are needed.
        training: the task that makes them.
        learnt: the speech on which the run trains it; None for what comes with weights.
        also: what else it is trained on, for signatures.
        pretrained_on: the speech that it knows where no run trained it.
        of_system: label of the system on whose speech somebody else trained it; '' for all others.
        is_found: whether its weights are of a training on the data set's own training speech that somebody else made.
        tables: vectors that are not extracted but read.
        allow_partial: whether vectors may be missing from the tables.
    """

    name: str
    chosen: Chosen[Extractor]
    weights: Weights | None = None
    training: Task | None = None
    learnt: TrainingSet | None = None
    maker: Maker | None = None
    also: tuple[Any, ...] = ()
    pretrained_on: str = "original"
    tables: VectorSource | None = None
    allow_partial: bool = False
    of_system: str = ""
    is_found: bool = False

    @property
    def adapted(self) -> bool:
        """Whether the run trains it on the anonymised speech of a system."""
        return self.learnt is not None and self.learnt.anonymised

    @functools.cached_property
    def key(self) -> ExtractorKey:
        """What its outputs are found by."""
        return ExtractorKey(self.name, self.learnt.key if self.learnt and self.adapted else None, self.of_system)

    @property
    def label(self) -> str:
        return self.key.label

    @property
    def component(self) -> type[Extractor]:
        return self.chosen.component

    @property
    def trained_on(self) -> str:
        """What tables say: ``original``, or ``anonymised`` with how."""
        return f"anonymised ({self.learnt.description})" if self.learnt and self.adapted else self.pretrained_on

    @property
    def system(self) -> str:
        """Label of the system on whose speech it was trained, by the run or before, else ''."""
        return self.learnt.system if self.learnt and self.adapted else self.of_system

    @property
    def is_adapted(self) -> bool:
        """Whether it knows anonymised speech."""
        return self.trained_on != "original"

    @property
    def can_be_judged(self) -> bool:
        """Whether it has learnt nothing from the training speakers who are held out."""
        holds_out = self.maker is None or self.maker.training.trainer.holds_out
        return self.tables is None and not self.is_found and holds_out

    @property
    def is_scored(self) -> bool:
        """Whether a back end compares its vectors."""
        return bool(self.component.compared_as & {"trials", "pairs"})

    @property
    def lacks(self) -> tuple[str, ...]:
        """Utterances that were left out of the speech on which the run trains it."""
        if self.training is None or self.learnt is None:
            return ()
        return tuple(dict.fromkeys(name for learnt in (self.learnt, *self.learnt.also) for name in learnt.left_out))

    def output(self, inputs: Mapping[str, Input] | None = None) -> Output:
        """The output of an extract task that holds its features; ``inputs`` are those of this output alone."""
        numbers = {**self.chosen.numeric(), "weights": self.weights.digest if self.weights else ""}
        weights = {"weights": self.training.ref()} if self.training else {}
        return Output(numbers, {**weights, **(inputs or {})}, (self.chosen.module,), self.component.libraries)

    def spec(self) -> ExtractorSpec:
        """How the extract stage builds it."""
        folder = self.weights.folder if self.weights else None
        return ExtractorSpec(self.component, self.chosen.settings, folder, self.training is not None)

    def reads(self, speech: SpeechSet) -> bool:
        """Whether there can be vectors of a speech: always, but for files of vectors that do not hold it."""
        return self.tables is None or self.tables.has_system(speech.key.file_label)

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """All that its vectors depend on beside the audio, for signatures; of a trained one, how and on what it was trained."""
        how = {}
        if self.training and self.learnt is not None:
            how = {
                "settings": self.training.settings,
                "data": self.learnt.content,
                "anonymised": self.learnt.request,
                "also": list(self.also),
                "code": code.collect_versions(self.training.code),
            }
        return {**self.output().settings, "code": code.collect_versions((self.chosen.module,)), "training": how}

    def model(self) -> Input | None:
        """Its weights as an input, for the digest in the results."""
        if self.training:
            return self.training.ref()
        return Value(self.weights.digest, None) if self.weights else None


@dataclass(frozen=True)
class Trainings:
    """All that is trained before anything is extracted.

    Attributes:
        original: the training set as it is; None where there is none.
        anonymised: the anonymised training sets by (system, attacker).
        tasks: anonymising and packing of training sets and the trainings, sources first.
        trained: the training tasks by (label of the extractor, training set), each with its maker.
    """

    original: TrainingSet | None
    anonymised: Mapping[tuple[str, str], TrainingSet]
    tasks: tuple[Task, ...]
    trained: Mapping[tuple[str, TrainingKey], tuple[Maker, Task]]

    def known_to(self, extractor: LoadedExtractor) -> TrainingSet | None:
        """The training set of the speech that an extractor knows, where there is one."""
        if extractor.adapted or not extractor.of_system:
            return extractor.learnt if extractor.adapted else self.original
        return next((learnt for (system, _), learnt in self.anonymised.items() if system == extractor.of_system), None)


def plan_trainings(evaluation: Evaluation, sets: SpeechSets) -> Trainings:
    """What the chosen extractors, back ends and attackers need trained.

    Raises:
        ModelMissing: weights to begin with are not on this machine.
        DataError: there is something to train, and nobody to train on.
        ConfigError: the speech of a system helps to train that is not chosen.
    """
    rows, models = sets.training_rows, evaluation.models.adapted
    own: dict[str, Maker] = {}
    adapted: dict[str, Maker] = {}
    for label, chosen in evaluation.extractors.items():
        training = chosen.component.training(chosen.settings, evaluation.train)
        adaptation = chosen.component.adaptation(chosen.settings, evaluation.train)
        if training is not None:
            own[label] = _choose_maker(evaluation, training, chosen, rows)
        if adaptation is not None and any((label, system) not in models for system in evaluation.anonymised):
            adapted[label] = _choose_maker(evaluation, adaptation, chosen, rows)
    compared = any(family.component.reads != "ranks" for family in evaluation.metrics.values())
    fitted = compared and any(is_fitted(evaluation, backend) for backend in evaluation.backends.values())
    adapting = bool(evaluation.adapting and evaluation.anonymised and (adapted or fitted))
    trained, speakers = [*own, *(adapted if adapting else [])], rows["speaker"].nunique()
    if trained and speakers < 2:
        raise DataError(
            f"there are {speakers} training speakers, and an extractor that is trained needs two or more",
            where=f"extractor {', '.join(dict.fromkeys(trained))}",
            cause="the data set has no training set",
            remedy="name one by dataset.train=DIR, or choose extractors with weights and attackers that are trained on "
            "original speech, e.g. 'extractor=[ge2e]' 'attacker=[ignorant]'",
        )
    making = _Making(evaluation, sets)
    original = sets.training(evaluation.original) if speakers else None
    if original is not None:
        making.train(own, original)
        if adapting:
            making.adapt(adapted)
    return Trainings(original, making.anonymised, tuple(making.tasks), making.trained)


def is_fitted(evaluation: Evaluation, backend: Chosen[Backend]) -> bool:
    """Whether the run trains this back end."""
    return backend.component.is_fitted(backend.settings) and backend.weights(evaluation.paths.weights) is None


@dataclass(frozen=True)
class Maker:
    """What trains an extractor: the trainer, its settings resolved, and the weights that it begins with with the extractor that has
    them; None from nothing."""

    training: Training
    preparation: Preparation
    weights: Weights | None = None
    pretrained: Pretrained | None = None
    chosen: Chosen[Extractor] | None = None

    def numeric(self) -> dict[str, Any]:
        """All that the weights depend on beside the speech."""
        numbers: dict[str, Any] = dict(self.training.settings.numeric())
        if self.chosen is not None and self.weights is not None:
            numbers |= {"extractor": self.chosen.numeric(), "weights": self.weights.digest}
        return numbers

    @property
    def code(self) -> tuple[str, ...]:
        """Modules that make the weights."""
        trainer = self.training.trainer
        begun = (self.chosen.module,) if self.chosen is not None else ()
        return tuple(dict.fromkeys((trainer.__module__, *trainer.code(self.training.settings), *begun)))


def _choose_maker(evaluation: Evaluation, training: Training, chosen: Chosen[Extractor], rows: pd.DataFrame) -> Maker:
    """The trainer without nulls, with the weights that it begins with."""
    speakers, seconds = rows["speaker"].nunique(), speeches.seconds(rows)
    settings = training.trainer.resolved(training.settings, chosen.name, speakers, seconds)
    training = Training(training.trainer, settings, chosen.name)
    preparation = chosen.component.preparation(chosen.settings)
    if not training.trainer.adapts:
        return Maker(training, preparation)
    weights = chosen.weights(evaluation.paths.weights)
    if weights is None:
        raise ConfigError(
            f"the weights of {chosen.name} are trained in the run, and the chosen trainer begins with weights",
            where="train, extractor",
            remedy="name weights by source of the extractor, or set train=default",
        )
    return Maker(training, preparation, weights, Pretrained(chosen.component, chosen.settings, weights.folder), chosen)


@dataclass
class _Making:
    """Training sets and trainings in the making."""

    evaluation: Evaluation
    sets: SpeechSets
    anonymised: dict[tuple[str, str], TrainingSet] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    trained: dict[tuple[str, TrainingKey], tuple[Maker, Task]] = field(default_factory=dict)

    def adapt(self, makers: Mapping[str, Maker]) -> None:
        """Every system's speech as every attacker trains on it, then what is trained on it."""
        untrainable = self.sets.data.training_gaps.untrainable
        able = [system for system in self.evaluation.anonymised if system not in untrainable]
        for system in filter(self.evaluation.learns_from, able):
            for name, attacker in self.evaluation.adapting.items():
                learnt = self.sets.training(system, attacker)
                # 'same' and the level that is the same lead to one training set.
                learnt = next((other for other in self.anonymised.values() if other.key == learnt.key), learnt)
                self.anonymised[system, name] = learnt
                self.add(learnt.tasks)
        self._join()
        models = self.evaluation.models.adapted
        for learnt in self.anonymised.values():
            self.train(
                {label: maker for label, maker in makers.items() if (label, learnt.system) not in models}, learnt
            )

    def _join(self) -> None:
        """Give each training set those of other systems, as the same attacker trains on them, that help.

        Raises:
            ConfigError: the speech of a system helps that is not chosen.
        """
        train = self.evaluation.train
        labels = train.trainer.other_systems(train.settings) if train is not None else ()
        unknown = [label for label in labels if label not in self.evaluation.anonymised]
        if unknown:
            raise ConfigError(
                f"the speech of {', '.join(unknown)} is to help training, and is not evaluated as a system",
                where="train.also",
                remedy=f"add it to system=[…]; chosen are {', '.join(self.evaluation.anonymised)}",
            )
        untrainable = self.sets.data.training_gaps.untrainable
        lacking = [untrainable[label] for label in labels if label in untrainable]
        if lacking:
            raise DataError(
                f"its speech is to help training: {'; '.join(lacking)}",
                where="train.also",
                remedy="name the copy, or leave it out",
            )
        alone = dict(self.anonymised)
        for (system, name), learnt in alone.items():
            others = tuple(alone[label, name] for label in labels if label != system)
            self.anonymised[system, name] = replace(learnt, also=others)

    def add(self, tasks: Sequence[Task]) -> None:
        """Put tasks at the end, unless they are there."""
        self.tasks += [task for task in tasks if task not in self.tasks]

    def train(self, makers: Mapping[str, Maker], learnt: TrainingSet) -> None:
        """A training for each distinct trainer, on a training set that is packed once."""
        for label, maker in makers.items():
            if (label, learnt.key) in self.trained:
                continue
            packed = self._pack(learnt, maker.preparation)
            begun = {"weights": Value(maker.weights.digest, None)} if maker.weights is not None else {}
            trainer, device = maker.training.trainer, self.sets.machine.device
            task = Task(
                name="train",
                label=f"train {maker.training.label} on {learnt.label}",
                settings=maker.numeric(),
                inputs={"audio": packed.ref(), **begun},
                function=functools.partial(compute.train_extractor, maker.training, maker.pretrained, device),
                code=maker.code,
                libraries=trainer.libraries,
                resources=Resources(trainer.cost(maker.training.settings), device=True),
            )
            self.add([packed, task])
            self.trained[label, learnt.key] = maker, task

    def _pack(self, learnt: TrainingSet, preparation: Preparation) -> Task:
        others = [other.draws[0] for other in learnt.also]
        inputs: dict[str, Input] = {f"audio.{number}": speech.all_rows() for number, speech in enumerate(learnt.draws)}
        inputs |= {f"also.{number}": speech.all_rows() for number, speech in enumerate(others)}
        counts = len(learnt.draws), len(others)
        return Task(
            name="pack",
            label=" with ".join([f"pack {learnt.label}", *(speech.label for speech in others)]),
            settings=asdict(preparation),
            inputs={**inputs, "sexes": learnt.sexes},
            function=functools.partial(compute.pack_training_set, *counts, preparation, self.sets.machine.threads),
            libraries=("soundfile", preparation.library, "numpy"),
            resources=Resources(sum(sum(speech.seconds) for speech in (*learnt.draws, *others))),
        )


def load_extractors(
    evaluation: Evaluation, trainings: Trainings, transcripts: Transcripts | None = None
) -> list[LoadedExtractor]:
    """The extractors that some chosen metric needs, each with the weights that the attackers have.

    Args:
        transcripts: of the data set, for what reads words instead of hearing audio.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: files of vectors that cannot be used.
    """
    needed = {compared_as(metric.component.reads) for metric in evaluation.metrics.values()}
    partial, original = evaluation.execution.allow_partial, trainings.original
    extractors: list[LoadedExtractor] = []
    for label, chosen in evaluation.extractors.items():
        component = chosen.component
        if not needed & component.compared_as:
            continue
        tables = component.tables(chosen.settings, list(evaluation.systems), transcripts)
        if tables is not None:
            speech = component.trained_on(chosen.settings)
            extractors.append(
                LoadedExtractor(label, chosen, pretrained_on=speech, tables=tables, allow_partial=partial)
            )
        else:
            maker, training = trainings.trained.get((label, original.key), (None, None)) if original else (None, None)
            weights = None if training else chosen.weights(evaluation.paths.weights)
            learnt, is_found = original if training else None, label in evaluation.models.original
            extractors.append(LoadedExtractor(label, chosen, weights, training, learnt, maker, is_found=is_found))
            extractors += _adapted(evaluation, trainings, label, chosen)
        extractors += _from_elsewhere(evaluation, label)
    return extractors


def _from_elsewhere(evaluation: Evaluation, label: str) -> list[LoadedExtractor]:
    """An extractor as somebody else trained it on the anonymised speech of systems, where an attacker has it."""
    extractors = []
    for (name, system), chosen in evaluation.models.adapted.items() if evaluation.adapting else ():
        if name != label:
            continue
        tables = chosen.component.tables(chosen.settings, [evaluation.original, system])
        extractors.append(
            LoadedExtractor(
                label,
                chosen,
                None if tables is not None else chosen.weights(evaluation.paths.weights),
                pretrained_on=f"anonymised (the challenge's {'checkpoint' if tables is None else 'model'})",
                tables=tables,
                allow_partial=evaluation.execution.allow_partial,
                of_system=system,
                is_found=True,
            )
        )
    return extractors


def _adapted(
    evaluation: Evaluation, trainings: Trainings, label: str, chosen: Chosen[Extractor]
) -> list[LoadedExtractor]:
    extractors: dict[TrainingKey, LoadedExtractor] = {}
    for learnt in trainings.anonymised.values():
        maker, training = trainings.trained.get((label, learnt.key), (None, None))
        systems = evaluation.systems
        also = tuple((other.content, other.request, systems[other.system].numeric()) for other in learnt.also)
        if training is not None:
            extractor = LoadedExtractor(label, chosen, None, training, learnt, maker, also)
            extractors.setdefault(learnt.key, extractor)
    return list(extractors.values())


def compared_as(reads: str) -> str:
    """Two runs of trials or pairs need extractors for trials or pairs."""
    return {"trial_runs": "trials", "pair_runs": "pairs"}.get(reads, reads)
