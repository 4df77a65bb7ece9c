"""The one file that knows the shape of an evaluation: settings to a graph of tasks."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pipeline.data import halves as srd
from pipeline.data.settings import DatasetSettings
from pipeline.data.shards import shards
from pipeline.data.trials import TrialSet
from pipeline.engine.task import Artefact, Derived, Given, Input, Output, Ref, Task
from pipeline.errors import DataError
from pipeline.registry import ComponentSettings, component, digest, numeric, runtime
from pipeline.stages import anonymise, audio_rows, extract, measure, prepare, score, segments, synthesise, train
from pipeline.stages.prepare import Prepared


class Paths(ComponentSettings):
    """Where things lie; no path enters a key."""

    root: str = runtime("./exp")
    data: str = runtime("./data")
    models: str | None = runtime(None)

    @property
    def store(self) -> Path:
        return Path(self.root).expanduser().resolve() / "store"

    @property
    def runs(self) -> Path:
        return Path(self.root).expanduser().resolve() / "runs"

    @property
    def weights(self) -> Path:
        if self.models:
            return Path(self.models).expanduser().resolve()
        return Path.home() / ".cache" / "voice-privacy" / "models"


class Runtime(ComponentSettings):
    """What changes speed and no number."""

    device: str = runtime("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    threads: int | None = runtime(None, ge=1)


class Calibration(ComponentSettings):
    """How scores become LLRs: ``oracle`` is PAV on the very scores under test, part of each metric's definition."""

    method: Literal["oracle"] = numeric("oracle")


class AttackerSettings(ComponentSettings):
    """What the attacker enrols and what the trials are (PROTOCOLS section 3)."""

    enrolment: Literal["original", "anonymised"] = numeric()
    trial: Literal["original", "anonymised"] = numeric()

    @property
    def condition(self) -> str:
        return "".join("O" if side == "original" else "P" for side in (self.enrolment, self.trial))


@dataclass(frozen=True)
class Evaluation:
    """The validated settings of one evaluation; the mappings go from label to settings, in the order of the tables."""

    recipe: str
    paths: Paths
    runtime: Runtime
    calibration: Calibration
    dataset: DatasetSettings
    train: Any
    systems: Mapping[str, Any]
    extractors: Mapping[str, Any]
    attackers: Mapping[str, AttackerSettings]
    backends: Mapping[str, Any]
    metrics: Mapping[str, Any]
    allow_partial: bool

    def numeric(self) -> dict[str, Any]:
        """All numeric settings, as plain values: the same for the same evaluation in another place."""
        several = {"system": self.systems, "extractor": self.extractors, "attacker": self.attackers,
                   "backend": self.backends, "metric": self.metrics}  # fmt: skip
        return {
            "calibration": self.calibration.numeric(),
            "dataset": self.dataset.numeric(),
            "train": self.train.numeric() if self.train is not None else None,
            "allow_partial": self.allow_partial,
            **{group: {label: one.numeric() for label, one in chosen.items()} for group, chosen in several.items()},
        }

    @property
    def original(self) -> str:
        """The label of the original speech."""
        return next(label for label, settings in self.systems.items() if settings.name == "original")

    @property
    def anonymised(self) -> list[str]:
        """Labels of the systems that protect."""
        return [label for label, settings in self.systems.items() if settings.name != "original"]


@dataclass(frozen=True)
class Machine:
    """The device and threads of this process."""

    device: str
    threads: int


@dataclass(frozen=True)
class Source:
    """A measure's artefact and what its rows are about.

    Attributes:
        ref: the artefact.
        identity: columns of the results schema.
        parameters: what the numbers depend on beside the system, for the signature.
        model: the weights behind it.
    """

    ref: Ref
    identity: Mapping[str, str]
    parameters: Mapping[str, Any]
    model: Input | None = None


@dataclass
class Graph:
    """Tasks, sources first, and where the results will lie."""

    tasks: list[Task] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


@dataclass(frozen=True)
class _Extractor:
    label: str
    settings: Any
    cls: Any
    weights: Any
    training: Task | None

    def output(self, **more: Any) -> Output:
        numbers = {**self.settings.numeric(), "weights": self.weights.digest if self.weights else "", **more}
        inputs = {"weights": self.training.ref()} if self.training else {}
        return Output(self.cls.version, numbers, inputs, tuple(self.cls.libraries))

    def described(self) -> dict[str, Any]:
        """All that its vectors depend on beside the audio, for signatures; of a trained one, how and on what it was trained."""
        training = self.training
        audio = training.inputs["audio"] if training else None
        made = {"settings": training.settings, "data": audio.digest} if training and isinstance(audio, Given) else {}
        return {**self.output().settings, "version": self.cls.version, "training": made}

    def model(self) -> Input | None:
        if self.training:
            return self.training.ref()
        return Given(self.weights.digest, None) if self.weights else None


@dataclass(frozen=True)
class _System:
    """The audio of one system, cut into shards: rows of a manifest, or the artefacts that anonymisation makes."""

    label: str
    level: str
    audio: tuple[Input, ...]
    cost: tuple[float, ...]
    rows: pd.DataFrame | None = None

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
    external = {label: settings for label, settings in evaluation.systems.items() if settings.name == "external"}
    rendered = made[0].folder if made else None
    return prepare.run(
        evaluation.dataset,
        rendered,
        {} if training_alone else external,
        evaluation.allow_partial,
        machine.threads,
        training_alone,
    )


def graph(evaluation: Evaluation, data: Prepared, machine: Machine) -> Graph:
    """All tasks of an evaluation over a data set.

    Raises:
        ModelMissing: weights are not on this machine.
    """
    made = Graph()
    extractors = _extractors(evaluation, data, machine, made)
    systems = {label: _system(evaluation, label, data, machine, made) for label in evaluation.systems}
    features = _features(evaluation, systems, extractors, machine, made)
    _trials(evaluation, data, systems, extractors, features, made)
    _pairs(evaluation, data, systems, extractors, features, made)
    _ranks(evaluation, data, systems, extractors, features, machine, made)
    return made


def _extractors(evaluation: Evaluation, data: Prepared, machine: Machine, made: Graph) -> list[_Extractor]:
    found = []
    needed = {component("measures", settings.name).MEASURES for settings in evaluation.metrics.values()}
    trained = trainings(evaluation, data, machine)
    for label, settings in evaluation.extractors.items():
        module = component("extractors", settings.name)
        if not needed & module.Extractor.measures:
            continue
        trainer = _trainer(evaluation, settings)
        training = trained.get(digest(trainer.numeric())) if trainer is not None else None
        if training is not None and training not in made.tasks:
            made.tasks.append(training)
        weights = None if training else module.weights(settings, evaluation.paths.weights)
        found.append(_Extractor(label, settings, module.Extractor, weights, training))
    return found


def trainings(evaluation: Evaluation, data: Prepared, machine: Machine) -> dict[str, Task]:
    """The training tasks of the chosen extractors whose source is ``trained``, by the digest of what they train.

    Raises:
        DataError: there is something to train, and nobody to train on.
    """
    chosen = {label: _trainer(evaluation, settings) for label, settings in evaluation.extractors.items()}
    distinct = {digest(trainer.numeric()): trainer for trainer in chosen.values() if trainer is not None}
    speakers = data.manifest.loc[data.manifest["role"] == "train", "speaker"].nunique()
    if distinct and speakers < 2:
        labels = [label for label, trainer in chosen.items() if trainer is not None]
        raise DataError(
            f"there are {speakers} training speakers, and an extractor that is trained needs two or more",
            where=f"extractor {', '.join(labels)}: source=trained",
            cause="the data set has no training set",
            remedy="name one by dataset.train=DIR, or choose extractors with weights, e.g. 'extractor=[ge2e]'",
        )
    return {key: _training(trainer, data, machine) for key, trainer in distinct.items()}


def _trainer(evaluation: Evaluation, settings: Any) -> Any:
    """The settings of the trainer of an extractor: its own (``training``) or those of the group ``train``; None if untrained."""
    if getattr(settings, "source", "") != "trained":
        return None
    return getattr(settings, "training", None) or evaluation.train


def _training(settings: Any, data: Prepared, machine: Machine) -> Task:
    rows = data.manifest[data.manifest["role"] == "train"]
    module = component("training", settings.name)
    return Task(
        name="train",
        label=f"train {settings.name}",
        version=module.VERSION,
        settings=settings.numeric(),
        inputs={"audio": audio_rows.given(rows, ("speaker",))},
        function=functools.partial(train.run, settings, machine.device),
        libraries=("torch", "speechbrain", "soundfile"),
        cost=train.cost(settings),
    )


def _system(evaluation: Evaluation, label: str, data: Prepared, machine: Machine, made: Graph) -> _System:
    settings = evaluation.systems[label]
    evaluated = data.manifest[data.manifest["role"] != "train"]
    if settings.name in ("original", "external"):
        rows = evaluated if settings.name == "original" else data.external[label]
        cut = shards(rows)
        level = "none" if settings.name == "original" else settings.level
        return _System(label, level, tuple(audio_rows.given(part, ()) for part in cut), tuple(map(_seconds, cut)), rows)
    anonymiser = component("anonymisers", settings.name).Anonymiser(settings)
    cut = shards(evaluated)
    refs = []
    for number, part in enumerate(cut, 1):
        task = Task(
            name="anonymise",
            label=f"anonymise {label} {number}/{len(cut)}",
            version=anonymise.VERSION,
            settings={**settings.numeric(), "component_version": anonymiser.version},
            inputs={"audio": audio_rows.given(part, ("set", "utterance", "speaker", *anonymiser.reads))},
            function=functools.partial(anonymise.run, settings, machine.device, machine.threads),
            libraries=("soundfile", "numpy", *anonymiser.libraries),
            cost=_seconds(part),
        )
        made.tasks.append(task)
        refs.append(task.ref())
    return _System(label, anonymiser.level, tuple(refs), tuple(map(_seconds, cut)))


def _seconds(rows: pd.DataFrame) -> float:
    return float((rows["samples"] / rows["sample_rate"]).sum())


Features = Mapping[tuple[str, str], tuple[Ref, ...]]


def _features(
    evaluation: Evaluation,
    systems: Mapping[str, _System],
    extractors: Sequence[_Extractor],
    machine: Machine,
    made: Graph,
) -> Features:
    """One extract task a shard, over all extractors."""
    refs: dict[tuple[str, str], list[Ref]] = {(system, each.label): [] for system in systems for each in extractors}
    if not extractors:
        return {}
    for system in systems.values():
        for number, audio in enumerate(system.audio):
            task = Task(
                name="extract",
                label=f"extract {system.label} {number + 1}/{len(system.audio)}",
                version=extract.VERSION,
                inputs={"audio": audio},
                outputs={each.label: each.output() for each in extractors},
                function=functools.partial(extract.run, _recipes(extractors), machine.device, machine.threads),
                libraries=("soundfile", "soxr", "numpy"),
                cost=system.cost[number],
            )
            made.tasks.append(task)
            for each in extractors:
                refs[(system.label, each.label)].append(task.ref(each.label))
    return {key: tuple(value) for key, value in refs.items()}


def _recipes(extractors: Sequence[_Extractor]) -> dict[str, extract.Recipe]:
    return {
        each.label: extract.Recipe(
            each.settings, each.weights.folder if each.weights else None, each.training is not None
        )
        for each in extractors
    }


def _vectors(system: _System, features: Sequence[Ref], rows: pd.DataFrame) -> Derived:
    """The vectors of the utterances (set, utterance) of ``rows``, as this system has them."""
    made = system.made()
    wanted = rows[["set", "utterance", "speaker"]].reset_index(drop=True)

    def select(artefacts: Sequence[Artefact]) -> Given:
        manifest = audio_rows.manifest(artefacts[: len(made)], system.rows)
        return audio_rows.vectors(manifest, artefacts[len(made) :], wanted)

    return Derived((*made, *features), select, digest(wanted.to_numpy().tolist()))


def _measures(evaluation: Evaluation, consumes: str) -> list[tuple[str, Any]]:
    """The chosen metrics that read this kind of scores."""
    return [
        (label, settings)
        for label, settings in evaluation.metrics.items()
        if consumes == component("measures", settings.name).MEASURES
    ]


@dataclass(frozen=True)
class _Cell:
    """One cell of the evaluation's grid: what is measured, on which speech, by which attacker."""

    dataset: str
    subset: str
    condition: str
    system: _System
    attacker: str
    extractor: _Extractor
    backend: str
    backend_settings: Mapping[str, Any]
    calibration: str
    protocol: str

    @property
    def label(self) -> str:
        parts = (self.subset, self.system.label, self.attacker, self.extractor.label, self.backend)
        return " ".join(part for part in parts if part)

    def identity(self) -> dict[str, str]:
        return {
            "dataset": self.dataset,
            "subset": self.subset,
            "condition": self.condition,
            "system": self.system.label,
            "system_level": self.system.level,
            "attacker": self.attacker,
            "extractor": self.extractor.label,
            "trained_on": "original",
            "backend": self.backend,
            "calibration": self.calibration,
        }


def _measure(
    cell: _Cell,
    name: str,
    settings: Any,
    context: measure.Context,
    inputs: Mapping[str, Input],
    n_expected: int,
    made: Graph,
) -> None:
    """One measure of one cell."""
    module = component("measures", settings.name)
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
    made.tasks.append(task)
    parameters = {
        "extractor": cell.extractor.described(),
        "backend": dict(cell.backend_settings),
        "calibration": cell.calibration,
        "settings": numbers,
        "protocol": cell.protocol,
    }
    made.sources.append(Source(task.ref(), cell.identity(), parameters, cell.extractor.model()))


def _backend(settings: Any) -> Any:
    return component("backends", settings.name).Backend


def _trials(
    evaluation: Evaluation, data: Prepared, systems: Mapping[str, _System], extractors: Sequence[_Extractor],
    features: Features, made: Graph,
) -> None:  # fmt: skip
    """Enrolment against trial, for each attacker: scores, then EER, Cllr, ZEBRA."""
    chosen = _measures(evaluation, "trials")
    if not chosen:
        return
    original = systems[evaluation.original]
    attacks = [(original, original, original, "unprotected", "OO")]
    for label in evaluation.anonymised:
        for name, attacker in evaluation.attackers.items():
            enrolled = original if attacker.enrolment == "original" else systems[label]
            tried = original if attacker.trial == "original" else systems[label]
            attacks.append((systems[label], enrolled, tried, name, attacker.condition))
    for system, enrolled, tried, attack, condition in attacks:
        for trial_set in data.trials.values():
            enrolment, trial = _sides(data, trial_set)
            for each in extractors:
                if "trials" not in each.cls.measures:
                    continue
                for backend, settings in evaluation.backends.items():
                    cell = _Cell(
                        data.name, trial_set.name, condition, system, attack, each, backend,
                        settings.numeric(), evaluation.calibration.method, trial_set.digest,
                    )  # fmt: skip
                    scored = Task(
                        name="score",
                        label=f"score {cell.label}",
                        version=score.VERSION,
                        settings={**settings.numeric(), "component_version": _backend(settings).version},
                        inputs={
                            "enrolment": _vectors(enrolled, features[(enrolled.label, each.label)], enrolment),
                            "trial": _vectors(tried, features[(tried.label, each.label)], trial),
                            "trials": Given(trial_set.digest, trial_set),
                        },
                        function=functools.partial(score.run, settings),
                        libraries=("numpy",),
                    )
                    made.tasks.append(scored)
                    inputs: dict[str, Input] = {"scores": scored.ref(), "trials": Given(trial_set.digest, trial_set)}
                    context = measure.Context(are_llrs=_backend(settings).are_llrs)
                    for name, metric in chosen:
                        _measure(cell, name, metric, context, inputs, trial_set.expected, made)


def _sides(data: Prepared, trial_set: TrialSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the manifest that a trial set needs for enrolment and for trials."""
    rows = data.manifest
    enrolment = rows[
        (rows["set"] == trial_set.enrolment_set) & rows["utterance"].isin(trial_set.enrolment["utterance"])
    ]
    trial = rows[(rows["set"] == trial_set.name) & rows["utterance"].isin(trial_set.trials["utterance"])]
    return enrolment, trial


def _pairs(
    evaluation: Evaluation, data: Prepared, systems: Mapping[str, _System], extractors: Sequence[_Extractor],
    features: Features, made: Graph,
) -> None:  # fmt: skip
    """All pairs of the trial side, OO, OP and PP: voice similarity matrices."""
    chosen = _measures(evaluation, "pairs")
    if not chosen:
        return
    original = systems[evaluation.original]
    for label in evaluation.anonymised:
        system = systems[label]
        for trial_set in data.trials.values():
            rows = data.manifest[data.manifest["set"] == trial_set.name]
            expected = len(rows) + sum(entry.set == trial_set.name for entry in data.dropped)
            for each in extractors:
                if "pairs" not in each.cls.measures:
                    continue
                inputs = {
                    "original": _vectors(original, features[(original.label, each.label)], rows),
                    "protected": _vectors(system, features[(label, each.label)], rows),
                }
                for backend, settings in evaluation.backends.items():
                    cell = _Cell(
                        data.name, trial_set.name, "", system, "", each, backend, settings.numeric(), evaluation.calibration.method,
                        digest(sorted(rows["utterance"])),
                    )  # fmt: skip
                    for name, metric in chosen:
                        _measure(cell, name, metric, measure.Context(backend=settings), inputs, expected, made)


def _ranks(
    evaluation: Evaluation, data: Prepared, systems: Mapping[str, _System], extractors: Sequence[_Extractor],
    features: Features, machine: Machine, made: Graph,
) -> None:  # fmt: skip
    """Inputs against one reference a speaker, all sets pooled: similarity rank disclosure."""
    ranked = [each for each in extractors if "ranks" in each.cls.measures]
    for name, metric in _measures(evaluation, "ranks"):
        halves = srd.halves(data.manifest, metric.halves_seed, metric.unit, metric.segment_seconds)
        protocol = digest(
            halves.references.to_numpy().tolist(), halves.pieces[["set", "utterance"]].to_numpy().tolist()
        )
        # Any utterance that is left out changes the halves of its speaker, so the inputs do not stand on all speech.
        evaluated = set(data.manifest.loc[data.manifest["role"] != "train", "set"])
        short = len(halves.inputs) + len({entry.utterance for entry in data.dropped if entry.set in evaluated})
        for system in systems.values():
            if metric.unit == "segment":
                inputs = _segments(system, halves, data.manifest["sample_rate"], ranked, machine, made)
            else:
                inputs = {
                    each.label: _vectors(system, features[(system.label, each.label)], halves.pieces) for each in ranked
                }
            for each in ranked:
                cell = _Cell(
                    data.name, "pooled", "OO" if system.level == "none" else "PP", system, "", each,
                    each.cls.similarity, {}, "none", protocol,
                )  # fmt: skip
                reference = _vectors(system, features[(system.label, each.label)], halves.references)
                context = measure.Context(extractor=each.settings.name, similarity=each.cls.similarity)
                _measure(
                    cell, name, metric, context, {"reference": reference, "input": inputs[each.label]}, short, made
                )


def _segments(
    system: _System,
    halves: srd.Halves,
    rates: pd.Series,
    extractors: Sequence[_Extractor],
    machine: Machine,
    made: Graph,
) -> dict[str, Input]:
    """One task a speaker: the input half joined, cut into uniform segments, extracted."""
    refs: dict[str, list[Ref]] = {each.label: [] for each in extractors}
    speakers = [str(name) for name in sorted(halves.pieces["speaker"].unique())]
    for speaker in speakers:
        mine = halves.pieces[halves.pieces["speaker"] == speaker]
        joined = mine.drop_duplicates(["set", "utterance"])
        count = int((halves.inputs["speaker"] == speaker).sum())

        def select(artefacts: Sequence[Artefact], joined: pd.DataFrame = joined) -> Given:
            return audio_rows.given(audio_rows.of(audio_rows.manifest(artefacts, system.rows), joined), ())

        task = Task(
            name="segments",
            label=f"segments {system.label} {speaker}",
            version=segments.VERSION,
            settings={"inputs": count},
            inputs={"audio": Derived(system.made(), select, digest(joined["utterance"].tolist()))},
            outputs={each.label: each.output() for each in extractors},
            function=functools.partial(segments.run, _recipes(extractors), machine.device, machine.threads, count),
            libraries=("soundfile", "soxr", "numpy"),
            cost=float(((mine["stop"] - mine["start"]) / rates[mine["row"]].to_numpy()).sum()),
        )
        made.tasks.append(task)
        for each in extractors:
            refs[each.label].append(task.ref(each.label))
    return {
        label: Derived(tuple(several), functools.partial(segments.gather, speakers)) for label, several in refs.items()
    }
