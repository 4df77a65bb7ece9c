"""From the lists of an importer to a checked corpus: every fault of a data set at once, before any compute."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pipeline.datasets import listings, trial_checks
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.listings import MOST_NAMED, Listing, TrialList, Utterance
from pipeline.datasets.probe import Probe, describe_probes
from pipeline.faults import Faults
from pipeline.names import describe_difference, fold_lookalikes, join_few
from pipeline.protocol import trials
from pipeline.protocol.trials import TrialSet
from pipeline.tables import manifest as manifests
from pipeline.tables.run_files import SEXES_UNKNOWN

log = logging.getLogger(__name__)

_EMPTYING = {"another-set", "unread-list", "unknown-model", "unknown-utterance", "columns", "labels", "label", "malformed", "encoding", "not-a-file",
             "too-large", "missing-table", "empty", "bad-id"}  # fmt: skip
"""Kinds of faults that leave a trial set without trials: that it has none is then no news."""


class Dropped(NamedTuple):
    """An utterance left out because its file has a fault (``allow_partial``)."""

    utterance: str
    set: str
    reason: str


@dataclass(frozen=True, eq=False)
class Corpus:
    """A data set that is ready for use.

    Attributes:
        manifest: one row for each utterance of each set (:mod:`pipeline.tables.manifest`).
        trials: the trial sets by name.
        dropped: utterances left out under ``allow_partial``; trials with them are left out too.
        notes: what was noticed: ids that were changed, lists that were made up, the audio root, ...
        limits: what a reader of the numbers must know first (:mod:`pipeline.tables.limits`).
        transcripts: the table that should hold the words of an evaluated utterance, by (set, utterance).
        sounds: digest of what is heard in a file, whatever its format, by the digest of its bytes.
        attributes: by name, values by (set, utterance).
    """

    manifest: pd.DataFrame
    trials: dict[str, TrialSet]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    transcripts: Mapping[tuple[str, str], Path | None] = field(default_factory=dict)
    sounds: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)


def assemble_corpus(
    listing: Listing, root: str | Path, allow_partial: bool = False, threads: int = 1, cache: AudioCache = NO_CACHE
) -> Corpus:
    """Check lists and audio, and make the corpus.

    Args:
        listing: what the importer read.
        root: the data set, for messages.
        allow_partial: leave out utterances whose own file has a fault (missing, unreadable, cut off, empty, samples that
            are not finite) and the trials with them; all other faults refuse the data set as ever.
        threads: files that are read at a time.
        cache: what earlier looks at the files found.

    Raises:
        DataError: with all faults of the data set.
    """
    faults = listing.faults
    rows, listed = check_lists(listing)
    probes = cache.probes((row.path for row in rows if row.path), threads)
    dropped, sound = check_files(listing, rows, probes, allow_partial)

    sets = make_trial_sets(listing, listed, {(line.set, line.utterance) for line in dropped})
    if rows and not sound and not faults.found:
        faults.add("empty", "no utterance is left", root)
    faults.stop(root)

    for line in dropped:
        log.warning("left out (allow_partial): %s of %s: %s", line.utterance, line.set, line.reason)
    transcripts = {(row.set, row.utterance): row.transcripts for row, _ in sound if row.role != "train"}
    sounds = {probe.sha256: probe.sound for _, probe in sound}
    limits = [*listing.protocol, *_list_limits(listing, sets)]
    return Corpus(
        _make_manifest(sound),
        sets,
        tuple(sorted(dropped)),
        tuple(listing.notes),
        tuple(limits),
        transcripts,
        sounds,
        listing.attributes,
    )


def check_lists(listing: Listing) -> tuple[list[Utterance], dict[tuple[str, str], Utterance]]:
    """Gather the faults of lists and ids; no file is looked at.

    Returns:
        The utterances, each once a set, and the same by (set, utterance).
    """
    faults = listing.faults
    rows = _keep_first(_separate_training(listing.utterances, faults), faults)
    listed = {(row.set, row.utterance): row for row in rows}
    _check_agreement(rows, "speaker", lambda row: row.speaker, faults)
    _check_sexes(rows, faults)
    _check_ids(rows, faults)
    check_readers(rows, faults)
    for name, folder in listing.called:
        listings.report_invisible("set", name, folder, faults)
    for trial_list in listing.lists:
        trial_checks.check_trial_list(trial_list, listed, faults)
    return rows, listed


def check_files(
    listing: Listing, rows: Sequence[Utterance], probes: Mapping[Path, Probe], allow_partial: bool = False
) -> tuple[list[Dropped], list[tuple[Utterance, Probe]]]:
    """Gather the faults of the files of :func:`check_lists`' utterances, and what is to be noted of them.

    Returns:
        What is left out under ``allow_partial``, and the utterances whose file is sound.
    """
    dropped = _drop_faulty(rows, probes, allow_partial, listing.faults)
    sound = [(row, probes[row.path]) for row in rows if row.path and not probes[row.path].kind]
    _check_audio(sound, listing, listing.faults)
    _check_durations(sound, listing)
    listing.limits += describe_probes(probes)
    return dropped, sound


def make_trial_sets(
    listing: Listing, listed: dict[tuple[str, str], Utterance], gone: set[tuple[str, str]]
) -> dict[str, TrialSet]:
    """The trial sets by name, without what is gone. That one lacks a class is a fault, unless another fault is the reason."""
    sets = {trial_list.name: _make_trial_set(trial_list, listed, gone) for trial_list in listing.lists}
    if not {fault.kind for fault in listing.faults.found} & _EMPTYING:
        report_lacking_classes(
            sets.values(), {trial_list.name: trial_list.where for trial_list in listing.lists}, listing.faults
        )
    return sets


def _list_limits(listing: Listing, sets: Mapping[str, TrialSet]) -> list[str]:
    """What a reader must know first of lists and sets, beside how they were made."""
    across = [name for name, trial_set in sets.items() if trial_set.across_sexes]
    limits = [f"{SEXES_UNKNOWN} ({join_few(across)})"] if across else []
    limits += listing.limits
    for trial_list in listing.lists:
        models = set(sets[trial_list.name].enrolment["model"])
        absent = sorted({line.model for line in trial_list.enrolment} - models)
        if absent:
            limits.append(
                f"{len(absent)} speakers of {trial_list.enrolment_set} have no utterance left and are not enrolled: {join_few(absent)}"
            )
    return list(dict.fromkeys(limits))


def _drop_faulty(
    rows: Sequence[Utterance], probes: Mapping[Path, Probe], allow_partial: bool, faults: Faults
) -> list[Dropped]:
    """Rows whose file has a fault: left out under ``allow_partial``, else faults."""
    dropped = []
    for row in rows:
        if row.path and probes[row.path].kind:
            probe = probes[row.path]
            if allow_partial:
                dropped.append(Dropped(row.utterance, row.set, probe.problem))
            else:
                faults.add(probe.kind, f"utterance '{row.utterance}': {probe.problem}", row.where)
    return dropped


def _make_manifest(sound: Sequence[tuple[Utterance, Probe]]) -> pd.DataFrame:
    return manifests.frame(
        {
            "utterance": row.utterance,
            "speaker": row.speaker,
            "sex": row.sex,
            "set": row.set,
            "role": row.role,
            "path": str(row.path),
            "sample_rate": probe.sample_rate,
            "samples": probe.samples,
            "sha256": probe.sha256,
            "position": row.position,
        }
        for row, probe in sound
    )


def _keep_first(rows: Sequence[Utterance], faults: Faults) -> list[Utterance]:
    """The rows with each id once a set; further ones are faults."""
    first: dict[tuple[str, str], Utterance] = {}
    for row in rows:
        before = first.setdefault((row.set, row.utterance), row)
        if before is not row:
            faults.add(
                "duplicate-id",
                f"utterance '{row.utterance}' stands twice in {row.set}, first in {before.where}",
                row.where,
            )
    return list(first.values())


def _check_ids(rows: Sequence[Utterance], faults: Faults) -> None:
    """Ids that hold what nobody can see are faults, and ids that nothing tells apart which can be seen, such as a Cyrillic letter in
    the place of a Latin one; once each."""
    for kind in ("utterance", "speaker"):
        first: dict[str, Utterance] = {}
        for row in rows:
            first.setdefault(row.utterance if kind == "utterance" else row.speaker, row)
        seen: dict[str, str] = {}
        for name, row in first.items():
            other = seen.setdefault(fold_lookalikes(name), name)
            if not listings.report_invisible(kind, name, row.where, faults) and other != name:
                like = f"looks like '{name}': {describe_difference(other, name)}"
                faults.add("bad-id", f"the {kind} '{other}' ({first[other].where}) {like}", row.where)


def _check_agreement(rows: Sequence[Utterance], what: str, value: Callable[[Utterance], str], faults: Faults) -> None:
    """An utterance may stand in several sets if they agree."""
    first: dict[str, Utterance] = {}
    for row in rows:
        before = first.setdefault(row.utterance, row)
        if value(row) and value(before) and value(row) != value(before):
            faults.add(
                "disagrees",
                f"utterance '{row.utterance}' has the {what} '{value(row)}' in {row.set} and "
                f"'{value(before)}' in {before.set} ({before.where})",
                row.where,
            )


def _check_sexes(rows: Sequence[Utterance], faults: Faults) -> None:
    first: dict[str, Utterance] = {}
    reported = set()
    for row in rows:
        if not row.speaker:
            continue
        before = first.setdefault(row.speaker, row)
        if row.sex != before.sex and (row.speaker, row.set) not in reported:
            reported.add((row.speaker, row.set))
            faults.add(
                "disagrees",
                f"speaker '{row.speaker}' is '{row.sex}' in {row.set} and '{before.sex}' in {before.set}",
                row.where,
            )


def _separate_training(rows: Sequence[Utterance], faults: Faults) -> list[Utterance]:
    """Nobody who is evaluated may be trained on: an attacker who has met the speakers is another one than the tables name.

    Returns:
        The rows without those of a training set that is called like a set that is evaluated.
    """
    trained: dict[str, Utterance] = {}
    evaluated: dict[str, Utterance] = {}
    for row in rows:
        if row.speaker:
            (trained if row.role == "train" else evaluated).setdefault(row.speaker, row)
    both = [speaker for speaker in trained if speaker in evaluated]
    if both:
        training_row, evaluated_row = trained[both[0]], evaluated[both[0]]
        s = "s" if len(trained) > 1 else ""
        faults.add(
            "train-speaker",
            f"{len(both)} of the {len(trained)} speaker{s} of the training set {training_row.set} "
            f"{'are' if len(both) > 1 else 'is'} evaluated: {join_few(both, MOST_NAMED)} ('{both[0]}' in {evaluated_row.set}, {evaluated_row.where})",
            training_row.where,
        )
    same = {row.set for row in rows if row.role == "train"} & {row.set for row in rows if row.role != "train"}
    for name in sorted(same) if not both else ():
        faults.add("train", f"the training set and a set that is evaluated are both called '{name}'", "dataset.train")
    return [row for row in rows if row.role != "train" or row.set not in same]


def _check_audio(sound: Sequence[tuple[Utterance, Probe]], listing: Listing, faults: Faults) -> None:
    """The same id must mean the same audio everywhere, and the same audio one id within a set and one speaker at all."""
    digests = {(row.set, row.utterance): probe.sha256 for row, probe in sound}
    _check_agreement([row for row, _ in sound], "audio", lambda row: digests[row.set, row.utterance][:12], faults)
    in_set: dict[tuple[str, str], Utterance] = {}
    anywhere: dict[str, Utterance] = {}
    twins = set()
    for row, probe in sound:
        before = in_set.setdefault((row.set, probe.sha256), row)
        if before is not row:
            faults.add(
                "duplicate-audio",
                f"utterance '{row.utterance}' has the same audio as '{before.utterance}' of {row.set} ({before.where})",
                row.where,
            )
            continue
        other = anywhere.setdefault(probe.sha256, row)
        if other.utterance == row.utterance:
            continue
        if other.speaker != row.speaker and row.speaker and other.speaker:
            faults.add(
                "disagrees",
                f"the audio of '{row.utterance}' is '{row.speaker}' in {row.set}, but '{other.speaker}' as "
                f"'{other.utterance}' in {other.set} ({other.where})",
                row.where,
            )
        else:
            twins.add((other.utterance, other.set, row.utterance, row.set))
    if twins:
        a, in_a, b, in_b = min(twins)
        listing.limits.append(
            f"{len(twins)} recordings stand under two ids in different sets, e.g. {a} ({in_a}) = {b} ({in_b}): "
            f"trials between them compare a recording with itself"
        )
    own = [
        f"{trial.model} {trial.utterance}"
        for trial_list in listing.lists
        for enrolled in [{(line.model, line.utterance) for line in trial_list.enrolment}]
        for trial in trial_list.trials
        if (trial.model, trial.utterance) in enrolled
    ]
    if own:
        listing.limits.append(
            f"{len(own)} trials compare a model with an utterance that it was enrolled with, e.g. {own[0]}"
        )


def _check_durations(sound: Sequence[tuple[Utterance, Probe]], listing: Listing) -> None:
    off = [
        (row, probe.samples / probe.sample_rate)
        for row, probe in sound
        if row.seconds is not None and abs(probe.samples / probe.sample_rate - row.seconds) > 0.5
    ]
    if off:
        row, seconds = off[0]
        listing.limits.append(
            f"{len(off)} utterances differ from utt2dur by more than 0.5 s, e.g. {row.utterance} of {row.set}: "
            f"{seconds:.2f} s instead of {row.seconds:.2f} s"
        )


def _make_trial_set(
    trial_list: TrialList, listed: dict[tuple[str, str], Utterance], gone: set[tuple[str, str]]
) -> TrialSet:
    owners = trial_checks.map_models(trial_list, listed)
    kept = []
    for trial in trial_list.trials:
        row = listed.get((trial_list.name, trial.utterance))
        if row:
            target = owners.get(trial.model) == row.speaker if trial.target is None else trial.target
            kept.append((trial.model, trial.utterance, target))
    enrolment = [(line.model, line.utterance) for line in trial_list.enrolment]
    models = {model for model, _ in enrolment}
    tried = [trial for trial in kept if trial[0] in models]
    trial_set = trials.make_trial_set(
        trial_list.name, trial_list.enrolment_set, enrolment, tried, len(trial_list.trials), trial_list.across_sexes
    )
    return trials.drop_utterances(trial_set, gone)


def report_lacking_classes(sets: Iterable[TrialSet], where: Mapping[str, str], faults: Faults) -> None:
    """Report trial sets that have no trials of a class; ``where`` is the place of each list."""
    for trial_set in sets:
        counts = {"target": trial_set.n_target, "nontarget": trial_set.n_nontarget}
        lacking = [label for label, count in counts.items() if not count]
        if lacking:
            place = where.get(trial_set.name, trial_set.name)
            faults.add("no-class", f"the trial set {trial_set.name} has no {' and no '.join(lacking)} trials", place)


_BOOKS = re.compile(r"((?:sp[\d.]+-)?[1-9]\d{0,4})[-_]([1-9]\d{2,5})(?:[-_]\d{4,}(?:[-_].*)?)?")
"""READER-CHAPTER-NUMBER, and whatever augmentation writes around it; no number in the id of a model."""

_VIDEOS = re.compile(r"(id\d{5})[-_/](.+)")
_SPED = re.compile(r"[-_]sp[\d.]+$")


def find_reader(name: str) -> tuple[str, str] | None:
    """The reader and the chapter of an id; None if it is not called as in these corpora."""
    match = _BOOKS.fullmatch(name) or _VIDEOS.fullmatch(name)
    return (match[1], match[2]) if match else None


def check_readers(rows: Sequence[Utterance], faults: Faults) -> None:
    """Report readers of whom chapters or videos are speakers of their own: among the speakers who are evaluated, among those who are
    trained on, and where neither has any, among both together, for nobody may be in both."""
    trained = [row for row in rows if row.role == "train"]
    evaluated = [row for row in rows if row.role != "train"]
    split = [_report_readers(evaluated, "speakers", faults), _report_readers(trained, "training speakers", faults)]
    if trained and not any(split):
        _report_readers(rows, "speakers, trained on and evaluated,", faults)


def _report_readers(rows: Sequence[Utterance], who: str, faults: Faults) -> bool:
    voices: dict[str, dict[str, Utterance]] = defaultdict(dict)
    for row in rows:
        place = find_reader(row.utterance)
        if place is None or not row.speaker:
            continue
        # A model's id may end with the chapter; an utterance of that form may be SENTENCE-SPEAKER.
        if place[0].startswith("id") or not row.utterance.endswith(place[1]):
            voices[place[0]].setdefault(_SPED.sub("", row.speaker), row)
    readers = Counter(speaker for speakers in voices.values() for speaker in speakers)
    split = {reader: speakers for reader, speakers in voices.items()
             if sum(readers[speaker] == 1 for speaker in speakers) > 1 and any(map(_is_chapter, speakers.values()))}  # fmt: skip
    for reader, speakers in [*split.items()][:1]:
        what = f"{sum(map(len, split.values()))} {who} are chapters or recordings of {len(split)} readers"
        example = f"{join_few(sorted(speakers), 2)} of {reader}"
        where = next(iter(speakers.values())).where
        faults.add("readers", f"{what}, e.g. {example}: one voice counts as several speakers", where)
    return bool(split)


def _is_chapter(row: Utterance) -> bool:
    """Whether the speaker of an utterance is called after its chapter; of a video, after more than the person."""
    reader, chapter = find_reader(row.utterance) or ("", "")
    return row.speaker != reader if reader.startswith("id") else chapter in re.split(r"[-_]", row.speaker)


def find_same_readers(trials: Iterable[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """The non-target trials (model, utterance) whose two ids name one reader."""
    pairs = [(model, utterance) for model, utterance, target in trials if not target]
    places = [(find_reader(model), find_reader(utterance)) for model, utterance in pairs]
    return [pair for pair, (first, second) in zip(pairs, places) if first and second and first[0] == second[0]]
