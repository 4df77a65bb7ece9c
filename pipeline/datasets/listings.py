"""What an importer makes of a data set: utterances, lists of trials, faults and notes; and the lists that are made where none came."""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.pipes import Entry
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.protocol import trials
from pipeline.protocol.halves import halve_ids
from pipeline.tables import text

OVERSHOOT = 0.5
"""Kaldi's ``--max-overshoot``, in seconds."""


@dataclass(frozen=True)
class Segment:
    """A line of the table.

    Attributes:
        recording: its id in ``wav.scp``.
        start: in seconds.
        end: in seconds; None is the end of the recording.
        channel: counted from 0; None is all of them.
    """

    recording: str
    start: float
    end: float | None
    channel: int | None = None

    def samples(self, rate: int, length: int) -> tuple[int, int]:
        """Its first sample, and the one behind its last, in a recording of ``length`` samples at ``rate`` Hz.

        Raises:
            ValueError: it does not lie in the recording; with the reason.
        """
        seconds = length / rate
        first = int(self.start * rate)
        if first >= length:
            raise ValueError(f"begins at {self.start:g} s, and '{self.recording}' lasts {seconds:g} s")
        if self.end is None:
            return first, length
        if self.end > seconds + OVERSHOOT:
            raise ValueError(f"ends at {self.end:g} s, and '{self.recording}' lasts {seconds:g} s")
        behind = min(int(self.end * rate), length)
        if behind == first:
            raise ValueError(f"holds no sample: {self.start:g} s to {self.end:g} s at {rate} Hz")
        return first, behind


MADE_PAIRS = "all pairs of one sex, or all pairs where no sex is known,"
"""Which pairs are tried of a list that is made here, in words."""

MOST_NAMED = 10
"""So many names stand in a message; the others are counted."""


@dataclass(frozen=True)
class Utterance:
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

    utterances: list[Utterance] = field(default_factory=list)
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
                    self._linked[folder] = any(entry.is_symlink() for entry in entries)
            except OSError:  # it cannot be listed
                self._linked[folder] = True
        return self._linked[folder] and os.path.islink(f"{folder}/{name}")  # noqa: PTH114 (never raises)


def add_same_sex_pairs(listing: Listing, name: str, enrolment_set: str, enrolment: list[Enrolled], where: str) -> None:
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
    pairs = trials.pair_same_sex(models, [(row.utterance, row.speaker, row.sex) for row in trial_rows])
    lines = [Trial(model, utterance, target, where) for model, utterance, target in pairs]
    listing.lists.append(TrialList(name, enrolment_set, enrolment, lines, where, sexes == {"u"}))


def add_halves(listing: Listing, name: str, rows: Sequence[Utterance], seed: int, where: str) -> None:
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
    enrolment = {utterance for ids in of_speaker.values() for utterance in halve_ids(set(ids), seed)[0]}
    lone = sorted(speaker for speaker, ids in of_speaker.items() if len(set(ids)) < 2)
    if lone:
        listing.limits.append(
            f"{len(lone)} of {len(of_speaker)} speakers of {name} have one utterance and are not enrolled: {join_few(lone)}"
        )
    some_unknown = sorted({row.speaker for row in rows if row.sex == "u"})
    by_sex = len(some_unknown) < len(of_speaker)
    if by_sex and some_unknown and not listing.faults.has("no-sex"):
        listing.faults.add("unknown-sex", f"sets by sex need the sex of speakers {', '.join(some_unknown)}", where)
    sets: dict[str, list[Utterance]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.utterance):
        if row.utterance in enrolment:
            sets[f"{name}_enrolls"].append(replace(row, role="enrolment"))
        else:
            sets[f"{name}_trials_{row.sex}" if by_sex else f"{name}_trials"].append(replace(row, role="trial"))
    for set_name, members in sets.items():
        listing.utterances += [replace(row, set=set_name, position=place) for place, row in enumerate(members)]
    for set_name in sorted(sets):
        # Mixed knowledge of sex has been reported; its files are checked all the same.
        if set_name == f"{name}_enrolls" or (by_sex and set_name == f"{name}_trials_u"):
            continue
        sexes = {row.sex for row in sets[set_name]}
        lines = [Enrolled(row.speaker, row.utterance, row.where) for row in sets[f"{name}_enrolls"] if row.sex in sexes]
        add_same_sex_pairs(listing, set_name, f"{name}_enrolls", lines, where)


def select_sets(listing: Listing, wanted: Sequence[str] | None, where: str) -> None:
    """Keep the wanted trial sets and their enrolment sets; a name that is not there is a fault."""
    if wanted is None:
        return
    names = [trial_list.name for trial_list in listing.lists]
    report_unknown_sets(listing.faults, wanted, names, where)
    note_chosen_sets(listing, wanted, names)
    listing.lists = [trial_list for trial_list in listing.lists if trial_list.name in wanted]
    kept = {trial_list.name for trial_list in listing.lists} | {
        trial_list.enrolment_set for trial_list in listing.lists
    }
    listing.utterances = [row for row in listing.utterances if row.set in kept or row.role == "train"]


def note_chosen_sets(listing: Listing, wanted: Sequence[str], names: Sequence[str]) -> None:
    """Say which trial sets are evaluated, where that is not all."""
    omitted = [name for name in names if name not in wanted]
    if omitted:
        kept = [name for name in names if name in wanted]
        listing.limits.append(
            f"{len(kept)} of {len(names)} trial sets are evaluated (dataset.sets): {join_few(kept)}; not {join_few(omitted)}"
        )


def note_halves(listing: Listing, names: Sequence[str], seed: int) -> None:
    """Say how the protocol of sets without lists is made (:func:`add_halves`)."""
    listing.protocol.append(
        f"the protocol was made here: no lists came with {join_few(names)}, so each speaker's utterances were halved into enrolment and "
        f"trial (dataset.seed={seed}, each set by itself) and {MADE_PAIRS} are tried; other halves give other numbers"
    )


def describe_folder_speakers(name: str, rows: Iterable[Utterance]) -> str:
    """Who the speakers of a tree are, in words: its folders."""
    speakers = sorted({row.speaker for row in rows})
    return f"{len(speakers)} speaker{'s' if len(speakers) != 1 else ''} of {name}, by the names of the folders: {join_few(speakers)}"


def report_unknown_sets(faults: Faults, wanted: Iterable[str], names: Sequence[str], where: str) -> None:
    """Report names of ``dataset.sets`` that are not there, with the nearest ones."""
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names) or 'none'}"
            faults.add("unknown-set", f"there is no trial set '{name}'; {hint}", where)


def report_invisible(kind: str, name: str, where: str | Path, faults: Faults) -> bool:
    """Report an id with characters that nobody can see; whether it has some."""
    problem = text.not_an_id(name)
    if problem:
        faults.add("bad-id", f"the {kind} '{name}' holds {problem}", where)
    return bool(problem)
