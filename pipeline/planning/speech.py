"""The data set as each system has it: rows of a manifest, or the artefacts that anonymisation makes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.datasets import external, prepare
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Artefact, Given, Input, Ref, Task
from pipeline.planning.settings import Evaluation, Machine
from pipeline.protocol.shards import shards
from pipeline.registry import component
from pipeline.stages import anonymise, audio_rows, synthesise


@dataclass(frozen=True, eq=False)
class Speech:
    """Some sets as one system has them, cut into shards.

    Attributes:
        key: what tasks call it, e.g. ``b2r`` or ``b2r, training set (utterance)``.
        system: label of the system.
        level: how pseudo-voices are given, as tables print it.
        audio: one input a shard.
        cost: seconds of audio of each shard.
        listed: the rows of these sets in the original's manifest.
        rows: rows of a manifest with the files; None where anonymise tasks write them.
        tasks: those that make it.
    """

    key: str
    system: str
    level: str
    audio: tuple[Input, ...]
    cost: tuple[float, ...]
    listed: pd.DataFrame
    rows: pd.DataFrame | None
    tasks: tuple[Task, ...] = ()

    @functools.cached_property
    def content(self) -> str:
        """Digest of the original audio of these sets, with names and speakers."""
        given: Given = audio_rows.given(self.listed, ("set", "utterance", "speaker"))
        return given.digest

    def made(self) -> tuple[Ref, ...]:
        return tuple(entry for entry in self.audio if isinstance(entry, Ref))


def data_tasks(evaluation: Evaluation) -> list[Task]:
    """What has to run before there is a data set to read: the rendering of synthetic speakers."""
    if evaluation.dataset.name != "synthetic":
        return []
    return [
        Task(
            name="synthesise",
            label="synthesise speakers",
            version=synthesise.VERSION,
            settings={name: getattr(evaluation.dataset, name) for name in synthesise.READS},
            function=functools.partial(synthesise.run, evaluation.dataset),
            libraries=("numpy", "scipy"),
        )
    ]


def prepared(
    evaluation: Evaluation, made: Sequence[Artefact], machine: Machine, training_alone: bool = False
) -> Prepared:
    """The data set, read and checked, with the audio of external systems; or the training set ``dataset.train`` alone.

    Raises:
        DataError: all faults of the data set and of all external systems at once.
    """
    rendered = made[0].folder if made else None
    copies: dict[str, external.Copy] = {}
    for label, settings in evaluation.systems.items():
        if settings.name == "external":
            if not training_alone:
                copies[label] = external.Copy(settings.root, settings.suffix)
            if settings.second_root and not training_alone:
                copies[second_key(label)] = external.Copy(settings.second_root, settings.suffix)
            if evaluation.semi_informed:
                copies[training_key(label)] = external.Copy(settings.train_root or settings.root, settings.suffix, True)
    return prepare.run(
        evaluation.dataset, rendered, copies, evaluation.allow_partial, machine.threads, training_alone
    )  # fmt: skip


def second_key(label: str) -> str:
    """What the second run of a system is called."""
    return f"{label}, second run"


def training_key(label: str) -> str:
    """What the anonymised training set of a system is called."""
    return f"{label}, training set"


def evaluated_rows(data: Prepared) -> pd.DataFrame:
    """The rows that are enrolled and tried."""
    return data.manifest[data.manifest["role"] != "train"]


def training_rows(data: Prepared) -> pd.DataFrame:
    """The rows to train on."""
    return data.manifest[data.manifest["role"] == "train"]


def evaluated(evaluation: Evaluation, label: str, data: Prepared, machine: Machine) -> Speech:
    """The evaluation sets of a system."""
    settings, rows = evaluation.systems[label], evaluated_rows(data)
    if settings.name == "original":
        return _given(label, label, "none", rows, rows)
    if settings.name == "external":
        return _given(label, label, settings.level, rows, data.external[label])
    return _anonymised(label, label, settings, rows, machine)


def second_run(evaluation: Evaluation, label: str, data: Prepared, machine: Machine) -> Speech | None:
    """The evaluation sets of a random system under other random numbers; None for a deterministic one."""
    settings, rows, key = evaluation.systems[label], evaluated_rows(data), second_key(label)
    if settings.name == "external":
        return _given(key, label, settings.level, rows, data.external[key]) if key in data.external else None
    again = settings.second_run() if hasattr(settings, "second_run") else None
    return None if again is None else _anonymised(key, label, again, rows, machine)


def enrolment_at_other_level(evaluation: Evaluation, label: str, data: Prepared, machine: Machine) -> Speech | None:
    """The enrolment sets with pseudo-voices given at the other level, a speaker or an utterance; None if that is no choice."""
    settings = evaluation.systems[label]
    other = {"speaker": "utterance", "utterance": "speaker"}.get(getattr(settings, "level", ""))
    if other is None or not hasattr(settings, "at_level"):
        return None
    rows = data.manifest[data.manifest["role"] == "enrolment"]
    return _anonymised(f"{label}, enrolment at {other} level", label, settings.at_level(other), rows, machine, other)


def training(evaluation: Evaluation, label: str, level: str, data: Prepared, machine: Machine) -> Speech:
    """The training set of a system: that of the original speech, or its anonymised copy at a level (``same``: the system's)."""
    settings, rows = evaluation.systems[label], training_rows(data)
    if settings.name == "original":
        return _given(training_key(label), label, "none", rows, rows)
    if settings.name == "external":
        return _given(training_key(label), label, settings.level, rows, data.external[training_key(label)])
    chosen = settings if level == "same" or not hasattr(settings, "at_level") else settings.at_level(level)
    return _anonymised(f"{training_key(label)} ({chosen.level})", label, chosen, rows, machine, str(chosen.level))


def _given(key: str, label: str, level: str, listed: pd.DataFrame, rows: pd.DataFrame) -> Speech:
    cut = shards(rows)
    audio = tuple(audio_rows.given(part, ()) for part in cut)
    return Speech(key, label, level, audio, tuple(map(seconds, cut)), listed, rows)


def _anonymised(
    key: str, label: str, settings: Any, rows: pd.DataFrame, machine: Machine, level: str | None = None
) -> Speech:
    anonymiser = component("anonymisers", settings.name).Anonymiser(settings)
    cut = shards(rows)
    tasks = [
        Task(
            name="anonymise",
            label=f"anonymise {key} {number}/{len(cut)}",
            version=anonymise.VERSION,
            settings={**settings.numeric(), "component_version": anonymiser.version},
            inputs={"audio": audio_rows.given(part, ("set", "utterance", "speaker", *anonymiser.reads))},
            function=functools.partial(anonymise.run, settings, machine.device, machine.threads),
            libraries=("soundfile", "numpy", *anonymiser.libraries),
            cost=seconds(part),
        )
        for number, part in enumerate(cut, 1)
    ]
    refs = tuple(task.ref() for task in tasks)
    return Speech(
        key, label, level or anonymiser.level, refs, tuple(map(seconds, cut)), rows, None, tuple(tasks)
    )  # fmt: skip


def seconds(rows: pd.DataFrame) -> float:
    """Length of the audio of some rows together."""
    return float((rows["samples"] / rows["sample_rate"]).sum())


def whole(speech: Speech) -> Input:
    """All rows of a speech as one input, with names and speakers."""
    if speech.rows is not None:
        return audio_rows.given(speech.rows, ("set", "utterance", "speaker"))
    return speech.made()
