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
from pipeline.stages.keys import SpeechKey, TrainingKey
from pipeline.stages.settings import Chosen, Evaluation, Machine
from pipeline.stages.speech import compute as anonymise
from pipeline.stages.speech import cut, synthesise
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

    @functools.cached_property
    def manifests(self) -> tuple[Ref, ...]:
        """The artefacts that hold its manifest; none where its rows are given."""
        return tuple(entry for entry in self.audio if isinstance(entry, Ref))

    @functools.cached_property
    def wanted(self) -> Wanted:
        """All that is listed."""
        return Wanted.of(self.listed)

    def whole(self) -> Input:
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
        asked: how an attacker asked for it; what it became follows from the system.
        also: training sets of other systems that help to train a network; back ends learn nothing from them.
        lost: utterances of it that were left out (``allow_partial``): who learns from it attacks more weakly.
        tasks: those that make it.
    """

    draws: tuple[SpeechSet, ...]
    level: str
    pieces: bool
    one_each: bool
    anonymised: bool
    asked: str = ""
    tasks: tuple[Task, ...] = ()
    also: tuple[TrainingSet, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def key(self) -> TrainingKey:
        """What it is found by."""
        return TrainingKey(self.draws[0].key, len(self.draws), tuple(one.key for one in self.also))

    @property
    def system(self) -> str:
        """The label of the system."""
        return self.draws[0].system

    @property
    def label(self) -> str:
        """What messages call it."""
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
    def said(self) -> str:
        """What tables say of it."""
        level = f"{self.level} pieces" if self.pieces else self.level
        return f"{level}, {len(self.draws)} draws" if len(self.draws) > 1 else level

    @functools.cached_property
    def sexes(self) -> Value:
        """The sex of each speaker, as an input."""
        known = self.rows.drop_duplicates("speaker")
        sexes = dict(sorted(zip(known["speaker"].astype(str), known["sex"].astype(str))))
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
            function=functools.partial(synthesise.run, evaluation.dataset),
            libraries=("numpy", "scipy"),
        )
    ]


def prepared(
    evaluation: Evaluation,
    made: Sequence[Artefact],
    machine: Machine,
    known: AudioCache,
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
        Damaged: the artefacts were read, and are not what was put into the store.
    """
    copies: dict[SpeechKey, external_copy.Copy] = {}
    for label, system in evaluation.systems.items():
        found = system.component.copies(system.settings)
        if found is None:
            continue
        copy = external_copy.Copy.of(found, label)
        if not training_alone:
            copies[SpeechKey(label)] = copy
            if found.second_root:
                copies[SpeechKey(label, run=2)] = copy.at(found.second_root, "second_root")
        if evaluation.dataset.has_training_speech and evaluation.learns_from(label):
            there = copy.at(found.train_root or found.root, "train_root", training=True)
            copies[SpeechKey(label, "training")] = replace(there, is_named=bool(found.train_root))
    # Only listed here: what is decoded later is checked then, by the digests that are known.
    rendered = made[0].place if made else None
    try:
        data = prepare.prepare_data(
            evaluation.dataset,
            rendered,
            copies,
            evaluation.allow_partial,
            machine.threads,
            known,
            training_alone,
            evaluation.paths.store / "recordings",
        )
    except DataError:
        for artefact in made:
            artefact.look()
        raise
    for artefact in made:
        if _is_another(artefact, data.manifest):
            artefact.look()
    return data


def _is_another(artefact: Artefact, rows: pd.DataFrame) -> bool:
    """Whether files of an artefact are known to hold something else than was written."""
    written = {str(artefact.place / name): entry["sha256"] for name, entry in artefact.record["files"].items()}
    return any(written.get(path, sha) != sha for path, sha in zip(rows["path"], rows["sha256"]))


def evaluated_rows(data: Prepared) -> pd.DataFrame:
    """The rows that are enrolled and tried."""
    return data.manifest[data.manifest["role"] != "train"]


def training_rows(data: Prepared) -> pd.DataFrame:
    """The rows to train on."""
    return data.manifest[data.manifest["role"] == "train"]


def seconds(rows: pd.DataFrame) -> float:
    """Length of the audio of some rows together."""
    return float((rows["samples"].to_numpy() / rows["sample_rate"].to_numpy()).sum())


def one_recording_each(rows: pd.DataFrame) -> bool:
    """Whether fewer than half of the speakers of some rows have a second recording."""
    counts = rows["speaker"].value_counts()
    return bool(len(counts)) and float((counts >= 2).mean()) < 0.5


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows whose files are given, or made by a task.

    Attributes:
        rows: what they are.
        made: by the task; None where the files are given.
    """

    rows: pd.DataFrame
    seconds: float
    made: Ref | None = None
    _given: dict[tuple[str, ...], Value] = field(default_factory=dict)

    def read(self, columns: tuple[str, ...]) -> Input:
        """The files with these columns, for those who read them: what a task makes has all."""
        if self.made is not None:
            return self.made
        if columns not in self._given:
            self._given[columns] = selections.rows(self.rows, columns)
        return self._given[columns]


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows in parts.

    Attributes:
        listed: all of them, ordered by set and utterance.
    """

    several: tuple[Part, ...]
    listed: pd.DataFrame

    @classmethod
    def of(cls, several: Sequence[Part], none: pd.DataFrame) -> Parts:
        """Parts together; ``none`` is a table without rows, for no parts."""
        listed = pd.concat([part.rows for part in several], ignore_index=True) if several else none
        return cls(tuple(several), listed.sort_values(["set", "utterance"], kind="stable").reset_index(drop=True))


@dataclass(frozen=True, eq=False)
class Originals:
    """Rows of the data set of which systems make their copies.

    Attributes:
        rows: of the manifest.
    """

    rows: pd.DataFrame

    @functools.cached_property
    def listing(self) -> Listing:
        """The rows to look things up in."""
        return Listing(self.rows)

    @functools.cached_property
    def parts(self) -> Parts:
        """The rows in shards, for systems that are run here."""
        return Parts.of([Part(part, seconds(part)) for part in split_shards(self.rows)], self.rows[:0])


def _drawn(system: Chosen[Anonymiser], level: str, count: int) -> tuple[str, list[Chosen[Anonymiser]]]:
    """The level at which a system can give pseudo-voices if it is asked for one, and the system there under so many draws of its random
    numbers: one where nothing is random, or where it was run elsewhere."""
    component = system.component
    there = component.at_level(system.settings, level) if level != "same" else None
    settings = system.settings if there is None else there
    again = [component.rerun(settings, number) for number in range(1, count)]
    several = [settings, *(one for one in again if one is not None)]
    return component.level(settings), [replace(system, settings=one) for one in several]


@dataclass(frozen=True)
class SpeechSets:
    """Makes the speech sets of an evaluation."""

    evaluation: Evaluation
    data: Prepared
    machine: Machine

    @functools.cached_property
    def _evaluated(self) -> Originals:
        return Originals(evaluated_rows(self.data))

    @functools.cached_property
    def _enrolled(self) -> Originals:
        return Originals(self.data.manifest[self.data.manifest["role"] == "enrolment"])

    @functools.cached_property
    def _learnt(self) -> Originals:
        return Originals(self.training_rows)

    def evaluated(self, label: str) -> SpeechSet:
        """The evaluation sets of a system."""
        return self._of(SpeechKey(label), self.evaluation.systems[label], self._evaluated)

    def second_run(self, label: str) -> SpeechSet | None:
        """The evaluation sets of a random system under other random numbers; None for a deterministic one."""
        key, system = SpeechKey(label, run=2), self.evaluation.systems[label]
        if system.component.copies(system.settings) is not None:
            return self._of(key, system, self._evaluated) if key in self.data.external else None
        again = system.component.rerun(system.settings, 1)
        return None if again is None else self._of(key, Chosen(system.name, system.component, again), self._evaluated)

    def enrolment_draws(self, own: SpeechSet, attacker: AttackerSettings) -> tuple[SpeechSet, ...]:
        """The enrolment sets as an attacker anonymises them, a speech set a draw; ``own``, the evaluation sets of the system, serve where
        level and random numbers are the system's own."""
        system = self.evaluation.systems[own.system]
        level, drawn = _drawn(system, attacker.enrolment_level, attacker.enrolment_draws)
        made = [
            self._of(SpeechKey(own.system, "enrolment", run, level), one, self._enrolled, level)
            for run, one in enumerate(drawn, 1)
            if one.settings != system.settings
        ]
        return tuple(made) if len(made) == len(drawn) else (own, *made)

    def training(self, label: str, attacker: AttackerSettings | None = None) -> TrainingSet:
        """The training set of the original speech, or its copy that a system protects as an attacker wants it.

        Where most speakers have one recording and the system is run here, recordings are cut into pieces before.
        """
        system, rows = self.evaluation.systems[label], self.training_rows
        component, one_each = system.component, one_recording_each(rows)
        if attacker is None or component.copies(system.settings) is not None:
            key = SpeechKey(label, "training")
            there = self.data.external.get(key)
            speech = self._of(key, system, self._learnt) if there is None else self._theirs(key, system, rows, there)
            level, asked = component.level(system.settings), attacker.training_request if attacker is not None else ""
            left = set(speech.listed["utterance"])
            lost = (*self.data.training_gaps.untrained, *(name for name in rows["utterance"] if name not in left))
            return TrainingSet((speech,), level, False, one_each, attacker is not None, asked, lost=lost)
        level, drawn = _drawn(system, attacker.training_level, attacker.training_draws or (DRAWS if one_each else 1))
        parts, cuts = self._pieces(rows) if one_each else (self._learnt.parts, ())
        draws = [
            self._anonymised(SpeechKey(label, "training", run=number, level=level), level, one, parts)
            for number, one in enumerate(drawn, 1)
        ]
        tasks = (*cuts, *(task for one in draws for task in one.tasks))
        lost = self.data.training_gaps.untrained
        return TrainingSet(tuple(draws), level, bool(cuts), one_each, True, attacker.training_request, tasks, lost=lost)

    @functools.cached_property
    def training_rows(self) -> pd.DataFrame:
        """The rows to train on: all, or the share that the trainer asks for, two recordings of each speaker at least."""
        rows, train = training_rows(self.data), self.evaluation.train
        share = train.trainer.share(train.settings) if train is not None else 1.0
        if share == 1 or not len(rows):
            return rows
        order = rows.assign(order=[digest("share", name) for name in rows["utterance"]]).sort_values("order")
        place = order.groupby("speaker").cumcount()
        # Two recordings of a speaker say how the speaker varies between them; one says nothing of it.
        kept = place < (share * order.groupby("speaker")["utterance"].transform("size")).apply(math.ceil).clip(lower=2)
        return rows.loc[order.index[kept].sort_values()]

    def _pieces(self, rows: pd.DataFrame) -> tuple[Parts, tuple[Task, ...]]:
        """Pieces of recordings, a shard a task."""
        tasks, parts = [], []
        several = split_shards(rows)
        for number, part in enumerate(several, 1):
            task = Task(
                name="cut",
                label=f"cut training set {number}/{len(several)}",
                settings=PIECES.numeric(),
                inputs={"audio": selections.rows(part, (*NAMED, "sex", "role"))},
                function=functools.partial(cut.run, PIECES, self.machine.threads),
                libraries=("soundfile", "numpy"),
                resources=Resources(seconds(part)),
            )
            tasks.append(task)
            parts.append(Part(cut_rows(part, PIECES), seconds(part), task.ref()))
        return Parts.of(parts, self.data.manifest[:0]), tuple(tasks)

    def _of(self, key: SpeechKey, system: Chosen[Anonymiser], originals: Originals, level: str = "") -> SpeechSet:
        """A speech set whose files are given, or are made; ``level`` where it is not the one that tables print."""
        shown = level or system.component.shown_level(system.settings)
        if system.component.unchanged:
            return self._given(key, shown, originals.rows, originals.listing)
        if system.component.copies(system.settings) is not None:
            theirs = Listing(self.data.external[key], like=originals.listing)
            return self._given(key, shown, originals.rows, theirs)
        return self._anonymised(key, shown, system, originals.parts)

    def _theirs(self, key: SpeechKey, system: Chosen[Anonymiser], rows: pd.DataFrame, there: pd.DataFrame) -> SpeechSet:
        """Those rows of a training set of which somebody has an anonymised copy; all of them, unless a part may be missing."""
        names = ["set", "utterance"]
        known = pd.MultiIndex.from_frame(there[names])
        listed = rows[pd.MultiIndex.from_frame(rows[names]).isin(known)]
        shown = system.component.shown_level(system.settings)
        return self._given(key, shown, listed, Listing(manifest.matching(there, listed)))

    def _given(self, key: SpeechKey, level: str, listed: pd.DataFrame, listing: Listing) -> SpeechSet:
        parts = split_shards(listing.rows)
        audio = tuple(selections.rows(part) for part in parts)
        return SpeechSet(key, level, audio, tuple(map(seconds, parts)), listed, listing)

    def _anonymised(self, key: SpeechKey, level: str, system: Chosen[Anonymiser], parts: Parts) -> SpeechSet:
        component, machine = system.component, self.machine
        weights = system.weights(self.evaluation.paths.weights)
        folder = weights.folder if weights else None
        work = functools.partial(anonymise.run, component, system.settings, folder, machine.device, machine.threads)
        reads, several = component.reads(system.settings), parts.several
        tasks = [
            Task(
                name="anonymise",
                label=f"anonymise {key.label} {number}/{len(several)}",
                settings={**system.numeric(), "weights": weights.digest if weights else ""},
                inputs={"audio": part.read((*NAMED, *reads))},
                function=work,
                code=(system.module,),
                libraries=("soundfile", "numpy", *component.libraries),
                resources=Resources(part.seconds, component.on_device),
            )
            for number, part in enumerate(several, 1)
        ]
        refs = tuple(task.ref() for task in tasks)
        lengths = tuple(part.seconds for part in several)
        return SpeechSet(key, level, refs, lengths, parts.listed, None, tuple(tasks))
