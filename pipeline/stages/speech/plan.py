"""The data set as each system has it: rows of a manifest, or the artefacts that anonymisation makes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from pipeline.contracts import Anonymiser
from pipeline.datasets import external_copy, prepare
from pipeline.datasets.audio_cache import AudioCache
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Artefact, Input, Ref, Resources, Task, Value
from pipeline.errors import DataError
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.cuts import Pieces, cut_rows
from pipeline.protocol.shards import split_shards
from pipeline.seeds import digest
from pipeline.stages import selections
from pipeline.stages.graph import SpeechKey, TrainingKey
from pipeline.stages.settings import Chosen, Evaluation, Machine
from pipeline.stages.speech import compute, cut, synthesise
from pipeline.tables import manifest
from pipeline.tables.manifest import Listing, Wanted

NAMED = ("set", "utterance", "speaker")

PIECES = Pieces(3.0)
"""How recordings to train on are cut where most speakers have one."""

DRAWS = 3
"""How many times the pieces are anonymised where an attacker does not say it."""


@dataclass(frozen=True, eq=False)
class SpeechSet:
    """Some sets as one system has them, cut into shards.

    Attributes:
        key: what it is found by.
        level: how pseudo-voices are given, as tables print it.
        audio: one input a shard.
        seconds: of audio of each shard.
        listed: the rows of these sets in the original's manifest.
        listing: its manifest; None where anonymise tasks write it.
        tasks: those that make it.
    """

    key: SpeechKey
    level: str
    audio: tuple[Input, ...]
    seconds: tuple[float, ...]
    listed: pd.DataFrame
    listing: Listing | None
    tasks: tuple[Task, ...] = ()

    @property
    def system(self) -> str:
        return self.key.system

    @property
    def label(self) -> str:
        return self.key.label

    @functools.cached_property
    def content(self) -> str:
        """Digest of the original audio of these sets, with names and speakers."""
        return selections.rows(self.listed, NAMED).digest

    @functools.cached_property
    def manifests(self) -> tuple[Ref, ...]:
        """The artefacts that hold its manifest; none where its rows are given."""
        return tuple(entry for entry in self.audio if isinstance(entry, Ref))

    @functools.cached_property
    def wanted(self) -> Wanted:
        """All that is listed."""
        return Wanted.of(self.listed)

    def all_rows(self) -> Input:
        """All rows as one input, with names and speakers."""
        return selections.rows(self.listing.rows, NAMED) if self.listing is not None else self.manifests


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Speech to train on, once or under several draws of a system's random numbers.

    Attributes:
        draws: the same rows, by draw.
        level: how pseudo-voices are given.
        pieces: whether recordings were cut before they were anonymised.
        one_each: whether most speakers have one recording: how a speaker varies is then known within a session alone.
        anonymised: whether a system protects it.
        request: how an attacker asked for it; what it became follows from the system.
        also: training sets of other systems that help to train a network; back ends learn nothing from them.
        left_out: utterances of it that were left out (``allow_partial``): who learns from it attacks more weakly.
        tasks: those that make it.
    """

    draws: tuple[SpeechSet, ...]
    level: str
    pieces: bool
    one_each: bool
    anonymised: bool
    request: str = ""
    tasks: tuple[Task, ...] = ()
    also: tuple[TrainingSet, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def key(self) -> TrainingKey:
        return TrainingKey(self.draws[0].key, len(self.draws), tuple(other.key for other in self.also))

    @property
    def system(self) -> str:
        return self.draws[0].system

    @property
    def label(self) -> str:
        return self.key.label

    @property
    def rows(self) -> pd.DataFrame:
        """What it holds, without the audio."""
        return self.draws[0].listed

    @property
    def content(self) -> str:
        """Digest of what was anonymised and how it was cut."""
        return digest(self.draws[0].content, self.pieces)

    @property
    def description(self) -> str:
        """What tables say of it."""
        level = f"{self.level} pieces" if self.pieces else self.level
        return f"{level}, {len(self.draws)} draws" if len(self.draws) > 1 else level

    @functools.cached_property
    def sexes(self) -> Value:
        """The sex of each speaker, as an input."""
        speakers = self.rows.drop_duplicates("speaker")
        sexes = dict(sorted(zip(speakers["speaker"].astype(str), speakers["sex"].astype(str))))
        return Value(digest(sexes), sexes)


def data_tasks(evaluation: Evaluation) -> list[Task]:
    """What has to run before there is a data set to read: the rendering of synthetic speakers."""
    if not evaluation.dataset.is_rendered:
        return []
    return [
        Task(
            name="synthesise",
            label="synthesise speakers",
            settings={name: evaluation.dataset.numeric()[name] for name in synthesise.READS},
            function=functools.partial(synthesise.render_speakers, evaluation.dataset),
            libraries=("numpy", "scipy"),
        )
    ]


def prepare_data(
    evaluation: Evaluation,
    rendered: Sequence[Artefact],
    machine: Machine,
    known_files: AudioCache,
    training_alone: bool = False,
) -> Prepared:
    """The data set, read and checked, with the audio of external systems; or the training set ``dataset.train`` alone.

    Args:
        rendered: the artefacts of :func:`data_tasks`.
        known_files: what earlier looks at the files found.
        training_alone: leave out all but the training set.

    Raises:
        DataError: all faults of the data set and of all external systems at once.
        Damaged: the artefacts were read, and are not what was put into the store.
    """
    copies: dict[SpeechKey, external_copy.Copy] = {}
    for label, system in evaluation.systems.items():
        folders = system.component.copies(system.settings)
        if folders is None:
            continue
        copy = external_copy.Copy.of(folders, label)
        if not training_alone:
            copies[SpeechKey(label)] = copy
            if folders.second_root:
                copies[SpeechKey(label, run=2)] = copy.at(folders.second_root, "second_root")
        if evaluation.dataset.has_training_speech and evaluation.learns_from(label):
            trained = copy.at(folders.train_root or folders.root, "train_root", training=True)
            copies[SpeechKey(label, "training")] = replace(trained, is_named=bool(folders.train_root))
    # Only listed here: what is decoded later is checked then, by the digests that are known.
    folder = rendered[0].place if rendered else None
    try:
        data = prepare.prepare_data(
            evaluation.dataset,
            folder,
            copies,
            evaluation.execution.allow_partial,
            machine.threads,
            known_files,
            training_alone,
            evaluation.paths.store / "recordings",
        )
    except DataError:
        for artefact in rendered:
            artefact.look()
        raise
    for artefact in rendered:
        written = {str(artefact.place / name): entry["sha256"] for name, entry in artefact.record["files"].items()}
        if any(written.get(path, sha) != sha for path, sha in zip(data.manifest["path"], data.manifest["sha256"])):
            artefact.look()
    return data


def seconds(rows: pd.DataFrame) -> float:
    """Length of the audio of some rows together."""
    return float((rows["samples"].to_numpy() / rows["sample_rate"].to_numpy()).sum())


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows whose files are given, or made by a task: then ``ref`` is what it makes."""

    rows: pd.DataFrame
    seconds: float
    ref: Ref | None = None
    _inputs: dict[tuple[str, ...], Value] = field(default_factory=dict)

    def read(self, columns: tuple[str, ...]) -> Input:
        """The files with these columns, for those who read them: what a task makes has all."""
        if self.ref is not None:
            return self.ref
        if columns not in self._inputs:
            self._inputs[columns] = selections.rows(self.rows, columns)
        return self._inputs[columns]


@dataclass(frozen=True, eq=False)
class Originals:
    """Rows of the manifest of which systems make their copies; ``shards`` are the rows, or pieces of them, in parts."""

    rows: pd.DataFrame
    shards: tuple[Shard, ...]

    @classmethod
    def split(cls, rows: pd.DataFrame) -> Originals:
        return cls(rows, tuple(Shard(part, seconds(part)) for part in split_shards(rows)))

    @functools.cached_property
    def listing(self) -> Listing:
        """The rows to look things up in."""
        return Listing(self.rows)

    @functools.cached_property
    def listed(self) -> pd.DataFrame:
        """The rows of all shards, ordered by set and utterance."""
        rows = [shard.rows for shard in self.shards]
        table = pd.concat(rows, ignore_index=True) if rows else self.rows[:0]
        return table.sort_values(["set", "utterance"], kind="stable").reset_index(drop=True)


def _draw(system: Chosen[Anonymiser], level: str, count: int) -> tuple[str, list[Chosen[Anonymiser]]]:
    """The level at which a system can give pseudo-voices if it is asked for one, and the system there under so many draws of its random
    numbers: one where nothing is random, or where it was run elsewhere."""
    component = system.component
    at_level = component.at_level(system.settings, level) if level != "same" else None
    settings = system.settings if at_level is None else at_level
    again = [component.rerun(settings, number) for number in range(1, count)]
    draws = [settings, *(drawn for drawn in again if drawn is not None)]
    return component.level(settings), [replace(system, settings=drawn) for drawn in draws]


@dataclass(frozen=True)
class SpeechSets:
    """Makes the speech sets of an evaluation."""

    evaluation: Evaluation
    data: Prepared
    machine: Machine

    @functools.cached_property
    def _evaluated(self) -> Originals:
        return Originals.split(self.data.manifest[self.data.manifest["role"] != "train"])

    @functools.cached_property
    def _enrolled(self) -> Originals:
        return Originals.split(self.data.manifest[self.data.manifest["role"] == "enrolment"])

    @functools.cached_property
    def _learnt(self) -> Originals:
        return Originals.split(self.training_rows)

    def evaluated(self, label: str) -> SpeechSet:
        """The evaluation sets of a system."""
        return self._copy(SpeechKey(label), self.evaluation.systems[label], self._evaluated)

    def second_run(self, label: str) -> SpeechSet | None:
        """The evaluation sets of a random system under other random numbers; None for a deterministic one."""
        key, system = SpeechKey(label, run=2), self.evaluation.systems[label]
        if system.component.copies(system.settings) is not None:
            return self._copy(key, system, self._evaluated) if key in self.data.external else None
        again = system.component.rerun(system.settings, 1)
        return None if again is None else self._copy(key, replace(system, settings=again), self._evaluated)

    def enrolment_draws(self, own: SpeechSet, attacker: AttackerSettings) -> tuple[SpeechSet, ...]:
        """The enrolment sets as an attacker anonymises them, a speech set a draw; ``own``, the evaluation sets of the system, serve where
        level and random numbers are the system's own."""
        system = self.evaluation.systems[own.system]
        level, draws = _draw(system, attacker.enrolment_level, attacker.enrolment_draws)
        speech = [
            self._copy(SpeechKey(own.system, "enrolment", run, level), drawn, self._enrolled, level)
            for run, drawn in enumerate(draws, 1)
            if drawn.settings != system.settings
        ]
        return tuple(speech) if len(speech) == len(draws) else (own, *speech)

    def training(self, label: str, attacker: AttackerSettings | None = None) -> TrainingSet:
        """The training set of the original speech, or its copy that a system protects as an attacker wants it.

        Where most speakers have one recording and the system is run here, recordings are cut into pieces before.
        """
        system, rows = self.evaluation.systems[label], self.training_rows
        component, counts = system.component, rows["speaker"].value_counts()
        one_each = bool(len(counts)) and float((counts >= 2).mean()) < 0.5
        missing = self.data.training_gaps.untrained
        if attacker is None or component.copies(system.settings) is not None:
            speech = self._training_copy(SpeechKey(label, "training"), system, rows)
            present = set(speech.listed["utterance"])
            missing = (*missing, *(name for name in rows["utterance"] if name not in present))
            level, request = component.level(system.settings), attacker.training_request if attacker is not None else ""
            return TrainingSet((speech,), level, False, one_each, attacker is not None, request, left_out=missing)
        level, systems = _draw(system, attacker.training_level, attacker.training_draws or (DRAWS if one_each else 1))
        originals, cuts = self._cut(rows) if one_each else (self._learnt, ())
        draws = [
            self._anonymised(SpeechKey(label, "training", run=run, level=level), level, drawn, originals)
            for run, drawn in enumerate(systems, 1)
        ]
        tasks = (*cuts, *(task for draw in draws for task in draw.tasks))
        request = attacker.training_request
        return TrainingSet(tuple(draws), level, bool(cuts), one_each, True, request, tasks, left_out=missing)

    @functools.cached_property
    def training_rows(self) -> pd.DataFrame:
        """The rows to train on: all, or the share that the trainer asks for, two recordings of each speaker at least."""
        rows, train = self.data.manifest[self.data.manifest["role"] == "train"], self.evaluation.train
        share = train.trainer.share(train.settings) if train is not None else 1.0
        if share == 1 or not len(rows):
            return rows
        order = rows.assign(order=[digest("share", name) for name in rows["utterance"]]).sort_values("order")
        place = order.groupby("speaker").cumcount()
        # Two recordings of a speaker say how the speaker varies between them; one says nothing of it.
        kept = place < (share * order.groupby("speaker")["utterance"].transform("size")).apply(math.ceil).clip(lower=2)
        return rows.loc[order.index[kept].sort_values()]

    def _cut(self, rows: pd.DataFrame) -> tuple[Originals, tuple[Task, ...]]:
        parts = split_shards(rows)
        tasks = [
            Task(
                name="cut",
                label=f"cut training set {number}/{len(parts)}",
                settings=PIECES.numeric(),
                inputs={"audio": selections.rows(part, (*NAMED, "sex", "role"))},
                function=functools.partial(cut.cut_recordings, PIECES, self.machine.threads),
                libraries=("soundfile", "numpy"),
                resources=Resources(seconds(part)),
            )
            for number, part in enumerate(parts, 1)
        ]
        pieces = [Shard(cut_rows(part, PIECES), seconds(part), task.ref()) for part, task in zip(parts, tasks)]
        return Originals(rows, tuple(pieces)), tuple(tasks)

    def _copy(self, key: SpeechKey, system: Chosen[Anonymiser], originals: Originals, level: str = "") -> SpeechSet:
        """A speech set whose files are given, or are made; ``level`` where it is not the one that tables print."""
        shown = level or system.component.shown_level(system.settings)
        if system.component.unchanged:
            return self._given(key, shown, originals.rows, originals.listing)
        if system.component.copies(system.settings) is not None:
            listing = Listing(self.data.external[key], like=originals.listing)
            return self._given(key, shown, originals.rows, listing)
        return self._anonymised(key, shown, system, originals)

    def _training_copy(self, key: SpeechKey, system: Chosen[Anonymiser], rows: pd.DataFrame) -> SpeechSet:
        """A training set as it is, or those rows of which somebody has an anonymised copy: all, unless a part may be missing."""
        copy = self.data.external.get(key)
        if copy is None:
            return self._copy(key, system, self._learnt)
        names = ["set", "utterance"]
        listed = rows[pd.MultiIndex.from_frame(rows[names]).isin(pd.MultiIndex.from_frame(copy[names]))]
        shown = system.component.shown_level(system.settings)
        return self._given(key, shown, listed, Listing(manifest.matching(copy, listed)))

    def _given(self, key: SpeechKey, level: str, listed: pd.DataFrame, listing: Listing) -> SpeechSet:
        parts = split_shards(listing.rows)
        audio = tuple(selections.rows(part) for part in parts)
        return SpeechSet(key, level, audio, tuple(map(seconds, parts)), listed, listing)

    def _anonymised(self, key: SpeechKey, level: str, system: Chosen[Anonymiser], originals: Originals) -> SpeechSet:
        component, machine = system.component, self.machine
        weights = system.weights(self.evaluation.paths.weights)
        folder = weights.folder if weights else None
        work = functools.partial(compute.anonymise, component, system.settings, folder, machine.device, machine.threads)
        columns = (*NAMED, *component.reads(system.settings))
        count = len(originals.shards)
        tasks = [
            Task(
                name="anonymise",
                label=f"anonymise {key.label} {number}/{count}",
                settings={**system.numeric(), "weights": weights.digest if weights else ""},
                inputs={"audio": shard.read(columns)},
                function=work,
                code=(system.module,),
                libraries=("soundfile", "numpy", *component.libraries),
                resources=Resources(shard.seconds, component.on_device),
            )
            for number, shard in enumerate(originals.shards, 1)
        ]
        refs = tuple(task.ref() for task in tasks)
        lengths = tuple(shard.seconds for shard in originals.shards)
        return SpeechSet(key, level, refs, lengths, originals.listed, None, tuple(tasks))
