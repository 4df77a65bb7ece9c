"""Extractors with their weights, the trainings that make them, and what is extracted from which speech."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Artefact, Derived, Given, Input, Output, Ref, Task
from pipeline.errors import DataError
from pipeline.extractors.precomputed.files import VectorTable
from pipeline.planning import speech as speeches
from pipeline.planning.settings import Evaluation, Machine
from pipeline.planning.speech import Speech
from pipeline.registry import component, digest
from pipeline.stages import audio_rows, extract, pack, pieces, train


@dataclass(frozen=True, eq=False)
class View:
    """An extractor with its weights.

    Attributes:
        label: of the extractor.
        cls: its class.
        weights: found on this machine; None where a task makes them, or none are needed.
        training: the task that makes them.
        trained_on: what the tables say: ``original`` or ``anonymised (LEVEL)``.
        system: label of the system on whose anonymised training set it was trained, else ''.
        training_level: ``same`` if pseudo-voices of that set are given as the system does, else how they are.
        learnt: the training set that goes with it, for back ends.
        tables: vectors that are not extracted but read, by label of a system (``LABEL@2`` its second run).
        allow_partial: whether vectors may be missing from the tables.
    """

    label: str
    settings: Any
    cls: Any
    weights: Any = None
    training: Task | None = None
    trained_on: str = "original"
    system: str = ""
    training_level: str = ""
    learnt: Speech | None = None
    tables: Mapping[str, VectorTable] | None = None
    allow_partial: bool = False

    @property
    def key(self) -> str:
        """What its outputs are called."""
        return f"{self.label}, {self.learnt.key}" if self.system and self.learnt else self.label

    @property
    def architecture(self) -> str:
        return str(self.settings.name)

    def output(self) -> Output:
        numbers = {**self.settings.numeric(), "weights": self.weights.digest if self.weights else ""}
        inputs = {"weights": self.training.ref()} if self.training else {}
        return Output(self.cls.version, numbers, inputs, tuple(self.cls.libraries))

    def recipe(self) -> extract.Recipe:
        folder = self.weights.folder if self.weights else None
        return extract.Recipe(self.settings, folder, self.training is not None)

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """All that its vectors depend on beside the audio, for signatures; of a trained one, how and on what it was trained."""
        made = {}
        if self.training and self.learnt is not None:
            made = {
                "settings": self.training.settings,
                "data": self.learnt.content,
                "anonymised": self.training_level,
            }
        return {**self.output().settings, "version": self.cls.version, "training": made}

    def model(self) -> Input | None:
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
        trained: the training tasks by (label of the extractor, key of the training set).
    """

    original: Speech | None
    anonymised: Mapping[tuple[str, str], Speech]
    tasks: tuple[Task, ...]
    trained: Mapping[tuple[str, str], Task]


def trainings(evaluation: Evaluation, data: Prepared, machine: Machine) -> Trainings:
    """What the chosen extractors and attackers need trained.

    Raises:
        DataError: there is something to train, and nobody to train on.
    """
    rows = speeches.training_rows(data)
    trainers = {
        label: trainer
        for label, settings in evaluation.extractors.items()
        if (trainer := _trainer(evaluation, settings)) is not None
    }
    adaptable = {label: adapted for label in evaluation.extractors
                 if (adapted := _adapted(evaluation, evaluation.extractors[label])) is not None}  # fmt: skip
    semi = bool(evaluation.semi_informed and evaluation.anonymised and adaptable)
    if trainers or semi:
        _somebody(rows, [*trainers, *(adaptable if semi else [])])
    original = (
        speeches.training(evaluation, evaluation.original, "same", data, machine) if rows["speaker"].nunique() else None
    )
    tasks: list[Task] = []
    trained: dict[tuple[str, str], Task] = {}
    resolved = {label: _resolved(one, evaluation.extractors[label], rows) for label, one in trainers.items()}
    if original is not None:
        _train(resolved, original, machine, tasks, trained)
    anonymised: dict[tuple[str, str], Speech] = {}
    if semi:
        resolved = {label: _resolved(one, evaluation.extractors[label], rows) for label, one in adaptable.items()}
        for system in evaluation.anonymised:
            for attacker in evaluation.semi_informed.values():
                if (system, attacker.training_level) in anonymised:
                    continue
                made = speeches.training(evaluation, system, attacker.training_level, data, machine)
                # 'same' and the level that is the same lead to one training set.
                made = next((one for one in anonymised.values() if one.key == made.key), made)
                anonymised[system, attacker.training_level] = made
                tasks += [task for task in made.tasks if task not in tasks]
                _train(resolved, made, machine, tasks, trained)
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


def _trainer(evaluation: Evaluation, settings: Any) -> Any:
    """The settings of the trainer that makes an extractor's weights: its own (``training``) or those of the group ``train``."""
    if getattr(settings, "source", "") != "trained":
        return None
    return getattr(settings, "training", None) or _adapted(evaluation, settings)


def _adapted(evaluation: Evaluation, settings: Any) -> Any:
    """The trainer of the group ``train`` for an extractor that it can train, else None."""
    trainer = evaluation.train
    able = getattr(component("extractors", settings.name), "TRAINED_BY", "")
    return trainer if trainer is not None and trainer.name == able else None


def _resolved(trainer: Any, extractor: Any, rows: pd.DataFrame) -> Any:
    module = component("trainers", trainer.name)
    if not hasattr(module, "resolved"):
        return trainer
    return module.resolved(trainer, extractor.name, rows["speaker"].nunique(), speeches.seconds(rows))


def _train(
    trainers: Mapping[str, Any], learnt: Speech, machine: Machine, tasks: list[Task], trained: dict[tuple[str, str], Task]
) -> None:  # fmt: skip
    """One packing of a training set, and a training for each distinct trainer."""
    if not trainers:
        return
    packed = Task(
        name="pack",
        label=f"pack {learnt.key}",
        version=pack.VERSION,
        inputs={"audio": speeches.whole(learnt)},
        function=functools.partial(pack.run, machine.threads),
        libraries=("soundfile", "soxr", "numpy"),
        cost=sum(learnt.cost),
    )
    tasks.append(packed)
    distinct: dict[str, Task] = {}
    for label, trainer in trainers.items():
        what = digest(trainer.numeric())
        if what not in distinct:
            name = getattr(trainer, "architecture", None) or trainer.name
            distinct[what] = Task(
                name="train",
                label=f"train {name} on {learnt.key}",
                version=component("trainers", trainer.name).VERSION,
                settings=trainer.numeric(),
                inputs={"audio": packed.ref()},
                function=functools.partial(train.run, trainer, machine.device),
                libraries=("torch", "speechbrain"),
                cost=train.cost(trainer),
            )
            tasks.append(distinct[what])
        trained[label, learnt.key] = distinct[what]


def views(evaluation: Evaluation, made: Trainings) -> list[View]:
    """The extractors that some chosen metric needs, each with the weights that the attackers have.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: files of vectors that cannot be used.
    """
    needed = {_kind(component("families", settings.name).MEASURES) for settings in evaluation.metrics.values()}
    found = []
    for label, settings in evaluation.extractors.items():
        module = component("extractors", settings.name)
        if not needed & module.Extractor.measures:
            continue
        if hasattr(module, "tables"):
            again = [f"{system}@2" for system in evaluation.anonymised if f"{system}@2" in settings.vectors]
            tables = module.tables(settings, [*evaluation.systems, *again])
            found.append(View(label, settings, module.Extractor, learnt=made.original, tables=tables,
                              trained_on=settings.trained_on, allow_partial=evaluation.allow_partial))  # fmt: skip
            continue
        if made.original is not None:
            training = made.trained.get((label, made.original.key))
        else:
            training = None
        weights = None if training else module.weights(settings, evaluation.paths.weights)
        found.append(View(label, settings, module.Extractor, weights, training, learnt=made.original))
        for (system, _), learnt in made.anonymised.items():
            adapted = made.trained.get((label, learnt.key))
            if adapted is not None and not any(one.training is adapted and one.label == label for one in found):
                on = f"anonymised ({learnt.level})"
                own = getattr(evaluation.systems[system], "level", "")
                level = "same" if learnt.level == own else learnt.level
                found.append(View(label, settings, module.Extractor, None, adapted, on, system, level, learnt))
    return found


def _kind(measures: str) -> str:
    """Two runs of trials or pairs need extractors for trials or pairs."""
    return {"trial_runs": "trials", "pair_runs": "pairs"}.get(measures, measures)


Refs = Mapping[tuple[str, str], tuple[Ref, ...]]
"""The features of a view from a speech, one artefact a shard, by the keys of both."""


def extracted(needs: Sequence[tuple[Speech, View]], machine: Machine, tasks: list[Task]) -> Refs:
    """One extract task a shard of a speech, over all views that are needed of it."""
    by_speech: dict[str, tuple[Speech, list[View]]] = {}
    for speech, view in needs:
        wanted = by_speech.setdefault(speech.key, (speech, []))[1]
        if view.tables is None and view not in wanted:
            wanted.append(view)
    refs: dict[tuple[str, str], tuple[Ref, ...]] = {}
    for speech, wanted in by_speech.values():
        if not wanted:
            continue
        made = []
        for number, audio in enumerate(speech.audio):
            made.append(
                Task(
                    name="extract",
                    label=f"extract {speech.key} {number + 1}/{len(speech.audio)}",
                    version=extract.VERSION,
                    inputs={"audio": audio},
                    outputs={view.key: view.output() for view in wanted},
                    function=functools.partial(extract.run, recipes(wanted), machine.device, machine.threads),
                    libraries=("soundfile", "soxr", "numpy"),
                    cost=speech.cost[number],
                )
            )
        tasks += made
        for view in wanted:
            refs[speech.key, view.key] = tuple(task.ref(view.key) for task in made)
    return refs


def cut(speech: Speech, several: Sequence[View], seconds: float, machine: Machine, tasks: list[Task]) -> Refs:
    """The features of uniform pieces of each utterance of a training set, about so long each."""
    several = [view for view in several if view.tables is None]
    if not several:
        return {}
    made = [
        Task(
            name="pieces",
            label=f"extract pieces of {speech.key} {number + 1}/{len(speech.audio)}",
            version=pieces.VERSION,
            settings={"segment_seconds": seconds},
            inputs={"audio": audio},
            outputs={view.key: view.output() for view in several},
            function=functools.partial(pieces.run, recipes(several), machine.device, machine.threads, seconds),
            libraries=("soundfile", "soxr", "numpy"),
            cost=speech.cost[number],
        )
        for number, audio in enumerate(speech.audio)
    ]
    tasks += made
    return {(speech.key, view.key): tuple(task.ref(view.key) for task in made) for view in several}


def recipes(several: Sequence[View]) -> dict[str, extract.Recipe]:
    """How the extract stages build the extractors, by the names of their outputs."""
    return {view.key: view.recipe() for view in several}


def reads(view: View, speech: Speech) -> bool:
    """Whether there can be vectors of a speech: always, but for files of vectors that do not hold it."""
    return view.tables is None or _table(speech) in view.tables


def vectors(speech: Speech, view: View, refs: Refs, rows: pd.DataFrame) -> Input:
    """The vectors of the utterances (set, utterance) of ``rows``, as this speech has them."""
    wanted = rows[["set", "utterance", "speaker"]].reset_index(drop=True)
    if view.tables is not None:
        select = component("extractors", view.settings.name).select
        found = select(view.tables[_table(speech)], wanted, allow_partial=view.allow_partial)
        return Given(audio_rows.content(found), found)
    return _derived(speech, refs[speech.key, view.key], wanted, audio_rows.vectors)


def piece_vectors(speech: Speech, view: View, refs: Refs) -> Input:
    """The vectors of all pieces of a training set."""
    wanted = speech.listed[["set", "utterance", "speaker"]].reset_index(drop=True)
    return _derived(speech, refs[speech.key, view.key], wanted, pieces.vectors)


def _table(speech: Speech) -> str:
    """Training sets and evaluation sets of a system are in the same files; its second run is in others."""
    return f"{speech.system}@2" if speech.key == speeches.second_key(speech.system) else speech.system


def _derived(
    speech: Speech,
    features: Sequence[Ref],
    wanted: pd.DataFrame,
    select: Callable[[pd.DataFrame, Sequence[Artefact], pd.DataFrame], Given],
) -> Derived:
    made = speech.made()

    def chosen(artefacts: Sequence[Artefact]) -> Given:
        manifest = audio_rows.manifest(artefacts[: len(made)], speech.rows)
        return select(manifest, artefacts[len(made) :], wanted)

    return Derived((*made, *features), chosen, digest(wanted.to_numpy().tolist()))
