"""From the lists of an importer to a checked corpus: every fault of a data set at once, before any compute."""

from __future__ import annotations

import difflib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pipeline.datasets import lists, readers
from pipeline.datasets.known import NOTHING_KNOWN, KnownFiles
from pipeline.datasets.pipes import Entry
from pipeline.datasets.probe import Probe, notes
from pipeline.datasets.segments import Segment
from pipeline.faults import Faults
from pipeline.names import differing, few, legal_id, look_alike
from pipeline.protocol import trials
from pipeline.protocol.halves import halve
from pipeline.protocol.trials import TrialSet
from pipeline.tables import manifest as manifests
from pipeline.tables.run_files import SEXES_UNKNOWN

log = logging.getLogger(__name__)

MOST_NAMED = 10
"""So many names stand in a message; the others are counted."""
_EMPTYING = {"another-set", "models", "unread-list", "unknown-model", "unknown-utterance", "columns", "labels", "label", "malformed", "encoding", "not-a-file",
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
        limits: what a reader of the numbers must know first (:mod:`pipeline.tables.run_files`).
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


@dataclass(frozen=True)
class Listed:
    """An utterance as the lists have it. ``where`` is the file and line; no path: its fault has been reported. ``transcripts`` is
    the table that should say what is spoken, if the data set knows such tables. ``entry`` is what a ``wav.scp`` says of its file,
    and ``segment`` the part of that which it is, until it has a file of its own (:mod:`pipeline.datasets.cutting`)."""

    set: str
    role: str
    utterance: str
    speaker: str
    sex: str
    path: Path | None
    where: str
    position: int
    seconds: float | None = None
    transcripts: Path | None = None
    entry: Entry | None = None
    segment: Segment | None = None


class Enrolled(NamedTuple):
    """A line of an enrolment list."""

    model: str
    utterance: str
    where: str


class Trial(NamedTuple):
    """A line of a list of trials; no label: it follows from the speakers."""

    model: str
    utterance: str
    target: bool | None
    where: str


@dataclass(frozen=True)
class TrialList:
    """A list of trials as the data set has it, or as it was made here: then ``across_sexes`` if nobody's sex is known."""

    name: str
    enrolment_set: str
    enrolment: list[Enrolled]
    trials: list[Trial]
    where: str
    across_sexes: bool = False


@dataclass
class Listing:
    """All that an importer read, and the faults that it met.

    Attributes:
        protocol: how the protocol was made, where the data set has no lists.
        limits: what else a reader of the numbers must know first.
        called: the names of sets that a tree is called, with its folder.
        attributes: by name, values by (set, utterance).
    """

    utterances: list[Listed] = field(default_factory=list)
    lists: list[TrialList] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    notes: list[str] = field(default_factory=list)
    protocol: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    called: list[tuple[str, Path]] = field(default_factory=list)
    attributes: dict[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)


class Fence:
    """Tells paths that stay under a root once ``..`` and links are followed; each folder is followed once.

    Where somebody vouches for the links (``follow_links``), they may lead anywhere, and ``..`` may not.
    """

    def __init__(self, root: Path, follow_links: bool = False) -> None:
        self._given = os.path.join(os.path.normpath(root), "") if follow_links else ""  # noqa: PTH118 (as below)
        # Unlike Path.resolve, realpath does not raise on a circle of links, which is then a missing file.
        self._root = os.path.join(os.path.realpath(root), "")  # noqa: PTH118 (with a slash at its end)
        self._folders: dict[str, str] = {}
        self._linked: dict[str, bool] = {}

    def holds(self, path: Path) -> bool:
        if self._given:
            return os.path.normpath(path).startswith(self._given)
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or self._is_link(folder, name):
            real = os.path.realpath(path)
        else:
            if folder not in self._folders:
                self._folders[folder] = os.path.realpath(folder)
            real = f"{self._folders[folder]}/{name}"
        return f"{real}/".startswith(self._root)

    def _is_link(self, folder: str, name: str) -> bool:
        """Whether a file of a folder is a link; where a folder holds none, its files are not asked one by one."""
        if folder not in self._linked:
            try:
                with os.scandir(folder) as entries:
                    self._linked[folder] = any(one.is_symlink() for one in entries)
            except OSError:  # it cannot be listed
                self._linked[folder] = True
        return self._linked[folder] and os.path.islink(f"{folder}/{name}")  # noqa: PTH114 (never raises)


def paired(listing: Listing, name: str, enrolment_set: str, enrolment: list[Enrolled], where: str) -> TrialList:
    """Add the list of all same-sex pairs of enrolled speaker and utterance of the trial set ``name``: of all pairs if no sex is
    known."""
    trial_rows = [row for row in listing.utterances if row.set == name]
    enrolled = {row.speaker: row.sex for row in listing.utterances if row.set == enrolment_set and row.speaker}
    models = {line.model: enrolled[line.model] for line in enrolment if line.model in enrolled}
    sexes = {row.sex for row in trial_rows} | set(models.values())
    if "u" in sexes and len(sexes) > 1 and not listing.faults.has("no-sex"):
        unknown = sorted(
            {row.speaker for row in listing.utterances if row.set in (name, enrolment_set) and row.sex == "u"}
        )
        listing.faults.add("unknown-sex", f"same-sex pairs need the sex of speakers {', '.join(unknown)}", where)
    pairs = trials.same_sex_pairs(models, [(row.utterance, row.speaker, row.sex) for row in trial_rows])
    lines = [Trial(model, utterance, target, where) for model, utterance, target in pairs]
    made = TrialList(name, enrolment_set, enrolment, lines, where, sexes == {"u"})
    listing.lists.append(made)
    return made


def check_name(folder: Path, name: str, faults: Faults) -> None:
    """Report a folder that sets are called after, if the name that they have of it holds what nobody can see."""
    lists.invisible("set", name, str(folder), faults, folder)


def which_pairs(across_sexes: bool) -> str:
    """Which pairs of a list that was made here are tried, in words."""
    return "all pairs, those across sexes too," if across_sexes else "all same-sex pairs"


def halved(listing: Listing, name: str, rows: Sequence[Listed], seed: int, where: str) -> None:
    """Make sets of utterances that come without lists, and add them to the listing.

    Each speaker's utterances, in the order of digest(seed, id), are halved into enrolment (the smaller half) and trial.
    Sets: ``NAME_enrolls``, and ``NAME_trials_f`` and ``NAME_trials_m``, or ``NAME_trials`` if no sex is known; trials are
    all same-sex pairs. A speaker with one utterance is not enrolled; an utterance without speaker is left
    out, its fault has been reported.
    """
    rows = [row for row in rows if row.speaker]
    of_speaker: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        of_speaker[row.speaker].append(row.utterance)
    enrolment = {one for ids in of_speaker.values() for one in halve(set(ids), seed)[0]}
    lone = sorted(speaker for speaker, ids in of_speaker.items() if len(set(ids)) < 2)
    if lone:
        listing.limits.append(
            f"{len(lone)} of {len(of_speaker)} speakers of {name} have one utterance and are not enrolled: {few(lone)}"
        )
    some_unknown = sorted({row.speaker for row in rows if row.sex == "u"})
    by_sex = len(some_unknown) < len(of_speaker)
    if by_sex and some_unknown and not listing.faults.has("no-sex"):
        listing.faults.add("unknown-sex", f"sets by sex need the sex of speakers {', '.join(some_unknown)}", where)
    made: dict[str, list[Listed]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.utterance):
        if row.utterance in enrolment:
            made[f"{name}_enrolls"].append(replace(row, role="enrolment"))
        else:
            made[f"{name}_trials_{row.sex}" if by_sex else f"{name}_trials"].append(replace(row, role="trial"))
    for set_name, members in made.items():
        listing.utterances += [replace(row, set=set_name, position=place) for place, row in enumerate(members)]
    for set_name in sorted(made):
        # Mixed knowledge of sex has been reported; its files are checked all the same.
        if set_name == f"{name}_enrolls" or (by_sex and set_name == f"{name}_trials_u"):
            continue
        sexes = {row.sex for row in made[set_name]}
        lines = [Enrolled(row.speaker, row.utterance, row.where) for row in made[f"{name}_enrolls"] if row.sex in sexes]
        paired(listing, set_name, f"{name}_enrolls", lines, where)


def select(listing: Listing, wanted: Sequence[str] | None, where: str) -> None:
    """Keep the wanted trial sets and their enrolment sets; a name that is not there is a fault."""
    if wanted is None:
        return
    names = [made.name for made in listing.lists]
    unknown_sets(listing.faults, wanted, names, where)
    chosen_sets(listing, wanted, names)
    listing.lists = [made for made in listing.lists if made.name in wanted]
    kept = {made.name for made in listing.lists} | {made.enrolment_set for made in listing.lists}
    listing.utterances = [row for row in listing.utterances if row.set in kept or row.role == "train"]


def chosen_sets(listing: Listing, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Say which trial sets are evaluated, where that is not all."""
    left = [name for name in known if name not in wanted]
    if left:
        kept = [name for name in known if name in wanted]
        listing.limits.append(
            f"{len(kept)} of {len(known)} trial sets are evaluated (dataset.sets): {few(kept)}; not {few(left)}"
        )


def halves_made(listing: Listing, names: Sequence[str], seed: int) -> None:
    """Say how the protocol of sets without lists was made, once :func:`halved` has made it."""
    made = {name: [one for one in listing.lists if one.enrolment_set == f"{name}_enrolls"] for name in names}
    across = [name for name, several in made.items() if any(one.across_sexes for one in several)]
    tried = which_pairs(len(across) == len(names))
    if 0 < len(across) < len(names):
        tried += f" (of {few(across)} {which_pairs(True).rstrip(',')})"
    each = ", each set by itself" if len(names) > 1 else ""
    listing.protocol.append(
        f"the protocol was made here: no lists came with {few(names)}, so each speaker's utterances were halved into enrolment and "
        f"trial (dataset.seed={seed}{each}) and {tried} are tried; other halves give other numbers"
    )


def by_folders(name: str, rows: Iterable[Listed]) -> str:
    """Who the speakers of a tree are, in words: its folders."""
    speakers = sorted({row.speaker for row in rows})
    return f"{len(speakers)} speaker{'s' if len(speakers) != 1 else ''} of {name}, by the names of the folders: {few(speakers)}"


def unknown_sets(faults: Faults, wanted: Iterable[str], known: Sequence[str], where: str) -> None:
    """Report names of ``dataset.sets`` that are not there, with the nearest ones."""
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known) or 'none'}"
            faults.add("unknown-set", f"there is no trial set '{name}'; {hint}", where)


def assemble(
    listing: Listing,
    root: str | Path,
    allow_partial: bool = False,
    threads: int = 1,
    known: KnownFiles = NOTHING_KNOWN,
) -> Corpus:
    """Check lists and audio, and make the corpus.

    Args:
        listing: what the importer read.
        root: the data set, for messages.
        allow_partial: leave out utterances whose own file has a fault (missing, unreadable, cut off, empty, samples that
            are not finite) and the trials with them; all other faults refuse the data set as ever.
        threads: files that are read at a time.
        known: what earlier looks at the files found.

    Raises:
        DataError: with all faults of the data set.
    """
    faults = listing.faults
    rows, listed = check_lists(listing)
    found = known.probes((row.path for row in rows if row.path), threads)
    dropped, sound = check_files(listing, rows, found, allow_partial)

    sets = trial_sets(listing, listed, {(line.set, line.utterance) for line in dropped})
    if rows and not sound and not faults.found:
        faults.add("empty", "no utterance is left", root)
    faults.stop(root)

    for line in dropped:
        log.warning("left out (allow_partial): %s of %s: %s", line.utterance, line.set, line.reason)
    transcripts = {(row.set, row.utterance): row.transcripts for row, _ in sound if row.role != "train"}
    sounds = {probe.sha256: probe.sound for _, probe in sound}
    limits = [*listing.protocol, *_limits(listing, sets)]
    return Corpus(
        _manifest(sound),
        sets,
        tuple(sorted(dropped)),
        tuple(listing.notes),
        tuple(limits),
        transcripts,
        sounds,
        listing.attributes,
    )


def check_lists(listing: Listing) -> tuple[list[Listed], dict[tuple[str, str], Listed]]:
    """Gather the faults of lists and ids; no file is looked at.

    Returns:
        The utterances, each once a set, and the same by (set, utterance).
    """
    faults = listing.faults
    rows = _unique(_apart(listing.utterances, faults), faults)
    listed = {(row.set, row.utterance): row for row in rows}
    _agree(rows, "speaker", lambda row: row.speaker, faults)
    _agree_on_sex(rows, faults)
    _visible(rows, faults)
    _alike(rows, faults)
    readers.check(rows, faults)
    for name, folder in listing.called:
        # After what lies below it: commands that rename things mend them in their order.
        check_name(folder, name, faults)
    for made in listing.lists:
        lists.check(made, listed, faults)
    return rows, listed


def check_files(
    listing: Listing, rows: Sequence[Listed], found: Mapping[Path, Probe], allow_partial: bool = False
) -> tuple[list[Dropped], list[tuple[Listed, Probe]]]:
    """Gather the faults of the files of :func:`check_lists`' utterances, and what is to be noted of them.

    Returns:
        What is left out under ``allow_partial``, and the utterances whose file is sound.
    """
    dropped = _lost(rows, found, allow_partial, listing.faults)
    sound = [(row, found[row.path]) for row in rows if row.path and not found[row.path].kind]
    _check_audio(sound, listing, listing.faults)
    _check_durations(sound, listing)
    listing.limits += notes(found)
    return dropped, sound


def trial_sets(
    listing: Listing, listed: dict[tuple[str, str], Listed], gone: set[tuple[str, str]]
) -> dict[str, TrialSet]:
    """The trial sets by name, without what is gone. That one lacks a class is a fault, unless another fault is the reason."""
    sets = {made.name: _trial_set(made, listed, gone) for made in listing.lists}
    if not {fault.kind for fault in listing.faults.found} & _EMPTYING:
        without_class(sets.values(), {made.name: made.where for made in listing.lists}, listing.faults)
    return sets


def _limits(listing: Listing, sets: Mapping[str, TrialSet]) -> list[str]:
    """What a reader must know first of lists and sets, beside how they were made."""
    across = [name for name, one in sets.items() if one.across_sexes]
    found = [f"{SEXES_UNKNOWN} ({few(across)})"] if across else []
    found += listing.limits
    for made in listing.lists:
        left = set(sets[made.name].enrolment["model"])
        lost = sorted({line.model for line in made.enrolment} - left)
        if lost:
            found.append(
                f"{len(lost)} speakers of {made.enrolment_set} have no utterance left and are not enrolled: {few(lost)}"
            )
    return list(dict.fromkeys(found))


def _lost(rows: Sequence[Listed], found: Mapping[Path, Probe], allow_partial: bool, faults: Faults) -> list[Dropped]:
    """Rows whose file has a fault: left out under ``allow_partial``, else faults."""
    dropped = []
    for row in rows:
        if row.path and found[row.path].kind:
            probe = found[row.path]
            if allow_partial:
                dropped.append(Dropped(row.utterance, row.set, probe.problem))
            else:
                faults.add(probe.kind, f"utterance '{row.utterance}': {probe.problem}", row.where)
    return dropped


def _manifest(sound: Sequence[tuple[Listed, Probe]]) -> pd.DataFrame:
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


def _unique(rows: Sequence[Listed], faults: Faults) -> list[Listed]:
    """The rows with each id once a set; further ones are faults."""
    first: dict[tuple[str, str], Listed] = {}
    for row in rows:
        before = first.setdefault((row.set, row.utterance), row)
        if before is not row:
            faults.add(
                "duplicate-id",
                f"utterance '{row.utterance}' stands twice in {row.set}, first in {before.where}",
                row.where,
            )
    return list(first.values())


def _visible(rows: Sequence[Listed], faults: Faults) -> None:
    """Ids that hold what nobody can see are faults, once each: those of utterances first, whose files lie in folders of speakers."""
    for kind in ("utterance", "speaker"):
        first: dict[str, Listed] = {}
        for row in rows:
            first.setdefault(row.utterance if kind == "utterance" else row.speaker, row)
        for name, row in first.items():
            lists.invisible(kind, name, row.where, faults, _called(name, row))


def _alike(rows: Sequence[Listed], faults: Faults) -> None:
    """Ids that are told apart by nothing that can be seen, such as a Cyrillic letter in the place of a Latin one, are faults."""
    for kind in ("utterance", "speaker"):
        first: dict[str, tuple[str, Listed]] = {}
        named = set[str]()
        for row in rows:
            name = row.utterance if kind == "utterance" else row.speaker
            other, before = first.setdefault(look_alike(name), (name, row))
            if other != name and name not in named:
                named.add(name)
                faults.add(
                    "bad-id",
                    f"the {kind} '{other}' ({before.where}) looks like '{name}': {differing(other, name)}",
                    row.where,
                )


def _called(name: str, row: Listed) -> Path | None:
    """The file or folder that an id of a tree comes from."""
    if row.path is None or row.where != str(row.path):
        return None
    if legal_id(row.path.stem) == name:
        return row.path
    return next((folder for folder in row.path.parents if legal_id(folder.name) == name), None)


def _agree(rows: Sequence[Listed], what: str, value: Callable[[Listed], str], faults: Faults) -> None:
    """An utterance may stand in several sets if they agree."""
    first: dict[str, Listed] = {}
    for row in rows:
        before = first.setdefault(row.utterance, row)
        if value(row) and value(before) and value(row) != value(before):
            faults.add(
                "disagrees",
                f"utterance '{row.utterance}' has the {what} '{value(row)}' in {row.set} and "
                f"'{value(before)}' in {before.set} ({before.where})",
                row.where,
            )


def _agree_on_sex(rows: Sequence[Listed], faults: Faults) -> None:
    first: dict[str, Listed] = {}
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


def _apart(rows: Sequence[Listed], faults: Faults) -> list[Listed]:
    """Nobody who is evaluated may be trained on: an attacker who has met the speakers is another one than the tables name.

    Returns:
        The rows without those of a training set that is called like a set that is evaluated.
    """
    trained: dict[str, Listed] = {}
    evaluated: dict[str, Listed] = {}
    for row in rows:
        if row.speaker:
            (trained if row.role == "train" else evaluated).setdefault(row.speaker, row)
    both = [speaker for speaker in trained if speaker in evaluated]
    if both:
        one, other = trained[both[0]], evaluated[both[0]]
        s = "s" if len(trained) > 1 else ""
        faults.add(
            "train-speaker",
            f"{len(both)} of the {len(trained)} speaker{s} of the training set {one.set} "
            f"{'are' if len(both) > 1 else 'is'} evaluated: {few(both, MOST_NAMED)} ('{both[0]}' in {other.set}, {other.where})",
            one.where,
        )
    same = {row.set for row in rows if row.role == "train"} & {row.set for row in rows if row.role != "train"}
    for name in sorted(same) if not both else ():
        faults.add("train", f"the training set and a set that is evaluated are both called '{name}'", "dataset.train")
    return [row for row in rows if row.role != "train" or row.set not in same]


def _check_audio(sound: Sequence[tuple[Listed, Probe]], listing: Listing, faults: Faults) -> None:
    """The same id must mean the same audio everywhere, and the same audio one id within a set and one speaker at all."""
    digests = {(row.set, row.utterance): probe.sha256 for row, probe in sound}
    _agree([row for row, _ in sound], "audio", lambda row: digests[row.set, row.utterance][:12], faults)
    in_set: dict[tuple[str, str], Listed] = {}
    anywhere: dict[str, Listed] = {}
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
        for made in listing.lists
        for enrolled in [{(line.model, line.utterance) for line in made.enrolment}]
        for trial in made.trials
        if (trial.model, trial.utterance) in enrolled
    ]
    if own:
        listing.limits.append(
            f"{len(own)} trials compare a model with an utterance that it was enrolled with, e.g. {own[0]}"
        )


def _check_durations(sound: Sequence[tuple[Listed, Probe]], listing: Listing) -> None:
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


def _trial_set(made: TrialList, known: dict[tuple[str, str], Listed], gone: set[tuple[str, str]]) -> TrialSet:
    owners = lists.owners(made, known)
    kept = []
    for trial in made.trials:
        row = known.get((made.name, trial.utterance))
        if row:
            target = owners.get(trial.model) == row.speaker if trial.target is None else trial.target
            kept.append((trial.model, trial.utterance, target))
    enrolment = [(line.model, line.utterance) for line in made.enrolment]
    models = {model for model, _ in enrolment}
    tried = [trial for trial in kept if trial[0] in models]
    whole = trials.make(made.name, made.enrolment_set, enrolment, tried, len(made.trials), made.across_sexes)
    return trials.without(whole, gone)


def without_class(sets: Iterable[TrialSet], where: Mapping[str, str], faults: Faults) -> None:
    """Report trial sets that have no trials of a class; ``where`` is the place of each list."""
    for made in sets:
        counts = {"target": made.n_target, "nontarget": made.n_nontarget}
        lacking = [label for label, count in counts.items() if not count]
        if lacking:
            place = where.get(made.name, made.name)
            faults.add("no-class", f"the trial set {made.name} has no {' and no '.join(lacking)} trials", place)
