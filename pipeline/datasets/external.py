"""Somebody's anonymised audio: what ``SET_suffix/wav.scp`` names, ``SET_suffix/wav/UTTERANCE.wav`` or any ``**/UTTERANCE.ext``, checked
against the manifest.

The table of a copy comes first: VoicePrivacy 2020 and 2022 leave the audio of some baselines elsewhere. It is read as that of an
original set is, with its segments, and its commands are parsed and not run. A table that was copied from the original set and names the
original recordings is none of the copy's.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline import audio, names
from pipeline.contracts import Copies
from pipeline.datasets import corpus, cutting, kaldi, resemblance, sameness
from pipeline.datasets import librispeech as trees
from pipeline.datasets import probe as probing
from pipeline.datasets.corpus import Dropped, Listing
from pipeline.datasets.known import NOTHING_KNOWN, KnownFiles
from pipeline.datasets.sameness import Doubt, Sameness
from pipeline.errors import DataError, Fault
from pipeline.faults import AGAIN, KINDS, Faults
from pipeline.files import write_exchange_command
from pipeline.names import Pattern, make_id
from pipeline.tables import manifest as manifests

PARTIAL = "allow_partial=true leaves the utterances out of every system and marks the results"

Row = dict[str, Any]
"""A row of a manifest."""


@dataclass(frozen=True, eq=False)
class External:
    """An anonymised copy of a data set.

    Attributes:
        manifest: the rows of the original's manifest, with path, rate, samples and digest of the anonymised files.
        dropped: utterances without a sound file (``allow_partial``).
        notes: what was noticed: files that are not used.
        same: which of the files hold one sound where the originals do not, and what else is no anonymised speech.
        sounds: digest of what is heard in a file, by the digest of its bytes.
        limits: what a reader of the numbers must know first: where files were read from, how they differ from the originals.
    """

    manifest: pd.DataFrame
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    same: Sameness = field(default_factory=Sameness)
    sounds: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    def doubted(self, doubts: Iterable[Doubt]) -> External:
        """The same copy, with further doubts."""
        return replace(self, same=replace(self.same, doubts=(*self.same.doubts, *doubts)))


@dataclass(frozen=True)
class Copy:
    """Where an anonymised copy lies, and what its settings are called.

    Attributes:
        root: its folder.
        suffix: of the sets' folders; by default the only one that there is.
        training: whether it is of the training set.
        label: of the system.
        setting: that names the folder: ``root``, ``second_root`` or ``train_root``.
        pattern: how the files are called.
        follow_links: whether links may lead out of the folder.
        folders: of the sets by name, where the names of folders do not tell them.
        is_named: whether the setting names the folder; else it is looked for beside the evaluation sets, and need not be there.
    """

    root: str
    suffix: str | None = None
    training: bool = False
    label: str = "<label>"
    setting: str = "root"
    pattern: Pattern = field(default_factory=Pattern)
    follow_links: bool = False
    folders: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True

    @classmethod
    def of(cls, copies: Copies, label: str) -> Copy:
        """The first run of a system that was run elsewhere."""
        pattern = Pattern(copies.pattern, copies.ignore_case)
        return cls(
            copies.root,
            copies.suffix,
            label=label,
            pattern=pattern,
            follow_links=copies.follow_links,
            folders=copies.folders,
        )

    def at(self, root: str, setting: str, training: bool = False) -> Copy:
        """Another copy by the same system; folders that are named are of the first run."""
        return replace(self, root=root, setting=setting, training=training, folders={})

    def key(self, setting: str = "") -> str:
        """A setting of the system as overrides name it, by default that of the folder."""
        return f"system.{self.label}.{setting or self.setting}"

    def kinds(self) -> dict[str, tuple[str, str]]:
        """Likely cause and remedy of each kind of fault, with this system's settings."""
        looked = " ".join(audio.EXTENSIONS)
        return {
            **KINDS,
            "root": ("a misspelt or unmounted folder", f"set {self.key()}=DIR to the folder of the anonymised audio"),
            "missing-audio": (
                f"an incomplete copy, another folder, or files of another name than UTTERANCE.ext (looked for: {looked})",
                f"restore the files, or set {self.key()}=DIR to the folder that holds them, or leave the system out of system=[…]; {PARTIAL}",
            ),
            "bad-audio": (KINDS["bad-audio"][0], f"{AGAIN}, or make them again; {PARTIAL}"),
            "cancelling": (
                KINDS["cancelling"][0],
                f"keep one channel with the command given with each file, or make them again; {PARTIAL}",
            ),
            "no-speech": (
                "a failed recording, or an anonymiser that gave nothing back",
                f"make the files again; {PARTIAL}",
            ),
            "original": (
                "a system that passed its input through, or a folder that holds the originals",
                f"set {self.key()}=DIR to the folder of the anonymised audio, or leave the system out: unprotected speech is always "
                "evaluated beside the systems",
            ),
            "header": (
                "a sampling rate that a program writes into every header, such as that of its vocoder",
                "write the files again, each with the rate that it was made at, or resample them to the rate that the header says",
            ),
            "leaves-root": (
                "links to where the audio lies",
                f"set {self.key('follow_links')}=true if the links are yours: regular files alone are read",
            ),
            "own-table": (
                "a wav.scp that was copied with its set, of a copy whose audio is not there yet; or one from another machine",
                f"correct wav.scp (with the command given with it, if any), put the files into SET/wav, set {self.key()}=DIR to the "
                "folder that holds them, or leave the system out",
            ),
            "ambiguous": (
                "results of several systems or formats in one folder",
                f"keep one of the files, set {self.key()}=DIR to a folder that holds one system, or choose by "
                f"{self.key('suffix')}=SUFFIX",
            ),
        }


def holds_any(copy: Copy, manifest: pd.DataFrame) -> bool:
    """Whether a copy holds a file, or a folder with a ``wav.scp``, for any row of a manifest."""
    files = listed(copy, manifest)
    return bool(files.chosen or files.refused) or any((place / "wav.scp").is_file() for place in files.places.values())


def read(
    copy: Copy,
    manifest: pd.DataFrame,
    allow_partial: bool = False,
    threads: int = 1,
    known: KnownFiles = NOTHING_KNOWN,
    sounds: Mapping[str, str] = {},
    everyone: pd.DataFrame | None = None,
    recordings: Path | None = None,
) -> External:
    """Find and check the anonymised file of each row of a manifest.

    A set's files are those that ``wav.scp`` names in ``root/SET`` followed by a suffix, the same for all sets ('' or ``_…``). What it
    does not name is looked for below that folder, at any depth; if no set has such a folder, anywhere under ``root``. The file's stem is
    the utterance's id (blanks as '_'), or what the pattern makes of it; or its folders and its stem joined by '-' are, as in a tree whose
    names repeat.

    Args:
        copy: where it lies.
        manifest: what has to be there.
        allow_partial: leave out utterances whose file is missing or has a fault.
        threads: files that are read at a time.
        known: what earlier looks at the files found.
        sounds: digests of what is heard in the originals, by the digest of the file.
        everyone: the originals that a file may hold by mistake; by default those of the manifest.
        recordings: where segments and what lies in archives are written as files.

    Raises:
        DataError: with all faults.
    """
    faults = Faults(copy.kinds(), "the anonymised audio has")
    lost = _Lost(allow_partial, faults)
    files = _list(copy, manifest, lost, Cutting(recordings, threads, known))
    folder, probed = files.folder, known.probes((path for _, path in files.chosen), threads)
    rows: list[Row] = []
    originals: list[Row] = []
    for row, path in files.chosen:
        probe = probed[path]
        if probe.kind:
            lost.add(row, probe.problem, probe.kind, path)
            continue
        found = {"sample_rate": probe.sample_rate, "samples": probe.samples, "sha256": probe.sha256}
        rows.append({**row, "path": str(path), **found})
        originals.append(row)
    if not rows and not faults.found:
        faults.add("empty", "no utterance is left", folder)
    mine = {probe.sha256: probe.sound for probe in probed.values()}
    beside = resemblance.compare(originals, rows, sounds, mine, threads, known.folder)
    for kind, what in beside.faults():
        faults.add(kind, what, folder)
    faults.stop(folder)
    same = sameness.find(originals, rows, sounds, mine)
    notes = (*files.notes, *_said_of_unused(folder, files.unused))
    limits = (*files.limits, *beside.lengths(), *probing.notes(probed))
    made = External(manifests.frame(rows), tuple(sorted(lost.dropped)), notes, same, mine, limits)
    others = originals if everyone is None else everyone.to_dict("records")
    return made.doubted((*beside.doubts(copy.training), *sameness.of_others(others, originals, rows, sounds, mine)))


@dataclass(frozen=True)
class Cutting:
    """How segments and what lies in archives become files (:func:`pipeline.datasets.cutting.write`)."""

    folder: Path | None = None
    threads: int = 1
    known: KnownFiles = NOTHING_KNOWN


@dataclass(frozen=True)
class Listed:
    """The files of a copy by tables and names alone; nothing is decoded but what is cut into segments.

    Attributes:
        folder: where they lie.
        places: the folder that is searched for each set; a set without one is not among them.
        chosen: the file of each row of a manifest that has one.
        missing: the rows without a file, with the folder that was searched.
        refused: rows that have several files, or one that may not be read, and why.
        unused: files that belong to no row.
        faults: all that would keep a run from using them.
        notes: what is to be said of tables.
        limits: what a reader of the numbers must know of them.
    """

    folder: Path
    places: Mapping[str, Path]
    chosen: tuple[tuple[Row, Path], ...]
    missing: tuple[tuple[Row, Path], ...]
    refused: tuple[tuple[Row, str], ...]
    unused: tuple[Path, ...]
    faults: Faults
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def listed(copy: Copy, manifest: pd.DataFrame, cut: Cutting = Cutting()) -> Listed:
    """Find the anonymised file of each row of a manifest, as :func:`read` does, and gather what is wrong instead of raising it.

    Args:
        copy: where it lies.
        manifest: what has to be there: columns set, utterance, speaker and path.
        cut: how segments become files.
    """
    lost = _Lost(False, Faults(copy.kinds(), "the anonymised audio has"))
    try:
        return _list(copy, manifest, lost, cut)
    except DataError:  # there is no such folder, as the faults say
        return Listed(Path(copy.root).expanduser().absolute(), {}, (), (), (), (), lost.faults)


def _list(copy: Copy, manifest: pd.DataFrame, lost: _Lost, cut: Cutting) -> Listed:
    """The folder of each set, the file of each row that has one, and the files of none; all else becomes faults, or is left out.

    Raises:
        DataError: there is no such folder.
    """
    folder, faults = Path(copy.root).expanduser().absolute(), lost.faults
    rows: list[Row] = [{str(key): value for key, value in row.items()} for row in manifest.to_dict("records")]
    if not copy.root or not folder.is_dir():
        faults.add("root", f"there is no folder '{copy.root}' of anonymised audio", copy.key())
        faults.stop(copy.root or copy.key())
    places = _places(folder, sorted(manifest["set"].unique()), copy, faults)
    files = {place: _Files(place, copy.pattern) for place in set(places.values())}
    tables = _Table.read(places, rows, copy, cut)
    chosen = list(_chosen(rows, folder, places, files, tables, copy, lost))
    unused = _unused(files, {path for _, path in chosen}.union(*(one.others for one in tables.values())))
    notes, limits = _said_of_tables(tables, lost)
    _name_missing(lost, unused, chosen, copy, places, files)
    found = ((*lost.missing, *lost.explained), tuple(lost.refused), tuple(unused))
    return Listed(folder, places, tuple(chosen), *found, faults, tuple(notes), tuple(limits))


@dataclass
class _Table:
    """What the ``wav.scp`` of a copy's folder says, and what became of it.

    Attributes:
        paths: the file of each utterance, where it is there and is no original recording; a segment has a file of its own.
        originals: utterances of which it names the original recording.
        faults: what else is wrong with it.
        elsewhere: rows whose file lies outside of the folder.
        differ: rows of which another file lies in the folder.
        others: those files.
        is_alone: whether no row of the folder has a file.
    """

    paths: dict[str, Path] = field(default_factory=dict)
    originals: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    elsewhere: list[tuple[Row, Path]] = field(default_factory=list)
    differ: list[tuple[Row, Path]] = field(default_factory=list)
    others: set[Path] = field(default_factory=set)
    is_alone: bool = True

    @classmethod
    def read(cls, places: Mapping[str, Path], rows: Sequence[Row], copy: Copy, cut: Cutting) -> dict[Path, _Table]:
        """The tables of the folders of some sets, for the rows of these; an empty one where there is none."""
        wanted: dict[Path, dict[str, Any]] = {place: {} for place in sorted(set(places.values()))}
        for row in rows:
            if row["set"] in places:
                wanted[places[row["set"]]][str(row["utterance"])] = row["path"]
        faults = Faults(copy.kinds())
        having = [place for place in wanted if (place / "wav.scp").is_file()]
        found = kaldi.list_audio(having, copy.follow_links, Listing(faults=faults))
        made = {place: cls() for place in wanted}
        for place, listed in found.items():
            mine = [
                one for one in listed if one.utterance in wanted[place] and one.path is not None and one.path.is_file()
            ]
            originals = {one.utterance for one in mine if _is_same(one.path, wanted[place][one.utterance])}
            listing = Listing([one for one in mine if one.utterance not in originals], faults=Faults(copy.kinds()))
            cutting.write(listing, cut.folder, cut.threads, cut.known)
            # Where a segment is at fault none is cut, and a row is left with the whole recording.
            refused = bool(listing.faults.found)
            cuts = [one for one in listing.utterances if one.path is not None and not (refused and one.segment)]
            said = [
                one
                for one in faults.found
                if not any(f"{other}/" in f"{one.where}/" for other in having if other != place)
            ]
            made[place] = cls(
                {one.utterance: one.path for one in cuts if one.path}, originals, [*said, *listing.faults.found]
            )
        return made

    def choose(self, row: Row, found: Sequence[Path], place: Path) -> Path | None:
        """The file of a row that the table names, beside those that lie in the folder; None if it names none."""
        path = self.paths.get(str(row["utterance"]))
        self.is_alone = self.is_alone and not found and path is None
        if path is None:
            return None
        if not path.is_relative_to(place):
            self.elsewhere.append((row, path))
        self.others.update(found)
        self.differ += [(row, other) for other in found if not _is_same(other, path)][:1]
        return path


def _said_of_tables(tables: Mapping[Path, _Table], lost: _Lost) -> tuple[list[str], list[str]]:
    """Have rows without a file be faults of the tables, where nothing else of their folders is there. Notes, and what a reader of the
    numbers must know, of tables beside the files that lie in the folders."""
    alone = [place for place, table in tables.items() if table.is_alone and (table.originals or table.faults)]
    missing = [row for row, place in lost.missing if place in alone]
    originals = {name for place in alone for name in tables[place].originals}
    of_original = [row for row in missing if row["utterance"] in originals]
    if of_original:
        where = names.join_few([f"{place.name}/wav.scp" for place in alone if tables[place].originals])
        ids = [str(row["utterance"]) for row in of_original]
        what = f"wav.scp names the original recordings of {len(ids)} utterances, and no other file of them is there: {names.join_few(ids)}"
        lost.settle(of_original, Fault(what, where, "own-table"))
    elif missing:
        faults = list(dict.fromkeys(fault for place in alone for fault in tables[place].faults))
        said = f"no file of {len(missing)} utterances is in {names.join_few([place.name for place in alone])}, and wav.scp leads to none: "
        kinds = ["leaves-root" if fault.kind == "leaves-root" else "own-table" for fault in faults]
        lost.settle(missing, *(Fault(f"{said}{fault.what}", fault.where, kind) for fault, kind in zip(faults, kinds)))
    lacking = {place for _, place in lost.missing}
    why: dict[str, list[str]] = {}
    for place, table in tables.items():
        if (table.originals or table.faults) and place not in (*alone, *lacking):
            reason = table.faults[0].what if table.faults else "it names the original recordings"
            why.setdefault(_COMMAND.split(reason)[0], []).append(place.name)
    notes = [
        f"wav.scp of {names.join_few(several)} is not used, but the files in the folder: {reason}"
        for reason, several in why.items()
    ]
    elsewhere = [path for table in tables.values() for _, path in table.elsewhere]
    if elsewhere:
        notes.append(f"{len(elsewhere)} files lie where the copy's own wav.scp says, e.g. {elsewhere[0]}")
    differ = [(table.paths[str(row["utterance"])], other) for table in tables.values() for row, other in table.differ]
    limits = []
    if differ:
        limits.append(
            f"wav.scp names other files than those in the folder for {len(differ)} utterances, e.g. {differ[0][0]} and not {differ[0][1]}: "
            "those that wav.scp names are evaluated (without a wav.scp in the folder, the others are)"
        )
    return notes, limits


_COMMAND = re.compile(r"; plain files: |: sed ")
"""What comes before a command that mends a table."""


def _is_same(one: Path | None, other: Path | str | None) -> bool:
    """Whether two paths are of one file that is there."""
    with suppress(OSError):
        return one is not None and other is not None and one.samefile(other)
    return False


class _Lost:
    """Utterances without a sound file: faults, or left out under ``allow_partial``."""

    def __init__(self, allow_partial: bool, faults: Faults) -> None:
        self.allow_partial, self.faults = allow_partial, faults
        self.dropped: list[Dropped] = []
        self.missing: list[tuple[Row, Path]] = []
        self.explained: list[tuple[Row, Path]] = []
        self.refused: list[tuple[Row, str]] = []

    def settle(self, rows: Sequence[Row], *faults: Fault) -> None:
        """Rows without a file for a reason that is said once: faults, or each left out."""
        if self.allow_partial:
            self.dropped += [Dropped(str(row["utterance"]), str(row["set"]), faults[0].what) for row in rows]
        else:
            self.faults.found += faults
        settled = {(row["set"], row["utterance"]) for row in rows}
        self.explained += [one for one in self.missing if (one[0]["set"], one[0]["utterance"]) in settled]
        self.missing = [one for one in self.missing if (one[0]["set"], one[0]["utterance"]) not in settled]

    def refuse(self, row: Row, kind: str, what: str, where: Path) -> None:
        """One whose file cannot be told, or may not be read: a fault under any setting."""
        self.refused.append((row, what))
        self.faults.add(kind, what, where)

    def add(self, row: Row, problem: str, kind: str, where: Path) -> None:
        """One more."""
        if self.allow_partial:
            self.dropped.append(Dropped(str(row["utterance"]), str(row["set"]), problem))
        else:
            self.faults.add(kind, f"utterance '{row['utterance']}' of {row['set']}: {problem}", where)


class _Files:
    """The audio files under a folder by what they are called."""

    def __init__(self, place: Path, pattern: Pattern) -> None:
        self.all = trees.audio_files(place)
        self._by_stem: dict[str, list[Path]] = defaultdict(list)
        self._by_path: dict[str, list[Path]] = defaultdict(list)
        for path in self.all:
            parts = [*path.relative_to(place).parts[:-1], path.stem]
            for depth in range(1, len(parts) + 1):
                name = pattern.found("-".join(map(make_id, parts[-depth:])))
                if name is not None:
                    (self._by_stem if depth == 1 else self._by_path)[name].append(path)

    def of(self, name: str) -> list[Path]:
        """The files of that name."""
        return self._by_stem.get(name) or self._by_path.get(name) or []


def _chosen(
    rows: Sequence[Row],
    folder: Path,
    places: Mapping[str, Path],
    files: Mapping[Path, _Files],
    tables: Mapping[Path, _Table],
    copy: Copy,
    lost: _Lost,
) -> Iterator[tuple[Row, Path]]:
    """The file of each row; rows that have several, or one that lies elsewhere, are faults; those that have none are kept."""
    fence = corpus.Fence(folder, copy.follow_links)
    for row in rows:
        if row["set"] not in places:
            continue
        place = places[row["set"]]
        found = files[place].of(copy.pattern.wanted(row))
        by_table = tables[place].choose(row, found, place)
        if by_table is not None:
            yield row, by_table
        elif len(found) > 1:
            several = ", ".join(str(path.relative_to(folder)) for path in found)
            text = f"utterance '{row['utterance']}' of {row['set']} has {len(found)} files: {several}"
            lost.refuse(row, "ambiguous", text, place)
        elif not found:
            lost.missing.append((row, place))
        elif not fence.holds(found[0]):
            outside = f"a link leads out of {folder}, to {os.path.realpath(found[0])}"
            lost.refuse(row, "leaves-root", outside, found[0])
        else:
            yield row, found[0]


def _name_missing(
    lost: _Lost,
    unused: Sequence[Path],
    chosen: Sequence[tuple[Row, Path]],
    copy: Copy,
    places: Mapping[str, Path],
    files: Mapping[Path, _Files],
) -> None:
    """Say of the utterances without a file what there is instead: folders in each other's place and files of another name first, as
    the root of it.

    The kinds of faults get the remedy for names. Under ``allow_partial``, names are a fault only where there is nothing else.
    """
    if not lost.missing:
        return
    kinds, nothing = lost.faults.kinds, not chosen
    elsewhere = elsewhere_of(lost.missing, unused, copy.pattern)
    settled = _exchanged(lost, elsewhere, {row["set"] for row, _ in chosen}, places)
    missing = [one for one in lost.missing if one[0]["set"] not in settled]
    unused = [path for path in unused if not any(places[name] in path.parents for name in settled)]
    if not missing:
        return
    guess = names.guess_pattern([row for row, _ in missing], [path.stem for path in unused])
    if guess is not None and guess.pattern in (Pattern(), copy.pattern):
        said = "; ".join(said_of_elsewhere(missing, elsewhere))
        kinds["missing-audio"] = (
            f"{said}: files that were copied into the folder of another set, or an incomplete copy",
            f"move each file into the folder of its set, or restore it; {PARTIAL}",
        )
    elif unused and (nothing or not lost.allow_partial) and (guess is not None or nothing):
        few = ", ".join(path.name for path in unused[:3])
        said = guess.said if guess is not None else "they hold no id of an utterance"
        kinds["names"] = ("files that were named by a tool", _renaming(copy, guess))
        lost.faults.add(
            "names",
            f"{len(unused)} files match no utterance, e.g. {few}; {said}; {len(missing)} utterances have no file, "
            f"e.g. {missing[0][0]['utterance']}",
            os.path.commonpath(list(places.values())),
        )
        if guess is not None and guess.files == len(missing):
            return
    elif unused and not lost.allow_partial:
        cause, remedy = kinds["missing-audio"]
        few = ", ".join(path.name for path in unused[:3])
        kinds["missing-audio"] = (f"{cause}; {len(unused)} files there match no utterance, e.g. {few}", remedy)
    for place in sorted({place for _, place in missing if not files[place].all}):
        others = Counter(Path(name).suffix.lower() for _, _, several in os.walk(place) for name in several)
        rows = [row for row, where in missing if where == place and (row["set"], row["utterance"]) not in elsewhere]
        ids, sets = [str(row["utterance"]) for row in rows], sorted({str(row["set"]) for row in rows})
        there = "".join(f", but {count} files '*{ending}'" for ending, count in sorted(others.items()))
        what = (
            f"no audio file{there}; {len(rows)} utterances of {names.join_few(sets)} have none: {names.join_few(ids)}"
        )
        lost.settle(rows, Fault(what, str(place), "missing-audio"))
    for row, place in [one for one in lost.missing if one[0]["set"] not in settled]:
        there = "".join(
            f"; one lies in {folder}" for folder in elsewhere.get((str(row["set"]), str(row["utterance"])), [])[:1]
        )
        lost.add(row, f"no file {copy.pattern.wanted(row)}.ext under {place}{there}", "missing-audio", place)


def elsewhere_of(
    missing: Sequence[tuple[Row, Path]], unused: Sequence[Path], pattern: Pattern
) -> dict[tuple[str, str], list[Path]]:
    """The folders with a file, used by nobody, of the name that is looked for, by set and utterance of a row without one."""
    folders: dict[str, list[Path]] = defaultdict(list)
    for path in unused:
        folders[pattern.found(path.stem) or ""].append(path.parent)
    found = {(str(row["set"]), str(row["utterance"])): folders.get(pattern.wanted(row), []) for row, _ in missing}
    return {key: several for key, several in found.items() if several}


def said_of_elsewhere(
    missing: Sequence[tuple[Row, Path]], elsewhere: Mapping[tuple[str, str], Sequence[Path]]
) -> Iterator[str]:
    """Where files lie that sets lack, a sentence for each set and folder."""
    moved = Counter(
        (str(row["set"]), str(folder))
        for row, _ in missing
        for folder in set(elsewhere.get((str(row["set"]), str(row["utterance"])), ()))
    )
    for (name, place), count in sorted(moved.items()):
        yield f"{count} files that {name} lacks lie in {place}"


def _exchanged(
    lost: _Lost,
    elsewhere: Mapping[tuple[str, str], Sequence[Path]],
    having: Collection[str],
    places: Mapping[str, Path],
) -> set[str]:
    """Report pairs of sets whose folders stand in each other's place, with the commands that put them back; their sets."""
    lies: dict[str, Counter[str]] = defaultdict(Counter)
    lacking = Counter(str(row["set"]) for row, _ in lost.missing)
    owners = {place: name for name, place in places.items()}
    for (name, _), folders in elsewhere.items():
        lies[name].update({owners[up] for folder in folders for up in (folder, *folder.parents) if up in owners})
    wholly = {
        name: other
        for name, count in lacking.items()
        for other, there in lies[name].most_common(1)
        if name not in having and 2 * there > count
    }
    commands = []
    for one, other in sorted(wholly.items()):
        if wholly.get(other) != one or one > other:
            continue
        commands.append(write_exchange_command(places[one], places[other]))
        what = (
            f"the folders of two sets are exchanged: {lies[one][other]} files that {one} lacks lie in {places[other].name}, and "
            f"{lies[other][one]} that {other} lacks in {places[one].name}"
        )
        lost.faults.add("swapped", what, places[one])
    if commands:
        cause = lost.faults.kinds["swapped"][0]
        lost.faults.kinds["swapped"] = (cause, f"put each in its own place: {' && '.join(commands)}")
    return {name for name, other in wholly.items() if wholly.get(other) == name}


def _renaming(copy: Copy, guess: names.Guess | None) -> str:
    """What takes files as they are called."""
    if guess is None:
        return (
            "name each file after its utterance (UTTERANCE.ext); what is the same in all names may stay: "
            f"{names.quote_override(copy.key('pattern'), '{utterance}_anon')}"
        )
    said = [names.quote_override(copy.key("pattern"), guess.pattern.text)] if guess.pattern.text != names.PLAIN else []
    said += [shlex.quote(f"{copy.key('ignore_case')}=true")] if guess.pattern.ignore_case else []
    return f"say how they are called: {' '.join(said)}"


def _unused(files: Mapping[Path, _Files], used: Collection[Path]) -> list[Path]:
    return sorted(path for one in files.values() for path in one.all if path not in used)


def _said_of_unused(folder: Path, unused: Sequence[Path]) -> Iterator[str]:
    if unused:
        yield (
            f"{len(unused)} audio files under {folder} belong to no utterance of the data set and are not used, "
            f"e.g. {unused[0].relative_to(folder)}"
        )


def _places(root: Path, sets: list[str], copy: Copy, faults: Faults) -> dict[str, Path]:
    """The folder to search for each set; sets without one are faults."""
    if copy.folders:
        for one in sets:
            if not Path(copy.folders.get(one, "")).is_dir() or one not in copy.folders:
                faults.add("missing-audio", f"there is no folder for the set {one}", root)
        return {one: Path(copy.folders[one]) for one in sets if one in copy.folders}
    if copy.training and copy.suffix and root.name.endswith(copy.suffix):
        return dict.fromkeys(sets, root)  # it is the copy itself
    folders = {names.normalise_name(folder.name): folder for folder in sorted(root.iterdir()) if folder.is_dir()}
    suffix = None if copy.suffix is None else names.normalise_name(copy.suffix)
    if suffix is None:
        having: dict[str, int] = defaultdict(int)
        for name in folders:
            for one in sets:
                # vctk_dev_trials_f_common is no copy of vctk_dev_trials_f.
                longer = any(name.startswith(other) and other.startswith(f"{one}_") for other in sets)
                if (name == one or name.startswith(f"{one}_")) and not longer:
                    having[name.removeprefix(one)] += 1
        if not having:
            return dict.fromkeys(sets, root)
        most = max(having.values())
        best = sorted(tail for tail, count in having.items() if count == most)
        if len(best) > 1:
            faults.add(
                "ambiguous",
                f"the folders have several suffixes ({', '.join(repr(tail) for tail in best)}); choose one "
                f"by {copy.key('suffix')}={best[-1]}",
                root,
            )
            return {}
        suffix = best[0]
    lacking = [one for one in sets if f"{one}{suffix}" not in folders]
    if len(lacking) == 1:
        faults.add("missing-audio", f"there is no folder {lacking[0]}{suffix} for the set {lacking[0]}", root)
    elif lacking:
        what = f"there is no folder SET{suffix} for {len(lacking)} of {len(sets)} sets: {names.join_few(lacking)}"
        faults.add("missing-audio", what, root)
    return {one: folders[f"{one}{suffix}"] for one in sets if f"{one}{suffix}" in folders}
