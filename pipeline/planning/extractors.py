"""Extractors with their weights, and the trainings that make them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.contracts import Extractor, Training, VectorSource, Weights
from pipeline.engine import code
from pipeline.engine.task import Given, Input, Output, Resources, Task
from pipeline.errors import DataError
from pipeline.planning import speech as speeches
from pipeline.planning.keys import ExtractorKey, SpeechKey
from pipeline.planning.settings import Chosen, Evaluation, Machine
from pipeline.planning.speech import SpeechSet, SpeechSets
from pipeline.seeds import digest
from pipeline.stages import pack, train
from pipeline.stages.extract import ExtractorSpec

COMPARED = frozenset({"trials", "pairs"})
"""What is compared by a back end."""


@dataclass(frozen=True, eq=False)
class LoadedExtractor:
    """An extractor with its weights.

    Attributes:
        name: its label in the configuration.
        chosen: the component and its settings.
        weights: found on this machine; None where a task makes them, or none are needed.
        training: the task that makes them.
        trained_on: what the tables say: ``original`` or ``anonymised (LEVEL)``.
        system: label of the system on whose anonymised training set it was trained, else ''.
        training_level: ``same`` if pseudo-voices of that set are given as the system does, else how they are.
        learnt: the training set that goes with it, for back ends.
        tables: vectors that are not extracted but read.
        allow_partial: whether vectors may be missing from the tables.
    """

    name: str
    chosen: Chosen[Extractor]
    weights: Weights | None = None
    training: Task | None = None
    trained_on: str = "original"
    system: str = ""
    training_level: str = ""
    learnt: SpeechSet | None = None
    tables: VectorSource | None = None
    allow_partial: bool = False

    @functools.cached_property
    def key(self) -> ExtractorKey:
        """What its outputs are found by."""
        return ExtractorKey(self.name, self.learnt.key if self.system and self.learnt else None)

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.key.label

    @property
    def component(self) -> type[Extractor]:
        return self.chosen.component

    @property
    def is_adapted(self) -> bool:
        """Whether it knows anonymised speech."""
        return self.trained_on != "original"

    @property
    def is_scored(self) -> bool:
        """Whether a back end compares its vectors."""
        return bool(self.component.compared_as & COMPARED)

    def output(self, inputs: Mapping[str, Input] | None = None) -> Output:
        """The output of an extract task that holds its features; ``inputs`` are those of this output alone."""
        numbers = {**self.chosen.numeric(), "weights": self.weights.digest if self.weights else ""}
        made = {"weights": self.training.ref()} if self.training else {}
        return Output(numbers, {**made, **(inputs or {})}, (self.chosen.module,), self.component.libraries)

    def spec(self) -> ExtractorSpec:
        """How the extract stage builds it."""
        folder = self.weights.folder if self.weights else None
        return ExtractorSpec(self.component, self.chosen.settings, folder, self.training is not None)

    def reads(self, speech: SpeechSet) -> bool:
        """Whether there can be vectors of a speech: always, but for files of vectors that do not hold it."""
        return self.tables is None or self.tables.holds(speech.key.file_label)

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """All that its vectors depend on beside the audio, for signatures; of a trained one, how and on what it was trained."""
        how = {}
        if self.training and self.learnt is not None:
            how = {
                "settings": self.training.settings,
                "data": self.learnt.content,
                "anonymised": self.training_level,
                "code": code.versions(self.training.code),
            }
        return {**self.output().settings, "code": code.versions((self.chosen.module,)), "training": how}

    @property
    def training_data(self) -> str:
        """What is to be said of the recordings that its weights, or those that a training began with, have learnt from."""
        return self.component.training_data(self.chosen.settings)

    def model(self) -> Input | None:
        """Its weights as an input, for the digest in the results."""
        if self.training:
            return self.training.ref()
        return Given(self.weights.digest, None) if self.weights else None


@dataclass(frozen=True)
class Trainings:
    """All that is trained before anything is extracted.

    Attributes:
        original: the training set as it is; None where there is none.
        anonymised: the anonymised training sets by (system, training level of the attacker).
        tasks: anonymising and packing of training sets and the trainings, sources first.
        trained: the training tasks by (label of the extractor, training set).
    """

    original: SpeechSet | None
    anonymised: Mapping[tuple[str, str], SpeechSet]
    tasks: tuple[Task, ...]
    trained: Mapping[tuple[str, SpeechKey], Task]


def trainings(evaluation: Evaluation, sets: SpeechSets) -> Trainings:
    """What the chosen extractors and attackers need trained.

    Raises:
        DataError: there is something to train, and nobody to train on.
    """
    rows = speeches.training_rows(sets.data)
    own: dict[str, Training] = {}
    adapted: dict[str, Training] = {}
    for label, chosen in evaluation.extractors.items():
        for makers, made in (
            (own, chosen.component.training(chosen.settings, evaluation.train)),
            (adapted, chosen.component.adaptation(chosen.settings, evaluation.train)),
        ):
            if made is not None:
                makers[label] = _resolved(made, chosen, rows)
    adapting = bool(evaluation.adapting and evaluation.anonymised and adapted)
    if own or adapting:
        _somebody(rows, [*own, *(adapted if adapting else [])])
    original = sets.training(evaluation.original) if rows["speaker"].nunique() else None
    tasks: list[Task] = []
    trained: dict[tuple[str, SpeechKey], Task] = {}
    if original is not None:
        _train(own, original, sets.machine, tasks, trained)
    anonymised: dict[tuple[str, str], SpeechSet] = {}
    if adapting:
        for system in evaluation.anonymised:
            for attacker in evaluation.adapting.values():
                if (system, attacker.training_level) in anonymised:
                    continue
                made_set = sets.training(system, attacker.training_level)
                # 'same' and the level that is the same lead to one training set.
                made_set = next((one for one in anonymised.values() if one.key == made_set.key), made_set)
                anonymised[system, attacker.training_level] = made_set
                tasks += [task for task in made_set.tasks if task not in tasks]
                _train(adapted, made_set, sets.machine, tasks, trained)
    return Trainings(original, anonymised, tuple(tasks), trained)


def _somebody(rows: pd.DataFrame, labels: Sequence[str]) -> None:
    speakers = rows["speaker"].nunique()
    if speakers < 2:
        raise DataError(
            f"there are {speakers} training speakers, and an extractor that is trained needs two or more",
            where=f"extractor {', '.join(dict.fromkeys(labels))}",
            cause="the data set has no training set",
            remedy="name one by dataset.train=DIR, or choose extractors with weights and attackers that are trained on "
            "original speech, e.g. 'extractor=[ge2e]' 'attacker=[ignorant]'",
        )


def _resolved(training: Training, chosen: Chosen[Extractor], rows: pd.DataFrame) -> Training:
    """The trainer without nulls."""
    speakers, seconds = rows["speaker"].nunique(), speeches.seconds(rows)
    settings = training.trainer.resolved(training.settings, chosen.name, speakers, seconds)
    return Training(training.trainer, settings, chosen.name)


def _train(
    makers: Mapping[str, Training],
    learnt: SpeechSet,
    machine: Machine,
    tasks: list[Task],
    trained: dict[tuple[str, SpeechKey], Task],
) -> None:
    """One packing of a training set, and a training for each distinct trainer."""
    if not makers:
        return
    packed = Task(
        name="pack",
        label=f"pack {learnt.label}",
        inputs={"audio": learnt.whole()},
        function=functools.partial(pack.run, machine.threads),
        libraries=("soundfile", "soxr", "numpy"),
        resources=Resources(sum(learnt.seconds)),
    )
    tasks.append(packed)
    distinct: dict[str, Task] = {}
    for label, maker in makers.items():
        what = digest(maker.trainer.__module__, maker.settings.numeric())
        if what not in distinct:
            distinct[what] = Task(
                name="train",
                label=f"train {maker.label} on {learnt.label}",
                settings=maker.settings.numeric(),
                inputs={"audio": packed.ref()},
                function=functools.partial(train.run, maker, machine.device),
                code=(maker.trainer.__module__, *maker.trainer.code(maker.settings)),
                libraries=maker.trainer.libraries,
                resources=Resources(maker.trainer.cost(maker.settings), device=True),
            )
            tasks.append(distinct[what])
        trained[label, learnt.key] = distinct[what]


def loaded(evaluation: Evaluation, made: Trainings) -> list[LoadedExtractor]:
    """The extractors that some chosen metric needs, each with the weights that the attackers have.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: files of vectors that cannot be used.
    """
    needed = {compared_as(metric.component.reads) for metric in evaluation.metrics.values()}
    found: list[LoadedExtractor] = []
    for label, chosen in evaluation.extractors.items():
        component = chosen.component
        if not needed & component.compared_as:
            continue
        tables = component.tables(chosen.settings, list(evaluation.systems))
        if tables is not None:
            known = component.trained_on(chosen.settings)
            found.append(
                LoadedExtractor(
                    label,
                    chosen,
                    learnt=made.original,
                    tables=tables,
                    trained_on=known,
                    allow_partial=evaluation.allow_partial,
                )
            )
            continue
        training = made.trained.get((label, made.original.key)) if made.original is not None else None
        weights = None if training else component.weights(chosen.settings, evaluation.paths.weights)
        found.append(LoadedExtractor(label, chosen, weights, training, learnt=made.original))
        found += _adapted(evaluation, made, label, chosen)
    return found


def _adapted(evaluation: Evaluation, made: Trainings, label: str, chosen: Chosen[Extractor]) -> list[LoadedExtractor]:
    """An extractor as trained on each anonymised training set, once each."""
    found: dict[str, LoadedExtractor] = {}
    for (name, _), learnt in made.anonymised.items():
        training = made.trained.get((label, learnt.key))
        if training is None or training.id in found:
            continue
        system = evaluation.systems[name]
        level = "same" if learnt.level == system.component.level(system.settings) else learnt.level
        on = f"anonymised ({learnt.level})"
        found[training.id] = LoadedExtractor(label, chosen, None, training, on, name, level, learnt)
    return list(found.values())


def compared_as(reads: str) -> str:
    """Two runs of trials or pairs need extractors for trials or pairs."""
    return {"trial_runs": "trials", "pair_runs": "pairs"}.get(reads, reads)
