"""Prepare: the data set and the audio of external systems, read and checked before any compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.contracts import Transcripts
from pipeline.datasets import external, importers, texts
from pipeline.datasets.corpus import Corpus, Dropped
from pipeline.datasets.known import KnownFiles
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError, Fault
from pipeline.protocol.trials import TrialSet


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked data set.

    Attributes:
        name: what the tables call it.
        manifest: rows of all sets (:mod:`pipeline.tables.manifest`).
        trials: trial sets by name.
        external: manifests of external systems, their second runs and training sets by key.
        dropped: utterances left out under ``allow_partial``.
        notes: what was noticed.
        limits: what a reader of the numbers must know first.
        transcripts: what is said.
    """

    name: str
    manifest: pd.DataFrame
    trials: Mapping[str, TrialSet]
    external: Mapping[Hashable, pd.DataFrame]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    limits: tuple[str, ...] = ()
    transcripts: Transcripts = field(default_factory=lambda: texts.Tables({}))


def run(
    settings: DatasetSettings,
    rendered: Path | None,
    copies: Mapping[Any, external.Copy],
    allow_partial: bool,
    threads: int,
    known: KnownFiles,
    training_alone: bool = False,
) -> Prepared:
    """Read the data set, then the audio of each external system.

    Args:
        settings: of the data set.
        rendered: the folder of a rendered synthetic data set.
        copies: where the audio of external systems is, by key.
        allow_partial: leave out single files with faults, named, instead of refusing.
        threads: files are hashed and decoded in so many threads.
        known: what earlier looks at the files found.
        training_alone: of the data set, read the training set ``settings.train`` alone.

    Raises:
        DataError: with all faults of the data set, or with all faults of all external systems.
    """
    corpus = importers.read(settings, rendered, allow_partial, threads, training_alone, known)
    training = corpus.manifest["role"] == "train"
    made: dict[Hashable, pd.DataFrame] = {}
    dropped, notes = list(corpus.dropped), list(corpus.notes)
    faults: list[Fault] = []
    first: DataError | None = None
    for label, copy in copies.items():
        wanted = corpus.manifest[training == copy.training]
        try:
            read = external.read(Path(copy.root), wanted, copy.suffix, allow_partial, threads, known)
        except DataError as error:
            first = first or error
            faults += [Fault(fault.what, f"system {label}: {fault.where}", fault.kind) for fault in error.faults]
            continue
        made[label] = read.manifest
        dropped += read.dropped
        notes += [f"system {label}: {note}" for note in read.notes]
    if first is not None:
        raise DataError(first.what, where=first.where, cause=first.cause, remedy=first.remedy, faults=faults)
    name = settings.label or (Path(settings.root).resolve().name if settings.root else settings.name)
    said = texts.Tables(corpus.transcripts, settings.root)
    limits = (*corpus.limits, *_left_out(dropped, corpus))
    return Prepared(name, corpus.manifest, corpus.trials, made, tuple(dropped), tuple(notes), limits, said)


def _left_out(dropped: Sequence[Dropped], corpus: Corpus) -> list[str]:
    """How much ``allow_partial`` left out of the data set and of external systems: utterances, and trials with them."""
    if not dropped:
        return []
    lost = {(one.set, one.utterance) for one in dropped}
    there = set(zip(corpus.manifest["set"], corpus.manifest["utterance"]))
    by_set = Counter(in_set for in_set, _ in lost)
    sets = ", ".join(f"{count} of {name}" for name, count in sorted(by_set.items()))
    found = [f"{len(lost)} of {len(there | lost)} utterances are left out (allow_partial): {sets}"]
    gone = sum(_trials_lost(one, lost) for one in corpus.trials.values())
    if gone:
        expected = sum(one.expected for one in corpus.trials.values())
        found.append(f"{gone} of {expected} trials are left out with their utterances")
    return found


def _trials_lost(one: TrialSet, lost: Collection[tuple[str, str]]) -> int:
    """Trials that are not in the set any more, or whose utterance or every enrolled utterance is lost."""
    held = [
        model for model, utterance in zip(one.enrolment["model"], one.enrolment["utterance"])
        if (one.enrolment_set, utterance) not in lost
    ]  # fmt: skip
    models = set(held)
    pairs = zip(one.trials["model"], one.trials["utterance"])
    return one.expected - sum(model in models and (one.name, utterance) not in lost for model, utterance in pairs)
