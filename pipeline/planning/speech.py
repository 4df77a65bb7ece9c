"""The data set as each system has it: rows of a manifest, or the artefacts that anonymisation makes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.contracts import Anonymiser
from pipeline.datasets import external, prepare
from pipeline.datasets.known import KnownFiles
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Artefact, Input, Ref, Resources, Task
from pipeline.planning import selections
from pipeline.planning.keys import SpeechKey
from pipeline.planning.settings import Chosen, Evaluation, Machine
from pipeline.protocol.shards import shards
from pipeline.stages import anonymise, synthesise

NAMED = ("set", "utterance", "speaker")


@dataclass(frozen=True, eq=False)
class SpeechSet:
    """Some sets as one system has them, cut into shards.

    Attributes:
        key: what it is found by.
        level: how pseudo-voices are given, as tables print it.
        audio: one input a shard.
        seconds: of audio of each shard.
        listed: the rows of these sets in the original's manifest.
        rows: rows of a manifest with the files; None where anonymise tasks write them.
        tasks: those that make it.
    """

    key: SpeechKey
    level: str
    audio: tuple[Input, ...]
    seconds: tuple[float, ...]
    listed: pd.DataFrame
    rows: pd.DataFrame | None
    tasks: tuple[Task, ...] = ()

    @property
    def system(self) -> str:
        """The label of the system."""
        return self.key.system

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.key.label

    @functools.cached_property
    def content(self) -> str:
        """Digest of the original audio of these sets, with names and speakers."""
        return selections.rows(self.listed, NAMED).digest

    @property
    def manifests(self) -> tuple[Ref, ...]:
        """The artefacts that hold its manifest; none where its rows are given."""
        return tuple(entry for entry in self.audio if isinstance(entry, Ref))

    def whole(self) -> Input:
        """All rows as one input, with names and speakers."""
        return selections.rows(self.rows, NAMED) if self.rows is not None else self.manifests


def data_tasks(evaluation: Evaluation) -> list[Task]:
    """What has to run before there is a data set to read: the rendering of synthetic speakers."""
    if not evaluation.dataset.is_rendered:
        return []
    return [
        Task(
            name="synthesise",
            label="synthesise speakers",
            settings={name: evaluation.dataset.numeric()[name] for name in synthesise.READS},
            function=functools.partial(synthesise.run, evaluation.dataset),
            libraries=("numpy", "scipy"),
        )
    ]


def prepared(
    evaluation: Evaluation,
    made: Sequence[Artefact],
    machine: Machine,
    known: KnownFiles,
    training_alone: bool = False,
) -> Prepared:
    """The data set, read and checked, with the audio of external systems; or the training set ``dataset.train`` alone.

    Args:
        evaluation: what is asked for.
        made: the artefacts of :func:`data_tasks`.
        machine: its threads read files.
        known: what earlier looks at the files found.
        training_alone: leave out all but the training set.

    Raises:
        DataError: all faults of the data set and of all external systems at once.
    """
    copies: dict[SpeechKey, external.Copy] = {}
    for label, system in evaluation.systems.items():
        found = system.component.copies(system.settings)
        if found is None:
            continue
        if not training_alone:
            copies[SpeechKey(label)] = external.Copy(found.root, found.suffix)
            if found.second_root:
                copies[SpeechKey(label, run=2)] = external.Copy(found.second_root, found.suffix)
        if evaluation.adapting:
            copies[SpeechKey(label, "training")] = external.Copy(found.train_root, found.suffix, True)
    rendered = made[0].folder if made else None
    return prepare.run(
        evaluation.dataset, rendered, copies, evaluation.allow_partial, machine.threads, known, training_alone
    )


def evaluated_rows(data: Prepared) -> pd.DataFrame:
    """The rows that are enrolled and tried."""
    return data.manifest[data.manifest["role"] != "train"]


def training_rows(data: Prepared) -> pd.DataFrame:
    """The rows to train on."""
    return data.manifest[data.manifest["role"] == "train"]


def seconds(rows: pd.DataFrame) -> float:
    """Length of the audio of some rows together."""
    return float((rows["samples"] / rows["sample_rate"]).sum())


@dataclass(frozen=True)
class SpeechSets:
    """Makes the speech sets of an evaluation."""

    evaluation: Evaluation
    data: Prepared
    machine: Machine

    def evaluated(self, label: str) -> SpeechSet:
        """The evaluation sets of a system."""
        return self._of(SpeechKey(label), self.evaluation.systems[label], evaluated_rows(self.data))

    def second_run(self, label: str) -> SpeechSet | None:
        """The evaluation sets of a random system under other random numbers; None for a deterministic one."""
        key, system = SpeechKey(label, run=2), self.evaluation.systems[label]
        rows = evaluated_rows(self.data)
        if system.component.copies(system.settings) is not None:
            return self._of(key, system, rows) if key in self.data.external else None
        again = system.component.second_run(system.settings)
        return None if again is None else self._of(key, Chosen(system.name, system.component, again), rows)

    def enrolment_at_other_level(self, label: str) -> SpeechSet | None:
        """The enrolment sets with pseudo-voices given at the other level, a speaker or an utterance; None if that is no choice."""
        system = self.evaluation.systems[label]
        level = {"speaker": "utterance", "utterance": "speaker"}.get(system.component.level(system.settings))
        settings = system.component.at_level(system.settings, level) if level else None
        if level is None or settings is None:
            return None
        rows = self.data.manifest[self.data.manifest["role"] == "enrolment"]
        key = SpeechKey(label, "enrolment", level=level)
        return self._of(key, Chosen(system.name, system.component, settings), rows, level)

    def training(self, label: str, level: str = "same") -> SpeechSet:
        """The training set of a system: that of the original speech, or its anonymised copy at a level (``same``: the system's)."""
        system, rows = self.evaluation.systems[label], training_rows(self.data)
        component = system.component
        if component.unchanged or component.copies(system.settings) is not None:
            return self._of(SpeechKey(label, "training"), system, rows)
        settings = component.at_level(system.settings, level) if level != "same" else None
        settings = settings if settings is not None else system.settings
        own = component.level(settings)
        key = SpeechKey(label, "training", level=own)
        return self._of(key, Chosen(system.name, component, settings), rows, own)

    def _of(self, key: SpeechKey, system: Chosen[Anonymiser], rows: pd.DataFrame, level: str = "") -> SpeechSet:
        """A speech set whose files are given, or are made; ``level`` where it is not the one that tables print."""
        shown = level or system.component.shown_level(system.settings)
        if system.component.unchanged:
            return self._given(key, shown, rows, rows)
        if system.component.copies(system.settings) is not None:
            return self._given(key, shown, rows, self.data.external[key])
        return self._anonymised(key, shown, system, rows)

    def _given(self, key: SpeechKey, level: str, listed: pd.DataFrame, rows: pd.DataFrame) -> SpeechSet:
        parts = shards(rows)
        audio = tuple(selections.rows(part) for part in parts)
        return SpeechSet(key, level, audio, tuple(map(seconds, parts)), listed, rows)

    def _anonymised(self, key: SpeechKey, level: str, system: Chosen[Anonymiser], rows: pd.DataFrame) -> SpeechSet:
        component, machine = system.component, self.machine
        weights = component.weights(system.settings, self.evaluation.paths.weights)
        folder = weights.folder if weights else None
        work = functools.partial(anonymise.run, component, system.settings, folder, machine.device, machine.threads)
        parts = shards(rows)
        tasks = [
            Task(
                name="anonymise",
                label=f"anonymise {key.label} {number}/{len(parts)}",
                settings={**system.numeric(), "weights": weights.digest if weights else ""},
                inputs={"audio": selections.rows(part, (*NAMED, *component.reads(system.settings)))},
                function=work,
                code=(system.module,),
                libraries=("soundfile", "numpy", *component.libraries),
                resources=Resources(seconds(part), component.on_device),
            )
            for number, part in enumerate(parts, 1)
        ]
        refs = tuple(task.ref() for task in tasks)
        return SpeechSet(key, level, refs, tuple(map(seconds, parts)), rows, None, tuple(tasks))
